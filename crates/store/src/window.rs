//! The state of a session at any sequence number, and the checkpoints that make it cheap.
//!
//! A checkpoint holds what the updates since the one before have changed: each changed entry as the one update
//! that makes it, and the values of the session itself. The end of a session is then opened from its last
//! checkpoint: the entries wanted, those that later messages touch, and the messages since. A checkpoint is made
//! when the messages since the last one are as many bytes as it will have, so all checkpoints together are never
//! larger than the journal, and never more has to be folded than is shown.

use std::collections::{BTreeSet, HashMap};

use memchr::memmem;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use switchboard_protocol::{Field, Wire, WireFormat, v2};
use switchboard_session::{Conversation, Entry, EntryKind, Moment, Session, Side};

use crate::block::{compress, decompress};
use crate::catalog::length;
use crate::error::Result;
use crate::live::failure;
use crate::read::{self, Batch};
use crate::record::{Channel, Record};
use crate::segment::Cursor;
use crate::store::Store;

/// The fewest bytes of messages between two checkpoints.
const INTERVAL: u64 = 512 * 1024;
/// Lists that only grow are kept so far back.
const MAX_LISTED: usize = 100;
/// Open requests that are remembered.
const MAX_OPEN: usize = 1000;
const DIALECT: WireFormat = WireFormat::Any;

/// The state of a session's messages, as the session engine folds them.
#[derive(Debug)]
pub struct State {
    /// The sessions on the connection.
    pub conversation: Conversation,
    /// The first sequence number that is not in it.
    pub at: u64,
    /// What could not be read: sequence numbers and reasons.
    pub gaps: Vec<(u64, u64, String)>,
    /// How many messages could not be understood, and are therefore not in it.
    pub refused: u64,
    /// For each session: how many entries stand before those that are in it.
    pub hidden: Vec<usize>,
}

#[derive(Serialize, Deserialize, Default)]
struct Checkpoint {
    sessions: Vec<SessionPoint>,
    /// Requests without an answer, by their sequence numbers.
    open: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
struct SessionPoint {
    id: Option<String>,
    entries: usize,
    /// Updates that make everything but the entries.
    updates: Vec<Box<RawValue>>,
}

/// A fold that may have begun at a checkpoint.
struct Folded {
    conversation: Conversation,
    /// For each session: the positions of the entries that were there already, and how many there were in all.
    loaded: Vec<(Vec<usize>, usize)>,
    /// For each session: its revision before the tail was applied.
    before: Vec<u64>,
    open: Vec<u64>,
    gaps: Vec<(u64, u64, String)>,
    refused: u64,
}

impl Store {
    /// The state after the first `at` records, or after all of them, in full.
    pub fn state(&self, id: &str, at: Option<u64>) -> Result<State> {
        let (session, id) = self.number(id)?;
        self.with_reader(|connection| {
            let at = at.unwrap_or(u64::MAX).min(length(connection, self.folder(), session, &id)?);
            let mut journal = Cursor::new(self.folder(), &id, 0);
            let (tail, gaps) = tail(connection, session, Some(&mut journal), 0, at)?;
            let folded = fold(connection, session, None, &tail, gaps, &[])?;
            Ok(state(folded, at, usize::MAX))
        })
    }

