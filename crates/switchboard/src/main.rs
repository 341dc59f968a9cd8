//! The `switchboard` program. It owns the terminal, the configuration and the exit codes; all logic
//! that a library user would need lives in the crates below it.

mod agents;
mod arguments;
mod commands;
mod configuration;
mod ending;
mod handshake;
mod invalid_lines;
mod launcher;
mod lines;
mod losses;
mod outbound_queue;
mod outcome;
mod policy_file;
mod recording;
mod remote_agent;
mod rules;
mod sandbox;
mod setup;
mod standard_error;
mod stdio;
mod store_file;
mod telemetry;
mod terminal;
mod units;
mod version;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser};

/// Timeout for the last lines on standard error.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Any ACP agent with any ACP client, every session seen, kept and replayed.
#[derive(Debug, Parser)]
#[command(name = "switchboard", version, about, max_term_width = 100)]
#[command(
    after_help = "`--version --json` prints version, commit, target, features and how this program was installed."
)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    // Before anything else: it must not inherit or open anything.
    if let Some(arguments) = sandbox::init_arguments() {
        return sandbox::init(&arguments);
    }
    launcher::follow();
    if version::is_asked_as_json(std::env::args_os().skip(1)) {
        println!("{}", version::as_json());
        return ExitCode::SUCCESS;
    }
    let matches = commands::with_grouped_help(Arguments::command()).get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    ending::outlive_file_size_limit();
    let code = match commands::run(arguments.command) {
        Ok(outcome) => outcome.into(),
        Err(error) => error.report(),
    };
    standard_error::flush(ending::at_most(LAST_LINES, ending::Phase::Words));
    code
}
