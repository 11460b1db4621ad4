//! The command line of `seckill-drill`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;

use crate::Problem;

/// Kills processes during a flash sale, then checks that nothing was lost, duplicated or left behind.
///
/// The drill starts the local cloud with the real functions on its own data directory. Buyers buy, pay, cancel, ask for
/// refunds or leave, while functions and the local cloud itself are killed with kill -9. Afterwards the drill waits
/// until everything has settled and audits all tables, queues and payments. It exits with an error if a check fails.
#[derive(Clone, Debug, Parser)]
#[command(name = "seckill-drill", version, max_term_width = 100)]
pub struct Options {
    /// Units on sale
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub units: u32,
    /// Purchases that buyers attempt, not counting retries of unanswered requests
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub purchases: u32,
    /// Spread the purchases over at least this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 75)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Purchase requests in flight at the same time
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub clients: u32,
    /// How long a buyer has to pay, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u32).range(5..=3_600))]
    pub payment_window: u32,
    /// Repeat the random choices of an earlier run: who buys with which key, what buyers do, what is killed and when.
    /// The timing still depends on the machine [default: a new seed for each run]
    #[arg(long)]
    pub seed: Option<u64>,
    /// For a drill of a few seconds: kill more often, make buyers less patient, and run reconcile without its schedule
    #[arg(long)]
    pub hurry: bool,
    /// Minutes to wait for everything to settle after the last buyer has left
    #[arg(long, value_name = "MINUTES", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub give_up_minutes: u64,
    /// The SAM template with the functions to run
    #[arg(long, value_name = "FILE", default_value = "template.yaml")]
    pub template: PathBuf,
    /// The directory with the binaries of the local cloud and the functions [default: that of this program]
    #[arg(long, value_name = "DIR")]
    pub binaries: Option<PathBuf>,
}

impl Options {
    /// The directory of the binaries. By default that of this program, because they are built together.
    pub(crate) fn binaries(&self) -> Result<PathBuf, Problem> {
        match &self.binaries {
            Some(directory) => Ok(directory.clone()),
            None => Ok(std::env::current_exe()?.parent().unwrap_or(Path::new(".")).to_owned()),
        }
    }

    /// The earliest start of a purchase, counted from the first one.
    pub(crate) fn begins_after(&self, purchase: u32) -> Duration {
        Duration::from_secs(self.seconds) * purchase / self.purchases.max(1)
    }

    /// Whether only the last tenth of the purchases is left. Nothing is killed during those.
    pub(crate) fn is_last_stretch(&self, begun: u32) -> bool {
        u64::from(begun) * 10 >= u64::from(self.purchases) * 9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purchases_are_spread_and_nothing_is_killed_during_the_last_tenth() {
        let options = Options::try_parse_from(["seckill-drill", "--purchases", "100", "--seconds", "50"]).unwrap();
        assert_eq!(options.begins_after(0), Duration::ZERO);
        assert_eq!(options.begins_after(99), Duration::from_millis(49_500));
        assert!(!options.is_last_stretch(89) && options.is_last_stretch(90));
    }

    #[test]
    fn an_invalid_argument_is_named() {
        for line in [["--units", "0"], ["--clients", "513"], ["--seed", "x"], ["--payment-window", "1"]] {
            let error = Options::try_parse_from(["seckill-drill"].iter().chain(&line)).unwrap_err();
            assert!(error.to_string().contains(line[0]), "{error}");
        }
    }
}
