//! Calls to the payment providers: settings from Secrets Manager, calls over HTTPS, answers interpreted.
//!
//! What this crate promises:
//! - A function that never calls a provider reads no secret and loads no certificate.
//! - Bad settings of one provider affect that provider only. If the secret cannot be read again, the previous
//!   settings stay in use.
//! - If an answer does not arrive completely (no connection, too slow, too long, a server error), the result is
//!   [`ProviderError::Unavailable`]: it is not known whether the call took effect.
//! - There are no retries here. The steps of a flow are idempotent, and the flow repeats a whole step.
//! - Neither a key nor any other content of the secret is printed or logged.

mod calls;
mod connection;
mod settings;

use std::fmt;
use std::sync::Arc;

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::http::SharedHttpConnector;
use jiff::Timestamp;
use payments::{
    Created, HttpAnswer, HttpCall, Nonce, PaymentRef, PaymentRequest, PaymentStatus, Provider, ProviderCloseAnswer,
    ProviderError, ProviderKind, RefundRequest, Refunding, Start, Subject,
};

pub use connection::https;
use settings::{Configured, Settings};

/// A source of nonces: 128 random bits.
pub type Random = Arc<dyn Fn() -> [u8; 16] + Send + Sync>;

/// Why a provider was not called, or gave no answer to act on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The secret has no entry for this provider, or there is no secret.
    #[error("{0} is not configured: the payment providers' secret has no settings for it")]
    NotConfigured(ProviderKind),
    /// The secret cannot be read, or its entry for this provider cannot be used. The text tells what to do and
    /// contains nothing of the secret.
    #[error("{0}")]
    Settings(String),
    /// The provider gave no usable answer, or does not support the call.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl Trouble {
    /// Whether the same call may succeed later: settings can be corrected, and a call without a clear answer can be
    /// repeated. A refusal is final.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Settings(_)
            | Self::Provider(ProviderError::Unavailable(_) | ProviderError::Spent(_) | ProviderError::Untrusted(_)) => {
                true
            }
            Self::NotConfigured(_) | Self::Provider(ProviderError::Refused { .. } | ProviderError::Unsupported(_)) => {
                false
            }
        }
    }
}

/// The providers that the secret configures. Clones share settings and connections.
#[derive(Clone)]
pub struct Providers(Arc<Inner>);

struct Inner {
    settings: Settings,
    transport: SharedHttpConnector,
    random: Random,
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Providers").field(&self.0.settings).finish()
    }
}

impl Providers {
    /// `secret` is the ARN or the name of a secret that holds a JSON object with one entry for each provider, by its
    /// name: `{"alipay": {…}, "stripe": {…}}`. Without a secret, nothing is configured. Calls use `transport`,
    /// except those that must present a client certificate over TLS.
    pub fn new(config: &SdkConfig, secret: Option<String>, transport: SharedHttpConnector, random: Random) -> Self {
        Self(Arc::new(Inner { settings: Settings::new(config, secret), transport, random }))
    }

    /// For a deployed function: over HTTPS, with the secret that the environment names. `variable` reads an environment
    /// variable, as in `|name| std::env::var(name).ok()`.
    pub fn from_env(config: &SdkConfig, variable: impl Fn(&str) -> Option<String>) -> Self {
        let secret = variable("PAYMENT_SECRET_ARN").filter(|arn| !arn.is_empty());
        let random = || {
            let mut bits = [0; 16];
            // If the system's generator fails, the nonce is all zeros, and a provider refuses it when it repeats.
            let _ = getrandom::fill(&mut bits);
            bits
        };
        Self::new(config, secret, https(), Arc::new(random))
    }

    /// The providers with usable settings.
    pub async fn configured(&self, now: Timestamp) -> Result<Vec<ProviderKind>, Trouble> {
        let table = self.0.settings.current(now).await?;
        Ok(ProviderKind::ALL.into_iter().filter(|kind| table.get(*kind).is_ok()).collect())
    }

