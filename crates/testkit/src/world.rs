//! A world for tests: in-process engines, a sale, buyers, and the deliveries that AWS would make. A test calls
//! [`World::consume`], [`World::stream`], [`World::deadlines`] and [`World::reconcile`] when it wants messages,
//! stream records, deadlines or a repair to happen.

use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::http::SharedHttpConnector;
use domain::Timestamp;
use domain::bucket::Bucket;
use domain::ids::{Buyer, BuyerKey, IdempotencyKey, Offer, OrderId};
use domain::message::{DeadlineInput, OrderMessage};
use domain::money::Currency;
use domain::sale::{Item, SaleWithItems};
use flows::Context;
use flows::buy::place_order::place_order;
use flows::buy::purchase::{Accepted, Purchase, Refusal, Seckill};
use flows::pay::close::{Cause, close};
use flows::sale::sales::Sales;
use flows::sale::set_up::SaleForm;
use flows::sale::stock_moved::{StockChange, stock_moved};
use local_cloud::clock::Clock;
use local_cloud::engine::Cloud;
use local_cloud::engine::dynamodb::SequenceNumber;
use local_cloud::engine::sqs::Receive;
use local_cloud::template::model::Stack;
use local_cloud::template::{self, ReadOptions};
use local_cloud::wire::{Call, Fault, Wire};
use providers::Providers;
use sandbox::CloudWithSandbox;
use store::{Names, Store};

use crate::{permissions, second_engine};

/// When the tests' sales start: 11 November 2026, 00:00 in China.
pub const START_MS: i64 = 1_794_326_400_000;
pub const SALT: &str = "salt";

/// The product's template, read.
pub static STACK: LazyLock<Stack> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../template.yaml");
    // Named as `make run` names it, so that tools can look into the tables of a running system.
    let options = ReadOptions { stack_name: seckill_local::STACK_NAME.to_owned(), ..ReadOptions::default() };
    template::read_with(&path, &options).unwrap_or_else(|error| panic!("{error}"))
});

/// Decides which fault each call meets.
pub type Faults = Arc<dyn Fn(&Call) -> Fault + Send + Sync>;

pub struct World {
    pub cloud: CloudWithSandbox,
    pub clock: Clock,
    pub wire: Wire,
    pub store: Store,
    pub providers: Providers,
    faults: Arc<Mutex<Option<Faults>>>,
    names: Names,
    position: Mutex<Option<SequenceNumber>>,
    random: Mutex<u32>,
    _used: permissions::Keeper,
}

impl World {
    /// Empty tables, an hour before the sale.
    pub async fn new() -> Self {
        Self::on(engines(&Clock::driven(START_MS - 3_600_000)).await)
    }

    /// A world on existing engines.
    pub fn on(cloud: impl Into<Cloud>) -> Self {
        let cloud = CloudWithSandbox::of(cloud.into()).expect("engines with the sandbox");
        let clock = cloud.clock.clone();
        let faults: Arc<Mutex<Option<Faults>>> = Arc::default();
        let decide = faults.clone();
        let wire = Wire::new(cloud.clone()).with_faults(move |call| {
            let faults = decide.lock().unwrap().clone();
            faults.map_or(Fault::None, |faults| faults(call))
        });
        let store = Store::new(&wire.sdk_config(), names());
        let providers = providers(&wire.sdk_config(), &wire);
        Self {
            cloud,
            clock,
            wire,
            store,
            providers,
            faults,
            names: names(),
            position: Mutex::default(),
            random: Mutex::new(1),
            _used: permissions::Keeper,
        }
    }

