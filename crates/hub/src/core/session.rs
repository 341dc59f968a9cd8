//! State of one session: its metadata, queue, subscribers and the tail of its log.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_acp::extensions::{
    AGENT, Author, HubRecord, OWNER, PromptRecord, QuestionRecord, STATE, UNRESPONSIVE,
};
use switchboard_acp::rpc::{Message, RequestId, codes};
use switchboard_acp::{Meta, Raw, Wire, WireFormat};
use switchboard_session::{prompt_title, prompt_title_in};
use switchboard_store::{Channel, Moment};
use switchboard_transport::SharedText;

use super::client_message::ClientMessage;
use super::clients::Clients;
use super::context::Context;
use super::delivery::{self, Delivery};
use super::lifecycle::Lifecycle;
use super::native::Origin;
use super::notices::{AnnouncedPrompt, ClientAction, received, resolved};
use super::questions::Questions;
use super::services::Services;
use super::session_events::{self, EventState, SessionEvents};
use super::session_state::{Question, RecordKind, SessionState};
use super::{
    AgentId, ConnectionId, Identity, Output, QueuedPrompt, SessionActivity, SessionId, SessionInfo,
    SessionSummary, ToClient, lines,
};

/// Maximum number of records in the tail.
const TAIL_RECORDS: usize = 2048;
/// Maximum size of the tail in bytes.
const TAIL_BYTES: usize = 2 * 1024 * 1024;

/// Maximum number of characters of a queued prompt in a summary.
const PREVIEW_CHARS: usize = 200;

/// A session of the hub.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) info: SessionInfo,
    /// Tokens that it is shared with, by name and creation time. A later token with the same name is a different one.
    pub(super) shared: HashSet<(Arc<str>, i64)>,
    /// `None` until the log has been loaded.
    pub(super) state: Option<SessionState>,
    pub(super) is_loading: bool,
    pub(super) process: Option<AgentId>,
    /// Reason why the agent process exited by itself.
    pub(super) lost: Option<String>,
    /// Time since which it has had neither work nor subscribers, by the monotonic clock.
    pub(super) idle_since: Option<u64>,
    /// The process that still has the session while it is dormant.
    pub(super) parked: Option<AgentId>,
    /// Time at which the running turn was cancelled, by the monotonic clock.
    pub(super) cancelled_at: Option<u64>,
    /// True if the agent did not stop after a cancellation, so that the hub has ended the turn itself.
    pub(super) is_unresponsive: bool,
    /// True if the agent is being asked to resume the session.
    pub(super) is_resuming: bool,
    /// Sequence number of the next record.
    pub(super) next: u64,
    tail: VecDeque<TailRecord>,
    tail_bytes: usize,
    /// The tail contains every record for clients from this offset on.
    pub(super) tail_start: u64,
    pub(super) subscribers: BTreeSet<ConnectionId>,
    /// Messages that wait until the log is loaded or the agent is ready.
    pub(super) waiting: VecDeque<(ConnectionId, ClientMessage)>,
    pub(super) prompts: VecDeque<Prompt>,
    /// True if this hub owns the session and may write its log.
    pub(super) is_owned: bool,
    /// True if this hub is trying to become the owner.
    pub(super) is_acquiring: bool,
    /// Start of the last attempt.
    pub(super) acquire_started_at: u64,
    /// Time of the last record from another hub.
    pub(super) last_heard_at: u64,
    /// The hub that owns the session, if it is another one and known.
    pub(super) hub: Option<Arc<str>>,
    /// Least length of the log, derived from records of other hubs.
    pub(super) followed_length: u64,
    /// A prompt that another hub has announced in a record. Its text is in the next one.
    pub(super) announced: Option<AnnouncedPrompt>,
    /// Data for events of the session.
    pub(super) events: EventState,
}

/// A record in the tail.
#[derive(Debug, Clone)]
pub(super) struct TailRecord {
    pub(super) sequence: u64,
    pub(super) is_question: bool,
    pub(super) origin: Origin,
    /// As it is in the log.
    pub(super) text: Arc<str>,
    /// As clients get it, once it has been delivered.
    pub(super) line: Option<ToClient>,
}

