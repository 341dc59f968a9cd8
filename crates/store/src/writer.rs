//! The only thread that writes to the database. It moves records from the journals of their sessions into
//! compressed blocks and indexes them when idle. Recorders do not wait for it; only callers that send a
//! [`Command`] do.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use switchboard_acp::Moment;

use crate::access::{Change, Changed};
use crate::error::{Result, StoreError, database};
use crate::free_space::FreeSpace;
use crate::indexing;
use crate::live::{Live, Outcome};
use crate::lock::SessionLock;
use crate::progress::{Progress, Ticker};
use crate::queue::{Queue, Taken, locked};
use crate::record::About;
use crate::removal;
use crate::segment::Folder;
use crate::signal::Signal;
use crate::store::{Settings, StoreInner};
use crate::wal;

/// SQLite busy timeout of one attempt.
pub(crate) const ATTEMPT: Duration = Duration::from_millis(100);
/// Time for which a command is retried while other processes keep the database locked.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay before another attempt.
const RETRY_DELAY: Duration = Duration::from_millis(20);
/// Number of bytes recorded per [`WINDOW`] above which moving and indexing pause, because the conversation
/// needs the processor.
const FLOOD: u64 = 512 * 1024;
const WINDOW: Duration = Duration::from_millis(100);
/// Journal size in bytes above which records are moved even under load.
const MAX_BACKLOG: u64 = 256 * 1024 * 1024;
/// Number of unindexed bytes up to which a session is indexed before its close is acknowledged.
const SMALL: u64 = 1024 * 1024;
/// Upper estimate of the bytes that one transaction adds to the file, the search index included.
const LARGEST_TRANSACTION: u64 = 16 * 1024 * 1024;
/// Time for the remaining transfers when the store is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum number of sessions recovered at a time in the background: they share one sync.
const RECOVERIES: usize = 32;
/// Maximum number of closing sessions that share one sync.
const CLOSE_GROUP: usize = 256;

/// Sessions that this process is recovering or has queued for recovery.
pub(crate) type Recovering = Arc<Mutex<HashSet<Arc<str>>>>;

pub(crate) type Reply<T> = SyncSender<Result<T>>;

pub(crate) enum Command {
    Begin {
        id: Arc<str>,
        about: About,
        began: Moment,
        progress: Arc<Progress>,
        reply: Reply<()>,
    },
    /// Moves the session's journal into the database. Replies with its length in records and bytes.
    Resume {
        id: Arc<str>,
        reply: Reply<(u64, u64)>,
    },
    /// Attaches the recorder of a resumed session.
    Attach {
        id: Arc<str>,
        progress: Arc<Progress>,
    },
    Close {
        id: Arc<str>,
        lock: SessionLock,
        deadline: Option<Instant>,
        reply: Reply<()>,
    },
    /// Queues sessions of dead recorders for recovery in the background.
    RecoverLater {
        ids: VecDeque<Arc<str>>,
    },
    /// Recovers one of them now, if it is still queued.
    RecoverNow {
        id: Arc<str>,
        reply: Reply<u64>,
    },
    /// Recovers the session of a dead recorder. Replies with the number of records that were only in the
    /// journal.
    Recover {
        id: Arc<str>,
        lock: SessionLock,
        reply: Option<Reply<u64>>,
    },
    Delete {
        session: i64,
        id: Arc<str>,
        lock: SessionLock,
        reply: Reply<()>,
    },
    Shrink {
        reply: Reply<()>,
    },
    /// Removes remains of deleted sessions from the index.
    CleanIndex {
        reply: Reply<()>,
    },
    /// Moves records from all journals once.
    Settle {
        reply: Reply<()>,
    },
    /// Indexes everything.
    CatchUp {
        reply: Reply<()>,
    },
    /// Changes tokens, shares or hosted sessions.
    Access {
        change: Change,
        reply: Reply<Changed>,
    },
}

