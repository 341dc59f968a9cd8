//! `cargo xtask mutate`: drops one field of one conversion after the other, and expects a test of the bridge
//! to fail.
//!
//! Conversions destructure their values by name: `let v1::Plan { entries, mut meta, mut extra } = plan;`. In
//! a copy of the repository, a line after each of these lets a test run choose the field to drop, so that all
//! mutants are built once. A field whose type has no default cannot be dropped: without it nothing compiles.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{root, run, setup};

/// The variable with the number of the field to drop.
const VARIABLE: &str = "SWITCHBOARD_MUTANT";
/// Number of mutants in a sample.
const SAMPLE: usize = 12;
/// Code with destructuring conversions: the crate, and the folder in it.
const PLACES: [(&str, &str); 2] = [("bridge", "src"), ("diff", "src/texts")];

/// A field of a conversion.
struct Mutant {
    place: String,
    field: String,
}

/// Tests a sample of the mutants, or all whose location contains `wanted`.
pub(crate) fn mutate(wanted: Option<&str>) -> Result<(), String> {
    let copy = setup::target().join("mutate");
    copy_repository(&copy)?;
    let mut mutants = Vec::new();
    for (package, folder) in PLACES {
        let package = copy.join("crates").join(package);
        for file in rust_files(&package.join(folder))? {
            let name = file.strip_prefix(copy.join("crates")).unwrap_or(&file).display().to_string();
            write(&file, &prepared(&read(&file)?, &name, &mut mutants))?;
        }
        // The bridge passes the number to the crate it depends on.
        let others = if package.ends_with("bridge") { "switchboard_diff::mutants::set(number);" } else { "" };
        write(&package.join("src/mutants.rs"), &MODULE.replace("OTHERS", others))?;
        let library = package.join("src/lib.rs");
        let text = read(&library)?.replacen("\nmod ", "\n#[allow(missing_docs)] pub mod mutants;\nmod ", 1);
        write(&library, &text)?;
    }
    write_runner(&copy.join("crates/bridge/tests/it"))?;
    let tests = [build(&copy, "switchboard-bridge")?, build(&copy, "switchboard-diff")?];
    let step = if wanted.is_some() { 1 } else { mutants.len().div_ceil(SAMPLE).max(1) };
    let all = mutants.iter().enumerate().skip(step / 2).step_by(step);
    let tried = all.filter(|(_, mutant)| mutant.place.contains(wanted.unwrap_or_default()));
    let tried: Vec<usize> = tried.map(|(index, _)| index + 1).collect();
    let mut survived = Vec::new();
    for number in unseen(&tests[0], &tried)? {
        // Random tests run last; the tests of the mutant's own crate run first.
        let Mutant { place, field } = &mutants[number - 1];
        let [bridge, diff] = &tests;
        let (own, other) = if place.starts_with("diff") { (diff, bridge) } else { (bridge, diff) };
        let lives = passes(own, number)? && passes(other, number)?;
        println!("{} {place}: {field}", if lives { "LIVES" } else { "dies " });
        if lives {
            survived.push(format!("{place}: {field}"));
        }
    }
    println!("\n{} of {} mutants tried, {} live", tried.len(), mutants.len(), survived.len());
    if survived.is_empty() {
        Ok(())
    } else {
        Err(format!("no test sees the loss of\n{}", survived.join("\n")))
    }
}

