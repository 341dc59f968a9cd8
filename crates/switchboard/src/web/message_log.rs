//! A recording as it is looked at: a row for every record, and the sessions that the records amount to.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use switchboard_bridge::{Policy, RecordingBridge, Version};
use switchboard_protocol::rpc::{Expected, Message};
use switchboard_protocol::{Raw, Wire, WireFormat, v2};
use switchboard_session::{Change, Conversation, EntryKind, Moment, Session, Side, Step};
use switchboard_store::{Channel, Record};

use super::names::Names;
use super::rates::Rates;

/// How many bytes of the latest messages are kept in memory, because they may not be readable in the store yet.
const RECENT: usize = 4 * 1024 * 1024;

/// How many rows lie between two moments that the sessions can be rebuilt from at once.
const CHECKPOINT: usize = 2048;

/// How many problems are kept with their reason; more are only marked.
const MAX_PROBLEMS: usize = 10_000;

/// No row.
const NONE: u32 = u32::MAX;

/// What a record is, as far as lists and filters need it.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Milliseconds since 1970.
    pub(crate) time: i64,
    pub(crate) size: u32,
    pub(crate) channel: Channel,
    pub(crate) shape: Shape,
    /// The method; of an answer, that of its request.
    pub(crate) method: u16,
    /// The kind of an update.
    pub(crate) kind: u16,
    /// The session on the wire.
    pub(crate) session: u16,
    /// Whether something is wrong with it, or it tells of something wrong.
    pub(crate) is_problem: bool,
    /// The request of an answer, or the answer of a request.
    partner: u32,
    /// The entry that it made or changed.
    entity: u32,
}

/// The form of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Request,
    Notification,
    Result,
    Error,
    /// No message: standard error, an event of the process, a loss, noise.
    Note,
}

impl Row {
    pub(crate) fn partner(&self) -> Option<usize> {
        (self.partner != NONE).then_some(self.partner as usize)
    }
}

/// An entry of a session, wherever it stands.
type Entity = (usize, EntryKind, Box<str>);

/// When an entry first and last changed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// A recording.
pub(crate) struct MessageLog {
    rows: Vec<Row>,
    names: Names,
    conversation: Conversation,
    /// Makes version 2 of a recording that has nothing else than version 1.
    translation: Option<Box<RecordingBridge>>,
    waiting: HashMap<(bool, Side, String), u32>,
    entities: HashMap<(usize, EntryKind), HashMap<Box<str>, u32>>,
    entity_list: Vec<Entity>,
    times: Vec<Vec<Times>>,
    problems: HashMap<u32, String>,
    recent: VecDeque<Arc<str>>,
    recent_bytes: usize,
    keeps_recent: bool,
    checkpoints: Vec<(usize, Conversation)>,
    rates: Rates,
    /// Methods, kinds of updates and sessions that have come up.
    used: [BTreeSet<u16>; 3],
}

impl MessageLog {
    /// A recording without records. `protocol` is the version of its messages, as far as known.
    pub(crate) fn new(protocol: u16) -> Self {
        let translation =
            (protocol == 1).then(|| Box::new(RecordingBridge::with_policy(Version::V2, Policy::Quiet)));
        MessageLog {
            rows: Vec::new(),
            names: Names::new(),
            conversation: Conversation::new(WireFormat::Any),
            translation,
            waiting: HashMap::new(),
            entities: HashMap::new(),
            entity_list: Vec::new(),
            times: Vec::new(),
            problems: HashMap::new(),
            recent: VecDeque::new(),
            recent_bytes: 0,
            keeps_recent: false,
            checkpoints: Vec::new(),
            rates: Rates::default(),
            used: Default::default(),
        }
    }

    /// A recording that is only being written: the latest texts are kept here too.
    pub(crate) fn live() -> Self {
        MessageLog { keeps_recent: true, ..MessageLog::new(2) }
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

    /// Methods, kinds of updates and sessions that have come up.
    pub(crate) fn used_names(&self) -> [&BTreeSet<u16>; 3] {
        self.used.each_ref()
    }

    /// The sessions in the order in which they came up.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (Option<&str>, &Session)> {
        self.conversation.sessions()
    }

