//! The data directory: its lock, its files, and what to do when it cannot be opened.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The file that marks a directory as ours, and that the running copy holds locked.
const LOCK: &str = "local-cloud.lock";

/// A data directory that belongs to this process until it is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

/// Why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another copy is running on it.
    #[error("{} is in use by another running copy: stop that one, or choose another directory with DATA_DIR", .0.display())]
    InUse(PathBuf),
    /// `--fresh` would delete somebody else's files.
    #[error("{} is not a data directory of the local cloud, so --fresh leaves it alone: choose another with DATA_DIR, or empty it yourself", .0.display())]
    NotOurs(PathBuf),
    /// It cannot be made, read or written.
    #[error("{} cannot be used ({reason}): check that it is a directory you may write to, or choose another with DATA_DIR", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
}

impl DataDir {
    /// Opens the directory, making it if need be, and locks it for this process. With `fresh`, what an earlier run left
    /// in it is deleted first; a directory that holds anything and is not ours is refused.
    pub fn open(path: &Path, fresh: bool) -> Result<Self, DataDirError> {
        let unusable = |reason| DataDirError::Unusable { path: path.to_owned(), reason };
        if fresh && !may_wipe(path).map_err(unusable)? {
            return Err(DataDirError::NotOurs(path.to_owned()));
        }
        fs::create_dir_all(path).map_err(unusable)?;
        let lock = File::options().create(true).truncate(false).write(true).open(path.join(LOCK)).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DataDirError::InUse(path.to_owned())),
            Err(TryLockError::Error(reason)) => return Err(unusable(reason)),
        }
        if fresh {
            wipe(path).map_err(unusable)?;
        }
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Absent, empty, or marked as ours.
fn may_wipe(path: &Path) -> io::Result<bool> {
    match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
        Ok(mut entries) => Ok(entries.next().is_none() || path.join(LOCK).is_file()),
    }
}

/// Deletes everything in the directory but the lock, which is held.
fn wipe(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        let removed = match entry.file_type() {
            Ok(kind) if kind.is_dir() => fs::remove_dir_all(entry.path()),
            Ok(_) => fs::remove_file(entry.path()),
            Err(error) => Err(error),
        };
        // A database that is just being closed takes its own side files away.
        removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::engine::{Cloud, OpenError};

    #[test]
    fn a_second_copy_is_told_what_to_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = DataDir::open(dir.path(), false).expect("the first copy");
        let error = DataDir::open(dir.path(), false).expect_err("the second copy");
        assert!(matches!(error, DataDirError::InUse(_)));
        let text = error.to_string();
        assert!(text.contains("stop that one") && !text.contains('\n'), "{text}");
        drop(first);
        DataDir::open(dir.path(), false).expect("after the first copy ended");
    }

    #[test]
    fn fresh_wipes_only_what_is_ours() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("thesis.txt"), "years of work").expect("a file");
        assert!(matches!(DataDir::open(dir.path(), true), Err(DataDirError::NotOurs(_))));
        assert!(dir.path().join("thesis.txt").exists());

        let ours = dir.path().join("ours");
        drop(DataDir::open(&ours, true).expect("a new one"));
        fs::write(ours.join("cloud.db"), "data").expect("a file");
        fs::create_dir(ours.join("logs")).expect("a folder");
        drop(DataDir::open(&ours, false).expect("kept"));
        assert!(ours.join("cloud.db").exists());
        drop(DataDir::open(&ours, true).expect("wiped"));
        assert!(!ours.join("cloud.db").exists() && !ours.join("logs").exists());
    }

    #[test]
    fn a_damaged_database_says_how_to_start_over() {
        for file in ["cloud.db", "dynamodb.db"] {
            let dir = tempfile::tempdir().expect("a directory");
            fs::write(dir.path().join(file), "this is no database, whatever its name says. ".repeat(100))
                .expect("a file");
            let error = Cloud::open(dir.path(), Clock::wall()).err().expect("an error");
            assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("--fresh") && text.contains(file) && !text.contains('\n'), "{text}");
        }
    }
}
