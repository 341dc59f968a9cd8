//! `switchboard conform client`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use switchboard_conform::live::{
    CLIENT_SCENARIOS, ClientChecker, ClientEnd, ClientScenario, is_played, play_agent,
};
use switchboard_transport::{Exit, Grace, Program};
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use super::CheckedSubject;
use super::agent::{Through, shown};
use crate::outcome::{CommandError, Outcome};
use crate::{standard_error, stdio, store_file};

/// Placeholder for the agent in the client's command line.
const AGENT_PLACEHOLDER: &str = "{agent}";
/// Silence after the scenario before a client is ended, and grace period after that.
const SILENCE: Duration = Duration::from_secs(1);
/// Number of standard error lines shown for a client that cannot be tested.
const LAST_LINES: usize = 5;
/// Maximum bytes of a client's output that are examined.
const MOST_SHOWN: u64 = 64 * 1024 * 1024;

/// Test a client by acting as its agent, with a fresh process for each scenario
///
/// {agent} in the command line is replaced by the path of a program, which is the agent. The command line
/// must make the client send a prompt; a client that does not exit by itself is ended. It runs in the current
/// folder. It is tested by its messages, and with --probe or --transcript also by its output.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  switchboard conform client -- my-client --agent {agent} --prompt hello")]
pub(super) struct Arguments {
    /// Command line of the client, with {agent} in place of the agent's command
    #[arg(last = true, value_name = "CMD", required_unless_present_any = ["list", "explain"])]
    command: Vec<OsString>,

    /// Timeout for the client's start and for each response, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = super::agent::seconds)]
    timeout: f64,

    /// Connect to the client through another program
    #[arg(long, value_enum)]
    through: Option<Through>,

    /// Shell command that prints the client's transcript, run after each scenario
    #[arg(long, value_name = "CMD", conflicts_with = "transcript")]
    probe: Option<String>,

    /// File with the client's transcript; - for its standard output
    ///
    /// The client writes it; it must not exist before, and is removed after each scenario.
    #[arg(long, value_name = "FILE")]
    transcript: Option<PathBuf>,
}

/// Act as the agent of a scenario.
#[derive(Debug, clap::Args)]
pub(super) struct PeerArguments {
    scenario: String,
    log: PathBuf,
    #[arg(default_value_t = 10.0)]
    timeout: f64,
}

pub(super) fn play(arguments: &PeerArguments) -> Result<Outcome, CommandError> {
    let scenario = CLIENT_SCENARIOS
        .iter()
        .find(|scenario| scenario.id == arguments.scenario)
        .ok_or_else(|| CommandError::usage(format!("unknown scenario {}", arguments.scenario)))?;
    let failed = |error: std::io::Error| {
        CommandError::failed(format!("cannot write {}: {error}", arguments.log.display()))
    };
    let mut log = File::options().append(true).create(true).open(&arguments.log).map_err(failed)?;
    let patience = Duration::from_secs_f64(arguments.timeout);
    stdio::run_alone(async {
        let log = |line: &str| {
            // The missing line shows in the log.
            let _ = log.write_all(format!("{line}\n").as_bytes());
        };
        play_agent(scenario, stdio::input(), stdio::output(), patience, log).await;
        Ok(Outcome::Fine)
    })
}

pub(super) fn check(arguments: &Arguments) -> Result<Vec<CheckedSubject>, CommandError> {
    let has_place = arguments.command.iter().any(|part| part.to_string_lossy().contains(AGENT_PLACEHOLDER));
    if !has_place {
        return Err(CommandError::usage(format!("the client's command line has no {AGENT_PLACEHOLDER}"))
            .hint(format!("write {AGENT_PLACEHOLDER} where the agent's command line belongs")));
    }
    if let Some(file) = arguments.transcript.as_deref().filter(|file| file.exists()) {
        return Err(CommandError::usage(format!("the transcript {} already exists", file.display()))
            .hint("remove it, or use another file: each scenario starts without one"));
    }
    let subject = shown(&arguments.command);
    let mut checker = ClientChecker::new();
    for (place, scenario) in CLIENT_SCENARIOS.iter().enumerate() {
        if std::io::stderr().is_terminal() {
            standard_error::say(format!("[{}/{}] {}", place + 1, CLIENT_SCENARIOS.len(), scenario.name));
        }
        let played = stdio::run_alone(run_scenario(arguments, scenario))?;
        checker.scenario(scenario, &played.log, played.end, played.shown.as_deref());
        checker.complained(played.last_lines);
        if !checker.has_begun() {
            // The other scenarios would fail the same way after their timeouts.
            break;
        }
    }
    let (report, transcript) = checker.report(&subject);
    Ok(vec![CheckedSubject { report, transcript }])
}

/// Results of a scenario.
struct ScenarioRun {
    log: String,
    end: ClientEnd,
    shown: Option<String>,
    last_lines: Vec<String>,
}

