//! The connection to the agent: to a process of our own, or through a hub to one of its sessions.

mod over_hub;

pub(crate) use over_hub::Visitor;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use switchboard_peer::{
    AgentHandle, Client, ClientOptions, ElicitationQuestion, Event, Feed, PermissionQuestion, Steered,
};
use switchboard_protocol::rpc::{RequestId, RpcError, codes};
use switchboard_protocol::v2::unstable::{AuthState, ForkSessionRequest};
use switchboard_protocol::{AbsolutePath, Side, Wire, WireFormat, v2};
use switchboard_session::{Conversation, Decider, Snapshot};
use switchboard_store::{About, Channel, Store};
use switchboard_transport::{Child, Program};
use tokio::sync::watch;

use super::asked::Asked;
use super::family::{self, Named};
use super::live_recording::LiveRecording;
use super::remembered::{Choice, Remembered};
use crate::oddities::Oddities;
use crate::recording::{self, Recording};
use crate::{ending, handshake, oddities, standard_error};

/// How long after it appeared or changed a question cannot be answered, so that nobody allows something by a click or a
/// key that was meant for something else. The page waits too; here nothing can go around it.
const INERT: Duration = Duration::from_millis(500);

/// How many sessions the agent may have, with those of its sub-agents.
const MAX_SESSIONS: usize = 10_000;

/// What the agent asks and nobody has answered.
struct Open {
    question: Question,
    /// The id that the recording knows it by.
    id: RequestId<'static>,
    /// What it asks, by its revision, and since when it is that.
    content: Option<(String, Instant)>,
}

#[derive(Clone)]
enum Question {
    Permission(PermissionQuestion),
    Elicitation(ElicitationQuestion),
}

impl Question {
    /// The id on the connection.
    fn id(&self) -> &RequestId<'static> {
        match self {
            Question::Permission(question) => question.id(),
            Question::Elicitation(question) => question.id(),
        }
    }

    /// The session on the connection, if it belongs to one.
    fn session(&self) -> Option<&Arc<str>> {
        match self {
            Question::Permission(question) => Some(question.session()),
            Question::Elicitation(question) => question.session(),
        }
    }
}

impl Open {
    /// Takes note of what it asks now.
    fn note(&mut self, revision: &str) {
        if self.content.as_ref().is_none_or(|(known, _)| known != revision) {
            self.content = Some((revision.to_owned(), Instant::now()));
        }
    }

    /// Why an answer to what was read is refused, if it is.
    fn refuses(&self, read: &str) -> Option<&'static str> {
        match &self.content {
            Some((revision, _)) if revision != read => {
                Some("the question has changed since it was read; what is new in it is marked")
            }
            Some((_, since)) if since.elapsed() >= INERT => None,
            _ => Some("this question has only just appeared or changed; read it first"),
        }
    }
}

/// Who runs the agent.
enum Runner {
    /// We do, and record what it says.
    Ours { child: Child, recording: Recording },
    /// A hub does, in one session.
    Hub(over_hub::Place),
}

/// An agent that runs, and the recording of what it says.
pub(crate) struct Live {
    pub(crate) room: Arc<LiveRecording>,
    pub(crate) agent: AgentHandle,
    /// The agent's name in the configuration, or its program.
    pub(crate) name: String,
    runner: Runner,
    questions: Mutex<HashMap<String, Open>>,
    /// The folder of each session that was opened here.
    folders: Mutex<HashMap<String, PathBuf>>,
    pub(crate) remembered: Remembered,
    /// The sessions that are copies, and what they are copies of.
    copies: Mutex<HashMap<String, String>>,
    /// Whether the agent has refused something because nobody is logged in, and nobody has logged in since.
    wants_login: AtomicBool,
    /// Why the last session that was asked for was not opened.
    refusal: Mutex<Option<Failure>>,
    ended: OnceLock<String>,
    /// True once everything that was said is in the store.
    recorded: watch::Sender<bool>,
}

/// Something that could not be done, in words for the user.
pub(crate) type Failure = String;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until all is to end.
async fn ended(ending: &mut watch::Receiver<bool>) {
    // The other end goes only with everything else.
    let _ = ending.wait_for(|ending| *ending).await;
}

