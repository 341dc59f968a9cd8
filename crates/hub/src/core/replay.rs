//! Replay of a session's history from its folded state: whole messages, tool calls in their current state, and the last
//! title, plans, commands, options and usage. Text that was replaced or cleared is not sent again.
//!
//! A replay reads the log twice. The first pass builds an index: all entries, where each first appears and where it
//! last changed. The second pass goes through the index in portions and folds only the entries of one portion, so
//! memory is bounded by the largest entry and the index, not by the length of the session.
//!
//! Every item has a key, the offset that orders it. The key of an entry is the offset of its first record, so that the
//! transcript keeps its order. The key of everything else is the offset of its last record. A client that has received
//! all items up to a key, folded at an end, can resume from exactly there. It needs the items with a greater key, and
//! those that have changed since that end.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;

use switchboard_acp::detect::DialectTracker;
use switchboard_acp::extensions::HubRecord;
use switchboard_acp::rpc::Message;
use switchboard_acp::{Extra, Field, Meta, Moment, Raw, Side, Wire, WireFormat, v2};
use switchboard_session::{
    Block, Change, Content, ContentChange, Conversation, Entry, EntryField, EntryKind, FieldChange, Item,
    MAX_SUBAGENTS, Session, ToolCall, entry_of_update,
};
use switchboard_store::Channel;

use super::lines;

/// Maximum size of one portion in bytes, both in the log and as sent.
const PORTION: usize = 1024 * 1024;
/// Maximum number of items in one portion.
const ITEMS: usize = 1024;
/// Maximum size of an update in bytes. A longer entry is sent as an empty entry followed by chunks.
const WHOLE: usize = 1024 * 1024;
/// Maximum size of the text in one chunk, in bytes.
const CHUNK: usize = 256 * 1024;

/// Reads the records of a log in a range, in order. Returns the offset after the last one that exists.
pub(crate) type RecordReader<'r> =
    &'r mut dyn FnMut(Range<u64>, &mut dyn FnMut(u64, Channel, &str)) -> Result<u64, String>;

/// A decoded cursor: the client has all items up to `key`, folded at the offset `end`. A client that has followed the
/// session live up to a record has everything as of that record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) key: u64,
    pub(crate) end: u64,
}

impl Cursor {
    /// Returns the cursor after a record that was received live.
    pub(crate) fn live(sequence: u64) -> Self {
        Cursor { key: sequence, end: sequence + 1 }
    }

    /// Returns whether the cursor may come from live records rather than from a replay.
    pub(crate) fn is_live(self) -> bool {
        self.end == self.key + 1
    }
}

/// A line of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplayLine {
    /// The notification, with the agent's session ids.
    pub(crate) text: String,
    /// Cursor of the client after this line; `None` if more lines belong to the same item.
    pub(crate) held: Option<Cursor>,
    /// True if the client already has it, and only the translator of its connection needs it.
    pub(crate) is_known: bool,
}

/// A replay for one client, in progress.
#[derive(Debug, Clone)]
pub(crate) struct Replay {
    /// Distinguishes the replays of a client.
    pub(crate) ticket: u64,
    stages: VecDeque<Stage>,
    /// Lines that are produced but not delivered.
    ready: VecDeque<ReplayLine>,
    end: u64,
    unreadable: usize,
}

/// Replays are identified by their tickets.
impl PartialEq for Replay {
    fn eq(&self, other: &Self) -> bool {
        self.ticket == other.ticket
    }
}

impl Eq for Replay {}

/// One pass of a replay over the log.
#[derive(Debug, Clone)]
struct Stage {
    /// The part of the history that the client has.
    held: Option<Cursor>,
    /// True if the stage only primes the translator with history that the client already has.
    is_known: bool,
    end: u64,
    index: Option<Index>,
}

impl Replay {
    /// Creates a replay of the first `end` records, without the part that the client has. A translator must see that
    /// part, too, before it can translate the rest.
    pub(crate) fn new(ticket: u64, held: Option<Cursor>, end: u64, is_translated: bool) -> Self {
        // Two stages for a translated client: first the part that it has, which only primes the translator, then the
        // missing part. The first stage is folded at the end that the client saw, not at the current one.
        let known = held.filter(|_| is_translated).map(|held| Stage {
            held: Some(held),
            is_known: true,
            end: held.end.min(end),
            index: None,
        });
        let missing = Stage { held, is_known: false, end, index: None };
        let stages = known.into_iter().chain([missing]).collect();
        Replay { ticket, stages, ready: VecDeque::new(), end, unreadable: 0 }
    }

