//! What clients say.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use switchboard_acp::extensions::{END_AGENT_METHOD, OPERATION_ID};
use switchboard_acp::rpc::{Message, RequestId, codes};
use switchboard_acp::{Raw, Side, Wire, WireFormat};
use switchboard_store::Moment;

use super::connection::{Asked, Connection, OPEN};
use super::lines::{self, Outcome};
use super::memory::{Memory, OF_SUBAGENT};
use super::method_table::{Form, Method};
use super::session::Session;
use super::{ConnectionId, Core, Identity, Output, SessionId, Starter};

/// How many messages may wait until a session is there.
pub(super) const WAITING: usize = 1024;

/// What a client asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientRequest<'r> {
    pub(super) connection: ConnectionId,
    pub(super) id: &'r RequestId<'static>,
    pub(super) method: &'r str,
    pub(super) params: Option<&'r Raw<'r>>,
    /// All of it as it came, should it have to wait.
    pub(super) line: &'r Arc<str>,
}

impl Core {
    /// A client has come, for an agent that it has named or not. Over HTTP a request of the same id is the same
    /// request, sent again.
    pub(crate) fn connected(
        &mut self,
        connection: ConnectionId,
        who: Identity,
        agent: usize,
        is_named: bool,
        repeats_by_id: bool,
    ) {
        self.connections.insert(connection, Connection::new(who, agent, is_named, repeats_by_id));
    }

    /// What a client is told is translated on the way.
    pub(crate) fn translated(&mut self, connection: ConnectionId) {
        client_mut(self, connection, |client| client.is_translated = true);
    }

    /// A client is gone. Its sessions stay, and so does its work.
    pub(crate) fn disconnected(&mut self, connection: ConnectionId) {
        let Some(client) = self.connections.get(&connection) else { return };
        let (name, version) = client.client.clone();
        let attached: Vec<SessionId> = client.attachments.keys().cloned().collect();
        for session in attached {
            self.detach(connection, &session);
            let client = json!({"clientId": connection.to_string(), "name": name, "version": version});
            let [date, time] = Moment(self.time).date_and_time();
            let left = json!({
                "sessionUpdate": "client_disconnected", "client": client, "timestamp": format!("{date}T{time}Z"),
            });
            self.notice(&session, &left, None);
        }
        self.abandon_direct(connection);
        self.connections.remove(&connection);
    }

    /// What a token may do has changed; `None`: nothing any more.
    pub(crate) fn access_changed(&mut self, connection: ConnectionId, who: Option<Identity>) {
        let Some(client) = self.connections.get_mut(&connection) else { return };
        let Some(who) = who else {
            let reason = "the token was revoked".to_owned();
            self.output.push_back(Output::Close { connection, code: 4401, reason });
            self.disconnected(connection);
            return;
        };
        client.who = who;
        let who = client.who.clone();
        let attached: Vec<SessionId> = client.attachments.keys().cloned().collect();
        for id in attached {
            if self.sessions.get(&id).is_some_and(|session| !session.is_visible_to(&who)) {
                self.detach(connection, &id);
            }
        }
    }

    /// Which sessions are shared, with which tokens.
    pub(crate) fn set_shares(&mut self, mut shares: HashMap<String, Vec<Starter>>) {
        for (id, session) in &mut self.sessions {
            session.shared = shares.remove(&**id).unwrap_or_default().into_iter().collect();
        }
    }

    /// Another socket has taken a connection over: nothing is sent in its sessions until it says what it has got.
    pub(crate) fn reconnected(&mut self, connection: ConnectionId) {
        if let Some(client) = self.connections.get_mut(&connection) {
            client.is_paused = true;
        }
    }

