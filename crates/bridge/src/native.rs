//! Native lines: a hub keeps its sessions in version 2 and has the own lines of an agent of version 1 beside them. A client
//! of version 1 gets these, instead of a translation of their translation.
//!
//! The hub marks what it sends with [`NATIVE`]. The translation still sees every message of version 2, because it keeps the
//! state of turns and questions, but the updates that it makes are not sent where the client has the agent's own.

use std::collections::HashSet;

use switchboard_acp::extensions::{CURSOR, META, NATIVE, Native, QUESTIONS, is_own_key, with_meta};
use switchboard_acp::rpc::{Message, Request, Response};
use switchboard_acp::{Meta, Raw, Text, Wire, WireFormat};

/// The number of sessions with native lines that are known at a time.
const SESSIONS: usize = 10_000;

/// Decides which updates of the translation are sent.
#[derive(Debug, Default)]
pub(crate) struct NativeLines {
    /// Whether the client knows the sessions of sub-agents.
    knows_subagents: bool,
    /// Sessions in which the client gets the agent's own updates.
    sessions: HashSet<String>,
    /// Sessions with sub-agents, and those of the sub-agents themselves, for a client that does not know them: they are
    /// translated.
    translated: HashSet<String>,
    current: Current,
}

/// What is being handled.
#[derive(Debug, Default)]
enum Current {
    /// A message of the client, or a deadline.
    #[default]
    Other,
    /// A message of the hub that has no native line.
    Original,
    /// A message of the hub that the client was told before.
    Known,
    /// A message of the hub that was translated from an update which the client has.
    Translated,
    /// A message of the hub that was translated from this message of the agent.
    TranslatedFrom(Raw<'static>, String),
}

/// What becomes of a message of the hub.
pub(crate) enum Begun {
    /// It is the agent's own: this line is sent to the client, and nothing is translated.
    Own(String),
    /// It is the agent's own in a session that is translated.
    Nothing,
    /// It is translated without the hub's mark.
    Translate(String),
    /// It is translated as it is.
    AsItIs,
}

impl NativeLines {
    /// Takes note of whether the client knows the sessions of sub-agents.
    pub(crate) fn learn(&mut self, knows_subagents: bool) {
        self.knows_subagents = knows_subagents;
    }

    /// Begins to handle a message of the hub.
    pub(crate) fn begin(&mut self, line: &str) -> Begun {
        self.current = Current::Original;
        if !line.contains(NATIVE.name()) {
            return Begun::AsItIs;
        }
        let Ok(message) = Message::decode(line, WireFormat::Any) else { return Begun::AsItIs };
        let params = match &message {
            Message::Notification(call) => call.params.as_ref(),
            Message::Request(call) => call.params.as_ref(),
            Message::Response(_) => None,
        };
        let Some((params, native)) = params.and_then(|params| Some((params, NATIVE.of(params)?))) else {
            return Begun::AsItIs;
        };
        let session = text(params, "sessionId").unwrap_or_default();
        let is_update = matches!(&message, Message::Notification(call) if call.method == "session/update");
        if native == Native::Own && !self.knows_subagents {
            self.find_subagent(&session, params);
        }
        let is_translated = self.translated.contains(&session);
        match native {
            // A request must not get past the translation, which counts the ids of requests.
            Native::Own if !is_update => Begun::AsItIs,
            Native::Own if is_translated => Begun::Nothing,
            Native::Own => {
                insert(&mut self.sessions, session);
                Begun::Own(without_marks(message))
            }
            Native::Translated | Native::TranslatedFrom(_) if is_translated => {
                Begun::Translate(without_marks(message))
            }
            Native::Translated => {
                self.current = Current::Translated;
                Begun::AsItIs
            }
            Native::Known => {
                self.current = Current::Known;
                Begun::AsItIs
            }
            Native::TranslatedFrom(native) => {
                self.current = Current::TranslatedFrom(native, session);
                Begun::Translate(without_marks(message))
            }
        }
    }

    /// Looks whether an update of the agent tells of a sub-agent.
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

    /// Ends what was begun.
    pub(crate) fn end(&mut self) {
        self.current = Current::Other;
    }

    /// Returns whether the client has what an update of the translation says, or is told it by the agent itself.
    pub(crate) fn withholds_updates(&self, session: &str) -> bool {
        matches!(self.current, Current::Known) || self.withholds_losses(Some(session))
    }

    /// Returns whether what the translation loses is no loss, because the client has the agent's own line.
    pub(crate) fn withholds_losses(&self, session: Option<&str>) -> bool {
        match &self.current {
            Current::Original | Current::Known => false,
            Current::Translated | Current::TranslatedFrom(..) => true,
            Current::Other => session.is_some_and(|session| self.sessions.contains(session)),
        }
    }

    /// Returns the agent's own request or response in place of a line that the translation made for the client.
    pub(crate) fn in_place_of(&mut self, made: &str) -> Option<String> {
        let Current::TranslatedFrom(native, session) = &self.current else { return None };
        let own = in_place_of(made, native.as_str(), session)?;
        self.current = Current::Translated;
        Some(own)
    }
}

/// A message without what the hub has added.
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

/// Returns a message with the content of the agent's own one: the parameters of a request but for the session's id, or the
/// outcome of a response. `None` where the two are of different kinds.
fn in_place_of(made: &str, native: &str, session: &str) -> Option<String> {
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

/// Inserts a session. With more than [`SESSIONS`] the others are forgotten, and told twice when something comes in them.
fn insert(sessions: &mut HashSet<String>, session: String) {
    if sessions.len() >= SESSIONS {
        sessions.clear();
    }
    sessions.insert(session);
}
