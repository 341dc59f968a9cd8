//! Database schema, and opening of connections.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use switchboard_acp::Moment;

use crate::access;
use crate::error::{Result, StoreError, database};
use crate::free_space;
use crate::live;
use crate::lock::SessionLock;
use crate::private::{self, Exposed, Identity};
use crate::record::{Channel, Record};
use crate::removal;
use crate::segment::Folder;
use crate::store::Settings;
use crate::wal::{self, LogDamage};
use crate::writer::ATTEMPT;

/// SQLite application id of a store: "SwBd".
const APPLICATION: i32 = 0x5377_4264;
/// Schema version. Version 1 had no journals, version 2 no [access] tables.
const VERSION: i32 = 3;
/// Earliest version that can be read without migration, if the store is read-only.
const READABLE: i32 = 2;

/// Prefix of kept damaged logs, followed by the time in Unix milliseconds.
pub(crate) const KEPT_LOG: &str = "wal-";

/// Busy timeout for readers and while opening, since another process may hold the file for a transaction.
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
        -- 0: being written, 1: closed, 2: cut off, 3: being deleted
        closed INTEGER NOT NULL DEFAULT 0,
        -- How much of it can be searched and is folded.
        indexed INTEGER NOT NULL DEFAULT 0,
        indexed_bytes INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX sessions_by_change ON sessions (changed);

    -- The ids that agents gave. Those with a place below zero are of sub-agents.
    CREATE TABLE wire_ids (
        session INTEGER NOT NULL, place INTEGER NOT NULL, id TEXT NOT NULL,
        PRIMARY KEY (session, id)
    ) WITHOUT ROWID;
    CREATE INDEX wire_ids_by_id ON wire_ids (id);

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

    -- What is needed to fold the end of a session: which messages changed which entry since the checkpoint before, and
    -- the messages that changed anything else.
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
    -- Where the text of something was last given as a whole, so that what was there before is not in it any more.
    CREATE TABLE replaced (
        session INTEGER NOT NULL, run TEXT NOT NULL, sequence INTEGER NOT NULL,
        PRIMARY KEY (session, run)
    ) WITHOUT ROWID;
    CREATE VIRTUAL TABLE words USING fts5 (
        text, scope, content='', contentless_delete=1, tokenize=\"unicode61 remove_diacritics 2\"
    );
    -- What is left of deleted texts goes when room is given back, not while they are deleted, which may be on a full disk.
    INSERT INTO words (words, rank) VALUES ('deletemerge', 0);
";

/// A store opened for writing.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    /// Files that other users could read.
    pub(crate) exposed: Vec<Exposed>,
    /// Identity of the file that was opened.
    pub(crate) identity: Option<Identity>,
    /// Damage in SQLite's write-ahead log.
    pub(crate) log_damage: Option<LogDamage>,
}

/// Returns the path of a file next to the store.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Opens the writer's connection.
///
/// `synchronous=FULL` makes SQLite sync at the end of each transaction. In WAL mode, `NORMAL` keeps the file
/// consistent after a power failure but can lose the last transactions: the writer uses it where the journals stay
/// until it has synced the log itself.
pub(crate) fn open_writer(path: &Path, settings: &Settings) -> Result<Opened> {
    with_reserve(path, || open_writer_once(path, settings))
}

/// Opens a store. If the disk is full, releases the reserve and tries again: SQLite needs space for its log
/// index even to read.
fn with_reserve<T>(path: &Path, open: impl Fn() -> Result<T>) -> Result<T> {
    match open() {
        Err(StoreError::Full { .. } | StoreError::Database { .. } | StoreError::Open { .. })
            if path.exists() && !free_space::can_write(path) && removal::release_reserve(path) =>
        {
            open()
        }
        opened => opened,
    }
}

