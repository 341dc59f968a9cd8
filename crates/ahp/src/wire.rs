//! Messages of the protocol: JSON-RPC, versions, URIs and times.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use switchboard_acp::Moment;

/// URI of the root channel.
pub(crate) const ROOT: &str = "ahp-root://";

/// Error codes of JSON-RPC and of the protocol.
pub(crate) mod codes {
    pub(crate) const PARSE: i64 = -32700;
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    pub(crate) const INTERNAL: i64 = -32603;
    pub(crate) const SESSION_NOT_FOUND: i64 = -32001;
    pub(crate) const PROVIDER_NOT_FOUND: i64 = -32002;
    pub(crate) const SESSION_EXISTS: i64 = -32003;
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32005;
    pub(crate) const NOT_FOUND: i64 = -32008;
    pub(crate) const PERMISSION_DENIED: i64 = -32009;
}

/// A message of a client.
#[derive(Debug)]
pub(crate) enum ClientMessage<'m> {
    /// A request with its id as it was written.
    Request {
        id: Cow<'m, RawValue>,
        method: Cow<'m, str>,
        params: Value,
    },
    Notification {
        method: Cow<'m, str>,
        params: Value,
    },
    /// A response to a request of the host, which makes none.
    Response,
}

/// An error response.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl Failure {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Failure { code, message: message.into(), data: None }
    }

    pub(crate) fn params(message: impl Into<String>) -> Self {
        Failure::new(codes::INVALID_PARAMS, message)
    }
}

#[derive(Deserialize)]
struct Envelope<'m> {
    #[serde(borrow, default)]
    id: Option<&'m RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'m, str>>,
    #[serde(default)]
    params: Value,
}

impl<'m> ClientMessage<'m> {
    /// Parses a text frame. The error is a complete response.
    pub(crate) fn parse(text: &'m str) -> Result<Self, String> {
        let null = || Cow::Owned(null_id());
        if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
            return Err(failed(&null(), &Failure::new(codes::PARSE, "the message is not JSON")));
        }
        let invalid = |reason: &str| failed(&null(), &Failure::new(codes::INVALID_REQUEST, reason));
        let envelope: Envelope<'m> =
            serde_json::from_str(text).map_err(|_| invalid("expected one JSON-RPC message, an object"))?;
        match (envelope.id, envelope.method) {
            (Some(id), Some(method)) if id.get() != "null" => {
                let is_id = id.get().starts_with('"') || id.get().bytes().all(|byte| byte.is_ascii_digit());
                if !is_id {
                    return Err(invalid("at /id: expected an unsigned integer or a string"));
                }
                Ok(ClientMessage::Request { id: Cow::Borrowed(id), method, params: envelope.params })
            }
            (_, Some(method)) => Ok(ClientMessage::Notification { method, params: envelope.params }),
            (Some(_), None) => Ok(ClientMessage::Response),
            (None, None) => Err(invalid("the message has neither a method nor an id")),
        }
    }
}

fn null_id() -> Box<RawValue> {
    // `null` is JSON.
    RawValue::from_string("null".to_owned()).unwrap_or_default()
}

/// Returns a response with a result.
pub(crate) fn answered(id: &RawValue, result: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.get())
}

/// Returns an error response.
pub(crate) fn failed(id: &RawValue, failure: &Failure) -> String {
    let mut error = json!({"code": failure.code, "message": failure.message});
    if let Some(data) = &failure.data {
        error["data"] = data.clone();
    }
    format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, id.get())
}

