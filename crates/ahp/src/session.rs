//! One session of the host: its state, its chats and its terminals.

use std::collections::HashMap;
use std::sync::Arc;

use ahp_types::state::{SessionState, TerminalState};
use serde_json::{Value, json};
use switchboard_acp::{Moment, v2};
use switchboard_session::{Change, Changes, Conversation, Entry};

use crate::chat::{Around, Chat, Note, terminal_uri};
use crate::content::{Contents, ReadFile, clipped_to};
use crate::fold::Sink;
use crate::memory::SessionFacts;
use crate::options::Options;
use crate::prompt::Accepts;
use crate::wire::{file_uri, time};

/// Title of a session without one.
pub(crate) const UNTITLED: &str = "New session";
/// Maximum size of a terminal's text. Above it, only the end stays.
const MAX_TERMINAL: usize = 4 << 20;
/// Size of the end of a terminal that stays.
const TERMINAL_END: usize = 1 << 20;

/// The folded messages of a session's connection.
pub(crate) trait Link: Send + Sync {
    /// Calls a function with the folded messages.
    fn look(&self, look: &mut dyn FnMut(&Conversation));
}

/// Stage of a session of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Created by a client; the hub does not know it.
    Provisional,
    /// The hub creates it for its first prompt.
    Starting,
    /// Its history is loading.
    Attaching,
    Ready,
}

struct Terminal {
    uri: Arc<str>,
    state: TerminalState,
    /// Number of bytes of the output that were sent, including those that the session has dropped since.
    sent: usize,
    /// Bytes of an incomplete character.
    rest: Vec<u8>,
    length: usize,
}

/// A consequence that the host must act on.
#[derive(Debug)]
pub(crate) enum SessionNote {
    /// A message is waiting, and no turn is running.
    Next,
    /// A message is the prompt of a turn.
    Bound { message: String, turn: String },
    /// The options have changed.
    Options,
}

/// A session of the host.
pub(crate) struct HostSession {
    pub(crate) uri: Arc<str>,
    pub(crate) agent: String,
    pub(crate) folder: String,
    /// The hub's id.
    pub(crate) id: Option<Arc<str>>,
    pub(crate) stage: Stage,
    /// Connection that created it, while it is provisional.
    pub(crate) creator: u64,
    pub(crate) state: SessionState,
    /// Chats; the first is that of the session itself.
    pub(crate) chats: Vec<Chat>,
    by_session: HashMap<Arc<str>, Arc<str>>,
    terminals: Vec<Terminal>,
    pub(crate) contents: Contents,
    pub(crate) facts: SessionFacts,
    pub(crate) options: Options,
    pub(crate) commands: Vec<(String, String)>,
    pub(crate) accepts: Accepts,
    pub(crate) link: Option<Arc<dyn Link>>,
    /// Time of the last use by a client.
    pub(crate) used: Moment,
    pub(crate) notes: Vec<SessionNote>,
}

/// Description of a new session of the host.
pub(crate) struct Draft<'d> {
    pub(crate) uri: &'d str,
    pub(crate) provider: &'d str,
    pub(crate) agent: &'d str,
    pub(crate) folder: &'d str,
    pub(crate) title: &'d str,
    pub(crate) options: Options,
    pub(crate) facts: SessionFacts,
    pub(crate) salt: u64,
}

impl HostSession {
    pub(crate) fn new(draft: Draft<'_>, now: Moment) -> Option<Self> {
        let Draft { uri, provider, agent, folder, title, options, facts, salt } = draft;
        let uri: Arc<str> = uri.into();
        let chat = Chat::new(format!("{uri}/chat").into(), "".into(), title, now, None)?;
        let mut state = json!({
            "provider": provider, "title": title, "status": 1, "lifecycle": "ready", "activeClients": [],
            "chats": [{"resource": &*chat.uri, "title": title, "status": 1, "modifiedAt": time(now)}],
            "defaultChat": &*chat.uri, "workingDirectories": [file_uri(folder)],
        });
        if !options.is_empty() {
            state["config"] = json!({"schema": options.schema(), "values": options.values()});
        }
        Some(HostSession {
            contents: Contents::new(&uri, salt),
            uri,
            agent: agent.to_owned(),
            folder: folder.to_owned(),
            id: None,
            stage: Stage::Provisional,
            creator: 0,
            state: crate::fold::state(state)?,
            chats: vec![chat],
            by_session: HashMap::new(),
            terminals: Vec::new(),
            facts,
            options,
            commands: Vec::new(),
            accepts: Accepts::default(),
            link: None,
            used: now,
            notes: Vec::new(),
        })
    }

