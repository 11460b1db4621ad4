//! What functions were allowed to do, and did: kept by every test that runs them under their policies, and compared with the template when all of them
//! have run (`check-permissions`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use local_cloud::iam::{Policies, Used};

use crate::world::STACK;

/// The template's policies, for handlers that run in this process.
pub static POLICIES: LazyLock<Arc<Policies>> = LazyLock::new(|| Arc::new(Policies::from_stack(&STACK)));

/// Where what was used is kept, if anybody asks for it.
fn folder() -> Option<PathBuf> {
    std::env::var_os("PERMISSIONS_SEEN").map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder))
}

/// Keeps what functions have used so far.
pub fn keep(policies: &Policies) {
    static KEPT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = KEPT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    keep_as(&number.to_string(), policies);
}

/// Keeps, when it is dropped, what handlers in this process have used so far.
#[derive(Debug)]
pub struct Keeper;

impl Drop for Keeper {
    fn drop(&mut self) {
        keep_as("here", &POLICIES);
    }
}

fn keep_as(name: &str, policies: &Policies) {
    let Some(folder) = folder() else { return };
    std::fs::create_dir_all(&folder).unwrap();
    // Whole or not at all: tests of one process may end at the same time.
    let file = folder.join(format!("{}-{name}.json", std::process::id()));
    let part = folder.join(format!("{}-{name}-{:?}.part", std::process::id(), std::thread::current().id()));
    std::fs::write(&part, serde_json::to_vec(&policies.used()).unwrap()).unwrap();
    std::fs::rename(part, file).unwrap();
}

/// Everything that was kept, and by how many runs.
pub fn kept() -> (usize, BTreeSet<Used>) {
    let folder = folder().expect("PERMISSIONS_SEEN names the folder");
    let files = std::fs::read_dir(&folder).into_iter().flatten().map(|file| file.unwrap().path());
    let files: Vec<_> = files.filter(|file| file.extension().is_some_and(|extension| extension == "json")).collect();
    let used =
        files.iter().flat_map(|file| -> Vec<Used> { serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap() });
    (files.len(), used.collect())
}
