//! Log that keeps the records in the store only.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use switchboard_store::{About, Channel, Moment, Record, Recorder, Store, StoreError};

use super::closer::{Closer, Closing};
use super::{BoxFuture, CreatedLog, NewSession, Prepared, SessionLog, blocking, save_started};
use crate::core::{SessionId, SessionInfo};

/// Writes the logs of sessions to the store.
pub(crate) struct LocalLog {
    store: Store,
    recorders: HashMap<SessionId, Open>,
    /// Maximum number of open recorders: each has open files.
    limit: usize,
    /// Counts up with every use of a recorder.
    clock: u64,
    /// Sessions with records that are not durable yet.
    unwritten: BTreeSet<SessionId>,
    /// Recorders that are being closed.
    closing: HashMap<SessionId, Closing>,
    closer: Closer,
}

/// A recorder, and the time of its last use.
struct Open {
    recorder: Recorder,
    used: u64,
}

impl LocalLog {
    pub(crate) fn new(store: Store) -> Self {
        LocalLog {
            store,
            recorders: HashMap::new(),
            limit: usize::MAX,
            clock: 0,
            unwritten: BTreeSet::new(),
            closing: HashMap::new(),
            closer: Closer::default(),
        }
    }

    /// Limits the number of open logs. Above the limit, the least recently used ones are closed and reopened for the
    /// next append.
    pub(crate) fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit.max(1);
        self
    }

    /// Closes the least recently used log, if the limit is reached.
    fn make_room(&mut self) {
        if self.recorders.len() < self.limit {
            return;
        }
        // Recorders with records that are not durable must stay open until the commit.
        let written = self.recorders.iter().filter(|(session, _)| !self.unwritten.contains(*session));
        if let Some(session) =
            written.min_by_key(|(_, open)| open.used).map(|(session, _)| Arc::clone(session))
        {
            self.close_session(&session);
        }
    }

    fn insert(&mut self, session: &SessionId, recorder: Recorder) {
        self.clock += 1;
        self.recorders.insert(Arc::clone(session), Open { recorder, used: self.clock });
    }

    /// Writes everything and closes all logs, so that another process can continue them.
    #[cfg(feature = "jetstream")]
    pub(super) fn complete(&mut self) -> Result<(), String> {
        if let Some((_, reason)) = self.write().pop() {
            return Err(reason);
        }
        for (_, open) in self.recorders.drain() {
            open.recorder.complete().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    #[cfg(feature = "jetstream")]
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Drops a recorder that has failed. The next append gets a new one, which may succeed.
    fn give_up(&mut self, session: &SessionId) {
        // A failed recorder cannot make its records durable any more; `commit` must not report success for them.
        self.unwritten.remove(session);
        self.recorders.remove(session);
    }

    fn recorder(&mut self, session: &SessionId) -> Result<&mut Recorder, StoreError> {
        if let Some(closing) = self.closing.remove(session) {
            // Cancelling is cheaper than closing and reopening. A close that has started must finish first, because the
            // store allows one recorder per session.
            match self.closer.cancel(session) {
                Some(recorder) => self.insert(session, recorder),
                None => closing.wait(),
            }
        }
        if !self.recorders.contains_key(session) {
            self.make_room();
            let recorder = self.store.resume(session)?;
            self.insert(session, recorder);
        }
        self.clock += 1;
        match self.recorders.get_mut(session) {
            Some(open) => {
                open.used = self.clock;
                Ok(&mut open.recorder)
            }
            None => Err(StoreError::UnknownSession { session: session.to_string() }),
        }
    }

    /// Adds a record with this sequence number.
    pub(super) fn put(&mut self, session: &SessionId, sequence: u64, record: Record) -> Result<(), String> {
        let recorder = self.recorder(session).map_err(|error| error.to_string())?;
        let length = recorder.length();
        let put = if length == sequence {
            recorder.put(record).map_err(|error| error.to_string())
        } else {
            Err(format!("record {sequence} is out of sequence: the log has {length}"))
        };
        match &put {
            Ok(()) => drop(self.unwritten.insert(Arc::clone(session))),
            // The log and the core disagree about its length; the next append starts with a new recorder.
            Err(_) => self.give_up(session),
        }
        put
    }

    /// Adds those records of a session that the store does not have.
    #[cfg(feature = "jetstream")]
    pub(super) fn take(&mut self, session: &SessionId, records: &[Record]) -> Result<(), String> {
        for record in records {
            if record.sequence >= self.length(session)? {
                self.put(session, record.sequence, record.clone())?;
            }
        }
        Ok(())
    }

    /// Returns the number of records of a session, including those that are not durable yet.
    #[cfg(feature = "jetstream")]
    pub(super) fn length(&mut self, session: &SessionId) -> Result<u64, String> {
        self.recorder(session).map(|recorder| recorder.length()).map_err(|error| error.to_string())
    }

    /// Makes all records durable. Returns the sessions whose log cannot be written, with the reasons.
    pub(super) fn write(&mut self) -> Vec<(SessionId, String)> {
        let mut failed = Vec::new();
        for session in std::mem::take(&mut self.unwritten) {
            if let Some(Err(error)) = self.recorders.get_mut(&session).map(|open| open.recorder.write()) {
                self.give_up(&session);
                failed.push((session, error.to_string()));
            }
        }
        failed
    }

    /// Returns whether this hub has the log of a session open, or is closing it.
    fn is_writing(&self, session: &SessionId) -> bool {
        self.recorders.contains_key(session) || self.closing.contains_key(session)
    }
}

impl SessionLog for LocalLog {
    fn create(&self, new: NewSession) -> BoxFuture<'static, Result<CreatedLog, String>> {
        let store = self.store.clone();
        Box::pin(blocking(move || begin(&store, new)))
    }

    fn open_created(&mut self, CreatedLog { known, recorder }: CreatedLog) -> SessionInfo {
        // Before the insertion, so that the limit of open files is never exceeded.
        self.make_room();
        self.insert(&known.id, recorder);
        known
    }

    fn append(
        &mut self,
        session: &SessionId,
        sequence: u64,
        channel: Channel,
        text: &str,
    ) -> Result<(), String> {
        self.put(session, sequence, Record::new(channel, text).with_protocol(2))
    }

    fn problem(&self) -> Option<String> {
        self.store.shortage().map(|error| error.to_string())
    }

    fn commit(&mut self) -> BoxFuture<'_, Vec<(SessionId, String)>> {
        Box::pin(std::future::ready(self.write()))
    }

    fn prepare(&mut self, session: &SessionId) -> BoxFuture<'static, Result<Prepared, String>> {
        let (store, session, is_writing) =
            (self.store.clone(), Arc::clone(session), self.is_writing(session));
        Box::pin(blocking(move || match !is_writing && store.is_recording(&session).unwrap_or_default() {
            true => Err(format!(
                "session {session} is open in another program that uses this store; use it there, or close it there first"
            )),
            false => Ok(Prepared::Owned),
        }))
    }

    fn close_session(&mut self, session: &SessionId) {
        self.closing.retain(|_, closing| !closing.is_done());
        if let Some(Open { recorder, .. }) = self.recorders.remove(session) {
            self.unwritten.remove(session);
            let closing = self.closer.close(session, recorder);
            self.closing.insert(Arc::clone(session), closing);
        }
    }

    fn remove(&mut self, session: &SessionId) -> BoxFuture<'static, ()> {
        self.close_session(session);
        let closing = self.closing.remove(session);
        let (store, session) = (self.store.clone(), Arc::clone(session));
        let removed = blocking(move || {
            // A log that is being closed is still written, so deleting waits for it.
            if let Some(closing) = closing {
                closing.wait();
            }
            store.delete(&session).map_err(|error| error.to_string())
        });
        // A session that cannot be deleted now stays in the list of sessions, where the user can delete it.
        Box::pin(async move { drop(removed.await) })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        let LocalLog { recorders, closing, closer, .. } = *self;
        let recorders = recorders.into_values().map(|open| open.recorder).collect();
        Box::pin(async move {
            let finish = move || closer.finish(recorders, closing.into_values().collect());
            let _ = tokio::task::spawn_blocking(finish).await;
        })
    }
}