impl Live {
    /// Starts the agent and gets to know it.
    pub(crate) async fn start(
        program: &Program,
        name: &str,
        project: &Path,
        store: &Store,
        handshake_timeout: Duration,
        mut ending: watch::Receiver<bool>,
    ) -> Result<Arc<Self>, Failure> {
        let about = About {
            agent: Some(name.to_owned()),
            client: Some("switchboard".to_owned()),
            project: Some(project.display().to_string()),
            title: None,
        };
        let recording = Recording::into_store(store, &about).map_err(|error| error.to_string())?;
        let id = recording.id().ok_or("the store takes no recording")?;
        let room = LiveRecording::live(&id, store);
        let listener = Arc::clone(&room);
        recording.heard_by(move |record| listener.push(record));
        let mut options = client_options("switchboard");
        options.observer = Some(recording.observer());
        options.patience = handshake_timeout;
        let started = program.connect(options.connection_options());
        let (child, connection) = recording::started(Some(&recording), started)?;
        ending::takes_along(&child, Some(&recording));
        let watch = recording.watch(&child);
        let connected = tokio::select! {
            connected = Client::connect(connection, options) => match connected {
                Ok(client) => Ok(client),
                Err(error) => {
                    let failure = handshake::failure(&error, &child).await;
                    Err(match handshake::is_too_late(&error) {
                        true => format!("{failure}\n  hint: {}", handshake::HINT),
                        false => failure,
                    })
                }
            },
            () = ended(&mut ending) => Err("the agent was told to end".to_owned()),
        };
        let client = match connected {
            Ok(client) => client,
            Err(reason) => {
                child.shut_down_within(ending::grace()).await;
                recording.finish(watch, child.exit()).await;
                return Err(reason);
            }
        };
        let Client { agent, feed } = client;
        room.sessions_are(feed.sessions());
        let live = Arc::new(Live::new(room, agent, name, Runner::Ours { child, recording }));
        let driven = Arc::clone(&live);
        tokio::spawn(async move {
            driven.drive(feed).await;
            if let Runner::Ours { child, recording } = &driven.runner {
                child.shut_down().await;
                recording.finish(watch, child.exit()).await;
            }
            driven.recorded.send_replace(true);
            driven.room.touch();
        });
        Ok(live)
    }

    fn new(room: Arc<LiveRecording>, agent: AgentHandle, name: &str, runner: Runner) -> Self {
        Live {
            room,
            agent,
            name: name.to_owned(),
            runner,
            questions: Mutex::default(),
            folders: Mutex::default(),
            copies: Mutex::default(),
            wants_login: AtomicBool::new(false),
            remembered: Remembered::default(),
            refusal: Mutex::default(),
            ended: OnceLock::new(),
            recorded: watch::Sender::new(false),
        }
    }

    /// Writes down what is no message, where we record.
    fn recording(&self) -> Option<&Recording> {
        match &self.runner {
            Runner::Ours { recording, .. } => Some(recording),
            Runner::Hub(_) => None,
        }
    }

    /// Why the agent is gone, once it is.
    pub(crate) fn ended(&self) -> Option<&str> {
        self.ended.get().map(String::as_str)
    }

    /// Ends the agent, and waits until everything that it said is in the store.
    pub(crate) async fn stop(&self) {
        let Runner::Ours { child, .. } = &self.runner else { return };
        child.shut_down_within(ending::grace()).await;
        // The sender lives as long as this.
        let _ = self.recorded.subscribe().wait_for(|recorded| *recorded).await;
    }

    async fn drive(&self, mut feed: Feed) {
        let mut oddities = Oddities::shown();
        let say = |words: Option<String>| {
            if let Some(words) = words {
                standard_error::say(format!("switchboard: from the agent: {words}"));
            }
        };
        while let Some(event) = feed.next().await {
            if let Some(odd) = oddities::of_event(&event) {
                say(oddities.next(&odd));
                // What is no message is recorded where it was read, and the rest is where the messages are.
                if let Some(recording) = self.recording()
                    && !matches!(&event, Event::Anomaly(anomaly) if anomaly.is_no_message())
                {
                    recording.set_aside(Side::Agent, &odd);
                }
            }
            match event {
                Event::Permission(question) => self.take_permission(question).await,
                Event::Elicitation(question) => {
                    let session = question.session().map_or("", |session| &**session);
                    self.room.log().note_question(session, question.id(), None, question.left_out());
                    self.keep(Question::Elicitation(question));
                }
                Event::Withdrawn { id } => self.withdrawn(&id),
                Event::Closed(closure) => self.closed(&closure.to_string()),
                Event::Update(update) => self.room.note_changes(update.session(), update.changes()),
                Event::Changed { session, changes } => self.room.note_changes(&session, &changes),
                // All of these are messages, which the recording has seen.
                _ => self.room.touch(),
            }
        }
        say(oddities.total());
    }