    /// Connects the session to its session of the hub.
    pub(crate) fn set_id(&mut self, id: &Arc<str>) {
        self.id = Some(Arc::clone(id));
        if let Some(chat) = self.chats.first_mut() {
            chat.session = Arc::clone(id);
            self.by_session.insert(Arc::clone(id), Arc::clone(&chat.uri));
        }
    }

    pub(crate) fn act(&mut self, sink: &mut Sink, action: Value) {
        sink.act(&self.uri, &mut self.state, action);
    }

    /// Returns whether a channel belongs to the session.
    pub(crate) fn has_channel(&self, channel: &str) -> bool {
        *self.uri == *channel
            || self.chats.iter().any(|chat| *chat.uri == *channel)
            || self.terminals.iter().any(|terminal| *terminal.uri == *channel)
    }

    /// Returns the state of a channel.
    pub(crate) fn state_of(&self, channel: &str) -> Option<Value> {
        let state = if *self.uri == *channel {
            serde_json::to_value(&self.state)
        } else if let Some(chat) = self.chats.iter().find(|chat| *chat.uri == *channel) {
            serde_json::to_value(&chat.state)
        } else {
            serde_json::to_value(&self.terminals.iter().find(|terminal| *terminal.uri == *channel)?.state)
        };
        state.ok()
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.chats.iter().any(Chat::is_busy)
    }

    pub(crate) fn chat(&self, channel: &str) -> Option<usize> {
        self.chats.iter().position(|chat| *chat.uri == *channel)
    }

    // ----- access to chats

