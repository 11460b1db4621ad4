//! Buyers who press, so many at the same time, over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use figures::Latency;
use local_cloud::clock::Clock;
use local_cloud::run::LocalCloud;
use testkit::http::User;
use testkit::processes::cpu_of_children;
use testkit::progress;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Problem;
use crate::settling::waiting;

/// How often a buyer comes back who was told to come again later.
const TRIES: u32 = 200;
const COME_BACK_AFTER: Duration = Duration::from_millis(50);
/// The program whose processor time is counted.
const PROGRAM: &str = "seckill";

/// Buyers who press at one sale.
#[derive(Debug)]
pub(crate) struct Crowd {
    buyers: Vec<User>,
    press: Value,
    next: AtomicUsize,
    accepted: AtomicU32,
    refused: AtomicU32,
    sent_back: AtomicU32,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Orders, and when the buyer knew of them, in milliseconds since 1970.
    pub(crate) orders: Vec<(String, i64)>,
    pub(crate) accepted_in: Latency,
    pub(crate) refused_in: Latency,
    /// Presses that were refused because the buyer has an order.
    pub(crate) duplicates: u64,
    /// Presses that were answered "later".
    pub(crate) sent_back: u32,
    /// From the first press to the last answer.
    pub(crate) took: Duration,
    /// Processor time of the function that takes presses, in that time.
    pub(crate) cpu: Duration,
}

enum Verdict {
    Accepted(String),
    SoldOut,
    Duplicate,
}

impl Crowd {
    pub(crate) fn new(buyers: Vec<User>, sale: &str) -> Arc<Self> {
        Arc::new(Self {
            buyers,
            press: json!({ "saleId": sale, "itemId": "phone", "quantity": 1 }),
            next: AtomicUsize::new(0),
            accepted: AtomicU32::new(0),
            refused: AtomicU32::new(0),
            sent_back: AtomicU32::new(0),
        })
    }

    /// How far it is.
    pub(crate) fn line(&self) -> String {
        let pressed = self.next.load(Ordering::Relaxed).min(self.buyers.len());
        let (accepted, refused) = (self.accepted.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed));
        format!("{pressed} of {} pressed, {accepted} accepted and {refused} refused", self.buyers.len())
    }

    /// Each buyer presses once, `clients` at a time.
    pub(crate) async fn press(self: &Arc<Self>, cloud: &LocalCloud, clients: u32) -> Result<Seen, Problem> {
        let (began, cpu) = (Instant::now(), cpu_of_children(std::process::id(), PROGRAM));
        let mut pressing = JoinSet::new();
        for _ in 0..clients {
            pressing.spawn(client(Arc::clone(self)));
        }
        let all = async {
            let mut all = Seen::default();
            while let Some(one) = pressing.join_next().await {
                all.add(one??);
            }
            Ok::<_, Problem>(all)
        };
        let told = async {
            loop {
                tokio::time::sleep(progress::every()).await;
                match waiting(cloud).await {
                    Ok(waiting) => progress::show(&format!("  crowd: {}; {waiting} messages waiting", self.line())),
                    Err(problem) => return problem,
                }
            }
        };
        let mut seen = tokio::select! {
            seen = all => seen?,
            problem = told => return Err(problem),
        };
        progress::end();
        seen.took = began.elapsed();
        seen.cpu = cpu_of_children(std::process::id(), PROGRAM).saturating_sub(cpu);
        seen.sent_back = self.sent_back.load(Ordering::Relaxed);
        Ok(seen)
    }
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.orders.extend(other.orders);
        self.accepted_in.add(&other.accepted_in);
        self.refused_in.add(&other.refused_in);
        self.duplicates += other.duplicates;
    }

    /// Processor time for each answered press, in milliseconds.
    pub(crate) fn cpu_ms(&self, answers: u64) -> f64 {
        self.cpu.as_secs_f64() * 1_000.0 / figures::float(answers.max(1))
    }
}

/// One of those who press at the same time: takes the next buyer until there is none.
async fn client(crowd: Arc<Crowd>) -> Result<Seen, Problem> {
    let clock = Clock::wall();
    let mut seen = Seen::default();
    loop {
        let number = crowd.next.fetch_add(1, Ordering::Relaxed);
        let Some(buyer) = crowd.buyers.get(number) else { return Ok(seen) };
        let (verdict, took) = press(&crowd, buyer).await?;
        match verdict {
            Verdict::Accepted(order) => {
                seen.orders.push((order, clock.now_ms()));
                seen.accepted_in.record(took);
                crowd.accepted.fetch_add(1, Ordering::Relaxed);
            }
            Verdict::SoldOut => {
                seen.refused_in.record(took);
                crowd.refused.fetch_add(1, Ordering::Relaxed);
            }
            Verdict::Duplicate => {
                seen.duplicates += 1;
                crowd.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Presses until there is an answer that is not "later". Gives how long that answer took.
async fn press(crowd: &Crowd, buyer: &User) -> Result<(Verdict, Duration), Problem> {
    for _ in 0..TRIES {
        let began = Instant::now();
        let answer = buyer.post("/seckill", &crowd.press).await;
        let took = began.elapsed();
        let verdict = match (answer.status, answer.code()) {
            (202, _) => {
                let order = answer.body.get("orderId").and_then(Value::as_str);
                Verdict::Accepted(order.ok_or("a 202 without an order id")?.to_owned())
            }
            (409, "SOLD_OUT") => Verdict::SoldOut,
            (409, "DUPLICATE_ORDER") => Verdict::Duplicate,
            (429 | 503, _) => {
                crowd.sent_back.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(COME_BACK_AFTER).await;
                continue;
            }
            _ => return Err(format!("an answer that nobody expects: {answer:?}").into()),
        };
        return Ok((verdict, took));
    }
    Err(format!("a buyer was told {TRIES} times to come back later").into())
}
