//! Processes as Linux shows them in `/proc`: whose children they are, whether they live, and how they are killed.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// A process, told from a later one with the same number by when it started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pid: i32,
    started: u64,
    /// The file name of its program.
    pub(crate) program: String,
}

impl Process {
    /// Whether it still runs.
    pub(crate) fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.started == self.started && !stat.is_dead)
    }

    /// `kill -9`. False if it had ended before.
    pub(crate) fn kill(&self) -> bool {
        self.is_alive() && signal(self.pid, Signal::KILL)
    }
}

/// Asks a process to end, as `kill` does.
pub(crate) fn terminate(pid: u32) -> bool {
    i32::try_from(pid).is_ok_and(|pid| signal(pid, Signal::TERM))
}

fn signal(pid: i32, signal: Signal) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// The children of a process that run a program other than its own: a child that has just been forked still runs that.
pub(crate) fn children_of(parent: u32) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let own = program(parent);
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let child = |pid| {
        let stat = stat(pid).filter(|stat| stat.parent == parent && !stat.is_dead)?;
        let program = program(u32::try_from(pid).ok()?).filter(|program| Some(program) != own.as_ref())?;
        Some(Process { pid, started: stat.started, program })
    };
    let mut children: Vec<Process> = pids.filter_map(child).collect();
    // By number: the same processes are always in the same order, whatever order the system lists them in.
    children.sort_by_key(|child| child.pid);
    children
}

fn program(pid: u32) -> Option<String> {
    let path = fs::read_link(Path::new("/proc").join(pid.to_string()).join("exe")).ok()?;
    path.file_name()?.to_str().map(str::to_owned)
}

struct Stat {
    parent: u32,
    /// In clock ticks since the machine started.
    started: u64,
    /// Ended, and its parent has not asked how.
    is_dead: bool,
}

fn stat(pid: i32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The program's name, in brackets, may have anything in it: the fields begin after the last bracket. See proc(5).
fn parse(text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let is_dead = matches!(*fields.first()?, "Z" | "X");
    Some(Stat { parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()?, is_dead })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        let text = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1000 1 18446744073709551615";
        let stat = parse(text).unwrap();
        assert_eq!((stat.parent, stat.started, stat.is_dead), (7, 98_765, false));
        assert!(parse(&text.replace(" S ", " Z ")).unwrap().is_dead);
        assert!(parse("").is_none() && parse("1 (x) S 1").is_none());
    }

    #[test]
    fn a_child_is_found_and_killed_once() {
        let mut sleeper = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
        // A spawned child has its own program when `spawn` returns.
        let found = children_of(std::process::id());
        let child = found.iter().find(|child| child.pid.unsigned_abs() == sleeper.id()).unwrap();
        assert!(child.is_alive() && child.kill());
        sleeper.wait().unwrap();
        assert!(!child.is_alive() && !child.kill(), "its number may be another's by now");
    }
}
