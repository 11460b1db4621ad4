//! Settings from the environment that the template gives each function, and the clients made from them.

use aws_config::SdkConfig;
use providers::Providers;
use store::{MissingSetting, Names, Store, sdk_config};

use crate::{App, system_clock};

/// Why a function cannot start: a setting is missing. Lambda logs it.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;

/// The settings that every function has, and how it calls AWS.
#[derive(Debug)]
pub struct Environment {
    pub names: Names,
    pub config: SdkConfig,
}

/// Starts a function: logs go to stdout, and the settings are read.
pub async fn start() -> Result<Environment, StartError> {
    telemetry::init();
    let names = Names::from_env(optional).map_err(explained)?;
    Ok(Environment { names, config: sdk_config().await })
}

impl Environment {
    pub fn store(&self) -> Store {
        Store::new(&self.config, self.names.clone())
    }

    pub fn providers(&self) -> Providers {
        Providers::from_env(&self.config, optional)
    }

    /// What a function keeps that runs flows with payment providers.
    pub fn app(&self) -> App {
        App::new(self.store(), self.providers(), system_clock())
    }

    /// A setting of this function alone, which it cannot do without.
    pub fn required(&self, name: &'static str) -> Result<String, StartError> {
        optional(name).ok_or_else(|| explained(MissingSetting(name)))
    }

    /// A setting of this function alone. One that is empty is not set.
    pub fn optional(&self, name: &str) -> Option<String> {
        optional(name)
    }
}

fn optional(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// As text: Lambda logs an error by its `Debug`, which of a text is the text itself.
fn explained(missing: MissingSetting) -> StartError {
    missing.to_string().into()
}
