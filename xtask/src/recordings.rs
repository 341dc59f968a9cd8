//! `fixtures/recordings/`: our own conversations, which tests read in addition to those of other agents.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Prompts of the demo agent. Each is recorded in both versions of the protocol.
const SCENARIOS: [&str; 21] = [
    "hello",
    "markdown",
    "thoughts",
    "tool",
    "terminal",
    "edit",
    "binary",
    "permission",
    "command",
    "ask",
    "mystery",
    "form",
    "redact",
    "replace",
    "metadata",
    "clear",
    "interleave",
    "plan",
    "subagents",
    "notice",
    "unknown",
];

/// Replaces the actual folder in the recordings.
const PROJECT: &str = "/home/ada/letters";

/// Records all scenarios.
pub(crate) fn write() -> Result<(), String> {
    crate::cargo(["build", "--package", "switchboard", "--locked"])?;
    let target = crate::setup::target();
    let target =
        target.canonicalize().map_err(|error| format!("cannot find {}: {error}", target.display()))?;
    let folder = crate::root().join("fixtures/recordings");
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    for scenario in SCENARIOS {
        for (version, suffix) in [("1", ""), ("2", "-v2")] {
            let file = folder.join(format!("demo-{scenario}{suffix}.jsonl"));
            record(&target, scenario, version, &file)
                .map_err(|error| format!("cannot record {}: {error}", file.display()))?;
        }
    }
    Ok(())
}

fn record(target: &Path, scenario: &str, version: &str, file: &Path) -> std::io::Result<()> {
    let (project, program) = (target.join("recorded-project"), target.join("debug/switchboard"));
    match std::fs::remove_dir_all(&project) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => std::fs::create_dir_all(&project)?,
    }
    let recorded = target.join("recorded.jsonl");
    let status = Command::new(&program)
        .current_dir(&project)
        .args(["run", scenario, "--approve-all", "--"])
        .arg(std::env::current_exe()?)
        .arg("tee")
        .arg(&recorded)
        .arg(&program)
        .args(["demo-agent", "--protocol", version])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    // 5: `run` has no terminal on which it could ask for data.
    if !matches!(status.code(), Some(0 | 5)) {
        return Err(std::io::Error::other(format!("`switchboard run {scenario}` ended with {status}")));
    }
    let text = std::fs::read_to_string(&recorded)?;
    std::fs::write(file, text.replace(&*project.to_string_lossy(), PROJECT))
}

/// Records the messages between a client and an agent. The time of a line is its number, so that recording
/// again changes nothing.
pub(crate) fn tee(file: &str, agent: &[&str]) -> Result<(), String> {
    let [program, arguments @ ..] = agent else { return Err("no agent to record".to_owned()) };
    tee_lines(file, program, arguments).map_err(|error| format!("cannot record {program}: {error}"))
}

fn tee_lines(file: &str, program: &str, arguments: &[&str]) -> std::io::Result<()> {
    let mut agent =
        Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(input), Some(output)) = (agent.stdin.take(), agent.stdout.take()) else {
        return Err(std::io::Error::other("the agent has no pipes"));
    };
    let recording = Mutex::new((File::create(file)?, 0_u32));
    let pass = |direction: &str, from: &mut dyn BufRead, to: &mut dyn Write| -> std::io::Result<()> {
        for line in from.lines() {
            let line = line?;
            let mut recording =
                recording.lock().map_err(|_| std::io::Error::other("the other side failed"))?;
            let (file, number) = &mut *recording;
            *number += 1;
            let time = f64::from(*number) / 1000.0;
            writeln!(file, r#"{{"t":{time},"dir":"{direction}","msg":{line}}}"#)?;
            drop(recording);
            writeln!(to, "{line}")?;
            to.flush()?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut input = input;
            pass("client->agent", &mut BufReader::new(std::io::stdin()), &mut input)
        });
        pass("agent->client", &mut BufReader::new(output), &mut std::io::stdout())
    })?;
    agent.wait().map(drop)
}
