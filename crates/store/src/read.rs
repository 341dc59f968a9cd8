//! Reads a session from a sequence number.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OptionalExtension};

use crate::block;
use crate::contents;
use crate::error::{Result, StoreError};
use crate::live::failure;
use crate::lock::SessionLock;
use crate::record::{Item, Record};
use crate::segment::{self, Cursor, Folder, JournalRead};
use crate::store::Store;

/// Bytes of a journal read at once.
const PORTION: usize = 256 * 1024;
const MISSING: &str = "records are missing";
/// Interval at which a tail checks for records of other processes.
const POLL: Duration = Duration::from_millis(20);

/// Result of reading a session at a sequence number.
pub(crate) enum Batch {
    Records(Vec<Record>),
    Gap { to: u64, reason: String },
    End,
}

/// Reads the records from a sequence number, one block or one portion of the journal at a time.
pub(crate) fn batch(
    connection: &Connection,
    session: i64,
    journal: &mut Cursor,
    from: u64,
    end: u64,
) -> rusqlite::Result<Batch> {
    // A record may move from the journal to a block between the two checks, so check both again before
    // reporting it missing.
    let mut looked_again = false;
    loop {
        // Blocks first: they are complete, while the journal may still be written.
        match stored(connection, session, from, end)? {
            Batch::End if from >= end => return Ok(Batch::End),
            Batch::End => {}
            found => return Ok(found),
        }
        if journal.next() != from {
            journal.skip_to(from);
        }
        match journal.read(PORTION).map_err(|error| failure(error.into()))? {
            JournalRead::Records(mut records) => {
                records.retain(|record| record.sequence < end);
                return Ok(Batch::Records(records));
            }
            JournalRead::End if looked_again => return Ok(Batch::End),
            JournalRead::Missing { to, damaged } if looked_again => {
                let reason = match damaged {
                    Some(first) => format!("the journal {} is damaged here", journal.path(first).display()),
                    None => MISSING.to_owned(),
                };
                return Ok(Batch::Gap { to: to.min(end), reason });
            }
            JournalRead::End | JournalRead::Missing { .. } => looked_again = true,
        }
    }
}

/// Returns the number of records in blocks.
pub(crate) fn stored_length(connection: &Connection, session: i64) -> rusqlite::Result<u64> {
    let length = connection
        .prepare_cached("SELECT length FROM sessions WHERE number = ?1")?
        .query_row([session], |row| row.get::<_, i64>(0))
        .optional()?;
    Ok(length.unwrap_or(0).unsigned_abs())
}

/// A part of a session that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// Id of the session.
    pub session: String,
    /// First missing sequence number.
    pub from: u64,
    /// First sequence number after the gap.
    pub to: u64,
    /// Reason.
    pub reason: String,
}

