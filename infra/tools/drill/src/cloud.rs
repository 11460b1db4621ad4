//! The local cloud as a separate process that can be killed and restarted on the same port and data.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::http::Api;
use testkit::rng::Rng;
use tokio::process::{Child, Command};

use crate::{Options, Problem};
use testkit::processes::{Process, children_of, terminate};

/// A start takes a second or two, and longer on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// A clean stop gives running invocations a few seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How many lines of its log are shown when it does not start.
const LOG_LINES: usize = 5;

/// The running local cloud. Dropping it kills it and all processes of its functions, and removes its files.
#[derive(Debug)]
pub(crate) struct Cloud {
    template: PathBuf,
    binaries: PathBuf,
    port: u16,
    child: Child,
    /// Functions of local clouds that were killed. They should end by themselves.
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
    /// Starts the local cloud with a new data directory on a free port.
    pub(crate) async fn start(options: &Options) -> Result<Self, Problem> {
        let directory = tempfile::Builder::new().prefix("seckill-drill-").tempdir()?;
        let (template, binaries) = (options.template.clone(), options.binaries()?);
        let path = directory.path().to_owned();
        let port = free_port()?;
        let child = spawn(&template, &binaries, port, &path)?;
        let mut cloud = Self { template, binaries, port, child, orphans: Vec::new(), directory: Some(directory), path };
        cloud.wait_until_ready().await?;
        Ok(cloud)
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        data_dir(&self.path)
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        log_file(&self.path)
    }

    /// The processes of its functions.
    pub(crate) fn functions(&self) -> Vec<Process> {
        self.child.id().map(children_of).unwrap_or_default()
    }

    /// Kills only the process of the local cloud, and starts a new one. Its functions keep running as orphans.
    pub(crate) async fn kill_and_restart(&mut self) -> Result<(), Problem> {
        self.is_up()?;
        self.orphans.retain(Process::is_alive);
        self.orphans.extend(self.functions());
        self.child.start_kill()?;
        self.child.wait().await?;
        self.child = spawn(&self.template, &self.binaries, self.port, &self.path)?;
        self.wait_until_ready().await
    }

    /// An error if the local cloud has ended by itself.
    pub(crate) fn is_up(&mut self) -> Result<(), Problem> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("the local cloud ended by itself ({status}): {}", self.end_of_log()).into()),
        }
    }

    /// Functions of killed local clouds that are still running.
    pub(crate) fn orphans(&self) -> Vec<String> {
        self.orphans.iter().filter(|orphan| orphan.is_alive()).map(|orphan| orphan.program.clone()).collect()
    }

    /// Stops the local cloud cleanly, as Ctrl-C does.
    pub(crate) async fn stop(&mut self) -> Result<(), Problem> {
        self.is_up()?;
        let _ = self.child.id().is_some_and(terminate);
        match tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await {
            Ok(status) if status.as_ref().is_ok_and(std::process::ExitStatus::success) => Ok(()),
            Ok(status) => {
                Err(format!("the local cloud did not stop cleanly ({status:?}): {}", self.end_of_log()).into())
            }
            Err(_) => Err(format!("the local cloud did not stop within {} s", STOP_TIMEOUT.as_secs()).into()),
        }
    }

    /// Keeps the files when this value is dropped.
    pub(crate) fn keep(&mut self) {
        if let Some(directory) = self.directory.take() {
            let _ = directory.keep();
        }
    }

    async fn wait_until_ready(&mut self) -> Result<(), Problem> {
        let api = Api::new(self.base_url());
        let until = Instant::now() + START_TIMEOUT;
        while Instant::now() < until {
            if api.try_send("GET", "/_local/health", &[], "").await.is_ok_and(|answer| answer.status == 200) {
                return Ok(());
            }
            self.is_up()?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err(format!("the local cloud did not answer in {} s: {}", START_TIMEOUT.as_secs(), self.end_of_log()).into())
    }

    fn end_of_log(&self) -> String {
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
        .args(["--host", "processes"])
        .arg("--binaries")
        .arg(binaries)
        .arg("--data-dir")
        .arg(data_dir(path))
        .args(["--port", &port.to_string(), "--no-demo"])
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        // Ctrl-C reaches only this program, which then ends the others.
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    child.map_err(|error| format!("cannot start {}: {error}: run `make build-local`", program.display()).into())
}

/// A free port below the range from which the system assigns ports itself. No other program gets it between a kill and
/// the restart, and a client that connects meanwhile cannot be connected to itself, which can happen in that range.
fn free_port() -> Result<u16, Problem> {
    const FIRST: u16 = 10_000;
    const ATTEMPTS: u32 = 100;
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let assigned_from: u16 = range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(32_768);
    let room = usize::from(assigned_from.saturating_sub(FIRST));
    // Independent of the seed, because two drills with the same seed may run at the same time.
    let mut rng = Rng::new(u64::from(std::process::id()));
    for _ in 0..ATTEMPTS {
        let port = u16::try_from(rng.below(room)).unwrap_or(0).saturating_add(FIRST);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(format!("no free port was found from {FIRST} to {assigned_from}: stop other programs, or try again").into())
}
