//! The `switchboard` program. It owns the terminal, the configuration and the exit codes; all logic
//! that a library user would need lives in the crates below it.

mod agents;
mod arguments;
mod commands;
mod configuration;
mod ending;
mod handshake;
mod invalid_lines;
mod lines;
mod losses;
mod outbound_queue;
mod outcome;
mod policy_file;
mod recording;
mod remote_agent;
mod rules;
mod script;
mod setup;
mod standard_error;
mod stdio;
mod store_file;
mod telemetry;
mod terminal;
mod units;
mod web;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

/// Timeout for the last lines on standard error.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Any ACP agent with any ACP client, every session seen, kept and replayed.
#[derive(Debug, Parser)]
#[command(name = "switchboard", version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    ending::outlive_file_size_limit();
    let code = match commands::run(arguments.command) {
        Ok(outcome) => outcome.into(),
        Err(error) => error.report(),
    };
    standard_error::flush(ending::at_most(LAST_LINES, ending::Phase::Words));
    code
}