pub(crate) struct Writer {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    pub(crate) folder: Folder,
    pub(crate) signal: Arc<Signal>,
    pub(crate) ticker: Arc<Ticker>,
    traffic: Arc<AtomicU64>,
    seen_traffic: (Instant, u64, bool),
    /// Value of `traffic` when all journals were last moved completely.
    moved_traffic: u64,
    /// Maximum bytes in journals while moving is paused. Never more than the store's size limit.
    max_backlog: u64,
    /// Size limit of the file in bytes, if old sessions are deleted to stay below it.
    makes_room: Option<u64>,
    /// True while sessions are being deleted to free space. Prevents recursion.
    is_making_room: bool,
    shortage: Arc<FreeSpace>,
    live: HashMap<Arc<str>, Live>,
    /// Sessions queued for recovery, and those being recovered.
    to_recover: VecDeque<Arc<str>>,
    in_recovery: Vec<Arc<str>>,
    /// Both, shared with callers that want to resume one of them.
    recovering: Recovering,
    /// True if blocks may be waiting to be indexed.
    has_unindexed: bool,
    /// True if records had to stay in a journal for lack of time.
    left_records: bool,
    /// True if transactions are synced when they are committed.
    is_synced: bool,
}

impl Writer {
    pub(crate) fn new(connection: Connection, shared: &StoreInner, settings: &Settings) -> Self {
        Writer {
            connection,
            folder: Folder::beside(&shared.path),
            path: shared.path.clone(),
            signal: Arc::clone(&shared.signal),
            ticker: Arc::clone(&shared.ticker),
            traffic: Arc::clone(&shared.traffic),
            seen_traffic: (Instant::now(), 0, false),
            moved_traffic: 0,
            max_backlog: settings.max_bytes.unwrap_or(MAX_BACKLOG).min(MAX_BACKLOG),
            makes_room: settings.max_bytes.filter(|_| settings.makes_room),
            is_making_room: false,
            shortage: Arc::clone(&shared.shortage),
            live: HashMap::new(),
            to_recover: VecDeque::new(),
            in_recovery: Vec::new(),
            recovering: Arc::clone(&shared.recovering),
            has_unindexed: true,
            left_records: false,
            is_synced: true,
        }
    }

    /// Runs until the queue is closed.
    pub(crate) fn run(&mut self, queue: &Queue<Command>) {
        let (mut timeout, mut is_deferred) = (Some(Duration::ZERO), false);
        while let Taken::Work(commands) = queue.take(timeout, !is_deferred) {
            // Order: commands first, because callers wait for them. Then records, because journals hold disk
            // space. Indexing last, because it can wait for any length of time.
            self.commands(commands, queue);
            // Under load nothing else runs. Journals keep growing, and the next commands end the wait.
            is_deferred = self.defers_transfer();
            if is_deferred {
                timeout = Some(WINDOW);
                continue;
            }
            self.recover_some();
            // Read the counter before moving: bytes recorded during the move count as not moved yet.
            let written = self.traffic.load(Ordering::Relaxed);
            let is_waiting = self.pump(queue);
            if !is_waiting {
                self.moved_traffic = written;
            }
            self.note_recovered();
            let is_indexing = !self.to_recover.is_empty() || self.index_when_idle(queue);
            timeout = match (is_waiting, is_indexing, self.has_unindexed) {
                (true, _, _) => Some(RETRY_DELAY),
                (false, true, _) => Some(Duration::ZERO),
                (false, false, true) => Some(WINDOW),
                (false, false, false) => None,
            };
        }
        self.shut_down(queue);
    }

