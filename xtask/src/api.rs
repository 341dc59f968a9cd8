//! Public API snapshots: one line per public item in `api/`, so that no item is removed or changed unnoticed.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::{package, root, run, setup, toolchain};

/// The compiler whose JSON documentation the parser (`public-api`) supports. The format is not stable, so
/// both are updated together.
const COMPILER: &str = "1.95.0";

/// Set if cargo runs this program as rustdoc.
pub(crate) const AS_RUSTDOC: &str = "XTASK_AS_RUSTDOC";

/// Auto traits that are not part of the API.
const IGNORED_TRAITS: [&str; 5] = [
    "core::marker::Freeze",
    "core::marker::StructuralPartialEq",
    "core::marker::UnsafeUnpin",
    "core::panic::unwind_safe::RefUnwindSafe",
    "core::panic::unwind_safe::UnwindSafe",
];

/// Maximum number of lines shown per kind and crate.
const MOST_SHOWN: usize = 30;

/// Compares the public items of every published library with the snapshots, or writes them.
pub(crate) fn check(bless: bool) -> Result<(), String> {
    println!("\n==> public items of the libraries, by api/");
    let libraries = libraries()?;
    let mut cargo = Command::new("cargo");
    if let Err(reason) = toolchain::choose(COMPILER, &mut cargo) {
        println!("NOT CHECKED: {reason}");
        return if bless { Err("nothing was written".to_owned()) } else { Ok(()) };
    }
    describe(&mut cargo)?;
    let folder = root().join("api");
    let mut faults = obsolete_files(&folder, &libraries)?;
    for (name, library) in &libraries {
        let items = items(&setup::target().join("doc").join(format!("{library}.json")))?;
        let path = folder.join(format!("{name}.txt"));
        if bless {
            std::fs::write(&path, items.iter().map(|item| format!("{item}\n")).collect::<String>())
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            continue;
        }
        let known = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}; `cargo xtask api --bless` writes it", path.display()))?;
        faults.extend(differences(name, &known.lines().map(str::to_owned).collect(), &items));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Returns the names of package and crate of the published libraries.
fn libraries() -> Result<Vec<(String, String)>, String> {
    let metadata = package::metadata(&["--no-deps"])?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let published = packages.filter(|package| package["publish"].is_null());
    Ok(published
        .filter_map(|package| {
            let library = package["targets"].as_array()?.iter().find(|target| target["kind"][0] == "lib")?;
            Some((package["name"].as_str()?.to_owned(), library["name"].as_str()?.to_owned()))
        })
        .collect())
}

/// Returns files of crates that no longer exist.
fn obsolete_files(folder: &Path, libraries: &[(String, String)]) -> Result<Vec<String>, String> {
    let failed = |error| format!("cannot read {}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let file = entry.map_err(failed)?.file_name();
        if !libraries.iter().any(|(name, _)| file == *format!("{name}.txt")) {
            found.push(format!("api/{}: no library of this name is published", file.display()));
        }
    }
    Ok(found)
}

/// Runs rustdoc with JSON output. Cargo gets the same options as for the pages, so that nothing is compiled
/// again. Only rustdoc gets the unstable flag, because build scripts would see it too.
fn describe(cargo: &mut Command) -> Result<(), String> {
    let rustdoc = std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
    run(cargo
        .args(["doc", "--workspace", "--no-deps", "--lib", "--locked", "--quiet"])
        .env("RUSTDOC", rustdoc)
        .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json --cap-lints allow")
        .env(AS_RUSTDOC, "1"))
}

/// Acts as rustdoc for cargo.
pub(crate) fn as_rustdoc() -> ExitCode {
    let status =
        Command::new("rustdoc").args(std::env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot start rustdoc: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the public items of a file, one line each. Functions of a trait are listed at its declaration, not
/// for each implementing type.
fn items(json: &Path) -> Result<BTreeSet<String>, String> {
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .build()
        .map_err(|error| format!("{}: {error}", json.display()))?;
    let is_of_trait = |line: &str| line.starts_with("impl") && line.contains(" for ");
    let implementations: BTreeSet<_> =
        api.items().filter(|item| is_of_trait(&item.to_string())).map(|item| item.id().0).collect();
    let is_told_elsewhere = |item: &public_api::PublicItem, line: &str| {
        let parent = item.parent_id().is_some_and(|parent| implementations.contains(&parent.0));
        parent && line.contains("fn ") && !line.starts_with("impl")
    };
    let mut lines = BTreeSet::new();
    for item in api.items() {
        let line = item.to_string();
        let is_noise = IGNORED_TRAITS.iter().any(|name| line.contains(&format!("{name} for ")));
        if !is_noise && !is_told_elsewhere(item, &line) {
            lines.insert(line);
        }
    }
    Ok(lines)
}

/// Describes the differences between a library and its snapshot.
fn differences(name: &str, known: &BTreeSet<String>, found: &BTreeSet<String>) -> Vec<String> {
    let (gone, new): (Vec<_>, Vec<_>) =
        (known.difference(found).collect(), found.difference(known).collect());
    let mut said = Vec::new();
    if !gone.is_empty() {
        said.push(format!(
            "{name}: what its users may have in their code is gone or changed. That is a breaking change: put it back, or \
             raise the minor version, say so in CHANGELOG.md, and write it down with `cargo xtask api --bless`.\n{}",
            list('-', &gone)
        ));
    }
    if !new.is_empty() {
        said.push(format!(
            "{name}: there is something new. If it is meant to stay, write it down with `cargo xtask api --bless`.\n{}",
            list('+', &new)
        ));
    }
    said
}

fn list(sign: char, lines: &[impl Display]) -> String {
    let mut text: Vec<_> = lines.iter().take(MOST_SHOWN).map(|line| format!("  {sign} {line}")).collect();
    if lines.len() > MOST_SHOWN {
        text.push(format!("  {sign} and {} more", lines.len() - MOST_SHOWN));
    }
    text.join("\n")
}

#[cfg(test)]
mod tests {
    use super::{BTreeSet, MOST_SHOWN, differences};

    fn set(lines: &[&str]) -> BTreeSet<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn removed_items_are_breaking_and_new_items_are_recorded() {
        let known = set(&["pub fn a()", "pub fn b()"]);
        assert!(differences("x", &known, &known).is_empty());
        let [breaking, addition] = &differences("x", &known, &set(&["pub fn a()", "pub fn b(u8)"]))[..]
        else {
            panic!("a changed line is one that is gone and one that is new");
        };
        assert!(breaking.contains("breaking change") && breaking.ends_with("\n  - pub fn b()"), "{breaking}");
        assert!(addition.contains("something new") && addition.ends_with("\n  + pub fn b(u8)"), "{addition}");
    }

    #[test]
    fn a_long_list_is_cut() {
        let found = (0..MOST_SHOWN + 2).map(|number| format!("pub fn f{number:02}()")).collect();
        let said = differences("x", &BTreeSet::new(), &found).join("\n");
        assert!(said.ends_with("  + pub fn f29()\n  + and 2 more"), "{said}");
    }
}
