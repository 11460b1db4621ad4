//! How far a long piece of work is: one line that changes for a person, a line now and then for a file.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// How often to tell.
pub fn every() -> Duration {
    Duration::from_secs(if is_watched() { 1 } else { 10 })
}

/// Shows the line in the place of the last one, or below it.
pub fn show(line: &str) {
    // Erases what a longer line left at its end.
    let (start, end) = if is_watched() { ("\r", "\x1b[K") } else { ("", "\n") };
    let mut stderr = std::io::stderr().lock();
    // Progress that cannot be shown is no reason to stop.
    let _ = write!(stderr, "{start}{line}{end}");
    let _ = stderr.flush();
}

/// What is printed next begins a line of its own.
pub fn end() {
    if is_watched() {
        let _ = writeln!(std::io::stderr());
    }
}

fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}
