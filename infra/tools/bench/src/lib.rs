//! Measures the engines, the host and purchases on this machine.
//!
//! Speeds are measured and compared with the previous run. Costs in calls and write units are exact: the program fails
//! if one of them changes, or if a sale sells more or less than its stock.

mod buyers;
mod closed_loop;
mod connection;
pub mod costs;
mod cpu;
mod engines;
mod growth;
mod invocations;
mod limits;
mod order_audit;
mod purchase_rate;
mod report;

use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};

use report::{Report, Section};
use seckill_local::HostKind;

/// Any error that ends a measurement. It is only ever shown to a person.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Measures this system on this machine and compares the figures with those of the previous run.
#[derive(Clone, Debug, Parser)]
#[command(name = "seckill-bench", version, max_term_width = 100)]
pub struct Options {
    /// Measure only this part; can be repeated
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Duration of each speed measurement, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Units on sale
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    units: u32,
    /// Buyers, each with their own token
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    buyers: u32,
    /// Purchase requests in flight at the same time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=512))]
    clients: u32,
    /// Instances of each function that take turns, if functions run in one process
    #[arg(long, value_name = "N", default_value_t = 1)]
    apps: usize,
    /// Orders of each of the hundred past sales that are in the tables when growth is measured
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    past_orders: u32,
    /// Stop measuring purchases after this many minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    give_up_minutes: u64,
    /// The SAM template with the functions to run
    #[arg(long, value_name = "FILE", default_value = "template.yaml")]
    template: PathBuf,
    /// The directory with the functions' binaries [default: that of this program]
    #[arg(long, value_name = "DIR")]
    binaries: Option<PathBuf>,
    /// Measure nothing, and only compare the figures of two runs
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2)]
    compare: Option<Vec<PathBuf>>,
    /// The file for the figures; those of the previous run are kept as NAME.before.json
    #[arg(long, value_name = "FILE", default_value = "target/bench.json")]
    out: PathBuf,
}

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Operations per second of the DynamoDB, SQS and Scheduler engines
    Engines,
    /// Invocations per second of a function that does nothing
    Invocations,
    /// Exact numbers of calls and write units for each step of a purchase
    Costs,
    /// The cost of an order after many past sales, and in sales of different size
    Growth,
    /// Time and memory that the rate limits take
    Limits,
    /// Purchases per second, with the functions in one process
    Purchases,
    /// Purchases per second of the binaries that would be deployed, each in processes of its own
    Processes,
    /// The same purchases in sales of different size
    Scaling,
}

/// The order matters: the memory of the limits is measured before anything else has been freed.
const ALL: [Part; 8] = [
    Part::Limits,
    Part::Costs,
    Part::Growth,
    Part::Engines,
    Part::Invocations,
    Part::Purchases,
    Part::Processes,
    Part::Scaling,
];

impl Options {
    /// The directory of the functions' binaries.
    fn binaries(&self) -> Result<PathBuf, Problem> {
        self.binaries.clone().map_or_else(beside, Ok)
    }
}

/// The directory of this program and the binaries that were built with it.
fn beside() -> Result<PathBuf, Problem> {
    Ok(std::env::current_exe()?.parent().unwrap_or(Path::new(".")).to_owned())
}

/// Measures, prints and stores the figures.
pub async fn run(options: Options) -> Result<(), Problem> {
    if let Some([before, after]) = options.compare.as_deref() {
        return report::compare(before, after);
    }
    let mut report = Report::begin(&options.out, &beside()?);
    report.print_head();
    for part in ALL.into_iter().filter(|part| options.only.is_empty() || options.only.contains(part)) {
        let section: Section = match part {
            Part::Engines => engines::measure(&options).await?,
            Part::Invocations => invocations::measure(&options).await?,
            Part::Costs => costs::measure().await?,
            Part::Growth => growth::measure(options.past_orders).await?,
            Part::Limits => limits::measure()?,
            Part::Purchases => purchase_rate::measure(&options, HostKind::InProcess).await?,
            Part::Processes => purchase_rate::measure(&options, HostKind::Processes).await?,
            Part::Scaling => purchase_rate::measure_scaling(&options).await?,
        };
        report.add(section);
    }
    report.finish(&options.out)
}
