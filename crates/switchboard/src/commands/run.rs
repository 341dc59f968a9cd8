//! `switchboard run`.

pub(crate) mod conversation;
mod entry_text;
mod form;
mod halt;
pub(super) mod login;
mod on_hub;
mod pane;
mod permissions;
mod questions;
mod rest;
mod screen;
mod view;

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::Duration;

use switchboard_acp::v2;
use switchboard_policy::Policy;
use switchboard_store::About;
use switchboard_transport::Program;

use self::on_hub::HubArguments;
use crate::configuration::chosen_program;
use crate::handshake::HandshakeArgument;
use crate::outcome::{CommandError, Outcome};
use crate::recording::RecordArguments;
use crate::rules::{PermissionsArgument, Rules};
use crate::sandbox::{SandboxArgument, SandboxContext};
use crate::telemetry::TelemetryArguments;
use crate::units::parse_time;

/// Send one prompt to an agent and show its work
///
/// Put the prompt before the `--` of a command line: `switchboard run "Fix the build" -- my-agent --acp`.
/// Without a prompt, it is read from standard input or --file. The agent `demo` is built in. Exit codes: 0
/// the agent finished, 1 it failed, 2 invalid usage, 3 timeout, 4 no session, 5 a permission was denied, 6 the
/// sandbox could not be made, 130 interrupted, or 128 plus another signal's number.
///
/// With --on, the prompt runs on a hub (`switchboard serve`), with the same output and exit codes. The session
/// stays there when this command ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of a configured or known agent (see `switchboard agents`); the prompt if a command line is given
    #[arg(value_name = "AGENT")]
    first: Option<String>,

    /// Prompt for the agent
    #[arg(value_name = "PROMPT")]
    second: Option<String>,

    /// Command line that starts the agent
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,

    /// Read the prompt from a file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Working directory of the session, instead of the current one
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    #[command(flatten)]
    hub: HubArguments,

    /// Output format: text for people, json for every update of every session on a line, quiet for the last
    /// message only
    #[arg(long, value_enum, default_value = "text")]
    format: Format,

    /// Allow everything that the agent asks for
    #[arg(long, conflicts_with_all = ["approve_reads", "deny_all", "permissions"])]
    approve_all: bool,

    /// Allow tool calls that declare to only read or search
    #[arg(long, conflicts_with_all = ["deny_all", "permissions"])]
    approve_reads: bool,

    /// Deny everything that the agent asks for; also the default for questions without a terminal
    #[arg(long, conflicts_with = "permissions")]
    deny_all: bool,

    #[command(flatten)]
    permissions: PermissionsArgument,

    #[command(flatten)]
    sandbox: SandboxArgument,

    /// Timeout: seconds, or with a unit as in 90s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    timeout: Option<Duration>,

    #[command(flatten)]
    handshake: HandshakeArgument,

    /// Continue a session instead of opening a new one
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Continue in a copy of a session, which stays unchanged
    #[arg(long, value_name = "ID", conflicts_with = "session")]
    fork: Option<String>,

    /// Log in first with this method of the agent; if a login is missing, the methods are listed
    #[arg(long, value_name = "METHOD")]
    login: Option<String>,

    /// Set an option of the session before the prompt; may be repeated
    #[arg(long, value_name = "ID=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,

    #[command(flatten)]
    record: RecordArguments,

    #[command(flatten)]
    telemetry: TelemetryArguments,
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
    Quiet,
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (id, value) = text.split_once('=').ok_or("expected ID=VALUE")?;
    if id.is_empty() {
        return Err("the id is empty".to_owned());
    }
    Ok((id.to_owned(), value.to_owned()))
}

/// Maximum length of a prompt in bytes.
const MAX_PROMPT: u64 = 16 * 1024 * 1024;

