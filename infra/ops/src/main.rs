//! `seckill-ops`: an operator's commands.

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use ops::dead_letters::{Kind, Letter, list, redrive};
use ops::target::{Target, TargetError};

/// Operate a running flash-sale system: the local cloud, or a deployed stage.
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the dead letters: what could not be handled, and why
    DeadLetters(Where),
    /// Show the dead letters and send them again
    Redrive(Where),
}

/// The local cloud, unless the queues of a stage are given.
#[derive(Debug, Args)]
struct Where {
    /// Where the local cloud is
    #[arg(long, env = "BASE_URL", default_value = "http://127.0.0.1:3000")]
    base_url: String,
    /// An output of a stage's stack, as NAME=VALUE; give all five queues' …Url outputs
    #[arg(long = "output", value_name = "NAME=VALUE", value_parser = output)]
    outputs: Vec<(String, String)>,
}

fn output(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Where {
    async fn target(&self) -> Result<Target, TargetError> {
        if self.outputs.is_empty() {
            return Target::local(&self.base_url).await;
        }
        let given = |name: &str| self.outputs.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone());
        Target::stage(given).await
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Options::parse().command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("seckill-ops: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<(), Box<dyn std::error::Error>> {
    match command {
        Command::DeadLetters(place) => {
            let target = place.target().await?;
            for kind in Kind::ALL {
                let letters = list(&target, kind).await?;
                println!("{}: {}", kind.words(), letters.len());
                letters.iter().for_each(show);
            }
        }
        Command::Redrive(place) => {
            let target = place.target().await?;
            for kind in Kind::ALL {
                let mut shown = 0;
                redrive(&target, kind, |letter| {
                    shown += 1;
                    show(letter);
                })
                .await?;
                println!(
                    "{}: {shown}{}",
                    kind.words(),
                    if shown > 0 { format!(", {}", kind.remedy()) } else { String::new() }
                );
            }
        }
    }
    Ok(())
}

fn show(letter: &Letter) {
    let order = letter.order.as_deref().unwrap_or("no order");
    let body: String = letter.body.chars().take(200).collect();
    println!("  {order}  {}\n    {body}", letter.reason);
}
