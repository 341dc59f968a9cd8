//! Switchboard's extensions of the protocol: the `_meta` keys, methods and log records that are not part of ACP.
//!
//! Every name is declared here once, with the type of its value, the component that writes it and the one that reads it.
//! Readers are tolerant: a value of another type counts as missing, unknown keys are kept, and unknown records are skipped.
//!
//! ```
//! use switchboard_acp::{Raw, extensions::OPERATION_ID};
//!
//! let params = Raw::parse(r#"{"sessionId":"s","_meta":{"mine":1}}"#)?;
//! let named = OPERATION_ID.set(&params, "4b1d");
//! assert_eq!(named.as_str(), r#"{"sessionId":"s","_meta":{"mine":1,"switchboard/operationId":"4b1d"}}"#);
//! assert_eq!(OPERATION_ID.of(&named).as_deref(), Some("4b1d"));
//! # Ok::<(), switchboard_acp::DecodeError>(())
//! ```

mod record;

use std::marker::PhantomData;

pub use record::{
    ActRecord, AgentSessionRecord, Author, HubRecord, PromptRecord, QuestionRecord, TurnAbandonedRecord,
};

use crate::macros::object;
use crate::rpc::RequestId;
use crate::{Meta, Raw, Text, Wire, WireFormat};

/// The member that holds metadata, in parameters, results and most objects.
pub const META: &str = "_meta";

/// Prefix of keys that carry a value of version 1 which version 2 cannot express.
pub const V1_PREFIX: &str = "acp.v1/";
/// Prefix of keys that carry a value of version 2 which version 1 cannot express.
pub const V2_PREFIX: &str = "acp.v2/";

/// File system capabilities of a version 1 client. Written by the bridge in the `_meta` of the capabilities of version 2, read
/// by the hub and by the bridge in front of a version 1 agent.
pub const V1_FILES: MetaKey<Raw<'static>> = MetaKey::new("acp.v1/fs");
/// True if a version 1 client runs commands for agents. Written and read as [`V1_FILES`].
pub const V1_TERMINALS: MetaKey<bool> = MetaKey::new("acp.v1/terminal");

// ----- keys of updates

/// Position of an update in its session's log. Written by the hub on every update; clients send the last one back with
/// `session/resume` to continue after it.
pub const CURSOR: MetaKey<String> = MetaKey::new("acp/cursor");
/// Number of pending requests that follow the state of a resumed session. Written by the hub; a client that was cut off
/// cancels the requests it knows and that are not among them.
pub const QUESTIONS: MetaKey<u64> = MetaKey::new("switchboard/questions");
/// Marks the end of a turn that the hub ended because the agent did not, and in `session/list` a session whose agent did
/// not stop after a cancellation. Written by the hub, read by clients.
pub const UNRESPONSIVE: MetaKey<bool> = MetaKey::new("switchboard/unresponsive");
/// Marks a compaction after which nothing remains: the agent was started again and could not resume the session. Written by
/// the hub; the session engine shows a divider, the bridge tells version 1 clients in a message.
pub const MEMORY_LOST: MetaKey<bool> = MetaKey::new("switchboard/memoryLost");
/// Marks an update about the moment that is not part of the history. Written by `switchboard bridge`; a replay leaves such
/// updates out.
pub const MOMENTARY: MetaKey<bool> = MetaKey::new("switchboard/momentary");
/// Decision of a policy about a permission request, in the notice about it: an object with `policy` (the rule, or `null`),
/// `decision` and further keys of [`Author`]. Written by the hub and `switchboard bridge`, read by clients.
pub const POLICY_DECISION: MetaKey<Raw<'static>> = MetaKey::new("switchboard/permission");
/// Sandbox of a session, in the notice about it: an object with `mode` and further keys, or with `denied` and the host that
/// was refused. Written by the hub, `switchboard bridge` and `switchboard run`, read by clients.
pub const SANDBOX: MetaKey<Raw<'static>> = MetaKey::new("switchboard/sandbox");
/// Relation of a message to the agent's own lines. Written by the hub for clients that sent [`NATIVE_VERSION`]; the bridge
/// passes the agent's own lines on to a client of the agent's version instead of translating their translation.
pub const NATIVE: MetaKey<Native> = MetaKey::new("switchboard/native");
/// Folder that the relative paths of a diff start from. Written and read by the diff library.
pub const ROOT: MetaKey<String> = MetaKey::new("switchboard/root");

// ----- keys of requests and responses