fn open_writer_once(path: &Path, settings: &Settings) -> Result<Opened> {
    let Settings { max_bytes, owns_folder, makes_room: _ } = settings;
    let fail = |error: rusqlite::Error| database(path, &error);
    let cannot =
        |error: std::io::Error| StoreError::Open { path: path.to_owned(), reason: error.to_string() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        private::create_folder(folder).map_err(cannot)?;
    }
    let mut ours = vec![
        path.to_owned(),
        beside(path, "-wal"),
        beside(path, "-shm"),
        removal::reserve(path),
        Folder::beside(path).path().to_owned(),
        Folder::beside(path).damaged(),
    ];
    ours.extend(folder.filter(|_| *owns_folder).map(Path::to_owned));
    let exposed = ours.iter().filter_map(|path| private::tighten(path)).collect();
    if path.metadata().map_or(true, |file| file.len() == 0) {
        create(path)?;
    }
    let mut connection = Connection::open(path).map_err(fail)?;
    connection.busy_timeout(BUSY).map_err(fail)?;
    // Without write permission, SQLite silently opens the file read-only.
    if connection.is_readonly("main").map_err(fail)? {
        return Err(StoreError::ReadOnly { path: path.to_owned() });
    }
    let version = check_version(path, &connection)?;
    // Before any write: the first one would overwrite the damaged part of the log.
    let log_damage = keep_damaged_log(path, &mut connection)?;
    let mode: String =
        connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(fail)?;
    if mode != "wal" {
        let reason = format!(
            "the file system does not support a write-ahead log (journal mode {mode:?}); use a local file system"
        );
        return Err(StoreError::Open { path: path.to_owned(), reason });
    }
    connection
        .execute_batch(
            "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 2000; PRAGMA cache_size = -16384;",
        )
        .map_err(fail)?;
    if version < VERSION {
        migrate(path, &mut connection, version)?;
    }
    if let Some(limit) = max_bytes {
        let page: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(fail)?;
        let pages = (limit / page.unsigned_abs().max(1)).max(1);
        connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).map_err(fail)?;
    }
    // From here on the writer retries itself, and handles other work in between.
    connection.busy_timeout(ATTEMPT).map_err(fail)?;
    // Last, so that a nearly full disk is used for opening the store first.
    removal::keep_reserve(path);
    Ok(Opened { connection, exposed, identity: Identity::of(path).ok(), log_damage })
}

