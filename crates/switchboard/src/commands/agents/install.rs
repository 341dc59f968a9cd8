//! `switchboard agents install`, and `agents update NAME`.

use std::path::PathBuf;

use crate::agents::installation::{self, Installation, Offer};
use crate::agents::{self, KnownAgent};
use crate::outcome::{CommandError, Outcome};
use switchboard_acp::display::visible_line;

/// Install a known agent into a folder of Switchboard's own
///
/// npm or uv downloads the package and everything that it needs, without running install scripts. The version and its digest are
/// recorded. The agent then starts without npx, uvx and the network. `agents list` shows what is installed.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Name of a known agent (see `switchboard agents`), with @VERSION for another version than the newest
    #[arg(value_name = "NAME[@VERSION]", required_unless_present = "locked")]
    name: Option<String>,

    /// Install exactly the agents and dependencies of this file, which `agents lock` wrote; all or none
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    locked: Option<PathBuf>,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    if let Some(file) = &arguments.locked {
        return super::lock::install(file, arguments.yes);
    }
    let name = arguments.name.as_deref().unwrap_or_default();
    let (agent, version) = match (agents::find(name), agents::with_version(name)) {
        (Some(agent), _) => (agent, None),
        (None, Some((agent, version))) => (agent, Some(version)),
        (None, None) => {
            return Err(CommandError::usage(format!(
                "no agent is known by the name \"{}\"",
                visible_line(name)
            ))
            .hint("`switchboard agents` lists those that are known"));
        }
    };
    let offer = installation::offered(agent, version)?;
    if !arguments.yes {
        match agents::confirmed(&format!("Install {}?", offer.description())) {
            Some(true) => {}
            Some(false) => return Ok(Outcome::Problems),
            None => {
                return Err(CommandError::usage(format!("not installed: {}", offer.description()))
                    .hint("confirm with --yes, because there is no terminal to ask on"));
            }
        }
    }
    install(agent, &offer)
}

/// Brings an agent that is installed to the newest version.
pub(super) fn update(agent: &'static KnownAgent) -> Result<Outcome, CommandError> {
    let Some(current) = installation::find(agent, None) else {
        return Err(CommandError::usage(format!("{} is not installed by Switchboard", agent.title))
            .hint(format!("to install it: switchboard agents install {}", agent.name)));
    };
    let offer = installation::offered(agent, None)?;
    if offer.version == current.version {
        println!("{} {} is the newest version", agent.name, current.version);
        return Ok(Outcome::Fine);
    }
    install(agent, &offer)
}

fn install(agent: &KnownAgent, offer: &Offer) -> Result<Outcome, CommandError> {
    eprintln!("installing {}", offer.description());
    let Installation { version, integrity, folder, .. } = offer.install()?;
    println!("{} {version} {integrity}", agent.name);
    eprintln!("in {}; to log in: {}", folder.display(), agent.login);
    Ok(Outcome::Fine)
}
