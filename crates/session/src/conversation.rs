//! The messages of a connection, sorted into sessions.

use std::collections::HashMap;
use std::sync::Arc;

use switchboard_protocol::rpc::{
    CancelRequestNotification, Expected, Message, Notification, Request, RequestId, Response,
};
use switchboard_protocol::{DecodeError, Moment, Raw, Side, Wire, WireFormat, v2};

use crate::change::Changes;
use crate::error::SessionError;
use crate::session::Session;

/// The sessions that the messages of one connection amount to, in the order in which they first appear.
///
/// It takes what either side sends, so it can stand between the two or read a recording. Messages that have
/// nothing to do with a session are passed over. A copy shares what the two have in common, and is cheap.
///
/// ```
/// use switchboard_protocol::WireFormat;
/// use switchboard_session::{Conversation, Moment, Side};
///
/// let mut conversation = Conversation::new(WireFormat::Any);
/// let line = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":
///     {"sessionUpdate":"session_info_update","title":"Fix the build"}}}"#;
/// conversation.read(line, Some(Side::Agent), Moment(0))?;
/// assert_eq!(conversation.session(Some("s-1")).unwrap().title(), Some("Fix the build"));
/// # Ok::<(), switchboard_session::ConversationError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Conversation {
    dialect: WireFormat,
    sessions: Vec<(Option<Arc<str>>, Session)>,
    places: HashMap<Option<Arc<str>>, usize>,
    /// Requests without an answer yet. Each side counts its own.
    calls: HashMap<(Side, RequestId<'static>), Call>,
    /// Whether the agent has shown that it speaks the newest dialect.
    newest_seen: bool,
}

#[derive(Debug, Clone)]
enum Call {
    New,
    Resume { session: usize, replays: bool },
    SetConfigOption { session: usize },
    Prompt { session: usize },
    Permission { session: usize },
    Elicitation { session: usize },
}

/// What a message did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The place of the session among [`Conversation::sessions`].
    pub session: usize,
    /// What changed there.
    pub changes: Changes,
}

/// Why a message that concerns a session changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// It is not what it should be.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// It asks for something that the session refuses.
    #[error(transparent)]
    Refused(#[from] SessionError),
}

type Outcome = Result<Option<Step>, ConversationError>;

impl Conversation {
    /// A connection on which nothing has been said, whose messages are read strictly in a dialect.
    pub fn new(dialect: WireFormat) -> Self {
        Conversation {
            dialect,
            sessions: Vec::new(),
            places: HashMap::new(),
            calls: HashMap::new(),
            newest_seen: false,
        }
    }

    /// All sessions with their ids. Updates that came without an id have a session of their own, without one.
    pub fn sessions(&self) -> impl Iterator<Item = (Option<&str>, &Session)> {
        self.sessions.iter().map(|(id, session)| (id.as_deref(), session))
    }

    /// The session with an id.
    pub fn session(&self, id: Option<&str>) -> Option<&Session> {
        let place = *self.places.get(&id.map(Arc::from))?;
        self.sessions.get(place).map(|(_, session)| session)
    }

    /// The place of a session, which is made if need be.
    fn place(&mut self, id: Option<&str>) -> usize {
        if let Some((last, (known, _))) = self.sessions.iter().enumerate().next_back()
            && known.as_deref() == id
        {
            return last;
        }
        let id: Option<Arc<str>> = id.map(Arc::from);
        if let Some(&place) = self.places.get(&id) {
            return place;
        }
        let place = self.sessions.len();
        self.sessions.push((id.clone(), Session::new(self.dialect)));
        self.places.insert(id, place);
        place
    }

    fn step(&mut self, session: usize, apply: impl FnOnce(&mut Session) -> Changes) -> Step {
        let changes = self.sessions.get_mut(session).map(|(_, session)| apply(session));
        Step { session, changes: changes.unwrap_or_default() }
    }

    fn try_step(
        &mut self,
        session: usize,
        apply: impl FnOnce(&mut Session) -> Result<Changes, SessionError>,
    ) -> Outcome {
        let changes = self.sessions.get_mut(session).map(|(_, session)| apply(session)).transpose()?;
        Ok(changes.map(|changes| Step { session, changes }))
    }