    /// Keeps a question until it is answered.
    fn keep(&self, question: Question) {
        let id = question.id().clone();
        let open = Open { id, question, content: None };
        locked(&self.questions).insert(open.id.encode(WireFormat::Any), open);
        self.room.touch();
    }

    fn withdrawn(&self, id: &RequestId<'_>) {
        locked(&self.questions).retain(|_, open| open.question.id() != id);
    }

    fn closed(&self, reason: &str) {
        // There is one such event.
        let _ = self.ended.set(reason.to_owned());
        locked(&self.questions).clear();
        self.room.touch();
    }

    async fn take_permission(&self, question: PermissionQuestion) {
        let session = question.session().to_string();
        let call = match &question.request().subject {
            Some(v2::RequestPermissionSubject::ToolCall(subject)) => Some(&*subject.tool_call.tool_call_id),
            _ => None,
        };
        self.room.log().note_question(&session, question.id(), call, question.left_out());
        let snapshot = self.room.session(&session);
        let asked = snapshot.and_then(|snapshot| self.asked(&session, &snapshot, question.id()));
        let choice = asked.and_then(|asked| self.remembered.find(&session, &asked));
        if let Some(choice) = choice {
            // Where it fails, the question is open still and a person is asked.
            if question.choose(&choice.option, Decider::Remembered).await.is_ok() {
                if let Some(recording) = self.recording() {
                    recording.record(Channel::Process, &answered_by_itself(&question, &choice));
                }
                return;
            }
        }
        self.keep(Question::Permission(question));
    }

    /// The folder of a session; of a sub-agent, that of the session which it descends from.
    pub(crate) fn folder(&self, session: &str) -> PathBuf {
        if let Runner::Hub(place) = &self.runner {
            return place.folder.clone();
        }
        let root = self.room.look(|it| it.ancestors(session).last().map(|root| Arc::clone(&root.session)));
        let root = root.flatten();
        locked(&self.folders).get(root.as_deref().unwrap_or(session)).cloned().unwrap_or_default()
    }

    /// Opens a session in a folder, and gives its id.
    pub(crate) async fn new_session(&self, folder: &Path) -> Result<String, Failure> {
        let request = v2::NewSessionRequest::new(absolute(folder)?);
        let response = self.agent.new_session(&request).await;
        let opened = response
            .map_err(|error| error.to_string())
            .and_then(|reply| reply.map_err(|error| self.refused(&error)))
            .map(|response| response.session_id.into_owned());
        *locked(&self.refusal) = opened.as_ref().err().cloned();
        if let Ok(id) = &opened {
            locked(&self.folders).insert(id.clone(), folder.to_owned());
        }
        self.room.touch();
        opened
    }

    /// Why the last session that was asked for was not opened.
    pub(crate) fn refusal(&self) -> Option<Failure> {
        locked(&self.refusal).clone()
    }

    /// Goes on with a session of earlier, with its history.
    pub(crate) async fn resume(&self, session: &str, folder: &Path) -> Result<(), Failure> {
        let mut request = v2::ResumeSessionRequest::new(session, absolute(folder)?);
        request.replay_from = Some(v2::ReplayFrom::Start(v2::EmptyObject::new()));
        // Before it answers, the agent may ask for something in it already.
        locked(&self.folders).insert(session.to_owned(), folder.to_owned());
        let response = self.agent.resume_session(&request).await;
        let outcome = response
            .map_err(|error| error.to_string())
            .and_then(|reply| reply.map_err(|error| self.refused(&error)));
        if outcome.is_err() {
            locked(&self.folders).remove(session);
        }
        self.room.touch();
        outcome.map(drop)
    }

    /// Sends a prompt. It is done when the agent has taken it.
    pub(crate) async fn prompt(
        &self,
        session: &str,
        content: Vec<v2::ContentBlock<'_>>,
    ) -> Result<(), Failure> {
        let reply =
            self.agent.prompt(self.wire(session), content).await.map_err(|error| error.to_string())?;
        reply.map(drop).map_err(|error| self.refused(&error))
    }

    /// An answer of the agent that is an error. Where it wants a login, the page will offer one.
    fn refused(&self, error: &RpcError<'_>) -> Failure {
        if error.code == codes::AUTHENTICATION_REQUIRED {
            self.wants_login.store(true, Ordering::Relaxed);
            self.room.touch();
        }
        refused(error)
    }

