//! Events of the sessions of a connection.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use switchboard_acp::rpc::{Expected, Message, RequestId, RpcError, codes};
use switchboard_acp::{DecodeError, Diagnostic, Moment, Wire, WireFormat, v2};
use switchboard_session::{
    AgentQuestion, Changes, Conversation, ConversationError, Decider, Decoded, Session, Side,
};
use switchboard_transport::{
    Anomaly, Closure, Event as Incoming, Inbox, IncomingNotification, IncomingRequest, Received, SharedText,
};

use tokio::sync::mpsc;

use super::negotiation::EarlyAnomalies;
use super::question::{ElicitationQuestion, PermissionQuestion};
use super::state::{ClientInner, OpenQuestion};

/// An event, already applied to its session.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// An update of the agent.
    Update(Update),
    /// A change without an update: by a response of the agent, or by an answer of the client.
    Changed {
        /// The session.
        session: Arc<str>,
        /// The changes.
        changes: Changes,
    },
    /// The agent asks for a permission.
    Permission(PermissionQuestion),
    /// The agent asks for data.
    Elicitation(ElicitationQuestion),
    /// The agent cancelled a question, which is thereby answered.
    Withdrawn {
        /// The id of the request.
        id: RequestId<'static>,
    },
    /// The agent reported the login status, see [`Conversation::auth_status`]. **Unstable.**
    AuthStatus,
    /// An unreadable message about a session; dropped, and refused if it is a request.
    Malformed {
        /// The message.
        line: SharedText,
        /// The decoding error.
        reason: DecodeError,
    },
    /// The limit of sessions is reached; the update was dropped.
    TooManySessions,
    /// A protocol error: worth a line in a log.
    Anomaly(Anomaly),
    /// The last event: the agent has disconnected.
    Closed(Arc<Closure>),
}

/// An applied update.
#[derive(Debug, Clone)]
pub struct Update {
    pub(super) session: Arc<str>,
    pub(super) changes: Changes,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) line: SharedText,
}

impl Update {
    /// Returns its session.
    pub fn session(&self) -> &Arc<str> {
        &self.session
    }

    /// Returns its changes.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Returns the malformed parts that were left out.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Returns the original message.
    pub fn line(&self) -> &SharedText {
        &self.line
    }

    /// Decodes the parameters of the message again: the update, its session and metadata.
    pub fn read(&self) -> Option<v2::UpdateSessionNotification<'_>> {
        match Expected::<v2::UpdateSessionNotification<'_>>::decode_tolerant(&self.line, WireFormat::Any) {
            Ok((Expected::Params(notification), _)) => Some(notification),
            Ok((Expected::Other(Message::Notification(other)), _)) => {
                let params = other.params?;
                let text = params.as_source()?;
                let (notification, _) =
                    v2::UpdateSessionNotification::decode_tolerant(text, WireFormat::Any).ok()?;
                Some(notification)
            }
            _ => None,
        }
    }
}

/// The sessions of a connection.
#[derive(Clone)]
pub struct Sessions(Arc<ClientInner>);

impl Sessions {
    /// Calls a function with a session.
    pub fn get<T>(&self, id: &str, look: impl FnOnce(&Session) -> T) -> Option<T> {
        self.0.state().conversation.session(Some(id)).map(look)
    }

    /// Returns the ids of all sessions.
    pub fn ids(&self) -> Vec<Arc<str>> {
        self.0.state().conversation.sessions().filter_map(|(id, _)| id.map(Arc::from)).collect()
    }

    /// Removes a session, for example after it was closed.
    pub fn remove(&self, id: &str) {
        self.0.state().conversation.remove(Some(id));
    }

    /// Calls a function with the whole conversation: sessions, prompts, questions.
    pub fn conversation<T>(&self, look: impl FnOnce(&Conversation) -> T) -> T {
        look(&self.0.state().conversation)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Sessions").field(&self.ids()).finish()
    }
}

