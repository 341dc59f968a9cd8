use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row};

use switchboard_acp::Moment;

use crate::error::{Result, StoreError, database};
use crate::free_space::FreeSpace;
use crate::lock::SessionLock;
use crate::private::{Exposed, Identity};
use crate::progress::{Progress, Ticker};
use crate::queue::{Queue, locked};
use crate::read::Parked;
use crate::record::About;
use crate::recorder::Recorder;
use crate::schema;
use crate::segment::{self, Folder};
use crate::signal::Signal;
use crate::wal::{self, LogDamage};
use crate::writer::{Command, Recovering, Reply, Writer};

/// Time for which starting a recording waits for other processes that use the store. After that, records go to the
/// journal only, until the database is free.
const BEGIN_TIMEOUT: Duration = Duration::from_millis(500);
/// Number of segments from which on a journal is recovered in the background when a store is opened.
const LONG_JOURNAL: usize = 3;
/// Maximum number of sessions recovered while opening. If there are more, all are recovered in the
/// background.
const FEW: usize = 8;

/// Settings of a store.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Size limit of the file in bytes. Appends beyond it fail with [`StoreError::Full`].
    pub max_bytes: Option<u64>,
    /// If true, the oldest sessions that are not being recorded are deleted while the file exceeds 90 % of
    /// [`max_bytes`](Settings::max_bytes). [`Store::take_deleted`] returns their ids.
    pub makes_room: bool,
    /// True if the folder belongs to the store, so that its permissions may be restricted too.
    pub owns_folder: bool,
}

/// A session that was repaired when the store was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repair {
    /// Id of the session, whose recorder had died.
    pub session: String,
    /// Number of records that were in the journal but not compressed and indexed.
    pub records: u64,
    /// Reason why the repair failed, if it did. The readable records are still available.
    pub problem: Option<String>,
    /// Damaged journal files, kept until the user removes them. The records in the damaged parts are gaps.
    pub damaged: Vec<PathBuf>,
}

/// A handle on a store, an SQLite file of recorded sessions.
#[derive(Debug, Clone)]
pub struct Store {
    shared: Arc<StoreInner>,
}

pub(crate) struct StoreInner {
    pub(crate) path: PathBuf,
    folder: Folder,
    /// Dropped before the writer's connection: the last connection of a store runs the final checkpoint, if
    /// it may write.
    reader: Mutex<Option<Connection>>,
    /// Connection for [access](crate::access) queries, which are frequent and must not wait for a search.
    /// Opened on first use.
    access: Mutex<Option<Connection>>,
    parked: Mutex<Parked>,
    pub(crate) signal: Arc<Signal>,
    queue: Arc<Queue<Command>>,
    thread: Option<JoinHandle<()>>,
    pub(crate) ticker: Arc<Ticker>,
    ticking: Mutex<Option<JoinHandle<()>>>,
    pub(crate) traffic: Arc<AtomicU64>,
    pub(crate) shortage: Arc<FreeSpace>,
    max_bytes: Option<u64>,
    repairs: Vec<Repair>,
    pub(crate) recovering: Recovering,
    exposed: Vec<Exposed>,
    log_damage: Option<LogDamage>,
}

impl std::fmt::Debug for StoreInner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Store").field("path", &self.path).finish_non_exhaustive()
    }
}

