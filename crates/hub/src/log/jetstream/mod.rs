//! The logs of the sessions in a stream of NATS JetStream, which several hubs share. A record is safe when the servers have
//! acknowledged it. Each message carries the number of the one before it in its session, so that of two hubs that write one
//! session the servers refuse the second. The store has a copy of everything, from which is read, searched and folded; it can
//! be made anew at any time.

mod access;
mod echo;
mod follow;
mod lease;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod measure;
mod message;
mod reading;
mod server;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod view;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use async_nats::jetstream::kv::CreateErrorKind;
use futures_util::future::join_all;
use serde_json::{Value, json};
use switchboard_store::{Channel, Record, Store};
use switchboard_transport::ProcessLease;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::echo::Echo;
use self::follow::Follower;
use self::lease::{Lease, Taken};
use self::message::{Outgoing, messages};
use self::server::{NotWritten, Server, in_words, locked};
use super::{
    Beginning, Begun, JetStreamOptions, Later, LocalLog, LogError, Prepared, SessionLog, SharedLog, blocking,
};
use crate::core::{HubAbout, Known, SessionId};
use crate::service::Event;

/// How often another id is tried for a session, should there be one of that name.
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
    /// Connects to the servers, and sees to it that they have what is needed.
    pub async fn connect(options: &JetStreamOptions) -> Result<Self, LogError> {
        Ok(JetStream { server: Arc::new(Server::connect(options).await?) })
    }

    /// Brings a store up to what the servers have. Progress is told as how many messages were read, of how many.
    pub async fn catch_up(
        &self,
        store: &Store,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<(), LogError> {
        view::catch_up(&self.server, store, progress).await.map_err(|error| self.server.explain(error))
    }

    /// What a hub writes its logs with. Its store is one that has [caught up](JetStream::catch_up).
    pub fn open(self, store: Store) -> SharedLog {
        SharedLog(Box::new(JetStreamLog::new(self.server, store)))
    }

    /// Makes the copy in a store anew from what the servers have. No hub may use the store meanwhile.
    pub async fn rebuild(
        &self,
        store: &Store,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<(), LogError> {
        view::forget(&self.server, store).await?;
        self.catch_up(store, progress).await
    }

    /// Deletes a session, at the servers and in the store, unless a hub writes it. Gives whether it is gone.
    pub async fn delete_unwritten(&self, store: &Store, session: &str) -> Result<bool, LogError> {
        let failed = |reason: String| {
            let reason = self.server.refused().unwrap_or(reason);
            LogError::new(format!("{session} cannot be deleted: {reason}"), "try again later")
        };
        if self.server.is_written(session).await.map_err(failed)? {
            return Ok(false);
        }
        self.server.remove(session).await.map_err(failed)?;
        let (store, id) = (store.clone(), session.to_owned());
        let deleted = blocking(move || store.delete(&id).map_err(|error| error.to_string())).await;
        deleted.map(|()| true).map_err(|reason| LogError::new(reason, "it goes with the next start"))
    }
}

/// Writes the logs into the stream, and what is safe there into the store.
struct JetStreamLog {
    server: Arc<Server>,
    local: Arc<Mutex<LocalLog>>,
    /// The sessions that this hub writes.
    writers: Arc<Mutex<Writers>>,
    /// What is not safe yet.
    unwritten: BTreeMap<SessionId, Vec<Record>>,
    /// The right to write them, and the name of this launch.
    lease: Arc<Lease>,
    /// What has come back of what was written.
    echo: Echo,
    /// What follows the other hubs.
    tasks: Vec<JoinHandle<()>>,
}

/// The sessions that this hub writes.
#[derive(Debug, Default)]
struct Writers {
    known: HashMap<SessionId, Writer>,
    /// Those that it does not write any more, though nobody has told the hub so yet, and why.
    lost: Vec<(SessionId, String)>,
    /// Those of which its last message may have been taken by the servers though it was told otherwise, or nothing.
    unsure: HashSet<SessionId>,
}

/// Where a session is continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Writer {
    /// The number of its next record.
    next: u64,
    /// The number of its last message in the stream; 0 where there is none.
    last: u64,
    /// The number of the message with which this hub has taken it; 0 where it has begun it.
    taken: u64,
    /// The number under which this hub has taken it.
    fence: u64,
}