    /// Returns the offset after the part of the log that the client has.
    pub(crate) fn held(&self) -> u64 {
        self.stages.front().and_then(|stage| stage.held).map_or(0, |held| held.key + 1)
    }

    /// Returns whether no line has been produced yet.
    pub(crate) fn is_new(&self) -> bool {
        self.ready.is_empty() && self.stages.front().is_some_and(|stage| stage.index.is_none())
    }

    /// Returns the offset from which the client continues live after the replay.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns whether all lines have been delivered.
    pub(crate) fn is_done(&self) -> bool {
        self.stages.is_empty() && self.ready.is_empty()
    }

    /// Returns the number of updates that could not be decoded and are not sent.
    pub(crate) fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// Produces the next lines: at least one, unless the replay is done.
    pub(crate) fn next(&mut self, records: RecordReader<'_>) -> Result<Vec<ReplayLine>, String> {
        while self.ready.is_empty() {
            let Some(stage) = self.stages.front_mut() else { return Ok(Vec::new()) };
            let index = match &mut stage.index {
                Some(index) => index,
                None => {
                    // First pass over the log. The index stays with the replay, so later portions read only their own
                    // records.
                    let index = Builder::build(stage.end, records)?;
                    // Only the last stage covers the whole log.
                    if !stage.is_known {
                        // Live delivery continues exactly after the records that the index has seen.
                        self.end = index.end;
                        self.unreadable = index.unreadable;
                    }
                    stage.index.insert(index)
                }
            };
            index.fill(stage.held, stage.is_known, records, &mut self.ready)?;
            if index.position >= index.items.len() {
                self.stages.pop_front();
            }
        }
        let (mut lines, mut bytes) = (Vec::new(), 0);
        // The portion is cut by size, so that one call of the main task sends a bounded amount and the send window is
        // checked in between.
        while bytes < PORTION
            && let Some(line) = self.ready.pop_front()
        {
            bytes += line.text.len();
            lines.push(line);
        }
        Ok(lines)
    }
}

/// Index of a log, without its content.
#[derive(Debug, Clone)]
struct Index {
    /// Ordered by key.
    items: Vec<IndexItem>,
    /// The agent's session ids. The first is the last id of the session itself; its earlier ids are listed separately.
    names: Vec<String>,
    dialect: DialectTracker,
    /// End of the log that was read.
    end: u64,
    /// Index of the next item to send.
    position: usize,
    unreadable: usize,
}

/// An item of the history: an entry of the transcript, or another update.
#[derive(Debug, Clone)]
struct IndexItem {
    key: u64,
    /// Offsets of the first and the last record of the item.
    first: u64,
    last: u64,
    /// Size of these records in bytes.
    bytes: usize,
    session: usize,
    kind: ItemKind,
    /// Id for clients, if a later entry has the same one. An agent that has lost a session and opened a new one may
    /// reuse ids.
    alias: Option<String>,
}

/// Kind of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ItemKind {
    Entry(EntryKind, Box<str>),
    /// The last record about a plan.
    Plan {
        is_removed: bool,
    },
    /// A record that is sent as it is: an update of an unknown kind, a notice, another notification.
    Record,
    /// A record with the state of the session itself. A resuming client needs all of them, to know which turns have
    /// ended. A client that gets the whole history gets the last one after it.
    State,
    /// An update with session state other than the transcript.
    CurrentState(String),
}

impl IndexItem {
    /// Returns whether a client needs the item after this cursor.
    fn is_wanted(&self, held: Option<Cursor>, is_known: bool) -> bool {
        let is_removed = self.kind == ItemKind::Plan { is_removed: true };
        match held {
            // The whole history ends with the current state, so earlier states are not sent.
            None if self.kind == ItemKind::State => false,
            // The translator gets what the client has: everything up to the key of the cursor.
            Some(held) if is_known => self.key <= held.key && !is_removed,
            // A removed plan matters only to a client that has seen the plan.
            Some(held) if is_removed => self.last >= held.end && self.first <= held.key,
            // Missing items, and items that have changed since the client saw them.
            Some(held) => self.key > held.key || self.last >= held.end,
            None => !is_removed,
        }
    }
}

/// Kind of session state other than the transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum StateKind {
    Info,
    Commands,
    Options,
    Usage,
    State,
}

