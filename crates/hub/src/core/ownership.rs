//! Ownership of sessions in a cluster of hubs that share a log.
//!
//! At any time one hub owns a session: it runs the agent and writes the log. The other hubs show the records of the
//! owner and forward the requests of their clients to it. The log decides the owner by a lease with a fencing token;
//! this module only has the last known owner.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use switchboard_acp::rpc::codes;

use super::agent_process::{self, PendingAgentRequest};
use super::connection::ReplyCache;
use super::delivery::Delivery;
use super::forwarding::{self, ForwardedRequest, ReceivedRequest};
use super::lifecycle::Lifecycle;
use super::lines::Outcome;
use super::notices::ClientAction;
use super::questions::Questions;
use super::session::Session;
use super::{AgentId, ConnectionId, Core, Output, SessionId, SessionState, requests};

/// Recorded in a session whose owner, with the agent, has disappeared.
const OWNER_GONE: &str = "the turn was interrupted: the hub that ran the agent has disappeared";
/// Interval in milliseconds at which ownership is checked and forwarded requests are sent again.
const CHECK_INTERVAL: u64 = 500;
/// Time in milliseconds without records after which the ownership of a working session is checked.
const SILENCE: u64 = 10_000;

/// Time in milliseconds without the servers of the log after which forwarded requests fail.
const FORWARD_TIMEOUT: u64 = 60_000;

/// Maximum number of remembered actions of clients in sessions of other hubs. They distinguish a client's own notices
/// from those of others.
const RECENT_ACTIONS: usize = 1024;

/// Description of a hub for the other hubs of its cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HubInfo {
    /// Address for clients.
    pub address: String,
    /// Folders below which its sessions may work.
    pub roots: Vec<String>,
}

/// Result of acquiring a session.
#[derive(Debug)]
pub(crate) enum Ownership {
    /// This hub is the owner now. Contains the folded state of the log and its length.
    Acquired(Box<SessionState>, u64),
    /// The hub with this name is the owner.
    HeldBy(Arc<str>),
}

/// State of the cluster.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    /// The other hubs that are alive.
    pub(super) hubs: BTreeMap<Arc<str>, HubInfo>,
    /// Forwarded requests without a reply, by ticket.
    pub(super) forwarded: BTreeMap<u64, ForwardedRequest>,
    /// Requests of other hubs without a reply, by idempotency key.
    pub(super) received: HashMap<String, ReceivedRequest>,
    /// Replies to other hubs, for duplicates of their requests.
    pub(super) replies: ReplyCache,
    pub(super) last_received: u64,
    /// The last actions of clients of this hub in sessions of other hubs.
    pub(super) recent_actions: VecDeque<(SessionId, ClientAction, ConnectionId)>,
    checked_at: u64,
    /// Time since which the log cannot be written.
    problem_since: Option<u64>,
}

impl Cluster {
    /// Notes the length of a session's log, which has changed; `None` if the session was removed.
    pub(super) fn note_length(&mut self, id: &SessionId, length: Option<u64>) {
        for received in self.received.values_mut().filter(|received| received.session == *id) {
            received.last = length.map(|length| length.saturating_sub(1));
        }
    }

    /// Returns whether no request is waiting, in either direction.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.forwarded.is_empty() && self.received.is_empty()
    }

    /// Sets the other hubs that are alive.
    pub(super) fn set_hubs(&mut self, hubs: Vec<(Arc<str>, HubInfo)>) {
        self.hubs = hubs.into_iter().collect();
    }

    /// Returns an error for a session that cannot run here, with the hubs that have its folder.
    pub(super) fn with_hubs(&self, folder: &str, message: String, mut data: Value) -> (String, Value) {
        let has_it = |info: &&HubInfo| info.roots.iter().any(|root| Path::new(folder).starts_with(root));
        let hubs: Vec<&str> = self.hubs.values().filter(has_it).map(|info| info.address.as_str()).collect();
        if hubs.is_empty() {
            return (message, data);
        }
        let message = format!("{message}; these hubs have the folder: {}", hubs.join(", "));
        data["hubs"] = hubs.into();
        (message, data)
    }

    /// Remembers an action of a client in a session of another hub, which must not be notified about its own action.
    pub(super) fn record_action(&mut self, id: &SessionId, act: ClientAction, connection: ConnectionId) {
        let recent_actions = &mut self.recent_actions;
        if recent_actions.len() >= RECENT_ACTIONS {
            recent_actions.pop_front();
        }
        recent_actions.push_back((Arc::clone(id), act, connection));
    }

    pub(super) fn take_action(&mut self, id: &SessionId, act: &ClientAction) -> Option<ConnectionId> {
        let recent_actions = &mut self.recent_actions;
        let offset = recent_actions.iter().position(|(session, known, _)| session == id && known == act)?;
        recent_actions.remove(offset).map(|(.., connection)| connection)
    }
}

