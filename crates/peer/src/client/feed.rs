//! What happens in the sessions of a connection.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, MutexGuard};

use switchboard_protocol::rpc::{Expected, Message, RequestId, RpcError, codes};
use switchboard_protocol::{DecodeError, Diagnostic, Wire, WireFormat, v2};
use switchboard_session::{Changes, Session, Side};
use switchboard_transport::{
    Anomaly, Cancellation, Closure, Event as Incoming, Inbox, IncomingNotification, IncomingRequest,
    Received, SharedText,
};

use tokio::sync::mpsc;

use super::negotiation::Early;
use super::question::{ElicitationQuestion, PermissionQuestion};
use super::state::{Question, Shared, State, now};

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
    session: Arc<str>,
    changes: Changes,
    diagnostics: Vec<Diagnostic>,
    line: SharedText,
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

    /// The update itself, read once more from the message.
    pub fn read(&self) -> Option<v2::SessionUpdate<'_>> {
        match Expected::<v2::UpdateSessionNotification<'_>>::decode_tolerant(&self.line, WireFormat::Any) {
            Ok((Expected::Params(notification), _)) => Some(notification.update),
            Ok((Expected::Other(Message::Notification(other)), _)) => {
                let params = other.params?;
                let text = params.as_source()?;
                let (notification, _) =
                    v2::UpdateSessionNotification::decode_tolerant(text, WireFormat::Any).ok()?;
                Some(notification.update)
            }
            _ => None,
        }
    }
}

/// The sessions of a connection.
#[derive(Clone)]
pub struct Sessions(Arc<Shared>);

impl Sessions {
    /// Looks at a session.
    pub fn get<T>(&self, id: &str, look: impl FnOnce(&Session) -> T) -> Option<T> {
        self.0.state().sessions.get(id).map(|live| look(&live.session))
    }

    /// The ids of all sessions.
    pub fn ids(&self) -> Vec<Arc<str>> {
        self.0.state().sessions.keys().cloned().collect()
    }

