//! Client tokens of transactions: the same request again within ten minutes is answered as the first, and not run.

use std::collections::HashMap;

use dynoxide::DynoxideError;
use serde_json::Value;

/// DynamoDB remembers a token for ten minutes.
const REMEMBERED_MS: i64 = 600_000;
/// A bound on memory; the oldest go first.
const TOKENS: usize = 20_000;

#[derive(Default)]
pub(super) struct Tokens(HashMap<String, Remembered>);

struct Remembered {
    at_ms: i64,
    items: Value,
    answer: String,
}

impl Tokens {
    /// The answer that `token` was given, if it is remembered. Another request under the same token is refused.
    pub(super) fn recall(&mut self, token: &str, items: &Value, now_ms: i64) -> dynoxide::Result<Option<String>> {
        if token.len() > 36 {
            return Err(DynoxideError::ValidationException(format!(
                "1 validation error detected: Value '{token}' at 'clientRequestToken' failed to satisfy constraint: \
                 Member must have length less than or equal to 36"
            )));
        }
        self.0.retain(|_, remembered| now_ms.saturating_sub(remembered.at_ms) < REMEMBERED_MS);
        match self.0.get(token) {
            Some(remembered) if remembered.items == *items => Ok(Some(remembered.answer.clone())),
            Some(_) => Err(DynoxideError::IdempotentParameterMismatchException(
                "An error occurred (IdempotentParameterMismatchException)".to_owned(),
            )),
            None => Ok(None),
        }
    }

    pub(super) fn remember(&mut self, token: String, items: Value, answer: String, now_ms: i64) {
        if self.0.len() >= TOKENS {
            let oldest = self.0.iter().min_by_key(|(_, remembered)| remembered.at_ms).map(|(token, _)| token.clone());
            if let Some(oldest) = oldest {
                self.0.remove(&oldest);
            }
        }
        self.0.insert(token, Remembered { at_ms: now_ms, items, answer });
    }
}
