//! Which IAM permissions the functions used. Every test that runs functions under their policies writes down what was
//! used; when all tests have run, `check-permissions` compares the total with the template.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use local_cloud::iam::{Policies, Used};

use crate::world::STACK;

/// The template's policies, for handlers that run in this process.
pub static POLICIES: LazyLock<Arc<Policies>> = LazyLock::new(|| Arc::new(Policies::from_stack(&STACK)));

/// The folder for used permissions, if the environment names one.
fn folder() -> Option<PathBuf> {
    std::env::var_os("PERMISSIONS_SEEN").map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder))
}

/// Writes down what the functions under these policies have used so far.
pub fn keep(policies: &Policies) {
    static KEPT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = KEPT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    keep_as(&number.to_string(), policies);
}

/// When dropped, writes down what the handlers in this process have used so far.
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
    // Written to another file and renamed, because tests of one process may end at the same time.
    let file = folder.join(format!("{}-{name}.json", std::process::id()));
    let part = folder.join(format!("{}-{name}-{:?}.part", std::process::id(), std::thread::current().id()));
    std::fs::write(&part, serde_json::to_vec(&policies.used()).unwrap()).unwrap();
    std::fs::rename(part, file).unwrap();
}

/// Everything that was written down, and by how many runs.
pub fn kept() -> (usize, BTreeSet<Used>) {
    let folder = folder().expect("PERMISSIONS_SEEN names the folder");
    let files = std::fs::read_dir(&folder).into_iter().flatten().map(|file| file.unwrap().path());
    let files: Vec<_> = files.filter(|file| file.extension().is_some_and(|extension| extension == "json")).collect();
    let used =
        files.iter().flat_map(|file| -> Vec<Used> { serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap() });
    (files.len(), used.collect())
}
