//! Each function's log: one file, bounded in size, and a live feed.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufRead, AsyncBufReadExt};
use tokio::sync::broadcast;

/// Lines that a slow subscriber may lag behind before it loses the oldest.
const LIVE_LINES: usize = 4096;
/// A longer line is cut into several: CloudWatch's own limit for one event.
const LONGEST_LINE_BYTES: usize = 256 * 1024;

/// A function's log, buffered. When the file is full it becomes `FUNCTION.log.1`, replacing the previous one, and a new
/// one begins.
#[derive(Debug)]
pub(crate) struct FunctionLog {
    file: Mutex<RotatingFile>,
    live: broadcast::Sender<Arc<str>>,
}

#[derive(Debug)]
struct RotatingFile {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    most_bytes: u64,
    complained: bool,
}

impl FunctionLog {
    /// Opens `FUNCTION.log` in `directory`, which must exist, and goes on at its end.
    pub(crate) fn open(directory: &Path, function: &str, most_bytes: u64) -> io::Result<Self> {
        let path = directory.join(format!("{function}.log"));
        let file = append(&path)?;
        let bytes = file.get_ref().metadata()?.len();
        let file = RotatingFile { path, file, bytes, most_bytes, complained: false };
        Ok(Self { file: Mutex::new(file), live: broadcast::Sender::new(LIVE_LINES) })
    }

    /// Writes one line, or several parted by newlines, in one piece. They are in the file after a flush.
    pub(crate) fn write(&self, lines: &str) {
        if self.live.receiver_count() > 0 {
            for line in lines.lines() {
                let _ = self.live.send(line.into());
            }
        }
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write(lines);
    }

    /// Puts what was written into the file.
    pub(crate) fn flush(&self) {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).flush();
    }

    /// The lines written from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<str>> {
        self.live.subscribe()
    }

    /// Copies a process's output, line by line, until it ends.
    pub(crate) async fn copy(&self, mut output: impl AsyncBufRead + Unpin) {
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
        let written = |file: &mut BufWriter<File>| {
            file.write_all(lines.as_bytes())?;
            file.write_all(b"\n")
        };
        let result = self.rotate_if_full().and_then(|()| written(&mut self.file));
        self.bytes = self.bytes.saturating_add(u64::try_from(lines.len() + 1).unwrap_or(u64::MAX));
        self.complain_once(result);
    }

    fn flush(&mut self) {
        if !self.file.buffer().is_empty() {
            let result = self.file.flush();
            self.complain_once(result);
        }
    }

    fn complain_once(&mut self, result: io::Result<()>) {
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
        self.file.flush()?;
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

fn append(path: &Path) -> io::Result<BufWriter<File>> {
    OpenOptions::new().create(true).append(true).open(path).map(BufWriter::new)
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
        log.flush();
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
        log.flush();
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
