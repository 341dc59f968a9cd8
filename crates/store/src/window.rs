//! The state of a session at any sequence number, and the checkpoints that make it cheap to compute.
//!
//! The state is always a fold of recorded messages. A window omits messages that only changed entries outside
//! of it, so its content equals the same part of the full state, including unknown keys.
//!
//! A checkpoint lists which messages changed which entry since the previous checkpoint, and holds the
//! messages that changed anything else, without superseded ones. The end of a session is folded from three
//! sources: the messages of the wanted entries, the messages that changed anything else, and all messages
//! since the last checkpoint.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};
use switchboard_acp::rpc::{Expected, is_batch};
use switchboard_acp::{Field, Moment, Side, WireFormat, v2};
use switchboard_session::{Change, Conversation, Entry, Folded};

use crate::block::{Input, compress, decompress, put};
use crate::catalog::length;
use crate::error::Result;
use crate::hub_note::apply_hub_note;
use crate::live::failure;
use crate::read::{self, Batch, Block};
use crate::record::{Channel, Record};
use crate::segment::Cursor;
use crate::store::Store;

/// Minimum bytes of messages between two checkpoints.
const INTERVAL: u64 = 512 * 1024;
const DIALECT: WireFormat = WireFormat::Any;

/// The state of a session's messages, folded by the session engine.
#[derive(Debug)]
#[non_exhaustive]
pub struct State {
    /// The sessions on the connection.
    pub conversation: Conversation,
    /// Number of records included: the first sequence number that is not.
    pub at: u64,
    /// Unreadable ranges: first sequence number, end, reason.
    pub gaps: Vec<(u64, u64, String)>,
    /// Number of messages that could not be parsed and are not included.
    pub refused: u64,
    /// For each session, the number of entries that are not included.
    pub hidden: Vec<usize>,
}

#[derive(Serialize, Deserialize)]
struct Checkpoint {
    /// Sequence number of the first checkpoint of this chain. Entries had other positions before it.
    base: u64,
    sessions: Vec<SessionPoint>,
    /// Number of messages before it that could not be parsed.
    #[serde(default)]
    refused: u64,
    /// Messages since the previous checkpoint that changed anything other than entries.
    rest: Vec<CheckpointMessage>,
    /// Unreadable ranges since the previous checkpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<(u64, u64, String)>,
}

#[derive(Serialize, Deserialize)]
struct SessionPoint {
    id: Option<String>,
    /// Number of entries.
    entries: usize,
    /// Entries changed by messages in `rest` since the previous checkpoint. They are always folded
    /// completely, because those messages alone would produce partial entries.
    pinned: BTreeSet<usize>,
}

/// A copy of a message, stored in the checkpoint.
#[derive(Serialize, Deserialize, Clone)]
struct CheckpointMessage {
    sequence: u64,
    time: i64,
    from_client: bool,
    /// True for a note of the hub, which is not a message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_note: bool,
    /// Topic, if the message has no other effect and a later message on the same topic supersedes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topic: Option<Topic>,
    text: String,
}

/// State that an update replaces as a whole.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Hash)]
struct Topic {
    session: Option<String>,
    of: TopicKind,
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Hash)]
enum TopicKind {
    /// Usage without cost, which keeps the previous cost.
    Usage,
    UsageAndCost,
    Commands,
    ConfigOptions,
    /// An existing plan, by its id.
    Plan(String),
}

impl Topic {
    /// Returns the topic of an update if it changed nothing else. An update that adds a plan has no topic,
    /// because it also determines the plan's position.
    fn of(conversation: &Conversation, folded: &Folded<'_>, sets_cost: bool) -> Option<Self> {
        let step = folded.step.as_ref()?;
        let (id, session) = conversation.session_at(step.session)?;
        let mut changes = step.changes.iter();
        let of = match changes.next()? {
            Change::Usage if sets_cost => TopicKind::UsageAndCost,
            Change::Usage => TopicKind::Usage,
            Change::Commands => TopicKind::Commands,
            Change::ConfigOptions => TopicKind::ConfigOptions,
            Change::Plan { index, created: false } => {
                TopicKind::Plan(session.plans().nth(*index)?.id().to_owned())
            }
            _ => return None,
        };
        changes.next().is_none().then(|| Topic { session: id.map(str::to_owned), of })
    }
}

