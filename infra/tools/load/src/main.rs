//! `seckill-load`: sends thousands of buyers to a running system and audits the sale.

use std::process::ExitCode;

use clap::Parser as _;
use load::{Options, run};
use tokio::signal::unix::{SignalKind, signal};

/// The exit code when the sale did not take place or did not finish.
const DID_NOT_RUN: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        eprintln!("seckill-load: cannot install a handler for Ctrl-C");
        return ExitCode::from(DID_NOT_RUN);
    };
    let ended = tokio::select! {
        ended = run(&options) => ended,
        _ = interrupt.recv() => Err("interrupted: nothing was audited, and existing orders stay".into()),
        _ = terminate.recv() => Err("interrupted: nothing was audited, and existing orders stay".into()),
    };
    match ended {
        Ok(report) => {
            println!("{}", report.text);
            println!("Chart: {}\nFigures: {}", options.chart.display(), options.out.display());
            if report.passed {
                return ExitCode::SUCCESS;
            }
            eprintln!("seckill-load: the sale was not correct; see the failed checks above");
            ExitCode::FAILURE
        }
        Err(problem) => {
            eprintln!("\nseckill-load: {problem}");
            ExitCode::from(DID_NOT_RUN)
        }
    }
}
