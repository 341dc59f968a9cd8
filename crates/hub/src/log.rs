//! The logs of the sessions, in the store.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::thread::JoinHandle;

use switchboard_store::{About, Channel, Filter, Hosted, Item, Record, Recorder, Store, StoreError};

use crate::core::{Kept, Known, Memory, SessionId};

/// How many bytes are read for a client at once.
const PORTION: usize = 128 * 1024;
/// How many records are read for a client at once.
const RECORDS: usize = 1024;

/// Writes the logs. Reading is done beside it, by [`read`] and [`load`].
pub(crate) struct Log {
    store: Store,
    recorders: HashMap<SessionId, Recorder>,
    /// Those that have something that is not safe yet.
    unwritten: BTreeSet<SessionId>,
    /// Recorders that are being closed, which may take a moment.
    closing: HashMap<SessionId, JoinHandle<()>>,
}

impl Log {
    pub(crate) fn new(store: Store) -> Self {
        Log { store, recorders: HashMap::new(), unwritten: BTreeSet::new(), closing: HashMap::new() }
    }

    /// Takes the recorder of a session that has just been begun.
    pub(crate) fn begun(&mut self, recorder: Recorder) {
        self.recorders.insert(recorder.id().into(), recorder);
    }

    /// Takes a record; it is safe after [`commit`](Log::commit).
    pub(crate) fn append(
        &mut self,
        session: &SessionId,
        sequence: u64,
        channel: Channel,
        text: &str,
    ) -> Result<(), String> {
        let recorder = self.recorder(session).map_err(|error| error.to_string())?;
        let length = recorder.length();
        let put = if length == sequence {
            let record = Record::new(channel, text).with_protocol(2);
            recorder.put(record).map(drop).map_err(|error| error.to_string())
        } else {
            Err(format!("record {sequence} does not follow: the log has {length}"))
        };
        match &put {
            Ok(()) => drop(self.unwritten.insert(Arc::clone(session))),
            Err(_) => self.give_up(session),
        }
        put
    }

    /// A recorder that has failed stays so. What comes later gets another one, which may find room.
    fn give_up(&mut self, session: &SessionId) {
        self.unwritten.remove(session);
        self.recorders.remove(session);
    }

    fn recorder(&mut self, session: &SessionId) -> Result<&mut Recorder, StoreError> {
        if let Some(closing) = self.closing.remove(session) {
            // It has nothing to say that was not said.
            let _ = closing.join();
        }
        match self.recorders.entry(Arc::clone(session)) {
            std::collections::hash_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            std::collections::hash_map::Entry::Vacant(entry) => Ok(entry.insert(self.store.resume(session)?)),
        }
    }

    /// Whether it is this hub that writes the log of a session, or has just done so.
    pub(crate) fn is_ours(&self, session: &SessionId) -> bool {
        self.recorders.contains_key(session) || self.closing.contains_key(session)
    }

    /// Makes everything safe. Gives the sessions whose log cannot be written, and why.
    pub(crate) fn commit(&mut self) -> Vec<(SessionId, String)> {
        let mut failed = Vec::new();
        for session in std::mem::take(&mut self.unwritten) {
            if let Some(Err(error)) = self.recorders.get_mut(&session).map(Recorder::write) {
                self.give_up(&session);
                failed.push((session, error.to_string()));
            }
        }
        failed
    }

    /// Nothing will be written for now.
    pub(crate) fn rest(&mut self, session: &SessionId) {
        self.closing.retain(|_, closing| !closing.is_finished());
        if let Some(recorder) = self.recorders.remove(session) {
            self.unwritten.remove(session);
            let closing = std::thread::spawn(move || drop(recorder.close()));
            self.closing.insert(Arc::clone(session), closing);
        }
    }

    /// Removes a log.
    pub(crate) fn remove(&mut self, session: &SessionId) {
        self.rest(session);
        let closing = self.closing.remove(session);
        let (store, session) = (self.store.clone(), Arc::clone(session));
        std::thread::spawn(move || {
            if let Some(closing) = closing {
                let _ = closing.join();
            }
            // What cannot be deleted now is in the list of sessions, where the user can.
            let _ = store.delete(&session);
        });
    }

    /// Closes all logs.
    pub(crate) fn close(self) {
        let Log { store: _, recorders, unwritten: _, closing } = self;
        let more = recorders.into_values().map(|recorder| std::thread::spawn(move || drop(recorder.close())));
        for closing in more.collect::<Vec<_>>().into_iter().chain(closing.into_values()) {
            let _ = closing.join();
        }
    }
}

/// Begins the log of a session.
pub(crate) fn begin(
    store: &Store,
    agent: &str,
    owner: &str,
    folder: &str,
) -> Result<(Recorder, Known), String> {
    let about = About {
        agent: Some(agent.to_owned()),
        client: Some(owner.to_owned()),
        project: Some(folder.to_owned()),
        title: None,
    };
    let recorder = store.begin(&about).map_err(|error| error.to_string())?;
    let known = Known {
        id: recorder.id().into(),
        agent: agent.to_owned(),
        agent_session: String::new(),
        owner: owner.to_owned(),
        folder: folder.to_owned(),
        title: None,
        changed: switchboard_store::Time::now().0,
        length: 0,
    };
    save(store, &known, "").map_err(|error| error.to_string())?;
    Ok((recorder, known))
}

/// Writes down whose a session is.
pub(crate) fn save(store: &Store, known: &Known, agent_session: &str) -> Result<(), StoreError> {
    let Known { id, agent, agent_session: _, owner, folder, title: _, changed: _, length: _ } = known;
    store.host(&Hosted {
        id: id.to_string(),
        agent: agent.clone(),
        agent_session: agent_session.to_owned(),
        owner: owner.clone(),
        folder: folder.clone(),
        closed: false,
    })
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

/// Why nothing can be done in a session that another program has.
pub(crate) fn elsewhere(session: &str) -> String {
    format!("{session} is open in another program that uses this store; use it there, or end it there first")
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
            Item::Gap { to, .. } => length = to,
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
                if record.channel == Channel::ToClient
                    && let Ok(text) = String::from_utf8(record.bytes)
                {
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
