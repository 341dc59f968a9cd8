//! One session of an agent as a chat: folded updates become actions, and the chat's state is the fold of these actions.
//!
//! A chat has at most one turn at a time, and only actions with its id change something. An agent may work without a
//! prompt and continue after a cancellation, so turns are begun and ended here:
//!
//! - A prompt of a client of this protocol begins a turn at once. It is *unbound* until its user message is part of the
//!   session. Until then the end of other work does not end the turn.
//! - The user message of another client's prompt begins a turn, after the end of an agent's turn of its own.
//! - Everything else without a turn begins one whose message is empty and comes from the agent.
//! - After a cancellation the turn is over. Updates up to the end of the work are in the log only.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use ahp_types::state::{ChatState, ResponsePart, ToolCallState};
use serde_json::{Value, json};
use switchboard_acp::v2::{self, ToolCallStatus, ToolKind};
use switchboard_acp::{Moment, Wire, WireFormat};
use switchboard_session::{
    Activity, Change, Changes, ContentChange, Conversation, Entry, EntryChange, EntryKind, Message, Plan,
    Session, ToolCall,
};

use crate::content::{
    Contents, ReadFile, Shown, attachment, clipped, clipped_to, code_span, escaped, file_edits, link, shown,
    tool_output,
};
use crate::fold::{Sent, Sink, apply};
use crate::memory::SessionFacts;
use crate::question::{self, Question, QuestionKind};
use crate::wire::{encoded, file_name, file_uri, time};

/// Minimum time between two changes of the output of running tool calls.
const OUTPUT_INTERVAL: i64 = 100;
/// Time without changes after which a turn that the agent began by itself ends.
const QUIET: i64 = 1000;
/// Maximum length of a terminal's output in a tool call, in bytes. Its channel has everything.
const PREVIEW: usize = 4096;
/// Maximum length of a tool call's input, in bytes.
const MAX_INPUT: usize = 64 << 10;

/// The surroundings of a chat.
pub(crate) struct Around<'a> {
    pub(crate) conversation: &'a Conversation,
    pub(crate) sink: &'a mut Sink,
    pub(crate) contents: &'a mut Contents,
    pub(crate) read: ReadFile<'a>,
    /// Chats by the id of their session.
    pub(crate) chats: &'a HashMap<Arc<str>, Arc<str>>,
    pub(crate) facts: &'a SessionFacts,
    /// The hub's id of the session.
    pub(crate) id: &'a str,
}

/// A consequence for the session or the hub.
#[derive(Debug)]
pub(crate) enum Note {
    /// A question needs an answer.
    Need(Value),
    /// A question no longer needs an answer.
    Met(String),
    /// A message is the prompt of a turn.
    Bound { message: String, turn: String },
    /// A terminal has changed.
    Terminal(usize),
    /// A message is waiting, and no turn is running.
    Next,
}

/// End of a turn.
pub(crate) enum End {
    Complete,
    Cancelled,
    Error(String),
}

/// Stage of a tool call in the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Announced,
    Asking,
    Running,
    Done,
}

/// The part of an entry that was sent.
#[derive(Debug, Clone, Default)]
struct Progress {
    items: usize,
    part: Option<String>,
    call: Option<Call>,
    word: Option<String>,
}

#[derive(Debug, Clone)]
struct Call {
    id: String,
    stage: Stage,
    /// Title, input and locations as they were sent.
    head: String,
    is_changed: bool,
}

/// A prompt that is not part of the session yet.
#[derive(Debug)]
struct Unbound {
    turn: String,
    text: String,
    is_cancelled: bool,
}

/// A chat of a session.
#[derive(Debug)]
pub(crate) struct Chat {
    pub(crate) uri: Arc<str>,
    pub(crate) state: ChatState,
    /// Id of the agent's session.
    pub(crate) session: Arc<str>,
    /// Text of the first turn of a sub-agent.
    task: Option<String>,
    sent: Vec<Progress>,
    /// Entry and id of the text part that grows.
    part: Option<(usize, String)>,
    parts: u64,
    began: Moment,
    changed: Moment,
    flushed: Moment,
    turns: HashSet<String>,
    unbound: VecDeque<Unbound>,
    user_message: Option<usize>,
    /// Tool calls of this turn that have not ended.
    calls: Vec<usize>,
    plans: HashMap<String, (String, bool)>,
    pub(crate) questions: Vec<Question>,
    is_working: bool,
    is_muted: bool,
    usage: Value,
    pub(crate) notes: Vec<Note>,
}

/// Returns the URI of a terminal.
pub(crate) fn terminal_uri(id: &str, session: &str, terminal: &str) -> String {
    let part = |text: &str| encoded(text).replace('/', "%2F");
    format!("ahp-terminal:/{}/{}/{}", part(id), part(session), part(terminal))
}

impl Chat {
    pub(crate) fn new(
        uri: Arc<str>,
        session: Arc<str>,
        title: &str,
        now: Moment,
        origin: Option<Value>,
    ) -> Option<Self> {
        let mut state =
            json!({"resource": &*uri, "title": title, "status": 1, "modifiedAt": time(now), "turns": []});
        if let Some(origin) = origin {
            state["origin"] = origin;
            state["interactivity"] = json!("read-only");
        }
        Some(Chat {
            state: crate::fold::state(state)?,
            uri,
            session,
            task: None,
            sent: Vec::new(),
            part: None,
            parts: 0,
            began: now,
            changed: now,
            flushed: Moment(0),
            turns: HashSet::new(),
            unbound: VecDeque::new(),
            user_message: None,
            calls: Vec::new(),
            plans: HashMap::new(),
            questions: Vec::new(),
            is_working: false,
            is_muted: false,
            usage: json!({}),
            notes: Vec::new(),
        })
    }

    pub(crate) fn set_task(&mut self, task: Option<String>) {
        if self.task.is_none() {
            self.task = task;
        }
    }

    fn act(&mut self, sink: &mut Sink, action: Value) -> bool {
        sink.act(&self.uri, &mut self.state, action)
    }

    fn turn(&self) -> Option<&str> {
        self.state.active_turn.as_ref().map(|turn| turn.id.as_str())
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.state.active_turn.is_some() || self.is_working || !self.unbound.is_empty()
    }

    pub(crate) fn knows_turn(&self, turn: &str) -> bool {
        self.turns.contains(turn)
    }

    // ----- turns

