//! The payment providers, played on this machine: Alipay, WeChat Pay v3 and v2, and Stripe. Each has its own
//! endpoints, real keys and real signatures ([`payments::sandbox`]), and keeps its payments in the local cloud's
//! database.
//!
//! [`CloudWithSandbox`] opens a local cloud with the sandbox beside its engines: functions reach it over the wire
//! or, below [`PATH`], on the gateway.
//!
//! What it promises:
//! - it answers as the provider would: creating is idempotent by the merchant's number (at Stripe by
//!   Idempotency-Key), a number that was closed cannot be used again, a refund happens once and never exceeds what
//!   was paid;
//! - one payment takes money once, and every movement of money is a line of [`Sandbox::money`] that never changes;
//! - what was answered is in the database: keys, payments, money and notices survive the end of the process;
//! - a notice that is not accepted comes again on the provider's own schedule, by the cloud's clock;
//! - the same calls make the same numbers: a simulation can be repeated.
//!
//! Its manners are the providers': Stripe repeats the first answer under a key, errors included; refunds can fail, at
//! once or days later; a merchant can refund in the provider's console; a delayed method can hold a payment for days.
//!
//! What it does not play: payments in parts, a buyer's account, fees.

mod actions;
mod answers;
mod calls;
mod cloud;
mod create;
mod delivery;
mod error;
mod html;
mod moods;
mod notices;
mod numbers;
mod over_http;
mod page;
mod refund;
mod rows;
mod tables;
mod view;

use std::sync::{Arc, LazyLock, OnceLock};

use jiff::Timestamp;
use payments::ProviderKind;
use payments::sandbox::{Keys, Sandbox as Protocols};
use rusqlite::OptionalExtension as _;
use serde_json::{Map, Value};
use tokio::sync::watch;

pub use actions::Action;
pub use calls::operation_of;
pub use cloud::CloudWithSandbox;
pub use error::SandboxError;
pub use moods::Mood;
pub use notices::{DueNotice, is_accepted};
pub use view::{MoneyEntry, NoticeView, PaymentView};

use local_cloud::clock::Clock;
use local_cloud::engine::Cloud;
use local_cloud::engine::database::Database;
use moods::Moods;

/// Where the sandbox is for code in the same process, over [`local_cloud::wire::Wire`]. Any host will do, because the
/// path decides; a provider's settings allow plain HTTP on this machine only, hence this one.
pub const IN_PROCESS_URL: &str = "http://localhost/_sandbox";

/// The path below which everything of the sandbox is.
pub const PATH: &str = "/_sandbox";

/// The sandbox. Copies share its state.
#[derive(Clone)]
pub struct Sandbox {
    database: Database,
    clock: Clock,
    keeps_keys: bool,
    side: Arc<OnceLock<Arc<Side>>>,
    moods: Moods,
    changes: Arc<watch::Sender<u64>>,
}

/// The keys, and the protocols spoken with them.
struct Side {
    keys: Keys,
    protocols: Protocols,
}

impl Side {
    fn new(keys: Keys) -> Result<Self, SandboxError> {
        let protocols = Protocols::new(&keys).map_err(|error| SandboxError::Internal(error.to_string()))?;
        Ok(Self { keys, protocols })
    }
}

/// The keys of every sandbox that forgets: fixed, so that thousands of them cost nothing. They guard nothing.
static FORGOTTEN: LazyLock<Result<Arc<Side>, SandboxError>> = LazyLock::new(|| {
    let keys = serde_json::from_str(include_str!("in_memory_keys.json"));
    let keys: Keys = keys.map_err(|error| SandboxError::Internal(format!("in_memory_keys.json: {error}")))?;
    Side::new(keys).map(Arc::new)
});

/// The moment at which a call is answered.
#[derive(Clone, Copy)]
struct Now {
    ms: i64,
    at: Timestamp,
}

impl Sandbox {
    /// A sandbox in the database of these engines. One that lasts generates its keys at first use, which takes
    /// about a second, and keeps them.
    fn new(cloud: &Cloud) -> Self {
        Self {
            database: cloud.database().clone(),
            clock: cloud.clock.clone(),
            keeps_keys: cloud.is_durable(),
            side: Arc::default(),
            moods: Moods::default(),
            changes: Arc::new(watch::Sender::new(0)),
        }
    }

    /// The secret of a merchant whose providers' sandbox is below this address: a JSON object by provider's name,
    /// each as [`payments::PaymentProvider`] reads it from its settings.
    pub async fn settings(&self, base_url: &str) -> Result<String, SandboxError> {
        let side = self.side().await?;
        let mut all = Map::new();
        for kind in ProviderKind::ALL {
            let settings: Value = serde_json::from_str(&side.keys.settings(kind, base_url))?;
            all.insert(kind.to_string(), settings);
        }
        Ok(Value::Object(all).to_string())
    }

    /// How a provider feels, for the next `calls` calls, or until told otherwise.
    pub fn set_mood(&self, kind: ProviderKind, mood: Mood, calls: Option<u32>) {
        self.moods.set(kind, mood, calls);
    }

    /// Tells when there may be a notice to deliver that was not there before.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn now(&self) -> Now {
        let ms = self.clock.now_ms();
        // A clock outside of jiff's 20,000 years can only be a test's mistake: it reads as 1970.
        Now { ms, at: Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH) }
    }

    /// The keys: made at first use.
    async fn side(&self) -> Result<Arc<Side>, SandboxError> {
        if let Some(side) = self.side.get() {
            return Ok(Arc::clone(side));
        }
        if !self.keeps_keys {
            return FORGOTTEN.as_ref().map(Arc::clone).map_err(|error| SandboxError::Internal(error.to_string()));
        }
        let keys = self.database.transaction(|db| {
            let mut kept = db.prepare_cached("SELECT keys FROM sandbox_keys")?;
            if let Some(keys) = kept.query_row([], |row| row.get::<_, String>(0)).optional()? {
                return Ok(serde_json::from_str(&keys)?);
            }
            let keys = Keys::generate().map_err(|error| SandboxError::Internal(error.to_string()))?;
            db.execute("INSERT INTO sandbox_keys (id, keys) VALUES (1, ?1)", [serde_json::to_string(&keys)?])?;
            Ok::<Keys, SandboxError>(keys)
        });
        let side = Arc::new(Side::new(keys.await?)?);
        // Concurrent callers agree: the database decided which keys are kept.
        Ok(Arc::clone(self.side.get_or_init(|| side)))
    }
}
