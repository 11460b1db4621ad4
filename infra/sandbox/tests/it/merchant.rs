//! A merchant: the payments crate as a shop uses it, over the wire to the sandbox.

use std::time::Duration;

use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use domain::ids::{OrderId, PaymentNumber};
use domain::money::Currency;
use jiff::{SignedDuration, Timestamp};
use local_cloud::clock::Clock;
use local_cloud::wire::Wire;
use payments::{
    Created, HttpAnswer, HttpCall, Nonce, Notice, PaymentRef, PaymentRequest, PaymentStatus, Provider,
    ProviderCloseAnswer, ProviderError, ProviderKind, RefundNumber, RefundRequest, Refunding, Start, Way,
};
use sandbox::{CloudWithSandbox, DueNotice, IN_PROCESS_URL, is_accepted};
use serde_json::Value;

/// A moment for driven clocks to start at: 2026-11-16T12:00:00Z.
pub(crate) const START_MS: i64 = 1_794_830_400_000;

pub(crate) const AMOUNT: i64 = 6999;

pub(crate) struct Merchant {
    pub(crate) cloud: CloudWithSandbox,
    pub(crate) wire: Wire,
    settings: Value,
}

/// A payment that was started, and all that the merchant knows of it.
#[derive(Clone, Debug)]
pub(crate) struct Started {
    pub(crate) kind: ProviderKind,
    pub(crate) request: PaymentRequest,
    pub(crate) created: Created,
}

impl Started {
    pub(crate) fn number(&self) -> String {
        self.request.number.to_string()
    }

    pub(crate) fn reference(&self) -> PaymentRef {
        PaymentRef { number: self.request.number.clone(), payment: self.created.payment.clone(), transaction: None }
    }

    /// The link or the content of the QR code.
    pub(crate) fn link(&self) -> &str {
        self.created.pay_url.as_deref().or(self.created.qr_code.as_deref()).expect("a link or a code")
    }
}

impl Merchant {
    pub(crate) async fn new() -> Self {
        Self::of(driven()).await
    }

    pub(crate) async fn of(cloud: CloudWithSandbox) -> Self {
        let wire = Wire::new(cloud.clone());
        Self::over(wire).await
    }

    pub(crate) async fn over(wire: Wire) -> Self {
        Self::at(wire, IN_PROCESS_URL).await
    }

    /// A merchant whose settings say that the sandbox is at this address.
    pub(crate) async fn at(wire: Wire, base_url: &str) -> Self {
        let cloud = CloudWithSandbox::of(wire.cloud().clone()).expect("a sandbox");
        let settings = cloud.sandbox.settings(base_url).await.expect("settings");
        Self { cloud, wire, settings: serde_json::from_str(&settings).expect("JSON") }
    }