pub(crate) fn run(arguments: Arguments) -> Result<Outcome, CommandError> {
    let is_on_hub = arguments.hub.on.is_some();
    let cwd = match is_on_hub {
        true => on_hub::working_directory(arguments.cwd.as_ref())?,
        false => working_directory(arguments.cwd.as_ref())?,
    };
    let (program, argument) = program(&arguments, &cwd)?;
    let prompt = prompt(&arguments, argument)?;
    let rules = match (arguments.approve_all, arguments.approve_reads, arguments.deny_all) {
        (true, ..) => Rules::of(Policy::approve_all()),
        (_, true, _) => Rules::of(Policy::approve_reads()),
        (.., true) => Rules::of(Policy::deny_all()),
        _ => arguments.permissions.rules()?,
    };
    let configured = arguments.first.as_deref().filter(|_| arguments.command.is_empty());
    let context = SandboxContext {
        folder: cwd.clone(),
        store: arguments.record.store().cloned(),
        ..SandboxContext::default()
    };
    // On a hub, the agent is confined by the hub, and the folder is one of its machine.
    let program = match is_on_hub {
        true => program,
        false => arguments
            .sandbox
            .confine(program, configured, &rules, &context)?
            .working_directory(&cwd)
            .roots(vec![cwd.clone()]),
    };
    let about = About {
        agent: configured.map(str::to_owned),
        client: Some("switchboard run".to_owned()),
        project: Some(cwd.display().to_string()),
        title: None,
    };
    let task = conversation::Task {
        program,
        cwd: cwd.display().to_string(),
        recording: arguments.record.begin(&about, arguments.telemetry.begin_below()?)?,
        sessions: vec![vec![vec![v2::ContentBlock::text(prompt)]]],
        format: arguments.format,
        rules,
        leaves_questions: arguments.hub.leave_questions,
        answers: None,
        timeout: arguments.timeout,
        handshake_timeout: arguments.handshake.handshake_timeout,
        session: arguments.session,
        fork: arguments.fork,
        login: arguments.login,
        settings: arguments.set,
    };
    conversation::run_to_end(task)
}

pub(crate) fn working_directory(asked: Option<&PathBuf>) -> Result<PathBuf, CommandError> {
    let path = match asked {
        Some(path) => path.clone(),
        None => PathBuf::from("."),
    };
    match path.canonicalize() {
        Ok(path) if path.is_dir() => Ok(path),
        Ok(path) => Err(CommandError::usage(format!("{} is not a folder", path.display()))),
        Err(error) => Err(CommandError::usage(format!("cannot use the folder {}: {error}", path.display()))),
    }
}

/// Returns the agent's program, and the prompt if it is on the command line.
fn program(arguments: &Arguments, cwd: &std::path::Path) -> Result<(Program, Option<String>), CommandError> {
    let Arguments { first, second, command, .. } = arguments;
    let (name, prompt) = match (command.is_empty(), second) {
        (true, second) => (first, second),
        (false, None) => (&None, first),
        (false, Some(_)) => {
            return Err(CommandError::usage("give either an agent's name or a command line, not both")
                .hint("only the prompt may precede `-- CMD`"));
        }
    };
    let program = match &arguments.hub.on {
        Some(hub) => arguments.hub.program(hub, name.as_deref())?,
        None => chosen_program(cwd, name.as_deref(), command)?,
    };
    Ok((program, prompt.clone()))
}

fn prompt(arguments: &Arguments, argument: Option<String>) -> Result<String, CommandError> {
    let read = |source: &mut dyn Read, name: &str| {
        let mut text = String::new();
        match source.take(MAX_PROMPT + 1).read_to_string(&mut text) {
            Ok(_) if text.len() as u64 > MAX_PROMPT => {
                Err(CommandError::usage(format!("the prompt in {name} is too long")))
            }
            Ok(_) => Ok(text),
            Err(error) => Err(CommandError::usage(format!("cannot read the prompt from {name}: {error}"))),
        }
    };
    let text = match (argument, &arguments.file) {
        (Some(_), Some(_)) => return Err(CommandError::usage("use either a prompt or --file")),
        (Some(text), None) if text != "-" => text,
        (None, Some(path)) if path.as_os_str() != "-" => {
            let mut file = std::fs::File::open(path)
                .map_err(|error| CommandError::usage(format!("cannot open {}: {error}", path.display())))?;
            read(&mut file, &path.display().to_string())?
        }
        _ => {
            let mut input = std::io::stdin();
            if input.is_terminal() {
                return Err(CommandError::usage("the prompt is missing")
                    .hint("give it on the command line, with --file or on standard input"));
            }
            read(&mut input, "standard input")?
        }
    };
    if text.trim().is_empty() {
        return Err(CommandError::usage("the prompt is empty"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_an_id_and_a_value() {
        assert_eq!(parse_setting("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(parse_setting("a").is_err());
        assert!(parse_setting("=b").is_err());
    }
}
