//! The logs of the sessions: the truth from which clients are told. [`SessionLog`] writes them, wherever they are kept.
//! Whoever keeps them, this hub's store has a copy at hand, from which everything is read: by [`read`], [`load`], and what
//! searches and folds sessions.

#[cfg(not(feature = "jetstream"))]
mod absent;
mod closer;
#[cfg(feature = "jetstream")]
mod jetstream;
mod local;
mod servers;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod suite;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use switchboard_store::{Channel, Filter, Hosted, Item, Moment, Record, Recorder, Store, StoreError};
use switchboard_transport::ProcessLease;
use tokio::sync::mpsc;

use crate::core::replay::{Replay, ReplayLine};
use crate::core::seeking::{Found, Sought};
use crate::core::{HubAbout, Kept, Known, Memory, SessionId, Starter};
use crate::service::Event;
#[cfg(not(feature = "jetstream"))]
pub use absent::JetStream;
#[cfg(feature = "jetstream")]
pub use jetstream::JetStream;
pub(crate) use local::LocalLog;
pub use servers::{JetStreamOptions, LogError};

/// Whether this build can keep its logs at NATS servers: the feature `jetstream`.
pub const HAS_JETSTREAM: bool = cfg!(feature = "jetstream");

/// How many bytes are read for a client at once.
const PORTION: usize = 128 * 1024;
/// How many records are read for a client at once.
const RECORDS: usize = 1024;

/// Something that takes its time.
pub(crate) type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Logs that are kept elsewhere than in the hub's own store.
pub struct SharedLog(pub(crate) Box<dyn SessionLog>);

impl std::fmt::Debug for SharedLog {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SharedLog").finish_non_exhaustive()
    }
}

/// Whose a new session is.
#[derive(Debug, Clone)]
pub(crate) struct Beginning {
    pub(crate) agent: String,
    pub(crate) owner: String,
    pub(crate) folder: String,
    /// The token that the session is shared with from its beginning.
    pub(crate) starter: Option<Starter>,
}

/// A log that has just been begun; [`SessionLog::begun`] takes it.
pub(crate) struct Begun {
    pub(crate) known: Known,
    recorder: Recorder,
}

/// Who writes a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// This hub, from now on.
    Here,
    /// The hub of this name.
    There(Arc<str>),
}

/// What other hubs of a shared log do.
#[derive(Debug)]
pub(crate) enum News {
    /// One has written to a session, or is about to.
    Records { session: SessionId, hub: Arc<str>, records: Vec<Record> },
    /// One has begun a session.
    Began(Known),
    /// One passes something on, under a name of its own; the answer goes to a place.
    Asked { key: String, inbox: String, message: String },
}

/// Writes the logs of sessions, and sees to it that the store has what is in them.
///
/// Whoever implements it promises: a record is safe, and in the store, when [`commit`](SessionLog::commit) does not name its
/// session; the numbers of a session's records have no gaps; of two who write one session, one is refused.
pub(crate) trait SessionLog: Send {
    /// Begins the log of a session.
    fn begin(&self, beginning: Beginning) -> Later<'static, Result<Begun, String>>;

    /// Takes a log that was begun, to write it.
    fn begun(&mut self, begun: Begun) -> Known;

    /// Takes a record, which is to be the one of this number; it is safe after [`commit`](SessionLog::commit).
    fn append(
        &mut self,
        session: &SessionId,
        sequence: u64,
        channel: Channel,
        text: &str,
    ) -> Result<(), String>;

    /// Makes everything safe. Gives the sessions whose log cannot be written, and why.
    fn commit(&mut self) -> Later<'_, Vec<(SessionId, String)>>;

    /// Prepares a session that this hub is about to write, unless another one does: what is in its log is in the store
    /// afterwards. It is an error if somebody else is at work on it who is no hub of this log.
    fn prepare(&mut self, session: &SessionId) -> Later<'static, Result<Prepared, String>>;

    /// Nothing will be written for now.
    fn rest(&mut self, session: &SessionId);

    /// Removes a log.
    fn remove(&mut self, session: &SessionId) -> Later<'static, ()>;

    /// Why nothing can be written at the moment.
    fn problem(&self) -> Option<String> {
        None
    }

    /// The name of this hub, where others can share the log.
    fn name(&self) -> Option<Arc<str>> {
        None
    }

    /// The time for which agents may run without another hub being able to start them as well, where there can be others.
    fn process_lease(&self) -> Option<ProcessLease> {
        None
    }

    /// Tells from now on what other hubs do, and tells them about this one.
    fn follow(&mut self, about: HubAbout, events: mpsc::Sender<Event>) {
        drop((about, events));
    }

