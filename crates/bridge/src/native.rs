//! Native lines: a hub stores its sessions in version 2 and also keeps the original lines of a version 1
//! agent. A version 1 client gets these originals instead of a translation of their translation.
//!
//! The hub marks the messages it sends with [`NATIVE`]. The translator still handles every version 2 message,
//! because it tracks turns and questions, but its own updates are suppressed in sessions where the client
//! gets the originals.

use std::collections::HashSet;

use switchboard_acp::extensions::{CURSOR, META, NATIVE, Native, QUESTIONS, is_own_key, with_meta};
use switchboard_acp::rpc::{Message, Request, Response};
use switchboard_acp::{Meta, Raw, Text, Wire, WireFormat};

/// Maximum number of sessions with native lines that are tracked at a time.
const SESSIONS: usize = 10_000;

/// Decides which updates of the translator are sent to the client.
#[derive(Debug, Default)]
pub(crate) struct NativeLines {
    /// Set if the client supports sub-agent sessions.
    knows_subagents: bool,
    /// Sessions in which the client gets the agent's original updates.
    sessions: HashSet<String>,
    /// Sessions with sub-agents, and the sub-agents' own sessions, for a client without sub-agent support.
    /// These are translated.
    translated: HashSet<String>,
    current: Current,
}

/// The message that is being handled.
#[derive(Debug, Default)]
enum Current {
    /// A message of the client, or a deadline.
    #[default]
    Other,
    /// A message of the hub without a native line.
    Original,
    /// A message of the hub that the client already has.
    Known,
    /// A message of the hub that was translated from an update which the client already has.
    Translated,
    /// A message of the hub that was translated from this message of the agent.
    TranslatedFrom(Raw<'static>, String),
}

/// Treatment of a message of the hub.
pub(crate) enum NativeAction {
    /// An original line of the agent: send it to the client and translate nothing.
    Own(String),
    /// An original line of the agent in a session that is translated: drop it.
    Drop,
    /// Translate this line, which no longer has the hub's marks.
    Translate(String),
    /// Translate the line unchanged.
    Unchanged,
}

impl NativeLines {
    /// Stores whether the client supports sub-agent sessions.
    pub(crate) fn learn(&mut self, knows_subagents: bool) {
        self.knows_subagents = knows_subagents;
    }

    /// Starts handling a message of the hub.
    pub(crate) fn begin(&mut self, line: &str) -> NativeAction {
        self.current = Current::Original;
        // Most lines have no mark. Search for its name before the line is parsed.
        if !line.contains(NATIVE.name()) {
            return NativeAction::Unchanged;
        }
        let Ok(message) = Message::decode(line, WireFormat::Any) else { return NativeAction::Unchanged };
        let params = match &message {
            Message::Notification(call) => call.params.as_ref(),
            Message::Request(call) => call.params.as_ref(),
            Message::Response(_) => None,
        };
        let Some((params, native)) = params.and_then(|params| Some((params, NATIVE.of(params)?))) else {
            return NativeAction::Unchanged;
        };
        let session = text(params, "sessionId").unwrap_or_default();
        let is_update = matches!(&message, Message::Notification(call) if call.method == "session/update");
        // A sub-agent must be found before the session is looked up below, so that its own announcement is
        // already translated.
        if native == Native::Own && !self.knows_subagents {
            self.find_subagent(&session, params);
        }
        let is_translated = self.translated.contains(&session);
        match native {
            // A request must not bypass the translator, which tracks the ids of requests.
            Native::Own if !is_update => NativeAction::Unchanged,
            Native::Own if is_translated => NativeAction::Drop,
            Native::Own => {
                insert(&mut self.sessions, session);
                NativeAction::Own(without_marks(message))
            }
            Native::Translated | Native::TranslatedFrom(_) if is_translated => {
                NativeAction::Translate(without_marks(message))
            }
            Native::Translated => {
                self.current = Current::Translated;
                NativeAction::Unchanged
            }
            Native::Known => {
                self.current = Current::Known;
                NativeAction::Unchanged
            }
            Native::TranslatedFrom(native) => {
                self.current = Current::TranslatedFrom(native, session);
                NativeAction::Translate(without_marks(message))
            }
        }
    }

