//! The data directory: its lock, its files, and what to do when it cannot be opened.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::engine::{database, dynamodb};

/// The file that the running copy holds locked.
const LOCK: &str = "local-cloud.lock";
/// The folder of the functions' logs.
pub const LOGS: &str = "logs";
/// The key that signs the local issuer's tokens.
pub const ISSUER_KEY: &str = "issuer-key.pem";

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
    #[error("{} is in use by another running copy: stop that one, or choose another directory with \
        DATA_DIR", .0.display())]
    InUse(PathBuf),
    /// It cannot be made, read or written.
    #[error("{} cannot be used ({reason}): check that it is a directory you may write to, or choose another with \
        DATA_DIR", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        reason: io::Error,
    },
}

impl DataDir {
    /// Opens the directory, making it if need be, and locks it for this process. With `fresh`, what an earlier run
    /// left in it is deleted first, and nothing else: it may be a directory that holds other things too.
    pub fn open(path: &Path, fresh: bool) -> Result<Self, DataDirError> {
        let unusable = |reason| DataDirError::Unusable { path: path.to_owned(), reason };
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

/// Deletes what the local cloud writes there, but for the lock, which is held.
fn wipe(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if !is_ours(&entry.file_name()) {
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

/// Whether the local cloud writes something of this name.
fn is_ours(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    // Beside a database are `NAME-wal` and the like; a key is written under `NAME.new` first.
    let is_of = |file: &str| {
        name.strip_prefix(file).is_some_and(|rest| rest.is_empty() || rest.starts_with('-') || rest == ".new")
    };
    name == LOGS || [database::FILE, dynamodb::FILE, ISSUER_KEY].into_iter().any(is_of)
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
        let at = |name: &str| dir.path().join(name);
        let others = ["thesis.txt", "cloud.dbx", ".git/HEAD", "demo/cloud.db", "demo/local-cloud.lock"];
        let ours = ["cloud.db", "cloud.db-wal", "dynamodb.db", "dynamodb.db-shm", "issuer-key.pem"];
        for folder in [".git", "demo", "logs"] {
            fs::create_dir(at(folder)).expect("a folder");
        }
        for name in others.into_iter().chain(ours).chain(["logs/shop.log"]) {
            fs::write(at(name), "years of work").expect("a file");
        }
        drop(DataDir::open(dir.path(), false).expect("kept"));
        assert!(ours.iter().all(|name| at(name).exists()) && at("logs/shop.log").exists());
        drop(DataDir::open(dir.path(), true).expect("wiped"));
        for name in ours.into_iter().chain(["logs"]) {
            assert!(!at(name).exists(), "{name}");
        }
        for name in others {
            assert!(at(name).exists(), "{name}");
        }
        drop(DataDir::open(&at("new"), true).expect("a new one"));
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