impl Store {
    /// Returns the gaps in journals and between blocks, of one session or of all. Blocks are not unpacked:
    /// damage inside a block is found when its session is read.
    pub fn gaps(&self, id: Option<&str>) -> Result<Vec<Gap>> {
        let only = id.map(|id| self.number(id)).transpose()?.map(|(number, _)| number);
        // Journals first: records that are moved out of them meanwhile are then seen in the database.
        let journals: HashMap<String, Vec<u64>> = self
            .with_reader(|_| self.folder().journals().map_err(|error| failure(error.into())))?
            .into_iter()
            .collect();
        let mut gaps = Vec::new();
        let sessions: Vec<(i64, String, u64)> = self.with_reader(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT number, id, length FROM sessions WHERE closed < 3 AND (?1 IS NULL OR number = ?1)
                 ORDER BY number",
            )?;
            let row = |row: &rusqlite::Row<'_>| {
                Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?.unsigned_abs()))
            };
            statement.query_map([only], row)?.collect()
        })?;
        for (number, id, length) in &sessions {
            self.with_reader(|connection| {
                let mut next = 0;
                let mut add = |from: u64, to: u64| -> rusqlite::Result<()> {
                    if let Batch::Gap { to, reason } = stored(connection, *number, from, to)? {
                        gaps.push(Gap { session: id.clone(), from, to, reason });
                    }
                    Ok(())
                };
                let mut statement = connection
                    .prepare_cached("SELECT first, count FROM blocks WHERE session = ?1 ORDER BY first")?;
                let mut rows = statement.query([number])?;
                while let Some(row) = rows.next()? {
                    let (first, count) = (row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, i64>(1)?);
                    if first > next {
                        add(next, first)?;
                    }
                    next = next.max(first + count.unsigned_abs());
                }
                if next < *length { add(next, *length) } else { Ok(()) }
            })?;
            if let Some(segments) = journals.get(id) {
                let mut at = *length;
                let mut journal = Cursor::listed(self.folder(), id, at, segments);
                loop {
                    match self
                        .with_reader(|connection| batch(connection, *number, &mut journal, at, u64::MAX))?
                    {
                        Batch::Records(records) => {
                            at = records.last().map_or(at + 1, |record| record.sequence + 1);
                        }
                        Batch::Gap { to, reason } => {
                            gaps.push(Gap { session: id.clone(), from: at, to, reason });
                            at = to.max(at + 1);
                        }
                        Batch::End => break,
                    }
                }
            }
        }
        if only.is_none() {
            let listed: HashSet<&str> = sessions.iter().map(|(_, id, _)| &**id).collect();
            for (id, segments) in journals {
                let last = segments.last().copied().unwrap_or(0);
                let is_listed = listed.contains(&*id);
                // A session that has just started is not listed yet, and one that is being deleted is no
                // longer listed.
                if !is_listed && !SessionLock::is_taken_in(self.folder(), &id) && self.is_unknown(&id)? {
                    let end = self.with_reader(|_| {
                        segment::end_in(self.folder(), &id, last).map_err(|error| failure(error.into()))
                    })?;
                    let reason =
                        "the session is not in the list of sessions, but has a journal; any command \
                        that writes to the store puts it back"
                            .to_owned();
                    gaps.push(Gap { session: id, from: 0, to: end.map_or(0, |end| end.next), reason });
                }
            }
        }
        Ok(gaps)
    }

    fn is_unknown(&self, id: &str) -> Result<bool> {
        self.with_reader(|connection| {
            let is_known = connection.prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")?.exists([id])?;
            Ok(!is_known)
        })
    }
}