    /// The end of the state after the first `at` records, or after all of them: of each session at least the
    /// last `entries` entries, and those that changed lately. It costs the same however long the session is.
    ///
    /// Questions that were settled long ago are not in it, and of notices and unknown updates only the last ones.
    pub fn window(&self, id: &str, at: Option<u64>, entries: usize) -> Result<State> {
        let (session, id) = self.number(id)?;
        self.with_reader(|connection| {
            let at = at.unwrap_or(u64::MAX).min(length(connection, self.folder(), session, &id)?);
            let mut journal = Cursor::new(self.folder(), &id, 0);
            let folded = fold_from_checkpoint(connection, session, Some(&mut journal), at, entries)?;
            Ok(state(folded, at, entries))
        })
    }
}

fn state(folded: Folded, at: u64, entries: usize) -> State {
    let places = folded.loaded.iter().map(|(positions, count)| count - positions.len());
    let mut hidden: Vec<usize> = places.collect();
    hidden.resize(folded.conversation.sessions().count(), 0);
    if entries == usize::MAX {
        hidden.fill(0);
    }
    State { conversation: folded.conversation, at, gaps: folded.gaps, refused: folded.refused, hidden }
}

type Gaps = Vec<(u64, u64, String)>;

/// The messages in a range, in the store and, if it is given, in the journal.
fn tail(
    connection: &Connection,
    session: i64,
    mut journal: Option<&mut Cursor>,
    from: u64,
    to: u64,
) -> rusqlite::Result<(Vec<Record>, Gaps)> {
    let (mut records, mut gaps) = (Vec::new(), Vec::new());
    let mut at = from;
    while at < to {
        let batch = match &mut journal {
            Some(journal) => read::batch(connection, session, journal, at, to)?,
            None => read::stored(connection, session, at, to)?,
        };
        match batch {
            Batch::Records(batch) => {
                at = batch.last().map_or(to, |record| record.sequence + 1);
                records.extend(batch.into_iter().filter(|record| record.channel.is_message()));
            }
            Batch::Gap { to: end, reason } => {
                gaps.push((at, end, reason));
                at = end.max(at + 1);
            }
            Batch::End => break,
        }
    }
    Ok((records, gaps))
}

fn fold_from_checkpoint(
    connection: &Connection,
    session: i64,
    mut journal: Option<&mut Cursor>,
    at: u64,
    entries: usize,
) -> rusqlite::Result<Folded> {
    let Some((sequence, checkpoint)) = last_checkpoint(connection, session, at)? else {
        let (records, gaps) = tail(connection, session, journal, 0, at)?;
        return fold(connection, session, None, &records, gaps, &[]);
    };
    let (records, gaps) = tail(connection, session, journal.as_deref_mut(), sequence, at)?;
    // History that is replayed takes the place of what was there.
    if records.iter().any(|record| memmem::find(&record.bytes, b"\"session/resume\"").is_some()) {
        let (records, gaps) = tail(connection, session, journal, 0, at)?;
        return fold(connection, session, None, &records, gaps, &[]);
    }
    // A fold without what was there before shows which of it the new messages touch.
    let scratch = fold(connection, session, None, &records, Vec::new(), &[])?;
    let mut wanted: Vec<BTreeSet<usize>> = Vec::new();
    for (place, point) in checkpoint.sessions.iter().enumerate() {
        let mut positions: BTreeSet<usize> = (point.entries.saturating_sub(entries)..point.entries).collect();
        if let Some(touched) = scratch.conversation.session(point.id.as_deref()) {
            for entry in touched.entries() {
                positions.extend(position_of(connection, session, place, entry, point.entries, sequence)?);
            }
        }
        wanted.push(positions);
    }
    let wanted: Vec<Vec<usize>> =
        wanted.into_iter().map(|positions| positions.into_iter().collect()).collect();
    fold(connection, session, Some((sequence, &checkpoint)), &records, gaps, &wanted)
}

fn last_checkpoint(
    connection: &Connection,
    session: i64,
    at: u64,
) -> rusqlite::Result<Option<(u64, Checkpoint)>> {
    let found = connection
        .prepare_cached(
            "SELECT sequence, data FROM checkpoints WHERE session = ?1 AND sequence <= ?2
             ORDER BY sequence DESC LIMIT 1",
        )?
        .query_row(params![session, i64::try_from(at).unwrap_or(i64::MAX)], |row| {
            Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, Vec<u8>>(1)?))
        })
        .optional()?;
    // A checkpoint only saves work: one that cannot be read is as good as none.
    Ok(found.and_then(|(sequence, data)| {
        Some((sequence, serde_json::from_slice(&decompress(&data).ok()?).ok()?))
    }))
}

