//! A connection to a session of the hub, through which a user acts in it. The page shows the session's log, so ids of
//! sessions and questions are those of the log, which the agent has assigned. The hub's id of the session is the id
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
use switchboard_policy::RequestContext;
use switchboard_session::{Conversation, Permission, Snapshot};
use switchboard_transport::Answer;
use tokio::sync::oneshot;

use super::asked::Asked;
use super::live_recording::LiveRecording;
use super::reading::in_words;
use super::remembered::Remembered;

/// Reason for rejecting an answer to a question that is not pending. The page may show a question a moment before it
/// is.
const NOT_OPEN: &str = "this question is answered already, or was only just asked: look at it once more";

/// Time after which a new or changed question can be answered, so that a click or key meant for something else does
/// not allow an operation. The page waits too, but this check cannot be circumvented.
const INERT: Duration = Duration::from_millis(500);

/// A pending question of the agent.
struct Open {
    question: Question,
    /// Id of the question in the recording.
    id: RequestId<'static>,
    /// Revision of the content, and the time since which it is current.
    content: Option<(String, Instant)>,
}

#[derive(Clone)]
enum Question {
    Permission(PermissionQuestion),
    Elicitation(ElicitationQuestion),
}

impl Question {
    /// Returns the id on the connection.
    fn id(&self) -> &RequestId<'static> {
        match self {
            Question::Permission(question) => question.id(),
            Question::Elicitation(question) => question.id(),
        }
    }

    /// Returns the session's id on the connection, if the question belongs to a session.
    fn session(&self) -> Option<&Arc<str>> {
        match self {
            Question::Permission(question) => Some(question.session()),
            Question::Elicitation(question) => question.session(),
        }
    }
}

impl Open {
    /// Records the current revision of the content.
    fn note(&mut self, revision: &str) {
        if self.content.as_ref().is_none_or(|(known, _)| known != revision) {
            self.content = Some((revision.to_owned(), Instant::now()));
        }
    }

    /// Returns the reason for rejecting an answer to the revision `read`, if there is one.
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

/// A connection that is attached to a session of the hub.
pub(crate) struct Live {
    pub(crate) room: Arc<LiveRecording>,
    pub(crate) agent: AgentHandle,
    /// Name of the agent in the configuration, or its program.
    pub(crate) name: String,
    /// Hub's id of the session; empty if the agent has not opened one.
    session: String,
    pub(crate) folder: PathBuf,
    /// State folded from the connection itself.
    connection: Sessions,
    questions: Mutex<HashMap<String, Open>>,
    pub(crate) remembered: Remembered,
    outgoing: outgoing::Outgoing,
    /// `true` after the agent has rejected a request for lack of a login, until the next login.
    wants_login: AtomicBool,
    ended: OnceLock<String>,
    /// Closes the connection when it is dropped.
    _alive: oneshot::Sender<()>,
}

/// An error message for the user.
pub(crate) type Failure = String;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// Returns the reason for the end of the connection, once it is closed.
    pub(crate) fn ended(&self) -> Option<&str> {
        self.ended.get().map(String::as_str)
    }

    fn withdrawn(&self, id: &RequestId<'_>) {
        locked(&self.questions).retain(|_, open| open.question.id() != id);
    }

    fn closed(&self, reason: &str) {
        // The connection ends only once.
        let _ = self.ended.set(reason.to_owned());
        locked(&self.questions).clear();
        self.room.touch();
    }

    /// Sends a prompt. Completes when the agent has accepted it.
    pub(crate) async fn prompt(
        &self,
        session: &str,
        content: Vec<v2::ContentBlock<'_>>,
    ) -> Result<(), Failure> {
        let reply =
            self.agent.prompt(&self.wire(session), content).await.map_err(|error| error.to_string())?;
        reply.map(drop).map_err(|error| self.refused(&error))
    }

    /// Returns the message of an error response. If the agent requires a login, the page will offer one.
    fn refused(&self, error: &RpcError<'_>) -> Failure {
        if error.code == codes::AUTHENTICATION_REQUIRED {
            self.wants_login.store(true, Ordering::Relaxed);
            self.room.touch();
        }
        refused(error)
    }

