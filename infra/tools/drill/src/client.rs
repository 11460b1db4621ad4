//! A client that keeps at it: what is not answered is sent again, so often and no more.

use std::sync::Arc;
use std::time::Duration;

use testkit::http::{Answer, Api, User};
use serde_json::{Value, json};

use crate::tally::{Kind, Tally};

/// Tries of one request. With the waits between them they last longer than any restart.
const TRIES: u32 = 40;
/// The first wait; it doubles up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// API Gateway answers within 30 seconds, whatever the function does.
const TIMEOUT: Duration = Duration::from_secs(31);

/// Sends requests for all buyers.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) api: Api,
    pub(crate) tally: Arc<Tally>,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) user: Option<&'a User>,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: &'a str,
}

impl Client {
    /// Asks until there is an answer that is neither "later" nor an accident. `None`: there was none after all tries,
    /// which must not happen.
    pub(crate) async fn ask(&self, ask: Ask<'_>) -> Option<Answer> {
        self.try_up_to(TRIES, ask).await
    }

    async fn try_up_to(&self, tries: u32, ask: Ask<'_>) -> Option<Answer> {
        let (mut wait, mut trouble) = (FIRST_WAIT, String::new());
        for _ in 0..tries {
            let sent = async {
                match ask.user {
                    Some(user) => user.try_with(ask.method, ask.path, ask.headers, ask.body.to_owned()).await,
                    None => self.api.try_send(ask.method, ask.path, ask.headers, ask.body.to_owned()).await,
                }
            };
            trouble = match tokio::time::timeout(TIMEOUT, sent).await {
                Ok(Ok(answer)) if answer.status == 429 || answer.status >= 500 => answer.status.to_string(),
                Ok(Ok(answer)) => return Some(answer),
                Ok(Err(_)) => "no connection".to_owned(),
                Err(_) => "no answer".to_owned(),
            };
            self.tally.count(Kind::Retry, &trouble);
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        self.tally.count(Kind::Retry, "given up");
        self.tally.surprise(format!("{} {} failed {tries} times, at last with: {trouble}", ask.method, ask.path));
        None
    }

    /// As somebody who looks.
    pub(crate) async fn get(&self, user: Option<&User>, path: &str) -> Option<Answer> {
        self.ask(Ask { user, method: "GET", path, headers: &[], body: "" }).await
    }

    /// As somebody who does something.
    pub(crate) async fn post(&self, user: Option<&User>, path: &str, body: &Value) -> Option<Answer> {
        self.ask(Ask { user, method: "POST", path, headers: &[], body: &body.to_string() }).await
    }

    /// Somebody with a token.
    pub(crate) async fn user(&self, name: &str) -> Option<User> {
        let answer = self.post(None, "/_local/token", &json!({ "sub": name })).await?;
        Some(User::new(&self.api, answer.body.get("token")?.as_str()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_that_is_given_up_is_told() {
        // Nobody listens there.
        let client = Client { api: Api::new("http://127.0.0.1:1".to_owned()), tally: Arc::default() };
        let ask = Ask { user: None, method: "GET", path: "/sales", headers: &[], body: "" };
        assert!(client.try_up_to(2, ask).await.is_none());
        assert_eq!(client.tally.surprises(), ["GET /sales failed 2 times, at last with: no connection"]);
    }
}
