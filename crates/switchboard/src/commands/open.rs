//! `switchboard open`.

mod more_links;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use switchboard_store::{About, Store, StoreError};

use super::run::working_directory;
use super::sessions::exchange::read_in;
use crate::arguments::InputArgument;
use crate::configuration::chosen_program;
use crate::ending::Stops;
use crate::handshake::HandshakeArgument;
use crate::outcome::{CommandError, Outcome};
use crate::recording::agent_name;
use crate::web::{Opening, Server};
use crate::{stdio, store_file};

/// Talk to an agent in a browser, and see everything that is said.
///
/// Starts the agent and a server on this machine, and prints a link that lets one browser in, once and within a minute.
/// Without an agent it is the built-in demo agent. Everything is recorded into the store, where `switchboard sessions` finds it too.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of a configured agent (see `switchboard agents`)
    agent: Option<String>,

    /// Command line that starts the agent
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,

    /// Working directory of sessions, instead of the current one
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    /// Look at this recording first: one of the store (see `switchboard sessions list`), or a file, which goes into the
    /// store
    #[arg(long, value_name = "ID|FILE")]
    recording: Option<String>,

    /// The store's file, instead of the usual one
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,

    /// Keep nothing: what is recorded is gone at the end
    #[arg(long, conflicts_with = "store")]
    no_record: bool,

    #[command(flatten)]
    handshake: HandshakeArgument,

    /// Port to listen on, instead of any that is free
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Only print the link, and open no browser
    #[arg(long)]
    no_browser: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let folder = working_directory(arguments.cwd.as_ref())?;
    let agent = arguments.agent.as_deref().or(arguments.command.is_empty().then_some("demo"));
    let program = chosen_program(&folder, agent, &arguments.command)?;
    let agent_name = agent_name(agent, arguments.command.first().map(OsStr::new));
    let temporary = arguments
        .no_record
        .then(store_file::temporary_folder)
        .transpose()
        .map_err(|error| CommandError::failed(format!("cannot make a temporary folder: {error}")))?;
    let file = match &temporary {
        Some(temporary) => temporary.path().join("sessions.sqlite3"),
        None => store_file::place(arguments.store.as_ref())?,
    };
    let store = store_file::open_to_record(file)?;
    let recording = arguments.recording.as_deref().map(|name| recording(&store, name)).transpose()?;
    let opening = Opening {
        store,
        program: program.working_directory(&folder),
        agent_name,
        folder,
        port: arguments.port,
        handshake_timeout: arguments.handshake.handshake_timeout,
        recording,
    };
    stdio::run_on(&mut tokio::runtime::Builder::new_multi_thread(), serve(opening, !arguments.no_browser))
}

/// The id of a recording of the store, or of the last one in a file.
fn recording(store: &Store, name: &str) -> Result<String, CommandError> {
    match store.session(name) {
        Ok(summary) => Ok(summary.id),
        Err(StoreError::UnknownSession { .. }) if Path::new(name).is_file() => {
            let (input, mut last) = (InputArgument { file: Some(name.into()) }, String::new());
            // Lines that cannot be read are told; the rest is shown.
            read_in(store, &input, &About::default(), |id| id.clone_into(&mut last))?;
            Ok(last)
        }
        Err(error) => Err(store_file::store_error(error)),
    }
}

async fn serve(opening: Opening, with_browser: bool) -> Result<Outcome, CommandError> {
    let cannot = |error: std::io::Error| CommandError::failed(format!("cannot serve: {error}"));
    let port = opening.port;
    let server = Server::bind(opening).await.map_err(|error| {
        let refused = CommandError::failed(format!("cannot listen on port {port} of this machine: {error}"));
        refused.hint("leave --port away to take any that is free")
    })?;
    let mut stops = Stops::listen(None)?;
    println!("{}", server.links().fresh().map_err(cannot)?);
    let more = if more_links::on_enter(server.links().clone()) { "Enter prints another, " } else { "" };
    eprintln!(
        "This link lets one browser in, once and within a minute. {more}Ctrl-C ends Switchboard and the agent."
    );
    if with_browser && has_desktop() {
        // Arguments can be seen by everybody on this machine, so this link is worth nothing once the browser is there.
        show(&server.links().fresh().map_err(cannot)?);
    }
    Ok(Outcome::Stopped(server.run(stops.next()).await))
}

/// Whether there is a screen that a browser could come up on.
fn has_desktop() -> bool {
    cfg!(target_os = "macos")
        || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some())
}

/// Opens the link with what the desktop has for it. Where there is nothing, the printed link is enough.
fn show(link: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = tokio::process::Command::new(opener);
    let started = command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Ok(mut child) = started {
        tokio::spawn(async move { child.wait().await });
    }
}
