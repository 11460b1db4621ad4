//! The sandbox over HTTP: providers' endpoints, the buyer's page, and what drives it from tests.

use local_cloud::wire::Wire;
use payments::{HttpAnswer, Nonce, PaymentRequest, PaymentStatus, ProviderKind, Start, Way};
use serde_json::{Value, json};

use crate::gateway::{Running, json_of};
use crate::merchant::{Merchant, Started, driven};

/// A merchant whose calls go over sockets.
struct Outside {
    merchant: Merchant,
    gateway: Running,
}

impl Outside {
    async fn new() -> Self {
        let cloud = driven();
        let gateway = Running::start(&cloud).await;
        let base_url = format!("http://{}/_sandbox", gateway.address());
        Self { merchant: Merchant::at(Wire::new(cloud), &base_url).await, gateway }
    }

    async fn create(&self, kind: ProviderKind) -> Started {
        let request = self.merchant.request(kind, 1, 0);
        let provider = self.merchant.provider(kind);
        let start = provider.create(&request, self.merchant.now(), &Nonce::new([1; 16])).expect("a call");
        let created = match start {
            Start::Ready(created) => created,
            Start::Call(call) => {
                let headers: Vec<(&str, &str)> = call.headers.iter().collect();
                let path = call.path_and_query();
                let answer = self.gateway.call(call.method.as_str(), path, &headers, call.body.clone()).await;
                let headers = answer.headers().iter();
                let answer = HttpAnswer {
                    status: answer.status().as_u16(),
                    headers: headers.map(|(name, value)| (name.as_str(), value.to_str().expect("text"))).collect(),
                    body: answer.body().to_vec(),
                };
                provider.interpret_create(&answer, self.merchant.now()).expect("a payment")
            }
        };
        Started { kind, request, created }
    }

    /// The path of a link, which must lead to this gateway.
    fn path<'a>(&self, link: &'a str) -> &'a str {
        link.strip_prefix(&format!("http://{}", self.gateway.address())).expect("a link to here")
    }

    async fn act(&self, id: &str, body: &str) -> (u16, Value) {
        let answer = self.gateway.call("POST", &format!("/_sandbox/payments/{id}"), &[], body.to_owned()).await;
        (answer.status().as_u16(), json_of(&answer))
    }
}

#[tokio::test]
async fn a_buyer_pays_on_the_page_and_goes_back() {
    for kind in ProviderKind::ALL {
        let outside = Outside::new().await;
        let started = outside.create(kind).await;
        let path = outside.path(started.link()).to_owned();
        let page = outside.gateway.call("GET", &path, &[], "").await;
        assert_eq!(page.status(), 200, "{kind}");
        assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
        let text = String::from_utf8(page.body().to_vec()).expect("text");
        let amount = if kind == ProviderKind::Stripe { "$69.99" } else { "¥69.99" };
        for part in ["手机", amount, &started.number(), "id=\"pay\"", "id=\"fail\"", "width=device-width"] {
            assert!(text.contains(part), "{kind} {part}: {text}");
        }
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let pressed = outside.gateway.call("POST", &path, &form, "action=pay").await;
        assert_eq!(pressed.status(), 303, "{kind}");
        assert_eq!(pressed.headers()["location"], path.as_str());
        let page = outside.gateway.call("GET", &path, &[], "").await;
        let text = String::from_utf8(page.body().to_vec()).expect("text");
        assert!(text.contains("Paid. Thank you!") && !text.contains("id=\"pay\""), "{kind}: {text}");
        let has_way_back = matches!(kind, ProviderKind::Stripe);
        assert_eq!(text.contains("id=\"back\""), has_way_back, "{kind}: {text}");
        let again = outside.gateway.call("POST", &path, &form, "action=pay").await;
        assert_eq!(again.status(), 409);
        assert!(String::from_utf8_lossy(again.body()).contains("one payment takes money once"));
    }
}

