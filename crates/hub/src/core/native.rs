//! Native lines. An agent of version 1 is translated, and the log has each of its own lines before the records that were
//! translated from it. A client of version 1 gets these lines instead of a translation of the translation.

use switchboard_acp::extensions::Native;
use switchboard_acp::rpc::Message;
use switchboard_acp::{Raw, WireFormat};
use switchboard_store::Channel;

use super::lines::text_of;

/// How a record relates to the agent's own lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It is an update in the agent's own words.
    Native,
    /// It was made of the native update before it.
    Translated,
    /// It was made of a request or an answer of the agent, which is this.
    TranslatedFrom(Raw<'static>),
    /// There is nothing else.
    #[default]
    Original,
}

impl Origin {
    /// Returns the mark of a record for a client that translates and wants native lines.
    pub(crate) fn mark(&self) -> Option<Native> {
        match self {
            Origin::Native => Some(Native::Own),
            Origin::Translated => Some(Native::Translated),
            Origin::TranslatedFrom(message) => Some(Native::TranslatedFrom(message.clone())),
            Origin::Original => None,
        }
    }
}

/// Follows a log and tells the origin of its records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origins {
    /// That of the records for clients that follow.
    next: Origin,
    /// Whether the last native line was a message of the user.
    is_user: bool,
    has_native: bool,
    /// Whether the agent has said something for which there is no native line.
    has_original: bool,
}

impl Origins {
    /// Takes a record into account.
    pub(crate) fn see(&mut self, channel: Channel, text: &str) -> Origin {
        match channel {
            Channel::ToClient => match Message::decode(text, WireFormat::Any) {
                Ok(message) => self.see_message(&message),
                Err(_) => Origin::Original,
            },
            Channel::OtherToClient => match Message::decode(text, WireFormat::Any) {
                Ok(Message::Notification(call)) if call.method == "session/update" => {
                    self.has_native = true;
                    self.is_user =
                        kind(&Message::Notification(call)).as_deref() == Some("user_message_chunk");
                    self.next = Origin::Translated;
                    Origin::Native
                }
                Ok(Message::Request(_) | Message::Response(_)) => {
                    self.next = Raw::parse(text.to_owned()).map_or(Origin::Original, Origin::TranslatedFrom);
                    Origin::Original
                }
                _ => self.reset(),
            },
            Channel::ToAgent | Channel::OtherToAgent | Channel::Hub => self.reset(),
            _ => Origin::Original,
        }
    }

    /// Takes a message for clients into account.
    pub(crate) fn see_message(&mut self, message: &Message<'_>) -> Origin {
        let is_original = self.next == Origin::Original;
        let kind = if is_original && !self.has_native { None } else { kind(message) };
        let is_kind = |prefix: &str| kind.as_ref().is_some_and(|kind| kind.starts_with(prefix));
        // The client knows of the commands that it runs.
        if self.has_native && is_kind("terminal_") {
            return Origin::Translated;
        }
        if is_original {
            self.has_original |= speaks(message);
        } else if !self.is_user && is_kind("user_message") {
            // Earlier versions wrote the prompt behind the first line that the agent said to it.
            self.has_original = true;
            return Origin::Original;
        }
        self.next.clone()
    }

    fn reset(&mut self) -> Origin {
        self.next = Origin::Original;
        Origin::Original
    }

    /// Continues behind a record of this origin.
    pub(crate) fn continue_behind(&mut self, origin: &Origin) {
        self.next = if *origin == Origin::Native { Origin::Translated } else { origin.clone() };
    }

    /// Whether the agent's own words are there for something that it has said.
    pub(crate) fn has_native(&self) -> bool {
        self.has_native
    }

    /// Whether everything that the agent has said is there in its own words.
    pub(crate) fn is_all_native(&self) -> bool {
        self.has_native && !self.has_original
    }
}

/// Returns the kind of an update.
fn kind(message: &Message<'_>) -> Option<String> {
    let Message::Notification(call) = message else { return None };
    call.params.as_ref()?.get("update")?.text("sessionUpdate")
}

/// Whether an update has something that the agent says or does, and not only how the session stands.
fn speaks(message: &Message<'_>) -> bool {
    let Message::Notification(call) = message else { return false };
    let Some(update) = call.params.as_ref().and_then(|params| params.get("update")) else { return false };
    match text_of(Some(&update), "sessionUpdate").as_deref() {
        // The hub ends calls itself when their agent is gone.
        Some("tool_call_update") => update
            .entries()
            .any(|(key, _)| !matches!(&*key, "sessionUpdate" | "toolCallId" | "status" | "_meta")),
        Some(kind) => kind.starts_with("agent_") || kind.starts_with("tool_call") || kind.starts_with("plan"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(update: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
        )
    }

    #[test]
    fn records_behind_a_native_update_are_made_of_it_until_the_agent_is_told_something() {
        let mut origins = Origins::default();
        let chunk = update(r#"{"sessionUpdate":"agent_message_chunk"}"#);
        assert_eq!(origins.see(Channel::OtherToClient, &chunk), Origin::Native);
        assert_eq!(origins.see(Channel::Diagnostic, "{}"), Origin::Original);
        assert_eq!(origins.see(Channel::ToClient, &chunk), Origin::Translated);
        assert_eq!(origins.see(Channel::ToClient, &chunk), Origin::Translated);
        assert!(origins.is_all_native());
        origins.see(Channel::ToAgent, r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt"}"#);
        let prompt = update(r#"{"sessionUpdate":"user_message"}"#);
        assert_eq!(origins.see(Channel::ToClient, &prompt), Origin::Original);
        assert!(origins.is_all_native(), "the agent did not say it");
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        origins.see(Channel::OtherToClient, answer);
        let idle = update(r#"{"sessionUpdate":"state_update","state":"idle"}"#);
        assert_eq!(
            origins.see(Channel::ToClient, &idle),
            Origin::TranslatedFrom(Raw::parse(answer.to_owned()).unwrap())
        );
        origins.see(Channel::Hub, "{}");
        let mut earlier = origins.clone();
        origins.see(Channel::ToClient, &chunk);
        assert!(!origins.is_all_native(), "nobody has the agent's own words for that");
        earlier.see(Channel::OtherToClient, &chunk);
        assert_eq!(earlier.see(Channel::ToClient, &prompt), Origin::Original);
        assert!(!earlier.is_all_native(), "the prompt stands behind the line that answers it");
    }
}