    /// Calls a function with a chat and its surroundings, and acts on the consequences for the session.
    pub(crate) fn with_chat<T>(
        &mut self,
        index: usize,
        sink: &mut Sink,
        read: ReadFile<'_>,
        change: impl FnOnce(&mut Chat, &mut Around<'_>) -> T,
    ) -> Option<T> {
        let link = self.link.clone();
        let mut change = Some(change);
        let mut result = None;
        let mut look = |conversation: &Conversation| {
            let (Some(change), Some(chat)) = (change.take(), self.chats.get_mut(index)) else { return };
            let mut around = Around {
                conversation,
                sink: &mut *sink,
                contents: &mut self.contents,
                read,
                chats: &self.by_session,
                facts: &self.facts,
                id: self.id.as_deref().unwrap_or_default(),
            };
            result = Some(change(chat, &mut around));
            self.settle(conversation, index, sink);
        };
        match link {
            Some(link) => link.look(&mut look),
            None => look(&Conversation::new(switchboard_acp::WireFormat::Any)),
        }
        result
    }

    /// Handles the notes of a chat and reports its status.
    fn settle(&mut self, conversation: &Conversation, index: usize, sink: &mut Sink) {
        let Some(chat) = self.chats.get_mut(index) else { return };
        let acp = Arc::clone(&chat.session);
        for note in std::mem::take(&mut chat.notes) {
            match note {
                Note::Need(request) => {
                    let action = json!({"type": "session/inputNeededSet", "request": request});
                    sink.act(&self.uri, &mut self.state, action);
                }
                Note::Met(id) => {
                    let action = json!({"type": "session/inputNeededRemoved", "id": id});
                    sink.act(&self.uri, &mut self.state, action);
                }
                Note::Bound { message, turn } => {
                    // The session's own copy first: the message may be the next change.
                    self.facts.add_turn(&message, &turn);
                    self.notes.push(SessionNote::Bound { message, turn });
                }
                Note::Terminal(position) => {
                    let terminal =
                        conversation.session(Some(&acp)).and_then(|session| session.entry(position));
                    if let Some(Entry::Terminal(terminal)) = terminal {
                        self.terminal(&acp, terminal, sink);
                    }
                }
                Note::Next if index == 0 => self.notes.push(SessionNote::Next),
                Note::Next => {}
            }
        }
        self.report_status(index, sink);
    }

    fn report_status(&mut self, index: usize, sink: &mut Sink) {
        let Some(chat) = self.chats.get(index) else { return };
        let known = self.state.chats.iter().find(|summary| *summary.resource == *chat.uri);
        if known.is_some_and(|summary| summary.status != chat.state.status) {
            let action = json!({"type": "session/chatUpdated", "chat": &*chat.uri,
                "changes": {"status": chat.state.status, "modifiedAt": time(sink.now)}});
            sink.act(&self.uri, &mut self.state, action);
        }
    }

    // ----- changes of the hub

    /// Translates the session as it is now, after its history was loaded.
    pub(crate) fn rebuild(&mut self, sink: &mut Sink, read: ReadFile<'_>) {
        let mut sessions: Vec<Arc<str>> = Vec::new();
        if let (Some(link), Some(id)) = (self.link.clone(), self.id.clone()) {
            link.look(&mut |conversation| {
                sessions = vec![Arc::clone(&id)];
                let children = conversation.subagents().descendants(&id);
                sessions
                    .extend(children.into_iter().filter(|child| conversation.session(Some(child)).is_some()));
            });
        }
        // All chats first: tool calls refer to those of their sub-agents.
        for session in &sessions {
            self.chat_of(session, sink);
        }
        for session in &sessions {
            if let Some(index) = self.chat_of(session, sink) {
                self.with_chat(index, sink, read, |chat, around| {
                    let conversation = around.conversation;
                    if let Some(session) = conversation.session(Some(&chat.session)) {
                        chat.rebuild(around, session);
                    }
                });
            }
        }
        self.lists_changed(sink);
    }

    /// Translates the changes of an update.
    pub(crate) fn apply(&mut self, session: &str, changes: &Changes, sink: &mut Sink, read: ReadFile<'_>) {
        let Some(index) = self.chat_of(session, sink) else { return };
        self.with_chat(index, sink, read, |chat, around| {
            let conversation = around.conversation;
            if let Some(session) = conversation.session(Some(&chat.session)) {
                chat.apply(around, session, changes);
            }
        });
        if index == 0
            && changes.iter().any(|change| matches!(change, Change::Commands | Change::ConfigOptions))
        {
            self.lists_changed(sink);
        }
    }

    /// Returns the chat of a session, and adds that of a sub-agent.
    pub(crate) fn chat_of(&mut self, session: &str, sink: &mut Sink) -> Option<usize> {
        if let Some(uri) = self.by_session.get(session) {
            return self.chats.iter().position(|chat| chat.uri == *uri);
        }
        let link = self.link.clone()?;
        let (mut parent, mut name, mut task) = (None, None, None);
        link.look(&mut |conversation| {
            parent = conversation.subagents().parent(session).cloned();
            name = conversation.name(session);
            let above = parent.as_ref().and_then(|parent| conversation.session(Some(&parent.session)));
            let described =
                above.and_then(|above| above.subagent(session)).and_then(|subagent| subagent.description());
            task = described.map(str::to_owned);
        });
        // Sessions of no tree are none of this session.
        let parent = parent?;
        let above = self
            .by_session
            .get(&parent.session)
            .cloned()
            .or_else(|| Some(Arc::clone(&self.chats.first()?.uri)))?;
        let uri: Arc<str> = format!("{}/chat/{}", self.uri, self.chats.len()).into();
        let title = name.clone().unwrap_or_else(|| "Sub-agent".to_owned());
        let call = parent.tool_call.map_or_else(|| format!("subagent-{session}"), |call| call.to_string());
        let origin = json!({"kind": "tool", "chat": &*above, "toolCallId": call});
        let mut chat = Chat::new(Arc::clone(&uri), session.into(), &title, sink.now, Some(origin.clone()))?;
        chat.set_task(task.or(name));
        self.chats.push(chat);
        self.by_session.insert(session.into(), Arc::clone(&uri));
        let summary = json!({"resource": &*uri, "title": title, "status": 1, "modifiedAt": time(sink.now),
            "origin": origin, "interactivity": "read-only"});
        self.act(sink, json!({"type": "session/chatAdded", "summary": summary}));
        Some(self.chats.len() - 1)
    }

    fn lists_changed(&mut self, sink: &mut Sink) {
        let (Some(link), Some(id)) = (self.link.clone(), self.id.clone()) else { return };
        let (mut commands, mut options) = (Vec::new(), None);
        link.look(&mut |conversation| {
            let Some(session) = conversation.session(Some(&id)) else { return };
            let command = |command: &v2::AvailableCommand<'_>| match command {
                v2::AvailableCommand::Command(command) => {
                    Some((command.name.to_string(), command.description.to_string()))
                }
                _ => None,
            };
            commands = session.commands().iter().filter_map(command).collect();
            options = session.lists().0.map(Options::new);
        });
        self.commands = commands;
        let Some(options) = options else { return };
        if options == self.options {
            return;
        }
        self.options = options;
        let values = self.options.values();
        if self.state.config.as_ref().is_some_and(|config| config.values != values) {
            self.act(sink, json!({"type": "session/configChanged", "config": values}));
        }
        self.notes.push(SessionNote::Options);
    }

