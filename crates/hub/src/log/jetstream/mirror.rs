//! Copy of the stream in a hub's store: created once, updated at each start, and rebuilt on request. A file beside the
//! store contains the identity of the stream and the position of the copy.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_nats::HeaderMap;
use async_nats::jetstream::Message;
use serde_json::{Value, json};
use switchboard_store::{About, Moment, Record, Store};

use super::message::Assembler;
use super::server::{Server, locked, session_of};
use super::{LocalLog, description};
use crate::core::{SessionId, SessionInfo};
use crate::log::jetstream_options::LogError;
use crate::log::{blocking, save};

/// Number of messages after which the copy is made durable.
const STEP: u64 = 1024;

/// Position of the copy in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MirrorPosition {
    /// Creation time of the stream, because another one may have the same name.
    stream: String,
    /// Sequence of the last message in the store.
    pub(super) sequence: u64,
}

impl MirrorPosition {
    fn file(store: &Store) -> PathBuf {
        let mut name = store.path().as_os_str().to_owned();
        name.push("-stream");
        name.into()
    }

    pub(super) fn read(store: &Store) -> Option<Self> {
        let text = std::fs::read(MirrorPosition::file(store)).ok()?;
        let value: Value = serde_json::from_slice(&text).ok()?;
        Some(MirrorPosition {
            stream: value.get("stream")?.as_str()?.to_owned(),
            sequence: value.get("sequence")?.as_u64()?,
        })
    }

    pub(super) fn write(&self, store: &Store) -> Result<(), LogError> {
        let MirrorPosition { stream, sequence } = self;
        let file = MirrorPosition::file(store);
        let text = json!({"stream": stream, "sequence": sequence}).to_string();
        // Written to a temporary file first: a partial file would be taken for a missing one.
        let mut new = file.clone().into_os_string();
        new.push(".new");
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &file));
        written.map_err(|error| {
            LogError::new(
                format!("cannot write {}: {error}", file.display()),
                "check the free space on the disk",
            )
        })
    }
}

/// Returns the identity of the stream.
fn identity(server: &Server) -> String {
    server.stream.cached_info().created.to_string()
}

// By value, as `map_err` passes them.
#[allow(clippy::needless_pass_by_value)]
fn unreadable(reason: String) -> LogError {
    LogError::new(format!("cannot read the stream: {reason}"), "check the log of the NATS server")
}

#[allow(clippy::needless_pass_by_value)]
fn of_store(reason: impl ToString) -> LogError {
    LogError::new(
        reason.to_string(),
        "run `switchboard hub rebuild` to create the store's copy of the sessions again",
    )
}

/// Updates a store from the stream.
pub(super) async fn catch_up(
    server: &Server,
    store: &Store,
    mut progress: impl FnMut(u64, u64) + Send,
) -> Result<(), LogError> {
    let stream = identity(server);
    let hosted: HashSet<String> =
        store.all_hosted().map_err(of_store)?.into_iter().map(|hosted| hosted.id).collect();
    let position = match MirrorPosition::read(store) {
        Some(position) if position.stream == stream => position,
        Some(_) => {
            return Err(LogError::new(
                format!("the store {} is a copy of another stream", store.path().display()),
                "use another store with --store FILE, or run `switchboard hub rebuild`",
            ));
        }
        // A store with sessions that exist nowhere else must not be treated as a copy, which may be discarded.
        None if !hosted.is_empty() => {
            return Err(LogError::new(
                format!(
                    "the store {} has sessions of its own and is not a copy of the stream",
                    store.path().display()
                ),
                "use another store with --store FILE",
            ));
        }
        None => MirrorPosition { stream, sequence: 0 },
    };
    position.write(store)?;
    let mut sessions: HashMap<SessionId, SessionInfo> = HashMap::new();
    server
        .descriptions(|id, text| {
            if let Some(known) = description(id, text) {
                sessions.insert(Arc::clone(&known.id), known);
            }
        })
        .await
        .map_err(unreadable)?;
    {
        let (store, sessions) = (store.clone(), sessions.clone());
        blocking(move || mirror_sessions(&store, &hosted, &sessions)).await.map_err(of_store)?;
    }
    let mut local = LocalLog::new(store.clone());
    let mut copies: HashMap<SessionId, Assembler> = HashMap::new();
    let (mut last, mut done) = (position.sequence, 0);
    let end = server.last_sequence().await.map_err(unreadable)?;
    let read = server.read(None, (position.sequence + 1, end), |message, pending| {
        done += 1;
        last = message.info().map_err(|error| error.to_string())?.stream_sequence;
        let session = session_of(&message.subject).and_then(|id| sessions.get_key_value(id));
        // It was deleted meanwhile.
        if let Some((session, _)) = session {
            let assembler = copies.entry(Arc::clone(session)).or_default();
            local.take(session, &records(assembler, &message))?;
        }
        if done % STEP == 0 || pending == 0 {
            local.complete()?;
            progress(done, done + pending);
        }
        Ok(())
    });
    read.await.map_err(unreadable)?;
    local.complete().map_err(of_store)?;
    MirrorPosition { sequence: last, ..position }.write(store)
}