/// A prompt in the queue.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) connection: ConnectionId,
    pub(super) id: RequestId<'static>,
    pub(super) params: Raw<'static>,
    pub(super) operation: Option<String>,
    /// Number of redeliveries.
    pub(super) redeliveries: usize,
}

impl Prompt {
    fn summary(&self) -> QueuedPrompt {
        QueuedPrompt { text: self.preview(), operation: self.operation.clone() }
    }

    /// Returns the beginning of its text, for display.
    fn preview(&self) -> String {
        let blocks = self.params.get("prompt");
        let blocks = blocks.iter().flat_map(Raw::items);
        let text = blocks.filter_map(|block| block.get("text")?.as_text().map(std::borrow::Cow::into_owned));
        text.collect::<Vec<_>>().join(" ").chars().take(PREVIEW_CHARS).collect()
    }
}

impl Session {
    /// Creates a dormant session whose log is not loaded.
    pub(super) fn dormant(info: SessionInfo) -> Self {
        Session {
            next: info.length,
            tail_start: info.length,
            info,
            shared: HashSet::new(),
            state: None,
            is_loading: false,
            process: None,
            is_resuming: false,
            idle_since: None,
            parked: None,
            cancelled_at: None,
            is_unresponsive: false,
            lost: None,
            tail: VecDeque::new(),
            tail_bytes: 0,
            subscribers: BTreeSet::new(),
            waiting: VecDeque::new(),
            prompts: VecDeque::new(),
            is_owned: true,
            announced: None,
            events: EventState::default(),
            is_acquiring: false,
            acquire_started_at: 0,
            last_heard_at: 0,
            hub: None,
            followed_length: 0,
        }
    }

    /// Returns whether a client may see the session: it sees all sessions, or this one is shared with its token.
    pub(super) fn is_visible_to(&self, identity: &Identity) -> bool {
        identity.sees_all() || self.shared.contains(&(Arc::clone(&identity.name), identity.made))
    }

    /// Returns whether the session was started with this token. The name alone is not sufficient: a later token may
    /// have the same one.
    pub(super) fn is_started_by(&self, identity: &Identity) -> bool {
        *self.info.owner == *identity.name
            && self.shared.contains(&(Arc::clone(&identity.name), identity.made))
    }

    /// Adds a record to the tail, while there are subscribers.
    pub(super) fn push_tail(
        &mut self,
        sequence: u64,
        kind: RecordKind,
        origin: Origin,
        text: &Arc<str>,
        line: Option<ToClient>,
    ) {
        // Without subscribers the tail stays empty. The next subscriber starts with a replay from the log.
        if self.subscribers.is_empty() {
            self.tail.clear();
            self.tail_bytes = 0;
            self.tail_start = sequence + 1;
            return;
        }
        // Records that are not for clients need no entry; delivery skips their offsets.
        if !matches!(kind, RecordKind::Update | RecordKind::Native | RecordKind::Question) {
            return;
        }
        self.tail_bytes += text.len();
        self.tail.push_back(TailRecord {
            sequence,
            is_question: kind == RecordKind::Question,
            origin,
            text: Arc::clone(text),
            line,
        });
        // Bounds memory per session. A subscriber that falls behind `tail_start` reads the log instead. The newest
        // record is kept even if it exceeds the limit alone.
        while self.tail.len() > TAIL_RECORDS || (self.tail_bytes > TAIL_BYTES && self.tail.len() > 1) {
            let Some(oldest) = self.tail.pop_front() else { return };
            self.tail_bytes -= oldest.text.len();
            self.tail_start = oldest.sequence + 1;
        }
    }

    /// Continues the log at an offset with an empty tail. Records after this offset may not have been written.
    pub(super) fn reset_tail(&mut self, offset: u64) {
        // The tail may contain records that were never written, so none of it can be delivered.
        self.next = offset;
        self.tail.clear();
        self.tail_bytes = 0;
        self.tail_start = offset;
    }

