//! What the tests need beside Rust and a C compiler.

use std::process::{Command, Stdio};

use crate::run;

/// A program that must be there, and the Debian package that has it.
const PROGRAMS: [(&str, &str); 2] = [("git", "git"), ("c++", "g++")];

/// Installs what is missing.
pub(crate) fn install() -> Result<(), String> {
    let missing: Vec<_> = PROGRAMS.iter().filter(|(program, _)| !exists(program, &["--version"])).collect();
    if !missing.is_empty() {
        let packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
        if !exists("apt-get", &["--version"]) {
            return Err(format!("please install: {}", packages.join(", ")));
        }
        run(Command::new("apt-get").args(["update", "--quiet"]))?;
        run(Command::new("apt-get")
            .args(["install", "--quiet", "--yes", "--no-install-recommends"])
            .args(packages))?;
    }
    if !exists("cargo", &["fuzz", "--version"]) {
        run(Command::new("cargo").args(["install", "cargo-fuzz", "--locked"]))?;
    }
    Ok(())
}

/// Whether a program answers.
fn exists(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
