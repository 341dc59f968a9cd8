//! The rows of a recording, one per record, and the sessions folded from the records.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use switchboard_acp::rpc::{Expected, Message, RequestId, messages};
use switchboard_acp::{Correlator, Diagnostic, Raw, Wire, WireFormat, v2};
use switchboard_bridge::{LossPolicy, RecordingBridge, Version};
use switchboard_session::{Conversation, ConversationError, Decoded, EntryKind, Folded, Moment, Side};
use switchboard_store::{Channel, Record, apply_hub_note};

use super::checkpoints::Checkpoints;
use super::entry_times::{CostAt, EntryTimes, Times};
use super::names::Names;
use super::rates::Rates;
use super::reading::in_words;
use super::subagents;

/// Number of bytes of the latest messages kept in memory, because the store may not return them yet.
const RECENT: usize = 4 * 1024 * 1024;

/// Maximum number of problems kept with their reason; later ones are only marked.
const MAX_PROBLEMS: usize = 10_000;

/// Maximum size of the description of malformed parts of one entry, in bytes.
const MAX_FAULT: usize = 16 * 1024;

/// Maximum number of tracked requests without a response; beyond it the oldest are dropped.
const MAX_OPEN: usize = 10_000;

/// Sentinel for a missing row or entity.
const NONE: u32 = u32::MAX;

/// Attributes of a record for lists and filters.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Unix milliseconds.
    pub(crate) time: i64,
    pub(crate) size: u32,
    pub(crate) channel: Channel,
    pub(crate) shape: Shape,
    /// Number of the method's name. A response has that of its request.
    pub(crate) method: u16,
    /// Number of the update kind's name.
    pub(crate) kind: u16,
    /// Number of the session's id on the wire.
    pub(crate) session: u16,
    /// `true` if the record is malformed or reports a problem.
    pub(crate) is_problem: bool,
    /// Row of the response for a request, and of the request for a response.
    partner: u32,
    /// Index of the entry that the record created or changed.
    entity: u32,
}

/// The form of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Request,
    Notification,
    Result,
    Error,
    /// Not a message: stderr, a process event, a loss, an invalid line.
    Note,
}

impl Row {
    pub(crate) fn partner(&self) -> Option<usize> {
        (self.partner != NONE).then_some(self.partner as usize)
    }
}

/// Key of an entry, independent of its position. The first element is the number of the session's name.
type Entity = (u16, EntryKind, Arc<str>);

/// The sessions of a recording, folded from its messages.
struct Fold {
    conversation: Conversation,
    /// Translates a recording that contains only version 1.
    translation: Option<Box<RecordingBridge>>,
    checkpoints: Checkpoints,
    /// Ids of the sessions by index.
    ids: Vec<Box<str>>,
}

impl Fold {
    fn new(protocol: u16) -> Self {
        let translation =
            (protocol == 1).then(|| Box::new(RecordingBridge::with_policy(Version::V2, LossPolicy::Quiet)));
        Fold {
            conversation: Conversation::new(WireFormat::Any),
            translation,
            checkpoints: Checkpoints::default(),
            ids: Vec::new(),
        }
    }

    /// Adds the ids of new sessions up to an index.
    fn learn_id(&mut self, place: usize) {
        if self.ids.len() <= place {
            let new = self.conversation.sessions().skip(self.ids.len());
            self.ids.extend(new.map(|(id, _)| Box::from(id.unwrap_or_default())));
        }
    }
}

/// A recording for display: its rows, and its sessions.
pub(crate) struct MessageLog {
    rows: Vec<Row>,
    names: Names,
    fold: Fold,
    /// Rows of pending requests: on the side that is shown, and on the other side of a translation.
    open: [Correlator<u32>; 2],
    /// Rows of permission requests, by id as JSON. For a reused id, the latest row.
    permissions: HashMap<Box<str>, u32>,
    entities: HashMap<(u16, EntryKind), HashMap<Arc<str>, u32>>,
    entity_list: Vec<Entity>,
    times: EntryTimes,
    problems: HashMap<u32, String>,
    /// Descriptions of malformed parts, by entry.
    faults: HashMap<u32, String>,
    recent: VecDeque<Arc<str>>,
    recent_bytes: usize,
    keeps_recent: bool,
    rates: Rates,
    /// Methods, update kinds and sessions that occur.
    used: [BTreeSet<u16>; 3],
}

