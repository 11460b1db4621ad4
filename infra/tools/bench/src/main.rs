//! `seckill-bench`: measures the engines, the host and purchases on this machine.

use std::process::ExitCode;

use bench::{Options, Problem, run};
use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};

// As in `seckill-local`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    seckill_local::logs::init();
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