/// Builds the index of a log in one pass.
struct Builder {
    /// Folds the session state.
    conversation: Conversation,
    items: Vec<IndexItem>,
    entries: HashMap<(usize, EntryKind, Box<str>), usize>,
    plans: HashMap<(usize, String), usize>,
    /// Offset of the last change of each kind of state of a session.
    states_of: BTreeMap<(usize, StateKind), u64>,
    /// Merged session information, key by key. A key that was cleared remains with the value `null`.
    information: HashMap<usize, BTreeMap<String, String>>,
    numbers: HashMap<String, usize>,
    names: Vec<String>,
    own: Vec<String>,
    unreadable: usize,
}

impl Builder {
    fn build(end: u64, records: RecordReader<'_>) -> Result<Index, String> {
        let conversation = Conversation::new(WireFormat::Any).without_transcript();
        let mut builder = Builder {
            conversation: conversation.with_session_limit(MAX_SUBAGENTS + 1),
            items: Vec::new(),
            entries: HashMap::new(),
            plans: HashMap::new(),
            states_of: BTreeMap::new(),
            information: HashMap::new(),
            numbers: HashMap::new(),
            names: vec![String::new()],
            own: Vec::new(),
            unreadable: 0,
        };
        let read = records(0..end, &mut |sequence, channel, text| builder.add(sequence, channel, text))?;
        Ok(builder.finish(read.min(end)))
    }

    /// Returns the number of a session. All ids of the session itself have the same number.
    fn number(&mut self, session: &str) -> usize {
        if self.own.iter().any(|own| own == session) { 0 } else { self.number_of_id(session) }
    }