    fn begin_turn(&mut self, sink: &mut Sink, id: String, message: &Value) -> String {
        let mut id = id;
        while self.turns.contains(&id) {
            id.push('+');
        }
        let action = json!({"type": "chat/turnStarted", "turnId": id, "startedAt": time(sink.now), "message": message});
        self.act(sink, action);
        self.turn_begun(&id, sink.now);
        id
    }

    fn turn_begun(&mut self, id: &str, now: Moment) {
        self.turns.insert(id.to_owned());
        self.part = None;
        self.plans.clear();
        (self.began, self.changed) = (now, now);
    }

    /// Returns the id of the running turn, and begins one of the agent's own if there is none.
    fn some_turn(&mut self, sink: &mut Sink) -> String {
        self.changed = sink.now;
        match self.turn() {
            Some(turn) => turn.to_owned(),
            None => {
                let id = format!("agent-{}", self.state.turns.len());
                let text = self.task.take().unwrap_or_default();
                self.begin_turn(sink, id, &json!({"text": text, "origin": {"kind": "agent"}}))
            }
        }
    }

    /// Begins a turn that a client of this protocol has started. The end of an earlier one precedes it.
    pub(crate) fn begin_own(
        &mut self,
        around: &mut Around<'_>,
        action: &Value,
        origin: Option<Value>,
        turn: &str,
    ) -> Result<(), String> {
        // Looks for errors before the earlier turn ends.
        apply(&mut self.state.clone_without_turns(), action)?;
        let session = around.conversation.session(Some(&self.session));
        self.end_turn(around, session, End::Complete);
        apply(&mut self.state, action)?;
        around.sink.sent.push(Sent {
            channel: Arc::clone(&self.uri),
            action: action.clone(),
            origin,
            rejected: None,
        });
        self.turn_begun(turn, around.sink.now);
        let text = action["message"]["text"].as_str().unwrap_or_default().to_owned();
        self.unbound.push_back(Unbound { turn: turn.to_owned(), text, is_cancelled: false });
        Ok(())
    }

    /// Ends the running turn, after its tool calls: an open one would count as cancelled.
    pub(crate) fn end_turn(&mut self, around: &mut Around<'_>, session: Option<&Session>, end: End) {
        let Some(turn) = self.turn().map(str::to_owned) else { return };
        for position in std::mem::take(&mut self.calls) {
            let call = session.and_then(|session| session.entry(position)).and_then(Entry::as_tool_call);
            if let (Some(session), Some(call)) = (session, call) {
                let is_asking = self.call(position).is_none_or(|call| call.stage == Stage::Asking);
                // Calls that never ran, and those of a turn that failed, count as cancelled.
                let has_run = matches!(end, End::Complete) && *call.status() != ToolCallStatus::Pending;
                if !is_asking && has_run {
                    self.complete_call(around, session, position, call, &turn);
                }
            }
            if let Some(call) = self.sent.get_mut(position).and_then(|progress| progress.call.as_mut()) {
                call.stage = Stage::Done;
            }
        }
        let plans: Vec<String> =
            self.plans.drain().filter(|(_, (_, is_open))| *is_open).map(|(_, (id, _))| id).collect();
        for plan in plans {
            let result =
                json!({"success": true, "pastTenseMessage": "Plan", "content": self.call_content(&plan)});
            let action = json!({"type": "chat/toolCallComplete", "turnId": turn, "toolCallId": plan, "result": result});
            self.act(around.sink, action);
        }
        for question in std::mem::take(&mut self.questions) {
            self.notes.push(Note::Met(question.need));
        }
        let duration = around.sink.now.since(self.began).as_millis();
        let duration = u64::try_from(duration).unwrap_or_default();
        let action = match end {
            End::Complete => json!({"type": "chat/turnComplete", "turnId": turn, "duration": duration}),
            End::Cancelled => json!({"type": "chat/turnCancelled", "turnId": turn, "duration": duration}),
            End::Error(message) => json!({"type": "chat/error", "turnId": turn, "duration": duration, "part":
                {"kind": "error", "error": {"errorType": "agent", "message": message}}}),
        };
        self.act(around.sink, action);
        self.part = None;
        self.unbound.retain(|prompt| prompt.turn != turn);
    }

    /// Content of a tool call in the running turn, as it was sent.
    fn call_content(&self, id: &str) -> Value {
        let parts = self.state.active_turn.iter().flat_map(|turn| &turn.response_parts);
        let mut content = parts.filter_map(|part| match part {
            ResponsePart::ToolCall(call) => match &call.tool_call {
                ToolCallState::Running(running) if running.tool_call_id == id => running.content.as_ref(),
                _ => None,
            },
            _ => None,
        });
        content
            .next_back()
            .and_then(|content| serde_json::to_value(content).ok())
            .unwrap_or_else(|| json!([]))
    }

    /// Ends the turn of a client's prompt that failed.
    pub(crate) fn prompt_failed(&mut self, around: &mut Around<'_>, turn: &str, message: String) {
        let is_cancelled = self.unbound.iter().any(|prompt| prompt.turn == turn && prompt.is_cancelled);
        self.unbound.retain(|prompt| prompt.turn != turn);
        if self.turn() == Some(turn) && !is_cancelled {
            let session = around.conversation.session(Some(&self.session));
            self.end_turn(around, session, End::Error(message));
        }
        self.notes.push(Note::Next);
    }

    /// Returns true if the turn of a prompt that was just accepted is over already.
    pub(crate) fn prompt_accepted(&mut self, turn: &str, message: Option<&str>) -> bool {
        let is_cancelled = self.unbound.iter().any(|prompt| prompt.turn == turn && prompt.is_cancelled);
        self.unbound.retain(|prompt| prompt.turn != turn);
        if let Some(message) = message {
            self.notes.push(Note::Bound { message: message.to_owned(), turn: turn.to_owned() });
        }
        self.is_muted |= is_cancelled;
        is_cancelled
    }

    /// The work on a client's prompt has ended. Usually its turn has, too.
    pub(crate) fn prompt_ended(&mut self, around: &mut Around<'_>, turn: &str) {
        if self.turn() == Some(turn) && self.unbound.is_empty() {
            let conversation = around.conversation;
            if let Some(session) = conversation.session(Some(&self.session)) {
                self.flush_user(around, session);
                self.end_by_state(around, session);
            }
        }
        self.notes.push(Note::Next);
    }