    /// Detects an update that announces a sub-agent and switches its sessions to translation.
    fn find_subagent(&mut self, session: &str, params: &Raw<'_>) {
        let Some(update) = params.get("update") else { return };
        if text(&update, "sessionUpdate").as_deref() == Some("subagent_update") {
            self.sessions.remove(session);
            insert(&mut self.translated, session.to_owned());
            if let Some(subagent) = text(&update, "sessionId") {
                insert(&mut self.translated, subagent);
            }
        }
    }

    /// Finishes the current message.
    pub(crate) fn end(&mut self) {
        self.current = Current::Other;
    }

    /// Returns whether to suppress an update of the translator, because the client has its content already or
    /// gets it from the agent's own line.
    pub(crate) fn suppresses_update(&self, session: &str) -> bool {
        matches!(self.current, Current::Known) || self.suppresses_loss(Some(session))
    }

    /// Returns whether a loss of the translator does not count, because the client has the agent's own line.
    pub(crate) fn suppresses_loss(&self, session: Option<&str>) -> bool {
        match &self.current {
            Current::Original | Current::Known => false,
            Current::Translated | Current::TranslatedFrom(..) => true,
            // Deadlines and messages of the client have no mark of the hub, so the session decides.
            Current::Other => session.is_some_and(|session| self.sessions.contains(session)),
        }
    }

    /// Returns the agent's own request or response in place of a line that the translator produced for the
    /// client.
    pub(crate) fn original_for(&mut self, made: &str) -> Option<String> {
        let Current::TranslatedFrom(native, session) = &self.current else { return None };
        let own = original_for(made, native.as_str(), session)?;
        // One original replaces one line. Further lines of the same message are translations of it.
        self.current = Current::Translated;
        Some(own)
    }
}

/// Encodes a message without the metadata that the hub added.
fn without_marks(mut message: Message<'_>) -> String {
    let params = match &mut message {
        Message::Notification(call) => &mut call.params,
        Message::Request(call) => &mut call.params,
        Message::Response(_) => return message.encode(WireFormat::Any),
    };
    let marks = [NATIVE.name(), CURSOR.name(), QUESTIONS.name()];
    *params = params.take().map(|params| with_meta(&params, &marks, &[]));
    message.encode(WireFormat::Any)
}

/// Returns a message with the content of the agent's original: the parameters of a request except for the
/// session id, or the outcome of a response. `None` if the two messages are of different kinds.
fn original_for(made: &str, native: &str, session: &str) -> Option<String> {
    let made = Message::decode(made, WireFormat::Any).ok()?;
    let own = match (made, Message::decode(native, WireFormat::Any).ok()?) {
        (Message::Request(made), Message::Request(native)) if made.method == native.method => {
            let session = Raw::of(&Text::Borrowed(session), WireFormat::Any);
            let meta = made.params.as_ref().and_then(|params| params.get(META));
            let added: Vec<_> =
                meta.iter().flat_map(Raw::entries).filter(|(key, _)| is_own_key(key)).collect();
            let params = native.params?;
            let entries = params.entries().map(|(key, value)| match &*key {
                "sessionId" => (key, session.borrowed()),
                _ => (key, value),
            });
            let params = with_meta(Meta::from_entries(entries).as_raw(), &[], &added);
            Message::Request(Request { params: Some(params), ..made }).encode(WireFormat::Any)
        }
        (Message::Response(made), Message::Response(native))
            if made.outcome.is_ok() == native.outcome.is_ok() =>
        {
            Message::Response(Response { outcome: native.outcome, ..made }).encode(WireFormat::Any)
        }
        _ => return None,
    };
    Some(own)
}

fn text(object: &Raw<'_>, key: &str) -> Option<String> {
    Text::decode(object.get(key)?.as_str(), WireFormat::Any).ok().map(Text::into_owned)
}

/// Inserts a session. At [`SESSIONS`] entries the set is cleared first; the client then gets updates of the
/// forgotten sessions twice.
fn insert(sessions: &mut HashSet<String>, session: String) {
    if sessions.len() >= SESSIONS {
        sessions.clear();
    }
    sessions.insert(session);
}
