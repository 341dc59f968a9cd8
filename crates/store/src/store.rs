use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::{Result, StoreError, database};
use crate::lock::SessionLock;
use crate::queue::{Queue, locked};
use crate::read::{Records, Tail};
use crate::record::{About, Filter, Summary, Time};
use crate::recorder::{Progress, Recorder};
use crate::schema;
use crate::signal::Signal;
use crate::writer::{Command, Reply, Writer};

/// What can be set about a store.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The file may not grow beyond this; appends then fail with [`StoreError::Full`].
    pub max_bytes: Option<u64>,
}

/// What opening a store put in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// A session whose recorder had died.
    pub session: String,
    /// How many of its records were durable but not compressed and searchable yet.
    pub records: u64,
    /// Why it could not be put in order; its readable records are still there.
    pub problem: Option<String>,
}

/// A file of sessions.
#[derive(Debug, Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    path: PathBuf,
    reader: Mutex<Connection>,
    signal: Arc<Signal>,
    queue: Arc<Queue<Command>>,
    thread: Option<JoinHandle<()>>,
    repairs: Vec<Repair>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Store").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn push(&self, command: Command, bytes: usize) -> bool {
        self.queue.push(command, bytes)
    }

    /// Asks the writer for something and waits for its answer.
    pub(crate) fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T> {
        if self.thread.is_none() {
            return Err(StoreError::ReadOnly { path: self.path.clone() });
        }
        let (reply, answer) = sync_channel(1);
        let gone =
            || StoreError::Database { path: self.path.clone(), reason: "its writer has stopped".to_owned() };
        if !self.push(command(reply), 0) {
            return Err(gone());
        }
        answer.recv().map_err(|_| gone())?
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the writer has been reported to whoever waited for it.
            drop(thread.join());
        }
    }
}

