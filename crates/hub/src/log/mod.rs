//! Logs of sessions: the source of truth for everything that clients get. [`SessionLog`] writes them. Wherever a log is
//! kept, the store of this hub has a copy, from which everything is read: by [`read`], [`load`], replay and search.

mod closer;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod contract;
#[cfg(feature = "jetstream")]
mod jetstream;
#[cfg(not(feature = "jetstream"))]
mod jetstream_disabled;
mod jetstream_options;
mod local;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use switchboard_store::{Channel, Filter, Hosted, Item, Moment, Record, Recorder, Store, StoreError};
use switchboard_transport::ProcessLease;
use tokio::sync::mpsc;

use crate::core::message_lookup::{MessageMatch, MessageQuery};
use crate::core::replay::{Replay, ReplayLine};
use crate::core::{HubInfo, LogRecord, SessionId, SessionInfo, SessionState, Starter};
use crate::service::Event;
#[cfg(feature = "jetstream")]
pub use jetstream::JetStream;
#[cfg(not(feature = "jetstream"))]
pub use jetstream_disabled::JetStream;
pub use jetstream_options::{JetStreamOptions, LogError};
pub(crate) use local::LocalLog;

/// True if this build can keep its logs on NATS servers: the feature `jetstream`.
pub const HAS_JETSTREAM: bool = cfg!(feature = "jetstream");

/// Maximum number of bytes that are read for a client at once.
const PORTION: usize = 128 * 1024;
/// Maximum number of records that are read for a client at once.
const RECORDS: usize = 1024;

/// A boxed future.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A log outside the hub's own store, shared by several hubs.
pub struct SharedLog(pub(crate) Box<dyn SessionLog>);

impl std::fmt::Debug for SharedLog {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SharedLog").finish_non_exhaustive()
    }
}

/// Metadata of a session to be created.
#[derive(Debug, Clone)]
pub(crate) struct NewSession {
    pub(crate) agent: String,
    pub(crate) owner: String,
    pub(crate) folder: String,
    /// The token that the session is shared with from the start.
    pub(crate) starter: Option<Starter>,
}

/// A log that was just created; [`SessionLog::open_created`] takes it.
pub(crate) struct CreatedLog {
    pub(crate) known: SessionInfo,
    recorder: Recorder,
}

/// Result of preparing a session for writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// This hub is the owner from now on.
    Owned,
    /// The hub with this name is the owner.
    #[cfg_attr(not(feature = "jetstream"), expect(dead_code, reason = "only a shared log has other hubs"))]
    OwnedBy(Arc<str>),
}

/// An event of another hub of the cluster.
#[derive(Debug)]
#[cfg_attr(not(feature = "jetstream"), expect(dead_code, reason = "only a shared log has other hubs"))]
pub(crate) enum ClusterEvent {
    /// A hub has appended records, or is about to.
    Records { session: SessionId, hub: Arc<str>, records: Vec<Record> },
    /// A hub has created a session.
    SessionCreated(SessionInfo),
    /// A hub has forwarded a request. `key` is its idempotency key; the reply goes to `inbox`.
    Request { key: String, inbox: String, message: String },
}

/// Writer of session logs, which also keeps the copy in the store.
///
/// Guarantees of an implementation: a record is durable, and in the store, if [`commit`](SessionLog::commit) does not
/// return its session; the sequence numbers of a session have no gaps; of two writers of one session, one is refused.
pub(crate) trait SessionLog: Send {
    /// Creates the log of a session.
    fn create(&self, new: NewSession) -> BoxFuture<'static, Result<CreatedLog, String>>;

    /// Takes over a log that was created, to write it.
    fn open_created(&mut self, begun: CreatedLog) -> SessionInfo;

    /// Adds a record with this sequence number; it is durable after [`commit`](SessionLog::commit).
    fn append(
        &mut self,
        session: &SessionId,
        sequence: u64,
        channel: Channel,
        text: &str,
    ) -> Result<(), String>;

    /// Makes all records durable. Returns the sessions whose log cannot be written, with the reasons.
    fn commit(&mut self) -> BoxFuture<'_, Vec<(SessionId, String)>>;

    /// Prepares a session for writing: makes this hub the owner, unless another one is, and updates the copy in the
    /// store. Fails if a process that is not a hub of this log is writing it.
    fn prepare(&mut self, session: &SessionId) -> BoxFuture<'static, Result<Prepared, String>>;

    /// Closes the log of a session until the next append.
    fn close_session(&mut self, session: &SessionId);

    /// Removes a log.
    fn remove(&mut self, session: &SessionId) -> BoxFuture<'static, ()>;

    /// Returns the reason why nothing can be written at the moment.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Returns the name of this hub, if the log can be shared.
    fn name(&self) -> Option<Arc<str>> {
        None
    }

    /// Returns the lease for agent processes, if the log can be shared. Processes end before another hub can start
    /// them.
    fn process_lease(&self) -> Option<ProcessLease> {
        None
    }

    /// Starts to report events of other hubs, and announces this hub to them.
    fn follow(&mut self, info: HubInfo, events: mpsc::Sender<Event>) {
        drop((info, events));
    }

    /// Returns the other hubs that are alive.
    fn hubs(&self) -> Vec<(Arc<str>, HubInfo)> {
        Vec::new()
    }

    /// Returns the sessions whose ownership this hub has lost without releasing it, with the reasons.
    fn take_lost(&mut self) -> Vec<(SessionId, String)> {
        Vec::new()
    }

