//! Connecting to the hub, opening or attaching to a session, and handling the connection's events.

use std::sync::{Arc, Weak};
use std::time::Duration;

use switchboard_acp::extensions::{ADOPTED_SESSION, DECIDER, REMEMBERED, REQUEST};
use switchboard_acp::rpc::{RequestId, RpcError, codes};
use switchboard_acp::{Raw, Wire, WireFormat, v2};
use switchboard_hub::{Identity, NO_HANDSHAKE};
use switchboard_peer::{AgentHandle, Client, ClientOptions, Error, Event, Feed, PermissionQuestion, Reply};
use switchboard_session::Decider;
use switchboard_transport::Connection;
use switchboard_transport::server::{ServerConnection, ServerLimits};
use tokio::sync::oneshot;

use super::{Failure, Live, Open, Question, absolute, locked, refused, with_last_lines};
use crate::app::App;
use crate::live_recording::LiveRecording;

/// Maximum size of a message in bytes, such as a prompt with files.
const MAX_MESSAGE: usize = 48 << 20;

/// Maximum number of sessions of an agent, including those of its sub-agents.
const MAX_SESSIONS: usize = 10_000;

/// Handshake timeout of the client. It is long because the hub has its own, shorter timeout and reports it.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// Error of a request that opens a session.
pub(crate) struct Refused {
    pub(crate) words: Failure,
    /// True if the agent requires a login first.
    pub(crate) wants_login: bool,
    /// Hub's id of the requested session, if the hub has it already.
    pub(crate) known: Option<String>,
}

impl Refused {
    fn by_connection(error: &Error) -> Self {
        Refused { words: error.to_string(), wants_login: false, known: None }
    }

    fn by_agent(error: &RpcError<'_>) -> Self {
        let known = error.data.as_ref().and_then(|data| data.text("sessionId"));
        Refused { words: refused(error), wants_login: error.code == codes::AUTHENTICATION_REQUIRED, known }
    }
}

/// Returns the result of a request that opens a session.
fn opened<T>(reply: Reply<T>) -> Result<T, Refused> {
    reply.map_err(|error| Refused::by_connection(&error))?.map_err(|error| Refused::by_agent(&error))
}

/// A connection to the hub that is not attached to a session yet.
pub(crate) struct Visitor {
    agent: AgentHandle,
    feed: Feed,
    name: String,
    early: Vec<Event>,
}

impl Visitor {
    /// Connects to the hub for an agent, which the hub starts if it is not running.
    pub(crate) async fn come(app: &App, who: Identity, agent: &str) -> Result<Self, Failure> {
        let mut limits = ServerLimits::default();
        limits.message = MAX_MESSAGE;
        let (server, stream) = ServerConnection::local(limits);
        app.hub.connect(who, Some(agent), server).await;
        let options = client_options();
        let (reader, writer) = tokio::io::split(stream);
        let connection = Connection::new(reader, writer, options.connection_options());
        let client = Client::connect(connection, options).await.map_err(|error| match error {
            // The agent did not start, or its first response was invalid.
            Error::NotInitialized(error) => not_started(&error, &app.handshake_hint),
            error => error.to_string(),
        });
        let Client { agent: handle, feed } = client?;
        Ok(Visitor { agent: handle, feed, name: agent.to_owned(), early: Vec::new() })
    }

    /// Runs a future, and buffers the events that arrive meanwhile.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> T {
        let early = &mut self.early;
        self.feed.until(work, |event| early.push(event)).await
    }

    /// Opens a session in a folder, and returns the hub's id of it.
    pub(crate) async fn new_session(&mut self, folder: &str) -> Result<String, Refused> {
        let request = v2::NewSessionRequest::new(absolute_folder(folder)?);
        let agent = self.agent.clone();
        let reply = self.meanwhile(agent.new_session(&request)).await;
        Ok(opened(reply)?.session_id.into_owned())
    }

    /// Loads a session that the agent has kept but the hub does not know, with its history. Returns the hub's id of
    /// it.
    pub(crate) async fn adopt(&mut self, session: &str, folder: &str) -> Result<String, Refused> {
        let mut request = v2::ResumeSessionRequest::new(session, absolute_folder(folder)?);
        request.replay_from = Some(v2::ReplayFrom::Start(v2::EmptyObject::new()));
        request.meta = Some(REMEMBERED.meta(true));
        let agent = self.agent.clone();
        let reply = self.meanwhile(agent.resume_session(&request)).await;
        let answer = opened(reply)?;
        let id = answer.meta.as_ref().and_then(|meta| ADOPTED_SESSION.read(meta));
        let words = || "the hub does not say which session it is".to_owned();
        id.ok_or_else(|| Refused { words: words(), wants_login: false, known: None })
    }

    /// Attaches to a session without replay, because its log has the history.
    pub(crate) async fn attach(&mut self, session: &str, folder: &str) -> Result<(), Failure> {
        let request = v2::ResumeSessionRequest::new(session, absolute(folder.as_ref())?);
        let agent = self.agent.clone();
        let reply = self.meanwhile(agent.resume_session(&request)).await;
        opened(reply).map(drop).map_err(|refused| refused.words)
    }

    /// Deletes a session of the hub, with its log.
    pub(crate) async fn delete(&mut self, session: &str) -> Result<(), Failure> {
        let agent = self.agent.clone();
        let reply = self.meanwhile(agent.delete_session(session)).await;
        opened(reply).map_err(|refused| refused.words)
    }

    /// Turns the connection into a `Live` for the attached session, and starts to handle its events.
    pub(crate) fn stay(self, room: Arc<LiveRecording>, session: &str, folder: &str) -> Arc<Live> {
        let Visitor { agent, feed, name, early } = self;
        let (alive, dropped) = oneshot::channel();
        let live = Arc::new(Live {
            room,
            agent,
            name,
            session: session.to_owned(),
            folder: folder.into(),
            connection: feed.sessions(),
            questions: Default::default(),
            remembered: Default::default(),
            outgoing: super::outgoing::Outgoing::new(),
            wants_login: Default::default(),
            ended: Default::default(),
            _alive: alive,
        });
        tokio::spawn(drive(Arc::downgrade(&live), feed, early, dropped));
        live
    }
}

