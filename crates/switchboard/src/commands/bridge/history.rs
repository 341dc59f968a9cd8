//! History for agents without session history. It works between the bridge and the agent in the agent's
//! version, and answers from the store which sessions exist and what they contain. The agent gets a new
//! session for an old one, with another id.

use std::collections::HashMap;

use memchr::memmem;
use serde_json::{Value, json};
use switchboard_acp::detect::Handshake;
use switchboard_acp::extensions::MOMENTARY;
use switchboard_acp::rpc::{Message, Request, RequestId, Response, RpcError, codes};
use switchboard_acp::{Correlator, Raw, Side, Version, Wire, WireFormat};
use switchboard_replay::{ScriptReader, update_line, wants_history};
use switchboard_session::prompt_title_in;
use switchboard_store::{Channel, Filter, Item, Store, Summary};

use crate::recording::Recording;

/// Maximum number of tracked requests.
const MAX_ASKED: usize = 1024;
/// Maximum number of listed sessions, latest first.
const MAX_LISTED: usize = 500;
/// Maximum bytes of recordings read for one list.
const MAX_READ: u64 = 64 * 1024 * 1024;
/// Notice in a restored session that the agent does not know.
const NO_MEMORY_NOTICE: &str = "The agent does not remember this session: it sees only what comes from here on. \
                         What is above was recorded by Switchboard.";

/// Replacement for forwarding a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Send this line to the agent.
    ToAgent(String),
    /// Handle this line as if the agent had sent it.
    FromAgent(String),
}

pub(super) struct History {
    store: Store,
    recording: Recording,
    /// The agent's name in the store, if it is configured.
    name: Option<String>,
    agent: Agent,
    /// Set if the agent was told that sub-agents have sessions of their own.
    knows_children: bool,
    asked: Correlator<PendingRequest>,
    /// Sessions with another id at the agent: the client's id and the agent's.
    renamed: Vec<(String, String)>,
    /// Titles of the sessions in recordings with several, by recording, with the length that was read.
    titles: HashMap<String, (u64, Titles)>,
}

/// The titles of sessions by id. A session without one is empty.
type Titles = HashMap<String, String>;

/// Properties of the agent from its handshake.
#[derive(Default)]
struct Agent {
    name: Option<String>,
    is_version_1: bool,
    loads: bool,
    resumes: bool,
    lists: bool,
}

/// A request whose response matters.
enum PendingRequest {
    Introduction,
    List {
        cwd: Option<String>,
    },
    /// Opens an old session at an agent that may support it.
    Opening(Request<'static>),
    /// Opens a new session, or the same one without its history, instead of an old one.
    Instead {
        session: String,
        is_new: bool,
        lines: Vec<String>,
    },
}

/// Returns an object with some keys removed and one set.
fn changed(object: &Raw<'_>, without: &[&str], with: Option<(&str, &Value)>) -> Raw<'static> {
    let mut text = String::from("{");
    let kept = object.entries().filter(|(key, _)| !without.contains(&&**key));
    let kept = kept.filter(|(key, _)| with.is_none_or(|(new, _)| **key != *new));
    let entries = kept.map(|(key, value)| (key.into_owned(), value.as_str().to_owned()));
    for (key, value) in entries.chain(with.map(|(key, value)| (key.to_owned(), value.to_string()))) {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&Value::from(key).to_string());
        text.push(':');
        text.push_str(&value);
    }
    text.push('}');
    // Built from parts that were parsed before.
    Raw::parse(text).unwrap_or_else(|_| json!({}).into())
}

/// Returns the title that an agent gives a session, with the session's id.
fn own_title(message: &Message<'_>) -> Option<(String, String)> {
    let Message::Notification(notification) = message else { return None };
    let params = notification.params.as_ref()?;
    let update = params.get("update")?;
    let title = update.text("title").filter(|title| !title.is_empty())?;
    (update.text("sessionUpdate").as_deref() == Some("session_info_update"))
        .then(|| Some((params.text("sessionId")?, title)))
        .flatten()
}

fn answer(id: RequestId<'static>, result: Raw<'static>) -> Redirect {
    Redirect::FromAgent(Message::response(id, Ok(result)).encode(WireFormat::Any))
}

impl History {
    /// Creates a history from the store of a recording, if it has one. The name is that of the configuration.
    pub(super) fn new(recording: Recording, name: Option<String>) -> Option<Self> {
        let store = recording.store()?.clone();
        let (agent, asked, renamed) = (Agent::default(), Correlator::new(MAX_ASKED), Vec::new());
        let titles = HashMap::new();
        Some(History { store, recording, name, agent, knows_children: false, asked, renamed, titles })
    }