    /// Cancels the running turn for a client. Returns true if its prompt is part of the session, so that the work must
    /// be cancelled.
    pub(crate) fn cancelled(
        &mut self,
        around: &mut Around<'_>,
        action: &Value,
        origin: Option<Value>,
    ) -> Result<bool, String> {
        let turn = self
            .turn()
            .filter(|turn| action["turnId"] == **turn)
            .ok_or("this turn is not running")?
            .to_owned();
        // Looks for errors first.
        apply(&mut self.state.clone_without_turns(), action)?;
        let mut is_bound = true;
        for prompt in self.unbound.iter_mut().filter(|prompt| prompt.turn == turn) {
            (prompt.is_cancelled, is_bound) = (true, false);
        }
        for position in std::mem::take(&mut self.calls) {
            if let Some(call) = self.sent.get_mut(position).and_then(|progress| progress.call.as_mut()) {
                call.stage = Stage::Done;
            }
        }
        for question in std::mem::take(&mut self.questions) {
            self.notes.push(Note::Met(question.need));
        }
        apply(&mut self.state, action)?;
        around.sink.sent.push(Sent {
            channel: Arc::clone(&self.uri),
            action: action.clone(),
            origin,
            rejected: None,
        });
        self.part = None;
        self.is_muted = is_bound && self.is_working;
        self.notes.push(Note::Next);
        Ok(is_bound)
    }

    // ----- updates

    /// Translates the changes of an update.
    pub(crate) fn apply(&mut self, around: &mut Around<'_>, session: &Session, changes: &Changes) {
        for change in changes.iter() {
            match change {
                Change::Entry(change) if change.kind == EntryKind::UserMessage => {
                    self.user_message_changed(around, session, change);
                }
                Change::Entry(change) => {
                    self.flush_user(around, session);
                    let is_replaced = matches!(change.content, ContentChange::Replaced(_));
                    self.entry(around, session, change.position, is_replaced);
                }
                Change::State => {
                    self.flush_user(around, session);
                    self.state_changed(around, session);
                }
                Change::Plan { index, .. } => {
                    if let Some(plan) = session.plans().nth(*index) {
                        self.plan(around, plan);
                    }
                }
                Change::Usage => self.usage(around, session),
                Change::Notice => {
                    if let Some(notice) = session.notices().last() {
                        let description = notice.description.as_deref().map(|text| format!(": {text}"));
                        self.notify(
                            around,
                            &format!("{}{}", notice.title.as_str(), description.unwrap_or_default()),
                        );
                    }
                }
                Change::Replayed => self.all_entries(around, session),
                // Lists, titles and questions concern the whole session, a removed plan nothing that was shown, and
                // updates of unknown kinds are in the log.
                _ => {}
            }
        }
    }

    /// Keeps a new user message until something follows it. Later changes of it are in the log.
    fn user_message_changed(&mut self, around: &mut Around<'_>, session: &Session, change: &EntryChange) {
        if change.created {
            self.flush_user(around, session);
            self.user_message = Some(change.position);
        }
    }

    /// Translates a session as it is now.
    pub(crate) fn rebuild(&mut self, around: &mut Around<'_>, session: &Session) {
        self.all_entries(around, session);
        for plan in session.plans() {
            self.plan(around, plan);
        }
        self.usage(around, session);
        self.flush_user(around, session);
        self.state_changed(around, session);
    }

    fn all_entries(&mut self, around: &mut Around<'_>, session: &Session) {
        for position in 0..session.len() {
            let is_user = session.entry(position).is_some_and(|entry| entry.kind() == EntryKind::UserMessage);
            if !is_user {
                self.flush_user(around, session);
                self.entry(around, session, position, false);
            } else if self.progress(position).word.is_none() {
                self.flush_user(around, session);
                self.user_message = Some(position);
            }
        }
        self.flush_user(around, session);
    }

    fn progress(&mut self, position: usize) -> &mut Progress {
        if self.sent.len() <= position {
            self.sent.resize_with(position + 1, Progress::default);
        }
        &mut self.sent[position]
    }

    fn call(&self, position: usize) -> Option<&Call> {
        self.sent.get(position)?.call.as_ref()
    }

    fn entry(&mut self, around: &mut Around<'_>, session: &Session, position: usize, is_replaced: bool) {
        let Some(entry) = session.entry(position) else { return };
        self.progress(position);
        if let Entry::Terminal(_) = entry {
            self.notes.push(Note::Terminal(position));
            return;
        }
        if self.is_muted {
            self.mute(entry, position);
            return;
        }
        match entry {
            Entry::Message(message) => self.text(around, position, message, is_replaced),
            Entry::ToolCall(call) => self.tool_call(around, session, position, call),
            Entry::Compaction(compaction) => {
                let text = match compaction.status() {
                    _ if compaction.is_memory_loss() => {
                        "The agent was started again and has lost its memory of everything before".to_owned()
                    }
                    v2::CompactionStatus::InProgress => "Compacting the conversation".to_owned(),
                    v2::CompactionStatus::Completed => "The conversation was compacted".to_owned(),
                    v2::CompactionStatus::Failed => match compaction.error() {
                        Some(error) => format!("Compacting the conversation failed: {error}"),
                        None => "Compacting the conversation failed".to_owned(),
                    },
                    _ => "Compacting the conversation was cancelled".to_owned(),
                };
                if self.progress(position).word.as_deref() != Some(&text) {
                    self.notify(around, &text);
                    self.progress(position).word = Some(text);
                }
            }
            Entry::Subagent(subagent) => self.subagent(around, position, subagent.session_id()),
            Entry::SessionMessage(message) => {
                if self.progress(position).items == message.content().len() {
                    return;
                }
                let name = |id: Option<&str>| id.and_then(|id| around.conversation.name(id));
                let text = message
                    .content()
                    .items_from(self.progress(position).items)
                    .filter_map(switchboard_session::Item::text);
                let text: String = text.collect();
                self.progress(position).items = message.content().len();
                let text = match (name(message.sender()), name(message.recipient())) {
                    (Some(sender), _) => format!("{sender}: {text}"),
                    (None, Some(recipient)) => format!("To {recipient}: {text}"),
                    (None, None) => text,
                };
                self.notify(around, &text);
            }
            Entry::Terminal(_) => {}
        }
    }

    /// Notes that an entry is not sent: its turn was cancelled.
    fn mute(&mut self, entry: &Entry, position: usize) {
        let progress = self.progress(position);
        match entry {
            Entry::Message(message) => progress.items = message.content().len(),
            Entry::SessionMessage(message) => progress.items = message.content().len(),
            Entry::ToolCall(call) => {
                let new = Call {
                    id: call.id().to_owned(),
                    stage: Stage::Done,
                    head: String::new(),
                    is_changed: false,
                };
                progress.call = Some(new);
            }
            _ => progress.word = Some(String::new()),
        }
    }

