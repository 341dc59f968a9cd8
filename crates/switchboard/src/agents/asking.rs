//! Confirmation before a package is downloaded and run, or a program that only a project's file names.

use std::io::{BufRead, IsTerminal, Write};

use switchboard_acp::display::visible_line;
use switchboard_transport::Program;

use super::Runner;
use crate::outcome::CommandError;

/// Asks a question on the terminal: `None` without a terminal.
pub(crate) fn confirmed(question: &str) -> Option<bool> {
    let input = std::io::stdin();
    if !input.is_terminal() || !std::io::stderr().is_terminal() {
        return None;
    }
    eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    // An unreadable answer counts as no.
    let _ = input.lock().read_line(&mut answer);
    Some(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}

/// Returns a package that is run from the network, if the user confirms. `otherwise` is the error with
/// alternatives.
pub(super) fn from_network(
    title: &str,
    runner: Runner,
    command_line: &[String],
    otherwise: CommandError,
) -> Result<Program, CommandError> {
    let line = visible_line(&command_line.join(" "));
    if Program::new(runner.program()).locate().is_err() {
        let needed = match runner {
            Runner::Npx => "npx, which comes with Node.js (https://nodejs.org)",
            Runner::Uvx => "uvx, which comes with uv (https://docs.astral.sh/uv)",
        };
        return Err(otherwise.hint(format!("without installing it: {line}; that needs {needed}")));
    }
    let question = format!(
        "{title} is not installed.\nRun it from the network this time, with all that it depends on?\n  {line}\nRun it?"
    );
    match (confirmed(&question), command_line) {
        (Some(true), [program, arguments @ ..]) => Ok(Program::new(program).args(arguments)),
        (None, _) => Err(otherwise.hint(format!(
            "to run it from the network without installing it, give its command line: -- {line}"
        ))),
        _ => Err(otherwise),
    }
}
