//! Requirements of the tests besides Rust and a C compiler.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{root, run};

/// A required program with alternative names, and its Debian package.
const PROGRAMS: &[(&[&str], &str)] = &[
    (&["git"], "git"),
    (&["c++"], "g++"),
    // The reference shells for the policy's command line parser.
    (&["bash"], "bash"),
    (&["dash"], "dash"),
    (&["busybox"], "busybox"),
    // Sandboxes of agents.
    (&["bwrap"], "bubblewrap"),
    (&["curl"], "curl"),
    // Debian installs it outside of the normal path.
    (&["nats-server", "/usr/sbin/nats-server"], "nats-server"),
    (&["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"], "chromium"),
];

/// Installs missing requirements.
pub(crate) fn install() -> Result<(), String> {
    install_programs()?;
    install_official_sdks()?;
    if !exists("cargo", &["fuzz", "--version"]) {
        run(Command::new("cargo").args(["install", "cargo-fuzz", "--locked"]))?;
    }
    if !exists("mdbook", &["--version"]) {
        run(Command::new("cargo").args(["install", "mdbook", "--locked", "--no-default-features"]))?;
    }
    Ok(())
}

pub(crate) fn install_programs() -> Result<(), String> {
    let missing: Vec<_> = PROGRAMS
        .iter()
        .filter(|(names, package)| {
            // A browser may have any path.
            let named = match *package {
                "chromium" => std::env::var_os("CHROMIUM").is_some(),
                _ => false,
            };
            !named && !names.iter().any(|name| exists(name, version_arguments(name)))
        })
        .collect();
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
    Ok(())
}

/// Returns Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// Builds or installs the official SDKs and `acpx`, which tests use: Rust programs are built, others
/// installed if npm exists. The tests do the same if something is missing; this keeps the time out of them.
/// Python packages take seconds and are installed by the tests.
fn install_official_sdks() -> Result<(), String> {
    let wanted =
        [("npm", &["--version"][..], "npm"), ("python3", &["-m", "ensurepip", "--version"], "python3-venv")];
    for (program, arguments, package) in wanted {
        if !exists(program, arguments) && exists("apt-get", &["--version"]) {
            // Without it, the tests that need it print that they were skipped.
            let install = ["install", "--quiet", "--yes", "--no-install-recommends", package];
            let _ = run(Command::new("apt-get").args(install));
        }
    }
    let folder = target().join("interop");
    run(Command::new("cargo")
        .args(["build", "--locked", "--manifest-path", "crates/interop/Cargo.toml", "--target-dir"])
        .arg(&folder))?;
    let npm = folder.join("npm");
    let (wanted, present) = (root().join("crates/interop/typescript/package.json"), npm.join("package.json"));
    let is_current = std::fs::read(&wanted).ok() == std::fs::read(&present).ok();
    if exists("npm", &["--version"]) && !is_current {
        std::fs::create_dir_all(&npm)
            .and_then(|()| std::fs::copy(&wanted, &present))
            .map_err(|error| format!("cannot make {}: {error}", npm.display()))?;
        let installed =
            run(Command::new("npm").current_dir(&npm).args(["install", "--no-audit", "--no-fund"]));
        if installed.is_err() {
            // So that the next run tries again.
            let _ = std::fs::remove_file(&present);
        }
        installed?;
    }
    Ok(())
}

/// Returns arguments with which a program exits successfully. Not all support `--version`.
fn version_arguments(program: &str) -> &'static [&'static str] {
    match program {
        "dash" => &["-c", ":"],
        "busybox" => &["true"],
        _ => &["--version"],
    }
}

/// Returns whether a program runs.
pub(crate) fn exists(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