/// Removes messages that a later message supersedes.
fn remove_superseded(rest: &mut Vec<CheckpointMessage>) {
    let mut superseded = HashSet::new();
    let mut is_kept: Vec<bool> = Vec::with_capacity(rest.len());
    for kept in rest.iter().rev() {
        is_kept.push(kept.topic.as_ref().is_none_or(|topic| {
            if topic.of == TopicKind::UsageAndCost {
                superseded.insert(Topic { of: TopicKind::Usage, ..topic.clone() });
            }
            superseded.insert(topic.clone())
        }));
    }
    let mut is_kept = is_kept.into_iter().rev();
    rest.retain(|_| is_kept.next().unwrap_or(true));
}

impl CheckpointMessage {
    fn to_record(&self) -> Record {
        let from = if self.from_client { Side::Client } else { Side::Agent };
        let channel = if self.is_note { Channel::Hub } else { Channel::of_message(from, false) };
        let record = Record::new(channel, self.text.as_bytes()).at(Moment(self.time));
        Record { sequence: self.sequence, ..record }
    }
}

impl Store {
    /// Returns the full state after the first `at` records, or after all of them.
    pub fn state(&self, id: &str, at: Option<u64>) -> Result<State> {
        let (session, id) = self.number(id)?;
        self.with_reader(|connection| {
            let at = at.unwrap_or(u64::MAX).min(length(connection, self.folder(), session, &id)?);
            let mut journal = Cursor::new(self.folder(), &id, 0);
            Ok(Fold::of_all(connection, session, Some(&mut journal), at)?.into_state(at))
        })
    }

    /// Returns the end of the state after the first `at` records, or after all of them: for each session at
    /// least the last `entries` entries, and those that changed recently or that have questions. Everything
    /// other than entries is complete. The cost depends on these entries, not on the length of the session.
    pub fn window(&self, id: &str, at: Option<u64>, entries: usize) -> Result<State> {
        let (session, id) = self.number(id)?;
        self.with_reader(|connection| {
            let at = at.unwrap_or(u64::MAX).min(length(connection, self.folder(), session, &id)?);
            let mut journal = Cursor::new(self.folder(), &id, 0);
            match Fold::of_end(connection, session, Some(&mut journal), at, Scope::Entries(entries))? {
                FoldedEnd::Folded(fold) => Ok(fold.into_state(at)),
                FoldedEnd::Postponed { .. } => {
                    Ok(Fold::of_all(connection, session, Some(&mut journal), at)?.into_state(at))
                }
            }
        })
    }
}

/// Passes the messages and hub notes in a range to `take`, from the database and, if given, the journal.
/// Returns the unreadable ranges.
fn each(
    connection: &Connection,
    session: i64,
    mut journal: Option<&mut Cursor>,
    (from, to): (u64, u64),
    mut take: impl FnMut(&Record),
) -> rusqlite::Result<Vec<(u64, u64, String)>> {
    let mut gaps = Vec::new();
    let mut at = from;
    while at < to {
        let batch = match &mut journal {
            Some(journal) => read::batch(connection, session, journal, at, to)?,
            None => read::stored(connection, session, at, to)?,
        };
        match batch {
            Batch::Records(batch) => {
                // Advanced before the filter: a batch of records that are not folded must not end the loop or
                // repeat.
                at = batch.last().map_or(to, |record| record.sequence + 1);
                let is_folded = |channel: Channel| channel.is_message() || channel == Channel::Hub;
                batch.iter().filter(|record| is_folded(record.channel)).for_each(&mut take);
            }
            Batch::Gap { to: end, reason } => {
                gaps.push((at, end, reason));
                at = end.max(at + 1);
            }
            Batch::End => break,
        }
    }
    Ok(gaps)
}

