//! The command line of `seckill-load`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::Problem;

/// Sends thousands of buyers to a running system, then audits the sale.
///
/// Buyers arrive at planned times, whether or not earlier buyers have been answered, and their latency is measured from
/// those times (an open loop). Some look at the sale first, some buy twice, all follow their orders, and some pay. The
/// result is a table, a chart and an audit through the API.
///
/// Exit codes: 0 if the sale was correct, 1 if a check failed, 2 if the sale did not take place.
#[derive(Clone, Debug, Parser)]
#[command(name = "seckill-load", version, max_term_width = 100)]
pub struct Options {
    /// The address of the API
    #[arg(long, value_name = "URL", env = "BASE_URL", default_value = "http://127.0.0.1:3000")]
    pub base_url: String,
    /// Confirm that a target on another machine is yours, and that you pay for the costs
    #[arg(long)]
    pub yes_this_is_mine: bool,
    /// A file with one token per line, one for each buyer [default: tokens of the local cloud]
    #[arg(long, value_name = "FILE")]
    pub tokens: Option<PathBuf>,
    /// A token with the scope seckill/admin, for the audit [default: a token of the local cloud]
    #[arg(long, value_name = "TOKEN", env = "ADMIN_TOKEN", hide_env_values = true)]
    pub operator_token: Option<String>,
    /// Buy in this sale, in which nobody else buys meanwhile [default: create a new sale]
    #[arg(long, value_name = "SALE", requires = "item")]
    pub sale: Option<String>,
    /// The item of that sale
    #[arg(long, value_name = "ITEM", requires = "sale")]
    pub item: Option<String>,
    /// Units of the new sale
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub units: u32,
    /// How many buyers arrive
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub buyers: u32,
    /// Seconds over which buyers arrive
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// How arrivals are distributed over that time
    #[arg(long, value_enum, default_value_t = Shape::Front)]
    pub shape: Shape,
    /// Percentage of buyers who look at the sale first
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub looks: u32,
    /// Percentage of buyers with an order who buy again, which must be refused
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub repeats: u32,
    /// Percentage of buyers with an order who pay, in the local sandbox [default: 50 on this machine, 0 elsewhere]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub pays: Option<u32>,
    /// How often a buyer retries after a 429, a server error or no answer
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub tries: u32,
    /// The most buyers at the same time: beyond this they start late, which counts as latency
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub at_once: u32,
    /// Stop after this many minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub give_up_minutes: u64,
    /// Repeat the random choices of an earlier run [default: a new seed for each run]
    #[arg(long)]
    pub seed: Option<u64>,
    /// The file for the chart (HTML)
    #[arg(long, value_name = "FILE", default_value = "target/load.html")]
    pub chart: PathBuf,
    /// The file for the figures (JSON)
    #[arg(long, value_name = "FILE", default_value = "target/load.json")]
    pub out: PathBuf,
}

/// How arrivals are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// A rush at the start: twice the mean rate, falling linearly to zero
    Front,
    /// A constant rate
    Even,
}

impl Shape {
    /// The share of the time after which this share of the buyers has arrived.
    pub(crate) fn when(self, share: f64) -> f64 {
        match self {
            Self::Even => share,
            Self::Front => 1.0 - (1.0 - share.clamp(0.0, 1.0)).sqrt(),
        }
    }
}

impl Options {
    /// Whether the target is this machine.
    pub fn is_local(&self) -> bool {
        let uri: Option<http::Uri> = self.base_url.parse().ok();
        let host = uri.as_ref().and_then(|uri| uri.host()).unwrap_or_default();
        host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
    }

    /// The percentage of buyers with an order who pay.
    pub(crate) fn pays(&self) -> u32 {
        self.pays.unwrap_or(if self.is_local() { 50 } else { 0 })
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Refuses options with which a run cannot start.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let uri: http::Uri = self.base_url.parse().map_err(|error| {
            format!("{} is not a valid address: {error}; use --base-url http://HOST:PORT", self.base_url)
        })?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(format!("{} is not a valid address; use --base-url http://HOST:PORT", self.base_url).into());
        }
        if self.is_local() {
            return Ok(());
        }
        if !self.yes_this_is_mine {
            return Err(format!(
                "{} is not this machine. A load test on a system of somebody else is an attack, and it costs its owner \
                 money. If the system is yours, add --yes-this-is-mine",
                self.base_url
            )
            .into());
        }
        if self.tokens.is_none() {
            return Err(
                "a remote system issues no test tokens: add --tokens FILE with one buyer's token per line".into()
            );
        }
        if self.operator_token.is_none() {
            return Err("the audit needs an operator: set ADMIN_TOKEN to a token with the scope seckill/admin".into());
        }
        if self.pays() > 0 {
            return Err("a remote system has no payment sandbox: use --pays 0, or leave it out".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> Options {
        Options::try_parse_from(["seckill-load"].iter().chain(arguments)).unwrap()
    }

    #[test]
    fn a_remote_target_needs_confirmation() {
        for url in ["http://127.0.0.1:3000", "http://localhost:1", "http://[::1]:3000", "http://127.9.9.9"] {
            assert!(options(&["--base-url", url]).check().is_ok(), "{url}");
        }
        for url in [
            "https://shop.example",
            "http://10.0.0.1:3000",
            "http://localhost.evil.example",
            "http://127.0.0.1@evil.example",
        ] {
            let refused = options(&["--base-url", url]).check().unwrap_err().to_string();
            assert!(refused.contains("--yes-this-is-mine"), "{url}: {refused}");
        }
        for url in ["ftp://127.0.0.1", "127.0.0.1:3000", "", "http://"] {
            assert!(
                options(&["--base-url", url]).check().unwrap_err().to_string().contains("not a valid address"),
                "{url}"
            );
        }
    }

    #[test]
    fn a_remote_target_needs_tokens_and_has_no_payments() {
        let there = ["--base-url", "https://shop.example", "--yes-this-is-mine"];
        let refused = |more: &[&str]| options(&[&there, more].concat()).check().map_err(|error| error.to_string());
        assert!(refused(&[]).unwrap_err().contains("--tokens"));
        assert!(refused(&["--tokens", "t"]).unwrap_err().contains("ADMIN_TOKEN"));
        assert!(refused(&["--tokens", "t", "--operator-token", "x", "--pays", "1"]).unwrap_err().contains("--pays"));
        assert_eq!(refused(&["--tokens", "t", "--operator-token", "x"]), Ok(()));
    }

    #[test]
    fn a_sale_and_its_item_are_given_together() {
        let is_valid = |arguments: &[&str]| Options::try_parse_from(["seckill-load"].iter().chain(arguments)).is_ok();
        assert!(is_valid(&["--sale", "s", "--item", "phone"]) && is_valid(&[]));
        assert!(!is_valid(&["--item", "phone"]) && !is_valid(&["--sale", "s"]));
    }

    #[test]
    fn arrivals_follow_the_chosen_shape() {
        assert_eq!((Shape::Even.when(0.25), Shape::Front.when(0.0), Shape::Front.when(1.0)), (0.25, 0.0, 1.0));
        assert_eq!(Shape::Front.when(0.75), 0.5, "three quarters arrive in the first half");
    }
}