    /// Returns `true` if the agent has declared a session capability.
    pub(crate) fn offers(&self, what: impl FnOnce(&v2::SessionCapabilities<'_>) -> bool) -> bool {
        self.agent.description().capabilities.session.as_ref().is_some_and(what)
    }

    /// Returns the protocol version of the agent itself, before any translation.
    pub(crate) fn version(&self) -> u64 {
        let description = self.agent.description();
        let told = Raw::parse(description.answer.as_str()).ok().and_then(|answer| AGENT_VERSION.of(&answer));
        told.unwrap_or(u64::from(description.version))
    }

    /// Returns `true` if the agent reports that it is logged out, or has rejected a request because of it.
    pub(crate) fn has_lost_login(&self) -> bool {
        let says = |it: &Conversation| {
            it.auth_status().is_some_and(|status| status.state == AuthState::Unauthenticated)
        };
        // The login status does not belong to a session, so no log contains it.
        self.wants_login.load(Ordering::Relaxed) || self.connection.conversation(says)
    }

    /// Logs in by a method that the agent offers.
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

    /// Sends a message to the running turn, or starts a turn if there is none.
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

    /// Returns the hub's id of a session, from the agent's id in the log. Sub-agents have the session's id as a
    /// prefix.
    pub(crate) fn wire(&self, session: &str) -> String {
        if self.is_root(session) { self.session.clone() } else { format!("{}:{session}", self.session) }
    }

    /// Returns the id in the log of a session of the connection.
    fn in_log(&self, session: &str) -> String {
        match self.subagent(session) {
            Some(subagent) => subagent.to_owned(),
            None => self.root().unwrap_or_default(),
        }
    }

    /// Returns the agent's id of a sub-agent from its id on the connection.
    fn subagent<'s>(&self, session: &'s str) -> Option<&'s str> {
        session.strip_prefix(&*self.session)?.strip_prefix(':')
    }

    /// Returns `true` if an id on the connection is that of this session or of one of its sub-agents.
    fn is_here(&self, session: &str) -> bool {
        session == self.session || self.subagent(session).is_some()
    }

    /// Returns the id of the session in its log: the last root session there.
    fn root(&self) -> Option<String> {
        self.room.session_ids().into_iter().rev().find(|id| self.is_root(id))
    }

    fn is_root(&self, session: &str) -> bool {
        self.room.look(|it| it.parent(session).is_none())
    }

    /// Forks a session, and returns the hub's id of the copy.
    pub(crate) async fn fork(&self, session: &str) -> Result<String, Failure> {
        let request = ForkSessionRequest::new(self.wire(session), absolute(&self.folder)?);
        let reply = self.agent.fork_session(&request).await.map_err(|error| error.to_string())?;
        Ok(reply.map_err(|error| self.refused(&error))?.session_id.into_owned())
    }

    /// Returns the content of a permission request, with its malformed parts noted.
    pub(crate) fn asked(&self, session: &str, snapshot: &Snapshot, id: &RequestId<'_>) -> Option<Asked> {
        let permission = snapshot.permission(id)?;
        let left_out = self.room.log().left_out(session, id, permission.tool_call_id());
        Some(Asked::permission(snapshot, permission, left_out))
    }

    /// Returns the content of an elicitation request, with its malformed parts noted.
    pub(crate) fn asked_for_data(
        &self,
        id: &RequestId<'_>,
        request: &v2::CreateElicitationRequest<'_>,
    ) -> Asked {
        let known =
            locked(&self.questions).get(&id.encode(WireFormat::Any)).map(|open| open.question.clone());
        let left_out = match &known {
            // The request does not belong to a session, so no log contains it.
            Some(Question::Elicitation(question)) if question.session().is_none() => {
                in_words(question.left_out())
            }
            _ => self.room.log().left_out("", id, None),
        };
        Asked::elicitation(request, left_out)
    }

    /// Records the current content of a question, so that an answer to an earlier content is rejected. Returns `true`
    /// if the question can be answered here.
    pub(crate) fn note_content(&self, id: &str, asked: &Asked) -> bool {
        let mut questions = locked(&self.questions);
        let open = questions.get_mut(id);
        open.map(|open| open.note(&asked.revision())).is_some()
    }

    /// Returns a pending question. Fails if its content is no longer the revision `read`.
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
                // Uses the content in the log, which is the one that was shown.
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

    /// Returns the subject of a permission request, as policies evaluate it.
    pub(crate) fn subject(
        &self,
        session: &str,
        snapshot: &Snapshot,
        permission: &Permission,
    ) -> switchboard_policy::Subject {
        let left_out = self.room.log().left_out(session, permission.id(), permission.tool_call_id());
        let scene = RequestContext {
            root: self.folder.display().to_string(),
            cwd: None,
            agent: Some(self.agent.description().name().to_owned()),
        };
        switchboard_policy::Subject::of_permission(snapshot, permission, left_out.as_deref(), &scene)
    }

    /// Returns the subject and the options of a pending question. Fails if its content is no longer the revision
    /// `read`.
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

    /// Answers a permission request with one of its options. `read` is the revision that the user has read.
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

    /// Answers an elicitation request. `read` is the revision that the user has read.
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

    /// Returns the elicitation requests that do not belong to a session, with their ids on the page.
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

/// Returns the message of an error response of the agent or the hub, with the last lines of an agent that crashed.
pub(crate) fn refused(error: &RpcError<'_>) -> Failure {
    let words = match error.code {
        // A user cancelled the prompt, so the agent is not at fault.
        codes::REQUEST_CANCELLED => format!("not sent: {}", error.message),
        code => format!("the agent refuses: {} ({code})", error.message),
    };
    with_last_lines(words, error)
}

/// Appends the last lines that an agent wrote to stderr before it exited.
fn with_last_lines(words: String, error: &RpcError<'_>) -> String {
    let lines = error.data.as_ref().and_then(|data| data.get("stderr"));
    let lines = lines.iter().flat_map(Raw::items);
    let lines = lines.filter_map(|line| line.as_text().map(std::borrow::Cow::into_owned));
    std::iter::once(words).chain(lines).collect::<Vec<_>>().join("\n")
}

fn absolute(folder: &Path) -> Result<AbsolutePath<'static>, Failure> {
    AbsolutePath::parse(folder.display().to_string()).map_err(|error| error.to_string())
}
