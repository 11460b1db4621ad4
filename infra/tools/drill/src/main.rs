//! `seckill-drill`: kills processes during a sale and checks that nothing was lost.

use std::process::ExitCode;

use clap::Parser as _;
use drill::{Options, Problem, Report, how_to_look, run};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        eprintln!("seckill-drill: cannot install a handler for Ctrl-C");
        return ExitCode::FAILURE;
    };
    // Dropping the drill ends every process that it started and removes its files.
    tokio::select! {
        result = run(options) => print_result(result),
        _ = interrupt.recv() => interrupted(),
        _ = terminate.recv() => interrupted(),
    }
}

fn interrupted() -> ExitCode {
    eprintln!("\nseckill-drill: interrupted; its processes are ended and its files are removed");
    ExitCode::FAILURE
}

fn print_result(result: Result<Report, Problem>) -> ExitCode {
    match result {
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