    /// What a flow needs, now.
    pub fn context(&self) -> Context<'_> {
        self.context_at(self.now())
    }

    pub fn context_at(&self, now: Timestamp) -> Context<'_> {
        Context::new(&self.store, &self.providers, now)
    }

    /// The store with the permissions of a function, and no others.
    pub fn store_of(&self, binary: &str) -> Store {
        Store::new(&self.config_of(binary), self.names.clone())
    }

    /// The providers with the permissions of a function.
    pub fn providers_of(&self, binary: &str) -> Providers {
        providers(&self.config_of(binary), &self.wire)
    }

    /// How a function calls AWS.
    pub fn config_of(&self, binary: &str) -> SdkConfig {
        self.wire.of_function(&permissions::POLICIES, &name_of(binary)).sdk_config()
    }

    /// A world on the same engines over another wire.
    pub fn over(wire: Wire, store: Store) -> Self {
        let world = Self::on(wire.cloud().clone());
        let providers = providers(&wire.sdk_config(), &wire);
        Self { wire, store, providers, ..world }
    }

    /// The same world, in which pages of open buckets have so many copies.
    pub fn with_page_copies(mut self, copies: u32) -> Self {
        self.names.page_copies = copies;
        self.store = Store::new(&self.wire.sdk_config(), self.names.clone());
        self
    }

    /// From now on `faults` decides which fault each call meets.
    pub fn fault(&self, faults: impl Fn(&Call) -> Fault + Send + Sync + 'static) {
        *self.faults.lock().unwrap() = Some(Arc::new(faults));
    }

    /// From now on no call fails.
    pub fn clear_faults(&self) {
        *self.faults.lock().unwrap() = None;
    }

    pub fn names(&self) -> &Names {
        &self.names
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.clock.now_ms()).unwrap()
    }

    pub fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// A preheated sale of one item that has just started.
    pub async fn sale(&self, stock: u32, limit: u32) -> Offer {
        let offer = self.preheated(stock, limit).await;
        self.clock.advance(Duration::from_millis(u64::try_from((START_MS - self.clock.now_ms()).max(0)).unwrap()));
        offer
    }

    /// The same, lasting a month.
    pub async fn long_sale(&self, stock: u32) -> Offer {
        let mut form = form(stock, 1);
        form.ends_at = form.starts_at.saturating_add(jiff::SignedDuration::from_hours(24 * 30)).unwrap();
        let offer = self.preheated_of(form).await;
        self.clock.advance(Duration::from_millis(u64::try_from((START_MS - self.clock.now_ms()).max(0)).unwrap()));
        offer
    }

    /// The same, with an item that `change` has edited.
    pub async fn sale_of(&self, stock: u32, change: impl Fn(&mut Item)) -> Offer {
        let mut form = form(stock, 1);
        form.items.iter_mut().for_each(change);
        let offer = self.preheated_of(form).await;
        self.clock.advance(Duration::from_millis(u64::try_from((START_MS - self.clock.now_ms()).max(0)).unwrap()));
        offer
    }

    /// A preheated sale of one item that has not started yet.
    pub async fn preheated(&self, stock: u32, limit: u32) -> Offer {
        self.preheated_of(form(stock, limit)).await
    }

    async fn preheated_of(&self, form: SaleForm) -> Offer {
        let offer = Offer { sale: "sale".parse().unwrap(), item: "phone".parse().unwrap() };
        flows::sale::set_up::create(&self.store, offer.sale.clone(), form, self.now()).await.unwrap();
        self.preheat(&offer).await;
        self.stream().await;
        offer
    }

    pub async fn preheat(&self, offer: &Offer) -> SaleWithItems {
        flows::sale::stock::preheat(&self.store, &offer.sale, self.now(), far()).await.unwrap()
    }

    pub async fn restock(&self, offer: &Offer, quantity: u32, key: Option<&str>) -> Item {
        // As `admin` does: a restock without a key gets one.
        let made = format!("restock-{}", self.asks(offer, "operator", 1, None).random);
        let key = IdempotencyKey::parse(key.unwrap_or(&made)).unwrap();
        flows::sale::stock::restock(&self.store, offer, quantity, &key, far()).await.unwrap()
    }

    /// A `seckill` function that has just started, with empty caches.
    pub fn environment(&self) -> Seckill {
        Seckill::new(self.store_of("seckill"))
    }

    /// A purchase request of a buyer, made now.
    pub fn asks(&self, offer: &Offer, buyer: &str, quantity: u32, key: Option<&str>) -> Purchase {
        let mut random = self.random.lock().unwrap();
        *random = random.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let buyer = Buyer::parse(buyer).unwrap();
        Purchase {
            offer: offer.clone(),
            buyer_key: BuyerKey::of(&buyer, SALT),
            buyer,
            quantity,
            key: key.map(|key| IdempotencyKey::parse(key).unwrap()),
            seen_version: None,
            shop_data: Default::default(),
            now: self.now(),
            random: *random >> 2,
            trace: None,
        }
    }

    /// A buyer presses the button, and the request reaches a function that has just started.
    pub async fn press(&self, offer: &Offer, buyer: &str) -> Result<Accepted, Refusal> {
        self.environment().purchase(&self.asks(offer, buyer, 1, None)).await
    }

    /// A buyer presses the button and is accepted.
    pub async fn buys(&self, offer: &Offer, buyer: &str) -> OrderId {
        self.press(offer, buyer).await.unwrap().order
    }

    /// Works off the orders queue as order-consumer does. Returns how many messages were handled.
    pub async fn consume(&self) -> usize {
        let queue = self.names.orders_queue_url.clone();
        let name = local_cloud::engine::sqs::Sqs::name_of(&queue).to_owned();
        let (store, sales) = (self.store_of("order-consumer"), Sales::default());
        let mut handled = 0;
        loop {
            let batch = self.cloud.sqs.receive(&name, Receive { max: 10, ..Receive::default() }).await.unwrap();
            if batch.is_empty() {
                return handled;
            }
            for message in batch {
                let order: OrderMessage = serde_json::from_str(&message.body).unwrap();
                if place_order(&store, &sales, &order, self.now()).await.is_ok() {
                    self.cloud.sqs.delete(&name, &message.receipt_handle).await.unwrap();
                    handled += 1;
                }
            }
        }
    }

    /// Says how far another reader has already read the stock's stream.
    pub fn set_stream_position(&self, position: Option<SequenceNumber>) {
        *self.position.lock().unwrap() = position;
    }

    /// Reads the stock's stream to its end, as `availability` does. Returns how many records were handled.
    pub async fn stream(&self) -> usize {
        let store = self.store_of("availability");
        let mut handled = 0;
        loop {
            let after = self.position.lock().unwrap().clone();
            let records = self.cloud.dynamodb.stream_records(&self.names.stock, after.as_ref(), 200).await.unwrap();
            let Some(last) = records.last() else { return handled };
            let last = last.sequence_number.clone();
            let changes: Vec<StockChange> = records.iter().map(|record| stock_change(&record.event())).collect();
            handled += changes.len();
            stock_moved(&store, changes).await.unwrap();
            *self.position.lock().unwrap() = Some(last);
        }
    }

    /// Handles the deadlines that are due, as timeout-check does. Returns how many were handled.
    pub async fn deadlines(&self) -> usize {
        let (store, providers) = (self.store_of("timeout-check"), self.providers_of("timeout-check"));
        let mut handled = 0;
        for firing in self.cloud.scheduler.due(self.clock.now_ms()).await.unwrap() {
            let Ok(input) = serde_json::from_str::<DeadlineInput>(firing.target.input.as_deref().unwrap_or("")) else {
                continue;
            };
            if close(Context::new(&store, &providers, self.now()), &input.order_id, Cause::Deadline).await.is_ok() {
                self.cloud.scheduler.fired(&firing).await.unwrap();
                handled += 1;
            } else {
                self.cloud.scheduler.put_back(&firing);
            }
        }
        handled
    }

    /// Delivers all messages, due deadlines and stream records until none is left.
    pub async fn settle_down(&self) {
        while self.consume().await + self.deadlines().await + self.stream().await > 0 {}
    }

    pub async fn reconcile(&self) -> flows::repair::Report {
        let (store, providers) = (self.store_of("reconcile"), self.providers_of("reconcile"));
        flows::repair::reconcile(Context::new(&store, &providers, self.now())).await
    }
}

