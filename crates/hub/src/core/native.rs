//! Native lines: the original lines of version 1 agents. The log contains each native line before the records that were
//! translated from it. Version 1 clients get the native lines instead of a translation of the translation.

use switchboard_acp::extensions::Native;
use switchboard_acp::rpc::Message;
use switchboard_acp::{Raw, WireFormat};
use switchboard_store::Channel;

use super::lines::text_of;

/// Relation of a record to the agent's native lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A native update.
    Native,
    /// A record that was translated from the preceding native update.
    Translated,
    /// A record that was translated from this request or response of the agent.
    TranslatedFrom(Raw<'static>),
    /// A record without a native counterpart.
    #[default]
    Original,
}

impl Origin {
    /// Returns the mark of a record for a client behind a translator that wants native lines.
    pub(crate) fn mark(&self) -> Option<Native> {
        match self {
            Origin::Native => Some(Native::Own),
            Origin::Translated => Some(Native::Translated),
            Origin::TranslatedFrom(message) => Some(Native::TranslatedFrom(message.clone())),
            Origin::Original => None,
        }
    }
}

/// Determines the origin of each record while following a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OriginTracker {
    /// Origin of the next records for clients.
    next: Origin,
    /// True if the last native line was a message of the user.
    is_user: bool,
    has_native: bool,
    /// True if the agent has sent content without a native line.
    has_original: bool,
}

impl OriginTracker {
    /// Takes a record into account and returns its origin.
    pub(crate) fn apply(&mut self, channel: Channel, text: &str) -> Origin {
        match channel {
            Channel::ToClient => match Message::decode(text, WireFormat::Any) {
                Ok(message) => self.apply_message(&message),
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

    /// Takes a message for clients into account and returns its origin.
    pub(crate) fn apply_message(&mut self, message: &Message<'_>) -> Origin {
        let is_original = self.next == Origin::Original;
        let kind = if is_original && !self.has_native { None } else { kind(message) };
        let is_kind = |prefix: &str| kind.as_ref().is_some_and(|kind| kind.starts_with(prefix));
        // The client knows about the commands that it runs itself.
        if self.has_native && is_kind("terminal_") {
            return Origin::Translated;
        }
        if is_original {
            self.has_original |= has_agent_output(message);
        } else if !self.is_user && is_kind("user_message") {
            // Earlier versions recorded the prompt after the agent's first line about it.
            self.has_original = true;
            return Origin::Original;
        }
        self.next.clone()
    }

    fn reset(&mut self) -> Origin {
        self.next = Origin::Original;
        Origin::Original
    }

    /// Continues after a record of this origin.
    pub(crate) fn continue_after(&mut self, origin: &Origin) {
        self.next = if *origin == Origin::Native { Origin::Translated } else { origin.clone() };
    }

    /// Returns whether the log has native lines.
    pub(crate) fn has_native(&self) -> bool {
        self.has_native
    }

    /// Returns whether everything that the agent has sent has a native line.
    pub(crate) fn is_all_native(&self) -> bool {
        self.has_native && !self.has_original
    }
}

/// Returns the kind of an update.
fn kind(message: &Message<'_>) -> Option<String> {
    let Message::Notification(call) = message else { return None };
    call.params.as_ref()?.get("update")?.text("sessionUpdate")
}

/// Returns whether an update carries output of the agent, not only session state.
fn has_agent_output(message: &Message<'_>) -> bool {
    let Message::Notification(call) = message else { return false };
    let Some(update) = call.params.as_ref().and_then(|params| params.get("update")) else { return false };
    match text_of(Some(&update), "sessionUpdate").as_deref() {
        // The hub itself ends tool calls when their agent process has exited.
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
    fn records_after_a_native_update_are_its_translation_until_the_next_request() {
        let mut origins = OriginTracker::default();
        let chunk = update(r#"{"sessionUpdate":"agent_message_chunk"}"#);
        assert_eq!(origins.apply(Channel::OtherToClient, &chunk), Origin::Native);
        assert_eq!(origins.apply(Channel::Diagnostic, "{}"), Origin::Original);
        assert_eq!(origins.apply(Channel::ToClient, &chunk), Origin::Translated);
        assert_eq!(origins.apply(Channel::ToClient, &chunk), Origin::Translated);
        assert!(origins.is_all_native());
        origins.apply(Channel::ToAgent, r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt"}"#);
        let prompt = update(r#"{"sessionUpdate":"user_message"}"#);
        assert_eq!(origins.apply(Channel::ToClient, &prompt), Origin::Original);
        assert!(origins.is_all_native(), "the agent did not say it");
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        origins.apply(Channel::OtherToClient, answer);
        let idle = update(r#"{"sessionUpdate":"state_update","state":"idle"}"#);
        assert_eq!(
            origins.apply(Channel::ToClient, &idle),
            Origin::TranslatedFrom(Raw::parse(answer.to_owned()).unwrap())
        );
        origins.apply(Channel::Hub, "{}");
        let mut earlier = origins.clone();
        origins.apply(Channel::ToClient, &chunk);
        assert!(!origins.is_all_native(), "nobody has the agent's own words for that");
        earlier.apply(Channel::OtherToClient, &chunk);
        assert_eq!(earlier.apply(Channel::ToClient, &prompt), Origin::Original);
        assert!(!earlier.is_all_native(), "the prompt stands behind the line that answers it");
    }
}
