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
use crate::lock::SessionLock;
use crate::private::{Exposed, Identity};
use crate::progress::{Progress, Ticker};
use crate::queue::{Queue, locked};
use crate::read::Parked;
use crate::record::About;
use crate::recorder::Recorder;
use crate::schema;
use crate::segment::{self, Folder};
use crate::shortage::Shortage;
use crate::signal::Signal;
use crate::wal::{self, LogDamage};
use crate::writer::{Command, Recovering, Reply, Writer};

/// How long the beginning of a recording waits for other processes that use the store. What is recorded then is in the
/// journal, and is seen in the store as soon as they let it in.
const BEGIN: Duration = Duration::from_millis(500);
/// Journals of so many segments are put in order in the background when a store is opened.
const LONG_JOURNAL: usize = 3;
/// So many sessions are put in order before the store is open; of more, all are in the background.
const FEW: usize = 8;

/// What can be set about a store.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The file may not grow beyond this; appends then fail with [`StoreError::Full`].
    pub max_bytes: Option<u64>,
    /// Whether the oldest sessions that nobody records are deleted while the file is fuller than nine tenths of
    /// [`max_bytes`](Settings::max_bytes). [`Store::take_deleted`] tells which.
    pub makes_room: bool,
    /// Whether the folder of the file is the store's own, so that it may be closed to others, too.
    pub owns_folder: bool,
}

/// What opening a store put in order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repair {
    /// A session whose recorder had died.
    pub session: String,
    /// How many of its records were durable but not compressed and searchable yet.
    pub records: u64,
    /// Why it could not be put in order; its readable records are still there.
    pub problem: Option<String>,
    /// Damaged files of its journal, which are kept until the user removes them. The records that were in the damaged parts
    /// are gaps.
    pub damaged: Vec<PathBuf>,
}

/// A file of sessions.
#[derive(Debug, Clone)]
pub struct Store {
    shared: Arc<StoreInner>,
}

pub(crate) struct StoreInner {
    pub(crate) path: PathBuf,
    folder: Folder,
    /// It goes before the writer's connection does: the last one of a store clears up, if it may write.
    reader: Mutex<Option<Connection>>,
    /// The same for [access](crate::access), which is asked all the time and must not wait for who searches. It is opened
    /// when it is needed.
    access: Mutex<Option<Connection>>,
    parked: Mutex<Parked>,
    pub(crate) signal: Arc<Signal>,
    queue: Arc<Queue<Command>>,
    thread: Option<JoinHandle<()>>,
    pub(crate) ticker: Arc<Ticker>,
    ticking: Mutex<Option<JoinHandle<()>>>,
    pub(crate) traffic: Arc<AtomicU64>,
    pub(crate) shortage: Arc<Shortage>,
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
    /// A store that is only read, so far.
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

    /// Notes a failure to record, if it is for lack of room.
    pub(crate) fn note_shortage(&self, error: &StoreError) {
        self.shortage.note(error);
    }

    /// Gives the writer something to do. Says whether it will.
    pub(crate) fn push(&self, command: Command) -> bool {
        self.queue.push(command)
    }

    /// Tells that a journal has grown.
    pub(crate) fn wake(&self) {
        self.queue.wake();
        self.signal.raise();
    }

    /// The progress of a session that is about to be recorded.
    pub(crate) fn progress(&self, next: u64) -> Arc<Progress> {
        let mut ticking = locked(&self.ticking);
        if ticking.is_none() {
            let ticker = Arc::clone(&self.ticker);
            // Without it records get to the disk when the system thinks fit, and at the end.
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

    /// How a session was closed and how many of its records are in blocks, if there is one.
    fn row(&self, id: &str) -> Result<Option<(i64, u64)>> {
        let row = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()));
        self.with_reader(|connection| {
            connection.query_row("SELECT closed, length FROM sessions WHERE id = ?1", [id], row).optional()
        })
    }

    fn has_no_journal(&self, id: &str) -> bool {
        self.folder.segments(id).is_ok_and(|segments| segments.is_empty())
    }

