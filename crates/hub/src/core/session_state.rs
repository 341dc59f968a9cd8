//! State folded from the log of a session, as far as the hub needs it. It depends on the records only, so it is the
//! same during a session and after a restart. A [`Conversation`] has the protocol state. Beside it is the state that
//! only the hub has: the agent's ids of the session, idempotency keys of prompts, and the offsets of questions.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};

use switchboard_acp::extensions::{HubRecord, PromptRecord, QuestionRecord};
use switchboard_acp::rpc::{CancelRequestNotification, Message, Request, RequestId, codes};
use switchboard_acp::{Moment, Raw, Side, Wire, WireFormat, v2};
use switchboard_session::{
    Activity, Change, Conversation, Decider, Folded, MAX_SUBAGENTS, TurnOutcome, check_elicitation,
    prompt_title_in,
};
use switchboard_store::Channel;

use super::lines::{self, Outcome, text_of};
use super::losses::LossCounts;
use super::native::{Origin, OriginTracker};
use super::questions::ELICITATION;

/// Maximum number of prompts that are remembered to recognize duplicates.
const OPERATIONS: usize = 256;
/// Maximum number of pending questions of one session.
const QUESTIONS: usize = 1024;
/// Maximum size of these in bytes: that of the longest message.
const QUESTION_BYTES: usize = 32 * 1024 * 1024;
/// Maximum number of characters of a question in a notice.
const TITLE: usize = 200;
/// Maximum number of tool calls whose status is tracked. The oldest are dropped.
const CALLS: usize = 4096;
/// Maximum number of validation errors in a message.
const FAULTS: usize = 5;
/// Error message for a question whose id another pending question has.
pub(super) const ID_IN_USE: &str = "the request id is already in use by a pending request";
/// Separates the hub's session id from the agent's id of a sub-agent.
pub(crate) const SUBAGENT_SEPARATOR: char = ':';

/// A pending question of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// The agent's request id.
    pub(crate) id: RequestId<'static>,
    pub(crate) method: String,
    /// The parameters as received.
    pub(crate) params: Raw<'static>,
    /// The agent's own request, if this is a translation of it.
    pub(crate) native: Option<Raw<'static>>,
}

impl Question {
    pub(crate) fn of(request: &Request<'_>) -> Self {
        let Request { id, method, params, .. } = request.clone();
        Question {
            id: id.into_owned(),
            method: method.into_owned(),
            params: params.map_or_else(|| Raw::from(serde_json::json!({})), Raw::into_owned),
            native: None,
        }
    }

    /// Makes a question about a request of one client one of the session: the other clients do not know that request.
    fn bind_to_session(&mut self, session: &str) {
        if self.params.get("sessionId").is_none() {
            let params = Raw::parse(lines::without(&self.params, "requestId")).ok();
            let params = lines::merged(params.as_ref(), &[("sessionId", &lines::quoted(session))]);
            if let Ok(params) = Raw::parse(params) {
                self.params = params;
            }
        }
    }

    /// Returns the text of the question.
    pub(crate) fn title(&self) -> String {
        let words = text_of(Some(&self.params), "title").or_else(|| text_of(Some(&self.params), "message"));
        words.unwrap_or_default().chars().take(TITLE).collect()
    }

    /// Returns the reason why an answer is invalid.
    pub(crate) fn validation_error(&self, outcome: &Outcome) -> Option<String> {
        let Outcome::Result(answer) = outcome else { return None };
        if self.method != ELICITATION {
            return None;
        }
        let request = v2::CreateElicitationRequest::decode_tolerant(self.params.as_str(), WireFormat::Any);
        let (request, _) = request.ok()?;
        match v2::CreateElicitationResponse::decode_tolerant(answer, WireFormat::Any) {
            Ok((answer, _)) => {
                let faults = check_elicitation(&request, &answer);
                let words: Vec<String> = faults.iter().take(FAULTS).map(ToString::to_string).collect();
                (!words.is_empty()).then(|| words.join("; "))
            }
            Err(error) => Some(format!("cannot decode the answer: {error}")),
        }
    }

    fn len(&self) -> usize {
        self.params.as_str().len() + self.native.as_ref().map_or(0, |native| native.as_str().len())
    }
}

/// A prompt with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) name: String,
    /// The request to the agent.
    request: Option<RequestId<'static>>,
    /// Response to the prompt; `None` until there is one.
    pub(crate) outcome: Option<Outcome>,
    /// The `state_update` that ended its turn.
    pub(crate) ended: Option<String>,
}

