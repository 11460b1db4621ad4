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
    std::env::var_os("PERMISSIONS_SEEN").map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder))
}

/// Keeps what functions have used so far.
pub fn keep(policies: &Policies) {
    let Some(folder) = folder() else { return };
    static KEPT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = KEPT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{}-{number}.json", std::process::id()));
    std::fs::write(file, serde_json::to_vec(&policies.used()).unwrap()).unwrap();
}

/// Everything that was kept, and by how many runs.
pub fn kept() -> (usize, BTreeSet<Used>) {
    let folder = folder().expect("PERMISSIONS_SEEN names the folder");
    let files: Vec<_> = std::fs::read_dir(&folder).into_iter().flatten().map(|file| file.unwrap().path()).collect();
    let used =
        files.iter().flat_map(|file| -> Vec<Used> { serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap() });
    (files.len(), used.collect())
}