/// Returns events in order and holds the sessions.
///
/// There is no queue between this and the agent: messages are only read while an event is awaited, so a slow
/// consumer slows down the agent (backpressure). For the same reason the feed must always be driven.
#[derive(Debug)]
pub struct Feed {
    inbox: Inbox,
    shared: Arc<ClientInner>,
    /// Protocol errors of the agent before its handshake.
    early: EarlyAnomalies,
    /// Protocol errors of a translated agent.
    anomalies: Option<mpsc::Receiver<Anomaly>>,
    closed: bool,
}

impl Feed {
    pub(super) fn new(
        inbox: Inbox,
        shared: Arc<ClientInner>,
        early: EarlyAnomalies,
        anomalies: Option<mpsc::Receiver<Anomaly>>,
    ) -> Self {
        Feed { inbox, shared, early, anomalies, closed: false }
    }

    /// Returns the sessions.
    pub fn sessions(&self) -> Sessions {
        Sessions(Arc::clone(&self.shared))
    }

    /// Returns the next event; `None` after [`Event::Closed`]. Cancel safe.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.step().await? {
                return Some(event);
            }
        }
    }

    /// Drives the connection until a future completes, such as a response of the agent. Events are passed to
    /// `handle`, which may access the sessions. After the connection is closed, only the future is awaited.
    pub async fn until<T>(&mut self, future: impl Future<Output = T>, mut handle: impl FnMut(Event)) -> T {
        tokio::pin!(future);
        loop {
            tokio::select! {
                biased;
                output = &mut future => return output,
                step = self.step() => match step {
                    Some(Some(event)) => handle(event),
                    Some(None) => {}
                    None => return future.await,
                },
            }
        }
    }

    /// Handles one message; `Some(None)` if it was not an event.
    async fn step(&mut self) -> Option<Option<Event>> {
        if let Some(anomaly) = self.early.0.pop_front() {
            return Some(Some(Event::Anomaly(anomaly)));
        }
        if let Some(event) = self.shared.pop() {
            return Some(Some(event));
        }
        if self.closed {
            return None;
        }
        let shared = &self.shared;
        let received = tokio::select! {
            biased;
            // First: it arrived before later translated messages.
            Some(anomaly) = next_anomaly(&mut self.anomalies) => {
                return Some(Some(Event::Anomaly(anomaly)));
            }
            received = self.inbox.frame_or(|line| take(shared, line)) => received,
            // Last: queued events are checked before every message anyway.
            () = shared.wake.notified() => return Some(None),
        };
        match received {
            Some(Some(Received::Taken(event))) => Some(event),
            Some(Some(Received::Event(event))) => Some(self.take_event(event)),
            Some(None) => Some(self.look_for_withdrawn()),
            None => None,
        }
    }

    fn take_event(&mut self, event: Incoming) -> Option<Event> {
        match event {
            Incoming::Request(request) => self.take_request(request),
            Incoming::Notification(notification) => self.take_notification(&notification),
            Incoming::Anomaly(anomaly) => Some(Event::Anomaly(anomaly)),
            Incoming::Closed(closure) => {
                self.closed = true;
                self.shared.close(Some(Arc::clone(&closure)));
                Some(Event::Closed(closure))
            }
        }
    }

    /// Handles updates with an unusual envelope, and other notifications.
    fn take_notification(&mut self, notification: &IncomingNotification) -> Option<Event> {
        let line = notification.line().clone();
        match notification.method() {
            "session/update" | "elicitation/complete" => {
                let mut state = self.shared.state();
                match state.conversation.decode(&line) {
                    Ok(decoded) if notification.method() == "session/update" => {
                        state.take_update(decoded, line.clone())
                    }
                    Ok(decoded) => {
                        state.see_answer(decoded);
                        None
                    }
                    Err(reason) => {
                        state.note_unreadable(&line, &reason);
                        Some(Event::Malformed { line: line.clone(), reason })
                    }
                }
            }
            "auth/status_update" | "_auth/status_update" => {
                let mut state = self.shared.state();
                match state.conversation.read(&line, Some(Side::Agent), Moment::now()) {
                    Ok(_) => Some(Event::AuthStatus),
                    Err(refusal) => Some(Event::of_refusal(refusal, line.clone())),
                }
            }
            _ => None,
        }
    }

    fn take_request(&mut self, request: IncomingRequest) -> Option<Event> {
        let read = self.shared.state().conversation.decode_question(request.method(), request.params());
        let Some(read) = read else {
            tokio::spawn(request.method_not_found());
            return None;
        };
        let asked = read
            .map_err(ConversationError::from)
            .and_then(|(question, left_out)| self.open_question(request.id(), question, left_out.into()));
        match asked {
            Ok((event, session)) => {
                let id = request.id().clone();
                let is_permission = matches!(event, Event::Permission(_));
                let question = OpenQuestion { session, request, is_permission };
                // The connection limits the number of pending questions.
                drop(self.shared.state().questions.open_or_evict(Side::Agent, &id, question));
                Some(event)
            }
            Err(refusal) => {
                let line = request.line().clone();
                let error = RpcError::new(codes::INVALID_PARAMS, refusal.to_string());
                tokio::spawn(async move { request.fail(&error).await });
                Some(Event::of_refusal(refusal, line))
            }
        }
    }

    fn open_question(
        &self,
        id: &RequestId<'static>,
        question: AgentQuestion<'_>,
        left_out: Arc<[Diagnostic]>,
    ) -> Result<(Event, Option<Arc<str>>), ConversationError> {
        let (shared, id) = (Arc::clone(&self.shared), id.clone());
        let mut state = self.shared.state();
        let step = state.conversation.ask(&id, &question, Moment::now())?.step;
        let session = step.as_ref().and_then(|step| state.conversation.id_at(step.session).cloned());
        step.into_iter().for_each(|step| state.note(step));
        let event = match question {
            AgentQuestion::Permission(request) => Event::Permission(PermissionQuestion {
                shared,
                session: session.clone().unwrap_or_default(),
                id,
                request: Arc::new(request.into_owned()),
                left_out,
            }),
            AgentQuestion::Elicitation(request) => Event::Elicitation(ElicitationQuestion {
                shared,
                session: session.clone(),
                id,
                request: Arc::new(request.into_owned()),
                left_out,
            }),
        };
        Ok((event, session))
    }

    /// Checks whether a message without an event has cancelled a question.
    fn look_for_withdrawn(&mut self) -> Option<Event> {
        let state = self.shared.state();
        let mut open = state.questions.iter();
        let id = open.find_map(|(_, id, question)| question.request.is_cancelled().then(|| id.clone()))?;
        drop(open);
        drop(state);
        self.shared.settle_cancelled(&id, Decider::Agent).ok()?;
        Some(Event::Withdrawn { id })
    }
}

