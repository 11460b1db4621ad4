//! The drill: the real functions on the real local cloud are killed, again and again, while they sell; then everything settles,
//! and the books are audited.
//!
//! What simulation cannot show: that whole processes can end between any two instructions, with their sockets, locks, files and
//! half-sent answers, and that what starts again on the same data goes on as if nothing had been.

mod books;
mod buyers;
mod calm;
mod chaos;
mod checks;
mod client;
mod cloud;
mod life;
mod options;
mod tally;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use testkit::check::Check;
use testkit::http::{Api, sale_form};
use testkit::progress;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use buyers::{Crowd, Gathered};
use calm::Calm;
use client::Client;
use cloud::Cloud;
pub use options::Options;
pub use tally::{Kind, Tally};

/// What stops a drill: there is nobody to act on it but the reader.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

/// How often it is looked whether the last buyer has left.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What a drill came to.
#[derive(Debug)]
pub struct Report {
    /// What happened.
    pub tally: Arc<Tally>,
    /// Everything that was checked and counted, for a person.
    pub text: String,
    /// Whether every check holds.
    pub passed: bool,
    /// How long it took.
    pub took: Duration,
    /// Where the data was left, if a check does not hold.
    pub kept: Option<PathBuf>,
}

/// Runs a drill. What it started ends with it, whether it returns or is dropped.
pub async fn run(options: Options) -> Result<Report, Problem> {
    let began = Instant::now();
    let seed = match options.seed {
        Some(seed) => seed,
        None => u64::from(getrandom::u32()?),
    };
    eprintln!("  drill of seed {seed}: {} purchases of {} units", options.purchases, options.units);
    let cloud = Arc::new(Mutex::new(Cloud::start(&options).await?));
    let drilled = drill(&cloud, &options, seed, began).await;
    progress::end();
    let mut cloud = cloud.lock().await;
    let drilled = match drilled {
        Ok(drilled) => cloud.stop().await.map(|()| drilled),
        Err(problem) => Err(problem),
    };
    match drilled {
        Ok((checks, tally)) => {
            let passed = checks.iter().all(|check| check.wrong.is_empty());
            let kept = (!passed).then(|| keep(&mut cloud));
            let text = write(&checks, &tally, &options, seed, began.elapsed());
            Ok(Report { tally, text, passed, took: began.elapsed(), kept })
        }
        Err(problem) => Err(format!("{problem} (seed {seed}; {})", how_to_look(&keep(&mut cloud))).into()),
    }
}

fn keep(cloud: &mut Cloud) -> PathBuf {
    cloud.keep();
    cloud.data_dir()
}

/// How a person sees what a drill left.
pub fn how_to_look(data_dir: &std::path::Path) -> String {
    let log = data_dir.with_file_name("cloud.log");
    format!(
        "look with: make run DATA_DIR={} ARGS=--no-demo; the cloud's own log is {}",
        data_dir.display(),
        log.display()
    )
}

async fn drill(
    cloud: &Arc<Mutex<Cloud>>,
    options: &Options,
    seed: u64,
    began: Instant,
) -> Result<(Vec<Check>, Arc<Tally>), Problem> {
    let tally = Arc::new(Tally::default());
    let api = Api::new(cloud.lock().await.base_url());
    let operator = api.user("operator", "seckill/admin").await;
    let now = domain::Timestamp::from_millisecond(local_cloud::clock::Clock::wall().now_ms())?;
    let sale = operator.open_sale(&sale_form(now, options.units, 1, options.payment_window)).await?;
    let client = Client { api, tally: Arc::clone(&tally) };
    let crowd = Gathered(Arc::new(Crowd::new(client, options, seed, &sale)));

    sell(cloud, &crowd.0, &tally, options, seed, began).await?;
    let calm = Calm { cloud, operator: &operator, sale: &sale, tally: &tally, options, began };
    Ok((calm.settle().await?, tally))
}

/// Buyers press and look after their orders, and processes are killed, until the last buyer has left.
async fn sell(
    cloud: &Arc<Mutex<Cloud>>,
    crowd: &Arc<Crowd>,
    tally: &Arc<Tally>,
    options: &Options,
    seed: u64,
    began: Instant,
) -> Result<(), Problem> {
    // In a set: dropped, it ends.
    let mut chaos = JoinSet::new();
    chaos.spawn(chaos::reign(Arc::clone(cloud), Arc::clone(tally), options.clone(), seed));
    let told = async |doing: &str| loop {
        tokio::time::sleep(progress::every()).await;
        let doing = format!("{doing}, {} at it", crowd.lives());
        progress::show(&tally.line(options.purchases, began.elapsed(), &doing));
    };
    let pressed = async {
        tokio::select! {
            () = crowd.press_all() => {}
            () = told("selling") => {}
        }
        Ok(())
    };
    let killed = async {
        match chaos.join_next().await {
            Some(ended) => ended?,
            None => Ok(()),
        }
    };
    // A local cloud that does not come back ends the drill: there is nobody to press at.
    tokio::try_join!(pressed, killed)?;
    let left = async {
        while crowd.lives() > 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        () = left => {}
        () = told("buyers leave") => {}
    }
    Ok(())
}

fn write(checks: &[Check], tally: &Tally, options: &Options, seed: u64, took: Duration) -> String {
    let mut text = String::new();
    for check in checks {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{}", check.line());
    }
    let _ = writeln!(
        text,
        "\n{}  seconds        {}\n  seed           {seed}",
        tally.summary(options.purchases),
        took.as_secs()
    );
    text
}
