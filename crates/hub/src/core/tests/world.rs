//! A small world around the core, with a log, an agent and clients, which performs outputs with arbitrary delay.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_session::{Block, Content, Conversation, Entry, Session};
use switchboard_store::{Channel, Role};

use super::super::connection::Connection;
use super::super::lines;
use super::super::message_lookup::MessageMatch;
use super::super::{
    AgentId, ConnectionId, Core, CoreOptions, FolderRefusal, Identity, LogRecord, Output, SessionId,
    SessionInfo, SessionState, ToClient,
};

use crate::session_event::SessionEvent;

/// State of a client.
#[derive(Default)]
pub(super) struct Client {
    /// Updates of each session since it last attached.
    pub(super) got: BTreeMap<String, Vec<Got>>,
    /// Number of these when its connection was resumed: its translator has only later ones.
    pub(super) mark: BTreeMap<String, usize>,
    /// Offset of each session that it already had when it attached.
    pub(super) from: BTreeMap<String, u64>,
    /// Responses by request.
    pub(super) answers: HashMap<i64, Vec<Value>>,
    pub(super) asked: HashSet<i64>,
    /// Requests that are prompts, which may be queued.
    pub(super) prompts: HashSet<i64>,
    /// Pending questions: the agent's text.
    pub(super) questions: BTreeMap<i64, String>,
    /// The last question as a whole.
    pub(super) last_question: Value,
    /// Notifications and requests with unknown methods.
    pub(super) heard: Vec<String>,
    pub(super) requests: Vec<Value>,
    pub(super) bytes: BTreeMap<String, u64>,
    pub(super) next_id: i64,
    pub(super) is_closed: bool,
}

/// An update that a client has received.
#[derive(Debug, Clone)]
pub(super) struct Got {
    pub(super) cursor: Option<String>,
    /// The session or sub-agent of the update.
    pub(super) about: String,
    pub(super) update: Value,
    /// True if only the translator of the client gets it.
    pub(super) is_known: bool,
    /// True if it is a native line.
    pub(super) is_own: bool,
}

pub(super) struct World {
    pub(super) core: Core,
    /// Events of sessions, in order.
    pub(super) events: Vec<SessionEvent>,
    pub(super) log: BTreeMap<SessionId, Vec<(Channel, Arc<str>)>>,
    pub(super) clients: BTreeMap<ConnectionId, Client>,
    pub(super) next_connection: ConnectionId,
    /// Outputs that have not been performed yet.
    pub(super) later: VecDeque<Output>,
    pub(super) agent: Agent,
    /// All outputs of the core, if they are recorded.
    pub(super) outputs: Option<Vec<String>>,
}

/// An agent controlled by the test.
#[derive(Default)]
pub(super) struct Agent {
    pub(super) process: Option<AgentId>,
    pub(super) sessions: Vec<String>,
    /// Received prompts, by their text.
    pub(super) prompts: Vec<String>,
    /// Sessions with a running prompt.
    pub(super) at_work: Vec<String>,
    pub(super) questions: Vec<(i64, String)>,
    pub(super) answered: HashMap<i64, usize>,
    /// Responses to its questions: results and errors.
    pub(super) results: HashMap<i64, Vec<Value>>,
    /// The id of the last request that it received.
    pub(super) last_request: i64,
    /// True if it responds neither to prompts nor to unknown requests.
    pub(super) is_slow: bool,
    pub(super) next: i64,
    /// True if it keeps working after a cancellation.
    pub(super) ignores_cancel: bool,
    /// True if it has lost its sessions.
    pub(super) refuses: bool,
    /// The sessions that it lists.
    pub(super) remembers: Vec<String>,
}

/// Returns the ids of a client's pending questions.
pub(super) fn asked_of(client: &Connection) -> impl Iterator<Item = i64> {
    client.questions.iter().filter_map(|(_, id, _)| match id {
        RequestId::Number(number) => Some(*number),
        _ => None,
    })
}

