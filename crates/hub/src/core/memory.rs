//! What the log of a session amounts to, as far as the hub has to know it. It is made of the log's records alone, so it
//! is the same while the session goes on and after a restart. How the session stands is a [`Conversation`]'s to say; beside
//! that stands what only the hub knows: which ids agents gave the session, the names of prompts, and where in the log a
//! question is.

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
use super::native::{Origin, Origins};
use super::questions::ELICITATION;

/// How many prompts are remembered for those who repeat one.
const OPERATIONS: usize = 256;
/// How many questions of one session may be open.
const QUESTIONS: usize = 1024;
/// How many bytes they may have together: as long as the longest message of one.
const QUESTION_BYTES: usize = 32 * 1024 * 1024;
/// How many characters of a question a notice repeats.
const TITLE: usize = 200;
/// Of how many tool calls it is known whether they have ended; of more, the oldest are forgotten.
const CALLS: usize = 4096;
/// How many faults of an answer are told.
const FAULTS: usize = 5;
/// Why a question is refused whose id another one has.
pub(super) const ID_IN_USE: &str = "the id is in use: a request with it is still open";
/// Stands between the hub's id of a session and the agent's of a sub-agent.
pub(crate) const OF_SUBAGENT: char = ':';

/// What the agent asks and nobody has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// The agent's id of the request.
    pub(crate) id: RequestId<'static>,
    pub(crate) method: String,
    /// The parameters as they came.
    pub(crate) params: Raw<'static>,
    /// The agent's own request, where this is a translation of it.
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

    /// A question about a request of one client is one of the session that this belongs to: the others do not know the
    /// request.
    fn ask_in(&mut self, session: &str) {
        if self.params.get("sessionId").is_none() {
            let params = Raw::parse(lines::without(&self.params, "requestId")).ok();
            let params = lines::merged(params.as_ref(), &[("sessionId", &lines::quoted(session))]);
            if let Ok(params) = Raw::parse(params) {
                self.params = params;
            }
        }
    }

    /// What is asked, in the agent's words.
    pub(crate) fn title(&self) -> String {
        let words = text_of(Some(&self.params), "title").or_else(|| text_of(Some(&self.params), "message"));
        words.unwrap_or_default().chars().take(TITLE).collect()
    }

    /// Why an answer does not fit, in words.
    pub(crate) fn misfit(&self, outcome: &Outcome) -> Option<String> {
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
            Err(error) => Some(format!("the answer cannot be read: {error}")),
        }
    }

    fn len(&self) -> usize {
        self.params.as_str().len() + self.native.as_ref().map_or(0, |native| native.as_str().len())
    }
}

/// A prompt that has a name of its client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) name: String,
    /// The request to the agent that it became.
    request: Option<RequestId<'static>>,
    /// `None`: not answered yet.
    pub(crate) outcome: Option<Outcome>,
    /// The `state_update` that ended the work on it.
    pub(crate) ended: Option<String>,
}

/// What the log of a session amounts to.
#[derive(Debug)]
pub(crate) struct Memory {
    conversation: Conversation,
    /// The name that the agent has given itself.
    pub(crate) agent: Option<String>,
    /// The request that opened the connection to the agent, until it is answered.
    handshake: Option<RequestId<'static>>,
    /// The agent's id of the session.
    pub(crate) agent_session: Option<String>,
    /// Ids that it had before, with an agent that has forgotten it since.
    earlier: Vec<String>,
    /// How often its title changed.
    pub(crate) renamed: u64,
    /// The title that its first prompt makes, for as long as the agent gives none.
    prompt_title: Option<String>,
    /// By their place in the log.
    pub(crate) questions: BTreeMap<u64, Question>,
    operations: VecDeque<Operation>,
    /// Whether tool calls are open, by the agent's ids of their sessions and of their own.
    calls: HashMap<(String, String), bool>,
    /// The same calls, oldest first.
    call_order: VecDeque<(String, String)>,
    /// How often the agent was told to stop since it last began to work.
    pub(crate) cancels: usize,
    /// Losses in the log.
    pub(super) losses: LossCounts,
    pub(super) origins: Origins,
    /// The origin of the last record.
    pub(super) origin: Origin,
    /// How many records of the log cannot be read, and the first of them with the reason.
    pub(crate) gaps: Option<(u64, String)>,
}

