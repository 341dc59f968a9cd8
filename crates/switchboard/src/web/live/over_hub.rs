//! A session of a hub. What is seen of it is its log, so everything here is known by the names that it has there: the
//! agent's ids of sessions and questions. To the hub, the session has the id of its log.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use switchboard_hub::{Hub, Identity};
use switchboard_peer::{AgentHandle, Client, Event, Feed, PermissionQuestion, Sessions};
use switchboard_protocol::rpc::RequestId;
use switchboard_protocol::{Raw, Wire, WireFormat, v2};
use switchboard_session::Decider;
use switchboard_transport::Connection;
use switchboard_transport::server::{ServerConnection, ServerLimits};
use tokio::sync::oneshot;

use super::{Failure, Live, Open, Question, Runner, absolute, client_options, locked, refused};
use crate::web::live_recording::LiveRecording;

/// The largest message, such as a prompt with files.
const MAX_MESSAGE: usize = 48 << 20;

/// Where a question tells the id that it has in the log.
const REQUEST: &str = "switchboard/request";

/// A session of a hub, and the connection to it. The connection ends with this.
pub(super) struct Place {
    /// The hub's id of it.
    pub(super) session: String,
    pub(super) folder: PathBuf,
    /// What the connection itself has heard.
    pub(super) connection: Sessions,
    _alive: oneshot::Sender<()>,
}

/// A connection to a hub that looks at nothing yet.
pub(crate) struct Visitor {
    agent: AgentHandle,
    feed: Feed,
    name: String,
    early: Vec<Event>,
}

impl Visitor {
    /// Comes to a hub for an agent, which is started if it does not run.
    pub(crate) async fn come(hub: &Hub, who: Identity, agent: &str) -> Result<Self, Failure> {
        let mut limits = ServerLimits::default();
        limits.message = MAX_MESSAGE;
        let (server, stream) = ServerConnection::local(limits);
        hub.connect(who, Some(agent), server).await;
        let options = client_options("switchboard page");
        let (reader, writer) = tokio::io::split(stream);
        let connection = Connection::new(reader, writer, options.connection_options());
        let Client { agent: handle, feed } =
            Client::connect(connection, options).await.map_err(|error| error.to_string())?;
        Ok(Visitor { agent: handle, feed, name: agent.to_owned(), early: Vec::new() })
    }

    /// Opens a session in a folder, and gives the hub's id of it.
    pub(crate) async fn new_session(&mut self, folder: &str) -> Result<String, Failure> {
        let request = v2::NewSessionRequest::new(absolute(folder.as_ref())?);
        let (agent, early) = (self.agent.clone(), &mut self.early);
        let reply = self.feed.until(agent.new_session(&request), |event| early.push(event)).await;
        let opened = reply.map_err(|error| error.to_string())?.map_err(|error| refused(&error))?;
        Ok(opened.session_id.into_owned())
    }

    /// Looks at a session from now on: its log has what was before.
    pub(crate) async fn attach(&mut self, session: &str, folder: &str) -> Result<(), Failure> {
        let request = v2::ResumeSessionRequest::new(session, absolute(folder.as_ref())?);
        let (agent, early) = (self.agent.clone(), &mut self.early);
        let reply = self.feed.until(agent.resume_session(&request), |event| early.push(event)).await;
        reply.map_err(|error| error.to_string())?.map_err(|error| refused(&error))?;
        Ok(())
    }

    /// The session that it looks at, as a tab needs it.
    pub(crate) fn stay(self, room: Arc<LiveRecording>, session: &str, folder: &str) -> Arc<Live> {
        let Visitor { agent, feed, name, early } = self;
        let (alive, dropped) = oneshot::channel();
        let place = Place {
            session: session.to_owned(),
            folder: folder.into(),
            connection: feed.sessions(),
            _alive: alive,
        };
        let live = Arc::new(Live::new(room, agent, &name, Runner::Hub(place)));
        tokio::spawn(drive(Arc::downgrade(&live), feed, early, dropped));
        live
    }
}

/// Takes what comes until nobody is there any more, or the hub ends the connection.
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
            // Everything else is in the log.
            _ => {}
        }
    }

    /// A session of the connection as its log knows it.
    pub(super) fn in_log(&self, session: &str) -> String {
        match &self.runner {
            Runner::Hub(place) if place.session == session => self.root().unwrap_or_default(),
            _ => session.to_owned(),
        }
    }

    /// The agent's id of the session: the last one, where it has begun the session anew.
    fn root(&self) -> Option<String> {
        self.room.session_ids().into_iter().rev().find(|id| self.is_root(id))
    }

    fn keep_by_log(&self, question: Question) {
        // A copy that was made over this connection is looked at over its own.
        if question.session().is_some_and(|session| locked(&self.copies).contains_key(&**session)) {
            return;
        }
        let text = match &question {
            Question::Permission(question) => question.request().encode(WireFormat::Any),
            Question::Elicitation(question) => question.request().encode(WireFormat::Any),
        };
        let id = match (id_in_log(&text), question.session()) {
            (Some(id), Some(_)) => id,
            // It belongs to no session and is in no log, whose ids are not to be mistaken for this one.
            _ => RequestId::Text(format!("here-{}", question.id().encode(WireFormat::Any)).into()),
        };
        let open = Open { id, question, content: None };
        locked(&self.questions).insert(open.id.encode(WireFormat::Any), open);
        self.room.touch();
    }

    /// Answers a question as was chosen for always, once its log has been read that far.
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

    /// Whether nothing more is to be done about a question by itself.
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
            && question.choose(&choice.option, Decider::Remembered).await.is_ok()
        {
            self.withdrawn(question.id());
            self.room.touch();
        }
        true
    }
}

/// The id that a question has in the log.
fn id_in_log(request: &str) -> Option<RequestId<'static>> {
    let request = Raw::parse(request).ok()?;
    let meta = request.get("_meta")?;
    let id = meta.get(REQUEST)?;
    RequestId::decode(id.as_str(), WireFormat::Any).ok().map(Wire::into_owned)
}