    pub(crate) fn session(&self, id: &str) -> Option<&Session> {
        self.conversation.session((!id.is_empty()).then_some(id))
    }

    /// Whether the version 2 in which the sessions are shown is a translation of what was recorded.
    pub(crate) fn is_translated(&self) -> bool {
        self.translation.is_some()
    }

    /// When an entry first and last changed.
    pub(crate) fn times(&self, session: &str, position: usize) -> Times {
        let wanted = (!session.is_empty()).then_some(session);
        let place = self.conversation.sessions().position(|(id, _)| id == wanted);
        let times = place.and_then(|place| self.times.get(place)?.get(position));
        times.copied().unwrap_or_default()
    }

    /// What is wrong with a row.
    pub(crate) fn problem(&self, row: usize) -> Option<&str> {
        self.problems.get(&u32::try_from(row).ok()?).map(String::as_str)
    }

    /// The text of a row, where it is one of the latest.
    pub(crate) fn recent_text(&self, row: usize) -> Option<Arc<str>> {
        let first = self.rows.len() - self.recent.len();
        self.recent.get(row.checked_sub(first)?).cloned()
    }

    /// The rows that made an entry.
    pub(crate) fn rows_of(&self, session: &str, kind: EntryKind, id: &str) -> Vec<u32> {
        let wanted = (!session.is_empty()).then_some(session);
        let Some(place) = self.conversation.sessions().position(|(id, _)| id == wanted) else {
            return Vec::new();
        };
        let known = self.entities.get(&(place, kind)).and_then(|known| known.get(id));
        let Some(&entity) = known else { return Vec::new() };
        let made_it = |(number, row): (usize, &Row)| (row.entity == entity).then_some(number as u32);
        self.rows.iter().enumerate().filter_map(made_it).collect()
    }

    /// The session and the position of the entry that a row changed.
    pub(crate) fn entry_of(&self, row: usize) -> Option<(String, usize)> {
        let (place, kind, id) = self.entity_list.get(self.rows.get(row)?.entity as usize)?;
        let (session, state) = self.conversation.sessions().nth(*place)?;
        Some((session.unwrap_or_default().to_owned(), state.position(*kind, id)?))
    }

    /// The nearest state at or before a number of rows from which the rest can be folded again.
    pub(crate) fn before(&self, rows: usize) -> (usize, Conversation) {
        let later = self.checkpoints.partition_point(|(at, _)| *at <= rows);
        match later.checked_sub(1).and_then(|place| self.checkpoints.get(place)) {
            Some((at, conversation)) if self.translation.is_none() => (*at, conversation.clone()),
            _ => (0, Conversation::new(WireFormat::Any)),
        }
    }

    pub(crate) fn into_conversation(self) -> Conversation {
        self.conversation
    }