    /// The other hubs that are there.
    fn hubs(&self) -> Vec<(Arc<str>, HubAbout)> {
        Vec::new()
    }

    /// The sessions that this hub does not write any more though it did not let go of them, and why.
    fn lost(&mut self) -> Vec<(SessionId, String)> {
        Vec::new()
    }

    /// This hub writes a session no more, and others may.
    fn release(&mut self, session: &SessionId) -> Later<'static, ()> {
        self.rest(session);
        Box::pin(std::future::ready(()))
    }

    /// Passes something on to another hub, and gives what that answers, if it does in time.
    fn pass_on(&self, hub: &str, ticket: u64, message: &str) -> Later<'static, Option<String>> {
        let _ = (hub, ticket, message);
        Box::pin(std::future::ready(None))
    }

    /// Answers another hub.
    fn answer(&self, inbox: String, text: String) -> Later<'static, ()> {
        drop((inbox, text));
        Box::pin(std::future::ready(()))
    }

    /// Closes all logs.
    fn close(self: Box<Self>) -> Later<'static, ()>;
}

/// Does something that waits for the disk.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err("the hub has ended".to_owned()))
}

/// Writes down whose a session is.
pub(crate) fn save(store: &Store, known: &Known, agent_session: &str) -> Result<(), StoreError> {
    store.host(&hosted(known, agent_session))
}

/// Writes down whose a new session is, and shares it with the token that started it.
fn save_started(store: &Store, known: &Known, starter: Option<&Starter>) -> Result<(), StoreError> {
    let starter = starter.map(|(name, made)| (&**name, Moment(*made)));
    store.host_started(&hosted(known, ""), starter)
}

fn hosted(known: &Known, agent_session: &str) -> Hosted {
    let Known { id, agent, agent_session: _, owner, folder, title: _, changed: _, length: _ } = known;
    Hosted {
        id: id.to_string(),
        agent: agent.clone(),
        agent_session: agent_session.to_owned(),
        owner: owner.clone(),
        folder: folder.clone(),
        closed: false,
    }
}

/// The sessions of earlier times.
pub(crate) fn known(store: &Store) -> Result<Vec<Known>, StoreError> {
    let hosted: HashMap<String, Hosted> =
        store.all_hosted()?.into_iter().map(|hosted| (hosted.id.clone(), hosted)).collect();
    let summaries = store.sessions(&Filter::default())?;
    let known = summaries.into_iter().filter_map(|summary| {
        let hosted = hosted.get(&summary.id)?;
        Some(Known {
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

/// What the log of a session amounts to, and how long it is.
pub(crate) fn load(store: &Store, session: &str) -> Result<(Memory, u64), String> {
    let mut memory = Memory::default();
    let mut length = 0;
    for item in store.read(session, 0).map_err(|error| error.to_string())? {
        match item.map_err(|error| error.to_string())? {
            Item::Record(record) => {
                length = record.sequence + 1;
                if let Ok(text) = std::str::from_utf8(&record.bytes) {
                    let _ = memory.see(record.sequence, record.channel, text);
                }
            }
            Item::Gap { from, to, reason } => {
                length = to;
                memory.note_gap(from, to, &reason);
            }
        }
    }
    Ok((memory, length))
}

/// A part of a log up to its end, and the place behind it.
pub(crate) fn read(store: &Store, session: &str, from: u64, end: u64) -> Result<(Vec<Kept>, u64), String> {
    let mut part = Vec::new();
    let (mut to, mut bytes) = (from, 0);
    for item in store.read_part(session, from..end).map_err(|error| error.to_string())? {
        match item.map_err(|error| error.to_string())? {
            Item::Record(record) => {
                to = record.sequence + 1;
                bytes += record.bytes.len();
                let has_message = record.channel.message().is_some() || record.channel == Channel::Hub;
                if has_message && let Ok(text) = String::from_utf8(record.bytes) {
                    part.push(Kept { sequence: record.sequence, channel: record.channel, text: text.into() });
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

/// The next portion of the history of a session.
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

/// The place of the last record of a log that belongs to a message. Of the log, one record is in memory at a time.
pub(crate) fn seek(store: &Store, session: &str, message: &Sought, end: u64) -> Result<Option<u64>, String> {
    let mut found = Found::default();
    for item in store.read_part(session, 0..end).map_err(|error| error.to_string())? {
        if let Item::Record(record) = item.map_err(|error| error.to_string())?
            && let Ok(text) = std::str::from_utf8(&record.bytes)
        {
            message.look(&mut found, record.sequence, record.channel, text);
        }
    }
    Ok(found.place())
}