    /// Returns the number of a session id. Entries with the same id in two session ids are different entries.
    fn number_of_id(&mut self, session: &str) -> usize {
        if let Some(number) = self.numbers.get(session) {
            return *number;
        }
        self.names.push(session.to_owned());
        self.numbers.insert(session.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }

    fn add(&mut self, sequence: u64, channel: Channel, text: &str) {
        let side = match channel {
            Channel::ToClient => Side::Agent,
            Channel::ToAgent => Side::Client,
            Channel::Hub => return self.add_hub_record(text),
            _ => return,
        };
        let Ok(message) = Message::decode(text, WireFormat::Any) else { return };
        // Indexes the item that the message belongs to. The fold below only tracks the other session state.
        if side == Side::Agent {
            self.apply_agent_message(sequence, text.len(), &message);
        }
        let Ok(folded) = self.conversation.apply_message(&message, Some(side), Moment::default()) else {
            return;
        };
        let Some(step) = folded.step else { return };
        let Some(session) = self.conversation.id_at(step.session).map(ToString::to_string) else { return };
        let number = self.number(&session);
        for change in step.changes.iter() {
            let state_kind = match change {
                Change::Title | Change::Info => StateKind::Info,
                Change::Commands => StateKind::Commands,
                Change::ConfigOptions => StateKind::Options,
                Change::Usage => StateKind::Usage,
                Change::State => StateKind::State,
                _ => continue,
            };
            self.states_of.insert((number, state_kind), sequence);
            if *change == Change::Title && matches!(message, Message::Response(_)) {
                let title = self.conversation.session(Some(&session)).and_then(|session| session.title());
                let title = title.map_or_else(|| "null".to_owned(), lines::quoted);
                self.information.entry(number).or_default().insert("title".to_owned(), title);
            }
        }
    }

    fn add_hub_record(&mut self, text: &str) {
        let Some(HubRecord::AgentSession(record)) = HubRecord::parse(text) else { return };
        let id = record.id.into_owned();
        if let Some(before) = self.own.last().filter(|before| **before != id) {
            // The agent has lost the session and continues under a new id. For clients it is the same session.
            self.conversation.rename(before, &id);
        }
        self.own.retain(|own| *own != id);
        self.own.push(id);
    }

    fn apply_agent_message(&mut self, sequence: u64, bytes: usize, message: &Message<'_>) {
        match message {
            Message::Notification(call) if call.method == "session/update" => {
                let Some(params) = &call.params else { return };
                let read = v2::UpdateSessionNotification::decode_tolerant(params.as_str(), WireFormat::Any);
                match read {
                    Ok((notification, _)) => self.update(sequence, bytes, &notification, params),
                    Err(_) => self.unreadable += 1,
                }
            }
            Message::Notification(call) if call.method != "$/cancel_request" => {
                self.push(sequence, bytes, 0, ItemKind::Record);
            }
            // A question updates its tool call, as an update does.
            Message::Request(request) => {
                if let Some((session, call)) = asked_about(request.params.as_ref()) {
                    let number = self.number_of_id(&session);
                    self.touch(sequence, bytes, number, EntryKind::ToolCall, &call.tool_call_id);
                }
            }
            _ => {}
        }
    }

    fn update(
        &mut self,
        sequence: u64,
        bytes: usize,
        notification: &v2::UpdateSessionNotification<'_>,
        params: &Raw<'_>,
    ) {
        let update = &notification.update;
        if let Some((kind, id)) = entry_of_update(update) {
            let number = self.number_of_id(&notification.session_id);
            return self.touch(sequence, bytes, number, kind, id);
        }
        let number = self.number(&notification.session_id);
        match update {
            v2::SessionUpdate::PlanUpdate(_) | v2::SessionUpdate::PlanRemoved(_) => {
                let is_removed = matches!(update, v2::SessionUpdate::PlanRemoved(_));
                let update = params.get("update");
                let id = |object: &Raw<'_>| object.text("planId");
                let plan = update.as_ref().and_then(|update| update.get("plan").and_then(|plan| id(&plan)));
                let plan = plan.or_else(|| update.as_ref().and_then(id)).unwrap_or_default();
                let kind = ItemKind::Plan { is_removed };
                match self.plans.get(&(number, plan.clone())).and_then(|at| self.items.get_mut(*at)) {
                    Some(item) => {
                        // Only the last version of a plan is sent, at its new position.
                        (item.key, item.last, item.bytes, item.kind) = (sequence, sequence, bytes, kind);
                    }
                    None => {
                        self.plans.insert((number, plan), self.items.len());
                        self.push(sequence, bytes, number, kind);
                    }
                }
            }
            v2::SessionUpdate::SessionInfoUpdate(_) => {
                let known = self.information.entry(number).or_default();
                let update = params.get("update");
                for (key, value) in update.iter().flat_map(Raw::entries) {
                    if key == "sessionUpdate" {
                        continue;
                    }
                    let before = known.get("_meta").filter(|_| key == "_meta");
                    let value = match before.and_then(|before| Raw::parse(before.clone()).ok()) {
                        Some(before) if value.is_object() && before.is_object() => {
                            let set: Vec<_> = value.entries().collect();
                            let set: Vec<(&str, &str)> =
                                set.iter().map(|(key, value)| (&**key, value.as_str())).collect();
                            lines::merged(Some(&before), &set)
                        }
                        _ => value.as_str().to_owned(),
                    };
                    known.insert(key.to_string(), value);
                }
                self.states_of.insert((number, StateKind::Info), sequence);
            }
            v2::SessionUpdate::StateUpdate(_) if number == 0 => {
                self.push(sequence, bytes, number, ItemKind::State);
            }
            v2::SessionUpdate::StateUpdate(_)
            | v2::SessionUpdate::AvailableCommandsUpdate(_)
            | v2::SessionUpdate::ConfigOptionUpdate(_)
            | v2::SessionUpdate::UsageUpdate(_) => {}
            _ => self.push(sequence, bytes, number, ItemKind::Record),
        }
    }

    fn push(&mut self, sequence: u64, bytes: usize, session: usize, kind: ItemKind) {
        let (key, first, last) = (sequence, sequence, sequence);
        self.items.push(IndexItem { key, first, last, bytes, session, kind, alias: None });
    }

    /// Extends an entry by a record, or adds the entry.
    fn touch(&mut self, sequence: u64, bytes: usize, session: usize, kind: EntryKind, id: &str) {
        let key = (session, kind, Box::from(id));
        match self.entries.get(&key).and_then(|at| self.items.get_mut(*at)) {
            Some(item) => {
                // The key stays at the first record, so that the entry keeps its position in the transcript.
                item.last = sequence;
                item.bytes += bytes;
            }
            None => {
                self.entries.insert(key, self.items.len());
                self.push(sequence, bytes, session, ItemKind::Entry(kind, id.into()));
            }
        }
    }

    /// Completes the index: adds the state updates and orders the items.
    fn finish(mut self, end: u64) -> Index {
        if let (Some(own), Some(name)) = (self.own.last(), self.names.first_mut()) {
            name.clone_from(own);
        }
        for ((number, state_kind), sequence) in std::mem::take(&mut self.states_of) {
            // The state of the session itself is sent after its history.
            if (number, state_kind) == (0, StateKind::State) {
                continue;
            }
            if let Some(update) = self.state_update_of(number, state_kind) {
                self.push(sequence, update.len(), number, ItemKind::CurrentState(update));
            }
        }
        self.disambiguate_ids();
        let Builder { conversation, mut items, names, unreadable, .. } = self;
        // State updates were appended last; their keys put them between the entries.
        items.sort_by_key(|item| item.key);
        let dialect = *conversation.dialect();
        Index { items, names, dialect, end, position: 0, unreadable }
    }

    /// Assigns other ids to messages and tool calls whose ids were reused after the agent had lost the session. For
    /// clients, both are in one session.
    fn disambiguate_ids(&mut self) {
        let own: Vec<Option<usize>> = self.own.iter().map(|own| self.numbers.get(own).copied()).collect();
        let mut later: HashSet<(EntryKind, &str)> = HashSet::new();
        let mut aliases = Vec::new();
        for (epoch, number) in own.iter().enumerate().rev() {
            let entries = || {
                let of_epoch =
                    self.items.iter().enumerate().filter(|(_, item)| Some(item.session) == *number);
                of_epoch.filter_map(|(at, item)| match &item.kind {
                    ItemKind::Entry(kind, id) if id_key(*kind).is_some() => Some((at, *kind, &**id)),
                    _ => None,
                })
            };
            for (at, kind, id) in entries() {
                if later.contains(&(kind, id)) {
                    aliases.push((at, format!("{id}~{epoch}")));
                }
            }
            later.extend(entries().map(|(_, kind, id)| (kind, id)));
        }
        for (at, alias) in aliases {
            if let Some(item) = self.items.get_mut(at) {
                item.alias = Some(alias);
            }
        }
    }

    /// Returns the update with one kind of session state.
    fn state_update_of(&self, number: usize, state_kind: StateKind) -> Option<String> {
        if state_kind == StateKind::Info {
            let known = self.information.get(&number)?;
            let set = known.iter().map(|(key, value)| (&**key, &**value));
            let set: Vec<(&str, &str)> =
                [("sessionUpdate", "\"session_info_update\"")].into_iter().chain(set).collect();
            return Some(lines::merged(None, &set));
        }
        let session: &Session = self.conversation.session(self.names.get(number).map(String::as_str))?;
        let update = match state_kind {
            StateKind::Commands => {
                let mut update = v2::AvailableCommandsUpdate::new(session.lists().1?.to_vec());
                if let Some(attached) = session.commands_attached() {
                    (update.meta, update.extra) = (attached.meta.clone(), attached.extra.clone());
                }
                v2::SessionUpdate::AvailableCommandsUpdate(update)
            }
            StateKind::Options => {
                let mut update = v2::ConfigOptionUpdate::new(session.lists().0?.to_vec());
                if let Some(attached) = session.config_options_attached() {
                    (update.meta, update.extra) = (attached.meta.clone(), attached.extra.clone());
                }
                v2::SessionUpdate::ConfigOptionUpdate(update)
            }
            StateKind::Usage => {
                let usage = session.usage()?;
                let mut update = v2::UsageUpdate::new(usage.used, usage.size);
                update.cost = usage.cost.clone().map_or(Field::Keep, Field::Set);
                (update.meta, update.extra) = (usage.meta.clone(), usage.extra.clone());
                v2::SessionUpdate::UsageUpdate(Box::new(update))
            }
            StateKind::State => v2::SessionUpdate::StateUpdate(Box::new(session.state()?.clone())),
            StateKind::Info => return None,
        };
        Some(update.encode(WireFormat::Any))
    }
}

/// Returns the tool call of a question and its session.
fn asked_about(params: Option<&Raw<'_>>) -> Option<(String, v2::ToolCallUpdate<'static>)> {
    let params = params?;
    let session = params.text("sessionId")?;
    let call = params.get("subject")?.get("toolCall")?.into_owned();
    let (call, _) = v2::ToolCallUpdate::decode_tolerant(call.as_str(), WireFormat::Any).ok()?;
    Some((session, call.into_owned()))
}

/// Returns the key of the id of an entry, if it can be replaced.
fn id_key(kind: EntryKind) -> Option<&'static str> {
    match kind {
        EntryKind::UserMessage | EntryKind::AgentMessage | EntryKind::AgentThought => Some("messageId"),
        EntryKind::ToolCall => Some("toolCallId"),
        _ => None,
    }
}