/// A fold, and notes for a checkpoint about the messages folded.
struct Fold {
    conversation: Conversation,
    /// For each session, the positions of the entries loaded from a checkpoint, and its total number of
    /// entries.
    loaded: Vec<(Vec<usize>, usize)>,
    /// First checkpoint of the chain that the fold is based on.
    base: Option<u64>,
    /// Bytes folded again, if more than were new.
    surplus: u64,
    gaps: Vec<(u64, u64, String)>,
    refused: u64,
    /// True if history was replayed, which replaces existing entries and moves them.
    is_replayed: bool,
    notes: Notes,
}

#[derive(Default)]
struct Notes {
    /// For each session and entry index, the messages that changed it.
    touches: HashMap<(usize, usize), Vec<u64>>,
    /// Entries changed by messages in `rest`.
    pinned: BTreeSet<(usize, usize)>,
    rest: Vec<CheckpointMessage>,
}

/// Part of the end of a session to fold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// The last entries, this many, and those changed since the last checkpoint.
    Entries(usize),
    /// Only the entries changed since the last checkpoint, to create the next one. A long message that still
    /// grows has to be folded from its start each time, so the checkpoint is postponed until the new part is
    /// as long as the part to fold again. The total cost of checkpoints is therefore linear in the length of
    /// the session, not quadratic.
    Checkpoint,
}

/// Result of folding the end of a session.
enum FoldedEnd {
    Folded(Box<Fold>),
    /// Too many messages would have to be folded again. `bytes` is the size of the messages since the last
    /// checkpoint.
    Postponed {
        bytes: u64,
    },
}

/// Number of messages that may always be folded again for a checkpoint.
const FEW: u64 = 1000;

impl Fold {
    fn new() -> Self {
        Fold {
            conversation: Conversation::new(DIALECT),
            loaded: Vec::new(),
            base: None,
            surplus: 0,
            gaps: Vec::new(),
            refused: 0,
            is_replayed: false,
            notes: Notes::default(),
        }
    }

    /// Folds all messages.
    fn of_all(
        connection: &Connection,
        session: i64,
        journal: Option<&mut Cursor>,
        at: u64,
    ) -> rusqlite::Result<Self> {
        let mut fold = Fold::new();
        fold.gaps = each(connection, session, journal, (0, at), |record| fold.read(record))?;
        Ok(fold)
    }