    /// Begins the turn of a user message, which is complete as soon as something follows it.
    fn flush_user(&mut self, around: &mut Around<'_>, session: &Session) {
        let Some(position) = self.user_message.take() else { return };
        let Some(message) = session.entry(position).and_then(Entry::as_message) else { return };
        self.progress(position).word = Some(String::new());
        let id = message.id();
        let text = message.content().text();
        let known = around.facts.turn_of(id).map(str::to_owned);
        if known.as_ref().is_some_and(|turn| self.turns.contains(turn)) {
            self.is_muted = false;
            return;
        }
        let is_own = |prompt: &Unbound| {
            let own = prompt.text.trim();
            own.is_empty() || text.trim().starts_with(own)
        };
        if let Some(prompt) = self.unbound.front()
            && known.is_none()
            && is_own(prompt)
        {
            let turn = prompt.turn.clone();
            if !prompt.is_cancelled {
                self.unbound.pop_front();
                self.is_muted = false;
            }
            self.notes.push(Note::Bound { message: id.to_owned(), turn });
            return;
        }
        if !self.unbound.is_empty() && self.turn().is_some() {
            self.notify(around, &format!("Prompt of another client: {}", clipped(&text)));
            return;
        }
        self.is_muted = false;
        self.end_turn(around, Some(session), End::Complete);
        let attachments: Vec<Value> =
            message.content().blocks().filter_map(|block| attachment(&block, around.contents)).collect();
        let mut prompt = json!({"text": text, "origin": {"kind": "user"}});
        if !attachments.is_empty() {
            prompt["attachments"] = Value::Array(attachments);
        }
        let turn = known.unwrap_or_else(|| format!("m-{id}"));
        self.begin_turn(around.sink, turn, &prompt);
    }

    fn state_changed(&mut self, around: &mut Around<'_>, session: &Session) {
        self.is_working = session.activity() != Activity::Idle;
        if self.is_working {
            self.changed = around.sink.now;
            return;
        }
        self.is_muted = false;
        // A client's prompt is not part of the session yet: this is the end of something else.
        if self.unbound.iter().all(|prompt| prompt.is_cancelled) {
            self.end_by_state(around, session);
        }
        self.notes.push(Note::Next);
    }

    /// Ends the turn as the idle state of the session says.
    fn end_by_state(&mut self, around: &mut Around<'_>, session: &Session) {
        if self.turn().is_none() {
            return;
        }
        let (mut error, mut usage) = (None, None);
        if let Some(v2::StateUpdate::Idle(idle)) = session.state() {
            (error, usage) = (idle.error.as_ref(), idle.usage.as_ref());
        }
        if let Some(usage) = usage {
            self.usage["inputTokens"] = json!(usage.input_tokens);
            self.usage["outputTokens"] = json!(usage.output_tokens);
            if let Some(read) = usage.cached_read_tokens {
                self.usage["cacheReadTokens"] = json!(read);
            }
            self.send_usage(around);
        }
        let told = match session.stop_reason() {
            Some(v2::StopReason::MaxTokens) => Some("The agent stopped: the limit of tokens is reached"),
            Some(v2::StopReason::MaxTurnRequests) => {
                Some("The agent stopped: the limit of requests in a turn is reached")
            }
            Some(v2::StopReason::Refusal) => Some("The agent refused to continue"),
            _ => None,
        };
        if let Some(told) = told {
            self.notify(around, told);
        }
        let end = match session.stop_reason() {
            Some(v2::StopReason::Cancelled) => End::Cancelled,
            Some(v2::StopReason::Error) => End::Error(
                error.map_or_else(|| "the agent failed".to_owned(), |error| error.message.to_string()),
            ),
            _ => End::Complete,
        };
        self.end_turn(around, Some(session), end);
    }

    /// Sends updates that were delayed.
    pub(crate) fn tick(&mut self, around: &mut Around<'_>, session: &Session) {
        if self.user_message.is_some() && around.sink.now.0 - self.changed.0 >= OUTPUT_INTERVAL {
            self.flush_user(around, session);
        }
        self.flush_output(around, session);
        let is_over = !self.is_working && self.unbound.is_empty() && self.questions.is_empty();
        if is_over && self.turn().is_some() && around.sink.now.0 - self.changed.0 >= QUIET {
            self.end_turn(around, Some(session), End::Complete);
            self.notes.push(Note::Next);
        }
    }

    /// Returns true if `tick` has something to do later.
    pub(crate) fn wants_tick(&self) -> bool {
        let has_output =
            || self.calls.iter().any(|call| self.call(*call).is_some_and(|call| call.is_changed));
        self.user_message.is_some() || has_output() || (self.turn().is_some() && !self.is_working)
    }

    // ----- texts

    fn notify(&mut self, around: &mut Around<'_>, text: &str) {
        if self.is_muted {
            return;
        }
        let turn = self.some_turn(around.sink);
        self.part = None;
        let part = json!({"kind": "systemNotification", "content": clipped(text)});
        self.act(around.sink, json!({"type": "chat/responsePart", "turnId": turn, "part": part}));
    }

    fn text(&mut self, around: &mut Around<'_>, position: usize, message: &Message, is_replaced: bool) {
        let content = message.content();
        let kind = if message.kind() == EntryKind::AgentThought { "reasoning" } else { "markdown" };
        let sent = self.progress(position).items;
        if sent > 0 && (is_replaced || content.len() < sent) {
            let part = self.progress(position).part.clone();
            let before = part.and_then(|part| self.text_of(&part).map(str::to_owned));
            let text = content.text();
            let is_text = content.items().all(|item| item.text().is_some());
            // Many agents end a streamed message with its whole text.
            let rest =
                before.filter(|_| is_text).and_then(|before| text.strip_prefix(&before).map(str::to_owned));
            self.progress(position).items = content.len();
            if let Some(rest) = rest {
                if !rest.is_empty() {
                    self.append(around, position, kind, &rest);
                }
                return;
            }
            let told = if content.is_empty() {
                "The agent withdrew a message"
            } else {
                "The agent replaced a message"
            };
            self.notify(around, told);
            self.progress(position).items = 0;
        }
        let start = self.progress(position).items;
        let mut run = String::new();
        for item in content.items_from(start) {
            if let Some(text) = item.text() {
                run.push_str(text);
                continue;
            }
            if !run.is_empty() {
                self.append(around, position, kind, &std::mem::take(&mut run));
            }
            match shown(&item.block(), around.contents) {
                Shown::Markdown(text) => {
                    self.part = None;
                    self.append(around, position, kind, &text);
                    self.part = None;
                }
                Shown::Reference { uri, kind: content_type, line } => {
                    let turn = self.some_turn(around.sink);
                    let part = json!({"kind": "contentRef", "uri": uri, "contentType": content_type});
                    self.act(around.sink, json!({"type": "chat/responsePart", "turnId": turn, "part": part}));
                    self.part = None;
                    self.append(around, position, kind, &line);
                    self.part = None;
                }
                Shown::Nothing => {}
            }
        }
        if !run.is_empty() {
            self.append(around, position, kind, &run);
        }
        self.progress(position).items = content.len();
    }