impl MessageLog {
    /// Creates an empty recording. `protocol` is the version of its messages, as far as known.
    pub(crate) fn new(protocol: u16) -> Self {
        MessageLog {
            rows: Vec::new(),
            names: Names::new(),
            fold: Fold::new(protocol),
            open: [Correlator::new(MAX_OPEN), Correlator::new(MAX_OPEN)],
            permissions: HashMap::new(),
            entities: HashMap::new(),
            entity_list: Vec::new(),
            times: EntryTimes::default(),
            problems: HashMap::new(),
            faults: HashMap::new(),
            recent: VecDeque::new(),
            recent_bytes: 0,
            keeps_recent: false,
            rates: Rates::default(),
            used: Default::default(),
        }
    }

    /// Starts to keep the latest texts in memory.
    pub(crate) fn keep_recent(&mut self) {
        self.keeps_recent = true;
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    pub(crate) fn rates(&self) -> &Rates {
        &self.rates
    }

    /// Returns the methods, update kinds and sessions that occur.
    pub(crate) fn used_names(&self) -> [&BTreeSet<u16>; 3] {
        self.used.each_ref()
    }

    /// Returns the folded sessions.
    pub(crate) fn conversation(&self) -> &Conversation {
        &self.fold.conversation
    }

    #[cfg(test)]
    fn session(&self, id: &str) -> Option<&switchboard_session::Session> {
        self.conversation().session((!id.is_empty()).then_some(id))
    }

    /// Returns `true` if the sessions are folded from a translation of the recorded version 1.
    pub(crate) fn is_translated(&self) -> bool {
        self.fold.translation.is_some()
    }

    /// Returns the cost that a session had with at most a number of entries.
    pub(crate) fn cost(&self, session: &str, length: usize) -> Option<&CostAt> {
        self.times.cost(session, length)
    }

    /// Returns the length of a session's transcript at each of its latest notices.
    pub(crate) fn notices(&self, session: &str) -> Vec<usize> {
        self.times.notices(session)
    }

    /// Returns the times of the first and last change of an entry.
    pub(crate) fn times(&self, session: &str, position: usize) -> Times {
        self.times.of(session, position)
    }

    /// Returns the problem of a row.
    pub(crate) fn problem(&self, row: usize) -> Option<&str> {
        self.problems.get(&u32::try_from(row).ok()?).map(String::as_str)
    }

    /// Returns the text of a row, if it is one of the latest.
    pub(crate) fn recent_text(&self, row: usize) -> Option<Arc<str>> {
        let first = self.rows.len() - self.recent.len();
        self.recent.get(row.checked_sub(first)?).cloned()
    }

    /// Returns the rows that created or changed an entry.
    pub(crate) fn rows_of(&self, session: &str, kind: EntryKind, id: &str) -> Vec<u32> {
        let Some(entity) = self.known_entity(session, kind, id) else { return Vec::new() };
        let made_it = |(number, row): (usize, &Row)| (row.entity == entity).then_some(number as u32);
        self.rows.iter().enumerate().filter_map(made_it).collect()
    }

    /// Returns the row of a permission request, by its id as JSON.
    pub(crate) fn row_of_permission(&self, id: &str) -> Option<u32> {
        self.permissions.get(id).copied()
    }

    fn known_entity(&self, session: &str, kind: EntryKind, id: &str) -> Option<u32> {
        let session = if session.is_empty() { 0 } else { self.names.find(session)? };
        self.entities.get(&(session, kind))?.get(id).copied()
    }

    /// Returns the session, kind and id of the entry that a row created or changed.
    pub(crate) fn entry_of(&self, row: usize) -> Option<(&str, EntryKind, &str)> {
        let (session, kind, id) = self.entity_list.get(self.rows.get(row)?.entity as usize)?;
        Some((self.names.word(*session), *kind, id))
    }

    /// Returns the latest checkpoint at or before a number of rows.
    pub(crate) fn before(&self, rows: usize) -> Option<(usize, Conversation)> {
        self.fold.checkpoints.before(rows)
    }

    pub(crate) fn into_conversation(self) -> Conversation {
        self.fold.conversation
    }

    /// Returns the malformed parts of a pending question and of its tool call, which are left out.
    pub(crate) fn left_out(
        &self,
        session: &str,
        id: &RequestId<'_>,
        tool_call: Option<&str>,
    ) -> Option<String> {
        let call = tool_call.and_then(|id| self.known_entity(session, EntryKind::ToolCall, id));
        let of_call = call.and_then(|call| self.faults.get(&call));
        let asked = self.open[0].get(Side::Agent, id).and_then(|row| self.problems.get(row));
        match (of_call, asked) {
            // A malformed part of a tool call inside the question is noted for both, and named once.
            (Some(of_call), Some(asked)) if !of_call.contains(asked.as_str()) => {
                Some(format!("{of_call}; {asked}"))
            }
            (of_call, asked) => of_call.or(asked).cloned(),
        }
    }

    /// Appends a record.
    pub(crate) fn push(&mut self, record: &Record) {
        let number = self.rows.len() as u32;
        // The plain validity check is much faster than the lossy conversion.
        let text = match std::str::from_utf8(&record.bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(&record.bytes),
        };
        if self.keeps_recent {
            self.remember(&text);
        }
        self.rates.count(record.time.0, record.channel, record.bytes.len());
        let mut row = Row {
            time: record.time.0,
            size: u32::try_from(record.bytes.len()).unwrap_or(u32::MAX),
            channel: record.channel,
            shape: Shape::Note,
            method: 0,
            kind: 0,
            session: 0,
            is_problem: record.channel == Channel::Diagnostic,
            partner: NONE,
            entity: NONE,
        };
        if record.channel == Channel::Hub {
            apply_hub_note(&mut self.fold.conversation, &text, record.time);
        }
        if record.channel.message().is_some() {
            let mut messages = messages(&text).into_iter();
            if let Some(first) = messages.next() {
                self.take_message(&mut row, number, record, first);
            }
            // The row of a batch describes its first message. A problem of any message marks the row.
            for message in messages {
                let mut other = Row { partner: NONE, entity: NONE, ..row.clone() };
                self.take_message(&mut other, number, record, message);
                row.is_problem |= other.is_problem;
            }
        }
        if self.rows.len() == self.rows.capacity() {
            // Doubling the capacity would waste memory in long recordings.
            self.rows.reserve_exact((self.rows.len() / 8).max(1024));
        }
        self.rows.push(row);
        if self.fold.translation.is_none() {
            self.fold.checkpoints.note(self.rows.len(), &self.fold.conversation);
        }
    }

    fn take_message(&mut self, row: &mut Row, number: u32, record: &Record, text: &str) {
        let Some((side, is_other)) = record.channel.message() else { return };
        let is_folded = record.channel.is_message();
        let at = record.time;
        // Most messages are updates. This avoids decoding them twice.
        let is_update = is_folded && !self.is_translated() && self.take_update(row, number, side, text, at);
        if !is_update {
            self.classify(row, number, side, is_other, text);
            if is_folded {
                self.fold_message(row, number, side, text, at);
            }
        }
        for (used, number) in self.used.iter_mut().zip([row.method, row.kind, row.session]) {
            if number != 0 {
                used.insert(number);
            }
        }
    }

    fn remember(&mut self, text: &str) {
        self.recent_bytes += text.len();
        self.recent.push_back(text.into());
        while self.recent_bytes > RECENT && self.recent.len() > 1 {
            let gone = self.recent.pop_front().map_or(0, |text| text.len());
            self.recent_bytes -= gone;
        }
    }

    fn fail(&mut self, row: &mut Row, number: u32, reason: impl Into<String>) {
        row.is_problem = true;
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.entry(number).or_insert_with(|| reason.into());
        }
    }

