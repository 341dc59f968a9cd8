//! The copy of the stream in a hub's store: made once, continued with each start, and made anew where somebody wants that.
//! A file beside the store says of which stream it is a copy, and how far.

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
use crate::core::{Known, SessionId};
use crate::log::servers::LogError;
use crate::log::{blocking, save};

/// After how many messages what was copied is made safe.
const STEP: u64 = 1024;

/// How far a store is a copy of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// When the stream was made: another one may have its name.
    stream: String,
    /// The number of the last message that is in the store.
    pub(super) sequence: u64,
}

impl Place {
    fn file(store: &Store) -> PathBuf {
        let mut name = store.path().as_os_str().to_owned();
        name.push("-stream");
        name.into()
    }

    pub(super) fn read(store: &Store) -> Option<Self> {
        let text = std::fs::read(Place::file(store)).ok()?;
        let value: Value = serde_json::from_slice(&text).ok()?;
        Some(Place {
            stream: value.get("stream")?.as_str()?.to_owned(),
            sequence: value.get("sequence")?.as_u64()?,
        })
    }

    pub(super) fn write(&self, store: &Store) -> Result<(), LogError> {
        let Place { stream, sequence } = self;
        let file = Place::file(store);
        let text = json!({"stream": stream, "sequence": sequence}).to_string();
        // A part of it would be taken for none.
        let mut new = file.clone().into_os_string();
        new.push(".new");
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &file));
        written.map_err(|error| {
            LogError::new(
                format!("cannot write {}: {error}", file.display()),
                "see that there is room on the disk",
            )
        })
    }
}

/// Of which stream this is.
fn identity(server: &Server) -> String {
    server.stream.cached_info().created.to_string()
}

// These take what `map_err` hands over.
#[allow(clippy::needless_pass_by_value)]
fn unreadable(reason: String) -> LogError {
    LogError::new(format!("the stream cannot be read: {reason}"), "see what the NATS server says about it")
}

#[allow(clippy::needless_pass_by_value)]
fn of_store(reason: impl ToString) -> LogError {
    LogError::new(reason.to_string(), "`switchboard hub rebuild` makes the store's copy of the sessions anew")
}

/// Brings a store up to what the stream has.
pub(super) async fn catch_up(
    server: &Server,
    store: &Store,
    mut progress: impl FnMut(u64, u64) + Send,
) -> Result<(), LogError> {
    let stream = identity(server);
    let hosted: HashSet<String> =
        store.all_hosted().map_err(of_store)?.into_iter().map(|hosted| hosted.id).collect();
    let place = match Place::read(store) {
        Some(place) if place.stream == stream => place,
        Some(_) => {
            return Err(LogError::new(
                format!("{} is a copy of another stream", store.path().display()),
                "name another store with --store FILE, or make the copy anew with `switchboard hub rebuild`",
            ));
        }
        // Sessions that are nowhere else must not be taken for a copy, which may be thrown away.
        None if !hosted.is_empty() => {
            return Err(LogError::new(
                format!(
                    "{} has sessions of a hub of its own, and is no copy of the stream",
                    store.path().display()
                ),
                "name another store with --store FILE",
            ));
        }
        None => Place { stream, sequence: 0 },
    };
    place.write(store)?;
    let mut there: HashMap<SessionId, Known> = HashMap::new();
    server
        .descriptions(|id, text| {
            if let Some(known) = description(id, text) {
                there.insert(Arc::clone(&known.id), known);
            }
        })
        .await
        .map_err(unreadable)?;
    {
        let (store, there) = (store.clone(), there.clone());
        blocking(move || mirror_sessions(&store, &hosted, &there)).await.map_err(of_store)?;
    }
    let mut local = LocalLog::new(store.clone());
    let mut copies: HashMap<SessionId, Assembler> = HashMap::new();
    let (mut last, mut done) = (place.sequence, 0);
    let end = server.last_of_all().await.map_err(unreadable)?;
    let read = server.read(None, (place.sequence + 1, end), |message, pending| {
        done += 1;
        last = message.info().map_err(|error| error.to_string())?.stream_sequence;
        let session = session_of(&message.subject).and_then(|id| there.get_key_value(id));
        // One that was deleted meanwhile is gone.
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
    Place { sequence: last, ..place }.write(store)
}

/// Sees to it that the store has the sessions that there are, and no others.
fn mirror_sessions(
    store: &Store,
    hosted: &HashSet<String>,
    there: &HashMap<SessionId, Known>,
) -> Result<(), String> {
    for id in hosted.iter().filter(|id| !there.contains_key(id.as_str())) {
        store.delete(id).map_err(|error| error.to_string())?;
    }
    for (id, known) in there.iter().filter(|(id, _)| !hosted.contains(&***id)) {
        mirror(store, id, known)?;
    }
    Ok(())
}

/// Gives the store a session that it does not have.
pub(super) fn mirror(store: &Store, id: &SessionId, known: &Known) -> Result<(), String> {
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

/// Takes everything of the stream out of a store.
pub(super) async fn forget(server: &Server, store: &Store) -> Result<(), LogError> {
    if Place::read(store).is_none() && !store.all_hosted().map_err(of_store)?.is_empty() {
        return Err(LogError::new(
            format!("{} has sessions of a hub of its own, which would be lost", store.path().display()),
            "name the store of the hub with --store FILE",
        ));
    }
    Place { stream: identity(server), sequence: 0 }.write(store)?;
    let store = store.clone();
    let forgotten = blocking(move || {
        for hosted in store.all_hosted().map_err(|error| error.to_string())? {
            store.delete(&hosted.id).map_err(|error| error.to_string())?;
        }
        Ok(())
    });
    forgotten.await.map_err(|reason| LogError::new(reason, "end the hub that uses the store first"))
}

/// Copies what the store does not have of a session, up to a number in the stream. Gives its last record.
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

/// What was copied of a session.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// The last record that was read.
    pub(super) last: Option<Record>,
    /// The number of the first record that is not there.
    pub(super) end: u64,
}

/// The records that are complete with a message. What no hub has written is none, and the session is refused when somebody
/// wants to write it.
fn records(assembler: &mut Assembler, message: &Message) -> Vec<Record> {
    let no_headers = HeaderMap::new();
    let headers = message.headers.as_ref().unwrap_or(&no_headers);
    assembler.take(headers, &message.payload).unwrap_or_default()
}