/// Handles events until the `Live` is dropped or the hub closes the connection.
async fn drive(live: Weak<Live>, mut feed: Feed, early: Vec<Event>, mut dropped: oneshot::Receiver<()>) {
    for event in early {
        let Some(live) = live.upgrade() else { return };
        live.take(event);
    }
    loop {
        let event = tokio::select! {
            event = feed.next() => event,
            _ = &mut dropped => return,
        };
        let (Some(event), Some(live)) = (event, live.upgrade()) else { return };
        live.take(event);
    }
}

impl Live {
    fn take(self: &Arc<Self>, event: Event) {
        match event {
            Event::Permission(question) => {
                self.keep_by_log(Question::Permission(question.clone()));
                self.answer_by_itself(question);
            }
            Event::Elicitation(question) => self.keep_by_log(Question::Elicitation(question)),
            Event::Withdrawn { id } => {
                self.withdrawn(&id);
                self.room.touch();
            }
            Event::Closed(closure) => self.closed(&closure.to_string()),
            Event::AuthStatus => self.room.touch(),
            // The log contains everything else.
            _ => {}
        }
    }

    fn keep_by_log(&self, question: Question) {
        // A fork that was made over this connection has a connection of its own.
        if question.session().is_some_and(|session| !self.is_here(session)) {
            return;
        }
        let text = match &question {
            Question::Permission(question) => question.request().encode(WireFormat::Any),
            Question::Elicitation(question) => question.request().encode(WireFormat::Any),
        };
        let id = match (id_in_log(&text), question.session()) {
            (Some(id), Some(_)) => id,
            // The question is in no log. The prefix keeps its id distinct from those of the log.
            _ => RequestId::Text(format!("here-{}", question.id().encode(WireFormat::Any)).into()),
        };
        let open = Open { id, question, content: None };
        locked(&self.questions).insert(open.id.encode(WireFormat::Any), open);
        self.room.touch();
    }

    /// Answers a question by a remembered choice, once the log has been read as far as the question.
    fn answer_by_itself(self: &Arc<Self>, question: PermissionQuestion) {
        if self.remembered.all().is_empty() {
            return;
        }
        let (weak, mut changes) = (Arc::downgrade(self), self.room.changes());
        tokio::spawn(async move {
            loop {
                {
                    let Some(live) = weak.upgrade() else { return };
                    if live.is_settled_by_itself(&question).await {
                        return;
                    }
                }
                if changes.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// Answers a question if a remembered choice applies. Returns `false` if the log has not been read as far as the
    /// question.
    async fn is_settled_by_itself(&self, question: &PermissionQuestion) -> bool {
        let known = locked(&self.questions)
            .values()
            .find(|open| open.question.id() == question.id())
            .map(|open| open.id.clone());
        let Some(id) = known else { return true };
        let session = self.in_log(question.session());
        let snapshot = self.room.session(&session);
        let Some(asked) = snapshot.and_then(|snapshot| self.asked(&session, &snapshot, &id)) else {
            return false;
        };
        if let Some(choice) = self.remembered.find(&session, &asked)
            && question
                .choose_saying(&choice.option, Decider::Remembered, Some(DECIDER.meta("remembered")))
                .await
                .is_ok()
        {
            self.withdrawn(question.id());
            self.room.touch();
        }
        true
    }
}

/// Returns the id of a question in the log.
fn id_in_log(request: &str) -> Option<RequestId<'static>> {
    REQUEST.of(&Raw::parse(request).ok()?)
}

/// Returns the options of a client that shows questions and forms.
fn client_options() -> ClientOptions {
    let mut options = ClientOptions::new("switchboard page", env!("CARGO_PKG_VERSION"));
    options.capabilities.elicitation = Some(v2::ElicitationCapabilities {
        form: Some(v2::EmptyObject::new()),
        url: Some(v2::EmptyObject::new()),
        ..v2::ElicitationCapabilities::new()
    });
    // Each sub-agent counts as a session.
    options.session_limit = MAX_SESSIONS;
    options.patience = PATIENCE;
    // The log has the updates.
    options.folds_updates = false;
    options
}

/// Returns the error message of an agent that did not start, with its last lines on stderr.
fn not_started(error: &RpcError<'_>, hint: &str) -> Failure {
    let mut words = with_last_lines(error.message.to_string(), error);
    if error.message.starts_with(NO_HANDSHAKE) && !hint.is_empty() {
        words.push_str("\n  hint: ");
        words.push_str(hint);
    }
    words
}

fn absolute_folder(folder: &str) -> Result<switchboard_acp::AbsolutePath<'static>, Refused> {
    absolute(folder.as_ref()).map_err(|words| Refused { words, wants_login: false, known: None })
}
