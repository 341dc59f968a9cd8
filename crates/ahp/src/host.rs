//! The host of one identity's clients, as a state machine without I/O: channels, sequence numbers, subscriptions, requests
//! and dispatched actions in; lines to clients and commands for sessions of the hub out.
//!
//! Every action gets one number, strictly growing over all channels. A snapshot contains exactly the actions up to its
//! number, because both are made in one step. The first number comes from the clock, so that it is greater after a
//! restart than ever before.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use ahp_types::actions::{ChatInputCompletedAction, ChatToolCallConfirmedAction, ChatTurnStartedAction};
use ahp_types::state::{Message, RootState};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use switchboard_acp::{Moment, v2};
use switchboard_session::Changes;
use switchboard_store::Role;

use crate::content::{SCHEME, SharedReadFile};
use crate::fold::{Sent, Sink, apply};
use crate::memory::Memory;
use crate::options::{OWN_MODEL, Options, Setting};
use crate::prompt::{self, Accepts};
use crate::question::{self, Answer, QuestionKind};
use crate::service::ResolveFolder;
use crate::session::{Draft, HostSession, Link, SessionNote, Stage, UNTITLED};
use crate::wire::{
    ClientMessage, Failure, ROOT, answered, codes, failed, file_path, file_uri, is_newer_action, negotiate,
    notification, params_of, time, unsupported_version,
};

/// Maximum size of the window of actions for reconnecting clients, in bytes.
const WINDOW_BYTES: usize = 8 << 20;
/// Maximum number of actions in the window.
const WINDOW: usize = 16_384;
/// Maximum number of clients that can reconnect.
const MAX_KNOWN: usize = 256;
/// Maximum number of subscriptions of one client.
const MAX_SUBSCRIPTIONS: usize = 1024;
/// Maximum number of sessions that clients have created and not used.
const MAX_PROVISIONAL: usize = 64;
/// Time that a provisional session outlives its connection.
const ORPHAN: i64 = 60_000;
/// Time after which a session without subscribers and work is detached.
const UNUSED: i64 = 60_000;
/// Maximum number of sessions in one response to `listSessions`.
const PAGE: usize = 200;
/// Maximum length of a title in characters.
const MAX_TITLE: usize = 200;

/// A session of the hub, as clients list it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Listed {
    pub(crate) id: Arc<str>,
    pub(crate) agent: String,
    pub(crate) folder: String,
    pub(crate) title: Option<String>,
    pub(crate) changed: i64,
    /// Activity bits of the protocol's status.
    pub(crate) status: u32,
}

/// A command for the connection of a session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Command {
    Prompt {
        turn: String,
        content: Vec<v2::ContentBlock<'static>>,
    },
    /// Cancels a prompt that is not part of the session yet.
    TakeBack {
        turn: String,
    },
    Cancel,
    Answer {
        question: String,
        answer: Answer,
    },
    Set(Setting),
}

/// An effect of a step.
#[derive(Debug)]
pub(crate) enum Effect {
    Send {
        client: u64,
        text: Arc<str>,
    },
    Close {
        client: u64,
        reason: &'static str,
    },
    /// Attach to a session of the hub.
    Attach {
        session: Arc<str>,
        id: Arc<str>,
        agent: String,
        folder: String,
    },
    /// Create a session of the hub.
    Start {
        session: Arc<str>,
        agent: String,
        folder: String,
    },
    Command {
        session: Arc<str>,
        command: Command,
    },
    Detach {
        session: Arc<str>,
    },
    /// Close a session for all clients, then answer the request.
    Dispose {
        client: u64,
        request: Box<RawValue>,
        session: Arc<str>,
        id: Arc<str>,
        agent: String,
    },
    ReadFile {
        client: u64,
        request: Box<RawValue>,
        path: String,
    },
}

/// Options of a host.
pub(crate) struct HostOptions {
    /// Names of the agents.
    pub(crate) agents: Vec<String>,
    /// Folder of new sessions for which none is given.
    pub(crate) folder: String,
    /// Returns the canonical path of a folder in which sessions may work.
    pub(crate) resolve: ResolveFolder,
    /// Reads a file that clients may see.
    pub(crate) read: SharedReadFile,
    pub(crate) memory: Memory,
    pub(crate) role: Role,
}

struct Client {
    id: String,
    /// True for protocol versions below 1.
    is_old: bool,
    is_initialized: bool,
    subscriptions: HashSet<Arc<str>>,
}

struct Windowed {
    number: i64,
    channel: Arc<str>,
    is_newer: bool,
    /// The notification as it was sent.
    text: Arc<str>,
}

/// A response that waits for sessions to be attached.
struct Pending {
    client: u64,
    request: Box<RawValue>,
    channels: Vec<Arc<str>>,
    kind: PendingKind,
    /// Reason why a channel is not available.
    failed: HashMap<Arc<str>, String>,
}

enum PendingKind {
    Subscribe,
    Initialize { version: String },
    Reconnect,
}

struct Agent {
    name: String,
    provider: String,
}

/// The host of one identity's clients.
pub(crate) struct Host {
    options: HostOptions,
    agents: Vec<Agent>,
    root: RootState,
    root_uri: Arc<str>,
    number: i64,
    window: VecDeque<Windowed>,
    window_bytes: usize,
    /// Number of the last action that is no longer in the window.
    floor: i64,
    clients: HashMap<u64, Client>,
    /// Clients that can reconnect, and whether their version is below 1.
    known: VecDeque<(String, bool)>,
    sessions: HashMap<Arc<str>, HostSession>,
    orphans: HashMap<Arc<str>, Moment>,
    listed: Vec<Listed>,
    is_listed: bool,
    pending: Vec<Pending>,
    effects: Vec<Effect>,
}

impl Host {
    pub(crate) fn new(options: HostOptions, now: Moment) -> Option<Self> {
        let mut agents: Vec<Agent> = Vec::new();
        for name in &options.agents {
            let mut provider = provider_of(name);
            while agents.iter().any(|known| known.provider == provider) {
                provider.push_str("-2");
            }
            agents.push(Agent { name: name.clone(), provider });
        }
        let root = json!({"agents": agents_state(&agents, &options.memory), "activeSessions": 0});
        let number = now.0.max(1).saturating_mul(1000);
        Some(Host {
            root: crate::fold::state(root)?,
            root_uri: ROOT.into(),
            agents,
            options,
            number,
            window: VecDeque::new(),
            window_bytes: 0,
            floor: number,
            clients: HashMap::new(),
            known: VecDeque::new(),
            sessions: HashMap::new(),
            orphans: HashMap::new(),
            listed: Vec::new(),
            is_listed: false,
            pending: Vec::new(),
            effects: Vec::new(),
        })
    }