/// History of an entry during folding.
#[derive(Debug, Default)]
struct EntryHistory {
    /// Number of content items that arrived in one update rather than in chunks. Their boundaries are the agent's.
    together: usize,
    /// Fields that had a value earlier. If they have none now, a client with the old value must be told.
    cleared: HashSet<EntryField>,
    is_content_cleared: bool,
}

impl Index {
    /// Produces the lines of the next items.
    fn fill(
        &mut self,
        held: Option<Cursor>,
        is_known: bool,
        records: RecordReader<'_>,
        ready: &mut VecDeque<ReplayLine>,
    ) -> Result<(), String> {
        // Selects items until the portion is full. At least one is selected, however large it is, so a replay always
        // makes progress.
        let mut chosen: Vec<usize> = Vec::new();
        let mut bytes = 0;
        while bytes < PORTION
            && chosen.len() < ITEMS
            && let Some(item) = self.items.get(self.position)
        {
            if item.is_wanted(held, is_known) {
                bytes += item.bytes;
                chosen.push(self.position);
            }
            self.position += 1;
        }
        // Second pass: reads only the range of the log that contains the selected items.
        let (fold, histories, kept) = self.fold(&chosen, records)?;
        for at in chosen {
            let Some(item) = self.items.get(at) else { continue };
            let name = self.names.get(item.session).map_or("", String::as_str);
            let texts: Vec<String> = match &item.kind {
                ItemKind::Entry(kind, id) => {
                    let entry = fold.session(Some(name)).and_then(|session| session.find(*kind, id));
                    let history = histories.get(&at);
                    let updates =
                        entry.map(|entry| updates_of(entry, history.unwrap_or(&EntryHistory::default())));
                    let updates = updates.unwrap_or_default();
                    let named = updates.into_iter().map(|update| match (&item.alias, id_key(*kind)) {
                        (Some(alias), Some(key)) => {
                            let object = Raw::parse(&*update).ok();
                            lines::merged(object.as_ref(), &[(key, &lines::quoted(alias))])
                        }
                        _ => update,
                    });
                    named.map(|update| lines::update(name, &update)).collect()
                }
                ItemKind::CurrentState(update) => vec![lines::update(name, update)],
                ItemKind::Plan { .. } | ItemKind::Record | ItemKind::State => {
                    kept.get(&item.key).cloned().into_iter().collect()
                }
            };
            // The cursor after a key includes all items with that key.
            let mut later = self.items.get(at + 1..).unwrap_or_default().iter();
            let more = later.find(|later| later.key != item.key || later.is_wanted(held, is_known));
            let has_more = more.is_some_and(|more| more.key == item.key);
            // An item with an older key that has changed is sent without a cursor: it must not move the client
            // backwards.
            let is_again = held.is_some_and(|held| item.key <= held.key);
            let count = texts.len();
            for (offset, text) in texts.into_iter().enumerate() {
                let is_last = offset + 1 == count && !has_more && !is_again && !is_known;
                let held = is_last.then_some(Cursor { key: item.key, end: self.end });
                ready.push_back(ReplayLine { text, held, is_known });
            }
        }
        Ok(())
    }

