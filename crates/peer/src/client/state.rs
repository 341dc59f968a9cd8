//! Shared state of a client's halves: the conversation and its waiters.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use switchboard_acp::rpc::{Message, RequestId};
use switchboard_acp::{Correlator, DecodeError, Raw, Side, WireFormat};
use switchboard_session::{Changes, Conversation, Decider, Decoded, Moment, SessionError, Step, TurnOutcome};
use switchboard_transport::{Caller, Closure, ClosureCause, IncomingRequest, Json, SharedText};
use tokio::sync::{Notify, watch};

use super::feed::{Event, Update};
use super::turn::{Progress, PromptEnd};
use crate::translation::Disconnected;
use crate::{ClientOptions, Error};

/// Maximum number of pending questions; the connection itself has a limit, too.
const MAX_QUESTIONS: usize = 10_000;

#[derive(Debug)]
pub(crate) struct ClientInner {
    pub(crate) caller: Caller,
    state: Mutex<ClientState>,
    /// The reason why a translated agent has disconnected.
    gone: Option<Disconnected>,
    /// Signals events that did not arrive as a message of the agent.
    pub(crate) wake: Notify,
    /// True if such events may exist, to avoid locking the state.
    has_events: Arc<AtomicBool>,
}

#[derive(Debug)]
pub(crate) struct ClientState {
    /// The folded sessions, prompts and questions.
    pub(crate) conversation: Conversation,
    folds_updates: bool,
    events: VecDeque<Event>,
    /// Set with every event.
    has_events: Arc<AtomicBool>,
    /// Pending questions with the means to answer them.
    pub(crate) questions: Correlator<OpenQuestion>,
    /// Waiters for the end of a prompt, with its session.
    waiting: HashMap<RequestId<'static>, (Arc<str>, watch::Sender<Progress>)>,
    /// Set when the connection is closed.
    closed: Option<Arc<Closure>>,
}

/// A pending question of the agent.
#[derive(Debug)]
pub(crate) struct OpenQuestion {
    pub(crate) session: Option<Arc<str>>,
    pub(crate) request: IncomingRequest,
    pub(crate) is_permission: bool,
}

impl ClientInner {
    pub(crate) fn new(caller: Caller, options: &ClientOptions, gone: Option<Disconnected>) -> Self {
        let has_events = Arc::new(AtomicBool::new(false));
        ClientInner {
            caller,
            gone,
            state: Mutex::new(ClientState {
                conversation: Conversation::new(WireFormat::Any).with_session_limit(options.session_limit),
                folds_updates: options.folds_updates,
                events: VecDeque::new(),
                has_events: Arc::clone(&has_events),
                questions: Correlator::new(MAX_QUESTIONS),
                waiting: HashMap::new(),
                closed: None,
            }),
            wake: Notify::new(),
            has_events,
        }
    }

