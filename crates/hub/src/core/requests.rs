//! Connections of clients, and dispatch of their messages.

use std::sync::Arc;

use serde_json::json;
use switchboard_acp::extensions::{END_AGENT_METHOD, OPERATION_ID};
use switchboard_acp::rpc::{Message, RequestId, codes};
use switchboard_acp::{Raw, Side};

use super::client_message::ClientMessage;
use super::connection::{Connection, MAX_PENDING, PendingClientRequest};
use super::delivery::Delivery;
use super::lifecycle::Lifecycle;
use super::lines::{self, Outcome};
use super::method_table::{Form, Method};
use super::outbox::Dropped;
use super::session::Session;
use super::session_state::{SUBAGENT_SEPARATOR, SessionState};
use super::{
    ConnectionId, Core, Output, SessionId, listing, methods, notifications, questions, unresponsive,
};

/// Maximum number of messages that wait for a session to be loaded.
pub(super) const WAITING: usize = 1024;

/// A request of a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientRequest<'r> {
    pub(super) connection: ConnectionId,
    pub(super) id: &'r RequestId<'static>,
    pub(super) method: &'r str,
    pub(super) params: Option<&'r Raw<'r>>,
    /// The whole message, in case it must wait.
    pub(super) line: &'r ClientMessage,
}

/// Handles a message of a client, in version 2. Returns whether it is a request.
pub(super) fn client_line(core: &mut Core, connection: ConnectionId, line: &Arc<str>) -> bool {
    match ClientMessage::decode(Arc::clone(line)) {
        Ok(message) => {
            receive(core, connection, &message);
            message.request().is_some()
        }
        Err(error) => {
            if core.cx.clients.connections.contains_key(&connection) {
                let error = Outcome::error(codes::INVALID_REQUEST, error.to_string(), None);
                core.cx.outbox.send(connection, lines::answer(&RequestId::Null, &error), None);
            } else {
                core.cx.outbox.drop_message(Dropped::DisconnectedClient);
            }
            false
        }
    }
}

/// Notes a message as pending, if it is a request and no duplicate, and dispatches it.
fn receive(core: &mut Core, connection: ConnectionId, line: &ClientMessage) {
    let Some(client) = core.cx.clients.connections.get_mut(&connection) else {
        return core.cx.outbox.drop_message(Dropped::DisconnectedClient);
    };
    let message = line.message();
    if client.is_paused && message.method() != Some("stream/resume") {
        let reason = "the first message of a resumed connection must be stream/resume".to_owned();
        core.cx.outbox.push(Output::Close { connection, code: 1002, reason });
        return;
    }
    if let Message::Request(request) = message {
        let id = request.id.clone();
        let params = request.params.as_ref();
        let is_repeatable = client.dedups_by_id && request.method == "session/prompt";
        let operation = params
            .and_then(|params| OPERATION_ID.of(params))
            .or_else(|| is_repeatable.then(|| format!("{connection}:{}", lines::id_text(&id))));
        let known = operation
            .as_deref()
            .and_then(|operation| core.cx.clients.answers.get(&client.identity.key(), operation));
        if let Some(mut outcome) = known.cloned() {
            // A duplicate whose response was lost in transit: the cached reply is sent again. The turn may be over
            // by now.
            let session = lines::text_of(params, "sessionId").and_then(|id| core.sessions.get(&*id));
            let state = session.and_then(|session| session.state.as_ref());
            if let Some(prompt) = operation.as_deref().and_then(|operation| state?.operation(operation)) {
                outcome = client.of_turn(outcome, prompt.ended.as_deref());
            }
            if !client.pending.contains(Side::Client, &id) {
                let asked = PendingClientRequest { stream: None, operation: None, at_agent: None };
                drop(client.pending.open(Side::Client, &id, asked));
            }
            return core.cx.reply(connection, &id, outcome);
        }
        if client.pending.contains(Side::Client, &id) {
            // A duplicate of a request that is still pending, which gets the only response.
            return core.cx.outbox.drop_message(Dropped::DuplicateRequest);
        }
        let is_full = client.pending.len() >= MAX_PENDING;
        // Clients expect the response to a request that opens a session on the stream of the connection.
        let stream = match &*request.method {
            "session/load" | "session/resume" | "session/new" | "session/fork" => None,
            _ => lines::text_of(params, "sessionId").and_then(|id| core.sessions.get_key_value(&*id)),
        };
        let asked =
            PendingClientRequest { stream: stream.map(|(id, _)| Arc::clone(id)), operation, at_agent: None };
        drop(client.pending.open(Side::Client, &id, asked));
        if is_full {
            let message = format!("{MAX_PENDING} requests are already pending; wait for their responses");
            return core.cx.refuse(connection, &id, codes::INTERNAL_ERROR, message, None);
        }
    }
    dispatch(core, connection, line);
}