    /// One provider, for example to verify and answer its notices.
    pub async fn get(&self, kind: ProviderKind, now: Timestamp) -> Result<Arc<Provider>, Trouble> {
        Ok(self.configuration(kind, now).await?.provider.clone())
    }

    /// Reads the secret before it is due. A notice with an unknown key or a wrong signature may mean that a key was
    /// just rotated. Anyone can send such a notice, so this reads at most once a minute. Returns whether the settings
    /// have changed, so that it is worth verifying the notice again.
    pub async fn renew(&self, now: Timestamp) -> bool {
        self.0.settings.renew(now).await
    }

    pub async fn create(
        &self,
        kind: ProviderKind,
        request: &PaymentRequest,
        now: Timestamp,
    ) -> Result<Created, Trouble> {
        let it = self.configuration(kind, now).await?;
        match it.provider.create(request, now, &self.nonce())? {
            Start::Ready(created) => Ok(created),
            Start::Call(call) => Ok(it.provider.interpret_create(&self.send(&it, call).await?, now)?),
        }
    }

    pub async fn query(
        &self,
        kind: ProviderKind,
        payment: &PaymentRef,
        now: Timestamp,
    ) -> Result<PaymentStatus, Trouble> {
        let it = self.configuration(kind, now).await?;
        let answer = self.send(&it, it.provider.query(payment, now, &self.nonce())?).await?;
        Ok(it.provider.interpret_query(payment, &answer, now)?)
    }

    /// What a transaction is about; `None`: not about a payment of this system.
    pub async fn subject(
        &self,
        kind: ProviderKind,
        transaction: &str,
        now: Timestamp,
    ) -> Result<Option<Subject>, Trouble> {
        let it = self.configuration(kind, now).await?;
        let answer = self.send(&it, it.provider.query_subject(transaction, now, &self.nonce())?).await?;
        Ok(it.provider.interpret_query_subject(&answer)?)
    }

    pub async fn close(
        &self,
        kind: ProviderKind,
        payment: &PaymentRef,
        now: Timestamp,
    ) -> Result<ProviderCloseAnswer, Trouble> {
        let it = self.configuration(kind, now).await?;
        let answer = self.send(&it, it.provider.close(payment, now, &self.nonce())?).await?;
        Ok(it.provider.interpret_close(payment, &answer, now)?)
    }

    /// Repeating a refund with the same number never moves money twice.
    pub async fn refund(
        &self,
        kind: ProviderKind,
        refund: &RefundRequest,
        now: Timestamp,
    ) -> Result<Refunding, Trouble> {
        let it = self.configuration(kind, now).await?;
        let answer = self.send(&it, it.provider.refund(refund, now, &self.nonce())?).await?;
        Ok(it.provider.interpret_refund(refund, &answer, now)?)
    }

    pub async fn query_refund(
        &self,
        kind: ProviderKind,
        refund: &RefundRequest,
        now: Timestamp,
    ) -> Result<Refunding, Trouble> {
        let it = self.configuration(kind, now).await?;
        let answer = self.send(&it, it.provider.query_refund(refund, now, &self.nonce())?).await?;
        Ok(it.provider.interpret_query_refund(refund, &answer, now)?)
    }

    async fn configuration(&self, kind: ProviderKind, now: Timestamp) -> Result<Arc<Configured>, Trouble> {
        self.0.settings.current(now).await?.get(kind)
    }

    fn nonce(&self) -> Nonce {
        Nonce::new((self.0.random)())
    }

    /// Uses the connection with the client certificate if the call needs it and goes over TLS, and `transport`
    /// otherwise.
    async fn send(&self, it: &Configured, call: HttpCall) -> Result<HttpAnswer, Trouble> {
        let certified = it.certified.as_ref().filter(|_| call.client_certificate && call.url.starts_with("https://"));
        Ok(calls::send(certified.unwrap_or(&self.0.transport), call).await?)
    }
}

#[cfg(test)]
mod tests;