    /// Returns the first record in the tail at or after an offset.
    pub(super) fn tail_record(&mut self, offset: u64) -> Option<&mut TailRecord> {
        // Usually it is the last one.
        let at = match self.tail.back() {
            Some(last) if last.sequence < offset => return None,
            Some(last) if last.sequence == offset => self.tail.len() - 1,
            _ => self.tail.partition_point(|recent| recent.sequence < offset),
        };
        self.tail.get_mut(at)
    }

    /// Returns the records in the tail from an offset on.
    pub(super) fn tail_from(&self, offset: u64) -> impl Iterator<Item = &TailRecord> {
        let at = self.tail.partition_point(|recent| recent.sequence < offset);
        self.tail.range(at..)
    }

    /// Returns the agent's id of the session.
    pub(super) fn agent_session(&self) -> Option<&str> {
        self.state.as_ref()?.agent_session.as_deref()
    }

    /// Returns the agent's id of the session, even if the log is not loaded.
    pub(super) fn agent_session_known(&self) -> Option<&str> {
        self.agent_session().or(Some(&*self.info.agent_session)).filter(|id| !id.is_empty())
    }

    /// Returns the current activity.
    pub(super) fn activity(&self) -> SessionActivity {
        // A session of another hub has the activity that it has there.
        let has_agent = self.process.is_some() || self.hub.is_some();
        // Questions take precedence over work, because they wait for a user.
        match self.state.as_ref().filter(|_| has_agent) {
            Some(state) if !state.questions.is_empty() => SessionActivity::Waiting,
            Some(state) if state.is_busy() => SessionActivity::Working,
            _ if self.process.is_some() => SessionActivity::Idle,
            _ => SessionActivity::Dormant,
        }
    }

    /// Returns the summary for clients.
    pub(super) fn summary(&self) -> SessionSummary {
        let SessionInfo { id, agent, agent_session: _, owner, folder, title, changed, length: _ } =
            self.info.clone();
        let title = self.title().or(title);
        let questions = self.state.as_ref().map_or(0, |state| state.questions.len());
        let lost = self.lost.clone();
        let queued = self.prompts.iter().map(Prompt::summary).collect();
        SessionSummary {
            id,
            agent,
            owner,
            folder,
            title,
            changed,
            state: self.activity(),
            questions,
            lost,
            is_unresponsive: self.is_unresponsive,
            queued,
        }
    }

    /// Returns the title: the agent's, or one from the first prompt, which may still be queued. `None`: the session is
    /// empty.
    pub(super) fn title(&self) -> Option<String> {
        // The agent's title, then that of the metadata for a session that is not loaded, then a queued prompt.
        let remembered = self.state.as_ref().and_then(|state| state.title().map(str::to_owned));
        let queued = || prompt_title(&self.prompts.front()?.params.get("prompt")?);
        remembered.or_else(|| self.info.title.clone()).or_else(queued)
    }

    /// Returns the entry for `session/list`.
    pub(super) fn information(&self) -> Value {
        let SessionInfo { agent, owner, .. } = &self.info;
        let mut meta = vec![
            AGENT.entry(agent.as_str()),
            STATE.entry(self.activity().as_str()),
            OWNER.entry(owner.as_str()),
        ];
        meta.extend(self.is_unresponsive.then(|| UNRESPONSIVE.entry(true)));
        let [date, time] = Moment(self.info.changed).date_and_time();
        let mut information = json!({
            "sessionId": &*self.info.id, "cwd": self.info.folder,
            "updatedAt": format!("{date}T{time}Z"),
            "_meta": Meta::from_entries(meta).as_raw(),
        });
        // The key is optional, and some clients fail on `null`.
        if let Some(title) = self.title() {
            information["title"] = title.into();
        }
        information
    }

    /// Returns the result of opening the session.
    pub(super) fn opened_result(&self) -> String {
        let Some(state) = &self.state else { return "{}".to_owned() };
        let lists = state.lists();
        let known = ["configOptions", "availableCommands"].iter().zip(&lists);
        let known: Vec<(&str, &str)> =
            known.filter_map(|(key, list)| Some((*key, list.as_deref()?))).collect();
        lines::merged(None, &known)
    }

    pub(super) fn id(&self) -> &SessionId {
        &self.info.id
    }