impl StoreInner {
    /// Creates a store without a writer.
    fn new(path: PathBuf, reader: Connection, identity: Option<Identity>) -> Self {
        StoreInner {
            folder: Folder::beside(&path),
            reader: Mutex::new(Some(reader)),
            access: Mutex::default(),
            parked: Mutex::default(),
            signal: Arc::default(),
            queue: Arc::new(Queue::new()),
            thread: None,
            ticker: Ticker::new(path.clone(), identity),
            ticking: Mutex::default(),
            traffic: Arc::default(),
            shortage: Arc::default(),
            max_bytes: None,
            repairs: Vec::new(),
            recovering: Recovering::default(),
            exposed: Vec::new(),
            log_damage: None,
            path,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Records a failure if it is [`StoreError::Full`].
    pub(crate) fn note_shortage(&self, error: &StoreError) {
        self.shortage.note(error);
    }

    /// Queues a command for the writer. Returns false if the writer has stopped.
    pub(crate) fn push(&self, command: Command) -> bool {
        self.queue.push(command)
    }

    /// Signals that a journal has grown.
    pub(crate) fn wake(&self) {
        self.queue.wake();
        self.signal.raise();
    }

    /// Returns the progress of a session that is about to be recorded. Starts the sync thread if needed.
    pub(crate) fn progress(&self, next: u64) -> Arc<Progress> {
        let mut ticking = locked(&self.ticking);
        if ticking.is_none() {
            let ticker = Arc::clone(&self.ticker);
            // Without this thread, records are synced by the operating system and on close.
            *ticking =
                std::thread::Builder::new().name("store-sync".to_owned()).spawn(move || ticker.run()).ok();
        }
        Progress::new(next, &self.traffic, &self.ticker)
    }

    pub(crate) fn with_reader<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        match &*locked(&self.reader) {
            Some(connection) => work(connection).map_err(|error| database(&self.path, &error)),
            None => Err(self.gone()),
        }
    }

    /// Returns the `closed` state of a session and the number of its records in blocks.
    fn row(&self, id: &str) -> Result<Option<(i64, u64)>> {
        let row = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()));
        self.with_reader(|connection| {
            connection.query_row("SELECT closed, length FROM sessions WHERE id = ?1", [id], row).optional()
        })
    }

    fn has_no_journal(&self, id: &str) -> bool {
        self.folder.segments(id).is_ok_and(|segments| segments.is_empty())
    }

    /// Returns an error if the path no longer refers to the opened file.
    pub(crate) fn replaced(&self) -> Option<StoreError> {
        self.ticker.replaced()
    }

    fn gone(&self) -> StoreError {
        StoreError::Database { path: self.path.clone(), reason: "its writer has stopped".to_owned() }
    }

    /// Waits until a session is recovered if this process is recovering it, because the recovery holds the
    /// session's lock.
    fn recovered(&self, id: &str) -> Result<()> {
        if locked(&self.recovering).contains(id) {
            // The caller finds the cause when it uses the session.
            drop(self.ask(|reply| Command::RecoverNow { id: id.into(), reply }));
        }
        Ok(())
    }

    /// Sends a command to the writer and waits for the reply.
    pub(crate) fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T> {
        if self.thread.is_none() {
            return Err(StoreError::ReadOnly { path: self.path.clone() });
        }
        let (reply, answer) = sync_channel(1);
        if !self.push(command(reply)) {
            return Err(self.gone());
        }
        answer.recv().map_err(|_| self.gone())?
    }
}

impl Drop for StoreInner {
    fn drop(&mut self) {
        // Order: close the readers first, so that the writer's connection is the last one and can run the
        // final checkpoint. Then stop both threads, and wait for them.
        drop((locked(&self.reader).take(), locked(&self.access).take()));
        self.queue.close();
        self.ticker.stop();
        // A panic of a thread was already reported to its callers.
        for thread in [self.thread.take(), locked(&self.ticking).take()].into_iter().flatten() {
            drop(thread.join());
        }
    }
}