    /// Folds the end, and the earlier messages that it depends on.
    fn of_end(
        connection: &Connection,
        session: i64,
        mut journal: Option<&mut Cursor>,
        at: u64,
        scope: Scope,
    ) -> rusqlite::Result<FoldedEnd> {
        let all =
            |journal| Fold::of_all(connection, session, journal, at).map(Box::new).map(FoldedEnd::Folded);
        let Some(points) = checkpoints(connection, session, at)? else {
            return all(journal);
        };
        // First fold only the new messages, to find the earlier entries that they change.
        let mut scratch = Fold::new();
        // The notes tell the ids under which agents have continued sessions.
        for note in points.rest.iter().filter(|kept| kept.is_note) {
            apply_hub_note(&mut scratch.conversation, &note.text, Moment(note.time));
        }
        let mut tail = Vec::new();
        let gaps = each(connection, session, journal.as_deref_mut(), (points.sequence, at), |record| {
            scratch.read(record);
            tail.push(record.clone());
        })?;
        // Replayed history moves entries, so positions of the checkpoint no longer apply.
        if scratch.is_replayed {
            return all(journal);
        }
        let tail_bytes: u64 = tail.iter().map(|record| record.bytes.len() as u64).sum();
        let mut again = 0;
        let entries = match scope {
            Scope::Entries(entries) => entries,
            Scope::Checkpoint => 0,
        };
        let mut wanted = points.pinned.clone();
        // True for sessions with new entries whose last old entry was not changed: that entry is complete.
        let mut is_passed = vec![false; wanted.len()];
        for (place, (count, positions)) in points.counts.iter().zip(&mut wanted).enumerate() {
            // Sessions have the same ids in both folds, but not the same index.
            let id = points.ids.get(place).map(|id| id.as_deref());
            if let Some(touched) = id.and_then(|id| scratch.conversation.session(id)) {
                for entry in touched.entries() {
                    match position_of(connection, session, place, entry, &points)? {
                        Some(position) => drop(positions.insert(position)),
                        None => is_passed[place] = true,
                    }
                }
            }
            is_passed[place] &= !positions.contains(&count.saturating_sub(1));
            positions.extend(count.saturating_sub(entries.max(1))..*count);
        }
        if scope == Scope::Checkpoint {
            let mut growing = 0;
            for (place, positions) in wanted.iter().enumerate() {
                for position in positions {
                    let is_last = *position + 1 == points.counts[place];
                    each_run(connection, session, (place, *position), &points, |run| {
                        let count = run.end - run.start;
                        again += count;
                        growing += if is_last && is_passed[place] { 0 } else { count };
                    })?;
                }
            }
            if growing > FEW + tail.len() as u64 {
                return Ok(FoldedEnd::Postponed { bytes: tail_bytes });
            }
        }
        let Some(mut fold) = Fold::upon(connection, session, &points, &wanted)? else {
            // A checkpoint only saves work: if it does not match the data, fold everything.
            return all(journal);
        };
        // A checkpoint holds the gaps since the previous one, a reader wants all.
        fold.gaps = match scope {
            Scope::Entries(_) => points.gaps.into_iter().chain(gaps).collect(),
            Scope::Checkpoint => gaps,
        };
        // The tail follows the loaded entries, which are older, so the order of the log is kept.
        for record in &tail {
            fold.read(record);
        }
        if again > FEW + tail.len() as u64 {
            fold.surplus = again * (tail_bytes / (tail.len() as u64).max(1));
        }
        Ok(FoldedEnd::Folded(Box::new(fold)))
    }

    /// Folds the wanted entries of a checkpoint, and everything that is not an entry. `None` if that cannot
    /// be read.
    fn upon(
        connection: &Connection,
        session: i64,
        points: &Points,
        wanted: &[BTreeSet<usize>],
    ) -> rusqlite::Result<Option<Self>> {
        let mut records: BTreeMap<u64, Record> =
            points.rest.iter().map(|kept| (kept.sequence, kept.to_record())).collect();
        let mut touches = BTreeSet::new();
        for (place, positions) in wanted.iter().enumerate() {
            for position in positions {
                load_touches(connection, session, (place, *position), points, &mut touches)?;
            }
        }
        // A message can be in the checkpoint and in the list of an entry. It must be folded once.
        touches.retain(|sequence| !records.contains_key(sequence));
        let mut block: Option<Block> = None;
        let mut touches = touches.into_iter().peekable();
        while let Some(sequence) = touches.next() {
            let mut range = sequence..sequence + 1;
            if !block.as_ref().is_some_and(|block| block.has(&range)) {
                block = Block::around(connection, session, sequence)?;
            }
            let Some(block) = &block else { return Ok(None) };
            // Read runs of consecutive messages at once, because unpacking a block always starts at its first
            // record.
            while touches.next_if(|next| *next == range.end && block.has(&(sequence..next + 1))).is_some() {
                range.end += 1;
            }
            match block.records(connection, range)? {
                Ok(found) => records.extend(found.into_iter().map(|record| (record.sequence, record))),
                Err(_) => return Ok(None),
            }
        }
        let mut fold = Fold::new();
        for record in records.values() {
            fold.read(record);
        }
        // Discard the notes about old messages: the next checkpoint only covers new ones.
        fold.notes = Notes::default();
        fold.refused = points.refused;
        fold.base = Some(points.base);
        let sessions = fold.conversation.sessions().map(|(_, session)| session.len());
        // A mismatch means that the checkpoint does not fit the records. The caller then folds everything.
        if !sessions.eq(wanted.iter().map(BTreeSet::len)) {
            return Ok(None);
        }
        fold.loaded = wanted
            .iter()
            .zip(&points.counts)
            .map(|(positions, count)| (positions.iter().copied().collect(), *count))
            .collect();
        Ok(Some(fold))
    }