    fn commands(&mut self, commands: VecDeque<Command>, queue: &Queue<Command>) {
        for command in commands {
            // Send errors are ignored throughout: the caller may have stopped waiting.
            match command {
                Command::Begin { id, about, began, progress, reply } => {
                    // The recorder may append before this succeeds. If the database is busy, the row is
                    // inserted by a later transfer.
                    let live = Live::new(&self.folder, &id, about, began, Some(progress));
                    self.live.insert(Arc::clone(&id), live);
                    let begun = self.with_room(queue, |writer| {
                        // Not synced: the first segment of the journal has the same metadata.
                        let was_synced = writer.set_synced(false);
                        let begun = writer.with_live(&id, Live::find_or_begin);
                        writer.set_synced(was_synced);
                        begun
                    });
                    if let Err(error) = &begun {
                        self.shortage.note(error);
                    }
                    drop(reply.send(begun));
                }
                Command::Resume { id, reply } => {
                    let live = Live::new(&self.folder, &id, About::default(), Moment::now(), None);
                    self.live.insert(Arc::clone(&id), live);
                    let resumed = self.with_room(queue, |writer| writer.with_live(&id, Live::resume));
                    if resumed.is_err() {
                        self.live.remove(&id);
                    }
                    drop(reply.send(resumed));
                }
                Command::Attach { id, progress } => {
                    if let Some(live) = self.live.get_mut(&id) {
                        live.progress = Some(progress);
                    }
                }
                Command::Close { id, lock, deadline, reply } => match self.live.get_mut(&id) {
                    Some(live) => live.close(lock, deadline, reply),
                    // The session has failed before, which its recorder was told.
                    None => drop(reply.send(Ok(()))),
                },
                Command::Recover { id, lock, reply } => self.recover(id, lock, reply),
                Command::RecoverLater { ids } => self.to_recover.extend(ids),
                Command::RecoverNow { id, reply } => self.recover_now(id, reply),
                // The lock is held until the deletion is complete, so that no recorder can resume the session
                // halfway.
                Command::Delete { session, id, lock, reply } => {
                    self.live.remove(&id);
                    let result = removal::delete(self, queue, session, &id);
                    drop(lock);
                    drop(reply.send(result));
                }
                Command::Shrink { reply } => drop(reply.send(removal::shrink(self, queue))),
                Command::CleanIndex { reply } => {
                    drop(reply.send(removal::merge_index(self, queue, &mut 1)));
                }
                Command::Settle { reply } => {
                    self.pump(queue);
                    drop(reply.send(Ok(())));
                }
                Command::CatchUp { reply } => drop(reply.send(self.catch_up(queue))),
                Command::Access { change, reply } => {
                    let changed = self.retry_while_busy(queue, |writer| {
                        transact(&mut writer.connection, |transaction| change.apply(transaction))
                            .map_err(|error| database(&writer.path, &error))
                    });
                    drop(reply.send(changed));
                }
            }
            self.signal.raise();
        }
    }

    fn recover(&mut self, id: Arc<str>, lock: SessionLock, reply: Option<Reply<u64>>) {
        let mut live = Live::new(&self.folder, &id, About::default(), Moment::now(), None);
        live.recover(lock, reply);
        self.live.insert(id, live);
    }

    /// Starts to recover queued sessions. Only a few at a time, because each keeps files open and delays
    /// commands.
    fn recover_some(&mut self) {
        while self.in_recovery.len() < RECOVERIES {
            let Some(id) = self.to_recover.pop_front() else { return };
            // Another process may have resumed it in the meantime.
            if let Ok(lock) = SessionLock::take(&self.path, &id) {
                self.recover(Arc::clone(&id), lock, None);
            }
            self.in_recovery.push(id);
        }
    }

    fn recover_now(&mut self, id: Arc<str>, reply: Reply<u64>) {
        if let Some(live) = self.live.get_mut(&id).filter(|live| live.is_recovering()) {
            return live.notify_recovered(reply);
        }
        if let Some(place) = self.to_recover.iter().position(|known| *known == id) {
            self.to_recover.remove(place);
            self.in_recovery.push(Arc::clone(&id));
            if let Ok(lock) = SessionLock::take(&self.path, &id) {
                return self.recover(id, lock, Some(reply));
            }
        }
        drop(reply.send(Ok(0)));
    }

    /// Removes the sessions that are recovered by now from the shared set.
    fn note_recovered(&mut self) {
        if self.in_recovery.is_empty() {
            return;
        }
        let mut recovering = locked(&self.recovering);
        self.in_recovery.retain(|id| {
            let is_at_it = self.live.get(id).is_some_and(Live::is_recovering);
            if !is_at_it {
                recovering.remove(id);
            }
            is_at_it
        });
    }