/// State folded from the log of a session.
#[derive(Debug)]
pub(crate) struct SessionState {
    conversation: Conversation,
    /// Name from the agent's `agentInfo`.
    pub(crate) agent: Option<String>,
    /// The pending `initialize` request.
    handshake: Option<RequestId<'static>>,
    /// The agent's id of the session.
    pub(crate) agent_session: Option<String>,
    /// Earlier ids, from agent sessions that the agent has lost.
    earlier: Vec<String>,
    /// Number of title changes.
    pub(crate) renamed: u64,
    /// Title from the first prompt, used until the agent sends one.
    prompt_title: Option<String>,
    /// Pending questions by their offset.
    pub(crate) questions: BTreeMap<u64, Question>,
    operations: VecDeque<Operation>,
    /// True for running tool calls, by the agent's ids of its session and of the call.
    calls: HashMap<(String, String), bool>,
    /// The same calls, oldest first.
    call_order: VecDeque<(String, String)>,
    /// Number of cancellations since the agent last began to work.
    pub(crate) cancels: usize,
    /// Losses in the log.
    pub(super) losses: LossCounts,
    pub(super) origins: OriginTracker,
    /// Origin of the last record.
    pub(super) origin: Origin,
    /// Number of unreadable records, and the first of them with the reason.
    pub(crate) gaps: Option<(u64, String)>,
}

impl Default for SessionState {
    fn default() -> Self {
        // Without transcript: the log has the content, and this is the only fold of the session. Policies need the
        // outlines of tool calls.
        let conversation = Conversation::new(WireFormat::Any).without_transcript().with_tool_call_outlines();
        SessionState {
            conversation: conversation.with_session_limit(MAX_SUBAGENTS + 1),
            agent: None,
            handshake: None,
            agent_session: None,
            earlier: Vec::new(),
            renamed: 0,
            prompt_title: None,
            questions: BTreeMap::new(),
            operations: VecDeque::new(),
            calls: HashMap::new(),
            call_order: VecDeque::new(),
            cancels: 0,
            losses: LossCounts::default(),
            origins: OriginTracker::default(),
            origin: Origin::default(),
            gaps: None,
        }
    }
}

impl SessionState {
    /// Notes a range of records that cannot be read.
    pub(crate) fn record_gap(&mut self, from: u64, to: u64, reason: &str) {
        let (count, _) = self.gaps.get_or_insert_with(|| (0, format!("record {from}: {reason}")));
        *count += to.saturating_sub(from);
    }
}

/// Kind of a record for subscribers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// An update, or another message of the agent for every client.
    Update,
    /// A native update.
    Native,
    /// A question.
    Question,
    /// The agent has cancelled the question at this offset.
    Cancelled(u64),
    /// A record that is not for clients.
    Internal,
}

impl SessionState {
    /// Applies a record of the log.
    pub(crate) fn apply(&mut self, sequence: u64, channel: Channel, text: &str) -> RecordKind {
        let message = || Message::decode(text, WireFormat::Any);
        match channel {
            // Origin and kind of a message of the agent are found together, so it returns here. The other
            // channels only change the state.
            Channel::ToClient => {
                return message()
                    .map_or(RecordKind::Internal, |message| self.apply_agent_message(sequence, &message));
            }
            Channel::ToAgent => {
                if let Ok(message) = message() {
                    self.apply_sent_message(&message);
                }
            }
            Channel::Hub => self.note(text),
            Channel::Diagnostic => {
                let _ = self.losses.count(text);
            }
            _ => {}
        }
        self.origin = self.origins.apply(channel, text);
        if self.origin == Origin::Native { RecordKind::Native } else { RecordKind::Internal }
    }