    /// Folds the selected entries, and keeps the selected records as they are.
    #[allow(clippy::type_complexity)]
    fn fold(
        &self,
        chosen: &[usize],
        records: RecordReader<'_>,
    ) -> Result<(Conversation, HashMap<usize, EntryHistory>, HashMap<u64, String>), String> {
        let mut fold = Conversation::new(WireFormat::Any);
        // The dialect was detected over the whole log; a part of it might not show it.
        fold.set_dialect(self.dialect);
        let (mut histories, mut kept) = (HashMap::new(), HashMap::new());
        let mut entries: HashMap<(usize, EntryKind, &str), usize> = HashMap::new();
        let mut wanted: HashSet<u64> = HashSet::new();
        let mut range: Option<Range<u64>> = None;
        for at in chosen {
            let Some(item) = self.items.get(*at) else { continue };
            let from = match &item.kind {
                ItemKind::CurrentState(_) => continue,
                ItemKind::Entry(kind, id) => {
                    entries.insert((item.session, *kind, id), *at);
                    item.first
                }
                ItemKind::Plan { .. } | ItemKind::Record | ItemKind::State => {
                    wanted.insert(item.key);
                    item.key
                }
            };
            let before = range.unwrap_or(from..from);
            // One contiguous range for all selected items, so the log is read once per portion.
            range = Some(before.start.min(from)..before.end.max(item.last + 1));
        }
        let numbers: HashMap<&str, usize> =
            self.names.iter().enumerate().skip(1).map(|(number, name)| (&**name, number)).collect();
        let number = |session: &str| numbers.get(session).copied();
        let mut apply = |session: &str, update: &v2::SessionUpdate<'_>| {
            let Some((kind, id)) = entry_of_update(update) else { return };
            let Some(number) = number(session) else { return };
            let Some(at) = entries.get(&(number, kind, id)) else { return };
            let Ok(folded) = fold.apply_update(self.names.get(number).map(String::as_str), update) else {
                return;
            };
            let changes = folded.step.iter().flat_map(|step| step.changes.iter());
            for change in changes {
                if let Change::Entry(change) = change {
                    let history: &mut EntryHistory = histories.entry(*at).or_default();
                    if let ContentChange::Replaced(count) = change.content {
                        history.together = count;
                        history.is_content_cleared = count == 0;
                    }
                    let cleared = change.fields.iter().filter(|(_, change)| *change == FieldChange::Cleared);
                    history.cleared.extend(cleared.map(|(field, _)| field));
                }
            }
        };
        if let Some(range) = range {
            records(range, &mut |sequence, channel, text| {
                if channel != Channel::ToClient {
                    return;
                }
                // These records are sent as they are and need no fold.
                if wanted.contains(&sequence) {
                    kept.insert(sequence, text.to_owned());
                    return;
                }
                match Message::decode(text, WireFormat::Any) {
                    Ok(Message::Notification(call)) if call.method == "session/update" => {
                        let Some(params) = &call.params else { return };
                        let read =
                            v2::UpdateSessionNotification::decode_tolerant(params.as_str(), WireFormat::Any);
                        if let Ok((notification, _)) = read {
                            apply(&notification.session_id, &notification.update);
                        }
                    }
                    Ok(Message::Request(request)) => {
                        if let Some((session, call)) = asked_about(request.params.as_ref()) {
                            apply(&session, &v2::SessionUpdate::from(call));
                        }
                    }
                    _ => {}
                }
            })?;
        }
        Ok((fold, histories, kept))
    }
}