/// Takes the result of acquiring a session.
pub(super) fn ownership_known(core: &mut Core, id: &SessionId, owned: Result<Ownership, String>) {
    let Some(session) = core.sessions.get_mut(id) else { return };
    session.is_acquiring = false;
    // Taken before the match: messages that are dispatched below may wait again.
    let waiting = std::mem::take(&mut session.waiting);
    match owned {
        Ok(Ownership::HeldBy(hub)) => {
            // The log knows the owner earlier than the periodic list of hubs does.
            core.cx.cluster.hubs.entry(Arc::clone(&hub)).or_default();
            session.hub = Some(hub);
        }
        Ok(Ownership::Acquired(state, length)) => {
            session.is_owned = true;
            session.hub = None;
            // Order matters: first the state of the log, then the record that the turn of the previous owner was
            // interrupted, then delivery of both, and only then requests that were forwarded to the previous owner.
            replace_state(core, id, *state, length);
            if let Some((session, cx)) = core.session(id) {
                Lifecycle::of(session, cx).interrupt(OWNER_GONE, None);
                Delivery::of(session, cx).deliver_all();
            }
            let forwarded =
                core.cx.cluster.forwarded.iter().filter(|(_, forwarded)| forwarded.session == *id);
            for ticket in forwarded.map(|(ticket, _)| *ticket).collect::<Vec<_>>() {
                forwarding::retry_forwarded(core, ticket, false);
            }
        }
        Err(reason) => {
            for (connection, line) in waiting {
                let message = format!("cannot write the log of session {id}: {reason}");
                let error = Outcome::error(codes::INTERNAL_ERROR, message, None);
                core.cx.refuse_waiting(connection, &line, &error);
            }
            return;
        }
    }
    for (connection, line) in waiting {
        requests::dispatch(core, connection, &line);
    }
}

/// Replaces the state of a session by that of its log.
pub(super) fn replace_state(core: &mut Core, id: &SessionId, state: SessionState, length: u64) {
    let Some(session) = core.sessions.get_mut(id) else { return };
    let is_closed = |offset: &u64| !state.questions.contains_key(offset);
    let before = session.state.as_ref().map(|state| state.questions.keys().copied());
    let closed: Vec<u64> = before.into_iter().flatten().filter(is_closed).collect();
    session.state = Some(state);
    session.reset_tail(length);
    core.cx.cluster.note_length(id, Some(length));
    for offset in closed {
        if let Some((session, cx)) = core.session(id) {
            Questions::of(session, cx).cancel_asked(offset, None);
        }
    }
}

/// Handles the loss of ownership: another hub writes the session now.
pub(super) fn ownership_lost(core: &mut Core, id: &SessionId) {
    if core.cx.options.name.is_none() {
        return;
    }
    // Cached replies may refer to records that were not written.
    core.cx.cluster.replies = ReplyCache::default();
    if let Some((session, cx)) = core.session(id) {
        session.release_parked(cx);
    }
    let Some(session) = core.sessions.get_mut(id) else { return };
    // From here on nothing can be appended. Everything that needs an append is refused below instead of being
    // dropped.
    session.is_owned = false;
    session.hub = None;
    let waiting = std::mem::take(&mut session.waiting);
    let mut unanswered: Vec<_> =
        session.prompts.drain(..).map(|prompt| (prompt.connection, prompt.id)).collect();
    for process in core.cx.agents.processes.values_mut() {
        let is_its = |purpose: &PendingAgentRequest| match purpose {
            PendingAgentRequest::Prompt { session, .. } => session == id,
            PendingAgentRequest::Forwarded { session, .. } => session.as_ref() == Some(id),
            // The next owner resumes the session itself.
            PendingAgentRequest::Resume { session } | PendingAgentRequest::Recreate { session, .. } => {
                session == id
            }
            _ => false,
        };
        for request in process.pending.drain_if(|_, _, purpose| is_its(purpose)) {
            if let PendingAgentRequest::Prompt { client, .. }
            | PendingAgentRequest::Forwarded { client, .. } = request.about
            {
                unanswered.push(client);
            }
        }
    }
    let error = Outcome::error(
        codes::INTERNAL_ERROR,
        "another hub has taken over this session; send the request again",
        None,
    );
    for (connection, line) in waiting {
        core.cx.refuse_waiting(connection, &line, &error);
    }
    for (connection, request) in unanswered {
        match core.cx.clients.connections.get(&connection).and_then(|client| client.forwarded_key.clone()) {
            Some(key) => core.cx.reject_not_owner(key, id),
            None => core.cx.decline(connection, &request, error.clone()),
        }
    }
}