    /// Folds a record and notes its effects. An update that only changed entries can be omitted from windows
    /// without them; every other message is kept.
    fn read(&mut self, record: &Record) {
        #[cfg(test)]
        tests::FOLDED.with(|folded| folded.set(folded.get() + 1));
        let Ok(text) = std::str::from_utf8(&record.bytes) else {
            self.refused += 1;
            return;
        };
        // Session times are in milliseconds, like all times here.
        let at = record.time;
        if record.channel == Channel::Hub && apply_hub_note(&mut self.conversation, text, at) {
            self.keep(record, text, None);
        }
        let Some((side, _)) = record.channel.message() else { return };
        let common = |conversation: &Conversation| {
            (conversation.len(), *conversation.dialect(), conversation.lineage_revision())
        };
        // Compare properties of the whole conversation before and after, since an update of one entry can
        // change them.
        let before = common(&self.conversation);
        let (mut entries, mut is_rest, mut topic) = (Vec::new(), false, None);
        if is_batch(text) {
            is_rest = true;
            let (mut refused, mut is_replayed) = (0, false);
            self.conversation.read_line(text, Some(side), at, |conversation, folded| match folded {
                Ok(folded) => {
                    is_replayed |= replays(conversation, &folded);
                    note_entries(&folded, &mut entries);
                }
                Err(_) => refused += 1,
            });
            self.refused += refused;
            self.is_replayed |= is_replayed;
        } else {
            match self.conversation.decode(text) {
                Ok(decoded) => {
                    let (is_update, sets_cost) = match &decoded.message {
                        Expected::Params(params) => (true, sets_cost(&params.update)),
                        Expected::Other(_) => (false, false),
                    };
                    match self.conversation.apply(decoded, Some(side), at) {
                        Ok(folded) => {
                            self.is_replayed |= !is_update && replays(&self.conversation, &folded);
                            let only_entries = note_entries(&folded, &mut entries);
                            is_rest = !(is_update && only_entries && folded.entry.is_some());
                            if is_update && is_rest {
                                topic = Topic::of(&self.conversation, &folded, sets_cost);
                            }
                        }
                        Err(_) => self.refused += 1,
                    }
                }
                Err(_) => self.refused += 1,
            }
        }
        // Keep the first message of a session, a message that reveals the dialect, and one that changes the
        // subagent tree: they affect all later messages.
        if before != common(&self.conversation) {
            (is_rest, topic) = (true, None);
        }
        if is_rest {
            self.notes.pinned.extend(entries.iter().copied());
            self.keep(record, text, topic);
        }
        for entry in entries {
            let touches = self.notes.touches.entry(entry).or_default();
            if touches.last() != Some(&record.sequence) {
                touches.push(record.sequence);
            }
        }
    }

    fn keep(&mut self, record: &Record, text: &str, topic: Option<Topic>) {
        self.notes.rest.push(CheckpointMessage {
            sequence: record.sequence,
            time: record.time.0,
            from_client: matches!(record.channel.message(), Some((Side::Client, _))),
            is_note: record.channel == Channel::Hub,
            topic,
            text: text.to_owned(),
        });
    }

    /// Returns the position of an entry in the full session.
    fn position(&self, place: usize, index: usize) -> usize {
        match self.loaded.get(place) {
            Some((there, count)) => {
                there.get(index).copied().unwrap_or_else(|| count + index - there.len().min(index))
            }
            None => index,
        }
    }

    fn into_state(self, at: u64) -> State {
        let mut hidden: Vec<usize> = self.loaded.iter().map(|(there, count)| count - there.len()).collect();
        hidden.resize(self.conversation.sessions().count(), 0);
        State { conversation: self.conversation, at, gaps: self.gaps, refused: self.refused, hidden }
    }
}

