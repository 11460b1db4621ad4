//! What the engines, the host, a purchase and a crowd cost on this machine.
//!
//! Speeds are measured and compared with the run before. Costs in calls and write units are exact: the program fails
//! if one of them changes, or if the crowd does not get exactly what there is.

pub mod costs;
mod crowd;
mod engines;
mod invocations;
mod limits;
mod load;
mod pressing;
mod report;
mod settling;

use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};

use report::{Report, Section};

/// What stops a measurement: there is nobody to act on it but the reader.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Measures this system on this machine, and compares with the run before.
#[derive(Clone, Debug, Parser)]
#[command(name = "seckill-bench", version, max_term_width = 100)]
pub struct Options {
    /// Measure only this; repeat it for more
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// How long each speed is measured, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Units that the crowd can buy
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    units: u32,
    /// Buyers in the crowd, each with a token of its own
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    buyers: u32,
    /// Presses of the crowd at the same time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=512))]
    clients: u32,
    /// Give up on the crowd after so many minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    give_up_minutes: u64,
    /// The template whose functions the crowd meets
    #[arg(long, value_name = "FILE", default_value = "template.yaml")]
    template: PathBuf,
    /// Where the functions' binaries are [default: beside this program]
    #[arg(long, value_name = "DIR")]
    binaries: Option<PathBuf>,
    /// Only show the figures of two runs side by side, and measure nothing
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2)]
    compare: Option<Vec<PathBuf>>,
    /// Where the figures go; those of the run before are kept beside them, as NAME.before.json
    #[arg(long, value_name = "FILE", default_value = "target/bench.json")]
    out: PathBuf,
}

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Operations a second of the engines
    Engines,
    /// Invocations of a function that does nothing
    Invocations,
    /// Calls and write units, exactly
    Costs,
    /// What the rate limits cost in time and memory
    Limits,
    /// A crowd at the real binaries
    Crowd,
    /// The same presses at sales of different size
    Scaling,
}

/// In this order: the limits' memory is measured while nothing else has been freed.
const ALL: [Part; 6] = [Part::Limits, Part::Costs, Part::Engines, Part::Invocations, Part::Crowd, Part::Scaling];

impl Options {
    /// The directory of the functions' binaries.
    fn binaries(&self) -> Result<PathBuf, Problem> {
        self.binaries.clone().map_or_else(beside, Ok)
    }
}

/// Where this program is, and whatever was built together with it.
fn beside() -> Result<PathBuf, Problem> {
    Ok(std::env::current_exe()?.parent().unwrap_or(Path::new(".")).to_owned())
}

/// Measures, prints, and keeps the figures.
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
            Part::Limits => limits::measure()?,
            Part::Crowd => crowd::measure(&options).await?,
            Part::Scaling => crowd::measure_scaling(&options).await?,
        };
        report.add(section);
    }
    report.finish(&options.out)
}