impl Default for Memory {
    fn default() -> Self {
        // It is the only fold of the session, and keeps nothing of what was said: the log has that. Rules decide over tool
        // calls, and need to know what these are to do.
        let conversation = Conversation::new(WireFormat::Any).without_transcript().with_tool_call_outlines();
        Memory {
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
            origins: Origins::default(),
            origin: Origin::default(),
            gaps: None,
        }
    }
}

impl Memory {
    /// Notes records that cannot be read.
    pub(crate) fn note_gap(&mut self, from: u64, to: u64, reason: &str) {
        let (count, _) = self.gaps.get_or_insert_with(|| (0, format!("record {from}: {reason}")));
        *count += to.saturating_sub(from);
    }
}

/// What a record is for those who look on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// An update, or another message of the agent that everybody gets.
    Update,
    /// An update in the agent's own words.
    Native,
    /// A question.
    Question,
    /// The agent has taken the question at this place back.
    Withdrawn(u64),
    /// Nothing that anybody is told.
    Nothing,
}

impl Memory {
    /// Takes a record of the log into account.
    pub(crate) fn see(&mut self, sequence: u64, channel: Channel, text: &str) -> Seen {
        let message = || Message::decode(text, WireFormat::Any);
        match channel {
            Channel::ToClient => {
                return message().map_or(Seen::Nothing, |message| self.agent_said(sequence, &message));
            }
            Channel::ToAgent => {
                if let Ok(message) = message() {
                    self.agent_was_told(&message);
                }
            }
            Channel::Hub => self.note(text),
            Channel::Diagnostic => {
                let _ = self.losses.count(text);
            }
            _ => {}
        }
        self.origin = self.origins.see(channel, text);
        if self.origin == Origin::Native { Seen::Native } else { Seen::Nothing }
    }

    /// Takes a message of the agent into account that is in the log.
    pub(crate) fn agent_said(&mut self, sequence: u64, message: &Message<'_>) -> Seen {
        self.origin = self.origins.see_message(message);
        match message {
            Message::Notification(notification) => {
                self.fold(Side::Agent, message);
                self.note_prompt(message);
                if let Some(params) = &notification.params
                    // Most updates are not about tool calls, and need not be looked into.
                    && params.as_str().contains("tool_call_update")
                    && let Some(update) = params.get("update")
                    && text_of(Some(&update), "sessionUpdate").as_deref() == Some("tool_call_update")
                {
                    self.note_call(text_of(Some(params), "sessionId"), &update);
                }
                match &*notification.method {
                    "$/cancel_request" => {
                        let id = notification.params.as_ref().and_then(request_named);
                        self.withdrawn(id.as_ref()).map_or(Seen::Nothing, Seen::Withdrawn)
                    }
                    _ => Seen::Update,
                }
            }
            Message::Request(request) => {
                if self.refusal(request).is_some() {
                    return Seen::Nothing;
                }
                if !self.fold(Side::Agent, message) {
                    return Seen::Nothing;
                }
                let Some((place, _)) = self.conversation.question(&request.id) else { return Seen::Nothing };
                let mut question = Question::of(request);
                if let Some(call) = question.params.get("subject").and_then(|about| {
                    // A question says how its tool call stands, as an update does.
                    about.get("toolCall").map(Raw::into_owned)
                }) {
                    self.note_call(text_of(Some(&question.params), "sessionId"), &call);
                }
                if let Some(session) = self.conversation.id_at(place) {
                    question.ask_in(session);
                }
                if let Origin::TranslatedFrom(native) = &self.origin {
                    question.native = Some(native.clone());
                }
                self.questions.insert(sequence, question);
                Seen::Question
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
                Seen::Nothing
            }
        }
    }

