//! `seckill-load`: thousands of buyers at a running system, and an audit.

use std::process::ExitCode;

use clap::Parser as _;
use load::{Options, run};
use tokio::signal::unix::{SignalKind, signal};

/// The sale did not take place, or not to its end.
const DID_NOT_RUN: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        eprintln!("seckill-load: cannot listen for Ctrl-C: the system refused");
        return ExitCode::from(DID_NOT_RUN);
    };
    let ended = tokio::select! {
        ended = run(&options) => ended,
        _ = interrupt.recv() => Err("stopped; nothing was audited, and orders that were made stay".into()),
        _ = terminate.recv() => Err("stopped; nothing was audited, and orders that were made stay".into()),
    };
    match ended {
        Ok(report) => {
            println!("{}", report.text);
            println!("Chart: {}\nFigures: {}", options.chart.display(), options.out.display());
            if report.passed {
                return ExitCode::SUCCESS;
            }
            eprintln!("seckill-load: the sale was not correct");
            ExitCode::FAILURE
        }
        Err(problem) => {
            eprintln!("\nseckill-load: {problem}");
            ExitCode::from(DID_NOT_RUN)
        }
    }
}