    /// Appends a record to the log of a session, and delivers it to the subscribers. Returns its sequence number.
    pub(super) fn append(
        &mut self,
        cx: &mut Context,
        channel: Channel,
        text: impl Into<Arc<str>>,
    ) -> Option<u64> {
        self.append_decoded(cx, channel, text, None)
    }

    /// Appends a record whose message is already decoded.
    pub(super) fn append_decoded(
        &mut self,
        cx: &mut Context,
        channel: Channel,
        text: impl Into<Arc<str>>,
        message: Option<&Message<'_>>,
    ) -> Option<u64> {
        if !self.is_owned {
            return None;
        }
        self.apply_record(cx, channel, text.into(), message)
    }

    /// Applies a record that this hub appends, or that another hub has appended.
    pub(super) fn apply_record(
        &mut self,
        cx: &mut Context,
        channel: Channel,
        text: Arc<str>,
        message: Option<&Message<'_>>,
    ) -> Option<u64> {
        let id = &SessionId::clone(self.id());
        let session = &mut *self;
        let is_owned = session.is_owned;
        let sequence = session.next;
        session.next += 1;
        session.info.changed = cx.outbox.time;
        let state = session.state.get_or_insert_default();
        let (was_busy, renamed) = (state.is_busy(), state.renamed);
        let asked: Vec<u64> = state.questions.keys().copied().collect();
        let kind = match message {
            Some(message) if channel == Channel::ToClient => state.apply_agent_message(sequence, message),
            _ => state.apply(sequence, channel, &text),
        };
        let came_to_rest = was_busy && !state.is_busy();
        let has_new_title = state.renamed != renamed;
        let is_different =
            has_new_title || was_busy != state.is_busy() || asked.len() != state.questions.len();
        // The owner cancels its questions itself.
        let closed: Vec<u64> = match is_owned {
            true => Vec::new(),
            false => asked.into_iter().filter(|offset| !state.questions.contains_key(offset)).collect(),
        };
        let line = match message {
            Some(Message::Notification(notification)) if !session.subscribers.is_empty() => {
                let cursor = Some(lines::cursor(id, sequence));
                Some(delivery::client_line(notification, state, id, cursor, None))
            }
            _ => None,
        };
        if session.info.title.is_none() {
            // Kept for the time when the state is not loaded.
            session.info.title = state.title().map(str::to_owned);
        }
        let origin = state.origin.clone();
        // An update of a tool call may change the question about it.
        let changed_call = match message {
            Some(message) if !state.questions.is_empty() => session_events::changed_call(message),
            _ => None,
        };
        session.push_tail(sequence, kind, origin, &text, line);
        cx.outbox.summary_version += u64::from(is_different || sequence == 0);
        if is_owned {
            cx.cluster.note_length(id, Some(sequence + 1));
            cx.outbox.push(Output::Append { session: Arc::clone(id), sequence, channel, text });
        }
        for offset in closed {
            Questions::of(self, cx).cancel_asked(offset, None);
        }
        if has_new_title {
            cx.outbox.push(Output::Changed { session: Arc::clone(id) });
        }
        // Only the owner evaluates the policy, on the state that includes this question.
        let decision = match kind {
            RecordKind::Question if is_owned => Questions::of(self, cx).evaluate(sequence),
            _ => None,
        };
        match (kind, decision) {
            (RecordKind::Question, Some(decision)) => {
                Questions::of(self, cx).apply_decision(sequence, &decision);
            }
            (RecordKind::Update | RecordKind::Native | RecordKind::Question, _) => {
                Delivery::of(self, cx).deliver_all();
            }
            (RecordKind::Cancelled(offset), _) => Questions::of(self, cx).cancel_asked(offset, None),
            (RecordKind::Internal, _) => {}
        }
        let new = (kind == RecordKind::Question).then_some(sequence);
        SessionEvents::of(self, cx).emit_questions(new, changed_call.as_deref());
        if came_to_rest {
            SessionEvents::of(self, cx).emit_turn_end();
            self.turn_ended(cx);
        }
        Some(sequence)
    }

