//! The subcommands, one module each.

use crate::outcome::{CommandError, Outcome};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {}

pub(crate) fn run(command: Command) -> Result<Outcome, CommandError> {
    match command {}
}
