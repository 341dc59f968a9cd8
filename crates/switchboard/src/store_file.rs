//! Location and opening of the store.

use std::path::{Path, PathBuf};

use switchboard_store::{Exposed, Filter, Moment, Settings, Store, StoreError};

use crate::configuration;
use crate::outcome::{CommandError, Outcome};
use crate::units;

/// The environment variable with the path of the store.
const STORE: &str = "SWITCHBOARD_STORE";
/// Maximum number of repaired sessions that are listed.
const MAX_LISTED_REPAIRS: usize = 8;

/// Returns the path of the store: as given, else from the environment variable, else in the data folder.
pub(crate) fn place(named: Option<&PathBuf>) -> Result<PathBuf, CommandError> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = named.cloned().or_else(|| variable(STORE)) {
        if path.is_dir() {
            let problem = format!("the store {} is a folder", path.display());
            let hint = format!("name a file in it, such as {}", path.join("sessions.sqlite3").display());
            return Err(CommandError::usage(problem).hint(hint));
        }
        return Ok(path);
    }
    let folder = variable("XDG_DATA_HOME")
        .filter(|folder| folder.is_absolute())
        .or_else(|| variable("HOME").map(|home| home.join(".local/share")));
    match folder {
        Some(folder) => Ok(folder.join("switchboard").join("sessions.sqlite3")),
        None => Err(CommandError::usage("cannot locate the store: HOME is not set")
            .hint(format!("name it with --store FILE or in {STORE}"))),
    }
}

/// Returns whether the store exists. An unreadable path is an error, not a missing store.
pub(crate) fn is_there(place: &Path) -> Result<bool, CommandError> {
    place
        .try_exists()
        .map_err(|error| store_error(StoreError::Open { path: place.to_owned(), reason: error.to_string() }))
}

/// Ends a command that reads a store which does not exist: an error where the user has named it, else nothing was recorded
/// yet.
pub(crate) fn nothing_recorded(named: Option<&PathBuf>, place: &Path) -> Result<Outcome, CommandError> {
    let is_named = named.is_some() || std::env::var_os(STORE).is_some_and(|value| !value.is_empty());
    if is_named {
        return Err(CommandError::usage(format!("there is no store {}", place.display()))
            .hint(format!("name an existing file with --store FILE or in {STORE}")));
    }
    eprintln!("no sessions are recorded yet; the store will be {}", place.display());
    eprintln!("  hint: switchboard run, open and serve record sessions");
    Ok(Outcome::Fine)
}

/// Creates a private folder for a temporary store.
pub(crate) fn temporary_folder() -> std::io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir()
}

/// Limits of the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Sessions without changes since then are deleted.
    pub(crate) older_than: Option<Moment>,
    /// Maximum size in bytes: the oldest sessions are deleted above it, and writes above it fail.
    pub(crate) max_bytes: Option<u64>,
}

/// Reads the store settings of the user's configuration: `{"store": {"keep": "90d", "max_size": "2GB"}}`.
/// Invalid settings are reported.
pub(crate) fn limits() -> Limits {
    let (limits, problems) = read_limits();
    for problem in problems {
        eprintln!("switchboard: {problem}");
    }
    limits
}

/// Returns what is wrong with the limits in the user's configuration.
pub(crate) fn limit_problems() -> Vec<String> {
    read_limits().1
}

fn read_limits() -> (Limits, Vec<String>) {
    let (mut limits, mut problems) = (Limits::default(), Vec::new());
    let Some(settings) = configuration::own_settings("store") else { return (limits, problems) };
    let Some(settings) = settings.as_object() else {
        problems.push(format!("the setting store: expected an object, found {settings}"));
        return (limits, problems);
    };
    for (key, value) in settings {
        let text = value.as_str().ok_or_else(|| format!("expected a text, found {value}"));
        let taken = match &**key {
            "keep" => text.and_then(units::moment).map(|age| limits.older_than = Some(age)),
            "max_size" => text.and_then(units::parse_size).map(|size| limits.max_bytes = Some(size)),
            _ => Err("unknown setting".to_owned()),
        };
        if let Err(problem) = taken {
            problems.push(format!("the setting store.{key}: {problem}"));
        }
    }
    (limits, problems)
}

