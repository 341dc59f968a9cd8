//! Compilation for Windows of the libraries that do not use files and processes.

use std::process::Command;

use crate::run;

const TARGET: &str = "x86_64-pc-windows-gnu";

/// Libraries for translation, folding, parsing, checks and diffs. The others need Unix.
const CRATES: [&str; 4] =
    ["switchboard-acp", "switchboard-session", "switchboard-diff", "switchboard-bridge"];

/// Compiles them without linking. If the standard library for Windows is not available, prints that and
/// continues: it comes from Rust's own servers, which are not reachable everywhere and not for every
/// compiler.
pub(crate) fn check() -> Result<(), String> {
    if let Err(reason) = run(Command::new("rustup").args(["target", "add", TARGET])) {
        println!("NOT CHECKED for Windows: the target {TARGET} cannot be installed: {reason}");
        return Ok(());
    }
    let packages = CRATES.iter().flat_map(|name| ["--package", name]);
    run(Command::new("cargo")
        .args(["check", "--locked", "--target", TARGET])
        .args(packages)
        .env("RUSTFLAGS", "--deny warnings"))
}
