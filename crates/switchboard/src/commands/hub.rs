//! `switchboard hub`: operations on a running hub.

mod notify;
mod rebuild;
mod share;
pub(super) mod status;

use crate::outcome::{CommandError, Outcome};

/// Share sessions of a hub, show its status and test its notifications
///
/// `switchboard serve` runs the hub; `switchboard tokens` manages access to it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    switchboard hub share 20261115-041843-0a1b2c phone   # the token \"phone\" sees that session\n  \
    switchboard hub unshare 20261115-041843-0a1b2c phone\n  \
    switchboard hub status --token-file ~/.switchboard-token\n  \
    switchboard hub notify --test                        # sends one notification to each target")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: HubCommand,
}

#[derive(Debug, clap::Subcommand)]
enum HubCommand {
    Share(share::Arguments),
    Unshare(share::UnshareArguments),
    Status(status::Arguments),
    Notify(notify::Arguments),
    #[command(hide = !switchboard_hub::HAS_JETSTREAM)]
    Rebuild(rebuild::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    match &arguments.command {
        HubCommand::Share(arguments) => share::share(arguments),
        HubCommand::Unshare(arguments) => share::unshare(arguments),
        HubCommand::Status(arguments) => status::run(arguments),
        HubCommand::Notify(arguments) => notify::run(arguments),
        HubCommand::Rebuild(arguments) => rebuild::run(arguments),
    }
}