    /// Forgets a session, for instance after it was closed.
    pub fn remove(&self, id: &str) {
        let mut state = self.0.state();
        state.recent = None;
        state.sessions.remove(id);
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
    shared: Arc<Shared>,
    /// Open questions, to notice when the agent takes one back.
    open: Vec<(RequestId<'static>, Cancellation)>,
    /// What the agent sent before it had introduced itself, and should not have.
    early: Early,
    /// What an agent behind a translation sends and should not.
    anomalies: Option<mpsc::Receiver<Anomaly>>,
    closed: bool,
}

impl Feed {
    pub(super) fn new(
        inbox: Inbox,
        shared: Arc<Shared>,
        early: Early,
        anomalies: Option<mpsc::Receiver<Anomaly>>,
    ) -> Self {
        Feed { inbox, shared, open: Vec::new(), early, anomalies, closed: false }
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
            Some(Some(Received::Taken(event))) => Some(Some(event)),
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
            "session/update" => {
                let read =
                    v2::UpdateSessionNotification::decode_tolerant(notification.params(), WireFormat::Any);
                Some(match read {
                    Ok((params, diagnostics)) => apply(&mut self.shared.state(), &params, diagnostics, line),
                    Err(reason) => Event::Malformed { line, reason },
                })
            }
            "elicitation/complete" => {
                let read = v2::CompleteElicitationNotification::decode_tolerant(
                    notification.params(),
                    WireFormat::Any,
                );
                let params = match read {
                    Ok((params, _)) => params,
                    Err(reason) => return Some(Event::Malformed { line, reason }),
                };
                let mut state = self.shared.state();
                let keys: Vec<Arc<str>> = state.sessions.keys().cloned().collect();
                for key in keys {
                    if let Some(live) = state.sessions.get_mut(&key) {
                        let changes = live.session.complete_elicitation(&params.elicitation_id);
                        state.note(&key, changes);
                    }
                }
                None
            }
            _ => None,
        }
    }

    fn take_request(&mut self, request: IncomingRequest) -> Option<Event> {
        let id = request.id().clone();
        self.open.retain(|(open, _)| self.shared.state().questions.contains_key(open));
        let outcome = match request.method() {
            "session/request_permission" => self.open_permission(&request),
            "elicitation/create" => self.open_elicitation(&request),
            _ => {
                tokio::spawn(request.method_not_found());
                return None;
            }
        };
        match outcome {
            Ok((event, session, is_permission)) => {
                self.open.push((id.clone(), request.cancellation()));
                let question = Question { session, request, is_permission };
                self.shared.state().questions.insert(id, question);
                Some(event)
            }
            Err(Refused::Malformed(reason)) => {
                let line = request.line().clone();
                let error = RpcError::new(codes::INVALID_PARAMS, reason.to_string());
                tokio::spawn(async move { request.fail(&error).await });
                Some(Event::Malformed { line, reason })
            }
            Err(Refused::TooManySessions) => {
                let error = RpcError::new(codes::INVALID_PARAMS, "there are too many sessions");
                tokio::spawn(async move { request.fail(&error).await });
                Some(Event::TooManySessions)
            }
        }
    }

    fn open_permission(&self, request: &IncomingRequest) -> Opened {
        let (asked, _) = v2::RequestPermissionRequest::decode_tolerant(request.params(), WireFormat::Any)?;
        let mut state = self.shared.state();
        let (session, live) = state.live(&asked.session_id).ok_or(Refused::TooManySessions)?;
        let changes = live.session.open_permission(request.id(), &asked, now());
        state.note(&session, changes);
        let question = PermissionQuestion {
            shared: Arc::clone(&self.shared),
            session: Arc::clone(&session),
            id: request.id().clone(),
            request: Arc::new(asked.into_owned()),
        };
        Ok((Event::Permission(question), Some(session), true))
    }

    fn open_elicitation(&self, request: &IncomingRequest) -> Opened {
        let (asked, _) = v2::CreateElicitationRequest::decode_tolerant(request.params(), WireFormat::Any)?;
        let named = match &asked {
            v2::CreateElicitationRequest::Form(form) => form.session_id.clone(),
            v2::CreateElicitationRequest::Url(url) => url.session_id.clone(),
            v2::CreateElicitationRequest::Unknown(unknown) => unknown.text("sessionId"),
        };
        let mut state = self.shared.state();
        let session = match named {
            Some(named) => {
                let (session, live) = state.live(&named).ok_or(Refused::TooManySessions)?;
                let changes = live.session.open_elicitation(request.id(), &asked, now());
                state.note(&session, changes);
                Some(session)
            }
            None => None,
        };
        let question = ElicitationQuestion {
            shared: Arc::clone(&self.shared),
            session: session.clone(),
            id: request.id().clone(),
            request: Arc::new(asked.into_owned()),
        };
        Ok((Event::Elicitation(question), session, false))
    }

    /// After a message that was no event: it may have taken a question back.
    fn look_for_withdrawn(&mut self) -> Option<Event> {
        let place = self.open.iter().position(|(_, cancellation)| cancellation.is_cancelled())?;
        let (id, _) = self.open.swap_remove(place);
        // One that was answered in the meantime is settled.
        self.shared.settle_cancelled(&id, Side::Agent).ok()?;
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

type Opened = Result<(Event, Option<Arc<str>>, bool), Refused>;

enum Refused {
    Malformed(DecodeError),
    TooManySessions,
}

impl From<DecodeError> for Refused {
    fn from(reason: DecodeError) -> Self {
        Refused::Malformed(reason)
    }
}

/// Takes an update before its envelope is read twice; lets answers pass and takes note of them.
fn take(shared: &Shared, line: &SharedText) -> Option<Event> {
    let (message, diagnostics) =
        Expected::<v2::UpdateSessionNotification<'_>>::decode_tolerant(line, WireFormat::Any).ok()?;
    let mut state = shared.state();
    match message {
        Expected::Params(params) => Some(apply(&mut state, &params, diagnostics, line.clone())),
        Expected::Other(Message::Response(answer)) => {
            state.see_answer(line, &answer);
            None
        }
        Expected::Other(_) => None,
    }
}

fn apply(
    state: &mut MutexGuard<'_, State>,
    params: &v2::UpdateSessionNotification<'_>,
    diagnostics: Vec<Diagnostic>,
    line: SharedText,
) -> Event {
    match state.apply(&params.session_id, &params.update) {
        Some((session, changes)) => Event::Update(Update { session, changes, diagnostics, line }),
        None => Event::TooManySessions,
    }
}
