//! Log in a NATS JetStream stream that several hubs share. A record is durable when the servers have acknowledged it.
//! Each message carries the expected sequence of its predecessor in the session, so the servers refuse the second of
//! two concurrent writers. The store has a copy of everything for reading, search and folding; it can be rebuilt at any
//! time.

mod access;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod bench;
mod follow;
mod lease;
mod message;
mod mirror;
mod read_back;
mod server;
mod stream_reader;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use async_nats::jetstream::kv::CreateErrorKind;
use futures_util::future::join_all;
use serde_json::{Value, json};
use switchboard_store::{Channel, Record, Store};
use switchboard_transport::ProcessLease;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::follow::Follower;
use self::lease::{Lease, LeaseOutcome};
use self::message::{Outgoing, messages};
use self::read_back::ReadBack;
use self::server::{PublishFailure, Server, error_text, locked};
use super::{
    BoxFuture, CreatedLog, JetStreamOptions, LocalLog, LogError, NewSession, Prepared, SessionLog, SharedLog,
    blocking,
};
use crate::core::{HubInfo, SessionId, SessionInfo};
use crate::service::Event;

/// Maximum number of attempts to find an unused session id.
const TRIES: usize = 8;

/// NATS servers that keep the logs of hubs.
///
/// ```no_run
/// # async fn example(store: switchboard_store::Store) -> Result<(), switchboard_hub::LogError> {
/// use switchboard_hub::{JetStream, JetStreamOptions};
///
/// let servers = "nats://127.0.0.1:4222".to_owned();
/// let servers = JetStream::connect(&JetStreamOptions { servers, ..JetStreamOptions::default() }).await?;
/// servers.catch_up(&store, |done, all| eprintln!("{done} of {all}")).await?;
/// let log = servers.open(store);
/// # drop(log);
/// # Ok(())
/// # }
/// ```
pub struct JetStream {
    server: Arc<Server>,
}

impl std::fmt::Debug for JetStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("JetStream").finish_non_exhaustive()
    }
}

impl JetStream {
    /// Connects to the servers and creates the stream and the buckets if necessary. Fails with a hint if the servers
    /// cannot be used.
    pub async fn connect(options: &JetStreamOptions) -> Result<Self, LogError> {
        Ok(JetStream { server: Arc::new(Server::connect(options).await?) })
    }

