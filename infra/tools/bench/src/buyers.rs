//! Buyers who send purchases over HTTP, a fixed number at the same time.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use figures::Latency;
use local_cloud::clock::Clock;
use seckill_local::SeckillLocal;
use serde_json::{Value, json};
use testkit::http::User;
use testkit::progress;
use tokio::task::JoinSet;

use crate::Problem;
use crate::connection::{Connection, post};
use crate::cpu::{Cpu, THREADS};
use crate::order_audit::waiting_messages;

/// How often a buyer sends a request that is answered with 429 or 503.
const MAX_ATTEMPTS: u32 = 200;
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// The buyers of one sale.
#[derive(Debug)]
pub(crate) struct Buyers {
    /// The address of the system.
    host: String,
    /// One prepared request per buyer.
    requests: Vec<Vec<u8>>,
    /// `None`: each buyer purchases once. Otherwise they do so again and again for this long.
    lasting: Option<Duration>,
    began: OnceLock<Instant>,
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
    /// CPU time in that time.
    pub(crate) cpu: Cpu,
}

enum Answer {
    Accepted(String),
    SoldOut,
    Duplicate,
}

impl Buyers {
    /// Each of these makes one purchase.
    pub(crate) fn new(users: &[User], sale: &str) -> Arc<Self> {
        Arc::new(Self::prepared(users, sale, None))
    }

    /// These make one purchase after the other.
    pub(crate) fn lasting(users: &[User], sale: &str, lasting: Duration) -> Arc<Self> {
        Arc::new(Self::prepared(users, sale, Some(lasting)))
    }

    fn prepared(users: &[User], sale: &str, lasting: Option<Duration>) -> Self {
        let body = json!({ "saleId": sale, "itemId": "phone", "quantity": 1 }).to_string();
        let base_url = users.first().map(|user| user.api.base_url.clone()).unwrap_or_default();
        let host = base_url.trim_start_matches("http://").to_owned();
        Self {
            requests: users.iter().map(|user| post(&host, "/seckill", user.authorization(), &body)).collect(),
            host,
            lasting,
            began: OnceLock::new(),
            next: AtomicUsize::new(0),
            accepted: AtomicU32::new(0),
            refused: AtomicU32::new(0),
            retries: AtomicU32::new(0),
        }
    }

    /// The next request; `None`: it is over.
    fn next(&self) -> Option<&[u8]> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let number = match self.lasting {
            None => number,
            Some(lasting) if self.began.get_or_init(Instant::now).elapsed() < lasting => {
                number.checked_rem(self.requests.len())?
            }
            Some(_) => return None,
        };
        self.requests.get(number).map(Vec::as_slice)
    }

    /// A line that shows the progress.
    pub(crate) fn line(&self) -> String {
        let (accepted, refused) = (self.accepted.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed));
        format!("{} buyers, {accepted} purchases accepted and {refused} refused", self.requests.len())
    }

    /// Each buyer makes one purchase, `clients` at a time.
    pub(crate) async fn purchase_all(
        self: &Arc<Self>,
        cloud: &SeckillLocal,
        clients: u32,
    ) -> Result<PurchaseResults, Problem> {
        // The load has threads of its own, so that its processor time can be told from the system's.
        let threads = Threads::start()?;
        let (began, cpu) = (Instant::now(), Cpu::now());
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            tasks.spawn_on(client(Arc::clone(self)), &threads.handle);
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
        seen.cpu = Cpu::now().since(&cpu);
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
}

/// The load's own threads. A runtime must not be dropped where others wait, so it is ended without waiting.
struct Threads {
    handle: tokio::runtime::Handle,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Threads {
    fn start() -> std::io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).thread_name(THREADS).enable_all().build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// One of the concurrent clients, on a connection of its own. It takes the next buyer until there is none, or until the
/// time is over.
async fn client(buyers: Arc<Buyers>) -> Result<PurchaseResults, Problem> {
    let clock = Clock::wall();
    let mut connection = Connection::open(&buyers.host).await?;
    let mut seen = PurchaseResults::default();
    while let Some(request) = buyers.next() {
        let (result, took) = buy(&buyers, &mut connection, request).await?;
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
    Ok(seen)
}

/// Sends a purchase until the answer is neither 429 nor 503. Returns how long the last answer took.
async fn buy(buyers: &Buyers, connection: &mut Connection, request: &[u8]) -> Result<(Answer, Duration), Problem> {
    for _ in 0..MAX_ATTEMPTS {
        let began = Instant::now();
        let answer = connection.send(request).await?;
        let took = began.elapsed();
        let says = |code: &str| std::str::from_utf8(answer.body).is_ok_and(|body| body.contains(code));
        let result = match answer.status {
            202 => {
                let body: Value = serde_json::from_slice(answer.body)?;
                let order = body.get("orderId").and_then(Value::as_str);
                Answer::Accepted(order.ok_or("a 202 without an order id")?.to_owned())
            }
            409 if says("\"SOLD_OUT\"") => Answer::SoldOut,
            409 if says("\"DUPLICATE_ORDER\"") => Answer::Duplicate,
            429 | 503 => {
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
