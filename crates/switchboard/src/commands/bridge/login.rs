//! Login in a terminal, which a client starts with the agent's command and the arguments of the login method:
//! `switchboard bridge NAME ARGS` or `switchboard bridge -- PROGRAM ARGS`.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::Path;

use rustix::termios::{LocalModes, tcgetattr};
use switchboard_transport::{Program, Remote};

use super::Arguments;
use crate::configuration::{Configuration, chosen_program};
use crate::outcome::CommandError;

/// Returns the login program if the bridge was started for a login. A client talks to the bridge over pipes,
/// or over a terminal without echo; a terminal with echo belongs to a person.
pub(super) fn program(arguments: &Arguments) -> Result<Option<Program>, CommandError> {
    let Arguments { agent, login, command, .. } = arguments;
    if !(io::stdout().is_terminal() && echoes()) {
        return match login.first() {
            None => Ok(None),
            Some(argument) => Err(CommandError::usage(format!(
                "unexpected argument \"{}\" after the agent's name",
                argument.to_string_lossy()
            ))
            .hint("arguments there are for a login, which needs a terminal on standard input and output")
            .hint("put an agent with arguments after `--`, or into the configuration: see `switchboard agents add`")),
        };
    }
    let Some(name) = agent.as_deref() else {
        return match command.first() {
            Some(first) if is_address(first) => Err(elsewhere(&first.to_string_lossy())),
            Some(_) => Ok(Some(chosen_program(Path::new("."), None, command)?)),
            // The missing agent is reported as without a terminal.
            None => Ok(None),
        };
    };
    let configured = Configuration::read(Path::new("."));
    if configured.find(name).is_some_and(|agent| Remote::is_address(&agent.command)) {
        return Err(elsewhere(name));
    }
    // Words after `--` belong to the arguments here, since the agent has a name.
    let dashes = (!command.is_empty()).then(|| OsString::from("--"));
    let program = configured.chosen_program(name)?;
    Ok(Some(program.args(login.iter().chain(&dashes).chain(command))))
}

/// Returns whether standard input is a terminal with echo, as for people.
fn echoes() -> bool {
    tcgetattr(io::stdin()).is_ok_and(|terminal| terminal.local_modes.contains(LocalModes::ECHO))
}

fn is_address(argument: &OsString) -> bool {
    argument.to_str().is_some_and(Remote::is_address)
}

fn elsewhere(name: &str) -> CommandError {
    CommandError::usage(format!("{name} runs on a server: log in on that machine"))
}
