//! A recording as a script of its agent's actions, by session.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_acp::extensions::MOMENTARY;
use switchboard_acp::rpc::{Message, Notification, Request, RequestId, Response, RpcError, messages};
use switchboard_acp::{Correlator, Raw, Side, Wire, WireFormat};
use switchboard_session::sessions_started_in;
use switchboard_store::{Channel, Moment, Record};

/// The recorded response to a request: its result or its error.
pub type RecordedAnswer = Result<Raw<'static>, RpcError<'static>>;

/// The recorded agent's messages and the events it waits for.
#[derive(Debug, Default)]
pub struct Script {
    /// Its response to `initialize`, if there was one.
    pub introduction: Option<RecordedAnswer>,
    /// Its notifications before the first session.
    pub greetings: Vec<Notification<'static>>,
    /// The sessions in the order in which they first appear.
    pub sessions: Vec<SessionScript>,
    /// Its responses to requests that neither open a session nor prompt, by method.
    pub answers: HashMap<String, VecDeque<RecordedAnswer>>,
}

/// The script of one session, with its sub-agents.
#[derive(Debug)]
pub struct SessionScript {
    /// The agent's id of the session.
    pub id: String,
    /// The working directory, if the recording has it.
    pub cwd: Option<String>,
    /// The steps in their order.
    pub steps: Vec<ScriptStep>,
}

/// One step of a script.
#[derive(Debug)]
pub struct ScriptStep {
    /// The time since the previous step.
    pub pause: Duration,
    /// Actions of the agent.
    pub action: Action,
}

/// An action of the recorded agent. Numbers pair a request with its response.
#[derive(Debug)]
pub enum Action {
    /// Waits until the client opens the session.
    AwaitOpening {
        /// The number of the request.
        request: usize,
        /// True if the client asked for the history.
        with_history: bool,
    },
    /// Waits for a prompt.
    AwaitPrompt {
        /// The number of the request.
        request: usize,
        /// The recorded prompt.
        prompt: Option<Raw<'static>>,
    },
    /// Answers a request of the client.
    Answer {
        /// The number of the request.
        request: usize,
        /// The recorded response.
        outcome: RecordedAnswer,
    },
    /// Sends a notification.
    Notify(Notification<'static>),
    /// Sends a request to the client.
    Ask {
        /// The number of the question.
        question: usize,
        /// The recorded request.
        request: Request<'static>,
    },
    /// Waits for the response to a question.
    AwaitAnswer {
        /// The number of the question.
        question: usize,
        /// The recorded response.
        outcome: RecordedAnswer,
    },
    /// Cancels a question.
    Withdraw {
        /// The number of the question.
        question: usize,
    },
}

impl Action {
    /// Returns whether the agent waits for the client to begin something.
    pub fn is_gate(&self) -> bool {
        matches!(self, Action::AwaitOpening { .. } | Action::AwaitPrompt { .. })
    }
}

impl SessionScript {
    /// Returns whether a notification is about the session itself, and not about a sub-agent.
    pub fn is_own(&self, notification: &Notification<'_>) -> bool {
        notification.params.as_ref().and_then(|it| it.text("sessionId")).is_none_or(|id| id == self.id)
    }

    /// Returns all updates of the session, as its agent would replay its history. Agents of version 1 do not echo new
    /// prompts, so they are inserted. `with_children` includes the updates of sub-agents.
    pub fn history(&self, version: u16, with_children: bool) -> Vec<String> {
        self.history_until(self.steps.len(), version, with_children)
    }

