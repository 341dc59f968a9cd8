//! `cargo xtask mutate`: leaves out one field of one conversion after the other, and wants a test of the bridge to fail.
//!
//! Conversions take their values apart by name: `let v1::Plan { entries, mut meta, mut extra } = plan;`. In a copy of the
//! repository, a line behind each of these lets a test run say which field is to be forgotten there, so that all mutants
//! are built once. A field whose type has no default cannot be forgotten: without it nothing compiles.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{root, run, setup};

/// The variable that names the field to be forgotten, by its number.
const VARIABLE: &str = "SWITCHBOARD_MUTANT";
/// What a test run ends with that came to a field which cannot be forgotten.
const NO_DEFAULT: i32 = 77;
/// How many mutants are tried unless all are.
const SAMPLE: usize = 12;
/// Tests that see most, and quickly. The others are asked about what these do not see.
const QUICK: [&str; 6] = [
    "markers::every_mark_in_a_written",
    "rows::",
    "stateless::",
    "sessions::",
    "tool_calls::",
    "old_agents::",
];

/// A field of a conversion.
struct Mutant {
    place: String,
    field: String,
}

pub(crate) fn mutate(all: bool) -> Result<(), String> {
    let copy = setup::target().join("mutate");
    copy_repository(&copy)?;
    let mut mutants = Vec::new();
    let sources = copy.join("crates/bridge/src");
    for file in rust_files(&sources.join("convert"))? {
        let text = read(&file)?;
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        write(&file, &prepared(&text, &name, &mut mutants))?;
    }
    write(&sources.join("mutants.rs"), MODULE)?;
    let library = sources.join("lib.rs");
    write(&library, &read(&library)?.replacen("\nmod bridge;", "\nmod bridge;\nmod mutants;", 1))?;
    let test = build(&copy)?;
    if !passes(&test, 0, &[])? {
        return Err("the tests of the bridge fail as it is".to_owned());
    }
    let step = if all { 1 } else { mutants.len().div_ceil(SAMPLE).max(1) };
    let (mut tried, mut survived) = (0, Vec::new());
    for (number, mutant) in mutants.iter().enumerate().skip(step / 2).step_by(step) {
        tried += 1;
        let lives = passes(&test, number + 1, &QUICK)? && passes(&test, number + 1, &[])?;
        println!("{} {}: {}", if lives { "LIVES" } else { "dies " }, mutant.place, mutant.field);
        if lives {
            survived.push(format!("{}: {}", mutant.place, mutant.field));
        }
    }
    println!("\n{tried} of {} mutants tried, {} live", mutants.len(), survived.len());
    if survived.is_empty() {
        Ok(())
    } else {
        Err(format!("no test sees the loss of\n{}", survived.join("\n")))
    }
}

/// The text with a line behind each `let` that takes a struct apart, for each field that it names.
fn prepared(text: &str, file: &str, mutants: &mut Vec<Mutant>) -> String {
    let mut output = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(start) = rest.find("let ") {
        let Some((fields, end)) = taken_apart(&rest[start..]) else {
            output.push_str(&rest[..start + 4]);
            rest = &rest[start + 4..];
            continue;
        };
        output.push_str(&rest[..start + end]);
        let line = 1 + text[..text.len() - rest.len() + start].matches('\n').count();
        for field in fields {
            mutants.push(Mutant { place: format!("{file}:{line}"), field: field.clone() });
            let (mutable, name) = match field.strip_prefix("mut ") {
                Some(name) => ("mut ", name),
                None => ("", &*field),
            };
            let number = mutants.len();
            // Writing to a String cannot fail.
            let _ = write!(
                output,
                " #[allow(unused_mut)] let {mutable}{name} = crate::mutants::put!({number}, {name});"
            );
        }
        rest = &rest[start + end..];
    }
    output.push_str(rest);
    output
}

