//! Peers by other authors: the official SDKs in Rust and TypeScript, as agent and as client, in both
//! versions.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use crate::agent_program::Place;
use crate::program::Run;

pub(crate) const SWITCHBOARD: &str = env!("CARGO_BIN_EXE_switchboard");
const VERSIONS: [&str; 2] = ["1", "2"];

/// Returns the directory of the peers, below the target directory.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("interop")
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("interop")
}

fn succeed(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the programs based on the Rust SDK.
pub(crate) fn rust(name: &str) -> Vec<String> {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| build(&[]));
    official(name)
}

/// Returns a client for servers based on the Rust SDK. It is built separately, because most of its build time
/// is a crypto library that nothing else needs.
pub(crate) fn rust_remote_client() -> Vec<String> {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| build(&["--features", "remote", "--bin", "official-remote-client"]));
    official("remote-client")
}

fn build(more: &[&str]) {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--locked", "--manifest-path"]).arg(sources().join("Cargo.toml"));
    succeed(command.arg("--target-dir").arg(folder()).args(more));
}

fn official(name: &str) -> Vec<String> {
    vec![folder().join("debug").join(format!("official-{name}")).display().to_string()]
}

/// Returns the directory of the npm packages; `None` without npm.
pub(crate) fn npm() -> Option<PathBuf> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    let folder = folder().join("npm");
    let installed = *INSTALLED.get_or_init(|| {
        if !Command::new("npm").arg("--version").output().is_ok_and(|output| output.status.success()) {
            println!("skipped: npm is not here, so its packages cannot be tried");
            return false;
        }
        std::fs::create_dir_all(&folder).unwrap();
        let sources = sources().join("typescript");
        let (wanted, present) = (sources.join("package.json"), folder.join("package.json"));
        if std::fs::read(&present).ok() != Some(std::fs::read(&wanted).unwrap()) {
            std::fs::copy(&wanted, &present).unwrap();
            succeed(Command::new("npm").current_dir(&folder).args(["install", "--no-audit", "--no-fund"]));
        }
        for script in ["agent.mjs", "client.mjs", "schema.mjs"] {
            std::fs::copy(sources.join(script), folder.join(script)).unwrap();
        }
        true
    });
    installed.then_some(folder)
}

/// Returns the programs based on the TypeScript SDK.
pub(crate) fn typescript(name: &str) -> Option<Vec<String>> {
    let script = npm()?.join(format!("{name}.mjs"));
    Some(vec!["node".to_owned(), script.display().to_string()])
}

/// Returns the programs based on the Python SDK; `None` without a Python that can install it.
pub(crate) fn python(name: &str) -> Option<Vec<String>> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    let (folder, sources) = (folder().join("python"), sources().join("python"));
    let installed = *INSTALLED.get_or_init(|| {
        if !Command::new("python3")
            .args(["-m", "ensurepip", "--version"])
            .output()
            .is_ok_and(|output| output.status.success())
        {
            println!("skipped: Python's venv is not here, so its packages cannot be tried");
            return false;
        }
        let (wanted, present) = (sources.join("requirements.txt"), folder.join("requirements.txt"));
        if std::fs::read(&present).ok() != Some(std::fs::read(&wanted).unwrap()) {
            succeed(Command::new("python3").args(["-m", "venv"]).arg(&folder));
            succeed(
                Command::new(folder.join("bin/pip"))
                    .args(["install", "--quiet", "--requirement"])
                    .arg(&wanted),
            );
            std::fs::copy(&wanted, &present).unwrap();
        }
        true
    });
    let program = |path: PathBuf| path.display().to_string();
    installed.then(|| vec![program(folder.join("bin/python")), program(sources.join(format!("{name}.py")))])
}

/// Returns `acpx`, which needs a newer Node.js than many systems have; npm installs one with it if available.
pub(crate) fn acpx() -> Option<Vec<String>> {
    let programs = npm()?.join("node_modules/.bin");
    let node = programs.join("node");
    let node = if node.exists() { node.display().to_string() } else { "node".to_owned() };
    Some(vec![node, programs.join("acpx").display().to_string()])
}

/// Runs a prompt in acpx, which prints the messages of both sides unchanged.
pub(crate) fn run_acpx(place: &Place, client: &[String], agent: &[&str], prompt: &str) -> Run {
    let mut command = Command::new(&client[0]);
    command.args(&client[1..]).args(["--agent", &agent.join(" "), "--cwd"]).arg(place.work());
    command.args(["--approve-all", "--format", "json", "exec", prompt]);
    command.current_dir(place.work()).env("HOME", place.home());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    place.run_command(command)
}

