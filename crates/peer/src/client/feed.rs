//! What happens in the sessions of a connection.

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

use super::negotiation::Early;
use super::question::{ElicitationQuestion, PermissionQuestion};
use super::state::{ClientInner, OpenQuestion};

/// Something that happened, already part of its session.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The agent sent an update.
    Update(Update),
    /// A session changed without an update: by an answer of the agent, or of somebody here.
    Changed {
        /// The session.
        session: Arc<str>,
        /// What changed.
        changes: Changes,
    },
    /// The agent asks for a permission.
    Permission(PermissionQuestion),
    /// The agent asks for data.
    Elicitation(ElicitationQuestion),
    /// The agent took a question back, which is answered thereby.
    Withdrawn {
        /// The request that asked it.
        id: RequestId<'static>,
    },
    /// The agent told whether somebody is logged in: [`Conversation::auth_status`] has it. **Unstable.**
    AuthStatus,
    /// A message about a session that cannot be read; dropped, and refused where it wants an answer.
    Malformed {
        /// The message.
        line: SharedText,
        /// What is wrong with it.
        reason: DecodeError,
    },
    /// The agent talks of more sessions than there may be; the update was dropped.
    TooManySessions,
    /// Something that should not have come: worth a line in a log.
    Anomaly(Anomaly),
    /// The last event: the agent is gone.
    Closed(Arc<Closure>),
}

/// An update that has been applied.
#[derive(Debug, Clone)]
pub struct Update {
    pub(super) session: Arc<str>,
    pub(super) changes: Changes,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) line: SharedText,
}

impl Update {
    /// The session that it is for.
    pub fn session(&self) -> &Arc<str> {
        &self.session
    }

    /// What it changed there.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// What was malformed in it and left out.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The whole message, as it came.
    pub fn line(&self) -> &SharedText {
        &self.line
    }

    /// The parameters of the message, read once more from it: the update, its session and metadata.
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
    /// Looks at a session.
    pub fn get<T>(&self, id: &str, look: impl FnOnce(&Session) -> T) -> Option<T> {
        self.0.state().conversation.session(Some(id)).map(look)
    }

    /// The ids of all sessions.
    pub fn ids(&self) -> Vec<Arc<str>> {
        self.0.state().conversation.sessions().filter_map(|(id, _)| id.map(Arc::from)).collect()
    }

    /// Forgets a session, for instance after it was closed.
    pub fn remove(&self, id: &str) {
        self.0.state().conversation.remove(Some(id));
    }

    /// Looks at everything that is known: sessions, prompts, questions.
    pub fn conversation<T>(&self, look: impl FnOnce(&Conversation) -> T) -> T {
        look(&self.0.state().conversation)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Sessions").field(&self.ids()).finish()
    }
}

/// Hands out what happens, in order, and holds the sessions.
///
/// There is no queue between this and the agent: what nobody asks for is not read, so a slow consumer slows the
/// agent. For the same reason somebody must always ask.
#[derive(Debug)]
pub struct Feed {
    inbox: Inbox,
    shared: Arc<ClientInner>,
    /// What the agent sent before it had introduced itself, and should not have.
    early: Early,
    /// What an agent behind a translation sends and should not.
    anomalies: Option<mpsc::Receiver<Anomaly>>,
    closed: bool,
}

impl Feed {
    pub(super) fn new(
        inbox: Inbox,
        shared: Arc<ClientInner>,
        early: Early,
        anomalies: Option<mpsc::Receiver<Anomaly>>,
    ) -> Self {
        Feed { inbox, shared, early, anomalies, closed: false }
    }

    /// The sessions.
    pub fn sessions(&self) -> Sessions {
        Sessions(Arc::clone(&self.shared))
    }

    /// The next event; `None` after [`Event::Closed`]. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.step().await? {
                return Some(event);
            }
        }
    }

    /// Drives the connection until a future of one's own is done, such as an answer of the agent; events go to
    /// `handle`, which may look at the sessions. Once the connection is closed the future is awaited alone.
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

    /// Takes one message; `Some(None)` when it was no event.
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
            // First: it came before what has come through the translation since.
            Some(anomaly) = next_anomaly(&mut self.anomalies) => {
                return Some(Some(Event::Anomaly(anomaly)));
            }
            received = self.inbox.frame_or(|line| take(shared, line)) => received,
            // Asked last: what it would tell is looked for before every message anyway.
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

    /// Updates whose envelope is unusual, and the rest.
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
                // The connection takes no more questions than there is room for here.
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

    /// After a message that was no event: it may have taken a question back.
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

/// The next anomaly of an agent behind a translation; `None` when there is none or no more.
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
    /// A message that changed nothing.
    pub(super) fn of_refusal(refusal: ConversationError, line: SharedText) -> Self {
        match refusal {
            ConversationError::Malformed(reason) => Event::Malformed { line, reason },
            // The rest concerns batches, which the connection takes apart, and answers, which are not refused.
            _ => Event::TooManySessions,
        }
    }
}

/// Takes an update before its envelope is read twice, which may be no event; lets answers pass and takes note of them.
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