    /// Applies a message of the agent that is in the log.
    pub(crate) fn apply_agent_message(&mut self, sequence: u64, message: &Message<'_>) -> RecordKind {
        self.origin = self.origins.apply_message(message);
        match message {
            Message::Notification(notification) => {
                self.fold(Side::Agent, message);
                self.take_prompt_title(message);
                if let Some(params) = &notification.params
                    // A cheap check: most updates are not about tool calls.
                    && params.as_str().contains("tool_call_update")
                    && let Some(update) = params.get("update")
                    && text_of(Some(&update), "sessionUpdate").as_deref() == Some("tool_call_update")
                {
                    self.track_call(text_of(Some(params), "sessionId"), &update);
                }
                match &*notification.method {
                    "$/cancel_request" => {
                        let id = notification.params.as_ref().and_then(referenced_request);
                        self.take_cancelled(id.as_ref()).map_or(RecordKind::Internal, RecordKind::Cancelled)
                    }
                    _ => RecordKind::Update,
                }
            }
            Message::Request(request) => {
                if self.refusal(request).is_some() {
                    return RecordKind::Internal;
                }
                // Folded before it counts as a question: the conversation decides whether it can be decoded,
                // and gives its session.
                if !self.fold(Side::Agent, message) {
                    return RecordKind::Internal;
                }
                let Some((offset, _)) = self.conversation.question(&request.id) else {
                    return RecordKind::Internal;
                };
                let mut question = Question::of(request);
                if let Some(call) = question.params.get("subject").and_then(|about| {
                    // A question updates its tool call, as an update does.
                    about.get("toolCall").map(Raw::into_owned)
                }) {
                    self.track_call(text_of(Some(&question.params), "sessionId"), &call);
                }
                if let Some(session) = self.conversation.id_at(offset) {
                    question.bind_to_session(session);
                }
                if let Origin::TranslatedFrom(native) = &self.origin {
                    question.native = Some(native.clone());
                }
                // Inserted last, because the key is what clients are asked by, and everything that they are
                // shown must be known then.
                self.questions.insert(sequence, question);
                RecordKind::Question
            }
            Message::Response(response) => {
                let is_it = |operation: &&mut Operation| {
                    operation.outcome.is_none() && operation.request.as_ref() == Some(&response.id)
                };
                if let Some(operation) = self.operations.iter_mut().rev().find(is_it) {
                    operation.outcome = Some(Outcome::of(&response.outcome));
                }
                if self.handshake.as_ref() == Some(&response.id) {
                    self.handshake = None;
                    let info = response.outcome.as_ref().ok().and_then(|result| result.get("info"));
                    self.agent = info.and_then(|info| info.text("name"));
                }
                self.fold(Side::Agent, message);
                RecordKind::Internal
            }
        }
    }

    /// Returns the state of the session that asks a question: this one or a sub-agent's.
    pub(crate) fn asking_session(&self, question: &Question) -> Option<&switchboard_session::Session> {
        self.conversation.session(text_of(Some(&question.params), "sessionId").as_deref())
    }

    /// Drops the outlines of tool calls, after the agent process that could ask about them has exited.
    pub(crate) fn clear_calls(&mut self) {
        self.conversation.forget_calls();
    }

    /// Tracks the status of a tool call from an update or a question.
    fn track_call(&mut self, session: Option<switchboard_acp::Text<'_>>, call: &Raw<'_>) {
        let (Some(session), Some(id)) = (session, text_of(Some(call), "toolCallId")) else { return };
        let key = (session.into_owned(), id.into_owned());
        let status = call.get("status").map(|status| {
            let status = v2::ToolCallStatus::decode(status.as_str(), WireFormat::Any);
            // `null` means the initial status.
            status.unwrap_or(v2::ToolCallStatus::Pending)
        });
        if !self.calls.contains_key(&key) {
            // The oldest call is forgotten, so it is not ended if the agent exits. It has most probably ended
            // long ago.
            if self.call_order.len() >= CALLS
                && let Some(oldest) = self.call_order.pop_front()
            {
                self.calls.remove(&oldest);
            }
            self.call_order.push_back(key.clone());
        }
        let is_open = self.calls.entry(key).or_insert(true);
        if let Some(status) = status {
            *is_open = !status.is_final();
        }
    }

    /// Returns the updates that end all unfinished tool calls and sub-agents of an agent that has exited, each with the
    /// agent's id of its session.
    pub(crate) fn unfinished_updates(&self, error: &serde_json::Value) -> Vec<(String, serde_json::Value)> {
        let open = self.call_order.iter().filter(|call| self.calls.get(call) == Some(&true));
        let calls = open.map(|(session, call)| {
            let update = serde_json::json!({
                "sessionUpdate": "tool_call_update", "toolCallId": call, "status": "failed",
            });
            (session.clone(), update)
        });
        // The state of a sub-agent may be known from its parent only.
        let tree = self.conversation.subagents();
        let cluster = self.conversation.sessions().filter_map(|(id, _)| id).filter(|id| !tree.contains(id));
        let is_at_work = |id: &&str| {
            let state = self.conversation.state(id).filter(|_| !self.is_own(id));
            matches!(state, Some(v2::StateUpdate::Running(_) | v2::StateUpdate::RequiresAction(_)))
        };
        let at_work = tree.all().chain(cluster).filter(is_at_work).map(|id| {
            let update = serde_json::json!({
                "sessionUpdate": "state_update", "state": "idle", "stopReason": "error", "error": error,
            });
            (id.to_owned(), update)
        });
        calls.chain(at_work).collect()
    }

