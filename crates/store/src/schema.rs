//! The tables, and how a connection to them is opened.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::error::{Result, StoreError, database};

/// "SwBd": tells a store from any other database.
const APPLICATION: i32 = 0x5377_4264;
const VERSION: i32 = 1;

/// Another process may hold the file for one group of messages, a compaction or the removal of a long session.
const BUSY: Duration = Duration::from_secs(30);

const TABLES: &str = "
    CREATE TABLE sessions (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        agent TEXT, client TEXT, project TEXT, title TEXT,
        titled INTEGER NOT NULL DEFAULT 0,
        protocol INTEGER NOT NULL DEFAULT 0,
        began INTEGER NOT NULL, changed INTEGER NOT NULL,
        length INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL DEFAULT 0,
        closed INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX sessions_by_change ON sessions (changed);

    CREATE TABLE wire_ids (
        session INTEGER NOT NULL, place INTEGER NOT NULL, id TEXT NOT NULL,
        PRIMARY KEY (session, id)
    ) WITHOUT ROWID;
    CREATE INDEX wire_ids_by_id ON wire_ids (id);

    -- Records that are durable but not yet in a block.
    CREATE TABLE recent (
        session INTEGER NOT NULL, sequence INTEGER NOT NULL,
        time INTEGER NOT NULL, channel INTEGER NOT NULL, peer TEXT NOT NULL, protocol INTEGER NOT NULL,
        digest INTEGER NOT NULL, bytes BLOB NOT NULL,
        PRIMARY KEY (session, sequence)
    ) WITHOUT ROWID;

    -- Runs of records, compressed together.
    CREATE TABLE blocks (
        number INTEGER PRIMARY KEY,
        session INTEGER NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL,
        data BLOB NOT NULL
    );
    CREATE UNIQUE INDEX blocks_by_session ON blocks (session, first, count);

    -- Long strings out of messages, each once.
    CREATE TABLE contents (
        number INTEGER PRIMARY KEY,
        hash BLOB NOT NULL UNIQUE, length INTEGER NOT NULL, data BLOB NOT NULL
    );
    CREATE TABLE content_uses (
        content INTEGER NOT NULL, session INTEGER NOT NULL,
        PRIMARY KEY (content, session)
    ) WITHOUT ROWID;
    CREATE INDEX content_uses_by_session ON content_uses (session);

    -- The state of a session at some moments, as differences: entries that changed since the one before.
    CREATE TABLE checkpoints (
        session INTEGER NOT NULL, sequence INTEGER NOT NULL, size INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (session, sequence)
    ) WITHOUT ROWID;
    CREATE TABLE entries (
        session INTEGER NOT NULL, place INTEGER NOT NULL, position INTEGER NOT NULL, sequence INTEGER NOT NULL,
        kind TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (session, place, position, sequence)
    ) WITHOUT ROWID;
    CREATE INDEX entries_by_id ON entries (session, place, kind, id);

    -- What can be searched for.
    CREATE TABLE texts (
        number INTEGER PRIMARY KEY,
        session INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        kind INTEGER NOT NULL, time INTEGER NOT NULL
    );
    CREATE INDEX texts_by_session ON texts (session);
    CREATE INDEX texts_by_time ON texts (time);
    CREATE VIRTUAL TABLE words USING fts5 (
        text, scope, content='', contentless_delete=1, tokenize=\"unicode61 remove_diacritics 2\"
    );
";

/// The connection that writes.
///
/// `synchronous=FULL` makes SQLite wait for the disk at the end of each transaction: in WAL mode `NORMAL` would
/// keep the file whole after a power cut, but could lose the last transactions, which were acknowledged.
pub(crate) fn open_writer(path: &Path, max_bytes: Option<u64>) -> Result<Connection> {
    let fail = |error: rusqlite::Error| database(path, &error);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder
        && let Err(error) = std::fs::create_dir_all(folder)
    {
        return Err(StoreError::Open { path: path.to_owned(), reason: error.to_string() });
    }
    let mut connection = Connection::open(path).map_err(fail)?;
    connection.busy_timeout(BUSY).map_err(fail)?;
    // Without the permission to write, SQLite is content with reading.
    if connection.is_readonly("main").map_err(fail)? {
        return Err(StoreError::ReadOnly { path: path.to_owned() });
    }
    let application: i32 =
        connection.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(fail)?;
    let version: i32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(fail)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(fail)?;
    if tables > 0 {
        judge(path, application, version)?;
    }
    let mode: String =
        connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(fail)?;
    if mode != "wal" {
        let reason = format!("the file system does not allow a write-ahead log (it offers {mode:?})");
        return Err(StoreError::Open { path: path.to_owned(), reason });
    }
    connection
        .execute_batch(
            "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 2000; PRAGMA cache_size = -32768;",
        )
        .map_err(fail)?;
    if tables == 0 {
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(fail)?;
        let made: i64 = transaction
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(fail)?;
        if made == 0 {
            transaction.execute_batch(TABLES).map_err(fail)?;
            transaction
                .execute_batch(&format!(
                    "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
                ))
                .map_err(fail)?;
        }
        transaction.commit().map_err(fail)?;
    }
    if let Some(limit) = max_bytes {
        let page: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(fail)?;
        let pages = (limit / page.unsigned_abs().max(1)).max(1);
        connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).map_err(fail)?;
    }
    Ok(connection)
}

/// A connection that only reads. In a folder that cannot be written it needs a store that was closed well.
pub(crate) fn open_reader(path: &Path) -> Result<Connection> {
    let fail = |error: rusqlite::Error| database(path, &error);
    if !path.exists() {
        let reason = "there is no such file".to_owned();
        return Err(StoreError::Open { path: path.to_owned(), reason });
    }
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let usable = |connection: Connection| -> Result<Connection> {
        connection.busy_timeout(BUSY).map_err(fail)?;
        let application =
            connection.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(fail)?;
        let version = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(fail)?;
        judge(path, application, version)?;
        connection.execute_batch("PRAGMA cache_size = -16384;").map_err(fail)?;
        Ok(connection)
    };
    let first = Connection::open_with_flags(path, flags).map_err(fail).and_then(usable);
    match first {
        Err(StoreError::Open { .. } | StoreError::ReadOnly { .. }) => {
            let mut log = path.as_os_str().to_owned();
            log.push("-wal");
            if Path::new(&log).metadata().is_ok_and(|log| log.len() > 0) {
                return first;
            }
            let escaped = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
            Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags)
                .map_err(fail)
                .and_then(usable)
        }
        other => other,
    }
}

fn judge(path: &Path, application: i32, version: i32) -> Result<()> {
    let reason = if application != APPLICATION {
        "it is a database of something else".to_owned()
    } else if version != VERSION {
        format!("it has version {version}, and this program knows version {VERSION}")
    } else {
        return Ok(());
    };
    Err(StoreError::NotAStore { path: path.to_owned(), reason })
}