    /// Updates a store from the servers. `progress` gets the number of messages read and the total.
    pub async fn catch_up(
        &self,
        store: &Store,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<(), LogError> {
        mirror::catch_up(&self.server, store, progress).await.map_err(|error| self.server.explain(error))
    }

    /// Returns the log of a hub. The store must be [up to date](JetStream::catch_up).
    pub fn open(self, store: Store) -> SharedLog {
        SharedLog(Box::new(JetStreamLog::new(self.server, store)))
    }

    /// Rebuilds the copy in a store from the servers. No hub may use the store meanwhile.
    pub async fn rebuild(
        &self,
        store: &Store,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<(), LogError> {
        mirror::clear(&self.server, store).await?;
        self.catch_up(store, progress).await
    }

    /// Deletes a session on the servers and in the store, unless a hub owns it. Returns whether it was deleted.
    pub async fn delete_unwritten(&self, store: &Store, session: &str) -> Result<bool, LogError> {
        let failed = |reason: String| {
            let reason = self.server.refused().unwrap_or(reason);
            LogError::new(format!("cannot delete session {session}: {reason}"), "try again later")
        };
        if self.server.is_owned(session).await.map_err(failed)? {
            return Ok(false);
        }
        self.server.remove(session).await.map_err(failed)?;
        let (store, id) = (store.clone(), session.to_owned());
        let deleted = blocking(move || store.delete(&id).map_err(|error| error.to_string())).await;
        deleted.map(|()| true).map_err(|reason| LogError::new(reason, "the next start removes it"))
    }
}

/// Writes the logs to the stream, and durable records to the store.
struct JetStreamLog {
    server: Arc<Server>,
    local: Arc<Mutex<LocalLog>>,
    /// The sessions that this hub owns.
    writers: Arc<Mutex<Writers>>,
    /// Records that are not durable yet.
    unwritten: BTreeMap<SessionId, Vec<Record>>,
    /// The lease of this hub.
    lease: Arc<Lease>,
    /// Reads this hub's own messages back.
    read_back: ReadBack,
    /// Tasks that follow the other hubs.
    tasks: Vec<JoinHandle<()>>,
}

/// The sessions that this hub owns.
#[derive(Debug, Default)]
struct Writers {
    sessions: HashMap<SessionId, Writer>,
    /// Sessions that this hub has lost, with the reasons, until the hub has been told.
    lost: Vec<(SessionId, String)>,
    /// Sessions whose last message the servers may have accepted without an acknowledgement.
    uncertain: HashSet<SessionId>,
}

/// Write position of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Writer {
    /// Number of the next record.
    next: u64,
    /// Stream sequence of the last message; 0 if there is none.
    last: u64,
    /// Stream sequence of the message with which this hub took over; 0 if it has created the session.
    taken: u64,
    /// Fencing token of this hub for the session.
    fence: u64,
}

impl JetStreamLog {
    fn new(server: Arc<Server>, store: Store) -> Self {
        server.watch();
        let writers = Arc::<Mutex<Writers>>::default();
        let name: Arc<str> = server.unique_name().into();
        let from = mirror::MirrorPosition::read(&store).map_or(0, |position| position.sequence);
        JetStreamLog {
            read_back: ReadBack::start(Arc::clone(&server), Arc::clone(&name), Arc::clone(&writers), from),
            local: Arc::new(Mutex::new(LocalLog::new(store))),
            unwritten: BTreeMap::new(),
            lease: Lease::start(Arc::clone(&server), name, Arc::clone(&writers)),
            writers,
            server,
            tasks: Vec::new(),
        }
    }

    /// Returns the reason why this hub does not own a session.
    fn not_owned_reason(&self, session: &SessionId) -> String {
        let mut writers = locked(&self.writers);
        let lost = writers.lost.iter().position(|(lost, _)| lost == session);
        let lost = lost.map(|position| writers.lost.swap_remove(position).1);
        lost.or_else(|| self.server.problem()).unwrap_or_else(|| "the log has not been read yet".to_owned())
    }

    /// Ends the ownership of a session.
    fn disown(&mut self, session: &SessionId) {
        self.unwritten.remove(session);
        if let Some(writer) = locked(&self.writers).sessions.remove(session) {
            self.lease.release(session, writer.fence);
        }
    }

    /// Gives up a session after an error. Its state is determined again before the next write.
    fn give_up(&mut self, session: &SessionId) {
        self.disown(session);
        locked(&self.local).close_session(session);
    }
}

impl SessionLog for JetStreamLog {
    fn create(&self, new: NewSession) -> BoxFuture<'static, Result<CreatedLog, String>> {
        let server = Arc::clone(&self.server);
        let local = Arc::clone(&self.local);
        let (lease, writers) = (Arc::clone(&self.lease), Arc::clone(&self.writers));
        Box::pin(async move {
            if let Some(problem) = server.problem() {
                return Err(problem);
            }
            let description = |began: i64| {
                let NewSession { agent, owner, folder, starter: _ } = &new;
                json!({"agent": agent, "owner": owner, "folder": folder, "began": began}).to_string()
            };
            for _ in 0..TRIES {
                let begun = locked(&local).create(new.clone());
                let begun = begun.await?;
                let id = Arc::clone(&begun.known.id);
                // The metadata key reserves the id across all hubs, before the session is acquired.
                let made = server.sessions.create(&*id, description(begun.known.changed).into()).await;
                let taken = match &made {
                    Ok(_) => lease.acquire(&id).await,
                    Err(error) if error.kind() == CreateErrorKind::AlreadyExists => {
                        Ok(LeaseOutcome::HeldBy("".into()))
                    }
                    Err(error) => {
                        Err(format!("cannot create a session: {}", server.record_failure(&error_text(error))))
                    }
                };
                if let Ok(LeaseOutcome::Acquired(fence)) = taken {
                    locked(&writers).sessions.insert(id, Writer { next: 0, last: 0, taken: 0, fence });
                    return Ok(begun);
                }
                // The incomplete session is removed.
                locked(&local).open_created(begun);
                let removed = locked(&local).remove(&id);
                removed.await;
                taken?;
            }
            Err("found no unused session id".to_owned())
        })
    }