    fn text_of(&self, id: &str) -> Option<&str> {
        let parts = &self.state.active_turn.as_ref()?.response_parts;
        parts.iter().rev().find_map(|part| match part {
            ResponsePart::Markdown(part) if part.id == id => Some(part.content.as_str()),
            ResponsePart::Reasoning(part) if part.id == id => Some(part.content.as_str()),
            _ => None,
        })
    }

    /// Appends to the text part of an entry, and begins a new one if anything came between.
    fn append(&mut self, around: &mut Around<'_>, position: usize, kind: &str, text: &str) {
        let turn = self.some_turn(around.sink);
        let id = match &self.part {
            Some((of, id)) if *of == position => id.clone(),
            _ => {
                self.parts += 1;
                let id = format!("p{}", self.parts);
                let part = json!({"kind": kind, "id": id, "content": ""});
                self.act(around.sink, json!({"type": "chat/responsePart", "turnId": turn, "part": part}));
                self.part = Some((position, id.clone()));
                self.progress(position).part = Some(id.clone());
                id
            }
        };
        let action = if kind == "reasoning" { "chat/reasoning" } else { "chat/delta" };
        self.act(around.sink, json!({"type": action, "turnId": turn, "partId": id, "content": text}));
    }

    // ----- tool calls

    fn tool_call(&mut self, around: &mut Around<'_>, session: &Session, position: usize, call: &ToolCall) {
        if self.call(position).is_some_and(|call| call.stage == Stage::Done) {
            return;
        }
        let turn = self.some_turn(around.sink);
        if self.call(position).is_none() {
            self.part = None;
            let id = call.id().to_owned();
            let mut action = json!({
                "type": "chat/toolCallStart", "turnId": turn, "toolCallId": id,
                "toolName": call.name().unwrap_or(call.kind().as_str()), "displayName": title(call),
            });
            if let Some(meta) = self.meta(around, call) {
                action["_meta"] = meta;
            }
            self.act(around.sink, action);
            self.calls.push(position);
            self.progress(position).call =
                Some(Call { id, stage: Stage::Announced, head: String::new(), is_changed: false });
        }
        if call.status().is_final() {
            self.complete_call(around, session, position, call, &turn);
            self.calls.retain(|known| *known != position);
            return;
        }
        let is_waiting = *call.status() == ToolCallStatus::Pending && call.content().is_empty();
        let stage = self.call(position).map(|call| call.stage);
        if stage == Some(Stage::Asking) || (is_waiting && stage == Some(Stage::Announced)) {
            return;
        }
        self.ready(around, session, position, call, &turn);
        if let Some(known) = self.progress(position).call.as_mut() {
            known.is_changed = true;
        }
        self.flush_output(around, session);
    }

    /// Sends that a tool call runs, or that its title or input has changed meanwhile.
    fn ready(
        &mut self,
        around: &mut Around<'_>,
        session: &Session,
        position: usize,
        call: &ToolCall,
        turn: &str,
    ) {
        let input = self.input(session, call);
        let invocation = invocation(call);
        let head = format!("{invocation}{input:?}");
        let Some(known) = self.call(position) else { return };
        if known.stage == Stage::Running && known.head == head {
            return;
        }
        let mut action = json!({
            "type": "chat/toolCallReady", "turnId": turn, "toolCallId": known.id,
            "invocationMessage": invocation, "confirmed": "not-needed",
        });
        if let Some(input) = input {
            action["toolInput"] = json!(input);
        }
        if let Some(meta) = self.meta(around, call) {
            action["_meta"] = meta;
        }
        self.act(around.sink, action);
        if let Some(known) = self.progress(position).call.as_mut() {
            // The content is not part of this action and would be lost.
            (known.stage, known.head, known.is_changed) = (Stage::Running, head, true);
        }
    }

    fn flush_output(&mut self, around: &mut Around<'_>, session: &Session) {
        if around.sink.now.0 - self.flushed.0 < OUTPUT_INTERVAL {
            return;
        }
        let Some(turn) = self.turn().map(str::to_owned) else { return };
        for position in self.calls.clone() {
            let Some(known) =
                self.call(position).filter(|call| call.is_changed && call.stage == Stage::Running)
            else {
                continue;
            };
            let id = known.id.clone();
            let Some(call) = session.entry(position).and_then(Entry::as_tool_call) else { continue };
            let content = self.output(around, session, call);
            if let Some(known) = self.progress(position).call.as_mut() {
                known.is_changed = false;
            }
            if content.is_empty() {
                continue;
            }
            self.flushed = around.sink.now;
            let mut action = json!({"type": "chat/toolCallContentChanged", "turnId": turn, "toolCallId": id, "content": content});
            if let Some(meta) = self.meta(around, call) {
                action["_meta"] = meta;
            }
            self.act(around.sink, action);
        }
    }

    fn complete_call(
        &mut self,
        around: &mut Around<'_>,
        session: &Session,
        position: usize,
        call: &ToolCall,
        turn: &str,
    ) {
        if self.call(position).is_some_and(|call| call.stage == Stage::Done) {
            return;
        }
        self.ready(around, session, position, call, turn);
        let mut content = self.output(around, session, call);
        if content.is_empty()
            && let Some(output) = call.raw_output()
        {
            content.push(json!({"type": "text", "text": clipped(&plain(output))}));
        }
        let mut result = json!({
            "success": !matches!(call.status(), ToolCallStatus::Failed | ToolCallStatus::Cancelled),
            "pastTenseMessage": invocation(call), "content": content,
        });
        match call.status() {
            ToolCallStatus::Failed => {
                let text =
                    call.content().items().find_map(|item| item.text().map(|text| clipped_to(text, PREVIEW)));
                result["error"] = json!({"message": text.unwrap_or_else(|| "failed".to_owned())});
            }
            ToolCallStatus::Cancelled => result["error"] = json!({"message": "cancelled"}),
            _ => {}
        }
        let Some(known) = self.progress(position).call.as_mut() else { return };
        known.stage = Stage::Done;
        let id = known.id.clone();
        let mut action =
            json!({"type": "chat/toolCallComplete", "turnId": turn, "toolCallId": id, "result": result});
        if let Some(meta) = self.meta(around, call) {
            action["_meta"] = meta;
        }
        self.act(around.sink, action);
    }

