//! Tests with real editors and other clients, which `crates/editors` installs from their registries.

use std::process::Command;

use crate::setup::{self, target};
use crate::{cargo, run};

/// Runs all of these tests, or those whose names contain one of some words. The clients stay installed in `target/editors`.
pub(crate) fn test(names: &[&str]) -> Result<(), String> {
    setup::install_programs()?;
    cargo(["build", "--locked", "--package", "switchboard"])?;
    let folder = target();
    // One after the other: some clients have fixed ports.
    run(Command::new("cargo")
        .args(["test", "--locked", "--package", "switchboard-editors", "--test", "it", "--"])
        .args(["--nocapture", "--test-threads", "1"])
        .args(names)
        .env("SWITCHBOARD_EDITORS", folder.join("editors"))
        .env("SWITCHBOARD_PROGRAM", folder.join("debug/switchboard")))
}