    fn with_live<T>(
        &mut self,
        id: &Arc<str>,
        work: impl FnOnce(&mut Live, &mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let Some(live) = self.live.get_mut(id) else {
            return Err(StoreError::UnknownSession { session: id.to_string() });
        };
        work(live, &mut self.connection).map_err(|error| database(&self.path, &error))
    }

    /// Retries `work` while other processes keep the database locked, for callers that wait for the result.
    pub(crate) fn retry_while_busy<T>(
        &mut self,
        queue: &Queue<Command>,
        mut work: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let deadline = Instant::now() + BUSY_TIMEOUT;
        loop {
            match work(self) {
                Err(StoreError::Busy { .. }) if queue.is_open() && Instant::now() < deadline => {
                    self.pump(queue);
                }
                result => return result,
            }
        }
    }

    /// Like [`retry_while_busy`](Writer::retry_while_busy), with further attempts while the store is full and
    /// space can be freed.
    fn with_room<T>(
        &mut self,
        queue: &Queue<Command>,
        mut work: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<T> {
        loop {
            match self.retry_while_busy(queue, &mut work) {
                Err(StoreError::Full { .. }) if self.make_more_room(queue)? => {}
                result => return result,
            }
        }
    }

    /// Moves records from the journals into the database. Returns true if some had to wait for another
    /// attempt.
    pub(crate) fn pump(&mut self, queue: &Queue<Command>) -> bool {
        let replaced = if self.live.is_empty() { None } else { self.ticker.replaced() };
        // Also inside a group, which calls this while it waits for another process: sessions outside of the group
        // remove their segments after each transaction.
        let was_synced = self.set_synced(true);
        let mut is_waiting = false;
        let is_closing = |writer: &Self, id: &Arc<str>| writer.live.get(id).is_some_and(Live::is_closing);
        let ids = self.live.keys().cloned();
        let (closing, others): (Vec<_>, Vec<_>) = ids.partition(|id| is_closing(self, id));
        for group in closing.chunks(CLOSE_GROUP) {
            is_waiting |= self.pump_group(group, queue, replaced.as_ref());
        }
        for id in others {
            is_waiting |= self.pump_session(&id, queue, replaced.as_ref(), None);
        }
        self.set_synced(was_synced);
        is_waiting
    }

    /// Moves the journals of closing sessions. Of several, the transactions are synced once, after the last one: their
    /// journals are removed and their recorders get a reply only then.
    fn pump_group(
        &mut self,
        ids: &[Arc<str>],
        queue: &Queue<Command>,
        replaced: Option<&StoreError>,
    ) -> bool {
        if let [id] = ids {
            return self.pump_session(id, queue, replaced, None);
        }
        let (mut is_waiting, mut closed) = (false, Vec::new());
        self.set_synced(false);
        for id in ids {
            if let Some(live) = self.live.get_mut(id) {
                live.keep_segments();
            }
            is_waiting |= self.pump_session(id, queue, replaced, Some(&mut closed));
        }
        self.set_synced(true);
        let synced = wal::sync(&self.path);
        // Before the replies: a caller that has closed its recording may copy the file.
        self.checkpoint_if_last();
        for live in closed {
            match &synced {
                Ok(()) => self.finish(live),
                Err(error) => {
                    self.left_records = true;
                    live.fail(&StoreError::Disk { reason: error.to_string() });
                }
            }
        }
        self.signal.raise();
        is_waiting
    }

    /// Moves the journal of one session. Returns true if it had to wait. A closed session is finished, or added to the
    /// group whose transactions are synced later.
    fn pump_session(
        &mut self,
        id: &Arc<str>,
        queue: &Queue<Command>,
        replaced: Option<&StoreError>,
        mut group: Option<&mut Vec<Live>>,
    ) -> bool {
        let mut is_waiting = false;
        // Move one transaction at a time. Between two of them, commands get their turn unless the session is
        // closing.
        while let Some(live) = self.live.get_mut(id) {
            let outcome = match replaced {
                // Keep the journal: it has the records that the replaced file lacks.
                Some(error) => Outcome::Failed(error.clone()),
                None => live.advance(&mut self.connection, &self.path),
            };
            match outcome {
                Outcome::Moved => {
                    self.has_unindexed = true;
                    self.signal.raise();
                    let is_closing = live.is_closing();
                    // If this fails, the size limit reports the problem later.
                    drop(self.make_room(queue));
                    if !is_closing && (queue.is_urgent() || self.defers_transfer()) {
                        is_waiting = true;
                        break;
                    }
                }
                Outcome::Rest => break,
                Outcome::Busy => {
                    is_waiting = true;
                    if live.is_overdue() || !queue.is_open() {
                        self.leave_in_journal(id);
                    }
                    break;
                }
                Outcome::Overdue => self.leave_in_journal(id),
                Outcome::Closed(session) => {
                    if let Some(live) = self.live.remove(id) {
                        self.index_rest(&live, session);
                        match &mut group {
                            Some(group) => group.push(live),
                            None => {
                                // Before the reply: a caller that has closed its recording may copy the file.
                                self.checkpoint_if_last();
                                self.finish(live);
                            }
                        }
                    }
                }
                // This session waits while others are being deleted.
                Outcome::Failed(StoreError::Full { .. }) if self.is_making_room => {
                    is_waiting = true;
                    break;
                }
                // The transaction was rolled back, so it can be retried.
                Outcome::Failed(StoreError::Full { .. }) if self.make_more_room(queue).unwrap_or(false) => {}
                Outcome::Failed(error) => {
                    self.shortage.note(&error);
                    self.live.remove(id).into_iter().for_each(|live| live.fail(&error));
                }
            }
        }
        self.signal.raise();
        is_waiting
    }

    /// Chooses whether transactions are synced when they are committed, and returns the previous choice. One that is not
    /// synced survives a crash of the process, but not a power failure.
    fn set_synced(&mut self, is_synced: bool) -> bool {
        if self.is_synced == is_synced {
            return is_synced;
        }
        let mode = if is_synced { "FULL" } else { "NORMAL" };
        // Fails only inside a transaction. There is none: each ends in the function that begins it.
        match self.connection.pragma_update(None, "synchronous", mode) {
            Ok(()) => std::mem::replace(&mut self.is_synced, is_synced),
            Err(_) => self.is_synced,
        }
    }

    /// Deletes the oldest sessions that are not being recorded while the file exceeds 90 % of its limit.
    /// Returns true if any were deleted.
    fn make_room(&mut self, queue: &Queue<Command>) -> Result<bool> {
        let most = self.makes_room.map_or(u64::MAX, |limit| limit / 10 * 9);
        self.make_room_below(queue, most)
    }

    /// Like [`make_room`](Writer::make_room), after a transaction did not fit. It may have been larger than the tenth that
    /// is kept free, so at least a further tenth is deleted, unless the disk is full and not the store.
    fn make_more_room(&mut self, queue: &Queue<Command>) -> Result<bool> {
        let Some(limit) = self.makes_room else { return Ok(false) };
        let used = self.retry_while_busy(queue, |writer| {
            removal::used(&writer.connection).map_err(|error| database(&writer.path, &error))
        })?;
        if used.saturating_add(LARGEST_TRANSACTION) < limit {
            return self.make_room(queue);
        }
        self.make_room_below(queue, (limit / 10 * 9).min(used.saturating_sub(limit / 10)))
    }

    /// Deletes the oldest sessions that are not being recorded while more than `most` bytes are in use. Returns true if
    /// any were deleted.
    fn make_room_below(&mut self, queue: &Queue<Command>, most: u64) -> Result<bool> {
        if self.makes_room.is_none() || self.is_making_room {
            return Ok(false);
        }
        self.is_making_room = true;
        let deleted = removal::make_room(self, queue, most);
        self.is_making_room = false;
        let deleted = deleted?;
        let has_deleted = !deleted.is_empty();
        self.shortage.deleted(deleted);
        Ok(has_deleted)
    }

    /// Returns true if this writer is moving or about to recover a session.
    pub(crate) fn is_live(&self, id: &str) -> bool {
        self.live.contains_key(id) || self.to_recover.iter().any(|waiting| **waiting == *id)
    }

    /// Leaves the remaining records in the journal, where the next process finds them. SQLite's log is not
    /// moved into the file either.
    fn leave_in_journal(&mut self, id: &str) {
        self.live.remove(id).into_iter().for_each(Live::done);
        self.left_records = true;
    }

    /// Indexes a small rest of a session before its close is acknowledged, so that a short session is searchable right
    /// away.
    fn index_rest(&mut self, live: &Live, session: i64) {
        self.has_unindexed = true;
        let behind = indexing::behind(&self.connection, session).unwrap_or(0);
        if behind <= SMALL {
            while !live.is_overdue() && indexing::step(&mut self.connection, session).unwrap_or(false) {}
        }
    }

    /// Finishes a session whose records are all in the database and synced.
    fn finish(&self, live: Live) {
        // A segment that cannot be removed is found and skipped by the next process.
        drop(self.folder.remove(live.id(), None));
        live.done();
        self.signal.raise();
    }

    /// Runs the checkpoint when no other session is closing.
    fn checkpoint_if_last(&self) {
        if !self.live.values().any(Live::is_closing) {
            self.checkpoint();
        }
    }

    /// Moves SQLite's log into the database file, except the part that readers still need.
    pub(crate) fn checkpoint(&self) {
        drop(self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    }

    /// Returns true if the recording rate exceeds [`FLOOD`] per [`WINDOW`].
    fn is_flooded(&mut self) -> bool {
        let (at, count, _) = self.seen_traffic;
        if at.elapsed() >= WINDOW {
            let now = self.traffic.load(Ordering::Relaxed);
            self.seen_traffic = (Instant::now(), now, now - count > FLOOD);
        } else if self.traffic.load(Ordering::Relaxed) - count > FLOOD {
            self.seen_traffic.2 = true;
        }
        self.seen_traffic.2
    }

    /// Returns true if records should stay in the journals for now: no session is closing and the recording
    /// rate is high.
    fn defers_transfer(&mut self) -> bool {
        let waiting = self.traffic.load(Ordering::Relaxed) - self.moved_traffic;
        self.is_flooded() && waiting < self.max_backlog && !self.live.values().any(Live::is_closing)
    }

    /// Indexes a small part if the writer is idle. Returns false if there was nothing to do.
    fn index_when_idle(&mut self, queue: &Queue<Command>) -> bool {
        if !self.has_unindexed || queue.is_urgent() || self.is_flooded() {
            return false;
        }
        match indexing::step_anywhere(&mut self.connection) {
            Ok(true) => true,
            Ok(false) => {
                self.has_unindexed = false;
                false
            }
            Err(error) => {
                // Another process may do it, or it is retried with the next records.
                self.has_unindexed = match database(&self.path, &error) {
                    StoreError::Busy { .. } => true,
                    StoreError::Full { .. } => self.make_more_room(queue).unwrap_or(false),
                    _ => false,
                };
                false
            }
        }
    }

    fn catch_up(&mut self, queue: &Queue<Command>) -> Result<()> {
        loop {
            self.recover_some();
            self.pump(queue);
            self.note_recovered();
            if self.in_recovery.is_empty() || !queue.is_open() {
                break;
            }
        }
        while self.with_room(queue, |writer| {
            indexing::step_anywhere(&mut writer.connection).map_err(|error| database(&writer.path, &error))
        })? {}
        self.checkpoint();
        Ok(())
    }

    /// Moves the remaining records within [`CLOSE_TIMEOUT`] after the queue was closed.
    fn shut_down(&mut self, queue: &Queue<Command>) {
        // Wait for closing sessions only: the journals of others stay for the next process.
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        self.live.values_mut().for_each(|live| live.hurry(deadline));
        while !self.live.is_empty() && Instant::now() < deadline {
            self.pump(queue);
            self.live.retain(|_, live| live.is_closing());
        }
        self.left_records |= !self.live.is_empty();
        self.live.drain().for_each(|(_, live)| live.done());
        if self.left_records {
            // Otherwise SQLite runs a checkpoint when the last connection closes, which could take long.
            drop(self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true));
        } else {
            self.checkpoint();
        }
    }
}

/// Runs `work` in one immediate transaction.
pub(crate) fn transact<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let value = work(&transaction)?;
    transaction.commit()?;
    Ok(value)
}

/// Inserts the row of a new session and returns its number.
pub(crate) fn insert_session(
    transaction: &Transaction<'_>,
    id: &str,
    about: &About,
    began: Moment,
) -> rusqlite::Result<i64> {
    let About { agent, client, project, title } = about;
    transaction.execute(
        "INSERT INTO sessions (id, agent, client, project, title, titled, began, changed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
        params![id, agent, client, project, title, title.is_some(), began.0],
    )?;
    Ok(transaction.last_insert_rowid())
}
