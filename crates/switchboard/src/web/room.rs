//! One recording that somebody looks at: a live connection, or one in the store.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use switchboard_session::{Conversation, Moment};
use switchboard_store::{Item, Record, Store, StoreError};
use tokio::sync::watch;

use super::trace::{Trace, fold, sender};

/// How often a recording that others write is looked at.
const POLL: Duration = Duration::from_millis(250);

/// How many records are folded before others may look.
const BATCH: usize = 512;

pub(crate) struct Room {
    pub(crate) id: String,
    store: Store,
    trace: Mutex<Trace>,
    changed: watch::Sender<u64>,
    /// The agent's name, as far as the store knows it.
    pub(crate) agent: Option<String>,
    /// Why no more can be read, where that is so.
    failure: Mutex<Option<String>>,
}

impl Room {
    /// A recording that is being made here.
    pub(crate) fn live(id: &str, store: &Store) -> Arc<Self> {
        Arc::new(Room::new(id, store, 2, None))
    }

    fn new(id: &str, store: &Store, protocol: u16, agent: Option<String>) -> Self {
        Room {
            id: id.to_owned(),
            store: store.clone(),
            trace: Mutex::new(Trace::new(protocol)),
            changed: watch::Sender::new(0),
            agent,
            failure: Mutex::new(None),
        }
    }

    /// A recording of the store. It is read on a thread of its own, which also follows what others still write,
    /// until nobody looks any more.
    pub(crate) fn stored(id: &str, store: &Store) -> Result<Arc<Self>, StoreError> {
        let summary = store.session(id)?;
        let room = Arc::new(Room::new(&summary.id, store, summary.protocol, summary.about.agent.clone()));
        let (weak, store) = (Arc::downgrade(&room), store.clone());
        let spawned = std::thread::Builder::new().name("recording".to_owned()).spawn(move || {
            if let Err(error) = follow(&weak, &store, &summary.id)
                && let Some(room) = weak.upgrade()
            {
                room.fail(error.to_string());
            }
        });
        if let Err(error) = spawned {
            room.fail(format!("cannot start a thread: {error}"));
        }
        Ok(room)
    }

    pub(crate) fn trace(&self) -> MutexGuard<'_, Trace> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a record.
    pub(crate) fn push(&self, record: &Record) {
        self.trace().push(record);
        self.touch();
    }

    /// Tells everybody who looks that something is different.
    pub(crate) fn touch(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn fail(&self, reason: String) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        self.touch();
    }

    /// Why no more can be read, where that is so.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The texts of rows, in order. It may read the disk.
    pub(crate) fn texts(&self, rows: Range<usize>) -> Vec<(usize, Arc<str>)> {
        let recent: Vec<_> = {
            let trace = self.trace();
            rows.clone().filter_map(|row| trace.recent_text(row).map(|text| (row, text))).collect()
        };
        let kept_until = recent.first().map_or(rows.end, |(row, _)| *row);
        let mut texts = Vec::with_capacity(rows.len());
        if rows.start < kept_until
            && let Ok(records) = self.store.read(&self.id, rows.start as u64)
        {
            for record in records.map_while(Result::ok).filter_map(Item::into_record) {
                let row = record.sequence as usize;
                if row >= kept_until {
                    break;
                }
                texts.push((row, String::from_utf8_lossy(&record.bytes).into()));
            }
        }
        texts.extend(recent);
        texts
    }

    /// The sessions as they stood after so many rows. It may read the disk.
    pub(crate) fn sessions_at(&self, rows: usize) -> Conversation {
        let (start, conversation) = self.trace().before(rows);
        if self.trace().is_translated() {
            return self.translated_at(rows);
        }
        let mut conversation = conversation;
        for (row, text) in self.texts(start..rows) {
            let Some((channel, time)) = self.trace().rows().get(row).map(|row| (row.channel, row.time))
            else {
                continue;
            };
            if let Some((side, false)) = sender(channel) {
                // What is wrong with a message is told where the message is.
                drop(fold(&mut conversation, side, &text, Moment(time.unsigned_abs())));
            }
        }
        conversation
    }

    fn translated_at(&self, rows: usize) -> Conversation {
        let mut trace = Trace::new(1);
        if let Ok(records) = self.store.read(&self.id, 0) {
            let records = records.map_while(Result::ok).filter_map(Item::into_record);
            for record in records.take_while(|record| (record.sequence as usize) < rows) {
                trace.push(&record);
            }
        }
        trace.into_conversation()
    }
}

/// Reads a recording into a room, and goes on while there is somebody in it.
fn follow(room: &Weak<Room>, store: &Store, id: &str) -> Result<(), StoreError> {
    let mut next = 0;
    let mut batch = Vec::with_capacity(BATCH);
    let take = |batch: &mut Vec<Record>| -> bool {
        let Some(room) = room.upgrade() else { return false };
        let mut trace = room.trace();
        for record in batch.drain(..) {
            trace.push(&record);
        }
        drop(trace);
        room.touch();
        true
    };
    for item in store.read(id, 0)? {
        next = sequence_after(&item?, &mut batch);
        if batch.len() >= BATCH && !take(&mut batch) {
            return Ok(());
        }
    }
    if !take(&mut batch) {
        return Ok(());
    }
    let mut tail = store.follow(id, next)?;
    while room.strong_count() > 0 {
        if let Some(item) = tail.next(POLL)? {
            sequence_after(&item, &mut batch);
            if !take(&mut batch) {
                break;
            }
        }
    }
    Ok(())
}

/// Puts a record, or notes for a gap so that rows keep the numbers of their records, into the batch.
fn sequence_after(item: &Item, batch: &mut Vec<Record>) -> u64 {
    match item {
        Item::Record(record) => {
            batch.push(record.clone());
            record.sequence + 1
        }
        Item::Gap { from, to, reason } => {
            for sequence in *from..*to {
                let channel = switchboard_store::Channel::Diagnostic;
                let mut note = Record::new(channel, format!("this record cannot be read: {reason}"));
                note.sequence = sequence;
                batch.push(note);
            }
            *to
        }
    }
}
