//! A recording that a tab has open. It is read from the store and followed while it grows.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use switchboard_acp::rpc::messages;
use switchboard_acp::{Raw, WireFormat};
use switchboard_session::{Conversation, Session, Snapshot};
use switchboard_store::{About, Channel, Item, Moment, Record, Store, StoreError, Summary, apply_hub_note};
use tokio::sync::watch;

use super::message_log::MessageLog;
use super::subagents;

/// Polling interval for new records.
const POLL: Duration = Duration::from_millis(250);

/// Maximum number of records that are folded while holding the lock.
const BATCH: usize = 512;

/// Number of records that are read from the store at once for an earlier state. Equals the interval of checkpoints.
const PIECE: usize = 2048;

/// Maximum number of missing records in a gap. A larger gap means that the store is damaged.
const MAX_GAP: u64 = 1_000_000;

/// Minimum number of records for which the end of a recording is shown as a preview before all of it is read.
const LONG: u64 = 20_000;

/// Number of entries in a preview.
const PREVIEW: usize = 100;

pub(crate) struct LiveRecording {
    pub(crate) id: String,
    store: Store,
    log: Mutex<MessageLog>,
    /// Preview of the end, while a long recording is being read.
    preview: Mutex<Option<Conversation>>,
    changed: watch::Sender<u64>,
    /// Metadata of the recording in the store.
    pub(crate) about: About,
    /// Reason why reading stopped, if it failed.
    failure: Mutex<Option<String>>,
    /// Number of unreadable records, and the reason for the first of them.
    gaps: Mutex<Option<(u64, String)>>,
    /// The session that this one is a copy of, once the beginning is read.
    origin: OnceLock<Option<Origin>>,
}

/// The session that another one is a copy of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The hub's id of the original.
    pub(crate) session: String,
    /// Time of the copy, in Unix milliseconds.
    pub(crate) at: i64,
}

/// Number of records at the beginning of a log among which the request for a copy is searched.
const BEGINNING: usize = 32;

impl LiveRecording {
    /// Returns an empty recording, for a connection without a session.
    pub(crate) fn empty(store: &Store) -> Arc<Self> {
        Arc::new(LiveRecording::new("", store, MessageLog::new(2), About::default()))
    }

    /// Returns the folder of the recording's sessions, or an empty string.
    pub(crate) fn folder(&self) -> &str {
        self.about.project.as_deref().unwrap_or_default()
    }

    /// Returns a snapshot of a session.
    pub(crate) fn session(&self, id: &str) -> Option<Snapshot> {
        self.look(|conversation| subagents::session(conversation, id).map(Session::snapshot))
    }