    /// Adds a record.
    pub(crate) fn push(&mut self, record: &Record) {
        let number = self.rows.len() as u32;
        // The check that it is text is much faster than the search for where it is not.
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
        let is_folded = record.channel.is_message();
        if let Some((side, is_other)) = sender(record.channel) {
            // Most messages are updates, which need not be read twice.
            let is_update =
                is_folded && self.translation.is_none() && self.fold_update(&mut row, number, &text);
            if !is_update {
                self.classify(&mut row, number, side, is_other, &text);
                if is_folded {
                    self.fold_record(&mut row, number, record, &text);
                }
            }
        }
        for (used, number) in self.used.iter_mut().zip([row.method, row.kind, row.session]) {
            if number != 0 {
                used.insert(number);
            }
        }
        self.rows.push(row);
        if self.rows.len().is_multiple_of(CHECKPOINT) && self.translation.is_none() {
            self.checkpoints.push((self.rows.len(), self.conversation.clone()));
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

    /// What the envelope tells.
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
                self.waiting.insert((is_other, side, request.id.encode(WireFormat::Any)), number);
            }
            Message::Notification(notification) => {
                row.shape = Shape::Notification;
                row.method = self.names.number(&notification.method);
                row.session = self.session_name(notification.params.as_ref());
                let update = notification.params.as_ref().and_then(|params| params.get("update"));
                if let Some(kind) = update.as_ref().and_then(|update| update.get("sessionUpdate"))
                    && let Some(kind) = kind.as_text()
                {
                    row.kind = self.names.number(&kind);
                }
            }
            Message::Response(response) => {
                row.shape = if response.outcome.is_ok() { Shape::Result } else { Shape::Error };
                let asker = side.other();
                let key = (is_other, asker, response.id.encode(WireFormat::Any));
                if let Some(request) = self.waiting.remove(&key) {
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
                    self.fail(row, number, format!("error {}: {}", error.code, error.message));
                } else if row.session == 0
                    && let Ok(result) = &response.outcome
                {
                    // The answer to `session/new` is the first to name its session.
                    row.session = self.session_name(Some(result));
                }
            }
        }
    }

    fn session_name(&mut self, params: Option<&Raw<'_>>) -> u16 {
        let id = params.and_then(|params| params.get("sessionId"));
        id.as_ref().and_then(Raw::as_text).map_or(0, |id| self.names.number(&id))
    }

    fn fold_record(&mut self, row: &mut Row, number: u32, record: &Record, text: &str) {
        let side = if record.channel == Channel::ToAgent { Side::Client } else { Side::Agent };
        let at = Moment(record.time.0.unsigned_abs());
        let Some(mut translation) = self.translation.take() else {
            return self.fold_line(row, number, side, text, at);
        };
        translation.take(Some(side), text, at);
        let lines: Vec<_> = translation.drain().collect();
        self.translation = Some(translation);
        for line in lines {
            self.fold_line(row, number, line.from, &line.text, at);
        }
    }

    /// Folds an update of a session. Tells whether the message is one.
    fn fold_update(&mut self, row: &mut Row, number: u32, text: &str) -> bool {
        let Some(update) = Update::read(text) else { return false };
        row.shape = Shape::Notification;
        row.method = self.names.number("session/update");
        row.kind = self.names.number(update.notification.update.tag());
        row.session = self.names.number(&update.notification.session_id);
        let folded = update.apply(&mut self.conversation);
        self.note(row, number, folded);
        true
    }

    fn fold_line(&mut self, row: &mut Row, number: u32, side: Side, text: &str, at: Moment) {
        let folded = fold(&mut self.conversation, side, text, at);
        self.note(row, number, folded);
    }

    fn note(&mut self, row: &mut Row, number: u32, folded: Folded) {
        match folded {
            Folded::Step { step, entity, problem } => {
                if let Some(problem) = problem {
                    self.fail(row, number, problem);
                }
                let Some(step) = step else { return };
                if let Some((kind, id)) = entity {
                    row.entity = self.entity(step.session, kind, &id);
                }
                self.note_times(&step, row.time);
            }
            Folded::Refused(reason) => self.fail(row, number, reason),
        }
    }

    fn entity(&mut self, session: usize, kind: EntryKind, id: &str) -> u32 {
        let known = self.entities.entry((session, kind)).or_default();
        if let Some(&number) = known.get(id) {
            return number;
        }
        let number = self.entity_list.len() as u32;
        known.insert(id.into(), number);
        self.entity_list.push((session, kind, id.into()));
        number
    }

    fn note_times(&mut self, step: &Step, time: i64) {
        while self.times.len() <= step.session {
            self.times.push(Vec::new());
        }
        let times = &mut self.times[step.session];
        for change in step.changes.iter() {
            match change {
                Change::Entry(entry) => {
                    while times.len() <= entry.position {
                        times.push(Times { first: time, last: time });
                    }
                    times[entry.position].last = time;
                }
                Change::Replayed => times.clear(),
                _ => {}
            }
        }
    }
}

/// What a line did to the sessions.
pub(crate) enum Folded {
    Step { step: Option<Step>, entity: Option<(EntryKind, String)>, problem: Option<String> },
    Refused(String),
}

/// Folds one message as a good client does: what is malformed and optional is left out.
pub(crate) fn fold(conversation: &mut Conversation, side: Side, text: &str, at: Moment) -> Folded {
    if let Some(update) = Update::read(text) {
        return update.apply(conversation);
    }
    let message = match Message::decode(text, WireFormat::Any) {
        Ok(message) => message,
        Err(reason) => return Folded::Refused(reason.to_string()),
    };
    let entity = asked_entity(&message);
    match conversation.apply_message(&message, Some(side), at) {
        Ok(step) => Folded::Step { step, entity, problem: None },
        Err(reason) => Folded::Refused(reason.to_string()),
    }
}

