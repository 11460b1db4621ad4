//! Progress of long work: one line that is updated in a terminal, or a line every few seconds in a file.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// How often to show progress.
pub fn every() -> Duration {
    Duration::from_secs(if is_watched() { 1 } else { 10 })
}

/// Shows the line: in a terminal it replaces the previous one.
pub fn show(line: &str) {
    // The escape code erases the rest of a longer previous line.
    let (start, end) = if is_watched() { ("\r", "\x1b[K") } else { ("", "\n") };
    let mut stderr = std::io::stderr().lock();
    // Failing to show progress is no reason to stop.
    let _ = write!(stderr, "{start}{line}{end}");
    let _ = stderr.flush();
}

/// Ends the updated line, so that further output starts on a new one.
pub fn end() {
    if is_watched() {
        let _ = writeln!(std::io::stderr());
    }
}

fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}