impl Store {
    /// Opens a store for reading and writing. Creates it if it does not exist.
    ///
    /// Sessions whose recorder has died are repaired first; [`repairs`](Store::repairs) returns them.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        Store::open_with(path, &Settings::default())
    }

    /// Opens a store with settings.
    pub fn open_with(path: impl Into<PathBuf>, settings: &Settings) -> Result<Self> {
        let path = path.into();
        // Writer first: it creates or migrates the file that the reader expects.
        let schema::Opened { connection, exposed, identity, log_damage } =
            schema::open_writer(&path, settings)?;
        let reader = schema::open_reader(&path)?;
        let mut shared = StoreInner::new(path, reader, identity);
        shared.exposed = exposed;
        shared.max_bytes = settings.max_bytes;
        shared.log_damage = log_damage;
        let mut writer = Writer::new(connection, &shared, settings);
        let waiting = Arc::clone(&shared.queue);
        let run = move || {
            /// Closes the queue when the thread ends, even by a panic, so that no caller waits forever.
            struct Close(Arc<Queue<Command>>);
            impl Drop for Close {
                fn drop(&mut self) {
                    self.0.close();
                    self.0.clear();
                }
            }
            let close = Close(waiting);
            writer.run(&close.0);
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(run)
            .map_err(|error| StoreError::Open { path: shared.path.clone(), reason: error.to_string() })?;
        shared.thread = Some(thread);
        // Repair after the writer has started, because recovery runs on its thread.
        shared.repairs = repair(&shared)?;
        Ok(Store { shared: Arc::new(shared) })
    }

    /// Opens an existing store for reading only.
    pub fn open_read_only(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        // Before opening: SQLite's recovery by this reader would discard the evidence.
        let log_damage = wal::check(&schema::log(&path));
        let reader = schema::open_reader(&path)?;
        let mut shared = StoreInner::new(path, reader, None);
        shared.log_damage = log_damage;
        Ok(Store { shared: Arc::new(shared) })
    }

    /// Returns the path of the store.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Returns the sessions that were repaired when the store was opened.
    pub fn repairs(&self) -> &[Repair] {
        &self.shared.repairs
    }

    /// Returns the damage in the write-ahead log that was found when the store was opened.
    pub fn log_damage(&self) -> Option<&LogDamage> {
        self.shared.log_damage.as_ref()
    }

    /// Returns the damaged files in the folder `-damaged` next to the store, sorted by name. They are kept
    /// until the user removes them.
    pub fn kept_files(&self) -> Result<Vec<PathBuf>> {
        let folder = self.shared.folder.damaged();
        let fail = |error: std::io::Error| StoreError::Open {
            path: self.shared.path.clone(),
            reason: format!("cannot read {}: {error}", folder.display()),
        };
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(fail(error)),
        };
        let mut files = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<std::io::Result<Vec<_>>>()
            .map_err(fail)?;
        files.sort();
        Ok(files)
    }

    /// Returns the files that other users could read when the store was opened.
    pub fn exposed(&self) -> &[Exposed] {
        &self.shared.exposed
    }

    pub(crate) fn signal(&self) -> &Signal {
        &self.shared.signal
    }

    pub(crate) fn parked(&self) -> MutexGuard<'_, Parked> {
        locked(&self.shared.parked)
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.shared.folder
    }

    pub(crate) fn with_reader<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        self.shared.with_reader(work)
    }

    /// Queries the access tables. Returns the default for a store of an earlier version, which lacks them.
    pub(crate) fn read_access<T: Default>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let path = self.path();
        let mut connection = locked(&self.shared.access);
        let connection = match &mut *connection {
            Some(connection) => connection,
            none => none.insert(schema::open_reader(path)?),
        };
        schema::has_access(connection)
            .and_then(|has_access| if has_access { work(connection) } else { Ok(T::default()) })
            .map_err(|error| database(path, &error))
    }

    /// Sends a command to the writer and waits for the reply.
    pub(crate) fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T> {
        self.shared.ask(command)
    }

    // ----- writing

    /// Starts to record a session.
    pub fn begin(&self, about: &About) -> Result<Recorder> {
        self.begin_at(about, Moment::now())
    }

    /// Starts to record a session with another start time, for example for an import.
    pub fn begin_at(&self, about: &About, began: Moment) -> Result<Recorder> {
        self.begin_new(about, began, || new_id(began))
    }

    /// Starts a session under the first unused id.
    fn begin_new(&self, about: &About, began: Moment, mut id: impl FnMut() -> String) -> Result<Recorder> {
        loop {
            let id = id();
            if self.shared.row(&id)?.is_none() && self.shared.has_no_journal(&id) {
                return self.begin_as(&id, about, began);
            }
        }
    }

    /// Starts a session with a given id. Fails with [`StoreError::UnknownSession`] if the id does not have
    /// the form of an id of this store: 1 to 64 lowercase letters, digits and hyphens.
    pub fn begin_as(&self, id: &str, about: &About, began: Moment) -> Result<Recorder> {
        // Restricted characters, because the id becomes a file name.
        let is_id = (1..=64).contains(&id.len())
            && id.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit() || byte.is_ascii_lowercase());
        if !is_id {
            return Err(StoreError::UnknownSession { session: id.to_owned() });
        }
        if self.shared.thread.is_none() {
            return Err(StoreError::ReadOnly { path: self.shared.path.clone() });
        }
        let lock = SessionLock::take(&self.shared.path, id)?;
        let recorder = Recorder::new(Arc::clone(&self.shared), lock, id, about, began, (0, 0));
        let (reply, answer) = sync_channel(1);
        let begin = Command::Begin {
            id: id.into(),
            about: about.clone(),
            began,
            progress: recorder.progress_handle(),
            reply,
        };
        if !self.shared.push(begin) {
            return Err(self.shared.gone());
        }
        match answer.recv_timeout(BEGIN_TIMEOUT) {
            Ok(Err(error)) if !matches!(error, StoreError::Busy { .. }) => Err(error),
            // The journal does not depend on the database, so recording can start while it is busy.
            Ok(_) | Err(RecvTimeoutError::Timeout) => Ok(recorder),
            Err(RecvTimeoutError::Disconnected) => Err(self.shared.gone()),
        }
    }

    /// Continues a session. Fails with [`StoreError::SessionInUse`] if another recorder writes it.
    pub fn resume(&self, id: &str) -> Result<Recorder> {
        let summary = self.session(id)?;
        self.shared.recovered(&summary.id)?;
        // Lock before moving the journal, so that no other recorder can append in between. Attach afterwards:
        // until then the writer must not treat the session as one with a live recorder.
        let lock = SessionLock::take(&self.shared.path, &summary.id)?;
        let id: Arc<str> = summary.id.as_str().into();
        let known = self.shared.ask(|reply| Command::Resume { id: Arc::clone(&id), reply })?;
        let shared = Arc::clone(&self.shared);
        let recorder = Recorder::new(shared, lock, &id, &summary.about, summary.began, known);
        self.shared.push(Command::Attach { id, progress: recorder.progress_handle() });
        Ok(recorder)
    }

    /// Returns true if a recorder writes the session, in this process or another.
    pub fn is_recording(&self, id: &str) -> Result<bool> {
        let (_, id) = self.number(id)?;
        self.shared.recovered(&id)?;
        Ok(SessionLock::is_taken(&self.shared.path, &id))
    }

    /// Deletes a session. Fails with [`StoreError::SessionInUse`] if it is being recorded. The time is
    /// proportional to the size of the session; other processes can use the store meanwhile.
    pub fn delete(&self, id: &str) -> Result<()> {
        let (session, id) = self.number(id)?;
        self.shared.recovered(&id)?;
        let lock = SessionLock::take(&self.shared.path, &id)?;
        self.parked().forget(session);
        let id = id.into();
        self.shared.ask(|reply| Command::Delete { session, id, lock, reply })
    }

    /// Waits until all records are indexed, including those that other processes left.
    pub fn catch_up(&self) -> Result<()> {
        self.shared.ask(|reply| Command::CatchUp { reply })
    }

    /// Removes the remains of deleted sessions from the index, so that [`sizes`](Store::sizes) does not count
    /// them.
    pub fn clean_index(&self) -> Result<()> {
        self.shared.ask(|reply| Command::CleanIndex { reply })
    }

    /// Returns [`StoreError::Full`] after a recording has failed for lack of space, until there is space
    /// again.
    pub fn shortage(&self) -> Option<StoreError> {
        let is_below_limit = || {
            let limit = self.shared.max_bytes;
            limit.is_none_or(|limit| self.used().is_ok_and(|used| used < limit / 20 * 19))
        };
        let is_full = self.shared.shortage.is_full(&self.shared.path, is_below_limit);
        is_full.then(|| StoreError::Full { path: self.shared.path.clone() })
    }

    /// Returns the ids of the sessions deleted to free space since the last call.
    pub fn take_deleted(&self) -> Vec<String> {
        self.shared.shortage.take_deleted()
    }

    /// Returns the space of deleted sessions to the file system.
    pub fn shrink(&self) -> Result<()> {
        self.shared.ask(|reply| Command::Shrink { reply })
    }
}