/// Engines with the template's empty tables and queues.
pub async fn engines(clock: &Clock) -> Cloud {
    let cloud = Cloud::from(CloudWithSandbox::in_memory(clock.clone()).unwrap());
    cloud.provision(&STACK).await.unwrap();
    match second_engine::beside(&STACK) {
        None => cloud,
        Some(hear) => cloud.with_witness(hear),
    }
}

/// The names of the template's tables and queues. order-consumer's environment has all that any function has.
pub fn names() -> Names {
    Names::from_env(|name| function("order-consumer").environment.get(name).cloned()).unwrap()
}

/// The sandbox's providers over a wire, without any cached settings.
pub fn providers(config: &SdkConfig, wire: &Wire) -> Providers {
    let made = std::sync::atomic::AtomicU64::new(0);
    let random = move || {
        let number = made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        u128::from(number).to_be_bytes()
    };
    let secret = function("shop").environment.get("PAYMENT_SECRET_ARN").cloned();
    Providers::new(config, secret, SharedHttpConnector::new(wire.clone()), Arc::new(random))
}

/// A function of the template, by the name of its binary.
pub fn function(binary: &str) -> &'static local_cloud::template::model::Function {
    STACK.functions.iter().find(|function| function.binary == binary).unwrap()
}

/// A time limit that no test reaches.
pub fn far() -> Instant {
    Instant::now() + Duration::from_secs(600)
}

