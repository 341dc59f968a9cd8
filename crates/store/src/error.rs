use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Result of a fallible call of this crate.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Error of a store operation.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file cannot be created, opened or locked.
    #[error("cannot open the store {}: {reason}", path.display())]
    Open {
        /// Path of the store.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// The file or its folder is read-only.
    #[error("store {} is read-only; make the file and its folder writable, or use another store", path.display())]
    ReadOnly {
        /// Path of the store.
        path: PathBuf,
    },
    /// The disk is full, or the size limit of the store is reached. No part of the group was written.
    #[error("store is full ({}); free disk space, delete old sessions (switchboard sessions prune) or raise store.max_size", path.display())]
    Full {
        /// Path of the store.
        path: PathBuf,
    },
    /// The operating system failed to write.
    #[error("cannot write to the store: {reason}")]
    Disk {
        /// Message of the operating system.
        reason: String,
    },
    /// The file was removed, or another file has its name.
    #[error("store {} was deleted or replaced while in use; new records are not stored in it; restart this program", path.display())]
    Replaced {
        /// Path of the store.
        path: PathBuf,
    },
    /// The file is empty, and the write-ahead log with the last transactions is missing.
    #[error("store {} was not closed properly and its log {}-wal is missing; restore the log, or remove the store to start a new one", path.display(), path.display())]
    LogMissing {
        /// Path of the store.
        path: PathBuf,
    },
    /// Other processes kept the store locked.
    #[error("store {} is locked by other processes; try again", path.display())]
    Busy {
        /// Path of the store.
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
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// The bytes on disk do not match their checksum.
    #[error("store {} is damaged: {reason}; export the readable records, then delete the session", path.display())]
    Damaged {
        /// Path of the store.
        path: PathBuf,
        /// Mismatch found.
        reason: String,
    },
    /// Another recorder writes this session.
    #[error("session {session} is being recorded by another process; end that recording first")]
    SessionInUse {
        /// Id of the session.
        session: String,
    },
    /// No session has this id.
    #[error("no session {session} in the store")]
    UnknownSession {
        /// The id, prefix or wire id given.
        session: String,
    },
    /// The session is deleted and no longer listed, but not all of its space was freed.
    #[error(
        "session {session} is deleted, but not all of its space is freed: {reason}; the next command that writes to the store continues"
    )]
    Unfinished {
        /// Id of the session.
        session: String,
        /// Reason.
        reason: String,
    },
    /// Several sessions have ids with this prefix.
    #[error("session id prefix {prefix:?} is ambiguous ({} matches); type more characters", candidates.len())]
    AmbiguousSession {
        /// The prefix given.
        prefix: String,
        /// Ids with this prefix.
        candidates: Vec<String>,
    },
    /// The session does not belong to a hub, so it cannot be shared.
    #[error("session {session} is not a session of a hub and cannot be shared")]
    NotHosted {
        /// Id of the session.
        session: String,
    },
    /// No token has this name.
    #[error("no token {name:?}")]
    UnknownToken {
        /// The name given.
        name: String,
    },
    /// A token with this name already exists.
    #[error("token {name:?} already exists")]
    TokenTaken {
        /// The name.
        name: String,
    },
    /// The name is not valid for a token.
    #[error(
        "invalid token name {name:?}: use up to 64 letters, digits and - _ . @ +, starting with a letter or a digit"
    )]
    TokenName {
        /// The name.
        name: String,
    },
    /// An earlier append of this recorder failed, so later ones would leave a gap.
    #[error("recording of session {session} stopped at message {sequence}: {reason}")]
    RecordingStopped {
        /// Id of the session.
        session: String,
        /// Sequence number of the first record that is not in the store.
        sequence: u64,
        /// The first failure.
        reason: String,
    },
    /// The message exceeds the limit.
    #[error("message of {length} bytes exceeds the limit of {limit} bytes")]
    TooLarge {
        /// Length in bytes.
        length: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// The search query contains no words.
    #[error("search query {query:?} contains no words")]
    EmptySearch {
        /// The query.
        query: String,
    },
    /// Any other error of the database.
    #[error("database error in store {}: {reason}", path.display())]
    Database {
        /// Path of the store.
        path: PathBuf,
        /// Message of the database.
        reason: String,
    },
}

/// Converts a database error to a store error.
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
