//! The running functions: the deployed handlers, each with its own memory and clock.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use domain::Timestamp;
use local_cloud::clock::Clock;
use local_cloud::wire::Wire;
use providers::Providers;
use store::Store;
use telemetry::Sink;
use testkit::permissions::POLICIES;
use testkit::world::{SALT, World, name_of, providers, timeout_of};

use crate::coverage::Coverage;
use crate::rng::Rng;

/// How many environments of each function are running. A request may reach any of them.
pub const ENVIRONMENTS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    Seckill,
    OrderConsumer,
    PaymentNotify,
    TimeoutCheck,
    Shop,
    Admin,
    Availability,
    Reconcile,
}

impl Function {
    pub const ALL: [Self; 8] = [
        Self::Seckill,
        Self::OrderConsumer,
        Self::PaymentNotify,
        Self::TimeoutCheck,
        Self::Shop,
        Self::Admin,
        Self::Availability,
        Self::Reconcile,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Seckill => "seckill",
            Self::OrderConsumer => "order-consumer",
            Self::PaymentNotify => "payment-notify",
            Self::TimeoutCheck => "timeout-check",
            Self::Shop => "shop",
            Self::Admin => "admin",
            Self::Availability => "availability",
            Self::Reconcile => "reconcile",
        }
    }

    pub fn timeout(self) -> Duration {
        timeout_of(self.name())
    }
}

/// A running function and its number.
pub type Environment = (Function, usize);

pub struct Functions {
    clock: Clock,
    wire: Wire,
    /// The SDK configuration of each function, with its own permissions.
    configs: Vec<SdkConfig>,
    stores: Vec<Store>,
    coverage: Arc<Mutex<Coverage>>,
    /// How far each environment's clock is off, in milliseconds.
    skews: Vec<i64>,
    /// The random bits that a function gets next.
    random: Arc<AtomicU32>,
    seckill: Vec<Rc<seckill::App>>,
    consumer: Vec<Rc<order_consumer::App>>,
    notify: Vec<Rc<payment_notify::App>>,
    shop: Vec<Rc<shop::App>>,
    timeout_check: Vec<Rc<timeout_check::App>>,
    reconcile: Vec<Rc<reconcile::App>>,
}

impl Functions {
    pub fn new(
        observer: &World,
        wire: Wire,
        coverage: Arc<Mutex<Coverage>>,
        clock_skew_ms: u64,
        rng: &mut Rng,
    ) -> Self {
        let skew = |rng: &mut Rng| rng.below(clock_skew_ms as usize + 1) as i64 - clock_skew_ms as i64 / 2;
        let skews = (0..Function::ALL.len() * ENVIRONMENTS).map(|_| skew(rng)).collect();
        let configs: Vec<SdkConfig> = Function::ALL.iter().map(|function| config_of(&wire, *function)).collect();
        let mut functions = Self {
            clock: observer.clock.clone(),
            wire,
            stores: configs.iter().map(|config| Store::new(config, observer.names().clone())).collect(),
            configs,
            coverage,
            skews,
            random: Arc::default(),
            seckill: Vec::new(),
            consumer: Vec::new(),
            notify: Vec::new(),
            shop: Vec::new(),
            timeout_check: Vec::new(),
            reconcile: Vec::new(),
        };
        for number in 0..ENVIRONMENTS {
            functions.seckill.push(Rc::new(functions.new_seckill(number)));
            functions.consumer.push(Rc::new(functions.new_consumer(number)));
            functions.notify.push(Rc::new(functions.new_notify(number)));
            functions.shop.push(Rc::new(functions.new_shop(number)));
            functions.timeout_check.push(Rc::new(functions.new_timeout_check(number)));
            functions.reconcile.push(Rc::new(functions.new_reconcile(number)));
        }
        functions
    }

    /// Replaces a crashed environment by one with empty memory.
    pub fn restart(&mut self, (function, number): Environment) {
        match function {
            Function::Seckill => self.seckill[number] = Rc::new(self.new_seckill(number)),
            Function::OrderConsumer => self.consumer[number] = Rc::new(self.new_consumer(number)),
            Function::PaymentNotify => self.notify[number] = Rc::new(self.new_notify(number)),
            Function::Shop => self.shop[number] = Rc::new(self.new_shop(number)),
            Function::TimeoutCheck => self.timeout_check[number] = Rc::new(self.new_timeout_check(number)),
            Function::Reconcile => self.reconcile[number] = Rc::new(self.new_reconcile(number)),
            // These keep nothing in memory.
            Function::Admin | Function::Availability => {}
        }
    }