    /// Appends a record of the hub itself.
    pub(super) fn append_hub_record(&mut self, cx: &mut Context, record: &HubRecord<'_>) {
        let _ = self.append(cx, Channel::Hub, record.to_json());
    }

    /// Sends a notice to the clients of a session that understand notices.
    pub(super) fn notice(&mut self, cx: &mut Context, update: &Value, except: Option<ConnectionId>) {
        let id = &SessionId::clone(self.id());
        let text: SharedText = lines::update(id, &update.to_string()).into();
        for connection in self.notice_subscribers(cx) {
            if Some(connection) != except {
                cx.outbox.send(connection, text.clone(), Some(id));
            }
        }
    }

    fn notice_subscribers(&self, cx: &Context) -> Vec<ConnectionId> {
        let id = &SessionId::clone(self.id());
        let attached = self.subscribers.iter().copied();
        let knows = |connection: &ConnectionId| {
            let subscription =
                cx.clients.connections.get(connection).and_then(|client| client.subscriptions.get(id));
            subscription.is_some_and(|subscription| subscription.wants_notices)
        };
        attached.filter(knows).collect()
    }

    /// Returns the notice for a record of another hub. Must be called before the record is applied.
    pub(super) fn notice_of_record(
        &mut self,
        cx: &mut Context,
        channel: Channel,
        text: &str,
    ) -> Option<(Value, Option<ConnectionId>)> {
        let id = &SessionId::clone(self.id());
        let announced = self.announced.take();
        if self.notice_subscribers(cx).is_empty() {
            return None;
        }
        match channel {
            Channel::Hub => match HubRecord::parse(text)?.into_owned() {
                HubRecord::Prompt(PromptRecord { by, operation, .. }) => {
                    let by = by.unwrap_or_else(Author::new);
                    let announced = AnnouncedPrompt { by, operation: operation.map(Into::into) };
                    self.announced = Some(announced);
                    None
                }
                HubRecord::Answered(QuestionRecord { question: Some(offset), outcome, by, .. }) => {
                    let outcome = outcome.map(|outcome| outcome.to_value()).unwrap_or_default();
                    let by = by.unwrap_or_else(Author::new);
                    let update = resolved(self.question(offset)?, &outcome, &by, None);
                    Some((update, cx.cluster.take_action(id, &ClientAction::Answer(offset))))
                }
                _ => None,
            },
            Channel::ToAgent => {
                let AnnouncedPrompt { by, operation } = announced?;
                let Ok(Message::Request(request)) = Message::decode(text, WireFormat::Any) else {
                    return None;
                };
                let prompt = request.params.as_ref().and_then(|params| params.get("prompt"));
                let update = received(prompt.as_ref(), &by, None);
                let from = operation.and_then(|name| cx.cluster.take_action(id, &ClientAction::Prompt(name)));
                Some((update, from))
            }
            _ => None,
        }
    }

    /// Starts loading the log of a session.
    pub(super) fn load(&mut self, cx: &mut Context) {
        let id = &SessionId::clone(self.id());
        let session = &mut *self;
        if !std::mem::replace(&mut session.is_loading, true) {
            cx.outbox.push(Output::Load { session: Arc::clone(id) });
        }
    }

    /// Tries to make this hub the owner of a session.
    pub(super) fn acquire(&mut self, cx: &mut Context) {
        let id = &SessionId::clone(self.id());
        let now = cx.outbox.now;
        let session = &mut *self;
        // Also updated while an attempt is running, so that `check_cluster` waits before it tries again.
        session.acquire_started_at = now;
        if !std::mem::replace(&mut session.is_acquiring, true) {
            cx.outbox.push(Output::Acquire { session: Arc::clone(id) });
        }
    }

    /// Removes the prompts that have not been sent to the agent from the queue.
    pub(super) fn cancel_prompts(&mut self, cx: &mut Context) {
        let known = &mut *self;
        for prompt in std::mem::take(&mut known.prompts) {
            cx.outbox.summary_version += 1;
            let message = "the turn was cancelled";
            cx.refuse(prompt.connection, &prompt.id, codes::REQUEST_CANCELLED, message, None);
        }
    }

