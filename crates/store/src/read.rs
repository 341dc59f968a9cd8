//! Reading a session from a sequence number on.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use crate::block;
use crate::contents;
use crate::error::{Result, StoreError};
use crate::record::{Channel, Item, Record, Time};
use crate::store::Store;

/// How many rows are read at once.
const ROWS: u64 = 1024;
/// How often a tail looks for what other processes wrote.
const POLL: Duration = Duration::from_millis(20);

/// A short check of the bytes of a row, since SQLite has none.
pub(crate) fn digest(bytes: &[u8]) -> i64 {
    let mut start = [0; 8];
    start.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
    i64::from_le_bytes(start)
}

/// Rows of a session from a number on, or what is wrong with them.
pub(crate) fn recent(
    connection: &Connection,
    session: i64,
    from: u64,
    limit: u64,
) -> rusqlite::Result<std::result::Result<Vec<Record>, String>> {
    let mut statement = connection.prepare_cached(
        "SELECT sequence, time, channel, peer, protocol, digest, bytes FROM recent
         WHERE session = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT ?3",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![session, from as i64, limit])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let sequence = row.get::<_, i64>(0)?.unsigned_abs();
        let bytes: Vec<u8> = row.get(6)?;
        let channel = row.get::<_, u8>(2).ok().and_then(Channel::from_code);
        let Some(channel) = channel.filter(|_| row.get(5) == Ok(digest(&bytes))) else {
            return Ok(Err(format!("message {sequence} is not what was written")));
        };
        records.push(Record {
            sequence,
            time: Time(row.get(1)?),
            channel,
            peer: row.get::<_, String>(3)?.into(),
            protocol: row.get(4)?,
            bytes,
        });
    }
    Ok(Ok(records))
}

/// What stands at a place in a session.
pub(crate) enum Batch {
    Records(Vec<Record>),
    Gap { to: u64, reason: String },
    End,
}

/// The records that stand at a place, as many as are read in one go.
pub(crate) fn batch(connection: &Connection, session: i64, from: u64, end: u64) -> rusqlite::Result<Batch> {
    // One snapshot, so that records cannot move from rows to a block between two looks.
    let _snapshot = if connection.is_autocommit() { Some(connection.unchecked_transaction()?) } else { None };
    let snapshot = connection;
    let length = snapshot
        .prepare_cached("SELECT length FROM sessions WHERE number = ?1")?
        .query_row([session], |row| row.get::<_, i64>(0))
        .optional()?
        .unwrap_or(0)
        .unsigned_abs();
    let end = end.min(length);
    if from >= end {
        return Ok(Batch::End);
    }
    if let Some((first, count)) = covering(snapshot, session, from)? {
        let to = (first + count).min(end);
        let records = match Block::load(snapshot, session, first, count) {
            Ok(Ok(block)) => block.records(snapshot, from..to),
            Ok(Err(reason)) => Ok(Err(reason)),
            Err(error) => Err(error),
        };
        return match records {
            Ok(Ok(records)) => Ok(Batch::Records(records)),
            Ok(Err(reason)) => Ok(Batch::Gap { to, reason }),
            Err(error) if is_damage(&error) => Ok(Batch::Gap { to, reason: error.to_string() }),
            Err(error) => Err(error),
        };
    }
    let rows = match recent(snapshot, session, from, ROWS.min(end - from)) {
        Ok(rows) => rows,
        Err(error) if is_damage(&error) => Err(error.to_string()),
        Err(error) => return Err(error),
    };
    let rows = match rows {
        Ok(rows) => rows,
        Err(reason) => {
            // One by one, so that only what is damaged is missing.
            let one = recent(snapshot, session, from, 1).ok().and_then(std::result::Result::ok);
            match one.filter(|rows| rows.first().is_some_and(|record| record.sequence == from)) {
                Some(rows) => return Ok(Batch::Records(rows)),
                None => return Ok(Batch::Gap { to: from + 1, reason }),
            }
        }
    };
    let contiguous: Vec<_> = rows
        .into_iter()
        .zip(from..)
        .take_while(|(record, place)| record.sequence == *place)
        .map(|(record, _)| record)
        .collect();
    if !contiguous.is_empty() {
        return Ok(Batch::Records(contiguous));
    }
    let next: Option<i64> = snapshot
        .prepare_cached(
            "SELECT min(place) FROM (SELECT min(first) AS place FROM blocks WHERE session = ?1 AND first > ?2
             UNION ALL SELECT min(sequence) FROM recent WHERE session = ?1 AND sequence > ?2)",
        )?
        .query_row([session, from as i64], |row| row.get(0))?;
    let to = next.map_or(end, i64::unsigned_abs).min(end);
    let reason = if to == end { "the session is cut off here" } else { "records are missing" };
    Ok(Batch::Gap { to, reason: reason.to_owned() })
}