    /// Returns the history of the steps before `end`.
    pub fn history_until(&self, end: usize, version: u16, with_children: bool) -> Vec<String> {
        let steps = self.steps.get(..end).unwrap_or(&self.steps);
        // A replayed history contains everything before it.
        let start = steps.iter().rposition(|step| match &step.action {
            Action::AwaitOpening { request, with_history: true } => steps.iter().any(|step| {
                matches!(&step.action, Action::Answer { request: answered, outcome: Ok(_) } if answered == request)
            }),
            _ => false,
        });
        let steps = &steps[start.unwrap_or(0)..];
        let (mut lines, mut begun) = (Vec::new(), HashSet::new());
        for (place, step) in steps.iter().enumerate() {
            match &step.action {
                Action::Notify(notification)
                    if is_history(notification) && (with_children || self.is_own(notification)) =>
                {
                    if version != 1 {
                        lines.extend(beginning(notification, &mut begun));
                    }
                    lines.push(Message::Notification(notification.clone()).encode(WireFormat::Any));
                }
                Action::AwaitPrompt { prompt: Some(prompt), .. } if version == 1 => {
                    let mut turn = steps[place + 1..].iter().take_while(|step| !step.action.is_gate());
                    let is_repeated = turn.any(|step| {
                        matches!(&step.action, Action::Notify(notification)
                            if notification.params_text().contains("\"user_message_chunk\""))
                    });
                    if !is_repeated && let Value::Array(blocks) = prompt.to_value() {
                        lines.extend(blocks.iter().map(|block| {
                            update_line(
                                &self.id,
                                &json!({"sessionUpdate": "user_message_chunk", "content": block}),
                            )
                        }));
                    }
                }
                _ => {}
            }
        }
        lines
    }
}

/// Returns the empty message that precedes a message's chunks in a history, so that a client does not show it
/// twice.
fn beginning(
    notification: &Notification<'_>,
    begun: &mut HashSet<(String, String, String)>,
) -> Option<String> {
    let params = notification.params.as_ref();
    let update = params?.get("update")?;
    let (kind, message) = (update.text("sessionUpdate")?, update.text("messageId")?);
    let whole = kind.strip_suffix("_chunk").unwrap_or(&kind);
    if !matches!(whole, "user_message" | "agent_message" | "agent_thought") {
        return None;
    }
    let session = params.and_then(|it| it.text("sessionId"))?;
    let is_first = begun.insert((session.clone(), whole.to_owned(), message.clone()));
    let empty = json!({"sessionUpdate": whole, "messageId": message, "content": []});
    (is_first && kind != whole).then(|| update_line(&session, &empty))
}

/// Returns whether an update is part of the history.
fn is_history(notification: &Notification<'_>) -> bool {
    let update = notification.params.as_ref().and_then(|params| params.get("update"));
    let kind = update.as_ref().and_then(|update| update.text("sessionUpdate"));
    notification.method == "session/update"
        && !matches!(kind.as_deref(), Some("notice" | "state_update"))
        && !update.is_some_and(|update| MOMENTARY.is_set(&update))
}

/// Returns whether a request to open a session asks for its history. `session/load` of version 1 always does.
pub fn wants_history(request: &Request<'_>) -> bool {
    let replay = request.params.as_ref().and_then(|params| params.get("replayFrom"));
    request.method == "session/load" || replay.is_some_and(|from| from.is_object())
}

/// Returns a `session/update` notification as a line.
pub fn update_line(session: &str, update: &Value) -> String {
    let params = json!({"sessionId": session, "update": update});
    Message::notification("session/update", params.into()).encode(WireFormat::Any)
}

/// A pending request of the recording.
enum UnansweredRequest {
    Introduction,
    /// `session/new`, whose session is known from its response.
    New {
        at: Moment,
        cwd: Option<String>,
        request: usize,
    },
    /// An awaited request of the client in a session.
    Gate {
        session: usize,
        request: usize,
    },
    Other(String),
    /// A request of the agent in a session.
    Question {
        session: usize,
        question: usize,
    },
}

/// Maximum number of pending requests; above it, the oldest are dropped.
const MAX_OPEN: usize = 10_000;

/// Reads records into a script.
///
/// ```
/// use switchboard_replay::ScriptReader;
/// use switchboard_store::{Channel, Record};
///
/// let mut reader = ScriptReader::default();
/// reader.take(&Record::new(Channel::ToAgent, r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w"}}"#));
/// reader.take(&Record::new(Channel::ToClient, r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#));
/// let script = reader.finish();
/// assert_eq!((script.sessions[0].id.as_str(), script.sessions[0].cwd.as_deref()), ("s", Some("/w")));
/// ```
pub struct ScriptReader {
    script: Script,
    /// Time of the last step of each session.
    times: Vec<Moment>,
    /// Sessions that appeared before a response opened them, with the time.
    unopened: BTreeMap<usize, Moment>,
    /// Sessions of sub-agents, which are played with their parent.
    children: HashMap<String, usize>,
    /// The session of the last message.
    current: Option<usize>,
    open: Correlator<UnansweredRequest>,
    numbers: usize,
}

impl Default for ScriptReader {
    fn default() -> Self {
        ScriptReader {
            script: Script::default(),
            times: Vec::new(),
            unopened: BTreeMap::new(),
            children: HashMap::new(),
            current: None,
            open: Correlator::new(MAX_OPEN),
            numbers: 0,
        }
    }
}

impl ScriptReader {
    /// Takes the next record. Records that are not messages of the session are skipped.
    pub fn take(&mut self, record: &Record) {
        let Ok(line) = std::str::from_utf8(&record.bytes) else { return };
        messages(line).into_iter().for_each(|message| self.take_message(message, record));
    }

