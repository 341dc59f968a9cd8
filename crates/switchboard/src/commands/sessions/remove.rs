use switchboard_store::{Filter, Store, StoreError, Time};

use super::{moment, parse_size, size};
use crate::outcome::{CommandError, Outcome};
use crate::store_file::store_error;

/// Delete sessions
#[derive(Debug, clap::Args)]
pub(super) struct DeleteArguments {
    /// The sessions
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub(super) fn delete(store: &Store, arguments: &DeleteArguments) -> Result<Outcome, CommandError> {
    for id in &arguments.ids {
        let session = store.session(id).map_err(store_error)?;
        store.delete(&session.id).map_err(store_error)?;
        println!("{}", session.id);
    }
    store.shrink().map_err(store_error)?;
    Ok(Outcome::Fine)
}

/// Delete old sessions
///
/// Prints the ids of the sessions that it deletes. Sessions that are being written are kept.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub(super) struct PruneArguments {
    /// Those that have not changed since a date (2026-11-15) or for a length of time (12h, 30d)
    #[arg(long, value_name = "TIME", value_parser = moment, group = "what")]
    older_than: Option<Time>,

    /// The oldest ones, until the store is no larger than this (500MB, 2GB)
    #[arg(long, value_name = "SIZE", value_parser = parse_size, group = "what")]
    max_size: Option<u64>,

    /// Only say which of --older-than would go
    #[arg(long, conflicts_with = "max_size")]
    dry_run: bool,
}

pub(super) fn prune(store: &Store, arguments: &PruneArguments) -> Result<Outcome, CommandError> {
    let mut sessions = store.sessions(&Filter::default()).map_err(store_error)?;
    sessions.reverse();
    let mut deleted = 0;
    for session in sessions {
        let old = arguments.older_than.is_some_and(|limit| session.changed < limit);
        let large = match arguments.max_size {
            Some(limit) => store.sizes().map_err(store_error)?.used > limit,
            None => false,
        };
        if !old && !large {
            break;
        }
        if !arguments.dry_run {
            match store.delete(&session.id) {
                Ok(()) => deleted += 1,
                Err(error @ StoreError::SessionInUse { .. }) => {
                    eprintln!("{error}");
                    continue;
                }
                Err(error) => return Err(store_error(error)),
            }
        }
        println!("{}", session.id);
    }
    if deleted > 0 {
        store.shrink().map_err(store_error)?;
        let sizes = store.sizes().map_err(store_error)?;
        eprintln!("{deleted} sessions deleted; the store has {} now", size(sizes.file));
    }
    Ok(Outcome::Fine)
}