    /// Returns the input of a call as text: a command line, a string, or JSON.
    fn input(&self, session: &Session, call: &ToolCall) -> Option<String> {
        let command = || {
            let mut terminals = call.terminal_ids().filter_map(|id| session.terminal(id)?.command());
            terminals.next().map(|command| clipped_to(command, MAX_INPUT))
        };
        let Some(raw) = call.raw_input() else { return command() };
        if *call.kind() == ToolKind::Execute
            && let Some(command) = raw.get("command")
            && let Some(command) = command.as_text()
        {
            return Some(clipped_to(&command, MAX_INPUT));
        }
        Some(clipped_to(&plain(raw), MAX_INPUT))
    }

    /// Returns the chats of the sub-agents that a tool call represents.
    fn chats_of<'a>(&self, around: &Around<'a>, call: &str) -> Vec<(&'a Arc<str>, String)> {
        let conversation: &'a Conversation = around.conversation;
        let chats: &'a HashMap<Arc<str>, Arc<str>> = around.chats;
        let children = conversation.subagents().children(&self.session);
        let children = children.filter(|(_, parent)| parent.tool_call.as_deref() == Some(call));
        children
            .filter_map(|(child, _)| {
                let name = conversation.name(child).unwrap_or_else(|| "Sub-agent".to_owned());
                Some((chats.get(child)?, name))
            })
            .collect()
    }

    fn meta(&self, around: &Around<'_>, call: &ToolCall) -> Option<Value> {
        if let Some((chat, _)) = self.chats_of(around, call.id()).first() {
            return Some(json!({"toolKind": "subagent", "subagentChatUri": &***chat}));
        }
        match call.kind() {
            ToolKind::Execute => Some(json!({"toolKind": "terminal", "language": "shellscript"})),
            ToolKind::Read => Some(json!({"toolKind": "read"})),
            ToolKind::Search => Some(json!({"toolKind": "search"})),
            _ => None,
        }
    }

    fn output(&self, around: &mut Around<'_>, session: &Session, call: &ToolCall) -> Vec<Value> {
        let mut output = Vec::new();
        for (chat, name) in self.chats_of(around, call.id()) {
            output.push(json!({"type": "subagent", "resource": &**chat, "title": name}));
        }
        let mut run = String::new();
        for item in call.content().items() {
            let Some(block) = item.structured() else {
                run.push_str(item.text().unwrap_or_default());
                continue;
            };
            if !run.is_empty() {
                output.push(json!({"type": "text", "text": clipped(&std::mem::take(&mut run))}));
            }
            match block {
                v2::ToolCallContent::Content(content) => output.extend(tool_output(&content.content)),
                v2::ToolCallContent::Diff(diff) => {
                    output.extend(file_edits(diff, around.read, around.contents));
                }
                v2::ToolCallContent::Terminal(terminal) => {
                    output.push(self.terminal(around, session, &terminal.terminal_id, call));
                }
                v2::ToolCallContent::Session(reference) => {
                    let chat = around
                        .chats
                        .get(&*reference.session_id)
                        .filter(|chat| !output.iter().any(|known| known["resource"] == ***chat));
                    if let Some(chat) = chat {
                        let name = around.conversation.name(&reference.session_id);
                        let title = name.unwrap_or_else(|| "Sub-agent".to_owned());
                        output.push(json!({"type": "subagent", "resource": &**chat, "title": title}));
                    }
                }
                // Kinds that this version does not know are in the log.
                v2::ToolCallContent::Unknown(_) => {}
                v2::ToolCallContent::More(none) => none.never(),
            }
        }
        if !run.is_empty() {
            output.push(json!({"type": "text", "text": clipped(&run)}));
        }
        output
    }

    fn terminal(&self, around: &Around<'_>, session: &Session, id: &str, call: &ToolCall) -> Value {
        let terminal = session.terminal(id);
        let command = terminal.and_then(|terminal| terminal.command()).or(call.title()).unwrap_or("terminal");
        let mut content = json!({
            "type": "terminal", "resource": terminal_uri(around.id, &self.session, id),
            "title": clipped_to(command, PREVIEW), "isPty": false,
        });
        if let Some((terminal, status)) =
            terminal.and_then(|terminal| Some((terminal, terminal.exit_status()?)))
        {
            let bytes = terminal.output().to_vec();
            let tail = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(PREVIEW)..]).into_owned();
            let mut result = json!({"preview": tail});
            if let Some(code) = status.exit_code {
                result["exitCode"] = json!(code);
            }
            content["result"] = result;
        }
        content
    }

    /// Shows a sub-agent: in its tool call, or in one of its own.
    fn subagent(&mut self, around: &mut Around<'_>, position: usize, child: &str) {
        let parent = around.conversation.subagents().parent(child).cloned();
        let Some(chat) = around.chats.get(child).cloned() else { return };
        let name = around.conversation.name(child).unwrap_or_else(|| "Sub-agent".to_owned());
        if let Some(call) = parent.and_then(|parent| parent.tool_call) {
            for position in self.calls.clone() {
                if let Some(known) = self.progress(position).call.as_mut().filter(|known| *known.id == *call)
                {
                    known.is_changed = true;
                    self.flushed = Moment(0);
                }
            }
            return;
        }
        if self.progress(position).word.is_some() {
            return;
        }
        self.progress(position).word = Some(name.clone());
        let turn = self.some_turn(around.sink);
        self.part = None;
        let id = format!("subagent-{position}");
        let meta = json!({"toolKind": "subagent", "subagentChatUri": &*chat});
        let content = json!([{"type": "subagent", "resource": &*chat, "title": name}]);
        for action in [
            json!({"type": "chat/toolCallStart", "turnId": turn, "toolCallId": id, "toolName": "subagent", "displayName": name, "_meta": meta}),
            json!({"type": "chat/toolCallReady", "turnId": turn, "toolCallId": id, "invocationMessage": name, "confirmed": "not-needed"}),
            json!({"type": "chat/toolCallComplete", "turnId": turn, "toolCallId": id,
                "result": {"success": true, "pastTenseMessage": name, "content": content}}),
        ] {
            self.act(around.sink, action);
        }
    }

    // ----- plans and usage

    fn plan(&mut self, around: &mut Around<'_>, plan: &Plan) {
        if self.is_muted {
            return;
        }
        let (text, is_done) = checklist(plan);
        let turn = self.some_turn(around.sink);
        let key = plan.id().to_owned();
        let open = self.plans.get(&key).filter(|(_, is_open)| *is_open).map(|(id, _)| id.clone());
        let id = open.unwrap_or_else(|| {
            self.parts += 1;
            self.part = None;
            let id = format!("plan-{}", self.parts);
            let action = json!({"type": "chat/toolCallStart", "turnId": turn, "toolCallId": id, "toolName": "plan", "displayName": "Plan"});
            self.act(around.sink, action);
            id
        });
        // Clients show the message of a call at once, and its content only when it is opened.
        let shown = json!({"markdown": format!("Plan\n\n{text}")});
        let content = json!([{"type": "text", "text": text}]);
        self.act(around.sink, json!({"type": "chat/toolCallReady", "turnId": turn, "toolCallId": id, "invocationMessage": shown, "confirmed": "not-needed"}));
        let action = if is_done {
            json!({"type": "chat/toolCallComplete", "turnId": turn, "toolCallId": id,
                "result": {"success": true, "pastTenseMessage": shown, "content": content}})
        } else {
            json!({"type": "chat/toolCallContentChanged", "turnId": turn, "toolCallId": id, "content": content})
        };
        self.act(around.sink, action);
        self.plans.insert(key, (id, !is_done));
    }

    fn usage(&mut self, around: &mut Around<'_>, session: &Session) {
        let Some(usage) = session.usage() else { return };
        let mut meta = json!({"used": usage.used, "size": usage.size});
        if let Some(cost) = &usage.cost {
            let cost = serde_json::from_str::<Value>(&cost.encode(WireFormat::Any));
            meta["cost"] = cost.unwrap_or_default();
        }
        self.usage["_meta"] = meta;
        self.send_usage(around);
    }

    fn send_usage(&mut self, around: &mut Around<'_>) {
        if let Some(turn) = self.turn() {
            let action = json!({"type": "chat/usage", "turnId": turn, "usage": self.usage});
            self.act(around.sink, action);
        }
    }

    // ----- questions

    /// Asks for a permission, in the tool call that it is about or in one of its own.
    pub(crate) fn ask(
        &mut self,
        around: &mut Around<'_>,
        id: &str,
        request: &v2::RequestPermissionRequest<'_>,
    ) {
        let conversation = around.conversation;
        let Some(session) = conversation.session(Some(&self.session)) else { return };
        self.flush_user(around, session);
        let turn = self.some_turn(around.sink);
        self.part = None;
        let subject = match &request.subject {
            Some(v2::RequestPermissionSubject::ToolCall(subject)) => Some(&*subject.tool_call.tool_call_id),
            Some(v2::RequestPermissionSubject::Command(command)) => command.tool_call_id.as_deref(),
            _ => None,
        };
        let position = subject.and_then(|call| session.position(EntryKind::ToolCall, call));
        if let Some((position, call)) =
            position.and_then(|position| Some((position, session.entry(position)?.as_tool_call()?)))
            && self.call(position).is_none()
        {
            self.tool_call(around, session, position, call);
        }
        let is_free = |known: &&Call| matches!(known.stage, Stage::Announced | Stage::Running);
        let known = position
            .filter(|position| self.calls.contains(position))
            .and_then(|position| self.call(position));
        let known = known.filter(is_free).map(|known| known.id.clone());
        let is_own = known.is_none();
        let call = known.unwrap_or_else(|| {
            self.parts += 1;
            let id = format!("question-{}", self.parts);
            let action = json!({"type": "chat/toolCallStart", "turnId": turn, "toolCallId": id, "toolName": "permission",
                "displayName": clipped(&request.title)});
            self.act(around.sink, action);
            id
        });
        if let Some(position) = position.filter(|_| !is_own)
            && let Some(known) = self.progress(position).call.as_mut()
        {
            known.stage = Stage::Asking;
        }
        let mut action = json!({
            "type": "chat/toolCallReady", "turnId": turn, "toolCallId": call,
            "confirmationTitle": clipped(&request.title), "invocationMessage": {"markdown": question::subject(request)},
            "options": question::options(request),
        });
        let called = position.and_then(|position| session.entry(position)).and_then(Entry::as_tool_call);
        let entered = called.and_then(|call| self.input(session, call)).or_else(|| match &request.subject {
            Some(v2::RequestPermissionSubject::Command(command)) => Some(command.command.to_string()),
            _ => None,
        });
        if let Some(entered) = entered {
            action["toolInput"] = json!(entered);
        }
        self.act(around.sink, action);
        let need = format!("need-{id}");
        if let Some(state) = self.call_state(&call) {
            self.notes.push(Note::Need(json!({
                "kind": "toolConfirmation", "id": need, "chat": &*self.uri, "turnId": turn, "toolCall": state,
            })));
        }
        let options = request
            .options
            .iter()
            .map(|option| (option.option_id.to_string(), option.kind.clone()))
            .collect();
        let kind = QuestionKind::Permission { call, is_own, options };
        self.questions.push(Question { id: id.to_owned(), turn, need, kind });
    }

    fn call_state(&self, id: &str) -> Option<Value> {
        let parts = &self.state.active_turn.as_ref()?.response_parts;
        let state = parts.iter().rev().find_map(|part| match part {
            ResponsePart::ToolCall(call) => match &call.tool_call {
                state @ ToolCallState::PendingConfirmation(pending) if pending.tool_call_id == id => {
                    Some(state)
                }
                _ => None,
            },
            _ => None,
        });
        serde_json::to_value(state?).ok()
    }

    /// Asks for data.
    pub(crate) fn ask_for_data(
        &mut self,
        around: &mut Around<'_>,
        id: &str,
        request: &v2::CreateElicitationRequest<'static>,
    ) {
        if let Some(session) = around.conversation.session(Some(&self.session)) {
            self.flush_user(around, session);
        }
        let turn = self.some_turn(around.sink);
        self.part = None;
        let shown = question::input_request(id, request);
        self.act(around.sink, json!({"type": "chat/inputRequested", "turnId": turn, "request": shown}));
        let need = format!("need-{id}");
        self.notes
            .push(Note::Need(json!({"kind": "chatInput", "id": need, "chat": &*self.uri, "request": shown})));
        let kind = QuestionKind::Form { request: Box::new(request.clone()) };
        self.questions.push(Question { id: id.to_owned(), turn, need, kind });
    }

    /// Removes a question that was answered or withdrawn elsewhere.
    pub(crate) fn withdraw(&mut self, around: &mut Around<'_>, id: &str) {
        let Some(index) = self.questions.iter().position(|question| question.id == id) else { return };
        let question = self.questions.remove(index);
        self.notes.push(Note::Met(question.need.clone()));
        match &question.kind {
            QuestionKind::Form { .. } => {
                self.act(
                    around.sink,
                    json!({"type": "chat/inputCompleted", "requestId": question.id, "response": "cancel"}),
                );
            }
            QuestionKind::Permission { call, is_own: true, .. } => {
                let result =
                    json!({"success": true, "pastTenseMessage": "Answered by another client or withdrawn"});
                let action = json!({"type": "chat/toolCallComplete", "turnId": question.turn, "toolCallId": call, "result": result});
                self.act(around.sink, action);
            }
            QuestionKind::Permission { .. } => {
                // The next update of the tool call tells how it was answered.
                self.resume_call(around, &question);
            }
        }
    }

    /// Continues a tool call whose question is no longer open.
    fn resume_call(&mut self, around: &mut Around<'_>, question: &Question) {
        let QuestionKind::Permission { call, is_own: false, .. } = &question.kind else { return };
        let Some(session) = around.conversation.session(Some(&self.session)) else { return };
        let of_call = |position: &usize| self.call(*position).is_some_and(|known| known.id == *call);
        let Some(position) = self.calls.iter().copied().find(of_call) else { return };
        if let Some(known) = self.progress(position).call.as_mut() {
            known.stage = Stage::Announced;
        }
        if let Some(called) = session.entry(position).and_then(Entry::as_tool_call) {
            self.ready(around, session, position, called, &question.turn);
        }
    }

    /// Applies an answer of a client to a question and sends it.
    pub(crate) fn answer(
        &mut self,
        around: &mut Around<'_>,
        index: usize,
        action: &Value,
        origin: Option<Value>,
    ) -> Result<(), String> {
        apply(&mut self.state, action)?;
        around.sink.sent.push(Sent {
            channel: Arc::clone(&self.uri),
            action: action.clone(),
            origin,
            rejected: None,
        });
        self.changed = around.sink.now;
        let question = self.questions.remove(index);
        self.notes.push(Note::Met(question.need.clone()));
        let QuestionKind::Permission { call, is_own, .. } = &question.kind else { return Ok(()) };
        let is_approved = action["approved"] == true;
        if *is_own {
            if is_approved {
                let result = json!({"success": true, "pastTenseMessage": "Allowed"});
                let done = json!({"type": "chat/toolCallComplete", "turnId": question.turn, "toolCallId": call, "result": result});
                self.act(around.sink, done);
            }
            return Ok(());
        }
        let of_call = |position: &usize| self.call(*position).is_some_and(|known| known.id == *call);
        if let Some(position) = self.calls.iter().copied().find(of_call) {
            let head = match around
                .conversation
                .session(Some(&self.session))
                .and_then(|session| session.entry(position))
            {
                Some(Entry::ToolCall(called)) => {
                    let session = around.conversation.session(Some(&self.session));
                    let input = session.and_then(|session| self.input(session, called));
                    format!("{}{input:?}", invocation(called))
                }
                _ => String::new(),
            };
            if let Some(known) = self.progress(position).call.as_mut() {
                // A refused call is over for clients.
                known.stage = if is_approved { Stage::Running } else { Stage::Done };
                known.head = head;
            }
            if !is_approved {
                self.calls.retain(|known| *known != position);
            }
        }
        Ok(())
    }
}

