//! The drill: the real functions and the local cloud are killed repeatedly during a sale. Then everything settles, and
//! a snapshot of all data is audited.
//!
//! This covers what the simulation cannot: whole processes end between any two instructions, with their sockets, locks,
//! files and half-sent answers, and new processes continue on the same data.
//!
//! | module | part of the drill |
//! |---|---|
//! | `cloud` | the local cloud as a process that can be killed and restarted |
//! | `buyers`, `buyer_plans`, `client` | buyers, what they do with their orders, and how they retry |
//! | `kills` | which process is killed, and when |
//! | `settling` | waits until the checks hold |
//! | `snapshot`, `checks` | reads all data, and says what must be true of it |
//! | `counts` | what happened, for the report |

mod buyer_plans;
mod buyers;
mod checks;
mod client;
mod cloud;
mod counts;
mod kills;
mod options;
mod settling;
mod snapshot;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use testkit::check::Check;
use testkit::http::{Api, sale_form};
use testkit::progress;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use buyers::{Buyers, BuyersGuard};
use client::Client;
use cloud::Cloud;
pub use counts::{Counted, Counts};
pub use options::Options;
use settling::Settling;

/// Any error that ends a drill. It is only ever shown to a person.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

/// How often to check whether the last buyer has left.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The result of a drill.
#[derive(Debug)]
pub struct Report {
    pub counts: Arc<Counts>,
    /// All checks and counts, as text.
    pub text: String,
    pub passed: bool,
    pub took: Duration,
    /// The data directory, which is kept only if a check failed.
    pub kept: Option<PathBuf>,
}

/// Runs a drill. All processes that it starts end with it, whether it returns or is dropped.
pub async fn run(options: Options) -> Result<Report, Problem> {
    let began = Instant::now();
    let seed = match options.seed {
        Some(seed) => seed,
        None => u64::from(getrandom::u32()?),
    };
    eprintln!("  drill with seed {seed}: {} purchases, {} units", options.purchases, options.units);
    let cloud = Arc::new(Mutex::new(Cloud::start(&options).await?));
    let drilled = drill(&cloud, &options, seed, began).await;
    progress::end();
    let mut cloud = cloud.lock().await;
    let drilled = match drilled {
        Ok(drilled) => cloud.stop().await.map(|()| drilled),
        Err(problem) => Err(problem),
    };
    match drilled {
        Ok((checks, counts)) => {
            let passed = checks.iter().all(|check| check.wrong.is_empty());
            let kept = (!passed).then(|| keep(&mut cloud));
            let text = write(&checks, &counts, &options, seed, began.elapsed());
            Ok(Report { counts, text, passed, took: began.elapsed(), kept })
        }
        Err(problem) => Err(format!("{problem} (seed {seed}; {})", how_to_look(&keep(&mut cloud))).into()),
    }
}

fn keep(cloud: &mut Cloud) -> PathBuf {
    cloud.keep();
    cloud.data_dir()
}

/// Tells a person how to inspect the data of a failed drill.
pub fn how_to_look(data_dir: &std::path::Path) -> String {
    let log = data_dir.with_file_name("cloud.log");
    format!(
        "inspect it with: make run DATA_DIR={} ARGS=--no-demo; the log of the local cloud is {}",
        data_dir.display(),
        log.display()
    )
}

async fn drill(
    cloud: &Arc<Mutex<Cloud>>,
    options: &Options,
    seed: u64,
    began: Instant,
) -> Result<(Vec<Check>, Arc<Counts>), Problem> {
    let counts = Arc::new(Counts::default());
    let api = Api::new(cloud.lock().await.base_url());
    let operator = api.user("operator", "seckill/admin").await;
    let now = domain::Timestamp::from_millisecond(local_cloud::clock::Clock::wall().now_ms())?;
    let sale = operator.open_sale(&sale_form(now, options.units, 1, options.payment_window)).await?;
    let client = Client { api, counts: Arc::clone(&counts) };
    let buyers = BuyersGuard(Arc::new(Buyers::new(client, options, seed, &sale)));

    sell(cloud, &buyers.0, &counts, options, seed, began).await?;
    let settling = Settling { cloud, operator: &operator, sale: &sale, counts: &counts, options, began };
    Ok((settling.settle().await?, counts))
}

/// Buyers buy and follow their orders, and processes are killed, until the last buyer has left.
async fn sell(
    cloud: &Arc<Mutex<Cloud>>,
    buyers: &Arc<Buyers>,
    counts: &Arc<Counts>,
    options: &Options,
    seed: u64,
    began: Instant,
) -> Result<(), Problem> {
    // A JoinSet aborts its task when it is dropped.
    let mut killing = JoinSet::new();
    killing.spawn(kills::kill_until_last_stretch(Arc::clone(cloud), Arc::clone(counts), options.clone(), seed));
    let show_progress = async |doing: &str| loop {
        tokio::time::sleep(progress::every()).await;
        let doing = format!("{doing}, {} orders followed", buyers.followers());
        progress::show(&counts.line(options.purchases, began.elapsed(), &doing));
    };
    let bought = async {
        tokio::select! {
            () = buyers.purchase_all() => {}
            () = show_progress("selling") => {}
        }
        Ok(())
    };
    let killed = async {
        match killing.join_next().await {
            Some(ended) => ended?,
            None => Ok(()),
        }
    };
    // The drill ends if the local cloud cannot be restarted.
    tokio::try_join!(bought, killed)?;
    let left = async {
        while buyers.followers() > 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        () = left => {}
        () = show_progress("waiting for buyers") => {}
    }
    Ok(())
}

fn write(checks: &[Check], counts: &Counts, options: &Options, seed: u64, took: Duration) -> String {
    let mut text = String::new();
    for check in checks {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{}", check.line());
    }
    let _ = writeln!(
        text,
        "\n{}  seconds        {}\n  seed           {seed}",
        counts.summary(options.purchases),
        took.as_secs()
    );
    text
}
