//! What the halves of a client share: the sessions, open questions, and calls whose answers change a session.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use foldhash::fast::RandomState;
use switchboard_protocol::rpc::{RequestId, Response};
use switchboard_protocol::{Wire, WireFormat, v2};
use switchboard_session::{Activity, Changes, Moment, Session, Side};
use switchboard_transport::{Caller, Closure, ClosureCause, IncomingRequest, Json, SharedText};
use tokio::sync::{Notify, watch};

use super::feed::Event;
use super::turn::{Progress, TurnEnd};
use crate::translation::Gone;

/// How many answers are kept whose calls are not known yet.
const UNCLAIMED: usize = 64;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) caller: Caller,
    state: Mutex<State>,
    /// Tells why an agent that is translated is gone.
    gone: Option<Gone>,
    /// There are events that no message of the agent brought.
    pub(crate) wake: Notify,
    /// Whether there may be some, so that the state need not be locked to see that there are none.
    has_events: Arc<AtomicBool>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) sessions: HashMap<Arc<str>, Live, RandomState>,
    /// The session that the last update went to; the next one mostly goes there too.
    pub(crate) recent: Option<Arc<str>>,
    pub(crate) session_limit: usize,
    events: VecDeque<Event>,
    /// Set with every event.
    has_events: Arc<AtomicBool>,
    pub(crate) questions: HashMap<RequestId<'static>, Question>,
    calls: HashMap<RequestId<'static>, Watched>,
    unclaimed: VecDeque<(RequestId<'static>, SharedText)>,
    /// Whether the agent has shown that it speaks the newest dialect.
    pub(crate) newest_seen: bool,
    replaces_meta: bool,
    next_turn: u64,
    /// Set when nothing comes any more.
    closed: Option<Arc<Closure>>,
}

/// A session with the prompts that wait for its end.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) session: Session,
    pub(crate) turns: Vec<WatchedTurn>,
}

/// A prompt that is under way.
#[derive(Debug)]
pub(crate) struct WatchedTurn {
    pub(crate) number: u64,
    /// Other work was under way when the prompt was sent, whose end is not this one's.
    busy: bool,
    inserted: bool,
    ran: bool,
    end: Option<TurnEnd>,
    progress: watch::Sender<Progress>,
}

/// A question of the agent that nobody has answered yet.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) session: Option<Arc<str>>,
    pub(crate) request: IncomingRequest,
    pub(crate) is_permission: bool,
}

/// A call whose answer changes a session, in its place in the order of messages.
#[derive(Debug, Clone)]
pub(crate) enum Watched {
    New,
    Resume { session: Arc<str>, replays: bool },
    SetConfigOption { session: Arc<str> },
    Prompt { session: Arc<str>, turn: u64 },
}

impl Shared {
    pub(crate) fn new(caller: Caller, session_limit: usize, gone: Option<Gone>) -> Self {
        let has_events = Arc::new(AtomicBool::new(false));
        Shared {
            caller,
            gone,
            state: Mutex::new(State {
                sessions: HashMap::default(),
                recent: None,
                session_limit,
                events: VecDeque::new(),
                has_events: Arc::clone(&has_events),
                questions: HashMap::new(),
                calls: HashMap::new(),
                unclaimed: VecDeque::new(),
                newest_seen: false,
                replaces_meta: false,
                next_turn: 1,
                closed: None,
            }),
            wake: Notify::new(),
            has_events,
        }
    }