pub(super) fn identity(name: &str, role: Role) -> Identity {
    Identity { name: name.into(), role, all: true, made: 0 }
}

pub(super) fn world(send_window: usize) -> World {
    let mut core = Core::new(CoreOptions {
        agents: vec!["one".to_owned()],
        confined: vec![false],
        warm: vec![false],
        folders: Box::new(|folder| {
            if folder.starts_with("/w") {
                Ok(folder.to_owned())
            } else {
                let roots = vec!["/w".to_owned()];
                Err(FolderRefusal { reason: "is outside".to_owned(), roots })
            }
        }),
        idle: 1000,
        handshake: 1000,
        cancel_timeout: 30_000,
        send_window,
        reports_standard_error: true,
        policy: None,
        agent_options: Some(Role::Admin),
        version: "0",
        name: None,
    });
    core.enable_events();
    World {
        core,
        events: Vec::new(),
        log: BTreeMap::new(),
        clients: BTreeMap::new(),
        next_connection: 0,
        later: VecDeque::new(),
        agent: Agent::default(),
        outputs: None,
    }
}

impl World {
    pub(super) fn connect(&mut self, role: Role) -> ConnectionId {
        self.connect_translated(role, false)
    }

    pub(super) fn connect_translated(&mut self, role: Role, is_translated: bool) -> ConnectionId {
        self.next_connection += 1;
        let id = self.next_connection;
        self.clients.insert(id, Client::default());
        self.core.connected(id, identity(&format!("{role}-{id}"), role), 0, false, false);
        if is_translated {
            self.core.translated(id);
        }
        self.request(id, "initialize", json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"}}));
        id
    }

    /// Connects a client behind a translator, in the hub or in the client.
    pub(super) fn connect_native(&mut self, role: Role, is_translated: bool) -> ConnectionId {
        let id = self.connect_translated(role, is_translated);
        let meta = json!({"switchboard/native": 1});
        self.request(id, "initialize", json!({"protocolVersion": 2, "_meta": meta}));
        id
    }

    pub(super) fn request(&mut self, connection: ConnectionId, method: &str, params: Value) -> i64 {
        let Some(client) = self.clients.get_mut(&connection) else { return 0 };
        client.next_id += 1;
        let id = client.next_id;
        client.asked.insert(id);
        if method == "session/prompt" {
            client.prompts.insert(id);
        }
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        self.core.client_line(connection, &line.into());
        self.perform();
        id
    }

    pub(super) fn notify(&mut self, connection: ConnectionId, method: &str, params: Value) {
        let line = json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string();
        self.core.client_line(connection, &line.into());
        self.perform();
    }

    pub(super) fn say(&mut self, line: Value) {
        if let Some(process) = self.agent.process {
            self.core.agent_line(process, &line.to_string());
            self.perform();
        }
    }

    pub(super) fn update(&mut self, session: &str, update: Value) {
        self.say(json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}));
    }

    /// Performs the outputs of the core; slow ones are done later.
    pub(super) fn perform(&mut self) {
        while let Some(output) = self.core.next_output() {
            if let Some(outputs) = &mut self.outputs {
                outputs.push(format!("{output:?}"));
            }
            match output {
                Output::Append { session, sequence, channel, text } => {
                    let log = self.log.entry(session).or_default();
                    assert_eq!(log.len() as u64, sequence, "a record does not follow");
                    log.push((channel, text));
                }
                Output::Send { connection, line } => self.receive(connection, &line),
                Output::Close { connection, .. } => {
                    if let Some(client) = self.clients.get_mut(&connection) {
                        client.is_closed = true;
                    }
                }
                Output::ToAgent { line, .. } => self.agent.hear(&line),
                Output::StartAgent { process, .. } => {
                    self.agent.process = Some(process);
                    self.agent.sessions.clear();
                }
                Output::EndAgent { .. } => {}
                Output::Remove { session } => {
                    self.log.remove(&session);
                }
                Output::Event(event) => self.events.push(*event),
                Output::CloseLog { .. } | Output::Changed { .. } | Output::Report(_) => {}
                Output::Acquire { .. }
                | Output::Release { .. }
                | Output::Forward { .. }
                | Output::ForwardReply { .. } => {
                    panic!("there are no other hubs")
                }
                later @ (Output::Create { .. }
                | Output::Load { .. }
                | Output::Read { .. }
                | Output::Replay { .. }
                | Output::FindMessage { .. }) => self.later.push_back(later),
            }
        }
        for line in std::mem::take(&mut self.agent_out()) {
            self.say(line);
        }
    }

    /// Takes the automatic responses of the agent.
    pub(super) fn agent_out(&mut self) -> Vec<Value> {
        std::mem::take(&mut OUT.with(|out| out.borrow_mut().drain(..).collect()))
    }

    /// Performs one of the slow outputs.
    pub(super) fn do_later(&mut self, which: usize) {
        if self.later.is_empty() {
            return;
        }
        let which = which % self.later.len();
        match self.later.remove(which) {
            Some(Output::Create { ticket, agent, owner, folder, starter: _ }) => {
                let id: SessionId = format!("h{ticket}").into();
                self.log.insert(Arc::clone(&id), Vec::new());
                let known = SessionInfo {
                    id,
                    agent,
                    agent_session: String::new(),
                    owner,
                    folder,
                    title: None,
                    changed: 0,
                    length: 0,
                };
                self.core.created(ticket, Ok(known));
            }
            Some(Output::Load { session }) => {
                let mut state = SessionState::default();
                let log = self.log.get(&session).cloned().unwrap_or_default();
                for (offset, (channel, text)) in log.iter().enumerate() {
                    let _ = state.apply(offset as u64, *channel, text);
                }
                self.core.loaded(&session, Ok((state, log.len() as u64)));
            }
            Some(Output::Read { connection, session, from, end: _ }) => {
                let log = self.log.get(&session).cloned().unwrap_or_default();
                let part: Vec<LogRecord> = log
                    .iter()
                    .enumerate()
                    .skip(from as usize)
                    .take(3)
                    .map(|(offset, (channel, text))| LogRecord {
                        sequence: offset as u64,
                        channel: *channel,
                        text: Arc::clone(text),
                    })
                    .collect();
                let to = part.last().map_or(from, |last| last.sequence + 1);
                self.core.read(connection, &session, from, &part, to);
            }
            Some(Output::Replay { connection, session, mut replay }) => {
                let log = self.log.get(&session).cloned().unwrap_or_default();
                let lines = replay.next(&mut read(&log)).unwrap();
                self.core.replayed(connection, &session, replay, lines);
            }
            Some(Output::FindMessage { connection, session, message, end }) => {
                let mut found = MessageMatch::default();
                let log = self.log.get(&session).cloned().unwrap_or_default();
                for (offset, (channel, text)) in log.iter().enumerate().take(end as usize) {
                    message.look(&mut found, offset as u64, *channel, text);
                }
                if let Some(offset) = found.offset().filter(|_| self.clients.contains_key(&connection)) {
                    self.begin_at(connection, &session, offset + 1);
                }
                self.core.message_found(connection, Ok(found.offset()));
            }
            _ => {}
        }
        self.perform();
    }

    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.later.is_empty() {
                let mut moved = false;
                let ids: Vec<ConnectionId> = self.clients.keys().copied().collect();
                for id in ids {
                    moved |= self.room(id);
                }
                if !moved && self.later.is_empty() {
                    return;
                }
            }
            self.do_later(0);
        }
        panic!("it does not come to rest");
    }

    /// Acknowledges everything that was sent to the client.
    pub(super) fn room(&mut self, connection: ConnectionId) -> bool {
        let Some(client) = self.clients.get(&connection) else { return false };
        let before = client.bytes.values().sum::<u64>();
        for (session, acked) in client.bytes.clone() {
            self.core.acknowledge(connection, &session.into(), acked);
        }
        self.perform();
        self.clients.get(&connection).is_some_and(|client| client.bytes.values().sum::<u64>() != before)
    }

    pub(super) fn receive(&mut self, connection: ConnectionId, line: &ToClient) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        let message: Value = serde_json::from_str(&line.text).unwrap();
        if line.is_windowed {
            let session = line.stream.as_ref().unwrap().to_string();
            *client.bytes.entry(session).or_default() += line.text.len() as u64;
        }
        match (message.get("method").and_then(Value::as_str), message.get("id")) {
            (None, Some(id)) => {
                let id = id.as_i64().unwrap();
                client.answers.entry(id).or_default().push(message.clone());
            }
            // A notice, which is in no log.
            (Some("session/update"), None) if !line.is_windowed => {}
            (Some("session/update"), None) => {
                let session = line.stream.as_ref().unwrap().to_string();
                let cursor = message["params"]["_meta"]["acp/cursor"].as_str().map(str::to_owned);
                assert_eq!(cursor.as_deref(), line.cursor.as_deref());
                if let Some(cursor) = &cursor {
                    let held = lines::parse_cursor(&session, cursor).expect("a cursor that the hub reads");
                    // Records are in the log before a client gets them.
                    assert!(self.log[&*session].len() as u64 >= held.end);
                }
                let about = message["params"]["sessionId"].as_str().unwrap().to_owned();
                let native = message["params"]["_meta"]["switchboard/native"].as_str().unwrap_or_default();
                let got = Got {
                    cursor,
                    about,
                    update: message["params"]["update"].clone(),
                    is_known: ["known", "translated"].contains(&native),
                    is_own: native == "own",
                };
                client.got.entry(session).or_default().push(got);
            }
            (Some("$/cancel_request"), None) => {
                let id = message["params"]["requestId"].as_i64().unwrap();
                assert!(client.questions.remove(&id).is_some(), "what was not asked is taken back");
            }
            (Some("session/request_permission"), Some(id)) => {
                let title = message["params"]["title"].as_str().unwrap().to_owned();
                client.last_question = message.clone();
                client.questions.insert(id.as_i64().unwrap(), title);
            }
            (Some("elicitation/create"), Some(id)) => {
                let text = message["params"]["message"].as_str().unwrap().to_owned();
                client.last_question = message.clone();
                client.questions.insert(id.as_i64().unwrap(), text);
            }
            (Some(_), None) => client.heard.push(message.to_string()),
            (Some(_), Some(_)) => client.requests.push(message),
            (None, None) => panic!("{message}"),
        }
    }

    /// Answers the last question of the client.
    pub(super) fn answer_last(&mut self, client: ConnectionId, result: Value) {
        let id = self.clients.get_mut(&client).unwrap().questions.pop_last().expect("it is asked").0;
        let line = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        self.core.client_line(client, &line.into());
        self.perform();
    }

    /// Folds the first records of a log, with the session ids that clients use.
    pub(super) fn fold_log(&self, session: &str, length: usize) -> Conversation {
        let mut state = SessionState::default();
        let mut fold = Conversation::new(WireFormat::Any);
        for (offset, (channel, text)) in self.log[session].iter().take(length).enumerate() {
            let _ = state.apply(offset as u64, *channel, text);
            let message: Value = serde_json::from_str(text).unwrap_or_default();
            if *channel == Channel::ToClient && message["method"] == "session/update" {
                let about = message["params"]["sessionId"].as_str().unwrap();
                let about = state.client_session_id(session, about).into_owned();
                apply(&mut fold, &about, &message["params"]["update"]);
            }
        }
        fold
    }

    /// Folds the session as a client has it.
    pub(super) fn held_by(&self, client: ConnectionId, session: &str) -> Conversation {
        let client = &self.clients[&client];
        let from = client.from.get(session).copied().unwrap_or_default();
        let mut fold = self.fold_log(session, from as usize);
        for got in client.got.get(session).iter().flat_map(|got| got.iter()).filter(|got| !got.is_known) {
            apply(&mut fold, &got.about, &got.update);
        }
        fold
    }

    /// Folds the session as the translator of a client has seen it since its last start.
    pub(super) fn translated_for(&self, client: ConnectionId, session: &str) -> Conversation {
        let client = &self.clients[&client];
        let mark = client.mark.get(session).copied().unwrap_or_default();
        let mut fold = Conversation::new(WireFormat::Any);
        for got in client.got.get(session).iter().flat_map(|got| got.iter().skip(mark)) {
            apply(&mut fold, &got.about, &got.update);
        }
        fold
    }

    /// Returns the numbers in the updates of a client.
    pub(super) fn numbers(&self, client: ConnectionId, session: &str) -> Vec<u64> {
        let got = self.clients[&client].got.get(session).cloned().unwrap_or_default();
        got.iter().filter_map(|got| got.update["n"].as_u64()).collect()
    }

    pub(super) fn session_of(&self, which: usize) -> Option<String> {
        let ids: Vec<&SessionId> =
            self.log.iter().filter(|(_, log)| log.len() > 4).map(|(id, _)| id).collect();
        (!ids.is_empty()).then(|| ids[which % ids.len()].to_string())
    }

    pub(super) fn client(&self, which: usize) -> Option<ConnectionId> {
        let ids: Vec<ConnectionId> = self.clients.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[which % ids.len()])
    }
}