/// Runs a prompt with our client and an official agent.
pub(crate) fn drive_agent(agent: &[String]) {
    for version in VERSIONS {
        let place = Place::new();
        let mut command: Vec<&str> = agent.iter().map(String::as_str).collect();
        command.push(version);
        let run = |policy: &str| place.run(&[&["run", "hi", policy, "--"], &command[..]].concat());
        let allowed = run("--approve-all");
        assert_eq!(allowed.code, 0, "version {version}: {}", allowed.stderr);
        assert!(allowed.stdout.contains("✓ Write (completed"), "version {version}: {}", allowed.stdout);
        assert!(allowed.stdout.ends_with("chosen: yes\n"), "version {version}: {}", allowed.stdout);
        let denied = run("--deny-all");
        assert_eq!(denied.code, 5, "version {version}: {}", denied.stderr);
        assert!(denied.stdout.ends_with("chosen: no\n"), "version {version}: {}", denied.stdout);
    }
}

fn run_client(place: &Place, client: &[String], version: &str, scenario: &str) -> Run {
    let agent = [SWITCHBOARD, "demo-agent", "--protocol", version];
    run_with_agent(place, client, &[version, scenario], &agent)
}

/// Runs a client program with its arguments, followed by the command line of the agent.
pub(crate) fn run_with_agent(place: &Place, client: &[String], own: &[&str], agent: &[&str]) -> Run {
    let mut command = Command::new(&client[0]);
    command
        .args(&client[1..])
        .args(own)
        .args(agent)
        .current_dir(place.work())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    place.run_command(command)
}

pub(crate) fn kinds(updates: &[Value]) -> Vec<&str> {
    updates.iter().filter_map(|update| update["sessionUpdate"].as_str()).collect()
}

const SCENARIOS: [&str; 21] = [
    "help",
    "hello",
    "thoughts",
    "tool",
    "terminal",
    "edit",
    "binary",
    "symlink",
    "permission",
    "command",
    "ask",
    "mystery",
    "redact",
    "replace",
    "metadata",
    "clear",
    "interleave",
    "plan",
    "notice",
    "config",
    "unknown",
];

/// Runs scenarios of our agent with an official client.
fn serve_client(client: &[String]) {
    let place = Place::new();
    for scenario in SCENARIOS {
        let ours = place.demo(scenario, &["--format", "json", "--approve-all"]);
        let run = run_client(&place, client, "2", scenario);
        assert_eq!(run.code, 0, "{scenario}: {}", run.stderr);
        // Elements that a lenient reader drops silently would be missing here.
        let (ours, theirs) = (ours.updates(), run.json_lines());
        assert_eq!(kinds(&theirs), kinds(&ours), "{scenario}");
        assert_eq!(theirs.last().unwrap()["stopReason"], "end_turn", "{scenario}");
        let run = run_client(&place, client, "1", scenario);
        assert_eq!(run.code, 0, "version 1, {scenario}: {}", run.stderr);
        assert_eq!(run.json_lines().last().unwrap()["stopReason"], "end_turn", "version 1, {scenario}");
    }
    let diff = |version: &str| {
        let run = run_client(&place, client, version, "edit").json_lines();
        run.iter().map(Value::to_string).filter(|line| line.contains(r#""type":"diff""#)).collect::<Vec<_>>()
    };
    assert!(diff("2")[0].contains("git_patch") && diff("2")[0].contains("this letter has moved house."));
    assert!(diff("1")[0].contains("\"newText\":"));
}

#[test]
fn the_rust_sdk_as_agent() {
    drive_agent(&rust("agent"));
}

#[test]
fn the_rust_sdk_as_client() {
    serve_client(&rust("client"));
}

#[test]
fn the_rust_sdk_as_client_of_a_recording() {
    let (place, client) = (Place::new(), rust("client"));
    let store = place.work().join("store.sqlite3").display().to_string();
    for scenario in ["hello", "thoughts", "tool", "edit", "permission", "plan"] {
        let ours =
            place.demo(scenario, &["--format", "json", "--approve-all", "--record", "--store", &store]);
        let list = place.run(&["sessions", "--store", &store, "list", "--json"]).json_lines();
        let id = list[0]["id"].as_str().unwrap();
        let replay = [SWITCHBOARD, "sessions", "--store", &store, "replay", id, "--instant"];
        let run = run_with_agent(&place, &client, &["2", scenario], &replay);
        assert_eq!(run.code, 0, "{scenario}: {}", run.stderr);
        assert_eq!(kinds(&run.json_lines()), kinds(&ours.updates()), "{scenario}");
        let run = run_with_agent(&place, &client, &["1", scenario], &replay);
        assert_eq!(run.code, 0, "version 1, {scenario}: {}", run.stderr);
        assert_eq!(run.json_lines().last().unwrap()["stopReason"], "end_turn", "version 1, {scenario}");
    }
}

#[test]
fn the_typescript_sdk_as_agent() {
    if let Some(agent) = typescript("agent") {
        drive_agent(&agent);
    }
}

#[test]
fn the_typescript_sdk_as_client() {
    if let Some(client) = typescript("client") {
        serve_client(&client);
    }
}
