//! Delivers notices over HTTP as long as the local cloud runs.
//!
//! A notice counts as sent when its answer was recorded. A stop before that sends it once more after the next start, as
//! a provider would.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::{DueNotice, Sandbox, SandboxError, is_accepted};

/// How long the merchant may take. Providers wait 5 to 15 seconds; a function that starts on a busy machine needs
/// some.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Notices in flight at once: enough that a few slow answers do not delay the others.
const AT_ONCE: usize = 16;
/// The longest answer that is read; the longest that means anything has some hundred bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// After the database failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Delivers notices until it is dropped. A notice that is in flight then is sent again after the next start.
pub(crate) async fn run(sandbox: Sandbox) {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let mut changes = sandbox.changes();
    let mut under_way = BTreeSet::new();
    let mut sending = FuturesUnordered::new();
    loop {
        changes.mark_unchanged();
        let free = AT_ONCE.saturating_sub(under_way.len());
        let look = async {
            let due = sandbox.due_besides(&under_way, free).await?;
            Ok::<_, SandboxError>((due, sandbox.next_notice_ms().await?))
        };
        let (due, next_ms) = look.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the sandbox's notices cannot be read");
            let pause_ms = i64::try_from(PAUSE.as_millis()).unwrap_or(0);
            (Vec::new(), Some(sandbox.clock.now_ms().saturating_add(pause_ms)))
        });
        for notice in due {
            under_way.insert(notice.id);
            sending.push(deliver(&sandbox, &client, notice));
        }
        let next = async {
            match next_ms {
                Some(at_ms) => sandbox.clock.sleep_until(at_ms).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(id) = sending.next() => {
                under_way.remove(&id);
            }
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = next => {}
        }
    }
}

/// Sends a notice and notes what became of it; gives its number.
async fn deliver(sandbox: &Sandbox, client: &Client<HttpConnector, Full<Bytes>>, notice: DueNotice) -> i64 {
    let sent = tokio::time::timeout(TIMEOUT, send(client, &notice)).await;
    let (accepted, problem) = match sent {
        Ok(Ok((status, body))) => (is_accepted(notice.kind, status, &body), format!("answered {status}")),
        Ok(Err(problem)) => (false, problem),
        Err(_) => (false, format!("no answer in {} s", TIMEOUT.as_secs())),
    };
    if !accepted {
        let (provider, number, url) = (notice.kind.as_str(), notice.number.as_str(), notice.call.url.as_str());
        tracing::warn!(provider, number, url, problem, "a notice was not accepted; it comes again");
    }
    if let Err(error) = sandbox.delivered(notice.id, accepted).await {
        tracing::warn!(%error, "a notice's delivery cannot be noted");
        // It is due still: not at once again.
        tokio::time::sleep(PAUSE).await;
    }
    notice.id
}