/// Reads the records of a log.
pub(super) fn read(
    log: &[(Channel, Arc<str>)],
) -> impl FnMut(Range<u64>, &mut dyn FnMut(u64, Channel, &str)) -> Result<u64, String> + '_ {
    |range, take| {
        let end = range.end.min(log.len() as u64);
        for offset in range.start..end {
            let (channel, text) = &log[offset as usize];
            take(offset, *channel, text);
        }
        Ok(end)
    }
}

fn apply(fold: &mut Conversation, about: &str, update: &Value) {
    let text = update.to_string();
    if let Ok((update, _)) = v2::SessionUpdate::decode_tolerant(&text, WireFormat::Any) {
        fold.apply_update(Some(about), &update).unwrap();
    }
}

/// Returns everything that a client can show, with text independent of its chunks.
pub(super) fn shown(fold: &Conversation) -> BTreeMap<String, Vec<String>> {
    let all = fold.sessions().map(|(id, session)| (id.unwrap().to_owned(), shown_of(session)));
    // A session of which only the state is known shows nothing.
    all.filter(|(_, shown)| shown.len() > 1 || !shown[0].starts_with("None None")).collect()
}

fn shown_of(session: &Session) -> Vec<String> {
    let mut shown: Vec<String> = session.entries().map(shown_entry).collect();
    shown.extend(session.plans().map(|plan| plan.to_update().encode(WireFormat::Any)));
    shown.extend(session.unknown().map(|unknown| format!("{unknown:?}")));
    shown.push(format!("{:?} {:?} {:?}", session.title(), session.usage(), session.lists()));
    shown
}