    fn take_message(&mut self, message: &str, record: &Record) {
        let Ok(message) = Message::decode(message, WireFormat::Any) else { return };
        let (message, at) = (message.into_owned(), record.time);
        match (record.channel, message) {
            (Channel::ToAgent, Message::Request(request)) => self.client_asks(&request, at),
            (Channel::ToAgent, Message::Response(response)) => {
                let open = self.open.answered(Side::Client, &response.id);
                if let Some(UnansweredRequest::Question { session, question }) = open {
                    let action = Action::AwaitAnswer { question, outcome: response.outcome };
                    self.step(session, at, action);
                }
            }
            (Channel::ToClient, Message::Response(response)) => self.agent_answers(response, at),
            (Channel::ToClient, Message::Request(request)) => {
                if let Some(session) = self.session(request.params.as_ref(), at) {
                    let question = self.number();
                    let open = UnansweredRequest::Question { session, question };
                    drop(self.open.open_or_evict(Side::Agent, &request.id, open));
                    self.step(session, at, Action::Ask { question, request });
                }
            }
            (Channel::ToClient, Message::Notification(notification)) => self.agent_says(notification, at),
            _ => {}
        }
    }

    /// Returns the script.
    pub fn finish(mut self) -> Script {
        // The opening of these was not recorded.
        for (session, at) in std::mem::take(&mut self.unopened) {
            let request = self.number();
            let script = &mut self.script.sessions[session];
            let outcome = Ok(Raw::from(json!({ "sessionId": script.id })));
            script
                .steps
                .insert(0, ScriptStep { pause: Duration::ZERO, action: Action::Answer { request, outcome } });
            self.opened(session, None, request, at, at);
        }
        self.script
    }

    /// Handles the opening of a session. One that has appeared already was opened by an earlier request.
    fn opened(
        &mut self,
        session: usize,
        cwd: Option<String>,
        request: usize,
        asked_at: Moment,
        shown_at: Moment,
    ) {
        let script = &mut self.script.sessions[session];
        script.cwd = cwd;
        if let Some(first) = script.steps.first_mut() {
            first.pause = shown_at.since(asked_at);
        }
        let action = Action::AwaitOpening { request, with_history: false };
        script.steps.insert(0, ScriptStep { pause: Duration::ZERO, action });
    }

    fn number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers
    }

    fn step(&mut self, session: usize, at: Moment, action: Action) {
        let before = std::mem::replace(&mut self.times[session], at);
        let pause = at.since(before);
        self.current = Some(session);
        self.script.sessions[session].steps.push(ScriptStep { pause, action });
    }

    fn open(&mut self, id: String, cwd: Option<String>, at: Moment) -> usize {
        self.script.sessions.push(SessionScript { id, cwd, steps: Vec::new() });
        self.times.push(at);
        self.script.sessions.len() - 1
    }

    fn find(&self, id: &str) -> Option<usize> {
        self.script.sessions.iter().position(|session| session.id == id)
    }

    /// Returns the session of an agent's message; without an id, the last session.
    fn session(&mut self, params: Option<&Raw<'_>>, at: Moment) -> Option<usize> {
        let Some(id) = params.and_then(|it| it.text("sessionId")) else { return self.current };
        if let Some(session) = self.children.get(&id) {
            return Some(*session);
        }
        Some(self.find(&id).unwrap_or_else(|| {
            let session = self.open(id, None, at);
            self.unopened.insert(session, at);
            session
        }))
    }

