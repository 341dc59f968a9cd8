//! A login in a terminal, which a client starts by the command that it has for the agent, with the arguments of the method
//! appended: `switchboard bridge NAME ARGS` or `switchboard bridge -- PROGRAM ARGS`.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::Path;

use rustix::termios::{LocalModes, tcgetattr};
use switchboard_transport::{Program, Remote};

use super::Arguments;
use crate::configuration::{Configuration, chosen_program};
use crate::outcome::CommandError;

/// The program that logs somebody in, where this is what the call is for. A client talks to the bridge through pipes, or through
/// a terminal that does not echo what is typed; a call in one that does is a person's.
pub(super) fn program(arguments: &Arguments) -> Result<Option<Program>, CommandError> {
    let Arguments { agent, login, command, .. } = arguments;
    if !(io::stdout().is_terminal() && echoes()) {
        return match login.first() {
            None => Ok(None),
            Some(argument) => Err(CommandError::usage(format!(
                "unexpected argument \"{}\" behind the agent's name",
                argument.to_string_lossy()
            ))
            .hint("arguments there are those of a login, which needs a terminal on standard input and output")
            .hint("an agent with arguments of its own goes behind `--`, or into a configuration: see `switchboard agents add`")),
        };
    }
    let Some(name) = agent.as_deref() else {
        return match command.first() {
            Some(first) if is_address(first) => Err(elsewhere(&first.to_string_lossy())),
            Some(_) => Ok(Some(chosen_program(Path::new("."), None, command)?)),
            // That there is no agent is said as without a terminal.
            None => Ok(None),
        };
    };
    let configured = Configuration::read(Path::new("."));
    if configured.find(name).is_some_and(|agent| Remote::is_address(&agent.command)) {
        return Err(elsewhere(name));
    }
    // What stands behind `--` here belongs to the arguments, since the agent has a name.
    let dashes = (!command.is_empty()).then(|| OsString::from("--"));
    let program = configured.chosen_program(name)?;
    Ok(Some(program.args(login.iter().chain(&dashes).chain(command))))
}

/// Whether standard input is a terminal that shows what is typed, as all do for people.
fn echoes() -> bool {
    tcgetattr(io::stdin()).is_ok_and(|terminal| terminal.local_modes.contains(LocalModes::ECHO))
}

fn is_address(argument: &OsString) -> bool {
    argument.to_str().is_some_and(Remote::is_address)
}

fn elsewhere(name: &str) -> CommandError {
    CommandError::usage(format!("{name} is on a server: a login in a terminal has to be made there"))
}
