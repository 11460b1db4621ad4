//! The deployed handlers of payment-notify, shop and admin, in process and on the driven clock, for the other tests.

use std::sync::{Arc, Mutex};

use ::payments::sandbox::{Happened, Keys, Payment, Sandbox, State};
use ::payments::{HttpCall, Nonce, ProviderKind};
use domain::Timestamp;
use domain::ids::{Offer, OrderId};
use edge::{Body, Request};
use local_cloud::template::ReadOptions;
use sandbox::is_accepted;
use serde_json::Value;
use store::{Names, Store};
use telemetry::Sink;
use testkit::lambda_request::{Answer, request};
use testkit::world::{SALT, World, function};

/// The handlers and the metrics that they wrote.
pub(crate) struct Handlers {
    notify: payment_notify::App,
    shop: shop::App,
    admin: admin::App,
    lines: Arc<Mutex<Vec<Value>>>,
}

impl Handlers {
    pub(crate) fn of(world: &World) -> Self {
        Self::with(world, world.names().clone())
    }

    /// With other table and queue names than the template's.
    pub(crate) fn with(world: &World, names: Names) -> Self {
        let store = Store::new(&world.wire.sdk_config(), names);
        let clock = world.clock.clone();
        let clock = Arc::new(move || Timestamp::from_millisecond(clock.now_ms()).unwrap());
        let lines: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = lines.clone();
        let sink = Sink::to(move |line| kept.lock().unwrap().push(serde_json::from_str(line).unwrap()));
        let url = Some("https://shop.example".to_owned());
        let mut notify = payment_notify::App::new(store.clone(), world.providers.clone(), clock.clone());
        let mut shop = shop::App::new(store.clone(), world.providers.clone(), SALT, url, clock.clone());
        let admin = admin::App::new(store, SALT, clock, Arc::new(|| 7));
        (notify.metrics, shop.metrics) = (sink.clone(), sink);
        Self { notify, shop, admin, lines }
    }

    /// The sum of a metric, optionally for one value of a dimension.
    pub(crate) fn metric(&self, name: &str, of: Option<(&str, &str)>) -> u64 {
        let lines = self.lines.lock().unwrap();
        let fits = |line: &&Value| of.is_none_or(|(dimension, value)| line[dimension] == value);
        lines.iter().filter(fits).filter_map(|line| line[name].as_u64()).sum()
    }

    /// Whether a metric was written at all.
    pub(crate) fn measured(&self, name: &str) -> bool {
        self.lines.lock().unwrap().iter().any(|line| !line[name].is_null())
    }

    /// A provider, or an impostor, sends a notice.
    pub(crate) async fn notify(&self, kind: ProviderKind, call: &HttpCall) -> Answer {
        self.notify_as(kind.as_str(), call).await
    }

    pub(crate) async fn notify_as(&self, provider: &str, call: &HttpCall) -> Answer {
        let mut request = hyper::Request::post(format!("https://shop.example/payments/{provider}/notify"));
        for (name, value) in call.headers.iter() {
            request = request.header(name, value);
        }
        let request: Request = request.body(Body::Binary(call.body.clone())).unwrap();
        Answer::of(payment_notify::handle(&self.notify, request).await)
    }

    /// Delivers the sandbox's notices that are due. Returns the answers.
    pub(crate) async fn deliver_notices(&self, world: &World) -> Vec<Answer> {
        let mut answers = Vec::new();
        for due in world.cloud.sandbox.due_notices().await.unwrap() {
            let answer = self.notify(due.kind, &due.call).await;
            let accepted = is_accepted(due.kind, answer.status, answer.text.as_bytes());
            world.cloud.sandbox.delivered(due.id, accepted).await.unwrap();
            answers.push(answer);
        }
        answers
    }

    /// A request to shop, with the buyer's token if there is a buyer.
    pub(crate) async fn request(&self, buyer: Option<&str>, method: &str, path: &str, body: Option<Value>) -> Answer {
        Answer::of(shop::handle(&self.shop, request(buyer, "", method, path, &[], body)).await)
    }

    /// A GET request to shop without a token and with one header.
    pub(crate) async fn get_with_header(&self, path: &str, header: (&str, &str)) -> Answer {
        Answer::of(shop::handle(&self.shop, request(None, "", "GET", path, &[header], None)).await)
    }