    fn client_asks(&mut self, request: &Request<'static>, at: Moment) {
        let params = request.params.as_ref();
        let number = self.number();
        let open = match &*request.method {
            "initialize" => UnansweredRequest::Introduction,
            "session/new" => {
                UnansweredRequest::New { at, cwd: params.and_then(|it| it.text("cwd")), request: number }
            }
            "session/load" | "session/resume" => {
                let Some(id) = params.and_then(|it| it.text("sessionId")) else { return };
                let session =
                    self.find(&id).unwrap_or_else(|| self.open(id, params.and_then(|it| it.text("cwd")), at));
                let with_history = wants_history(request);
                self.step(session, at, Action::AwaitOpening { request: number, with_history });
                UnansweredRequest::Gate { session, request: number }
            }
            "session/prompt" => {
                let Some(session) = self.session(params, at) else { return };
                let prompt = params.and_then(|params| params.get("prompt")).map(Raw::into_owned);
                self.step(session, at, Action::AwaitPrompt { request: number, prompt });
                UnansweredRequest::Gate { session, request: number }
            }
            method => UnansweredRequest::Other(method.to_owned()),
        };
        drop(self.open.open_or_evict(Side::Client, &request.id, open));
    }

    fn agent_answers(&mut self, response: Response<'static>, at: Moment) {
        let outcome = response.outcome;
        match self.open.answered(Side::Agent, &response.id) {
            // Another version was tried after a refusal.
            Some(UnansweredRequest::Introduction)
                if outcome.is_ok() || self.script.introduction.is_none() =>
            {
                self.script.introduction = Some(outcome);
            }
            Some(UnansweredRequest::Introduction) => {}
            Some(UnansweredRequest::New { at: asked_at, cwd, request }) => {
                let id = outcome.as_ref().ok().and_then(|result| result.text("sessionId"));
                let shown = id.as_deref().and_then(|id| self.find(id));
                let shown = shown.and_then(|session| Some((session, self.unopened.remove(&session)?)));
                match (id, shown) {
                    (_, Some((session, shown_at))) => {
                        self.opened(session, cwd, request, asked_at, shown_at);
                        self.step(session, at, Action::Answer { request, outcome });
                    }
                    (Some(id), None) => {
                        let session = self.open(id, cwd, asked_at);
                        self.step(session, asked_at, Action::AwaitOpening { request, with_history: false });
                        self.step(session, at, Action::Answer { request, outcome });
                    }
                    (None, None) => self.keep_answer("session/new", outcome),
                }
            }
            Some(UnansweredRequest::Gate { session, request }) => {
                self.step(session, at, Action::Answer { request, outcome });
            }
            Some(UnansweredRequest::Other(method)) => self.keep_answer(&method, outcome),
            Some(UnansweredRequest::Question { .. }) | None => {}
        }
    }

    fn keep_answer(&mut self, method: &str, outcome: RecordedAnswer) {
        self.script.answers.entry(method.to_owned()).or_default().push_back(outcome);
    }

    fn agent_says(&mut self, notification: Notification<'static>, at: Moment) {
        if notification.method == "$/cancel_request" {
            let id = notification.params.as_ref().and_then(|params| params.get("requestId"));
            let id =
                id.and_then(|id| RequestId::decode(id.as_str(), WireFormat::Any).map(Wire::into_owned).ok());
            let open = id.and_then(|id| self.open.get(Side::Agent, &id));
            if let Some(&UnansweredRequest::Question { session, question }) = open {
                self.step(session, at, Action::Withdraw { question });
            }
            return;
        }
        match self.session(notification.params.as_ref(), at) {
            Some(session) => {
                let update = notification.params.as_ref().and_then(|params| params.get("update"));
                // Version 1 announces them the same way.
                for child in update.map(|update| sessions_started_in(update.as_str())).unwrap_or_default() {
                    // A session that the client has opened, or that has appeared before, stays separate.
                    if self.find(&child).is_none() && self.children.len() < MAX_OPEN {
                        self.children.entry(child).or_insert(session);
                    }
                }
                self.step(session, at, Action::Notify(notification));
            }
            None => self.script.greetings.push(notification),
        }
    }
}
