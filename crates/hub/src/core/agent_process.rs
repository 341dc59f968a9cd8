//! Lifecycle of agent processes: started on demand, ended when unused, with the requests that are pending at each.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard_acp::rpc::{RequestId, codes};
use switchboard_acp::{Correlator, OpenRequest, Raw, Side};
use switchboard_store::Channel;
use switchboard_transport::{ConfinementNotice, Oddities, SharedText};

use super::client_message::ClientMessage;
use super::lifecycle::{self, Lifecycle};
use super::lines::{Outcome, Rewrite};
use super::services::Services;
use super::session::{Prompt, Session};
use super::{
    AgentId, ConnectionId, Core, Output, SessionId, SessionState, dormancy, ownership, redelivery, requests,
    unresponsive,
};

/// Maximum number of buffered lines for sessions that are being opened.
const EARLY_LINES: usize = 1024;
/// Maximum size of these lines in bytes.
const EARLY_BYTES: usize = 1024 * 1024;
/// Maximum number of recorded handshake lines.
const HANDSHAKE_LINES: usize = 256;
/// Maximum size of one handshake line in bytes.
const HANDSHAKE_LINE_BYTES: usize = 64 * 1024;
/// Beginning of the error message for an agent that does not complete the handshake.
pub const NO_HANDSHAKE: &str = "the agent did not answer the handshake";
/// Number of lines of standard error that the error for a failed handshake includes.
const LAST_LINES: usize = 10;
/// Maximum number of methods whose last notification outside any session is kept, and maximum size of each in bytes.
const MAX_BROADCASTS: usize = 16;
const BROADCAST_BYTES: usize = 64 * 1024;
/// Maximum number of pending requests to one agent.
const MAX_PENDING: usize = 10_000;

/// Description of an agent by itself: the result of `initialize`.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) result: String,
    /// The protocol version that the agent speaks.
    pub(crate) version: u16,
}

/// State of one agent process.
#[derive(Debug)]
pub(super) struct AgentProcess {
    pub(super) agent: usize,
    /// The client capabilities that the agent was offered.
    pub(super) services: Services,
    /// The folders of a confined process.
    pub(super) roots: Vec<String>,
    /// The notice about the confinement of the process, for each session.
    pub(super) confinement: Option<ConfinementNotice>,
    /// The protocol version that the agent speaks.
    pub(super) version: u16,
    pub(super) is_ready: bool,
    pub(super) is_ending: bool,
    pub(super) last_id: i64,
    pub(super) pending: Correlator<PendingAgentRequest>,
    /// The sessions that are in this process or about to be, also those that are dormant meanwhile.
    pub(super) users: HashSet<SessionId>,
    /// Sessions and those of sub-agents, by the agent's ids.
    pub(super) sessions: HashMap<String, SessionId>,
    /// Lines of sessions that are being opened, by the agent's ids.
    pub(super) early: VecDeque<(String, Arc<str>)>,
    pub(super) early_bytes: usize,
    /// The last unknown session about which the operator was told that the agent sends updates for it.
    unknown_session: String,
    /// Messages of clients that wait until the handshake is complete.
    pub(super) waiting: Vec<(ConnectionId, ClientMessage)>,
    /// Lines of the handshake, which are written at the beginning of each log.
    pub(super) handshake_lines: Vec<(Channel, Arc<str>)>,
    /// Invalid lines on standard output: those reported to the operator, and those recorded in the logs.
    pub(super) invalid_reported: Oddities,
    pub(super) invalid_recorded: Oddities,
    /// True if a session has left this process because it did not stop after a cancellation. It gets no new sessions.
    pub(super) is_unresponsive: bool,
    /// The agent's ids of sessions that have left this process, about which it may still send lines.
    pub(super) left_sessions: HashSet<String>,
    /// The reason for ending the process, if it is not lack of use.
    pub(super) end_reason: Option<String>,
    pub(super) since: u64,
    pub(super) idle_since: Option<u64>,
    /// The last notification of each method outside any session, such as the login state. Clients that connect later
    /// get it, as they would from an agent of their own.
    announced: Vec<(String, SharedText)>,
}

