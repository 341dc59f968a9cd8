//! The subcommands, one module each.

mod bridge;
mod check;
mod convert;
mod diff;
mod fold;
mod schema;

use crate::outcome::{CommandError, Outcome};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Bridge(Box<bridge::Arguments>),
    Check(check::Arguments),
    Convert(convert::Arguments),
    Diff(Box<diff::Arguments>),
    Fold(fold::Arguments),
    Schema(schema::Arguments),
}

pub(crate) fn run(command: Command) -> Result<Outcome, CommandError> {
    match command {
        Command::Bridge(arguments) => bridge::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Fold(arguments) => fold::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
    }
}