/// The names that a struct's fields get in a `let` that begins the text, and where that ends.
fn taken_apart(text: &str) -> Option<(Vec<String>, usize)> {
    let open = text.find(" {")?;
    let path = text.get(4..open)?;
    let is_type = path.chars().all(|character| character.is_alphanumeric() || matches!(character, ':' | '_'))
        && path.rsplit("::").next()?.starts_with(char::is_uppercase);
    let close = open + text[open..].find('}')?;
    if !is_type || !text[close..].starts_with("} =") {
        return None;
    }
    let end = close + text[close..].find(";\n")? + 1;
    let lines = text[open + 2..close].lines().map(|line| line.split("//").next().unwrap_or_default());
    let fields: String = lines.collect::<Vec<_>>().join(" ");
    let name = |field: &str| match field.split_once(':') {
        Some((_, alias)) => alias.trim().to_owned(),
        None => field.trim().to_owned(),
    };
    let names = fields.split(',').map(name).filter(|name| !name.is_empty() && name != "_");
    Some((names.collect(), end))
}

/// The module of the copy that forgets fields.
const MODULE: &str = r#"//! Forgets the field that a test run names.
use std::cell::Cell;
use std::sync::OnceLock;

fn is_active(number: u32) -> bool {
    static NUMBER: OnceLock<Option<u32>> = OnceLock::new();
    *NUMBER.get_or_init(|| std::env::var("SWITCHBOARD_MUTANT").ok()?.parse().ok()) == Some(number)
}

pub(crate) struct Slot<T>(pub(crate) Cell<Option<T>>, pub(crate) u32);

pub(crate) trait WithDefault {
    type Value;
    fn put(&self) -> Self::Value;
}

impl<T: Default> WithDefault for Slot<T> {
    type Value = T;
    fn put(&self) -> T {
        let value = self.0.take();
        if is_active(self.1) { T::default() } else { value.expect("a value") }
    }
}

/// Asked only where the other is not at hand.
pub(crate) trait WithoutDefault {
    type Value;
    fn put(&self) -> Self::Value;
}

impl<T> WithoutDefault for &Slot<T> {
    type Value = T;
    fn put(&self) -> T {
        if is_active(self.1) {
            std::process::exit(77);
        }
        self.0.take().expect("a value")
    }
}

macro_rules! put {
    ($number:literal, $value:expr) => {{
        #[allow(unused_imports)]
        use crate::mutants::{Slot, WithDefault, WithoutDefault};
        (&Slot(std::cell::Cell::new(Some($value)), $number)).put()
    }};
}
pub(crate) use put;
"#;

/// Builds the bridge's tests in the copy and gives the program.
fn build(copy: &Path) -> Result<PathBuf, String> {
    let arguments =
        ["test", "--package", "switchboard-bridge", "--test", "it", "--no-run", "--message-format=json"];
    let output = Command::new("cargo")
        .args(arguments)
        .arg("--target-dir")
        .arg(setup::target())
        .current_dir(copy)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let program = text.lines().rev().find_map(|line| {
        let rest = line.split_once(r#""executable":""#)?.1;
        Some(PathBuf::from(rest.split('"').next()?))
    });
    program.filter(|_| output.status.success()).ok_or_else(|| "the mutants do not build".to_owned())
}

/// Whether the tests pass without a field. A run that came to one which cannot be forgotten has failed.
fn passes(test: &Path, number: usize, filters: &[&str]) -> Result<bool, String> {
    let status = Command::new(test)
        .args(filters)
        .env(VARIABLE, number.to_string())
        .env("PROPTEST_FAILURE_PERSISTENCE", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|error| format!("cannot start {}: {error}", test.display()))?;
    if status.code() == Some(NO_DEFAULT) {
        return Ok(false);
    }
    Ok(status.success())
}

/// Copies what Git knows of.
fn copy_repository(to: &Path) -> Result<(), String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cannot start git: {error}"))?;
    if to.exists() {
        std::fs::remove_dir_all(to).map_err(|error| format!("cannot remove {}: {error}", to.display()))?;
    }
    for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root().join(name), to.join(name));
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        // A file that was removed and not yet committed.
        if from.exists() {
            std::fs::copy(&from, &to).map_err(|error| format!("cannot copy {}: {error}", from.display()))?;
        }
    }
    run(Command::new("git").args(["init", "--quiet"]).current_dir(to))
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
