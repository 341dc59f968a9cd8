//! What the log of a session amounts to, as far as the hub has to know it. It is made of the log's records alone, so it
//! is the same while the session goes on and after a restart.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use switchboard_acp::rpc::{Message, Request, RequestId};
use switchboard_acp::{Raw, Wire, WireFormat};
use switchboard_session::{Activity, MAX_SUBAGENTS, sessions_started_in};
use switchboard_store::Channel;

use super::lines::{Outcome, text_of};

/// How many prompts are remembered for those who repeat one.
const OPERATIONS: usize = 256;
/// How many questions of one session may be open.
const QUESTIONS: usize = 1024;
/// How many bytes they may have together: as long as the longest message of one.
const QUESTION_BYTES: usize = 32 * 1024 * 1024;
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
}

impl Question {
    fn len(&self) -> usize {
        self.params.as_str().len()
    }
}

/// A prompt that has a name of its client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) name: String,
    /// `None`: not answered yet.
    pub(crate) outcome: Option<Outcome>,
    /// The `state_update` that ended the work on it.
    pub(crate) ended: Option<String>,
}

/// What the log of a session amounts to.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The agent's id of the session.
    pub(crate) agent_session: Option<String>,
    /// Ids that it had before, with an agent that has forgotten it since.
    earlier: Vec<String>,
    /// The sessions of sub-agents.
    pub(crate) children: HashSet<String>,
    pub(crate) activity: Activity,
    /// The last `state_update` as it came.
    pub(crate) state: Option<String>,
    /// The last known `configOptions` and `availableCommands`.
    pub(crate) options: Option<String>,
    pub(crate) commands: Option<String>,
    pub(crate) title: Option<String>,
    /// How often that changed.
    pub(crate) renamed: u64,
    /// By their place in the log.
    pub(crate) questions: BTreeMap<u64, Question>,
    operations: VecDeque<Operation>,
    /// Requests to the agent whose answer matters here.
    open: HashMap<RequestId<'static>, Asked>,
    /// How many prompts are on their way or at work.
    prompts: usize,
    /// How often the agent was told to stop since it last began to work.
    pub(crate) cancels: usize,
}

/// A request to the agent whose answer matters.
#[derive(Debug, Clone)]
enum Asked {
    /// A prompt, perhaps with a name. Its work may be over before the agent answers.
    Prompt { name: Option<String>, ended: Option<String> },
    /// Something whose answer has the session's options.
    Opening,
}