    /// Sends the current values of the options again, after a client's change was refused.
    pub(crate) fn restore_options(&mut self, sink: &mut Sink) {
        let values = self.options.values();
        self.act(sink, json!({"type": "session/configChanged", "config": values}));
    }

    /// Gives the session and its chat a title.
    pub(crate) fn set_title(&mut self, title: &str, sink: &mut Sink) {
        if self.state.title != title {
            self.act(sink, json!({"type": "session/titleChanged", "title": title}));
        }
        let chat = self.chats.first().map(|chat| Arc::clone(&chat.uri));
        if let Some(chat) = chat
            && self.state.chats.iter().any(|summary| *summary.resource == *chat && summary.title != title)
        {
            self.act(
                sink,
                json!({"type": "session/chatUpdated", "chat": &*chat, "changes": {"title": title}}),
            );
        }
    }

    /// Sends updates that were delayed.
    pub(crate) fn tick(&mut self, sink: &mut Sink, read: ReadFile<'_>) {
        for index in 0..self.chats.len() {
            if self.chats.get(index).is_some_and(Chat::wants_tick) {
                self.with_chat(index, sink, read, |chat, around| {
                    let conversation = around.conversation;
                    if let Some(session) = conversation.session(Some(&chat.session)) {
                        chat.tick(around, session);
                    }
                });
            }
        }
    }

    // ----- terminals

    fn terminal(&mut self, session: &str, terminal: &switchboard_session::Terminal, sink: &mut Sink) {
        let uri = terminal_uri(self.id.as_deref().unwrap_or_default(), session, terminal.id());
        let index = match self.terminals.iter().position(|known| *known.uri == *uri) {
            Some(index) => index,
            None => {
                let call = call_of(self, session, terminal.id());
                let title = clipped_to(terminal.command().unwrap_or("terminal"), 4096);
                let chat = self.by_session.get(session).cloned().unwrap_or_default();
                let mut claim = json!({"kind": "session", "session": &*self.uri, "chat": &*chat});
                if let Some((turn, call)) = call {
                    claim["turnId"] = json!(turn);
                    claim["toolCallId"] = json!(call);
                }
                let mut state = json!({"title": title, "content": [], "lifecycle": {"status": "running"}, "claim": claim, "isPty": false});
                if let Some(cwd) = terminal.cwd() {
                    state["cwd"] = json!(file_uri(cwd));
                }
                let Some(state) = crate::fold::state(state) else { return };
                self.terminals.push(Terminal {
                    uri: uri.into(),
                    state,
                    sent: 0,
                    rest: Vec::new(),
                    length: 0,
                });
                self.terminals.len() - 1
            }
        };
        let known = &mut self.terminals[index];
        let output = terminal.output();
        let total = output.dropped() + output.len();
        if total < known.sent || output.dropped() > known.sent {
            sink.act(&known.uri, &mut known.state, json!({"type": "terminal/cleared"}));
            (known.sent, known.length) = (output.dropped(), 0);
            known.rest.clear();
        }
        if total > known.sent {
            let mut skip = known.sent - output.dropped();
            for piece in output.pieces() {
                let start = skip.min(piece.len());
                skip -= start;
                known.rest.extend_from_slice(&piece[start..]);
            }
            known.sent = total;
            let data = complete_text(&mut known.rest);
            known.send(&data, sink);
        }
        let is_running =
            matches!(known.state.lifecycle, ahp_types::state::TerminalLifecycleState::Running(_));
        if let Some(status) = terminal.exit_status()
            && is_running
        {
            let mut action = json!({"type": "terminal/exited"});
            if let Some(code) = status.exit_code {
                action["exitCode"] = json!(code);
            }
            sink.act(&known.uri, &mut known.state, action);
        }
    }
}

