//! The one thread that writes. Everything that waits when it comes round becomes durable in one transaction.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::block;
use crate::contents;
use crate::error::{Result, StoreError, database};
use crate::observe::{Observed, Observer};
use crate::read;
use crate::record::{About, Record, Time};
use crate::recorder::Progress;
use crate::search;
use crate::signal::Signal;
use crate::window;

/// A block is made of so many records or bytes, whichever comes first.
const BLOCK_RECORDS: usize = 1024;
const BLOCK_BYTES: usize = 256 * 1024;

pub(crate) type Reply<T> = SyncSender<Result<T>>;

pub(crate) enum Command {
    Begin {
        id: String,
        about: About,
        began: Time,
        reply: Reply<i64>,
    },
    /// Gives the session's length.
    Resume {
        session: i64,
        reply: Reply<u64>,
    },
    Append {
        session: i64,
        record: Record,
        progress: Arc<Progress>,
    },
    Close {
        session: i64,
        reply: Reply<()>,
    },
    /// Puts in order a session whose recorder has died. Gives how many records were not in a block yet.
    Recover {
        session: i64,
        reply: Reply<u64>,
    },
    Delete {
        session: i64,
        reply: Reply<()>,
    },
    Shrink {
        reply: Reply<()>,
    },
}

pub(crate) struct Writer {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    pub(crate) signal: Arc<Signal>,
    live: HashMap<i64, Live>,
}

/// A session that is being recorded.
#[derive(Default)]
struct Live {
    length: u64,
    /// Records that are durable as rows and wait for a block.
    recent: Vec<Record>,
    observer: Observer,
}

/// The records of one session in a group.
struct Batch {
    session: i64,
    progress: Arc<Progress>,
    records: Vec<Record>,
}

impl Writer {
    pub(crate) fn new(connection: Connection, path: PathBuf, signal: Arc<Signal>) -> Self {
        Writer { connection, path, signal, live: HashMap::new() }
    }

    /// Does what was taken from the queue, in order.
    pub(crate) fn work(&mut self, commands: VecDeque<Command>) {
        let mut group: Vec<Batch> = Vec::new();
        let mut places: HashMap<i64, usize> = HashMap::new();
        for command in commands {
            match command {
                Command::Append { session, record, progress } => {
                    let place = *places.entry(session).or_insert_with(|| {
                        group.push(Batch { session, progress, records: Vec::new() });
                        group.len() - 1
                    });
                    group[place].records.push(record);
                }
                other => {
                    places.clear();
                    self.append(std::mem::take(&mut group));
                    self.single(other);
                }
            }
        }
        self.append(group);
    }

    fn single(&mut self, command: Command) {
        // Whoever asked may have gone.
        match command {
            Command::Begin { id, about, began, reply } => drop(reply.send(self.begin(&id, &about, began))),
            Command::Resume { session, reply } => drop(reply.send(self.resume(session))),
            Command::Close { session, reply } => drop(reply.send(self.close(session))),
            Command::Recover { session, reply } => drop(reply.send(self.recover(session))),
            Command::Delete { session, reply } => drop(reply.send(self.delete(session))),
            Command::Shrink { reply } => drop(reply.send(self.shrink())),
            Command::Append { .. } => {}
        }
        self.signal.raise();
    }

