//! `cargo xtask dist`: an archive that runs without Rust.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::setup::target;
use crate::{cargo, root};

/// Makes the archive in `to`, or in `dist` of Cargo's target folder; of `program`, or of a fresh release build.
pub(crate) fn dist(program: Option<&str>, to: Option<&str>) -> Result<(), String> {
    let program = match program {
        Some(program) => PathBuf::from(program),
        None => {
            cargo(["build", "--release", "--locked", "--package", "switchboard", "--all-features"])?;
            target().join("release/switchboard")
        }
    };
    let to = to.map_or_else(|| target().join("dist"), PathBuf::from);
    let version = text_of(Command::new(&program).arg("--version"))?;
    let version = version
        .trim()
        .strip_prefix("switchboard ")
        .ok_or("the program does not tell its version")?
        .to_owned();
    let host = text_of(Command::new("rustc").arg("-vV"))?;
    let host = host
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or("rustc does not tell the host")?
        .to_owned();
    let name = format!("switchboard-{version}-{host}");
    let folder = to.join(&name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .map_err(|error| format!("cannot remove {}: {error}", folder.display()))?;
    }
    make_folder(&folder.join("completions"))?;
    let ours = folder.join("switchboard");
    copy(&program, &ours)?;
    text_of(Command::new("strip").arg(&ours))?;
    for (shell, file) in [("bash", "switchboard.bash"), ("zsh", "_switchboard"), ("fish", "switchboard.fish")]
    {
        let text = text_of(Command::new(&ours).args(["completions", shell]))?;
        write(&folder.join("completions").join(file), &text)?;
    }
    text_of(Command::new(&ours).arg("man").arg(folder.join("man")))?;
    for file in ["README.md", "LICENSE", "CHANGELOG.md"] {
        copy(&root().join(file), &folder.join(file))?;
    }
    let count = licences(&folder.join("licences"), &host)?;
    let archive = format!("{name}.tar.gz");
    // The same files make the same archive.
    text_of(
        Command::new("tar")
            .args([
                "--sort=name",
                "--mtime=@0",
                "--owner=0",
                "--group=0",
                "--numeric-owner",
                "-czf",
                &archive,
                &name,
            ])
            .current_dir(&to),
    )?;
    let checksum = text_of(Command::new("sha256sum").arg(&archive).current_dir(&to))?;
    write(&to.join(format!("{archive}.sha256")), &checksum)?;
    let size = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len() / 1000);
    println!("{}", to.join(&archive).display());
    println!(
        "program {} kB, archive {} kB, licences of {count} crates",
        size(&ours),
        size(&to.join(&archive))
    );
    Ok(())
}

/// Writes the licence texts of everything that the program is linked of. Gives how many crates that is.
fn licences(folder: &Path, host: &str) -> Result<usize, String> {
    let metadata = text_of(
        Command::new("cargo")
            .args([
                "metadata",
                "--format-version",
                "1",
                "--locked",
                "--all-features",
                "--filter-platform",
                host,
            ])
            .current_dir(root()),
    )?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| error.to_string())?;
    let linked = linked(&metadata).ok_or("cargo metadata has another form than expected")?;
    let packages = metadata["packages"].as_array().ok_or("there are no packages")?;
    let foreign: Vec<&Value> = packages
        .iter()
        .filter(|package| {
            package["id"].as_str().is_some_and(|id| linked.contains(id)) && !package["source"].is_null()
        })
        .collect();
    let mut texts: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    // Crates of one repository share their texts, and not each of them has them.
    let mut by_repository: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    for package in &foreign {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let found = licence_files(manifest.parent().ok_or("a crate has no folder")?);
        if !found.is_empty() {
            by_repository.entry(repository(package)).or_insert_with(|| found.clone());
        }
        texts.insert(package["id"].as_str().unwrap_or_default(), found);
    }
    let mut index =
        "Switchboard is linked of these crates. Their licences, as they were published:\n\n".to_owned();
    for package in &foreign {
        let text = |key: &str| package[key].as_str().unwrap_or("unknown");
        let name = format!("{}-{}", text("name"), text("version"));
        let (own, shared) = (&texts[text("id")], by_repository.get(repository(package)));
        let files = match (own.is_empty(), shared) {
            (false, _) => own.clone(),
            (true, Some(shared)) if !repository(package).is_empty() => shared.clone(),
            // Ours is the same, word for word.
            _ if text("license").contains("Apache-2.0") => vec![root().join("LICENSE")],
            _ => Vec::new(),
        };
        let remark = if files.is_empty() { " (published without a text)" } else { "" };
        let _ = writeln!(index, "{name}  {}  {}{remark}", text("license"), text("repository"));
        for file in &files {
            let beside = file.file_name().ok_or("a licence has no name")?;
            make_folder(&folder.join(&name))?;
            copy(file, &folder.join(&name).join(beside))?;
        }
    }
    write(&folder.join("INDEX.txt"), &index)?;
    Ok(foreign.len())
}

/// The repository of a crate, without the place in it.
fn repository(package: &Value) -> &str {
    let repository = package["repository"].as_str().unwrap_or_default();
    let repository = repository.split("/tree/").next().unwrap_or_default().trim_end_matches('/');
    repository.strip_suffix(".git").unwrap_or(repository)
}

/// The ids of all packages that the program is linked of, itself included.
fn linked(metadata: &Value) -> Option<BTreeSet<&str>> {
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()?
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let ours = metadata["packages"].as_array()?.iter().find(|package| package["name"] == "switchboard")?;
    let (mut linked, mut waiting) = (BTreeSet::new(), vec![ours["id"].as_str()?]);
    while let Some(id) = waiting.pop() {
        if !linked.insert(id) {
            continue;
        }
        for dependency in nodes.get(id)?["deps"].as_array()? {
            // Those for tests and for building are of another kind.
            let is_linked = dependency["dep_kinds"].as_array()?.iter().any(|kind| kind["kind"].is_null());
            if is_linked {
                waiting.push(dependency["pkg"].as_str()?);
            }
        }
    }
    Some(linked)
}

/// The licence texts of a crate, also of what it brings along in a folder below.
fn licence_files(folder: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| {
        let mut paths: Vec<PathBuf> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let is_licence = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_uppercase();
        path.is_file()
            && ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"]
                .iter()
                .any(|word| name.starts_with(word))
    };
    let top = entries(folder);
    let below = top.iter().filter(|path| path.is_dir()).flat_map(|folder| entries(folder));
    let mut files: Vec<PathBuf> = top.iter().cloned().chain(below).filter(is_licence).collect();
    files.dedup_by_key(|path| path.file_name().map(ToOwned::to_owned));
    files
}

fn text_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("failed ({}): {command:?}\n{told}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{command:?} prints what is no text"))
}

fn make_folder(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to)
        .map(drop)
        .map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}