    /// Records malformed parts of a message as a problem of its row and of its entry.
    fn note_left_out(&mut self, row: &mut Row, number: u32, left_out: &[Diagnostic]) {
        let Some(problem) = in_words(left_out) else { return };
        if row.entity != NONE && self.faults.len() < MAX_PROBLEMS {
            let faults = self.faults.entry(row.entity).or_default();
            if faults.is_empty() {
                faults.clone_from(&problem);
            } else if faults.len() < MAX_FAULT {
                faults.push_str("; ");
                faults.push_str(&problem);
            }
        }
        self.fail(row, number, problem);
    }

    /// Fills in the row from the JSON-RPC envelope.
    fn classify(&mut self, row: &mut Row, number: u32, side: Side, is_other: bool, text: &str) {
        let message = match Message::decode(text, WireFormat::Any) {
            Ok(message) => message,
            Err(reason) => {
                self.fail(row, number, reason.to_string());
                return;
            }
        };
        match &message {
            Message::Request(request) => {
                row.shape = Shape::Request;
                row.method = self.names.number(&request.method);
                row.session = self.session_name(request.params.as_ref());
                self.open[usize::from(is_other)].open_or_evict(side, &request.id, number);
                if !is_other
                    && request.method == "session/request_permission"
                    && self.permissions.len() < MAX_OPEN
                {
                    self.permissions.insert(request.id.encode(WireFormat::Any).into(), number);
                }
            }
            Message::Notification(notification) => {
                row.shape = Shape::Notification;
                row.method = self.names.number(&notification.method);
                row.session = self.session_name(notification.params.as_ref());
                let update = notification.params.as_ref().and_then(|params| params.get("update"));
                if let Some(kind) = update.and_then(|update| update.text("sessionUpdate")) {
                    row.kind = self.names.number(&kind);
                }
            }
            Message::Response(response) => {
                row.shape = if response.outcome.is_ok() { Shape::Result } else { Shape::Error };
                if let Some(request) = self.open[usize::from(is_other)].answered(side, &response.id) {
                    row.partner = request;
                    if let Some(asked) = self.rows.get_mut(request as usize) {
                        asked.partner = number;
                        (row.method, row.session) = (asked.method, asked.session);
                    }
                } else {
                    self.fail(
                        row,
                        number,
                        "an answer to a question that was not asked, or was answered before",
                    );
                }
                if let Err(error) = &response.outcome {
                    let reason = format!("error {}: {}", error.code, error.message);
                    // A rejected request of the agent is a problem of its row, too.
                    if side == Side::Client
                        && let Some(mut asked) = self.rows.get(row.partner as usize).cloned()
                    {
                        self.fail(&mut asked, row.partner, reason.clone());
                        self.rows[row.partner as usize] = asked;
                    }
                    self.fail(row, number, reason);
                } else if row.session == 0
                    && let Ok(result) = &response.outcome
                {
                    // The response to `session/new` is the first message with the session's id.
                    row.session = self.session_name(Some(result));
                }
            }
        }
    }