/// Creates the log of a session.
fn begin(store: &Store, beginning: NewSession) -> Result<CreatedLog, String> {
    let NewSession { agent, owner, folder, starter } = beginning;
    let about = About {
        agent: Some(agent.clone()),
        client: Some(owner.clone()),
        project: Some(folder.clone()),
        title: None,
    };
    let recorder = store.begin(&about).map_err(|error| error.to_string())?;
    let known = SessionInfo {
        id: recorder.id().into(),
        agent,
        agent_session: String::new(),
        owner,
        folder,
        title: None,
        changed: Moment::now().0,
        length: 0,
    };
    save_started(store, &known, starter.as_ref()).map_err(|error| error.to_string())?;
    Ok(CreatedLog { known, recorder })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn more_sessions_than_open_logs_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store.sqlite3")).unwrap();
        let mut log = LocalLog::new(store.clone()).with_limit(2);
        let mut ids = Vec::new();
        for _ in 0..6 {
            let beginning = NewSession {
                agent: "a".to_owned(),
                owner: "o".to_owned(),
                folder: "/w".to_owned(),
                starter: None,
            };
            let begun = log.create(beginning).await.unwrap();
            ids.push(log.open_created(begun).id);
        }
        for round in 0..3 {
            for id in &ids {
                log.append(id, round, Channel::ToClient, "{}").unwrap();
                assert_eq!(log.commit().await, []);
                assert!(log.recorders.len() <= 2);
            }
        }
        SessionLog::close(Box::new(log)).await;
        for id in &ids {
            assert_eq!(store.read(id, 0).unwrap().count(), 3, "{id}");
            assert!(!store.is_recording(id).unwrap(), "{id}");
        }
    }
}
