//! `seckill-ops`: an operator's commands.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use ops::api::Api;
use ops::dead_letters::{Kind, Letter, list, redrive};
use ops::target::{self, Target};
use serde_json::json;

/// A walk of reconcile may take all the time that the template gives it, which is five minutes.
const WALK: Duration = Duration::from_secs(310);

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
    /// Prove that a sale's units add up; fails if they do not
    Audit {
        /// The sale
        sale: String,
        /// At a stage: an operator's token, with the scope seckill/admin
        #[arg(long, env = "ADMIN_TOKEN", hide_env_values = true)]
        token: Option<String>,
        #[command(flatten)]
        place: Where,
    },
    /// Have reconcile walk now, at the local cloud, instead of at its next minute
    Reconcile(Where),
}

/// The local cloud, unless the outputs of a stage are given.
#[derive(Debug, Args)]
struct Where {
    /// Where the local cloud is
    #[arg(long, env = "BASE_URL", default_value = "http://127.0.0.1:3000")]
    base_url: String,
    /// The outputs of a stage's stack, as `sam list stack-outputs --output json` prints them
    #[arg(long, value_name = "FILE")]
    outputs: Option<PathBuf>,
}

impl Where {
    async fn target(&self) -> Result<Target, Problem> {
        match &self.outputs {
            None => Ok(Target::local(&self.base_url).await?),
            Some(file) => {
                let outputs = target::read_outputs(file)?;
                Ok(Target::stage(|name| outputs.get(name).cloned()).await?)
            }
        }
    }

    async fn api(&self, token: Option<String>) -> Result<Api, Problem> {
        let Some(file) = &self.outputs else { return Ok(Api::of_the_local_cloud(&self.base_url).await?) };
        let url = target::read_outputs(file)?.remove("ApiUrl").ok_or("the stack has no output ApiUrl")?;
        let token = token.ok_or("a stage asks who you are: put an operator's token into ADMIN_TOKEN")?;
        Ok(Api::at(&url)?.with_token(token))
    }
}

/// What stops a command: its words are for whoever typed it.
type Problem = Box<dyn std::error::Error>;

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

async fn run(command: Command) -> Result<(), Problem> {
    match command {
        Command::Audit { sale, token, place } => {
            let audit = place.api(token).await?.get(&format!("/admin/sales/{sale}/audit")).await?;
            let told = ops::audit::tell(&audit);
            println!("{}", told.text);
            if !told.is_clean {
                return Err("the units do not add up, or something was found: see infra/RUNBOOK.md".into());
            }
        }
        Command::Reconcile(place) => {
            if place.outputs.is_some() {
                return Err("a stage's reconcile is run by its name: make reconcile STAGE=…".into());
            }
            let api = Api::at(&place.base_url)?.with_patience(WALK);
            let report = api.post("/_local/invoke/reconcile", &json!({})).await?;
            println!("{report:#}");
        }
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
