//! The one thread that writes to the database. It moves records from the journals of their sessions into compressed
//! blocks, and makes them searchable when there is time. Nobody waits for it but who asks it for something.

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
use crate::indexing;
use crate::live::{Live, Outcome};
use crate::lock::SessionLock;
use crate::progress::{Progress, Ticker};
use crate::queue::{Queue, Taken, locked};
use crate::record::About;
use crate::removal;
use crate::segment::Folder;
use crate::shortage::Shortage;
use crate::signal::Signal;
use crate::store::{Settings, StoreInner};

/// How long one attempt waits for other processes.
pub(crate) const ATTEMPT: Duration = Duration::from_millis(100);
/// How long who asks for something may have to wait for other processes.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait before another attempt.
const AGAIN: Duration = Duration::from_millis(20);
/// With more bytes than this in [`WINDOW`] nothing is moved or made searchable, since the conversation needs the
/// processor.
const FLOOD: u64 = 512 * 1024;
const WINDOW: Duration = Duration::from_millis(100);
/// With so many bytes in journals they are moved all the same.
const HELD_BACK: u64 = 256 * 1024 * 1024;
/// A session that is this little behind is made searchable before its end is acknowledged.
const SMALL: u64 = 1024 * 1024;
/// How long the last moves may take when the store is closed.
const FAREWELL: Duration = Duration::from_millis(500);

/// How many sessions are put in order at a time in the background.
const RECOVERIES: usize = 4;