async fn run_scenario(arguments: &Arguments, scenario: &ClientScenario) -> Result<ScenarioRun, CommandError> {
    let failed =
        |error: std::io::Error| CommandError::failed(format!("cannot prepare {}: {error}", scenario.id));
    let folder = store_file::temporary_folder().map_err(failed)?;
    let log = folder.path().join("log.jsonl");
    File::create(&log).map_err(failed)?;
    let agent = folder.path().join("agent");
    write_agent(&agent, arguments, scenario, &log).map_err(failed)?;
    let agent_path = agent.display().to_string();
    let parts: Vec<OsString> = arguments
        .command
        .iter()
        .map(|part| match part.to_str() {
            Some(text) => OsString::from(text.replace(AGENT_PLACEHOLDER, &agent_path)),
            None => part.clone(),
        })
        .collect();
    let (program, rest) = parts.split_first().ok_or_else(|| CommandError::usage("which client?"))?;
    let program = Program::new(program).args(rest.iter().cloned());
    let spawned = program.spawn().map_err(|error| CommandError::no_session(error.to_string()))?;
    // No input: a client that reads prompts gets none.
    drop(spawned.input);
    let mut output = spawned.output;
    let child = spawned.child;
    let mut printed = Vec::new();
    let reading = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = output.read(&mut buffer).await {
            if (printed.len() as u64) < MOST_SHOWN {
                printed.extend_from_slice(&buffer[..count]);
            }
        }
    };
    let patience = Duration::from_secs_f64(arguments.timeout);
    tokio::select! {
        () = reading => {}
        () = over(&log, patience) => {}
    }
    // A client that closed its output may need a moment more; one that keeps running is ended.
    let exit = tokio::time::timeout(Duration::from_millis(500), child.wait()).await.ok().flatten();
    child.shut_down_within(Grace { input_closed: Duration::ZERO, terminate: SILENCE.min(patience) }).await;
    let end = match exit {
        Some(Exit::Signal(_)) => ClientEnd::Crashed,
        _ => ClientEnd::Regular,
    };
    let shown = shown_by(arguments, &printed).await?;
    let log = std::fs::read(&log).map_err(failed)?;
    let last_lines = child.last_lines(LAST_LINES);
    Ok(ScenarioRun { log: String::from_utf8_lossy(&log).into_owned(), end, shown, last_lines })
}

/// Waits until the client is done: the scenario is complete and the client is silent, or it was silent for
/// too long.
async fn over(log: &Path, patience: Duration) {
    let began = Instant::now();
    let (mut length, mut heard, mut played) = (0, began, None);
    // No scenario needs more than two responses and some seconds; a longer run is a client that never
    // prompts.
    let longest = patience * 3 + Duration::from_secs(20);
    let mut look = tokio::time::interval(Duration::from_millis(50));
    loop {
        let now = look.tick().await;
        let size = std::fs::metadata(log).map_or(length, |about| about.len());
        if size != length {
            (length, heard) = (size, now);
            if played.is_none() && std::fs::read_to_string(log).is_ok_and(|log| is_played(&log)) {
                played = Some(now);
            }
        }
        // During the scenario, the agent itself reports missing responses.
        let is_over = match played {
            Some(played) => now - heard > SILENCE.min(patience) || now - played > patience,
            None => now - heard > patience + Duration::from_secs(1) || now - began > longest,
        };
        if is_over {
            return;
        }
    }
}

/// Returns the client's output if a way to get it was given.
async fn shown_by(arguments: &Arguments, printed: &[u8]) -> Result<Option<String>, CommandError> {
    if let Some(file) = &arguments.transcript {
        let bytes = if file.as_os_str() == "-" {
            printed.to_vec()
        } else {
            let bytes = std::fs::read(file).unwrap_or_default();
            // The next scenario must not append to it; it may not exist.
            let _ = std::fs::remove_file(file);
            bytes
        };
        return Ok(Some(String::from_utf8_lossy(&bytes).into_owned()));
    }
    let Some(probe) = &arguments.probe else { return Ok(None) };
    let output = tokio::process::Command::new("sh")
        .arg("-c")
        .arg(probe)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_secs_f64(arguments.timeout), output).await;
    match output {
        Ok(Ok(output)) => Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned())),
        Ok(Err(error)) => Err(CommandError::no_session(format!("cannot run the probe: {error}"))),
        Err(_) => Err(CommandError::no_session("the probe did not end in time")),
    }
}

/// Writes the program that the client starts as its agent.
fn write_agent(
    path: &Path,
    arguments: &Arguments,
    scenario: &ClientScenario,
    log: &Path,
) -> std::io::Result<()> {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let ourselves = quoted(&std::env::current_exe()?.display().to_string());
    let peer = format!(
        "{ourselves} conform peer {} {} {}",
        scenario.id,
        quoted(&log.display().to_string()),
        arguments.timeout
    );
    let command = match arguments.through {
        None => peer,
        Some(Through::Bridge) => format!("{ourselves} bridge -- {peer}"),
    };
    std::fs::write(path, format!("#!/bin/sh\nexec {command}\n"))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}
