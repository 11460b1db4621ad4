//! `make planted-bugs`: plants bugs into a copy of the source tree and prints which seed catches each one. Fails if
//! a bug is not caught.
//!
//! All bugs are planted at once, each behind a switch, so that one build is enough. `ONLY=name,name` tries only
//! these, and `SEEDS=200` sets how many seeds each bug gets.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use sim::planted_bugs::{Bug, SWITCH, bugs, plant, write};

fn main() -> ExitCode {
    // Not `CARGO_MANIFEST_DIR`: building the copy overwrites this program by the copy's.
    let root = std::env::current_dir().unwrap();
    let seeds = std::env::var("SEEDS").unwrap_or_else(|_| "1000".into());
    let only = std::env::var("ONLY").ok();
    let bugs = bugs();
    println!("Building a copy of the tree with {} planted bugs...", bugs.len() - 1);
    let program = match copy(&root, &bugs).and_then(|copy| build(&root, &copy)) {
        Ok(program) => program,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if let Some((seed, violation)) = catch(&program, "", "30") {
        println!("Without any bug switched on, seed {seed} fails: {violation}");
        return ExitCode::FAILURE;
    }
    println!("{:<32} {:>6} {:>8}  {:<60} violated", "bug", "seed", "seconds", "what is wrong");
    let mut missed = 0;
    for Bug { name, what, .. } in bugs.iter().filter(|bug| bug.name != SWITCH) {
        if only.as_ref().is_some_and(|only| !only.split(',').any(|only| only == name)) {
            continue;
        }
        let began = Instant::now();
        let caught = catch(&program, name, &seeds);
        let seconds = began.elapsed().as_secs_f64();
        let (seed, violation) = caught.unwrap_or_else(|| {
            missed += 1;
            ("-".into(), format!("NOT CAUGHT by {seeds} seeds"))
        });
        let violation: String = violation.chars().take(90).collect();
        println!("{name:<32} {seed:>6} {seconds:>8.1}  {what:<60} {violation}");
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Copies all tracked files, with the bugs in them.
fn copy(root: &Path, bugs: &[Bug]) -> Result<PathBuf, String> {
    let copy = root.join("target/planted_bugs");
    let listed =
        Command::new("git").args(["ls-files"]).current_dir(root).output().map_err(|error| error.to_string())?;
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap_or_default();
    let mut planted = plant(bugs, read)?;
    // Another version, because cargo distinguishes packages in one target directory by version, not by path.
    let manifest = read("Cargo.toml").replacen("\"\nedition", "-planted\"\nedition", 1);
    planted.insert("Cargo.toml".into(), manifest);
    for file in String::from_utf8_lossy(&listed.stdout).lines() {
        let text = match planted.get(file) {
            Some(text) => text.clone().into_bytes(),
            None => match std::fs::read(root.join(file)) {
                Ok(text) => text,
                Err(_) => continue,
            },
        };
        write(&copy.join(file), &text).map_err(|error| format!("{file} cannot be copied: {error}"))?;
    }
    Ok(copy)
}

/// Builds the copy's `seeds` test in the project's own target directory, so that dependencies are compiled once.
fn build(root: &Path, copy: &Path) -> Result<PathBuf, String> {
    let built = Command::new("cargo")
        .args(["test", "--workspace", "--no-run", "--test", "seeds", "--message-format", "json-render-diagnostics"])
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", root.join("target"))
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| error.to_string())?;
    let lines = String::from_utf8_lossy(&built.stdout).into_owned();
    let mut program = lines.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        (message["target"]["name"] == "seeds").then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
    });
    program.next_back().filter(|_| built.status.success()).ok_or_else(|| "the copy does not compile".to_owned())
}

/// The first seed that violates something, and the violation.
fn catch(program: &Path, bug: &str, seeds: &str) -> Option<(String, String)> {
    let run = Command::new(program)
        .args(["--nocapture", "no_seed_violates_anything"])
        .env("PLANTED", bug)
        .env("SEEDS", seeds)
        .env("FIRST", "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("the test binary can be run");
    let out = String::from_utf8_lossy(&run.stdout).into_owned();
    let line = out.lines().find_map(|line| line.strip_prefix("seed "))?;
    let (seed, violation) = line.split_once(": ")?;
    Some((seed.to_owned(), violation.to_owned()))
}