/// Reads the records from a sequence number, from blocks only.
pub(crate) fn stored(connection: &Connection, session: i64, from: u64, end: u64) -> rusqlite::Result<Batch> {
    // One read snapshot, so that both queries see the same data.
    let _snapshot = if connection.is_autocommit() { Some(connection.unchecked_transaction()?) } else { None };
    let end = end.min(stored_length(connection, session)?);
    if from >= end {
        return Ok(Batch::End);
    }
    if let Some((first, count)) = covering(connection, session, from)? {
        let to = (first + count).min(end);
        let records = match Block::load(connection, session, first, count) {
            Ok(Ok(block)) => block.records(connection, from..to),
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
    let next: Option<i64> = connection
        .prepare_cached("SELECT min(first) FROM blocks WHERE session = ?1 AND first > ?2")?
        .query_row([session, from as i64], |row| row.get(0))?;
    let to = next.map_or(end, i64::unsigned_abs).min(end);
    let reason = match kept_journal(connection, session, from)? {
        Some(path) => format!("the journal was damaged here; the damaged file is kept as {}", path.display()),
        None if to == end => "the session is cut off here".to_owned(),
        None => MISSING.to_owned(),
    };
    Ok(Batch::Gap { to, reason })
}

/// Returns the kept damaged journal file that contained a record.
fn kept_journal(connection: &Connection, session: i64, at: u64) -> rusqlite::Result<Option<PathBuf>> {
    let id: Option<String> = connection
        .prepare_cached("SELECT id FROM sessions WHERE number = ?1")?
        .query_row([session], |row| row.get(0))
        .optional()?;
    let (Some(id), Some(store)) = (id, connection.path()) else { return Ok(None) };
    // If the folder cannot be listed, the gap is reported without the file.
    let kept = Folder::beside(Path::new(store)).kept(&id).unwrap_or_default();
    Ok(kept.into_iter().rev().find(|(first, _)| *first <= at).map(|(_, path)| path))
}

/// Returns the block that contains a record: its first sequence number and its number of records.
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

/// A block whose records can be unpacked.
pub(crate) struct Block {
    first: u64,
    count: u64,
    plain: Vec<u8>,
}

impl Block {
    /// Loads the block that contains a record. `None` if there is no readable one.
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

    /// Returns true if the block contains a range of records.
    pub(crate) fn has(&self, range: &Range<u64>) -> bool {
        range.start >= self.first && range.end <= self.first + self.count
    }

    /// Unpacks some of its records, or returns the reason why it is unreadable.
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

/// Iterator over the records of a session, up to its end when reading started.
#[derive(Debug)]
pub struct Records<'s> {
    pub(crate) store: &'s Store,
    pub(crate) session: i64,
    pub(crate) next: u64,
    pub(crate) end: u64,
    pub(crate) ready: VecDeque<Record>,
    pub(crate) journal: Cursor,
}

/// Maximum number of parked readers.
const PARKED: usize = 8;

/// Readers that were dropped before the end, oldest first. A reader that continues at the same position
/// reuses their state.
#[derive(Debug, Default)]
pub(crate) struct Parked(VecDeque<(i64, u64, VecDeque<Record>, Cursor)>);

impl Parked {
    /// Removes and returns the buffered records and the journal cursor of a reader parked at this position.
    pub(crate) fn take(&mut self, session: i64, next: u64) -> Option<(VecDeque<Record>, Cursor)> {
        let at = self.0.iter().position(|(of, place, ..)| (*of, *place) == (session, next))?;
        let (.., ready, journal) = self.0.remove(at)?;
        Some((ready, journal))
    }

    /// Discards the readers of a session that is being deleted.
    pub(crate) fn forget(&mut self, session: i64) {
        self.0.retain(|(of, ..)| *of != session);
    }

    fn put(&mut self, session: i64, next: u64, ready: VecDeque<Record>, journal: Cursor) {
        if self.0.len() >= PARKED {
            self.0.pop_front();
        }
        self.0.push_back((session, next, ready, journal));
    }
}

impl Drop for Records<'_> {
    fn drop(&mut self) {
        // Parking saves nothing for records in blocks.
        if self.next < self.end && self.journal.is_open() {
            let ready = std::mem::take(&mut self.ready);
            let journal = self.journal.take();
            self.store.parked().put(self.session, self.next, ready, journal);
        }
    }
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
            let journal = &mut self.journal;
            match self.store.with_reader(|connection| batch(connection, session, journal, next, end))? {
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

/// Iterator over the records of a session as they are written, also by other processes.
#[derive(Debug)]
pub struct Tail<'s> {
    pub(crate) records: Records<'s>,
    pub(crate) id: String,
}

impl Tail<'_> {
    /// Returns the next record or gap, or `None` after the timeout.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Item>> {
        let deadline = Instant::now().checked_add(timeout);
        self.records.end = u64::MAX;
        let store = self.records.store;
        loop {
            let seen = store.signal().count();
            if let Some(item) = self.records.step()? {
                return Ok(Some(item));
            }
            if !store.has(self.records.session)? {
                return Err(StoreError::UnknownSession { session: self.id.clone() });
            }
            let left = deadline.map_or(POLL, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            store.signal().wait(seen, left.min(POLL));
        }
    }
}
