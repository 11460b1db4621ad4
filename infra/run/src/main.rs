//! `seckill-local`: the deployed system on one machine.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use seckill_local::{Options, SeckillLocal, StartError};
use tokio::signal::unix::{Signal, SignalKind, signal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    seckill_local::logs::init();
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        eprintln!("seckill-local: cannot listen for Ctrl-C: the system refused");
        return ExitCode::FAILURE;
    };
    let started = tokio::select! {
        started = start(&options) => started,
        () = asked_to_stop(&mut interrupt, &mut terminate) => return ExitCode::SUCCESS,
    };
    let cloud = match started {
        Ok(cloud) => cloud,
        Err(error) => {
            eprintln!("seckill-local: {}", error.one_line());
            return ExitCode::FAILURE;
        }
    };
    asked_to_stop(&mut interrupt, &mut terminate).await;
    say("\n  Stopping; once more Ctrl-C stops at once.\n");
    tokio::select! {
        () = cloud.stop() => ExitCode::SUCCESS,
        () = asked_to_stop(&mut interrupt, &mut terminate) => ExitCode::FAILURE,
    }
}

async fn start(options: &Options) -> Result<SeckillLocal, StartError> {
    let cloud = SeckillLocal::start(options).await?;
    for name in &options.logs {
        for (function, mut lines) in cloud.logs(name)? {
            tokio::spawn(async move {
                loop {
                    match lines.recv().await {
                        Ok(line) => say(&format!("{function} | {}\n", line.trim_end())),
                        Err(tokio::sync::broadcast::error::RecvError::Lagged(missed)) => {
                            say(&format!("{function} | … {missed} lines are only in its log file\n"));
                        }
                        Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
                    }
                }
            });
        }
    }
    let demo = if options.no_demo { None } else { Some(cloud.make_demo_sale().await) };
    if let Some(Err(error)) = &demo {
        eprintln!("seckill-local: no demo sale was made: {error}");
    }
    let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    say(&cloud.summary(options, demo.and_then(Result::ok).as_ref(), colours));
    Ok(cloud)
}

async fn asked_to_stop(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Prints. An error means that the reader of the pipe has gone, so it is ignored.
fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
}