    /// Whether the agent says that it can do something in sessions.
    pub(crate) fn offers(&self, what: impl FnOnce(&v2::SessionCapabilities<'_>) -> bool) -> bool {
        self.agent.description().capabilities.session.as_ref().is_some_and(what)
    }

    /// Whether the agent has lost its login: it says so, or refuses because of it.
    pub(crate) fn has_lost_login(&self) -> bool {
        let says = |it: &Conversation| {
            it.auth_status().is_some_and(|status| status.state == AuthState::Unauthenticated)
        };
        let told = match &self.runner {
            Runner::Ours { .. } => self.room.look(says).unwrap_or(false),
            // It concerns no session, so no log has it.
            Runner::Hub(place) => place.connection.conversation(says),
        };
        self.wants_login.load(Ordering::Relaxed) || told
    }

    /// Logs in by a way that the agent offers.
    pub(crate) async fn login(&self, method: &str) -> Result<(), Failure> {
        let reply = self.agent.login(method).await.map_err(|error| error.to_string())?;
        reply.map_err(|error| refused(&error))?;
        self.wants_login.store(false, Ordering::Relaxed);
        self.room.touch();
        Ok(())
    }

    /// Gives the turn at work a message; where none is, it begins one.
    pub(crate) async fn steer(
        &self,
        session: &str,
        content: Vec<v2::ContentBlock<'_>>,
    ) -> Result<(), Failure> {
        let reply =
            self.agent.steer(self.wire(session), content.clone()).await.map_err(|error| error.to_string())?;
        match reply.map_err(|error| self.refused(&error))? {
            Steered::NoTurn => self.prompt(session, content).await,
            _ => Ok(()),
        }
    }

    /// The id by which the other end of the connection knows a session.
    pub(crate) fn wire<'s>(&'s self, session: &'s str) -> &'s str {
        match &self.runner {
            Runner::Ours { .. } => session,
            // In its log the session has the agent's id; those of its sub-agents are the same everywhere.
            Runner::Hub(place) if self.is_root(session) => &place.session,
            Runner::Hub(_) => session,
        }
    }

    fn is_root(&self, session: &str) -> bool {
        self.room.look(|it| it.parent(session).is_none()).unwrap_or(true)
    }

    /// Where a session can be looked at that was opened over this connection: the recording, and the session in it.
    pub(crate) fn place_of<'s>(&'s self, session: &'s str) -> (&'s str, Option<&'s str>) {
        match &self.runner {
            Runner::Ours { .. } => (&self.room.id, Some(session)),
            Runner::Hub(_) => (session, None),
        }
    }

    /// Makes a copy of a session that goes on by itself, and gives its id.
    pub(crate) async fn fork(&self, session: &str) -> Result<String, Failure> {
        let folder = self.folder(session);
        let request = ForkSessionRequest::new(self.wire(session), absolute(&folder)?);
        let reply = self.agent.fork_session(&request).await.map_err(|error| error.to_string())?;
        let copy = reply.map_err(|error| self.refused(&error))?.session_id.into_owned();
        locked(&self.folders).insert(copy.clone(), folder);
        locked(&self.copies).insert(copy.clone(), session.to_owned());
        self.room.touch();
        Ok(copy)
    }

    /// What a session is a copy of, if it was made here.
    pub(crate) fn original(&self, session: &str) -> Option<String> {
        locked(&self.copies).get(session).cloned()
    }

    /// What a permission asks, with what could not be read of it.
    pub(crate) fn asked(&self, session: &str, snapshot: &Snapshot, id: &RequestId<'_>) -> Option<Asked> {
        let permission = snapshot.permission(id)?;
        let left_out = self.room.log().left_out(session, id, permission.tool_call_id());
        Some(Asked::permission(snapshot, permission, left_out))
    }

    /// What a request for data asks, with what could not be read of it.
    pub(crate) fn asked_for_data(
        &self,
        id: &RequestId<'_>,
        request: &v2::CreateElicitationRequest<'_>,
    ) -> Asked {
        Asked::elicitation(request, self.room.log().left_out("", id, None))
    }

    /// Takes note of what a question asks now, so that an answer to what it asked before is refused. Tells whether it
    /// can be answered here.
    pub(crate) fn note_content(&self, id: &str, asked: &Asked) -> bool {
        let mut questions = locked(&self.questions);
        let open = questions.get_mut(id);
        open.map(|open| open.note(&asked.revision())).is_some()
    }

    /// A question that is open, unless what was read of it is not what it asks.
    fn open_question(&self, id: &str, read: &str) -> Result<(Question, Asked), Failure> {
        let gone = || "this question is answered already".to_owned();
        let known = locked(&self.questions).get(id).map(|open| (open.question.clone(), open.id.clone()));
        let (question, asked_as) = known.ok_or_else(gone)?;
        let asked = match &question {
            Question::Permission(question) => {
                let session = self.in_log(question.session());
                let snapshot = self.room.session(&session).ok_or_else(gone)?;
                self.asked(&session, &snapshot, &asked_as).ok_or_else(gone)?
            }
            Question::Elicitation(question) => self.asked_for_data(&asked_as, question.request()),
        };
        let mut questions = locked(&self.questions);
        let open = questions.get_mut(id).ok_or_else(gone)?;
        open.note(&asked.revision());
        match open.refuses(read) {
            Some(reason) => Err(reason.to_owned()),
            None => Ok((question, asked)),
        }
    }