impl JetStreamLog {
    fn new(server: Arc<Server>, store: Store) -> Self {
        server.watch();
        let writers = Arc::<Mutex<Writers>>::default();
        let name: Arc<str> = server.unique_name().into();
        let from = view::Place::read(&store).map_or(0, |place| place.sequence);
        JetStreamLog {
            echo: Echo::begin(Arc::clone(&server), Arc::clone(&name), Arc::clone(&writers), from),
            local: Arc::new(Mutex::new(LocalLog::new(store))),
            unwritten: BTreeMap::new(),
            lease: Lease::begin(Arc::clone(&server), name, Arc::clone(&writers)),
            writers,
            server,
            tasks: Vec::new(),
        }
    }

    /// Why this hub does not write a session.
    fn why_not(&self, session: &SessionId) -> String {
        let mut writers = locked(&self.writers);
        let lost = writers.lost.iter().position(|(lost, _)| lost == session);
        let lost = lost.map(|place| writers.lost.swap_remove(place).1);
        lost.or_else(|| self.server.problem()).unwrap_or_else(|| "the log was not read yet".to_owned())
    }

    /// This hub writes a session no more.
    fn forget(&mut self, session: &SessionId) {
        self.unwritten.remove(session);
        if let Some(writer) = locked(&self.writers).known.remove(session) {
            self.lease.release(session, writer.fence);
        }
    }

    /// Something is wrong with a session: what is known of it is found out anew before it is written again.
    fn give_up(&mut self, session: &SessionId) {
        self.forget(session);
        locked(&self.local).rest(session);
    }
}

