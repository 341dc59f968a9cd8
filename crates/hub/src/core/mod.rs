//! Routing, authorization and deduplication for hub sessions, as a pure state machine: events in, ordered outputs out.
//! No I/O, clock or randomness, so tests can explore every interleaving.
//!
//! The driver must not perform any [`Output`] that follows an [`Output::Append`] until that record is durable.

mod agent_lines;
mod agent_process;
mod agents;
mod authorization;
mod capabilities;
mod client_message;
mod clients;
mod connection;
mod context;
mod delivery;
mod direct_questions;
mod dormancy;
mod forwarding;
mod lifecycle;
pub(crate) mod lines;
mod listing;
pub(crate) mod losses;
pub(crate) mod message_lookup;
mod method_table;
mod methods;
pub(crate) mod native;
mod notices;
mod notifications;
mod outbox;
mod ownership;
mod questions;
mod redelivery;
pub(crate) mod replay;
mod requests;
pub(crate) mod services;
mod session;
mod session_events;
pub(crate) mod session_state;
#[cfg(test)]
// Tests pass `json!` values to small helpers; references would only add noise.
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

use serde_json::json;
use switchboard_acp::extensions::HubRecord;
use switchboard_acp::rpc::{RequestId, codes};
use switchboard_acp::{Raw, Side};
use switchboard_bridge::{Loss, Version};
use switchboard_store::{Channel, Moment, Role};
use switchboard_transport::{ConfinementNotice, SharedText};

use crate::agent_task::LineSession;
use crate::policy::Policy;
use crate::session_event::{AnswerResult, PendingQuestionEvent, SessionEvent};
pub use agent_process::NO_HANDSHAKE;
pub(crate) use capabilities::RESUMABLE;
use connection::{Connection, Start};
use context::Context;
use delivery::Delivery;
pub(crate) use delivery::ResumeError;
use lifecycle::Lifecycle;
use lines::Outcome;
pub use ownership::HubInfo;
pub(crate) use ownership::Ownership;
use questions::Questions;
use requests::client_mut;
use services::Services;
use session::Session;
use session_events::SessionEvents;
pub(crate) use session_state::SessionState;

/// Id of a client connection.
pub(crate) type ConnectionId = u64;
/// Id of an agent process.
pub(crate) type AgentId = u64;
/// Id of a session, which is also that of its log.
pub(crate) type SessionId = Arc<str>;

/// Maximum number of logs that are read at a time when the hub recovers after a crash.
const RECOVERIES: usize = 4;

/// Error code: the role of the token does not allow the action.
pub(crate) const FORBIDDEN: i32 = -32004;

/// Identity of a client: its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of the token.
    pub name: Arc<str>,
    /// Role of the token.
    pub role: Role,
    /// True if the token sees every session, not only those shared with it.
    pub all: bool,
    /// Creation time of the token in Unix milliseconds. Distinguishes tokens that reuse a revoked token's name.
    pub made: i64,
}

impl Identity {
    /// Returns whether the client sees every session.
    pub fn sees_all(&self) -> bool {
        self.all || self.role >= Role::Admin
    }

    /// Returns a key that is unique among all tokens, including revoked ones.
    fn key(&self) -> Arc<str> {
        format!("{} {}", self.made, self.name).into()
    }
}

/// Metadata of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionInfo {
    pub(crate) id: SessionId,
    /// Name of the agent.
    pub(crate) agent: String,
    /// The agent's id of the session, if it is recorded.
    pub(crate) agent_session: String,
    pub(crate) owner: String,
    pub(crate) folder: String,
    pub(crate) title: Option<String>,
    /// Time of the last change in Unix milliseconds.
    pub(crate) changed: i64,
    /// Number of records in the log.
    pub(crate) length: u64,
}

/// A record read from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogRecord {
    pub(crate) sequence: u64,
    pub(crate) channel: Channel,
    pub(crate) text: Arc<str>,
}

/// A line to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToClient {
    pub(crate) text: SharedText,
    /// The session on whose stream it is sent, for transports with one stream per session.
    pub(crate) stream: Option<SessionId>,
    /// The cursor after this line.
    pub(crate) cursor: Option<Arc<str>>,
    /// True if its bytes count against the send window of the session.
    pub(crate) is_windowed: bool,
}

impl ToClient {
    /// Returns a line without a cursor.
    fn plain(text: SharedText, stream: Option<SessionId>) -> Self {
        ToClient { text, stream, cursor: None, is_windowed: false }
    }
}