    fn transact<T>(&mut self, work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T> {
        let path = &self.path;
        let run = || {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        };
        run().map_err(|error| database(path, &error))
    }

    fn begin(&mut self, id: &str, about: &About, began: Time) -> Result<i64> {
        let session = self.transact(|transaction| {
            transaction.execute(
                "INSERT INTO sessions (id, agent, client, project, title, titled, began, changed)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
                params![
                    id,
                    about.agent,
                    about.client,
                    about.project,
                    about.title,
                    about.title.is_some(),
                    began.0
                ],
            )?;
            Ok(transaction.last_insert_rowid())
        })?;
        self.live.insert(session, Live::default());
        Ok(session)
    }

    fn resume(&mut self, session: i64) -> Result<u64> {
        let (length, recent) = self.transact(|transaction| {
            transaction.execute("UPDATE sessions SET closed = 0 WHERE number = ?1", [session])?;
            Ok((length(transaction, session)?.unwrap_or(0), read::recent(transaction, session, 0, u64::MAX)?))
        })?;
        let recent = recent.map_err(|reason| StoreError::Damaged { path: self.path.clone(), reason })?;
        self.live.insert(session, Live { length, recent, observer: Observer::default() });
        Ok(length)
    }

    /// Writes a group of records and tells their recorders.
    fn append(&mut self, mut group: Vec<Batch>) {
        if group.is_empty() {
            return;
        }
        let path = self.path.clone();
        let live = &mut self.live;
        group.retain(|batch| {
            let known = live.contains_key(&batch.session) && batch.progress.failure().is_none();
            if !known {
                let session = batch.session.to_string();
                batch.progress.fail(StoreError::RecordingStopped {
                    session,
                    sequence: batch.records.first().map_or(0, |record| record.sequence),
                    reason: "an earlier record could not be written".to_owned(),
                });
            }
            known
        });
        let mut written: Vec<(i64, u64, usize)> = Vec::new();
        let mut conflicts: Vec<i64> = Vec::new();
        let mut run = || -> rusqlite::Result<()> {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for batch in &mut group {
                let Some(live) = live.get_mut(&batch.session) else { continue };
                if length(&transaction, batch.session)? != Some(live.length) {
                    conflicts.push(batch.session);
                    continue;
                }
                let (length, kept) = append_batch(&transaction, live, batch)?;
                written.push((batch.session, length, kept));
            }
            transaction.commit()
        };
        let result = run();
        for batch in group {
            let outcome = match &result {
                Err(error) => Err(database(&path, error)),
                Ok(()) if conflicts.contains(&batch.session) => {
                    Err(StoreError::SessionInUse { session: batch.session.to_string() })
                }
                Ok(()) => Ok(()),
            };
            match outcome {
                Ok(()) => {
                    let found = written.iter().find(|(session, ..)| *session == batch.session);
                    if let (Some(&(_, length, kept)), Some(live)) = (found, self.live.get_mut(&batch.session))
                    {
                        live.length = length;
                        let packed = live.recent.len() - kept.min(live.recent.len());
                        live.recent.drain(..packed);
                        batch.progress.reach(length);
                    }
                }
                Err(error) => {
                    self.live.remove(&batch.session);
                    batch.progress.fail(error);
                }
            }
        }
        self.signal.raise();
    }

    fn close(&mut self, session: i64) -> Result<()> {
        let Some(live) = self.live.remove(&session) else { return Ok(()) };
        self.transact(|transaction| {
            pack_all(transaction, session, &live.recent)?;
            transaction.execute("UPDATE sessions SET closed = 1 WHERE number = ?1", [session])?;
            Ok(())
        })
    }

    fn recover(&mut self, session: i64) -> Result<u64> {
        let outcome = self.transact(|transaction| {
            let recent = match read::recent(transaction, session, 0, u64::MAX)? {
                Ok(recent) => recent,
                Err(reason) => return Ok(Err(reason)),
            };
            pack_all(transaction, session, &recent)?;
            transaction.execute("UPDATE sessions SET closed = 2 WHERE number = ?1", [session])?;
            Ok(Ok(recent.len() as u64))
        })?;
        outcome.map_err(|reason| StoreError::Damaged { path: self.path.clone(), reason })
    }

    fn delete(&mut self, session: i64) -> Result<()> {
        self.live.remove(&session);
        self.transact(|transaction| {
            search::forget(transaction, session)?;
            for table in ["recent", "blocks", "checkpoints", "entries", "wire_ids"] {
                transaction.execute(&format!("DELETE FROM {table} WHERE session = ?1"), [session])?;
            }
            transaction.execute(
                "DELETE FROM contents WHERE number IN (SELECT content FROM content_uses WHERE session = ?1)
                 AND NOT EXISTS (SELECT 1 FROM content_uses AS other
                                 WHERE other.content = contents.number AND other.session <> ?1)",
                [session],
            )?;
            transaction.execute("DELETE FROM content_uses WHERE session = ?1", [session])?;
            transaction.execute("DELETE FROM sessions WHERE number = ?1", [session])?;
            Ok(())
        })
    }

    fn shrink(&mut self) -> Result<()> {
        self.connection
            .execute_batch(
                "INSERT INTO words (words) VALUES ('optimize'); VACUUM; PRAGMA wal_checkpoint(TRUNCATE);",
            )
            .map_err(|error| database(&self.path, &error))
    }
}

fn length(connection: &Connection, session: i64) -> rusqlite::Result<Option<u64>> {
    connection
        .prepare_cached("SELECT length FROM sessions WHERE number = ?1")?
        .query_row([session], |row| row.get::<_, i64>(0))
        .map(i64::unsigned_abs)
        .optional()
}

/// Writes one session's part of a group. Gives its new length and how many of its records remain rows.
///
/// `live.recent` holds the records of the batch afterwards, too; if the transaction fails, the session is dropped.
fn append_batch(
    transaction: &Transaction<'_>,
    live: &mut Live,
    batch: &mut Batch,
) -> rusqlite::Result<(u64, usize)> {
    let session = batch.session;
    let mut observed = Observed::default();
    let (mut bytes, mut latest) = (0, i64::MIN);
    for record in &batch.records {
        live.observer.observe(record, &mut observed);
        bytes += record.bytes.len() as i64;
        latest = latest.max(record.time.0);
    }
    let length = live.length + batch.records.len() as u64;
    transaction
        .prepare_cached(
            "UPDATE sessions SET length = ?2, bytes = bytes + ?3, changed = max(changed, ?4) WHERE number = ?1",
        )?
        .execute(params![session, length as i64, bytes, latest])?;
    if observed != Observed::default() {
        note(transaction, session, &observed)?;
    }
    let rows = live.recent.len();
    live.recent.append(&mut batch.records);
    let cuts = block_ends(&live.recent);
    let packed = cuts.last().copied().unwrap_or(0);
    let mut start = 0;
    for end in cuts {
        pack(transaction, session, &live.recent[start..end])?;
        start = end;
    }
    if packed > 0 && rows > 0 {
        remove_rows(transaction, session, live.recent[packed - 1].sequence)?;
    }
    for record in &live.recent[packed.max(rows)..] {
        insert_row(transaction, session, record)?;
    }
    if packed > 0 {
        window::checkpoint_if_due(transaction, session, live.recent[packed - 1].sequence + 1)?;
    }
    Ok((length, live.recent.len() - packed))
}

/// Where full blocks end among the records; what is behind the last end is not enough for one.
fn block_ends(records: &[Record]) -> Vec<usize> {
    let mut ends = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, record) in records.iter().enumerate() {
        bytes += record.bytes.len();
        if index + 1 - start >= BLOCK_RECORDS || bytes >= BLOCK_BYTES {
            ends.push(index + 1);
            start = index + 1;
            bytes = 0;
        }
    }
    ends
}

