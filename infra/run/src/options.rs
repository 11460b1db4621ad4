//! What `seckill-local` can be told.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Parser;

/// Runs what template.yaml deploys on this machine: the real functions, their tables, queues and schedules, and the
/// API at http://127.0.0.1:3000. No AWS account, no Docker.
#[derive(Clone, Debug, Parser, PartialEq)]
#[command(name = "seckill-local", version, max_term_width = 100)]
pub struct Options {
    /// The template to run
    #[arg(long, value_name = "FILE", default_value = "template.yaml")]
    pub template: PathBuf,
    /// The port of the API on 127.0.0.1; 0 takes any that is free
    #[arg(long, env = "PORT", default_value_t = 3000)]
    pub port: u16,
    /// Where data, logs and keys are kept between runs
    #[arg(long, env = "DATA_DIR", value_name = "DIR", default_value = ".local")]
    pub data_dir: PathBuf,
    /// Delete the data of earlier runs first
    #[arg(long)]
    pub fresh: bool,
    /// Show the log of a function here as well; repeat it for more, or say `all`
    #[arg(long, value_name = "FUNCTION")]
    pub logs: Vec<String>,
    /// Where the functions' binaries are, each under its cargo name
    #[arg(long, value_name = "DIR", default_value = "target/debug")]
    pub binaries: PathBuf,
    /// A value for a parameter of the template; repeat it for more
    #[arg(long = "parameter", value_name = "KEY=VALUE", value_parser = parameter)]
    pub parameters: Vec<(String, String)>,
    /// At most so many environments (processes) of one function at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub max_environments: Option<u32>,
    /// Serve the engines on another address of this machine as well, so that functions in containers reach them
    #[arg(long, value_name = "ADDRESS")]
    pub also_listen: Option<IpAddr>,
    /// Make no demo sale on the first run
    #[arg(long)]
    pub no_demo: bool,
}

impl Default for Options {
    /// What the program does without options, whatever the environment says.
    fn default() -> Self {
        Self {
            template: PathBuf::from("template.yaml"),
            port: 3000,
            data_dir: PathBuf::from(".local"),
            fresh: false,
            logs: Vec::new(),
            binaries: PathBuf::from("target/debug"),
            parameters: Vec::new(),
            max_environments: None,
            also_listen: None,
            no_demo: false,
        }
    }
}

fn parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let line = [
            "seckill-local",
            "--port",
            "0",
            "--fresh",
            "--logs",
            "seckill",
            "--logs",
            "shop",
            "--parameter",
            "A=b=c",
            "--data-dir",
            "/d",
            "--max-environments",
            "3",
            "--also-listen",
            "172.17.0.1",
            "--no-demo",
        ];
        let options = Options::try_parse_from(line).unwrap();
        let expected = Options {
            port: 0,
            fresh: true,
            logs: vec!["seckill".to_owned(), "shop".to_owned()],
            parameters: vec![("A".to_owned(), "b=c".to_owned())],
            data_dir: PathBuf::from("/d"),
            max_environments: Some(3),
            also_listen: Some(IpAddr::from([172, 17, 0, 1])),
            no_demo: true,
            ..Options::default()
        };
        assert_eq!(options, expected);
    }

    #[test]
    fn mistakes_are_told() {
        for line in [["--parameter", "A"], ["--parameter", "=b"], ["--port", "70000"], ["--max-environments", "0"]] {
            let error = Options::try_parse_from(["seckill-local"].iter().chain(&line)).unwrap_err();
            assert!(error.to_string().contains(line[0]), "{error}");
        }
    }
}