/// The token that a new session is shared with because its client started it: name and creation time.
pub(crate) type Starter = (Arc<str>, i64);

/// An action that the driver performs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Output {
    /// Append a record to the log.
    Append { session: SessionId, sequence: u64, channel: Channel, text: Arc<str> },
    /// Send a line to a client.
    Send { connection: ConnectionId, line: ToClient },
    /// Close a connection.
    Close { connection: ConnectionId, code: u16, reason: String },
    /// Create a log; [`Core::created`] takes the result.
    Create { ticket: u64, agent: String, owner: String, folder: String, starter: Option<Starter> },
    /// Remove the log of a session that was deleted or could not be created.
    Remove { session: SessionId },
    /// Read the whole log of a session; [`Core::loaded`] takes the folded state.
    Load { session: SessionId },
    /// Read a part of a log for a subscriber; [`Core::read`] takes it. `end` is the length of the log.
    Read { connection: ConnectionId, session: SessionId, from: u64, end: u64 },
    /// Produce the next portion of a replay; [`Core::replayed`] takes it.
    Replay { connection: ConnectionId, session: SessionId, replay: Box<replay::Replay> },
    /// Find the end of a message in a log; [`Core::message_found`] takes the offset. `end` is the length of the log.
    FindMessage {
        connection: ConnectionId,
        session: SessionId,
        message: message_lookup::MessageQuery,
        end: u64,
    },
    /// Close the log until the next append.
    CloseLog { session: SessionId },
    /// Save the metadata of a session, which has changed.
    Changed { session: SessionId },
    /// Start an agent process. A confined one may work in `roots`.
    StartAgent { process: AgentId, agent: usize, services: Services, roots: Vec<String> },
    /// Send a line to an agent process. `session` is the one that it belongs to.
    ToAgent { process: AgentId, line: String, session: Option<SessionId> },
    /// End an agent process.
    EndAgent { process: AgentId },
    /// Acquire the ownership of a session, unless another hub has it; [`Core::ownership_known`] takes the result.
    Acquire { session: SessionId },
    /// Release the ownership of a session.
    Release { session: SessionId },
    /// Forward a request to the owner of a session; [`Core::forward_answered`] takes its reply.
    Forward { hub: Arc<str>, ticket: u64, message: Arc<str> },
    /// Reply to a request that another hub has forwarded.
    ForwardReply { key: String, session: SessionId, text: String },
    /// Pass an event of a session to the observer.
    Event(Box<SessionEvent>),
    /// Report something to the operator.
    Report(String),
}

/// Reason why sessions may not work in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderRefusal {
    /// The reason.
    pub reason: String,
    /// The folders below which sessions may work.
    pub roots: Vec<String>,
}

/// Returns the canonical path of a folder, if sessions may work there.
pub type Folders = Box<dyn Fn(&str) -> Result<String, FolderRefusal> + Send>;

/// Configuration of the core.
pub(crate) struct CoreOptions {
    /// Names of the agents. The first is the default.
    pub(crate) agents: Vec<String>,
    /// Agents that are confined, in the same order.
    pub(crate) confined: Vec<bool>,
    /// Agents of which one process is kept running, in the same order.
    pub(crate) warm: Vec<bool>,
    pub(crate) folders: Folders,
    /// Time without work and clients after which an agent process is ended, in milliseconds.
    pub(crate) idle: u64,
    /// Handshake timeout of an agent in milliseconds.
    pub(crate) handshake: u64,
    /// Time that an agent has to stop after a cancellation, in milliseconds.
    pub(crate) cancel_timeout: u64,
    /// Size of the send window: maximum number of unacknowledged bytes to a client in one session.
    pub(crate) send_window: usize,
    /// True if the standard error of agents is reported to the operator.
    pub(crate) reports_standard_error: bool,
    /// Permission policy that answers requests of agents before clients are asked.
    pub(crate) policy: Option<Box<dyn Policy>>,
    /// The least role whose clients may pass MCP servers and agent options; `None`: no client may.
    pub(crate) agent_options: Option<Role>,
    /// Version of the hub, which agents see as that of their client.
    pub(crate) version: &'static str,
    /// Name of this hub in its cluster; `None` if the log is not shared.
    pub(crate) name: Option<Arc<str>>,
}

impl CoreOptions {
    /// Returns whether an agent is confined.
    pub(super) fn is_confined(&self, agent: usize) -> bool {
        self.confined.get(agent).copied().unwrap_or_default()
    }