    /// Takes the effects of the last steps, in order.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    fn read(&self) -> SharedReadFile {
        Arc::clone(&self.options.read)
    }

    fn provider(&self, agent: &str) -> String {
        let known = self.agents.iter().find(|known| known.name == agent);
        known.map_or_else(|| provider_of(agent), |known| known.provider.clone())
    }

    fn uri_of(&self, listed: &Listed) -> String {
        let chosen = self.options.memory.session(&listed.id).uri;
        chosen.unwrap_or_else(|| format!("{}:/{}", self.provider(&listed.agent), listed.id))
    }

    fn listed_at(&self, uri: &str) -> Option<&Listed> {
        if let Some(id) = self.options.memory.id_of(uri) {
            return self.listed.iter().find(|listed| *listed.id == *id);
        }
        let (provider, id) = uri.split_once(":/")?;
        let listed = self.listed.iter().find(|listed| *listed.id == *id)?;
        // The other URI of a session for which a client has chosen one is unknown.
        (self.provider(&listed.agent) == provider && self.uri_of(listed) == uri).then_some(listed)
    }

    /// Returns the URI of the session to which a channel belongs.
    fn session_of(&self, channel: &str) -> Option<Arc<str>> {
        if let Some(session) = self.sessions.values().find(|session| session.has_channel(channel)) {
            return Some(Arc::clone(&session.uri));
        }
        if let Some(rest) = channel.strip_prefix("ahp-terminal:/") {
            let id = rest.split('/').next()?;
            let listed = self.listed.iter().find(|listed| *listed.id == *id)?;
            return Some(self.uri_of(listed).into());
        }
        let session = match channel.rfind("/chat") {
            Some(end) if self.listed_at(channel).is_none() => &channel[..end],
            _ => channel,
        };
        let known = self.sessions.contains_key(session) || self.listed_at(session).is_some();
        known.then(|| session.into())
    }

    // ----- sending

    fn send(&mut self, client: u64, text: String) {
        self.effects.push(Effect::Send { client, text: text.into() });
    }

    fn reply(&mut self, client: u64, request: &RawValue, result: Result<Value, Failure>) {
        let text = match result {
            Ok(result) => answered(request, &result),
            Err(failure) => failed(request, &failure),
        };
        self.send(client, text);
    }

    /// Numbers actions and sends them to the subscribers.
    fn publish(&mut self, sink: Sink) {
        for Sent { channel, action, origin, rejected } in sink.sent {
            self.number += 1;
            let is_newer = action["type"].as_str().is_some_and(is_newer_action);
            let mut params = json!({"channel": &*channel, "action": action, "serverSeq": self.number});
            if let Some(origin) = origin {
                params["origin"] = origin;
            }
            if let Some(reason) = rejected {
                params["rejectionReason"] = json!(reason);
            }
            let text: Arc<str> = notification("action", &params).into();
            let to =
                |client: &&Client| client.subscriptions.contains(&channel) && !(is_newer && client.is_old);
            let clients = self.clients.iter().filter(|(_, client)| to(client));
            self.effects
                .extend(clients.map(|(client, _)| Effect::Send { client: *client, text: Arc::clone(&text) }));
            self.window_bytes += text.len();
            self.window.push_back(Windowed { number: self.number, channel, is_newer, text });
            while self.window.len() > WINDOW || self.window_bytes > WINDOW_BYTES {
                let Some(oldest) = self.window.pop_front() else { break };
                self.window_bytes -= oldest.text.len();
                self.floor = oldest.number;
            }
        }
    }

    /// Sends a notification to all clients that follow the root channel.
    fn announce(&mut self, method: &str, mut params: Value) {
        params["channel"] = json!(ROOT);
        let text: Arc<str> = notification(method, &params).into();
        let clients = self.clients.iter().filter(|(_, client)| client.subscriptions.contains(&self.root_uri));
        self.effects
            .extend(clients.map(|(client, _)| Effect::Send { client: *client, text: Arc::clone(&text) }));
    }

    /// Changes a session, publishes the actions, and acts on the consequences.
    fn in_session<T>(
        &mut self,
        uri: &str,
        now: Moment,
        change: impl FnOnce(&mut HostSession, &mut Sink) -> T,
    ) -> Option<T> {
        let session = self.sessions.get_mut(uri)?;
        let before = session.chats.first().map(|chat| chat.state.status);
        let mut sink = Sink::new(now);
        let result = change(session, &mut sink);
        let is_changed = before != session.chats.first().map(|chat| chat.state.status);
        let notes = std::mem::take(&mut session.notes);
        self.publish(sink);
        for note in notes {
            self.act_on(uri, note, now);
        }
        if is_changed {
            self.announce_status(uri, now);
        }
        Some(result)
    }

    fn act_on(&mut self, uri: &str, note: SessionNote, now: Moment) {
        match note {
            SessionNote::Next => self.begin_next(uri, now),
            SessionNote::Bound { message, turn } => {
                if let Some(id) = self.sessions.get(uri).and_then(|session| session.id.clone()) {
                    self.options.memory.change(&id, |facts| facts.add_turn(&message, &turn));
                }
            }
            SessionNote::Options => {
                let Some(session) = self.sessions.get(uri) else { return };
                let (agent, options) = (session.agent.clone(), session.options.to_json());
                if self.options.memory.set_options(&agent, &options) {
                    self.agents_changed(now);
                }
            }
        }
    }

    fn agents_changed(&mut self, now: Moment) {
        let agents = agents_state(&self.agents, &self.options.memory);
        if serde_json::to_value(&self.root.agents).ok().as_ref() == Some(&agents) {
            return;
        }
        let mut sink = Sink::new(now);
        sink.act(&self.root_uri, &mut self.root, json!({"type": "root/agentsChanged", "agents": agents}));
        self.publish(sink);
    }

    // ----- sessions of the hub

    fn status_of(&self, listed: &Listed, uri: &str) -> u32 {
        let facts = self.options.memory.session(&listed.id);
        let chat = self.sessions.get(uri).filter(|session| session.stage == Stage::Ready);
        let activity = chat.and_then(|session| session.chats.first()).map(|chat| chat.state.status & 0x1F);
        activity.unwrap_or(listed.status)
            | if facts.is_read { 32 } else { 0 }
            | if facts.is_archived { 64 } else { 0 }
    }

    fn summary(&self, listed: &Listed) -> Value {
        let uri = self.uri_of(listed);
        let facts = self.options.memory.session(&listed.id);
        let created = if facts.created == 0 { listed.changed } else { facts.created };
        json!({
            "resource": uri, "provider": self.provider(&listed.agent), "title": title(listed, &facts),
            "status": self.status_of(listed, &uri), "createdAt": time(Moment(created)), "modifiedAt": time(Moment(listed.changed)),
            "workingDirectories": [file_uri(&listed.folder)], "defaultChat": format!("{uri}/chat"),
        })
    }

    fn is_hidden(&self, listed: &Listed) -> bool {
        self.options.memory.session(&listed.id).disposed.is_some_and(|at| at >= listed.changed)
    }

    /// Replaces the list of sessions, and announces the differences.
    pub(crate) fn set_sessions(&mut self, listed: Vec<Listed>, now: Moment) {
        if self.sessions.values().any(|session| session.stage == Stage::Starting) {
            // The URI of a session that is being created is not known to belong to it yet.
            let known: HashSet<Arc<str>> = self.listed.iter().map(|listed| Arc::clone(&listed.id)).collect();
            let listed = listed.into_iter().filter(|listed| known.contains(&listed.id)).collect();
            return self.replace_sessions(listed, now);
        }
        self.replace_sessions(listed, now);
    }

    fn replace_sessions(&mut self, listed: Vec<Listed>, now: Moment) {
        let before = std::mem::replace(&mut self.listed, listed);
        let was: HashMap<Arc<str>, Listed> =
            before.into_iter().map(|listed| (Arc::clone(&listed.id), listed)).collect();
        if std::mem::replace(&mut self.is_listed, true) {
            let now_listed: HashSet<Arc<str>> =
                self.listed.iter().map(|listed| Arc::clone(&listed.id)).collect();
            for gone in was.values().filter(|listed| !now_listed.contains(&listed.id)) {
                let uri = self.uri_of(gone);
                self.remove(&uri);
                self.announce("root/sessionRemoved", json!({"session": uri}));
            }
            for listed in self.listed.clone() {
                let is_hidden = self.is_hidden(&listed);
                match was.get(&listed.id) {
                    None if !is_hidden => {
                        let summary = self.summary(&listed);
                        self.announce("root/sessionAdded", json!({"summary": summary}));
                    }
                    Some(before) if *before != listed && !is_hidden => self.announce_change(&listed),
                    _ => {}
                }
            }
        }
        let working = self.listed.iter().filter(|listed| listed.status & 8 != 0).count();
        if self.root.active_sessions != i64::try_from(working).ok() {
            let mut sink = Sink::new(now);
            let action = json!({"type": "root/activeSessionsChanged", "activeSessions": working});
            sink.act(&self.root_uri, &mut self.root, action);
            self.publish(sink);
        }
        for listed in self.listed.clone() {
            let uri = self.uri_of(&listed);
            if self.sessions.contains_key(&*uri) {
                let title = title(&listed, &self.options.memory.session(&listed.id));
                self.in_session(&uri, now, |session, sink| session.set_title(&title, sink));
            }
        }
        self.resolve_pending(now);
    }

    fn announce_change(&mut self, listed: &Listed) {
        let summary = self.summary(listed);
        let changes = json!({"title": summary["title"], "status": summary["status"], "modifiedAt": summary["modifiedAt"]});
        self.announce(
            "root/sessionSummaryChanged",
            json!({"session": summary["resource"], "changes": changes}),
        );
    }

    fn announce_status(&mut self, uri: &str, now: Moment) {
        let Some(listed) = self.listed_at(uri).cloned() else { return };
        let changes = json!({"status": self.status_of(&listed, uri), "modifiedAt": time(now)});
        self.announce("root/sessionSummaryChanged", json!({"session": uri, "changes": changes}));
    }

    fn remove(&mut self, uri: &str) {
        self.orphans.remove(uri);
        if let Some(session) = self.sessions.remove(uri) {
            self.effects.push(Effect::Detach { session: Arc::clone(&session.uri) });
            for client in self.clients.values_mut() {
                client.subscriptions.retain(|channel| !session.has_channel(channel));
            }
        }
    }

    /// Attaches to a session of the hub, unless that has happened.
    fn open(&mut self, uri: &str, now: Moment) {
        if self.sessions.contains_key(uri) {
            return;
        }
        let Some(listed) = self.listed_at(uri).cloned() else { return };
        let facts = self.options.memory.session(&listed.id);
        let provider = self.provider(&listed.agent);
        let title = title(&listed, &facts);
        let draft = Draft {
            uri,
            provider: &provider,
            agent: &listed.agent,
            folder: &listed.folder,
            title: &title,
            options: self.agent_options(&listed.agent),
            salt: u64::try_from(self.number).unwrap_or_default(),
            facts,
        };
        let Some(mut session) = HostSession::new(draft, now) else { return };
        session.stage = Stage::Attaching;
        session.set_id(&listed.id);
        let mut flags = Sink::new(now);
        if session.facts.is_read {
            session.act(&mut flags, json!({"type": "session/isReadChanged", "isRead": true}));
        }
        if session.facts.is_archived {
            session.act(&mut flags, json!({"type": "session/isArchivedChanged", "isArchived": true}));
        }
        let uri = Arc::clone(&session.uri);
        self.sessions.insert(Arc::clone(&uri), session);
        self.effects.push(Effect::Attach {
            session: uri,
            id: listed.id,
            agent: listed.agent,
            folder: listed.folder,
        });
    }

    fn agent_options(&self, agent: &str) -> Options {
        self.options.memory.options(agent).map(|options| Options::from_json(&options)).unwrap_or_default()
    }

    /// The hub has attached to or created a session. Its history is loaded.
    pub(crate) fn session_opened(
        &mut self,
        uri: &str,
        id: &Arc<str>,
        link: Arc<dyn Link>,
        accepts: Accepts,
        now: Moment,
    ) {
        let read = self.read();
        let Some(session) = self.sessions.get_mut(uri) else {
            // Disposed meanwhile.
            self.effects.push(Effect::Detach { session: uri.into() });
            return;
        };
        (session.link, session.accepts) = (Some(link), accepts);
        let was = std::mem::replace(&mut session.stage, Stage::Ready);
        if was == Stage::Starting {
            session.set_id(id);
            session.facts.uri = Some(uri.to_owned());
            self.options.memory.change(id, |facts| {
                facts.uri = Some(uri.to_owned());
                facts.created = now.0;
            });
            self.in_session(uri, now, |session, sink| session.rebuild(sink, &*read));
        } else {
            // No client has the state yet: it is the snapshot that they get, without the actions.
            let changed =
                self.listed.iter().find(|listed| listed.id == *id).map_or(now.0, |listed| listed.changed);
            let mut sink = Sink::new(Moment(changed.min(now.0)));
            session.rebuild(&mut sink, &*read);
            let notes = std::mem::take(&mut session.notes);
            for note in notes {
                self.act_on(uri, note, now);
            }
        }
        self.resolve_pending(now);
    }

    /// The hub could not attach to or create a session.
    pub(crate) fn session_failed(&mut self, uri: &str, reason: &str, now: Moment) {
        let read = self.read();
        let Some(session) = self.sessions.get_mut(uri) else { return };
        if session.stage == Stage::Starting {
            session.stage = Stage::Provisional;
            self.in_session(uri, now, |session, sink| {
                session.with_chat(0, sink, &*read, |chat, around| {
                    let turn = chat.state.active_turn.as_ref().map(|turn| turn.id.clone());
                    chat.prompt_failed(around, &turn.unwrap_or_default(), reason.to_owned());
                });
                session.notes.clear();
            });
        } else {
            for pending in &mut self.pending {
                let of_session =
                    |channel: &&Arc<str>| ***channel == *uri || channel.starts_with(&format!("{uri}/"));
                let channels: Vec<Arc<str>> = pending.channels.iter().filter(of_session).cloned().collect();
                pending.failed.extend(channels.into_iter().map(|channel| (channel, reason.to_owned())));
            }
            self.remove(uri);
            self.resolve_pending(now);
        }
    }

    /// The connection of a session has ended.
    pub(crate) fn session_closed(&mut self, uri: &str, reason: &str, now: Moment) {
        let read = self.read();
        if self.sessions.get(uri).is_some_and(|session| session.stage != Stage::Ready) {
            return self.session_failed(uri, reason, now);
        }
        self.in_session(uri, now, |session, sink| {
            session.with_chat(0, sink, &*read, |chat, around| {
                let folded = around.conversation.session(Some(&chat.session));
                chat.end_turn(around, folded, crate::chat::End::Error(reason.to_owned()));
            });
            session.notes.clear();
        });
        // Subscribers attach again with their next request.
        self.remove(uri);
    }

    pub(crate) fn session_changed(&mut self, uri: &str, acp: &str, changes: &Changes, now: Moment) {
        let read = self.read();
        self.in_session(uri, now, |session, sink| session.apply(acp, changes, sink, &*read));
    }

    fn in_chat(
        &mut self,
        uri: &str,
        acp: Option<&str>,
        now: Moment,
        change: impl FnOnce(&mut crate::chat::Chat, &mut crate::chat::Around<'_>),
    ) {
        let read = self.read();
        self.in_session(uri, now, |session, sink| {
            let index = acp.and_then(|acp| session.chat_of(acp, sink)).unwrap_or(0);
            session.with_chat(index, sink, &*read, change);
        });
    }

    pub(crate) fn permission_asked(
        &mut self,
        uri: &str,
        acp: &str,
        id: &str,
        request: &v2::RequestPermissionRequest<'_>,
        now: Moment,
    ) {
        self.in_chat(uri, Some(acp), now, |chat, around| chat.ask(around, id, request));
    }

    pub(crate) fn data_asked(
        &mut self,
        uri: &str,
        acp: Option<&str>,
        id: &str,
        request: &v2::CreateElicitationRequest<'static>,
        now: Moment,
    ) {
        self.in_chat(uri, acp, now, |chat, around| chat.ask_for_data(around, id, request));
    }

    pub(crate) fn question_withdrawn(&mut self, uri: &str, id: &str, now: Moment) {
        let read = self.read();
        self.in_session(uri, now, |session, sink| {
            for index in 0..session.chats.len() {
                session.with_chat(index, sink, &*read, |chat, around| chat.withdraw(around, id));
            }
        });
    }

    pub(crate) fn prompt_accepted(&mut self, uri: &str, turn: &str, message: Option<&str>, now: Moment) {
        let mut is_cancelled = false;
        self.in_chat(uri, None, now, |chat, _| is_cancelled = chat.prompt_accepted(turn, message));
        if is_cancelled {
            self.effects.push(Effect::Command { session: uri.into(), command: Command::Cancel });
        }
    }

    pub(crate) fn prompt_failed(&mut self, uri: &str, turn: &str, reason: &str, now: Moment) {
        self.in_chat(uri, None, now, |chat, around| chat.prompt_failed(around, turn, reason.to_owned()));
    }

    pub(crate) fn prompt_ended(&mut self, uri: &str, turn: &str, now: Moment) {
        self.in_chat(uri, None, now, |chat, around| chat.prompt_ended(around, turn));
    }

    /// A change of an option was refused.
    pub(crate) fn setting_failed(&mut self, uri: &str, now: Moment) {
        self.in_session(uri, now, HostSession::restore_options);
    }

    /// A session was closed for a client, or that was refused.
    pub(crate) fn disposed(
        &mut self,
        client: u64,
        request: &RawValue,
        uri: &str,
        id: &str,
        result: Result<(), String>,
        now: Moment,
    ) {
        match result {
            Ok(()) => {
                let changed =
                    self.listed.iter().find(|listed| *listed.id == *id).map_or(0, |listed| listed.changed);
                self.options.memory.change(id, |facts| facts.disposed = Some(now.0.max(changed)));
                self.remove(uri);
                self.reply(client, request, Ok(Value::Null));
                self.announce("root/sessionRemoved", json!({"session": uri}));
            }
            Err(reason) => self.reply(client, request, Err(Failure::new(codes::PERMISSION_DENIED, reason))),
        }
    }

    pub(crate) fn file_read(&mut self, client: u64, request: &RawValue, result: Result<Value, Failure>) {
        self.reply(client, request, result);
    }

    // ----- clients

    pub(crate) fn connected(&mut self, client: u64) {
        let new =
            Client { id: String::new(), is_old: true, is_initialized: false, subscriptions: HashSet::new() };
        self.clients.insert(client, new);
    }

    pub(crate) fn disconnected(&mut self, client: u64, now: Moment) {
        self.clients.remove(&client);
        self.pending.retain(|pending| pending.client != client);
        let orphans = self
            .sessions
            .values()
            .filter(|session| session.stage == Stage::Provisional && session.creator == client);
        self.orphans.extend(orphans.map(|session| (Arc::clone(&session.uri), now)));
    }

    /// Handles time: output that waits, and sessions that no client uses.
    pub(crate) fn tick(&mut self, now: Moment) {
        let read = self.read();
        let uris: Vec<Arc<str>> = self.sessions.keys().cloned().collect();
        for uri in &uris {
            self.in_session(uri, now, |session, sink| session.tick(sink, &*read));
        }
        let orphans: Vec<Arc<str>> = self
            .orphans
            .iter()
            .filter(|(_, since)| now.0 - since.0 >= ORPHAN)
            .map(|(uri, _)| Arc::clone(uri))
            .collect();
        for uri in orphans {
            self.orphans.remove(&uri);
            if self.sessions.get(&uri).is_some_and(|session| session.stage == Stage::Provisional) {
                self.remove(&uri);
            }
        }
        for uri in uris {
            let Some(session) = self.sessions.get_mut(&uri) else { continue };
            let is_used = session.is_busy()
                || session.stage != Stage::Ready
                || self
                    .clients
                    .values()
                    .any(|client| client.subscriptions.iter().any(|channel| session.has_channel(channel)));
            if is_used {
                session.used = now;
            } else if now.0 - session.used.0 >= UNUSED {
                self.remove(&uri);
            }
        }
    }

    /// Handles a message of a client.
    pub(crate) fn message(&mut self, client: u64, text: &str, now: Moment) {
        let Some(known) = self.clients.get(&client) else { return };
        let is_initialized = known.is_initialized;
        match ClientMessage::parse(text) {
            Err(answer) => self.send(client, answer),
            Ok(ClientMessage::Response) => {}
            Ok(ClientMessage::Notification { method, params }) => match &*method {
                "dispatchAction" if is_initialized => self.dispatch(client, &params, now),
                "unsubscribe" if is_initialized => {
                    let channel = params["channel"].as_str().unwrap_or_default();
                    if let Some(client) = self.clients.get_mut(&client) {
                        client.subscriptions.remove(channel);
                    }
                }
                // Others are settings of editors that do not concern the host.
                _ => {}
            },
            Ok(ClientMessage::Request { id, method, params }) => {
                let result = match &*method {
                    "ping" => Some(Ok(json!({}))),
                    "initialize" => self.initialize(client, &id, &params, now).transpose(),
                    "reconnect" => self.reconnect(client, &id, &params, now).transpose(),
                    _ if !is_initialized => Some(Err(Failure::new(
                        codes::INVALID_REQUEST,
                        "the first request must be initialize or reconnect",
                    ))),
                    "subscribe" => self.subscribe(client, &id, &params, now).transpose(),
                    "unsubscribe" => {
                        let channel = params["channel"].as_str().unwrap_or_default();
                        if let Some(client) = self.clients.get_mut(&client) {
                            client.subscriptions.remove(channel);
                        }
                        Some(Ok(Value::Null))
                    }
                    "listSessions" => Some(self.list_sessions(&params)),
                    "resolveSessionConfig" => Some(self.resolve_config(&params)),
                    "createSession" => Some(self.create_session(client, &params, now)),
                    "disposeSession" => self.dispose_session(client, &id, &params).transpose(),
                    "resourceRead" => self.resource_read(client, &id, &params).transpose(),
                    "completions" => Some(self.completions(&params)),
                    method => {
                        let message =
                            format!("this host has no method {}", crate::content::clipped_to(method, 100));
                        Some(Err(Failure::new(codes::METHOD_NOT_FOUND, message)))
                    }
                };
                if let Some(result) = result {
                    self.reply(client, &id, result);
                }
            }
        }
    }

    fn initialize(
        &mut self,
        client: u64,
        request: &RawValue,
        params: &Value,
        now: Moment,
    ) -> Result<Option<Value>, Failure> {
        let offered: Vec<&str> =
            params["protocolVersions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let version = negotiate(&offered).ok_or_else(unsupported_version)?;
        let id = text(params, "clientId")?;
        let channels = channels(params, "initialSubscriptions")?;
        self.introduce(client, id, version.starts_with("0."));
        self.answer_later(
            Pending {
                client,
                request: request.to_owned(),
                channels,
                kind: PendingKind::Initialize { version },
                failed: HashMap::new(),
            },
            now,
        );
        Ok(None)
    }

    fn introduce(&mut self, client: u64, id: &str, is_old: bool) {
        if let Some(known) = self.clients.get_mut(&client) {
            (known.id, known.is_old, known.is_initialized) = (id.to_owned(), is_old, true);
        }
        self.known.retain(|(known, _)| known != id);
        if self.known.len() >= MAX_KNOWN {
            self.known.pop_front();
        }
        self.known.push_back((id.to_owned(), is_old));
    }

    fn reconnect(
        &mut self,
        client: u64,
        request: &RawValue,
        params: &Value,
        now: Moment,
    ) -> Result<Option<Value>, Failure> {
        let id = text(params, "clientId")?;
        let channels = channels(params, "subscriptions")?;
        let last = params["lastSeenServerSeq"]
            .as_i64()
            .ok_or_else(|| Failure::params("at /params/lastSeenServerSeq: expected an integer"))?;
        let known = self.known.iter().find(|(known, _)| known == id).map(|(_, is_old)| *is_old);
        let Some(is_old) = known.filter(|_| last <= self.number) else {
            return Err(Failure::new(codes::NOT_FOUND, "unknown client; send initialize"));
        };
        self.introduce(client, id, is_old);
        let is_open = |channel: &&Arc<str>| {
            ***channel == *ROOT
                || self
                    .sessions
                    .values()
                    .any(|session| session.stage != Stage::Attaching && session.has_channel(channel))
        };
        let (open, missing): (Vec<_>, Vec<_>) = channels.iter().partition(|channel| is_open(channel));
        let is_lost = missing.iter().any(|channel| self.session_of(channel).is_some());
        if last < self.floor || is_lost {
            let pending = Pending {
                client,
                request: request.to_owned(),
                channels,
                kind: PendingKind::Reconnect,
                failed: HashMap::new(),
            };
            self.answer_later(pending, now);
            return Ok(None);
        }
        let wanted = self.window.iter().filter(|action| {
            action.number > last && !(action.is_newer && is_old) && open.contains(&&action.channel)
        });
        // The actions are inserted as they were sent.
        let actions: Vec<&str> = wanted.filter_map(|action| params_of(&action.text)).collect();
        let actions = actions.join(",");
        let missing: Vec<&str> = missing.iter().map(|channel| &***channel).collect();
        let open: Vec<Arc<str>> = open.into_iter().cloned().collect();
        if let Some(known) = self.clients.get_mut(&client) {
            known.subscriptions.extend(open);
        }
        let rest = json!(missing);
        let id = request.get();
        let result = format!(r#"{{"type":"replay","actions":[{actions}],"missing":{rest}}}"#);
        self.send(client, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
        Ok(None)
    }

    fn subscribe(
        &mut self,
        client: u64,
        request: &RawValue,
        params: &Value,
        now: Moment,
    ) -> Result<Option<Value>, Failure> {
        let channel: Arc<str> = text(params, "channel")?.into();
        if *channel != *ROOT && self.session_of(&channel).is_none() {
            return Err(not_found(&channel));
        }
        let kind = PendingKind::Subscribe;
        self.answer_later(
            Pending {
                client,
                request: request.to_owned(),
                channels: vec![channel],
                kind,
                failed: HashMap::new(),
            },
            now,
        );
        Ok(None)
    }

    fn answer_later(&mut self, pending: Pending, now: Moment) {
        for channel in &pending.channels {
            if let Some(session) = self.session_of(channel) {
                self.open(&session, now);
            }
        }
        self.pending.push(pending);
        self.resolve_pending(now);
    }

    /// Answers requests whose sessions are attached.
    fn resolve_pending(&mut self, now: Moment) {
        for pending in std::mem::take(&mut self.pending) {
            let waits = |channel: &Arc<str>| {
                let session = self.session_of(channel).and_then(|uri| self.sessions.get(&uri));
                !pending.failed.contains_key(channel)
                    && session.is_some_and(|session| session.stage == Stage::Attaching)
            };
            if pending.channels.iter().any(waits) {
                self.pending.push(pending);
            } else {
                self.answer_pending(pending, now);
            }
        }
    }

    fn answer_pending(&mut self, pending: Pending, now: Moment) {
        let Pending { client, request, channels, kind, failed } = pending;
        let mut snapshots = Vec::new();
        for channel in &channels {
            let state = if **channel == *ROOT {
                serde_json::to_value(&self.root).ok()
            } else {
                self.sessions.values().find_map(|session| session.state_of(channel))
            };
            let Some(state) = state else { continue };
            snapshots.push(json!({"resource": &**channel, "state": state, "fromSeq": self.number}));
            if let Some(known) = self.clients.get_mut(&client) {
                if known.subscriptions.len() >= MAX_SUBSCRIPTIONS {
                    self.effects.push(Effect::Close { client, reason: "too many subscriptions" });
                    return;
                }
                known.subscriptions.insert(Arc::clone(channel));
            }
            if let Some(session) = self.session_of(channel).and_then(|uri| self.sessions.get_mut(&uri)) {
                session.used = now;
            }
        }
        let result = match kind {
            PendingKind::Subscribe => match (snapshots.pop(), channels.first()) {
                (Some(snapshot), _) => Ok(json!({"snapshot": snapshot})),
                (None, Some(channel)) => Err(match failed.get(channel) {
                    Some(reason) => Failure::new(codes::INTERNAL, format!("cannot open {channel}: {reason}")),
                    None => not_found(channel),
                }),
                (None, None) => Err(Failure::params("no channel")),
            },
            PendingKind::Initialize { version } => Ok(json!({
                "protocolVersion": version, "serverSeq": self.number, "snapshots": snapshots,
                "serverInfo": {"name": "switchboard", "version": env!("CARGO_PKG_VERSION")},
                "defaultDirectory": file_uri(&self.options.folder), "completionTriggerCharacters": ["/"],
            })),
            PendingKind::Reconnect => Ok(json!({"type": "snapshot", "snapshots": snapshots})),
        };
        self.reply(client, &request, result);
    }

    // ----- requests

    fn list_sessions(&self, params: &Value) -> Result<Value, Failure> {
        let start = match &params["cursor"] {
            Value::Null => 0,
            cursor => cursor
                .as_str()
                .and_then(|cursor| cursor.parse::<usize>().ok())
                .ok_or_else(|| Failure::params("at /params/cursor: unknown cursor"))?,
        };
        let limit = params["limit"]
            .as_u64()
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(PAGE)
            .clamp(1, PAGE);
        let mut visible: Vec<&Listed> = self.listed.iter().filter(|listed| !self.is_hidden(listed)).collect();
        visible.sort_by_key(|listed| std::cmp::Reverse(listed.changed));
        let items: Vec<Value> =
            visible.iter().skip(start).take(limit).map(|listed| self.summary(listed)).collect();
        let end = start.saturating_add(items.len());
        let mut result = json!({"items": items});
        if end < visible.len() && end > start {
            result["nextCursor"] = json!(end.to_string());
        }
        Ok(result)
    }

    fn agent(&self, params: &Value) -> Result<&Agent, Failure> {
        let provider = params["provider"].as_str();
        let agent = match provider {
            None => self.agents.first(),
            Some(provider) => self.agents.iter().find(|agent| agent.provider == provider),
        };
        agent.ok_or_else(|| {
            let known: Vec<&str> = self.agents.iter().map(|agent| agent.provider.as_str()).collect();
            let message = format!(
                "unknown provider {:?}; this hub has {}",
                provider.unwrap_or_default(),
                known.join(", ")
            );
            Failure::new(codes::PROVIDER_NOT_FOUND, message)
        })
    }

    fn resolve_config(&self, params: &Value) -> Result<Value, Failure> {
        let options = self.agent_options(&self.agent(params)?.name);
        let mut values = options.values();
        for (key, value) in params["config"].as_object().into_iter().flatten() {
            if let Ok(Some(_)) = options.set(key, value) {
                values.insert(key.clone(), value.clone());
            }
        }
        Ok(json!({"schema": options.schema(), "values": values}))
    }

    fn create_session(&mut self, client: u64, params: &Value, now: Moment) -> Result<Value, Failure> {
        let uri = text(params, "channel")?;
        let is_uri = uri.len() <= 512
            && uri.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && rest.len() > 1);
        if !is_uri || uri.starts_with("ahp-") || uri.starts_with(SCHEME) || uri.contains(char::is_whitespace)
        {
            return Err(Failure::params("at /params/channel: expected a session URI, such as PROVIDER:/ID"));
        }
        let agent = self.agent(params)?;
        let (name, provider) = (agent.name.clone(), agent.provider.clone());
        if self.session_of(uri).is_some() || self.options.memory.id_of(uri).is_some() {
            return Err(Failure::new(codes::SESSION_EXISTS, format!("the session {uri} exists")));
        }
        if self.sessions.values().filter(|session| session.stage == Stage::Provisional).count()
            >= MAX_PROVISIONAL
        {
            return Err(Failure::params("too many unused sessions; dispose some of them"));
        }
        let folder = match params["workingDirectories"].as_array().and_then(|folders| folders.first()) {
            None => self.options.folder.clone(),
            Some(folder) => {
                let path = folder.as_str().and_then(file_path);
                path.ok_or_else(|| {
                    Failure::params(format!("at /params/workingDirectories/0: {folder} is not a file URI"))
                })?
            }
        };
        let folder = (self.options.resolve)(&folder).map_err(|reason| Failure {
            data: Some(json!({"folder": folder})),
            ..Failure::params(format!("at /params/workingDirectories/0: {reason}"))
        })?;
        let options = self.agent_options(&name);
        let salt = u64::try_from(self.number).unwrap_or_default();
        let draft = Draft {
            uri,
            provider: &provider,
            agent: &name,
            folder: &folder,
            title: UNTITLED,
            options,
            facts: Default::default(),
            salt,
        };
        let mut session = HostSession::new(draft, now)
            .ok_or_else(|| Failure::new(codes::INTERNAL, "cannot create the session"))?;
        session.creator = client;
        if let Some(active) = params.get("activeClient").filter(|active| active.is_object()) {
            // No client has the state yet.
            session
                .act(&mut Sink::new(now), json!({"type": "session/activeClientSet", "activeClient": active}));
        }
        self.sessions.insert(Arc::clone(&session.uri), session);
        Ok(Value::Null)
    }

    fn dispose_session(
        &mut self,
        client: u64,
        request: &RawValue,
        params: &Value,
    ) -> Result<Option<Value>, Failure> {
        let uri = text(params, "channel")?.to_owned();
        let unknown = || Failure::new(codes::SESSION_NOT_FOUND, format!("unknown session {uri}"));
        if self.sessions.get(&*uri).is_some_and(|session| session.stage == Stage::Provisional) {
            self.remove(&uri);
            self.reply(client, request, Ok(Value::Null));
            self.announce("root/sessionRemoved", json!({"session": uri}));
            return Ok(None);
        }
        if self.sessions.get(&*uri).is_some_and(|session| session.stage == Stage::Starting) {
            return Err(Failure::params("the session is being created; try again"));
        }
        let of_open = self
            .sessions
            .get(&*uri)
            .and_then(|session| session.id.clone().map(|id| (id, session.agent.clone())));
        let of_listed = || self.listed_at(&uri).map(|listed| (Arc::clone(&listed.id), listed.agent.clone()));
        let (id, agent) = of_open.or_else(of_listed).ok_or_else(unknown)?;
        self.effects.push(Effect::Dispose {
            client,
            request: request.to_owned(),
            session: uri.into(),
            id,
            agent,
        });
        Ok(None)
    }

    fn resource_read(
        &mut self,
        client: u64,
        request: &RawValue,
        params: &Value,
    ) -> Result<Option<Value>, Failure> {
        let uri = text(params, "uri")?;
        if uri.starts_with(SCHEME) {
            let stored = self.sessions.values().find_map(|session| session.contents.get(uri));
            return stored.map(|stored| Some(stored.to_result())).ok_or_else(|| not_found(uri));
        }
        let denied =
            || Failure::new(codes::PERMISSION_DENIED, format!("{uri} is not readable for this client"));
        if self.options.role < Role::Use {
            return Err(denied());
        }
        let path = file_path(uri).ok_or_else(denied)?;
        self.effects.push(Effect::ReadFile { client, request: request.to_owned(), path });
        Ok(None)
    }

    fn completions(&self, params: &Value) -> Result<Value, Failure> {
        let channel = text(params, "channel")?;
        let (typed, offset) = (text(params, "text")?, params["offset"].as_u64().unwrap_or_default());
        let Some(session) = self.session_of(channel).and_then(|uri| self.sessions.get(&uri)) else {
            return Err(not_found(channel));
        };
        let typed: String = typed.chars().take(usize::try_from(offset).unwrap_or(usize::MAX)).collect();
        let Some(prefix) = typed.strip_prefix('/').filter(|prefix| !prefix.contains(char::is_whitespace))
        else {
            return Ok(json!({"items": []}));
        };
        let item = |(name, description): &(String, String)| {
            json!({"insertText": format!("/{name} "), "rangeStart": 0, "rangeEnd": typed.chars().count(),
                "attachment": {"type": "simple", "label": format!("/{name}"), "displayKind": "command", "_meta": {"description": description}}})
        };
        let items: Vec<Value> =
            session.commands.iter().filter(|(name, _)| name.starts_with(prefix)).map(item).collect();
        Ok(json!({"items": items}))
    }

    // ----- actions of clients

    fn dispatch(&mut self, client: u64, params: &Value, now: Moment) {
        let Some(known) = self.clients.get(&client) else { return };
        let (Some(channel), Some(kind)) = (params["channel"].as_str(), params["action"]["type"].as_str())
        else {
            // Without a channel and a type there is nothing to echo. The client has applied nothing either.
            return;
        };
        let channel: Arc<str> = channel.into();
        let action = &params["action"];
        let origin =
            json!({"clientId": known.id, "clientSeq": params["clientSeq"].as_i64().unwrap_or_default()});
        let result = if *channel == *ROOT {
            self.dispatch_root(&channel, kind, action, &origin, now)
        } else {
            match self.session_of(&channel).filter(|uri| self.sessions.contains_key(uri)) {
                Some(uri) if *uri == *channel => self.dispatch_session(&uri, kind, action, &origin, now),
                Some(uri) => self.dispatch_chat(&uri, &channel, kind, action, &origin, now),
                None => Err("unknown channel".to_owned()),
            }
        };
        if let Err(reason) = result {
            let rejected = Sent {
                channel: Arc::clone(&channel),
                action: action.clone(),
                origin: Some(origin),
                rejected: Some(reason),
            };
            let mut sink = Sink::new(now);
            sink.sent.push(rejected);
            let is_subscribed =
                self.clients.get(&client).is_some_and(|client| client.subscriptions.contains(&channel));
            let text = (!is_subscribed).then(|| self.rejection(&sink));
            if let Some(text) = text {
                // A channel that does not exist has no subscribers, but the client waits.
                self.send(client, text);
            } else {
                self.publish(sink);
            }
        }
    }

    fn rejection(&mut self, sink: &Sink) -> String {
        self.number += 1;
        let params = sink.sent.first().map(|sent| {
            json!({"channel": &*sent.channel, "action": sent.action, "serverSeq": self.number, "origin": sent.origin, "rejectionReason": sent.rejected})
        });
        notification("action", &params.unwrap_or_default())
    }

    fn echo(&mut self, channel: &Arc<str>, action: &Value, origin: &Value, now: Moment) {
        let mut sink = Sink::new(now);
        sink.sent.push(Sent {
            channel: Arc::clone(channel),
            action: action.clone(),
            origin: Some(origin.clone()),
            rejected: None,
        });
        self.publish(sink);
    }

    fn dispatch_root(
        &mut self,
        channel: &Arc<str>,
        kind: &str,
        action: &Value,
        origin: &Value,
        now: Moment,
    ) -> Result<(), String> {
        // Settings of an editor. They are never a permission here.
        if kind != "root/configChanged" {
            return Err("only the host may send this action".to_owned());
        }
        self.echo(channel, action, origin, now);
        Ok(())
    }

    fn dispatch_session(
        &mut self,
        uri: &Arc<str>,
        kind: &str,
        action: &Value,
        origin: &Value,
        now: Moment,
    ) -> Result<(), String> {
        let session = self.sessions.get_mut(uri).ok_or("unknown session")?;
        let mut settings = Vec::new();
        match kind {
            "session/titleChanged" => {
                let title = action["title"].as_str().unwrap_or_default().trim();
                if title.is_empty() || title.chars().count() > MAX_TITLE {
                    return Err(format!("a title has 1 to {MAX_TITLE} characters"));
                }
            }
            "session/configChanged" => {
                for (key, value) in action["config"].as_object().ok_or("malformed action: no config")? {
                    settings.extend(session.options.set(key, value)?);
                }
                if session.state.config.is_none() {
                    self.echo(uri, action, origin, now);
                    return Ok(());
                }
            }
            "session/isReadChanged"
            | "session/isArchivedChanged"
            | "session/activeClientSet"
            | "session/activeClientRemoved"
            | "session/metaChanged" => {}
            _ => return Err("only the host may send this action, or it is unknown".to_owned()),
        }
        apply(&mut session.state, action)?;
        let id = session.id.clone();
        self.echo(uri, action, origin, now);
        match (kind, id) {
            ("session/titleChanged", id) => {
                let title = action["title"].as_str().unwrap_or_default().trim().to_owned();
                if let Some(id) = &id {
                    self.options.memory.change(id, |facts| facts.title = Some(title.clone()));
                }
                self.in_session(uri, now, |session, sink| {
                    session.facts.title = Some(title.clone());
                    session.set_title(&title, sink);
                });
            }
            ("session/isReadChanged", Some(id)) => {
                self.options.memory.change(&id, |facts| facts.is_read = action["isRead"] == true);
            }
            ("session/isArchivedChanged", Some(id)) => {
                self.options.memory.change(&id, |facts| facts.is_archived = action["isArchived"] == true);
            }
            _ => {}
        }
        if matches!(kind, "session/titleChanged" | "session/isReadChanged" | "session/isArchivedChanged")
            && let Some(listed) = self.listed_at(uri).cloned()
        {
            self.announce_change(&listed);
        }
        for setting in settings {
            self.effects.push(Effect::Command { session: Arc::clone(uri), command: Command::Set(setting) });
        }
        Ok(())
    }

    fn dispatch_chat(
        &mut self,
        uri: &Arc<str>,
        channel: &Arc<str>,
        kind: &str,
        action: &Value,
        origin: &Value,
        now: Moment,
    ) -> Result<(), String> {
        let read = self.read();
        let session = self.sessions.get_mut(uri).ok_or("unknown session")?;
        let index = session.chat(channel).ok_or("only the host may send actions of this channel")?;
        match kind {
            "chat/turnStarted" => self.turn_started(uri, index, action, origin, now),
            "chat/turnCancelled" => {
                if index != 0 {
                    return Err("a sub-agent cannot be cancelled alone; cancel the session's turn".to_owned());
                }
                let turn = action["turnId"].as_str().unwrap_or_default().to_owned();
                let is_bound = self
                    .in_session(uri, now, |session, sink| {
                        session.with_chat(index, sink, &*read, |chat, around| {
                            chat.cancelled(around, action, Some(origin.clone()))
                        })
                    })
                    .flatten()
                    .ok_or("unknown session")??;
                let command = if is_bound { Command::Cancel } else { Command::TakeBack { turn } };
                // Before a message that waited for the end of the turn.
                let place = self.effects.iter().rposition(|effect| {
                    matches!(effect, Effect::Command { command: Command::Prompt { .. }, .. })
                });
                let effect = Effect::Command { session: Arc::clone(uri), command };
                self.effects.insert(place.unwrap_or(self.effects.len()), effect);
                Ok(())
            }
            "chat/toolCallConfirmed" => {
                let typed: ChatToolCallConfirmedAction = typed(action)?;
                let is_it = |question: &question::Question| {
                    question.turn == typed.turn_id
                        && matches!(&question.kind, QuestionKind::Permission { call, .. } if *call == typed.tool_call_id)
                };
                self.answer(uri, index, is_it, action, origin, now, |kind| match kind {
                    QuestionKind::Permission { options, .. } => {
                        question::confirmed(&typed, options).map_err(str::to_owned)
                    }
                    QuestionKind::Form { .. } => Err("the question is a form".to_owned()),
                })
            }
            "chat/inputCompleted" => {
                let typed: ChatInputCompletedAction = typed(action)?;
                let is_it = |question: &question::Question| {
                    question.id == typed.request_id && matches!(question.kind, QuestionKind::Form { .. })
                };
                self.answer(uri, index, is_it, action, origin, now, |kind| match kind {
                    QuestionKind::Form { request } => question::completed(&typed, request),
                    QuestionKind::Permission { .. } => Err("the question is a permission".to_owned()),
                })
            }
            "chat/truncated" => {
                Err("agents keep the whole conversation; a changed prompt is added at the end".to_owned())
            }
            "chat/pendingMessageSet" | "chat/pendingMessageRemoved" | "chat/queuedMessagesReordered"
                if index == 0 =>
            {
                let chat = session.chats.get_mut(index).ok_or("unknown chat")?;
                if chat.state.queued_messages.as_ref().is_some_and(|queued| queued.len() >= 256)
                    && kind == "chat/pendingMessageSet"
                {
                    return Err("too many messages are waiting".to_owned());
                }
                apply(&mut chat.state, action)?;
                self.echo(channel, action, origin, now);
                self.begin_next(uri, now);
                Ok(())
            }
            "chat/inputAnswerChanged"
            | "chat/draftChanged"
            | "chat/isReadChanged"
            | "chat/isArchivedChanged" => {
                let chat = session.chats.get_mut(index).ok_or("unknown chat")?;
                apply(&mut chat.state, action)?;
                self.echo(channel, action, origin, now);
                Ok(())
            }
            _ => Err("only the host may send this action, or it is unknown".to_owned()),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn answer(
        &mut self,
        uri: &Arc<str>,
        index: usize,
        is_it: impl Fn(&question::Question) -> bool,
        action: &Value,
        origin: &Value,
        now: Moment,
        read_answer: impl FnOnce(&QuestionKind) -> Result<Answer, String>,
    ) -> Result<(), String> {
        let chat =
            self.sessions.get(uri).and_then(|session| session.chats.get(index)).ok_or("unknown chat")?;
        let place = chat.questions.iter().position(is_it).ok_or("this question is not open")?;
        let (id, answer) = (chat.questions[place].id.clone(), read_answer(&chat.questions[place].kind)?);
        let read = self.read();
        self.in_session(uri, now, |session, sink| {
            session.with_chat(index, sink, &*read, |chat, around| {
                chat.answer(around, place, action, Some(origin.clone()))
            })
        })
        .flatten()
        .ok_or("unknown session")??;
        let command = Command::Answer { question: id, answer };
        self.effects.push(Effect::Command { session: Arc::clone(uri), command });
        Ok(())
    }

    fn turn_started(
        &mut self,
        uri: &Arc<str>,
        index: usize,
        action: &Value,
        origin: &Value,
        now: Moment,
    ) -> Result<(), String> {
        let typed: ChatTurnStartedAction = typed(action)?;
        let session = self.sessions.get(uri).ok_or("unknown session")?;
        let is_known = session.chats.get(index).is_some_and(|chat| chat.knows_turn(&typed.turn_id));
        if is_known || session.facts.has_turn(&typed.turn_id) {
            // The client has the turn, or gets it with its next snapshot.
            return Err("this prompt was received already".to_owned());
        }
        if typed.turn_id.is_empty() || typed.turn_id.len() > 200 {
            return Err("at /turnId: expected 1 to 200 characters".to_owned());
        }
        self.begin_own(uri, index, action, Some(origin.clone()), &typed.turn_id, &typed.message, now)
    }

    /// Begins a turn of a client, and prompts the agent.
    #[allow(clippy::too_many_arguments)]
    fn begin_own(
        &mut self,
        uri: &Arc<str>,
        index: usize,
        action: &Value,
        origin: Option<Value>,
        turn: &str,
        message: &Message,
        now: Moment,
    ) -> Result<(), String> {
        let read = self.read();
        self.in_session(uri, now, |session, sink| {
            session
                .with_chat(index, sink, &*read, |chat, around| chat.begin_own(around, action, origin, turn))
        })
        .flatten()
        .ok_or("unknown session")??;
        let session = self.sessions.get_mut(uri).ok_or("unknown session")?;
        let refused = match prompt::content(message, session.accepts) {
            _ if index != 0 => Some("this is the chat of a sub-agent; prompt the session itself".to_owned()),
            Err(reason) => Some(reason),
            Ok(content) => {
                let model =
                    message.model.as_ref().map(|model| model.id.clone()).filter(|model| model != OWN_MODEL);
                let setting = model.and_then(|model| session.options.select_model(&model));
                if session.stage == Stage::Provisional {
                    session.stage = Stage::Starting;
                    self.orphans.remove(uri);
                    let (agent, folder) = (session.agent.clone(), session.folder.clone());
                    self.effects.push(Effect::Start { session: Arc::clone(uri), agent, folder });
                }
                let commands = setting
                    .map(Command::Set)
                    .into_iter()
                    .chain([Command::Prompt { turn: turn.to_owned(), content }]);
                self.effects
                    .extend(commands.map(|command| Effect::Command { session: Arc::clone(uri), command }));
                None
            }
        };
        if let Some(reason) = refused {
            let read = self.read();
            self.in_session(uri, now, |session, sink| {
                session
                    .with_chat(index, sink, &*read, |chat, around| chat.prompt_failed(around, turn, reason));
            });
        }
        Ok(())
    }

    /// Begins the turn of the next message that waits, unless a turn is running.
    fn begin_next(&mut self, uri: &str, now: Moment) {
        let Some(session) = self.sessions.get(uri) else { return };
        let Some(chat) = session.chats.first() else { return };
        if chat.state.active_turn.is_some() || session.stage == Stage::Starting {
            return;
        }
        let queued = chat.state.queued_messages.as_ref().and_then(|queued| queued.first());
        let Some(next) = chat.state.steering_message.as_ref().or(queued) else { return };
        let (uri, message) = (Arc::clone(&session.uri), next.message.clone());
        let mut turn = format!("queued-{}", next.id);
        while chat.knows_turn(&turn) {
            turn.push('+');
        }
        let action = json!({"type": "chat/turnStarted", "turnId": turn, "startedAt": time(now), "message": message, "queuedMessageId": next.id});
        // The action is the host's own and well-formed.
        let _ = self.begin_own(&uri, 0, &action, None, &turn, &message, now);
    }
}

fn typed<T: serde::de::DeserializeOwned>(action: &Value) -> Result<T, String> {
    serde_json::from_value(action.clone()).map_err(|error| format!("malformed action: {error}"))
}

fn text<'p>(params: &'p Value, key: &str) -> Result<&'p str, Failure> {
    params[key].as_str().ok_or_else(|| Failure::params(format!("at /params/{key}: expected a string")))
}

fn channels(params: &Value, key: &str) -> Result<Vec<Arc<str>>, Failure> {
    let list = match &params[key] {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) if list.len() <= MAX_SUBSCRIPTIONS => list,
        _ => {
            return Err(Failure::params(format!(
                "at /params/{key}: expected at most {MAX_SUBSCRIPTIONS} URIs"
            )));
        }
    };
    let channel = |channel: &Value| channel.as_str().map(Arc::from);
    list.iter()
        .map(channel)
        .collect::<Option<_>>()
        .ok_or_else(|| Failure::params(format!("at /params/{key}: expected URIs")))
}

fn not_found(channel: &str) -> Failure {
    Failure::new(codes::NOT_FOUND, format!("{} does not exist", crate::content::clipped_to(channel, 500)))
}

fn title(listed: &Listed, facts: &crate::memory::SessionFacts) -> String {
    let own = listed.title.as_deref().filter(|title| !title.trim().is_empty());
    facts.title.as_deref().or(own).unwrap_or(UNTITLED).to_owned()
}

fn agents_state(agents: &[Agent], memory: &Memory) -> Value {
    let agent = |agent: &Agent| {
        let options =
            memory.options(&agent.name).map(|options| Options::from_json(&options)).unwrap_or_default();
        json!({"provider": agent.provider, "displayName": agent.name, "description": format!("ACP agent {} of a Switchboard hub", agent.name),
            "models": options.models(&agent.provider)})
    };
    Value::Array(agents.iter().map(agent).collect())
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Returns a URI scheme for an agent: its name where that is one.
fn provider_of(name: &str) -> String {
    const TAKEN: [&str; 12] = [
        "file",
        "http",
        "https",
        "ws",
        "wss",
        "data",
        "vscode",
        "untitled",
        "command",
        "git",
        "agent-host",
        "ahp",
    ];
    let plain: String = name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "+-.".contains(c) { c } else { '-' })
        .collect();
    let is_free = is_scheme(&plain)
        && !TAKEN.contains(&&*plain)
        && !plain.starts_with("vscode-")
        && !plain.starts_with("ahp-");
    if is_free { plain } else { format!("acp-{plain}") }
}