impl SessionLog for JetStreamLog {
    fn begin(&self, beginning: Beginning) -> Later<'static, Result<Begun, String>> {
        let server = Arc::clone(&self.server);
        let local = Arc::clone(&self.local);
        let (lease, writers) = (Arc::clone(&self.lease), Arc::clone(&self.writers));
        Box::pin(async move {
            if let Some(problem) = server.problem() {
                return Err(problem);
            }
            let description = |began: i64| {
                let Beginning { agent, owner, folder, starter: _ } = &beginning;
                json!({"agent": agent, "owner": owner, "folder": folder, "began": began}).to_string()
            };
            for _ in 0..TRIES {
                let begun = locked(&local).begin(beginning.clone());
                let begun = begun.await?;
                let id = Arc::clone(&begun.known.id);
                let made = server.sessions.create(&*id, description(begun.known.changed).into()).await;
                let taken = match &made {
                    Ok(_) => lease.take(&id).await,
                    Err(error) if error.kind() == CreateErrorKind::AlreadyExists => {
                        Ok(Taken::There("".into()))
                    }
                    Err(error) => Err(format!("no session can be begun: {}", server.fault(&in_words(error)))),
                };
                if let Ok(Taken::Here(fence)) = taken {
                    locked(&writers).known.insert(id, Writer { next: 0, last: 0, taken: 0, fence });
                    return Ok(begun);
                }
                // It stays nowhere.
                locked(&local).begun(begun);
                let removed = locked(&local).remove(&id);
                removed.await;
                taken?;
            }
            Err("no id is free for a session".to_owned())
        })
    }

    fn begun(&mut self, begun: Begun) -> Known {
        locked(&self.local).begun(begun)
    }

    fn append(
        &mut self,
        session: &SessionId,
        sequence: u64,
        channel: Channel,
        text: &str,
    ) -> Result<(), String> {
        let writer = locked(&self.writers).known.get(session).copied();
        let unwritten = self.unwritten.get(session).map_or(0, |records| records.len() as u64);
        let refused = match writer {
            None => Some(self.why_not(session)),
            Some(writer) if writer.next + unwritten != sequence => {
                Some(format!("record {sequence} does not follow: the log has {}", writer.next + unwritten))
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

    fn commit(&mut self) -> Later<'_, Vec<(SessionId, String)>> {
        let unwritten = std::mem::take(&mut self.unwritten);
        let (server, name) = (Arc::clone(&self.server), Arc::clone(&self.lease.name));
        Box::pin(async move {
            if let Err(reason) = self.lease.hold().await {
                let failed: Vec<_> = unwritten.into_keys().map(|session| (session, reason.clone())).collect();
                for (session, _) in &failed {
                    self.give_up(session);
                }
                return failed;
            }
            let limit = server.limit();
            let written = unwritten.into_iter().map(|(session, records)| {
                let writer = locked(&self.writers).known.get(&session).copied();
                let why_not = writer.is_none().then(|| self.why_not(&session));
                let (server, name, echo, writers) = (&server, &name, &self.echo, &self.writers);
                async move {
                    let Some(Writer { next, mut last, taken, fence }) = writer else {
                        let reason = why_not.clone().unwrap_or_default();
                        return (session, records, Err(reason));
                    };
                    let mut written = Vec::new();
                    for message in messages(next, &records, limit) {
                        match server.publish(&session, &message, (name, fence), last).await {
                            Ok(sequence) => {
                                written.push((last, sequence));
                                last = sequence;
                            }
                            Err(NotWritten::Overtaken) => {
                                let reason = "another hub has gone on with it".to_owned();
                                return (session, records, Err(reason));
                            }
                            Err(NotWritten::Unknown(reason)) => return (session, records, Err(reason)),
                        }
                    }
                    if server.is_replicated()
                        && let Err(reason) = echo.has(server, &session, &written).await
                    {
                        return (session, records, Err(reason));
                    }
                    // What has come back may have shown that another one was faster.
                    if locked(writers).known.get(&session).is_none_or(|known| known.fence != fence) {
                        return (session, records, Err("another hub has gone on with it".to_owned()));
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
                        local.put(&session, sequence, record)?;
                    }
                    Ok(writer)
                });
                match kept {
                    Ok(writer) => {
                        // It may have been lost meanwhile.
                        let mut writers = locked(&self.writers);
                        let known = writers.known.get_mut(&session);
                        if let Some(known) = known.filter(|known| known.fence == writer.fence) {
                            *known = writer;
                        }
                    }
                    Err(reason) => {
                        self.give_up(&session);
                        locked(&self.writers).unsure.insert(Arc::clone(&session));
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

    fn prepare(&mut self, session: &SessionId) -> Later<'static, Result<Prepared, String>> {
        let (server, lease) = (Arc::clone(&self.server), Arc::clone(&self.lease));
        let (local, writers) = (Arc::clone(&self.local), Arc::clone(&self.writers));
        let session = Arc::clone(session);
        Box::pin(async move {
            if locked(&writers).known.contains_key(&session) {
                return Ok(Prepared::Here);
            }
            if let Some(problem) = server.problem() {
                return Err(problem);
            }
            let fence = match lease.take(&session).await? {
                Taken::There(hub) => return Ok(Prepared::There(hub)),
                Taken::Here(fence) => fence,
            };
            let taken = take_over(&server, &local, &session, (&lease.name, fence)).await;
            match taken {
                Ok(writer) => {
                    let mut writers = locked(&writers);
                    writers.lost.retain(|(lost, _)| *lost != session);
                    writers.known.insert(session, writer);
                    Ok(Prepared::Here)
                }
                Err(reason) => {
                    lease.release(&session, fence);
                    Err(reason)
                }
            }
        })
    }

    fn rest(&mut self, session: &SessionId) {
        locked(&self.local).rest(session);
    }

    fn remove(&mut self, session: &SessionId) -> Later<'static, ()> {
        self.forget(session);
        let removed = locked(&self.local).remove(session);
        let (server, session) = (Arc::clone(&self.server), Arc::clone(session));
        Box::pin(async move {
            removed.await;
            // One that cannot be deleted now comes back with the next start, where the user can.
            if let Err(reason) = server.remove(&session).await {
                server.fault(&reason);
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

    fn follow(&mut self, about: HubAbout, events: mpsc::Sender<Event>) {
        self.lease.tell(about);
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

    fn hubs(&self) -> Vec<(Arc<str>, HubAbout)> {
        self.lease.hubs()
    }

    fn lost(&mut self) -> Vec<(SessionId, String)> {
        let lost = std::mem::take(&mut locked(&self.writers).lost);
        for (session, _) in &lost {
            self.give_up(session);
        }
        lost
    }

    fn release(&mut self, session: &SessionId) -> Later<'static, ()> {
        self.give_up(session);
        let lease = Arc::clone(&self.lease);
        Box::pin(async move { lease.let_go().await })
    }

    fn pass_on(&self, hub: &str, ticket: u64, message: &str) -> Later<'static, Option<String>> {
        let (server, hub, message) = (Arc::clone(&self.server), hub.to_owned(), message.to_owned());
        let key = format!("{}.{ticket}", self.lease.name);
        Box::pin(async move { server.pass_on(&hub, key, message).await })
    }

    fn answer(&self, inbox: String, text: String) -> Later<'static, ()> {
        let server = Arc::clone(&self.server);
        Box::pin(async move { server.answer(inbox, text).await })
    }

    fn close(self: Box<Self>) -> Later<'static, ()> {
        Box::pin(async move {
            for task in &self.tasks {
                task.abort();
            }
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

/// Begins to write a session that this hub has taken: whoever wrote it before is refused from here on, and the store has
/// everything that there is until here.
async fn take_over(
    server: &Server,
    local: &Arc<Mutex<LocalLog>>,
    session: &SessionId,
    (hub, fence): (&str, u64),
) -> Result<Writer, String> {
    // What is known of it, should somebody have written at the same moment.
    let mut known = 0;
    for _ in 0..TRIES {
        let last = server.last(session).await.map_err(|reason| server.fault(&reason))?;
        let (next, last) = match &last {
            None => (0, 0),
            Some(message) => {
                let end = message::end(&message.headers)
                    .ok_or_else(|| format!("message {} of the stream is not of a hub", message.sequence))?;
                // This hub was slow: whoever came after it must not be written behind.
                if message::fence(&message.headers).is_some_and(|last| last > fence) {
                    return Err("another hub has gone on with it; try again later".to_owned());
                }
                (end.max(known), message.sequence)
            }
        };
        let taken = match server.publish(session, &Outgoing::taking_over(next), (hub, fence), last).await {
            Ok(taken) => taken,
            // Who wrote before has just done so once more.
            Err(NotWritten::Overtaken) => continue,
            Err(NotWritten::Unknown(reason)) => return Err(reason),
        };
        // Servers of a cluster may let two through that come at once.
        known = server.end_between(session, last, taken).await?.max(next);
        if known > next {
            continue;
        }
        let mut next = next;
        let mut length = locked(local).length(session)?;
        if length != next {
            // Where two wrote at once the last message need not be the one that goes furthest.
            next = view::copy(server, local, session, taken).await?.end.max(next);
            length = locked(local).length(session)?;
        }
        // What came from others may not be written yet.
        let _ = locked(local).write();
        if length != next {
            return Err(format!(
                "the store has {length} records and the stream {next}; stop the hub and run `switchboard hub rebuild`"
            ));
        }
        return Ok(Writer { next, last: taken, taken, fence });
    }
    Err("another hub goes on writing it; try again later".to_owned())
}

/// Whose a session is, as the bucket has it.
fn description(id: &str, text: &[u8]) -> Option<Known> {
    let value: Value = serde_json::from_slice(text).ok()?;
    let word = |key: &str| value.get(key)?.as_str().map(str::to_owned);
    Some(Known {
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