/// Idempotency key of a request or notification. Written by clients; the hub performs it once and answers a duplicate with
/// the first response.
pub const OPERATION_ID: MetaKey<String> = MetaKey::new("switchboard/operationId");
/// Id that a question has at the agent and in the log. Written by the hub on the question, read by clients that show the
/// log.
pub const REQUEST: MetaKey<RequestId<'static>> = MetaKey::new("switchboard/request");
/// Source of an answer that was not given by a person, such as `remembered`. Written by clients on a
/// response; the hub keeps it in [`Author::decider`] and removes it.
pub const DECIDER: MetaKey<String> = MetaKey::new("switchboard/decider");
/// Marks a request about the sessions that the agent itself remembers, not those of the hub. Written by clients, read by the
/// hub.
pub const REMEMBERED: MetaKey<bool> = MetaKey::new("switchboard/remembered");
/// The hub's id of a session that it took over from the agent. Written by the hub on the response, read by clients.
pub const ADOPTED_SESSION: MetaKey<String> = MetaKey::new("switchboard/session");
/// Asks the hub for [`TURN`]. Written by clients on `initialize`, read by the hub.
pub const REPORTS_TURNS: MetaKey<bool> = MetaKey::new(TURN.name);
/// Asks the hub for [`NATIVE`] lines of this protocol version. Written on `initialize` by a bridge whose client speaks it,
/// read by the hub.
pub const NATIVE_VERSION: MetaKey<u64> = MetaKey::new(NATIVE.name);
/// The `state_update` that ended the work on a prompt, or `null` while it continues. Written by the hub on
/// the response to `session/prompt`; the bridge needs it to distinguish the end of this prompt from that of
/// another client's.
pub const TURN: MetaKey<Raw<'static>> = MetaKey::new("switchboard/turn");
/// Protocol version that the agent itself speaks. Written by the hub on the response to `initialize`, read by clients.
pub const AGENT_VERSION: MetaKey<u64> = MetaKey::new("switchboard/agentVersion");
/// Transport capabilities, for clients of version 1: version 2 has `capabilities.transport`. Written by the
/// hub in the `_meta` of `agentCapabilities`, read by clients.
pub const TRANSPORT: MetaKey<Raw<'static>> = MetaKey::new("acp/transport");

// ----- keys of `session/list`, written by the hub and read by clients

/// Name of the agent of a session.
pub const AGENT: MetaKey<String> = MetaKey::new("switchboard/agent");
/// State of a session, such as `running` or `dormant`.
pub const STATE: MetaKey<String> = MetaKey::new("switchboard/state");
/// Name of the token that opened a session.
pub const OWNER: MetaKey<String> = MetaKey::new("switchboard/owner");

/// Returns true if a key belongs to Switchboard or its translation, so that no agent treats it as an option.
pub fn is_own_key(key: &str) -> bool {
    ["switchboard/", "acp/", V1_PREFIX, V2_PREFIX].iter().any(|prefix| key.starts_with(prefix))
}

/// Returns true if a key belongs to the connection between a client and a hub, and not to the update it is
/// on.
pub fn is_connection_key(key: &str) -> bool {
    [CURSOR.name, QUESTIONS.name, NATIVE.name].contains(&key)
}

/// Returns true if a key of a request is only for the hub: agents do not get it.
pub fn is_hub_key(key: &str) -> bool {
    [CURSOR.name, REQUEST.name, OPERATION_ID.name, REMEMBERED.name].contains(&key)
}

// ----- methods

const METHOD_PREFIX: &str = "_switchboard/";

/// The notification by which a client that translates for itself reports a loss to the hub: [`LossNotification`].
pub const LOSS_METHOD: &str = "_switchboard/loss";
/// The request by which a client has the hub end the agent process of a session: [`EndAgentRequest`],
/// [`EndAgentResponse`].
pub const END_AGENT_METHOD: &str = "_switchboard/end_agent";

/// Returns true if a method is one of Switchboard's own.
pub fn is_own_method(method: &str) -> bool {
    method.starts_with(METHOD_PREFIX)
}

/// Returns the id of a request that Switchboard makes itself on a connection where a client makes the others.
pub fn own_request_id(number: u64) -> RequestId<'static> {
    RequestId::Text(format!("switchboard/{number}").into())
}

object! {
    /// A loss that a client's own translation caused.
    LossNotification {
        /// The session.
        required session_id: Text<'a> = "sessionId",
        /// The loss: an object as the bridge reports it.
        required loss: Raw<'a> = "loss",
    }
}

object! {
    /// A client ends the agent process of a session. The next prompt starts another one.
    EndAgentRequest {
        /// The session.
        required session_id: Text<'a> = "sessionId",
    }
}

object! {
    /// The agent process ends.
    EndAgentResponse {
        /// Other sessions whose work in the same process is interrupted.
        required interrupted: Vec<Text<'a>> = "interrupted",
    }
}

/// Names that `switchboard conform` uses to test how a peer treats unknown extensions.
pub mod probes {
    use super::{MetaKey, Raw};

