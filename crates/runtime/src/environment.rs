//! Settings from the environment that the template gives each function, and the clients made from them.

use std::sync::Arc;

use aws_config::SdkConfig;
use providers::Providers;
use store::{MissingSetting, Names, Store, sdk_config};
use telemetry::Sink;

use crate::{App, Salt, system_clock};

/// Why a function cannot start: a setting is missing. Lambda logs it.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;

/// Reads an environment variable.
type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What a function is started with: the settings that every function has, how it calls AWS, and where its metrics go.
pub struct Environment {
    pub names: Names,
    pub config: SdkConfig,
    pub metrics: Sink,
    variables: Variables,
}

/// Starts a function in a process of its own: logs and metrics go to stdout, and the settings are read from the
/// process's environment.
pub async fn start() -> Result<Environment, StartError> {
    telemetry::init();
    let variables = |name: &str| std::env::var(name).ok();
    Environment::new(variables, sdk_config().await, Sink::stdout())
}

impl Environment {
    /// The environment of a function that shares its process with others.
    pub fn new(
        variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        config: SdkConfig,
        metrics: Sink,
    ) -> Result<Self, StartError> {
        // A variable that is empty is not set.
        let variables: Variables = Arc::new(move |name| variables(name).filter(|value| !value.is_empty()));
        let names = Names::from_env(&*variables).map_err(explained)?;
        Ok(Self { names, config, metrics, variables })
    }

    pub fn store(&self) -> Store {
        Store::new(&self.config, self.names.clone())
    }

    pub fn providers(&self) -> Providers {
        Providers::from_env(&self.config, &*self.variables)
    }

    /// What a function keeps that runs flows with payment providers.
    pub fn app(&self) -> App {
        App { metrics: self.metrics.clone(), ..App::new(self.store(), self.providers(), system_clock()) }
    }

    /// The salt of buyers' keys. It is not read yet.
    pub fn salt(&self) -> Result<Salt, StartError> {
        Ok(Salt::in_secret(&self.config, self.required("BUYER_SALT_ARN")?))
    }

    /// A setting of this function alone, which it cannot do without.
    pub fn required(&self, name: &'static str) -> Result<String, StartError> {
        self.optional(name).ok_or_else(|| explained(MissingSetting(name)))
    }

    /// A setting of this function alone. One that is empty is not set.
    pub fn optional(&self, name: &str) -> Option<String> {
        (self.variables)(name)
    }
}

/// As text: Lambda logs an error by its `Debug`, which of a text is the text itself.
fn explained(missing: MissingSetting) -> StartError {
    missing.to_string().into()
}