fn pack_all(transaction: &Transaction<'_>, session: i64, records: &[Record]) -> rusqlite::Result<()> {
    let Some(last) = records.last() else { return Ok(()) };
    pack(transaction, session, records)?;
    remove_rows(transaction, session, last.sequence)?;
    window::checkpoint_if_due(transaction, session, last.sequence + 1)
}

fn pack(transaction: &Transaction<'_>, session: i64, records: &[Record]) -> rusqlite::Result<()> {
    let Some(first) = records.first() else { return Ok(()) };
    let pieces = records
        .iter()
        .map(|record| contents::cut(transaction, session, &record.bytes))
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let data = block::pack(records, &pieces)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    transaction
        .prepare_cached("INSERT INTO blocks (session, first, count, data) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![session, first.sequence as i64, records.len() as i64, data])?;
    search::index(transaction, session, records)
}

fn remove_rows(transaction: &Transaction<'_>, session: i64, last: u64) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("DELETE FROM recent WHERE session = ?1 AND sequence <= ?2")?
        .execute([session, last as i64])?;
    Ok(())
}

fn insert_row(transaction: &Transaction<'_>, session: i64, record: &Record) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO recent (session, sequence, time, channel, peer, protocol, digest, bytes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            session,
            record.sequence as i64,
            record.time.0,
            record.channel.code(),
            &*record.peer,
            record.protocol,
            read::digest(&record.bytes),
            record.bytes
        ])?;
    Ok(())
}

/// Writes down what came to light about a session. What the recorder was told at the beginning stays.
fn note(transaction: &Transaction<'_>, session: i64, observed: &Observed) -> rusqlite::Result<()> {
    let about = &observed.about;
    transaction
        .prepare_cached(
            "UPDATE sessions SET agent = coalesce(agent, ?2), client = coalesce(client, ?3),
                 project = coalesce(project, ?4),
                 title = CASE WHEN ?6 THEN ?5 ELSE coalesce(title, ?5) END, titled = titled OR ?6,
                 protocol = coalesce(?7, protocol)
             WHERE number = ?1",
        )?
        .execute(params![
            session,
            about.agent,
            about.client,
            about.project,
            about.title,
            observed.titled,
            observed.protocol
        ])?;
    for id in &observed.wire_ids {
        transaction
            .prepare_cached(
                "INSERT OR IGNORE INTO wire_ids (session, place, id)
                 VALUES (?1, (SELECT count(*) FROM wire_ids WHERE session = ?1), ?2)",
            )?
            .execute(params![session, id])?;
    }
    Ok(())
}