/// Dispatches a message, again if it had to wait.
pub(super) fn dispatch(core: &mut Core, connection: ConnectionId, line: &ClientMessage) {
    let Some(client) = core.cx.clients.connections.get(&connection) else {
        return core.cx.outbox.drop_message(Dropped::DisconnectedClient);
    };
    match line.message() {
        Message::Response(response) => questions::answered(core, connection, response, line),
        Message::Notification(notification) => {
            notifications::handle_notification(core, connection, notification, line);
        }
        Message::Request(request) => {
            let id = request.id.clone();
            if !client.is_initialized && request.method != "initialize" {
                let message = "say initialize first";
                return core.cx.refuse(connection, &id, codes::INVALID_REQUEST, message, None);
            }
            let (method, params) = (&*request.method, request.params.as_ref());
            let asked = ClientRequest { connection, id: &id, method, params, line };
            if let Err((code, message, data)) = handle_request(core, asked) {
                core.cx.refuse(connection, &id, code, message, data);
            }
        }
    }
}

pub(super) fn handle_request(core: &mut Core, request: ClientRequest<'_>) -> Result<(), Refusal> {
    let ClientRequest { connection, id, method, params, .. } = request;
    let properties = Method::of(method, Form::Request);
    core.cx.access().authorize(connection, properties, params)?;
    if let Some(problem) = core.cx.log_problem.as_ref().filter(|_| properties.is_logged) {
        let message = format!("{problem}; the hub continues by itself when the log can be written");
        return Err((codes::INTERNAL_ERROR, message, Some(json!({"log": problem}))));
    }
    match method {
        "initialize" => methods::initialize(core, request),
        "session/resume" if lines::is_about_agent_sessions(params) => methods::adopt(core, request),
        "session/unarchive" if target_session(core, connection, params).is_err() => {
            methods::query_agent_sessions(core, request)
        }
        _ if lines::is_about_agent_sessions(params) => methods::query_agent_sessions(core, request),
        "session/list" => listing::list_sessions(core, request),
        "session/new" => methods::new_session(core, request),
        "session/resume" => methods::resume_session_request(core, request),
        "session/attach" => methods::attach_request(core, request),
        "session/detach" => methods::detach_request(core, request),
        "session/prompt" => methods::queue_prompt(core, request),
        "session/close" => methods::close_session(core, request),
        "session/delete" => methods::delete_session(core, request),
        "session/set_title" => methods::set_title(core, request),
        END_AGENT_METHOD => unresponsive::end_agent_request(core, request),
        // A notification in the draft. A client that sends a request gets a response.
        "stream/resume" => {
            notifications::resume_streams(core, connection, params);
            core.cx.reply(connection, id, Outcome::Result("{}".to_owned()));
            Ok(())
        }
        _ => methods::forward_request_to_agent(core, request),
    }
}

/// Returns the session that a message names, by the hub's id or that of a sub-agent.
pub(super) fn target_session(
    core: &Core,
    connection: ConnectionId,
    params: Option<&Raw<'_>>,
) -> Result<TargetSession, Refusal> {
    let Some(name) = lines::text_of(params, "sessionId") else {
        return Err((codes::INVALID_PARAMS, "at /params/sessionId: missing session id".to_owned(), None));
    };
    let unknown = || {
        let name = lines::truncated(&name);
        let message = format!("session {name} does not exist or is not visible to this token");
        Err((codes::RESOURCE_NOT_FOUND, message, Some(json!({"sessionId": name}))))
    };
    let Some(client) = core.cx.clients.connections.get(&connection) else { return unknown() };
    if let Some(session) = core.sessions.get(&*name) {
        if !session.is_visible_to(&client.identity) {
            return unknown();
        }
        return Ok(TargetSession { session: Arc::clone(session.id()), child: None });
    }
    let Some((parent, child)) = name.split_once(SUBAGENT_SEPARATOR) else { return unknown() };
    let is_child = |session: &&Session| {
        session.is_visible_to(&client.identity)
            && session.state.as_ref().is_some_and(|state| state.is_child(child))
    };
    match core.sessions.get(parent).filter(is_child) {
        Some(parent) => Ok(TargetSession { session: Arc::clone(parent.id()), child: Some(child.to_owned()) }),
        None => unknown(),
    }
}