/// Deletes sessions above the limits, oldest first, or only lists them. Each deleted session is passed to the
/// callback. Sessions that are being recorded are kept.
pub(crate) fn prune(
    store: &Store,
    limits: &Limits,
    is_dry: bool,
    tell: impl FnMut(&str),
) -> Result<(), CommandError> {
    prune_by(store, limits, tell, |id| if is_dry { Ok(true) } else { delete(store, id) })
}

/// Deletes sessions above the limits of the configuration with a given function, with space for new data.
/// Returns their number. The function returns whether the session was deleted: it may be in use.
pub(crate) fn prune_for_more(
    store: &Store,
    delete: impl FnMut(&str) -> Result<bool, CommandError>,
) -> Result<usize, CommandError> {
    let limits = limits();
    let room = Limits { max_bytes: limits.max_bytes.map(|limit| limit / 10 * 9), ..limits };
    let mut deleted = 0;
    prune_by(store, &room, |_| deleted += 1, delete)?;
    Ok(deleted)
}

fn prune_by(
    store: &Store,
    limits: &Limits,
    mut tell: impl FnMut(&str),
    mut delete: impl FnMut(&str) -> Result<bool, CommandError>,
) -> Result<(), CommandError> {
    if *limits == Limits::default() {
        return Ok(());
    }
    let mut sessions = store.sessions(&Filter::default()).map_err(store_error)?;
    sessions.reverse();
    let is_over = |limit: u64| store.used().map(|used| used > limit).map_err(store_error);
    for session in sessions {
        let is_old = limits.older_than.is_some_and(|limit| session.changed < limit);
        let is_too_much = match limits.max_bytes.filter(|_| !is_old) {
            // Index data of deleted sessions must not cause the deletion of another session.
            Some(limit) if is_over(limit)? => {
                store.clean_index().map_err(store_error)?;
                is_over(limit)?
            }
            _ => false,
        };
        if !is_old && !is_too_much {
            break;
        }
        let is_recording = match store.is_recording(&session.id) {
            Err(StoreError::UnknownSession { .. }) => continue,
            is_recording => is_recording.map_err(store_error)?,
        };
        if !is_recording && delete(&session.id)? {
            tell(&session.id);
        } else {
            eprintln!("session {} is being recorded and was kept", session.id);
        }
    }
    Ok(())
}

fn delete(store: &Store, id: &str) -> Result<bool, CommandError> {
    match store.delete(id) {
        Ok(()) => Ok(true),
        Err(error @ StoreError::Unfinished { .. }) => {
            eprintln!("switchboard: {error}");
            Ok(true)
        }
        // Another program was faster.
        Err(StoreError::UnknownSession { .. }) => Ok(true),
        Err(StoreError::SessionInUse { .. }) => Ok(false),
        Err(error) => Err(store_error(error)),
    }
}

/// Opens the store of a hub: sessions above the limits are deleted first, and the oldest inactive sessions
/// are deleted for space while it runs.
pub(crate) fn open_for_hub(place: PathBuf) -> Result<Store, CommandError> {
    let store = open_within(place, &limits(), true)?;
    prune_old(&store)?;
    Ok(store)
}

/// Opens the store for deleting sessions. No limit applies, so that a full store can be made smaller.
pub(crate) fn open_to_delete(place: PathBuf) -> Result<Store, CommandError> {
    open_within(place, &Limits::default(), false)
}

/// Opens the store for recording: sessions above the limits are deleted first.
pub(crate) fn open_to_record(place: PathBuf) -> Result<Store, CommandError> {
    let store = open(place)?;
    prune_old(&store)?;
    Ok(store)
}

fn prune_old(store: &Store) -> Result<(), CommandError> {
    let deleted = prune_for_more(store, |id| delete(store, id))?;
    if deleted > 0 {
        eprintln!("switchboard: deleted {deleted} old sessions according to the store settings");
    }
    Ok(())
}