    /// Handles a line for the agent; `None`: forward it unchanged.
    pub(super) fn take_for_agent(&mut self, line: &str) -> Option<Vec<Redirect>> {
        const METHODS: [&str; 4] = ["initialize", "session/list", "session/load", "session/resume"];
        let has = |method: &&str| memmem::find(line.as_bytes(), method.as_bytes()).is_some();
        if self.renamed.is_empty() && !METHODS.iter().any(has) {
            return None;
        }
        match Message::decode(line, WireFormat::Any).ok()?.into_owned() {
            Message::Request(request) => self.request(request),
            Message::Notification(mut notification) => {
                notification.params = Some(self.renamed(notification.params.as_ref()?, true)?);
                Some(vec![Redirect::ToAgent(Message::Notification(notification).encode(WireFormat::Any))])
            }
            Message::Response(_) => None,
        }
    }

    /// Returns whether lines of the agent must be inspected.
    pub(super) fn is_at_work(&self) -> bool {
        !self.asked.is_empty() || !self.renamed.is_empty()
    }

    /// Handles a line of the agent; `None`: forward it unchanged.
    pub(super) fn take_of_agent(&mut self, line: &str) -> Option<Vec<Redirect>> {
        if !self.is_at_work() {
            return None;
        }
        let pass = |message: Message<'_>| Some(vec![Redirect::FromAgent(message.encode(WireFormat::Any))]);
        match Message::decode(line, WireFormat::Any).ok()?.into_owned() {
            Message::Response(response) => self.response(response),
            Message::Notification(mut notification) => {
                notification.params = Some(self.renamed(notification.params.as_ref()?, false)?);
                pass(Message::Notification(notification))
            }
            Message::Request(mut request) => {
                request.params = Some(self.renamed(request.params.as_ref()?, false)?);
                pass(Message::Request(request))
            }
        }
    }