    /// A method, as a request and as a notification.
    pub const METHOD: &str = "_switchboard/conform";
    /// Another method.
    pub const OTHER_METHOD: &str = "_switchboard/other";
    /// A method that is only a notification.
    pub const NOTIFICATION: &str = "_switchboard/hello";
    /// A request of an agent.
    pub const AGENT_REQUEST: &str = "_switchboard/what";
    /// A kind of session update.
    pub const UPDATE: &str = "_switchboard/weather";
    /// A type of tool call content.
    pub const TOOL_CONTENT: &str = "_switchboard/hologram";
    /// A kind of tool call.
    pub const TOOL_KIND: &str = "_switchboard/odd";
    /// A type of content block.
    pub const CONTENT_BLOCK: &str = "_switchboard/smell";
    /// A metadata key.
    pub const KEY: MetaKey<Raw<'static>> = MetaKey::new("switchboard/conform");
}

// ----- reading and writing

/// A key of `_meta` with the type of its value.
#[derive(Debug, Clone, Copy)]
pub struct MetaKey<T> {
    name: &'static str,
    value: PhantomData<fn() -> T>,
}

impl<T> MetaKey<T> {
    /// Declares a key.
    pub const fn new(name: &'static str) -> Self {
        MetaKey { name, value: PhantomData }
    }

    /// The key as it is written.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<T: MetaValue> MetaKey<T> {
    /// Reads the value in the `_meta` of an object. `None` if it is missing or of another type.
    pub fn of(&self, object: &Raw<'_>) -> Option<T> {
        T::read(&object.get(META)?.get(self.name)?)
    }

    /// Reads the value in metadata.
    pub fn read(&self, meta: &Meta<'_>) -> Option<T> {
        T::read(&meta.get(self.name)?)
    }

    /// Returns the value as an entry of metadata.
    pub fn entry(&self, value: impl Into<T>) -> (Text<'static>, Raw<'static>) {
        (Text::Borrowed(self.name), value.into().to_raw())
    }

    /// Returns metadata with this key alone.
    pub fn meta(&self, value: impl Into<T>) -> Meta<'static> {
        Meta::from_entries([self.entry(value)])
    }

    /// Returns an object with the value in its `_meta`.
    pub fn set(&self, object: &Raw<'_>, value: impl Into<T>) -> Raw<'static> {
        with_meta(object, &[], &[self.entry(value)])
    }
}

impl MetaKey<bool> {
    /// Returns true if the `_meta` of an object has the key with the value `true`.
    pub fn is_set(&self, object: &Raw<'_>) -> bool {
        self.of(object) == Some(true)
    }
}

