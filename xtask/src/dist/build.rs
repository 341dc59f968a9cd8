//! Build of the program. All packages of a platform contain the same build.

use std::path::PathBuf;
use std::process::Command;

use super::platforms::Platform;
use super::text_of;
use crate::setup::{exists, target};
use crate::{root, run};

/// Compiler and linker for C, and the Cargo command that uses them. Zig has the symbols of every glibc, so the program can be
/// linked against an old one.
const TOOLS: [&str; 2] = ["ziglang==0.17.0", "cargo-zigbuild==0.24.0"];

/// Returns the target triple of this machine.
pub(super) fn host() -> Result<String, String> {
    let printed = text_of(Command::new("rustc").arg("-vV"))?;
    let host = printed.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not print its host".to_owned())
}

/// Builds the program with all features, and returns its path.
pub(super) fn release(platform: &Platform) -> Result<PathBuf, String> {
    let folder = target().join("dist-build");
    let is_linux = platform.os == "linux";
    let triple = &platform.target;
    if !has_target(triple)? {
        run(Command::new("rustup").args(["target", "add", triple]))?;
    }
    let mut command = Command::new("cargo");
    if is_linux {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(tools()?).chain(std::env::split_paths(&path));
        let path = std::env::join_paths(folders).map_err(|error| format!("PATH: {error}"))?;
        let version = platform.glibc.as_ref().map(|version| format!(".{version}")).unwrap_or_default();
        command.arg("zigbuild").env("PATH", path).args(["--target", &format!("{triple}{version}")]);
    } else {
        command.args(["build", "--target", triple]);
    }
    command
        .args(["--profile", "dist", "--locked", "--package", "switchboard", "--all-features", "--target-dir"])
        .arg(&folder)
        .env("SWITCHBOARD_COMMIT", commit()?)
        // No paths of this machine in messages of panics.
        .env("RUSTFLAGS", remapped_paths()?);
    run(&mut command)?;
    Ok(folder.join(triple).join("dist/switchboard"))
}

/// Returns whether the standard library for a target is installed.
fn has_target(triple: &str) -> Result<bool, String> {
    let folder = text_of(Command::new("rustc").args(["--print", "target-libdir", "--target", triple]))?;
    Ok(PathBuf::from(folder.trim()).is_dir())
}

/// Returns the commit of the checkout, with a mark if there are uncommitted changes.
fn commit() -> Result<String, String> {
    let git = |arguments: &[&str]| text_of(Command::new("git").args(arguments).current_dir(root()));
    let commit = git(&["rev-parse", "HEAD"])?;
    let is_changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Ok(format!("{}{}", commit.trim(), if is_changed { "-dirty" } else { "" }))
}

fn remapped_paths() -> Result<String, String> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let cargo = cargo.ok_or("neither CARGO_HOME nor HOME is set")?;
    let checkout = root().canonicalize().map_err(|error| format!("the checkout: {error}"))?;
    Ok(format!(
        "--remap-path-prefix={}=/cargo --remap-path-prefix={}=/switchboard",
        cargo.join("registry/src").display(),
        checkout.display()
    ))
}

/// Installs missing tools into a virtual environment of Python, and returns the folder with the programs.
fn tools() -> Result<PathBuf, String> {
    let environment = target().join("zig");
    let programs = environment.join("bin");
    if !exists(&programs.join("cargo-zigbuild").to_string_lossy(), &["--version"]) {
        run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        run(Command::new(programs.join("pip")).args(["install", "--quiet"]).args(TOOLS))?;
    }
    Ok(programs)
}
