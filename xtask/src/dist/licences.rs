//! Licence texts of the crates in the program.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::files::Files;
use super::text_of;
use crate::root;

/// Adds the licence texts of all crates in the program. Returns the number of crates.
pub(super) fn add(files: &mut Files, target: &str) -> Result<usize, String> {
    let metadata = text_of(
        Command::new("cargo")
            .args([
                "metadata",
                "--format-version",
                "1",
                "--locked",
                "--all-features",
                "--filter-platform",
                target,
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
        let texts_of_it = match (own.is_empty(), shared) {
            (false, _) => own.clone(),
            (true, Some(shared)) if !repository(package).is_empty() => shared.clone(),
            // Ours is the same, word for word.
            _ if text("license").contains("Apache-2.0") => vec![root().join("LICENSE")],
            _ => Vec::new(),
        };
        let remark = if texts_of_it.is_empty() { " (published without a text)" } else { "" };
        let _ = writeln!(index, "{name}  {}  {}{remark}", text("license"), text("repository"));
        for file in &texts_of_it {
            let beside = file.file_name().ok_or("a licence has no name")?;
            files.copy(format!("licences/{name}/{}", beside.to_string_lossy()), file)?;
        }
    }
    files.add("licences/INDEX.txt", index);
    Ok(foreign.len())
}

/// Returns the repository of a crate, without the path in it.
fn repository(package: &Value) -> &str {
    let repository = package["repository"].as_str().unwrap_or_default();
    let repository = repository.split("/tree/").next().unwrap_or_default().trim_end_matches('/');
    repository.strip_suffix(".git").unwrap_or(repository)
}

/// Returns the ids of all packages in the program, including its own.
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

/// Returns the licence texts of a crate, including those of bundled code in its folders.
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
