//! Moves the records of one session from its journal into the database.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use switchboard_acp::Moment;

use crate::block;
use crate::contents;
use crate::error::{Result, StoreError, database};
use crate::lock::SessionLock;
use crate::observe::{Observed, Observer};
use crate::progress::Progress;
use crate::record::{About, Record};
use crate::segment::{Cursor, Folder, JournalRead};
use crate::writer::{Reply, insert_session, transact};

/// Maximum records and bytes of a block. Whichever is reached first ends it.
const BLOCK_RECORDS: usize = 1024;
const BLOCK_BYTES: usize = 256 * 1024;
/// Maximum blocks and bytes moved in one transaction.
const TRANSFER_BLOCKS: usize = 8;
const TRANSFER: usize = TRANSFER_BLOCKS * BLOCK_BYTES;

pub(crate) struct Live {
    id: Arc<str>,
    folder: Folder,
    /// Row number of the session, once known.
    number: Option<i64>,
    about: About,
    began: Moment,
    /// Number of records in blocks.
    moved: u64,
    /// Number of records that this instance moved.
    moved_here: u64,
    /// First sequence number of the oldest segment that was not removed.
    cleared: u64,
    cursor: Cursor,
    /// Records that were read but are not in a block yet.
    pending: Vec<Record>,
    pending_bytes: usize,
    observer: Observer,
    /// Metadata found in messages that is not in the database yet.
    observed: Observed,
    pub(crate) progress: Option<Arc<Progress>>,
    closing: Option<Closing>,
    /// True if moved segments are kept, because the transactions that moved them are not synced yet.
    keeps_segments: bool,
}

struct Closing {
    // Dropped last, so that the session stays locked until it is closed.
    _lock: SessionLock,
    deadline: Option<Instant>,
    end: Ending,
}

enum Ending {
    Closed(Reply<()>),
    Recovered(Option<Reply<u64>>),
}

/// Result of [`Live::advance`].
pub(crate) enum Outcome {
    /// Records were moved, and there may be more.
    Moved,
    /// Nothing to do.
    Rest,
    /// Another process has locked the database.
    Busy,
    /// The deadline has passed.
    Overdue,
    /// All records of the session are in the database. Holds its row number.
    Closed(i64),
    /// The session cannot be moved any further.
    Failed(StoreError),
}

