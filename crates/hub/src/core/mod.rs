//! The part that decides: who gets what, who may answer, what is a retry. It does nothing itself: it is told what
//! happened and says what is to be done, in order. It has no clock and no random numbers, so that every order of events can
//! be tried.
//!
//! Whoever drives it keeps one promise: nothing that [`Output`] says after an [`Output::Append`] is done before that record
//! is safe in the log.

mod agent_lines;
mod authorization;
mod capabilities;
mod connection;
mod delivery;
mod direct;
mod dormancy;
mod hosting;
pub(crate) mod lines;
mod listing;
pub(crate) mod losses;
pub(crate) mod memory;
mod method_table;
mod methods;
pub(crate) mod native;
mod notices;
mod notifications;
mod opening;
mod passing;
mod questions;
mod redelivery;
pub(crate) mod replay;
mod requests;
pub(crate) mod seeking;
pub(crate) mod services;
mod session;
mod sharing;
#[cfg(test)]
// Tests hand `json!` values to small functions; a reference there would only be noise.
#[allow(
    clippy::cloned_ref_to_slice_refs,
    clippy::needless_pass_by_value,
    clippy::redundant_closure_for_method_calls,
    clippy::semicolon_if_nothing_returned,
    clippy::type_complexity,
    clippy::unwrap_used
)]
mod tests;
mod unresponsive;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use switchboard_acp::extensions::{Author, HubRecord};
use switchboard_acp::rpc::{Message, RequestId, codes};
use switchboard_acp::{Raw, Side};
use switchboard_store::{Channel, Role};
use switchboard_transport::SharedText;

use crate::judge::Judge;
pub(crate) use capabilities::RESUMABLE;
use connection::Connection;
pub(crate) use delivery::NoSuchPlace;
pub use hosting::NO_HANDSHAKE;
use hosting::{Description, Host};
use lines::Outcome;
pub(crate) use memory::Memory;
use session::Session;
pub use sharing::HubAbout;
pub(crate) use sharing::Owned;

/// A client's connection.
pub(crate) type ConnectionId = u64;
/// An agent's process.
pub(crate) type HostId = u64;
/// A session's id, which is that of its log.
pub(crate) type SessionId = Arc<str>;

/// How many logs are read at a time after the hub was cut off.
const RECOVERIES: usize = 4;

/// Error: the role of a token does not allow it.
pub(crate) const FORBIDDEN: i32 = -32004;

/// Who is at the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name of the token.
    pub name: Arc<str>,
    /// What it may do.
    pub role: Role,
    /// Whether it sees every session, and not only those that are shared with it.
    pub all: bool,
    /// Creation time of the token in Unix milliseconds. Distinguishes tokens that reuse a revoked token's name.
    pub made: i64,
}

impl Identity {
    /// Whether it sees every session.
    pub fn sees_all(&self) -> bool {
        self.all || self.role >= Role::Admin
    }

    /// Names the token among all that there were.
    fn key(&self) -> Arc<str> {
        format!("{} {}", self.made, self.name).into()
    }
}

/// A session of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) id: SessionId,
    /// The agent's name.
    pub(crate) agent: String,
    /// The agent's own id of it, as far as it was written down.
    pub(crate) agent_session: String,
    pub(crate) owner: String,
    pub(crate) folder: String,
    pub(crate) title: Option<String>,
    /// In milliseconds since 1970.
    pub(crate) changed: i64,
    /// How many records its log has.
    pub(crate) length: u64,
}

/// A record as it is read back from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) sequence: u64,
    pub(crate) channel: Channel,
    pub(crate) text: Arc<str>,
}

/// What a client is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToClient {
    pub(crate) text: SharedText,
    /// The session whose stream it belongs to, for transports that have one for each.
    pub(crate) stream: Option<SessionId>,
    /// Its place in the log.
    pub(crate) cursor: Option<Arc<str>>,
    /// Whether it counts against what may be on its way to the client in its session.
    pub(crate) counts: bool,
}