    /// The state of the session that asks a question: this one or that of a sub-agent.
    pub(crate) fn asking_session(&self, question: &Question) -> Option<&switchboard_session::Session> {
        self.conversation.session(text_of(Some(&question.params), "sessionId").as_deref())
    }

    /// Forgets what tool calls are to do: the agent that could ask about them is gone.
    pub(crate) fn forget_calls(&mut self) {
        self.conversation.forget_calls();
    }

    /// Notes whether a tool call has ended, as an update or a question about it says.
    fn note_call(&mut self, session: Option<switchboard_acp::Text<'_>>, call: &Raw<'_>) {
        let (Some(session), Some(id)) = (session, text_of(Some(call), "toolCallId")) else { return };
        let key = (session.into_owned(), id.into_owned());
        let status = call.get("status").map(|status| {
            let status = v2::ToolCallStatus::decode(status.as_str(), WireFormat::Any);
            // `null` is the status that a call has at its beginning.
            status.unwrap_or(v2::ToolCallStatus::Pending)
        });
        if !self.calls.contains_key(&key) {
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

    /// The updates that end everything that an agent which is gone has left unfinished, beside the work of the session
    /// itself: its tool calls, and its sub-agents. The agent's ids of the sessions, and the updates.
    pub(crate) fn unfinished(&self, error: &serde_json::Value) -> Vec<(String, serde_json::Value)> {
        let open = self.call_order.iter().filter(|call| self.calls.get(call) == Some(&true));
        let calls = open.map(|(session, call)| {
            let update = serde_json::json!({
                "sessionUpdate": "tool_call_update", "toolCallId": call, "status": "failed",
            });
            (session.clone(), update)
        });
        // The state of a sub-agent may be told by its parent alone.
        let tree = self.conversation.subagents();
        let others = self.conversation.sessions().filter_map(|(id, _)| id).filter(|id| !tree.contains(id));
        let is_at_work = |id: &&str| {
            let state = self.conversation.state(id).filter(|_| !self.is_own(id));
            matches!(state, Some(v2::StateUpdate::Running(_) | v2::StateUpdate::RequiresAction(_)))
        };
        let at_work = tree.all().chain(others).filter(is_at_work).map(|id| {
            let update = serde_json::json!({
                "sessionUpdate": "state_update", "state": "idle", "stopReason": "error", "error": error,
            });
            (id.to_owned(), update)
        });
        calls.chain(at_work).collect()
    }

    /// Why the agent cannot ask something, with the code of the error.
    pub(crate) fn refusal(&self, request: &Request<'_>) -> Option<(i32, String)> {
        if self.conversation.question(&request.id).is_some() {
            return Some((codes::INVALID_REQUEST, ID_IN_USE.to_owned()));
        }
        let params = request.params.as_ref().map_or("{}", Raw::as_str);
        let bytes: usize = self.questions.values().map(Question::len).sum();
        if self.questions.len() >= QUESTIONS || bytes + params.len() > QUESTION_BYTES {
            return Some((codes::INTERNAL_ERROR, "too many questions are open".to_owned()));
        }
        match self.conversation.decode_question(&request.method, params) {
            Some(Ok(_)) => None,
            Some(Err(error)) => Some((codes::INVALID_PARAMS, error.to_string())),
            None => Some((codes::METHOD_NOT_FOUND, format!("the hub does not know {}", request.method))),
        }
    }

    /// Folds a message, and notes what that changed. One that cannot be read changes nothing, and is none.
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

    /// How the work on a prompt ended that the agent has answered, by its request: the update that told it.
    pub(crate) fn end_of(&self, request: &RequestId<'_>) -> Option<String> {
        let end = self.conversation.turn(self.agent_session.as_deref(), request)?.end()?;
        match &end.outcome {
            TurnOutcome::Idle(idle) => Some(state_text(&v2::StateUpdate::Idle((**idle).clone()))),
            _ => None,
        }
    }

    fn withdrawn(&mut self, id: Option<&RequestId<'_>>) -> Option<u64> {
        let place = self.question_of(id?)?.0;
        self.questions.remove(&place);
        Some(place)
    }

    /// An open question by the agent's id of it, and its place.
    pub(crate) fn question_of(&self, id: &RequestId<'_>) -> Option<(u64, &Question)> {
        let found = self.questions.iter().find(|(_, question)| question.id == *id);
        found.map(|(place, question)| (*place, question))
    }

    fn agent_was_told(&mut self, message: &Message<'_>) {
        match message {
            Message::Request(request) if request.method == "initialize" => {
                // Another process, which knows nothing of what the last one was asked.
                let _ = self.conversation.end_connection(Moment::default());
                self.operations.iter_mut().for_each(|operation| operation.request = None);
                (self.agent, self.handshake) = (None, Some(request.id.clone().into_owned()));
            }
            Message::Request(request) if request.method == "session/prompt" => self.cancels = 0,
            Message::Notification(call) if call.method == "session/cancel" => self.cancels += 1,
            _ => {}
        }
        self.fold(Side::Client, message);
        self.note_prompt(message);
        let conversation = &self.conversation;
        // One that was cancelled waits for its answer all the same.
        self.questions.retain(|_, question| conversation.question(&question.id).is_some());
    }

    /// Takes the title from the first prompt. A session that the agent had before the hub knew it begins with the
    /// agent's replay of what was prompted.
    fn note_prompt(&mut self, message: &Message<'_>) {
        if self.prompt_title.is_none()
            && let Some((session, title)) = prompt_title_in(message)
            && self.is_own(&session)
        {
            self.renamed += u64::from(self.title().is_none());
            self.prompt_title = Some(title);
        }
    }

    /// Something that the hub wrote down itself.
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
                while self.operations.len() >= OPERATIONS {
                    self.operations.pop_front();
                }
                let (name, request) = (name.into_owned(), request.map(Wire::into_owned));
                self.operations.push_back(Operation { name, request, outcome: None, ended: None });
            }
            Some(HubRecord::PromptUndelivered(PromptRecord { request: Some(request), .. })) => {
                self.conversation.forget_call(&request, true);
                // Who repeats it finds it among those that wait.
                let is_it =
                    |known: &Operation| known.outcome.is_none() && known.request.as_ref() == Some(&request);
                if let Some(place) = self.operations.iter().rposition(is_it) {
                    self.operations.remove(place);
                }
            }
            Some(HubRecord::Unanswered(QuestionRecord { question: Some(place), .. })) => {
                if let Some(question) = self.questions.remove(&place) {
                    let gone = Decider::ConnectionEnd;
                    let _ = self.conversation.dismiss(&question.id, gone, Moment::default());
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

    /// The session itself, as far as its agent has told of it.
    fn session(&self) -> Option<&switchboard_session::Session> {
        self.conversation.session(Some(self.agent_session.as_deref()?))
    }

    /// Whether an id is one that an agent gave this session, and not a sub-agent.
    pub(crate) fn is_own(&self, id: &str) -> bool {
        self.agent_session.as_deref() == Some(id) || self.earlier.iter().any(|earlier| earlier == id)
    }

    /// Whether a session is that of a sub-agent.
    pub(crate) fn is_child(&self, id: &str) -> bool {
        !self.is_own(id) && self.conversation.parent(id).is_some()
    }

    /// All ids that agents gave this session.
    pub(crate) fn own_ids(&self) -> Vec<String> {
        self.earlier.iter().chain(&self.agent_session).cloned().collect()
    }

    /// What clients call a session of the agent: this one by the hub's id, a sub-agent by that and its own, so that an
    /// agent cannot speak in the name of somebody else's session.
    pub(crate) fn name_for_clients<'h>(&self, hub: &'h str, id: &str) -> Cow<'h, str> {
        if self.is_own(id) { hub.into() } else { format!("{hub}{OF_SUBAGENT}{id}").into() }
    }

    /// The session's title: the agent's, or one made of the first prompt. `None`: nothing was prompted yet.
    pub(crate) fn title(&self) -> Option<&str> {
        self.session().and_then(|session| session.title()).or(self.prompt_title.as_deref())
    }

    /// The last known `configOptions` and `availableCommands`.
    pub(crate) fn lists(&self) -> [Option<String>; 2] {
        let (options, commands) = self.session().map(|session| session.lists()).unwrap_or_default();
        [options.map(array), commands.map(array)]
    }

    /// A prompt by the name that its client gave it.
    pub(crate) fn operation(&self, name: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.name == name)
    }