impl Store {
    /// Opens a store for reading and writing, and makes it if there is none.
    ///
    /// Sessions whose recorder has died are put in order first; [`repairs`](Store::repairs) tells which.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        Store::open_with(path, &Settings::default())
    }

    /// Opens a store with settings.
    pub fn open_with(path: impl Into<PathBuf>, settings: &Settings) -> Result<Self> {
        let path = path.into();
        let connection = schema::open_writer(&path, settings.max_bytes)?;
        let reader = schema::open_reader(&path)?;
        let signal = Arc::new(Signal::default());
        let queue = Arc::new(Queue::new());
        let mut writer = Writer::new(connection, path.clone(), Arc::clone(&signal));
        let waiting = Arc::clone(&queue);
        let run = move || {
            /// However the thread ends, nobody may wait for it.
            struct Close(Arc<Queue<Command>>);
            impl Drop for Close {
                fn drop(&mut self) {
                    self.0.close();
                    self.0.take();
                }
            }
            let close = Close(waiting);
            while let Some(commands) = close.0.take() {
                writer.work(commands);
            }
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(run)
            .map_err(|error| StoreError::Open { path: path.clone(), reason: error.to_string() })?;
        let reader = Mutex::new(reader);
        let mut shared = Shared { path, reader, signal, queue, thread: Some(thread), repairs: Vec::new() };
        shared.repairs = repair(&shared)?;
        Ok(Store { shared: Arc::new(shared) })
    }

    /// Opens a store that is there already, only to read it.
    pub fn open_read_only(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let reader = Mutex::new(schema::open_reader(&path)?);
        let (signal, queue) = (Arc::new(Signal::default()), Arc::new(Queue::new()));
        let shared = Shared { path, reader, signal, queue, thread: None, repairs: Vec::new() };
        Ok(Store { shared: Arc::new(shared) })
    }

    /// The store's file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// What opening put in order.
    pub fn repairs(&self) -> &[Repair] {
        &self.shared.repairs
    }

    pub(crate) fn signal(&self) -> &Signal {
        &self.shared.signal
    }

    pub(crate) fn with_reader<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        let connection = locked(&self.shared.reader);
        work(&connection).map_err(|error| database(&self.shared.path, &error))
    }

    /// A number that changes whenever another connection has written.
    pub(crate) fn data_version(&self) -> Result<i64> {
        self.with_reader(|connection| connection.query_row("PRAGMA data_version", [], |row| row.get(0)))
    }

    // ----- writing

    /// Begins to record a session.
    pub fn begin(&self, about: &About) -> Result<Recorder> {
        self.begin_at(about, Time::now())
    }

    /// Begins a session that began at another time, as for imports.
    pub fn begin_at(&self, about: &About, began: Time) -> Result<Recorder> {
        let id = new_id(began);
        let lock = SessionLock::take(&self.shared.path, &id)?;
        let about = about.clone();
        let session = self.shared.ask(|reply| Command::Begin { id: id.clone(), about, began, reply })?;
        let progress = Arc::new(Progress::default());
        Ok(Recorder { shared: Arc::clone(&self.shared), session, id, next: 0, progress, lock: Some(lock) })
    }

    /// Goes on with a session that nobody else records at the moment.
    pub fn resume(&self, id: &str) -> Result<Recorder> {
        let (session, id) = self.number(id)?;
        let lock = SessionLock::take(&self.shared.path, &id)?;
        let next = self.shared.ask(|reply| Command::Resume { session, reply })?;
        let progress = Arc::new(Progress::from(next));
        Ok(Recorder { shared: Arc::clone(&self.shared), session, id, next, progress, lock: Some(lock) })
    }

    /// Whether somebody records a session at the moment, in this process or another.
    pub fn is_recording(&self, id: &str) -> Result<bool> {
        let (_, id) = self.number(id)?;
        match SessionLock::take(&self.shared.path, &id) {
            Ok(_) => Ok(false),
            Err(StoreError::SessionInUse { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Removes a session that nobody records.
    pub fn delete(&self, id: &str) -> Result<()> {
        let (session, id) = self.number(id)?;
        let lock = SessionLock::take(&self.shared.path, &id)?;
        let result = self.shared.ask(|reply| Command::Delete { session, reply });
        drop(lock);
        result
    }

    /// Gives the room of deleted sessions back to the file system.
    pub fn shrink(&self) -> Result<()> {
        self.shared.ask(|reply| Command::Shrink { reply })
    }

    // ----- reading

    /// The sessions that fit, the latest first.
    pub fn sessions(&self, filter: &Filter) -> Result<Vec<Summary>> {
        let pattern = |part: &Option<String>| part.as_ref().map(|part| format!("%{}%", escaped(part)));
        let project = filter.project.as_ref().map(|project| project.trim_end_matches('/').to_owned());
        let below = project.as_ref().map(|project| format!("{}/%", escaped(project)));
        let limit = filter.limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1);
        self.with_reader(|connection| {
            let mut statement = connection.prepare_cached(&format!(
                "{SUMMARY} WHERE (?1 IS NULL OR agent LIKE ?1 ESCAPE '\\')
                 AND (?2 IS NULL OR project = ?2 OR project LIKE ?3 ESCAPE '\\')
                 AND (?4 IS NULL OR title LIKE ?4 ESCAPE '\\')
                 AND (?5 IS NULL OR changed >= ?5) AND (?6 IS NULL OR began < ?6)
                 ORDER BY changed DESC, number DESC LIMIT ?7"
            ))?;
            let rows = statement.query_map(
                params![
                    pattern(&filter.agent),
                    project,
                    below,
                    pattern(&filter.title),
                    filter.since.map(|time| time.0),
                    filter.until.map(|time| time.0),
                    limit
                ],
                |row| summary(connection, row),
            )?;
            rows.collect()
        })
    }

    /// One session, by its id, the beginning of its id, or an id on the wire; of several that have that, the
    /// latest.
    pub fn session(&self, id: &str) -> Result<Summary> {
        let (number, _) = self.number(id)?;
        self.with_reader(|connection| {
            connection
                .prepare_cached(&format!("{SUMMARY} WHERE number = ?1"))?
                .query_row([number], |row| summary(connection, row))
        })
    }

    /// The records of a session from a sequence number on.
    pub fn read(&self, id: &str, from: u64) -> Result<Records<'_>> {
        let (session, _) = self.number(id)?;
        let end = self.with_reader(|connection| {
            connection.query_row("SELECT length FROM sessions WHERE number = ?1", [session], |row| {
                row.get::<_, i64>(0)
            })
        })?;
        Ok(Records { store: self, session, next: from, end: end.unsigned_abs(), ready: VecDeque::new() })
    }

    /// The records of a session from a sequence number on, and those still to come.
    pub fn follow(&self, id: &str, from: u64) -> Result<Tail<'_>> {
        let (_, id) = self.number(id)?;
        Ok(Tail { records: self.read(&id, from)?, id })
    }

    pub(crate) fn has(&self, session: i64) -> Result<bool> {
        self.with_reader(|connection| {
            connection.prepare_cached("SELECT 1 FROM sessions WHERE number = ?1")?.exists([session])
        })
    }

    /// The row of a session and its full id.
    pub(crate) fn number(&self, id: &str) -> Result<(i64, String)> {
        let found = self.with_reader(|connection| {
            let pair = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
            let exact = connection
                .prepare_cached("SELECT number, id FROM sessions WHERE id = ?1")?
                .query_row([id], pair)
                .optional()?;
            if let Some(exact) = exact {
                return Ok(vec![exact]);
            }
            let latest = connection
                .prepare_cached(
                    "SELECT number, id FROM sessions WHERE number IN (SELECT session FROM wire_ids WHERE id = ?1)
                     ORDER BY changed DESC, number DESC LIMIT 1",
                )?
                .query_row([id], pair)
                .optional()?;
            if let Some(latest) = latest {
                return Ok(vec![latest]);
            }
            let mut statement = connection.prepare_cached(
                "SELECT number, id FROM sessions WHERE ?1 <> '' AND id LIKE ?2 ESCAPE '\\'
                 ORDER BY number DESC LIMIT 20",
            )?;
            let beginning = format!("{}%", escaped(id));
            statement.query_map(params![id, beginning], pair)?.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        match found.len() {
            0 => Err(StoreError::UnknownSession { session: id.to_owned() }),
            1 => {
                found.into_iter().next().ok_or_else(|| StoreError::UnknownSession { session: id.to_owned() })
            }
            _ => Err(StoreError::AmbiguousSession {
                prefix: id.to_owned(),
                candidates: found.into_iter().map(|(_, id)| id).collect(),
            }),
        }
    }

    /// What the store takes up on the disk.
    pub fn sizes(&self) -> Result<Sizes> {
        self.with_reader(|connection| {
            let sum = |query: &str| {
                connection.query_row(query, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
            };
            Ok(Sizes {
                wire: sum("SELECT coalesce(sum(bytes), 0) FROM sessions")?,
                journal: sum("SELECT coalesce(sum(length(data)), 0) FROM blocks")?
                    + sum("SELECT coalesce(sum(length(data) + 40), 0) FROM contents")?
                    + sum("SELECT coalesce(sum(length(bytes) + 30), 0) FROM recent")?,
                checkpoints: sum("SELECT coalesce(sum(length(data)), 0) FROM checkpoints")?
                    + sum("SELECT coalesce(sum(length(data)), 0) FROM entries")?,
                used: sum("SELECT (page_count - freelist_count) * page_size
                     FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()")?,
                file: sum("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")?,
            })
        })
    }
}

/// Bytes on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// What the records had on the wire.
    pub wire: u64,
    /// What the journal of them takes: compressed blocks, contents, and rows that wait for a block.
    pub journal: u64,
    /// What the checkpoints take.
    pub checkpoints: u64,
    /// What is in use of the file, with the index for searching.
    pub used: u64,
    /// The whole file, with the room that deleted sessions left.
    pub file: u64,
}

const SUMMARY: &str = "SELECT number, id, agent, client, project, title, protocol, began, changed, length, bytes, closed FROM sessions";

fn summary(connection: &Connection, row: &Row<'_>) -> rusqlite::Result<Summary> {
    let number: i64 = row.get(0)?;
    let mut ids = connection.prepare_cached("SELECT id FROM wire_ids WHERE session = ?1 ORDER BY place")?;
    let wire_ids = ids.query_map([number], |row| row.get(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(Summary {
        id: row.get(1)?,
        wire_ids,
        about: About { agent: row.get(2)?, client: row.get(3)?, project: row.get(4)?, title: row.get(5)? },
        protocol: row.get(6)?,
        began: Time(row.get(7)?),
        changed: Time(row.get(8)?),
        length: row.get::<_, i64>(9)?.unsigned_abs(),
        bytes: row.get::<_, i64>(10)?.unsigned_abs(),
        closed: row.get::<_, i64>(11)? == 1,
    })
}

/// A part of a LIKE pattern that stands for itself.
fn escaped(part: &str) -> String {
    part.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

/// Puts in order the sessions that were not closed and that nobody writes.
fn repair(shared: &Shared) -> Result<Vec<Repair>> {
    let open: Vec<(i64, String)> = {
        let connection = locked(&shared.reader);
        let find = || {
            let mut statement = connection.prepare("SELECT number, id FROM sessions WHERE closed = 0")?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()
        };
        find().map_err(|error| database(&shared.path, &error))?
    };
    let mut repairs = Vec::new();
    for (session, id) in open {
        let Ok(lock) = SessionLock::take(&shared.path, &id) else { continue };
        // It may have been closed between our look and our lock.
        let still_open = locked(&shared.reader)
            .query_row("SELECT closed = 0 FROM sessions WHERE number = ?1", [session], |row| row.get(0))
            .optional()
            .map_err(|error| database(&shared.path, &error))?;
        if still_open == Some(true) {
            let (records, problem) = match shared.ask(|reply| Command::Recover { session, reply }) {
                Ok(records) => (records, None),
                Err(error) => (0, Some(error.to_string())),
            };
            repairs.push(Repair { session: id, records, problem });
        }
        drop(lock);
    }
    Ok(repairs)
}

/// An id that sorts by time and that nobody else makes: the time and a random part.
fn new_id(began: Time) -> String {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.write_i64(Time::now().0);
    let [date, time] = began.date_and_time();
    format!("{}-{}-{:06x}", date.replace('-', ""), time.replace(':', ""), hasher.finish() & 0xff_ffff)
}