/// Recovers sessions that were not closed or whose records are still in a journal, unless a recorder writes
/// them.
fn repair(shared: &StoreInner) -> Result<Vec<Repair>> {
    let journals = shared.folder.journals().map_err(|error| StoreError::Open {
        path: shared.path.clone(),
        reason: format!("cannot read {}: {error}", shared.folder.path().display()),
    })?;
    let journals: HashMap<String, Vec<u64>> = journals.into_iter().collect();
    // Unclosed sessions with the number of their records in blocks.
    let unclosed: HashMap<String, u64> = shared.with_reader(|connection| {
        let mut statement = connection.prepare("SELECT id, length FROM sessions WHERE closed = 0")?;
        let row = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()));
        statement.query_map([], row)?.collect()
    })?;
    let open: BTreeSet<String> = unclosed.keys().chain(journals.keys()).cloned().collect();
    if open.len() > FEW {
        let repairs = repair_later(shared, open, &journals, &unclosed)?;
        remove_deleted(shared)?;
        return Ok(repairs);
    }
    let is_long = |id: &str| journals.get(id).is_some_and(|segments| segments.len() >= LONG_JOURNAL);
    let mut repairs = Vec::new();
    for session in open {
        let Ok(lock) = SessionLock::take(&shared.path, &session) else { continue };
        let before = shared.row(&session)?;
        // It may have been closed between the query and the lock.
        if before.is_some_and(|(closed, _)| closed != 0) && shared.has_no_journal(&session) {
            continue;
        }
        let id: Arc<str> = session.as_str().into();
        if is_long(&session) {
            let end = segment::end(&shared.folder, &session).ok().flatten();
            shared.push(Command::Recover { id, lock, reply: None });
            if let Some(end) = end.filter(|end| !end.closed) {
                let records = end.next.saturating_sub(before.map_or(0, |(_, length)| length));
                // Damage is found in the background and reported as gaps.
                repairs.push(Repair { session, records, problem: None, damaged: Vec::new() });
            }
            continue;
        }
        let kept = |session: &str| shared.folder.kept(session).unwrap_or_default();
        let kept_before = kept(&session);
        let (records, problem) = match shared.ask(|reply| Command::Recover { id, lock, reply: Some(reply) }) {
            Ok(records) => (records, None),
            Err(error) => (0, Some(error.to_string())),
        };
        // A session that was closed properly but not moved is not reported.
        let is_cut_off = shared.row(&session)?.is_some_and(|(closed, _)| closed == 2);
        let damaged: Vec<_> = kept(&session)
            .into_iter()
            .filter(|file| !kept_before.contains(file))
            .map(|(_, path)| path)
            .collect();
        let is_news = problem.is_some() || !damaged.is_empty();
        if is_news || is_cut_off && before.is_none_or(|(closed, _)| closed == 0) {
            repairs.push(Repair { session, records, problem, damaged });
        }
    }
    remove_deleted(shared)?;
    Ok(repairs)
}

