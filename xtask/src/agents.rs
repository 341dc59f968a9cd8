//! Check of the known agents' installation hints against the registries.
//!
//! It needs the network, `npm`, `python3` with pip, `curl` and `tar`, so it is not part of the tests: package
//! names change outside of this repository.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{root, setup};

/// A package in a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Package {
    Npm(String),
    PyPi(String),
    Cargo(String),
}

/// Constructor of a package.
type MakePackage = fn(String) -> Package;

/// Registry data of a package.
#[derive(Debug)]
struct Published {
    version: String,
    /// The programs that it installs. For npm with the file that each runs.
    programs: Vec<(String, String)>,
    deprecated: Option<String>,
}

/// Checks every known agent: each package of its hint exists, and together they install its programs.
pub(crate) fn check() -> Result<(), String> {
    let folder = setup::target().join("agents-check");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let mut problems = Vec::new();
    for agent in known(&folder)? {
        let name = agent["name"].as_str().unwrap_or_default();
        match check_agent(&agent, &folder) {
            Ok(lines) => lines.iter().for_each(|line| println!("{name}: {line}")),
            Err(problem) => {
                println!("{name}: PROBLEM: {problem}");
                problems.push(format!("{name}: {problem}"));
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// Returns the program's table of agents without any configuration.
fn known(home: &Path) -> Result<Vec<Value>, String> {
    let printed = output(
        Command::new("cargo")
            .current_dir(root())
            .args(["run", "--quiet", "--locked", "--package", "switchboard", "--", "agents", "--json"])
            // Cargo and rustup keep their own folders.
            .env("XDG_CONFIG_HOME", home)
            .env("XDG_CACHE_HOME", home),
    )?;
    let entries = printed.lines().map(|line| serde_json::from_str(line).map_err(|error| error.to_string()));
    let entries: Vec<Value> = entries.collect::<Result<_, _>>()?;
    let is_known = |entry: &Value| matches!(entry["state"].as_str(), Some("known" | "installed"));
    Ok(entries.into_iter().filter(is_known).collect())
}

fn check_agent(agent: &Value, folder: &Path) -> Result<Vec<String>, String> {
    let install = agent["install"].as_str().unwrap_or_default();
    let (mut lines, mut programs) = (Vec::new(), BTreeSet::new());
    let packages = packages_in(install);
    for package in &packages {
        let published = look_up(package, folder)?;
        if let Some(reason) = &published.deprecated {
            return Err(format!("{package:?} is deprecated: {reason}"));
        }
        let names: Vec<&str> = published.programs.iter().map(|(name, _)| name.as_str()).collect();
        lines.push(format!("{package:?} {} brings {}", published.version, names.join(", ")));
        programs.extend(published.programs.into_iter().map(|(name, _)| name));
    }
    if packages.is_empty() {
        lines.push(format!("not checked, no package: {install}"));
    } else {
        let commands = agent["commands"].as_array().cloned().unwrap_or_default();
        let wanted: Vec<&str> = commands.iter().filter_map(|command| command[0].as_str()).collect();
        if !wanted.iter().any(|program| programs.contains(*program)) {
            return Err(format!("`{install}` brings {programs:?} and none of {wanted:?}"));
        }
        let needs = agent["needs"].as_array().cloned().unwrap_or_default();
        if let Some(missing) = needs.iter().filter_map(Value::as_str).find(|need| !programs.contains(*need)) {
            return Err(format!(
                "`{install}` brings {programs:?} and not {missing:?}, which is needed beside it"
            ));
        }
    }
    let runner: Vec<&str> =
        agent["package"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let wanted = match runner[..] {
        ["npx", "--yes", "--", package, ..] => {
            let published = look_up(&Package::Npm(package.to_owned()), folder)?;
            chosen_by_npx(package, &published.programs)
        }
        ["uvx", package, ..] => {
            let published = look_up(&Package::PyPi(package.to_owned()), folder)?;
            published.programs.into_iter().map(|(name, _)| name).find(|name| name == package)
        }
        [] => return Ok(lines),
        _ => None,
    };
    match wanted {
        Some(program) => lines.push(format!("`{}` runs {program}", runner.join(" "))),
        None => return Err(format!("`{}` finds no program to run", runner.join(" "))),
    }
    Ok(lines)
}

/// Returns the packages in a hint: the words after `npm install -g` and similar commands, up to a comma.
fn packages_in(hint: &str) -> Vec<Package> {
    let words: Vec<&str> = hint.split_whitespace().collect();
    let begins: [(&[&str], MakePackage); 4] = [
        (&["npm", "install", "-g"], Package::Npm),
        (&["bun", "install", "-g"], Package::Npm),
        (&["uv", "tool", "install"], Package::PyPi),
        (&["cargo", "install"], Package::Cargo),
    ];
    for (begin, package) in begins {
        let Some(start) = words.windows(begin.len()).position(|window| window == begin) else { continue };
        let mut packages = Vec::new();
        for word in &words[start + begin.len()..] {
            let name = word.trim_matches(['"', '\'', ',']).split('[').next().unwrap_or_default();
            packages.push(package(name.to_owned()));
            if word.ends_with(',') {
                break;
            }
        }
        return packages;
    }
    Vec::new()
}

/// Returns the program that npx runs: the one with the package's name, or the only one.
fn chosen_by_npx(package: &str, programs: &[(String, String)]) -> Option<String> {
    let unscoped = package.rsplit('/').next().unwrap_or(package);
    if programs.iter().any(|(name, _)| name == unscoped) {
        return Some(unscoped.to_owned());
    }
    let files: BTreeSet<&str> = programs.iter().map(|(_, file)| file.as_str()).collect();
    (files.len() == 1).then(|| programs.first().map(|(name, _)| name.clone())).flatten()
}

fn look_up(package: &Package, folder: &Path) -> Result<Published, String> {
    match package {
        Package::Npm(name) => npm(name),
        Package::PyPi(name) => pypi(name, folder),
        Package::Cargo(name) => cargo(name),
    }
    .map_err(|problem| format!("{package:?}: {problem}"))
}

fn npm(name: &str) -> Result<Published, String> {
    let fields = ["name", "version", "bin", "deprecated"];
    let answer = output(Command::new("npm").args(["view", "--json", name]).args(fields))?;
    let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
    let text = |key: &str| answer[key].as_str().map(str::to_owned);
    let bin = answer["bin"].as_object().into_iter().flatten();
    let programs = bin.map(|(name, file)| (name.clone(), file.as_str().unwrap_or_default().to_owned()));
    Ok(Published {
        version: text("version").ok_or("the registry names no version")?,
        programs: programs.collect(),
        deprecated: text("deprecated"),
    })
}

/// Reads the entry points from the wheel, because the index does not have them.
fn pypi(name: &str, folder: &Path) -> Result<Published, String> {
    const ENTRY_POINTS: &str = "import sys, zipfile\n\
        wheel = zipfile.ZipFile(sys.argv[1])\n\
        for name in wheel.namelist():\n    \
            if name.endswith('.dist-info/entry_points.txt'): print(wheel.read(name).decode())";
    let folder = folder.join(name);
    output(
        Command::new("python3")
            .args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"])
            .args(["--python-version", "3.13", "--dest"])
            .arg(&folder)
            .arg(name),
    )?;
    let wheel = only_file(&folder)?;
    let file = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let entries = output(Command::new("python3").args(["-c", ENTRY_POINTS]).arg(&wheel))?;
    let scripts = entries.lines().skip_while(|line| line.trim() != "[console_scripts]").skip(1);
    let scripts = scripts.take_while(|line| !line.starts_with('['));
    let programs = scripts.filter_map(|line| {
        let (name, target) = line.split_once('=')?;
        Some((name.trim().to_owned(), target.trim().to_owned()))
    });
    Ok(Published {
        version: file.split('-').nth(1).unwrap_or_default().to_owned(),
        programs: programs.collect(),
        deprecated: None,
    })
}

fn only_file(folder: &Path) -> Result<PathBuf, String> {
    let mut files = std::fs::read_dir(folder).map_err(|error| error.to_string())?.flatten();
    files.next().map(|file| file.path()).ok_or_else(|| format!("nothing was put into {}", folder.display()))
}

/// Reads the binaries from the published manifest, because the index does not have them.
fn cargo(name: &str) -> Result<Published, String> {
    let place = match name.len() {
        0..=2 => return Err("its name is shorter than any that is known here".to_owned()),
        3 => format!("3/{}", &name[..1]),
        _ => format!("{}/{}", &name[..2], &name[2..4]),
    };
    let index = fetch(&format!("https://index.crates.io/{place}/{name}"))?;
    let mut versions = index.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let newest = versions.rfind(|version| version["yanked"] != true);
    let newest = newest.ok_or("every version is yanked")?;
    let version = newest["vers"].as_str().unwrap_or_default().to_owned();
    let address = format!("https://static.crates.io/crates/{name}/{name}-{version}.crate");
    let unpack = "curl --silent --show-error --fail --location --max-time 120 \"$1\" | tar -xzO \"$2\"";
    let manifest = format!("{name}-{version}/Cargo.toml");
    let manifest = output(Command::new("sh").args(["-c", unpack, "sh", &address, &manifest]))?;
    let manifest = toml::de::DeTable::parse(&manifest).map_err(|error| format!("Cargo.toml: {error}"))?;
    let binaries = manifest.get_ref().get("bin").and_then(|binaries| binaries.get_ref().as_array());
    let programs = binaries.into_iter().flatten().filter_map(|binary| {
        let table = binary.get_ref().as_table()?;
        let text = |key: &str| table.get(key)?.get_ref().as_str().map(str::to_owned);
        Some((text("name")?, text("path").unwrap_or_default()))
    });
    let programs = programs.collect();
    Ok(Published { version, programs, deprecated: None })
}

fn fetch(address: &str) -> Result<String, String> {
    output(
        Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--location", "--max-time", "60"])
            .arg(address),
    )
}

/// Returns the output of a command if it succeeds.
fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let run = command.output().map_err(|error| format!("cannot start {program}: {error}"))?;
    if !run.status.success() {
        let words = String::from_utf8_lossy(&run.stderr);
        let words: Vec<&str> = words.lines().filter(|line| !line.trim().is_empty()).take(3).collect();
        return Err(format!("{program} failed ({}): {}", run.status, words.join("; ")));
    }
    String::from_utf8(run.stdout).map_err(|_| format!("{program} printed no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packages_of_a_hint_are_read() {
        let npm = |name: &str| Package::Npm(name.to_owned());
        for (hint, packages) in [
            ("npm install -g @a/b c", vec![npm("@a/b"), npm("c")]),
            ("npm install -g @a/b, or see https://b.example", vec![npm("@a/b")]),
            ("bun install -g @a/b", vec![npm("@a/b")]),
            ("uv tool install \"a-b[acp]\"", vec![Package::PyPi("a-b".to_owned())]),
            ("cargo install a, or see b", vec![Package::Cargo("a".to_owned())]),
            ("see https://a.example", vec![]),
        ] {
            assert_eq!(packages_in(hint), packages, "{hint}");
        }
    }

    #[test]
    fn npx_runs_the_program_of_the_packages_name_or_the_only_one() {
        let programs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, file)| ((*name).to_owned(), (*file).to_owned())).collect::<Vec<_>>()
        };
        let chosen = |package: &str, pairs: &[(&str, &str)]| chosen_by_npx(package, &programs(pairs));
        assert_eq!(chosen("@a/b", &[("b", "x"), ("c", "y")]).as_deref(), Some("b"));
        assert_eq!(chosen("@a/cli", &[("b", "x")]).as_deref(), Some("b"));
        assert_eq!(chosen("@a/cli", &[("b", "x"), ("c", "x")]).as_deref(), Some("b"), "two names of one");
        assert_eq!(chosen("@a/cli", &[("b", "x"), ("c", "y")]), None);
        assert_eq!(chosen("mux", &[]), None);
    }
}
