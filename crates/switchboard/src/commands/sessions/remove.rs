use switchboard_store::{Moment, Store, StoreError};

use crate::outcome::{CommandError, Outcome};
use crate::store_file::{self, Limits, store_error};
use crate::units::{moment, parse_size, size};

/// Delete sessions, by their ids in the store
#[derive(Debug, clap::Args)]
pub(super) struct DeleteArguments {
    /// The sessions
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub(super) fn delete(store: &Store, arguments: &DeleteArguments) -> Result<Outcome, CommandError> {
    let before = store.sizes().map_err(store_error)?.file;
    let deleted = delete_all(store, &arguments.ids);
    // What was deleted is, whatever became of the others.
    let given_back = give_back(store, before);
    deleted.and(given_back).map(|()| Outcome::Fine)
}

fn delete_all(store: &Store, ids: &[String]) -> Result<(), CommandError> {
    let mut unfinished = Ok(());
    for id in ids {
        let session = store.session(id).map_err(store_error)?;
        // Several recordings may have the id that an agent gave, and only one of them would go.
        if !session.id.starts_with(id.as_str()) {
            return Err(CommandError::usage(format!("{id} is the agent's id of a session"))
                .hint(format!("the latest recording that has it is {}", session.id)));
        }
        match store.delete(&session.id) {
            Ok(()) => println!("{}", session.id),
            // It is gone, which is what was asked for.
            Err(error @ StoreError::Unfinished { .. }) => {
                println!("{}", session.id);
                unfinished = Err(store_error(error));
            }
            Err(error) => return Err(store_error(error)),
        }
    }
    unfinished
}

/// Delete old sessions
///
/// Prints the ids of the sessions that it deletes. Sessions that are being written are kept. Without arguments it does
/// what the configuration says (see docs/store.md), as recording does when it begins. It also makes searchable what
/// recordings have left to do.
#[derive(Debug, clap::Args)]
pub(super) struct PruneArguments {
    /// Those that have not changed since a date (2026-11-15) or for a length of time (12h, 30d)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    older_than: Option<Moment>,

    /// The oldest ones, until the store is no larger than this (500MB, 2GB)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,

    /// Only say which of --older-than would go
    #[arg(long, requires = "older_than", conflicts_with = "max_size")]
    dry_run: bool,
}

pub(super) fn prune(store: &Store, arguments: &PruneArguments) -> Result<Outcome, CommandError> {
    let mut limits = Limits { older_than: arguments.older_than, max_bytes: arguments.max_size };
    if limits == Limits::default() {
        limits = store_file::limits();
        if limits == Limits::default() {
            return Err(CommandError::usage("what is to be deleted?")
                .hint("say it with --older-than or --max-size, or in the configuration"));
        }
    }
    let (mut deleted, before) = (0, store.sizes().map_err(store_error)?);
    let pruned = store_file::prune(store, &limits, arguments.dry_run, |session| {
        deleted += 1;
        println!("{session}");
    });
    if arguments.dry_run {
        return pruned.map(|()| Outcome::Fine);
    }
    // What was deleted is, whatever comes then.
    let given_back = if deleted > 0 { give_back(store, before.file) } else { Ok(()) };
    pruned?;
    given_back?;
    // The time for everything that recordings have left to do.
    store.catch_up().map_err(|error| {
        CommandError::failed(format!(
            "{deleted} sessions are deleted, but not everything can be searched yet: {error}"
        ))
    })?;
    Ok(Outcome::Fine)
}

/// Gives the room of deleted sessions back, and tells what has become of it.
fn give_back(store: &Store, before: u64) -> Result<(), CommandError> {
    let shrunk = store.shrink();
    let sizes = store.sizes().map_err(store_error)?;
    let free = sizes.file.saturating_sub(sizes.used);
    eprintln!(
        "the store has {} now, {} less than before{}",
        size(sizes.file),
        size(before.saturating_sub(sizes.file)),
        if free > 0 {
            format!("; {} of it are free for later recordings", size(free))
        } else {
            String::new()
        }
    );
    shrunk.map_err(|error| {
        CommandError::failed(format!(
            "the sessions are deleted, but not all of their room is given back: {error}"
        ))
    })
}