/// A request to an agent that has no response yet, by its purpose.
#[derive(Debug)]
pub(super) enum PendingAgentRequest {
    Handshake,
    /// Opens a session for a client, with this log.
    New {
        session: SessionId,
        client: (ConnectionId, RequestId<'static>),
    },
    /// Adopts a session that only the agent has, with this log.
    Adopt {
        session: SessionId,
        client: (ConnectionId, RequestId<'static>),
    },
    /// Lists the sessions that the agent itself has.
    AgentSessions {
        client: (ConnectionId, RequestId<'static>),
    },
    /// Resumes a dormant session.
    Resume {
        session: SessionId,
    },
    /// Creates a new session in place of one that the agent has lost.
    Recreate {
        session: SessionId,
        /// Number of earlier attempts.
        tries: usize,
    },
    Prompt {
        session: SessionId,
        client: (ConnectionId, RequestId<'static>),
        operation: Option<String>,
        /// As the client sent it, in case it must be delivered again.
        params: Raw<'static>,
        /// Number of redeliveries.
        redeliveries: usize,
    },
    /// Any other request of a client.
    Forwarded {
        session: Option<SessionId>,
        client: (ConnectionId, RequestId<'static>),
    },
    /// Copies a session.
    Fork {
        params: Raw<'static>,
        of: SessionId,
        client: (ConnectionId, RequestId<'static>),
    },
    Close,
    /// A prompt of a turn that the hub has ended itself.
    Abandoned {
        session: SessionId,
    },
}

impl PendingAgentRequest {
    /// Returns the session that a request belongs to.
    pub(super) fn session(&self) -> Option<&SessionId> {
        match self {
            PendingAgentRequest::New { session, .. }
            | PendingAgentRequest::Adopt { session, .. }
            | PendingAgentRequest::Resume { session }
            | PendingAgentRequest::Recreate { session, .. }
            | PendingAgentRequest::Prompt { session, .. }
            | PendingAgentRequest::Abandoned { session }
            | PendingAgentRequest::Fork { of: session, .. } => Some(session),
            PendingAgentRequest::Forwarded { session, .. } => session.as_ref(),
            PendingAgentRequest::Handshake
            | PendingAgentRequest::AgentSessions { .. }
            | PendingAgentRequest::Close => None,
        }
    }
}

/// Handles the exit of a process, or its failure to start. Its sessions become dormant.
pub(super) fn agent_exited(core: &mut Core, id: AgentId, reason: &str, last_lines: &[String]) {
    if !core.cx.agents.processes.contains_key(&id) {
        return;
    }
    // Undelivered prompts are queued again first: everything that is still pending below fails.
    let unsent = core.cx.outbox.take_unsent(id);
    redelivery::undelivered(core, id, &unsent);
    let Some(mut process) = core.cx.agents.processes.remove(&id) else { return };
    core.cx.outbox.summary_version += 1;
    let end_reason = process.end_reason.take();
    let reason = end_reason.as_deref().unwrap_or(reason);
    let data = (!last_lines.is_empty()).then(|| json!({"stderr": last_lines}));
    let error = || Outcome::error(codes::INTERNAL_ERROR, reason, data.clone());
    let agent = core.cx.options.agents.get(process.agent).cloned().unwrap_or_default();
    if let Some(total) = process.invalid_reported.total() {
        core.cx.outbox.report(format!("agent {agent}: {total}"));
    }
    if !core.cx.is_ending {
        core.cx.outbox.report(format!("agent {agent}: {reason}"));
    }
    // Every pending request gets its error before the sessions are interrupted, so that clients see the response
    // before the idle state.
    for OpenRequest { about: purpose, .. } in process.pending.drain_of(Side::Client) {
        match purpose {
            PendingAgentRequest::Handshake
            | PendingAgentRequest::Close
            | PendingAgentRequest::Abandoned { .. } => {}
            PendingAgentRequest::Resume { session } | PendingAgentRequest::Recreate { session, .. } => {
                if let Some((session, cx)) = core.session(&session) {
                    Lifecycle::of(session, cx).resume_failed(&error());
                }
            }
            PendingAgentRequest::New { session, client } | PendingAgentRequest::Adopt { session, client } => {
                core.cx.reply(client.0, &client.1, error());
                lifecycle::discard_session(core, &session);
            }
            PendingAgentRequest::Prompt { session, client, operation, .. } => {
                if let Some((session, cx)) = core.session(&session) {
                    Lifecycle::of(session, cx).prompt_failed(operation.as_deref(), &error());
                }
                core.cx.reply(client.0, &client.1, error());
            }
            PendingAgentRequest::Forwarded { client, .. }
            | PendingAgentRequest::Fork { client, .. }
            | PendingAgentRequest::AgentSessions { client } => {
                core.cx.reply(client.0, &client.1, error());
            }
        }
    }
    core.cx.direct_questions().cancel_direct(id, None);
    let lost: Vec<SessionId> = core
        .sessions
        .values()
        .filter(|session| session.process == Some(id))
        .map(|session| Arc::clone(session.id()))
        .collect();
    for session in lost {
        let Some((lost, cx)) = core.session(&session) else { continue };
        // A process that the hub has ended for lack of use was not lost.
        let exit = (!process.is_ending).then(|| exit_reason(reason, last_lines));
        let is_resuming = Lifecycle::of(lost, cx).process_exited(reason, data.as_ref(), exit);
        // An agent that exits before the handshake is complete would do so again.
        if is_resuming && !process.is_ready {
            if let Some((session, cx)) = core.session(&session) {
                Lifecycle::of(session, cx).resume_failed(&error());
            }
            continue;
        }
        core.cx.outbox.push(Output::CloseLog { session: Arc::clone(&session) });
        // Dispatched again after the reset: these messages may start the next process.
        let waiting = core.sessions.get_mut(&session).map(|session| std::mem::take(&mut session.waiting));
        for (connection, message) in waiting.unwrap_or_default() {
            requests::dispatch(core, connection, &message);
        }
        // Queued prompts resume the session, unless the hub is shutting down.
        core.run_next_prompt(&session);
    }
    let mut parked = Vec::new();
    for session in core.sessions.values_mut().filter(|session| session.parked == Some(id)) {
        // A parked session does not notice the exit. It needs `session/resume` in the next process, which waiting
        // messages start at once.
        session.parked = None;
        if !session.prompts.is_empty() || !session.waiting.is_empty() {
            parked.push((Arc::clone(session.id()), std::mem::take(&mut session.waiting)));
        }
    }
    for (session, waiting) in parked {
        for (connection, message) in waiting {
            requests::dispatch(core, connection, &message);
        }
        core.run_next_prompt(&session);
    }
    for (connection, message) in process.waiting {
        core.cx.refuse_waiting(connection, &message, &error());
    }
    let tickets: Vec<u64> = core
        .cx
        .agents
        .creating
        .iter()
        .filter(|(_, creating)| creating.process == id)
        .map(|(ticket, _)| *ticket)
        .collect();
    for ticket in tickets {
        // The log is removed as soon as it has been created.
        if let Some(creating) = core.cx.agents.creating.get_mut(&ticket) {
            let (connection, request) = creating.client.clone();
            creating.client.0 = 0;
            core.cx.reply(connection, &request, error());
        }
    }
}

/// Ends unused processes and those that do not complete the handshake. Runs all other timeouts.
pub(super) fn tick(core: &mut Core) {
    ownership::check_cluster(core);
    unresponsive::abandon_overdue_turns(core);
    dormancy::suspend_idle_sessions(core);
    core.cx.keep_warm();
    let ids: Vec<AgentId> = core.cx.agents.processes.keys().copied().collect();
    for id in ids {
        let needs = |session: &Session| {
            session.process == Some(id)
                && (!session.subscribers.is_empty()
                    || session.state.as_ref().is_some_and(SessionState::is_busy)
                    || session.is_resuming)
        };
        let is_needed = core.sessions.values().any(needs)
            || core.cx.agents.creating.values().any(|creating| creating.process == id);
        let is_at_work = !unresponsive::at_work_in(core, id).is_empty();
        let is_warm = core.cx.is_warm(id);
        let (now, idle, handshake) = (core.cx.outbox.now, core.cx.options.idle, core.cx.options.handshake);
        let Some(process) = core.cx.agents.processes.get_mut(&id) else { continue };
        if process.is_ending {
            continue;
        }
        if !process.is_ready {
            if now.saturating_sub(process.since) >= handshake {
                let last_lines = process.last_lines();
                let within = Duration::from_millis(handshake);
                let reason = format!("{NO_HANDSHAKE} within {within:?}");
                core.cx.outbox.push(Output::EndAgent { process: id });
                agent_exited(core, id, &reason, &last_lines);
            }
            continue;
        }
        // Sessions have left it for another process. It is kept only while others work in it.
        if process.is_unresponsive && !is_at_work {
            core.cx.end_agent(id, "was ended because it did not stop after a cancellation");
            continue;
        }
        if is_needed || is_warm || process.has_pending() {
            process.idle_since = None;
        } else if now.saturating_sub(*process.idle_since.get_or_insert(now)) >= idle {
            process.is_ending = true;
            core.cx.outbox.push(Output::EndAgent { process: id });
        }
    }
}

/// Shuts down: starts no new work and ends all processes.
pub(super) fn shut_down(core: &mut Core, reason: &str) {
    core.cx.is_ending = true;
    let ids: Vec<SessionId> = core.sessions.keys().cloned().collect();
    for id in ids {
        let queued: Vec<Prompt> =
            core.sessions.get_mut(&id).map(|session| session.prompts.drain(..).collect()).unwrap_or_default();
        for prompt in queued {
            core.cx.refuse(prompt.connection, &prompt.id, codes::INTERNAL_ERROR, reason, None);
        }
    }
    let processes: Vec<AgentId> = core.cx.agents.processes.keys().copied().collect();
    for process in processes {
        core.cx.outbox.push(Output::EndAgent { process });
        agent_exited(core, process, reason, &[]);
    }
    let connections: Vec<ConnectionId> = core.cx.clients.connections.keys().copied().collect();
    for connection in connections {
        core.cx.outbox.push(Output::Close { connection, code: 1001, reason: reason.to_owned() });
    }
}

/// Sends a request of a client to an agent.
pub(super) fn send_request(
    core: &mut Core,
    process: AgentId,
    session: Option<&SessionId>,
    method: &str,
    params: Option<&Raw<'_>>,
    name: Option<&str>,
    purpose: PendingAgentRequest,
) -> Result<(), requests::Refusal> {
    let client = match &purpose {
        PendingAgentRequest::Forwarded { client, .. }
        | PendingAgentRequest::Fork { client, .. }
        | PendingAgentRequest::AgentSessions { client } => Some(client.clone()),
        _ => None,
    };
    let rewrite = Rewrite { session: name, drops_hub_meta: true, ..Rewrite::default() };
    let Some((number, line)) = core.cx.agents.build_request(process, method, params, rewrite, purpose) else {
        let message = "the agent has too many pending requests; try again later".to_owned();
        return Err((codes::INTERNAL_ERROR, message, None));
    };
    if let (Some((connection, id)), RequestId::Number(number)) = (client, number)
        && let Some(asked) = core
            .cx
            .clients
            .connections
            .get_mut(&connection)
            .and_then(|known| known.pending.get_mut(Side::Client, &id))
    {
        asked.at_agent = Some((process, number));
    }
    if let Some(session) = session {
        let _ = core.append(session, Channel::ToAgent, line.as_str());
    }
    core.cx.outbox.push(Output::ToAgent { process, line, session: session.cloned() });
    Ok(())
}

/// Returns the reason for an exit, with the last lines of standard error.
fn exit_reason(reason: &str, last_lines: &[String]) -> String {
    std::iter::once(reason).chain(last_lines.iter().map(String::as_str)).collect::<Vec<_>>().join("\n")
}

impl AgentProcess {
    /// Returns whether the operator was not told yet that the agent sends updates about this unknown session.
    pub(super) fn is_new_unknown_session(&mut self, session: &str) -> bool {
        let is_new = self.unknown_session != session;
        if is_new {
            session.clone_into(&mut self.unknown_session);
        }
        is_new
    }

    /// Remembers the last notification of a method, for clients that connect later.
    pub(super) fn remember_broadcast(&mut self, method: &str, line: &SharedText) {
        if line.len() > BROADCAST_BYTES {
            return;
        }
        if let Some((_, last)) = self.announced.iter_mut().find(|(known, _)| known == method) {
            *last = line.clone();
        } else if self.announced.len() < MAX_BROADCASTS {
            self.announced.push((method.to_owned(), line.clone()));
        }
    }

    /// Returns the notifications that a client which connects now has missed.
    pub(super) fn broadcasts(&self) -> Vec<SharedText> {
        self.announced.iter().map(|(_, line)| line.clone()).collect()
    }

    /// Allocates the id of a new request, unless too many are pending.
    pub(super) fn register(&mut self, purpose: PendingAgentRequest) -> Option<RequestId<'static>> {
        let id = RequestId::Number(self.last_id + 1);
        self.pending.open(Side::Client, &id, purpose).ok()?;
        self.last_id += 1;
        Some(id)
    }

    /// Takes the pending request that a response belongs to.
    pub(super) fn answered(&mut self, id: &RequestId<'_>) -> Option<PendingAgentRequest> {
        self.pending.answered(Side::Agent, id)
    }

    /// Returns the client that sent a pending request, with its own id of the request.
    pub(super) fn client_of(&self, id: &RequestId<'_>) -> Option<&(ConnectionId, RequestId<'static>)> {
        match self.pending.get(Side::Client, id)? {
            PendingAgentRequest::New { client, .. }
            | PendingAgentRequest::Adopt { client, .. }
            | PendingAgentRequest::AgentSessions { client }
            | PendingAgentRequest::Forwarded { client, .. }
            | PendingAgentRequest::Fork { client, .. } => Some(client),
            // Questions about a prompt are asked in its session.
            PendingAgentRequest::Prompt { .. }
            | PendingAgentRequest::Handshake
            | PendingAgentRequest::Resume { .. }
            | PendingAgentRequest::Recreate { .. }
            | PendingAgentRequest::Abandoned { .. }
            | PendingAgentRequest::Close => None,
        }
    }

    /// Returns the session of a pending prompt.
    pub(super) fn session_of_prompt(&self, id: &RequestId<'_>) -> Option<&SessionId> {
        match self.pending.get(Side::Client, id)? {
            PendingAgentRequest::Prompt { session, .. } => Some(session),
            _ => None,
        }
    }

    /// Returns whether a client waits for a response of the agent.
    fn has_pending(&self) -> bool {
        self.pending.iter().any(|(.., purpose)| !matches!(purpose, PendingAgentRequest::Abandoned { .. }))
    }

    /// Returns the pending prompts of a session.
    pub(super) fn prompts_of(&self, id: &SessionId) -> Vec<RequestId<'static>> {
        let is_it = |purpose: &PendingAgentRequest| matches!(purpose, PendingAgentRequest::Prompt { session, .. } if session == id);
        self.pending.iter().filter(|(.., purpose)| is_it(purpose)).map(|(_, id, _)| id.clone()).collect()
    }

    /// Drops the abandoned prompts of a session.
    pub(super) fn drop_abandoned(&mut self, id: &SessionId) {
        drop(self.pending.drain_if(
            |_, _, purpose| matches!(purpose, PendingAgentRequest::Abandoned { session } if session == id),
        ));
    }

    /// Returns the session with this id at the agent.
    pub(super) fn session(&self, id: &str) -> Option<&SessionId> {
        self.sessions.get(id)
    }

    /// Maps an id of the agent to a session.
    pub(super) fn bind(&mut self, id: &str, session: &SessionId) {
        self.sessions.insert(id.to_owned(), Arc::clone(session));
    }

    /// Buffers a line of a session that may still be opening. Returns whether there was space.
    pub(super) fn buffer_early(&mut self, session: &str, line: &str) -> bool {
        if self.early.len() >= EARLY_LINES || self.early_bytes + line.len() > EARLY_BYTES {
            return false;
        }
        self.early_bytes += line.len();
        self.early.push_back((session.to_owned(), line.into()));
        true
    }

    /// Completes the handshake. Returns the messages that waited for it.
    pub(super) fn complete_handshake(&mut self, answer: &str) -> Vec<(ConnectionId, ClientMessage)> {
        self.is_ready = true;
        self.handshake_lines.push((Channel::ToClient, answer.into()));
        std::mem::take(&mut self.waiting)
    }

    /// Returns the last lines of standard error before the handshake was complete.
    fn last_lines(&self) -> Vec<String> {
        let errors = self.handshake_lines.iter().filter(|(channel, _)| *channel == Channel::StandardError);
        let lines: Vec<String> = errors.map(|(_, text)| text.to_string()).collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].to_vec()
    }

    /// Returns whether sessions can be opened in this process.
    /// Returns whether no session is or was in this process, and none is being opened in it.
    pub(super) fn is_without_sessions(&self) -> bool {
        let opens = |request: &PendingAgentRequest| !matches!(request, PendingAgentRequest::Handshake);
        self.sessions.is_empty()
            && self.left_sessions.is_empty()
            && !self.pending.iter().any(|(_, _, request)| opens(request))
    }

    pub(super) fn takes_sessions(&self) -> bool {
        !self.is_ending && !self.is_unresponsive
    }

    /// Records a line of the handshake.
    pub(super) fn record_handshake_line(&mut self, channel: Channel, text: &str) {
        if !self.is_ready
            && self.handshake_lines.len() < HANDSHAKE_LINES
            && text.len() <= HANDSHAKE_LINE_BYTES
        {
            self.handshake_lines.push((channel, text.into()));
        }
    }

    /// Creates the state of a process that is being started, at this time.
    pub(super) fn new(agent: usize, services: Services, roots: Vec<String>, now: u64) -> Self {
        AgentProcess {
            agent,
            services,
            roots,
            confinement: None,
            version: 2,
            is_ready: false,
            is_ending: false,
            last_id: 0,
            pending: Correlator::new(MAX_PENDING),
            users: HashSet::new(),
            sessions: HashMap::new(),
            early: VecDeque::new(),
            early_bytes: 0,
            unknown_session: String::new(),
            waiting: Vec::new(),
            handshake_lines: Vec::new(),
            invalid_reported: Oddities::shown(),
            invalid_recorded: Oddities::recorded(),
            is_unresponsive: false,
            left_sessions: HashSet::new(),
            end_reason: None,
            since: now,
            idle_since: None,
            announced: Vec::new(),
        }
    }
}