/// The block that a record is in: its first record and how many there are.
fn covering(connection: &Connection, session: i64, at: u64) -> rusqlite::Result<Option<(u64, u64)>> {
    let place = |row: &rusqlite::Row<'_>| {
        Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, i64>(1)?.unsigned_abs()))
    };
    let found = connection
        .prepare_cached(
            "SELECT first, count FROM blocks WHERE session = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1",
        )?
        .query_row([session, at as i64], place)
        .optional()?;
    Ok(found.filter(|(first, count)| first + count > at))
}

/// A block whose records can be taken out.
pub(crate) struct Block {
    first: u64,
    count: u64,
    plain: Vec<u8>,
}

impl Block {
    /// The block that a record is in; `None` where there is none that can be read.
    pub(crate) fn around(connection: &Connection, session: i64, at: u64) -> rusqlite::Result<Option<Self>> {
        let Some((first, count)) = covering(connection, session, at)? else { return Ok(None) };
        match Block::load(connection, session, first, count) {
            Ok(block) => Ok(block.ok()),
            Err(error) if is_damage(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn load(
        connection: &Connection,
        session: i64,
        first: u64,
        count: u64,
    ) -> rusqlite::Result<std::result::Result<Self, String>> {
        let data: Vec<u8> = connection
            .prepare_cached("SELECT data FROM blocks WHERE session = ?1 AND first = ?2")?
            .query_row([session, first as i64], |row| row.get(0))?;
        let plain = block::decompress(&data).map_err(|error| format!("a block cannot be unpacked: {error}"));
        Ok(plain.map(|plain| Block { first, count, plain }))
    }

    /// Whether a range of records is in it.
    pub(crate) fn has(&self, range: &Range<u64>) -> bool {
        range.start >= self.first && range.end <= self.first + self.count
    }

    /// Some of its records, or what is wrong with it.
    pub(crate) fn records(
        &self,
        connection: &Connection,
        range: Range<u64>,
    ) -> rusqlite::Result<std::result::Result<Vec<Record>, String>> {
        enum Failure {
            Database(rusqlite::Error),
            Content(String),
        }
        let load = |number| match contents::load(connection, number) {
            Ok(Ok(content)) => Ok(content),
            Ok(Err(reason)) => Err(Failure::Content(reason)),
            Err(error) => Err(Failure::Database(error)),
        };
        match block::unpack(&self.plain, self.first, &range, load) {
            Ok(Ok((records, count))) if count == self.count => Ok(Ok(records)),
            Ok(Ok((_, count))) => Ok(Err(format!("a block has {count} records instead of {}", self.count))),
            Ok(Err(reason)) => Ok(Err(format!("a block cannot be unpacked: {reason}"))),
            Err(Failure::Content(reason)) => Ok(Err(reason)),
            Err(Failure::Database(error)) => Err(error),
        }
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::QueryReturnedNoRows
    ) || matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::SystemIoFailure))
}

/// The records of a session, one after the other, up to where it was when reading began.
#[derive(Debug)]
pub struct Records<'s> {
    pub(crate) store: &'s Store,
    pub(crate) session: i64,
    pub(crate) next: u64,
    pub(crate) end: u64,
    pub(crate) ready: VecDeque<Record>,
}

impl Records<'_> {
    fn step(&mut self) -> Result<Option<Item>> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                self.next = record.sequence + 1;
                return Ok(Some(Item::Record(record)));
            }
            if self.next >= self.end {
                return Ok(None);
            }
            let (session, next, end) = (self.session, self.next, self.end);
            match self.store.with_reader(|connection| batch(connection, session, next, end))? {
                Batch::Records(records) => self.ready = records.into(),
                Batch::Gap { to, reason } => {
                    self.next = to.max(next + 1);
                    return Ok(Some(Item::Gap { from: next, to: self.next, reason }));
                }
                Batch::End => return Ok(None),
            }
        }
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// The records of a session as they come, also from other processes.
#[derive(Debug)]
pub struct Tail<'s> {
    pub(crate) records: Records<'s>,
    pub(crate) id: String,
}

impl Tail<'_> {
    /// The next record or gap; `None` when none came in time.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Item>> {
        let deadline = Instant::now().checked_add(timeout);
        self.records.end = u64::MAX;
        let store = self.records.store;
        loop {
            let seen = store.signal().count();
            let version = store.data_version()?;
            if let Some(item) = self.records.step()? {
                return Ok(Some(item));
            }
            if !store.has(self.records.session)? {
                return Err(StoreError::UnknownSession { session: self.id.clone() });
            }
            // The database is asked again only when somebody wrote to it.
            loop {
                let left =
                    deadline.map_or(POLL, |deadline| deadline.saturating_duration_since(Instant::now()));
                if left.is_zero() {
                    return Ok(None);
                }
                store.signal().wait(seen, left.min(POLL));
                if store.signal().count() != seen || store.data_version()? != version {
                    break;
                }
            }
        }
    }
}