    fn session_name(&mut self, params: Option<&Raw<'_>>) -> u16 {
        params.and_then(|params| params.text("sessionId")).map_or(0, |id| self.session_number(&id))
    }

    /// Returns the number of a session's id. A session that continues under another id keeps its number.
    fn session_number(&mut self, id: &str) -> u16 {
        self.names.number(self.fold.conversation.canonical_id(id))
    }

    fn fold_message(&mut self, row: &mut Row, number: u32, side: Side, text: &str, at: Moment) {
        let Some(translation) = &mut self.fold.translation else {
            let folded = self.fold.conversation.read(text, Some(side), at);
            return self.note(row, number, folded);
        };
        translation.take(Some(side), text, at);
        let lines: Vec<_> = translation.drain().collect();
        for line in lines {
            let folded = self.fold.conversation.read(&line.text, Some(line.from), at);
            self.note(row, number, folded);
        }
    }

    /// Folds a session update. Returns `true` if the message is one.
    fn take_update(&mut self, row: &mut Row, number: u32, side: Side, text: &str, at: Moment) -> bool {
        let read = Expected::<v2::UpdateSessionNotification<'_>>::decode_tolerant(text, WireFormat::Any);
        let Ok((Expected::Params(notification), left_out)) = read else { return false };
        row.shape = Shape::Notification;
        row.method = self.names.number("session/update");
        row.kind = self.names.number(notification.update.tag());
        row.session = self.session_number(&notification.session_id);
        let decoded = Decoded { message: Expected::Params(notification), left_out };
        let folded = self.fold.conversation.apply(decoded, Some(side), at);
        self.note(row, number, folded);
        true
    }

