//! Text of messages: the few changes that the hub makes to them in transit.

use std::borrow::Cow;
use std::fmt::Write as _;

use switchboard_acp::extensions::{
    CURSOR, DECIDER, META, MetaValue, NATIVE, Native, REMEMBERED, REQUEST, TURN, is_hub_key,
};
use switchboard_acp::rpc::{Message, RequestId, RpcError};
use switchboard_acp::{Raw, Text, Wire, WireFormat};

use super::replay::Cursor;
use super::session_state::SUBAGENT_SEPARATOR;

/// Maximum number of characters of a client's value that an error message repeats. Ids and folders are shorter.
const NAMED: usize = 1024;

/// Changes to the parameters of a message.
#[derive(Clone, Copy, Default)]
pub(crate) struct Rewrite<'r> {
    /// The session's id on the other side.
    pub(crate) session: Option<&'r str>,
    /// The cursor, for clients.
    pub(crate) cursor: Option<&'r str>,
    /// The agent's id of a question, for clients.
    pub(crate) request: Option<&'r RequestId<'r>>,
    /// The relation to native lines, for clients behind a translator.
    pub(crate) native: Option<&'r Native>,
    /// True if the hub's own metadata is removed, for agents.
    pub(crate) drops_hub_meta: bool,
}

impl Rewrite<'_> {
    fn adds_meta(&self) -> bool {
        self.cursor.is_some() || self.request.is_some() || self.native.is_some()
    }
}

/// Appends a text as a JSON string.
pub(crate) fn push_string(out: &mut String, text: &str) {
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        // Encoding a string cannot fail.
        out.push_str(&serde_json::Value::from(text).to_string());
    }
}

/// Appends a request id.
pub(crate) fn push_id(out: &mut String, id: &RequestId<'_>) {
    out.push_str(&id.encode(WireFormat::Any));
}