    /// A request to admin by somebody with a scope.
    pub(crate) async fn admin_request(
        &self,
        who: &str,
        scope: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Answer {
        Answer::of(admin::handle(&self.admin, request(Some(who), scope, method, path, &[], body)).await)
    }

    /// An operator's request to admin.
    pub(crate) async fn operator_request(&self, path: &str, headers: &[(&str, &str)], body: Value) -> Answer {
        let request = request(Some("operator"), "seckill/admin", "POST", path, headers, Some(body));
        Answer::of(admin::handle(&self.admin, request).await)
    }
}

/// A world with a sale of five units, in which Ann has an order that waits for its payment.
pub(crate) async fn unpaid_order_of_ann() -> (World, Offer, Handlers, OrderId) {
    let world = World::new().await;
    let offer = world.sale(5, 1).await;
    let handlers = Handlers::of(&world);
    let order = world.unpaid_order(&offer, "ann").await;
    (world, offer, handlers, order)
}

/// A notice with a valid signature: all in-memory sandboxes use the same keys.
pub(crate) fn signed(world: &World, kind: ProviderKind, payment: &Payment, happened: Happened) -> HttpCall {
    let keys: Keys = serde_json::from_str(include_str!("../../infra/sandbox/src/in_memory_keys.json")).unwrap();
    let sandbox = Sandbox::new(&keys).unwrap();
    sandbox.notice(kind, payment, happened, world.now(), &Nonce::new([3; 16])).unwrap()
}

/// A paid payment with this number, as the provider records it.
pub(crate) fn payment(world: &World, kind: ProviderKind, number: &str) -> Payment {
    Payment {
        id: "cs_test_1".into(),
        transaction: if kind == ProviderKind::Stripe { "pi_1" } else { "420000000120261111000000001" }.into(),
        number: number.into(),
        order_type: "2".into(),
        title: "Phone".into(),
        amount: 69_900,
        currency: "CNY".into(),
        notify_url: format!("https://shop.example/payments/{kind}/notify"),
        return_url: String::new(),
        state: State::Paid,
        paid_at: Some(world.now()),
        refunded: 0,
    }
}

/// The ARN of the payment secret in the template.
pub(crate) fn payment_secret() -> String {
    function("payment-notify").environment["PAYMENT_SECRET_ARN"].clone()
}

/// A buyer is known by the salt of the data, which may come from another stack. Each function that needs the salt may
/// read it, and does so once.
#[tokio::test]
async fn the_salt_of_buyers_is_a_secret_and_not_the_stacks() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../template.yaml");
    let arns = |arn: Option<&str>| {
        let parameters = arn.map(|arn| ("BuyerSaltArn".to_owned(), arn.to_owned())).into_iter().collect();
        let stack =
            local_cloud::template::read_with(&path, &ReadOptions { parameters, ..ReadOptions::default() }).unwrap();
        ["seckill", "shop", "admin"].map(|binary| {
            let function = stack.functions.iter().find(|function| function.binary == binary).unwrap();
            function.environment["BUYER_SALT_ARN"].clone()
        })
    };
    let mine = "arn:aws:secretsmanager:eu-west-1:1:secret:salt-AbCdEf";
    assert_eq!(arns(Some(mine)), [mine; 3]);

    let world = World::new().await;
    let mut keys = std::collections::BTreeSet::new();
    for binary in ["seckill", "shop", "admin"] {
        let variables = |name: &str| function(binary).environment.get(name).cloned();
        let environment =
            runtime::Environment::new(variables, world.config_of(binary), telemetry::Sink::stdout()).unwrap();
        let (salt, buyer) = (environment.salt().unwrap(), domain::ids::Buyer::parse("ann").unwrap());
        assert_eq!(salt.key_of(&buyer), None, "not without the salt");
        world.wire.forget_calls();
        for _ in 0..2 {
            salt.read().await.unwrap();
        }
        assert_eq!(world.cost().0, ["GetSecretValue"], "one call when a function starts");
        keys.insert(salt.key_of(&buyer).unwrap());
    }
    assert_eq!(keys.len(), 1, "all functions have the same salt");
}
