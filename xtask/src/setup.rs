//! What the tests need beside Rust and a C compiler.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{root, run};

/// A program that must be there, by any of its names, and the Debian package that has it.
const PROGRAMS: &[(&[&str], &str)] = &[
    (&["git"], "git"),
    (&["c++"], "g++"),
    // The shells that judge how the policy reads command lines.
    (&["bash"], "bash"),
    (&["dash"], "dash"),
    (&["busybox"], "busybox"),
    // Debian has it where only root looks.
    (&["nats-server", "/usr/sbin/nats-server"], "nats-server"),
    (&["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"], "chromium"),
];

/// Installs what is missing.
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
            // A browser may be anywhere.
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

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// The official SDKs and `acpx`, which tests talk to: what is made with Rust is built, the rest installed where there is
/// npm. The tests do the same where something is missing; this keeps the time out of them. What Python needs takes
/// seconds: the tests install that.
fn install_official_sdks() -> Result<(), String> {
    let wanted =
        [("npm", &["--version"][..], "npm"), ("python3", &["-m", "ensurepip", "--version"], "python3-venv")];
    for (program, arguments, package) in wanted {
        if !exists(program, arguments) && exists("apt-get", &["--version"]) {
            // Without it, the tests that need it say that they were skipped.
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

/// The arguments by which a program shows that it is there. Not all know `--version`.
fn version_arguments(program: &str) -> &'static [&'static str] {
    match program {
        "dash" => &["-c", ":"],
        "busybox" => &["true"],
        _ => &["--version"],
    }
}

/// Whether a program answers.
pub(crate) fn exists(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
