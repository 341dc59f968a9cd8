//! Compares our performance with `git diff --no-index` on the same files, and prints the ratios.
//!
//! `cargo bench -p switchboard-diff` creates the inputs in a temporary directory. The time of Git includes
//! its process start, about two milliseconds.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use switchboard_diff::{BuildOptions, PatchOptions, build_from_files, build_from_trees};
use switchboard_testkit::Contest;

const ROUNDS: usize = 5;

fn main() -> ExitCode {
    // `cargo test --benches` runs this too; there is nothing to test here.
    if std::env::args().any(|argument| argument == "--test") {
        return ExitCode::SUCCESS;
    }
    let place = tempfile::tempdir().expect("a temporary directory");
    let mut good = true;

    let (old, new) = make_trees(place.path());
    good &= compare("20,000 files, 500 changed", 1.0, &old, &new, true);
    let (old, new) = make_scattered(place.path());
    good &= compare("two texts of 10 MB, 50,000 changes", 1.5, &old, &new, false);
    let (old, new) = make_alike(place.path());
    good &= compare("100,000 lines, ten different ones, shuffled", 2.0, &old, &new, false);
    let (old, new) = make_shuffled(place.path());
    good &= compare("100,000 different lines, shuffled", 2.0, &old, &new, false);
    if good {
        ExitCode::SUCCESS
    } else {
        println!("a target was missed");
        ExitCode::FAILURE
    }
}

fn compare(name: &str, target: f64, old: &Path, new: &Path, trees: bool) -> bool {
    let options = BuildOptions {
        patch: PatchOptions { max_size: usize::MAX, ..PatchOptions::default() },
        ..BuildOptions::default()
    };
    let git = || {
        let status = Command::new("git")
            .args(["diff", "--no-index", "--no-color", "--no-ext-diff"])
            .args([old, new])
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdout(Stdio::null())
            .status()
            .expect("git runs");
        assert_eq!(status.code(), Some(1), "git finds differences");
        1
    };
    let ours = || {
        let built =
            if trees { build_from_trees(old, new, &options) } else { build_from_files(old, new, &options) };
        built.expect("a diff").diff.patch.expect("a patch").text.len()
    };
    let times = Contest::new(format!("{name} (at most {target} x)"), ROUNDS)
        .contender("git diff --no-index", git)
        .contender("ours", ours)
        .run();
    times[1].1.as_secs_f64() <= times[0].1.as_secs_f64() * target
}

/// Deterministic pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.next(at + 1));
        }
    }
}

fn source_line(numbers: &mut Numbers) -> String {
    let indent = "    ".repeat(numbers.next(4));
    format!(
        "{indent}let value_{} = compute({}, {});\n",
        numbers.next(1000),
        numbers.next(100_000),
        numbers.next(100)
    )
}

fn make_trees(place: &Path) -> (PathBuf, PathBuf) {
    let mut numbers = Numbers(1);
    let (old, new) = (place.join("trees/old"), place.join("trees/new"));
    for file in 0..20_000 {
        let directory = format!("group{}/part{}", file % 20, file % 400);
        let mut lines: Vec<String> = (0..20 + numbers.next(100)).map(|_| source_line(&mut numbers)).collect();
        for (root, is_new) in [(&old, false), (&new, true)] {
            if is_new && file % 40 == 0 {
                for _ in 0..3 {
                    let at = numbers.next(lines.len());
                    lines[at] = source_line(&mut numbers);
                }
            }
            let directory = root.join(&directory);
            std::fs::create_dir_all(&directory).expect("a directory");
            std::fs::write(directory.join(format!("file{file}.rs")), lines.concat()).expect("a file");
        }
    }
    (old, new)
}

fn write_pair(place: &Path, name: &str, old: &[String], new: &[String]) -> (PathBuf, PathBuf) {
    let paths = (place.join(format!("{name}.old")), place.join(format!("{name}.new")));
    std::fs::write(&paths.0, old.concat()).expect("a file");
    std::fs::write(&paths.1, new.concat()).expect("a file");
    paths
}

fn make_scattered(place: &Path) -> (PathBuf, PathBuf) {
    let mut numbers = Numbers(2);
    let mut old = Vec::new();
    let mut size = 0;
    while size < 10_000_000 {
        let line = source_line(&mut numbers);
        size += line.len();
        old.push(line);
    }
    let mut new = old.clone();
    for _ in 0..50_000 {
        let at = numbers.next(new.len());
        new[at] = source_line(&mut numbers);
    }
    write_pair(place, "scattered", &old, &new)
}

fn make_alike(place: &Path) -> (PathBuf, PathBuf) {
    let mut numbers = Numbers(3);
    let old: Vec<String> = (0..100_000).map(|_| format!("line {}\n", numbers.next(10))).collect();
    let mut new = old.clone();
    numbers.shuffle(&mut new);
    write_pair(place, "alike", &old, &new)
}

fn make_shuffled(place: &Path) -> (PathBuf, PathBuf) {
    let mut numbers = Numbers(4);
    let old: Vec<String> = (0..100_000).map(|at| format!("line number {at}\n")).collect();
    let mut new = old.clone();
    numbers.shuffle(&mut new);
    write_pair(place, "shuffled", &old, &new)
}
