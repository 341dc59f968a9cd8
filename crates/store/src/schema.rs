//! The tables, and how a connection to them is opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use switchboard_acp::Moment;

use crate::access;
use crate::error::{Result, StoreError, database};
use crate::live;
use crate::lock::SessionLock;
use crate::private::{self, Exposed, Identity};
use crate::record::{Channel, Record};
use crate::removal;
use crate::segment::Folder;
use crate::shortage;
use crate::store::Settings;
use crate::wal::{self, LogDamage};
use crate::writer::ATTEMPT;

/// "SwBd": tells a store from any other database.
const APPLICATION: i32 = 0x5377_4264;
/// Version 1 had no journals, version 2 nothing about [access].
const VERSION: i32 = 3;
/// The earliest version that can be read as it is, where it cannot be written.
const READABLE: i32 = 2;

/// How the names of damaged logs begin that are kept, followed by the time in Unix milliseconds.
pub(crate) const KEPT_LOG: &str = "wal-";

/// How long a reader waits, and who opens the store: another process may hold the file for a transaction.
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

/// A store that can be written.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    /// What others could read of it.
    pub(crate) exposed: Vec<Exposed>,
    /// What its name stood for.
    pub(crate) identity: Option<Identity>,
    /// Damage to SQLite's log.
    pub(crate) log_damage: Option<LogDamage>,
}

/// A file of SQLite beside the store.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The connection that writes.
///
/// `synchronous=FULL` makes SQLite wait for the disk at the end of each transaction: in WAL mode `NORMAL` would
/// keep the file whole after a power cut, but could lose the last transactions, whose journals are gone by then.
pub(crate) fn open_writer(path: &Path, settings: &Settings) -> Result<Opened> {
    with_reserve(path, || open_writer_once(path, settings))
}

/// Opens a store, and once more in the room that was kept, where the disk is too full: SQLite needs some for its index of
/// the log, also to read.
fn with_reserve<T>(path: &Path, open: impl Fn() -> Result<T>) -> Result<T> {
    match open() {
        Err(StoreError::Full { .. } | StoreError::Database { .. } | StoreError::Open { .. })
            if path.exists() && !shortage::can_write(path) && removal::release_reserve(path) =>
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
    // Without the permission to write, SQLite is content with reading.
    if connection.is_readonly("main").map_err(fail)? {
        return Err(StoreError::ReadOnly { path: path.to_owned() });
    }
    let version = judge(path, &connection)?;
    let log_damage = keep_damaged_log(path, &mut connection)?;
    let mode: String =
        connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(fail)?;
    if mode != "wal" {
        let reason = format!("the file system does not allow a write-ahead log (it offers {mode:?})");
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
    // From here on the writer asks again itself, and does other things in between.
    connection.busy_timeout(ATTEMPT).map_err(fail)?;
    removal::keep_reserve(path);
    Ok(Opened { connection, exposed, identity: Identity::of(path).ok(), log_damage })
}

/// Looks for damage in SQLite's log, and keeps a copy of a damaged one before it is overwritten.
fn keep_damaged_log(path: &Path, connection: &mut Connection) -> Result<Option<LogDamage>> {
    let log = log(path);
    if !wal::seems_damaged(&log) {
        return Ok(None);
    }
    // A frame that is being written looks the same. While this transaction lasts nobody writes.
    let fail = |error: rusqlite::Error| database(path, &error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
    let Some(mut damage) = wal::look_alone(&log) else { return Ok(None) };
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

/// SQLite's log of a store.
pub(crate) fn log(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

/// Makes a store under another name and gives it its own when it is complete, so that nobody ever sees half of one.
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
        if path.metadata().is_ok_and(|file| file.len() == 0) {
            return std::fs::rename(&draft, path).map_err(cannot);
        }
        match std::fs::hard_link(&draft, path) {
            Ok(()) => Ok(()),
            // Somebody else was faster.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            // Not every file system has links.
            Err(_) => std::fs::rename(&draft, path).map_err(cannot),
        }
    };
    let result = made();
    drop(std::fs::remove_file(&draft));
    result
}

/// Makes a store of an earlier version one of this version.
fn migrate(path: &Path, connection: &mut Connection, version: i32) -> Result<()> {
    let fail = |error: rusqlite::Error| database(path, &error);
    // Programs of the first version write where nobody looks any more; those of the second can go on.
    let open: Vec<String> = if version > 1 {
        Vec::new()
    } else {
        let mut statement = connection.prepare("SELECT id FROM sessions WHERE closed = 0").map_err(fail)?;
        let rows = statement.query_map([], |row| row.get(0)).map_err(fail)?;
        rows.collect::<rusqlite::Result<_>>().map_err(fail)?
    };
    let _locks =
        open.iter().map(|id| SessionLock::take(path, id)).collect::<Result<Vec<_>>>().map_err(|_| {
            let reason = "an earlier version of this program records into it; end that first".to_owned();
            StoreError::Open { path: path.to_owned(), reason }
        })?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
    let version: i32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(fail)?;
    // Another process may have been faster.
    if version < 2 {
        add_journals(&transaction).map_err(fail)?;
    }
    if version < 3 {
        transaction.execute_batch(access::TABLES).map_err(fail)?;
    }
    transaction.execute_batch(&format!("PRAGMA user_version = {VERSION};")).map_err(fail)?;
    transaction.commit().map_err(fail)
}

/// Makes of the tables of version 1 those of version 2.
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
    // Records that waited for a block.
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

/// A connection that only reads. In a folder that cannot be written it needs a store that was closed well.
pub(crate) fn open_reader(path: &Path) -> Result<Connection> {
    with_reserve(path, || open_reader_once(path))
}

fn open_reader_once(path: &Path) -> Result<Connection> {
    let fail = |error: rusqlite::Error| database(path, &error);
    let reason = match path.try_exists() {
        Ok(true) => None,
        Ok(false) => Some("there is no such file".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(reason) = reason {
        return Err(StoreError::Open { path: path.to_owned(), reason });
    }
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let usable = |connection: Connection| -> Result<Connection> {
        connection.busy_timeout(BUSY).map_err(fail)?;
        let version = judge(path, &connection)?;
        // It only has to be opened once by who may write.
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

/// Whether a store has the tables of [`access`].
pub(crate) fn has_access(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM sqlite_schema WHERE name = 'access'")?.exists([])
}

/// The version of a store, which this program knows.
fn judge(path: &Path, connection: &Connection) -> Result<i32> {
    let number = |query: &str| {
        connection.query_row(query, [], |row| row.get::<_, i32>(0)).map_err(|error| database(path, &error))
    };
    let (application, version) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
    let reason = if application != APPLICATION {
        if number("SELECT count(*) FROM sqlite_schema")? == 0 && keeps_log(path) {
            return Err(StoreError::LogMissing { path: path.to_owned() });
        }
        "it is a database of something else".to_owned()
    } else if (1..=VERSION).contains(&version) {
        return Ok(version);
    } else if version > VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), version, known: VERSION });
    } else {
        format!("it has version {version}, which never existed")
    };
    Err(StoreError::NotAStore { path: path.to_owned(), reason })
}

/// Whether a database says of itself that what is written goes into a log first.
fn keeps_log(path: &Path) -> bool {
    use std::io::Read;
    let mut head = [0; 20];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head[18] == 2
}
