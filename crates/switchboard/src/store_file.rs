//! Which file the store is, and how it is opened.

use std::path::PathBuf;

use switchboard_store::{Store, StoreError};

use crate::outcome::CommandError;

/// The environment variable that names the store.
const STORE: &str = "SWITCHBOARD_STORE";

/// Where the store is: as named, else by the environment variable, else in the folder for data.
pub(crate) fn place(named: Option<&PathBuf>) -> Result<PathBuf, CommandError> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = named.cloned().or_else(|| variable(STORE)) {
        return Ok(path);
    }
    let folder = variable("XDG_DATA_HOME")
        .filter(|folder| folder.is_absolute())
        .or_else(|| variable("HOME").map(|home| home.join(".local/share")));
    match folder {
        Some(folder) => Ok(folder.join("switchboard/sessions.sqlite3")),
        None => Err(CommandError::usage("cannot tell where the store is: HOME is not set")
            .hint(format!("name it with --store FILE or in {STORE}"))),
    }
}

/// Opens the store for writing, and says what that put in order.
pub(crate) fn open(place: PathBuf) -> Result<Store, CommandError> {
    let store = Store::open(place).map_err(store_error)?;
    for repair in store.repairs() {
        match &repair.problem {
            None => eprintln!(
                "session {}: its recording was cut off; its last {} records are in order again",
                repair.session, repair.records
            ),
            Some(problem) => eprintln!("session {}: {problem}", repair.session),
        }
    }
    Ok(store)
}

// Taken by value because that is how `map_err` hands it over.
#[allow(clippy::needless_pass_by_value)]
pub(crate) fn store_error(error: StoreError) -> CommandError {
    match &error {
        StoreError::UnknownSession { .. } => {
            CommandError::usage(error.to_string()).hint("switchboard sessions list shows all of them")
        }
        StoreError::AmbiguousSession { candidates, .. } => {
            CommandError::usage(error.to_string()).hint(format!("they are {}", candidates.join(", ")))
        }
        StoreError::Open { .. } | StoreError::NotAStore { .. } => CommandError::usage(error.to_string())
            .hint(format!("name another one with --store FILE or in {STORE}")),
        StoreError::EmptySearch { .. } => CommandError::usage(error.to_string()),
        _ => CommandError::failed(error.to_string()),
    }
}