impl ToClient {
    /// What stands at no place of a log.
    fn plain(text: SharedText, stream: Option<SessionId>) -> Self {
        ToClient { text, stream, cursor: None, counts: false }
    }
}

/// The token that a new session is shared with because its client started it: name and creation time.
pub(crate) type Starter = (Arc<str>, i64);

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Output {
    /// A record for the log.
    Append { session: SessionId, sequence: u64, channel: Channel, text: Arc<str> },
    /// A line for a client.
    Send { connection: ConnectionId, line: ToClient },
    /// A connection is to be ended.
    Close { connection: ConnectionId, code: u16, reason: String },
    /// A log is to be begun; [`Core::created`] tells its name.
    Create { ticket: u64, agent: String, owner: String, folder: String, starter: Option<Starter> },
    /// A log of a session that did not come to be is to be removed, or one that is deleted.
    Remove { session: SessionId },
    /// The log of a session is to be read as a whole; [`Core::loaded`] takes what it amounts to.
    Load { session: SessionId },
    /// A part of a log is to be read for somebody; [`Core::read`] takes it. `end` is how long the log is.
    Read { connection: ConnectionId, session: SessionId, from: u64, end: u64 },
    /// The next portion of a session's history is to be made for a client; [`Core::replayed`] takes it.
    Replay { connection: ConnectionId, session: SessionId, replay: Box<replay::Replay> },
    /// The end of a message is to be found in a log for somebody; [`Core::found`] takes it. `end` is how long the log is.
    Seek { connection: ConnectionId, session: SessionId, message: seeking::Sought, end: u64 },
    /// Nothing will be written for now.
    Rest { session: SessionId },
    /// What is known of a session has changed.
    Changed { session: SessionId },
    /// An agent is to be started.
    StartHost { host: HostId, agent: usize, services: services::Services },
    /// A line for an agent, and the session that it is about.
    ToHost { host: HostId, line: String, session: Option<SessionId> },
    /// An agent is to be ended.
    EndHost { host: HostId },
    /// This hub is to write a session, unless another one does; [`Core::owned`] takes what came of it.
    Own { session: SessionId },
    /// This hub writes a session no more, and others may.
    Release { session: SessionId },
    /// Something that a client wants of a session is for the hub that writes it; [`Core::passed`] takes its answer.
    PassOn { hub: Arc<str>, ticket: u64, message: Arc<str> },
    /// An answer to what another hub has passed on.
    Answer { key: String, session: SessionId, text: String },
    /// Something for the operator.
    Tell(String),
}

/// Why a folder may not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderRefusal {
    /// What is wrong with it.
    pub reason: String,
    /// The folders below which sessions may work.
    pub roots: Vec<String>,
}

/// Says where a folder really is, if sessions may work there.
pub type Folders = Box<dyn Fn(&str) -> Result<String, FolderRefusal> + Send>;

/// What the hub is told at its start.
pub(crate) struct CoreOptions {
    /// The names of the agents; the first is the usual one.
    pub(crate) agents: Vec<String>,
    pub(crate) folders: Folders,
    /// After how many milliseconds without work and without clients an agent is ended.
    pub(crate) idle: u64,
    /// How many milliseconds an agent may take to introduce itself.
    pub(crate) handshake: u64,
    /// Milliseconds that an agent has to stop after a cancellation.
    pub(crate) cancel_timeout: u64,
    /// How many bytes may be on their way to a client in one session.
    pub(crate) flow: usize,
    /// Whether the operator is told what agents write to their standard error.
    pub(crate) tells_standard_error: bool,
    /// Answers what agents ask, as far as it can.
    pub(crate) judge: Option<Box<dyn Judge>>,
    /// The least role whose clients may pass MCP servers and agent options; `None`: no client may.
    pub(crate) agent_options: Option<Role>,
    /// The client that agents see.
    pub(crate) version: &'static str,
    /// The name of this hub among those that share the log, where there can be others.
    pub(crate) name: Option<Arc<str>>,
}

