//! The local cloud as a process of its own, which can be killed and started again on the same port and data.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use testkit::dice::Dice;
use testkit::http::Api;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{Options, Problem};
use testkit::processes::{Process, children_of, terminate};

/// A start takes a second or two; on a machine out of breath, some more.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// A clean stop gives running invocations a few seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Lines of its log that are shown when it does not start.
const LOG_LINES: usize = 5;

/// The running local cloud. Dropping it kills it and every process that it left behind, and removes its files.
#[derive(Debug)]
pub(crate) struct Cloud {
    template: PathBuf,
    binaries: PathBuf,
    port: u16,
    child: Child,
    /// Functions of clouds that were killed: they are to end by themselves.
    orphans: Vec<Process>,
    directory: Option<TempDir>,
    path: PathBuf,
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let functions = self.functions();
        let _ = self.child.start_kill();
        for process in functions.iter().chain(&self.orphans) {
            process.kill();
        }
    }
}

impl Cloud {
    /// Starts it on a new data directory and a free port.
    pub(crate) async fn start(options: &Options) -> Result<Self, Problem> {
        let directory = tempfile::Builder::new().prefix("seckill-drill-").tempdir()?;
        let (template, binaries) = (options.template.clone(), options.binaries()?);
        let path = directory.path().to_owned();
        let port = free_port()?;
        let child = spawn(&template, &binaries, port, &path)?;
        let mut cloud = Self { template, binaries, port, child, orphans: Vec::new(), directory: Some(directory), path };
        cloud.until_it_answers().await?;
        Ok(cloud)
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Where its data is.
    pub(crate) fn data_dir(&self) -> PathBuf {
        data_dir(&self.path)
    }

    /// What it said.
    pub(crate) fn log_file(&self) -> PathBuf {
        log_file(&self.path)
    }

    /// The processes of its functions.
    pub(crate) fn functions(&self) -> Vec<Process> {
        self.child.id().map(children_of).unwrap_or_default()
    }

    /// Kills it as it is, and starts it again. Its functions are left to themselves.
    pub(crate) async fn kill_and_start_again(&mut self) -> Result<(), Problem> {
        self.is_up()?;
        self.orphans.retain(Process::is_alive);
        self.orphans.extend(self.functions());
        self.child.start_kill()?;
        self.child.wait().await?;
        self.child = spawn(&self.template, &self.binaries, self.port, &self.path)?;
        self.until_it_answers().await
    }

    /// An error if it has ended, which only this program may make it do.
    pub(crate) fn is_up(&mut self) -> Result<(), Problem> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("the local cloud ended by itself ({status}): {}", self.last_words()).into()),
        }
    }

    /// Functions of killed clouds that still run.
    pub(crate) fn orphans(&self) -> Vec<String> {
        self.orphans.iter().filter(|orphan| orphan.is_alive()).map(|orphan| orphan.program.clone()).collect()
    }

    /// Stops it as Ctrl-C does.
    pub(crate) async fn stop(&mut self) -> Result<(), Problem> {
        self.is_up()?;
        let _ = self.child.id().is_some_and(terminate);
        match tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await {
            Ok(status) if status.as_ref().is_ok_and(std::process::ExitStatus::success) => Ok(()),
            Ok(status) => {
                Err(format!("the local cloud did not stop cleanly ({status:?}): {}", self.last_words()).into())
            }
            Err(_) => Err(format!("the local cloud did not stop within {} s", STOP_TIMEOUT.as_secs()).into()),
        }
    }

    /// Leaves the files where they are.
    pub(crate) fn keep(&mut self) {
        if let Some(directory) = self.directory.take() {
            let _ = directory.keep();
        }
    }

    async fn until_it_answers(&mut self) -> Result<(), Problem> {
        let api = Api::new(self.base_url());
        let until = Instant::now() + START_TIMEOUT;
        while Instant::now() < until {
            if api.try_send("GET", "/_local/health", &[], "").await.is_ok_and(|answer| answer.status == 200) {
                return Ok(());
            }
            self.is_up()?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err(format!("the local cloud did not answer in {} s: {}", START_TIMEOUT.as_secs(), self.last_words()).into())
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.log_file()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(LOG_LINES).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
    }
}

fn data_dir(path: &Path) -> PathBuf {
    path.join("data")
}

fn log_file(path: &Path) -> PathBuf {
    path.join("cloud.log")
}

fn spawn(template: &Path, binaries: &Path, port: u16, path: &Path) -> Result<Child, Problem> {
    let program = binaries.join("seckill-local");
    let log = File::options().create(true).append(true).open(log_file(path))?;
    let child = Command::new(&program)
        .arg("--template")
        .arg(template)
        .arg("--binaries")
        .arg(binaries)
        .arg("--data-dir")
        .arg(data_dir(path))
        .args(["--port", &port.to_string(), "--no-demo"])
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        // Ctrl-C is for this program alone, which then ends everything.
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    child.map_err(|error| format!("cannot start {}: {error}: run `make build-local`", program.display()).into())
}

/// A port that nobody listens on, and that the system gives to nobody by itself: it must be free again after each kill, and
/// somebody who calls a port of the system's own range that nobody listens on may be connected with himself.
fn free_port() -> Result<u16, Problem> {
    const FIRST: u16 = 10_000;
    const TRIES: u32 = 100;
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let given_from: u16 = range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(32_768);
    let room = usize::from(given_from.saturating_sub(FIRST));
    // Not from the seed: two drills of one seed may run side by side.
    let mut dice = Dice::new(u64::from(std::process::id()));
    for _ in 0..TRIES {
        let port = u16::try_from(dice.below(room)).unwrap_or(0).saturating_add(FIRST);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(format!("no free port was found from {FIRST} to {given_from}").into())
}