/// Returns the next protocol error of a translated agent; `None` if there is none.
async fn next_anomaly(anomalies: &mut Option<mpsc::Receiver<Anomaly>>) -> Option<Anomaly> {
    match anomalies {
        Some(anomalies) => anomalies.recv().await,
        None => None,
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.shared.close(None);
    }
}

impl Event {
    /// Returns the event for a message that changed nothing.
    pub(super) fn of_refusal(refusal: ConversationError, line: SharedText) -> Self {
        match refusal {
            ConversationError::Malformed(reason) => Event::Malformed { line, reason },
            // The other errors concern batches, which the connection splits, and responses, which are not
            // refused.
            _ => Event::TooManySessions,
        }
    }
}

/// Applies an update without decoding its envelope twice, which may yield no event. Responses are tracked and
/// pass.
fn take(shared: &ClientInner, line: &SharedText) -> Option<Option<Event>> {
    let (message, left_out) = Expected::decode_tolerant(line, WireFormat::Any).ok()?;
    match message {
        Expected::Params(_) => Some(shared.state().take_update(Decoded { message, left_out }, line.clone())),
        Expected::Other(Message::Response(_)) => {
            shared.state().see_answer(Decoded { message, left_out });
            None
        }
        Expected::Other(_) => None,
    }
}
