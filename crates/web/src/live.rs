//! A session of the hub that somebody acts in, and the connection to it. What is seen of it is its log, so everything here
//! is known by the names that it has there: the agent's ids of sessions and questions. To the hub, the session has the id
//! of its log.

mod outgoing;
mod visitor;

pub(crate) use outgoing::Said;
pub(crate) use visitor::{Refused, Visitor};

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use switchboard_acp::extensions::{AGENT_VERSION, END_AGENT_METHOD};
use switchboard_acp::rpc::{RequestId, RpcError, codes};
use switchboard_acp::v2::unstable::{AuthState, ForkSessionRequest};
use switchboard_acp::{AbsolutePath, Raw, Wire, WireFormat, v2};
use switchboard_peer::{AgentHandle, ElicitationQuestion, PermissionQuestion, Sessions, Steered};
use switchboard_policy::Scene;
use switchboard_session::{Conversation, Permission, Snapshot};
use switchboard_transport::Answer;
use tokio::sync::oneshot;

use super::asked::Asked;
use super::live_recording::LiveRecording;
use super::reading::in_words;
use super::remembered::Remembered;

/// Why a question cannot be answered: the page may also show it a moment before it can be.
const NOT_OPEN: &str = "this question is answered already, or was only just asked: look at it once more";

/// How long after it appeared or changed a question cannot be answered, so that nobody allows something by a click or a
/// key that was meant for something else. The page waits too; here nothing can go around it.
const INERT: Duration = Duration::from_millis(500);

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

/// A session of the hub, and somebody in it.
pub(crate) struct Live {
    pub(crate) room: Arc<LiveRecording>,
    pub(crate) agent: AgentHandle,
    /// The agent's name in the configuration, or its program.
    pub(crate) name: String,
    /// The hub's id of the session; empty where the agent has opened none.
    session: String,
    pub(crate) folder: PathBuf,
    /// What the connection itself has heard.
    connection: Sessions,
    questions: Mutex<HashMap<String, Open>>,
    pub(crate) remembered: Remembered,
    outgoing: outgoing::Outgoing,
    /// Whether the agent has refused something because nobody is logged in, and nobody has logged in since.
    wants_login: AtomicBool,
    ended: OnceLock<String>,
    /// The connection ends with this.
    _alive: oneshot::Sender<()>,
}