fn shown_entry(entry: &Entry) -> String {
    let items: Vec<String> = match (entry.as_message(), entry.as_tool_call()) {
        (Some(message), _) => pieces(message.content()),
        (_, Some(call)) => pieces(call.content()),
        _ => Vec::new(),
    };
    let mut rest: Value = serde_json::from_str(&entry.to_update().encode(WireFormat::Any)).unwrap();
    rest.as_object_mut().unwrap().remove("content");
    format!("{rest} {items:?}")
}

fn pieces<B: Block>(content: &Content<B>) -> Vec<String> {
    let mut pieces: Vec<(bool, String)> = Vec::new();
    for item in content.items() {
        let own =
            (item.structured(), item.chunk_meta(), item.chunk_extra().filter(|extra| !extra.is_empty()));
        let is_plain = matches!(own, (None, None, None));
        match pieces.last_mut() {
            Some((true, text)) if is_plain => text.push_str(item.text().unwrap()),
            _ if is_plain => pieces.push((true, item.text().unwrap().to_owned())),
            _ => pieces.push((false, format!("{:?} {own:?}", item.text()))),
        }
    }
    pieces.into_iter().map(|(_, text)| text).filter(|text| !text.is_empty()).collect()
}

thread_local! {
    pub(super) static OUT: std::cell::RefCell<Vec<Value>> = const { std::cell::RefCell::new(Vec::new()) };
}