/// Appends parameters with the changes.
fn push_params(out: &mut String, params: Option<&Raw<'_>>, rewrite: Rewrite<'_>) {
    let Some(params) = params.filter(|params| params.is_object()) else {
        match params {
            // Only objects have members that could change.
            Some(other) => out.push_str(other.as_str()),
            None => out.push_str("{}"),
        }
        return;
    };
    out.push('{');
    let mut first = true;
    let mut separate = |out: &mut String| {
        if !std::mem::take(&mut first) {
            out.push(',');
        }
    };
    let mut has_meta = false;
    for (key, value) in params.entries() {
        match (&*key, rewrite.session) {
            ("sessionId", Some(session)) => {
                separate(out);
                out.push_str(r#""sessionId":"#);
                push_string(out, session);
            }
            // Metadata that held only the hub's own keys is removed as a whole, as if it had never been added.
            (META, _) if rewrite.drops_hub_meta && !rewrite.adds_meta() && is_hub_meta_only(&value) => {
                has_meta = true;
            }
            (META, _) if rewrite.adds_meta() || rewrite.drops_hub_meta => {
                has_meta = true;
                separate(out);
                out.push_str(r#""_meta":"#);
                push_meta(out, Some(&value), rewrite);
            }
            _ => {
                separate(out);
                push_string(out, &key);
                out.push(':');
                out.push_str(value.as_str());
            }
        }
    }
    if !has_meta && rewrite.adds_meta() {
        separate(out);
        out.push_str(r#""_meta":"#);
        push_meta(out, None, rewrite);
    }
    out.push('}');
}

/// Returns whether metadata has keys, all of which are the hub's own.
fn is_hub_meta_only(meta: &Raw<'_>) -> bool {
    let mut keys = meta.entries().map(|(key, _)| key).peekable();
    keys.peek().is_some() && keys.all(|key| is_hub_key(&key))
}

fn push_meta(out: &mut String, meta: Option<&Raw<'_>>, rewrite: Rewrite<'_>) {
    out.push('{');
    let mut first = true;
    if let Some(cursor) = rewrite.cursor {
        first = false;
        push_string(out, CURSOR.name());
        out.push(':');
        push_string(out, cursor);
    }
    if let Some(request) = rewrite.request {
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        push_string(out, REQUEST.name());
        out.push(':');
        push_id(out, request);
    }
    if let Some(native) = rewrite.native {
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        push_string(out, NATIVE.name());
        out.push(':');
        out.push_str(native.to_raw().as_str());
    }
    for (key, value) in meta.into_iter().flat_map(Raw::entries) {
        if [CURSOR.name(), REQUEST.name(), NATIVE.name()].contains(&&*key)
            || (rewrite.drops_hub_meta && is_hub_key(&key))
        {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        push_string(out, &key);
        out.push(':');
        out.push_str(value.as_str());
    }
    out.push('}');
}

/// Returns the hub's session of a session id that clients use: the id itself, or the session of a sub-agent.
pub(crate) fn root(session: &str) -> &str {
    session.split_once(SUBAGENT_SEPARATOR).map_or(session, |(root, _)| root)
}

/// Returns a request or, without an id, a notification.
pub(crate) fn call(
    id: Option<&RequestId<'_>>,
    method: &str,
    params: Option<&Raw<'_>>,
    rewrite: Rewrite<'_>,
) -> String {
    let mut out = String::with_capacity(params.map_or(0, |params| params.as_str().len()) + 160);
    out.push_str(r#"{"jsonrpc":"2.0","#);
    if let Some(id) = id {
        out.push_str(r#""id":"#);
        push_id(&mut out, id);
        out.push(',');
    }
    out.push_str(r#""method":"#);
    push_string(&mut out, method);
    out.push_str(r#","params":"#);
    push_params(&mut out, params, rewrite);
    out.push('}');
    out
}

/// Outcome of a request: the member `result` or `error` of its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// JSON text of the result.
    Result(String),
    /// JSON text of the error.
    Error(String),
}

impl Outcome {
    pub(crate) fn of(outcome: &Result<Raw<'_>, RpcError<'_>>) -> Self {
        match outcome {
            Ok(result) => Outcome::Result(result.as_str().to_owned()),
            Err(error) => Outcome::Error(error.encode(WireFormat::Any)),
        }
    }

    pub(crate) fn error(code: i32, message: impl Into<String>, data: Option<serde_json::Value>) -> Self {
        let mut error = RpcError::new(code, message.into());
        error.data = data.map(Raw::from);
        Outcome::Error(error.encode(WireFormat::Any))
    }

    /// Returns the response to a prompt with the outcome of the turn added.
    pub(crate) fn of_turn(self, ended: Option<&str>) -> Self {
        let Outcome::Result(text) = &self else { return self };
        let Some(result) = Raw::parse(text.as_str()).ok().filter(Raw::is_object) else { return self };
        let Ok(ended) = Raw::parse(ended.unwrap_or("null").to_owned()) else { return self };
        Outcome::Result(TURN.set(&result, ended).to_string())
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Outcome::Result(text) | Outcome::Error(text) => text.len(),
        }
    }

    /// Returns whether it is an error with this code.
    pub(crate) fn is_error_of(&self, code: i32) -> bool {
        let Outcome::Error(text) = self else { return false };
        let error = Raw::parse(text.as_str()).ok();
        error.and_then(|error| error.get("code").map(|known| known.as_str() == code.to_string()))
            == Some(true)
    }

    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Outcome::Error(_))
    }
}

/// Returns the response to a request.
pub(crate) fn answer(id: &RequestId<'_>, outcome: &Outcome) -> String {
    let (key, text) = match outcome {
        Outcome::Result(text) => ("result", text),
        Outcome::Error(text) => ("error", text),
    };
    let mut out = String::with_capacity(text.len() + 48);
    out.push_str(r#"{"jsonrpc":"2.0","id":"#);
    push_id(&mut out, id);
    let _ = write!(out, r#","{key}":{text}}}"#);
    out
}

/// Returns the notification that cancels a request of the hub.
pub(crate) fn cancel(id: &RequestId<'_>) -> String {
    let mut out = String::from(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"#);
    push_id(&mut out, id);
    out.push_str("}}");
    out
}

/// Returns whether an update is a notice that only clients of `session/attach` get, and in the hub's own spelling.
pub(crate) fn is_notice(text: &str) -> bool {
    let Ok(Message::Notification(notification)) = Message::decode(text, WireFormat::Any) else {
        return false;
    };
    let update = notification.params.as_ref().and_then(|params| params.get("update"));
    let kind = text_of(update.as_ref(), "sessionUpdate");
    matches!(
        kind.as_deref(),
        Some("prompt_received" | "permission_resolved" | "turn_complete" | "client_disconnected")
    )
}

/// Returns an update that the hub itself creates.
pub(crate) fn update(session: &str, update: &str) -> String {
    let mut out = String::from(r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"#);
    push_string(&mut out, session);
    let _ = write!(out, r#","update":{update}}}}}"#);
    out
}

/// Returns an id as JSON.
pub(crate) fn id_text(id: &RequestId<'_>) -> String {
    id.encode(WireFormat::Any)
}

/// Returns an object with some members set to other values, which are JSON.
pub(crate) fn merged(object: Option<&Raw<'_>>, set: &[(&str, &str)]) -> String {
    let mut out = String::from("{");
    let mut first = true;
    let mut push = |out: &mut String, key: &str, value: &str| {
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        push_string(out, key);
        out.push(':');
        out.push_str(value);
    };
    for (key, value) in object.into_iter().flat_map(Raw::entries) {
        if set.iter().all(|(name, _)| *name != &*key) {
            push(&mut out, &key, value.as_str());
        }
    }
    for (key, value) in set {
        push(&mut out, key, value);
    }
    out.push('}');
    out
}

/// Returns an object without one of its members.
pub(crate) fn without(object: &Raw<'_>, key: &str) -> String {
    let kept: Vec<_> = object.entries().filter(|(name, _)| **name != *key).collect();
    let kept: Vec<(&str, &str)> = kept.iter().map(|(name, value)| (&**name, value.as_str())).collect();
    merged(None, &kept)
}

/// Returns a text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_string(&mut out, text);
    out
}

/// Truncates a value of a client that an error message repeats.
pub(crate) fn truncated(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(NAMED) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Returns the agent's id of the session that a line prompts; `None` if it is not a prompt.
pub(crate) fn prompted_session(line: &str) -> Option<String> {
    if !line.contains("session/prompt") {
        return None;
    }
    match Message::decode(line, WireFormat::Any) {
        Ok(Message::Request(request)) if request.method == "session/prompt" => {
            text_of(request.params.as_ref(), "sessionId").map(Cow::into_owned)
        }
        _ => None,
    }
}

/// Returns a string member of the parameters.
pub(crate) fn text_of<'r>(params: Option<&'r Raw<'_>>, key: &str) -> Option<Text<'r>> {
    let value = params?.entries().find_map(|(name, value)| (&*name == key).then_some(value))?;
    let text = value.as_text()?.into_owned();
    Some(text.into())
}

/// Returns a result without the hub's own metadata.
pub(crate) fn without_hub_meta(result: &Raw<'_>) -> String {
    match result.get(META).filter(|meta| meta.get(DECIDER.name()).is_some()) {
        None => result.as_str().to_owned(),
        Some(meta) => merged(Some(result), &[(META, &without(&meta, DECIDER.name()))]),
    }
}

/// Returns whether a request concerns the sessions that the agent itself has.
pub(crate) fn is_about_agent_sessions(params: Option<&Raw<'_>>) -> bool {
    params.is_some_and(|params| REMEMBERED.is_set(params))
}

/// Returns a key that occurs twice in an object or in its `_meta`.
pub(crate) fn duplicate_key(object: &Raw<'_>) -> Option<String> {
    let first = |object: &Raw<'_>| {
        let mut seen = std::collections::HashSet::new();
        object.entries().map(|(key, _)| key.into_owned()).find(|key| !seen.insert(key.clone()))
    };
    first(object).or_else(|| first(&object.get(META)?))
}

/// Returns the cursor after a record of a session.
pub(crate) fn cursor(session: &str, sequence: u64) -> String {
    format!("{session}.{sequence}")
}

/// Encodes a cursor: `SESSION.SEQUENCE` for a client that has everything up to a record, `SESSION.KEY-END` in the
/// middle of a replay.
pub(crate) fn format_cursor(session: &str, held: Cursor) -> String {
    match held.is_live() {
        true => cursor(session, held.key),
        false => format!("{session}.{}-{}", held.key, held.end),
    }
}

/// Parses a cursor; `None` if it belongs to another session or is malformed.
pub(crate) fn parse_cursor(session: &str, cursor: &str) -> Option<Cursor> {
    let position = cursor.strip_prefix(session)?.strip_prefix('.')?;
    // Accepts exactly the output of `cursor_of`: no sign, no leading zeros.
    let number = |digits: &str| {
        let number: u64 = digits.parse().ok()?;
        (number.to_string() == digits && number < u64::MAX).then_some(number)
    };
    let held = match position.split_once('-') {
        Some((key, end)) => Cursor { key: number(key)?, end: number(end)? },
        None => Cursor::live(number(position)?),
    };
    (held.key < held.end && format_cursor(session, held) == cursor).then_some(held)
}

#[cfg(test)]
mod tests {
    use switchboard_acp::Raw;

    use super::super::replay::Cursor;
    use super::{NAMED, Rewrite, call, cursor, format_cursor, parse_cursor, truncated};

    #[test]
    fn only_the_session_and_metadata_change() {
        let params = Raw::parse(
            r#"{"_meta":{"a":1e2,"acp/cursor":"x"},"sessionId":"s","update":{"n":1.0,"ü":"\u00e4"}}"#,
        )
        .unwrap();
        let rewrite = Rewrite { session: Some("h\"1"), cursor: Some("h.7"), ..Rewrite::default() };
        let line = call(None, "session/update", Some(&params), rewrite);
        assert_eq!(
            line,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"_meta":{"acp/cursor":"h.7","a":1e2},"sessionId":"h\"1","update":{"n":1.0,"ü":"\u00e4"}}}"#
        );
    }

    #[test]
    fn hub_metadata_is_removed_for_the_agent() {
        let params =
            Raw::parse(r#"{"sessionId":"h","_meta":{"switchboard/operationId":"o","k":2},"prompt":[]}"#)
                .unwrap();
        let rewrite = Rewrite { session: Some("s"), drops_hub_meta: true, ..Rewrite::default() };
        let line = call(Some(&3.into()), "session/prompt", Some(&params), rewrite);
        assert_eq!(
            line,
            r#"{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s","_meta":{"k":2},"prompt":[]}}"#
        );
    }

    #[test]
    fn metadata_with_only_hub_keys_is_removed() {
        let line = |params: &'static str| {
            let rewrite = Rewrite { drops_hub_meta: true, ..Rewrite::default() };
            call(None, "_x", Some(&Raw::parse(params).unwrap()), rewrite)
        };
        let expected = |params: &str| format!(r#"{{"jsonrpc":"2.0","method":"_x","params":{params}}}"#);
        assert_eq!(line(r#"{"a":1,"_meta":{"switchboard/operationId":"o"}}"#), expected(r#"{"a":1}"#));
        assert_eq!(line(r#"{"a":1,"_meta":{}}"#), expected(r#"{"a":1,"_meta":{}}"#));
    }

    #[test]
    fn long_names_are_truncated_in_errors() {
        assert_eq!(truncated("session"), "session");
        let long = "ä".repeat(NAMED + 1);
        assert_eq!(truncated(&long), format!("{}…", "ä".repeat(NAMED)));
    }

    #[test]
    fn cursors_contain_session_and_record() {
        assert_eq!(parse_cursor("h-1", &cursor("h-1", 12)), Some(Cursor { key: 12, end: 13 }));
        let partly = Cursor { key: 3, end: 40 };
        assert_eq!(parse_cursor("h-1", &format_cursor("h-1", partly)), Some(partly));
        for bad in [
            "h-1",
            "h-1.",
            "h-1.x",
            "h-1.-1",
            "h-1.+1",
            "h-1.01",
            "h-2.1",
            "",
            "h-1.18446744073709551616",
            "h-1.18446744073709551615",
            "h-1.5-5",
            "h-1.5-6",
            "h-1.5-4",
            "h-1.5-",
            "h-1.-5",
            "h-1.5-06",
            "h-1.1-3-5",
        ] {
            assert_eq!(parse_cursor("h-1", bad), None, "{bad}");
        }
    }

    #[test]
    fn questions_carry_the_agents_request_id_which_agents_cannot_forge() {
        let id = switchboard_acp::rpc::RequestId::Text("q".into());
        let rewrite = Rewrite { session: Some("h"), request: Some(&id), ..Rewrite::default() };
        let told =
            |params: &'static str| call(Some(&3.into()), "m", Some(&Raw::parse(params).unwrap()), rewrite);
        let expected = |more: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":3,"method":"m","params":{{"sessionId":"h","_meta":{{"switchboard/request":"q"{more}}}}}}}"#
            )
        };
        assert_eq!(told(r#"{"sessionId":"a"}"#), expected(""));
        let forged = r#"{"sessionId":"a","_meta":{"switchboard/request":9,"x":1}}"#;
        assert_eq!(told(forged), expected(r#","x":1"#));
    }
}