fn position_of(
    connection: &Connection,
    session: i64,
    place: usize,
    entry: &Entry,
    count: usize,
    sequence: u64,
) -> rusqlite::Result<Option<usize>> {
    let found = connection
        .prepare_cached(
            "SELECT position FROM entries WHERE session = ?1 AND place = ?2 AND kind = ?3 AND id = ?4
             AND sequence <= ?5 ORDER BY sequence DESC LIMIT 1",
        )?
        .query_row(
            params![session, place as i64, entry.kind().as_str(), entry.id(), sequence as i64],
            |row| row.get::<_, i64>(0),
        )
        .optional()?;
    Ok(found.and_then(|position| usize::try_from(position).ok()).filter(|position| *position < count))
}

fn load_entry(
    connection: &Connection,
    session: i64,
    place: usize,
    position: usize,
    sequence: u64,
) -> rusqlite::Result<Option<String>> {
    let data: Option<Vec<u8>> = connection
        .prepare_cached(
            "SELECT data FROM entries WHERE session = ?1 AND place = ?2 AND position = ?3 AND sequence <= ?4
             ORDER BY sequence DESC LIMIT 1",
        )?
        .query_row(params![session, place as i64, position as i64, sequence as i64], |row| row.get(0))
        .optional()?;
    let plain = data.map(|data| if data.first() == Some(&b'{') { Ok(data) } else { decompress(&data) });
    Ok(plain.and_then(std::result::Result::ok).and_then(|text| String::from_utf8(text).ok()))
}

fn side(record: &Record) -> Side {
    if record.channel == Channel::ToAgent { Side::Client } else { Side::Agent }
}

/// Folds messages, upon the wanted entries of a checkpoint if there is one.
fn fold(
    connection: &Connection,
    session: i64,
    base: Option<(u64, &Checkpoint)>,
    records: &[Record],
    gaps: Gaps,
    wanted: &[Vec<usize>],
) -> rusqlite::Result<Folded> {
    let mut conversation = Conversation::new(DIALECT);
    let mut loaded = Vec::new();
    let mut requests = Requests::default();
    if let Some((sequence, checkpoint)) = base {
        for (place, (point, positions)) in checkpoint.sessions.iter().zip(wanted).enumerate() {
            let id = point.id.as_deref();
            let mut there = Vec::new();
            for &position in positions {
                let update = load_entry(connection, session, place, position, sequence)?;
                // Something of ours that does not decode is left out, like any other message.
                if let Some(update) = update
                    && let Ok(update) = v2::SessionUpdate::decode(&update, DIALECT)
                {
                    drop(conversation.apply_update(id, &update));
                    there.push(position);
                }
            }
            for update in &point.updates {
                if let Ok(update) = v2::SessionUpdate::decode(update.get(), DIALECT) {
                    drop(conversation.apply_update(id, &update));
                }
            }
            loaded.push((there, point.entries));
        }
        let mut subjects = Vec::new();
        for &number in &checkpoint.open {
            let (open, _) = tail(connection, session, None, number, number + 1)?;
            for record in &open {
                read_into(&mut conversation, record);
                requests.see(record);
            }
        }
        // An open question has just patched its tool call once more, with what was true when it was asked.
        for (place, point) in checkpoint.sessions.iter().enumerate() {
            let Some(folded) = conversation.session(point.id.as_deref()) else { continue };
            for call in folded.pending_permissions().filter_map(|permission| permission.tool_call_id()) {
                let position = folded.position(EntryKind::ToolCall, call);
                let known =
                    loaded.get(place).zip(position).and_then(|((there, _), position)| there.get(position));
                if let Some(&position) = known {
                    subjects.push((place, position));
                }
            }
        }
        for (place, position) in subjects {
            let update = load_entry(connection, session, place, position, sequence)?;
            if let Some(update) = update
                && let Ok(update) = v2::SessionUpdate::decode(&update, DIALECT)
            {
                drop(conversation.apply_update(checkpoint.sessions[place].id.as_deref(), &update));
            }
        }
    }
    let before = conversation.sessions().map(|(_, folded)| folded.revision()).collect();
    let mut refused = 0;
    for record in records {
        requests.see(record);
        refused += read_into(&mut conversation, record);
    }
    Ok(Folded { conversation, loaded, before, open: requests.open(), gaps, refused })
}

