//! `switchboard connect`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use switchboard_transport::{Remote, RemoteError, RemoteStream};
use tokio::io::AsyncWriteExt;

use crate::ending::Stops;
use crate::outcome::{CommandError, Outcome};
use crate::remote_agent::{HEADERS, TOKEN};
use crate::{standard_error, stdio};

/// Use an agent on another machine as if it ran here.
///
/// Connects standard input and output with a server of ACP: ws:// and wss:// by WebSocket, http:// and https:// by
/// streamable HTTP. Editors start it in the place of an agent. The other commands take such an address in the place of
/// a command line, and need no `connect`.
///
/// A token is read from --token-file or from the variable SWITCHBOARD_TOKEN and sent as `Authorization: Bearer`. It
/// never belongs on a command line, which others can see. Certificates are checked by those of this machine, or by
/// the file that SSL_CERT_FILE names.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where the agent is, for example wss://example.com/acp
    url: String,

    /// A file with the token in it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    stdio::run_alone(connect(arguments))
}

async fn connect(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let remote = remote(arguments)?.tell(|what| standard_error::say(format!("switchboard: {what}")));
    let mut stops = Stops::listen(None)?;
    let stream = tokio::select! {
        stream = remote.connect() => stream.map_err(|error| failed(&error))?,
        stop = stops.next() => return Ok(Outcome::Stopped(stop)),
    };
    let RemoteStream { mut reader, mut writer, mut end } = stream;
    let mut output = stdio::output();
    let sending = async {
        let mut input = stdio::input();
        // However it went, that is all there is to send.
        let _ = tokio::io::copy(&mut input, &mut writer).await;
        let _ = writer.shutdown().await;
        std::future::pending::<()>().await;
    };
    let receiving = async {
        // Each message goes out as it comes: who reads it may wait for it.
        let copied = tokio::io::copy(&mut reader, &mut output).await;
        if copied.is_ok() {
            let _ = output.flush().await;
        }
    };
    tokio::select! {
        () = sending => {}
        () = receiving => {}
        stop = stops.next() => return Ok(Outcome::Stopped(stop)),
    }
    match (&mut end).await {
        Ok(Ok(())) => Ok(Outcome::Fine),
        Ok(Err(error)) => Err(failed(&error)),
        Err(error) => Err(CommandError::failed(format!("the connection was given up: {error}"))),
    }
}

/// The server, with everything that it wants to see.
fn remote(arguments: &Arguments) -> Result<Remote, CommandError> {
    let mut remote = Remote::new(&arguments.url).map_err(|error| CommandError::usage(error.to_string()))?;
    let headers = std::env::var(HEADERS).unwrap_or_default();
    if !headers.is_empty() {
        let headers: BTreeMap<String, String> = serde_json::from_str(&headers)
            .map_err(|error| CommandError::usage(format!("{HEADERS} is no object of texts: {error}")))?;
        for (name, value) in &headers {
            remote = remote.header(name, value).map_err(|error| CommandError::usage(error.to_string()))?;
        }
    }
    with_token(remote, arguments.token_file.as_deref())
}

/// The server with the token, where there is one: from the file, else from the variable.
pub(super) fn with_token(mut remote: Remote, file: Option<&Path>) -> Result<Remote, CommandError> {
    if let Some(token) = token(file)? {
        if let Some(host) = remote.exposes_secrets_to() {
            standard_error::say(format!(
                "switchboard: the token goes to {host} unencrypted; wss:// or https:// would hide it"
            ));
        }
        let value = format!("Bearer {token}");
        remote =
            remote.header("authorization", &value).map_err(|error| CommandError::usage(error.to_string()))?;
    }
    Ok(remote)
}

/// The token, where there is one: from the file, else from the variable.
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
        RemoteError::Refused { status, .. } if status.as_u16() == 401 => CommandError::denied(told)
            .hint(format!("give the server's token with --token-file FILE, or in {TOKEN}")),
        RemoteError::Refused { status, .. } if status.as_u16() == 404 => {
            CommandError::failed(told).hint("does the server have ACP at another path, such as /acp?")
        }
        _ => CommandError::failed(told),
    }
}
