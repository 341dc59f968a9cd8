use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::error::{Result, StoreError};
use crate::lock::SessionLock;
use crate::queue::locked;
use crate::record::{MAX_MESSAGE, Record};
use crate::store::Shared;
use crate::writer::Command;

/// How far the records of one session are on the disk.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// All before this one are durable.
    durable: u64,
    failed: Option<StoreError>,
}

impl Progress {
    pub(crate) fn from(durable: u64) -> Self {
        Progress { state: Mutex::new(State { durable, failed: None }), changed: Condvar::new() }
    }

    pub(crate) fn reach(&self, durable: u64) {
        locked(&self.state).durable = durable;
        self.changed.notify_all();
    }

    pub(crate) fn fail(&self, error: StoreError) {
        locked(&self.state).failed.get_or_insert(error);
        self.changed.notify_all();
    }

    pub(crate) fn failure(&self) -> Option<(u64, StoreError)> {
        let state = locked(&self.state);
        state.failed.clone().map(|error| (state.durable, error))
    }

    fn wait(&self, sequence: u64) -> Result<u64> {
        let mut state = locked(&self.state);
        loop {
            if state.durable > sequence {
                return Ok(sequence);
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A record on its way to the disk.
#[derive(Debug, Clone)]
#[must_use = "a record is safe only when this says so"]
pub struct Receipt {
    pub(crate) sequence: u64,
    pub(crate) progress: Arc<Progress>,
}

impl Receipt {
    /// The number that the record gets.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether it is durable already.
    pub fn is_durable(&self) -> bool {
        locked(&self.progress.state).durable > self.sequence
    }

    /// Waits until the record is durable: it then survives the end of the process and of the power.
    pub fn wait(&self) -> Result<u64> {
        self.progress.wait(self.sequence)
    }
}

/// Writes one session. No other recorder, in any process, can write it at the same time.
///
/// Records are numbered in the order of [`append`](Recorder::append). Those that wait at the same moment, also of
/// other sessions, become durable together in one transaction.
#[derive(Debug)]
pub struct Recorder {
    pub(crate) shared: Arc<Shared>,
    pub(crate) session: i64,
    pub(crate) id: String,
    pub(crate) next: u64,
    pub(crate) progress: Arc<Progress>,
    pub(crate) lock: Option<SessionLock>,
}

impl Recorder {
    /// The session's id in the store.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How many records were appended, durable or not.
    pub fn length(&self) -> u64 {
        self.next
    }

    /// Appends a record. It waits only when too much is waiting already; the receipt tells when it is durable.
    ///
    /// After a failure all further records are refused, since they would leave a gap; the session can be
    /// continued with [`Store::resume`](crate::Store::resume) once the reason is gone.
    pub fn append(&mut self, mut record: Record) -> Result<Receipt> {
        if record.bytes.len() > MAX_MESSAGE {
            return Err(StoreError::TooLarge { length: record.bytes.len(), limit: MAX_MESSAGE });
        }
        self.still_recording()?;
        let sequence = self.next;
        record.sequence = sequence;
        let bytes = record.bytes.len();
        let progress = Arc::clone(&self.progress);
        let command = Command::Append { session: self.session, record, progress };
        if !self.shared.push(command, bytes) {
            return Err(self.stopped(sequence, "the store was closed"));
        }
        self.next += 1;
        Ok(Receipt { sequence, progress: Arc::clone(&self.progress) })
    }

    /// Waits until everything appended is durable.
    pub fn sync(&self) -> Result<()> {
        match self.next.checked_sub(1) {
            Some(last) => self.progress.wait(last).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Ends the recording: all records are durable, compressed and searchable afterwards.
    pub fn close(mut self) -> Result<()> {
        self.sync()?;
        self.finish()
    }

    fn finish(&mut self) -> Result<()> {
        let Some(lock) = self.lock.take() else { return Ok(()) };
        let session = self.session;
        let result = self.shared.ask(|reply| Command::Close { session, reply });
        drop(lock);
        result
    }

    fn still_recording(&self) -> Result<()> {
        match self.progress.failure() {
            Some((sequence, error)) => Err(self.stopped(sequence, &error.to_string())),
            None => Ok(()),
        }
    }

    fn stopped(&self, sequence: u64, reason: &str) -> StoreError {
        StoreError::RecordingStopped { session: self.id.clone(), sequence, reason: reason.to_owned() }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // What was appended is written; whoever wants to know whether it was calls `close`.
        drop(self.finish());
    }
}
