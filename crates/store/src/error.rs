use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// What a fallible call of this crate gives.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Why the store could not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file cannot be made, opened or locked.
    #[error("cannot open the store {}: {reason}", path.display())]
    Open {
        /// The store's file.
        path: PathBuf,
        /// What stands in the way.
        reason: String,
    },
    /// The file or its folder may only be read.
    #[error("the store {} cannot be written: make the file and its folder writable, or name another store", path.display())]
    ReadOnly {
        /// The store's file.
        path: PathBuf,
    },
    /// The disk, or the limit that was set for the store, is full. Nothing of the group was written.
    #[error("no room in the store {}: free some space, prune old sessions or raise the limit", path.display())]
    Full {
        /// The store's file.
        path: PathBuf,
    },
    /// The system could not write.
    #[error("cannot write: {reason}")]
    Disk {
        /// Its words.
        reason: String,
    },
    /// The file is not there any more, or another one has its name.
    #[error("the store {} was deleted or replaced while it was in use: what is recorded from here on is not in it; end this program and start it again", path.display())]
    Replaced {
        /// The store's file.
        path: PathBuf,
    },
    /// The file has nothing in it, and what was written last is in another one that is not there.
    #[error("the store {} was not closed, and its log {}-wal is missing: put the log back beside it, or remove the file to begin anew", path.display(), path.display())]
    LogMissing {
        /// The store's file.
        path: PathBuf,
    },
    /// Others used the store all the time.
    #[error("the store {} is in use: other programs write to it all the time; try again", path.display())]
    Busy {
        /// The store's file.
        path: PathBuf,
    },
    /// A newer program has made the store.
    #[error("the store {} has version {version}, and this program reads versions up to {known}: update Switchboard", path.display())]
    Newer {
        /// The store's file.
        path: PathBuf,
        /// Version of the store.
        version: i32,
        /// Newest version that this program reads.
        known: i32,
    },
    /// The file is not a store.
    #[error("{} is not a store that this program can read: {reason}", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Bytes on the disk are not those that were written.
    #[error("the store {} is damaged: {reason}; export what can be read, then delete the session", path.display())]
    Damaged {
        /// The store's file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// Somebody else writes this session.
    #[error("session {session} is being written by another recorder; close that one first")]
    SessionInUse {
        /// The session.
        session: String,
    },
    /// There is no such session.
    #[error("no session {session} in the store")]
    UnknownSession {
        /// What was asked for.
        session: String,
    },
    /// A session was deleted, and is not listed any more, but not all of its room could be given back.
    #[error(
        "session {session} is deleted, but not all of its room is given back: {reason}; the next command that writes to the store continues"
    )]
    Unfinished {
        /// The session.
        session: String,
        /// Why.
        reason: String,
    },
    /// The beginning of an id that several sessions share.
    #[error("{prefix} may be any of {} sessions; write more of the id", candidates.len())]
    AmbiguousSession {
        /// What was asked for.
        prefix: String,
        /// Ids that begin with it.
        candidates: Vec<String>,
    },
    /// A session that no hub has, so that nothing can be shared.
    #[error("session {session} is a recording and no session of a hub")]
    NotHosted {
        /// The session.
        session: String,
    },
    /// There is no such token.
    #[error("no token is called {name:?}")]
    UnknownToken {
        /// What was asked for.
        name: String,
    },
    /// There is a token of that name already.
    #[error("a token is called {name:?} already")]
    TokenTaken {
        /// The name.
        name: String,
    },
    /// No token can be called that.
    #[error(
        "{name:?} cannot be the name of a token: write up to 64 letters, digits and - _ . @ +, with a letter or a digit first"
    )]
    TokenName {
        /// The name.
        name: String,
    },
    /// An earlier append of this recorder failed, so later ones would leave a gap.
    #[error("recording of session {session} has stopped at message {sequence}: {reason}")]
    RecordingStopped {
        /// The session.
        session: String,
        /// The first message that is not in the store.
        sequence: u64,
        /// The first failure.
        reason: String,
    },
    /// A message over the limit.
    #[error("a message of {length} bytes is over the limit of {limit}")]
    TooLarge {
        /// Its length.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// A search that cannot be understood.
    #[error("the search {query:?} has no words to look for")]
    EmptySearch {
        /// The search.
        query: String,
    },
    /// Everything else that the database reports.
    #[error("the database of the store {} reports: {reason}", path.display())]
    Database {
        /// The store's file.
        path: PathBuf,
        /// Its words.
        reason: String,
    },
}

/// An error of the database in terms of the store.
pub(crate) fn database(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    let reason = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly { path },
        Some(ErrorCode::CannotOpen) => StoreError::Open { path, reason },
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged { path, reason },
        Some(ErrorCode::NotADatabase) => StoreError::NotAStore { path, reason },
        _ => StoreError::Database { path, reason },
    }
}
