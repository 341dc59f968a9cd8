//! Runs the program.

use std::io::Write;
use std::process::{Command, Stdio};

/// The result of a run of the program.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Parses standard output as one JSON value per line.
    pub(crate) fn json_lines(&self) -> Vec<serde_json::Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the updates that `run --format json` printed.
    pub(crate) fn updates(&self) -> Vec<serde_json::Value> {
        self.json_lines().into_iter().map(|mut line| line["update"].take()).collect()
    }
}

/// Runs `switchboard` with arguments and standard input.
pub(crate) fn switchboard(arguments: &[&str], input: &[u8]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_switchboard"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // The program may stop reading early, for example on a usage error.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Run {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn help_names_every_command() {
    let run = switchboard(&["--help"], b"");
    assert_eq!(run.code, 0);
    for command in [
        "agents",
        "bridge",
        "check",
        "completions",
        "conform",
        "connect",
        "convert",
        "demo-agent",
        "diff",
        "doctor",
        "fold",
        "hub",
        "man",
        "open",
        "policy",
        "run",
        "schema",
        "serve",
        "sessions",
        "setup",
        "tokens",
    ] {
        assert!(run.stdout.contains(&format!("\n  {command}")), "{}", run.stdout);
    }
}

#[test]
fn a_wrong_command_line_ends_with_code_2() {
    assert_eq!(switchboard(&["no-such-command"], b"").code, 2);
    assert_eq!(switchboard(&["check", "--dialect", "old"], b"").code, 2);
    let run = switchboard(&["check", "no/such/file.jsonl"], b"");
    assert_eq!(run.code, 2);
    assert!(run.stderr.starts_with("switchboard: cannot open no/such/file.jsonl: "), "{}", run.stderr);
}