    /// Returns parameters with the session id of the other side.
    fn renamed(&self, params: &Raw<'_>, to_agent: bool) -> Option<Raw<'static>> {
        let id = params.text("sessionId")?;
        let other = self.renamed.iter().find_map(|(client, agent)| {
            let (own, other) = if to_agent { (client, agent) } else { (agent, client) };
            (*own == id).then_some(other)
        })?;
        Some(changed(params, &[], Some(("sessionId", &Value::from(other.as_str())))))
    }

    fn request(&mut self, mut request: Request<'static>) -> Option<Vec<Redirect>> {
        let params = request.params.as_ref();
        match &*request.method {
            "initialize" => {
                let offered = params.and_then(|params| params.get("clientCapabilities"));
                self.knows_children = offered.is_some_and(|offered| offered.get("subagents").is_some());
                self.ask(&request.id, PendingRequest::Introduction);
                None
            }
            "session/list" if self.agent.is_version_1 && !self.agent.lists => {
                Some(vec![self.list(request.id, params.and_then(|it| it.text("cwd")).as_deref())])
            }
            "session/list" => {
                let cwd = params.and_then(|it| it.text("cwd"));
                self.ask(&request.id, PendingRequest::List { cwd });
                None
            }
            "session/load" | "session/resume" => {
                let is_able = match (self.agent.is_version_1, &*request.method) {
                    (true, "session/load") => self.agent.loads,
                    (true, _) => self.agent.resumes,
                    // Version 2 agents should be able to; some are not, or no longer have the session.
                    (false, _) => true,
                };
                let is_renamed = params
                    .and_then(|it| it.text("sessionId"))
                    .is_some_and(|id| self.renamed.iter().any(|(client, _)| *client == id));
                if is_able && !is_renamed {
                    self.ask(&request.id.clone(), PendingRequest::Opening(request));
                    return None;
                }
                Some(self.open(&request).unwrap_or_else(|| {
                    let session =
                        request.params.as_ref().and_then(|it| it.text("sessionId")).unwrap_or_default();
                    let message = format!("session {session} exists neither at the agent nor in the store");
                    let error = RpcError::new(codes::RESOURCE_NOT_FOUND, message);
                    let refusal = Message::response(request.id, Err(error));
                    vec![Redirect::FromAgent(refusal.encode(WireFormat::Any))]
                }))
            }
            _ => {
                request.params = Some(self.renamed(params?, true)?);
                Some(vec![Redirect::ToAgent(Message::Request(request).encode(WireFormat::Any))])
            }
        }
    }

    /// Tracks a request. Above the limit the oldest is dropped; its response is forwarded unchanged then.
    fn ask(&mut self, id: &RequestId<'_>, asked: PendingRequest) {
        self.asked.open_or_evict(Side::Client, id, asked);
    }

    /// Opens an old session from the store; `None` if it does not exist.
    fn open(&mut self, request: &Request<'static>) -> Option<Vec<Redirect>> {
        let params = request.params.as_ref()?;
        let session = params.text("sessionId")?;
        let recorded = self.recorded(&session)?;
        let lines = if wants_history(request) { recorded } else { Vec::new() };
        // Opened again in this conversation: the agent already has it.
        if self.renamed.iter().any(|(client, _)| *client == session) {
            return Some(self.opened(&session, false, lines, answer(request.id.clone(), json!({}).into())));
        }
        let is_new = !(self.agent.is_version_1 && self.agent.resumes);
        let (method, params) = if is_new {
            ("session/new", changed(params, &["sessionId", "replayFrom"], None))
        } else {
            ("session/resume", params.clone())
        };
        self.ask(&request.id, PendingRequest::Instead { session, is_new, lines });
        let instead = Message::request(request.id.clone(), method, params);
        Some(vec![Redirect::ToAgent(instead.encode(WireFormat::Any))])
    }

    /// Returns the lines that the client gets for an old session.
    fn opened(&self, session: &str, is_new: bool, lines: Vec<String>, answer: Redirect) -> Vec<Redirect> {
        let mut steps: Vec<Redirect> = lines.into_iter().map(Redirect::FromAgent).collect();
        let mut say = |update: Value| steps.push(Redirect::FromAgent(update_line(session, &update)));
        if is_new && self.agent.is_version_1 {
            let content = json!({"type": "text", "text": format!("[{NO_MEMORY_NOTICE}]")});
            let meta = MOMENTARY.meta(true);
            say(json!({"sessionUpdate": "agent_message_chunk", "content": content, "_meta": meta.as_raw()}));
        } else if is_new {
            say(json!({"sessionUpdate": "notice", "severity": "warning", "title": NO_MEMORY_NOTICE}));
        }
        if !self.agent.is_version_1 {
            say(json!({"sessionUpdate": "state_update", "state": "idle"}));
        }
        steps.push(answer);
        steps
    }

    fn response(&mut self, response: Response<'static>) -> Option<Vec<Redirect>> {
        let lacks =
            |error: &RpcError<'_>| matches!(error.code, codes::METHOD_NOT_FOUND | codes::RESOURCE_NOT_FOUND);
        match (self.asked.answered(Side::Agent, &response.id)?, response.outcome) {
            (PendingRequest::Introduction, Ok(result)) => {
                let result = self.introduced(&result)?;
                Some(vec![answer(response.id, result)])
            }
            (PendingRequest::List { cwd }, Err(error)) if lacks(&error) => {
                Some(vec![self.list(response.id, cwd.as_deref())])
            }
            (PendingRequest::Opening(request), Err(error)) if lacks(&error) => self.open(&request),
            (PendingRequest::Instead { session, is_new, lines }, Ok(result)) => {
                if is_new {
                    let agents = result.text("sessionId")?;
                    self.renamed.push((session.clone(), agents));
                }
                let answer = answer(response.id, changed(&result, &["sessionId"], None));
                Some(self.opened(&session, is_new, lines, answer))
            }
            _ => None,
        }
    }

    /// Stores the agent's capabilities. Returns its response with the capabilities that the history adds.
    fn introduced(&mut self, result: &Raw<'static>) -> Option<Raw<'static>> {
        let info = result.get("info").or_else(|| result.get("agentInfo"));
        let capabilities = result.get("agentCapabilities");
        let has = |object: Option<&Raw<'_>>, key: &str| {
            object
                .and_then(|object| object.get(key))
                .is_some_and(|value| value.as_str() == "true" || value.is_object())
        };
        let of_sessions =
            capabilities.as_ref().and_then(|own| Some(own.get("sessionCapabilities")?.into_owned()));
        self.agent = Agent {
            name: info.as_ref().and_then(|it| it.text("name")),
            is_version_1: Handshake::of_answer(result).version == Version::V1,
            loads: has(capabilities.as_ref(), "loadSession"),
            resumes: has(of_sessions.as_ref(), "resume"),
            lists: has(of_sessions.as_ref(), "list"),
        };
        if !self.agent.is_version_1 || (self.agent.loads && self.agent.lists) {
            return None;
        }
        let empty = || Raw::from(json!({}));
        let of_sessions = changed(&of_sessions.unwrap_or_else(empty), &[], Some(("list", &json!({}))));
        let capabilities =
            changed(&capabilities.unwrap_or_else(empty), &[], Some(("loadSession", &json!(true))));
        let capabilities =
            changed(&capabilities, &[], Some(("sessionCapabilities", &of_sessions.to_value())));
        Some(changed(result, &[], Some(("agentCapabilities", &capabilities.to_value()))))
    }

    /// Returns the sessions of this agent, latest first; none if the store cannot be read.
    fn sessions(&self) -> Vec<Summary> {
        let name = self.name.as_ref().or(self.agent.name.as_ref());
        let filter = Filter { agent: name.cloned(), ..Filter::default() };
        let mut sessions = self.store.sessions(&filter).unwrap_or_default();
        sessions.retain(|session| session.about.agent.as_ref() == name);
        sessions
    }

    /// Lists the sessions with a prompt: editors open an empty one whenever they start.
    fn list(&mut self, id: RequestId<'static>, cwd: Option<&str>) -> Redirect {
        // Sessions of this conversation are among them.
        self.recording.settle();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut listed: Vec<Value> = Vec::new();
        let (mut room, mut titles) = (MAX_READ, HashMap::new());
        for session in self.sessions() {
            let project = session.about.project.as_ref();
            let Some(project) = project.filter(|project| cwd.is_none_or(|cwd| cwd == **project)) else {
                continue;
            };
            let own = self.titles_in(&session, &mut room);
            // Sessions of sub-agents are not listed: the client did not open them.
            for wire_id in &session.wire_ids {
                let Some(title) = own.get(wire_id) else { continue };
                let place = *places.entry(wire_id.clone()).or_insert(listed.len());
                if place == listed.len() && place < MAX_LISTED {
                    let updated = format!("{}Z", session.changed.to_string().replace(' ', "T"));
                    listed.push(json!({"sessionId": wire_id, "cwd": project, "updatedAt": updated}));
                }
                // The first recording has the best title.
                if let Some(info) = listed.get_mut(place) {
                    info["title"] = Value::from(title.as_str());
                }
            }
            titles.insert(session.id, (session.length, own));
        }
        self.titles = titles;
        answer(id, json!({ "sessions": listed }).into())
    }

    /// Returns the titles of the sessions in a recording. The store has one title per recording, and none
    /// without a prompt, so a recording with several sessions or without a title is read, within a limit.
    fn titles_in(&self, session: &Summary, room: &mut u64) -> Titles {
        if let Some((length, titles)) = self.titles.get(&session.id)
            && *length == session.length
        {
            return titles.clone();
        }
        let title = session.about.title.iter();
        let of_recording =
            || title.flat_map(|title| session.wire_ids.iter().map(|id| (id.clone(), title.clone())));
        let is_clear = session.wire_ids.len() < 2 && session.about.title.is_some();
        if is_clear || session.bytes > *room {
            return of_recording().collect();
        }
        *room -= session.bytes;
        let Ok(items) = self.store.read(&session.id, 0) else { return of_recording().collect() };
        let (mut prompted, mut named) = (Titles::new(), Titles::new());
        for item in items {
            let Ok(Item::Record(record)) = item else { continue };
            let needles: &[&[u8]] = match record.channel {
                Channel::ToAgent => &[b"\"session/prompt\""],
                Channel::ToClient => &[b"\"session_info_update\"", b"\"user_message"],
                _ => continue,
            };
            if !needles.iter().any(|needle| memmem::find(&record.bytes, needle).is_some()) {
                continue;
            }
            let Ok(text) = std::str::from_utf8(&record.bytes) else { continue };
            let Ok(message) = Message::decode(text, WireFormat::Any) else { continue };
            if let Some((id, title)) = prompt_title_in(&message) {
                prompted.entry(id).or_insert(title);
            } else if let Some((id, title)) = own_title(&message) {
                named.insert(id, title);
            }
        }
        prompted.extend(named);
        prompted
    }

    /// Returns the last recorded lines of a session, followed by those of its sub-agents.
    fn recorded(&self, id: &str) -> Option<Vec<String>> {
        // The session may belong to this conversation.
        self.recording.settle();
        let version = if self.agent.is_version_1 { 1 } else { 2 };
        let sessions =
            self.sessions().into_iter().filter(|session| session.wire_ids.iter().any(|own| own == id));
        sessions.into_iter().find_map(|session| {
            let mut reader = ScriptReader::default();
            for item in self.store.read(&session.id, 0).ok()? {
                let Ok(Item::Record(mut record)) = item else { continue };
                // The side of the agent.
                record.channel = match (record.channel, session.protocol == version) {
                    (channel @ (Channel::ToAgent | Channel::ToClient), true) => channel,
                    (Channel::OtherToAgent, false) => Channel::ToAgent,
                    (Channel::OtherToClient, false) => Channel::ToClient,
                    _ => continue,
                };
                reader.take(&record);
            }
            let session = reader.finish().sessions.into_iter().find(|session| session.id == id)?;
            let lines = session.history(version, self.knows_children || version == 2);
            (!lines.is_empty()).then_some(lines)
        })
    }
}
