//! Compilation of packages with their minimum supported Rust version.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::{root, run, setup, toolchain};

/// Checks the packages in these folders, given with their minimum versions. Tests only check the packages
/// with the lowest version, without features; a release checks all of them.
pub(crate) fn check(folder: &Path, packages: &BTreeMap<String, String>, all: bool) -> Result<(), String> {
    join(folder, packages)
        .map_err(|error| format!("cannot make a workspace in {}: {error}", folder.display()))?;
    let mut versions: Vec<_> = packages.values().collect::<BTreeSet<_>>().into_iter().collect();
    versions.sort_by_key(|version| numbers(version));
    for version in versions.into_iter().take(if all { usize::MAX } else { 1 }) {
        println!("\n==> packages, with Rust {version}");
        let mut cargo = Command::new("cargo");
        let release =
            if version.matches('.').count() == 1 { format!("{version}.0") } else { version.clone() };
        match toolchain::choose(&release, &mut cargo) {
            Err(reason) if all => return Err(reason),
            Err(reason) => {
                println!("NOT CHECKED with Rust {version}: {reason}");
                continue;
            }
            Ok(()) => {}
        }
        cargo.current_dir(folder).arg("check").arg("--target-dir").arg(setup::target());
        if all {
            cargo.arg("--all-features");
        }
        for (name, _) in packages.iter().filter(|(_, promised)| *promised == version) {
            cargo.args(["--package", name]);
        }
        run(&mut cargo)?;
    }
    Ok(())
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').filter_map(|number| number.parse().ok()).collect()
}

/// Creates a workspace of the packages, in which they replace the registry's versions of each other, with our
/// lock file.
fn join(folder: &Path, packages: &BTreeMap<String, String>) -> std::io::Result<()> {
    let members: Vec<_> = packages.keys().collect();
    let mut manifest = format!("[workspace]\nresolver = \"3\"\nmembers = {members:?}\n\n[patch.crates-io]\n");
    for name in members {
        let _ = writeln!(manifest, "{name}.path = {name:?}");
    }
    std::fs::write(folder.join("Cargo.toml"), manifest)?;
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(())
}
