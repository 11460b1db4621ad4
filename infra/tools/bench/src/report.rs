//! The figures as a table and as JSON, with the change since the previous run.

use std::fmt::Write as _;
use std::path::Path;

use figures::number;
use serde::{Deserialize, Serialize};

use crate::Problem;

/// The width of the column of names.
const NAME_WIDTH: usize = 58;

/// Figures that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Section {
    /// What was measured and how. Only sections with the same title are compared.
    pub(crate) title: String,
    pub(crate) figures: Vec<Figure>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
}

impl Section {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), figures: Vec::new() }
    }

    pub(crate) fn add(&mut self, name: impl Into<String>, value: f64, unit: &str) {
        self.figures.push(Figure { name: name.into(), value, unit: unit.to_owned() });
    }
}

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    /// The Cargo profile of the binaries.
    profile: String,
    machine: String,
    command: String,
    sections: Vec<Section>,
}

/// The figures of this run so far, and those of the previous run.
#[derive(Debug)]
pub(crate) struct Report {
    run: Run,
    before: Option<Run>,
}

impl Report {
    pub(crate) fn begin(out: &Path, binaries: &Path) -> Self {
        let profile = match binaries.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev".to_owned(),
            Some(profile) => profile.to_owned(),
        };
        // `make` chooses the binaries itself.
        let mut arguments: Vec<String> = std::env::args().skip(1).collect();
        if let Some(at) = arguments.iter().position(|argument| argument == "--binaries") {
            arguments.drain(at..arguments.len().min(at + 2));
        }
        let arguments = if arguments.is_empty() { String::new() } else { format!(" ARGS=\"{}\"", arguments.join(" ")) };
        let command = format!("make bench PROFILE={profile}{arguments}");
        let before = match std::fs::read(out) {
            // A file of another version cannot be compared.
            Ok(bytes) => serde_json::from_slice(&bytes).ok(),
            Err(_) => None,
        };
        Self { run: Run { profile, machine: machine(), command, sections: Vec::new() }, before }
    }

    pub(crate) fn print_head(&self) {
        println!("{}; profile {}", self.run.machine, self.run.profile);
        match &self.before {
            Some(before) if before.profile == self.run.profile => {
                println!("last column: change since the previous run")
            }
            Some(before) => println!("the previous run used the profile {} and is not compared", before.profile),
            None => {}
        }
    }

    /// Prints a section and adds it to the file.
    pub(crate) fn add(&mut self, section: Section) {
        print!("{}", table(&section, self.comparable(&section.title)));
        self.run.sections.push(section);
    }

    fn comparable(&self, title: &str) -> Option<&Section> {
        let before = self.before.as_ref().filter(|before| before.profile == self.run.profile)?;
        before.sections.iter().find(|section| section.title == title)
    }

    /// Writes the file. Sections that this run did not measure are kept from the previous run.
    pub(crate) fn finish(mut self, out: &Path) -> Result<(), Problem> {
        let measured: Vec<String> = self.run.sections.iter().map(|section| section.title.clone()).collect();
        if let Some(before) = self.before.filter(|before| before.profile == self.run.profile) {
            self.run.sections.extend(before.sections.into_iter().filter(|old| !measured.contains(&old.title)));
        }
        if let Some(directory) = out.parent() {
            std::fs::create_dir_all(directory)?;
        }
        if out.exists() {
            std::fs::rename(out, out.with_extension("before.json"))?;
        }
        std::fs::write(out, serde_json::to_vec_pretty(&self.run)?)
            .map_err(|error| format!("cannot write {}: {error}", out.display()))?;
        println!("\nRepeat: {}\nFigures: {}", self.run.command, out.display());
        Ok(())
    }
}

/// Prints the figures of one run with the change since another.
pub(crate) fn compare(before: &Path, after: &Path) -> Result<(), Problem> {
    let read = |path: &Path| -> Result<Run, Problem> {
        let bytes = std::fs::read(path)
            .map_err(|error| format!("cannot read {}: {error}; run `make bench` first", path.display()))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| format!("{} is not a file of figures: {error}", path.display()).into())
    };
    let (before, after) = (read(before)?, read(after)?);
    for (name, run) in [("before", &before), ("after", &after)] {
        println!("{name:<7} {}; {}", run.command, run.machine);
    }
    for section in &after.sections {
        print!("{}", table(section, before.sections.iter().find(|old| old.title == section.title)));
    }
    Ok(())
}

fn table(section: &Section, before: Option<&Section>) -> String {
    let mut text = format!("\n{}\n", section.title);
    for figure in &section.figures {
        let old = before.and_then(|before| before.figures.iter().find(|old| old.name == figure.name));
        let change = old.map(|old| change(old.value, figure.value)).unwrap_or_default();
        let line =
            format!("  {:<NAME_WIDTH$} {:>12} {:<14}{change:>8}", figure.name, number(figure.value), figure.unit,);
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn change(old: f64, new: f64) -> String {
    if old == new {
        return "=".to_owned();
    }
    if old == 0.0 {
        return "new".to_owned();
    }
    format!("{:+.0} %", (new - old) / old * 100.0)
}

/// The name of the processor and the number of its cores.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name));
    format!("{}, {cores} cores", model.map_or("this machine", str::trim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_shows_its_change_since_the_previous_run() {
        let mut before = Section::new("Speed");
        before.add("presses", 200.0, "/s");
        before.add("calls", 3.0, "calls");
        let mut now = before.clone();
        now.figures[0].value = 250.0;
        now.add("more", 1.0, "");
        let text = table(&now, Some(&before));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].starts_with("  presses") && lines[2].ends_with("250 /s               +25 %"), "{text}");
        assert!(lines[3].ends_with("3 calls                =") && lines[4].ends_with('1'), "{text}");
    }
}