/// Returns the updates that produce an entry whatever a client has of it: one, or if that is too long, one that clears
/// it and chunks that fill it.
fn updates_of(entry: &Entry, history: &EntryHistory) -> Vec<String> {
    let (meta, extra) = (entry.meta(), entry.extra());
    if let Some(message) = entry.as_message() {
        let whole = |content: Vec<v2::ContentBlock<'_>>| {
            let update = v2::MessageUpdate {
                content: Field::Set(content),
                meta: set(meta.cloned()),
                extra: extra.clone(),
                ..v2::MessageUpdate::new(entry.id())
            };
            let update = match message.kind() {
                EntryKind::UserMessage => v2::SessionUpdate::UserMessage(update),
                EntryKind::AgentThought => v2::SessionUpdate::AgentThought(update),
                _ => v2::SessionUpdate::AgentMessage(update),
            };
            vec![with_cleared(&update.encode(WireFormat::Any), history, None)]
        };
        let chunk = |content: v2::ContentBlock<'_>, meta: Option<Meta<'_>>, extra: Extra<'_>| {
            let chunk = v2::ContentChunk { meta, extra, ..v2::ContentChunk::new(entry.id(), content) };
            let update = match message.kind() {
                EntryKind::UserMessage => v2::SessionUpdate::UserMessageChunk(chunk),
                EntryKind::AgentThought => v2::SessionUpdate::AgentThoughtChunk(chunk),
                _ => v2::SessionUpdate::AgentMessageChunk(chunk),
            };
            update.encode(WireFormat::Any)
        };
        return whole_or_chunks(message.content(), history, whole, chunk);
    }
    if let Some(call) = entry.as_tool_call() {
        let whole = |content: Vec<v2::ToolCallContent<'_>>| whole_call(entry, call, content, history);
        let chunk = |content: v2::ToolCallContent<'_>, meta: Option<Meta<'_>>, extra: Extra<'_>| {
            let chunk = v2::ToolCallContentChunk {
                meta,
                extra,
                ..v2::ToolCallContentChunk::new(entry.id(), content)
            };
            v2::SessionUpdate::ToolCallContentChunk(chunk).encode(WireFormat::Any)
        };
        return whole_or_chunks(call.content(), history, whole, chunk);
    }
    let content = match entry.kind() {
        EntryKind::Terminal => Some(("output", "null")),
        EntryKind::Compaction => Some(("summary", "[]")),
        EntryKind::SessionMessage => Some(("content", "[]")),
        _ => None,
    };
    vec![with_cleared(&entry.to_update().encode(WireFormat::Any), history, content)]
}