    /// Prompts that were named and never answered.
    pub(crate) fn unanswered_operations(&self) -> Vec<String> {
        let open = self.operations.iter().filter(|operation| operation.outcome.is_none());
        open.map(|operation| operation.name.clone()).collect()
    }

    /// Whether the agent has told that it works.
    fn is_active(&self) -> bool {
        let activity = self.session().map(|session| session.activity());
        activity.is_some_and(|activity| activity != Activity::Idle)
    }

    /// Whether a prompt is on its way or at work.
    pub(crate) fn is_busy(&self) -> bool {
        let activity = self.session().map(|session| session.activity());
        matches!(activity, Some(Activity::Running | Activity::RequiresAction))
            || self.conversation.is_prompted(self.agent_session.as_deref())
    }

    /// Why the last work ended, where the agent said.
    pub(crate) fn stop_reason(&self) -> Option<&str> {
        Some(self.session()?.stop_reason()?.as_str())
    }

    /// The update that says what the session is at.
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

/// The request that a message names, to take it back or because it belongs to it.
pub(crate) fn request_named(params: &Raw<'_>) -> Option<RequestId<'static>> {
    let taken_back = CancelRequestNotification::decode(params.as_str(), WireFormat::Any).ok()?;
    Some(taken_back.request_id.into_owned())
}

/// A list as JSON.
fn array<'w, T: Wire<'w>>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(|item| item.encode(WireFormat::Any)).collect();
    format!("[{}]", items.join(","))
}

#[cfg(test)]
impl Memory {
    /// All that can be asked of it, to compare.
    pub(crate) fn told(&self) -> impl PartialEq + std::fmt::Debug {
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
    fn a_state_that_nobody_knows_ends_no_prompt() {
        let mut memory = Memory::default();
        memory.see(0, Channel::Hub, r#"{"hub":"agent session","id":"a"}"#);
        let update = |state: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"a","update":{{"sessionUpdate":"state_update","state":"{state}"}}}}}}"#
            )
        };
        let prompt =
            r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"a","prompt":[]}}"#;
        memory.see(0, Channel::ToAgent, prompt);
        for (place, (state, is_busy)) in
            [("running", true), ("unknown", true), ("_other", true), ("idle", false), ("unknown", false)]
                .into_iter()
                .enumerate()
        {
            memory.see(place as u64 + 1, Channel::ToClient, &update(state));
            assert_eq!(memory.is_busy(), is_busy, "{state}");
            assert_eq!(memory.end_of(&1.into()), None, "{state}: the agent has not taken it");
        }
        memory.see(6, Channel::ToClient, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        // An agent that rests waits for the next prompt, also where it never said that it worked on the last one.
        memory.see(7, Channel::ToClient, &update("idle"));
        memory.see(8, Channel::ToAgent, &prompt.replace(r#""id":1"#, r#""id":2"#));
        assert!(memory.is_busy());
        memory.see(9, Channel::ToClient, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
        memory.see(10, Channel::ToClient, &update("idle"));
        assert!(!memory.is_busy());
        let ended = r#"{"sessionUpdate":"state_update","state":"idle"}"#;
        assert_eq!(memory.end_of(&1.into()).as_deref(), Some(ended));
    }
}
