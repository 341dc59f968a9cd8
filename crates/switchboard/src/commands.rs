//! The subcommands, one module each.

mod check;
mod diff;
mod fold;
mod schema;
mod sessions;

use crate::outcome::{CommandError, Outcome};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Check(check::Arguments),
    Diff(Box<diff::Arguments>),
    Fold(fold::Arguments),
    Schema(schema::Arguments),
    Sessions(sessions::Arguments),
}

pub(crate) fn run(command: Command) -> Result<Outcome, CommandError> {
    match command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Fold(arguments) => fold::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Sessions(arguments) => sessions::run(&arguments),
    }
}