/// Checks SQLite's log for damage, and copies a damaged log before it is overwritten.
fn keep_damaged_log(path: &Path, connection: &mut Connection) -> Result<Option<LogDamage>> {
    let log = log(path);
    if !wal::seems_damaged(&log) {
        return Ok(None);
    }
    // A frame that is being written looks the same. This transaction excludes other writers during the check.
    let fail = |error: rusqlite::Error| database(path, &error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
    let Some(mut damage) = wal::check_exclusive(&log) else { return Ok(None) };
    let folder = Folder::beside(path).damaged();
    let copy = folder.join(format!("{KEPT_LOG}{}", Moment::now().0));
    match private::create_folder(&folder).and_then(|()| private::copy(&log, &copy)) {
        Ok(()) => damage.kept = Some(copy),
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {}
        Err(error) => {
            let reason = format!("cannot keep the damaged log {}: {error}", log.display());
            return Err(StoreError::Open { path: path.to_owned(), reason });
        }
    }
    transaction.rollback().map_err(fail)?;
    Ok(Some(damage))
}

/// Returns the path of a store's write-ahead log.
pub(crate) fn log(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

/// Creates a store under a temporary name and links it when complete, so that no process sees a partial one.
fn create(path: &Path) -> Result<()> {
    let fail = |error: rusqlite::Error| database(path, &error);
    let cannot =
        |error: std::io::Error| StoreError::Open { path: path.to_owned(), reason: error.to_string() };
    let draft = beside(path, &format!("-new-{}", std::process::id()));
    drop(std::fs::remove_file(&draft));
    private::options().write(true).create(true).truncate(true).open(&draft).map_err(cannot)?;
    let made = || -> Result<()> {
        let connection = Connection::open(&draft).map_err(fail)?;
        connection
            .execute_batch(&format!(
                "PRAGMA auto_vacuum = INCREMENTAL; BEGIN; {TABLES} {}
                 PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT;",
                access::TABLES
            ))
            .map_err(fail)?;
        connection.close().map_err(|(_, error)| fail(error))?;
        // An empty file is not a store yet: replace it.
        if path.metadata().is_ok_and(|file| file.len() == 0) {
            return std::fs::rename(&draft, path).map_err(cannot);
        }
        match std::fs::hard_link(&draft, path) {
            Ok(()) => Ok(()),
            // Another process created it first.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            // Not every file system supports links.
            Err(_) => std::fs::rename(&draft, path).map_err(cannot),
        }
    };
    let result = made();
    drop(std::fs::remove_file(&draft));
    result
}

/// Migrates a store of an earlier version.
fn migrate(path: &Path, connection: &mut Connection, version: i32) -> Result<()> {
    let fail = |error: rusqlite::Error| database(path, &error);
    // Programs of version 1 would write to tables that are no longer read; those of version 2 can continue.
    let open: Vec<String> = if version > 1 {
        Vec::new()
    } else {
        let mut statement = connection.prepare("SELECT id FROM sessions WHERE closed = 0").map_err(fail)?;
        let rows = statement.query_map([], |row| row.get(0)).map_err(fail)?;
        rows.collect::<rusqlite::Result<_>>().map_err(fail)?
    };
    // Hold all locks during the migration, so that no old program can resume a session halfway.
    let _locks =
        open.iter().map(|id| SessionLock::take(path, id)).collect::<Result<Vec<_>>>().map_err(|_| {
            let reason =
                "an earlier version of this program is recording into it; end that program first".to_owned();
            StoreError::Open { path: path.to_owned(), reason }
        })?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
    // Read the version again inside the transaction, which excludes other writers.
    let version: i32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(fail)?;
    // Another process may have migrated it first.
    if version < 2 {
        add_journals(&transaction).map_err(fail)?;
    }
    if version < 3 {
        transaction.execute_batch(access::TABLES).map_err(fail)?;
    }
    transaction.execute_batch(&format!("PRAGMA user_version = {VERSION};")).map_err(fail)?;
    transaction.commit().map_err(fail)
}

/// Migrates the tables of version 1 to version 2.
fn add_journals(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "ALTER TABLE sessions ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0;
         ALTER TABLE sessions ADD COLUMN indexed_bytes INTEGER NOT NULL DEFAULT 0;
         CREATE TABLE replaced (
             session INTEGER NOT NULL, run TEXT NOT NULL, sequence INTEGER NOT NULL,
             PRIMARY KEY (session, run)
         ) WITHOUT ROWID;
         INSERT INTO words (words, rank) VALUES ('deletemerge', 0);
         CREATE INDEX IF NOT EXISTS texts_by_time ON texts (time);
         DELETE FROM checkpoints;
         DELETE FROM entries;
         UPDATE sessions SET
             indexed = (SELECT coalesce(max(first + count), 0) FROM blocks WHERE session = sessions.number),
             indexed_bytes = bytes -
                 (SELECT coalesce(sum(length(bytes)), 0) FROM recent WHERE session = sessions.number);",
    )?;
    // Records that were not in a block yet.
    let sessions = transaction
        .prepare("SELECT DISTINCT session FROM recent")?
        .query_map([], |row| row.get::<_, i64>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for session in sessions {
        let mut statement = transaction.prepare(
            "SELECT sequence, time, channel, peer, protocol, bytes FROM recent WHERE session = ?1 ORDER BY sequence",
        )?;
        let records = statement
            .query_map([session], |row| {
                let channel = Channel::from_code(row.get(2)?).unwrap_or(Channel::Diagnostic);
                Ok(Record {
                    sequence: row.get::<_, i64>(0)?.unsigned_abs(),
                    time: Moment(row.get(1)?),
                    channel,
                    peer: row.get::<_, String>(3)?.into(),
                    protocol: row.get(4)?,
                    bytes: row.get(5)?,
                })
            })?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        for run in records.chunk_by(|one, next| one.sequence + 1 == next.sequence) {
            live::pack(transaction, session, run, &[run.len()])?;
        }
    }
    transaction.execute_batch("DROP TABLE recent;")
}

/// Opens a read-only connection. In a read-only folder, the store must have been closed properly.
pub(crate) fn open_reader(path: &Path) -> Result<Connection> {
    with_reserve(path, || open_reader_once(path))
}

fn open_reader_once(path: &Path) -> Result<Connection> {
    let fail = |error: rusqlite::Error| database(path, &error);
    let reason = match path.try_exists() {
        Ok(true) => None,
        Ok(false) => Some("no such file".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(reason) = reason {
        return Err(StoreError::Open { path: path.to_owned(), reason });
    }
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let usable = |connection: Connection| -> Result<Connection> {
        connection.busy_timeout(BUSY).map_err(fail)?;
        let version = check_version(path, &connection)?;
        // Opening it once for writing migrates it.
        let updated = if version < VERSION { Some(open_writer(path, &Settings::default())) } else { None };
        if let Some(Err(error)) = updated
            && version < READABLE
        {
            return Err(error);
        }
        connection.execute_batch("PRAGMA cache_size = -16384;").map_err(fail)?;
        Ok(connection)
    };
    let first = Connection::open_with_flags(path, flags).map_err(fail).and_then(usable);
    match first {
        Err(
            StoreError::Open { .. }
            | StoreError::ReadOnly { .. }
            | StoreError::Full { .. }
            | StoreError::Database { .. },
        ) => {
            let log = beside(path, "-wal");
            if log.metadata().is_ok_and(|log| log.len() > 0) {
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

/// Returns true if a store has the [`access`] tables.
pub(crate) fn has_access(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM sqlite_schema WHERE name = 'access'")?.exists([])
}

/// Returns the version of a store. Fails if this program does not support it.
fn check_version(path: &Path, connection: &Connection) -> Result<i32> {
    let number = |query: &str| {
        connection.query_row(query, [], |row| row.get::<_, i32>(0)).map_err(|error| database(path, &error))
    };
    let (application, version) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
    let reason = if application != APPLICATION {
        if number("SELECT count(*) FROM sqlite_schema")? == 0 && uses_wal(path) {
            return Err(StoreError::LogMissing { path: path.to_owned() });
        }
        "it is an SQLite database of another application".to_owned()
    } else if (1..=VERSION).contains(&version) {
        return Ok(version);
    } else if version > VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), version, known: VERSION });
    } else {
        format!("it has version {version}, which never existed")
    };
    Err(StoreError::NotAStore { path: path.to_owned(), reason })
}

/// Returns true if the database header says WAL mode.
fn uses_wal(path: &Path) -> bool {
    use std::io::Read;
    let mut head = [0; 20];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head[18] == 2
}