    /// A message of a client, in version 2.
    pub(crate) fn client_line(&mut self, connection: ConnectionId, line: &Arc<str>) {
        let Some(client) = self.connections.get_mut(&connection) else { return };
        let message = match Message::decode(line, WireFormat::Any) {
            Ok(message) => message,
            Err(error) => {
                let error = Outcome::error(codes::INVALID_REQUEST, error.to_string(), None);
                let text = lines::answer(&RequestId::Null, &error);
                self.send(connection, text, None);
                return;
            }
        };
        if client.is_paused && message.method() != Some("stream/resume") {
            let reason = "the first message of a connection that is continued is stream/resume".to_owned();
            self.output.push_back(Output::Close { connection, code: 1002, reason });
            return;
        }
        if let Message::Request(request) = &message {
            let id = request.id.clone().into_owned();
            let params = request.params.as_ref();
            let is_repeatable = client.repeats_by_id && request.method == "session/prompt";
            let operation = params
                .and_then(|params| OPERATION_ID.of(params))
                .or_else(|| is_repeatable.then(|| format!("{connection}:{}", lines::id_text(&id))));
            let known =
                operation.as_deref().and_then(|operation| self.answers.get(&client.who.key(), operation));
            if let Some(mut outcome) = known.cloned() {
                // It has been answered, and the answer was lost on the way. The work may be over by now.
                let session = lines::text_of(params, "sessionId").and_then(|id| self.sessions.get(&*id));
                let memory = session.and_then(|session| session.memory.as_ref());
                if let Some(prompt) = operation.as_deref().and_then(|operation| memory?.operation(operation))
                {
                    outcome = of_turn(client, outcome, prompt.ended.as_deref());
                }
                if !client.open.contains(Side::Client, &id) {
                    let asked = Asked { stream: None, operation: None, at_host: None };
                    drop(client.open.open(Side::Client, &id, asked));
                }
                return self.reply(connection, &id, outcome, None);
            }
            if client.open.contains(Side::Client, &id) {
                // A repeated request: the first one is being worked on.
                return;
            }
            let is_full = client.open.len() >= OPEN;
            // The answer to what opens a session is looked for on the connection's stream.
            let stream = match &*request.method {
                "session/load" | "session/resume" | "session/new" | "session/fork" => None,
                _ => lines::text_of(params, "sessionId").and_then(|id| self.sessions.get_key_value(&*id)),
            };
            let asked = Asked { stream: stream.map(|(id, _)| Arc::clone(id)), operation, at_host: None };
            drop(client.open.open(Side::Client, &id, asked));
            if is_full {
                let message = format!("{OPEN} requests are open already; wait for their answers");
                return self.refuse(connection, &id, codes::INTERNAL_ERROR, message, None);
            }
        }
        self.dispatch(connection, line);
    }

    /// Looks at a message, also again, when something is there that it needs.
    pub(super) fn dispatch(&mut self, connection: ConnectionId, line: &Arc<str>) {
        let Some(client) = self.connections.get(&connection) else { return };
        match Message::decode(line, WireFormat::Any) {
            Ok(Message::Response(response)) => self.answer(connection, &response, line),
            Ok(Message::Notification(notification)) => self.notification(connection, &notification, line),
            Ok(Message::Request(request)) => {
                let id = request.id.clone().into_owned();
                if !client.is_initialized && request.method != "initialize" {
                    let message = "say initialize first";
                    return self.refuse(connection, &id, codes::INVALID_REQUEST, message, None);
                }
                let (method, params) = (&*request.method, request.params.as_ref());
                let asked = ClientRequest { connection, id: &id, method, params, line };
                if let Err((code, message, data)) = self.request(asked) {
                    self.refuse(connection, &id, code, message, data);
                }
            }
            Err(_) => {}
        }
    }

    fn request(&mut self, request: ClientRequest<'_>) -> Result<(), Refusal> {
        let ClientRequest { connection, id, method, params, .. } = request;
        let properties = Method::of(method, Form::Request);
        self.authorize(connection, properties, params)?;
        if let Some(problem) = self.log_problem.as_ref().filter(|_| properties.is_logged) {
            let message = format!("{problem}; the hub continues by itself when the log can be written");
            return Err((codes::INTERNAL_ERROR, message, Some(json!({"log": problem}))));
        }
        match method {
            "initialize" => self.initialize(request),
            "session/resume" if lines::is_about_memory(params) => self.adopt(request),
            "session/unarchive" if self.named(connection, params).is_err() => self.ask_memory(request),
            _ if lines::is_about_memory(params) => self.ask_memory(request),
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
            // The draft has it without an answer; who wants one gets it.
            "stream/resume" => {
                self.resume_streams(connection, params);
                self.reply(connection, id, Outcome::Result("{}".to_owned()), None);
                Ok(())
            }
            _ => self.forward(request),
        }
    }

    /// The answer to a prompt as a client is told it, with how the work on it ended.
    pub(super) fn of_turn(&self, connection: ConnectionId, outcome: Outcome, ended: Option<&str>) -> Outcome {
        match self.connections.get(&connection) {
            Some(client) => of_turn(client, outcome, ended),
            None => outcome,
        }
    }

    // ----- checks

    /// The session that a request is about, by the hub's id or that of a sub-agent.
    pub(super) fn named(&self, connection: ConnectionId, params: Option<&Raw<'_>>) -> Result<Named, Refusal> {
        let Some(name) = lines::text_of(params, "sessionId") else {
            return Err((
                codes::INVALID_PARAMS,
                "at /params/sessionId: the id of a session is missing".to_owned(),
                None,
            ));
        };
        let unknown = || {
            let name = lines::named(&name);
            let message = format!("there is no session {name} here, or not for this token");
            Err((codes::RESOURCE_NOT_FOUND, message, Some(json!({"sessionId": name}))))
        };
        let Some(client) = self.connections.get(&connection) else { return unknown() };
        if let Some(session) = self.sessions.get(&*name) {
            if !session.is_visible_to(&client.who) {
                return unknown();
            }
            return Ok(Named { session: Arc::clone(session.id()), child: None });
        }
        let Some((parent, child)) = name.split_once(OF_SUBAGENT) else { return unknown() };
        let is_child = |session: &&Session| {
            session.is_visible_to(&client.who)
                && session.memory.as_ref().is_some_and(|memory| memory.is_child(child))
        };
        match self.sessions.get(parent).filter(is_child) {
            Some(parent) => Ok(Named { session: Arc::clone(parent.id()), child: Some(child.to_owned()) }),
            None => unknown(),
        }
    }