    fn note(&mut self, row: &mut Row, number: u32, folded: Result<Folded<'_>, ConversationError>) {
        match folded {
            Ok(Folded { step, entry, left_out, ended: _ }) => {
                if let Some((kind, id)) = entry {
                    row.entity = self.entity(row.session, kind, &id);
                }
                self.note_left_out(row, number, &left_out);
                if let Some(step) = step {
                    self.fold.learn_id(step.session);
                    let id = self.fold.ids.get(step.session).map_or("", |id| id);
                    let session = || subagents::session(&self.fold.conversation, id);
                    self.times.note(id, &step.changes, session, row.time);
                }
            }
            Err(reason) => self.fail(row, number, reason.to_string()),
        }
    }

    fn entity(&mut self, session: u16, kind: EntryKind, id: &str) -> u32 {
        let known = self.entities.entry((session, kind)).or_default();
        if let Some(&number) = known.get(id) {
            return number;
        }
        let number = self.entity_list.len() as u32;
        let id: Arc<str> = id.into();
        known.insert(Arc::clone(&id), number);
        self.entity_list.push((session, kind, id));
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_store::Moment;

    fn record(channel: Channel, text: &str, time: i64) -> Record {
        Record::new(channel, text).at(Moment(time))
    }

    fn update(update: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
        )
    }

    fn log(records: &[(Channel, &str, i64)]) -> MessageLog {
        let mut log = MessageLog::new(2);
        for (channel, text, time) in records {
            log.push(&record(*channel, text, *time));
        }
        log
    }

    #[test]
    fn questions_and_answers_are_paired_on_each_side_of_a_translation() {
        let ask = r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#;
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#;
        let log = log(&[
            (Channel::ToAgent, ask, 0),
            (Channel::OtherToAgent, ask, 1),
            (Channel::OtherToClient, answer, 31),
            (Channel::ToClient, answer, 33),
            (Channel::ToClient, answer, 40),
        ]);
        let partners: Vec<_> = log.rows().iter().map(Row::partner).collect();
        assert_eq!(partners, [Some(3), Some(2), Some(1), Some(0), None]);
        let names: Vec<_> = log.rows().iter().map(|row| log.names().word(row.method)).collect();
        assert_eq!(names, ["session/new", "session/new", "session/new", "session/new", ""]);
        assert!(log.problem(4).is_some_and(|problem| problem.contains("not asked")));
    }

    #[test]
    fn an_entry_knows_its_messages_and_a_message_its_entry() {
        let chunk = |id: &str, text: &str| {
            update(&format!(
                r#"{{"sessionUpdate":"agent_message_chunk","messageId":"{id}","content":{{"type":"text","text":"{text}"}}}}"#
            ))
        };
        let (one, two, three) = (chunk("a", "x"), chunk("b", "y"), chunk("a", "z"));
        let log = log(&[
            (Channel::ToClient, &one, 10),
            (Channel::ToClient, &two, 20),
            (Channel::StandardError, "noise", 25),
            (Channel::ToClient, &three, 30),
        ]);
        assert_eq!(log.rows_of("s", EntryKind::AgentMessage, "a"), [0, 3]);
        assert_eq!(log.entry_of(1), Some(("s", EntryKind::AgentMessage, "b")));
        assert_eq!(log.entry_of(2), None);
        let times = log.times("s", 0);
        assert_eq!((times.first, times.last), (10, 30));
    }

    #[test]
    fn malformed_parts_are_problems_and_the_rest_counts() {
        let partly =
            update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"Read","locations":[7]}"#);
        let wholly = update(r#"{"sessionUpdate":"tool_call_update","title":"Read"}"#);
        let log = log(&[
            (Channel::ToClient, &partly, 0),
            (Channel::ToClient, &wholly, 0),
            (Channel::ToClient, "{", 0),
        ]);
        assert!(log.rows().iter().all(|row| row.is_problem));
        assert!(log.problem(0).is_some_and(|problem| problem.contains("locations")));
        assert_eq!(log.session("s").and_then(|session| session.tool_call("c")?.title()), Some("Read"));
    }

    #[test]
    fn a_recording_of_version_one_is_shown_in_version_two() {
        let mut log = MessageLog::new(1);
        let call = update(r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"Read","kind":"read"}"#);
        log.push(&record(Channel::ToClient, &call, 0));
        assert!(log.is_translated());
        assert_eq!(log.session("s").and_then(|session| session.tool_call("c")?.title()), Some("Read"));
        assert_eq!(log.entry_of(0), Some(("s", EntryKind::ToolCall, "c")));
    }
}
