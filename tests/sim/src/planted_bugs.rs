//! Planted bugs: edits in a copy of the source tree, each behind a switch, that the simulation must catch.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The edit that adds the switch itself.
pub const SWITCH: &str = "switch";

#[derive(Clone, Debug)]
pub struct Bug {
    pub name: String,
    /// What is wrong, in one sentence.
    pub what: String,
    edits: Vec<Edit>,
}

#[derive(Clone, Debug)]
struct Edit {
    file: String,
    old: String,
    new: String,
}

/// The bugs of `planted_bugs.txt`.
pub fn bugs() -> Vec<Bug> {
    let text = include_str!("../planted_bugs.txt");
    text.split("\n== ").skip(1).map(bug).filter(|bug| !bug.name.contains(' ')).collect()
}

fn bug(text: &str) -> Bug {
    let mut parts = text.split("\n-- ");
    let (name, what) = parts.next().and_then(|head| head.split_once('\n')).unwrap();
    let edit = |part: &str| {
        let (file, edit) = part.split_once('\n').unwrap();
        let (old, new) = edit.split_once("\n++\n").unwrap();
        Edit { file: file.into(), old: old.into(), new: new.trim_end().into() }
    };
    Bug { name: name.into(), what: what.trim().into(), edits: parts.map(edit).collect() }
}

/// Applies all edits to the texts that `read` returns. It is an error if a quoted text does not occur exactly once in
/// its file.
pub fn plant(bugs: &[Bug], read: impl Fn(&str) -> String) -> Result<BTreeMap<String, String>, String> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for Bug { name, edits, .. } in bugs {
        for Edit { file, old, new } in edits {
            let text = files.entry(file.clone()).or_insert_with(|| read(file));
            match text.matches(old.as_str()).count() {
                1 => *text = text.replacen(old.as_str(), new, 1),
                times => {
                    return Err(format!(
                        "{name}: its text occurs {times} times in {file}, and must occur exactly once"
                    ));
                }
            }
        }
    }
    Ok(files)
}

/// Writes a file only if it changes, so that cargo does not compile it again.
pub fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}