    pub(crate) fn provider(&self, kind: ProviderKind) -> Box<Provider> {
        Provider::from_json(kind, &self.settings[kind.as_str()].to_string()).expect("a provider's settings")
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.cloud.clock.now_ms()).expect("a time")
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.cloud.clock.advance(time);
    }

    /// A request for a payment of the order with this number, to be paid within 15 minutes.
    pub(crate) fn request(&self, kind: ProviderKind, order: u8, attempt: u8) -> PaymentRequest {
        let order = OrderId::parse(format!("01K9PZ0000ABCDEFGHJKMNPQRS000{order:02}")).expect("an order's id");
        let start = Timestamp::from_millisecond(START_MS).expect("a time");
        PaymentRequest {
            number: PaymentNumber::new(order, attempt).expect("a number"),
            title: "手机".to_owned(),
            amount: AMOUNT,
            currency: currency(kind),
            expires_at: start + SignedDuration::from_mins(15),
            notify_url: format!("http://shop.example/payments/{kind}/notify"),
            return_url: format!("http://shop.example/payments/{kind}/return"),
            client_ip: "203.0.113.7".to_owned(),
            way: (kind == ProviderKind::Alipay).then_some(Way::Qr),
            shop_data: Default::default(),
        }
    }

    /// Sends a call over the wire.
    pub(crate) async fn send(&self, call: &HttpCall) -> Result<HttpAnswer, String> {
        let mut request = http::Request::builder().method(call.method.as_str()).uri(&call.url);
        for (name, value) in call.headers.iter() {
            request = request.header(name, value);
        }
        let request = request.body(SdkBody::from(call.body.clone())).expect("a request");
        let request = HttpRequest::try_from(request).expect("a request");
        let answer = self.wire.call(request).await.map_err(|error| error.to_string())?;
        Ok(HttpAnswer {
            status: answer.status().as_u16(),
            headers: answer.headers().iter().collect(),
            body: answer.body().bytes().expect("a body").to_vec(),
        })
    }

    async fn answered(&self, call: &HttpCall) -> Result<HttpAnswer, ProviderError> {
        self.send(call).await.map_err(ProviderError::Unavailable)
    }

    pub(crate) async fn try_create(
        &self,
        kind: ProviderKind,
        request: &PaymentRequest,
    ) -> Result<Created, ProviderError> {
        let provider = self.provider(kind);
        match provider.create(request, self.now(), &nonce())? {
            Start::Ready(created) => Ok(created),
            Start::Call(call) => provider.interpret_create(&self.answered(&call).await?, self.now()),
        }
    }

    /// Starts the first payment of the first order.
    pub(crate) async fn create(&self, kind: ProviderKind) -> Started {
        self.create_for(kind, 1).await
    }

    pub(crate) async fn create_for(&self, kind: ProviderKind, order: u8) -> Started {
        let request = self.request(kind, order, 0);
        let created = self.try_create(kind, &request).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        Started { kind, request, created }
    }

    pub(crate) async fn query(&self, started: &Started) -> Result<PaymentStatus, ProviderError> {
        let (provider, reference) = (self.provider(started.kind), started.reference());
        let call = provider.query(&reference, self.now(), &nonce())?;
        provider.interpret_query(&reference, &self.answered(&call).await?, self.now())
    }

    pub(crate) async fn close(&self, started: &Started) -> Result<ProviderCloseAnswer, ProviderError> {
        let (provider, reference) = (self.provider(started.kind), started.reference());
        let call = provider.close(&reference, self.now(), &nonce())?;
        provider.interpret_close(&reference, &self.answered(&call).await?, self.now())
    }

    /// A refund of a payment by its transaction.
    pub(crate) fn refund_request(&self, started: &Started, transaction: &str, number: &str) -> RefundRequest {
        RefundRequest {
            number: started.request.number.clone(),
            transaction: transaction.to_owned(),
            refund: RefundNumber::parse(number).expect("a number"),
            attempt: 0,
            amount: AMOUNT,
            total: AMOUNT,
            currency: currency(started.kind),
            reason: "sold out".to_owned(),
            notify_url: Some(started.request.notify_url.clone()),
        }
    }

    pub(crate) async fn refund(&self, kind: ProviderKind, refund: &RefundRequest) -> Result<Refunding, ProviderError> {
        let provider = self.provider(kind);
        let call = provider.refund(refund, self.now(), &nonce())?;
        provider.interpret_refund(refund, &self.answered(&call).await?, self.now())
    }

    pub(crate) async fn query_refund(
        &self,
        kind: ProviderKind,
        refund: &RefundRequest,
    ) -> Result<Refunding, ProviderError> {
        let provider = self.provider(kind);
        let call = provider.query_refund(refund, self.now(), &nonce())?;
        provider.interpret_query_refund(refund, &self.answered(&call).await?, self.now())
    }

    pub(crate) async fn due(&self) -> Vec<DueNotice> {
        self.cloud.sandbox.due_notices().await.expect("due notices")
    }

    /// What a notice says, verified.
    pub(crate) fn read(&self, due: &DueNotice) -> Notice {
        let provider = self.provider(due.kind);
        provider.notice(&due.call.headers, &due.call.body, self.now()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Takes every notice that is due: verifies it and answers success.
    pub(crate) async fn take_notices(&self) -> Vec<Notice> {
        let mut taken = Vec::new();
        for due in self.due().await {
            taken.push(self.read(&due));
            let answer = self.provider(due.kind).success_answer();
            assert!(is_accepted(due.kind, answer.status, &answer.body), "{}", due.kind);
            self.cloud.sandbox.delivered(due.id, true).await.expect("a delivery");
        }
        taken
    }
}

/// Engines and the sandbox, in memory and on a driven clock.
pub(crate) fn driven() -> CloudWithSandbox {
    CloudWithSandbox::in_memory(Clock::driven(START_MS)).expect("engines in memory")
}

pub(crate) fn currency(kind: ProviderKind) -> Currency {
    Currency::parse(if kind == ProviderKind::Stripe { "USD" } else { "CNY" }).expect("a currency")
}

fn nonce() -> Nonce {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("randomness");
    Nonce::new(bytes)
}