/// Returns true if an update sets or clears the cost.
fn sets_cost(update: &v2::SessionUpdate<'_>) -> bool {
    matches!(update, v2::SessionUpdate::UsageUpdate(usage) if !matches!(usage.cost, Field::Keep))
}

/// Appends the entries that a message changed. Returns true if it changed nothing else.
fn note_entries(folded: &Folded<'_>, entries: &mut Vec<(usize, usize)>) -> bool {
    let Some(step) = &folded.step else { return true };
    let mut only_entries = true;
    for change in step.changes.iter() {
        match change {
            Change::Entry(change) => entries.push((step.session, change.position)),
            _ => only_entries = false,
        }
    }
    only_entries
}

/// Returns true if replayed history replaces entries, or will.
fn replays(conversation: &Conversation, folded: &Folded<'_>) -> bool {
    folded.step.as_ref().is_some_and(|step| {
        step.changes.iter().any(|change| *change == Change::Replayed)
            || conversation.session_at(step.session).is_some_and(|(_, session)| session.is_replaying())
    })
}

/// A chain of checkpoints, combined.
struct Points {
    base: u64,
    /// Sequence number of the last checkpoint.
    sequence: u64,
    ids: Vec<Option<String>>,
    /// For each session, the number of its entries and the ones that are always wanted.
    counts: Vec<usize>,
    pinned: Vec<BTreeSet<usize>>,
    refused: u64,
    rest: Vec<CheckpointMessage>,
    gaps: Vec<(u64, u64, String)>,
}

fn checkpoints(connection: &Connection, session: i64, at: u64) -> rusqlite::Result<Option<Points>> {
    let at = i64::try_from(at).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(
        "SELECT sequence, data FROM checkpoints WHERE session = ?1 AND sequence <= ?2 ORDER BY sequence DESC",
    )?;
    let mut rows = statement.query(params![session, at])?;
    let mut found: Vec<(u64, Checkpoint)> = Vec::new();
    while let Some(row) = rows.next()? {
        let (sequence, data) = (row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, Vec<u8>>(1)?);
        let plain = decompress(&data).ok().and_then(|plain| serde_json::from_slice(&plain).ok());
        let Some(checkpoint): Option<Checkpoint> = plain else { return Ok(None) };
        let is_base = checkpoint.base == sequence;
        found.push((sequence, checkpoint));
        if is_base {
            break;
        }
    }
    let Some((sequence, base)) = found.first().map(|(sequence, last)| (*sequence, last.base)) else {
        return Ok(None);
    };
    // A chain without its first checkpoint is unusable, because later ones only hold differences.
    if found.last().is_some_and(|(first, _)| *first != base) {
        return Ok(None);
    }
    let (ids, counts, pinned, rest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut points = Points { base, sequence, ids, counts, pinned, refused: 0, rest, gaps: Vec::new() };
    for (_, checkpoint) in found.into_iter().rev() {
        let Checkpoint { base: _, sessions, refused, rest, gaps } = checkpoint;
        points.gaps.extend(gaps);
        points.refused = refused;
        points.rest.extend(rest);
        for (place, SessionPoint { id, entries, pinned }) in sessions.into_iter().enumerate() {
            if place == points.counts.len() {
                points.ids.push(id);
                points.counts.push(0);
                points.pinned.push(BTreeSet::new());
            }
            points.counts[place] = entries;
            points.pinned[place].extend(pinned);
        }
    }
    remove_superseded(&mut points.rest);
    Ok(Some(points))
}

fn position_of(
    connection: &Connection,
    session: i64,
    place: usize,
    entry: &Entry,
    points: &Points,
) -> rusqlite::Result<Option<usize>> {
    let found = connection
        .prepare_cached(
            "SELECT position FROM entries WHERE session = ?1 AND place = ?2 AND kind = ?3 AND id = ?4
             AND sequence BETWEEN ?5 AND ?6 ORDER BY position DESC LIMIT 1",
        )?
        .query_row(
            params![
                session,
                place as i64,
                entry.kind().as_str(),
                entry.id(),
                points.base as i64,
                points.sequence as i64
            ],
            |row| row.get::<_, i64>(0),
        )
        .optional()?;
    Ok(found.and_then(|position| usize::try_from(position).ok()))
}

/// Collects the messages that changed an entry.
fn load_touches(
    connection: &Connection,
    session: i64,
    entry: (usize, usize),
    points: &Points,
    touches: &mut BTreeSet<u64>,
) -> rusqlite::Result<()> {
    each_run(connection, session, entry, points, |run| touches.extend(run))
}

/// Passes the messages that changed an entry to `take`, as ranges.
fn each_run(
    connection: &Connection,
    session: i64,
    (place, position): (usize, usize),
    points: &Points,
    mut take: impl FnMut(Range<u64>),
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "SELECT data FROM entries WHERE session = ?1 AND place = ?2 AND position = ?3
         AND sequence BETWEEN ?4 AND ?5",
    )?;
    let key = params![session, place as i64, position as i64, points.base as i64, points.sequence as i64];
    let mut rows = statement.query(key)?;
    while let Some(row) = rows.next()? {
        let data: Vec<u8> = row.get(0)?;
        let mut input = Input(&data);
        let mut at = 0_u64;
        // Damaged data ends the loop. The missing messages are noticed by the number of entries.
        while let (Some(gap), Some(count)) = (input.number(), input.number()) {
            at = at.saturating_add(gap);
            let end = at.saturating_add(count).min(points.sequence);
            take(at.min(end)..end);
            at = end;
        }
    }
    Ok(())
}

