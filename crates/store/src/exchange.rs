//! Recorded lines: the form in which sessions leave a store and come into it.
//!
//! `{"t":1.25,"dir":"agent->client","msg":{...}}` is a message; `check`, `fold` and `convert` read it. The first line
//! may say in `began`, in milliseconds since 1970, what the times count from.
//! `{"t":1.25,"stderr":"..."}`, `{"t":1.25,"process":"..."}`, `{"t":1.25,"diagnostic":{...}}`, for the other side of
//! a translation `{"t":1.25,"other":{"dir":...,"msg":...}}` and, for what is no JSON,
//! `{"t":1.25,"dir":...,"noise":"..."}` are the rest. Trace files of the official conductor are read, too.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::record::{Channel, Record, Time};

/// Why a line could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a recorded message, found {found}")]
pub struct LineError {
    found: String,
}

/// A record as one line, with its time in seconds since `began`. `None` for what is no message, unless
/// `everything` is wanted.
pub fn to_line(record: &Record, began: Time, everything: bool) -> Option<String> {
    let milliseconds = record.time.0.saturating_sub(began.0);
    let time = format!(
        "{}{}.{:03}",
        if milliseconds < 0 { "-" } else { "" },
        milliseconds.unsigned_abs() / 1000,
        milliseconds.unsigned_abs() % 1000
    );
    let text = String::from_utf8_lossy(&record.bytes);
    let quoted = || serde_json::Value::from(&*text).to_string();
    let is_json = serde_json::from_slice::<&RawValue>(&record.bytes).is_ok();
    // In valid JSON an end of line can only be white space.
    let json = || text.trim().replace(['\n', '\r'], " ");
    let message = |direction: &str| {
        let (key, value) = if is_json { ("msg", json()) } else { ("noise", quoted()) };
        format!(r#""dir":"{direction}","{key}":{value}"#)
    };
    let rest = match record.channel {
        Channel::ToAgent => message(TO_AGENT),
        Channel::ToClient => message(TO_CLIENT),
        Channel::StandardError => format!(r#""stderr":{}"#, quoted()),
        Channel::Process => format!(r#""process":{}"#, quoted()),
        Channel::OtherToAgent => format!(r#""other":{{{}}}"#, message(TO_AGENT)),
        Channel::OtherToClient => format!(r#""other":{{{}}}"#, message(TO_CLIENT)),
        Channel::Diagnostic => format!(r#""diagnostic":{}"#, if is_json { json() } else { quoted() }),
    };
    (everything || (record.channel.is_message() && is_json)).then(|| format!(r#"{{"t":{time},{rest}}}"#))
}

/// The first line of a recording also says when it began, which the times of all lines count from.
pub fn to_first_line(record: &Record, began: Time, everything: bool) -> Option<String> {
    let line = to_line(record, began, everything)?;
    Some(format!(r#"{{"began":{},{}"#, began.0, &line[1..]))
}

/// When a recording began, as far as its first line tells.
pub fn began(first_line: &str) -> Option<Time> {
    #[derive(Deserialize)]
    struct First {
        began: i64,
    }
    let is_object = first_line.trim_start().starts_with('{');
    is_object.then(|| serde_json::from_str::<First>(first_line).ok()).flatten().map(|first| Time(first.began))
}

const TO_AGENT: &str = "client->agent";
const TO_CLIENT: &str = "agent->client";

type Part<'a> = Option<&'a RawValue>;

#[derive(Deserialize)]
struct Line<'a> {
    t: Option<f64>,
    #[serde(borrow)]
    dir: Part<'a>,
    #[serde(borrow)]
    msg: Part<'a>,
    #[serde(borrow)]
    jsonrpc: Part<'a>,
    stderr: Option<String>,
    process: Option<String>,
    noise: Option<String>,
    #[serde(borrow)]
    other: Part<'a>,
    #[serde(borrow)]
    diagnostic: Part<'a>,
    // What the conductor writes.
    ts: Option<f64>,
    #[serde(borrow, rename = "type")]
    kind: Part<'a>,
    #[serde(borrow)]
    protocol: Part<'a>,
    #[serde(borrow)]
    from: Part<'a>,
    #[serde(borrow)]
    to: Part<'a>,
    #[serde(borrow)]
    id: Part<'a>,
    #[serde(borrow)]
    method: Part<'a>,
    #[serde(borrow)]
    params: Part<'a>,
    #[serde(default)]
    is_error: bool,
    #[serde(borrow)]
    payload: Part<'a>,
}

/// Reads a line of a recording that began at `began`. `None` for lines of a trace that are no messages between
/// the client and whom it talks to.
pub fn parse_line(line: &str, began: Time) -> Result<Option<Record>, LineError> {
    let wrong = |found: &str| LineError { found: found.to_owned() };
    if !line.trim_start().starts_with('{') {
        return Err(wrong("something that is no JSON object"));
    }
    let parsed: Line<'_> =
        serde_json::from_str(line).map_err(|error| wrong(&format!("a line that says: {error}")))?;
    let seconds = parsed.t.or(parsed.ts).unwrap_or(0.0);
    // A time that makes no sense saturates.
    let time = Time(began.0.saturating_add((seconds * 1000.0).round() as i64));
    let record = |channel, bytes: &str| Ok(Some(Record::new(channel, bytes.as_bytes()).at(time)));
    if parsed.jsonrpc.is_some() {
        return Err(wrong("a message without a direction"));
    }
    if let Some(text) = &parsed.stderr {
        return record(Channel::StandardError, text);
    }
    if let Some(text) = &parsed.process {
        return record(Channel::Process, text);
    }
    if let Some(diagnostic) = parsed.diagnostic {
        return record(Channel::Diagnostic, diagnostic.get());
    }
    if let Some(other) = parsed.other {
        let Ok(Some(mut record)) = parse_line(other.get(), began) else {
            return Err(wrong("\"other\" without a message"));
        };
        record.time = time;
        record.channel = match record.channel {
            Channel::ToAgent => Channel::OtherToAgent,
            Channel::ToClient => Channel::OtherToClient,
            _ => return Err(wrong("\"other\" without a message")),
        };
        return Ok(Some(record));
    }
    if parsed.kind.is_some() && parsed.ts.is_some() {
        return trace_event(&parsed)
            .map(|found| found.map(|(channel, message)| Record::new(channel, message).at(time)));
    }
    let Some(direction) = parsed.dir else { return Err(wrong("a line without \"dir\"")) };
    let channel = match direction.get().trim_matches('"') {
        TO_AGENT => Channel::ToAgent,
        TO_CLIENT => Channel::ToClient,
        _ => return Err(wrong(&format!("the direction {}", direction.get()))),
    };
    match (parsed.msg, &parsed.noise) {
        (Some(message), _) => record(channel, message.get()),
        (None, Some(noise)) => record(channel, noise),
        (None, None) => Err(wrong("a line without \"msg\"")),
    }
}

/// An event of a conductor's trace. Its messages between proxies repeat those of the client, so only what the
/// client sends and gets is taken.
fn trace_event(line: &Line<'_>) -> Result<Option<(Channel, String)>, LineError> {
    let text = |part: Part<'_>| part.map_or("null", RawValue::get).to_owned();
    let is = |part: Part<'_>, wanted: &str| {
        part.and_then(|part| serde_json::from_str::<String>(part.get()).ok())
            .is_some_and(|name| name.eq_ignore_ascii_case(wanted))
    };
    if line.protocol.is_some() && !is(line.protocol, "acp") {
        return Ok(None);
    }
    let channel = if is(line.from, "client") {
        Channel::ToAgent
    } else if is(line.to, "client") {
        Channel::ToClient
    } else {
        return Ok(None);
    };
    let params = line.params.map_or_else(String::new, |params| format!(r#","params":{}"#, params.get()));
    let (id, method) = (text(line.id), text(line.method));
    let message = match line.kind.map(RawValue::get) {
        Some("\"request\"") => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method}{params}}}"#),
        Some("\"notification\"") => format!(r#"{{"jsonrpc":"2.0","method":{method}{params}}}"#),
        Some("\"response\"") => {
            let key = if line.is_error { "error" } else { "result" };
            format!(r#"{{"jsonrpc":"2.0","id":{id},"{key}":{}}}"#, text(line.payload))
        }
        _ => return Ok(None),
    };
    Ok(Some((channel, message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_being_lines() {
        let began = Time(5000);
        for (channel, bytes, message) in [
            (Channel::ToAgent, r#"{"id": 1.0,"a":"ä\n"}"#, true),
            (Channel::ToClient, "Warning: not JSON", false),
            (Channel::StandardError, "oh\nno \"x\"", false),
            (Channel::Process, "exited with code 1", false),
            (Channel::OtherToAgent, r#"{"id":1}"#, false),
            (Channel::OtherToClient, "noise on the other side", false),
            (Channel::Diagnostic, r#"{"lost":"x"}"#, false),
        ] {
            let record = Record::new(channel, bytes).at(Time(4900));
            assert_eq!(to_line(&record, began, false).is_some(), message);
            let line = to_line(&record, began, true).unwrap();
            assert!(line.starts_with(r#"{"t":-0.100,"#), "{line}");
            assert_eq!(parse_line(&line, began), Ok(Some(record)));
        }
    }

    #[test]
    fn traces_of_the_conductor_are_read_from_the_clients_side() {
        let read = |line: &str| {
            parse_line(line, Time(0))
                .unwrap()
                .map(|record| (record.channel, String::from_utf8(record.bytes).unwrap()))
        };
        assert_eq!(
            read(
                r#"{"type":"request","ts":0.5,"protocol":"acp","from":"client","to":"proxy:0","id":1,"method":"session/new","session":null,"params":{"cwd":"/p"}}"#
            ),
            Some((
                Channel::ToAgent,
                r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/p"}}"#.into()
            ))
        );
        assert_eq!(
            read(
                r#"{"type":"response","ts":0.6,"from":"proxy:0","to":"client","id":1,"is_error":false,"payload":{"sessionId":"s"}}"#
            ),
            Some((Channel::ToClient, r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#.into()))
        );
        assert_eq!(
            read(
                r#"{"type":"notification","ts":1,"protocol":"acp","from":"proxy:0","to":"agent","method":"x"}"#
            ),
            None
        );
        assert_eq!(
            read(
                r#"{"type":"notification","ts":1,"protocol":"mcp","from":"client","to":"agent","method":"x"}"#
            ),
            None
        );
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "",
            "[]",
            "{",
            r#"{"jsonrpc":"2.0","msg":1,"dir":"client->agent"}"#,
            r#"{"dir":"x","msg":1}"#,
            "{}",
            r#"{"other":{"stderr":"x"}}"#,
            r#"{"other":1}"#,
        ] {
            assert!(parse_line(line, Time(0)).is_err(), "{line}");
        }
    }
}