    /// Returns the next event that did not arrive as a message of the agent.
    pub(crate) fn pop(&self) -> Option<Event> {
        if !self.has_events.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.state();
        let event = state.events.pop_front();
        self.has_events.store(!state.events.is_empty(), Ordering::Release);
        event
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request that is about to be sent.
    pub(crate) fn note_call(&self, id: &RequestId<'static>, method: &'static str, params: &Raw<'_>) {
        let message = Message::request(id.clone(), method, params.borrowed());
        // The session was admitted before.
        drop(self.state().conversation.apply_message(&message, Some(Side::Client), Moment::now()));
    }

    /// Removes a request whose response is no longer awaited.
    pub(crate) fn forget(&self, id: &RequestId<'static>, unsent: bool) {
        self.state().conversation.forget_call(id, unsent);
    }

    /// Admits a session. Fails if the limit is reached.
    pub(crate) fn open_session(&self, session: &str) -> Result<Arc<str>, Error> {
        let too_many = |_| Error::BrokenRule("too many sessions on this connection".into());
        self.state().conversation.open_session(session).map_err(too_many)?;
        Ok(session.into())
    }

    /// Handles the end of the connection: waiters for turns are notified. Pending questions stay open: a
    /// client that leaves has not answered, and the agent may ask others.
    pub(crate) fn close(&self, closure: Option<Arc<Closure>>) {
        let mut state = self.state();
        if state.closed.is_none() {
            state.closed = closure;
        }
        drop(state.conversation.end_connection(Moment::now()));
        for question in state.questions.drain_of(Side::Agent) {
            question.about.request.leave_open();
        }
        state.waiting.clear();
    }

    /// Returns the reason why the connection is closed.
    pub(crate) fn lost(&self) -> Error {
        let closed_here = || Arc::new(Closure { cause: ClosureCause::ClosedHere, process: None });
        let closure = self.state().closed.clone().unwrap_or_else(closed_here);
        self.explain(switchboard_transport::Error::Closed(closure))
    }

    /// Returns an error of the connection, with the reason of a translated agent if there is one.
    pub(crate) fn explain(&self, error: switchboard_transport::Error) -> Error {
        match (error, self.gone.as_ref().and_then(|gone| gone.get())) {
            (switchboard_transport::Error::Closed(_), Some(closure)) => {
                switchboard_transport::Error::Closed(Arc::clone(closure)).into()
            }
            (error, _) => error.into(),
        }
    }

    /// Answers all pending questions of a session with `cancelled`, because its work is cancelled.
    pub(crate) fn dismiss_questions(&self, session: &str) {
        let mut state = self.state();
        let open = state.questions.drain_if(|_, _, question| question.session.as_deref() == Some(session));
        for question in open {
            // A question that the conversation no longer has needs a response, too.
            if let Ok(step) = state.conversation.dismiss(&question.id, Decider::Client, Moment::now()) {
                state.note(step);
            }
            answer_dismissed(question.about);
        }
        drop(state);
        self.wake.notify_one();
    }
}

/// Answers a question with `cancelled`.
pub(crate) fn answer_dismissed(question: OpenQuestion) {
    let OpenQuestion { request, is_permission, .. } = question;
    let answer =
        if is_permission { r#"{"outcome":{"outcome":"cancelled"}}"# } else { r#"{"action":"cancel"}"# };
    // At once, so that the agent may reuse the id.
    if let Ok(answer) = Raw::parse(answer) {
        request.respond_at_once(Json::from(answer));
    }
}

impl ClientState {
    /// Queues an event for changes without an update.
    pub(crate) fn note(&mut self, step: Step) {
        let Step { session, changes } = step;
        if !changes.is_empty()
            && let Some(session) = self.conversation.id_at(session).cloned()
        {
            self.queue(Event::Changed { session, changes });
        }
    }

    fn queue(&mut self, event: Event) {
        self.events.push_back(event);
        self.has_events.store(true, Ordering::Release);
    }

    /// Applies an update if updates are folded.
    pub(crate) fn take_update(&mut self, decoded: Decoded<'_>, line: SharedText) -> Option<Event> {
        if !self.folds_updates {
            return None;
        }
        Some(match self.conversation.apply(decoded, Some(Side::Agent), Moment::now()) {
            Ok(folded) => {
                let (step, diagnostics) = (folded.step, folded.left_out);
                self.tell_ended(&folded.ended);
                let (session, changes) = match step {
                    Some(Step { session, changes }) => (self.conversation.id_at(session).cloned(), changes),
                    None => (None, Changes::default()),
                };
                Event::Update(Update { session: session.unwrap_or_default(), changes, diagnostics, line })
            }
            Err(error) => Event::of_refusal(error, line),
        })
    }

    /// Records an unreadable update, which leaves the state of its tool call unknown.
    pub(crate) fn note_unreadable(&mut self, line: &str, reason: &DecodeError) {
        if let Some(params) = Raw::parse(line).ok().as_ref().and_then(|message| message.get("params")) {
            self.conversation.note_unreadable(&params, &reason.to_string());
        }
    }

    /// Tracks a response on its way to its pending call.
    pub(crate) fn see_answer(&mut self, decoded: Decoded<'_>) {
        let before = self.conversation.auth_status().cloned();
        if let Ok(folded) = self.conversation.apply(decoded, Some(Side::Agent), Moment::now()) {
            let step = folded.step;
            self.tell_ended(&folded.ended);
            step.into_iter().for_each(|step| self.note(step));
        }
        if before.as_ref() != self.conversation.auth_status() {
            self.queue(Event::AuthStatus);
        }
    }

    /// Registers a waiter for the end of a prompt.
    pub(crate) fn wait_for(
        &mut self,
        id: &RequestId<'static>,
        session: &Arc<str>,
    ) -> watch::Receiver<Progress> {
        let (sender, receiver) = watch::channel(Progress::default());
        self.waiting.insert(id.clone(), (Arc::clone(session), sender));
        receiver
    }

    pub(crate) fn stop_waiting(&mut self, id: &RequestId<'static>) {
        self.waiting.remove(id);
    }

    /// Notifies the waiters of ended prompts.
    fn tell_ended(&mut self, ended: &[RequestId<'static>]) {
        for id in ended {
            let Some((session, progress)) = self.waiting.remove(id) else { continue };
            let turn = self.conversation.turn(Some(&session), id);
            if let Some(TurnOutcome::Idle(idle)) = turn.and_then(|turn| turn.end()).map(|end| &end.outcome) {
                let (stop_reason, error) = (idle.stop_reason.clone(), idle.error.as_deref().cloned());
                progress.send_replace(Progress::Ended(PromptEnd { stop_reason, error }));
            }
        }
    }

    /// Removes a pending question after it was settled in the conversation.
    pub(crate) fn settle(
        &mut self,
        id: &RequestId<'static>,
        settle: impl FnOnce(&mut Conversation) -> Result<Step, SessionError>,
    ) -> Result<OpenQuestion, Error> {
        if !self.questions.contains(Side::Agent, id) {
            return Err(Error::AlreadySettled { id: id.clone() });
        }
        match settle(&mut self.conversation) {
            Ok(step) => self.note(step),
            // It belongs to no session or a removed one: the agent still waits.
            Err(SessionError::NoSuchRequest { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.questions.close(Side::Agent, id).ok_or_else(|| Error::AlreadySettled { id: id.clone() })
    }
}
