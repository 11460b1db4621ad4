//! Linux processes, read from `/proc`: their children, whether they are alive, and their processor time; and signals
//! to them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A process. Its start time distinguishes it from a later process with the same pid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pid: i32,
    started: u64,
    /// The file name of its program.
    pub program: String,
}

impl Process {
    pub fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.started == self.started && !stat.is_dead)
    }

    /// Sends SIGKILL. Returns false if the process had already ended.
    pub fn kill(&self) -> bool {
        self.is_alive() && signal(self.pid, Signal::KILL)
    }
}

/// Sends SIGTERM.
pub fn terminate(pid: u32) -> bool {
    i32::try_from(pid).is_ok_and(|pid| signal(pid, Signal::TERM))
}

fn signal(pid: i32, signal: Signal) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// The children of a process. A child that has just been forked still runs its parent's program and is left out.
pub fn children_of(parent: u32) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let own = program(parent);
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let child = |pid| {
        let stat = stat(pid).filter(|stat| stat.parent == parent && !stat.is_dead)?;
        let program = program(u32::try_from(pid).ok()?).filter(|program| Some(program) != own.as_ref())?;
        Some(Process { pid, started: stat.started, program })
    };
    let mut children: Vec<Process> = pids.filter_map(child).collect();
    // Sorted, so that the same processes are always in the same order.
    children.sort_by_key(|child| child.pid);
    children
}

/// The processor time, user and system, of the living children; of those that run this program, if one is named.
pub fn cpu_of_all_children(parent: u32, program: Option<&str>) -> Duration {
    let named = |child: &Process| program.is_none_or(|program| child.program == program);
    let children = children_of(parent).into_iter().filter(named);
    children.filter_map(|child| Some(stat(child.pid)?.cpu)).sum()
}

/// The processor time of a process, with threads that have ended.
pub fn cpu_of_process(pid: u32) -> Duration {
    i32::try_from(pid).ok().and_then(stat).map(|stat| stat.cpu).unwrap_or_default()
}

/// The processor time of the living threads of a process that have this name.
pub fn cpu_of_threads(pid: u32, name: &str) -> Duration {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Duration::ZERO };
    let of_name = |thread: fs::DirEntry| {
        let is_named = fs::read_to_string(thread.path().join("comm")).ok()?.trim_end() == name;
        let stat = parse(&fs::read_to_string(thread.path().join("stat")).ok()?)?;
        is_named.then_some(stat.cpu)
    };
    threads.flatten().filter_map(of_name).sum()
}

fn program(pid: u32) -> Option<String> {
    let path = fs::read_link(Path::new("/proc").join(pid.to_string()).join("exe")).ok()?;
    path.file_name()?.to_str().map(str::to_owned)
}

/// A clock tick of `/proc`: a hundredth of a second on every current Linux machine.
const TICK: Duration = Duration::from_millis(10);

struct Stat {
    parent: u32,
    /// User and system time.
    cpu: Duration,
    /// In clock ticks since the machine started.
    started: u64,
    /// A zombie: it has ended, and its parent has not waited for it.
    is_dead: bool,
}

fn stat(pid: i32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The program's name stands in brackets and may contain any character, so the fields start after the last bracket.
/// See proc(5).
fn parse(text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let is_dead = matches!(*fields.first()?, "Z" | "X");
    let number = |place: usize| fields.get(place)?.parse::<u32>().ok();
    let cpu = TICK * number(11)?.saturating_add(number(12)?);
    Some(Stat { parent: number(1)?, cpu, started: fields.get(19)?.parse().ok()?, is_dead })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_program_name_with_brackets_is_parsed() {
        let text = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 1 0 98765 1000 1 18446744073709551615";
        let stat = parse(text).unwrap();
        assert_eq!((stat.parent, stat.started, stat.is_dead), (7, 98_765, false));
        assert_eq!(stat.cpu, Duration::from_millis(420));
        assert!(parse(&text.replace(" S ", " Z ")).unwrap().is_dead);
        assert!(parse("").is_none() && parse("1 (x) S 1").is_none());
    }

    #[test]
    fn a_child_is_found_and_killed_once() {
        let mut sleeper = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
        // When `spawn` returns, the child runs its own program.
        let found = children_of(std::process::id());
        let child = found.iter().find(|child| child.pid.unsigned_abs() == sleeper.id()).unwrap();
        assert!(child.is_alive() && child.kill());
        sleeper.wait().unwrap();
        assert!(!child.is_alive() && !child.kill(), "the pid may belong to another process by now");
    }

    #[test]
    fn processor_time_of_children_is_measured() {
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let program = children_of(std::process::id()).into_iter().find(|child| child.pid.unsigned_abs() == busy.id());
        let program = program.unwrap().program;
        std::thread::sleep(Duration::from_millis(500));
        let used = cpu_of_all_children(std::process::id(), Some(&program));
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(used >= Duration::from_millis(50) && used < Duration::from_secs(1), "{used:?}");
        assert_eq!(cpu_of_all_children(std::process::id(), Some("no such program")), Duration::ZERO);
    }
}
