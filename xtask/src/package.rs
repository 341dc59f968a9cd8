//! Check of the crates as packages: all crates are packaged, and the examples are built against the packages alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{examples, oldest, root, run, setup};

/// The crate with the wire types.
const WIRE: &str = "switchboard-acp";

/// Possible additions of a later protocol version: a file of that crate, a line, and the text to insert after it. The bridge passes
/// these types on unchanged. Where it converts a type field by field, a new field must not compile until it is converted too.
const NOVELTIES: [(&str, &str, &str); 4] = [
    ("shared/common.rs", "\n    Implementation {\n", NEW_FIELD),
    ("shared/permission.rs", "\n    PermissionOption {\n", NEW_FIELD),
    ("shared/tool.rs", "\n    ToolCallLocation {\n", NEW_FIELD),
    ("shared/tool.rs", "\n    ToolKind default Other {\n", "/// New.\n Novelty = \"novelty\",\n"),
];
const NEW_FIELD: &str = "/// New.\n optional novelty: Text<'a> = \"novelty\",\n";

/// Packages every published crate, builds the examples against the packages, and runs them. Then builds them against extended wire
/// types, and checks packages (for a release: all of them) with their minimum supported Rust version.
pub(crate) fn package(all: bool) -> Result<(), String> {
    let packages = pack()?;
    let folder = unpack(&packages)?;
    let used = used_by_examples()?;
    if let Some(name) = used.iter().find(|name| !packages.contains_key(*name)) {
        return Err(format!("the examples use {name}, which is not published"));
    }
    let config = folder.join("packages.toml");
    let path_of = |name: &str| folder.join(name);
    cargo_with_packages("build", &used, path_of, &config)?;
    examples::run(&setup::target().join("debug"))?;
    println!("\n==> examples, with wire types that have grown");
    let grown = grow(&folder.join(WIRE))?;
    let path_of = |name: &str| if name == WIRE { grown.clone() } else { folder.join(name) };
    cargo_with_packages("check", &used, path_of, &config)?;
    oldest::check(&folder, &packages, all)
}

/// Builds or checks the examples with these packages instead of those in their manifest.
fn cargo_with_packages(
    command: &str,
    names: &[String],
    path_of: impl Fn(&str) -> PathBuf,
    config: &Path,
) -> Result<(), String> {
    let mut patches = "[patch.crates-io]\n".to_owned();
    for name in names {
        patches += &format!("{name}.path = {:?}\n", path_of(name).display().to_string());
    }
    std::fs::write(config, patches).map_err(|error| format!("cannot write {}: {error}", config.display()))?;
    run(Command::new("cargo")
        .args([command, "--locked", "--manifest-path", "examples/Cargo.toml", "--target-dir"])
        .arg(setup::target())
        .arg("--config")
        .arg(config))
}

/// Creates a copy of the crate with the wire types that has new fields and a new variant.
fn grow(package: &Path) -> Result<PathBuf, String> {
    let grown = setup::target().join("package/grown").join(WIRE);
    update(package, &grown).map_err(|error| format!("cannot make {}: {error}", grown.display()))?;
    for (file, place, new) in NOVELTIES {
        let path = grown.join("src").join(file);
        let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| fault(&error))?;
        let at = text.find(place).ok_or_else(|| fault(&format!("there is no {place:?}")))? + place.len();
        std::fs::write(&path, format!("{}{new}{}", &text[..at], &text[at..]))
            .map_err(|error| fault(&error))?;
    }
    Ok(grown)
}

/// Packages the crates. Returns their names, which are also those of the packages without the version, and their minimum supported
/// Rust versions.
fn pack() -> Result<BTreeMap<String, String>, String> {
    let metadata = metadata(&["--no-deps"])?;
    let mut packages = BTreeMap::new();
    let mut command = Command::new("cargo");
    command.args(["package", "--workspace", "--no-verify", "--allow-dirty", "--locked", "--quiet"]);
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        if package["publish"].is_array() {
            command.args(["--exclude", name]);
            continue;
        }
        check(package)?;
        packages.insert(name.to_owned(), package["rust_version"].as_str().unwrap_or_default().to_owned());
    }
    run(&mut command)?;
    Ok(packages)
}

/// Returns the output of `cargo metadata` for the workspace.
pub(crate) fn metadata(arguments: &[&str]) -> Result<Value, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cargo metadata: {error}");
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(arguments)
        .current_dir(root())
        .output()
        .map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))
}

/// Checks that a package has all metadata that the registry shows.
fn check(package: &Value) -> Result<(), String> {
    let is_there = |key: &&&str| match &package[**key] {
        Value::Array(items) => items.is_empty(),
        other => other.is_null(),
    };
    let keys = ["description", "license", "repository", "readme", "keywords", "categories", "rust_version"];
    match keys.iter().find(is_there) {
        Some(key) => Err(format!("{}: its Cargo.toml has no {key}", package["name"])),
        None => Ok(()),
    }
}

/// Unpacks each package into its own folder. Unchanged files stay untouched, so that nothing is built twice.
fn unpack(packages: &BTreeMap<String, String>) -> Result<PathBuf, String> {
    let folder = setup::target().join("package");
    let (fresh, kept) = (folder.join("fresh"), folder.join("unpacked"));
    remove(&fresh)?;
    std::fs::create_dir_all(&fresh).map_err(|error| format!("cannot make {}: {error}", fresh.display()))?;
    for name in packages.keys() {
        let version = env!("CARGO_PKG_VERSION");
        let archive = folder.join(format!("{name}-{version}.crate"));
        let unpacked = Command::new("tar")
            .arg("-xf")
            .arg(&archive)
            .arg("-C")
            .arg(&fresh)
            .status()
            .map_err(|error| error.to_string());
        if !unpacked.as_ref().is_ok_and(std::process::ExitStatus::success) {
            return Err(format!("cannot unpack {}: {unpacked:?}", archive.display()));
        }
        let (from, to) = (fresh.join(format!("{name}-{version}")), kept.join(name));
        for file in ["LICENSE", "README.md", "src"] {
            if !from.join(file).exists() {
                return Err(format!("the package of {name} has no {file}"));
            }
        }
        update(&from, &to).map_err(|error| format!("cannot unpack {name}: {error}"))?;
    }
    remove(&fresh)?;
    Ok(kept)
}

fn remove(folder: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Updates a folder to the content of another one.
fn update(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(to)? {
        let entry = entry?;
        if !from.join(entry.file_name()).exists() {
            let is_folder = entry.file_type()?.is_dir();
            if is_folder {
                std::fs::remove_dir_all(entry.path())
            } else {
                std::fs::remove_file(entry.path())
            }?;
        }
    }
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            update(&from, &to)?;
        } else {
            let content = std::fs::read(&from)?;
            if std::fs::read(&to).ok().as_ref() != Some(&content) {
                std::fs::write(&to, content)?;
            }
        }
    }
    Ok(())
}

/// Returns the crates of this repository that the examples use.
fn used_by_examples() -> Result<Vec<String>, String> {
    let path = root().join("examples/Cargo.toml");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let patched = text.lines().skip_while(|line| *line != "[patch.crates-io]").skip(1);
    Ok(patched
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| Some(line.split_once(" = ")?.0.to_owned()))
        .collect())
}
