//! The subcommands, one module each.

mod agents;
mod bridge;
mod check;
mod completions;
mod conform;
mod connect;
mod convert;
mod demo_agent;
mod diff;
mod doctor;
mod fold;
mod hub;
mod log_place;
mod open;
pub(crate) mod policy;
#[cfg(test)]
#[path = "../tests/readers/mod.rs"]
// Tests pass `json!` values to small functions; a reference would only be noise.
#[allow(clippy::unwrap_used, clippy::needless_pass_by_value)]
mod readers;
mod run;
mod schema;
pub(crate) mod serve;
mod sessions;
mod setup;
mod tokens;

use crate::outcome::{CommandError, Outcome};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Agents(agents::Arguments),
    Bridge(Box<bridge::Arguments>),
    Check(check::Arguments),
    Completions(completions::Arguments),
    Conform(Box<conform::Arguments>),
    Connect(connect::Arguments),
    Convert(convert::Arguments),
    DemoAgent(demo_agent::Arguments),
    Diff(Box<diff::Arguments>),
    Doctor(doctor::Arguments),
    Fold(fold::Arguments),
    Hub(hub::Arguments),
    Man(completions::ManArguments),
    Open(open::Arguments),
    Policy(policy::Arguments),
    Run(run::Arguments),
    Schema(schema::Arguments),
    Serve(Box<serve::Arguments>),
    Sessions(sessions::Arguments),
    Setup(setup::Arguments),
    Tokens(tokens::Arguments),
}

pub(crate) fn run(command: Command) -> Result<Outcome, CommandError> {
    match command {
        Command::Agents(arguments) => agents::run(&arguments),
        Command::Bridge(arguments) => bridge::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Conform(arguments) => conform::run(&arguments),
        Command::Connect(arguments) => connect::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::DemoAgent(arguments) => demo_agent::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Fold(arguments) => fold::run(&arguments),
        Command::Hub(arguments) => hub::run(&arguments),
        Command::Man(arguments) => completions::write_manual(&arguments),
        Command::Open(arguments) => open::run(&arguments),
        Command::Policy(arguments) => policy::run(&arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Sessions(arguments) => sessions::run(&arguments),
        Command::Setup(arguments) => setup::run(&arguments),
        Command::Tokens(arguments) => tokens::run(&arguments),
    }
}
