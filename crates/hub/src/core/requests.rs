//! Connections of clients, and dispatch of their messages.

use super::delivery::Delivery;
use super::lifecycle::Lifecycle;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use switchboard_acp::extensions::{END_AGENT_METHOD, OPERATION_ID};
use switchboard_acp::rpc::{Message, RequestId, codes};
use switchboard_acp::{Raw, Side, Wire, WireFormat};
use switchboard_store::Moment;

use super::connection::{Connection, MAX_PENDING, PendingClientRequest};
use super::lines::{self, Outcome};
use super::method_table::{Form, Method};
use super::session::Session;
use super::session_state::{SUBAGENT_SEPARATOR, SessionState};
use super::{ConnectionId, Core, Identity, Output, SessionId, Starter};

/// Maximum number of messages that wait for a session to be loaded.
pub(super) const WAITING: usize = 1024;

/// A request of a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientRequest<'r> {
    pub(super) connection: ConnectionId,
    pub(super) id: &'r RequestId<'static>,
    pub(super) method: &'r str,
    pub(super) params: Option<&'r Raw<'r>>,
    /// The whole line, in case it must wait.
    pub(super) line: &'r Arc<str>,
}

impl Core {
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
            if self.sessions.get(&id).is_some_and(|session| !session.is_visible_to(&identity)) {
                if let Some((session, cx)) = self.session(&id) {
                    Delivery::of(session, cx).detach(connection);
                }
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
        let Some(client) = self.cx.clients.connections.get_mut(&connection) else { return };
        let message = match Message::decode(line, WireFormat::Any) {
            Ok(message) => message,
            Err(error) => {
                let error = Outcome::error(codes::INVALID_REQUEST, error.to_string(), None);
                let text = lines::answer(&RequestId::Null, &error);
                self.cx.outbox.send(connection, text, None);
                return;
            }
        };
        if client.is_paused && message.method() != Some("stream/resume") {
            let reason = "the first message of a resumed connection must be stream/resume".to_owned();
            self.cx.outbox.push(Output::Close { connection, code: 1002, reason });
            return;
        }
        if let Message::Request(request) = &message {
            let id = request.id.clone().into_owned();
            let params = request.params.as_ref();
            let is_repeatable = client.dedups_by_id && request.method == "session/prompt";
            let operation = params
                .and_then(|params| OPERATION_ID.of(params))
                .or_else(|| is_repeatable.then(|| format!("{connection}:{}", lines::id_text(&id))));
            let known = operation
                .as_deref()
                .and_then(|operation| self.cx.clients.answers.get(&client.identity.key(), operation));
            if let Some(mut outcome) = known.cloned() {
                // A duplicate whose response was lost in transit: the cached reply is sent again. The turn may be over
                // by now.
                let session = lines::text_of(params, "sessionId").and_then(|id| self.sessions.get(&*id));
                let state = session.and_then(|session| session.state.as_ref());
                if let Some(prompt) = operation.as_deref().and_then(|operation| state?.operation(operation)) {
                    outcome = client.of_turn(outcome, prompt.ended.as_deref());
                }
                if !client.pending.contains(Side::Client, &id) {
                    let asked = PendingClientRequest { stream: None, operation: None, at_agent: None };
                    drop(client.pending.open(Side::Client, &id, asked));
                }
                return self.cx.reply(connection, &id, outcome);
            }
            if client.pending.contains(Side::Client, &id) {
                // A duplicate of a request that is still pending.
                return;
            }
            let is_full = client.pending.len() >= MAX_PENDING;
            // Clients expect the response to a request that opens a session on the stream of the connection.
            let stream = match &*request.method {
                "session/load" | "session/resume" | "session/new" | "session/fork" => None,
                _ => lines::text_of(params, "sessionId").and_then(|id| self.sessions.get_key_value(&*id)),
            };
            let asked = PendingClientRequest {
                stream: stream.map(|(id, _)| Arc::clone(id)),
                operation,
                at_agent: None,
            };
            drop(client.pending.open(Side::Client, &id, asked));
            if is_full {
                let message = format!("{MAX_PENDING} requests are already pending; wait for their responses");
                return self.cx.refuse(connection, &id, codes::INTERNAL_ERROR, message, None);
            }
        }
        self.dispatch(connection, line);
    }

    /// Dispatches a message, again if it had to wait.
    pub(super) fn dispatch(&mut self, connection: ConnectionId, line: &Arc<str>) {
        let Some(client) = self.cx.clients.connections.get(&connection) else { return };
        match Message::decode(line, WireFormat::Any) {
            Ok(Message::Response(response)) => self.answer(connection, &response, line),
            Ok(Message::Notification(notification)) => self.notification(connection, &notification, line),
            Ok(Message::Request(request)) => {
                let id = request.id.clone().into_owned();
                if !client.is_initialized && request.method != "initialize" {
                    let message = "say initialize first";
                    return self.cx.refuse(connection, &id, codes::INVALID_REQUEST, message, None);
                }
                let (method, params) = (&*request.method, request.params.as_ref());
                let asked = ClientRequest { connection, id: &id, method, params, line };
                if let Err((code, message, data)) = self.request(asked) {
                    self.cx.refuse(connection, &id, code, message, data);
                }
            }
            Err(_) => {}
        }
    }

