//! `switchboard agents lock`, and `agents install --locked`.

use std::io::{Read, Write};
use std::path::Path;

use crate::agents::lock::{self, LockedAgent, MAX_TEAM_LOCK};
use crate::agents::{self, KnownAgent, installation};
use crate::outcome::{CommandError, Outcome, write_error};
use switchboard_acp::display::visible_line;

/// Print a lock file of the agents that Switchboard installed
///
/// It has the version and digest of each agent and of everything that it needs. `agents install --locked FILE` installs exactly that on
/// another machine, or changes nothing.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Names of installed agents; default: all of them
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let named = |name: &String| {
        agents::find(name).ok_or_else(|| {
            CommandError::usage(format!("no agent is known by the name \"{}\"", visible_line(name)))
                .hint("`switchboard agents list` shows those that are installed")
        })
    };
    let mut chosen: Vec<&'static KnownAgent> =
        arguments.names.iter().map(named).collect::<Result<_, CommandError>>()?;
    if chosen.is_empty() {
        chosen.extend(agents::known().iter().filter(|agent| installation::find(agent, None).is_some()));
    }
    chosen.dedup_by_key(|agent| agent.name);
    let text = lock::text(&chosen)?;
    writeln!(std::io::stdout(), "{text}").map_err(write_error)?;
    Ok(Outcome::Fine)
}

/// Installs the agents of a lock file, all of them or none.
pub(super) fn install(file: &Path, is_confirmed: bool) -> Result<Outcome, CommandError> {
    let locked = read(file)?;
    let described: Vec<String> =
        locked.iter().map(|one| format!("{} {}", one.agent.title, one.version)).collect();
    let described = described.join(", ");
    if !is_confirmed {
        match agents::confirmed(&format!("Install {described}?")) {
            Some(true) => {}
            Some(false) => return Ok(Outcome::Problems),
            None => {
                return Err(CommandError::usage(format!("not installed: {described}"))
                    .hint("confirm with --yes, because there is no terminal to ask on"));
            }
        }
    }
    eprintln!("installing {described}");
    // Nothing is used before everything is there.
    let prepared: Vec<_> = locked.iter().map(LockedAgent::prepare).collect::<Result<_, CommandError>>()?;
    for (locked, prepared) in locked.iter().zip(prepared) {
        let installed = prepared.finish()?;
        println!("{} {} {}", locked.agent.name, installed.version, installed.integrity);
    }
    Ok(Outcome::Fine)
}

fn read(file: &Path) -> Result<Vec<LockedAgent>, CommandError> {
    let failed = |reason: String| {
        CommandError::usage(format!("cannot use the lock {}: {reason}", file.display()))
            .hint("nothing was changed; `switchboard agents lock` writes such a file")
    };
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(|error| failed(error.to_string()))?;
    opened.take(MAX_TEAM_LOCK + 1).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > MAX_TEAM_LOCK {
        return Err(failed(format!("it has more than {MAX_TEAM_LOCK} bytes")));
    }
    lock::parse(&text).map_err(failed)
}
