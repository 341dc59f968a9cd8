//! Confirmation before a package is downloaded and run, or a program that only a project's file names.

use std::io::{BufRead, IsTerminal, Write};

use switchboard_acp::display::visible_line;
use switchboard_transport::Program;

use super::{Installed, KnownAgent, Runner, installation};
use crate::outcome::CommandError;

/// Asks a question on the terminal: `None` without a terminal.
pub(crate) fn confirmed(question: &str) -> Option<bool> {
    answered(&format!("{question} [y/N]")).map(|answer| is_yes(&answer))
}

fn is_yes(answer: &str) -> bool {
    matches!(answer, "y" | "Y" | "yes" | "Yes")
}

/// Returns the line that the user types at the terminal after a question.
fn answered(question: &str) -> Option<String> {
    let input = std::io::stdin();
    if !input.is_terminal() || !std::io::stderr().is_terminal() {
        return None;
    }
    eprint!("{question} ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    // An unreadable answer counts as no.
    let _ = input.lock().read_line(&mut answer);
    Some(answer.trim().to_owned())
}

/// Returns a package that is run from the network or installed first, if the user confirms. `otherwise` is the error with
/// alternatives.
pub(super) fn from_network(
    title: &str,
    runner: Runner,
    command_line: &[String],
    installable: Option<&'static KnownAgent>,
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
    let install = installable.map(|agent| format!("switchboard agents install {}", agent.name));
    let choice = match &install {
        Some(install) => format!("  i  install it, to start without the network from now on: {install}\n"),
        None => String::new(),
    };
    let question = format!(
        "{title} is not installed.\n{choice}  y  run it from the network this time, with all that it depends on: {line}\n\
        Run it? [{}y/N]",
        if install.is_some() { "i/" } else { "" },
    );
    match (answered(&question).as_deref(), command_line, installable) {
        (Some("i" | "I"), _, Some(agent)) => {
            let found = installation::offered(agent, None)?;
            eprintln!("installing {}", found.description());
            let found = found.install()?;
            match &agent.package {
                Some(package) => Ok(Installed::of(&found, package).program()),
                None => Err(otherwise),
            }
        }
        (Some(answer), [program, arguments @ ..], _) if is_yes(answer) => {
            Ok(Program::new(program).args(arguments))
        }
        (None, _, _) => {
            let otherwise = match &install {
                Some(install) => {
                    otherwise.hint(format!("to install it for Switchboard alone: {install} --yes"))
                }
                None => otherwise,
            };
            Err(otherwise.hint(format!(
                "to run it from the network without installing it, give its command line: -- {line}"
            )))
        }
        _ => Err(otherwise),
    }
}
