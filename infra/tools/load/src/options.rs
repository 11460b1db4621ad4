//! What `seckill-load` can be told.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::Problem;

/// Plays thousands of buyers at a running system, then audits the sale.
///
/// Buyers come at the times that were drawn for them, whether or not those before them have been answered, and what they wait is counted
/// from those times. Some look at the page first, some press twice, all look after their orders, and some pay. It ends with
/// a table, a chart, and an audit through the API: exit code 0 says that the sale was correct, 1 that it was not, 2 that it did not take place.
#[derive(Clone, Debug, Parser)]
#[command(name = "seckill-load", version, max_term_width = 100)]
pub struct Options {
    /// Where the API is
    #[arg(long, value_name = "URL", env = "BASE_URL", default_value = "http://127.0.0.1:3000")]
    pub base_url: String,
    /// The target is not this machine, it is mine, and I pay for what this costs
    #[arg(long)]
    pub yes_this_is_mine: bool,
    /// Buyers' tokens, one a line: one for each buyer [default: the local cloud's own issuer]
    #[arg(long, value_name = "FILE")]
    pub tokens: Option<PathBuf>,
    /// A token with the scope seckill/admin, for the audit [default: the local cloud's own issuer]
    #[arg(long, value_name = "TOKEN", env = "ADMIN_TOKEN", hide_env_values = true)]
    pub operator_token: Option<String>,
    /// Press at this sale, which nobody else may press at meanwhile [default: makes a sale of its own]
    #[arg(long, value_name = "SALE", requires = "item")]
    pub sale: Option<String>,
    /// The item of that sale
    #[arg(long, value_name = "ITEM", requires = "sale")]
    pub item: Option<String>,
    /// Units of the sale that it makes
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub units: u32,
    /// Buyers
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub buyers: u32,
    /// They come within so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// How they come
    #[arg(long, value_enum, default_value_t = Shape::Front)]
    pub shape: Shape,
    /// Of a hundred buyers, so many look at the sale's page first
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub looks: u32,
    /// Of a hundred buyers with an order, so many press again and must be refused
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub repeats: u32,
    /// Of a hundred buyers with an order, so many pay, in the local sandbox [default: 50 on this machine, 0 elsewhere]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub pays: Option<u32>,
    /// How often a buyer who is told "later", or not answered, tries again
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub tries: u32,
    /// Buyers at it at the same time, at the most: beyond it they come late, and their waits are counted
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub at_once: u32,
    /// End it all after so many minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub give_up_minutes: u64,
    /// Draws the same choices as a run before [default: another each time]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Where the chart goes
    #[arg(long, value_name = "FILE", default_value = "target/load.html")]
    pub chart: PathBuf,
    /// Where the figures go as JSON
    #[arg(long, value_name = "FILE", default_value = "target/load.json")]
    pub out: PathBuf,
}

/// How buyers come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// At the stroke: twice the mean at the start, falling evenly to nobody at the end
    Front,
    /// The same all the time
    Even,
}

impl Shape {
    /// When so many of all have come, as a share of the whole time.
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

    /// Of a hundred with an order, so many pay.
    pub(crate) fn pays(&self) -> u32 {
        self.pays.unwrap_or(if self.is_local() { 50 } else { 0 })
    }

    pub(crate) fn lasting(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// What keeps it from beginning.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let uri: http::Uri = self
            .base_url
            .parse()
            .map_err(|error| format!("{} is no address: {error}; say --base-url http://HOST:PORT", self.base_url))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(format!("{} is no address: say --base-url http://HOST:PORT", self.base_url).into());
        }
        if self.is_local() {
            return Ok(());
        }
        if !self.yes_this_is_mine {
            return Err(format!(
                "{} is not this machine. Load is an attack on whoever did not ask for it, and costs its owner money: if it is yours, \
                 say --yes-this-is-mine",
                self.base_url
            )
            .into());
        }
        if self.tokens.is_none() {
            return Err("there is no issuer that gives tokens to anybody there: say --tokens FILE, with a buyer's token on each line".into());
        }
        if self.operator_token.is_none() {
            return Err("the audit needs an operator: set ADMIN_TOKEN to a token with the scope seckill/admin".into());
        }
        if self.pays() > 0 {
            return Err("nobody plays the payment providers there: --pays is for this machine".into());
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
    fn only_this_machine_is_pressed_at_unasked() {
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
            assert!(options(&["--base-url", url]).check().unwrap_err().to_string().contains("no address"), "{url}");
        }
    }

    #[test]
    fn elsewhere_it_needs_tokens_and_pays_nothing() {
        let there = ["--base-url", "https://shop.example", "--yes-this-is-mine"];
        let refused = |more: &[&str]| options(&[&there, more].concat()).check().map_err(|error| error.to_string());
        assert!(refused(&[]).unwrap_err().contains("--tokens"));
        assert!(refused(&["--tokens", "t"]).unwrap_err().contains("ADMIN_TOKEN"));
        assert!(refused(&["--tokens", "t", "--operator-token", "x", "--pays", "1"]).unwrap_err().contains("--pays"));
        assert_eq!(refused(&["--tokens", "t", "--operator-token", "x"]), Ok(()));
    }

    #[test]
    fn a_sale_and_its_item_are_said_together() {
        let said = |arguments: &[&str]| Options::try_parse_from(["seckill-load"].iter().chain(arguments)).is_ok();
        assert!(said(&["--sale", "s", "--item", "phone"]) && said(&[]));
        assert!(!said(&["--item", "phone"]) && !said(&["--sale", "s"]));
    }

    #[test]
    fn buyers_come_as_they_are_told() {
        assert_eq!((Shape::Even.when(0.25), Shape::Front.when(0.0), Shape::Front.when(1.0)), (0.25, 0.0, 1.0));
        assert_eq!(Shape::Front.when(0.75), 0.5, "three quarters come in the first half");
    }
}