    /// Returns the error code and message, if a request of the agent must be refused.
    pub(crate) fn refusal(&self, request: &Request<'_>) -> Option<(i32, String)> {
        if self.conversation.question(&request.id).is_some() {
            return Some((codes::INVALID_REQUEST, ID_IN_USE.to_owned()));
        }
        let params = request.params.as_ref().map_or("{}", Raw::as_str);
        // Limits before decoding: the refusal of a request that exceeds them must be cheap.
        let bytes: usize = self.questions.values().map(Question::len).sum();
        if self.questions.len() >= QUESTIONS || bytes + params.len() > QUESTION_BYTES {
            return Some((codes::INTERNAL_ERROR, "too many pending questions".to_owned()));
        }
        match self.conversation.decode_question(&request.method, params) {
            Some(Ok(_)) => None,
            Some(Err(error)) => Some((codes::INVALID_PARAMS, error.to_string())),
            None => Some((codes::METHOD_NOT_FOUND, format!("the hub does not support {}", request.method))),
        }
    }

    /// Folds a message. Returns `false` if it cannot be decoded, which changes nothing.
    fn fold(&mut self, from: Side, message: &Message<'_>) -> bool {
        let was_at_work = self.is_active();
        let Ok(folded) = self.conversation.apply_message(message, Some(from), Moment::default()) else {
            return false;
        };
        let Folded { step, ended, .. } = folded;
        if let Some(step) = step
            && self.conversation.id_at(step.session).map(|id| &**id) == self.agent_session.as_deref()
        {
            self.renamed +=
                step.changes.iter().filter(|change| matches!(change, Change::Title)).count() as u64;
        }
        // Work that starts is new work: cancellations of the last turn do not count against its limit.
        if !was_at_work && self.is_active() {
            self.cancels = 0;
        }
        for request in ended {
            let state = self.end_of(&request);
            let is_it = |operation: &&mut Operation| operation.request.as_ref() == Some(&request);
            if let Some(operation) = self.operations.iter_mut().rev().find(is_it) {
                operation.ended = state;
            }
        }
        true
    }

    /// Returns the update that ended the turn of a prompt that the agent has responded to.
    pub(crate) fn end_of(&self, request: &RequestId<'_>) -> Option<String> {
        let end = self.conversation.turn(self.agent_session.as_deref(), request)?.end()?;
        match &end.outcome {
            TurnOutcome::Idle(idle) => Some(state_text(&v2::StateUpdate::Idle((**idle).clone()))),
            _ => None,
        }
    }

    fn take_cancelled(&mut self, id: Option<&RequestId<'_>>) -> Option<u64> {
        let offset = self.question_of(id?)?.0;
        self.questions.remove(&offset);
        Some(offset)
    }

    /// Returns a pending question by the agent's request id, with its offset.
    pub(crate) fn question_of(&self, id: &RequestId<'_>) -> Option<(u64, &Question)> {
        let found = self.questions.iter().find(|(_, question)| question.id == *id);
        found.map(|(offset, question)| (*offset, question))
    }

    fn apply_sent_message(&mut self, message: &Message<'_>) {
        match message {
            Message::Request(request) if request.method == "initialize" => {
                // A new process, which does not know earlier requests.
                // A handshake is the first message of every process, so it marks the restart for all who fold
                // the log, without a record of its own.
                let _ = self.conversation.end_connection(Moment::default());
                self.operations.iter_mut().for_each(|operation| operation.request = None);
                (self.agent, self.handshake) = (None, Some(request.id.clone().into_owned()));
            }
            Message::Request(request) if request.method == "session/prompt" => self.cancels = 0,
            Message::Notification(call) if call.method == "session/cancel" => self.cancels += 1,
            _ => {}
        }
        // Folded before questions are dropped: the response to a question is one of these messages.
        self.fold(Side::Client, message);
        self.take_prompt_title(message);
        let conversation = &self.conversation;
        // A cancelled question remains until it has its response.
        self.questions.retain(|_, question| conversation.question(&question.id).is_some());
    }

    /// Takes the title from the first prompt. The log of an adopted session begins with the agent's replay of its
    /// prompts.
    fn take_prompt_title(&mut self, message: &Message<'_>) {
        if self.prompt_title.is_none()
            && let Some((session, title)) = prompt_title_in(message)
            && self.is_own(&session)
        {
            self.renamed += u64::from(self.title().is_none());
            self.prompt_title = Some(title);
        }
    }