/// Encodes mostly consecutive numbers as distances and lengths.
fn runs(numbers: &[u64]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut before = 0;
    for run in numbers.chunk_by(|one, next| one + 1 == *next) {
        put(&mut data, run[0] - before);
        put(&mut data, run.len() as u64);
        before = run[0] + run.len() as u64;
    }
    data
}

/// Creates a checkpoint after the first `at` records, which have `bytes` bytes, if enough records are new.
pub(crate) fn checkpoint_if_due(
    transaction: &Transaction<'_>,
    session: i64,
    at: u64,
    bytes: u64,
) -> rusqlite::Result<()> {
    let protocol: u16 = transaction
        .prepare_cached("SELECT protocol FROM sessions WHERE number = ?1")?
        .query_row([session], |row| row.get(0))?;
    // Only version 2 sessions can be folded here.
    if protocol == 1 {
        return Ok(());
    }
    let last: Option<i64> = transaction
        .prepare_cached("SELECT size FROM checkpoints WHERE session = ?1 ORDER BY sequence DESC LIMIT 1")?
        .query_row([session], |row| row.get(0))
        .optional()?;
    // `size` is the number of bytes on the wire at which the next checkpoint is due.
    if bytes < last.map_or(INTERVAL, i64::unsigned_abs) {
        return Ok(());
    }
    // Without the journal: only records in blocks are part of a checkpoint.
    let mut fold = match Fold::of_end(transaction, session, None, at, Scope::Checkpoint)? {
        FoldedEnd::Folded(fold) => fold,
        FoldedEnd::Postponed { bytes: tail } => {
            let due = bytes + tail.max(INTERVAL);
            transaction
                .prepare_cached(
                    "UPDATE checkpoints SET size = ?2 WHERE session = ?1 AND sequence =
                     (SELECT max(sequence) FROM checkpoints WHERE session = ?1)",
                )?
                .execute(params![session, due as i64])?;
            return Ok(());
        }
    };
    if fold.conversation.sessions().any(|(_, folded)| folded.is_replaying()) {
        return Ok(());
    }
    remove_superseded(&mut fold.notes.rest);
    // A complete fold starts a new chain, in which entries may have new positions.
    let base = fold.base.unwrap_or(at);
    let mut sessions: Vec<SessionPoint> = Vec::new();
    let mut has_grown = false;
    for (place, (id, folded)) in fold.conversation.sessions().enumerate() {
        let (there, count) = fold.loaded.get(place).map_or((0, 0), |(there, count)| (there.len(), *count));
        has_grown |= folded.len() > there;
        let pinned = fold.notes.pinned.iter().filter(|(of, _)| *of == place);
        sessions.push(SessionPoint {
            id: id.map(str::to_owned),
            entries: count + folded.len() - there,
            pinned: pinned.map(|(_, index)| fold.position(place, *index)).collect(),
        });
        for (index, entry) in folded.entries().enumerate() {
            if let Some(touches) = fold.notes.touches.get(&(place, index)) {
                let position = fold.position(place, index);
                save_entry(transaction, session, (place, position, at), entry, &runs(touches))?;
            }
        }
    }
    let checkpoint =
        Checkpoint { base, sessions, refused: fold.refused, rest: fold.notes.rest, gaps: fold.gaps };
    let plain = serde_json::to_vec(&checkpoint).map_err(|error| failure(error.into()))?;
    let data = compress(&plain).map_err(|error| failure(error.into()))?;
    // After a complete fold, wait until the session has doubled, or total cost would be quadratic.
    let due = bytes + if fold.base.is_none() { bytes.max(INTERVAL) } else { INTERVAL };
    let due = if base == at && last.is_none() { bytes + INTERVAL } else { due };
    // An entry that stays the last one must not be folded again too soon either.
    let due = if has_grown { due } else { due + fold.surplus };
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO checkpoints (session, sequence, size, data) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![session, at as i64, due as i64, data])?;
    Ok(())
}

