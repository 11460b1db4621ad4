//! Each function's log: one file, bounded in size, and a live feed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufRead, AsyncBufReadExt};
use tokio::sync::broadcast;

/// Lines that a slow subscriber may lag behind before it loses the oldest.
const LIVE_LINES: usize = 4096;
/// A longer line is cut into several: CloudWatch's own limit for one event.
const LONGEST_LINE_BYTES: usize = 256 * 1024;

/// A function's log. When the file is full it becomes `FUNCTION.log.1`, replacing the one before, and a new one
/// begins.
#[derive(Debug)]
pub(super) struct FunctionLog {
    file: Mutex<RotatingFile>,
    live: broadcast::Sender<Arc<str>>,
}

#[derive(Debug)]
struct RotatingFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    most_bytes: u64,
    complained: bool,
}

impl FunctionLog {
    /// Opens `FUNCTION.log` in `directory`, which must exist, and goes on at its end.
    pub(super) fn open(directory: &Path, function: &str, most_bytes: u64) -> io::Result<Self> {
        let path = directory.join(format!("{function}.log"));
        let file = append(&path)?;
        let bytes = file.metadata()?.len();
        let file = RotatingFile { path, file, bytes, most_bytes, complained: false };
        Ok(Self { file: Mutex::new(file), live: broadcast::Sender::new(LIVE_LINES) })
    }

    /// Writes one line, or several parted by newlines, in one piece.
    pub(super) fn write(&self, lines: &str) {
        if self.live.receiver_count() > 0 {
            for line in lines.lines() {
                let _ = self.live.send(line.into());
            }
        }
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write(lines);
    }

    /// The lines written from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Arc<str>> {
        self.live.subscribe()
    }

    /// Copies a process's output, line by line, until it ends.
    pub(super) async fn copy(&self, mut output: impl AsyncBufRead + Unpin) {
        let mut line = Vec::new();
        while let Ok(read) = output.fill_buf().await {
            if read.is_empty() {
                break;
            }
            let newline = read.iter().position(|byte| *byte == b'\n');
            let room = LONGEST_LINE_BYTES.saturating_sub(line.len());
            let taken = newline.unwrap_or(read.len()).min(room);
            line.extend(read.iter().take(taken));
            let whole = newline == Some(taken) || line.len() >= LONGEST_LINE_BYTES;
            output.consume(if newline == Some(taken) { taken + 1 } else { taken });
            if whole {
                self.write(&String::from_utf8_lossy(&line));
                line.clear();
            }
        }
        if !line.is_empty() {
            self.write(&String::from_utf8_lossy(&line));
        }
    }
}

impl RotatingFile {
    fn write(&mut self, lines: &str) {
        let mut text = String::with_capacity(lines.len() + 1);
        text.push_str(lines);
        text.push('\n');
        let result = self.rotate_if_full().and_then(|()| self.file.write_all(text.as_bytes()));
        self.bytes = self.bytes.saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX));
        if let (Err(error), false) = (result, self.complained) {
            // Said once: a full disk must not fill the terminal too. The functions go on.
            self.complained = true;
            tracing::warn!(path = %self.path.display(), %error, "cannot write the function's log");
        }
    }

    fn rotate_if_full(&mut self) -> io::Result<()> {
        if self.bytes < self.most_bytes {
            return Ok(());
        }
        match std::fs::rename(&self.path, self.path.with_extension("log.1")) {
            // The file was deleted: a new one begins.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.file = append(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_kept_once_and_a_new_one_begins() {
        let directory = tempfile::tempdir().unwrap();
        let log = FunctionLog::open(directory.path(), "f", 10).unwrap();
        for line in ["first line", "second line", "third line"] {
            log.write(line);
        }
        let read = |name| std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(read("f.log"), "third line\n");
        assert_eq!(read("f.log.1"), "second line\n");
    }

    #[test]
    fn a_file_that_was_deleted_begins_again() {
        let directory = tempfile::tempdir().unwrap();
        let log = FunctionLog::open(directory.path(), "f", 10).unwrap();
        log.write("first line");
        std::fs::remove_file(directory.path().join("f.log")).unwrap();
        log.write("second line");
        assert_eq!(std::fs::read_to_string(directory.path().join("f.log")).unwrap(), "second line\n");
    }

    #[tokio::test]
    async fn output_is_copied_by_lines_and_a_long_line_is_cut() {
        let directory = tempfile::tempdir().unwrap();
        let log = FunctionLog::open(directory.path(), "f", u64::MAX).unwrap();
        let mut live = log.subscribe();
        let output = format!("one\n\n{}end\nlast", "x".repeat(LONGEST_LINE_BYTES));
        log.copy(output.as_bytes()).await;
        let mut lengths = Vec::new();
        while let Ok(line) = live.try_recv() {
            lengths.push(line.len());
        }
        assert_eq!(lengths, [3, LONGEST_LINE_BYTES, 3, 4]);
    }
}
