//! Planted bugs: edits of a copy of the tree, each behind a switch, that the seeds must catch.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The edit that all the others need.
pub const SWITCH: &str = "switch";

/// A planted bug.
#[derive(Clone, Debug)]
pub struct Bug {
    pub name: String,
    /// What is wrong, in words.
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

/// Plants every bug, each behind its switch. `read` gives a file's text. An edit whose place is not there exactly once is an error.
pub fn plant(bugs: &[Bug], read: impl Fn(&str) -> String) -> Result<BTreeMap<String, String>, String> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for Bug { name, edits, .. } in bugs {
        for Edit { file, old, new } in edits {
            let text = files.entry(file.clone()).or_insert_with(|| read(file));
            match text.matches(old.as_str()).count() {
                1 => *text = text.replacen(old.as_str(), new, 1),
                times => return Err(format!("{name}: its place is {times} times in {file}, and must be there once")),
            }
        }
    }
    Ok(files)
}

/// Writes a file, unless it is there as it should be: what is not touched is not compiled again.
pub fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}
