//! What `seckill-drill` can be told.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;

use crate::Problem;

/// Kills what serves a flash sale, again and again, while it sells; then proves that nothing was lost, doubled or left behind.
///
/// It starts the local cloud with the real functions on a data directory of its own, lets buyers press, pay, cancel, refund and walk
/// away, and meanwhile kills functions and the local cloud itself with kill -9. Then everything settles, and the books are audited.
#[derive(Clone, Debug, Parser)]
#[command(name = "seckill-drill", version, max_term_width = 100)]
pub struct Options {
    /// Units on sale
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub units: u32,
    /// Purchases that buyers make: presses, without the retries of those that were not answered
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub purchases: u32,
    /// The purchases are spread over at least so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 75, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Presses under way at the same time
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub clients: u32,
    /// How long an order waits for its payment, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(5..=3_600))]
    pub payment_window: u32,
    /// Draws the same choices as a run before: who presses with which key, what buyers do, what is killed after how long. What they meet is
    /// up to the machine [default: another each time]
    #[arg(long)]
    pub seed: Option<u64>,
    /// For a drill of seconds: kills come quicker, buyers lose patience sooner, and reconcile does not wait for its minute
    #[arg(long)]
    pub hurry: bool,
    /// Give up so many minutes after the last buyer has left, if not everything has settled
    #[arg(long, value_name = "MINUTES", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub give_up_minutes: u64,
    /// The template whose functions are drilled
    #[arg(long, value_name = "FILE", default_value = "template.yaml")]
    pub template: PathBuf,
    /// Where the local cloud's and the functions' binaries are [default: beside this program]
    #[arg(long, value_name = "DIR")]
    pub binaries: Option<PathBuf>,
}

impl Options {
    /// The directory of the binaries: this program was built together with them.
    pub(crate) fn binaries(&self) -> Result<PathBuf, Problem> {
        match &self.binaries {
            Some(directory) => Ok(directory.clone()),
            None => Ok(std::env::current_exe()?.parent().unwrap_or(Path::new(".")).to_owned()),
        }
    }

    /// Before this, counted from the first, a purchase does not begin.
    pub(crate) fn begins_after(&self, purchase: u32) -> Duration {
        Duration::from_secs(self.seconds) * purchase / self.purchases.max(1)
    }

    /// Whether so many purchases leave only those that are to be made in peace.
    pub(crate) fn is_last_stretch(&self, begun: u32) -> bool {
        u64::from(begun) * 10 >= u64::from(self.purchases) * 9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purchases_are_spread_and_the_last_are_made_in_peace() {
        let options = Options::try_parse_from(["seckill-drill", "--purchases", "100", "--seconds", "50"]).unwrap();
        assert_eq!(options.begins_after(0), Duration::ZERO);
        assert_eq!(options.begins_after(99), Duration::from_millis(49_500));
        assert!(!options.is_last_stretch(89) && options.is_last_stretch(90));
    }

    #[test]
    fn mistakes_are_told() {
        for line in [["--units", "0"], ["--clients", "513"], ["--seed", "x"], ["--payment-window", "1"]] {
            let error = Options::try_parse_from(["seckill-drill"].iter().chain(&line)).unwrap_err();
            assert!(error.to_string().contains(line[0]), "{error}");
        }
    }
}
