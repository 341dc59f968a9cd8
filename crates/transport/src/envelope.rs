//! Lines to messages that own their text, and what can be said of lines that are none.

use std::cell::Cell;
use std::fmt;

use serde::Deserializer;
use serde::de::{SeqAccess, Visitor};
use serde_json::value::RawValue;
use switchboard_protocol::rpc::{Message, RequestId, RpcError};
use switchboard_protocol::{Raw, Wire, WireFormat};

use crate::SharedText;

/// A call or an answer, with its parts in the buffer of the line.
#[derive(Debug)]
pub(crate) enum Envelope {
    Request { id: RequestId<'static>, method: SharedText, params: Option<SharedText> },
    Notification { method: SharedText, params: Option<SharedText> },
    Response { id: RequestId<'static>, outcome: Result<SharedText, RpcError<'static>> },
}

/// Why a line is no message, and what can be told of it all the same.
#[derive(Debug)]
pub(crate) struct Unreadable {
    /// Whether it is not even JSON.
    pub(crate) syntax: bool,
    pub(crate) reason: String,
    pub(crate) glimpse: Glimpse,
}

impl Envelope {
    pub(crate) fn read(text: &SharedText) -> Result<Self, Unreadable> {
        let part = |raw: Raw<'_>| text.part_or_copy(raw.as_str());
        match Message::decode(text, WireFormat::Any) {
            Ok(Message::Notification(call)) => Ok(Envelope::Notification {
                method: text.part_or_copy(&call.method),
                params: call.params.map(part),
            }),
            Ok(Message::Request(call)) => Ok(Envelope::Request {
                id: call.id.into_owned(),
                method: text.part_or_copy(&call.method),
                params: call.params.map(part),
            }),
            Ok(Message::Response(answer)) => Ok(Envelope::Response {
                id: answer.id.into_owned(),
                outcome: answer.outcome.map(part).map_err(Wire::into_owned),
            }),
            Err(error) => Err(Unreadable {
                // Reading stops at the first fault, which may stand before the place where it is no JSON.
                syntax: error.is_syntax() || Raw::parse(text.as_str()).is_err(),
                reason: error.to_string(),
                glimpse: Glimpse::of(text),
            }),
        }
    }
}

/// Why a line that begins with a bracket is no batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BatchFault {
    TooMany,
    NotJson(String),
}

/// The texts of the entries of a batch; no more is read when there are more than `limit`.
pub(crate) fn batch_entries(text: &str, limit: usize) -> Result<Vec<&str>, BatchFault> {
    struct Entries<'f> {
        limit: usize,
        too_many: &'f Cell<bool>,
    }
    impl<'de> Visitor<'de> for Entries<'_> {
        type Value = Vec<&'de str>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an array of messages")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(item) = items.next_element::<&RawValue>()? {
                if entries.len() == self.limit {
                    self.too_many.set(true);
                    break;
                }
                entries.push(item.get());
            }
            Ok(entries)
        }
    }
    let too_many = Cell::new(false);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let entries = deserializer.deserialize_seq(Entries { limit, too_many: &too_many });
    if too_many.get() {
        return Err(BatchFault::TooMany);
    }
    let whole = entries.and_then(|entries| deserializer.end().map(|()| entries));
    whole.map_err(|error| BatchFault::NotJson(error.to_string()))
}

/// What the top-level keys tell of an object that cannot be read, or of which only the beginning is there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Glimpse {
    pub(crate) id: Option<RequestId<'static>>,
    pub(crate) has_version: bool,
    pub(crate) has_method: bool,
    pub(crate) has_outcome: bool,
}

impl Glimpse {
    pub(crate) fn of(text: &str) -> Self {
        let mut glimpse = Glimpse::default();
        // What follows the first thing that is not understood is not looked at.
        let _ = glimpse.look(text);
        glimpse
    }

    /// Adds what the end of an object tells whose middle is not there.
    pub(crate) fn add_ending(&mut self, text: &str) {
        let ending = text.trim_end();
        for (place, _) in ending.match_indices('"').rev() {
            // The last members of the object itself: those of an object in it leave braces that open nowhere.
            let Ok(members) = Raw::parse(format!("{{{}", &ending[place..])) else { continue };
            let has = |key: &str| members.get(key).is_some();
            self.has_method |= has("method");
            self.has_outcome |= has("result") || has("error");
            let id =
                || RequestId::decode(members.get("id")?.as_str(), WireFormat::Any).ok().map(Wire::into_owned);
            self.id = self.id.take().or_else(id);
        }
    }

    fn look(&mut self, text: &str) -> Option<()> {
        let mut rest = text.trim_start().strip_prefix('{')?.trim_start();
        loop {
            let key_length = string_length(rest)?;
            let key = &rest[1..key_length - 1];
            rest = rest[key_length..].trim_start().strip_prefix(':')?.trim_start();
            match key {
                "jsonrpc" => self.has_version = true,
                "method" => self.has_method = true,
                "result" | "error" => self.has_outcome = true,
                _ => {}
            }
            let length = value_length(rest)?;
            if key == "id" {
                self.id = RequestId::decode(&rest[..length], WireFormat::Any).ok().map(Wire::into_owned);
            }
            rest = rest[length..].trim_start().strip_prefix(',')?.trim_start();
        }
    }
}

/// The length of the string at the start, with its quotes.
fn string_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'"') {
        return None;
    }
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The length of the value at the start; `None` when its end is not there.
fn value_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b'"' => at += string_length(&text[at..])?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                // The end of the object around a number or word.
                depth = match depth.checked_sub(1) {
                    Some(depth) => depth,
                    None => return Some(at),
                };
                at += 1;
            }
            b',' if depth == 0 => return Some(at),
            _ => {
                at += 1;
                continue;
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glimpse_sees_the_keys_before_the_cut() {
        let check = |text: &str, id: Option<i64>, method: bool, outcome: bool| {
            let glimpse = Glimpse::of(text);
            assert_eq!(glimpse.id, id.map(RequestId::Number), "{text}");
            assert_eq!((glimpse.has_method, glimpse.has_outcome), (method, outcome), "{text}");
        };
        check(r#"{"jsonrpc":"2.0","id":7,"result":{"text":"aaaa"#, Some(7), false, true);
        check(r#"{"id" : 7 , "method":"x","params":["#, Some(7), true, false);
        check(r#"{"result":{"id":9,"a":"\"}"},"id":8}"#, Some(8), false, true);
        check(r#"{"params":[{"id":1}],"method":"m","id":"#, None, true, false);
        check(r#"{"id":7.5,"result":1}"#, None, false, true);
        check(r#"{"id":7"#, None, false, false);
        check(r#"{"a\"#, None, false, false);
        check("[1]", None, false, false);
        check("", None, false, false);
    }

    #[test]
    fn a_batch_is_cut_into_its_entries() {
        assert_eq!(batch_entries(r#" [ {"a":1} , 2, "[" ] "#, 3), Ok(vec![r#"{"a":1}"#, "2", "\"[\""]));
        assert_eq!(batch_entries("[]", 3), Ok(vec![]));
        assert_eq!(batch_entries("[1,2,3,4]", 3), Err(BatchFault::TooMany));
        assert!(matches!(batch_entries("[1,", 3), Err(BatchFault::NotJson(_))));
        assert!(matches!(batch_entries("[1] x", 3), Err(BatchFault::NotJson(_))));
        assert!(matches!(batch_entries("[12:30] started", 3), Err(BatchFault::NotJson(_))));
    }
}
