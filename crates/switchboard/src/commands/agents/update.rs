//! `switchboard agents update`: downloads the registry.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use switchboard_acp::display::visible_line;
use switchboard_transport::Remote;

use crate::agents::{self, MAX_REGISTRY, REGISTRY, Registry};
use crate::outcome::{CommandError, Outcome};
use crate::stdio;

/// Download the public registry of agents, or update an installed agent
///
/// The agents of the registry are then known by their ids. Nothing is installed or run: you are asked when you use an agent. With the name
/// of an agent that `agents install` installed, installs its newest version and keeps the previous one.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Name of an installed agent; or file or URL of the registry, instead of the public one
    #[arg(value_name = "NAME|FILE|URL")]
    from: Option<String>,

    /// Accept the registry only with this SHA-256 checksum
    #[arg(long, value_name = "HEX", value_parser = parse_hash)]
    sha256: Option<String>,
}

/// Timeout for the server.
const TIMEOUT: Duration = Duration::from_secs(20);

fn parse_hash(text: &str) -> Result<String, String> {
    let is_hash = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { Ok(text.to_ascii_lowercase()) } else { Err("expected 64 hexadecimal digits".to_owned()) }
}

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    if let Some(agent) = arguments.from.as_deref().and_then(agents::find) {
        return super::install::update(agent);
    }
    let from = arguments.from.as_deref().unwrap_or(REGISTRY);
    let refused = |reason: String| {
        CommandError::failed(format!("the registry {from} was rejected: {reason}"))
            .hint("the previous registry is kept")
    };
    let text = if Remote::is_address(from) { stdio::run_alone(fetch(from))? } else { read(Path::new(from))? };
    let hash = agents::sha256(text.as_bytes());
    if let Some(expected) = &arguments.sha256
        && *expected != hash
    {
        return Err(refused(format!("its checksum is {hash}; expected {expected}")));
    }
    let registry = Registry::parse(&text).map_err(refused)?;
    for reason in &registry.refused {
        eprintln!("switchboard: rejected: {}", visible_line(reason));
    }
    if registry.agents.is_empty() {
        return Err(refused("it contains no valid agent".to_owned()));
    }
    let file = Registry::keep(&text, from).map_err(CommandError::failed)?;
    let new = registry.agents.iter().filter(|agent| agents::find(&agent.id).is_none()).count();
    println!(
        "{} agents, {new} of them not in the table of this program; SHA-256 {hash}",
        registry.agents.len()
    );
    eprintln!("kept in {}", file.display());
    Ok(if registry.refused.is_empty() { Outcome::Fine } else { Outcome::Problems })
}

fn read(file: &Path) -> Result<String, CommandError> {
    let failed =
        |error: std::io::Error| CommandError::usage(format!("cannot read {}: {error}", file.display()));
    let mut text = String::new();
    let file = std::fs::File::open(file).map_err(failed)?;
    file.take(MAX_REGISTRY + 1).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

async fn fetch(url: &str) -> Result<String, CommandError> {
    let failed = |error: switchboard_transport::RemoteError| CommandError::failed(error.to_string());
    let remote = Remote::new(url).map_err(|error| CommandError::usage(error.to_string()))?;
    if let Some(host) = remote.exposes_secrets_to() {
        return Err(CommandError::usage(format!("{host} would be requested over unencrypted HTTP"))
            .hint("use a URL that begins with https://"));
    }
    match tokio::time::timeout(TIMEOUT, remote.get()).await {
        Ok(text) => text.map_err(failed),
        Err(_) => Err(failed(remote.no_answer(TIMEOUT))),
    }
}