/// Returns a notification.
pub(crate) fn notification(method: &str, params: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

/// Returns the parameters of a notification that this crate has written.
pub(crate) fn params_of(notification: &str) -> Option<&str> {
    let (_, params) = notification.split_once(r#","params":"#)?;
    params.strip_suffix('}')
}

// ----- versions

/// Supported versions, named in the error for a client that offers none of them.
const SUPPORTED: [&str; 3] = ["^1.0.0", "^0.10.0", "^0.9.0"];

/// Returns the highest offered version that the host speaks: 1.x, 0.10.x or 0.9.x.
pub(crate) fn negotiate(offered: &[&str]) -> Option<String> {
    let numbers = |version: &str| -> Option<[u64; 3]> {
        let mut parts = version.split('.').map(|part| {
            let is_number =
                !part.is_empty() && part.len() < 10 && part.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| part.parse().ok()).flatten()
        });
        let numbers = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then_some(numbers)
    };
    let spoken = |version: &&&str| match numbers(version) {
        Some([1, ..]) => true,
        Some([0, minor, _]) => matches!(minor, 9 | 10),
        _ => false,
    };
    offered.iter().filter(spoken).max_by_key(|version| numbers(version)).map(|version| (*version).to_owned())
}

/// Returns the error for a client without a common version.
pub(crate) fn unsupported_version() -> Failure {
    Failure {
        code: codes::UNSUPPORTED_VERSION,
        message: format!(
            "none of the offered protocol versions is supported; this host speaks {}",
            SUPPORTED.join(", ")
        ),
        data: Some(json!({"supportedVersions": SUPPORTED})),
    }
}

/// Returns true for actions that clients below version 1 do not know.
pub(crate) fn is_newer_action(kind: &str) -> bool {
    kind.starts_with("chat/backgroundWork")
        || kind.starts_with("canvas/")
        || matches!(
            kind,
            "chat/changesetsChanged"
                | "chat/canvasesChanged"
                | "chat/isReadChanged"
                | "chat/isArchivedChanged"
                | "chat/movableChanged"
                | "session/chatsReordered"
                | "session/mcpServerBackgroundRequested"
        )
}

// ----- times

/// Returns a time as the protocol writes it.
pub(crate) fn time(at: Moment) -> String {
    let [date, time] = at.date_and_time();
    format!("{date}T{time}.{:03}Z", at.0.rem_euclid(1000))
}

// ----- URIs

/// Returns true for characters that paths in URIs contain as they are.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~/!$'()*,;=@".contains(&byte)
}

/// Returns a text as part of the path of a URI.
pub(crate) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Returns the `file:` URI of an absolute path.
pub(crate) fn file_uri(path: &str) -> String {
    format!("file://{}", encoded(path))
}

/// Returns the path of a `file:` URI of this machine.
pub(crate) fn file_path(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if !path.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    let path = String::from_utf8(bytes).ok()?;
    (!path.contains('\0')).then_some(path)
}

/// Returns the last component of a path or URI.
pub(crate) fn file_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_spoken_version_is_returned_as_it_was_written() {
        for (offered, expected) in [
            (&["0.9.0", "0.7.0", "0.6.0"][..], Some("0.9.0")),
            (&["0.10.0", "0.9.0"], Some("0.10.0")),
            (&["0.9.0", "1.0.0", "0.10.3"], Some("1.0.0")),
            (&["1.10.0", "1.9.0"], Some("1.10.0")),
            (&["2.0.0", "0.8.0", "0.11.0"], None),
            (&["1", "1.0", "1.0.0.0", "v1.0.0", "", "1.0.-1", "99999999999.0.0"], None),
            (&[], None),
        ] {
            assert_eq!(negotiate(offered).as_deref(), expected, "{offered:?}");
        }
    }

    #[test]
    fn paths_survive_the_way_to_a_uri_and_back() {
        for path in ["/", "/w/notes.txt", "/w/with space/ä#?%.txt", "/w/100%25"] {
            assert_eq!(file_path(&file_uri(path)).as_deref(), Some(path));
        }
        assert_eq!(file_path("file://localhost/w").as_deref(), Some("/w"));
        for wrong in [
            "http://x/w",
            "file://host/w",
            "file:///w%",
            "file:///w%4",
            "file:///w%zz",
            "file:///a%00b",
            "/w",
            "file:///%ff",
        ] {
            assert_eq!(file_path(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_have_milliseconds() {
        assert_eq!(time(Moment(1_794_716_323_007)), "2026-11-15T04:18:43.007Z");
    }

    #[test]
    fn malformed_messages_are_answered_with_the_id_null() {
        for (text, code) in [
            ("{", -32700),
            ("nonsense", -32700),
            ("[]", -32600),
            ("7", -32600),
            ("{}", -32600),
            (r#"{"id":-1,"method":"m"}"#, -32600),
            (r#"{"id":{},"method":"m"}"#, -32600),
        ] {
            let error = ClientMessage::parse(text).unwrap_err();
            let error: Value = serde_json::from_str(&error).unwrap();
            assert_eq!((&error["id"], error["error"]["code"].as_i64()), (&Value::Null, Some(code)), "{text}");
        }
        assert!(matches!(ClientMessage::parse(r#"{"id":1,"result":{}}"#), Ok(ClientMessage::Response)));
        assert!(matches!(ClientMessage::parse(r#"{"method":"m"}"#), Ok(ClientMessage::Notification { .. })));
    }
}