/// Reads a message. Gives how many could not be understood.
fn read_into(conversation: &mut Conversation, record: &Record) -> u64 {
    let Ok(text) = std::str::from_utf8(&record.bytes) else { return 1 };
    // The time in the session: milliseconds, as everywhere here.
    let at = Moment(record.time.0.unsigned_abs());
    if !text.trim_start().starts_with('[') {
        return u64::from(conversation.read(text, Some(side(record)), at).is_err());
    }
    let messages = serde_json::from_str::<Vec<&RawValue>>(text).unwrap_or_default();
    messages
        .iter()
        .map(|text| u64::from(conversation.read(text.get(), Some(side(record)), at).is_err()))
        .sum()
}

/// Requests that wait for an answer.
#[derive(Default)]
struct Requests {
    waiting: HashMap<(Channel, String), u64>,
}

impl Requests {
    fn see(&mut self, record: &Record) {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow)]
            id: Option<&'a RawValue>,
            #[serde(borrow)]
            method: Option<&'a RawValue>,
        }
        if memmem::find(&record.bytes[..record.bytes.len().min(256)], b"\"session/update\"").is_some() {
            return;
        }
        let Ok(text) = std::str::from_utf8(&record.bytes) else { return };
        if !text.trim_start().starts_with('{') {
            return;
        }
        let Ok(Envelope { id: Some(id), method }) = serde_json::from_str(text) else { return };
        match method {
            Some(_) if self.waiting.len() < MAX_OPEN => {
                self.waiting.insert((record.channel, id.get().to_owned()), record.sequence);
            }
            Some(_) => {}
            None => {
                let asker =
                    if record.channel == Channel::ToAgent { Channel::ToClient } else { Channel::ToAgent };
                self.waiting.remove(&(asker, id.get().to_owned()));
            }
        }
    }

    fn open(self) -> Vec<u64> {
        let mut open: Vec<u64> = self.waiting.into_values().collect();
        open.sort_unstable();
        open
    }
}

/// Makes a checkpoint after the first `at` records, which have so many bytes, if enough has come since the last one.
pub(crate) fn checkpoint_if_due(
    transaction: &Transaction<'_>,
    session: i64,
    at: u64,
    bytes: u64,
) -> rusqlite::Result<()> {
    let protocol: u16 = transaction
        .prepare_cached("SELECT protocol FROM sessions WHERE number = ?1")?
        .query_row([session], |row| row.get(0))?;
    // Only version 2 can be folded here.
    if protocol == 1 {
        return Ok(());
    }
    let last: Option<i64> = transaction
        .prepare_cached("SELECT size FROM checkpoints WHERE session = ?1 ORDER BY sequence DESC LIMIT 1")?
        .query_row([session], |row| row.get(0))
        .optional()?;
    // `size` holds the number of bytes on the wire from which on the next one is due.
    if bytes < last.map_or(INTERVAL, i64::unsigned_abs) {
        return Ok(());
    }
    let folded = fold_from_checkpoint(transaction, session, None, at, 0)?;
    if !folded.gaps.is_empty() || folded.conversation.sessions().any(|(_, folded)| folded.is_replaying()) {
        return Ok(());
    }
    let mut checkpoint = Checkpoint { sessions: Vec::new(), open: folded.open };
    let mut size = 0;
    for (place, (id, folded_session)) in folded.conversation.sessions().enumerate() {
        let (there, count) = folded.loaded.get(place).cloned().unwrap_or_default();
        let before = folded.before.get(place).copied().unwrap_or(0);
        for (index, entry) in folded_session.entries().enumerate() {
            let position = there.get(index).copied().unwrap_or_else(|| count + index - there.len());
            if entry.revision() > before || index >= there.len() {
                size += save_entry(transaction, session, (place, position, at), entry)?;
            }
        }
        let entries = count + folded_session.len() - there.len();
        checkpoint.sessions.push(SessionPoint {
            id: id.map(str::to_owned),
            entries,
            updates: rest(folded_session),
        });
    }
    let plain = serde_json::to_vec(&checkpoint).map_err(|error| failure(error.into()))?;
    let data = compress(&plain).map_err(|error| failure(error.into()))?;
    let due = bytes + INTERVAL.max(size + plain.len() as u64);
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO checkpoints (session, sequence, size, data) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![session, at as i64, due as i64, data])?;
    Ok(())
}

