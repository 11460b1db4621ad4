//! The providers' settings: one secret, read when first needed, kept for five minutes, then read again.
//!
//! While it cannot be read again, what was read before goes on being used: a payment must not stop because Secrets Manager does.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_config::SdkConfig;
use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::error::ProvideErrorMetadata;
use aws_smithy_runtime_api::client::http::SharedHttpConnector;
use jiff::{SignedDuration, Timestamp};
use payments::{Kind, Provider};
use serde_json::value::RawValue;

use crate::{Trouble, calls, connection};

/// How long settings are used before they are read again: how long a changed key takes to reach every environment.
const KEPT: SignedDuration = SignedDuration::from_mins(5);
/// After a failure to read them again, so long nobody tries: each try makes somebody wait.
const PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// After a failure to read them at all, so long the same error is given: everybody who was waiting is told by one call.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(1);
/// So often at most they are read before their time.
const RENEWED: SignedDuration = SignedDuration::from_secs(60);

/// Where the settings come from, and the ones in use.
pub(crate) struct Settings {
    /// `None`: there is no secret.
    source: Option<(Client, String)>,
    known: Mutex<Option<Known>>,
    /// Whoever has it reads the secret.
    turn: tokio::sync::Mutex<()>,
}

/// What the last tries came to.
#[derive(Clone)]
struct Known {
    table: Result<Arc<Table>, Trouble>,
    tried_at: Timestamp,
    try_again_at: Timestamp,
}

/// One secret's content.
#[derive(Default)]
pub(crate) struct Table {
    text: String,
    providers: BTreeMap<Kind, Result<Arc<Configured>, Trouble>>,
}

/// A provider with its settings.
pub(crate) struct Configured {
    pub(crate) provider: Arc<Provider>,
    /// The connection for calls that must present its client certificate, if it has one.
    pub(crate) certified: Option<SharedHttpConnector>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = self.source.as_ref().map(|(_, secret)| secret);
        f.debug_struct("Settings").field("secret", &secret).finish_non_exhaustive()
    }
}

impl Settings {
    pub(crate) fn new(config: &SdkConfig, secret: Option<String>) -> Self {
        let source = secret.filter(|secret| !secret.is_empty()).map(|secret| (Client::new(config), secret));
        Self { source, known: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// The settings in use. Many at once make one call, and while it is under way those that have old settings go on with them.
    pub(crate) async fn current(&self, now: Timestamp) -> Result<Arc<Table>, Trouble> {
        let Some(source) = &self.source else { return Ok(Arc::default()) };
        let due = |known: &Known| now >= known.try_again_at;
        match self.known() {
            Some(known) if !due(&known) => known.table,
            Some(Known { table: Ok(table), .. }) => match self.turn.try_lock() {
                Ok(_turn) => self.read(source, now).await,
                Err(_) => Ok(table),
            },
            _ => {
                let _turn = self.turn.lock().await;
                match self.known() {
                    Some(known) if !due(&known) => known.table,
                    _ => self.read(source, now).await,
                }
            }
        }
    }

    /// Reads them before their time, unless that was done lately or is being done. Whether there are others now.
    pub(crate) async fn renew(&self, now: Timestamp) -> bool {
        let (Some(source), Ok(_turn)) = (&self.source, self.turn.try_lock()) else { return false };
        let old = self.known();
        if old.as_ref().is_some_and(|known| now.duration_since(known.tried_at) < RENEWED) {
            return false;
        }
        match (old.map(|known| known.table), self.read(source, now).await) {
            (Some(Ok(old)), Ok(new)) => !Arc::ptr_eq(&old, &new),
            (_, new) => new.is_ok(),
        }
    }

    fn known(&self) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One try, by whoever has the turn.
    async fn read(&self, (client, secret): &(Client, String), now: Timestamp) -> Result<Arc<Table>, Trouble> {
        let old = self.known().and_then(|known| known.table.ok());
        let read = match fetch(client, secret).await {
            Ok(text) => match &old {
                // The same as before: its keys are parsed and its connections made.
                Some(old) if old.text == text => Ok(old.clone()),
                _ => Table::parse(text, secret).map(Arc::new),
            },
            Err(trouble) => Err(trouble),
        };
        let (table, pause) = match (read, old) {
            (Ok(table), _) => (Ok(table), KEPT),
            (Err(error), Some(old)) => {
                tracing::warn!(%error, "the payment providers' settings were not read again: the old ones are used");
                (Ok(old), PAUSE)
            }
            (Err(error), None) => (Err(error), FIRST_PAUSE),
        };
        let try_again_at = now.saturating_add(pause).unwrap_or(now);
        let known = Known { table: table.clone(), tried_at: now, try_again_at };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        table
    }
}

/// The secret's text. The error says what to do about it.
async fn fetch(client: &Client, secret: &str) -> Result<String, Trouble> {
    let read = client.get_secret_value().secret_id(secret).send().await;
    let answer = read.map_err(|error| {
        let what_to_do = match error.code() {
            Some("ResourceNotFoundException") => {
                "it does not exist or has no value: put {} there to start with".to_owned()
            }
            Some("AccessDeniedException") => {
                "the function's role must allow secretsmanager:GetSecretValue on it".to_owned()
            }
            _ => calls::reasons(&error),
        };
        Trouble::Settings(format!("the payment providers' secret {secret} cannot be read: {what_to_do}"))
    })?;
    let binary = || Trouble::Settings(format!("the payment providers' secret {secret} must be a text, not binary"));
    answer.secret_string.ok_or_else(binary)
}

impl Table {
    fn parse(text: String, secret: &str) -> Result<Self, Trouble> {
        let parts: BTreeMap<String, &RawValue> = serde_json::from_str(&text).map_err(|error| {
            Trouble::Settings(format!(
                "the payment providers' secret {secret} must be one JSON object by provider name; see line {}",
                error.line()
            ))
        })?;
        let mut providers = BTreeMap::new();
        for (name, settings) in parts {
            let Some(kind) = Kind::parse(&name) else {
                let known = Kind::ALL.map(Kind::as_str).join(", ");
                tracing::warn!("a name in the payment providers' secret is none of {known}: what it has is ignored");
                continue;
            };
            let configured = configure(kind, settings.get()).map_err(|problem| {
                let error = format!("the settings of {kind} in the secret {secret} cannot be used: {problem}");
                tracing::error!(error, "a payment provider cannot be used");
                Trouble::Settings(error)
            });
            providers.insert(kind, configured.map(Arc::new));
        }
        Ok(Self { text, providers })
    }

    pub(crate) fn get(&self, kind: Kind) -> Result<Arc<Configured>, Trouble> {
        self.providers.get(&kind).cloned().unwrap_or(Err(Trouble::NotConfigured(kind)))
    }
}

fn configure(kind: Kind, json: &str) -> Result<Configured, String> {
    let provider = Provider::from_json(kind, json).map_err(|error| error.to_string())?;
    let identity = match &provider {
        Provider::WechatV2(it) => it.client_identity(),
        Provider::Alipay(_) | Provider::WechatV3(_) | Provider::Stripe(_) => None,
    };
    let certified = match identity {
        Some((certificate, key)) => Some(connection::certified(connection::identity(certificate, key)?)),
        None => None,
    };
    Ok(Configured { provider: Arc::new(provider), certified })
}