    /// Handles the end of a turn.
    pub(super) fn turn_ended(&mut self, cx: &mut Context) {
        let state = self.state.as_ref();
        let reason = state.and_then(|state| state.stop_reason());
        let notice = json!({"sessionUpdate": "turn_complete", "stopReason": reason});
        self.notice(cx, &notice, None);
        self.cancelled_at = None;
        Lifecycle::of(self, cx).run_next_prompt();
    }

    /// Detaches a session from a process.
    pub(super) fn release_process(&mut self, cx: &mut Context, process: AgentId) {
        let id = &SessionId::clone(self.id());
        if let Some(process) = cx.agents.processes.get_mut(&process) {
            process.sessions.retain(|_, known| known != id);
            process.users.remove(id);
        }
        // The next process starts with other tool calls.
        if let Some(state) = &mut self.state {
            state.clear_calls();
        }
    }

    /// Releases the process of a dormant session. Another hub may become the owner, and the state of this process would
    /// be out of date.
    pub(super) fn release_parked(&mut self, cx: &mut Context) {
        if let Some(process) = self.parked.take() {
            self.release_process(cx, process);
        }
    }

    /// Returns a pending question by its offset.
    pub(super) fn question(&self, offset: u64) -> Option<&Question> {
        self.state.as_ref()?.questions.get(&offset)
    }

    /// Returns the capabilities that the clients of the session offer: those of the client that attached last.
    pub(super) fn services(&self, clients: &Clients) -> Services {
        let offers = self
            .subscribers
            .iter()
            .filter_map(|connection| Some((connection, clients.connections.get(connection)?)))
            .filter(|(_, client)| client.forwarded_key.is_none() && client.services != Services::default());
        offers
            .max_by_key(|(connection, _)| **connection)
            .map(|(_, client)| client.services)
            .unwrap_or_default()
    }

    /// Applies records of another hub, which owns the session.
    pub(super) fn follow(&mut self, cx: &mut Context, hub: &Arc<str>, records: &[(u64, Channel, Arc<str>)]) {
        if self.is_owned {
            return;
        }
        self.hub = Some(Arc::clone(hub)).filter(|hub| cx.options.name.as_ref() != Some(hub));
        self.last_heard_at = cx.outbox.now;
        let end = records.last().map_or(0, |(sequence, ..)| sequence + 1);
        self.followed_length = self.followed_length.max(end);
        for (sequence, channel, text) in records {
            // A record that was already applied, for example read from the store meanwhile.
            if *sequence < self.next {
                continue;
            }
            let is_next = *sequence == self.next;
            if self.state.is_none() || !is_next {
                // The log is read on demand; the tail ends here.
                cx.outbox.summary_version += u64::from(self.next == 0);
                self.reset_tail(sequence + 1);
                self.info.changed = cx.outbox.time;
                let is_nameless = self.info.title.is_none();
                if is_nameless && let Some((_, title)) = title_in(*channel, text) {
                    self.info.title = Some(title);
                    cx.outbox.summary_version += 1;
                }
                // The prompt that gives the title may be among the missed records.
                if self.state.take().is_some() || (is_nameless && !is_next) {
                    self.load(cx);
                }
            } else {
                let notice = self.notice_of_record(cx, *channel, text);
                self.apply_record(cx, *channel, Arc::clone(text), None);
                if let Some((update, except)) = notice {
                    self.notice(cx, &update, except);
                }
            }
        }
    }

    /// Returns whether the session must not become dormant: clients are attached, or there is work.
    pub(super) fn is_needed(&self) -> bool {
        !self.subscribers.is_empty()
            || self.is_resuming
            || self.is_busy()
            || !self.prompts.is_empty()
            || !self.waiting.is_empty()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.state.as_ref().is_some_and(SessionState::is_busy)
    }
}

/// Returns the title from a record of another hub, if it is a prompt.
fn title_in(channel: Channel, text: &str) -> Option<(String, String)> {
    if channel != Channel::ToAgent || !text.contains("\"session/prompt\"") {
        return None;
    }
    prompt_title_in(&Message::decode(text, WireFormat::Any).ok()?)
}