/// Ends an agent process without sessions, after another hub has taken over the last one.
pub(super) fn end_unused_process(core: &mut Core, id: AgentId, reason: &str) {
    let is_used = core.sessions.values().any(|session| session.process == Some(id))
        || core.cx.agents.creating.values().any(|creating| creating.process == id);
    if core.cx.options.name.is_some() && !is_used {
        core.cx.outbox.push(Output::EndAgent { process: id });
        agent_process::agent_exited(core, id, reason, &[]);
    }
}

/// Releases sessions without work, sends forwarded requests again, and acquires sessions whose owner has
/// disappeared.
pub(super) fn check_cluster(core: &mut Core) {
    if core.cx.options.name.is_none() || core.cx.outbox.now < core.cx.cluster.checked_at + CHECK_INTERVAL {
        return;
    }
    core.cx.cluster.checked_at = core.cx.outbox.now;
    let is_well = core.cx.log_problem.is_none() && !core.cx.is_ending;
    match core.cx.log_problem.clone() {
        None => core.cx.cluster.problem_since = None,
        Some(problem) => {
            let since = *core.cx.cluster.problem_since.get_or_insert(core.cx.outbox.now);
            if core.cx.outbox.now.saturating_sub(since) >= FORWARD_TIMEOUT {
                forwarding::fail_forwarded(core, &problem);
            }
        }
    }
    // Forwarded requests without a reply are sent again with the same idempotency key, so the owner executes them
    // once.
    let due: Vec<u64> = core
        .cx
        .cluster
        .forwarded
        .iter_mut()
        .filter_map(|(ticket, forwarded)| std::mem::take(&mut forwarded.is_due).then_some(*ticket))
        .collect();
    for ticket in due {
        let Some(ForwardedRequest { hub, message, is_refused, is_superseded, .. }) =
            core.cx.cluster.forwarded.get(&ticket)
        else {
            continue;
        };
        if *is_superseded {
            forwarding::resend_forwarded(core, ticket);
        } else if *is_refused {
            forwarding::retry_forwarded(core, ticket, true);
        } else if core.cx.cluster.hubs.contains_key(hub) || !is_well {
            let (hub, message) = (Arc::clone(hub), Arc::clone(message));
            core.cx.outbox.push(Output::Forward { hub, ticket, message });
        } else {
            forwarding::retry_forwarded(core, ticket, false);
        }
    }
    let mut unneeded = Vec::new();
    let mut orphaned = Vec::new();
    for session in core.sessions.values() {
        if session.is_owned && is_unneeded(session) {
            unneeded.push(Arc::clone(session.id()));
        }
        let is_at_work = |state: &SessionState| state.is_busy() || !state.questions.is_empty();
        let has_hub = session.hub.as_ref().is_some_and(|hub| core.cx.cluster.hubs.contains_key(hub));
        // A live hub may have lost the session without a client there noticing.
        let due = match has_hub {
            true => session.acquire_started_at.max(session.last_heard_at) + SILENCE,
            false => session.acquire_started_at + CHECK_INTERVAL,
        };
        let is_followed = !session.is_owned && session.state.as_ref().is_some_and(is_at_work);
        if is_followed && is_well && core.cx.outbox.now >= due {
            orphaned.push(Arc::clone(session.id()));
        }
    }
    // Released explicitly, so that another hub can acquire the session at once.
    for id in unneeded {
        if let Some(session) = core.sessions.get_mut(&id) {
            session.is_owned = false;
        }
        if let Some((session, cx)) = core.session(&id) {
            session.release_parked(cx);
        }
        core.cx.outbox.push(Output::Release { session: id });
    }
    for id in orphaned {
        if let Some((session, cx)) = core.session(&id) {
            session.acquire(cx);
        }
    }
}

fn is_unneeded(session: &Session) -> bool {
    session.process.is_none()
        && !session.is_resuming
        && session.prompts.is_empty()
        && session.waiting.is_empty()
}
