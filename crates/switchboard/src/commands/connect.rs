//! `switchboard connect`.

mod attempts;
mod hub;
mod pipe;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use switchboard_transport::{Remote, RemoteError};

use self::attempts::{Attempts, Server};
use self::hub::HubLink;
use self::pipe::{EditorInput, Pipe, StartResult};
use crate::ending::Stops;
use crate::outbound_queue::OutboundQueue;
use crate::outcome::{CommandError, Outcome};
use crate::remote_agent::{HEADERS, TOKEN};
use crate::{standard_error, stdio};

/// Connect to an agent on another machine as if it ran locally
///
/// Connects standard input and output with an ACP server: ws:// and wss:// use WebSocket, http:// and
/// https:// use streamable HTTP. Editors start it in place of an agent. Other commands accept such a URL in
/// place of a command line and do not need `connect`.
///
/// With a hub (`switchboard serve`) the session survives interruptions: it reconnects for as long as it
/// takes, unnoticed by the editor. Each update arrives once and each prompt runs once, even if the hub was
/// restarted meanwhile. With other servers, the end of the connection ends the command.
///
/// A token is read from --token-file or from the variable SWITCHBOARD_TOKEN and sent as `Authorization:
/// Bearer`. Never put it on a command line, which others can see. The file is read again for each connection.
/// Certificates are verified with those of this machine, or with the file in SSL_CERT_FILE.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// URL of the agent, for example wss://example.com/acp
    url: String,

    /// File that contains the token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Exit with an error if the server is unreachable at the start, instead of retrying
    #[arg(long)]
    no_wait: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    stdio::run_alone(connect(arguments))
}

async fn connect(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let mut stops = Stops::listen(None)?;
    let mut pipe =
        Pipe { from_editor: EditorInput::new(), to_editor: OutboundQueue::to_client(stdio::output()) };
    let mut attempts = Attempts::new(arguments);
    tokio::select! {
        outcome = pass_on(&mut pipe, &mut attempts) => outcome,
        stop = stops.next() => Ok(Outcome::Stopped(stop)),
    }
}

async fn pass_on(pipe: &mut Pipe, attempts: &mut Attempts<'_>) -> Result<Outcome, CommandError> {
    match pipe.begin(attempts).await? {
        StartResult::Over => Ok(Outcome::Fine),
        StartResult::Hub(initialize) => HubLink::new(&initialize)?.run(pipe, attempts, &initialize).await,
    }
}

/// Returns the server with its headers and token.
fn server(arguments: &Arguments, warns: bool) -> Result<Server, CommandError> {
    let mut remote = Remote::new(&arguments.url).map_err(|error| CommandError::usage(error.to_string()))?;
    let headers = std::env::var(HEADERS).unwrap_or_default();
    if !headers.is_empty() {
        let headers: BTreeMap<String, String> = serde_json::from_str(&headers).map_err(|error| {
            CommandError::usage(format!("{HEADERS} must be a JSON object of strings: {error}"))
        })?;
        for (name, value) in &headers {
            remote = remote.header(name, value).map_err(|error| CommandError::usage(error.to_string()))?;
        }
    }
    let token = token(arguments.token_file.as_deref())?;
    let remote = authorized(remote, token.as_deref(), warns)?;
    let remote = remote.tell(|what| standard_error::say(format!("switchboard: {what}")));
    Ok(Server { remote, token })
}

/// Returns the server with the token, if there is one: from the file, else from the variable.
pub(super) fn with_token(remote: Remote, file: Option<&Path>) -> Result<Remote, CommandError> {
    authorized(remote, token(file)?.as_deref(), true)
}

fn authorized(remote: Remote, token: Option<&str>, warns: bool) -> Result<Remote, CommandError> {
    let Some(token) = token else { return Ok(remote) };
    if let Some(host) = remote.exposes_secrets_to().filter(|_| warns) {
        standard_error::say(format!(
            "switchboard: the token is sent to {host} unencrypted; use wss:// or https://"
        ));
    }
    let value = format!("Bearer {token}");
    remote.header("authorization", &value).map_err(|error| CommandError::usage(error.to_string()))
}

/// Returns the token, if there is one: from the file, else from the variable.
fn token(file: Option<&Path>) -> Result<Option<String>, CommandError> {
    let text = match file {
        Some(file) => std::fs::read_to_string(file).map_err(|error| {
            CommandError::usage(format!("cannot read the token from {}: {error}", file.display()))
        })?,
        None => std::env::var(TOKEN).unwrap_or_default(),
    };
    let token = text.trim();
    match file {
        Some(file) if token.is_empty() => {
            Err(CommandError::usage(format!("there is no token in {}", file.display())))
        }
        _ => Ok((!token.is_empty()).then(|| token.to_owned())),
    }
}

pub(super) fn failed(error: &RemoteError) -> CommandError {
    let told = error.to_string();
    match error {
        RemoteError::BadAddress { .. } | RemoteError::BadHeader { .. } => CommandError::usage(told),
        RemoteError::Refused { wants_token: true, .. } => CommandError::denied(told)
            .hint(format!("give the server's token with --token-file FILE, or in {TOKEN}")),
        RemoteError::Refused { status, .. } if status.as_u16() == 404 => CommandError::failed(told)
            .hint("check the path of the URL; the server may serve ACP at another one, such as /acp"),
        _ => CommandError::failed(told),
    }
}