    /// Whether the log of a session has been read; else it is, and the message is looked at again then.
    pub(super) fn is_loaded(
        &mut self,
        id: &SessionId,
        connection: ConnectionId,
        line: &Arc<str>,
    ) -> Result<bool, Refusal> {
        let Some(session) = self.sessions.get_mut(id) else { return Ok(false) };
        if session.memory.is_some() {
            return Ok(true);
        }
        if session.waiting.len() >= WAITING {
            return Err((codes::INTERNAL_ERROR, "too much waits for this session".to_owned(), None));
        }
        session.waiting.push_back((connection, Arc::clone(line)));
        self.load(id);
        Ok(false)
    }

    /// Has the log of a session read.
    pub(super) fn load(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if !std::mem::replace(&mut session.is_loading, true) {
            self.output.push_back(Output::Load { session: Arc::clone(id) });
        }
    }

    /// The log of a session was read, up to a place.
    pub(crate) fn loaded(&mut self, id: &str, memory: Result<(Memory, u64), String>) {
        let Some((id, _)) = self.sessions.get_key_value(id) else {
            let done: SessionId = id.into();
            return self.recover_next(Some(&done));
        };
        let id = Arc::clone(id);
        self.was_loaded(&id, memory);
        self.recover_next(Some(&id));
    }

    fn was_loaded(&mut self, id: &SessionId, memory: Result<(Memory, u64), String>) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.is_loading = false;
        let id = Arc::clone(session.id());
        // Another hub went on writing while it was read.
        let is_behind = |length: u64| session.memory.is_none() && length < session.followed;
        if memory.as_ref().is_ok_and(|(_, length)| is_behind(*length)) {
            return self.load(&id);
        }
        let waiting = std::mem::take(&mut session.waiting);
        match memory {
            Ok((memory, length)) => {
                let gaps = memory.gaps.clone().filter(|_| session.memory.is_none());
                if session.memory.is_none() {
                    let mut memory = memory;
                    if session.host.is_none() && session.parked.is_none() {
                        memory.forget_calls();
                    }
                    session.memory = Some(memory);
                    // It may have less than was to be written, when that has failed.
                    session.goes_on_at(length);
                }
                // What was at work when the hub ended is not any more; which waits until it can be written down.
                if session.host.is_none() && session.is_ours && self.log_problem.is_none() {
                    self.interrupted(&id, "the hub was ended while the agent was at work", None);
                    self.output.push_back(Output::Rest { session: Arc::clone(&id) });
                }
                if let Some((count, first)) = gaps {
                    self.tell(format!(
                        "{count} records of session {id} cannot be read, beginning with {first}"
                    ));
                }
                for (connection, line) in waiting {
                    self.dispatch(connection, &line);
                }
                self.pump_all(&id);
            }
            Err(reason) => {
                for (connection, line) in waiting {
                    if let Ok(Message::Request(request)) = Message::decode(&line, WireFormat::Any) {
                        let request = request.id.into_owned();
                        let message = format!("the log of {id} cannot be read: {reason}");
                        self.refuse(connection, &request, codes::INTERNAL_ERROR, message, None);
                    }
                }
            }
        }
    }
}

/// What a client is told instead of a result: code, words, data.
pub(super) type Refusal = (i32, String, Option<serde_json::Value>);

/// What a message is about.
pub(super) struct Named {
    pub(super) session: SessionId,
    /// The agent's id of a sub-agent.
    pub(super) child: Option<String>,
}

impl Named {
    /// The session, where it is not a sub-agent that is named; else why that cannot be.
    pub(super) fn root(self, refusal: &str) -> Result<SessionId, Refusal> {
        match self.child {
            None => Ok(self.session),
            Some(_) => Err((codes::INVALID_PARAMS, refusal.to_owned(), None)),
        }
    }
}

/// The answer to a prompt as a client is told it.
fn of_turn(client: &Connection, outcome: Outcome, ended: Option<&str>) -> Outcome {
    if client.is_told_of_turns { outcome.of_turn(ended) } else { outcome }
}

pub(super) fn client_mut(core: &mut Core, connection: ConnectionId, change: impl FnOnce(&mut Connection)) {
    if let Some(client) = core.connections.get_mut(&connection) {
        change(client);
    }
}
