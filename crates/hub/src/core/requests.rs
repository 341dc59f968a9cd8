//! What clients say.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use switchboard_protocol::rpc::{Message, Notification, Request, RequestId, codes};
use switchboard_protocol::{Raw, Wire, WireFormat};
use switchboard_store::{Channel, Role};

use super::connection::{ATTACHMENTS, Asked, Connection, OPEN};
use super::delivery::NoSuchPlace;
use super::hosting::Purpose;
use super::lines::{self, CURSOR, OPERATION, Outcome, Rewrite};
use super::memory::{Memory, OF_SUBAGENT};
use super::session::{Prompt, Session};
use super::{ConnectionId, Core, FORBIDDEN, FolderRefusal, Identity, Output, SessionId};

/// Error of `session/attach`: something of it is not offered.
const UNSUPPORTED: i32 = -32003;
/// How many sessions are listed at once.
const PAGE: usize = 100;
/// How many prompts of a session may wait.
const PROMPTS: usize = 256;
/// How many messages may wait until a session is there.
const WAITING: usize = 1024;

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

    /// A client is gone. Its sessions stay, and so does its work.
    pub(crate) fn disconnected(&mut self, connection: ConnectionId) {
        let Some(client) = self.connections.get(&connection) else { return };
        let (name, version) = client.client.clone();
        let attached: Vec<SessionId> = client.attachments.keys().cloned().collect();
        for session in attached {
            self.detach(connection, &session);
            let client = json!({"clientId": connection.to_string(), "name": name, "version": version});
            self.notice(&session, &json!({"sessionUpdate": "client_disconnected", "client": client}), None);
        }
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

    /// Which sessions are shared, with whom.
    pub(crate) fn set_shares(&mut self, mut shares: HashMap<String, Vec<String>>) {
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
                let text = lines::answer(&RequestId::Null, &error).into();
                let line = super::ToClient { text, stream: None, cursor: None, counts: false };
                self.output.push_back(Output::Send { connection, line });
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
            let operation = lines::meta_text(params, OPERATION)
                .or_else(|| is_repeatable.then(|| format!("{connection}:{}", lines::id_text(&id))));
            let known =
                operation.as_deref().and_then(|operation| self.answers.get(&client.who.name, operation));
            if let Some(outcome) = known.cloned() {
                // It has been answered, and the answer was lost on the way.
                client.open.entry(id.clone()).or_insert(Asked {
                    stream: None,
                    operation: None,
                    at_host: None,
                });
                return self.reply(connection, &id, outcome, None);
            }
            if client.open.contains_key(&id) {
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
            client.open.insert(id.clone(), asked);
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
            Ok(Message::Response(response)) => self.answer(connection, &response),
            Ok(Message::Notification(notification)) => self.notification(connection, &notification, line),
            Ok(Message::Request(request)) => {
                let id = request.id.clone().into_owned();
                if !client.is_initialized && request.method != "initialize" {
                    let message = "say initialize first";
                    return self.refuse(connection, &id, codes::INVALID_REQUEST, message, None);
                }
                if let Err((code, message, data)) = self.request(connection, &request, &id, line) {
                    self.refuse(connection, &id, code, message, data);
                }
            }
            Err(_) => {}
        }
    }

    fn request(
        &mut self,
        connection: ConnectionId,
        request: &Request<'_>,
        id: &RequestId<'static>,
        line: &Arc<str>,
    ) -> Result<(), Refusal> {
        let params = request.params.as_ref();
        match &*request.method {
            "initialize" => self.initialize(connection, id, params, line),
            "session/list" => self.list(connection, id, params),
            "session/new" => self.new_session(connection, id, params, line),
            "session/resume" => self.resume(connection, id, params, line),
            "session/attach" => self.attach_request(connection, id, params, line),
            "session/detach" => self.detach_request(connection, id, params),
            "session/prompt" => self.prompt(connection, id, params, line),
            "session/close" => self.close(connection, id, params, line),
            "session/delete" => self.delete(connection, id, params, line),
            method => self.forward(connection, id, method, params, line),
        }
    }

    // ----- checks

    fn needs(&self, connection: ConnectionId, needs: Role) -> Result<(), Refusal> {
        let role = self.connections.get(&connection).map_or(Role::View, |client| client.who.role);
        if role >= needs {
            return Ok(());
        }
        let message = format!("a token with the role {role} may not do this; it needs {needs}");
        Err((FORBIDDEN, message, Some(json!({"role": role.to_string(), "needs": needs.to_string()}))))
    }

    /// The session that a request is about, by the hub's id or that of a sub-agent.
    fn named(&self, connection: ConnectionId, params: Option<&Raw<'_>>) -> Result<Named, Refusal> {
        let Some(name) = lines::text_of(params, "sessionId") else {
            return Err((
                codes::INVALID_PARAMS,
                "at /params/sessionId: the id of a session is missing".to_owned(),
                None,
            ));
        };
        let unknown = || {
            let message = format!("there is no session {name} here, or not for this token");
            Err((codes::RESOURCE_NOT_FOUND, message, Some(json!({"sessionId": &*name}))))
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
                && session.memory.as_ref().is_some_and(|memory| memory.children.contains(child))
        };
        match self.sessions.get(parent).filter(is_child) {
            Some(parent) => Ok(Named { session: Arc::clone(parent.id()), child: Some(child.to_owned()) }),
            None => unknown(),
        }
    }

    fn folder(&self, params: Option<&Raw<'_>>) -> Result<String, Refusal> {
        let refused = |place: &str, folder: &str, FolderRefusal { reason, roots }: FolderRefusal| {
            let data = json!({"folder": folder, "roots": roots});
            (codes::INVALID_PARAMS, format!("at /params/{place}: {folder}: {reason}"), Some(data))
        };
        let Some(cwd) = lines::text_of(params, "cwd") else {
            return Err((
                codes::INVALID_PARAMS,
                "at /params/cwd: the session's folder is missing".to_owned(),
                None,
            ));
        };
        let more = params.and_then(|params| params.get("additionalDirectories"));
        for folder in more.iter().flat_map(Raw::items) {
            let Some(folder) = folder.as_text() else {
                let message = "at /params/additionalDirectories: expected absolute paths".to_owned();
                return Err((codes::INVALID_PARAMS, message, None));
            };
            (self.options.folders)(&folder)
                .map_err(|refusal| refused("additionalDirectories", &folder, refusal))?;
        }
        (self.options.folders)(&cwd).map_err(|refusal| refused("cwd", &cwd, refusal))
    }

    /// Whether the log of a session has been read; else it is, and the message is looked at again then.
    fn is_loaded(
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
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.is_loading = false;
        let id = Arc::clone(session.id());
        let waiting = std::mem::take(&mut session.waiting);
        match memory {
            Ok((memory, length)) => {
                if session.memory.is_none() {
                    session.memory = Some(memory);
                    session.next = session.next.max(length);
                    session.window_start = session.next;
                }
                // What was at work when the hub ended is not any more.
                if session.host.is_none() {
                    self.interrupted(&id, "the hub was ended while the agent was at work", None);
                    self.output.push_back(Output::Rest { session: Arc::clone(&id) });
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

    // ----- the methods

    fn initialize(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        params: Option<&Raw<'_>>,
        line: &Arc<str>,
    ) -> Result<(), Refusal> {
        let Some(client) = self.connections.get_mut(&connection) else { return Ok(()) };
        let number = params.and_then(|params| params.get("protocolVersion"));
        let number = number.and_then(|number| number.as_str().trim().parse::<u64>().ok());
        if number.is_none_or(|number| number < 2) {
            let requested = number.map_or(serde_json::Value::Null, Into::into);
            let data = json!({"requested": requested, "supported": [1, 2]});
            let message =
                "at /params/protocolVersion: the versions that are spoken here are 1 and 2".to_owned();
            return Err((codes::UNSUPPORTED_PROTOCOL_VERSION, message, Some(data)));
        }
        if let Some(info) = params.and_then(|params| params.get("info").map(Raw::into_owned)) {
            let word = |key: &str| {
                let text = lines::text_of(Some(&info), key).unwrap_or_default();
                text.chars().take(200).collect::<String>()
            };
            client.client = (word("name"), word("version"));
        }
        let capabilities = params.and_then(|params| params.get("capabilities").map(Raw::into_owned));
        let elicitation = capabilities.and_then(|known| known.get("elicitation").map(Raw::into_owned));
        let can = |mode: &str| {
            elicitation.as_ref().is_some_and(|known| known.get(mode).is_some_and(|mode| mode.is_object()))
        };
        (client.can_show_forms, client.can_open_addresses) = (can("form"), can("url"));
        let agent = client.agent;
        let Some(description) = self.descriptions.get(agent).cloned().flatten() else {
            // The agent must say first what it can do; then there is a description.
            if self.ready_host(agent, connection, line).is_some() {
                let message = "the agent has not said what it can do".to_owned();
                return Err((codes::INTERNAL_ERROR, message, None));
            }
            return Ok(());
        };
        client_mut(self, connection, |client| client.is_initialized = true);
        let answer = super::capabilities::of_hub(&description.result);
        self.reply(connection, id, Outcome::Result(answer), None);
        Ok(())
    }

    fn list(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        params: Option<&Raw<'_>>,
    ) -> Result<(), Refusal> {
        let Some(client) = self.connections.get(&connection) else { return Ok(()) };
        let folder = lines::text_of(params, "cwd");
        let folder = match &folder {
            // A folder that may not be used has no sessions.
            Some(folder) => Some((self.options.folders)(folder).unwrap_or_else(|_| folder.to_string())),
            None => None,
        };
        let agent = client.is_agent_named.then(|| self.options.agents.get(client.agent)).flatten();
        let mut sessions: Vec<_> = self
            .sessions
            .values()
            .filter(|session| session.is_visible_to(&client.who))
            .filter(|session| folder.as_ref().is_none_or(|folder| session.known.folder == *folder))
            .filter(|session| agent.is_none_or(|agent| session.known.agent == *agent))
            .filter(|session| session.next > 0)
            .collect();
        sessions.sort_by(|one, other| {
            (other.known.changed, &other.known.id).cmp(&(one.known.changed, &one.known.id))
        });
        let from = match lines::text_of(params, "cursor") {
            None => 0,
            Some(cursor) => match sessions.iter().position(|session| *session.known.id == *cursor) {
                Some(place) => place + 1,
                None => {
                    let message =
                        "at /params/cursor: no cursor of this list; begin again without one".to_owned();
                    return Err((codes::INVALID_PARAMS, message, None));
                }
            },
        };
        let page: Vec<_> = sessions.iter().skip(from).take(PAGE).collect();
        let next = (sessions.len() > from + PAGE).then(|| page.last().map(|last| last.known.id.to_string()));
        let page: Vec<serde_json::Value> = page.iter().map(|session| session.information()).collect();
        let mut result = json!({"sessions": page});
        if let (Some(Some(next)), Some(result)) = (next, result.as_object_mut()) {
            result.insert("nextCursor".to_owned(), next.into());
        }
        self.reply(connection, id, Outcome::Result(result.to_string()), None);
        Ok(())
    }

    fn new_session(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        params: Option<&Raw<'_>>,
        line: &Arc<str>,
    ) -> Result<(), Refusal> {
        self.needs(connection, Role::Own)?;
        self.may_begin()?;
        let folder = self.folder(params)?;
        let Some(agent) = self.connections.get(&connection).map(|client| client.agent) else { return Ok(()) };
        self.may_attach(connection, None)?;
        if let (Some(host), Some(params)) = (self.ready_host(agent, connection, line), params) {
            self.open_session(host, folder, params, (connection, id.clone()));
        }
        Ok(())
    }

    fn may_begin(&self) -> Result<(), Refusal> {
        if self.ending {
            return Err((codes::INTERNAL_ERROR, "the hub is being ended".to_owned(), None));
        }
        Ok(())
    }

    fn may_attach(&self, connection: ConnectionId, id: Option<&SessionId>) -> Result<(), Refusal> {
        let Some(client) = self.connections.get(&connection) else { return Ok(()) };
        let is_attached = id.is_some_and(|id| client.attachments.contains_key(id));
        if client.attachments.len() >= ATTACHMENTS && !is_attached {
            let message =
                format!("a connection looks at {ATTACHMENTS} sessions at most; detach from one first");
            return Err((codes::INTERNAL_ERROR, message, None));
        }
        Ok(())
    }

    fn resume(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        params: Option<&Raw<'_>>,
        line: &Arc<str>,
    ) -> Result<(), Refusal> {
        let Named { session, child } = self.named(connection, params)?;
        if child.is_some() {
            return Err((
                codes::INVALID_PARAMS,
                "a sub-agent is seen in the session that started it".to_owned(),
                None,
            ));
        }
        self.may_attach(connection, Some(&session))?;
        self.same_folder(&session, params)?;
        if !self.is_loaded(&session, connection, line)? {
            return Ok(());
        }
        let Some(known) = self.sessions.get(&session) else { return Ok(()) };
        let place =
            match (lines::meta_text(params, CURSOR), params.and_then(|params| params.get("replayFrom"))) {
                (Some(cursor), _) => {
                    match lines::place(&session, &cursor).filter(|place| *place < known.next) {
                        Some(place) => place + 1,
                        None => {
                            let message =
                                format!("{cursor} is no place in {session}; resume with replayFrom");
                            let data = json!({"cursor": cursor, "reason": "unknown_cursor"});
                            return Err((codes::INVALID_PARAMS, message, Some(data)));
                        }
                    }
                }
                (None, Some(from)) if from.is_object() => {
                    let kind =
                        from.get("type").and_then(|kind| kind.as_text().map(std::borrow::Cow::into_owned));
                    if kind.as_deref() != Some("start") {
                        let message = "at /params/replayFrom: expected {\"type\": \"start\"}".to_owned();
                        return Err((codes::INVALID_PARAMS, message, None));
                    }
                    0
                }
                _ => known.next,
            };
        let answer = Outcome::Result(known.opened_result());
        self.attach(connection, &session, place, Some((id.clone(), answer)));
        Ok(())
    }

    fn same_folder(&self, id: &SessionId, params: Option<&Raw<'_>>) -> Result<(), Refusal> {
        let folder = self.folder(params)?;
        let Some(session) = self.sessions.get(id) else { return Ok(()) };
        if session.known.folder != folder {
            let message = format!("at /params/cwd: the session works in {}", session.known.folder);
            return Err((codes::INVALID_PARAMS, message, Some(json!({"cwd": session.known.folder}))));
        }
        Ok(())
    }

    fn attach_request(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        params: Option<&Raw<'_>>,
        line: &Arc<str>,
    ) -> Result<(), Refusal> {
        let Named { session, child } = self.named(connection, params)?;
        if child.is_some() {
            return Err((
                codes::INVALID_PARAMS,
                "a sub-agent is seen in the session that started it".to_owned(),
                None,
            ));
        }
        self.may_attach(connection, Some(&session))?;
        let policy = lines::text_of(params, "historyPolicy");
        let policy = policy.as_deref().unwrap_or("full").to_owned();
        if !matches!(&*policy, "full" | "pending_only" | "none") {
            let message =
                format!("at /params/historyPolicy: {policy} is not offered; full, pending_only and none are");
            return Err((UNSUPPORTED, message, None));
        }
        if !self.is_loaded(&session, connection, line)? {
            return Ok(());
        }
        let Some(known) = self.sessions.get(&session) else { return Ok(()) };
        let place = if policy == "full" { 0 } else { known.next };
        let others = known.attached.iter().chain([&connection]).collect::<std::collections::BTreeSet<_>>();
        let clients: Vec<serde_json::Value> = others
            .into_iter()
            .filter_map(|id| self.connections.get(id).map(|client| (id, client)))
            .map(|(id, client)| {
                json!({"clientId": id.to_string(), "name": client.client.0, "version": client.client.1})
            })
            .collect();
        let result = json!({
            "sessionId": &*session, "clientId": connection.to_string(), "historyPolicy": policy,
            "connectedClients": clients,
        });
        self.attach(connection, &session, place, Some((id.clone(), Outcome::Result(result.to_string()))));
        client_mut(self, connection, |client| {
            if let Some(attachment) = client.attachments.get_mut(&session) {
                attachment.knows_notices = true;
            }
        });
        Ok(())
    }

    fn detach_request(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        params: Option<&Raw<'_>>,
    ) -> Result<(), Refusal> {
        let Named { session, .. } = self.named(connection, params)?;
        self.detach(connection, &session);
        let result = json!({"sessionId": &*session, "status": "detached"});
        self.reply(connection, id, Outcome::Result(result.to_string()), None);
        Ok(())
    }

    fn prompt(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        params: Option<&Raw<'_>>,
        line: &Arc<str>,
    ) -> Result<(), Refusal> {
        self.needs(connection, Role::Own)?;
        self.may_begin()?;
        let Named { session, child } = self.named(connection, params)?;
        if child.is_some() {
            return Err((codes::INVALID_PARAMS, "a sub-agent takes no prompts".to_owned(), None));
        }
        self.may_attach(connection, Some(&session))?;
        if !self.is_loaded(&session, connection, line)? {
            return Ok(());
        }
        let operation = lines::meta_text(params, OPERATION);
        if let Some(operation) = &operation
            && self.is_repeated(connection, id, &session, operation)
        {
            return Ok(());
        }
        let is_attached =
            self.connections.get(&connection).is_some_and(|client| client.attachments.contains_key(&session));
        let Some(known) = self.sessions.get_mut(&session) else { return Ok(()) };
        if known.prompts.len() >= PROMPTS {
            let message = format!("{PROMPTS} prompts wait in this session already");
            return Err((codes::INTERNAL_ERROR, message, None));
        }
        let params = params.map_or_else(|| Raw::from(json!({})), Raw::to_shared);
        known.prompts.push_back(Prompt { connection, id: id.clone(), params, operation });
        let next = known.next;
        if !is_attached {
            // Whoever prompts wants to see what comes of it.
            self.attach(connection, &session, next, None);
        }
        self.run_next(&session);
        Ok(())
    }

    /// Whether a prompt is one that came before: it runs once.
    fn is_repeated(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        session: &SessionId,
        operation: &str,
    ) -> bool {
        let Some(known) = self.sessions.get_mut(session) else { return false };
        let is_same = |name: &Option<String>| name.as_deref() == Some(operation);
        if let Some(prompt) = known.prompts.iter_mut().find(|prompt| is_same(&prompt.operation)) {
            (prompt.connection, prompt.id) = (connection, id.clone());
            return true;
        }
        match known.memory.as_ref().and_then(|memory| memory.operation(operation)).cloned() {
            None => false,
            Some(known) => {
                match known.outcome {
                    Some(outcome) => self.reply(connection, id, outcome, None),
                    // It is at work: who asked last gets the answer.
                    None => self.redirect(session, operation, (connection, id.clone())),
                }
                true
            }
        }
    }

    fn close(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        params: Option<&Raw<'_>>,
        line: &Arc<str>,
    ) -> Result<(), Refusal> {
        self.needs(connection, Role::Own)?;
        let Named { session, child } = self.named(connection, params)?;
        if child.is_some() {
            return Err((codes::INVALID_PARAMS, "a sub-agent is not closed by itself".to_owned(), None));
        }
        if !self.is_loaded(&session, connection, line)? {
            return Ok(());
        }
        self.end_session(connection, &session);
        self.reply(connection, id, Outcome::Result("{}".to_owned()), None);
        Ok(())
    }

    /// Ends a session for all.
    fn end_session(&mut self, connection: ConnectionId, session: &SessionId) {
        let by = self.connections.get(&connection).map(Connection::signature).unwrap_or_default();
        self.cancel_prompts(session);
        self.cancel_questions(session, &by);
        let Some(known) = self.sessions.get(session) else { return };
        let (host, agent_session) = (known.host, known.agent_session().map(str::to_owned));
        let is_busy = known.memory.as_ref().is_some_and(Memory::is_busy);
        self.note(session, &json!({"hub": "closed", "by": by}));
        if let (Some(host), Some(agent_session)) = (host, &agent_session) {
            self.tell_host(
                host,
                session,
                "session/close",
                &json!({"sessionId": agent_session}),
                Purpose::Close,
            );
            self.leave(host, session);
        }
        if let (true, Some(agent_session)) = (is_busy, agent_session) {
            let update = r#"{"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"}"#;
            let _ = self.append(session, Channel::ToClient, lines::update(&agent_session, update));
        }
        let Some(known) = self.sessions.get_mut(session) else { return };
        known.host = None;
        known.is_waking = false;
        self.states += 1;
        let Some(known) = self.sessions.get(session) else { return };
        let attached: Vec<ConnectionId> = known.attached.iter().copied().collect();
        for connection in attached {
            self.leave_when_seen(connection, session);
        }
        self.output.push_back(Output::Rest { session: Arc::clone(session) });
    }

    fn delete(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        params: Option<&Raw<'_>>,
        line: &Arc<str>,
    ) -> Result<(), Refusal> {
        self.needs(connection, Role::Own)?;
        let session = match self.named(connection, params) {
            Ok(Named { session, child: None }) => session,
            Ok(_) => {
                let message = "a sub-agent goes with the session that started it".to_owned();
                return Err((codes::INVALID_PARAMS, message, None));
            }
            // What is not there is deleted.
            Err((codes::RESOURCE_NOT_FOUND, ..)) => {
                self.reply(connection, id, Outcome::Result("{}".to_owned()), None);
                return Ok(());
            }
            Err(refusal) => return Err(refusal),
        };
        if !self.is_loaded(&session, connection, line)? {
            return Ok(());
        }
        let known = self.sessions.get(&session);
        let (host, agent_session) =
            known.map_or((None, None), |known| (known.host, known.agent_session().map(str::to_owned)));
        self.end_session(connection, &session);
        if let (Some(host), Some(agent_session)) = (host, agent_session) {
            self.tell_host(
                host,
                &session,
                "session/delete",
                &json!({"sessionId": agent_session}),
                Purpose::Close,
            );
        }
        self.reply(connection, id, Outcome::Result("{}".to_owned()), None);
        self.forget(&session);
        Ok(())
    }

    /// Everything else goes to the agent.
    fn forward(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        method: &str,
        params: Option<&Raw<'_>>,
        line: &Arc<str>,
    ) -> Result<(), Refusal> {
        self.needs(connection, Role::Own)?;
        self.may_begin()?;
        let client = (connection, id.clone());
        if lines::text_of(params, "sessionId").is_none() {
            let Some(agent) = self.connections.get(&connection).map(|client| client.agent) else {
                return Ok(());
            };
            if let Some(host) = self.ready_host(agent, connection, line) {
                let purpose = Purpose::Forwarded { session: None, client };
                self.send_request(host, None, method, params, None, purpose)?;
            }
            return Ok(());
        }
        let Named { session, child } = self.named(connection, params)?;
        if method == "session/fork" {
            self.may_attach(connection, None)?;
            self.same_folder(&session, params)?;
        }
        if !self.is_loaded(&session, connection, line)? {
            return Ok(());
        }
        if !self.awake(&session) {
            if let Some(known) = self.sessions.get_mut(&session)
                && known.is_waking
                && known.waiting.len() < WAITING
            {
                known.waiting.push_back((connection, Arc::clone(line)));
            } else {
                let message = "this session has no agent that could do this".to_owned();
                return Err((codes::INTERNAL_ERROR, message, None));
            }
            return Ok(());
        }
        let Some(known) = self.sessions.get(&session) else { return Ok(()) };
        let (Some(host), Some(own)) = (known.host, known.agent_session().map(str::to_owned)) else {
            return Ok(());
        };
        let name = child.unwrap_or(own);
        let purpose = match (method, params) {
            ("session/fork", Some(params)) => {
                Purpose::Fork { params: params.to_shared(), of: Arc::clone(&session), client }
            }
            _ => Purpose::Forwarded { session: Some(Arc::clone(&session)), client },
        };
        self.send_request(host, Some(&session), method, params, Some(&name), purpose)
    }

    fn notification(&mut self, connection: ConnectionId, notification: &Notification<'_>, line: &Arc<str>) {
        let params = notification.params.as_ref();
        match &*notification.method {
            "stream/resume" => self.resume_streams(connection, params),
            "$/cancel_request" => self.cancel_request(connection, params),
            "session/cancel" => {
                if self.needs(connection, Role::Answer).is_ok()
                    && let Ok(named) = self.named(connection, params)
                    && !self.is_heard(connection, params)
                {
                    self.cancel(connection, &named);
                }
            }
            method => {
                if self.needs(connection, Role::Own).is_err() {
                    return;
                }
                let Ok(Named { session, child }) = self.named(connection, params) else { return };
                let Some(known) = self.sessions.get(&session) else { return };
                let (Some(host), Some(own)) = (known.host, known.agent_session()) else { return };
                let name = child.unwrap_or_else(|| own.to_owned());
                let rewrite = Rewrite { session: Some(&name), cursor: None, request: None, drops_own: true };
                let text = lines::call(None, method, params, rewrite);
                let _ = line;
                let _ = self.append(&session, Channel::ToAgent, text.as_str());
                self.output.push_back(Output::ToHost { host, line: text, session: Some(session) });
            }
        }
    }

    /// Whether a client tells something for the second time, because it could not know that it was heard: a cancellation
    /// that comes late must not end work that began after it.
    fn is_heard(&mut self, connection: ConnectionId, params: Option<&Raw<'_>>) -> bool {
        let Some(client) = self.connections.get(&connection) else { return true };
        let Some(operation) = lines::meta_text(params, OPERATION) else { return false };
        let is_heard = self.answers.get(&client.who.name, &operation).is_some();
        self.answers.keep(&client.who.name, operation, Outcome::Result("{}".to_owned()));
        is_heard
    }

    /// Cancels the work of a session, or of a sub-agent alone.
    fn cancel(&mut self, connection: ConnectionId, Named { session, child }: &Named) {
        let Some(known) = self.sessions.get(session) else { return };
        let (Some(host), Some(own)) = (known.host, known.agent_session().map(str::to_owned)) else {
            return self.cancel_prompts(session);
        };
        let by = self.connections.get(&connection).map(Connection::signature).unwrap_or_default();
        let name = child.as_deref().unwrap_or(&own);
        let params = Raw::from(json!({"sessionId": name}));
        let line = lines::call(None, "session/cancel", Some(&params), Rewrite::default());
        self.note(session, &json!({"hub": "cancelled", "by": by}));
        let _ = self.append(session, Channel::ToAgent, line.as_str());
        self.output.push_back(Output::ToHost { host, line, session: Some(Arc::clone(session)) });
        if child.is_none() {
            self.cancel_prompts(session);
            self.cancel_questions(session, &by);
        }
    }

    /// Prompts that the agent has not got are not given to it any more.
    fn cancel_prompts(&mut self, session: &SessionId) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        for prompt in std::mem::take(&mut known.prompts) {
            let message = "the work of this session was cancelled";
            self.refuse(prompt.connection, &prompt.id, codes::REQUEST_CANCELLED, message, None);
        }
    }

    /// A client takes a request back.
    fn cancel_request(&mut self, connection: ConnectionId, params: Option<&Raw<'_>>) {
        let Some(text) = params.and_then(|params| params.get("requestId")) else { return };
        let Some(client) = self.connections.get(&connection) else { return };
        let found = client.open.iter().find(|(id, _)| lines::id_text(id) == text.as_str().trim());
        let Some((id, asked)) = found.map(|(id, asked)| (id.clone(), asked.clone())) else { return };
        if let Some((host, number)) = asked.at_host {
            let line = lines::cancel(&RequestId::Number(number));
            self.output.push_back(Output::ToHost { host, line, session: asked.stream });
            return;
        }
        let mut was_waiting = false;
        for session in self.sessions.values_mut() {
            let before = session.prompts.len();
            session.prompts.retain(|prompt| (prompt.connection, &prompt.id) != (connection, &id));
            was_waiting |= session.prompts.len() < before;
        }
        if was_waiting {
            self.refuse(connection, &id, codes::REQUEST_CANCELLED, "the request was taken back", None);
        }
    }

    /// A client whose socket is another one says what it has got.
    fn resume_streams(&mut self, connection: ConnectionId, params: Option<&Raw<'_>>) {
        let Some(client) = self.connections.get_mut(&connection) else { return };
        client.is_paused = false;
        let mut left: Vec<SessionId> = client.attachments.keys().cloned().collect();
        let streams = params.and_then(|params| params.get("streams").map(Raw::into_owned));
        for stream in streams.iter().flat_map(Raw::items).take(ATTACHMENTS) {
            let session = lines::text_of(Some(&stream), "sessionId").unwrap_or_default().into_owned();
            let cursor = lines::text_of(Some(&stream), "cursor").unwrap_or_default().into_owned();
            left.retain(|known| **known != *session);
            if let Err(reason) = self.continue_at(connection, &session, &cursor) {
                let reason = match reason {
                    NoSuchPlace::Session => "unknown_session",
                    NoSuchPlace::Cursor => "unknown_cursor",
                };
                if let Some((id, _)) =
                    self.sessions.get_key_value(&*session).map(|(id, known)| (Arc::clone(id), known))
                {
                    self.detach(connection, &id);
                }
                let params = Raw::from(json!({"sessionId": session, "reason": reason}));
                let text =
                    lines::call(None, "stream/resume_failed", Some(&params), Rewrite::default()).into();
                let line = super::ToClient { text, stream: None, cursor: None, counts: false };
                self.output.push_back(Output::Send { connection, line });
            }
        }
        for session in left {
            self.detach(connection, &session);
        }
    }
}

/// What a client is told instead of a result: code, words, data.
pub(super) type Refusal = (i32, String, Option<serde_json::Value>);

/// What a message is about.
struct Named {
    session: SessionId,
    /// The agent's id of a sub-agent.
    child: Option<String>,
}

fn client_mut(core: &mut Core, connection: ConnectionId, change: impl FnOnce(&mut Connection)) {
    if let Some(client) = core.connections.get_mut(&connection) {
        change(client);
    }
}