/// A copy of a state without its history, to try an action on.
trait WithoutTurns {
    fn clone_without_turns(&self) -> Self;
}

impl WithoutTurns for ChatState {
    fn clone_without_turns(&self) -> Self {
        let mut copy = json!({"resource": self.resource, "title": "", "status": self.status, "modifiedAt": self.modified_at, "turns": []});
        if let Some(turn) = &self.active_turn {
            copy["activeTurn"] = json!({"id": turn.id, "startedAt": turn.started_at, "message": {"text": "", "origin": {"kind": "user"}}, "responseParts": []});
        }
        serde_json::from_value(copy).unwrap_or_else(|_| self.clone())
    }
}

fn title(call: &ToolCall) -> String {
    clipped_to(call.title().or(call.name()).unwrap_or(call.kind().as_str()), PREVIEW)
}

/// Returns the title of a call with links to its files.
fn invocation(call: &ToolCall) -> Value {
    let title = title(call);
    if call.locations().is_empty() {
        return json!(title);
    }
    let links = call.locations().iter().take(20).map(|location| {
        let path = location.path.as_str();
        let line = location
            .line
            .as_ref()
            .map(|line| format!("#L{}", line.encode(WireFormat::Any)))
            .unwrap_or_default();
        link(file_name(path), &format!("{}{line}", file_uri(path)))
    });
    let links: Vec<String> = links.collect();
    json!({"markdown": format!("{} {}", escaped(&title), links.join(", "))})
}

