//! `seckill-bench`: what the engines, the host, a purchase and a crowd cost on this machine.
//!
//! Speeds are measured and compared with the run before. Costs in calls and write units are exact: the program fails
//! if one of them changes, or if the crowd does not get exactly what there is.

mod costs;
mod crowd;
mod engines;
mod invocations;
mod load;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use report::{Report, Section};

/// What stops a measurement: there is nobody to act on it but the reader.
pub(crate) type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Measures this system on this machine, and compares with the run before.
#[derive(Clone, Debug, Parser)]
#[command(name = "seckill-bench", version, max_term_width = 100)]
pub(crate) struct Options {
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
    /// Where the figures go, and those of the run before are
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
    /// A crowd at the real binaries
    Crowd,
}

const ALL: [Part; 4] = [Part::Costs, Part::Engines, Part::Invocations, Part::Crowd];

impl Options {
    /// Units that the crowd will have bought in the end.
    fn to_sell(&self) -> u32 {
        self.units.min(self.buyers)
    }

    /// The directory of the functions' binaries: this program was built together with them.
    fn binaries(&self) -> Result<PathBuf, Problem> {
        match &self.binaries {
            Some(directory) => Ok(directory.clone()),
            None => Ok(std::env::current_exe()?.parent().unwrap_or(Path::new(".")).to_owned()),
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "error".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).init();
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        eprintln!("seckill-bench: cannot listen for Ctrl-C: the system refused");
        return ExitCode::FAILURE;
    };
    let mut work = tokio::spawn(run(options));
    tokio::select! {
        done = &mut work => match done {
            Ok(Ok(())) => return ExitCode::SUCCESS,
            Ok(Err(problem)) => eprintln!("seckill-bench: {}", with_causes(problem.as_ref())),
            Err(panicked) => eprintln!("seckill-bench: a check failed ({panicked})"),
        },
        _ = interrupt.recv() => stopped(work).await,
        _ = terminate.recv() => stopped(work).await,
    }
    ExitCode::FAILURE
}

/// The SDK's errors say what happened in their causes only.
fn with_causes(problem: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(problem.source(), |cause| cause.source());
    causes.fold(problem.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Ends the work, and with it every process it started and every file it made.
async fn stopped(work: tokio::task::JoinHandle<Result<(), Problem>>) {
    work.abort();
    let _ = work.await;
    eprintln!("\nseckill-bench: stopped; figures of this run were not kept");
}

async fn run(options: Options) -> Result<(), Problem> {
    let mut report = Report::begin(&options.out, &options.binaries()?)?;
    report.print_head();
    for part in ALL.into_iter().filter(|part| options.only.is_empty() || options.only.contains(part)) {
        let section: Section = match part {
            Part::Engines => engines::measure(&options).await?,
            Part::Invocations => invocations::measure(&options).await?,
            Part::Costs => costs::measure().await?,
            Part::Crowd => crowd::measure(&options).await?,
        };
        report.add(section);
    }
    report.finish(&options.out)
}