    /// Answers a permission with an option that was offered. `read` is the revision of what was read before.
    pub(crate) async fn choose(&self, id: &str, option: &str, read: &str) -> Result<(), Failure> {
        let (Question::Permission(question), asked) = self.open_question(id, read)? else {
            return Err("this question wants data, not a choice".to_owned());
        };
        question.choose(option, "user").await.map_err(|error| error.to_string())?;
        locked(&self.questions).remove(id);
        let chosen = question.request().options.iter().find(|offered| offered.option_id == option);
        if let Some(chosen) = chosen {
            let session = self.in_log(question.session());
            self.remembered.note(&session, &question.request().title, &asked, chosen);
        }
        self.room.touch();
        Ok(())
    }

    /// Answers a request for data. `read` is the revision of what was read before.
    pub(crate) async fn answer_elicitation(
        &self,
        id: &str,
        response: &v2::CreateElicitationResponse<'_>,
        read: &str,
    ) -> Result<(), Failure> {
        let (Question::Elicitation(question), _) = self.open_question(id, read)? else {
            return Err("this question wants a choice, not data".to_owned());
        };
        question.answer(response, "user").await.map_err(|error| error.to_string())?;
        locked(&self.questions).remove(id);
        self.room.touch();
        Ok(())
    }

    /// How many questions wait in sessions that are neither a given one nor descend from it, by the sessions.
    pub(crate) fn asked_elsewhere(&self, session: &str) -> Vec<(Named, usize)> {
        let mut counts: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for asking in locked(&self.questions).values().filter_map(|open| open.question.session()) {
            *counts.entry(Arc::clone(asking)).or_default() += 1;
        }
        let elsewhere = |conversation: &Conversation| {
            let is_here = |id: &str| {
                id == session || conversation.ancestors(id).any(|above| *above.session == *session)
            };
            let others = counts.into_iter().filter(|(id, _)| !is_here(id));
            others.map(|(id, count)| (Named { name: family::name(conversation, &id), id }, count)).collect()
        };
        self.room.look(elsewhere).unwrap_or_default()
    }

    /// How many questions wait in all sessions.
    pub(crate) fn open_questions(&self) -> usize {
        locked(&self.questions).len()
    }

    /// Requests for data that belong to no session, with the ids by which they are known here.
    pub(crate) fn loose_elicitations(&self) -> Vec<(RequestId<'static>, ElicitationQuestion)> {
        let questions = locked(&self.questions);
        let loose = questions.values().filter_map(|open| match &open.question {
            Question::Elicitation(question) if question.session().is_none() => {
                Some((open.id.clone(), question.clone()))
            }
            _ => None,
        });
        loose.collect()
    }
}

/// What a client is that shows questions and forms.
fn client_options(name: &str) -> ClientOptions {
    let mut options = ClientOptions::new(name, env!("CARGO_PKG_VERSION"));
    options.capabilities.elicitation = Some(v2::ElicitationCapabilities {
        form: Some(v2::EmptyObject::new()),
        url: Some(v2::EmptyObject::new()),
        ..v2::ElicitationCapabilities::new()
    });
    // Each sub-agent is one.
    options.session_limit = MAX_SESSIONS;
    options
}

/// What the recording says of a question that a remembered choice has answered.
fn answered_by_itself(question: &PermissionQuestion, choice: &Choice) -> String {
    let request = question.request();
    let chosen = request.options.iter().find(|option| option.option_id == choice.option);
    format!(
        "request {} of the agent, \"{}\", was answered with \"{}\" without asking, because the user chose that for always \
         at {} for exactly the same in this session",
        question.id().encode(WireFormat::Any),
        request.title,
        chosen.map_or(&*choice.option, |option| &option.name),
        choice.since,
    )
}

/// An answer of the agent that is an error.
pub(crate) fn refused(error: &RpcError<'_>) -> Failure {
    format!("the agent refuses: {} ({})", error.message, error.code)
}

fn absolute(folder: &Path) -> Result<AbsolutePath<'static>, Failure> {
    AbsolutePath::parse(folder.display().to_string()).map_err(|error| error.to_string())
}
