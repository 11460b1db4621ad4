//! The salt of buyers' keys: a secret of its own, which belongs to the data and outlives the stack.
//!
//! A deployed function reads it once, when it starts, before its first request: no press waits for it. It is not an
//! environment variable, because people who may read a function's configuration would see it there.

use std::fmt;
use std::sync::OnceLock;

use aws_config::SdkConfig;
use aws_sdk_secretsmanager::Client;
use domain::ids::{Buyer, BuyerKey};

use crate::StartError;

/// The salt, once it is read.
pub struct Salt {
    known: OnceLock<String>,
    /// The secret that holds it; `None`: it was given as text.
    source: Option<(Client, String)>,
}

impl Salt {
    /// The salt in a secret of Secrets Manager. It is not read yet.
    pub(crate) fn in_secret(config: &SdkConfig, secret: String) -> Self {
        Self { known: OnceLock::new(), source: Some((Client::new(config), secret)) }
    }

    /// Reads the salt, unless it is known. Concurrent callers may read it twice, which does no harm.
    pub async fn read(&self) -> Result<(), StartError> {
        match (self.known.get(), &self.source) {
            // Boxed: it happens once, and would enlarge the future of every request.
            (None, Some((client, secret))) => Box::pin(self.fetch(client, secret)).await,
            _ => Ok(()),
        }
    }

    async fn fetch(&self, client: &Client, secret: &str) -> Result<(), StartError> {
        let output = client.get_secret_value().secret_id(secret).send().await;
        let output = output.map_err(|error| {
            let error = aws_sdk_secretsmanager::Error::from(error);
            format!("the salt of buyers cannot be read from {secret}: {error}")
        })?;
        let salt = output.secret_string.filter(|salt| !salt.is_empty());
        let salt = salt.ok_or_else(|| format!("the secret {secret} is empty: it must hold the salt of buyers"))?;
        let _ = self.known.set(salt);
        Ok(())
    }

    /// The key of a buyer; `None`: the salt was not read yet.
    pub fn key_of(&self, buyer: &Buyer) -> Option<BuyerKey> {
        self.known.get().map(|salt| BuyerKey::of(buyer, salt))
    }
}

impl From<&str> for Salt {
    fn from(salt: &str) -> Self {
        Self { known: OnceLock::from(salt.to_owned()), source: None }
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Salt").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_salt_is_never_printed() {
        assert!(!format!("{:?}", Salt::from("pepper")).contains("pepper"));
    }
}