/// Recovers many sessions in the background, so that opening does not take long. Their journals can be read
/// meanwhile. Returns the sessions that were interrupted.
fn repair_later(
    shared: &StoreInner,
    open: BTreeSet<String>,
    journals: &HashMap<String, Vec<u64>>,
    unclosed: &HashMap<String, u64>,
) -> Result<Vec<Repair>> {
    let (mut repairs, mut ids) = (Vec::new(), VecDeque::new());
    for session in open {
        if SessionLock::is_taken(&shared.path, &session) {
            continue;
        }
        let (closed, length) = match unclosed.get(&session) {
            Some(length) => (0, *length),
            None => shared.row(&session)?.unwrap_or_default(),
        };
        let last = journals.get(&session).and_then(|segments| segments.last());
        let end = last.and_then(|last| segment::end_in(&shared.folder, &session, *last).ok().flatten());
        // A session that was closed properly but not moved is not reported.
        if closed == 0 && !end.as_ref().is_some_and(|end| end.closed) {
            let records = end.map_or(0, |end| end.next.saturating_sub(length));
            // Damage is found in the background and reported as gaps.
            repairs.push(Repair { session: session.clone(), records, problem: None, damaged: Vec::new() });
        }
        ids.push_back(Arc::from(session));
    }
    locked(&shared.recovering).extend(ids.iter().cloned());
    shared.push(Command::RecoverLater { ids });
    Ok(repairs)
}

/// Continues interrupted deletions.
fn remove_deleted(shared: &StoreInner) -> Result<()> {
    let deleted: Vec<(i64, String)> = shared.with_reader(|connection| {
        let mut statement = connection.prepare("SELECT number, id FROM sessions WHERE closed = 3")?;
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    })?;
    for (session, id) in deleted {
        if let Ok(lock) = SessionLock::take(&shared.path, &id) {
            let (reply, _) = sync_channel(1);
            shared.push(Command::Delete { session, id: id.into(), lock, reply });
        }
    }
    Ok(())
}

/// Returns a unique id that sorts by time: the time followed by 24 random bits.
fn new_id(began: Moment) -> String {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.write_i64(Moment::now().0);
    let [date, time] = began.date_and_time();
    format!("{}-{}-{:06x}", date.replace('-', ""), time.replace(':', ""), hasher.finish() & 0xff_ffff)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Channel, Record};

    #[test]
    fn a_new_session_never_gets_the_id_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store.sqlite3")).unwrap();
        let (drawn, free) = ("19700101-000000-000001", "19700101-000000-000002");
        for wanted in [drawn, free] {
            let mut ids = [drawn, free].into_iter();
            let mut recorder =
                store.begin_new(&About::default(), Moment(0), || ids.next().unwrap().to_owned()).unwrap();
            assert_eq!(recorder.id(), wanted);
            recorder.append(Record::new(Channel::ToClient, "{}")).unwrap();
            recorder.complete().unwrap();
        }
        for id in [drawn, free] {
            assert_eq!(store.read(id, 0).unwrap().count(), 1);
        }
    }
}