/// Everything that is decided over.
pub(crate) struct Core {
    options: CoreOptions,
    /// What each agent last said of itself.
    descriptions: Vec<Option<Arc<Description>>>,
    sessions: HashMap<SessionId, Session>,
    connections: BTreeMap<ConnectionId, Connection>,
    hosts: BTreeMap<HostId, Host>,
    last_host: HostId,
    /// Sessions whose log is being begun.
    creating: HashMap<u64, opening::Creating>,
    answers: connection::Answers,
    last_ticket: u64,
    /// Milliseconds of a clock that only goes on.
    now: u64,
    /// The time of day, to be shown.
    time: i64,
    /// Whether nothing new is begun any more.
    ending: bool,
    output: VecDeque<Output>,
    /// See [`Core::states`].
    states: u64,
    /// Why nothing can be written at the moment.
    log_problem: Option<String>,
    /// What concerns other hubs.
    sharing: sharing::Sharing,
    /// Sessions that may have been at work when the hub was cut off, and those of them whose logs are being read.
    to_recover: VecDeque<SessionId>,
    recovering: HashSet<SessionId>,
}

/// What goes on in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// Somebody is asked something.
    Waiting,
    /// The agent works.
    Working,
    /// The agent has nothing to do.
    Idle,
    /// It has no agent; the next prompt gives it one.
    AtRest,
}

impl SessionState {
    /// Its name in the answers to `session/list`.
    pub fn as_str(self) -> &'static str {
        match self {
            SessionState::Waiting => "waiting",
            SessionState::Working => "working",
            SessionState::Idle => "idle",
            SessionState::AtRest => "rest",
        }
    }
}

/// A session of the hub as somebody may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSummary {
    /// Its id, which is that of its log in the store.
    pub id: Arc<str>,
    /// The agent's name.
    pub agent: String,
    /// Who opened it.
    pub owner: String,
    /// Where it works.
    pub folder: String,
    /// What it is about, if the agent says so.
    pub title: Option<String>,
    /// When it last changed, in milliseconds since 1970.
    pub changed: i64,
    /// What goes on in it.
    pub state: SessionState,
    /// How many questions wait for an answer.
    pub questions: usize,
    /// Why the agent that it had is gone, if it went by itself and none has taken its place.
    pub lost: Option<String>,
    /// Whether the agent did not stop in time after a cancellation and its process still runs.
    pub is_unresponsive: bool,
    /// The prompts that wait for their turn, in its order.
    pub queued: Vec<QueuedPrompt>,
}

/// A prompt that waits for its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuedPrompt {
    /// The beginning of what it says.
    pub text: String,
    /// What its client calls it ([`OPERATION_ID`](switchboard_acp::extensions::OPERATION_ID)), so that it knows its own among all.
    pub operation: Option<String>,
}

/// How many sessions are in which state, and so on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Sessions in which an agent works.
    pub working: usize,
    /// Sessions in which somebody is asked something.
    pub waiting: usize,
    /// Sessions with an agent that has nothing to do.
    pub idle: usize,
    /// Sessions without an agent.
    pub at_rest: usize,
    /// Agents that run.
    pub hosts: usize,
    /// Clients that look at a session, each counted as often as it looks.
    pub attachments: usize,
    /// Connections of clients.
    pub connections: usize,
    /// For how many milliseconds the slowest of them has not got what there is.
    pub lag: u64,
}

impl Core {
    pub(crate) fn new(options: CoreOptions) -> Self {
        Core {
            descriptions: vec![None; options.agents.len()],
            options,
            sessions: HashMap::new(),
            connections: BTreeMap::new(),
            hosts: BTreeMap::new(),
            last_host: 0,
            creating: HashMap::new(),
            answers: connection::Answers::default(),
            last_ticket: 0,
            now: 0,
            time: 0,
            ending: false,
            output: VecDeque::new(),
            states: 0,
            log_problem: None,
            sharing: sharing::Sharing::default(),
            to_recover: VecDeque::new(),
            recovering: HashSet::new(),
        }
    }

    /// Time goes on: a clock that only goes on, in milliseconds, and the time of day in milliseconds since 1970.
    pub(crate) fn at(&mut self, now: u64, time: i64) {
        self.now = self.now.max(now);
        self.time = time;
    }