fn plain(raw: &switchboard_acp::Raw<'_>) -> String {
    match raw.as_text() {
        Some(text) => text.into_owned(),
        None => raw.as_str().to_owned(),
    }
}

/// Returns a plan as a Markdown checklist, and whether all of it is done.
fn checklist(plan: &Plan) -> (String, bool) {
    match plan.content() {
        v2::PlanUpdateContent::Items(items) => {
            let line = |entry: &v2::PlanEntry<'_>| {
                let content = &entry.content;
                match entry.status {
                    v2::PlanEntryStatus::Completed => format!("- [x] {content}\n"),
                    v2::PlanEntryStatus::InProgress => format!("- [ ] **{content}**\n"),
                    v2::PlanEntryStatus::Cancelled => format!("- [ ] ~~{content}~~\n"),
                    _ => format!("- [ ] {content}\n"),
                }
            };
            let is_done = |entry: &v2::PlanEntry<'_>| {
                matches!(entry.status, v2::PlanEntryStatus::Completed | v2::PlanEntryStatus::Cancelled)
            };
            let text: String = items.entries.iter().map(line).collect();
            (clipped(&text), !items.entries.is_empty() && items.entries.iter().all(is_done))
        }
        v2::PlanUpdateContent::Markdown(markdown) => (clipped(&markdown.content), false),
        v2::PlanUpdateContent::File(file) => (link(file_name(&file.uri), &file.uri), false),
        v2::PlanUpdateContent::Unknown(unknown) => {
            (format!("a plan of the unknown kind {}", code_span(&unknown.tag)), false)
        }
        v2::PlanUpdateContent::More(none) => none.never(),
    }
}