    /// Reads one message. `from` is who sent it, where that is known; else it is guessed from what it says.
    pub fn read(&mut self, text: &str, from: Option<Side>, at: Moment) -> Outcome {
        match Expected::<v2::UpdateSessionNotification<'_>>::decode(text, self.dialect)? {
            Expected::Params(notification) => {
                Ok(Some(self.apply_update(Some(&notification.session_id), &notification.update)))
            }
            Expected::Other(message) => self.apply_message(&message, from, at),
        }
    }

    /// Applies an update.
    pub fn apply_update(&mut self, session_id: Option<&str>, update: &v2::SessionUpdate<'_>) -> Step {
        use v2::SessionUpdate as Update;
        self.newest_seen |= matches!(
            update,
            Update::TerminalUpdate(_)
                | Update::TerminalOutputChunk(_)
                | Update::Notice(_)
                | Update::CompactionUpdate(_)
                | Update::CompactionSummaryChunk(_)
        );
        let place = self.place(session_id);
        self.step(place, |session| session.apply(update))
    }

    /// Applies any message.
    pub fn apply_message(&mut self, message: &Message<'_>, from: Option<Side>, at: Moment) -> Outcome {
        match message {
            Message::Notification(notification) => self.notification(notification, from, at),
            Message::Request(request) => self.request(request, at),
            Message::Response(response) => self.response(response, from, at),
        }
    }

    fn notification(&mut self, message: &Notification<'_>, from: Option<Side>, at: Moment) -> Outcome {
        match &*message.method {
            "session/update" => {
                let params = v2::UpdateSessionNotification::decode(message.params_text(), self.dialect)?;
                Ok(Some(self.apply_update(Some(&params.session_id), &params.update)))
            }
            "session/cancel" => {
                let params = v2::CancelSessionNotification::decode(message.params_text(), self.dialect)?;
                let place = self.place(Some(&params.session_id));
                Ok(Some(self.step(place, |session| session.cancel_requests(Side::Client, at))))
            }
            "elicitation/complete" => {
                let params =
                    v2::CompleteElicitationNotification::decode(message.params_text(), self.dialect)?;
                let steps = (0..self.sessions.len()).map(|place| {
                    self.step(place, |session| session.complete_elicitation(&params.elicitation_id))
                });
                Ok(steps.filter(|step| !step.changes.is_empty()).last())
            }
            "$/cancel_request" if from != Some(Side::Client) => {
                let params = CancelRequestNotification::decode(message.params_text(), self.dialect)?;
                let key = (Side::Agent, params.request_id.clone().into_owned());
                // The client's answer to it still comes, and then finds the question settled.
                match self.calls.get(&key).cloned() {
                    Some(Call::Permission { session }) => drop_late(self.try_step(session, |session| {
                        session.cancel_permission(&params.request_id, Side::Agent, at)
                    })),
                    Some(Call::Elicitation { session }) => drop_late(self.try_step(session, |session| {
                        session.cancel_elicitation(&params.request_id, Side::Agent, at)
                    })),
                    _ => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    fn request(&mut self, message: &Request<'_>, at: Moment) -> Outcome {
        let (id, text) = (&message.id, message.params_text());
        let call = |conversation: &mut Self, side, call| {
            conversation.calls.insert((side, id.clone().into_owned()), call);
        };
        match &*message.method {
            "session/request_permission" => {
                let request = v2::RequestPermissionRequest::decode(text, self.dialect)?;
                let session = self.place(Some(&request.session_id));
                call(self, Side::Agent, Call::Permission { session });
                Ok(Some(self.step(session, |session| session.open_permission(id, &request, at))))
            }
            "elicitation/create" => {
                let request = v2::CreateElicitationRequest::decode(text, self.dialect)?;
                let Some(session) = self.elicitation_scope(&request) else { return Ok(None) };
                call(self, Side::Agent, Call::Elicitation { session });
                Ok(Some(self.step(session, |session| session.open_elicitation(id, &request, at))))
            }
            "session/new" => {
                call(self, Side::Client, Call::New);
                Ok(None)
            }
            // What the client asks is no update: where it cannot be read, the agent will say so.
            "session/resume" => {
                let Ok(request) = v2::ResumeSessionRequest::decode(text, self.dialect) else {
                    return Ok(None);
                };
                let session = self.place(Some(&request.session_id));
                let replays = request.replay_from.is_some();
                call(self, Side::Client, Call::Resume { session, replays });
                Ok(Some(self.step(session, |session| {
                    if replays {
                        session.begin_replay();
                    }
                    Changes::default()
                })))
            }
            "session/set_config_option" | "session/prompt" => {
                let Some(session_id) = session_of(message.params.as_ref()) else { return Ok(None) };
                let session = self.place(Some(&session_id));
                let made = match &*message.method {
                    "session/prompt" => Call::Prompt { session },
                    _ => Call::SetConfigOption { session },
                };
                call(self, Side::Client, made);
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// The session that a request for data belongs to: its own, or that of the client's request it is about.
    fn elicitation_scope(&mut self, request: &v2::CreateElicitationRequest<'_>) -> Option<usize> {
        let (session_id, about) = match request {
            v2::CreateElicitationRequest::Form(form) => (form.session_id.clone(), form.request_id.clone()),
            v2::CreateElicitationRequest::Url(url) => (url.session_id.clone(), url.request_id.clone()),
            v2::CreateElicitationRequest::Unknown(unknown) => (unknown.text("sessionId"), None),
        };
        if let Some(session_id) = session_id {
            return Some(self.place(Some(&session_id)));
        }
        match self.calls.get(&(Side::Client, about?.into_owned()))? {
            Call::Resume { session, .. } | Call::SetConfigOption { session } | Call::Prompt { session } => {
                Some(*session)
            }
            Call::New | Call::Permission { .. } | Call::Elicitation { .. } => None,
        }
    }

    fn response(&mut self, message: &Response<'_>, from: Option<Side>, at: Moment) -> Outcome {
        let asker = match from {
            Some(Side::Client) => Side::Agent,
            Some(Side::Agent) => Side::Client,
            None => {
                // Ids of both sides overlap, but only answers to the agent have these keys.
                let to_agent =
                    |result: &Raw<'_>| result.get("outcome").is_some() || result.get("action").is_some();
                if message.outcome.as_ref().is_ok_and(to_agent) { Side::Agent } else { Side::Client }
            }
        };
        let Some(call) = self.calls.remove(&(asker, message.id.clone().into_owned())) else {
            return Ok(None);
        };
        match &message.outcome {
            Ok(result) => self.result(&call, &message.id, result, at),
            Err(_) => {
                match call {
                    Call::Permission { session } => drop_late(self.try_step(session, |session| {
                        session.cancel_permission(&message.id, Side::Client, at)
                    })),
                    Call::Elicitation { session } => drop_late(self.try_step(session, |session| {
                        session.cancel_elicitation(&message.id, Side::Client, at)
                    })),
                    Call::Resume { session, replays: true } => Ok(Some(self.step(session, |session| {
                        session.abandon_replay();
                        Changes::default()
                    }))),
                    Call::New | Call::Resume { .. } | Call::SetConfigOption { .. } | Call::Prompt { .. } => {
                        Ok(None)
                    }
                }
            }
        }
    }

    fn result(&mut self, call: &Call, id: &RequestId<'_>, result: &Raw<'_>, at: Moment) -> Outcome {
        let text = result.as_str();
        match *call {
            Call::Permission { session } => {
                let response = v2::RequestPermissionResponse::decode(text, self.dialect)?;
                drop_late(self.try_step(session, |session| {
                    session.settle_permission(id, &response.outcome, Side::Client.as_str(), at)
                }))
            }
            Call::Elicitation { session } => {
                let response = v2::CreateElicitationResponse::decode(text, self.dialect)?;
                drop_late(self.try_step(session, |session| {
                    session.answer_elicitation(id, &response, Side::Client.as_str(), at)
                }))
            }
            // The rest is no update: where it cannot be read, it tells nothing.
            Call::New => {
                let Ok((response, _)) = v2::NewSessionResponse::decode_tolerant(text, self.dialect) else {
                    return Ok(None);
                };
                let (options, commands) = (response.config_options, response.available_commands);
                let session = self.place(Some(&response.session_id));
                Ok(Some(
                    self.step(session, |session| {
                        session.apply_lists(options.as_deref(), commands.as_deref())
                    }),
                ))
            }
            Call::Resume { session, replays } => {
                let response = v2::ResumeSessionResponse::decode_tolerant(text, self.dialect);
                let lists = response.ok().map(|(it, _)| (it.config_options, it.available_commands));
                let (options, commands) = lists.unwrap_or_default();
                let ended = replays.then(|| self.step(session, Session::end_replay));
                let listed = self
                    .step(session, |session| session.apply_lists(options.as_deref(), commands.as_deref()));
                Ok(match ended {
                    Some(mut ended) => {
                        ended.changes.extend(listed.changes);
                        Some(ended)
                    }
                    None => Some(listed),
                })
            }
            Call::SetConfigOption { session } => {
                let response = v2::SetSessionConfigOptionResponse::decode_tolerant(text, self.dialect);
                let Ok((response, _)) = response else { return Ok(None) };
                Ok(Some(
                    self.step(session, |session| session.apply_lists(Some(&response.config_options), None)),
                ))
            }
            Call::Prompt { session } => {
                self.newest_seen |= result.get("messageId").is_some();
                // The `spec` dialect answers `{}`; version 1 answers with a stop reason.
                let is_spec = result.is_object() && result.get("stopReason").is_none();
                if self.dialect == WireFormat::Any && is_spec && !self.newest_seen {
                    self.step(session, |session| {
                        session.peer_replaces_meta();
                        Changes::default()
                    });
                }
                Ok(None)
            }
        }
    }
}

/// An answer to a question that is settled already has come late, which is nobody's fault.
fn drop_late(outcome: Outcome) -> Outcome {
    match outcome {
        Err(ConversationError::Refused(SessionError::AlreadySettled { .. })) => Ok(None),
        outcome => outcome,
    }
}

fn session_of(params: Option<&Raw<'_>>) -> Option<String> {
    Some(params?.get("sessionId")?.as_text()?.into_owned())
}