/// What a record is for those who look on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// An update, or another message of the agent that everybody gets.
    Update,
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
            _ => {}
        }
        Seen::Nothing
    }

    /// Takes a message of the agent into account that is in the log.
    pub(crate) fn agent_said(&mut self, sequence: u64, message: &Message<'_>) -> Seen {
        match message {
            Message::Notification(notification) => match &*notification.method {
                "session/update" => {
                    self.update(notification.params.as_ref());
                    Seen::Update
                }
                "$/cancel_request" => {
                    let id = notification.params.as_ref().and_then(|params| params.get("requestId"));
                    self.withdrawn(id.as_ref()).map_or(Seen::Nothing, Seen::Withdrawn)
                }
                _ => Seen::Update,
            },
            Message::Request(request) => {
                let Request { id, method, params, .. } = request.clone();
                let question = Question {
                    id: id.into_owned(),
                    method: method.into_owned(),
                    params: params.map_or_else(|| Raw::from(serde_json::json!({})), Raw::into_owned),
                };
                let bytes: usize = self.questions.values().map(Question::len).sum();
                if self.questions.len() >= QUESTIONS || bytes + question.len() > QUESTION_BYTES {
                    return Seen::Nothing;
                }
                self.questions.insert(sequence, question);
                Seen::Question
            }
            Message::Response(response) => {
                let outcome = Outcome::of(&response.outcome);
                self.answered(&response.id.clone().into_owned(), &outcome);
                Seen::Nothing
            }
        }
    }

    fn update(&mut self, params: Option<&Raw<'_>>) {
        let Some(params) = params else { return };
        let Some(update) = params.get("update") else { return };
        let Some(kind) = update.get("sessionUpdate") else { return };
        let Some(kind) = kind.as_text() else { return };
        if matches!(&*kind, "agent_message_chunk" | "agent_thought_chunk") {
            return;
        }
        self.learn_children(&update);
        let id = params.get("sessionId").and_then(|id| id.as_text().map(Cow::into_owned));
        if !id.is_some_and(|id| self.agent_session.is_none() || self.is_own(&id)) {
            return;
        }
        let text = |key: &str| update.get(key).map(|value| value.as_str().to_owned());
        match &*kind {
            "state_update" => {
                let state = update.get("state");
                let was_at_work = self.activity != Activity::Idle;
                self.activity = match state.as_ref().and_then(Raw::as_text).as_deref() {
                    Some("running") => Activity::Running,
                    Some("requires_action") => Activity::RequiresAction,
                    Some("idle") | None => Activity::Idle,
                    // Whatever it is, nobody has said that the work is over.
                    Some(_) => Activity::Unknown,
                };
                if !was_at_work && self.activity != Activity::Idle {
                    self.cancels = 0;
                }
                if self.activity == Activity::Idle {
                    self.prompts = 0;
                    if was_at_work || update.get("stopReason").is_some() {
                        self.prompts_ended(update.as_str());
                    }
                }
                self.state = Some(update.as_str().to_owned());
            }
            "config_option_update" => self.options = text("configOptions").or(self.options.take()),
            "available_commands_update" => {
                self.commands = text("availableCommands").or(self.commands.take());
            }
            "session_info_update" => {
                if let Some(title) = update.get("title") {
                    let title = title.as_text().map(Cow::into_owned);
                    self.renamed += u64::from(title != self.title);
                    self.title = title;
                }
            }
            _ => {}
        }
    }

    /// The work on every prompt that the agent has is over.
    fn prompts_ended(&mut self, update: &str) {
        for asked in self.open.values_mut() {
            if let Asked::Prompt { ended, .. } = asked {
                ended.get_or_insert_with(|| update.to_owned());
            }
        }
        for operation in self.operations.iter_mut().filter(|operation| operation.outcome.is_some()) {
            operation.ended.get_or_insert_with(|| update.to_owned());
        }
    }

    /// How the work on a prompt ended that the agent has not answered.
    pub(crate) fn end_before_answer(&self, request: &RequestId<'static>) -> Option<String> {
        match self.open.get(request)? {
            Asked::Prompt { ended, .. } => ended.clone(),
            Asked::Opening => None,
        }
    }

    /// Sub-agents are told of by the session that started them, or by one of them.
    fn learn_children(&mut self, update: &Raw<'_>) {
        for child in sessions_started_in(update.as_str()) {
            if self.children.len() < MAX_SUBAGENTS && !self.is_own(&child) {
                self.children.insert(child);
            }
        }
    }

    fn withdrawn(&mut self, id: Option<&Raw<'_>>) -> Option<u64> {
        let id = id?;
        let place = self.questions.iter().find_map(|(place, question)| {
            (question_id(&question.id) == id.as_str().trim()).then_some(*place)
        })?;
        self.questions.remove(&place);
        Some(place)
    }

    fn agent_was_told(&mut self, message: &Message<'_>) {
        match message {
            Message::Response(response) => {
                self.questions.retain(|_, question| question.id != response.id);
            }
            Message::Request(request) => {
                let asked = match &*request.method {
                    "initialize" => {
                        // Another process, which knows nothing of what the last one was asked.
                        self.open.clear();
                        self.prompts = 0;
                        return;
                    }
                    "session/prompt" => {
                        self.prompts += 1;
                        self.cancels = 0;
                        // The note of its name stands before it.
                        if matches!(self.open.get(&request.id), Some(Asked::Prompt { .. })) {
                            return;
                        }
                        Asked::Prompt { name: None, ended: None }
                    }
                    "session/new" | "session/resume" | "session/fork" | "session/set_config_option" => {
                        Asked::Opening
                    }
                    _ => return,
                };
                if self.open.len() < QUESTIONS {
                    self.open.insert(request.id.clone().into_owned(), asked);
                }
            }
            Message::Notification(call) => self.cancels += usize::from(call.method == "session/cancel"),
        }
    }

    fn answered(&mut self, id: &RequestId<'static>, outcome: &Outcome) {
        match self.open.remove(id) {
            Some(Asked::Prompt { name, ended }) => {
                if outcome.is_error() {
                    self.prompts = self.prompts.saturating_sub(1);
                }
                let known = self.operations.iter_mut().find(|known| Some(&known.name) == name.as_ref());
                if let Some(operation) = known {
                    (operation.outcome, operation.ended) = (Some(outcome.clone()), ended);
                }
            }
            Some(Asked::Opening) => {
                let Outcome::Result(result) = outcome else { return };
                let Ok(result) = Raw::parse(result.as_str()) else { return };
                let text = |key: &str| result.get(key).map(|value| value.as_str().to_owned());
                self.options = text("configOptions").or(self.options.take());
                self.commands = text("availableCommands").or(self.commands.take());
            }
            None => {}
        }
    }

    /// Something that the hub wrote down itself.
    fn note(&mut self, text: &str) {
        let Ok(note) = Raw::parse(text) else { return };
        let word = |key: &str| text_of(Some(&note), key).map(Cow::into_owned);
        match word("hub").as_deref() {
            Some("agent session") => {
                let before = std::mem::replace(&mut self.agent_session, word("id"));
                self.earlier.extend(before.filter(|before| Some(before) != self.agent_session.as_ref()));
            }
            Some("prompt") => {
                let name = word("operation");
                if let Some(name) = &name {
                    while self.operations.len() >= OPERATIONS {
                        self.operations.pop_front();
                    }
                    self.operations.push_back(Operation { name: name.clone(), outcome: None, ended: None });
                }
                if let Some(Ok(number)) = note.get("request").map(|id| id.as_str().trim().parse::<i64>()) {
                    self.open.insert(RequestId::Number(number), Asked::Prompt { name, ended: None });
                }
            }
            Some("unanswered") => {
                if let Some(Ok(place)) = note.get("question").map(|place| place.as_str().trim().parse()) {
                    self.questions.remove(&place);
                }
            }
            Some("prompt failed") => {
                let name = word("operation");
                if let Some(operation) =
                    self.operations.iter_mut().find(|known| Some(&known.name) == name.as_ref())
                {
                    operation.outcome =
                        note.get("error").map(|error| Outcome::Error(error.as_str().to_owned()));
                }
            }
            _ => {}
        }
    }

    /// Whether an id is one that an agent gave this session, and not a sub-agent.
    pub(crate) fn is_own(&self, id: &str) -> bool {
        self.agent_session.as_deref() == Some(id) || self.earlier.iter().any(|earlier| earlier == id)
    }

    /// All of them.
    pub(crate) fn own_ids(&self) -> Vec<String> {
        self.earlier.iter().chain(&self.agent_session).cloned().collect()
    }

    /// What clients call a session of the agent: this one by the hub's id, a sub-agent by that and its own, so that an
    /// agent cannot speak in the name of somebody else's session.
    pub(crate) fn name_for_clients<'h>(&self, hub: &'h str, id: &str) -> Cow<'h, str> {
        if self.is_own(id) { hub.into() } else { format!("{hub}{OF_SUBAGENT}{id}").into() }
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

    /// Whether a prompt is on its way or at work.
    pub(crate) fn is_busy(&self) -> bool {
        self.prompts > 0 || matches!(self.activity, Activity::Running | Activity::RequiresAction)
    }

    /// The update that says what the session is at.
    pub(crate) fn state_update(&self) -> &str {
        self.state.as_deref().unwrap_or(r#"{"sessionUpdate":"state_update","state":"idle"}"#)
    }
}

fn question_id(id: &RequestId<'_>) -> String {
    id.encode(WireFormat::Any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_nobody_knows_ends_no_prompt() {
        let mut memory = Memory::default();
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
            assert_eq!(memory.end_before_answer(&1.into()).is_some(), !is_busy, "{state}");
        }
    }
}
