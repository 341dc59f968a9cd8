//! `switchboard bridge`: an agent over stdio that translates between protocol versions.

mod history;
mod host;
mod login;
mod permissions;
mod recorded;
mod sandboxed;
mod service;

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use switchboard_bridge::{BridgeOptions, Dialect, Driver};
use switchboard_store::About;
use switchboard_transport::{Child, Program, StandardErrorLine, unique_salt};
use tokio::sync::mpsc;

use self::history::History;
use self::host::LocalHost;
use self::permissions::Permissions;
use self::recorded::BridgeRecording;
use self::sandboxed::SandboxedAgent;
use self::service::{Parts, Service};
use super::convert::LossAction;
use crate::configuration::chosen_program;
use crate::ending::{self, Stops};
use crate::handshake::HandshakeArgument;
use crate::outcome::{CommandError, Outcome};
use crate::recording::{self, RecordArguments, agent_name};
use crate::rules::{PermissionsArgument, Rules};
use crate::sandbox::{self, SandboxArgument, SandboxContext};
use crate::telemetry::TelemetryArguments;
use crate::{standard_error, stdio};

/// Run an ACP agent over stdio that translates between protocol versions
///
/// Uses the version that the client requests and the version that the agent supports, and translates if they
/// differ. Information that cannot be carried over is reported as a loss.
///
/// Started in a terminal, it runs the agent's program there instead, with the arguments after its name or
/// command: clients start logins that way.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example, in the configuration of an editor:\n  \
    \"command\": \"switchboard\", \"args\": [\"bridge\", \"--\", \"my-agent\", \"--acp\"]")]
pub(crate) struct Arguments {
    /// Name of a configured or known agent (see `switchboard agents`), or `demo`
    agent: Option<String>,

    /// Arguments with which the agent's program logs in; clients append them in a terminal
    #[arg(value_name = "LOGIN", allow_hyphen_values = true)]
    login: Vec<OsString>,

    /// Command line that starts the agent
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,

    /// Read and write files for version 1 agents, inside the session's directories
    #[arg(long)]
    serve_files: bool,

    /// Run commands for version 1 agents, in the session's directories
    #[arg(long)]
    serve_terminals: bool,

    /// Write losses to this file as they happen, one JSON object per line
    #[arg(long, value_name = "FILE")]
    losses: Option<PathBuf>,

    #[command(flatten)]
    record: RecordArguments,

    #[command(flatten)]
    telemetry: TelemetryArguments,

    /// Hold messages of a version 2 agent for a version 1 client until the agent is idle, so that retracted
    /// text is never shown
    #[arg(long)]
    hold_messages: bool,

    #[command(flatten)]
    permissions: PermissionsArgument,

    #[command(flatten)]
    sandbox: SandboxArgument,

    #[command(flatten)]
    handshake: HandshakeArgument,

    /// Treatment of losses in the session itself
    #[arg(long, value_enum, default_value = "visible", value_name = "ACTION", alias = "policy")]
    on_loss: LossAction,

    /// Dialect of a version 2 client, instead of detecting it
    #[arg(long, value_enum)]
    client_dialect: Option<DialectArgument>,

    /// Dialect of a version 2 agent, instead of detecting it
    #[arg(long, value_enum)]
    agent_dialect: Option<DialectArgument>,
}

/// A revision of version 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DialectArgument {
    /// The published proposals
    Spec,
    /// The newest draft
    Newest,
}

impl From<DialectArgument> for Dialect {
    fn from(dialect: DialectArgument) -> Self {
        match dialect {
            DialectArgument::Spec => Dialect::Spec,
            DialectArgument::Newest => Dialect::Newest,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    if let Some(login) = login::program(arguments)? {
        return Err(CommandError::failed(login.replace_process().to_string()));
    }
    let program = chosen_program(Path::new("."), arguments.agent.as_deref(), &arguments.command)?;
    // Before the agent starts: it must not run without its rules.
    let has_rules = arguments.permissions.permissions.is_some();
    let rules = arguments.permissions.rules()?;
    let context = SandboxContext {
        folder: std::env::current_dir().unwrap_or_default(),
        store: arguments.record.store().cloned(),
        ..SandboxContext::default()
    };
    let program = arguments.sandbox.confine(program, arguments.agent.as_deref(), &rules, &context)?;
    if program.is_confined() && (arguments.serve_files || arguments.serve_terminals) {
        return Err(CommandError::usage("--serve-files and --serve-terminals would lead out of the sandbox")
            .hint("the agent works with files and commands itself, inside the sandbox"));
    }
    let rules = has_rules.then_some(rules);
    stdio::run_alone(serve(arguments, &program, rules))
}

async fn serve(
    arguments: &Arguments,
    program: &Program,
    rules: Option<Rules>,
) -> Result<Outcome, CommandError> {
    let create = |path: &Path| {
        File::create(path)
            .map_err(|error| CommandError::usage(format!("cannot write {}: {error}", path.display())))
    };
    let losses = arguments.losses.as_deref().map(create).transpose()?;
    let about = About { agent: arguments.agent.clone(), ..About::default() };
    let recording = arguments.record.begin(&about, arguments.telemetry.begin_below()?)?;
    let history =
        recording.as_ref().and_then(|recording| History::new(recording.clone(), arguments.agent.clone()));
    // Not before: until the agent runs there is nothing to shut down.
    let stops = Stops::listen(None)?;
    let spawned = recording::started(recording.as_ref(), program.spawn())
        .map_err(|error| sandbox::start_error(&error, CommandError::failed))?;
    ending::takes_along(&spawned.child, recording.as_ref());
    tokio::spawn(pass_on_standard_error(spawned.child.clone()));
    let record = recording
        .map(|recording| BridgeRecording::new(recording, &spawned.child, arguments.record.is_file()));
    let (events, terminal_events) = mpsc::channel(64);
    let options = BridgeOptions {
        policy: arguments.on_loss.into(),
        client_dialect: arguments.client_dialect.map(Into::into),
        agent_dialect: arguments.agent_dialect.map(Into::into),
        hold_messages: arguments.hold_messages,
        serve_files: arguments.serve_files,
        serve_terminals: arguments.serve_terminals,
        agent_name: agent_name(
            arguments.agent.as_deref(),
            arguments.command.first().map(OsString::as_os_str),
        ),
        // The client may continue a session of an earlier bridge, with the ids of its messages.
        id_salt: unique_salt(),
        ..BridgeOptions::default()
    };
    let host = LocalHost::new(arguments.serve_files, events);
    let parts = Parts {
        driver: Driver::with_host(options, Box::new(host)),
        losses,
        record,
        history,
        permissions: rules.map(Permissions::new),
        terminal_events,
        stops,
        handshake_timeout: arguments.handshake.handshake_timeout,
        sandbox: program.is_confined().then(|| SandboxedAgent::new(program.clone(), spawned.child.clone())),
    };
    Service::run(parts, spawned).await
}

async fn pass_on_standard_error(child: Child) {
    let mut lines = child.standard_error();
    while let Some(line) = lines.next().await {
        let line = match line {
            StandardErrorLine::Line(line) => line.to_string(),
            StandardErrorLine::Missed(count) => format!("switchboard: dropped {count} lines of the agent"),
        };
        standard_error::say_patiently(line).await;
    }
}
