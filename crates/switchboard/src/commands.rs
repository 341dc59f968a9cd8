//! The subcommands, one module each.

mod agents;
mod check;
mod demo_agent;
mod run;
mod diff;
mod fold;
mod schema;

use crate::outcome::{CommandError, Outcome};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Agents(agents::Arguments),
    Check(check::Arguments),
    DemoAgent(demo_agent::Arguments),
    Run(run::Arguments),
    Diff(Box<diff::Arguments>),
    Fold(fold::Arguments),
    Schema(schema::Arguments),
}

pub(crate) fn run(command: Command) -> Result<Outcome, CommandError> {
    match command {
        Command::Agents(arguments) => agents::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::DemoAgent(arguments) => demo_agent::run(&arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Fold(arguments) => fold::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
    }
}
