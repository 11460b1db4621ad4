//! `seckill-ops`: operator commands.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use ops::api::Api;
use ops::dead_letters::{Letter, LetterKind, list, redrive};
use ops::target::{self, Target};
use serde_json::json;

/// A little more than the five minutes that the template gives to reconcile.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(310);

/// Operate a running flash-sale system: the local cloud or a deployed stage.
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the dead letters: messages that could not be processed, and why
    DeadLetters(TargetOptions),
    /// Show the dead letters and send them again
    Redrive(TargetOptions),
    /// Check that the units of a sale add up; exits with an error if they do not
    Audit {
        /// The id of the sale
        sale: String,
        /// For a stage: an operator's token with the scope seckill/admin
        #[arg(long, env = "ADMIN_TOKEN", hide_env_values = true)]
        token: Option<String>,
        #[command(flatten)]
        target: TargetOptions,
    },
    /// Run reconcile on the local cloud now, instead of at its next scheduled minute
    Reconcile(TargetOptions),
}

/// The local cloud, unless the outputs of a stage are given.
#[derive(Debug, Args)]
struct TargetOptions {
    /// The address of the local cloud
    #[arg(long, env = "BASE_URL", default_value = "http://127.0.0.1:3000")]
    base_url: String,
    /// For a stage: a file with the output of `sam list stack-outputs --output json`
    #[arg(long, value_name = "FILE")]
    outputs: Option<PathBuf>,
}

impl TargetOptions {
    async fn connect(&self) -> Result<Target, Problem> {
        match &self.outputs {
            None => Ok(Target::local(&self.base_url).await?),
            Some(file) => {
                let outputs = target::read_outputs(file)?;
                Ok(Target::stage(|name| outputs.get(name).cloned()).await?)
            }
        }
    }

    async fn api(&self, token: Option<String>) -> Result<Api, Problem> {
        let Some(file) = &self.outputs else { return Ok(Api::local(&self.base_url).await?) };
        let url = target::read_outputs(file)?.remove("ApiUrl").ok_or("the stack has no output ApiUrl")?;
        let token = token.ok_or("a stage needs an operator's token with the scope seckill/admin: set ADMIN_TOKEN")?;
        Ok(Api::at(&url)?.with_token(token))
    }
}

/// Any error that ends a command. It is only ever shown to a person.
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
        Command::Audit { sale, token, target } => {
            let api = target.api(token).await?;
            let audit = ops::audit::whole(&api, &sale, |counted| eprintln!("  {counted} orders counted …")).await?;
            let table = ops::audit::table(&audit);
            println!("{}", table.text);
            if !table.is_clean {
                return Err("the units do not add up, or the audit has findings: see infra/RUNBOOK.md".into());
            }
        }
        Command::Reconcile(target) => {
            if target.outputs.is_some() {
                return Err("this command is for the local cloud; for a stage use: make reconcile STAGE=…".into());
            }
            let api = Api::at(&target.base_url)?.with_timeout(RECONCILE_TIMEOUT);
            let report = api.post("/_local/invoke/reconcile", &json!({})).await?;
            println!("{report:#}");
        }
        Command::DeadLetters(target) => {
            let target = target.connect().await?;
            for kind in LetterKind::ALL {
                let letters = list(&target, kind).await?;
                println!("{}: {}", kind.words(), letters.len());
                letters.iter().for_each(show);
            }
        }
        Command::Redrive(target) => {
            let target = target.connect().await?;
            for kind in LetterKind::ALL {
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