    /// Returns the capabilities that an agent gets of a client. Files and commands of a client would lead a confined agent
    /// out.
    pub(super) fn offered(&self, agent: usize, services: Services) -> Services {
        if self.is_confined(agent) { Services::default() } else { services }
    }
}

/// The state machine of a hub.
pub(crate) struct Core {
    // Ordered by id: the order of outputs must not depend on a hash table.
    sessions: BTreeMap<SessionId, Session>,
    /// Everything but the sessions. It is borrowed beside one of them.
    cx: Context,
    /// Sessions that may have been working when the hub crashed, and those of them whose logs are being read.
    to_recover: VecDeque<SessionId>,
    recovering: HashSet<SessionId>,
}

/// Activity of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionActivity {
    /// A question waits for an answer.
    Waiting,
    /// The agent is working.
    Working,
    /// The agent is idle.
    Idle,
    /// No agent process; the next prompt starts one.
    Dormant,
}

impl SessionActivity {
    /// Returns the name in the results of `session/list`.
    pub fn as_str(self) -> &'static str {
        match self {
            SessionActivity::Waiting => "waiting",
            SessionActivity::Working => "working",
            SessionActivity::Idle => "idle",
            SessionActivity::Dormant => "rest",
        }
    }
}

/// Summary of a session for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSummary {
    /// Id of the session and of its log in the store.
    pub id: Arc<str>,
    /// Name of the agent.
    pub agent: String,
    /// Name of the token that created it.
    pub owner: String,
    /// Working folder.
    pub folder: String,
    /// Title, from the agent or the first prompt.
    pub title: Option<String>,
    /// Time of the last change in Unix milliseconds.
    pub changed: i64,
    /// Current activity.
    pub state: SessionActivity,
    /// Number of pending questions.
    pub questions: usize,
    /// Reason why the agent process exited by itself, until another one replaces it.
    pub lost: Option<String>,
    /// True if the agent did not stop in time after a cancellation and its process still runs.
    pub is_unresponsive: bool,
    /// Queued prompts, in order.
    pub queued: Vec<QueuedPrompt>,
}

/// A prompt in the queue of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuedPrompt {
    /// The beginning of its text.
    pub text: String,
    /// Idempotency key from its client ([`OPERATION_ID`](switchboard_acp::extensions::OPERATION_ID)), by which the
    /// client recognizes its own prompts.
    pub operation: Option<String>,
}

/// Numbers of sessions, processes and clients of a hub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Sessions in which an agent is working.
    pub working: usize,
    /// Sessions with a pending question.
    pub waiting: usize,
    /// Sessions with an idle agent.
    pub idle: usize,
    /// Dormant sessions, without an agent process.
    pub dormant: usize,
    /// Running agent processes.
    pub processes: usize,
    /// Subscribers, counted once per client and session.
    pub subscriptions: usize,
    /// Client connections.
    pub connections: usize,
    /// Time in milliseconds for which the slowest subscriber has been behind.
    pub lag: u64,
    /// Messages that were dropped, by reason.
    pub dropped: Vec<(&'static str, u64)>,
}

impl Core {
    pub(crate) fn new(options: CoreOptions) -> Self {
        Core {
            sessions: BTreeMap::new(),
            cx: Context::new(options),
            to_recover: VecDeque::new(),
            recovering: HashSet::new(),
        }
    }

    /// Sets the monotonic time in milliseconds and the wall-clock time in Unix milliseconds.
    pub(crate) fn at(&mut self, now: u64, time: i64) {
        self.cx.outbox.now = self.cx.outbox.now.max(now);
        self.cx.outbox.time = time;
    }

    /// Returns the number of outputs that are due.
    pub(crate) fn outputs(&self) -> usize {
        self.cx.outbox.queue.len()
    }

    /// Takes the next output.
    pub(crate) fn next_output(&mut self) -> Option<Output> {
        while let Some(id) = self.cx.to_replace.pop_front() {
            unresponsive::replace_agent(self, &id);
        }
        self.cx.outbox.queue.pop_front()
    }

    /// Adds a session that exists in the store or at another hub.
    pub(crate) fn add_session(&mut self, info: SessionInfo) {
        let id = Arc::clone(&info.id);
        let is_owned = self.cx.options.name.is_none();
        self.sessions.entry(id).or_insert_with(|| {
            let mut session = Session::dormant(info);
            session.is_owned = is_owned;
            session
        });
    }