    /// Releases the ownership of a session.
    fn release(&mut self, session: &SessionId) -> BoxFuture<'static, ()> {
        self.close_session(session);
        Box::pin(std::future::ready(()))
    }

    /// Forwards a request to another hub. Returns its reply, or `None` after a timeout.
    fn forward(&self, hub: &str, ticket: u64, message: &str) -> BoxFuture<'static, Option<String>> {
        let _ = (hub, ticket, message);
        Box::pin(std::future::ready(None))
    }

    /// Replies to another hub.
    fn answer(&self, inbox: String, text: String) -> BoxFuture<'static, ()> {
        drop((inbox, text));
        Box::pin(std::future::ready(()))
    }

    /// Closes all logs.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Runs blocking work on a separate thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err("the hub has ended".to_owned()))
}

/// Saves the metadata of a session.
pub(crate) fn save(store: &Store, known: &SessionInfo, agent_session: &str) -> Result<(), StoreError> {
    store.host(&hosted(known, agent_session))
}

/// Saves the metadata of a new session, and shares it with the token that started it.
fn save_started(store: &Store, known: &SessionInfo, starter: Option<&Starter>) -> Result<(), StoreError> {
    let starter = starter.map(|(name, made)| (&**name, Moment(*made)));
    store.host_started(&hosted(known, ""), starter)
}

fn hosted(known: &SessionInfo, agent_session: &str) -> Hosted {
    let SessionInfo { id, agent, agent_session: _, owner, folder, title: _, changed: _, length: _ } = known;
    Hosted {
        id: id.to_string(),
        agent: agent.clone(),
        agent_session: agent_session.to_owned(),
        owner: owner.clone(),
        folder: folder.clone(),
        closed: false,
    }
}

/// Returns the sessions of the store.
pub(crate) fn stored_sessions(store: &Store) -> Result<Vec<SessionInfo>, StoreError> {
    let hosted: HashMap<String, Hosted> =
        store.all_hosted()?.into_iter().map(|hosted| (hosted.id.clone(), hosted)).collect();
    let summaries = store.sessions(&Filter::default())?;
    let known = summaries.into_iter().filter_map(|summary| {
        let hosted = hosted.get(&summary.id)?;
        Some(SessionInfo {
            id: summary.id.into(),
            agent: hosted.agent.clone(),
            agent_session: hosted.agent_session.clone(),
            owner: hosted.owner.clone(),
            folder: hosted.folder.clone(),
            title: summary.about.title,
            changed: summary.changed.0,
            length: summary.length,
        })
    });
    Ok(known.collect())
}

/// Loads a whole log. Returns the folded state and the length.
pub(crate) fn load(store: &Store, session: &str) -> Result<(SessionState, u64), String> {
    let mut state = SessionState::default();
    let mut length = 0;
    for item in store.read(session, 0).map_err(|error| error.to_string())? {
        match item.map_err(|error| error.to_string())? {
            Item::Record(record) => {
                length = record.sequence + 1;
                if let Ok(text) = std::str::from_utf8(&record.bytes) {
                    let _ = state.apply(record.sequence, record.channel, text);
                }
            }
            Item::Gap { from, to, reason } => {
                length = to;
                state.record_gap(from, to, &reason);
            }
        }
    }
    Ok((state, length))
}

/// Reads a part of a log, up to `end`. Returns the records and the offset after them.
pub(crate) fn read(
    store: &Store,
    session: &str,
    from: u64,
    end: u64,
) -> Result<(Vec<LogRecord>, u64), String> {
    let mut part = Vec::new();
    let (mut to, mut bytes) = (from, 0);
    for item in store.read_part(session, from..end).map_err(|error| error.to_string())? {
        match item.map_err(|error| error.to_string())? {
            Item::Record(record) => {
                to = record.sequence + 1;
                bytes += record.bytes.len();
                let has_message = record.channel.message().is_some() || record.channel == Channel::Hub;
                if has_message && let Ok(text) = String::from_utf8(record.bytes) {
                    part.push(LogRecord {
                        sequence: record.sequence,
                        channel: record.channel,
                        text: text.into(),
                    });
                }
            }
            Item::Gap { to: end, .. } => to = end,
        }
        if bytes >= PORTION || part.len() >= RECORDS {
            break;
        }
    }
    Ok((part, to))
}

/// Produces the next portion of a replay.
pub(crate) fn replay(store: &Store, session: &str, replay: &mut Replay) -> Result<Vec<ReplayLine>, String> {
    replay.next(&mut |range, take| {
        let mut to = range.start;
        for item in store.read_part(session, range).map_err(|error| error.to_string())? {
            match item.map_err(|error| error.to_string())? {
                Item::Record(record) => {
                    to = record.sequence + 1;
                    if let Ok(text) = std::str::from_utf8(&record.bytes) {
                        take(record.sequence, record.channel, text);
                    }
                }
                Item::Gap { to: end, .. } => to = end,
            }
        }
        Ok(to)
    })
}

/// Returns the offset of the last record of a message. Holds one record in memory at a time.
pub(crate) fn find_message(
    store: &Store,
    session: &str,
    message: &MessageQuery,
    end: u64,
) -> Result<Option<u64>, String> {
    let mut found = MessageMatch::default();
    for item in store.read_part(session, 0..end).map_err(|error| error.to_string())? {
        if let Item::Record(record) = item.map_err(|error| error.to_string())?
            && let Ok(text) = std::str::from_utf8(&record.bytes)
        {
            message.look(&mut found, record.sequence, record.channel, text);
        }
    }
    Ok(found.offset())
}