/// Returns whether the log of a session is loaded. Otherwise starts loading it, and dispatches the message again
/// afterwards.
pub(super) fn is_loaded(
    core: &mut Core,
    id: &SessionId,
    connection: ConnectionId,
    line: &ClientMessage,
) -> Result<bool, Refusal> {
    let Some(session) = core.sessions.get_mut(id) else { return Ok(false) };
    if session.state.is_some() {
        return Ok(true);
    }
    if session.waiting.len() >= WAITING {
        return Err((
            codes::INTERNAL_ERROR,
            "too many messages wait for this session; try again later".to_owned(),
            None,
        ));
    }
    session.waiting.push_back((connection, line.clone()));
    if let Some((session, cx)) = core.session(id) {
        session.load(cx);
    }
    Ok(false)
}

pub(super) fn was_loaded(core: &mut Core, id: &SessionId, state: Result<(SessionState, u64), String>) {
    let Some(session) = core.sessions.get_mut(id) else { return };
    session.is_loading = false;
    let id = Arc::clone(session.id());
    // Another hub has appended records while the log was read.
    let is_behind = |length: u64| session.state.is_none() && length < session.followed_length;
    if state.as_ref().is_ok_and(|(_, length)| is_behind(*length)) {
        if let Some((session, cx)) = core.session(&id) {
            session.load(cx);
        }
        return;
    }
    let waiting = std::mem::take(&mut session.waiting);
    match state {
        Ok((state, length)) => {
            let gaps = state.gaps.clone().filter(|_| session.state.is_none());
            if session.state.is_none() {
                let mut state = state;
                if session.process.is_none() && session.parked.is_none() {
                    state.clear_calls();
                }
                session.state = Some(state);
                // The log may be shorter than the state was, after a failed write.
                session.reset_tail(length);
                core.cx.cluster.note_length(&id, Some(length));
            }
            // Work that ran when the hub ended is interrupted. This is recorded as soon as the log can be written.
            if session.process.is_none() && session.is_owned && core.cx.log_problem.is_none() {
                if let Some((session, cx)) = core.session(&id) {
                    Lifecycle::of(session, cx).interrupt("the hub ended while the agent was working", None);
                }
                core.cx.outbox.push(Output::CloseLog { session: Arc::clone(&id) });
            }
            if let Some((count, first)) = gaps {
                core.cx.outbox.report(format!(
                    "{count} records of session {id} cannot be read, beginning with {first}"
                ));
            }
            for (connection, line) in waiting {
                dispatch(core, connection, &line);
            }
            if let Some((session, cx)) = core.session(&id) {
                Delivery::of(session, cx).deliver_all();
            }
        }
        Err(reason) => {
            for (connection, line) in waiting {
                if let Some(request) = line.request() {
                    let request = request.id.clone();
                    let message = format!("cannot read the log of session {id}: {reason}");
                    core.cx.refuse(connection, &request, codes::INTERNAL_ERROR, message, None);
                }
            }
        }
    }
}

/// Error response: code, message, data.
pub(super) type Refusal = (i32, String, Option<serde_json::Value>);

/// The session that a message names.
pub(super) struct TargetSession {
    pub(super) session: SessionId,
    /// The agent's id of a sub-agent.
    pub(super) child: Option<String>,
}

impl TargetSession {
    /// Returns the session, unless a sub-agent is named; `refusal` is the error message then.
    pub(super) fn root(self, refusal: &str) -> Result<SessionId, Refusal> {
        match self.child {
            None => Ok(self.session),
            Some(_) => Err((codes::INVALID_PARAMS, refusal.to_owned(), None)),
        }
    }
}

pub(super) fn client_mut(core: &mut Core, connection: ConnectionId, change: impl FnOnce(&mut Connection)) {
    if let Some(client) = core.cx.clients.connections.get_mut(&connection) {
        change(client);
    }
}
