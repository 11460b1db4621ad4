//! Logs of functions that share one program: what an invocation logs goes to its function's log.

use std::io;
use std::sync::Arc;

use crate::host::FunctionLog;

tokio::task_local! {
    /// The log of the function whose invocation runs.
    static LOG: Arc<FunctionLog>;
}

/// Runs an invocation whose log lines belong to `log`.
pub(super) async fn scope<T>(log: Arc<FunctionLog>, invocation: impl Future<Output = T>) -> T {
    LOG.scope(log, invocation).await
}

/// Whether this is called by a function's invocation.
pub fn in_function() -> bool {
    LOG.try_with(|_| ()).is_ok()
}

/// Writes a line to the log of the function that calls it; outside of functions nothing is written.
///
/// `tracing_subscriber` makes one for each event, and writes the whole event in one call.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogWriter;

impl io::Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = LOG.try_with(|log| log.write(String::from_utf8_lossy(bytes).trim_end_matches('\n')));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
