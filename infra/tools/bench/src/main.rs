//! `seckill-bench`: measures the engines, the host and purchases on this machine.

use std::process::ExitCode;

use bench::{Options, Problem, run};
use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let filter = std::env::var("RUST_LOG").ok().and_then(|levels| levels.parse().ok());
    let filter = filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::ERROR));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    tracing_subscriber::registry().with(lines).with(filter).init();
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        eprintln!("seckill-bench: cannot install a handler for Ctrl-C");
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

/// An error with its causes: the errors of the SDK say what happened only in their causes.
fn with_causes(problem: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(problem.source(), |cause| cause.source());
    causes.fold(problem.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Ends the measurement, its processes and its temporary files.
async fn stopped(work: tokio::task::JoinHandle<Result<(), Problem>>) {
    work.abort();
    let _ = work.await;
    eprintln!("\nseckill-bench: interrupted; the figures of this run are not stored");
}