/// Reports damage of the store's log on standard error.
pub(crate) fn report_log_damage(store: &Store) -> Outcome {
    match store.log_damage() {
        Some(damage) => {
            eprintln!("switchboard: {damage}");
            Outcome::Problems
        }
        None => Outcome::Fine,
    }
}

/// Returns the number of a record as people see it: the first record of a session is 1, as the first line of a file is.
pub(crate) fn message_number(sequence: u64) -> u64 {
    sequence.saturating_add(1)
}

/// Returns which records are missing, and why. `to` is the record after the gap.
pub(crate) fn gap_in_words(from: u64, to: u64, reason: &str) -> String {
    format!("records {} to {}: {reason}", message_number(from), to.max(message_number(from)))
}

/// Reports unreadable records of a session, or of all sessions, on standard error.
pub(crate) fn report_gaps(store: &Store, id: Option<&str>) -> Result<Outcome, CommandError> {
    let mut outcome = Outcome::Fine;
    for gap in store.gaps(id).map_err(store_error)? {
        outcome = Outcome::Problems;
        eprintln!("session {}: {}", gap.session, gap_in_words(gap.from, gap.to, &gap.reason));
    }
    Ok(outcome)
}

/// Reports kept damaged files on standard error.
pub(crate) fn report_kept_files(store: &Store) -> Result<(), CommandError> {
    let kept = store.kept_files().map_err(store_error)?;
    if let Some(folder) = kept.first().and_then(|file| file.parent()) {
        let (files, them) = match kept.len() {
            1 => ("1 damaged file".to_owned(), "it"),
            count => (format!("{count} damaged files"), "them"),
        };
        eprintln!(
            "switchboard: kept {files} of the store in {}; remove {them} when no longer needed",
            folder.display()
        );
    }
    Ok(())
}

/// Opens the store for writing, and reports repairs.
pub(crate) fn open(place: PathBuf) -> Result<Store, CommandError> {
    open_within(place, &limits(), false)
}

fn open_within(place: PathBuf, limits: &Limits, makes_room: bool) -> Result<Store, CommandError> {
    // Only a folder with our name is ours: the store may be in a shared one.
    let owns_folder = place.parent().and_then(Path::file_name).is_some_and(|name| name == "switchboard");
    let settings = Settings { max_bytes: limits.max_bytes, makes_room, owns_folder };
    let store = Store::open_with(place, &settings).map_err(store_error)?;
    report_log_damage(&store);
    for Exposed { path, mode, problem } in store.exposed() {
        let path = path.display();
        match problem {
            None => eprintln!(
                "switchboard: other users could read {path} (permissions {mode:03o}); now only you can"
            ),
            Some(problem) => eprintln!(
                "switchboard: other users can read {path} (permissions {mode:03o}), and changing that failed: {problem}"
            ),
        }
    }
    let repairs = store.repairs();
    if repairs.len() > MAX_LISTED_REPAIRS && repairs.iter().all(|repair| repair.problem.is_none()) {
        let count = repairs.len();
        eprintln!("{count} sessions: their recordings were cut off; they are put in order in the background");
        return Ok(store);
    }
    for repair in repairs {
        match &repair.problem {
            None => eprintln!(
                "session {}: its recording was cut off; its last {} records are in order again",
                repair.session, repair.records
            ),
            Some(problem) => eprintln!("session {}: {problem}", repair.session),
        }
        for file in &repair.damaged {
            eprintln!(
                "session {}: its journal is damaged, and records are missing; the damaged file is kept as {}",
                repair.session,
                file.display()
            );
        }
    }
    Ok(store)
}

// Taken by value for use with `map_err`.
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
        StoreError::EmptySearch { .. } | StoreError::TokenName { .. } => {
            CommandError::usage(error.to_string())
        }
        _ => CommandError::failed(error.to_string()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::{open_within, temporary_folder};

    #[test]
    fn a_store_that_is_not_kept_is_for_nobody_else_either() {
        let folder = temporary_folder().unwrap();
        let store =
            open_within(folder.path().join("sessions.sqlite3"), &super::Limits::default(), false).unwrap();
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(folder.path()), mode(store.path())), (0o700, 0o600));
    }
}