/// Saves an entry. Gives its size.
fn save_entry(
    transaction: &Transaction<'_>,
    session: i64,
    (place, position, at): (usize, usize, u64),
    entry: &Entry,
) -> rusqlite::Result<u64> {
    let text = entry.to_update().encode(DIALECT).into_bytes();
    let size = text.len() as u64;
    let data = if text.len() > 512 { compress(&text).map_err(|error| failure(error.into()))? } else { text };
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO entries (session, place, position, sequence, kind, id, data)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            session,
            place as i64,
            position as i64,
            at as i64,
            entry.kind().as_str(),
            entry.id(),
            data
        ])?;
    Ok(size)
}

/// The updates that make everything of a session but its entries.
fn rest(session: &Session) -> Vec<Box<RawValue>> {
    let mut updates: Vec<v2::SessionUpdate<'_>> = Vec::new();
    if let Some(state) = session.state() {
        updates.push(v2::SessionUpdate::StateUpdate(Box::new(state.clone())));
    }
    let optional = |text: Option<&str>| text.map_or(Field::Keep, |text| Field::Set(text.to_owned().into()));
    updates.push(v2::SessionUpdate::SessionInfoUpdate(Box::new(v2::SessionInfoUpdate {
        title: optional(session.title()),
        updated_at: optional(session.updated_at()),
        meta: session.meta().map_or(Field::Keep, |meta| Field::Set(meta.clone())),
        ..v2::SessionInfoUpdate::new()
    })));
    if let Some(usage) = session.usage() {
        updates.push(v2::SessionUpdate::UsageUpdate(Box::new(v2::UsageUpdate {
            cost: usage.cost.clone().map_or(Field::Keep, Field::Set),
            ..v2::UsageUpdate::new(usage.used, usage.size)
        })));
    }
    if !session.commands().is_empty() {
        let commands = session.commands().to_vec();
        updates.push(v2::SessionUpdate::AvailableCommandsUpdate(v2::AvailableCommandsUpdate::new(commands)));
    }
    if !session.config_options().is_empty() {
        let options = session.config_options().to_vec();
        updates.push(v2::SessionUpdate::ConfigOptionUpdate(v2::ConfigOptionUpdate::new(options)));
    }
    for plan in session.plans() {
        updates.push(v2::SessionUpdate::PlanUpdate(Box::new(plan.to_update())));
    }
    let notices = session.notices();
    for notice in &notices[notices.len().saturating_sub(MAX_LISTED)..] {
        updates.push(v2::SessionUpdate::Notice(Box::new(notice.clone())));
    }
    let unknown = session.unknown().count();
    for update in session.unknown().skip(unknown.saturating_sub(MAX_LISTED)) {
        updates.push(v2::SessionUpdate::Unknown(update.clone()));
    }
    updates.iter().filter_map(|update| RawValue::from_string(update.encode(DIALECT)).ok()).collect()
}