    /// The next event that no message of the agent brought.
    pub(crate) fn pop(&self) -> Option<Event> {
        if !self.has_events.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.state();
        let event = state.events.pop_front();
        self.has_events.store(!state.events.is_empty(), Ordering::Release);
        event
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the answer to a call into account in its place. A call that was answered before this could be said is
    /// caught up with.
    pub(crate) fn watch(&self, id: &RequestId<'static>, call: Watched) {
        let mut state = self.state();
        let early = state.unclaimed.iter().position(|(known, _)| known == id);
        match early.and_then(|place| state.unclaimed.remove(place)) {
            Some((_, line)) => {
                if let Ok(answer) = Response::decode(&line, WireFormat::Any) {
                    state.take_answer(call, &answer);
                }
                drop(state);
                self.wake.notify_one();
            }
            None => {
                state.calls.insert(id.clone(), call);
            }
        }
    }

    /// Nobody waits for the answer any more. A prompt that was given up is still watched, since it may go on.
    pub(crate) fn forget(&self, id: &RequestId<'static>) {
        self.state().calls.remove(id);
    }

    /// Nothing comes any more: whoever waits for the end of a turn is told so.
    pub(crate) fn close(&self, closure: Option<Arc<Closure>>) {
        let mut state = self.state();
        if state.closed.is_none() {
            state.closed = closure;
        }
        let now = now();
        let State { sessions, questions, .. } = &mut *state;
        questions.clear();
        for live in sessions.values_mut() {
            live.turns.clear();
            live.session.cancel_requests(Side::Agent, now);
        }
    }

    /// Why nothing comes any more.
    pub(crate) fn lost(&self) -> crate::Error {
        let closed_here = || Arc::new(Closure { cause: ClosureCause::ClosedHere, process: None });
        let closure = self.state().closed.clone().unwrap_or_else(closed_here);
        self.explain(switchboard_transport::Error::Closed(closure))
    }

    /// An error of the connection; where the agent is translated, with what is known of the agent itself.
    pub(crate) fn explain(&self, error: switchboard_transport::Error) -> crate::Error {
        match (error, self.gone.as_ref().and_then(|gone| gone.get())) {
            (switchboard_transport::Error::Closed(_), Some(closure)) => {
                switchboard_transport::Error::Closed(Arc::clone(closure)).into()
            }
            (error, _) => error.into(),
        }
    }

    /// Answers all open questions of a session that they are dismissed, because its work is cancelled.
    pub(crate) fn dismiss_questions(&self, session: &str) {
        let mut state = self.state();
        let of_session = |question: &Question| question.session.as_deref() == Some(session);
        let open: Vec<_> = state.questions.iter().filter(|(_, question)| of_session(question)).collect();
        let open: Vec<RequestId<'static>> = open.into_iter().map(|(id, _)| id.clone()).collect();
        for id in open {
            if let Some(question) = state.questions.remove(&id) {
                answer_dismissed(question);
            }
        }
        if let Some(live) = state.sessions.get_mut(session) {
            let changes = live.session.cancel_requests(Side::Client, now());
            let id: Arc<str> = session.into();
            state.note(&id, changes);
        }
        drop(state);
        self.wake.notify_one();
    }
}

/// Answers a question that it is dismissed.
pub(crate) fn answer_dismissed(question: Question) {
    let Question { request, is_permission, .. } = question;
    let answer =
        if is_permission { r#"{"outcome":{"outcome":"cancelled"}}"# } else { r#"{"action":"cancel"}"# };
    tokio::spawn(async move {
        if let Ok(answer) = switchboard_protocol::Raw::parse(answer) {
            // An agent that is gone needs no answer.
            let _ = request.respond(Json::from(answer)).await;
        }
    });
}

impl State {
    /// The session with an id, which is made if there may be one more.
    pub(crate) fn live(&mut self, id: &str) -> Option<(Arc<str>, &mut Live)> {
        let key = match &self.recent {
            Some(recent) if **recent == *id => Arc::clone(recent),
            _ => {
                let key = self.known_or_new(id)?;
                self.recent = Some(Arc::clone(&key));
                key
            }
        };
        let live = self.sessions.get_mut(&key)?;
        Some((key, live))
    }

    fn known_or_new(&mut self, id: &str) -> Option<Arc<str>> {
        if let Some((known, _)) = self.sessions.get_key_value(id) {
            return Some(Arc::clone(known));
        }
        if self.sessions.len() >= self.session_limit {
            return None;
        }
        let key: Arc<str> = id.into();
        let mut session = Session::new(WireFormat::Any);
        if self.replaces_meta {
            session.peer_replaces_meta();
        }
        self.sessions.insert(Arc::clone(&key), Live { session, turns: Vec::new() });
        Some(key)
    }

    /// Queues an event for changes that no update brought.
    pub(crate) fn note(&mut self, session: &Arc<str>, changes: Changes) {
        if !changes.is_empty() {
            self.events.push_back(Event::Changed { session: Arc::clone(session), changes });
            self.has_events.store(true, Ordering::Release);
        }
    }

    /// Applies an update; `None` when there are too many sessions.
    pub(crate) fn apply(&mut self, id: &str, update: &v2::SessionUpdate<'_>) -> Option<(Arc<str>, Changes)> {
        use v2::SessionUpdate as Update;
        self.newest_seen |= matches!(
            update,
            Update::TerminalUpdate(_)
                | Update::TerminalOutputChunk(_)
                | Update::Notice(_)
                | Update::CompactionUpdate(_)
                | Update::CompactionSummaryChunk(_)
        );
        let (key, live) = self.live(id)?;
        let changes = live.session.apply(update);
        if let Update::StateUpdate(state) = update
            && !live.session.is_replaying()
        {
            live.note_state(state);
        }
        Some((key, changes))
    }

    /// Opens the account of a prompt that is about to be sent.
    pub(crate) fn open_turn(&mut self, session: &str) -> Option<(u64, watch::Receiver<Progress>)> {
        let number = self.next_turn;
        self.next_turn += 1;
        let (_, live) = self.live(session)?;
        let (progress, receiver) = watch::channel(Progress::default());
        live.turns.retain(|turn| !turn.progress.is_closed());
        let busy = live.session.activity() != Activity::Idle || !live.turns.is_empty();
        live.turns.push(WatchedTurn { number, busy, inserted: false, ran: false, end: None, progress });
        Some((number, receiver))
    }

    pub(crate) fn close_turn(&mut self, session: &str, number: u64) {
        if let Some(live) = self.sessions.get_mut(session) {
            live.turns.retain(|turn| turn.number != number);
        }
    }

    /// An answer passes by on its way to the call that waits for it.
    pub(crate) fn see_answer(&mut self, line: &SharedText, answer: &Response<'_>) {
        let id = answer.id.clone().into_owned();
        match self.calls.remove(&id) {
            Some(call) => self.take_answer(call, answer),
            None => {
                if self.unclaimed.len() == UNCLAIMED {
                    self.unclaimed.pop_front();
                }
                self.unclaimed.push_back((id, line.detached()));
            }
        }
    }

    fn take_answer(&mut self, call: Watched, answer: &Response<'_>) {
        let result = answer.outcome.as_ref().ok();
        let text = result.map(switchboard_protocol::Raw::as_str);
        match call {
            Watched::New => {
                let read = text.map(|text| v2::NewSessionResponse::decode_tolerant(text, WireFormat::Any));
                if let Some(Ok((response, _))) = read
                    && let Some((key, live)) = self.live(&response.session_id)
                {
                    let (options, commands) = (&response.config_options, &response.available_commands);
                    let changes = live.session.apply_lists(options.as_deref(), commands.as_deref());
                    self.note(&key, changes);
                }
            }
            Watched::Resume { session, replays } => {
                let Some((key, live)) = self.live(&session) else { return };
                let read = text.map(|text| v2::ResumeSessionResponse::decode_tolerant(text, WireFormat::Any));
                match read {
                    Some(Ok((response, _))) => {
                        let mut all = Vec::new();
                        if replays {
                            all.push(live.session.end_replay());
                        }
                        let (options, commands) = (&response.config_options, &response.available_commands);
                        all.push(live.session.apply_lists(options.as_deref(), commands.as_deref()));
                        for changes in all {
                            self.note(&key, changes);
                        }
                    }
                    _ if replays => live.session.abandon_replay(),
                    _ => {}
                }
            }
            Watched::SetConfigOption { session } => {
                let read = text
                    .map(|text| v2::SetSessionConfigOptionResponse::decode_tolerant(text, WireFormat::Any));
                if let Some(Ok((response, _))) = read
                    && let Some((key, live)) = self.live(&session)
                {
                    let changes = live.session.apply_lists(Some(&response.config_options), None);
                    self.note(&key, changes);
                }
            }
            Watched::Prompt { session, turn } => {
                let names_message = result.is_some_and(|result| result.get("messageId").is_some());
                self.newest_seen |= names_message;
                // Only the `spec` dialect has an empty answer, and there metadata is replaced as a whole.
                if result.is_some() && !self.newest_seen && !self.replaces_meta {
                    self.replaces_meta = true;
                    for live in self.sessions.values_mut() {
                        live.session.peer_replaces_meta();
                    }
                }
                let Some((_, live)) = self.live(&session) else { return };
                if result.is_some() {
                    live.note_inserted(turn);
                }
            }
        }
    }
}

impl Live {
    fn note_inserted(&mut self, number: u64) {
        if let Some(turn) = self.turns.iter_mut().find(|turn| turn.number == number) {
            turn.inserted = true;
            turn.tell();
        }
        self.turns.retain(|turn| !(turn.inserted && turn.end.is_some()));
    }

    fn note_state(&mut self, state: &v2::StateUpdate<'_>) {
        for turn in &mut self.turns {
            // What happens before another turn's end has nothing to do with a prompt that is not inserted yet.
            if turn.busy && !turn.inserted {
                continue;
            }
            match state {
                // Idle without a reason is also told where nothing has ended, as after a session was opened.
                v2::StateUpdate::Idle(idle) if turn.ran || idle.stop_reason.is_some() => {
                    turn.end.get_or_insert_with(|| TurnEnd {
                        stop_reason: idle.stop_reason.clone(),
                        error: idle.error.as_ref().map(|error| (**error).clone().into_owned()),
                    });
                }
                v2::StateUpdate::Idle(_) => {}
                _ => turn.ran = true,
            }
            turn.tell();
        }
        self.turns.retain(|turn| !(turn.inserted && turn.end.is_some()));
    }
}

impl WatchedTurn {
    fn tell(&self) {
        if self.inserted
            && let Some(end) = &self.end
        {
            self.progress.send_replace(Progress::Ended(end.clone()));
        }
    }
}

/// The time, for the session engine, which has no clock.
pub(crate) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