    /// How much is to be done.
    pub(crate) fn outputs(&self) -> usize {
        self.output.len()
    }

    /// What is to be done next.
    pub(crate) fn next_output(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    /// A session of an earlier time.
    pub(crate) fn know(&mut self, known: Known) {
        let id = Arc::clone(&known.id);
        let is_ours = self.options.name.is_none();
        self.sessions.entry(id).or_insert_with(|| {
            let mut session = Session::at_rest(known);
            session.is_ours = is_ours;
            session
        });
    }

    /// How much of everything there is.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts =
            Counts { hosts: self.hosts.len(), connections: self.connections.len(), ..Counts::default() };
        for session in self.sessions.values() {
            let count = match session.state() {
                SessionState::Waiting => &mut counts.waiting,
                SessionState::Working => &mut counts.working,
                SessionState::Idle => &mut counts.idle,
                SessionState::AtRest => &mut counts.at_rest,
            };
            *count += 1;
        }
        for attachment in self.connections.values().flat_map(|connection| connection.attachments.values()) {
            counts.attachments += 1;
            if let Some(since) = attachment.behind_since {
                counts.lag = counts.lag.max(self.now.saturating_sub(since));
            }
        }
        counts
    }

    /// The sessions that somebody may see, the one that changed last first.
    pub(crate) fn summaries(&self, who: &Identity) -> Vec<SessionSummary> {
        let visible = self.sessions.values().filter(|session| session.next > 0 && session.is_visible_to(who));
        let mut summaries: Vec<SessionSummary> = visible.map(Session::summary).collect();
        summaries.sort_by(|one, other| (other.changed, &other.id).cmp(&(one.changed, &one.id)));
        summaries
    }

    /// A number that is another one when what [`Core::summaries`] gives may be different in more than times.
    pub(crate) fn states(&self) -> u64 {
        self.states
    }

    fn tell(&mut self, what: impl Into<String>) {
        self.output.push_back(Output::Tell(what.into()));
    }

    /// Writes a record into the log of a session. Those who look on get it as soon as they can take it.
    fn append(&mut self, id: &SessionId, channel: Channel, text: impl Into<Arc<str>>) -> Option<u64> {
        self.append_read(id, channel, text, None)
    }

    /// The same with a record that was read already.
    fn append_read(
        &mut self,
        id: &SessionId,
        channel: Channel,
        text: impl Into<Arc<str>>,
        message: Option<&Message<'_>>,
    ) -> Option<u64> {
        if !self.is_ours(id) {
            return None;
        }
        self.take_in(id, channel, text.into(), message)
    }

    /// Takes a record into account that this hub writes, or another one has written.
    fn take_in(
        &mut self,
        id: &SessionId,
        channel: Channel,
        text: Arc<str>,
        message: Option<&Message<'_>>,
    ) -> Option<u64> {
        let session = self.sessions.get_mut(id)?;
        let is_ours = session.is_ours;
        let sequence = session.next;
        session.next += 1;
        session.known.changed = self.time;
        let memory = session.memory.get_or_insert_default();
        let (was_busy, renamed) = (memory.is_busy(), memory.renamed);
        let asked: Vec<u64> = memory.questions.keys().copied().collect();
        let seen = match message {
            Some(message) if channel == Channel::ToClient => memory.agent_said(sequence, message),
            _ => memory.see(sequence, channel, &text),
        };
        let came_to_rest = was_busy && !memory.is_busy();
        let has_new_title = memory.renamed != renamed;
        let is_different =
            has_new_title || was_busy != memory.is_busy() || asked.len() != memory.questions.len();
        // Whoever writes a session sees to its questions.
        let closed: Vec<u64> = match is_ours {
            true => Vec::new(),
            false => asked.into_iter().filter(|place| !memory.questions.contains_key(place)).collect(),
        };
        let line = match message {
            Some(Message::Notification(notification)) if !session.attached.is_empty() => {
                let cursor = Some(lines::cursor(id, sequence));
                Some(delivery::client_line(notification, memory, id, cursor, None))
            }
            _ => None,
        };
        if session.known.title.is_none() {
            // Kept for when the memory is gone.
            session.known.title = memory.title().map(str::to_owned);
        }
        let origin = memory.origin.clone();
        session.note(sequence, seen, origin, &text, line);
        self.states += u64::from(is_different || sequence == 0);
        if is_ours {
            self.output.push_back(Output::Append { session: Arc::clone(id), sequence, channel, text });
        }
        for place in closed {
            self.withdraw(id, place, None);
        }
        if has_new_title {
            self.output.push_back(Output::Changed { session: Arc::clone(id) });
        }
        // Whoever writes a session decides over its questions, by the state that they have made.
        let judgement = match seen {
            memory::Seen::Question if is_ours => self.judge(id, sequence),
            _ => None,
        };
        match (seen, judgement) {
            (memory::Seen::Question, Some(judgement)) => self.judged(id, sequence, &judgement),
            (memory::Seen::Update | memory::Seen::Native | memory::Seen::Question, _) => self.pump_all(id),
            (memory::Seen::Withdrawn(place), _) => self.withdraw(id, place, None),
            (memory::Seen::Nothing, _) => {}
        }
        if came_to_rest {
            self.turn_ended(id);
        }
        Some(sequence)
    }

