//! `switchboard conform agent`.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use switchboard_acp::Version;
use switchboard_conform::live::{AgentOptions, check_agent};
use switchboard_transport::{Program, Remote};

use super::CheckedSubject;
use crate::arguments::Protocol;
use crate::configuration::chosen_program;
use crate::outcome::CommandError;
use crate::{remote_agent, standard_error, stdio, store_file};

/// Test an agent by acting as its client, with a fresh process for each scenario
///
/// Prompts are sent, so an agent with a model uses it; scenarios that need a model are not tested without
/// one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    switchboard conform agent -- my-agent --acp\n  \
    switchboard conform agent --prompt \"Say hello.\" -- wss://example.com/acp")]
pub(super) struct Arguments {
    /// Name of a configured or known agent (see `switchboard agents`), `demo`, or a URL
    agent: Option<String>,

    /// Command line of the agent, or its URL
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,

    #[command(flatten)]
    play: Play,

    /// Working folder of the sessions, instead of an empty one
    #[arg(long, value_name = "FOLDER")]
    cwd: Option<PathBuf>,

    /// Text of the prompts
    #[arg(long, value_name = "TEXT", default_value = "hello")]
    prompt: String,

    /// Text of the prompt whose work is cancelled; it should take some seconds
    #[arg(long, value_name = "TEXT", default_value = "slow 30")]
    cancel_prompt: String,

    /// Log in with this method before sessions are opened
    #[arg(long, value_name = "ID")]
    auth_method: Option<String>,
}

/// Options for live peers.
#[derive(Debug, clap::Args)]
pub(super) struct Play {
    /// Protocol version to use, instead of the newest that the peer supports
    #[arg(long, value_enum)]
    pub(super) protocol: Option<Protocol>,

    /// Timeout for a response, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    pub(super) timeout: f64,

    /// Connect to the peer through another program
    #[arg(long, value_enum)]
    pub(super) through: Option<Through>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Through {
    /// `switchboard bridge`
    Bridge,
}

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("expected seconds, more than 0 and at most a day".to_owned()),
    }
}

impl Play {
    pub(super) fn version(&self) -> Option<Version> {
        self.protocol.map(|protocol| match protocol {
            Protocol::V1 => Version::V1,
            Protocol::V2 => Version::V2,
        })
    }
}

pub(super) fn check(arguments: &Arguments) -> Result<Vec<CheckedSubject>, CommandError> {
    let address = arguments.agent.as_ref().filter(|name| Remote::is_address(name));
    let (name, command) = match address {
        Some(address) if arguments.command.is_empty() => (None, vec![OsString::from(address)]),
        _ => (arguments.agent.as_deref(), arguments.command.clone()),
    };
    let program = chosen_program(Path::new("."), name, &command)?;
    let subject = name.map_or_else(|| shown(&command), str::to_owned);
    // A missing program is not a failing agent.
    program.locate().map_err(|error| CommandError::no_session(error.to_string()))?;
    let program = match arguments.play.through {
        None => program,
        Some(Through::Bridge) => through_bridge(name, &command)?,
    };
    let temporary;
    let folder = match &arguments.cwd {
        Some(folder) => std::path::absolute(folder)
            .map_err(|error| CommandError::usage(format!("{}: {error}", folder.display())))?,
        None => {
            temporary = store_file::temporary_folder()
                .map_err(|error| CommandError::failed(format!("cannot make a folder: {error}")))?;
            temporary.path().to_owned()
        }
    };
    let options = AgentOptions {
        version: arguments.play.version(),
        folder,
        prompt: arguments.prompt.clone(),
        cancel_prompt: arguments.cancel_prompt.clone(),
        patience: Duration::from_secs_f64(arguments.play.timeout),
        login: arguments.auth_method.clone(),
        more: switchboard_acp::More,
    };
    let tells = std::io::stderr().is_terminal();
    let (report, transcript) = stdio::run_alone(async {
        let tell = |scenario: &switchboard_conform::live::Scenario, place: usize, count: usize| {
            if tells {
                standard_error::say(format!("[{place}/{count}] {}", scenario.name));
            }
        };
        Ok(check_agent(&program, &subject, &options, tell).await)
    })?;
    Ok(vec![CheckedSubject { report, transcript }])
}

/// Formats a command line as one text.
pub(super) fn shown(command: &[OsString]) -> String {
    let parts: Vec<_> = command.iter().map(|part| part.to_string_lossy()).collect();
    parts.join(" ")
}

fn through_bridge(name: Option<&str>, command: &[OsString]) -> Result<Program, CommandError> {
    let program = remote_agent::ourselves(["bridge"])?;
    Ok(match name {
        Some(name) => program.args([name]),
        None => program.args([OsStr::new("--")]).args(command.iter().cloned()),
    })
}