/// Returns a tool call in its current state, in as many updates as keep each short enough.
fn whole_call(
    entry: &Entry,
    call: &ToolCall,
    content: Vec<v2::ToolCallContent<'_>>,
    history: &EntryHistory,
) -> Vec<String> {
    let locations = Some(call.locations()).filter(|locations| !locations.is_empty());
    let mut update = v2::ToolCallUpdate {
        name: set(call.name().map(Into::into)),
        title: set(call.title().map(Into::into)),
        kind: Field::Set(call.kind().clone()),
        status: Field::Set(call.status().clone()),
        content: Field::Set(content),
        locations: set(locations.map(<[_]>::to_vec)),
        raw_input: set(call.raw_input().cloned()),
        raw_output: set(call.raw_output().cloned()),
        capabilities: set(call.capabilities().cloned()),
        meta: set(entry.meta().cloned()),
        extra: entry.extra().clone(),
        ..v2::ToolCallUpdate::new(entry.id())
    };
    let long = |raw: Option<&Raw<'_>>| raw.is_some_and(|raw| raw.as_str().len() > WHOLE);
    let mut rest = Vec::new();
    if long(call.raw_output()) {
        let raw_output = std::mem::take(&mut update.raw_output);
        rest.push(v2::ToolCallUpdate { raw_output, ..v2::ToolCallUpdate::new(entry.id()) });
    }
    if long(call.raw_input()) {
        let raw_input = std::mem::take(&mut update.raw_input);
        rest.push(v2::ToolCallUpdate { raw_input, ..v2::ToolCallUpdate::new(entry.id()) });
    }
    let first = with_cleared(&v2::SessionUpdate::from(update).encode(WireFormat::Any), history, None);
    let rest = rest.into_iter().map(|update| v2::SessionUpdate::from(update).encode(WireFormat::Any));
    std::iter::once(first).chain(rest).collect()
}

/// A run of text, or another content item.
enum Piece<'c, B: Block> {
    Text(String),
    Item(Item<'c, B>),
}

/// Returns content as one update; as an empty one and chunks if it is too long or chunks had their own metadata.
fn whole_or_chunks<'c, B: Block>(
    content: &'c Content<B>,
    history: &EntryHistory,
    whole: impl Fn(Vec<B::Wire<'_>>) -> Vec<String>,
    chunk: impl Fn(B::Wire<'_>, Option<Meta<'_>>, Extra<'_>) -> String,
) -> Vec<String> {
    let mut pieces: Vec<Piece<'c, B>> = Vec::new();
    let mut has_metadata = false;
    for (offset, item) in content.items().enumerate() {
        let has_own =
            item.chunk_meta().is_some() || item.chunk_extra().is_some_and(|extra| !extra.is_empty());
        has_metadata |= has_own;
        let text = item.text().filter(|_| item.structured().is_none() && !has_own);
        match (text, pieces.last_mut()) {
            // Text that arrived in chunks is joined; blocks that arrived together stay separate.
            (Some(text), Some(Piece::Text(run))) if offset >= history.together => run.push_str(text),
            (Some(text), _) => pieces.push(Piece::Text(text.to_owned())),
            (None, _) => pieces.push(Piece::Item(item)),
        }
    }
    if !has_metadata && content.text_len() <= WHOLE {
        let blocks = pieces.iter().map(|piece| match piece {
            Piece::Text(text) => B::from_text(text),
            Piece::Item(item) => item.block(),
        });
        let updates = whole(blocks.collect());
        if updates.iter().all(|update| update.len() <= WHOLE) {
            return updates;
        }
    }
    let mut updates = whole(Vec::new());
    for piece in &pieces {
        match piece {
            Piece::Text(text) => {
                let mut rest = text.as_str();
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(rest.floor_char_boundary(CHUNK));
                    updates.push(chunk(B::from_text(now), None, Extra::new()));
                    rest = later;
                }
            }
            Piece::Item(item) => {
                let extra = item.chunk_extra().cloned().unwrap_or_default();
                updates.push(chunk(item.block(), item.chunk_meta().cloned(), extra));
            }
        }
    }
    updates
}

/// Returns an update that also clears fields without a value.
fn with_cleared(update: &str, history: &EntryHistory, content: Option<(&str, &str)>) -> String {
    let Ok(object) = Raw::parse(update) else { return update.to_owned() };
    let content = content.filter(|_| history.is_content_cleared);
    let cleared = history.cleared.iter().map(|field| (field.key(), "null")).chain(content);
    let missing: Vec<(&str, &str)> =
        cleared.filter(|(key, _)| !key.is_empty() && object.get(key).is_none()).collect();
    if missing.is_empty() { update.to_owned() } else { lines::merged(Some(&object), &missing) }
}

fn set<T>(value: Option<T>) -> Field<T> {
    value.map_or(Field::Keep, Field::Set)
}