impl Live {
    pub(crate) fn new(
        folder: &Folder,
        id: &Arc<str>,
        about: About,
        began: Moment,
        progress: Option<Arc<Progress>>,
    ) -> Self {
        Live {
            id: Arc::clone(id),
            folder: folder.clone(),
            number: None,
            about,
            began,
            moved: 0,
            moved_here: 0,
            cleared: 0,
            cursor: writer_cursor(folder, id, 0),
            pending: Vec::new(),
            pending_bytes: 0,
            observer: Observer::default(),
            observed: Observed::default(),
            progress,
            closing: None,
            keeps_segments: false,
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn close(&mut self, lock: SessionLock, deadline: Option<Instant>, reply: Reply<()>) {
        self.cursor.set_complete(true);
        self.closing = Some(Closing { _lock: lock, deadline, end: Ending::Closed(reply) });
    }

    pub(crate) fn recover(&mut self, lock: SessionLock, reply: Option<Reply<u64>>) {
        self.cursor.set_complete(true);
        self.closing = Some(Closing { _lock: lock, deadline: None, end: Ending::Recovered(reply) });
    }

    /// Returns true if the session is being recovered after its recorder died.
    pub(crate) fn is_recovering(&self) -> bool {
        matches!(&self.closing, Some(Closing { end: Ending::Recovered(_), .. }))
    }

    /// Replies when the session is recovered.
    pub(crate) fn notify_recovered(&mut self, reply: Reply<u64>) {
        if let Some(Closing { end: Ending::Recovered(known), .. }) = &mut self.closing {
            // An earlier caller gets its answer now, and continues.
            if let Some(before) = known.replace(reply) {
                drop(before.send(Ok(0)));
            }
        }
    }

    /// Keeps moved segments from now on. The writer removes them when the session is closed.
    pub(crate) fn keep_segments(&mut self) {
        self.keeps_segments = true;
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    pub(crate) fn is_overdue(&self) -> bool {
        let deadline = self.closing.as_ref().and_then(|closing| closing.deadline);
        deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Sets a deadline for a closing session. An earlier deadline stays.
    pub(crate) fn hurry(&mut self, deadline: Instant) {
        if let Some(closing) = &mut self.closing {
            closing.deadline = Some(closing.deadline.map_or(deadline, |known| known.min(deadline)));
        }
    }

    /// Replies with success. Remaining records stay in the journal.
    pub(crate) fn done(self) {
        self.answer(Ok(()));
    }

    pub(crate) fn fail(self, error: &StoreError) {
        if let Some(progress) = &self.progress {
            progress.fail(error.clone());
        }
        self.answer(Err(error.clone()));
    }

    fn answer(self, result: Result<()>) {
        match self.closing.map(|closing| closing.end) {
            Some(Ending::Closed(reply)) => drop(reply.send(result)),
            Some(Ending::Recovered(Some(reply))) => drop(reply.send(result.map(|()| self.moved_here))),
            Some(Ending::Recovered(None)) | None => {}
        }
    }

    /// Finds the session's row or inserts it. Continues after the records that are already in blocks.
    pub(crate) fn find_or_begin(&mut self, connection: &mut Connection) -> rusqlite::Result<()> {
        if self.number.is_some() {
            return Ok(());
        }
        let found = connection
            .prepare_cached("SELECT number, length FROM sessions WHERE id = ?1")?
            .query_row([&*self.id], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))
            .optional()?;
        let (number, length) = match found {
            Some(found) => found,
            None => {
                let (about, began) = self.session_info();
                let number =
                    transact(connection, |transaction| insert_session(transaction, &self.id, &about, began))?;
                (number, 0)
            }
        };
        self.number = Some(number);
        if length > 0 {
            self.moved = length;
            self.cursor = self.cursor_at(length);
        }
        Ok(())
    }

    fn cursor_at(&self, next: u64) -> Cursor {
        let mut cursor = writer_cursor(&self.folder, &self.id, next);
        cursor.set_complete(self.closing.is_some());
        cursor
    }

    /// Returns the metadata and start time from the recorder, or from the journal if the recorder has died.
    fn session_info(&mut self) -> (About, Moment) {
        if self.progress.is_none() {
            // Every segment starts with the same metadata; use the first readable one.
            for first in self.folder.segments(&self.id).unwrap_or_default() {
                let mut cursor = self.cursor_at(first);
                if cursor.read(1).is_ok()
                    && let Some(head) = cursor.head
                {
                    return (head.about(), Moment(head.began));
                }
            }
        }
        (self.about.clone(), self.began)
    }

    /// Moves the whole journal so that a recorder can continue. Returns the number of records and bytes.
    pub(crate) fn resume(&mut self, connection: &mut Connection) -> rusqlite::Result<(u64, u64)> {
        self.find_or_begin(connection)?;
        // The previous recorder is gone, and the caller holds the lock.
        self.cursor.set_complete(true);
        while self.transfer(connection, true)? {}
        let Some(number) = self.number else { return Err(rusqlite::Error::QueryReturnedNoRows) };
        let bytes = transact(connection, |transaction| {
            transaction.execute("UPDATE sessions SET closed = 0 WHERE number = ?1", [number])?;
            transaction.query_row("SELECT bytes FROM sessions WHERE number = ?1", [number], |row| {
                row.get::<_, i64>(0)
            })
        })?;
        // Records of a segment that cannot be removed are skipped: they are below the session's length.
        drop(self.folder.remove(&self.id, None));
        self.cursor = self.cursor_at(self.moved);
        Ok((self.moved, bytes.unsigned_abs()))
    }

    /// Moves part of the journal.
    pub(crate) fn advance(&mut self, connection: &mut Connection, path: &Path) -> Outcome {
        if self.is_overdue() {
            return Outcome::Overdue;
        }
        let work = |live: &mut Self, connection: &mut Connection| {
            live.find_or_begin(connection)?;
            if live.is_up_to_date() {
                return Ok(Outcome::Rest);
            }
            let is_closing = live.closing.is_some();
            if live.transfer(connection, is_closing)? {
                return Ok(Outcome::Moved);
            }
            let (Some(number), Some(closing)) = (live.number, &live.closing) else {
                return Ok(Outcome::Rest);
            };
            // A session that was closed properly but not moved is not counted as interrupted.
            let closed = match closing.end {
                Ending::Closed(_) => 1,
                Ending::Recovered(_) if live.cursor.closed => 1,
                Ending::Recovered(_) => 2,
            };
            transact(connection, |transaction| {
                transaction.execute(
                    "UPDATE sessions SET closed = ?2 WHERE number = ?1 AND closed = 0",
                    [number, closed],
                )
            })?;
            Ok(Outcome::Closed(number))
        };
        match work(self, connection).map_err(|error| database(path, &error)) {
            Ok(outcome) => outcome,
            Err(StoreError::Busy { .. }) => Outcome::Busy,
            Err(error) => Outcome::Failed(error),
        }
    }

    /// Returns true if there is nothing to move. Does not touch the journal, because few of many open
    /// sessions are active.
    fn is_up_to_date(&self) -> bool {
        let is_read = |progress: &Arc<Progress>| self.cursor.next() >= progress.written();
        self.closing.is_none()
            && self.progress.as_ref().is_some_and(is_read)
            && self.observed == Observed::default()
            && block_ends(&self.pending).is_empty()
    }

    /// Reads more of the journal and moves full blocks, or everything with `all`. Returns false if there was
    /// nothing to do.
    fn transfer(&mut self, connection: &mut Connection, all: bool) -> rusqlite::Result<bool> {
        let mut gap = None;
        // A caller that resumes the session gets I/O errors at once. Background transfers are retried.
        let is_resuming = self.progress.is_none() && self.closing.is_none();
        let unread: fn(std::io::Error) -> rusqlite::Error =
            if is_resuming { |error| failure(error.into()) } else { unread };
        while self.pending_bytes < TRANSFER && self.pending.len() < TRANSFER_BLOCKS * BLOCK_RECORDS {
            match self.cursor.read(BLOCK_BYTES).map_err(unread)? {
                JournalRead::Records(records) => {
                    for record in &records {
                        self.observer.observe(record, &mut self.observed);
                        self.pending_bytes += record.bytes.len();
                    }
                    self.pending.extend(records);
                }
                JournalRead::End => break,
                JournalRead::Missing { to, damaged } => {
                    if let Some(first) = damaged {
                        // Keep the damaged segment before its remaining records are moved, because moving
                        // removes the segment.
                        self.folder.keep_damaged(&self.id, first).map_err(|error| failure(error.into()))?;
                    }
                    gap = Some(to);
                    break;
                }
            }
        }
        // Compress and insert in one transaction with the new length, so that a crash leaves the session
        // either before or after this transfer. Records below the length are skipped when the journal is read
        // again.
        let mut cuts = block_ends(&self.pending);
        let packed = cuts.last().copied().unwrap_or(0);
        if (all || gap.is_some()) && packed < self.pending.len() {
            cuts.push(self.pending.len());
        }
        let has_metadata = self.observed != Observed::default();
        if cuts.is_empty() && !has_metadata && gap.is_none() {
            return Ok(false);
        }
        let Some(number) = self.number else { return Ok(false) };
        let (moved, pending, observed) = (self.moved, &self.pending, &self.observed);
        let end = transact(connection, |transaction| {
            if length(transaction, number)? != Some(moved) {
                return Ok(None);
            }
            let start = cuts.last().copied().unwrap_or(0);
            let records = &pending[..start];
            pack(transaction, number, records, &cuts)?;
            let bytes: usize = records.iter().map(|record| record.bytes.len()).sum();
            let latest = records.iter().map(|record| record.time.0).max().unwrap_or(i64::MIN);
            let end = gap.unwrap_or(moved + start as u64);
            transaction
                .prepare_cached(
                    "UPDATE sessions SET length = ?2, bytes = bytes + ?3, changed = max(changed, ?4)
                     WHERE number = ?1",
                )?
                .execute(params![number, end as i64, bytes as i64, latest])?;
            if has_metadata {
                note(transaction, number, observed)?;
            }
            Ok(Some((end, start, bytes)))
        })?;
        let Some((end, taken, bytes)) = end else {
            // Another process has written or deleted this session.
            return Err(failure("another process has written or deleted this session".into()));
        };
        self.moved = end;
        self.moved_here += taken as u64;
        self.pending.drain(..taken);
        self.pending_bytes -= bytes;
        self.observed = Observed::default();
        if let Some(to) = gap {
            self.cursor.skip_to(to);
        }
        // Only after the commit: a segment is the only copy of its records until then.
        let start = self.cursor.segment_start();
        if start > self.cleared && start <= self.moved && !self.keeps_segments {
            self.cleared = start;
            // A segment that cannot be removed is skipped when the journal is read again.
            drop(self.folder.remove(&self.id, Some(self.moved)));
        }
        Ok(taken > 0 || gap.is_some())
    }
}

/// Returns a cursor for the session's writer, which expects the journal to grow.
fn writer_cursor(folder: &Folder, id: &str, next: u64) -> Cursor {
    let mut cursor = Cursor::new(folder, id, next);
    cursor.set_complete(false);
    cursor
}

/// Converts an I/O error of a journal. Running out of file descriptors counts as busy, so that it is retried.
fn unread(error: std::io::Error) -> rusqlite::Error {
    // ENFILE and EMFILE, which have no `ErrorKind`.
    if matches!(error.raw_os_error(), Some(23 | 24)) && cfg!(unix) {
        let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        return rusqlite::Error::SqliteFailure(busy, Some(error.to_string()));
    }
    failure(error.into())
}

pub(crate) fn failure(error: Box<dyn std::error::Error + Send + Sync>) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(error)
}

fn length(connection: &Connection, session: i64) -> rusqlite::Result<Option<u64>> {
    connection
        .prepare_cached("SELECT length FROM sessions WHERE number = ?1")?
        .query_row([session], |row| row.get::<_, i64>(0))
        .map(i64::unsigned_abs)
        .optional()
}

/// Returns the ends of full blocks among the records. Records after the last end are too few for a block.
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

/// Writes records into blocks that end at the given indices.
pub(crate) fn pack(
    transaction: &Transaction<'_>,
    session: i64,
    records: &[Record],
    ends: &[usize],
) -> rusqlite::Result<()> {
    let pieces = records
        .iter()
        .map(|record| contents::cut(transaction, session, &record.bytes))
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let starts = std::iter::once(&0).chain(ends);
    let ranges: Vec<_> = starts.zip(ends).map(|(start, end)| *start..*end).collect();
    let packed = in_parallel(&ranges, |range| block::pack(&records[range.clone()], &pieces[range.clone()]));
    for (range, data) in ranges.iter().zip(packed) {
        let data = data.map_err(|error| failure(error.into()))?;
        let first = records.get(range.start).map_or(0, |record| record.sequence);
        transaction
            .prepare_cached("INSERT INTO blocks (session, first, count, data) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![session, first as i64, range.len() as i64, data])?;
    }
    Ok(())
}

/// Maps items in parallel on all processors, in order.
fn in_parallel<T: Sync, R: Send>(things: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut shares = things.chunks(things.len().div_ceil(processors).max(1));
    let Some(ours) = shares.next() else { return Vec::new() };
    let do_share = |share: &[T]| share.iter().map(&work).collect::<Vec<R>>();
    std::thread::scope(|scope| {
        let start = |share| {
            let thread = std::thread::Builder::new().name("store-pack".to_owned());
            thread.spawn_scoped(scope, move || do_share(share)).map_err(|_| share)
        };
        let theirs: Vec<_> = shares.map(start).collect();
        let mut done = do_share(ours);
        for thread in theirs {
            done.extend(match thread.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(share)) => share,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                // The system could not start another thread.
                Err(share) => do_share(share),
            });
        }
        done
    })
}

/// Stores metadata found in messages. Values that the recorder was given at the start take precedence.
fn note(transaction: &Transaction<'_>, session: i64, observed: &Observed) -> rusqlite::Result<()> {
    let Observed { about, titled, protocol, wire_ids, children } = observed;
    transaction
        .prepare_cached(
            "UPDATE sessions SET agent = coalesce(agent, ?2), client = coalesce(client, ?3),
                 project = coalesce(project, ?4),
                 title = CASE WHEN ?6 THEN ?5 ELSE coalesce(title, ?5) END, titled = titled OR ?6,
                 protocol = coalesce(?7, protocol)
             WHERE number = ?1",
        )?
        .execute(params![session, about.agent, about.client, about.project, about.title, titled, protocol])?;
    // Subagents can be found by their ids, but are not sessions of their own: their index is negative.
    let own = wire_ids.iter().map(|id| (id, 1)).chain(children.iter().map(|id| (id, -1)));
    for (id, sign) in own {
        transaction
            .prepare_cached(
                "INSERT OR IGNORE INTO wire_ids (session, place, id)
                 VALUES (?1, ?3 * (1 + (SELECT count(*) FROM wire_ids WHERE session = ?1)), ?2)",
            )?
            .execute(params![session, id, sign])?;
    }
    Ok(())
}