    /// Returns the numbers of sessions, processes and clients.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts {
            processes: self.cx.agents.processes.len(),
            connections: self.cx.clients.connections.len(),
            dropped: self.cx.outbox.dropped(),
            ..Counts::default()
        };
        for session in self.sessions.values() {
            let count = match session.activity() {
                SessionActivity::Waiting => &mut counts.waiting,
                SessionActivity::Working => &mut counts.working,
                SessionActivity::Idle => &mut counts.idle,
                SessionActivity::Dormant => &mut counts.dormant,
            };
            *count += 1;
        }
        for subscription in
            self.cx.clients.connections.values().flat_map(|connection| connection.subscriptions.values())
        {
            counts.subscriptions += 1;
            if let Some(since) = subscription.lagging_since {
                counts.lag = counts.lag.max(self.cx.outbox.now.saturating_sub(since));
            }
        }
        counts
    }

    /// Returns the sessions that are visible to a client, the most recently changed first.
    pub(crate) fn summaries(&self, identity: &Identity) -> Vec<SessionSummary> {
        let visible =
            self.sessions.values().filter(|session| session.next > 0 && session.is_visible_to(identity));
        let mut summaries: Vec<SessionSummary> = visible.map(Session::summary).collect();
        summaries.sort_by(|one, other| (other.changed, &other.id).cmp(&(one.changed, &one.id)));
        summaries
    }

    /// Returns a number that changes whenever [`Core::summaries`] may return something different, apart from times.
    pub(crate) fn summary_version(&self) -> u64 {
        self.cx.outbox.summary_version
    }

    /// Handles a log that cannot be written. Nothing that depends on the failed records may be sent, so the subscribers
    /// are disconnected.
    pub(crate) fn log_failed(&mut self, id: &SessionId, reason: &str) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let attached: Vec<ConnectionId> = session.subscribers.iter().copied().collect();
        let process = session.process.take().or(session.parked.take());
        let agent_session = session.agent_session().map(str::to_owned);
        session.is_resuming = false;
        session.is_unresponsive = false;
        // The log is read again before the session is used: the state may be ahead of it.
        session.state = None;
        session.reset_tail(session.next);
        ownership::ownership_lost(self, id);
        self.cx.outbox.report(format!("cannot write the log of session {id}: {reason}"));
        if let Some(process) = process {
            if let Some(agent_session) = agent_session {
                // No record of its work would be written.
                let params = Raw::from(serde_json::json!({"sessionId": agent_session}));
                let line = lines::call(None, "session/cancel", Some(&params), lines::Rewrite::default());
                self.cx.outbox.push(Output::ToAgent { process, line, session: None });
            }
            if let Some((session, cx)) = self.session(id) {
                session.release_process(cx, process);
            }
            ownership::end_unused_process(self, process, reason);
        }
        for connection in attached {
            self.close_connection(connection, format!("cannot write the log of session {id}: {reason}"));
        }
        self.creation_failed(id, reason);
    }

    /// Refuses the requests that create a session whose log cannot be written, for example because of the limit of open
    /// files.
    fn creation_failed(&mut self, id: &SessionId, reason: &str) {
        let is_it = |purpose: &agent_process::PendingAgentRequest| matches!(purpose, agent_process::PendingAgentRequest::New { session, .. } | agent_process::PendingAgentRequest::Adopt { session, .. } if session == id);
        let mut opening = Vec::new();
        for process in self.cx.agents.processes.values_mut() {
            opening.extend(process.pending.drain_if(|_, _, purpose| is_it(purpose)));
        }
        let is_new = !opening.is_empty();
        for request in opening {
            if let agent_process::PendingAgentRequest::New { client, .. }
            | agent_process::PendingAgentRequest::Adopt { client, .. } = request.about
            {
                let message =
                    format!("cannot create the session, because its log cannot be written: {reason}");
                self.cx.refuse(client.0, &client.1, codes::INTERNAL_ERROR, message, None);
            }
        }
        if is_new {
            lifecycle::discard_session(self, id);
        }
    }

    /// Closes the connection of a client that would miss something otherwise.
    pub(crate) fn close_connection(&mut self, connection: ConnectionId, reason: String) {
        if self.cx.clients.connections.contains_key(&connection) {
            self.cx.outbox.push(Output::Close { connection, code: 1011, reason });
            self.disconnected(connection);
        }
    }

    /// Sets the reason why logs cannot be written; `None` if they can. Requests that write are refused meanwhile.
    pub(crate) fn set_log_problem(&mut self, problem: Option<String>) {
        if self.cx.log_problem == problem {
            return;
        }
        match &problem {
            Some(problem) => self.cx.outbox.report(problem.clone()),
            None => self.cx.outbox.report("the log can be written again"),
        }
        self.cx.log_problem = problem;
        if self.cx.log_problem.is_some() {
            return;
        }
        // The state of dormant sessions may be ahead of what was written, so their logs are read again.
        let resting =
            self.sessions.values_mut().filter(|session| session.process.is_none() && session.is_owned);
        let mut read_anew = Vec::new();
        for session in resting.filter(|session| session.state.is_some()) {
            session.state = None;
            session.reset_tail(session.next);
            read_anew.push(Arc::clone(session.id()));
        }
        for id in read_anew {
            if let Some((session, cx)) = self.session(&id) {
                session.load(cx);
            }
        }
    }

    /// Recovers a session that may have been working when the hub crashed. Its log is read in turn, or earlier if a
    /// client needs it.
    pub(crate) fn recover(&mut self, id: &str) {
        if let Some(id) = self.sessions.get(id).map(|session| Arc::clone(session.id())) {
            self.to_recover.push_back(id);
            self.recover_next(None);
        }
    }

    /// Reads the logs of a few sessions at a time, so that clients of other sessions do not wait.
    fn recover_next(&mut self, done: Option<&SessionId>) {
        if let Some(done) = done {
            self.recovering.remove(done);
        }
        while self.recovering.len() < RECOVERIES {
            let Some(id) = self.to_recover.pop_front() else { return };
            let is_unread = |session: &Session| session.state.is_none() && !session.is_loading;
            if self.sessions.get(&id).is_some_and(is_unread) {
                self.recovering.insert(Arc::clone(&id));
                if let Some((session, cx)) = self.session(&id) {
                    session.load(cx);
                }
            }
        }
    }

    /// Returns the metadata of a session and the agent's id of it.
    pub(crate) fn agent_session(&self, id: &str) -> Option<(&SessionInfo, &str)> {
        let session = self.sessions.get(id)?;
        Some((&session.info, session.agent_session()?))
    }

    /// Sets the other hubs that are alive.
    pub(crate) fn set_hubs(&mut self, hubs: Vec<(Arc<str>, HubInfo)>) {
        self.cx.cluster.set_hubs(hubs);
    }

    /// Returns a session, and everything beside the sessions.
    fn session(&mut self, id: &str) -> Option<(&mut Session, &mut Context)> {
        Some((self.sessions.get_mut(id)?, &mut self.cx))
    }

    /// Appends a record to the log of a session. Returns its sequence number, if this hub owns the session.
    fn append(&mut self, id: &str, channel: Channel, text: impl Into<Arc<str>>) -> Option<u64> {
        let (session, cx) = self.session(id)?;
        session.append(cx, channel, text)
    }

    /// Appends a record of the hub itself.
    fn append_hub_record(&mut self, id: &str, record: &HubRecord<'_>) {
        if let Some((session, cx)) = self.session(id) {
            session.append_hub_record(cx, record);
        }
    }

    /// Sends the next queued prompt of a session to its agent, if the session is idle.
    fn run_next_prompt(&mut self, id: &str) {
        if let Some((session, cx)) = self.session(id) {
            Lifecycle::of(session, cx).run_next_prompt();
        }
    }

    /// Delivers a part of the log that was read for a client. `to` is the offset after it.
    pub(crate) fn read(
        &mut self,
        connection: ConnectionId,
        id: &SessionId,
        from: u64,
        part: &[LogRecord],
        to: u64,
    ) {
        if let Some((session, cx)) = self.session(id) {
            Delivery::of(session, cx).read(connection, from, part, to);
        }
    }

    /// Delivers the next portion of a replay.
    pub(crate) fn replayed(
        &mut self,
        connection: ConnectionId,
        id: &SessionId,
        replay: Box<replay::Replay>,
        portion: Vec<replay::ReplayLine>,
    ) {
        let Some((session, cx)) = self.session(id) else { return };
        if let Err(reason) = Delivery::of(session, cx).replayed(connection, replay, portion) {
            self.read_failed(connection, id, reason);
        }
    }

    /// Handles an ack of a client: `acked` bytes of the session have left the send window in total.
    pub(crate) fn acknowledge(&mut self, connection: ConnectionId, id: &SessionId, acked: u64) {
        if let Some((session, cx)) = self.session(id) {
            Delivery::of(session, cx).acknowledge(connection, acked);
        }
    }

    /// Responds to a request of a client. With `after`, the response follows that record of the session's log.
    fn reply_after(
        &mut self,
        connection: ConnectionId,
        request: &RequestId<'static>,
        outcome: Outcome,
        after: Option<(&SessionId, u64)>,
    ) {
        match after.and_then(|(id, after)| Some((self.sessions.get_mut(id)?, after))) {
            Some((session, after)) => {
                Delivery::of(session, &mut self.cx).reply_after(connection, request, outcome, Some(after));
            }
            None => self.cx.reply(connection, request, outcome),
        }
    }

    /// Handles a line of an agent, in version 2.
    pub(crate) fn agent_line(&mut self, process: AgentId, line: &str) {
        agent_lines::agent_line(self, process, line);
    }

    /// Records a line as it was on the wire, on the agent's side of a translation.
    pub(crate) fn wire_line(&mut self, process: AgentId, about: &LineSession, from: Side, text: &str) {
        agent_lines::wire_line(self, process, about, from, text);
    }

    /// Records a loss of the translation to or from an agent.
    pub(crate) fn agent_loss(&mut self, process: AgentId, loss: &Loss) {
        if let Some(session) =
            loss.session.as_deref().and_then(|session| agent_lines::session_of(self, process, session))
        {
            let _ = self.append(&session, Channel::Diagnostic, loss.to_json());
        } else {
            agent_lines::record_beside(self, process, Channel::Diagnostic, &loss.to_json());
        }
    }

    /// Records a line that an agent wrote to its standard error.
    pub(crate) fn agent_stderr(&mut self, process: AgentId, text: &str) {
        agent_lines::record_beside(self, process, Channel::StandardError, text);
        if self.cx.options.reports_standard_error {
            let agent = self.cx.name_of(process);
            self.cx.outbox.report(format!("agent {agent}: {text}"));
        }
    }

    /// Shows a notice about the confinement of a process in its sessions. The first one says how it is confined.
    pub(crate) fn confinement_notice(&mut self, process: AgentId, notice: ConfinementNotice) {
        let Some(known) = self.cx.agents.processes.get_mut(&process) else { return };
        let sessions: Vec<String> = known.sessions.keys().cloned().collect();
        if known.confinement.is_none() {
            known.record_handshake_line(Channel::Process, &notice.title);
            known.confinement = Some(notice);
            return;
        }
        for session in sessions {
            agent_lines::confinement_notice_in(self, process, &session, &notice);
        }
    }

    /// Handles a line on an agent's standard output that is not a JSON-RPC message. The first lines are reported and
    /// recorded; afterwards only their number is, at intervals.
    pub(crate) fn invalid_line(&mut self, process: AgentId, text: &str) {
        agent_lines::invalid_line(self, process, text);
    }

    /// Stores the protocol version that an agent has chosen.
    pub(crate) fn version_negotiated(&mut self, process: AgentId, version: Version) {
        if let Some(process) = self.cx.agents.processes.get_mut(&process) {
            process.version = version.number();
        }
    }

    /// Handles the exit of a process, or its failure to start. Its sessions become dormant.
    pub(crate) fn agent_exited(&mut self, id: AgentId, reason: &str, last_lines: &[String]) {
        agent_process::agent_exited(self, id, reason, last_lines);
    }

    /// Ends unused processes and those that do not complete the handshake. Runs all other timeouts.
    pub(crate) fn tick(&mut self) {
        agent_process::tick(self);
    }

    /// Shuts down: starts no new work and ends all processes.
    pub(crate) fn end(&mut self, reason: &str) {
        agent_process::shut_down(self, reason);
    }

    /// Closes the connection of a client for which the log cannot be read: a gap must not go unnoticed.
    pub(crate) fn read_failed(&mut self, connection: ConnectionId, id: &SessionId, reason: &str) {
        let client = self.cx.clients.connections.get(&connection);
        // A session that was deleted meanwhile has no log.
        if client.is_some_and(|client| client.subscriptions.contains_key(id)) {
            self.cx.outbox.report(format!("cannot read the log of session {id}: {reason}"));
            self.close_connection(connection, format!("cannot read the log of session {id}"));
        }
    }

    /// Resumes a session after the cursor of a client whose connection was interrupted.
    pub(crate) fn resume_at(
        &mut self,
        connection: ConnectionId,
        id: &str,
        cursor: &str,
    ) -> Result<(), ResumeError> {
        let Some(client) = self.cx.clients.connections.get(&connection) else {
            return Err(ResumeError::UnknownSession);
        };
        let session = self.sessions.get(id).filter(|session| session.is_visible_to(&client.identity));
        let session = session.ok_or(ResumeError::UnknownSession)?;
        let held = lines::parse_cursor(id, cursor).filter(|held| held.end <= session.next);
        let held = held.ok_or(ResumeError::UnknownCursor)?;
        let id = Arc::clone(session.id());
        if session.state.is_none() {
            // Attaching needs no state, but delivery does.
            if let Some((session, cx)) = self.session(&id) {
                session.load(cx);
            }
        }
        // Pending questions are asked again under the same ids.
        let pending =
            self.session(&id).and_then(|(session, cx)| Delivery::of(session, cx).take_answer(connection));
        if let Some((session, cx)) = self.session(&id) {
            Delivery::of(session, cx).attach(connection, Start::After(held), pending);
        }
        Ok(())
    }

    /// Handles the reply of another hub; `None` if it did not reply in time.
    pub(crate) fn forward_answered(&mut self, ticket: u64, reply: Option<&str>) {
        forwarding::forward_answered(self, ticket, reply);
    }

    /// Handles a request that another hub has forwarded, with its idempotency key.
    pub(crate) fn receive_forwarded(&mut self, key: &str, message: &str) {
        forwarding::receive_forwarded(self, key, message);
    }

    /// Continues after the log of a session was created, or could not be.
    pub(crate) fn created(&mut self, ticket: u64, known: Result<SessionInfo, String>) {
        lifecycle::created(self, ticket, known);
    }

    /// Removes dormant sessions whose logs no longer exist, because another process has deleted them.
    pub(crate) fn keep_sessions(&mut self, has_log: impl Fn(&str) -> bool) {
        let is_gone = |session: &&Session| {
            session.process.is_none() && !session.is_resuming && session.next > 0 && !has_log(session.id())
        };
        let acked: Vec<SessionId> =
            self.sessions.values().filter(is_gone).map(|session| Arc::clone(session.id())).collect();
        for id in acked {
            lifecycle::drop_session(self, &id);
        }
    }

    /// Records a loss of the translation for a client. A dormant session is not written to: the losses of its history
    /// were recorded when they happened, or are counted with the next work.
    pub(crate) fn client_loss(&mut self, connection: ConnectionId, loss: &Loss) {
        match &loss.session {
            Some(session) => losses::record_loss(self, connection, session, &loss.to_json()),
            None => self.cx.outbox.report(format!("loss in the translation for a client: {loss}")),
        }
    }

    /// Takes the result of a lookup; `None` if the message was not found.
    pub(crate) fn message_found(&mut self, connection: ConnectionId, offset: Result<Option<u64>, String>) {
        message_lookup::message_found(self, connection, offset);
    }

    /// Returns whether this hub owns a session.
    fn is_owner(&self, id: &SessionId) -> bool {
        self.sessions.get(id).is_none_or(|session| session.is_owned)
    }

    /// Takes the result of acquiring a session.
    pub(crate) fn ownership_known(&mut self, id: &SessionId, owned: Result<Ownership, String>) {
        ownership::ownership_known(self, id, owned);
    }

    /// Applies records of another hub, which owns the session.
    pub(crate) fn follow_records(&mut self, id: &str, hub: &Arc<str>, records: &[(u64, Channel, Arc<str>)]) {
        if let Some((session, cx)) = self.session(id) {
            session.follow(cx, hub, records);
        }
    }

    /// Queues the prompts again that an exited process has not received, named by the agent's session ids. Must be
    /// called before [`Core::agent_exited`], which fails all other prompts.
    pub(crate) fn undelivered(&mut self, process: AgentId, agent_sessions: &[String]) {
        redelivery::undelivered(self, process, agent_sessions);
    }

    /// Registers a client connection. With `dedups_by_id` (HTTP), the request id is the idempotency key of a prompt.
    pub(crate) fn connected(
        &mut self,
        connection: ConnectionId,
        identity: Identity,
        agent: usize,
        is_named: bool,
        dedups_by_id: bool,
    ) {
        self.cx
            .clients
            .connections
            .insert(connection, Connection::new(identity, agent, is_named, dedups_by_id));
    }

    /// Notes that the lines of a client are translated by the hub.
    pub(crate) fn translated(&mut self, connection: ConnectionId) {
        client_mut(self, connection, |client| client.is_translated = true);
    }

    /// Removes a client that has disconnected. Its sessions and their work continue.
    pub(crate) fn disconnected(&mut self, connection: ConnectionId) {
        let Some(client) = self.cx.clients.connections.get(&connection) else { return };
        let (name, version) = client.client.clone();
        let attached: Vec<SessionId> = client.subscriptions.keys().cloned().collect();
        for session in attached {
            if let Some((session, cx)) = self.session(&session) {
                Delivery::of(session, cx).detach(connection);
            }
            let client = json!({"clientId": connection.to_string(), "name": name, "version": version});
            let [date, time] = Moment(self.cx.outbox.time).date_and_time();
            let left = json!({
                "sessionUpdate": "client_disconnected", "client": client, "timestamp": format!("{date}T{time}Z"),
            });
            if let Some((session, cx)) = self.session(&session) {
                session.notice(cx, &left, None);
            }
        }
        self.cx.direct_questions().cancel_direct_of_client(connection);
        self.cx.clients.connections.remove(&connection);
    }

    /// Applies a change of a client's token; `None` if it was revoked.
    pub(crate) fn access_changed(&mut self, connection: ConnectionId, identity: Option<Identity>) {
        let Some(client) = self.cx.clients.connections.get_mut(&connection) else { return };
        let Some(identity) = identity else {
            let reason = "the token was revoked".to_owned();
            self.cx.outbox.push(Output::Close { connection, code: 4401, reason });
            self.disconnected(connection);
            return;
        };
        client.identity = identity;
        let identity = client.identity.clone();
        let attached: Vec<SessionId> = client.subscriptions.keys().cloned().collect();
        for id in attached {
            if let Some((session, cx)) = self.session(&id)
                && !session.is_visible_to(&identity)
            {
                Delivery::of(session, cx).detach(connection);
            }
        }
    }

    /// Sets the tokens that sessions are shared with.
    pub(crate) fn set_shares(&mut self, mut shares: HashMap<String, Vec<Starter>>) {
        for (id, session) in &mut self.sessions {
            session.shared = shares.remove(&**id).unwrap_or_default().into_iter().collect();
        }
    }

    /// Pauses a connection that has moved to a new socket, until the client sends its cursors.
    pub(crate) fn reconnected(&mut self, connection: ConnectionId) {
        if let Some(client) = self.cx.clients.connections.get_mut(&connection) {
            client.is_paused = true;
        }
    }

    /// Handles a message of a client, in version 2.
    pub(crate) fn client_line(&mut self, connection: ConnectionId, line: &Arc<str>) {
        requests::client_line(self, connection, line);
    }

    /// Takes the state of a session that was loaded, with the length of its log.
    pub(crate) fn loaded(&mut self, id: &str, state: Result<(SessionState, u64), String>) {
        let Some((id, _)) = self.sessions.get_key_value(id) else {
            let done: SessionId = id.into();
            return self.recover_next(Some(&done));
        };
        let id = Arc::clone(id);
        requests::was_loaded(self, &id, state);
        self.recover_next(Some(&id));
    }

    /// Enables [`Output::Event`].
    pub(crate) fn enable_events(&mut self) {
        self.cx.has_events = true;
    }

    /// Evaluates the policy again for all pending questions, after the rules have changed. Returns the questions that
    /// are answered now.
    pub(crate) fn reevaluate_policy(&mut self) -> Vec<(SessionId, RequestId<'static>)> {
        let mut answered = Vec::new();
        for (id, session) in &mut self.sessions {
            let ids = Questions::of(session, &mut self.cx).reevaluate();
            answered.extend(ids.into_iter().map(|question| (Arc::clone(id), question)));
        }
        answered
    }

    /// Answers a question with an option that holds once, if the question is still as it was shown. `by` is recorded as
    /// the client.
    pub(crate) fn answer_shown(
        &mut self,
        id: &str,
        shown: &PendingQuestionEvent,
        option: &str,
        by: &str,
    ) -> AnswerResult {
        match self.session(id) {
            Some((session, cx)) => SessionEvents::of(session, cx).answer_shown(shown, option, by),
            None => AnswerResult::NotPending,
        }
    }
}