    /// Applies a record of the hub itself.
    fn note(&mut self, text: &str) {
        match HubRecord::parse(text) {
            Some(HubRecord::AgentSession(record)) => {
                let id = record.id.into_owned();
                if let Some(before) = self.agent_session.replace(id.clone()).filter(|before| *before != id) {
                    self.conversation.rename(&before, &id);
                    self.earlier.push(before);
                }
            }
            Some(HubRecord::Prompt(PromptRecord { operation: Some(name), request, .. })) => {
                // The oldest key is forgotten: a duplicate that arrives after so many prompts runs again.
                while self.operations.len() >= OPERATIONS {
                    self.operations.pop_front();
                }
                let (name, request) = (name.into_owned(), request.map(Wire::into_owned));
                self.operations.push_back(Operation { name, request, outcome: None, ended: None });
            }
            Some(HubRecord::PromptUndelivered(PromptRecord { request: Some(request), .. })) => {
                self.conversation.forget_call(&request, true);
                // A duplicate of this prompt finds it in the queue.
                let is_it =
                    |known: &Operation| known.outcome.is_none() && known.request.as_ref() == Some(&request);
                if let Some(offset) = self.operations.iter().rposition(is_it) {
                    self.operations.remove(offset);
                }
            }
            Some(HubRecord::Unanswered(QuestionRecord { question: Some(offset), .. })) => {
                if let Some(question) = self.questions.remove(&offset) {
                    let acked = Decider::ConnectionEnd;
                    let _ = self.conversation.dismiss(&question.id, acked, Moment::default());
                }
            }
            Some(HubRecord::PromptFailed(PromptRecord { operation: Some(name), error, .. })) => {
                if let Some(operation) = self.operations.iter_mut().find(|known| known.name == name) {
                    operation.outcome = error.map(|error| Outcome::Error(error.as_str().to_owned()));
                }
            }
            _ => {}
        }
    }

    /// Returns the state of the session itself, as far as its agent has sent any.
    fn session(&self) -> Option<&switchboard_session::Session> {
        self.conversation.session(Some(self.agent_session.as_deref()?))
    }

    /// Returns whether an id is one of this session's ids at the agent, not that of a sub-agent.
    pub(crate) fn is_own(&self, id: &str) -> bool {
        self.agent_session.as_deref() == Some(id) || self.earlier.iter().any(|earlier| earlier == id)
    }

    /// Returns whether an id is that of a sub-agent.
    pub(crate) fn is_child(&self, id: &str) -> bool {
        !self.is_own(id) && self.conversation.parent(id).is_some()
    }

    /// Returns all ids that agents gave this session.
    pub(crate) fn own_ids(&self) -> Vec<String> {
        self.earlier.iter().chain(&self.agent_session).cloned().collect()
    }

