//! Partial information about invalid messages.

use super::RequestId;
use crate::error::Read;
use crate::json::reader::Reader;
use crate::{Raw, Text, Wire, WireFormat};

/// Top-level keys of an object that is invalid or incomplete.
///
/// ```
/// use switchboard_acp::rpc::Glimpse;
///
/// let glimpse = Glimpse::of(r#"{"jsonrpc":"2.0","id":7,"result":{"text":"and here it was cut o"#);
/// assert_eq!((glimpse.id, glimpse.has_outcome), (Some(7.into()), true));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Glimpse {
    /// Request id, if it is valid.
    pub id: Option<RequestId<'static>>,
    /// True if it has the version of JSON-RPC.
    pub has_version: bool,
    /// True if it has a method, so it is a call.
    pub has_method: bool,
    /// True if it has a result or an error, so it is a response.
    pub has_outcome: bool,
}

impl Glimpse {
    /// Inspects a text up to its end or the first error.
    pub fn of(text: &str) -> Self {
        let mut glimpse = Glimpse::default();
        // The text after the first error is ignored.
        let _ = glimpse.look(text);
        glimpse
    }

    /// Adds the information from the end of an object whose middle is missing.
    ///
    /// ```
    /// use switchboard_acp::rpc::Glimpse;
    ///
    /// let mut glimpse = Glimpse::of(r#"{"jsonrpc":"2.0","result":{"text":"and here it was cut"#);
    /// glimpse.add_ending(r#" off, to go on here"},"id":7}"#);
    /// assert_eq!(glimpse.id, Some(7.into()));
    /// ```
    pub fn add_ending(&mut self, text: &str) {
        let ending = text.trim_end();
        for (place, _) in ending.match_indices('"').rev() {
            // The last members of the object itself: those of a nested object leave unmatched braces.
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

/// Kind of a message, parsed only as far as necessary, for programs that count messages. The rest may be
/// malformed.
///
/// ```
/// use switchboard_acp::rpc::Outline;
///
/// let outline = Outline::of(r#"{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"#);
/// assert_eq!(outline, Some(Outline::Request { id: 7.into(), method: "session/prompt".into() }));
/// assert_eq!(Outline::of(r#"{"id":7,"result":{"#), Some(Outline::Response { id: 7.into() }));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outline<'a> {
    /// A request.
    Request {
        /// Request id.
        id: RequestId<'a>,
        /// Method.
        method: Text<'a>,
    },
    /// A response.
    Response {
        /// Request id.
        id: RequestId<'a>,
    },
}

impl<'a> Outline<'a> {
    /// Inspects a text. `None` if it is neither a request nor a response.
    pub fn of(text: &'a str) -> Option<Self> {
        Self::read(&mut Reader::new(text, WireFormat::Any)).ok().flatten()
    }

    fn read(reader: &mut Reader<'a>) -> Read<Option<Self>> {
        let (mut first, mut id, mut method, mut has_outcome) = (true, None, None, false);
        reader.begin_object()?;
        while let Some(key) = reader.next_key(&mut first)? {
            match &*key {
                "id" => id = Some(RequestId::read(reader)?),
                "method" => method = Some(reader.read_string()?),
                "result" | "error" => has_outcome = true,
                _ => {}
            }
            match (id.take(), method.take()) {
                (Some(id), Some(method)) => return Ok(Some(Outline::Request { id, method })),
                (Some(id), None) if has_outcome => return Ok(Some(Outline::Response { id })),
                (known, named) => (id, method) = (known, named),
            }
            if !matches!(&*key, "id" | "method") {
                reader.pass_over()?;
            }
        }
        Ok(None)
    }
}

/// Returns the length of the string at the start, including its quotes.
fn string_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'"') {
        return None;
    }
    let mut at = 1;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Returns the length of the value at the start. `None` if its end is missing.
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
                // The end of the enclosing object of a number or literal.
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
        check(r#"{"id":7"#, None, false, false);
        check(r#"{"a\"#, None, false, false);
        check("[1]", None, false, false);
        check("", None, false, false);
    }

    #[test]
    fn an_outline_is_read_no_further_than_it_takes() {
        let check = |text: &str, expected: Option<(&str, Option<&str>)>| {
            let outline = Outline::of(text);
            let seen = outline.as_ref().map(|outline| match outline {
                Outline::Request { id, method } => (id.to_string(), Some(&**method)),
                Outline::Response { id } => (id.to_string(), None),
            });
            assert_eq!(seen, expected.map(|(id, method)| (id.to_owned(), method)), "{text}");
        };
        check(r#"{"jsonrpc":"2.0","id":7,"method":"m","params":"#, Some(("7", Some("m"))));
        check(r#"{"params":{"id":1,"method":"x"},"method":"m","id":"a"}"#, Some(("\"a\"", Some("m"))));
        check(r#"{"result":{"id":1},"id":2}"#, Some(("2", None)));
        check(r#"{"id":2,"error":{"code""#, Some(("2", None)));
        check(r#" { "id" : 2 , "method" : "m" } "#, Some(("2", Some("m"))));
        check(r#"{"method":"m","params":{"id":3}}"#, None);
        check(r#"{"result":{"id":1"#, None);
        check(r#"{"id":[1],"method":"m"}"#, None);
        check(r#"[{"id":1,"method":"m"}]"#, None);
        check("", None);
    }

    #[test]
    fn a_glimpse_sees_ids_that_are_against_the_rules_because_they_can_be_answered() {
        let seen = Glimpse::of(r#"{"id":7.50,"method":1}"#).id.map(|id| id.encode(WireFormat::Any));
        assert_eq!(seen.as_deref(), Some("7.50"));
        assert_eq!(Glimpse::of(r#"{"id":[7],"method":1}"#).id, None);
    }
}