/// A sale of one item that lasts an hour.
pub fn form(stock: u32, limit: u32) -> SaleForm {
    let at = |ms| Timestamp::from_millisecond(ms).unwrap();
    SaleForm {
        name: "11.11".into(),
        starts_at: at(START_MS),
        ends_at: at(START_MS + 3_600_000),
        payment_window_s: 900,
        buyer_cooldown_ms: 0,
        item_rate_per_second: None,
        refunds_until: None,
        items: vec![Item {
            id: "phone".parse().unwrap(),
            name: "Phone".into(),
            price: 69_900,
            original_price: 99_900,
            currency: Currency::parse("CNY").unwrap(),
            stock,
            limit_per_buyer: limit,
            points_price: None,
            layout: Default::default(),
            laid_out: 0,
        }],
    }
}

/// The name under which the template deploys a function.
pub fn name_of(binary: &str) -> String {
    function(binary).name.clone()
}

/// A function's timeout in the template.
pub fn timeout_of(binary: &str) -> Duration {
    function(binary).timeout
}

/// The change of a bucket that a stream record describes.
pub fn stock_change(record: &serde_json::Value) -> StockChange {
    let image = |name: &str| -> Option<Bucket> {
        let image = record["dynamodb"].get(name)?;
        let row: std::collections::HashMap<String, serde_dynamo::AttributeValue> =
            serde_json::from_value(image.clone()).unwrap();
        Some(serde_dynamo::from_item(row).unwrap())
    };
    let key = record["dynamodb"]["Keys"]["bucket"]["S"].as_str().unwrap();
    let (offer, bucket) = domain::bucket::parse_bucket_key(key).unwrap();
    let at = record["dynamodb"]["ApproximateCreationDateTime"].as_f64().unwrap();
    StockChange {
        change: domain::availability::Change { offer, bucket, old: image("OldImage"), new: image("NewImage").unwrap() },
        at: Timestamp::from_millisecond((at * 1_000.0) as i64).unwrap(),
        sequence: record["dynamodb"]["SequenceNumber"].as_str().unwrap().to_owned(),
    }
}
