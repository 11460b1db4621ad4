//! The providers' settings: one secret, read on first use and cached for five minutes.
//!
//! If it cannot be read again, the previous settings stay in use: an outage of Secrets Manager must not stop payments.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_config::SdkConfig;
use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::error::ProvideErrorMetadata;
use aws_smithy_runtime_api::client::http::SharedHttpConnector;
use jiff::{SignedDuration, Timestamp};
use payments::{Provider, ProviderKind};
use serde_json::value::RawValue;

use crate::{Trouble, calls, connection};

/// How long settings are cached, and so how long a rotated key takes to reach every environment.
const CACHED_FOR: SignedDuration = SignedDuration::from_mins(5);
/// The pause after a failure to refresh the settings. Each attempt makes a request wait.
const REFRESH_PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// How long a failure of the first read is cached, so that all requests that waited for it share one call.
const FIRST_READ_PAUSE: SignedDuration = SignedDuration::from_secs(1);
/// The shortest time between an attempt to read and a read that is not due yet.
const MIN_RENEWAL_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

/// The settings in use, and where they come from.
pub(crate) struct Settings {
    /// `None` if there is no secret.
    source: Option<(Client, String)>,
    known: Mutex<Option<Known>>,
    /// Held while the secret is being read.
    reading: tokio::sync::Mutex<()>,
}

/// The result of the last attempts to read the secret.
#[derive(Clone)]
struct Known {
    table: Result<Arc<Table>, Trouble>,
    tried_at: Timestamp,
    try_again_at: Timestamp,
}

/// The content of the secret.
#[derive(Default)]
pub(crate) struct Table {
    text: String,
    providers: BTreeMap<ProviderKind, Result<Arc<Configured>, Trouble>>,
}

/// A provider with its settings.
pub(crate) struct Configured {
    pub(crate) provider: Arc<Provider>,
    /// The connection that presents the client certificate, if the settings have one.
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
        Self { source, known: Mutex::default(), reading: tokio::sync::Mutex::default() }
    }

    /// The settings in use. Concurrent callers share one read, and while it is in flight, callers use the previous
    /// settings if there are any.
    pub(crate) async fn current(&self, now: Timestamp) -> Result<Arc<Table>, Trouble> {
        let Some(source) = &self.source else { return Ok(Arc::default()) };
        let due = |known: &Known| now >= known.try_again_at;
        match self.known() {
            Some(known) if !due(&known) => known.table,
            Some(Known { table: Ok(table), .. }) => match self.reading.try_lock() {
                Ok(_reading) => self.read(source, now).await,
                Err(_) => Ok(table),
            },
            _ => {
                let _reading = self.reading.lock().await;
                match self.known() {
                    Some(known) if !due(&known) => known.table,
                    _ => self.read(source, now).await,
                }
            }
        }
    }

    /// Reads the secret before it is due, unless it was read recently or is being read. Returns whether the settings
    /// have changed.
    pub(crate) async fn renew(&self, now: Timestamp) -> bool {
        let (Some(source), Ok(_reading)) = (&self.source, self.reading.try_lock()) else { return false };
        let old = self.known();
        if old.as_ref().is_some_and(|known| now.duration_since(known.tried_at) < MIN_RENEWAL_INTERVAL) {
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

    /// One attempt. The caller holds `reading`.
    async fn read(&self, (client, secret): &(Client, String), now: Timestamp) -> Result<Arc<Table>, Trouble> {
        let old = self.known().and_then(|known| known.table.ok());
        let read = match fetch(client, secret).await {
            Ok(text) => match &old {
                // Unchanged: the parsed keys and the open connections are kept.
                Some(old) if old.text == text => Ok(old.clone()),
                _ => Table::parse(text, secret).map(Arc::new),
            },
            Err(trouble) => Err(trouble),
        };
        let (table, pause) = match (read, old) {
            (Ok(table), _) => (Ok(table), CACHED_FOR),
            (Err(error), Some(old)) => {
                tracing::warn!(%error, "payment provider settings not refreshed; the previous settings stay in use");
                (Ok(old), REFRESH_PAUSE)
            }
            (Err(error), None) => (Err(error), FIRST_READ_PAUSE),
        };
        let try_again_at = now.saturating_add(pause).unwrap_or(now);
        let known = Known { table: table.clone(), tried_at: now, try_again_at };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        table
    }
}

/// The text of the secret. An error tells what to do.
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
    let binary = || Trouble::Settings(format!("the payment providers' secret {secret} must be text, not binary"));
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
            let Some(kind) = ProviderKind::parse(&name) else {
                let known = ProviderKind::ALL.map(ProviderKind::as_str).join(", ");
                tracing::warn!("entry in the payment providers' secret ignored: its name is none of {known}");
                continue;
            };
            let configured = configure(kind, settings.get()).map_err(|problem| {
                let error = format!("the settings of {kind} in the secret {secret} cannot be used: {problem}");
                tracing::error!(error, "payment provider not usable");
                Trouble::Settings(error)
            });
            providers.insert(kind, configured.map(Arc::new));
        }
        Ok(Self { text, providers })
    }

    pub(crate) fn get(&self, kind: ProviderKind) -> Result<Arc<Configured>, Trouble> {
        self.providers.get(&kind).cloned().unwrap_or(Err(Trouble::NotConfigured(kind)))
    }
}

fn configure(kind: ProviderKind, json: &str) -> Result<Configured, String> {
    let provider = Provider::from_json(kind, json).map_err(|error| error.to_string())?;
    let certified = match provider.client_identity() {
        Some((certificate, key)) => Some(connection::certified(connection::identity(certificate, key)?)),
        None => None,
    };
    Ok(Configured { provider: provider.into(), certified })
}