    fn open_created(&mut self, begun: CreatedLog) -> SessionInfo {
        locked(&self.local).open_created(begun)
    }

    fn append(
        &mut self,
        session: &SessionId,
        sequence: u64,
        channel: Channel,
        text: &str,
    ) -> Result<(), String> {
        let writer = locked(&self.writers).sessions.get(session).copied();
        let unwritten = self.unwritten.get(session).map_or(0, |records| records.len() as u64);
        let refused = match writer {
            None => Some(self.not_owned_reason(session)),
            // A gap or an overlap means that the state of the core differs from the log, so the session is given up.
            Some(writer) if writer.next + unwritten != sequence => {
                Some(format!("record {sequence} is out of sequence: the log has {}", writer.next + unwritten))
            }
            Some(_) => None,
        };
        if let Some(reason) = refused {
            self.give_up(session);
            return Err(reason);
        }
        let record = Record::new(channel, text).with_protocol(2);
        self.unwritten.entry(Arc::clone(session)).or_default().push(record);
        Ok(())
    }

    fn commit(&mut self) -> BoxFuture<'_, Vec<(SessionId, String)>> {
        let unwritten = std::mem::take(&mut self.unwritten);
        let (server, name) = (Arc::clone(&self.server), Arc::clone(&self.lease.name));
        Box::pin(async move {
            // Without a valid lease nothing is published: another hub may own the sessions.
            if let Err(reason) = self.lease.wait_valid().await {
                let failed: Vec<_> = unwritten.into_keys().map(|session| (session, reason.clone())).collect();
                for (session, _) in &failed {
                    self.give_up(session);
                }
                return failed;
            }
            let limit = server.limit();
            // Sessions are published concurrently, the messages of one session one after the other: each names its
            // predecessor.
            let written = unwritten.into_iter().map(|(session, records)| {
                let writer = locked(&self.writers).sessions.get(&session).copied();
                let not_owned_reason = writer.is_none().then(|| self.not_owned_reason(&session));
                let (server, name, read_back, writers) = (&server, &name, &self.read_back, &self.writers);
                async move {
                    let Some(Writer { next, mut last, taken, fence }) = writer else {
                        let reason = not_owned_reason.clone().unwrap_or_default();
                        return (session, records, Err(reason));
                    };
                    let mut written = Vec::new();
                    for message in messages(next, &records, limit) {
                        match server.publish(&session, &message, (name, fence), last).await {
                            Ok(sequence) => {
                                written.push((last, sequence));
                                last = sequence;
                            }
                            Err(PublishFailure::Conflict) => {
                                let reason = "another hub has taken over the session".to_owned();
                                return (session, records, Err(reason));
                            }
                            Err(PublishFailure::Unknown(reason)) => return (session, records, Err(reason)),
                        }
                    }
                    // An acknowledgement is not sufficient in a cluster; see `read_back`.
                    if server.is_replicated()
                        && let Err(reason) = read_back.wait_for(server, &session, &written).await
                    {
                        return (session, records, Err(reason));
                    }
                    // Reading back may have shown that another hub was faster.
                    if locked(writers).sessions.get(&session).is_none_or(|known| known.fence != fence) {
                        return (session, records, Err("another hub has taken over the session".to_owned()));
                    }
                    let next = next + records.len() as u64;
                    (session, records, Ok(Writer { next, last, taken, fence }))
                }
            });
            let mut failed = Vec::new();
            for (session, records, written) in join_all(written).await {
                let kept = written.and_then(|writer| {
                    let first = writer.next - records.len() as u64;
                    let mut local = locked(&self.local);
                    for (sequence, record) in (first..).zip(records) {
                        // The store gets only records that are durable on the servers, so the copy is never ahead of
                        // the stream.
                        local.put(&session, sequence, record)?;
                    }
                    Ok(writer)
                });
                match kept {
                    Ok(writer) => {
                        // The ownership may have been lost meanwhile.
                        let mut writers = locked(&self.writers);
                        let known = writers.sessions.get_mut(&session);
                        if let Some(known) = known.filter(|known| known.fence == writer.fence) {
                            *known = writer;
                        }
                    }
                    Err(reason) => {
                        self.give_up(&session);
                        // The message may have been stored without an acknowledgement, so the copy must be compared
                        // with the stream.
                        locked(&self.writers).uncertain.insert(Arc::clone(&session));
                        failed.push((session, reason));
                    }
                }
            }
            let unkept = locked(&self.local).write();
            for (session, reason) in unkept {
                self.give_up(&session);
                failed.push((session, reason));
            }
            failed
        })
    }

    fn prepare(&mut self, session: &SessionId) -> BoxFuture<'static, Result<Prepared, String>> {
        let (server, lease) = (Arc::clone(&self.server), Arc::clone(&self.lease));
        let (local, writers) = (Arc::clone(&self.local), Arc::clone(&self.writers));
        let session = Arc::clone(session);
        Box::pin(async move {
            if locked(&writers).sessions.contains_key(&session) {
                return Ok(Prepared::Owned);
            }
            if let Some(problem) = server.problem() {
                return Err(problem);
            }
            let fence = match lease.acquire(&session).await? {
                LeaseOutcome::HeldBy(hub) => return Ok(Prepared::OwnedBy(hub)),
                LeaseOutcome::Acquired(fence) => fence,
            };
            // The lease alone is not sufficient: the previous owner may still have messages in transit, which the
            // takeover message fences off.
            let taken = take_over(&server, &local, &session, (&lease.name, fence)).await;
            match taken {
                Ok(writer) => {
                    let mut writers = locked(&writers);
                    writers.lost.retain(|(lost, _)| *lost != session);
                    writers.sessions.insert(session, writer);
                    Ok(Prepared::Owned)
                }
                Err(reason) => {
                    lease.release(&session, fence);
                    Err(reason)
                }
            }
        })
    }

    fn close_session(&mut self, session: &SessionId) {
        locked(&self.local).close_session(session);
    }

    fn remove(&mut self, session: &SessionId) -> BoxFuture<'static, ()> {
        self.disown(session);
        let removed = locked(&self.local).remove(session);
        let (server, session) = (Arc::clone(&self.server), Arc::clone(session));
        Box::pin(async move {
            removed.await;
            // A session that cannot be deleted now reappears with the next start, where the user can delete it.
            if let Err(reason) = server.remove(&session).await {
                server.record_failure(&reason);
            }
        })
    }

    fn problem(&self) -> Option<String> {
        self.server.problem()
    }

    fn name(&self) -> Option<Arc<str>> {
        Some(Arc::clone(&self.lease.name))
    }

    fn process_lease(&self) -> Option<ProcessLease> {
        Some(self.lease.processes.clone())
    }

    fn follow(&mut self, info: HubInfo, events: mpsc::Sender<Event>) {
        self.lease.set_info(info);
        let follower = Arc::new(Follower {
            name: Arc::clone(&self.lease.name),
            server: Arc::clone(&self.server),
            store: locked(&self.local).store().clone(),
            local: Arc::clone(&self.local),
            writers: Arc::clone(&self.writers),
            events,
        });
        self.tasks.push(tokio::spawn(Arc::clone(&follower).records()));
        self.tasks.push(tokio::spawn(Arc::clone(&follower).deletions()));
        self.tasks.push(tokio::spawn(follower.requests()));
    }

    fn hubs(&self) -> Vec<(Arc<str>, HubInfo)> {
        self.lease.hubs()
    }

    fn take_lost(&mut self) -> Vec<(SessionId, String)> {
        let lost = std::mem::take(&mut locked(&self.writers).lost);
        for (session, _) in &lost {
            self.give_up(session);
        }
        lost
    }

    fn release(&mut self, session: &SessionId) -> BoxFuture<'static, ()> {
        self.give_up(session);
        let lease = Arc::clone(&self.lease);
        Box::pin(async move { lease.flush_releases().await })
    }

    fn forward(&self, hub: &str, ticket: u64, message: &str) -> BoxFuture<'static, Option<String>> {
        let (server, hub, message) = (Arc::clone(&self.server), hub.to_owned(), message.to_owned());
        let key = format!("{}.{ticket}", self.lease.name);
        Box::pin(async move { server.forward(&hub, key, message).await })
    }

    fn answer(&self, inbox: String, text: String) -> BoxFuture<'static, ()> {
        let server = Arc::clone(&self.server);
        Box::pin(async move { server.answer(inbox, text).await })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            for task in &self.tasks {
                task.abort();
            }
            // First the lease, so that other hubs can take over while the logs are closed.
            self.lease.end().await;
            let closed = {
                let mut local = locked(&self.local);
                let empty = LocalLog::new(local.store().clone());
                std::mem::replace(&mut *local, empty)
            };
            Box::new(closed).close().await;
        })
    }
}

