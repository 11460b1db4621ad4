//! The checks before a build (`preflight.sh`): each problem of a first minute is told in one line.
//!
//! Every test has a PATH of its own: the system's tools, and those of the build as small scripts.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The system's tools that the script uses.
const TOOLS: [&str; 10] = ["awk", "cut", "df", "dirname", "grep", "head", "sed", "sh", "sort", "uname"];

/// A copy of the script in a project of its own, on a machine that has everything.
struct Machine {
    root: TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { root: tempfile::tempdir().unwrap() };
        let project = machine.project();
        fs::create_dir_all(project.join("infra/tools/scripts")).unwrap();
        fs::create_dir_all(machine.bin()).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for file in ["rust-toolchain.toml", "infra/tools/scripts/preflight.sh"] {
            fs::copy(source.join(file), project.join(file)).unwrap();
        }
        let path = std::env::var("PATH").unwrap();
        for tool in TOOLS {
            let found = path.split(':').map(|folder| Path::new(folder).join(tool)).find(|file| file.exists());
            symlink(found.unwrap(), machine.bin().join(tool)).unwrap();
        }
        for tool in ["cargo", "cc", "python3", "node", "java"] {
            machine.tool(tool, "exit 0");
        }
        machine.tool("rustc", "echo 'rustc 1.999.0 (0000000 2026-01-01)'");
        machine.tool("df", &df(100_000_000));
        machine
    }

    /// A folder whose name has a space.
    fn project(&self) -> PathBuf {
        self.root.path().join("a project")
    }

    fn bin(&self) -> PathBuf {
        self.root.path().join("bin")
    }

    fn tool(&self, name: &str, script: &str) {
        let file = self.bin().join(name);
        let _ = fs::remove_file(&file);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn without(self, tool: &str) -> Self {
        fs::remove_file(self.bin().join(tool)).unwrap();
        self
    }

    fn with(self, tool: &str, script: &str) -> Self {
        self.tool(tool, script);
        self
    }

    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        Command::new(self.project().join("infra/tools/scripts/preflight.sh"))
            .args(arguments)
            .env_clear()
            .env("PATH", self.bin())
            .env("HOME", self.root.path())
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    }

    /// The one line that the check before a build ends with.
    fn complaint(&self) -> String {
        complaint(&self.run(&["run"], &[("PORT", "0")]))
    }
}

fn df(free_kb: u64) -> String {
    format!("printf 'Filesystem 1024-blocks Used Available\\n/dev/a 1 1 {free_kb}\\n'")
}

fn complaint(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn nothing_is_said_when_all_is_well() {
    let output = Machine::new().run(&["run"], &[("PORT", "0")]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!((output.stdout.len(), output.stderr.len()), (0, 0), "{output:?}");
}

#[test]
fn a_missing_or_old_rust_is_told() {
    assert!(Machine::new().without("cargo").complaint().starts_with("Rust is missing. Install it with rustup"));
    let old = Machine::new().with("rustc", "echo 'rustc 1.63.0 (4b91a6ea7 2022-08-08)'");
    assert!(old.complaint().starts_with("Rust 1.63.0 is too old: 1."), "{}", old.complaint());

    let hidden = Machine::new().without("cargo");
    fs::create_dir_all(hidden.root.path().join(".cargo/bin")).unwrap();
    hidden.tool("../.cargo/bin/cargo", "exit 0");
    assert_eq!(hidden.complaint(), r#"Rust is installed but not on the PATH. Run: . "$HOME/.cargo/env""#);
}

#[test]
fn rustup_installs_the_version_that_is_missing() {
    // With rustup, cargo is the same file.
    let rustup = |script: &str| {
        let machine = Machine::new().without("cargo").with("rustup", script);
        symlink(machine.bin().join("rustup"), machine.bin().join("cargo")).unwrap();
        machine
    };
    let offline = rustup("exit 1");
    let output = offline.run(&[], &[]);
    let text = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("Installing Rust 1."), "{text}");
    assert!(lines[1].contains("could not be installed: check the network"), "{text}");
    assert!(rustup(r#"[ "$1" = toolchain ]"#).run(&[], &[]).status.success());
}

#[test]
fn a_missing_or_broken_c_compiler_is_told() {
    assert!(Machine::new().without("cc").complaint().starts_with("A C compiler is missing."));
    let broken = Machine::new().with("cc", "exit 1");
    assert!(broken.complaint().starts_with("The C compiler (cc) cannot compile."));
    // It was asked before the first build. Later it is not asked again.
    fs::create_dir(broken.project().join("target")).unwrap();
    assert!(broken.run(&[], &[]).status.success());
}

#[test]
fn a_full_disk_is_told_before_and_after_a_build() {
    let machine = Machine::new().with("df", &df(1_000_000));
    assert!(machine.complaint().starts_with("The disk is nearly full: 976 MB are free"), "{}", machine.complaint());
    fs::create_dir_all(machine.project().join("target/debug")).unwrap();
    assert!(machine.run(&[], &[]).status.success(), "it is enough for a second build");
    let full = machine.with("df", &df(2_000));
    assert!(complaint(&full.run(&["explain"], &[])).starts_with("The disk is full (1 MB are free)."));
}

#[test]
fn a_missing_network_is_told_after_a_build() {
    let offline = "echo 'error: attempting to make an HTTP request, but --offline was specified'; exit 101";
    let machine = Machine::new().with("cargo", offline);
    assert!(complaint(&machine.run(&["explain"], &[])).starts_with("Crates could not be downloaded."));
    // The compiler has already said what is wrong with the code.
    let machine = Machine::new().with("cargo", "echo 'error[E0308]: mismatched types'; exit 101");
    let output = machine.run(&["explain"], &[]);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(1), 0));
}

#[test]
fn another_system_is_told() {
    let machine = Machine::new().with("uname", "echo Darwin");
    assert!(machine.complaint().starts_with("This project runs on Linux, not on Darwin: use a Linux machine"));
}

#[test]
fn a_port_in_use_is_told_before_the_build() {
    let machine = Machine::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let told = complaint(&machine.run(&["demo"], &[("PORT", &port)]));
    assert!(told.starts_with(&format!("Port {port} is in use: stop what listens there")), "{told}");
    assert!(told.contains("make demo PORT="), "{told}");
    assert!(machine.run(&["test"], &[("PORT", &port)]).status.success(), "only run and demo listen there");
    let elsewhere = machine.run(&["run"], &[("PORT", &port), ("ARGS", "--fresh --port 0")]);
    assert!(elsewhere.status.success(), "the option names another port");
    drop(listener);
    assert!(machine.run(&["run"], &[("PORT", &port)]).status.success());
}

#[test]
fn what_cannot_run_is_named() {
    let says = |machine: Machine| String::from_utf8(machine.run(&["optional"], &[]).stdout).unwrap();
    assert_eq!(says(Machine::new()), "");
    let without = says(Machine::new().without("node").without("java").without("python3"));
    for target in ["make browser", "make engines", "make invoke-all"] {
        assert!(without.contains(target), "{without}");
    }
}
