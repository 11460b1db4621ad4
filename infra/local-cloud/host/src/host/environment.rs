//! One environment: a bootstrap process, its port of the Runtime API, and what becomes of it.
//!
//! The process is in a process group of its own, so that Ctrl-C in a terminal reaches the host alone and running
//! invocations get their moment. It is killed when its environment ends in any way; should the host itself be killed,
//! the bootstrap's next call finds no Runtime API and it exits.

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::BufReader;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::pool::Deadline;
use super::runner::Runner;
use super::{ids, runtime_api};
use crate::invoke::{FunctionError, Outcome};

/// How long the end of a dead process's output is waited for: a grandchild may hold the pipe open.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// Runs environment `id` from its start to its end.
pub(super) async fn run(runner: Arc<Runner>, id: u64) {
    let Some(kill) = runner.pool().kill_signal(id) else {
        return;
    };
    let reason = match start(&runner).await {
        Ok((listener, child)) => supervise(&runner, id, listener, child, &kill).await,
        Err(error) => FunctionError {
            error_type: "Runtime.InvalidEntrypoint".into(),
            message: format!("cannot start {}: {error}", runner.program.display()),
        },
    };
    end(&runner, id, &reason);
}

/// Binds the port first, because the process needs it at its start.
async fn start(runner: &Runner) -> std::io::Result<(TcpListener, Child)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let child = Command::new(&runner.program)
        .env_clear()
        .envs(&runner.variables)
        .env("AWS_LAMBDA_LOG_STREAM_NAME", ids::log_stream(runner.clock.now_ms()))
        .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    Ok((listener, child))
}

/// Serves the process until it is gone; says why it went.
async fn supervise(
    runner: &Arc<Runner>,
    id: u64,
    listener: TcpListener,
    mut child: Child,
    kill: &Notify,
) -> FunctionError {
    let mut output = copy_output(runner, &mut child);
    let mut connections = JoinSet::new();
    let mut stopped = runner.stopped.clone();
    let began = Instant::now();
    let mut look_at = began + runner.limits.init_timeout.min(runner.function.timeout);
    let mut late_start = None;
    let status = loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                connections.spawn(runtime_api::serve(stream, Arc::clone(runner), id));
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            status = child.wait() => break status,
            () = kill.notified() => { let _ = child.start_kill(); }
            () = host_gone(&mut stopped) => {
                let _ = child.start_kill();
                break child.wait().await;
            }
            () = tokio::time::sleep_until(look_at.into()) => {
                let now = Instant::now();
                if !runner.pool().is_ready(id) && now >= began + runner.limits.init_timeout {
                    late_start = Some(timed_out("init", runner.limits.init_timeout));
                    let _ = child.start_kill();
                }
                look_at = check_deadline(runner, id, now, &mut child);
            }
        }
    };
    // The connections end here, and with them anything parked; what the process still said is kept.
    connections.shutdown().await;
    let _ = tokio::time::timeout(LAST_OUTPUT, async { while output.join_next().await.is_some() {} }).await;
    late_start.unwrap_or_else(|| exited(status))
}

/// Returns when the host stops, or is dropped.
async fn host_gone(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn copy_output(runner: &Arc<Runner>, child: &mut Child) -> JoinSet<()> {
    let mut output = JoinSet::new();
    if let Some(stdout) = child.stdout.take() {
        let runner = Arc::clone(runner);
        output.spawn(async move { runner.log.copy(BufReader::new(stdout)).await });
    }
    if let Some(stderr) = child.stderr.take() {
        let runner = Arc::clone(runner);
        output.spawn(async move { runner.log.copy(BufReader::new(stderr)).await });
    }
    output
}

/// Kills the process if its invocation is overdue; says when to look again.
fn check_deadline(runner: &Runner, id: u64, now: Instant, child: &mut Child) -> Instant {
    let timeout = runner.function.timeout;
    let deadline = runner.pool().deadline(id, timeout, now);
    match deadline {
        Deadline::LookAgainAt(at) => at,
        Deadline::Expired(current) => {
            let _ = child.start_kill();
            let error = timed_out(&current.request_id, timeout);
            let said = error.message.replacen("RequestId: ", "", 1).replacen(" Error:", "", 1);
            runner.log.write(&said);
            runner.complete(current, Outcome::Failed(error));
            now + timeout
        }
    }
}

/// The environment is gone: its invocation fails, and a replacement may be needed.
fn end(runner: &Arc<Runner>, id: u64, reason: &FunctionError) {
    let ended = runner.pool().ended(id, reason.clone(), Instant::now());
    if let Some(current) = ended.current {
        let message = format!("RequestId: {} Error: {}", current.request_id, reason.message);
        let error = FunctionError { error_type: reason.error_type.clone(), message };
        runner.complete(current, Outcome::Failed(error));
    }
    if let Some(failure) = ended.start_failure {
        let FunctionError { error_type, message } = &failure;
        runner.log.write(&format!("INIT_REPORT Status: error\tError Type: {error_type}\tMessage: {message}"));
        tracing::warn!(function = %runner.function.name, error_type, message, "the function does not start");
        for invocation in ended.failed {
            runner.fail_waiting(invocation, failure.clone());
        }
    }
    if let Some(next) = ended.start {
        runner.start_environment(next);
    }
}

fn timed_out(request_id: &str, after: Duration) -> FunctionError {
    let seconds = after.as_secs_f64();
    FunctionError {
        error_type: "Sandbox.Timedout".into(),
        message: format!("RequestId: {request_id} Error: Task timed out after {seconds:.2} seconds"),
    }
}

/// How Lambda words the end of a process.
fn exited(status: std::io::Result<ExitStatus>) -> FunctionError {
    let message = match status {
        Ok(status) if status.success() => "Runtime exited without providing a reason".to_owned(),
        // `exit status: 1` and `signal: 9 (SIGKILL)` as the standard library has them, without the first's colon.
        Ok(status) => format!("Runtime exited with error: {}", status.to_string().replace("status: ", "status ")),
        Err(error) => format!("Runtime exited with error: {error}"),
    };
    FunctionError { error_type: "Runtime.ExitError".into(), message }
}