/// The sessions that this process is to put in order, or is at it.
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
    /// Puts a session in order and gives its length and bytes.
    Resume {
        id: Arc<str>,
        reply: Reply<(u64, u64)>,
    },
    /// The recorder of a session that goes on.
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
    /// Puts sessions in order whose recorders have died, when there is nothing else to do.
    RecoverLater {
        ids: VecDeque<Arc<str>>,
    },
    /// Puts one of them in order now, if it is not yet.
    RecoverNow {
        id: Arc<str>,
        reply: Reply<u64>,
    },
    /// Puts in order a session whose recorder has died. Gives how many records were not in the store yet.
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
    /// Takes what is left of deleted sessions out of the index.
    CleanIndex {
        reply: Reply<()>,
    },
    /// Has a look at all journals.
    Settle {
        reply: Reply<()>,
    },
    /// Makes everything searchable.
    CatchUp {
        reply: Reply<()>,
    },
    /// Changes who may do what.
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
    /// How much had been written when the journals were last moved as far as they went.
    moved_traffic: u64,
    /// How much may be in journals while everything else waits: never more than the store may hold.
    held_back: u64,
    /// The most bytes the file may have, where the oldest sessions are deleted before it gets there.
    makes_room: Option<u64>,
    /// Whether sessions are being deleted to make room, so that this does not begin within itself.
    is_making_room: bool,
    shortage: Arc<Shortage>,
    live: HashMap<Arc<str>, Live>,
    /// Sessions that are to be put in order, and those that are being so.
    to_recover: VecDeque<Arc<str>>,
    in_recovery: Vec<Arc<str>>,
    /// Both, for who wants to go on with one of them.
    recovering: Recovering,
    /// Whether there may be something to make searchable.
    is_behind: bool,
    /// Whether something had to be left for lack of time.
    is_in_hurry: bool,
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
            held_back: settings.max_bytes.unwrap_or(HELD_BACK).min(HELD_BACK),
            makes_room: settings.max_bytes.filter(|_| settings.makes_room),
            is_making_room: false,
            shortage: Arc::clone(&shared.shortage),
            live: HashMap::new(),
            to_recover: VecDeque::new(),
            in_recovery: Vec::new(),
            recovering: Arc::clone(&shared.recovering),
            is_behind: true,
            is_in_hurry: false,
        }
    }

    /// Works until the queue is closed.
    pub(crate) fn run(&mut self, queue: &Queue<Command>) {
        let (mut timeout, mut is_held_back) = (Some(Duration::ZERO), false);
        while let Taken::Work(commands) = queue.take(timeout, !is_held_back) {
            self.commands(commands, queue);
            is_held_back = self.holds_back();
            if is_held_back {
                timeout = Some(WINDOW);
                continue;
            }
            self.recover_some();
            let written = self.traffic.load(Ordering::Relaxed);
            let is_waiting = self.pump(queue);
            if !is_waiting {
                self.moved_traffic = written;
            }
            self.note_recovered();
            let is_indexing = !self.to_recover.is_empty() || self.index_in_quiet(queue);
            timeout = match (is_waiting, is_indexing, self.is_behind) {
                (true, _, _) => Some(AGAIN),
                (false, true, _) => Some(Duration::ZERO),
                (false, false, true) => Some(WINDOW),
                (false, false, false) => None,
            };
        }
        self.say_goodbye(queue);
    }

    fn commands(&mut self, commands: VecDeque<Command>, queue: &Queue<Command>) {
        for command in commands {
            // Whoever asked may have gone.
            match command {
                Command::Begin { id, about, began, progress, reply } => {
                    let live = Live::new(&self.folder, &id, about, began, Some(progress));
                    self.live.insert(Arc::clone(&id), live);
                    let begun = self.with_room(queue, |writer| writer.with_live(&id, Live::find_or_begin));
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
                    // It has failed before, which its recorder knows.
                    None => drop(reply.send(Ok(()))),
                },
                Command::Recover { id, lock, reply } => self.recover(id, lock, reply),
                Command::RecoverLater { ids } => self.to_recover.extend(ids),
                Command::RecoverNow { id, reply } => self.recover_now(id, reply),
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
                    let changed = self.patiently(queue, |writer| {
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

    /// Begins to put some sessions in order. Few at a time: each has files open until it is done, and commands wait meanwhile.
    fn recover_some(&mut self) {
        while self.in_recovery.len() < RECOVERIES {
            let Some(id) = self.to_recover.pop_front() else { return };
            // Somebody else may have taken it up meanwhile, in another process.
            if let Ok(lock) = SessionLock::take(&self.path, &id) {
                self.recover(Arc::clone(&id), lock, None);
            }
            self.in_recovery.push(id);
        }
    }

    fn recover_now(&mut self, id: Arc<str>, reply: Reply<u64>) {
        if let Some(live) = self.live.get_mut(&id).filter(|live| live.is_recovering()) {
            return live.tell_recovered(reply);
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

    /// Takes note of the sessions that are in order by now.
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

    /// Tries again while others have the database, for who waits for the answer.
    pub(crate) fn patiently<T>(
        &mut self,
        queue: &Queue<Command>,
        mut work: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match work(self) {
                Err(StoreError::Busy { .. }) if queue.is_open() && Instant::now() < deadline => {
                    self.pump(queue);
                }
                result => return result,
            }
        }
    }

    /// The same, and once more when there was no room and some could be made.
    fn with_room<T>(
        &mut self,
        queue: &Queue<Command>,
        mut work: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<T> {
        match self.patiently(queue, &mut work) {
            Err(StoreError::Full { .. }) if self.make_room(queue)? => self.patiently(queue, work),
            result => result,
        }
    }

    /// Moves what the journals have. Says whether something waits for another attempt.
    pub(crate) fn pump(&mut self, queue: &Queue<Command>) -> bool {
        let replaced = if self.live.is_empty() { None } else { self.ticker.replaced() };
        let mut is_waiting = false;
        let ids: Vec<_> = self.live.keys().cloned().collect();
        for id in ids {
            while let Some(live) = self.live.get_mut(&id) {
                let outcome = match &replaced {
                    // The journal stays where it is, and with it what is not in the file.
                    Some(error) => Outcome::Failed(error.clone()),
                    None => live.advance(&mut self.connection, &self.path),
                };
                match outcome {
                    Outcome::Moved => {
                        self.is_behind = true;
                        self.signal.raise();
                        let is_closing = live.is_closing();
                        // What cannot be made room for shows when the limit is reached.
                        drop(self.make_room(queue));
                        if !is_closing && (queue.is_wanted() || self.holds_back()) {
                            is_waiting = true;
                            break;
                        }
                    }
                    Outcome::Rest => break,
                    Outcome::Busy => {
                        is_waiting = true;
                        if live.is_overdue() || !queue.is_open() {
                            self.leave(&id);
                        }
                        break;
                    }
                    Outcome::Overdue => self.leave(&id),
                    Outcome::Closed(session) => {
                        if let Some(live) = self.live.remove(&id) {
                            self.closed(live, session);
                        }
                    }
                    // Sessions are being deleted to make room for it.
                    Outcome::Failed(StoreError::Full { .. }) if self.is_making_room => {
                        is_waiting = true;
                        break;
                    }
                    // Nothing of the transaction was written, so it can be tried again.
                    Outcome::Failed(StoreError::Full { .. }) if self.make_room(queue).unwrap_or(false) => {}
                    Outcome::Failed(error) => {
                        self.shortage.note(&error);
                        self.live.remove(&id).into_iter().for_each(|live| live.fail(&error));
                    }
                }
            }
            self.signal.raise();
        }
        is_waiting
    }

    /// Deletes the oldest sessions that nobody records while the file is fuller than nine tenths of its limit. Returns
    /// whether any were deleted.
    fn make_room(&mut self, queue: &Queue<Command>) -> Result<bool> {
        let Some(limit) = self.makes_room.filter(|_| !self.is_making_room) else { return Ok(false) };
        self.is_making_room = true;
        let deleted = removal::make_room(self, queue, limit / 10 * 9);
        self.is_making_room = false;
        let deleted = deleted?;
        let has_deleted = !deleted.is_empty();
        self.shortage.deleted(deleted);
        Ok(has_deleted)
    }

    /// Whether a session is being moved into the store by this writer, or is to be.
    pub(crate) fn is_live(&self, id: &str) -> bool {
        self.live.contains_key(id) || self.to_recover.iter().any(|waiting| **waiting == *id)
    }

    /// The rest of a session stays in its journal, where the next program finds it. What is in SQLite's log can then stay
    /// there, too.
    fn leave(&mut self, id: &str) {
        self.live.remove(id).into_iter().for_each(Live::done);
        self.is_in_hurry = true;
    }

    /// A session is in the file as a whole.
    fn closed(&mut self, live: Live, session: i64) {
        self.is_behind = true;
        // Should one stay, then only the next program has another look at it.
        drop(self.folder.remove(live.id(), None));
        let behind = indexing::behind(&self.connection, session).unwrap_or(0);
        if behind <= SMALL {
            while !live.is_overdue() && indexing::step(&mut self.connection, session).unwrap_or(false) {}
        }
        // Of many that are closed at once, the last one sees to it.
        if !self.live.values().any(Live::is_closing) {
            self.checkpoint();
        }
        live.done();
        self.signal.raise();
    }

    /// Moves SQLite's log into the file, as far as nobody needs it.
    pub(crate) fn checkpoint(&self) {
        drop(self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    }

    /// Whether so much is being recorded that everything else can wait.
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

    /// Whether journals are to grow for now: nobody waits for what is in them, and the conversation is in full flow.
    fn holds_back(&mut self) -> bool {
        let waiting = self.traffic.load(Ordering::Relaxed) - self.moved_traffic;
        self.is_flooded() && waiting < self.held_back && !self.live.values().any(Live::is_closing)
    }

    /// Makes a little searchable, if nothing else is to be done. Says whether it did.
    fn index_in_quiet(&mut self, queue: &Queue<Command>) -> bool {
        if !self.is_behind || queue.is_wanted() || self.is_flooded() {
            return false;
        }
        match indexing::step_anywhere(&mut self.connection) {
            Ok(true) => true,
            Ok(false) => {
                self.is_behind = false;
                false
            }
            Err(error) => {
                // Others may do it, or it is tried again with the next records.
                self.is_behind = matches!(database(&self.path, &error), StoreError::Busy { .. });
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
        while self.patiently(queue, |writer| {
            indexing::step_anywhere(&mut writer.connection).map_err(|error| database(&writer.path, &error))
        })? {}
        self.checkpoint();
        Ok(())
    }

    /// Nobody is there any more: what is still to be moved is, within bounds.
    fn say_goodbye(&mut self, queue: &Queue<Command>) {
        let deadline = Instant::now() + FAREWELL;
        self.live.values_mut().for_each(|live| live.hurry(deadline));
        while !self.live.is_empty() && Instant::now() < deadline {
            self.pump(queue);
            self.live.retain(|_, live| live.is_closing());
        }
        self.is_in_hurry |= !self.live.is_empty();
        self.live.drain().for_each(|(_, live)| live.done());
        if self.is_in_hurry {
            // Otherwise the last connection does it when it closes.
            drop(self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true));
        } else {
            self.checkpoint();
        }
    }
}

/// Does something in one transaction.
pub(crate) fn transact<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let value = work(&transaction)?;
    transaction.commit()?;
    Ok(value)
}

/// The row of a session that began now.
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
