//! The payment providers as they are reached: settings from Secrets Manager, calls over HTTPS, answers interpreted.
//!
//! What it promises:
//! - a function that never pays reads no secret and loads no certificate;
//! - one provider's bad settings are that provider's trouble alone, and a secret that cannot be read again leaves the settings
//!   that were read before in use;
//! - whatever keeps an answer from arriving whole (no connection, too slow, too long, a server's error) is
//!   [`ProviderError::Unavailable`]: it is not known whether it happened, and nothing concludes that it did not;
//! - nothing is tried again in here: a flow's steps are safe to repeat, and are repeated whole;
//! - no key, and nothing else of the secret, is printed or logged.

mod calls;
mod connection;
mod settings;

use std::fmt;
use std::sync::Arc;

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::http::SharedHttpConnector;
use jiff::Timestamp;
use payments::{
    ProviderCloseAnswer, Created, HttpAnswer, HttpCall, Kind, Nonce, PaymentRef, PaymentRequest, Provider, ProviderError,
    RefundRequest, Refunding, PaymentStatus, Start,
};

pub use connection::https;
use settings::{Configured, Settings};

/// Where nonces come from: 128 random bits.
pub type Random = Arc<dyn Fn() -> [u8; 16] + Send + Sync>;

/// Why a provider was not asked, or gave no answer to act on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The secret has nothing for this provider, or there is no secret.
    #[error("{0} is not configured: the payment providers' secret has no settings for it")]
    NotConfigured(Kind),
    /// The secret cannot be read, or what is in it for this provider cannot be used. It says what to do, and nothing of the content.
    #[error("{0}")]
    Settings(String),
    /// The provider was asked, or would not have taken it.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl Trouble {
    /// Whether the same call may work later without anything being changed about it. Settings can be mended, and an answer that says
    /// nothing can be asked for again; a no stays one.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Settings(_) | Self::Provider(ProviderError::Unavailable(_) | ProviderError::Untrusted(_)) => true,
            Self::NotConfigured(_) | Self::Provider(ProviderError::Refused { .. } | ProviderError::Unsupported(_)) => {
                false
            }
        }
    }
}

/// The providers that the secret configures. Copies share settings and connections.
#[derive(Clone)]
pub struct Providers(Arc<Reach>);

struct Reach {
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
    /// `secret` is the ARN or name of a secret with one JSON object by provider name, `{"alipay": {…}, "stripe": {…}}`; without
    /// one, nothing is configured. Calls go over `transport`, except those that must present a client certificate over TLS.
    pub fn new(config: &SdkConfig, secret: Option<String>, transport: SharedHttpConnector, random: Random) -> Self {
        Self(Arc::new(Reach { settings: Settings::new(config, secret), transport, random }))
    }

    /// As a deployed function has them: over HTTPS, with the secret that the environment names. `variable` is such as
    /// `|name| std::env::var(name).ok()`.
    pub fn from_env(config: &SdkConfig, variable: impl Fn(&str) -> Option<String>) -> Self {
        let secret = variable("PAYMENT_SECRET_ARN").filter(|arn| !arn.is_empty());
        let random = || {
            let mut bits = [0; 16];
            // Without the system's generator a provider refuses the repeated nonce: nothing worse.
            let _ = getrandom::fill(&mut bits);
            bits
        };
        Self::new(config, secret, https(), Arc::new(random))
    }

    /// The providers whose settings can be used.
    pub async fn configured(&self, now: Timestamp) -> Result<Vec<Kind>, Trouble> {
        let table = self.0.settings.current(now).await?;
        Ok(Kind::ALL.into_iter().filter(|kind| table.get(*kind).is_ok()).collect())
    }

    /// A provider, to verify and answer its notices.
    pub async fn get(&self, kind: Kind, now: Timestamp) -> Result<Arc<Provider>, Trouble> {
        Ok(self.reach(kind, now).await?.provider.clone())
    }

    /// Reads the secret again, before its time: a notice is signed with an unknown key, or wrongly, which is what a key that was just
    /// changed looks like. At most once a minute, because anybody can send such a notice. Whether there are other settings now, so that
    /// it is worth verifying the notice again.
    pub async fn renew(&self, now: Timestamp) -> bool {
        self.0.settings.renew(now).await
    }

    /// Starts a payment.
    pub async fn create(&self, kind: Kind, request: &PaymentRequest, now: Timestamp) -> Result<Created, Trouble> {
        let it = self.reach(kind, now).await?;
        match it.provider.create(request, now, &self.nonce())? {
            Start::Ready(created) => Ok(created),
            Start::Call(call) => Ok(it.provider.interpret_create(&self.send(&it, call).await?, now)?),
        }
    }

    /// Where a payment stands.
    pub async fn query(&self, kind: Kind, payment: &PaymentRef, now: Timestamp) -> Result<PaymentStatus, Trouble> {
        let it = self.reach(kind, now).await?;
        let answer = self.send(&it, it.provider.query(payment, now, &self.nonce())?).await?;
        Ok(it.provider.interpret_query(payment, &answer, now)?)
    }

    /// Lets a payment not be made any more.
    pub async fn close(&self, kind: Kind, payment: &PaymentRef, now: Timestamp) -> Result<ProviderCloseAnswer, Trouble> {
        let it = self.reach(kind, now).await?;
        let answer = self.send(&it, it.provider.close(payment, now, &self.nonce())?).await?;
        Ok(it.provider.interpret_close(payment, &answer, now)?)
    }

    /// Gives money back. The same refund number never moves money twice.
    pub async fn refund(&self, kind: Kind, refund: &RefundRequest, now: Timestamp) -> Result<Refunding, Trouble> {
        let it = self.reach(kind, now).await?;
        let answer = self.send(&it, it.provider.refund(refund, now, &self.nonce())?).await?;
        Ok(it.provider.interpret_refund(refund, &answer, now)?)
    }

    /// Whether money went back.
    pub async fn query_refund(&self, kind: Kind, refund: &RefundRequest, now: Timestamp) -> Result<Refunding, Trouble> {
        let it = self.reach(kind, now).await?;
        let answer = self.send(&it, it.provider.query_refund(refund, now, &self.nonce())?).await?;
        Ok(it.provider.interpret_query_refund(refund, &answer, now)?)
    }

    async fn reach(&self, kind: Kind, now: Timestamp) -> Result<Arc<Configured>, Trouble> {
        self.0.settings.current(now).await?.get(kind)
    }

    fn nonce(&self) -> Nonce {
        Nonce::new((self.0.random)())
    }

    /// Over the certified connection if the call must present a certificate and the other side can see one, else over the ordinary.
    async fn send(&self, it: &Configured, call: HttpCall) -> Result<HttpAnswer, Trouble> {
        let certified = it.certified.as_ref().filter(|_| call.client_certificate && call.url.starts_with("https://"));
        Ok(calls::send(certified.unwrap_or(&self.0.transport), call).await?)
    }
}

#[cfg(test)]
mod tests;
