//! `switchboard agents`.

mod change;
mod install;
mod list;
mod lock;
mod update;

use crate::outcome::{CommandError, Outcome};

/// List the configured, installed and known agents; add and remove agents
///
/// Configured agents are in switchboard/config.json in the configuration folder, in .switchboard.json in the
/// project and the folders above it, in Zed's settings, ~/.jetbrains/acp.json and acpx's configuration. If
/// two agents have the same name, the first is used. Known agents are in the built-in table and in the
/// registry that `agents update` downloads; an installed one runs by its name.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    switchboard agents                          # list all agents\n  \
    switchboard agents add mine -- my-agent --acp\n  \
    switchboard agents add codex --env OPENAI_API_KEY=...\n  \
    switchboard agents remove mine\n  \
    switchboard agents install codex            # starts without the network\n  \
    switchboard agents update codex             # to the newest version\n  \
    switchboard agents lock > agents.lock       # the versions of a team, with all dependencies\n  \
    switchboard agents install --locked agents.lock\n  \
    switchboard agents update                   # download the registry")]
pub(crate) struct Arguments {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,

    #[command(subcommand)]
    command: Option<AgentsCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum AgentsCommand {
    Add(change::AddArguments),
    Install(install::Arguments),
    List(list::Arguments),
    Lock(lock::Arguments),
    Remove(change::RemoveArguments),
    Update(update::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    match &arguments.command {
        None => list::run(arguments.json),
        Some(AgentsCommand::Add(arguments)) => change::add(arguments),
        Some(AgentsCommand::Install(arguments)) => install::run(arguments),
        Some(AgentsCommand::List(listed)) => list::run(arguments.json || listed.json),
        Some(AgentsCommand::Lock(arguments)) => lock::run(arguments),
        Some(AgentsCommand::Remove(arguments)) => change::remove(arguments),
        Some(AgentsCommand::Update(arguments)) => update::run(arguments),
    }
}