#[tokio::test]
async fn alipays_link_leads_a_browser_to_the_page_and_back_with_a_signature() {
    let outside = Outside::new().await;
    let merchant = &outside.merchant;
    let request = PaymentRequest { way: Some(Way::Page), ..merchant.request(ProviderKind::Alipay, 1, 0) };
    let created = merchant.try_create(ProviderKind::Alipay, &request).await.expect("a link");
    let link = created.pay_url.clone().expect("a link");
    let (status, body) = outside.act(&request.number.to_string(), r#"{"action": "pay"}"#).await;
    assert_eq!(status, 404, "{body}");
    let sent_on = outside.gateway.call("GET", outside.path(&link), &[], "").await;
    assert_eq!(sent_on.status(), 302);
    let page = sent_on.headers()["location"].to_str().expect("text").to_owned();
    assert_eq!(outside.gateway.call("GET", outside.path(&page), &[], "").await.status(), 200);
    let (status, payment) = outside.act(&request.number.to_string(), r#"{"action": "pay"}"#).await;
    assert_eq!((status, payment["state"].as_str()), (200, Some("PAID")), "{payment}");
    let back = payment["returnUrl"].as_str().expect("a way back");
    let (_, query) = back.split_once('?').expect("a query");
    merchant.provider(ProviderKind::Alipay).read_return(query).expect("a signed return");
    let text = outside.gateway.call("GET", outside.path(&page), &[], "").await;
    assert!(String::from_utf8_lossy(text.body()).contains("id=\"back\""));
}

#[tokio::test]
async fn a_test_drives_payments_with_json() {
    let outside = Outside::new().await;
    let started = outside.create(ProviderKind::WechatV2).await;
    let number = started.number();
    let (status, payment) = outside.act(&number, r#"{"action": "fail"}"#).await;
    assert_eq!((status, payment["state"].as_str()), (200, Some("NOT_PAID")));
    assert_eq!(payment["notices"][0]["happened"], "failed");
    let (status, payment) = outside.act(&number, r#"{"action": "pay"}"#).await;
    assert_eq!((status, payment["state"].as_str(), payment["number"].as_str()), (200, Some("PAID"), Some(&*number)));
    assert_eq!(outside.merchant.take_notices().await.len(), 2);
    let (status, payment) = outside.act(&number, r#"{"action": "notify-again"}"#).await;
    assert_eq!((status, payment["notices"][1]["tries"].as_u64()), (200, Some(0)));
    assert_eq!(outside.merchant.due().await.len(), 1);

    for (id, body, status, says) in [
        (number.as_str(), r#"{"action": "pay-late"}"#, 409, "one payment takes money once"),
        (&number, r#"{"action": "steal"}"#, 400, "pay, fail, pay-late, notify-again"),
        (&number, r#"{"do": "pay"}"#, 400, r#"send {"action": "pay"}"#),
        (&number, "pay", 400, r#"send {"action": "pay"}"#),
        ("nobody", r#"{"action": "pay"}"#, 404, "there is no payment nobody"),
    ] {
        let (got, answer) = outside.act(id, body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(got == status && message.contains(says), "{id} {body}: {got} {message}");
    }
    let list = |path: &'static str| async { json_of(&outside.gateway.call("GET", path, &[], "").await) };
    let payments = list("/_sandbox/payments").await;
    assert_eq!(payments["payments"][0]["number"], json!(number));
    let money = list("/_sandbox/money").await;
    let entry = &money["money"][0];
    assert_eq!((entry["amount"].as_i64(), entry["provider"].as_str()), (Some(6999), Some("wechat-v2")), "{money}");
    let overview = outside.gateway.call("GET", "/_sandbox", &[], "").await;
    assert!(String::from_utf8_lossy(overview.body()).contains(&number));
}

#[tokio::test]
async fn only_a_buyer_who_looks_opens_a_payment() {
    let outside = Outside::new().await;
    let code = outside.create(ProviderKind::Alipay).await;
    let path = format!("/_sandbox/payments/{}", code.number());
    let seen = outside.gateway.call("GET", &path, &[("accept", "application/json")], "").await;
    assert_eq!(json_of(&seen)["state"], "NOT_PAID");
    assert_eq!(outside.merchant.query(&code).await, Ok(PaymentStatus::Missing));
    outside.gateway.call("GET", &path, &[("accept", "text/html,*/*")], "").await;
    assert_eq!(outside.merchant.query(&code).await, Ok(PaymentStatus::NotPaid));
}

#[tokio::test]
async fn moods_are_set_and_strangers_are_kept_out() {
    let outside = Outside::new().await;
    let feel =
        |provider: &'static str, body: &'static str| outside.gateway.call("POST", provider, &[], body.to_owned());
    assert_eq!(feel("/_sandbox/moods/stripe", r#"{"mood": "down", "calls": 1}"#).await.status(), 200);
    for status in [503, 401] {
        let answer = outside.gateway.call("GET", "/_sandbox/stripe/v1/refunds", &[], "").await;
        assert_eq!(answer.status(), status);
    }
    assert_eq!(feel("/_sandbox/moods/paypal", r#"{"mood": "down"}"#).await.status(), 400);
    assert_eq!(feel("/_sandbox/moods/stripe", r#"{"mood": "angry"}"#).await.status(), 400);
    assert_eq!(feel("/_sandbox/nothing", "{}").await.status(), 404);
    let page = outside.gateway.call("GET", "/_sandbox/payments/%3Cscript%3E", &[], "").await;
    assert_eq!(page.status(), 404);
    for path in ["/_sandbox", "/_sandbox/money", "/_sandbox/stripe/v1/refunds"] {
        let stranger = outside.gateway.call("GET", path, &[("host", "evil.example")], "").await;
        assert_eq!(stranger.status(), 403, "{path}");
    }
}
