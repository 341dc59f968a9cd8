//! The subcommands, one module each.

mod check;
mod convert;
mod schema;

use crate::outcome::{CommandError, Outcome};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Check(check::Arguments),
    Convert(convert::Arguments),
    Schema(schema::Arguments),
}

pub(crate) fn run(command: Command) -> Result<Outcome, CommandError> {
    match command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
    }
}