    /// Calls a function with all sessions, holding the lock.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Conversation) -> T) -> T {
        look(self.log().conversation())
    }

    /// Returns the ids of the sessions in order of appearance.
    pub(crate) fn session_ids(&self) -> Vec<String> {
        self.look(|it| it.sessions().filter_map(|(id, _)| id).map(str::to_owned).collect())
    }

    /// Returns a recording in a protocol version whose records are pushed by the caller.
    #[cfg(test)]
    pub(crate) fn folding(id: &str, store: &Store, protocol: u16) -> Arc<Self> {
        Arc::new(LiveRecording::new(id, store, MessageLog::new(protocol), About::default()))
    }

    fn new(id: &str, store: &Store, log: MessageLog, about: About) -> Self {
        LiveRecording {
            id: id.to_owned(),
            store: store.clone(),
            log: Mutex::new(log),
            preview: Mutex::new(None),
            changed: watch::Sender::new(0),
            about,
            failure: Mutex::new(None),
            gaps: Mutex::new(None),
            origin: OnceLock::new(),
        }
    }

    /// Opens a recording of the store. A thread reads it and follows new records until the last reference is dropped.
    pub(crate) fn stored(id: &str, store: &Store) -> Result<Arc<Self>, StoreError> {
        let summary = store.session(id)?;
        let room = Arc::new(LiveRecording::new(
            &summary.id,
            store,
            MessageLog::new(summary.protocol),
            summary.about.clone(),
        ));
        let (weak, store) = (Arc::downgrade(&room), store.clone());
        let spawned = std::thread::Builder::new().name("recording".to_owned()).spawn(move || {
            if let Err(error) = follow(&weak, &store, &summary)
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

    /// Reads a recording up to a time, without following it.
    pub(crate) fn until(id: &str, store: &Store, at: i64) -> Result<Self, StoreError> {
        let summary = store.session(id)?;
        let mut log = MessageLog::new(summary.protocol);
        for item in store.read(&summary.id, 0)? {
            let Item::Record(record) = item? else { continue };
            if record.time.0 > at {
                break;
            }
            log.push(&record);
        }
        Ok(LiveRecording::new(&summary.id, store, log, summary.about))
    }

    /// Returns the session that this one is a copy of: the hub begins the log of a copy with the request for it.
    pub(crate) fn origin(&self) -> Option<Origin> {
        if let Some(origin) = self.origin.get() {
            return origin.clone();
        }
        let (length, row) = {
            let log = self.log();
            let rows = log.rows();
            let is_fork = |row: usize| log.names().word(rows[row].method) == "session/fork";
            let found = (0..rows.len().min(BEGINNING)).find(|row| is_fork(*row));
            (rows.len(), found.map(|row| (row, rows[row].time)))
        };
        let origin = row.and_then(|(row, at)| {
            let (_, text) = self.texts(row..row + 1).into_iter().next()?;
            let request = Raw::parse(&*text).ok()?;
            let params = request.get("params")?;
            let session = params.get("sessionId")?;
            Some(Origin { session: serde_json::from_str(session.as_str()).ok()?, at })
        });
        if origin.is_some() || length >= BEGINNING {
            // Another thread may have found the same.
            let _ = self.origin.set(origin.clone());
        }
        origin
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, MessageLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the preview of the end, while a long recording is being read. Its positions are not those of the
    /// whole.
    pub(crate) fn preview(&self) -> MutexGuard<'_, Option<Conversation>> {
        self.preview.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a record.
    #[cfg(test)]
    pub(crate) fn push(&self, record: &Record) {
        self.log().push(record);
        self.touch();
    }

    /// Notifies all views of a change.
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

    /// Counts records that cannot be read, and keeps the first reason.
    fn note_gap(&self, from: u64, to: u64, reason: &str) {
        let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, _) = gaps.get_or_insert_with(|| (0, reason.to_owned()));
        *count += to.saturating_sub(from);
        drop(gaps);
        self.touch();
    }

    /// Returns the number of unreadable records, and the reason for the first of them.
    pub(crate) fn gaps(&self) -> Option<(u64, String)> {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the reason why reading stopped, if it failed.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the texts of the rows in a range, in order. Missing rows are left out. May read from disk.
    pub(crate) fn texts(&self, rows: Range<usize>) -> Vec<(usize, Arc<str>)> {
        let length = self.log().rows().len();
        let rows = rows.start.min(length)..rows.end.min(length);
        let recent: Vec<_> = {
            let log = self.log();
            rows.clone().filter_map(|row| log.recent_text(row).map(|text| (row, text))).collect()
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

    /// Returns the sessions in their state after a number of rows. May read from disk.
    pub(crate) fn sessions_at(&self, rows: usize) -> Conversation {
        if self.log().is_translated() {
            return self.translated_at(rows);
        }
        let known = self.log().before(rows);
        let (start, mut conversation) = known.unwrap_or_else(|| (0, Conversation::new(WireFormat::Any)));
        for from in (start..rows).step_by(PIECE) {
            self.fold_rows(from..rows.min(from + PIECE), &mut conversation);
        }
        conversation
    }

    fn fold_rows(&self, rows: Range<usize>, conversation: &mut Conversation) {
        for (row, text) in self.texts(rows) {
            let Some((channel, time)) = self.log().rows().get(row).map(|row| (row.channel, row.time)) else {
                continue;
            };
            let at = Moment(time);
            match channel.message() {
                Some((side, false)) => {
                    for message in messages(&text) {
                        // The row of the message reports its problems.
                        drop(conversation.read(message, Some(side), at));
                    }
                }
                None if channel == Channel::Hub => drop(apply_hub_note(conversation, &text, at)),
                _ => {}
            }
        }
    }

    fn translated_at(&self, rows: usize) -> Conversation {
        let mut log = MessageLog::new(1);
        if let Ok(records) = self.store.read(&self.id, 0) {
            let records = records.map_while(Result::ok).filter_map(Item::into_record);
            for record in records.take_while(|record| (record.sequence as usize) < rows) {
                log.push(&record);
            }
        }
        log.into_conversation()
    }
}

/// Reads a recording from the store, and follows new records until all references to it are dropped.
fn follow(room: &Weak<LiveRecording>, store: &Store, summary: &Summary) -> Result<(), StoreError> {
    let id = &*summary.id;
    if summary.length >= LONG && summary.protocol != 1 {
        let end = store.window(id, None, PREVIEW)?.conversation;
        if let Some(room) = room.upgrade() {
            *room.preview() = Some(end);
            room.touch();
        }
    }
    let mut next = 0;
    let mut batch = Vec::with_capacity(BATCH);
    let note_gap = |item: &Item| {
        if let (Item::Gap { from, to, reason }, Some(room)) = (item, room.upgrade()) {
            room.note_gap(*from, *to, reason);
        }
    };
    let take = |batch: &mut Vec<Record>| -> bool {
        let Some(room) = room.upgrade() else { return false };
        let mut log = room.log();
        for record in batch.drain(..) {
            log.push(&record);
        }
        drop(log);
        room.touch();
        true
    };
    for item in store.read(id, 0)? {
        let item = item?;
        note_gap(&item);
        match sequence_after(item, &mut batch) {
            Some(after) => next = after,
            None => {
                damaged(room);
                return Ok(());
            }
        }
        if batch.len() >= BATCH && !take(&mut batch) {
            return Ok(());
        }
    }
    if !take(&mut batch) {
        return Ok(());
    }
    if let Some(room) = room.upgrade() {
        *room.preview() = None;
        room.log().keep_recent();
        room.touch();
    }
    let mut tail = store.follow(id, next)?;
    while room.strong_count() > 0 {
        let mut item = tail.next(POLL)?;
        // Collects all records that are available now, so that views update once.
        while let Some(new) = item.take() {
            note_gap(&new);
            if sequence_after(new, &mut batch).is_none() {
                damaged(room);
                return Ok(());
            }
            if batch.len() < BATCH {
                item = tail.next(Duration::ZERO)?;
            }
        }
        if !batch.is_empty() && !take(&mut batch) {
            break;
        }
    }
    Ok(())
}

fn damaged(room: &Weak<LiveRecording>) {
    if let Some(room) = room.upgrade() {
        room.fail(format!("more than {MAX_GAP} records are missing, so the store is damaged"));
    }
}

/// Adds an item to the batch, and returns the next sequence number. A gap becomes one placeholder per record, so that
/// row numbers equal sequence numbers. Returns `None` if the gap is too large.
fn sequence_after(item: Item, batch: &mut Vec<Record>) -> Option<u64> {
    match item {
        Item::Record(record) => {
            let next = record.sequence + 1;
            batch.push(record);
            Some(next)
        }
        Item::Gap { from, to, .. } if to.saturating_sub(from) > MAX_GAP => None,
        Item::Gap { from, to, reason } => {
            for sequence in from..to {
                let channel = Channel::Diagnostic;
                let mut note = Record::new(channel, format!("this record cannot be read: {reason}"));
                note.sequence = sequence;
                batch.push(note);
            }
            Some(to)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More records than between two checkpoints, so that states with and without a checkpoint are tested.
    const RECORDS: usize = 5000;

    fn chunk(number: usize) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","messageId":"m-{}","content":{{"type":"text","text":"{number} "}}}}}}}}"#,
            number % 7
        )
    }

    /// Returns the session after a number of records, folded from the start.
    fn folded(records: usize) -> String {
        let mut conversation = Conversation::new(WireFormat::Any);
        for number in 0..records {
            let side = Some(switchboard_session::Side::Agent);
            conversation.read(&chunk(number), side, Moment(0)).unwrap();
        }
        conversation.session(Some("s")).map(|session| session.to_json(Some("s"))).unwrap_or_default()
    }

    fn wait_for(room: &LiveRecording, rows: usize) {
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while room.log().rows().len() < rows {
            assert!(std::time::Instant::now() < deadline, "the recording is not read");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_gap_keeps_the_numbers_of_records_unless_nobody_can_believe_it() {
        let gap = |to: u64| Item::Gap { from: 2, to, reason: "damage".into() };
        let mut batch = Vec::new();
        assert_eq!(sequence_after(gap(4), &mut batch), Some(4));
        assert_eq!(batch.iter().map(|note| note.sequence).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(sequence_after(gap(u64::MAX), &mut batch), None);
        assert_eq!(batch.len(), 2);
    }

    #[test]
    fn a_stored_session_is_followed_and_can_be_seen_as_it_stood_at_any_record() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("s.sqlite3")).unwrap();
        let mut recorder = store.begin(&About::default()).unwrap();
        let id = recorder.id().to_owned();
        let mut record = |from: usize, to: usize| {
            for number in from..to {
                drop(recorder.append(Record::new(Channel::ToClient, chunk(number))).unwrap());
            }
            recorder.sync().unwrap();
        };
        record(0, RECORDS - 100);
        let room = LiveRecording::stored(&id, &store).unwrap();
        wait_for(&room, RECORDS - 100);
        record(RECORDS - 100, RECORDS);
        wait_for(&room, RECORDS);
        for at in [0, 1, 2047, 2048, 2049, 4500, RECORDS] {
            let shown = room.sessions_at(at);
            let shown = shown.session(Some("s")).map(|session| session.to_json(Some("s")));
            assert_eq!(shown.unwrap_or_default(), folded(at), "after {at}");
        }
        let texts = room.texts(4990..RECORDS);
        assert_eq!(texts.len(), 10);
        assert!(texts.iter().all(|(row, text)| **text == *chunk(*row)));
        assert!(LiveRecording::stored("nothing", &store).is_err());
    }

    #[test]
    fn who_answered_in_a_hub_is_told_at_the_question() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("s.sqlite3")).unwrap();
        let mut recorder = store.begin(&About::default()).unwrap();
        let question = r#"{"jsonrpc":"2.0","id":5,"method":"session/request_permission","params":{"sessionId":"s","title":"Write?","options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}"#;
        let note =
            r#"{"hub":"answered","request":5,"by":{"token":"<b>anna","client":"phone","version":"2"}}"#;
        let answer = r#"{"jsonrpc":"2.0","id":5,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}"#;
        let records = [(Channel::ToClient, question), (Channel::Hub, note), (Channel::ToAgent, answer)];
        for (channel, text) in records {
            recorder.put(Record::new(channel, text)).unwrap();
        }
        recorder.sync().unwrap();
        let room = LiveRecording::stored(recorder.id(), &store).unwrap();
        wait_for(&room, records.len());
        let snapshot = room.sessions_at(records.len()).session(Some("s")).unwrap().snapshot();
        let permission = snapshot.permissions().next().unwrap();
        let cache = crate::render::RenderCache::default();
        let parts =
            crate::render::permission(&snapshot, permission, &crate::render::Place::default(), &cache);
        let shown: String = parts.iter().map(|part| &*part.html).collect();
        assert!(shown.contains("by &lt;b&gt;anna (phone 2)"), "{shown}");
        let detail = crate::wire::message(&room, 1).unwrap().into_string();
        assert!(detail.contains("hub · beside the messages") && !detail.contains("problem"), "{detail}");
    }

    #[test]
    fn records_that_cannot_be_read_are_counted_for_the_page() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sqlite3");
        let store = Store::open(&path).unwrap();
        let mut recorder = store.begin(&About::default()).unwrap();
        for number in 0..50 {
            drop(recorder.append(Record::new(Channel::ToClient, chunk(number))).unwrap());
        }
        recorder.sync().unwrap();
        let journal = folder.path().join(format!("s.sqlite3-writers/{}.0", recorder.id()));
        let mut bytes = std::fs::read(&journal).unwrap();
        let wrong = bytes.windows(6).position(|text| text == b"\"20 \"}").unwrap();
        bytes[wrong + 1] ^= 1;
        // A copy is opened, because this process has the records in memory.
        let copy = tempfile::tempdir().unwrap();
        for name in ["s.sqlite3", "s.sqlite3-wal"] {
            std::fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
        }
        std::fs::create_dir(copy.path().join("s.sqlite3-writers")).unwrap();
        let name = format!("s.sqlite3-writers/{}.0", recorder.id());
        std::fs::write(copy.path().join(name), bytes).unwrap();
        let damaged = Store::open_read_only(copy.path().join("s.sqlite3")).unwrap();
        let room = LiveRecording::stored(recorder.id(), &damaged).unwrap();
        wait_for(&room, 50);
        let (count, reason) = room.gaps().unwrap();
        assert!(count == 1 && reason.contains("is damaged here"), "{count} {reason}");
    }
}
