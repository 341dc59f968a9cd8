use std::path::PathBuf;

use switchboard_store::{Role, Store, StoreError};

use crate::commands::tokens::{existing, unknown_token};
use crate::outcome::{CommandError, Outcome};
use crate::store_file;

/// Let a token see a session
///
/// A token with the role view or answer sees the sessions that are shared with it. A token with the role use
/// also controls them, and those that it started. A token of `tokens add --all` or with the role admin sees
/// all sessions. A running hub applies the change at once.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Session id, or a unique prefix of it
    session: String,

    /// Name of the token
    name: String,

    /// Path of the store
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

/// Stop sharing a session
#[derive(Debug, clap::Args)]
pub(super) struct UnshareArguments {
    #[command(flatten)]
    both: Arguments,
}

pub(super) fn share(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let Arguments { session, name, store } = arguments;
    let store = existing(&store_file::place(store.as_ref())?)?;
    if !store.share(session, name).map_err(|error| explained(&store, error))? {
        eprintln!("it was shared with {name} before");
    }
    if sees_all(&store, name) {
        eprintln!("{name} sees all sessions in any case");
    }
    Ok(Outcome::Fine)
}

pub(super) fn unshare(arguments: &UnshareArguments) -> Result<Outcome, CommandError> {
    let Arguments { session, name, store } = &arguments.both;
    let store = existing(&store_file::place(store.as_ref())?)?;
    if !store.unshare(session, name).map_err(|error| explained(&store, error))? {
        eprintln!("it was not shared with {name}");
    }
    if sees_all(&store, name) {
        eprintln!(
            "{name} still sees it, because it sees all sessions; `switchboard tokens revoke` ends that"
        );
    }
    Ok(Outcome::Fine)
}

fn sees_all(store: &Store, name: &str) -> bool {
    let tokens = store.tokens().unwrap_or_default();
    tokens.iter().any(|token| token.name == name && (token.all || token.role == Role::Admin))
}

fn explained(store: &Store, error: StoreError) -> CommandError {
    match error {
        StoreError::NotHosted { .. } => {
            CommandError::usage(error.to_string()).hint("only sessions of `switchboard serve` can be shared")
        }
        other => unknown_token(store, other),
    }
}