    fn request(&mut self, request: ClientRequest<'_>) -> Result<(), Refusal> {
        let ClientRequest { connection, id, method, params, .. } = request;
        let properties = Method::of(method, Form::Request);
        self.cx.access().authorize(connection, properties, params)?;
        if let Some(problem) = self.cx.log_problem.as_ref().filter(|_| properties.is_logged) {
            let message = format!("{problem}; the hub continues by itself when the log can be written");
            return Err((codes::INTERNAL_ERROR, message, Some(json!({"log": problem}))));
        }
        match method {
            "initialize" => self.initialize(request),
            "session/resume" if lines::is_about_agent_sessions(params) => self.adopt(request),
            "session/unarchive" if self.target_session(connection, params).is_err() => {
                self.query_agent_sessions(request)
            }
            _ if lines::is_about_agent_sessions(params) => self.query_agent_sessions(request),
            "session/list" => self.list(request),
            "session/new" => self.new_session(request),
            "session/resume" => self.resume(request),
            "session/attach" => self.attach_request(request),
            "session/detach" => self.detach_request(request),
            "session/prompt" => self.prompt(request),
            "session/close" => self.close(request),
            "session/delete" => self.delete(request),
            "session/set_title" => self.set_title(request),
            END_AGENT_METHOD => self.end_agent_request(request),
            // A notification in the draft. A client that sends a request gets a response.
            "stream/resume" => {
                self.resume_streams(connection, params);
                self.cx.reply(connection, id, Outcome::Result("{}".to_owned()));
                Ok(())
            }
            _ => self.forward(request),
        }
    }

    // ----- checks

    /// Returns the session that a message names, by the hub's id or that of a sub-agent.
    pub(super) fn target_session(
        &self,
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
        let Some(client) = self.cx.clients.connections.get(&connection) else { return unknown() };
        if let Some(session) = self.sessions.get(&*name) {
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
        match self.sessions.get(parent).filter(is_child) {
            Some(parent) => {
                Ok(TargetSession { session: Arc::clone(parent.id()), child: Some(child.to_owned()) })
            }
            None => unknown(),
        }
    }

    /// Returns whether the log of a session is loaded. Otherwise starts loading it, and dispatches the message again
    /// afterwards.
    pub(super) fn is_loaded(
        &mut self,
        id: &SessionId,
        connection: ConnectionId,
        line: &Arc<str>,
    ) -> Result<bool, Refusal> {
        let Some(session) = self.sessions.get_mut(id) else { return Ok(false) };
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
        session.waiting.push_back((connection, Arc::clone(line)));
        if let Some((session, cx)) = self.session(id) {
            session.load(cx);
        }
        Ok(false)
    }

    /// Takes the state of a session that was loaded, with the length of its log.
    pub(crate) fn loaded(&mut self, id: &str, state: Result<(SessionState, u64), String>) {
        let Some((id, _)) = self.sessions.get_key_value(id) else {
            let done: SessionId = id.into();
            return self.recover_next(Some(&done));
        };
        let id = Arc::clone(id);
        self.was_loaded(&id, state);
        self.recover_next(Some(&id));
    }

    fn was_loaded(&mut self, id: &SessionId, state: Result<(SessionState, u64), String>) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.is_loading = false;
        let id = Arc::clone(session.id());
        // Another hub has appended records while the log was read.
        let is_behind = |length: u64| session.state.is_none() && length < session.followed_length;
        if state.as_ref().is_ok_and(|(_, length)| is_behind(*length)) {
            if let Some((session, cx)) = self.session(&id) {
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
                    self.cx.cluster.note_length(&id, Some(length));
                }
                // Work that ran when the hub ended is interrupted. This is recorded as soon as the log can be written.
                if session.process.is_none() && session.is_owned && self.cx.log_problem.is_none() {
                    if let Some((session, cx)) = self.session(&id) {
                        Lifecycle::of(session, cx)
                            .interrupt("the hub ended while the agent was working", None);
                    }
                    self.cx.outbox.push(Output::CloseLog { session: Arc::clone(&id) });
                }
                if let Some((count, first)) = gaps {
                    self.cx.outbox.report(format!(
                        "{count} records of session {id} cannot be read, beginning with {first}"
                    ));
                }
                for (connection, line) in waiting {
                    self.dispatch(connection, &line);
                }
                if let Some((session, cx)) = self.session(&id) {
                    Delivery::of(session, cx).deliver_all();
                }
            }
            Err(reason) => {
                for (connection, line) in waiting {
                    if let Ok(Message::Request(request)) = Message::decode(&line, WireFormat::Any) {
                        let request = request.id.into_owned();
                        let message = format!("cannot read the log of session {id}: {reason}");
                        self.cx.refuse(connection, &request, codes::INTERNAL_ERROR, message, None);
                    }
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
