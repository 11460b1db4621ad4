//! `seckill-drill`: kills what sells, and proves that nothing was lost.

use std::process::ExitCode;

use clap::Parser as _;
use drill::{Options, Problem, Report, how_to_look, run};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        eprintln!("seckill-drill: cannot listen for Ctrl-C: the system refused");
        return ExitCode::FAILURE;
    };
    // Dropped, the drill ends everything that it started and removes its files.
    tokio::select! {
        ended = run(options) => tell(ended),
        _ = interrupt.recv() => stopped(),
        _ = terminate.recv() => stopped(),
    }
}

fn stopped() -> ExitCode {
    eprintln!("\nseckill-drill: stopped; what it started is ended, and its files are removed");
    ExitCode::FAILURE
}

fn tell(ended: Result<Report, Problem>) -> ExitCode {
    match ended {
        Ok(report) => {
            println!("\n{}", report.text);
            match &report.kept {
                None => return ExitCode::SUCCESS,
                Some(data_dir) => eprintln!("seckill-drill: the drill failed; {}", how_to_look(data_dir)),
            }
        }
        Err(problem) => eprintln!("\nseckill-drill: {problem}"),
    }
    ExitCode::FAILURE
}