/// An update of a session, read as a good client does.
struct Update<'t> {
    notification: v2::UpdateSessionNotification<'t>,
    problem: Option<String>,
}

impl<'t> Update<'t> {
    /// `None` when it is something else, or cannot be read.
    fn read(text: &'t str) -> Option<Self> {
        let read = Expected::<v2::UpdateSessionNotification<'t>>::decode_tolerant(text, WireFormat::Any);
        let Ok((Expected::Params(notification), diagnostics)) = read else { return None };
        let problem = (!diagnostics.is_empty()).then(|| {
            let each: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
            each.join("; ")
        });
        Some(Update { notification, problem })
    }

    fn apply(self, conversation: &mut Conversation) -> Folded {
        let Update { notification, problem } = self;
        let entity = entity_of(&notification.update).map(|(kind, id)| (kind, id.to_owned()));
        let step = conversation.apply_update(Some(&notification.session_id), &notification.update);
        Folded::Step { step: Some(step), entity, problem }
    }
}

/// The entry that an update is for.
fn entity_of<'u>(update: &'u v2::SessionUpdate<'_>) -> Option<(EntryKind, &'u str)> {
    use v2::SessionUpdate as Update;
    Some(match update {
        Update::UserMessage(message) => (EntryKind::UserMessage, &message.message_id),
        Update::UserMessageChunk(chunk) => (EntryKind::UserMessage, &chunk.message_id),
        Update::AgentMessage(message) => (EntryKind::AgentMessage, &message.message_id),
        Update::AgentMessageChunk(chunk) => (EntryKind::AgentMessage, &chunk.message_id),
        Update::AgentThought(message) => (EntryKind::AgentThought, &message.message_id),
        Update::AgentThoughtChunk(chunk) => (EntryKind::AgentThought, &chunk.message_id),
        Update::ToolCallUpdate(call) => (EntryKind::ToolCall, &call.tool_call_id),
        Update::ToolCallContentChunk(chunk) => (EntryKind::ToolCall, &chunk.tool_call_id),
        Update::TerminalUpdate(terminal) => (EntryKind::Terminal, &terminal.terminal_id),
        Update::TerminalOutputChunk(chunk) => (EntryKind::Terminal, &chunk.terminal_id),
        Update::CompactionUpdate(compaction) => (EntryKind::Compaction, &compaction.compaction_id),
        Update::CompactionSummaryChunk(chunk) => (EntryKind::Compaction, &chunk.compaction_id),
        _ => return None,
    })
}

/// The tool call that a permission is about.
fn asked_entity(message: &Message<'_>) -> Option<(EntryKind, String)> {
    let Message::Request(request) = message else { return None };
    if request.method != "session/request_permission" {
        return None;
    }
    let subject = request.params.as_ref()?.get("subject")?;
    let call = subject.get("toolCall")?;
    let id = call.get("toolCallId")?;
    Some((EntryKind::ToolCall, id.as_text()?.into_owned()))
}

/// Who sent a message, and whether on the other side of a translation.
pub(crate) fn sender(channel: Channel) -> Option<(Side, bool)> {
    match channel {
        Channel::ToAgent => Some((Side::Client, false)),
        Channel::ToClient => Some((Side::Agent, false)),
        Channel::OtherToAgent => Some((Side::Client, true)),
        Channel::OtherToClient => Some((Side::Agent, true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_store::Time;

    fn record(channel: Channel, text: &str, time: i64) -> Record {
        Record::new(channel, text).at(Time(time))
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
        assert_eq!(log.entry_of(1), Some(("s".to_owned(), 1)));
        assert_eq!(log.entry_of(2), None);
        let times = log.times("s", 0);
        assert_eq!((times.first, times.last), (10, 30));
    }

    #[test]
    fn what_is_malformed_is_a_problem_and_the_rest_of_it_counts() {
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
        assert_eq!(log.entry_of(0), Some(("s".to_owned(), 0)));
    }
}