/// Returns the mutants that no quick test of the bridge detects. One process tests them one after the other;
/// a mutant that causes an endless loop counts as detected, and another process continues.
fn unseen(test: &Path, wanted: &[usize]) -> Result<Vec<usize>, String> {
    let (mut unseen, mut rest) = (Vec::new(), wanted.to_vec());
    while !rest.is_empty() {
        let list: Vec<String> = rest.iter().map(usize::to_string).collect();
        let mut child = Command::new(test)
            .args(["--exact", "mutants::each", "--nocapture"])
            .env(VARIABLE, list.join(","))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", test.display()))?;
        let lines = child.stdout.take().map(|output| BufReader::new(output).lines());
        let before = rest.len();
        for line in lines.into_iter().flatten().map_while(Result::ok) {
            let mut words = line.split_whitespace();
            let (Some("mutant"), Some(number), Some(how)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let number = number.parse().unwrap_or_default();
            rest.retain(|waiting| *waiting != number);
            if how == "lives" {
                unseen.push(number);
            }
            println!("{line} ({} left)", rest.len());
        }
        child.wait().map_err(|error| format!("{}: {error}", test.display()))?;
        if rest.len() == before {
            return Err("the tests of the bridge fail as they are".to_owned());
        }
    }
    Ok(unseen)
}

/// Writes a test into the copy that runs all other tests without arguments for one mutant after the other,
/// starting with the test that detected the last one.
fn write_runner(folder: &Path) -> Result<(), String> {
    let mut names = String::new();
    for file in rust_files(folder)? {
        let module = file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let text = read(&file)?;
        let mut output = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(start) = rest.find("#[test]\nfn ") {
            let (head, tail) = rest.split_at(start + "#[test]\n".len());
            let name = tail["fn ".len()..].split('(').next().unwrap_or_default();
            let path = if module == "main" { name.to_owned() } else { format!("{module}::{name}") };
            let _ = writeln!(names, "    (\"{path}\", crate::{path}),");
            output.push_str(head);
            output.push_str("pub(crate) ");
            rest = tail;
        }
        output.push_str(rest);
        write(&file, &output)?;
    }
    write(&folder.join("mutants.rs"), &RUNNER.replace("NAMES", &names))?;
    let main = folder.join("main.rs");
    write(&main, &read(&main)?.replacen("\nmod ", "\nmod mutants;\nmod ", 1))
}

/// Text of the test that runs all others. A watchdog ends the process if a test does not end.
const RUNNER: &str = r#"use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Test = (&'static str, fn());

const TESTS: &[Test] = &[
NAMES];

static BEATS: AtomicU64 = AtomicU64::new(0);

fn passes(test: &Test) -> bool {
    BEATS.fetch_add(1, Ordering::Relaxed);
    std::panic::catch_unwind(test.1).is_ok()
}

#[test]
fn each() {
    let Ok(wanted) = std::env::var("SWITCHBOARD_MUTANT") else { return };
    if !wanted.contains(',') && std::env::args().all(|argument| argument != "--exact") {
        return;
    }
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::spawn(|| loop {
        let before = BEATS.load(Ordering::Relaxed);
        std::thread::park_timeout(Duration::from_secs(120));
        if BEATS.load(Ordering::Relaxed) == before {
            println!("mutant {} dies in circles", switchboard_bridge::mutants::active());
            std::process::exit(3);
        }
    });
    switchboard_bridge::mutants::set(0);
    let mut tests = Vec::new();
    for test in TESTS {
        let begin = Instant::now();
        if !passes(test) {
            println!("fails as it is: {}", test.0);
            return;
        }
        tests.push((begin.elapsed(), *test));
    }
    tests.sort_by_key(|(time, _)| *time);
    for number in wanted.split(',').filter_map(|number| number.parse().ok()) {
        switchboard_bridge::mutants::set(number);
        match tests.iter().position(|(_, test)| !passes(test)) {
            Some(place) => {
                println!("mutant {number} dies by {}", tests[place].1.0);
                tests[..=place].rotate_right(1);
            }
            None => println!("mutant {number} lives"),
        }
    }
}
"#;

/// Returns the text with a line after each destructuring `let`, for each field that it names.
fn prepared(text: &str, file: &str, mutants: &mut Vec<Mutant>) -> String {
    let mut output = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(start) = rest.find("let ") {
        let is_condition = ["if ", "&& ", "while "].iter().any(|word| rest[..start].ends_with(word));
        let Some((fields, end)) = taken_apart(&rest[start..]).filter(|_| !is_condition) else {
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
            // Writing to a string cannot fail.
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

/// Returns the field names in a destructuring `let` at the start of the text, and its end.
fn taken_apart(text: &str) -> Option<(Vec<String>, usize)> {
    let open = text.find(" {")?;
    let path = text.get(4..open)?;
    let is_type = path.chars().all(|character| character.is_alphanumeric() || matches!(character, ':' | '_'))
        && path.rsplit("::").next()?.starts_with(char::is_uppercase);
    let close = text.find("} =").filter(|_| is_type)?;
    let end = close + text[close..].find(";\n")? + 1;
    if text[close..end].contains(" else {") || text[open..close].contains("..") {
        return None;
    }
    let lines = text[open + 2..close].lines().map(|line| line.split("//").next().unwrap_or_default());
    // A nested struct is destructured, too: its fields are names like the others.
    let fields = lines.collect::<Vec<_>>().join(" ").replace(['{', '}'], ",");
    let name = |field: &str| field.rsplit(": ").next().unwrap_or_default().trim().to_owned();
    let is_name = |name: &String| !name.is_empty() && name != "_" && !name.starts_with(char::is_uppercase);
    Some((fields.split(',').map(name).filter(is_name).collect(), end))
}

/// The module of the copy that drops fields.
const MODULE: &str = r#"//! Drops the field that a test run chooses.
use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

static ACTIVE: LazyLock<AtomicU32> = LazyLock::new(|| {
    let named = std::env::var("SWITCHBOARD_MUTANT").ok().and_then(|number| number.parse().ok());
    AtomicU32::new(named.unwrap_or_default())
});

pub fn set(number: u32) {
    ACTIVE.store(number, Ordering::Relaxed);
    OTHERS
}

pub fn active() -> u32 {
    ACTIVE.load(Ordering::Relaxed)
}

fn is_active(number: u32) -> bool {
    active() == number
}

pub(crate) struct Slot<T>(pub(crate) Cell<Option<T>>, pub(crate) u32);

pub(crate) trait WithDefault {
    type Value;
    fn put(&self) -> Self::Value;
}

impl<T: Default> WithDefault for &&Slot<T> {
    type Value = T;
    fn put(&self) -> T {
        let value = self.0.take();
        if is_active(self.1) { T::default() } else { value.expect("a value") }
    }
}

/// Fallback for types without a default.
pub(crate) trait WithoutDefault {
    type Value;
    fn put(&self) -> Self::Value;
}

/// Fallback for references, which are replaced by an empty value.
pub(crate) trait BehindReference {
    type Value;
    fn put(&self) -> Self::Value;
}

impl<'r, T: Default> BehindReference for &Slot<&'r T> {
    type Value = &'r T;
    fn put(&self) -> &'r T {
        let value = self.0.take();
        if is_active(self.1) { Box::leak(Box::default()) } else { value.expect("a value") }
    }
}

impl<T> WithoutDefault for Slot<T> {
    type Value = T;
    fn put(&self) -> T {
        if is_active(self.1) {
            panic!("nothing compiles without it");
        }
        self.0.take().expect("a value")
    }
}

macro_rules! put {
    ($number:literal, $value:expr) => {{
        #[allow(unused_imports)]
        use crate::mutants::{BehindReference, Slot, WithDefault, WithoutDefault};
        (&&&Slot(std::cell::Cell::new(Some($value)), $number)).put()
    }};
}
pub(crate) use put;
"#;

/// Builds the tests of a package in the copy and returns the program.
fn build(copy: &Path, package: &str) -> Result<PathBuf, String> {
    let arguments = ["test", "--package", package, "--test", "it", "--no-run", "--message-format=json"];
    let output = Command::new("cargo")
        .args(arguments)
        // Cargo confuses the copy with the repository if both use one target folder.
        .arg("--target-dir")
        .arg(setup::target().join("mutants"))
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

/// Returns whether all tests of a crate pass without a field.
fn passes(test: &Path, number: usize) -> Result<bool, String> {
    let status = Command::new(test)
        .env(VARIABLE, number.to_string())
        .env("PROPTEST_FAILURE_PERSISTENCE", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|error| format!("cannot start {}: {error}", test.display()))?;
    Ok(status.success())
}

/// Copies all files known to Git.
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
        // A removed file that is not committed yet.
        if from.exists() {
            std::fs::copy(&from, &to).map_err(|error| format!("cannot copy {}: {error}", from.display()))?;
        }
    }
    run(Command::new("git").args(["init", "--quiet"]).current_dir(to))
}

/// Returns the Rust files in a folder, recursively.
fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
