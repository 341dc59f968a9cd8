//! The libraries that have nothing to do with files and processes, compiled for Windows.

use std::process::Command;

use crate::run;

const TARGET: &str = "x86_64-pc-windows-gnu";

/// Those that translate, fold, read, check and build. The others need Unix.
const CRATES: [&str; 4] =
    ["switchboard-acp", "switchboard-session", "switchboard-diff", "switchboard-bridge"];

/// Compiles them as far as no linker is needed. Where the standard library for Windows cannot be had, this is said and nothing
/// else is held up: it comes from Rust's own servers, which not everybody reaches, and not with every compiler.
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