pub(super) fn answer(id: &Value, result: Value) {
    OUT.with(|out| out.borrow_mut().push(json!({"jsonrpc": "2.0", "id": id, "result": result})));
}

impl Agent {
    pub(super) fn hear(&mut self, line: &str) {
        let message: Value = serde_json::from_str(line).unwrap();
        let (method, id) = (message["method"].as_str().map(str::to_owned), &message["id"]);
        if let (Some(_), Some(id)) = (&method, id.as_i64()) {
            self.last_request = id;
        }
        match method.as_deref() {
            Some("initialize") => answer(
                id,
                json!({"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {"session": {}}}),
            ),
            Some("session/new") => {
                self.next += 1;
                let session = format!("a{}", self.next);
                self.sessions.push(session.clone());
                answer(id, json!({"sessionId": session}));
            }
            Some("session/list") => {
                let entry = |id: &String| json!({"sessionId": id, "cwd": "/w/a", "big": 1e300});
                answer(id, json!({"sessions": self.remembers.iter().map(entry).collect::<Vec<_>>()}));
            }
            Some("session/resume") => {
                let session = message["params"]["sessionId"].as_str().unwrap().to_owned();
                if message["params"]["replayFrom"].is_object() {
                    let params = json!({"sessionId": session, "update": {"sessionUpdate": "x", "n": 1}});
                    let replayed = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
                    OUT.with(|out| out.borrow_mut().push(replayed));
                }
                if self.refuses {
                    let error = json!({"code": -32002, "message": "gone"});
                    OUT.with(|out| {
                        out.borrow_mut().push(json!({"jsonrpc": "2.0", "id": id, "error": error}))
                    });
                } else {
                    self.sessions.push(session);
                    answer(id, json!({}));
                }
            }
            Some("session/prompt") => {
                assert!(message["params"]["_meta"].get("switchboard/operationId").is_none());
                let text = message["params"]["prompt"][0]["text"].as_str().unwrap().to_owned();
                let session = message["params"]["sessionId"].as_str().unwrap().to_owned();
                assert!(self.sessions.contains(&session), "a prompt for a session that is not open");
                assert!(!self.at_work.contains(&session), "two prompts at once");
                self.prompts.push(text);
                self.at_work.push(session.clone());
                let running = json!({"sessionUpdate": "state_update", "state": "running"});
                let params = json!({"sessionId": session, "update": running});
                OUT.with(|out| {
                    out.borrow_mut()
                        .push(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
                });
                if !self.is_slow {
                    answer(id, json!({"messageId": "m"}));
                }
            }
            Some("session/cancel" | "session/close") => {
                let session = message["params"]["sessionId"].as_str().unwrap().to_owned();
                if !id.is_null() {
                    answer(id, json!({}));
                }
                if self.ignores_cancel && method.as_deref() == Some("session/cancel") {
                    return;
                }
                if self.at_work.contains(&session) && method.as_deref() == Some("session/cancel") {
                    self.rest(&session);
                }
                self.at_work.retain(|known| *known != session);
            }
            Some(_) if !id.is_null() && !self.is_slow => answer(id, json!({})),
            Some(_) => {}
            None => {
                let number = id.as_i64().unwrap();
                *self.answered.entry(number).or_default() += 1;
                let result = message.get("result").or(message.get("error")).unwrap();
                self.results.entry(number).or_default().push(result.clone());
                self.questions.retain(|(known, _)| Some(*known) != id.as_i64());
            }
        }
    }

    pub(super) fn rest(&mut self, session: &str) {
        self.at_work.retain(|known| known != session);
        let idle = json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"});
        let params = json!({"sessionId": session, "update": idle});
        OUT.with(|out| {
            out.borrow_mut().push(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
        });
    }
}