/// Returns an object with other metadata: without some keys, with others. Metadata without entries is left out. Any value
/// other than an object has no metadata and is returned as it is.
pub fn with_meta(object: &Raw<'_>, without: &[&str], with: &[(Text<'_>, Raw<'_>)]) -> Raw<'static> {
    if !object.is_object() {
        return object.clone().into_owned();
    }
    let meta = object.get(META);
    let kept = meta.iter().flat_map(Raw::entries);
    let kept = kept.filter(|(key, _)| !without.contains(&&**key) && with.iter().all(|(new, _)| key != new));
    let added = with.iter().map(|(key, value)| (Text::Borrowed(&**key), value.borrowed()));
    let mut entries = kept.chain(added).peekable();
    let meta = entries.peek().is_some().then(|| Meta::from_entries(entries));
    let others = object.entries().filter(|(key, _)| key != META);
    let meta = meta.iter().map(|meta| (Text::Borrowed(META), meta.as_raw().borrowed()));
    Meta::from_entries(others.chain(meta)).as_raw().clone()
}

/// A type of the values of a [`MetaKey`].
pub trait MetaValue: Sized {
    /// Reads a value. `None` if it is of another type.
    fn read(value: &Raw<'_>) -> Option<Self>;

    /// Returns the JSON of the value.
    fn to_raw(&self) -> Raw<'static>;
}

macro_rules! meta_value {
    ($($type:ty, $wire:ty, $from:expr, $to:expr;)*) => {$(
        impl MetaValue for $type {
            fn read(value: &Raw<'_>) -> Option<Self> {
                <$wire>::decode(value.as_str(), WireFormat::Any).ok().map($from)
            }

            fn to_raw(&self) -> Raw<'static> {
                Raw::of(&$to(self), WireFormat::Any)
            }
        }
    )*};
}

meta_value! {
    bool, bool, |value| value, bool::clone;
    u64, u64, |value| value, u64::clone;
    String, Text<'_>, Text::into_owned, |value: &String| Text::Owned(value.clone());
    Raw<'static>, Raw<'_>, Raw::into_owned, Raw::clone;
    RequestId<'static>, RequestId<'_>, Wire::into_owned, RequestId::clone;
}

/// Relation of a message to the agent's own lines: the value of [`NATIVE`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Native {
    /// The update is the agent's own, in the version of the agent.
    Own,
    /// The update was translated from one of the agent's own, which the client has.
    Translated,
    /// The client has already received the update. Only the state of a translation needs it.
    Known,
    /// The message was translated from this request or response of the agent.
    TranslatedFrom(Raw<'static>),
}

impl MetaValue for Native {
    fn read(value: &Raw<'_>) -> Option<Self> {
        if value.is_object() {
            return Some(Native::TranslatedFrom(value.clone().into_owned()));
        }
        match &*Text::decode(value.as_str(), WireFormat::Any).ok()? {
            "own" => Some(Native::Own),
            "translated" => Some(Native::Translated),
            "known" => Some(Native::Known),
            _ => None,
        }
    }

    fn to_raw(&self) -> Raw<'static> {
        let word = match self {
            Native::Own => "own",
            Native::Translated => "translated",
            Native::Known => "known",
            Native::TranslatedFrom(message) => return message.clone(),
        };
        Raw::of(&Text::Borrowed(word), WireFormat::Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw<'_> {
        Raw::parse(text).unwrap()
    }

    #[test]
    fn a_value_of_another_type_counts_as_missing() {
        for meta in
            ["null", "[]", "7", r#"{"switchboard/questions":"2"}"#, r#"{"switchboard/questions":-1}"#, "{}"]
        {
            let params = format!(r#"{{"_meta":{meta}}}"#);
            assert_eq!(QUESTIONS.of(&raw(&params)), None, "{meta}");
        }
        assert_eq!(QUESTIONS.of(&raw(r#"{"_meta":{"a":[],"switchboard/questions":2}}"#)), Some(2));
        assert!(REMEMBERED.is_set(&raw(r#"{"_meta":{"switchboard/remembered":true}}"#)));
        for value in ["false", "1", r#""true""#, "null", "{}"] {
            let params = format!(r#"{{"_meta":{{"switchboard/remembered":{value}}}}}"#);
            assert!(!REMEMBERED.is_set(&raw(&params)), "{value}");
        }
        assert_eq!(CURSOR.of(&raw("[]")), None);
        let ended = raw(r#"{"_meta":{"switchboard/turn":null}}"#);
        assert_eq!(TURN.of(&ended).unwrap().as_str(), "null");
        let question = raw(r#"{"_meta":{"switchboard/request":"q"}}"#);
        assert_eq!(REQUEST.of(&question), Some(RequestId::Text("q".into())));
    }

    #[test]
    fn the_relation_to_a_native_line_is_read_as_it_is_written() {
        let message = raw(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).into_owned();
        for native in [Native::Own, Native::Translated, Native::Known, Native::TranslatedFrom(message)] {
            let params = NATIVE.set(&raw(r#"{"sessionId":"s"}"#), native.clone());
            assert_eq!(NATIVE.of(&params), Some(native));
        }
        for value in ["null", "1", "true", "[]", r#""other""#] {
            let params = format!(r#"{{"_meta":{{"switchboard/native":{value}}}}}"#);
            assert_eq!(NATIVE.of(&raw(&params)), None, "{value}");
        }
    }

    #[test]
    fn metadata_of_others_is_kept_as_it_is_written() {
        let params = raw(r#"{"_meta":{"acp/cursor":"s.1","n":1.50},"x":[1e3]}"#);
        let changed = with_meta(&params, &[CURSOR.name()], &[QUESTIONS.entry(3_u64)]);
        assert_eq!(changed.as_str(), r#"{"x":[1e3],"_meta":{"n":1.50,"switchboard/questions":3}}"#);
        let bare = with_meta(&raw(r#"{"_meta":{"acp/cursor":"s.1"},"x":1}"#), &[CURSOR.name()], &[]);
        assert_eq!(bare.as_str(), r#"{"x":1}"#);
        assert_eq!(
            OPERATION_ID.set(&raw("{}"), "a\"b").as_str(),
            r#"{"_meta":{"switchboard/operationId":"a\"b"}}"#
        );
        assert_eq!(OPERATION_ID.set(&raw(r#"{"_meta":7}"#), "o"), OPERATION_ID.set(&raw("{}"), "o"));
        assert_eq!(OPERATION_ID.set(&raw("[1]"), "o").as_str(), "[1]");
    }

    #[test]
    fn agents_take_no_key_of_ours_for_an_option() {
        for key in [CURSOR.name(), OPERATION_ID.name(), "acp.v2/kind", "acp.v1/path"] {
            assert!(is_own_key(key), "{key}");
        }
        assert!(!is_own_key("switchboard") && !is_own_key("acp") && !is_own_key("claudeCode"));
        assert!(
            is_own_method(LOSS_METHOD) && is_own_method(END_AGENT_METHOD) && !is_own_method("session/list")
        );
    }
}