/// Something that could not be done, in words for the user.
pub(crate) type Failure = String;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// Why the connection to the hub is gone, once it is.
    pub(crate) fn ended(&self) -> Option<&str> {
        self.ended.get().map(String::as_str)
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

    /// Sends a prompt. It is done when the agent has taken it.
    pub(crate) async fn prompt(
        &self,
        session: &str,
        content: Vec<v2::ContentBlock<'_>>,
    ) -> Result<(), Failure> {
        let reply =
            self.agent.prompt(&self.wire(session), content).await.map_err(|error| error.to_string())?;
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

    /// The version of the protocol that the agent speaks itself.
    pub(crate) fn version(&self) -> u64 {
        let description = self.agent.description();
        let told = Raw::parse(description.answer.as_str()).ok().and_then(|answer| AGENT_VERSION.of(&answer));
        told.unwrap_or(u64::from(description.version))
    }

    /// Whether the agent has lost its login: it says so, or refuses because of it.
    pub(crate) fn has_lost_login(&self) -> bool {
        let says = |it: &Conversation| {
            it.auth_status().is_some_and(|status| status.state == AuthState::Unauthenticated)
        };
        // What it says concerns no session, so no log has it.
        self.wants_login.load(Ordering::Relaxed) || self.connection.conversation(says)
    }

    /// Logs in by a way that the agent offers.
    pub(crate) async fn login(&self, method: &str) -> Result<(), Failure> {
        let reply = self.agent.login(method).await.map_err(|error| error.to_string())?;
        reply.map_err(|error| refused(&error))?;
        self.wants_login.store(false, Ordering::Relaxed);
        self.room.touch();
        Ok(())
    }

    /// Ends the agent process of the session. The next prompt starts it again.
    pub(crate) async fn end_agent(&self) -> Result<(), Failure> {
        let call = self.agent.caller().call(END_AGENT_METHOD, json!({"sessionId": self.session})).await;
        match call.map_err(|error| error.to_string())? {
            Answer::Result(_) => Ok(()),
            Answer::Error(error) => Err(self.refused(&error)),
        }
    }

    /// Gives the turn at work a message; where none is, it begins one.
    pub(crate) async fn steer(
        &self,
        session: &str,
        content: Vec<v2::ContentBlock<'_>>,
    ) -> Result<(), Failure> {
        let reply = self
            .agent
            .steer(&self.wire(session), content.clone())
            .await
            .map_err(|error| error.to_string())?;
        match reply.map_err(|error| self.refused(&error))? {
            Steered::NoTurn => self.prompt(session, content).await,
            _ => Ok(()),
        }
    }

    /// The id by which the hub knows a session: in its log it has the agent's, and so have its sub-agents.
    pub(crate) fn wire(&self, session: &str) -> String {
        if self.is_root(session) { self.session.clone() } else { format!("{}:{session}", self.session) }
    }

    /// A session of the connection as its log knows it.
    fn in_log(&self, session: &str) -> String {
        match self.subagent(session) {
            Some(subagent) => subagent.to_owned(),
            None => self.root().unwrap_or_default(),
        }
    }

    /// The agent's id of a sub-agent in this session, by that of the connection.
    fn subagent<'s>(&self, session: &'s str) -> Option<&'s str> {
        session.strip_prefix(&*self.session)?.strip_prefix(':')
    }

    /// Whether a session of the connection is the one that is looked at, or a sub-agent's in it.
    fn is_here(&self, session: &str) -> bool {
        session == self.session || self.subagent(session).is_some()
    }

    /// The session's id in its log: the first that an agent gave it.
    fn root(&self) -> Option<String> {
        self.room.session_ids().into_iter().rev().find(|id| self.is_root(id))
    }

    fn is_root(&self, session: &str) -> bool {
        self.room.look(|it| it.parent(session).is_none())
    }

    /// Makes a copy of a session that goes on by itself, and gives the hub's id of it.
    pub(crate) async fn fork(&self, session: &str) -> Result<String, Failure> {
        let request = ForkSessionRequest::new(self.wire(session), absolute(&self.folder)?);
        let reply = self.agent.fork_session(&request).await.map_err(|error| error.to_string())?;
        Ok(reply.map_err(|error| self.refused(&error))?.session_id.into_owned())
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
        let known =
            locked(&self.questions).get(&id.encode(WireFormat::Any)).map(|open| open.question.clone());
        let left_out = match &known {
            // No log has it.
            Some(Question::Elicitation(question)) if question.session().is_none() => {
                in_words(question.left_out())
            }
            _ => self.room.log().left_out("", id, None),
        };
        Asked::elicitation(request, left_out)
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
        let gone = || NOT_OPEN.to_owned();
        let known = locked(&self.questions).get(id).map(|open| (open.question.clone(), open.id.clone()));
        let (question, asked_as) = known.ok_or_else(gone)?;
        let asked = match &question {
            Question::Permission(question) => {
                let session = self.in_log(question.session());
                let snapshot = self.room.session(&session).ok_or_else(gone)?;
                self.asked(&session, &snapshot, &asked_as).ok_or_else(gone)?
            }
            Question::Elicitation(question) => match question.session() {
                // As the log has it, and as it was shown.
                Some(session) => {
                    let snapshot = self.room.session(&self.in_log(session)).ok_or_else(gone)?;
                    let asked = snapshot.elicitation(&asked_as).ok_or_else(gone)?;
                    self.asked_for_data(&asked_as, asked.request())
                }
                None => self.asked_for_data(&asked_as, question.request()),
            },
        };
        let mut questions = locked(&self.questions);
        let open = questions.get_mut(id).ok_or_else(gone)?;
        open.note(&asked.revision());
        match open.refuses(read) {
            Some(reason) => Err(reason.to_owned()),
            None => Ok((question, asked)),
        }
    }

    /// What a permission asks for, as rules see it.
    pub(crate) fn subject(
        &self,
        session: &str,
        snapshot: &Snapshot,
        permission: &Permission,
    ) -> switchboard_policy::Subject {
        let left_out = self.room.log().left_out(session, permission.id(), permission.tool_call_id());
        let scene = Scene {
            root: self.folder.display().to_string(),
            cwd: None,
            agent: Some(self.agent.description().name().to_owned()),
        };
        switchboard_policy::Subject::of_permission(snapshot, permission, left_out.as_deref(), &scene)
    }

    /// The same of a question that is open, with the options, unless what was read of it is not what it asks.
    pub(crate) fn open_subject(
        &self,
        id: &str,
        read: &str,
    ) -> Result<(switchboard_policy::Subject, Vec<v2::PermissionOption<'static>>), Failure> {
        let (Question::Permission(question), _) = self.open_question(id, read)? else {
            return Err("this question wants data, not a choice".to_owned());
        };
        let gone = || NOT_OPEN.to_owned();
        let asked_as = locked(&self.questions).get(id).map(|open| open.id.clone()).ok_or_else(gone)?;
        let session = self.in_log(question.session());
        let snapshot = self.room.session(&session).ok_or_else(gone)?;
        let permission = snapshot.permission(&asked_as).ok_or_else(gone)?;
        Ok((self.subject(&session, &snapshot, permission), permission.options().to_vec()))
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

/// An answer of the agent or the hub that is an error, with what an agent that died wrote last.
pub(crate) fn refused(error: &RpcError<'_>) -> Failure {
    let words = match error.code {
        // Somebody took it back, which is no fault of the agent's.
        codes::REQUEST_CANCELLED => format!("not sent: {}", error.message),
        code => format!("the agent refuses: {} ({code})", error.message),
    };
    with_last_lines(words, error)
}

/// Puts the last that an agent wrote to its standard error before it died below some words.
fn with_last_lines(words: String, error: &RpcError<'_>) -> String {
    let lines = error.data.as_ref().and_then(|data| data.get("stderr"));
    let lines = lines.iter().flat_map(Raw::items);
    let lines = lines.filter_map(|line| line.as_text().map(std::borrow::Cow::into_owned));
    std::iter::once(words).chain(lines).collect::<Vec<_>>().join("\n")
}

fn absolute(folder: &Path) -> Result<AbsolutePath<'static>, Failure> {
    AbsolutePath::parse(folder.display().to_string()).map_err(|error| error.to_string())
}