fn save_entry(
    transaction: &Transaction<'_>,
    session: i64,
    (place, position, at): (usize, usize, u64),
    entry: &Entry,
    data: &[u8],
) -> rusqlite::Result<()> {
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::indexing;
    use crate::live;
    use crate::record::About;
    use crate::schema;
    use crate::store::Settings;
    use crate::writer::{insert_session, transact};

    thread_local! {
        /// Number of records folded by this thread.
        pub(super) static FOLDED: Cell<u64> = const { Cell::new(0) };
    }

    /// Indexes a session with one message of `chunks` chunks. Returns the number of records folded.
    fn folded_for_one_message(chunks: u64) -> u64 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.sqlite3");
        let mut connection = schema::open_writer(&path, &Settings::default()).unwrap().connection;
        let text = "word ".repeat(200);
        let records: Vec<Record> = (0..chunks)
            .map(|sequence| {
                let chunk = format!(
                    r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{{"type":"text","text":"{text}"}}}}}}}}"#
                );
                Record { sequence, ..Record::new(Channel::ToClient, chunk) }
            })
            .collect();
        let session = transact(&mut connection, |transaction| {
            let session = insert_session(transaction, "s", &About::default(), Moment(0))?;
            let ends: Vec<usize> = (1..=records.len()).filter(|end| end % 200 == 0).collect();
            live::pack(transaction, session, &records, &ends)?;
            let bytes: usize = records.iter().map(|record| record.bytes.len()).sum();
            transaction.execute(
                "UPDATE sessions SET length = ?2, bytes = ?3 WHERE number = ?1",
                params![session, chunks as i64, bytes as i64],
            )?;
            Ok(session)
        })
        .unwrap();
        FOLDED.with(|folded| folded.set(0));
        while indexing::step(&mut connection, session).unwrap() {}
        let made: i64 =
            connection.query_row("SELECT count(*) FROM checkpoints", [], |row| row.get(0)).unwrap();
        assert!(made >= 2, "{made} checkpoints");
        FOLDED.with(Cell::get)
    }

    #[test]
    fn checkpoints_of_one_long_message_cost_in_proportion_to_its_length() {
        let (short, long) = (folded_for_one_message(4_000), folded_for_one_message(16_000));
        assert!(long < 6 * short, "{short} records were folded, then {long}");
        assert!(long < 6 * 16_000, "{long} records were folded");
    }
}
