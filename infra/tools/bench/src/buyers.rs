//! Buyers who send purchases over HTTP, a fixed number at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use figures::Latency;
use local_cloud::clock::Clock;
use seckill_local::SeckillLocal;
use serde_json::{Value, json};
use testkit::http::User;
use testkit::processes::cpu_of_children;
use testkit::progress;
use tokio::task::JoinSet;

use crate::Problem;
use crate::order_audit::waiting_messages;

/// How often a buyer sends a request that is answered with 429 or 503.
const MAX_ATTEMPTS: u32 = 200;
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// The program whose CPU time is measured.
const PROGRAM: &str = "seckill";

/// The buyers of one sale.
#[derive(Debug)]
pub(crate) struct Buyers {
    users: Vec<User>,
    purchase_body: Value,
    next: AtomicUsize,
    accepted: AtomicU32,
    refused: AtomicU32,
    retries: AtomicU32,
}

#[derive(Debug, Default)]
pub(crate) struct PurchaseResults {
    /// Accepted orders, and when the buyer got the answer, in milliseconds since 1970.
    pub(crate) orders: Vec<(String, i64)>,
    pub(crate) accepted_in: Latency,
    pub(crate) refused_in: Latency,
    /// Purchases that were refused because the buyer has an order.
    pub(crate) duplicates: u64,
    /// Answers with 429 or 503.
    pub(crate) retries: u32,
    /// From the first request to the last answer.
    pub(crate) took: Duration,
    /// CPU time of the seckill function in that time.
    pub(crate) cpu: Duration,
}

enum Answer {
    Accepted(String),
    SoldOut,
    Duplicate,
}

impl Buyers {
    pub(crate) fn new(users: Vec<User>, sale: &str) -> Arc<Self> {
        Arc::new(Self {
            users,
            purchase_body: json!({ "saleId": sale, "itemId": "phone", "quantity": 1 }),
            next: AtomicUsize::new(0),
            accepted: AtomicU32::new(0),
            refused: AtomicU32::new(0),
            retries: AtomicU32::new(0),
        })
    }

    /// A line that shows the progress.
    pub(crate) fn line(&self) -> String {
        let started = self.next.load(Ordering::Relaxed).min(self.users.len());
        let (accepted, refused) = (self.accepted.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed));
        format!("{started} of {} purchases, {accepted} accepted and {refused} refused", self.users.len())
    }

    /// Each buyer makes one purchase, `clients` at a time.
    pub(crate) async fn purchase_all(
        self: &Arc<Self>,
        cloud: &SeckillLocal,
        clients: u32,
    ) -> Result<PurchaseResults, Problem> {
        let (began, cpu) = (Instant::now(), cpu_of_children(std::process::id(), PROGRAM));
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            tasks.spawn(client(Arc::clone(self)));
        }
        let all = async {
            let mut all = PurchaseResults::default();
            while let Some(one) = tasks.join_next().await {
                all.add(one??);
            }
            Ok::<_, Problem>(all)
        };
        let show_progress = async {
            loop {
                tokio::time::sleep(progress::every()).await;
                match waiting_messages(cloud).await {
                    Ok(waiting) => progress::show(&format!("  {}; {waiting} messages waiting", self.line())),
                    Err(problem) => return problem,
                }
            }
        };
        let mut seen = tokio::select! {
            seen = all => seen?,
            problem = show_progress => return Err(problem),
        };
        progress::end();
        seen.took = began.elapsed();
        seen.cpu = cpu_of_children(std::process::id(), PROGRAM).saturating_sub(cpu);
        seen.retries = self.retries.load(Ordering::Relaxed);
        Ok(seen)
    }
}

impl PurchaseResults {
    fn add(&mut self, other: Self) {
        self.orders.extend(other.orders);
        self.accepted_in.add(&other.accepted_in);
        self.refused_in.add(&other.refused_in);
        self.duplicates += other.duplicates;
    }

    /// CPU time per answer, in milliseconds.
    pub(crate) fn cpu_ms(&self, answers: u64) -> f64 {
        self.cpu.as_secs_f64() * 1_000.0 / figures::float(answers.max(1))
    }
}

/// One of the concurrent clients. It takes the next buyer until there is none.
async fn client(buyers: Arc<Buyers>) -> Result<PurchaseResults, Problem> {
    let clock = Clock::wall();
    let mut seen = PurchaseResults::default();
    loop {
        let number = buyers.next.fetch_add(1, Ordering::Relaxed);
        let Some(buyer) = buyers.users.get(number) else { return Ok(seen) };
        let (result, took) = buy(&buyers, buyer).await?;
        match result {
            Answer::Accepted(order) => {
                seen.orders.push((order, clock.now_ms()));
                seen.accepted_in.record(took);
                buyers.accepted.fetch_add(1, Ordering::Relaxed);
            }
            Answer::SoldOut => {
                seen.refused_in.record(took);
                buyers.refused.fetch_add(1, Ordering::Relaxed);
            }
            Answer::Duplicate => {
                seen.duplicates += 1;
                buyers.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Sends a purchase until the answer is neither 429 nor 503. Returns how long the last answer took.
async fn buy(buyers: &Buyers, buyer: &User) -> Result<(Answer, Duration), Problem> {
    for _ in 0..MAX_ATTEMPTS {
        let began = Instant::now();
        let answer = buyer.post("/seckill", &buyers.purchase_body).await;
        let took = began.elapsed();
        let result = match (answer.status, answer.code()) {
            (202, _) => {
                let order = answer.body.get("orderId").and_then(Value::as_str);
                Answer::Accepted(order.ok_or("a 202 without an order id")?.to_owned())
            }
            (409, "SOLD_OUT") => Answer::SoldOut,
            (409, "DUPLICATE_ORDER") => Answer::Duplicate,
            (429 | 503, _) => {
                buyers.retries.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(RETRY_AFTER).await;
                continue;
            }
            _ => return Err(format!("unexpected answer to a purchase: {answer:?}").into()),
        };
        return Ok((result, took));
    }
    Err(format!("a purchase was answered {MAX_ATTEMPTS} times with 429 or 503: use fewer --clients").into())
}