    /// The log of a session cannot be written: nothing of it may be told any more.
    pub(crate) fn log_failed(&mut self, id: &SessionId, reason: &str) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let attached: Vec<ConnectionId> = session.attached.iter().copied().collect();
        let host = session.host.take().or(session.parked.take());
        let agent_session = session.agent_session().map(str::to_owned);
        session.is_waking = false;
        session.is_unresponsive = false;
        // It is read anew before it is used again.
        session.memory = None;
        session.goes_on_at(session.next);
        self.lose(id);
        self.tell(format!("the log of {id} cannot be written: {reason}"));
        if let Some(host) = host {
            if let Some(agent_session) = agent_session {
                // Nobody would hear of what it does.
                let params = Raw::from(serde_json::json!({"sessionId": agent_session}));
                let line = lines::call(None, "session/cancel", Some(&params), lines::Rewrite::default());
                self.output.push_back(Output::ToHost { host, line, session: None });
            }
            self.leave(host, id);
            self.end_unneeded(host, reason);
        }
        for connection in attached {
            self.cut_off(connection, format!("the log of {id} cannot be written: {reason}"));
        }
        self.not_opened(id, reason);
    }

    /// Answers the requests that were to open a session whose log cannot be written, as where no more files can be opened.
    fn not_opened(&mut self, id: &SessionId, reason: &str) {
        let is_it = |purpose: &hosting::Purpose| matches!(purpose, hosting::Purpose::New { session, .. } | hosting::Purpose::Adopt { session, .. } if session == id);
        let mut opening = Vec::new();
        for host in self.hosts.values_mut() {
            opening.extend(host.open.drain_if(|_, _, purpose| is_it(purpose)));
        }
        let is_new = !opening.is_empty();
        for request in opening {
            if let hosting::Purpose::New { client, .. } | hosting::Purpose::Adopt { client, .. } =
                request.about
            {
                let message =
                    format!("the session cannot be opened, because its log cannot be written: {reason}");
                self.refuse(client.0, &client.1, codes::INTERNAL_ERROR, message, None);
            }
        }
        if is_new {
            self.forget(id);
        }
    }

    /// Ends the connection of a client that cannot be told something.
    pub(crate) fn cut_off(&mut self, connection: ConnectionId, reason: String) {
        if self.connections.contains_key(&connection) {
            self.output.push_back(Output::Close { connection, code: 1011, reason });
            self.disconnected(connection);
        }
    }

    /// Whether the logs can be written; else why not. Until they can, what needs that is refused.
    pub(crate) fn log_has(&mut self, problem: Option<String>) {
        if self.log_problem == problem {
            return;
        }
        match &problem {
            Some(problem) => self.tell(problem.clone()),
            None => self.tell("the log can be written again"),
        }
        self.log_problem = problem;
        if self.log_problem.is_some() {
            return;
        }
        // Those that nobody is at work on may have got ahead of what was read of them, or were cut off.
        let resting = self.sessions.values_mut().filter(|session| session.host.is_none() && session.is_ours);
        let mut read_anew = Vec::new();
        for session in resting.filter(|session| session.memory.is_some()) {
            session.memory = None;
            session.goes_on_at(session.next);
            read_anew.push(Arc::clone(session.id()));
        }
        for id in read_anew {
            self.load(&id);
        }
    }

    /// A session that may have been at work when the hub ended without a goodbye. Its log is read when its turn comes, or
    /// before that when a client wants something of it.
    pub(crate) fn recover(&mut self, id: &str) {
        if let Some(id) = self.sessions.get(id).map(|session| Arc::clone(session.id())) {
            self.to_recover.push_back(id);
            self.recover_next(None);
        }
    }

    /// Reads the logs of a few sessions at a time, so that clients of others do not wait for them.
    fn recover_next(&mut self, done: Option<&SessionId>) {
        if let Some(done) = done {
            self.recovering.remove(done);
        }
        while self.recovering.len() < RECOVERIES {
            let Some(id) = self.to_recover.pop_front() else { return };
            let is_unread = |session: &Session| session.memory.is_none() && !session.is_loading;
            if self.sessions.get(&id).is_some_and(is_unread) {
                self.recovering.insert(Arc::clone(&id));
                self.load(&id);
            }
        }
    }

    /// The agent's id of a session.
    pub(crate) fn agent_session(&self, id: &str) -> Option<(&Known, &str)> {
        let session = self.sessions.get(id)?;
        Some((&session.known, session.agent_session()?))
    }

    /// Writes down something that only the hub knows.
    fn note(&mut self, id: &SessionId, record: &HubRecord<'_>) {
        let _ = self.append(id, Channel::Hub, record.to_json());
    }

    /// Returns a client as the author of a record; an empty one where it is gone.
    fn author(&self, connection: ConnectionId) -> Author<'static> {
        self.connections.get(&connection).map_or_else(Author::new, Connection::signature)
    }

    /// Sends a client what stands at no place of a log, in the stream of a session or in none.
    fn send(&mut self, connection: ConnectionId, text: impl Into<SharedText>, stream: Option<&SessionId>) {
        let line = ToClient::plain(text.into(), stream.cloned());
        self.output.push_back(Output::Send { connection, line });
    }

    /// Answers a client's request; after everything up to a record of the session's log, where that matters.
    fn reply(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        outcome: Outcome,
        after: Option<(&SessionId, u64)>,
    ) {
        let Some(client) = self.connections.get_mut(&connection) else { return };
        let Some(asked) = client.open.close(Side::Client, id) else { return };
        if client.guest.is_some() {
            return self.answer_guest(connection, asked, outcome);
        }
        let line = ToClient::plain(lines::answer(id, &outcome).into(), asked.stream.clone());
        if let Some(operation) = asked.operation {
            self.answers.keep(&client.who.key(), operation, outcome);
        }
        if let Some((session, sequence)) = after
            && let Some(attachment) = client.attachments.get_mut(session)
            && attachment.place <= sequence
        {
            attachment.held_back.push_back((sequence, line));
            self.pump(connection, session);
            return;
        }
        self.output.push_back(Output::Send { connection, line });
    }

    fn refuse(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        code: i32,
        message: impl Into<String>,
        data: Option<serde_json::Value>,
    ) {
        let error = Outcome::error(code, message, data);
        match code {
            // What was taken back stays so.
            codes::REQUEST_CANCELLED => self.reply(connection, id, error, None),
            _ => self.decline(connection, id, error),
        }
    }

    /// Answers a request for which nothing was done: who asks again may get another answer, and not this one again.
    fn decline(&mut self, connection: ConnectionId, id: &RequestId<'static>, error: Outcome) {
        let client = self.connections.get_mut(&connection);
        if let Some(asked) = client.and_then(|client| client.open.get_mut(Side::Client, id)) {
            asked.operation = None;
        }
        self.reply(connection, id, error, None);
    }
}