async fn send(client: &Client<HttpConnector, Full<Bytes>>, notice: &DueNotice) -> Result<(u16, Bytes), String> {
    let call = &notice.call;
    let mut request = http::Request::builder().method(call.method.as_str()).uri(&call.url);
    for (name, value) in call.headers.iter() {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(call.body.clone()))).map_err(|error| error.to_string())?;
    let answer = client.request(request).await.map_err(|error| error.to_string())?;
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await.map_err(|error| error.to_string())?;
    Ok((status, body.to_bytes()))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::Router;
    use axum::extract::State;
    use axum::response::IntoResponse as _;
    use http::StatusCode;
    use payments::{Provider, ProviderKind};

    use super::*;
    use crate::CloudWithSandbox;
    use local_cloud::clock::Clock;

    /// A merchant that answers 500 to its first `refuses` notices, success to the others, and to `/hang` never.
    struct Merchant {
        url: String,
        got: Arc<Mutex<Vec<String>>>,
    }

    type Asked = (Arc<Mutex<Vec<String>>>, usize);

    async fn answer(State((got, refuses)): State<Asked>, request: axum::extract::Request) -> axum::response::Response {
        let path = request.uri().path().to_owned();
        let count = {
            let mut got = got.lock().unwrap();
            got.push(path.clone());
            got.len()
        };
        match path.as_str() {
            "/hang" => std::future::pending().await,
            _ if count <= refuses => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            _ => StatusCode::NO_CONTENT.into_response(),
        }
    }

    impl Merchant {
        async fn start(refuses: usize) -> Self {
            let got = Arc::new(Mutex::new(Vec::new()));
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let router = Router::new().fallback(answer).with_state((Arc::clone(&got), refuses));
            tokio::spawn(async move { axum::serve(listener, router).await });
            Self { url, got }
        }

        fn count(&self) -> usize {
            self.got.lock().unwrap().len()
        }
    }

    /// Starts a payment at WeChat Pay v3 and pays it.
    async fn pay(cloud: &CloudWithSandbox, number: &str, notify_url: &str) {
        let settings = cloud.sandbox.settings(super::super::IN_PROCESS_URL).await.unwrap();
        let settings: serde_json::Value = serde_json::from_str(&settings).unwrap();
        let settings = settings.get(ProviderKind::WechatV3.as_str()).unwrap().to_string();
        let provider = Provider::from_json(ProviderKind::WechatV3, &settings).unwrap();
        let now = cloud.sandbox.now().at;
        let request = payments::PaymentRequest {
            number: domain::ids::PaymentNumber::parse(number).unwrap(),
            title: "mug".to_owned(),
            amount: 100,
            currency: domain::money::Currency::parse("CNY").unwrap(),
            expires_at: now + jiff::SignedDuration::from_mins(15),
            notify_url: notify_url.to_owned(),
            return_url: String::new(),
            client_ip: "127.0.0.1".to_owned(),
            way: None,
            shop_data: Default::default(),
        };
        let start = provider.create(&request, now, &payments::Nonce::new([1; 16])).unwrap();
        let payments::Start::Call(call) = start else { panic!("a call") };
        let mut sent = http::Request::post(&call.url);
        for (name, value) in call.headers.iter() {
            sent = sent.header(name, value);
        }
        let answer = cloud.sandbox.call(ProviderKind::WechatV3, sent.body(Bytes::from(call.body)).unwrap()).await;
        assert_eq!(answer.status(), 200);
        cloud.sandbox.pay(number).await.unwrap();
    }

    const FIRST: &str = "01K9PZ0000ABCDEFGHJKMNPQRS000010";
    const SECOND: &str = "01K9PZ0000ABCDEFGHJKMNPQRS000020";

    /// Waits until something is so; the tasks of the test have then come that far.
    async fn until(what: &str, so: impl AsyncFn() -> bool) {
        for _ in 0..2000 {
            if so().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("{what} never came");
    }

    #[tokio::test]
    async fn a_notice_is_sent_until_it_is_accepted() {
        let clock = Clock::driven(1_794_830_400_000);
        let cloud = CloudWithSandbox::in_memory(clock.clone()).unwrap();
        let merchant = Merchant::start(2).await;
        let delivery = tokio::spawn(run(cloud.sandbox.clone()));
        pay(&cloud, FIRST, &format!("{}/notify", merchant.url)).await;
        for tries in 1..=3_u32 {
            until("a try", async || {
                cloud.sandbox.payment(FIRST).await.unwrap().notices.iter().any(|notice| notice.tries == tries)
            })
            .await;
            let seen = cloud.sandbox.payment(FIRST).await.unwrap();
            assert_eq!(seen.notices.first().unwrap().accepted_at.is_some(), tries == 3);
            assert_eq!(merchant.count(), usize::try_from(tries).unwrap());
            clock.advance(Duration::from_secs(15));
        }
        clock.advance(Duration::from_secs(24 * 3600));
        assert!(cloud.sandbox.due_notices().await.unwrap().is_empty());
        delivery.abort();
        let _ = delivery.await;
    }

    #[tokio::test]
    async fn a_merchant_that_never_answers_delays_neither_others_nor_a_stop() {
        let clock = Clock::driven(1_794_830_400_000);
        let cloud = CloudWithSandbox::in_memory(clock).unwrap();
        let merchant = Merchant::start(0).await;
        let delivery = tokio::spawn(run(cloud.sandbox.clone()));
        pay(&cloud, FIRST, &format!("{}/hang", merchant.url)).await;
        until("the notice that hangs", async || merchant.count() == 1).await;
        pay(&cloud, SECOND, &format!("{}/notify", merchant.url)).await;
        until("the other notice", async || {
            let seen = cloud.sandbox.payment(SECOND).await.unwrap();
            seen.notices.first().is_some_and(|notice| notice.accepted_at.is_some())
        })
        .await;
        delivery.abort();
        let _ = delivery.await;
        // What was under way is due still.
        assert_eq!(cloud.sandbox.due_notices().await.unwrap().len(), 1);
        assert_eq!(merchant.count(), 2, "and was not sent twice meanwhile");
    }
}
