//! The logs of the sessions in a stream of NATS JetStream, which several hubs share. A record is safe when the servers have
//! acknowledged it. Each message carries the number of the one before it in its session, so that of two hubs that write one
//! session the servers refuse the second. The store has a copy of everything, from which is read, searched and folded; it can
//! be made anew at any time.

mod message;
mod server;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod view;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use async_nats::jetstream::kv::CreateErrorKind;
use futures_util::future::join_all;
use serde_json::{Value, json};
use switchboard_store::{Channel, Record, Store};

use self::message::messages;
pub use self::server::{JetStreamOptions, LogError};
use self::server::{NotWritten, Server, in_words, locked};
use super::{Beginning, Begun, Later, LocalLog, SessionLog, SharedLog, blocking};
use crate::core::{Known, SessionId};

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
        view::catch_up(&self.server, store, progress).await
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
        view::catch_up(&self.server, store, progress).await
    }

    /// Deletes a session, at the servers and in the store.
    pub async fn delete(&self, store: &Store, session: &str) -> Result<(), LogError> {
        self.server.remove(session).await.map_err(|reason| {
            LogError::new(format!("{session} cannot be deleted: {reason}"), "try again later")
        })?;
        let (store, id) = (store.clone(), session.to_owned());
        let deleted = blocking(move || store.delete(&id).map_err(|error| error.to_string())).await;
        deleted.map_err(|reason| LogError::new(reason, "it goes with the next start"))
    }
}

/// Writes the logs into the stream, and what is safe there into the store.
struct JetStreamLog {
    server: Arc<Server>,
    local: Arc<Mutex<LocalLog>>,
    /// The sessions that this hub writes.
    writers: Arc<Mutex<HashMap<SessionId, Writer>>>,
    /// What is not safe yet.
    unwritten: BTreeMap<SessionId, Vec<Record>>,
    /// Tells messages of this launch from those of others.
    name: Arc<str>,
}

/// Where a session is continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Writer {
    /// The number of its next record.
    next: u64,
    /// The number of its last message in the stream; 0 where there is none.
    last: u64,
}

impl JetStreamLog {
    fn new(server: Arc<Server>, store: Store) -> Self {
        server.watch();
        JetStreamLog {
            local: Arc::new(Mutex::new(LocalLog::new(store))),
            writers: Arc::default(),
            unwritten: BTreeMap::new(),
            name: server.unique_name().into(),
            server,
        }
    }

    /// Something is wrong with a session: what is known of it is found out anew before it is written again.
    fn give_up(&mut self, session: &SessionId) {
        self.unwritten.remove(session);
        locked(&self.writers).remove(session);
        locked(&self.local).rest(session);
    }
}

impl SessionLog for JetStreamLog {
    fn begin(&self, beginning: Beginning) -> Later<'static, Result<Begun, String>> {
        let server = Arc::clone(&self.server);
        let local = Arc::clone(&self.local);
        Box::pin(async move {
            if let Some(problem) = server.problem() {
                return Err(problem);
            }
            let description = |began: i64| {
                let Beginning { agent, owner, folder } = &beginning;
                json!({"agent": agent, "owner": owner, "folder": folder, "began": began}).to_string()
            };
            for _ in 0..TRIES {
                let begun = locked(&local).begin(beginning.clone());
                let begun = begun.await?;
                let id = Arc::clone(&begun.known.id);
                let made = server.sessions.create(&*id, description(begun.known.changed).into()).await;
                let Err(error) = made else { return Ok(begun) };
                // It stays nowhere.
                locked(&local).begun(begun);
                let removed = locked(&local).remove(&id);
                removed.await;
                if error.kind() != CreateErrorKind::AlreadyExists {
                    return Err(format!("no session can be begun: {}", server.fault(&in_words(&error))));
                }
            }
            Err("no id is free for a session".to_owned())
        })
    }

    fn begun(&mut self, begun: Begun) -> Known {
        let known = locked(&self.local).begun(begun);
        locked(&self.writers).insert(Arc::clone(&known.id), Writer { next: 0, last: 0 });
        known
    }

    fn append(
        &mut self,
        session: &SessionId,
        sequence: u64,
        channel: Channel,
        text: &str,
    ) -> Result<(), String> {
        let writer = locked(&self.writers).get(session).copied();
        let unwritten = self.unwritten.get(session).map_or(0, |records| records.len() as u64);
        let refused = match writer {
            None => Some(self.server.problem().unwrap_or_else(|| "the log was not read yet".to_owned())),
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
        let (server, name) = (Arc::clone(&self.server), Arc::clone(&self.name));
        Box::pin(async move {
            let limit = server.limit();
            let written = unwritten.into_iter().map(|(session, records)| {
                let writer = locked(&self.writers).get(&session).copied();
                let (server, name) = (&server, &name);
                async move {
                    let Some(Writer { next, mut last }) = writer else {
                        return (session, records, Err("the log was not read yet".to_owned()));
                    };
                    for message in messages(next, &records, limit) {
                        match server.publish(&session, &message, name, last).await {
                            Ok(sequence) => last = sequence,
                            Err(NotWritten::Overtaken) => {
                                let reason = "another hub has gone on with it".to_owned();
                                return (session, records, Err(reason));
                            }
                            Err(NotWritten::Unknown(reason)) => return (session, records, Err(reason)),
                        }
                    }
                    let next = next + records.len() as u64;
                    (session, records, Ok(Writer { next, last }))
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
                    Ok(writer) => drop(locked(&self.writers).insert(session, writer)),
                    Err(reason) => {
                        self.give_up(&session);
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

    fn prepare(&mut self, session: &SessionId) -> Later<'static, Result<(), String>> {
        let (server, local) = (Arc::clone(&self.server), Arc::clone(&self.local));
        let (writers, session) = (Arc::clone(&self.writers), Arc::clone(session));
        let store = locked(&self.local).store().clone();
        Box::pin(async move {
            if locked(&writers).contains_key(&session) || server.problem().is_some() {
                return Ok(());
            }
            let last = match server.last(&session).await {
                Ok(last) => last,
                // What is in the store can be read; who wants to write is told.
                Err(reason) => {
                    server.fault(&reason);
                    return Ok(());
                }
            };
            let writer = match &last {
                None => Writer { next: 0, last: 0 },
                Some(message) => Writer {
                    next: message::end(&message.headers).ok_or_else(|| {
                        format!("message {} of the stream is not of a hub", message.sequence)
                    })?,
                    last: message.sequence,
                },
            };
            let look = || {
                let (store, session) = (store.clone(), Arc::clone(&session));
                blocking(move || view::length(&store, &session))
            };
            let mut length = look().await?;
            if length < writer.next {
                view::copy(&server, &store, &local, &session).await?;
                length = look().await?;
            }
            if length != writer.next {
                return Err(format!(
                    "the store has {length} records and the stream {}; stop the hub and run `switchboard hub rebuild`",
                    writer.next
                ));
            }
            locked(&writers).insert(session, writer);
            Ok(())
        })
    }

    fn rest(&mut self, session: &SessionId) {
        locked(&self.local).rest(session);
    }

    fn remove(&mut self, session: &SessionId) -> Later<'static, ()> {
        self.unwritten.remove(session);
        locked(&self.writers).remove(session);
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

    fn close(self: Box<Self>) -> Later<'static, ()> {
        Box::pin(async move {
            let closed = {
                let mut local = locked(&self.local);
                let empty = LocalLog::new(local.store().clone());
                std::mem::replace(&mut *local, empty)
            };
            Box::new(closed).close().await;
        })
    }
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
