//! A recording taken apart into what its agent would do again, session by session.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use switchboard_protocol::rpc::{Message, Notification, Request, RequestId, Response, RpcError};
use switchboard_protocol::{Raw, Revision, Wire};
use switchboard_store::{Channel, Record, Time};

/// The result of a request, or its error.
pub(super) type Outcome = Result<Raw<'static>, RpcError<'static>>;

/// What a recorded agent said, and what it waited for.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// Its answer to `initialize`, if there was one.
    pub(super) introduction: Option<Outcome>,
    pub(super) sessions: Vec<SessionScript>,
    /// Its answers to requests that neither open a session nor are prompts, by their methods.
    pub(super) answers: HashMap<String, VecDeque<Outcome>>,
}

#[derive(Debug)]
pub(super) struct SessionScript {
    pub(super) id: String,
    pub(super) cwd: Option<String>,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) struct Step {
    /// How long after the step before.
    pub(super) pause: Duration,
    pub(super) action: Action,
}

#[derive(Debug)]
pub(super) enum Action {
    /// Wait until the client opens the session.
    AwaitOpening { request: usize },
    /// Wait for a prompt.
    AwaitPrompt { request: usize, prompt: Option<Raw<'static>> },
    /// Answer a request that was waited for.
    Answer { request: usize, outcome: Outcome },
    /// Say something.
    Notify(Notification<'static>),
    /// Ask the client something.
    Ask { question: usize, request: Request<'static> },
    /// Wait for its answer, which was this.
    AwaitAnswer { question: usize, outcome: Outcome },
    /// Take a question back.
    Withdraw { question: usize },
}

impl Action {
    /// Whether it is the client's turn.
    pub(super) fn is_gate(&self) -> bool {
        matches!(self, Action::AwaitOpening { .. } | Action::AwaitPrompt { .. })
    }
}

/// A request of the recording whose answer has not come yet.
enum Open {
    Introduction,
    /// `session/new`, whose session is known by its answer.
    New {
        at: Time,
        cwd: Option<String>,
        request: usize,
    },
    /// One that is waited for in a session.
    Gate {
        session: usize,
        request: usize,
    },
    Other(String),
}

/// Reads records into a script.
#[derive(Default)]
pub(super) struct Reader {
    script: Script,
    /// When the last step of each session was.
    times: Vec<Time>,
    /// The session that spoke last.
    current: Option<usize>,
    asked: HashMap<RequestId<'static>, Open>,
    questions: HashMap<RequestId<'static>, (usize, usize)>,
    numbers: usize,
}

fn text(params: Option<&Raw<'_>>, key: &str) -> Option<String> {
    Some(params?.get(key)?.as_text()?.into_owned())
}

impl Reader {
    /// Takes the next record; what is no message of the session is passed over.
    pub(super) fn take(&mut self, record: &Record) {
        let Ok(line) = std::str::from_utf8(&record.bytes) else { return };
        let Ok(message) = Message::decode(line, Revision::Any) else { return };
        let (message, at) = (message.into_owned(), record.time);
        match (record.channel, message) {
            (Channel::ToAgent, Message::Request(request)) => self.client_asks(request, at),
            (Channel::ToAgent, Message::Response(response)) => {
                if let Some((session, question)) = self.questions.remove(&response.id) {
                    let action = Action::AwaitAnswer { question, outcome: response.outcome };
                    self.step(session, at, action);
                }
            }
            (Channel::ToClient, Message::Response(response)) => self.agent_answers(response, at),
            (Channel::ToClient, Message::Request(request)) => {
                if let Some(session) = self.session(request.params.as_ref(), at) {
                    let question = self.number();
                    self.questions.insert(request.id.clone(), (session, question));
                    self.step(session, at, Action::Ask { question, request });
                }
            }
            (Channel::ToClient, Message::Notification(notification)) => self.agent_says(notification, at),
            _ => {}
        }
    }

    pub(super) fn finish(self) -> Script {
        self.script
    }

    fn number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers
    }

    fn step(&mut self, session: usize, at: Time, action: Action) {
        let before = std::mem::replace(&mut self.times[session], at);
        let pause = Duration::from_millis(at.0.saturating_sub(before.0).max(0).unsigned_abs());
        self.current = Some(session);
        self.script.sessions[session].steps.push(Step { pause, action });
    }

    fn open(&mut self, id: String, cwd: Option<String>, at: Time) -> usize {
        self.script.sessions.push(SessionScript { id, cwd, steps: Vec::new() });
        self.times.push(at);
        self.script.sessions.len() - 1
    }

    fn find(&self, id: &str) -> Option<usize> {
        self.script.sessions.iter().position(|session| session.id == id)
    }

    /// The session that a message of the agent belongs to; one without belongs to whichever spoke last.
    fn session(&mut self, params: Option<&Raw<'_>>, at: Time) -> Option<usize> {
        let Some(id) = text(params, "sessionId") else { return self.current };
        Some(self.find(&id).unwrap_or_else(|| self.opened_by_now(id, at)))
    }

    /// A session that shows before the answer that opens it, or whose opening was not recorded.
    fn opened_by_now(&mut self, id: String, at: Time) -> usize {
        let new = self.asked.iter().find_map(|(key, open)| match open {
            Open::New { at, cwd, request } => Some((key.clone(), *at, cwd.clone(), *request)),
            _ => None,
        });
        match new {
            Some((key, asked_at, cwd, request)) => {
                let session = self.open(id, cwd, asked_at);
                self.step(session, asked_at, Action::AwaitOpening { request });
                self.asked.insert(key, Open::Gate { session, request });
                session
            }
            None => {
                let answer = Raw::from(serde_json::json!({ "sessionId": id }));
                let (session, request) = (self.open(id, None, at), self.number());
                self.step(session, at, Action::AwaitOpening { request });
                self.step(session, at, Action::Answer { request, outcome: Ok(answer) });
                session
            }
        }
    }

    fn client_asks(&mut self, request: Request<'static>, at: Time) {
        let params = request.params.as_ref();
        let number = self.number();
        let open = match &*request.method {
            "initialize" => Open::Introduction,
            "session/new" => Open::New { at, cwd: text(params, "cwd"), request: number },
            "session/load" | "session/resume" => {
                let Some(id) = text(params, "sessionId") else { return };
                let session = self.find(&id).unwrap_or_else(|| self.open(id, text(params, "cwd"), at));
                self.step(session, at, Action::AwaitOpening { request: number });
                Open::Gate { session, request: number }
            }
            "session/prompt" => {
                let Some(session) = self.session(params, at) else { return };
                let prompt = params.and_then(|params| params.get("prompt")).map(Raw::into_owned);
                self.step(session, at, Action::AwaitPrompt { request: number, prompt });
                Open::Gate { session, request: number }
            }
            method => Open::Other(method.to_owned()),
        };
        self.asked.insert(request.id, open);
    }

    fn agent_answers(&mut self, response: Response<'static>, at: Time) {
        let outcome = response.outcome;
        match self.asked.remove(&response.id) {
            // After a refusal another version was tried.
            Some(Open::Introduction) if outcome.is_ok() || self.script.introduction.is_none() => {
                self.script.introduction = Some(outcome);
            }
            Some(Open::Introduction) => {}
            Some(Open::New { at: asked_at, cwd, request }) => {
                let id = outcome.as_ref().ok().and_then(|result| text(Some(result), "sessionId"));
                match id {
                    Some(id) => {
                        let session = self.open(id, cwd, asked_at);
                        self.step(session, asked_at, Action::AwaitOpening { request });
                        self.step(session, at, Action::Answer { request, outcome });
                    }
                    None => self.keep_answer("session/new", outcome),
                }
            }
            Some(Open::Gate { session, request }) => {
                self.step(session, at, Action::Answer { request, outcome });
            }
            Some(Open::Other(method)) => self.keep_answer(&method, outcome),
            None => {}
        }
    }

    fn keep_answer(&mut self, method: &str, outcome: Outcome) {
        self.script.answers.entry(method.to_owned()).or_default().push_back(outcome);
    }

    fn agent_says(&mut self, notification: Notification<'static>, at: Time) {
        if notification.method == "$/cancel_request" {
            let id = notification.params.as_ref().and_then(|params| params.get("requestId"));
            let id =
                id.and_then(|id| RequestId::decode(id.as_str(), Revision::Any).map(Wire::into_owned).ok());
            if let Some((session, question)) = id.and_then(|id| self.questions.get(&id).copied()) {
                self.step(session, at, Action::Withdraw { question });
            }
            return;
        }
        if let Some(session) = self.session(notification.params.as_ref(), at) {
            self.step(session, at, Action::Notify(notification));
        }
    }
}