/// Makes the sessions of the store those of the stream.
fn mirror_sessions(
    store: &Store,
    hosted: &HashSet<String>,
    sessions: &HashMap<SessionId, SessionInfo>,
) -> Result<(), String> {
    for id in hosted.iter().filter(|id| !sessions.contains_key(id.as_str())) {
        store.delete(id).map_err(|error| error.to_string())?;
    }
    for (id, known) in sessions.iter().filter(|(id, _)| !hosted.contains(&***id)) {
        add_session(store, id, known)?;
    }
    Ok(())
}

/// Adds a session to the store.
pub(super) fn add_session(store: &Store, id: &SessionId, known: &SessionInfo) -> Result<(), String> {
    let about = About {
        agent: Some(known.agent.clone()),
        client: Some(known.owner.clone()),
        project: Some(known.folder.clone()),
        title: None,
    };
    let begun = store.begin_as(id, &about, Moment(known.changed));
    begun.and_then(switchboard_store::Recorder::close).map_err(|error| error.to_string())?;
    save(store, known, "").map_err(|error| error.to_string())
}

/// Removes all sessions of the stream from a store.
pub(super) async fn clear(server: &Server, store: &Store) -> Result<(), LogError> {
    if MirrorPosition::read(store).is_none() && !store.all_hosted().map_err(of_store)?.is_empty() {
        return Err(LogError::new(
            format!("the store {} has sessions of its own, which would be lost", store.path().display()),
            "pass the store of the hub with --store FILE",
        ));
    }
    MirrorPosition { stream: identity(server), sequence: 0 }.write(store)?;
    let store = store.clone();
    let forgotten = blocking(move || {
        for hosted in store.all_hosted().map_err(|error| error.to_string())? {
            store.delete(&hosted.id).map_err(|error| error.to_string())?;
        }
        Ok(())
    });
    forgotten.await.map_err(|reason| LogError::new(reason, "stop the hub that uses the store first"))
}

/// Copies the missing records of a session, up to a stream sequence. Returns the last record.
pub(super) async fn copy(
    server: &Server,
    local: &Arc<Mutex<LocalLog>>,
    session: &SessionId,
    end: u64,
) -> Result<Copied, String> {
    let (mut assembler, mut copied) = (Assembler::default(), Copied::default());
    let read = server.read(Some(session), (1, end), |message, _| {
        let mut records = records(&mut assembler, &message);
        locked(local).take(session, &records)?;
        if let Some(last) = records.pop() {
            copied.end = copied.end.max(last.sequence + 1);
            copied.last = Some(last);
        }
        Ok(())
    });
    read.await?;
    match locked(local).write().pop() {
        Some((_, reason)) => Err(reason),
        None => Ok(copied),
    }
}

/// Result of copying a session.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// The last record that was read.
    pub(super) last: Option<Record>,
    /// Number of the first record that does not exist.
    pub(super) end: u64,
}

/// Returns the records that a message completes. A message that was not written by a hub has none, and writing the
/// session is refused later.
fn records(assembler: &mut Assembler, message: &Message) -> Vec<Record> {
    let no_headers = HeaderMap::new();
    let headers = message.headers.as_ref().unwrap_or(&no_headers);
    assembler.take(headers, &message.payload).unwrap_or_default()
}
