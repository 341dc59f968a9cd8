use switchboard_store::{Moment, Store, StoreError};

use crate::outcome::{CommandError, Outcome};
use crate::store_file::{self, Limits, store_error};
use crate::units::{moment, parse_size, size};

/// Delete sessions by their ids in the store
#[derive(Debug, clap::Args)]
pub(super) struct DeleteArguments {
    /// Session ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub(super) fn delete(store: &Store, arguments: &DeleteArguments) -> Result<Outcome, CommandError> {
    let before = store.sizes().map_err(store_error)?.file;
    let mut count = 0;
    let deleted = delete_all(store, &arguments.ids, &mut count);
    // Successful deletions stay, even if others fail.
    let given_back = if count > 0 { give_back(store, before) } else { Ok(()) };
    deleted.and(given_back).map(|()| Outcome::Fine)
}

/// Deletes sessions and prints their ids. `count` is the number of deleted ones, also if another one fails.
fn delete_all(store: &Store, ids: &[String], count: &mut usize) -> Result<(), CommandError> {
    let mut unfinished = Ok(());
    for id in ids {
        let session = store.session(id).map_err(store_error)?;
        // Several recordings may have an agent's id, and only one of them would be deleted.
        if !session.id.starts_with(id.as_str()) {
            return Err(CommandError::usage(format!("{id} is the agent's id of a session"))
                .hint(format!("the latest recording that has it is {}", session.id)));
        }
        match store.delete(&session.id) {
            Ok(()) => {
                *count += 1;
                println!("{}", session.id);
            }
            // It is deleted, as requested.
            Err(error @ StoreError::Unfinished { .. }) => {
                *count += 1;
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
/// Prints the ids of the deleted sessions. Sessions that are being recorded are kept. Without arguments it
/// applies the limits of the configuration (see docs/store.md), like the start of a recording. It also
/// completes the search index.
#[derive(Debug, clap::Args)]
pub(super) struct PruneArguments {
    /// Delete sessions without changes since a date (2026-11-15) or for a duration (12h, 30d)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    older_than: Option<Moment>,

    /// Delete the oldest sessions until the store is at most this large (500MB, 2GB)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,

    /// Only print the sessions that --older-than would delete
    #[arg(long, requires = "older_than", conflicts_with = "max_size")]
    dry_run: bool,
}

pub(super) fn prune(store: &Store, arguments: &PruneArguments) -> Result<Outcome, CommandError> {
    let mut limits = Limits { older_than: arguments.older_than, max_bytes: arguments.max_size };
    if limits == Limits::default() {
        limits = store_file::limits();
        if limits == Limits::default() {
            return Err(CommandError::usage("nothing to delete was specified").hint(
                "use --older-than or --max-size, or set store.keep or store.max_size in the configuration",
            ));
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
    // Successful deletions stay, even if later steps fail.
    let given_back = if deleted > 0 { give_back(store, before.file) } else { Ok(()) };
    pruned?;
    given_back?;
    // Completes work that recordings have left over.
    store.catch_up().map_err(|error| {
        CommandError::failed(format!(
            "deleted {deleted} sessions, but the search index is incomplete: {error}"
        ))
    })?;
    Ok(Outcome::Fine)
}

/// Shrinks the store after deletions, and reports the result.
fn give_back(store: &Store, before: u64) -> Result<(), CommandError> {
    let shrunk = store.shrink();
    let sizes = store.sizes().map_err(store_error)?;
    let free = sizes.file.saturating_sub(sizes.used);
    eprintln!(
        "the store is {} now, {} less than before{}",
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
            "the sessions were deleted, but not all of their space was freed: {error}"
        ))
    })
}