    /// That the store's file is not what was opened any more, if that is so.
    pub(crate) fn replaced(&self) -> Option<StoreError> {
        self.ticker.replaced()
    }

    fn gone(&self) -> StoreError {
        StoreError::Database { path: self.path.clone(), reason: "its writer has stopped".to_owned() }
    }

    /// Waits until a session is in order that this process is to put in order: while it is at it, it has the lock itself.
    fn recovered(&self, id: &str) -> Result<()> {
        if locked(&self.recovering).contains(id) {
            // What is wrong with the session tells whoever goes on with it.
            drop(self.ask(|reply| Command::RecoverNow { id: id.into(), reply }));
        }
        Ok(())
    }

    /// Asks the writer for something and waits for its answer.
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
        drop((locked(&self.reader).take(), locked(&self.access).take()));
        self.queue.close();
        self.ticker.stop();
        // A panic of a thread has been reported to whoever waited for it.
        for thread in [self.thread.take(), locked(&self.ticking).take()].into_iter().flatten() {
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
            /// However the thread ends, nobody may wait for it.
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
        shared.repairs = repair(&shared)?;
        Ok(Store { shared: Arc::new(shared) })
    }

    /// Opens a store that is there already, only to read it.
    pub fn open_read_only(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        // Before the reader can be the one who recovers the log.
        let log_damage = wal::look(&schema::log(&path));
        let reader = schema::open_reader(&path)?;
        let mut shared = StoreInner::new(path, reader, None);
        shared.log_damage = log_damage;
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

    /// Damage to the write-ahead log, found when the store was opened.
    pub fn log_damage(&self) -> Option<&LogDamage> {
        self.shared.log_damage.as_ref()
    }

    /// The damaged files that are kept in the folder `-damaged` beside the store until the user removes them, in the order
    /// of their names.
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

    /// What others could read of it when it was opened, and why they still can, if so.
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

    /// Reads who may do what. A store that an earlier program made, and that cannot be written, has nothing about that.
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

    /// Asks the writer for something and waits for its answer.
    pub(crate) fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T> {
        self.shared.ask(command)
    }

    // ----- writing

    /// Begins to record a session.
    pub fn begin(&self, about: &About) -> Result<Recorder> {
        self.begin_at(about, Moment::now())
    }

    /// Begins a session that began at another time, as for imports.
    pub fn begin_at(&self, about: &About, began: Moment) -> Result<Recorder> {
        self.begin_new(about, began, || new_id(began))
    }

    /// Begins a session under the first id that no session has.
    fn begin_new(&self, about: &About, began: Moment, mut id: impl FnMut() -> String) -> Result<Recorder> {
        loop {
            let id = id();
            if self.shared.row(&id)?.is_none() && self.shared.has_no_journal(&id) {
                return self.begin_as(&id, about, began);
            }
        }
    }

    /// Begins a session that has its id from elsewhere. It must be one that a store can have given.
    pub fn begin_as(&self, id: &str, about: &About, began: Moment) -> Result<Recorder> {
        // It becomes the name of a file.
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
        match answer.recv_timeout(BEGIN) {
            Ok(Err(error)) if !matches!(error, StoreError::Busy { .. }) => Err(error),
            // The journal waits for nobody.
            Ok(_) | Err(RecvTimeoutError::Timeout) => Ok(recorder),
            Err(RecvTimeoutError::Disconnected) => Err(self.shared.gone()),
        }
    }

    /// Goes on with a session that nobody else records at the moment.
    pub fn resume(&self, id: &str) -> Result<Recorder> {
        let summary = self.session(id)?;
        self.shared.recovered(&summary.id)?;
        let lock = SessionLock::take(&self.shared.path, &summary.id)?;
        let id: Arc<str> = summary.id.as_str().into();
        let known = self.shared.ask(|reply| Command::Resume { id: Arc::clone(&id), reply })?;
        let shared = Arc::clone(&self.shared);
        let recorder = Recorder::new(shared, lock, &id, &summary.about, summary.began, known);
        self.shared.push(Command::Attach { id, progress: recorder.progress_handle() });
        Ok(recorder)
    }

    /// Whether somebody records a session at the moment, in this process or another.
    pub fn is_recording(&self, id: &str) -> Result<bool> {
        let (_, id) = self.number(id)?;
        self.shared.recovered(&id)?;
        Ok(SessionLock::is_taken(&self.shared.path, &id))
    }

    /// Removes a session that nobody records. It takes time in proportion to what is removed, and others can use the
    /// store meanwhile.
    pub fn delete(&self, id: &str) -> Result<()> {
        let (session, id) = self.number(id)?;
        self.shared.recovered(&id)?;
        let lock = SessionLock::take(&self.shared.path, &id)?;
        self.parked().forget(session);
        let id = id.into();
        self.shared.ask(|reply| Command::Delete { session, id, lock, reply })
    }

    /// Waits until everything can be found in the index, also what others have left to do.
    pub fn catch_up(&self) -> Result<()> {
        self.shared.ask(|reply| Command::CatchUp { reply })
    }

    /// Takes what is left of deleted sessions out of the index, so that [`sizes`](Store::sizes) tells how much is in use
    /// without them.
    pub fn clean_index(&self) -> Result<()> {
        self.shared.ask(|reply| Command::CleanIndex { reply })
    }

    /// Returns [`StoreError::Full`] after a recording has failed for lack of room, until there is room again.
    pub fn shortage(&self) -> Option<StoreError> {
        let is_below_limit = || {
            let limit = self.shared.max_bytes;
            limit.is_none_or(|limit| self.used().is_ok_and(|used| used < limit / 20 * 19))
        };
        let lasts = self.shared.shortage.lasts(&self.shared.path, is_below_limit);
        lasts.then(|| StoreError::Full { path: self.shared.path.clone() })
    }

    /// Returns the sessions that were deleted to make room since this was last called.
    pub fn take_deleted(&self) -> Vec<String> {
        self.shared.shortage.take_deleted()
    }

    /// Gives the room of deleted sessions back to the file system.
    pub fn shrink(&self) -> Result<()> {
        self.shared.ask(|reply| Command::Shrink { reply })
    }
}

/// Puts in order the sessions that were not closed, or not moved out of their journals, and that nobody writes.
fn repair(shared: &StoreInner) -> Result<Vec<Repair>> {
    let journals = shared.folder.journals().map_err(|error| StoreError::Open {
        path: shared.path.clone(),
        reason: format!("cannot read {}: {error}", shared.folder.path().display()),
    })?;
    let journals: HashMap<String, Vec<u64>> = journals.into_iter().collect();
    // How many records of those that were not closed are in blocks.
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
        // It may have been closed between our look and our lock.
        if before.is_some_and(|(closed, _)| closed != 0) && shared.has_no_journal(&session) {
            continue;
        }
        let id: Arc<str> = session.as_str().into();
        if is_long(&session) {
            let end = segment::end(&shared.folder, &session).ok().flatten();
            shared.push(Command::Recover { id, lock, reply: None });
            if let Some(end) = end.filter(|end| !end.closed) {
                let records = end.next.saturating_sub(before.map_or(0, |(_, length)| length));
                // Damage is found in the background, and reported as gaps.
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
        // One that ended well, and was only not moved, is nothing to tell of.
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

/// Has many sessions put in order in the background, so that the store is open at once. What their journals hold can be
/// read meanwhile. Gives those that were cut off.
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
        // One that ended well, and was only not moved, is nothing to tell of.
        if closed == 0 && !end.as_ref().is_some_and(|end| end.closed) {
            let records = end.map_or(0, |end| end.next.saturating_sub(length));
            // Damage is found in the background, and reported as gaps.
            repairs.push(Repair { session: session.clone(), records, problem: None, damaged: Vec::new() });
        }
        ids.push_back(Arc::from(session));
    }
    locked(&shared.recovering).extend(ids.iter().cloned());
    shared.push(Command::RecoverLater { ids });
    Ok(repairs)
}

/// Goes on with the removal of sessions that was begun.
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

/// An id that sorts by time and that hardly anybody else makes: the time and a random part.
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