/// Returns the running turn and the tool call to which a terminal belongs.
fn call_of(session: &HostSession, acp: &str, terminal: &str) -> Option<(String, String)> {
    let uri = session.by_session.get(acp)?;
    let chat = session.chats.iter().find(|chat| chat.uri == *uri)?;
    let turn = chat.state.active_turn.as_ref()?.id.clone();
    let mut call = None;
    // The connection is being looked at already where this is called.
    let parts = &chat.state.active_turn.as_ref()?.response_parts;
    for part in parts {
        if let ahp_types::state::ResponsePart::ToolCall(part) = part
            && let ahp_types::state::ToolCallState::Running(running) = &part.tool_call
        {
            let is_of = |content: &ahp_types::state::ToolResultContent| matches!(content, ahp_types::state::ToolResultContent::Terminal(content) if content.resource.ends_with(&crate::wire::encoded(terminal)));
            if running.content.iter().flatten().any(is_of) {
                call = Some(running.tool_call_id.clone());
            }
        }
    }
    call.map(|call| (turn, call))
}

impl Terminal {
    fn send(&mut self, data: &str, sink: &mut Sink) {
        let mut data = data;
        if self.length + data.len() > MAX_TERMINAL {
            sink.act(&self.uri, &mut self.state, json!({"type": "terminal/cleared"}));
            self.length = 0;
            let start = data.len().saturating_sub(TERMINAL_END);
            let start = (start..=data.len()).find(|start| data.is_char_boundary(*start)).unwrap_or(0);
            data = &data[start..];
        }
        if data.is_empty() {
            return;
        }
        self.length += data.len();
        sink.act(&self.uri, &mut self.state, json!({"type": "terminal/data", "data": data}));
    }
}

/// Takes all complete characters from bytes. Invalid bytes become replacement characters.
fn complete_text(bytes: &mut Vec<u8>) -> String {
    let end = match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        // Only an incomplete character at the end waits for more.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => {
            let tail = bytes.len().saturating_sub(4)..bytes.len();
            let incomplete = tail.rev().find(|at| bytes[*at] >= 0xC0);
            incomplete
                .filter(|at| {
                    std::str::from_utf8(&bytes[*at..]).is_err_and(|error| error.error_len().is_none())
                })
                .unwrap_or(bytes.len())
        }
    };
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    bytes.drain(..end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_are_split_between_chunks_stay_whole() {
        let mut bytes = "aä".as_bytes()[..2].to_vec();
        assert_eq!(complete_text(&mut bytes), "a");
        bytes.push("ä".as_bytes()[1]);
        assert_eq!(complete_text(&mut bytes), "ä");
        let mut bytes = b"x\xFFy\xC3".to_vec();
        assert_eq!(complete_text(&mut bytes), "x\u{FFFD}y");
        assert_eq!(bytes, [0xC3]);
        bytes.push(b'z');
        assert_eq!(complete_text(&mut bytes), "\u{FFFD}z");
    }
}
