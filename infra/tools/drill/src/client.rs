//! A client that retries: a request without a final answer is sent again with backoff, a limited number of times.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::http::{Answer, Api, User};

use crate::counts::{Counted, Counts};

/// Attempts for one request. Together with the waits between them they last longer than any restart.
const ATTEMPTS: u32 = 40;
/// The first wait. It doubles after each attempt, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// API Gateway answers within 30 seconds in any case.
const TIMEOUT: Duration = Duration::from_secs(31);

/// Sends the requests of all buyers.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) api: Api,
    pub(crate) counts: Arc<Counts>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) user: Option<&'a User>,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: &'a str,
}

impl Client {
    /// Sends a request until the answer is neither 429 nor a server error. `None` after the last attempt, which is
    /// recorded as unexpected.
    pub(crate) async fn send(&self, request: Request<'_>) -> Option<Answer> {
        self.try_up_to(ATTEMPTS, request).await
    }

    async fn try_up_to(&self, attempts: u32, request: Request<'_>) -> Option<Answer> {
        let (mut wait, mut failure) = (FIRST_WAIT, String::new());
        for _ in 0..attempts {
            let sent = async {
                match request.user {
                    Some(user) => {
                        user.try_with(request.method, request.path, request.headers, request.body.to_owned()).await
                    }
                    None => {
                        self.api.try_send(request.method, request.path, request.headers, request.body.to_owned()).await
                    }
                }
            };
            failure = match tokio::time::timeout(TIMEOUT, sent).await {
                Ok(Ok(answer)) if answer.status == 429 || answer.status >= 500 => answer.status.to_string(),
                Ok(Ok(answer)) => return Some(answer),
                Ok(Err(_)) => "no connection".to_owned(),
                Err(_) => "no answer".to_owned(),
            };
            self.counts.count(Counted::Retry, &failure);
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        self.counts.count(Counted::Retry, "given up");
        self.counts.unexpected(format!(
            "{} {} failed {attempts} times; the last failure: {failure}",
            request.method, request.path
        ));
        None
    }

    pub(crate) async fn get(&self, user: Option<&User>, path: &str) -> Option<Answer> {
        self.send(Request { user, method: "GET", path, headers: &[], body: "" }).await
    }

    pub(crate) async fn post(&self, user: Option<&User>, path: &str, body: &Value) -> Option<Answer> {
        self.send(Request { user, method: "POST", path, headers: &[], body: &body.to_string() }).await
    }

    /// Signs a user in.
    pub(crate) async fn user(&self, name: &str) -> Option<User> {
        let answer = self.post(None, "/_local/token", &json!({ "sub": name })).await?;
        Some(User::new(&self.api, answer.body.get("token")?.as_str()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_that_is_given_up_is_recorded() {
        // No server listens on this port.
        let client = Client { api: Api::new("http://127.0.0.1:1".to_owned()), counts: Arc::default() };
        let request = Request { user: None, method: "GET", path: "/sales", headers: &[], body: "" };
        assert!(client.try_up_to(2, request).await.is_none());
        assert_eq!(client.counts.unexpected_events(), ["GET /sales failed 2 times; the last failure: no connection"]);
    }
}