/// Takes over a session that this hub has acquired: fences off the previous owner, and updates the copy in the store up
/// to that point.
async fn take_over(
    server: &Server,
    local: &Arc<Mutex<LocalLog>>,
    session: &SessionId,
    (hub, fence): (&str, u64),
) -> Result<Writer, String> {
    // Number of records that are known to exist, in case another hub wrote at the same moment.
    let mut known = 0;
    for _ in 0..TRIES {
        let last = server.last(session).await.map_err(|reason| server.record_failure(&reason))?;
        let (next, last) = match &last {
            None => (0, 0),
            Some(message) => {
                let end = message::end(&message.headers).ok_or_else(|| {
                    format!("message {} of the stream was not written by a hub", message.sequence)
                })?;
                // This hub was slow: a later owner exists, and must not be overtaken.
                if message::fence(&message.headers).is_some_and(|last| last > fence) {
                    return Err("another hub has taken over the session; try again later".to_owned());
                }
                (end.max(known), message.sequence)
            }
        };
        let taken = match server.publish(session, &Outgoing::takeover(next), (hub, fence), last).await {
            Ok(taken) => taken,
            // The previous owner has written once more.
            Err(PublishFailure::Conflict) => continue,
            Err(PublishFailure::Unknown(reason)) => return Err(reason),
        };
        // Servers of a cluster may accept two concurrent messages.
        known = server.end_between(session, last, taken).await?.max(next);
        if known > next {
            continue;
        }
        let mut next = next;
        let mut length = locked(local).length(session)?;
        if length != next {
            // After concurrent writes, the last message need not be the one with the most records.
            next = mirror::copy(server, local, session, taken).await?.end.max(next);
            length = locked(local).length(session)?;
        }
        // Records of other hubs may not be written yet.
        let _ = locked(local).write();
        if length != next {
            return Err(format!(
                "the store has {length} records and the stream {next}; stop the hub and run `switchboard hub rebuild`"
            ));
        }
        return Ok(Writer { next, last: taken, taken, fence });
    }
    Err("another hub keeps writing the session; try again later".to_owned())
}

/// Parses the metadata of a session from the bucket.
fn description(id: &str, text: &[u8]) -> Option<SessionInfo> {
    let value: Value = serde_json::from_slice(text).ok()?;
    let word = |key: &str| value.get(key)?.as_str().map(str::to_owned);
    Some(SessionInfo {
        id: id.into(),
        agent: word("agent")?,
        agent_session: String::new(),
        owner: word("owner")?,
        folder: word("folder")?,
        title: None,
        changed: value.get("began")?.as_i64()?,
        length: 0,
    })
}