    pub fn set_random(&self, random: u64) {
        self.random.store((random >> 34) as u32, Ordering::Relaxed);
    }

    pub fn seckill(&self, number: usize) -> Rc<seckill::App> {
        self.seckill[number].clone()
    }

    pub fn consumer(&self, number: usize) -> Rc<order_consumer::App> {
        self.consumer[number].clone()
    }

    pub fn notify(&self, number: usize) -> Rc<payment_notify::App> {
        self.notify[number].clone()
    }

    pub fn shop(&self, number: usize) -> Rc<shop::App> {
        self.shop[number].clone()
    }

    pub fn timeout_check(&self, number: usize) -> Rc<timeout_check::App> {
        self.timeout_check[number].clone()
    }

    pub fn reconcile(&self, number: usize) -> Rc<reconcile::App> {
        self.reconcile[number].clone()
    }

    pub fn admin(&self, number: usize) -> admin::App {
        admin::App::new(self.store(Function::Admin), SALT, self.clock_of((Function::Admin, number)), self.random())
    }

    pub fn availability(&self) -> availability::App {
        availability::App::new(self.store(Function::Availability))
    }

    fn new_seckill(&self, number: usize) -> seckill::App {
        let clock = self.clock_of((Function::Seckill, number));
        let app = seckill::App::new(self.store(Function::Seckill), SALT, clock, self.random());
        seckill::App { metrics: self.sink(), ..app }
    }

    fn new_consumer(&self, number: usize) -> order_consumer::App {
        let app = order_consumer::App::new(
            self.store(Function::OrderConsumer),
            self.clock_of((Function::OrderConsumer, number)),
        );
        order_consumer::App { metrics: self.sink(), ..app }
    }

    fn new_notify(&self, number: usize) -> payment_notify::App {
        let clock = self.clock_of((Function::PaymentNotify, number));
        let app = payment_notify::App::new(
            self.store(Function::PaymentNotify),
            self.providers(Function::PaymentNotify),
            clock,
        );
        payment_notify::App { metrics: self.sink(), ..app }
    }

    fn new_shop(&self, number: usize) -> shop::App {
        let clock = self.clock_of((Function::Shop, number));
        let url = Some("https://shop.example".to_owned());
        let app = shop::App::new(self.store(Function::Shop), self.providers(Function::Shop), SALT, url, clock);
        shop::App { metrics: self.sink(), ..app }
    }

    fn new_timeout_check(&self, number: usize) -> timeout_check::App {
        let clock = self.clock_of((Function::TimeoutCheck, number));
        let app =
            timeout_check::App::new(self.store(Function::TimeoutCheck), self.providers(Function::TimeoutCheck), clock);
        timeout_check::App { metrics: self.sink(), ..app }
    }

    fn new_reconcile(&self, number: usize) -> reconcile::App {
        let clock = self.clock_of((Function::Reconcile, number));
        let app = reconcile::App::new(self.store(Function::Reconcile), self.providers(Function::Reconcile), clock);
        reconcile::App { metrics: self.sink(), ..app }
    }

    fn store(&self, function: Function) -> Store {
        self.stores[function as usize].clone()
    }

    fn providers(&self, function: Function) -> Providers {
        providers(&self.configs[function as usize], &self.wire)
    }

    fn clock_of(&self, (function, number): Environment) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let place = function as usize * ENVIRONMENTS + number;
        let (clock, skew_ms) = (self.clock.clone(), self.skews[place]);
        Arc::new(move || Timestamp::from_millisecond(clock.now_ms() + skew_ms).unwrap())
    }

    fn random(&self) -> Arc<dyn Fn() -> u32 + Send + Sync> {
        let random = self.random.clone();
        Arc::new(move || random.load(Ordering::Relaxed))
    }

    fn sink(&self) -> Sink {
        let coverage = self.coverage.clone();
        Sink::to(move |line| coverage.lock().unwrap().metrics(line))
    }
}

/// The SDK's retries are off, so that every fault reaches the flow. `tests/flows/crashes.rs` covers the retries.
fn config_of(wire: &Wire, function: Function) -> SdkConfig {
    let wire = wire.of_function(&POLICIES, &name_of(function.name()));
    wire.sdk_config().to_builder().retry_config(RetryConfig::disabled()).build()
}
