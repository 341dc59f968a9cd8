//! `switchboard sessions`: operations on the store.

pub(crate) mod exchange;
mod list;
mod remove;
pub(crate) mod replay;
mod search;
pub(crate) mod show;
mod stats;
mod version_2;

use std::cell::Cell;
use std::path::PathBuf;

use switchboard_store::Store;

use crate::outcome::{CommandError, Outcome};
use crate::store_file::{self, store_error};

/// List, show, search, export and import recorded sessions
///
/// If records cannot be read because a file is damaged, standard error names them, everything else is read,
/// and the exit code is 1.
///
/// A session is named by its id, a unique prefix of it, or the id that the agent gave it, which selects the
/// latest recording with it. The store is the file in --store, else in the environment variable
/// SWITCHBOARD_STORE, else switchboard/sessions.sqlite3 in the data folder ($XDG_DATA_HOME or
/// ~/.local/share).
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    switchboard sessions import recording.jsonl && switchboard sessions search 'cargo build'")]
pub(crate) struct Arguments {
    /// Path of the store
    #[arg(long, value_name = "FILE", global = true)]
    store: Option<PathBuf>,

    #[command(subcommand)]
    command: SessionsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SessionsCommand {
    List(list::Arguments),
    Show(show::Arguments),
    Search(search::Arguments),
    Export(exchange::ExportArguments),
    Import(exchange::ImportArguments),
    Replay(replay::Arguments),
    Delete(remove::DeleteArguments),
    Prune(remove::PruneArguments),
    Stats(stats::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let place = store_file::place(arguments.store.as_ref())?;
    let looks = |command: &SessionsCommand| {
        matches!(command, SessionsCommand::List(_) | SessionsCommand::Search(_) | SessionsCommand::Stats(_))
    };
    if looks(&arguments.command) && !store_file::is_there(&place)? {
        return store_file::nothing_recorded(arguments.store.as_ref(), &place);
    }
    let damage = Cell::new(Outcome::Fine);
    let read = || {
        let store = Store::open_read_only(&place).map_err(store_error)?;
        damage.set(store_file::report_log_damage(&store));
        Ok(store)
    };
    let write = || store_file::open(place.clone());
    let delete = || store_file::open_to_delete(place.clone());
    // Readable records are shown; the exit code tells that some are missing.
    let outcome = run_with(arguments, read, write, delete)?;
    Ok(if outcome == Outcome::Fine { damage.get() } else { outcome })
}

fn run_with(
    arguments: &Arguments,
    read: impl Fn() -> Result<Store, CommandError>,
    write: impl Fn() -> Result<Store, CommandError>,
    delete: impl Fn() -> Result<Store, CommandError>,
) -> Result<Outcome, CommandError> {
    match &arguments.command {
        SessionsCommand::List(arguments) => list::run(&read()?, arguments),
        SessionsCommand::Show(arguments) => show::run(&read()?, arguments),
        SessionsCommand::Search(arguments) => search::run(&read()?, arguments),
        SessionsCommand::Export(arguments) => exchange::export(&read()?, arguments),
        SessionsCommand::Import(arguments) => exchange::import(&write()?, arguments),
        SessionsCommand::Replay(arguments) => replay::run(read, arguments),
        SessionsCommand::Delete(arguments) => remove::delete(&delete()?, arguments),
        SessionsCommand::Prune(arguments) => remove::prune(&delete()?, arguments),
        SessionsCommand::Stats(arguments) => stats::run(&read()?, arguments),
    }
}