    /// Returns the id that clients use for a session of the agent: the hub's id for this one, the hub's id and its own
    /// for a sub-agent. An agent thus cannot send updates for another hub session.
    pub(crate) fn client_session_id<'h>(&self, hub: &'h str, id: &str) -> Cow<'h, str> {
        if self.is_own(id) { hub.into() } else { format!("{hub}{SUBAGENT_SEPARATOR}{id}").into() }
    }

    /// Returns the title: the agent's, or one from the first prompt. `None`: there was no prompt yet.
    pub(crate) fn title(&self) -> Option<&str> {
        self.session().and_then(|session| session.title()).or(self.prompt_title.as_deref())
    }

    /// Returns the last known `configOptions` and `availableCommands`.
    pub(crate) fn lists(&self) -> [Option<String>; 2] {
        let (options, commands) = self.session().map(|session| session.lists()).unwrap_or_default();
        [options.map(array), commands.map(array)]
    }

    /// Returns a prompt by its idempotency key.
    pub(crate) fn operation(&self, name: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.name == name)
    }

    /// Returns the keys of prompts without a response.
    pub(crate) fn unanswered_operations(&self) -> Vec<String> {
        let open = self.operations.iter().filter(|operation| operation.outcome.is_none());
        open.map(|operation| operation.name.clone()).collect()
    }

    /// Returns whether the agent has reported that it is working.
    fn is_active(&self) -> bool {
        let activity = self.session().map(|session| session.activity());
        activity.is_some_and(|activity| activity != Activity::Idle)
    }

    /// Returns whether a prompt is pending or running.
    pub(crate) fn is_busy(&self) -> bool {
        let activity = self.session().map(|session| session.activity());
        matches!(activity, Some(Activity::Running | Activity::RequiresAction))
            || self.conversation.is_prompted(self.agent_session.as_deref())
    }

    /// Returns the stop reason of the last turn, if the agent has sent one.
    pub(crate) fn stop_reason(&self) -> Option<&str> {
        Some(self.session()?.stop_reason()?.as_str())
    }

    /// Returns the title that the agent gave the session. Unlike [`SessionState::title`], it is never a prompt.
    pub(crate) fn agent_title(&self) -> Option<&str> {
        self.session()?.title()
    }

    /// Returns the message of the error that ended the last turn.
    pub(crate) fn error_message(&self) -> Option<String> {
        match self.session()?.state()? {
            v2::StateUpdate::Idle(idle) => Some(idle.error.as_ref()?.message.to_string()),
            _ => None,
        }
    }

    /// Returns the message of the error with which the agent has responded to the last prompt.
    pub(crate) fn refused_prompt(&self) -> Option<String> {
        let turn = self.conversation.turns(self.agent_session.as_deref()).next_back()?;
        match &turn.end()?.outcome {
            TurnOutcome::Refused(error) => Some(error.message.to_string()),
            _ => None,
        }
    }

    /// Returns the update with the current state of the session.
    pub(crate) fn state_update(&self) -> Cow<'static, str> {
        match self.session().and_then(|session| session.state()) {
            Some(state) => state_text(state).into(),
            None => r#"{"sessionUpdate":"state_update","state":"idle"}"#.into(),
        }
    }
}

fn state_text(state: &v2::StateUpdate<'_>) -> String {
    v2::SessionUpdate::StateUpdate(Box::new(state.clone())).encode(WireFormat::Any)
}

/// Returns the request that a message cancels or refers to.
pub(crate) fn referenced_request(params: &Raw<'_>) -> Option<RequestId<'static>> {
    let request_cancelled = CancelRequestNotification::decode(params.as_str(), WireFormat::Any).ok()?;
    Some(request_cancelled.request_id.into_owned())
}

/// Encodes a list as JSON.
fn array<'w, T: Wire<'w>>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(|item| item.encode(WireFormat::Any)).collect();
    format!("[{}]", items.join(","))
}

#[cfg(test)]
impl SessionState {
    /// Returns everything observable, to compare two states.
    pub(crate) fn observable(&self) -> impl PartialEq + std::fmt::Debug {
        let how_it_stands =
            (self.state_update(), self.is_busy(), self.title().map(str::to_owned), self.lists());
        let own = (self.own_ids(), self.renamed, self.cancels, self.conversation.len());
        let calls: Vec<_> = self.call_order.iter().map(|call| (call.clone(), self.calls.get(call))).collect();
        let calls = format!("{calls:?}");
        (how_it_stands, own, self.questions.clone(), self.operations.clone(), calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_state_does_not_end_a_prompt() {
        let mut state = SessionState::default();
        state.apply(0, Channel::Hub, r#"{"hub":"agent session","id":"a"}"#);
        let update = |state: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"a","update":{{"sessionUpdate":"state_update","state":"{state}"}}}}}}"#
            )
        };
        let prompt =
            r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"a","prompt":[]}}"#;
        state.apply(0, Channel::ToAgent, prompt);
        for (offset, (update_state, is_busy)) in
            [("running", true), ("unknown", true), ("_other", true), ("idle", false), ("unknown", false)]
                .into_iter()
                .enumerate()
        {
            state.apply(offset as u64 + 1, Channel::ToClient, &update(update_state));
            assert_eq!(state.is_busy(), is_busy, "{update_state}");
            assert_eq!(state.end_of(&1.into()), None, "{update_state}: the agent has not taken it");
        }
        state.apply(6, Channel::ToClient, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        // An idle agent waits for the next prompt, even if it never reported that it worked on the last one.
        state.apply(7, Channel::ToClient, &update("idle"));
        state.apply(8, Channel::ToAgent, &prompt.replace(r#""id":1"#, r#""id":2"#));
        assert!(state.is_busy());
        state.apply(9, Channel::ToClient, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
        state.apply(10, Channel::ToClient, &update("idle"));
        assert!(!state.is_busy());
        let ended = r#"{"sessionUpdate":"state_update","state":"idle"}"#;
        assert_eq!(state.end_of(&1.into()).as_deref(), Some(ended));
    }
}
