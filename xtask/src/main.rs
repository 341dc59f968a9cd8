//! Repository tasks: `cargo xtask test` installs the requirements of the tests and runs all of them.

mod agents;
mod api;
mod bench;
mod dependencies;
mod dist;
mod editors;
mod examples;
mod fuzz;
mod mutate;
mod oldest;
mod package;
mod prose;
mod record;
mod recordings;
mod sandbox;
mod setup;
mod testing;
mod toolchain;
mod windows;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

const HELP: &str = "\
cargo xtask test          install what the tests need, then run formatting, lints, tests, docs and fuzzing
cargo xtask test --quick  formatting, lints, dependencies and unit tests: what needs nothing installed
cargo xtask test --editors [NAME...]
                          install real editors (VS Code, JupyterLab, marimo, Toad, acpx) in target/editors, and drive them
cargo xtask fuzz SECONDS  run each fuzz target for so long
cargo xtask bench-bridge  compare `switchboard bridge` with a pipe and the official conductor
cargo xtask bench-hub     put load on `switchboard serve` and on server and client of the official SDK; names (flood, crowd,
                          idle, deaf, restart) choose among the measurements
cargo xtask bench-log     compare a log at a NATS server with plain publishes and with the store, and two hubs with one
cargo xtask recordings    record the conversations of the demo agent in fixtures/recordings anew
cargo xtask bench-record  compare `switchboard bridge` with and without recording
cargo xtask bench-sandbox measure what a sandbox costs: the start of a program, and `switchboard bridge` with and without it
cargo xtask mutate        forget a field of a conversion, and see a test fail, for a sample of all fields; --all: for
                          every one; PLACE: for those in files whose path contains it
cargo xtask dist          build the program with all features for an old glibc, and make the packages of a release in
                          target/dist: archive, npm, wheel, .deb, install script, Homebrew formula, checksums
                          --target TRIPLE: for another platform of packaging/platforms.toml
                          --check [DIR]: try the packages, also in an old system
                          --program FILE --to DIR: packages of this program, compressed fast, for tests
                          --finish DIR: launcher, script, formula and checksums for the archives there
                          --platforms: the table as a matrix; --registry DIR: serve packages on loopback
cargo xtask package       package every crate, build the examples against the packages alone, run them, and check the libraries
                          with the oldest Rust that they promise; --all: every package with its own
cargo xtask api           compare the public items of the libraries with api/; --bless: write them down
cargo xtask prose         measure the language of doc comments, in all crates or in the folders that are named
cargo xtask agents-check  look up every package that the installation hints of the known agents name; needs the network
cargo xtask windows       compile for Windows what can be
cargo xtask schema        write the JSON Schema files anew
cargo xtask screenshots   take the pictures of the README anew";

fn main() -> ExitCode {
    if std::env::var_os(api::AS_RUSTDOC).is_some() {
        return api::as_rustdoc();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["test"] => test(),
        ["test", "--quick"] => quick_test(),
        ["test", "--editors", ref names @ ..] => editors::test(names),
        ["fuzz", seconds] => seconds.parse().map_err(|_| HELP.to_owned()).and_then(fuzz::run),
        ["bench-bridge"] => bench::bridge(),
        ["bench-hub", ref names @ ..] => bench::hub(names),
        ["bench-log"] => bench::log(),
        ["bench-sandbox"] => sandbox::bench(),
        ["mutate"] => mutate::mutate(None),
        ["mutate", "--all"] => mutate::mutate(Some("")),
        ["mutate", place] => mutate::mutate(Some(place)),
        ["bench-record"] => record::bench(),
        ["recordings"] => recordings::write(),
        ["tee", file, ref agent @ ..] => recordings::tee(file, agent),
        ["dist", ref words @ ..] => dist::run(words),
        ["package"] => package::package(false),
        ["package", "--all"] => package::package(true),
        ["api"] => api::check(false),
        ["api", "--bless"] => api::check(true),
        ["prose", ref folders @ ..] => prose::check(folders),
        ["agents-check"] => agents::check(),
        ["windows"] => windows::check(),
        ["schema"] => write_schemas(),
        ["screenshots"] => take_screenshots(),
        _ => Err(HELP.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn test() -> Result<(), String> {
    let begin = Instant::now();
    setup::install()?;
    static_checks()?;
    windows::check()?;
    testing::run()?;
    run(Command::new("cargo")
        .args(["doc", "--workspace", "--no-deps", "--locked"])
        .env("RUSTDOCFLAGS", "--deny warnings"))?;
    api::check(false)?;
    run(Command::new("mdbook").args(["build", "docs"]))?;
    package::package(false)?;
    fuzz::run(15)?;
    println!("\nall tests passed in {} s", begin.elapsed().as_secs());
    Ok(())
}

/// Runs the checks that are worth running after every change.
fn quick_test() -> Result<(), String> {
    static_checks()?;
    // Tests against real NATS servers take minutes.
    cargo(["test", "--workspace", "--locked", "--lib", "--bins", "--", "--skip", "jetstream::"])
}

fn static_checks() -> Result<(), String> {
    cargo(["fmt", "--all", "--check"])?;
    cargo(["fmt", "--all", "--check", "--manifest-path", "examples/Cargo.toml"])?;
    dependencies::check()?;
    prose::check(&[])?;
    let all = ["--workspace", "--all-targets", "--features", "switchboard/otlp", "--locked"];
    cargo(["clippy"].into_iter().chain(all).chain(["--", "--deny", "warnings"]))?;
    // Without the features that only tests enable.
    cargo(["clippy", "--workspace", "--locked", "--", "--deny", "warnings"])
}

/// Writes the schemas that the program prints.
fn write_schemas() -> Result<(), String> {
    for (file, arguments) in [
        ("v1.json", ["--protocol", "v1"]),
        ("v2-spec.json", ["--dialect", "spec"]),
        ("v2-newest.json", ["--dialect", "newest"]),
        ("v2.json", ["--dialect", "any"]),
    ] {
        let path = root().join("schema").join(file);
        let printed = Command::new("cargo")
            .current_dir(root())
            .args(["run", "--quiet", "--locked", "--package", "switchboard", "--", "schema"])
            .args(arguments)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cannot start cargo: {error}"))?;
        if !printed.status.success() {
            return Err(format!("switchboard schema {} failed ({})", arguments.join(" "), printed.status));
        }
        std::fs::write(&path, printed.stdout)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

/// Takes the screenshots with a test, so that they show the current state.
fn take_screenshots() -> Result<(), String> {
    setup::install_programs()?;
    cargo(["test", "--package", "switchboard", "--test", "it", "--locked", "--", "web::readme"])?;
    let images = root().join("docs/images");
    for name in ["talk.png", "inspector.png", "subagents.png"] {
        let taken = setup::target().join("screenshots/readme").join(name);
        std::fs::copy(&taken, images.join(name))
            .map_err(|error| format!("cannot copy {} to {}: {error}", taken.display(), images.display()))?;
    }
    Ok(())
}

/// Returns the root of the repository.
fn root() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), ".."].iter().collect()
}

fn cargo<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Result<(), String> {
    run(Command::new("cargo").args(arguments))
}

/// Prints and runs a command in the root.
fn run(command: &mut Command) -> Result<(), String> {
    let words: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    let line = format!("{} {}", command.get_program().to_string_lossy(), words.join(" "));
    println!("\n==> {line}");
    if command.get_current_dir().is_none() {
        command.current_dir(root());
    }
    let status = command.status().map_err(|error| format!("cannot start {line}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("failed ({status}): {line}")) }
}
