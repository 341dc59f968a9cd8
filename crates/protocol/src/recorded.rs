//! Lines of recordings: the import and export format of the store, which `check`, `fold`, `convert` and
//! `replay` read.

use crate::error::{DecodeError, Read};
use crate::json::reader::Reader;
use crate::{Raw, Side, Text, Wire, WireFormat};

/// One line of a recording.
///
/// `{"t":1.25,"dir":"agent->client","msg":{...}}` is a message, with its time in seconds since the start of
/// the recording. The first line may give the start in `began`, in milliseconds since 1970. The other lines
/// are `{"t":..,"stderr":"..."}`, `{"t":..,"process":"..."}`, `{"t":..,"diagnostic":{...}}`,
/// `{"t":..,"hub":{...}}`, for the other side of a translation `{"t":..,"other":{"dir":..,"msg":..}}`, and
/// for input that is not JSON `{"t":..,"dir":..,"noise":"..."}`.
///
/// Bare messages without a sender, and trace files of the official conductor, can be read too.
///
/// ```
/// use switchboard_acp::{Recorded, RecordedLine, Side};
///
/// let text = r#"{"t":1.250,"dir":"client->agent","msg":{"jsonrpc":"2.0","id":1,"method":"session/list"}}"#;
/// let line = RecordedLine::parse(text)?;
/// assert_eq!(line.milliseconds(), Some(1250));
/// let Recorded::Message { from, text: message, .. } = &line.recorded else { unreachable!() };
/// assert_eq!((*from, &message[..17]), (Some(Side::Client), r#"{"jsonrpc":"2.0","#));
/// assert_eq!(line.to_string(), text);
/// # Ok::<(), switchboard_acp::DecodeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedLine<'a> {
    /// Start of the recording in milliseconds since 1970. Only on its first line: a later line with it starts
    /// another recording in the same file.
    pub began: Option<i64>,
    /// Time in seconds since then, with its original spelling.
    pub time: Option<Text<'a>>,
    /// Recorded content.
    pub recorded: Recorded<'a>,
    /// Form of the line.
    pub form: LineForm,
}

/// Content of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded<'a> {
    /// A message, a batch, or, alone on its line, any other JSON.
    Message {
        /// Sender, if known.
        from: Option<Side>,
        /// True for a message on the other side of a translation.
        other_side: bool,
        /// The JSON text.
        text: Text<'a>,
    },
    /// Input of a peer that is not JSON.
    Noise {
        /// Sender.
        from: Side,
        /// True if it is on the other side of a translation.
        other_side: bool,
        /// The text.
        text: Text<'a>,
    },
    /// Standard error output of the agent process.
    StandardError(Text<'a>),
    /// An event of the agent process.
    Process(Text<'a>),
    /// A translation loss or a fault found during the session, as JSON.
    Diagnostic(Text<'a>),
    /// A note of a hub about the session, as JSON.
    Hub(Text<'a>),
    /// A line of a trace that is not a message between the client and its peer.
    Elsewhere,
}

/// Form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LineForm {
    /// A recorded line with a message under `msg`.
    Recorded,
    /// A bare message.
    Bare,
    /// An event of a trace of the official conductor.
    Trace,
}

const TO_AGENT: &str = "client->agent";
const TO_CLIENT: &str = "agent->client";

/// The unparsed keys of a line.
#[derive(Default)]
struct Keys<'a> {
    began: Option<Raw<'a>>,
    t: Option<Raw<'a>>,
    dir: Option<Raw<'a>>,
    msg: Option<Raw<'a>>,
    noise: Option<Raw<'a>>,
    stderr: Option<Raw<'a>>,
    process: Option<Raw<'a>>,
    diagnostic: Option<Raw<'a>>,
    hub: Option<Raw<'a>>,
    other: Option<Raw<'a>>,
    /// True if there is a key that recorded lines lack, but messages and updates have.
    is_bare: bool,
    // Keys of the conductor.
    ts: Option<Raw<'a>>,
    kind: Option<Raw<'a>>,
    protocol: Option<Raw<'a>>,
    from: Option<Raw<'a>>,
    to: Option<Raw<'a>>,
    id: Option<Raw<'a>>,
    method: Option<Raw<'a>>,
    params: Option<Raw<'a>>,
    is_error: Option<Raw<'a>>,
    payload: Option<Raw<'a>>,
}

impl<'a> Keys<'a> {
    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let mut keys = Keys::default();
        reader.begin_object()?;
        let mut first = true;
        while let Some(key) = reader.next_key(&mut first)? {
            let value = reader.read_raw()?;
            let place = match &*key {
                "began" => &mut keys.began,
                "t" => &mut keys.t,
                "dir" => &mut keys.dir,
                "msg" => &mut keys.msg,
                "noise" => &mut keys.noise,
                "stderr" => &mut keys.stderr,
                "process" => &mut keys.process,
                "diagnostic" => &mut keys.diagnostic,
                "hub" => &mut keys.hub,
                "other" => &mut keys.other,
                "ts" => &mut keys.ts,
                "type" => &mut keys.kind,
                "protocol" => &mut keys.protocol,
                "from" => &mut keys.from,
                "to" => &mut keys.to,
                "id" => &mut keys.id,
                "method" => &mut keys.method,
                "params" => &mut keys.params,
                "is_error" => &mut keys.is_error,
                "payload" => &mut keys.payload,
                "jsonrpc" | "sessionUpdate" => {
                    keys.is_bare = true;
                    continue;
                }
                _ => continue,
            };
            *place = Some(value);
        }
        reader.finish()?;
        Ok(keys)
    }

    fn direction(&self) -> Result<Option<Side>, DecodeError> {
        let Some(direction) = &self.dir else { return Ok(None) };
        match direction.as_text().as_deref() {
            Some(TO_AGENT) => Ok(Some(Side::Client)),
            Some(TO_CLIENT) => Ok(Some(Side::Agent)),
            _ => {
                let found = format!("\"dir\" with {direction}");
                Err(DecodeError::whole_text(format!("\"{TO_AGENT}\" or \"{TO_CLIENT}\""), found))
            }
        }
    }

    fn recorded(&self, line: &'a str) -> Result<(Recorded<'a>, LineForm), DecodeError> {
        let bare = || {
            (Recorded::Message { from: None, other_side: false, text: Text::Borrowed(line) }, LineForm::Bare)
        };
        if self.is_bare {
            return Ok(bare());
        }
        if self.kind.is_some() && self.ts.is_some() {
            return Ok((self.trace_event(), LineForm::Trace));
        }
        let recorded = if let Some(message) = &self.msg {
            Recorded::Message { from: self.direction()?, other_side: false, text: source(message) }
        } else if let Some(noise) = &self.noise {
            let Some(from) = self.direction()? else {
                return Err(DecodeError::whole_text("\"dir\" beside \"noise\"", "a line without it"));
            };
            Recorded::Noise { from, other_side: false, text: string(noise, "noise")? }
        } else if let Some(text) = &self.stderr {
            Recorded::StandardError(string(text, "stderr")?)
        } else if let Some(text) = &self.process {
            Recorded::Process(string(text, "process")?)
        } else if let Some(diagnostic) = &self.diagnostic {
            Recorded::Diagnostic(source(diagnostic))
        } else if let Some(note) = &self.hub {
            Recorded::Hub(source(note))
        } else if let Some(other) = &self.other {
            on_other_side(other)?
        } else {
            return Ok(bare());
        };
        Ok((recorded, LineForm::Recorded))
    }

    /// Returns an event of a conductor's trace. Messages between proxies repeat those of the client, so only
    /// the client's messages are used.
    fn trace_event(&self) -> Recorded<'a> {
        let is = |part: &Option<Raw<'_>>, wanted: &str| {
            part.as_ref().and_then(Raw::as_text).is_some_and(|name| name.eq_ignore_ascii_case(wanted))
        };
        let from = if is(&self.from, "client") {
            Side::Client
        } else if is(&self.to, "client") {
            Side::Agent
        } else {
            return Recorded::Elsewhere;
        };
        if self.protocol.is_some() && !is(&self.protocol, "acp") {
            return Recorded::Elsewhere;
        }
        let text = |part: &'_ Option<Raw<'a>>| part.as_ref().map_or("null", Raw::as_str).to_owned();
        let params = self.params.as_ref().map_or_else(String::new, |params| format!(r#","params":{params}"#));
        let (id, method) = (text(&self.id), text(&self.method));
        let message = match self.kind.as_ref().map(Raw::as_str) {
            Some("\"request\"") => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method}{params}}}"#),
            Some("\"notification\"") => format!(r#"{{"jsonrpc":"2.0","method":{method}{params}}}"#),
            Some("\"response\"") => {
                let failed = self.is_error.as_ref().is_some_and(|failed| failed.as_str() == "true");
                let key = if failed { "error" } else { "result" };
                format!(r#"{{"jsonrpc":"2.0","id":{id},"{key}":{}}}"#, text(&self.payload))
            }
            _ => return Recorded::Elsewhere,
        };
        Recorded::Message { from: Some(from), other_side: false, text: Text::Owned(message) }
    }
}

/// Returns the text of a value of the line.
fn source<'a>(value: &Raw<'a>) -> Text<'a> {
    value.as_source().map_or_else(|| Text::Owned(value.as_str().to_owned()), Text::Borrowed)
}

fn string<'a>(value: &Raw<'a>, key: &str) -> Result<Text<'a>, DecodeError> {
    let text = value.as_source().and_then(|source| Text::decode(source, WireFormat::Any).ok());
    text.ok_or_else(|| DecodeError::whole_text(format!("a string under \"{key}\""), value.as_str()))
}

fn on_other_side<'a>(other: &Raw<'a>) -> Result<Recorded<'a>, DecodeError> {
    let wrong = || DecodeError::whole_text("a message with its direction under \"other\"", other.as_str());
    let text = other.as_source().ok_or_else(wrong)?;
    let line = if other.is_object() { RecordedLine::parse(text)? } else { return Err(wrong()) };
    match line.recorded {
        Recorded::Message { from: Some(from), text, .. } if line.form == LineForm::Recorded => {
            Ok(Recorded::Message { from: Some(from), other_side: true, text })
        }
        Recorded::Noise { from, text, .. } => Ok(Recorded::Noise { from, other_side: true, text }),
        _ => Err(wrong()),
    }
}

impl<'a> RecordedLine<'a> {
    /// Creates a recorded line without a time.
    pub fn new(recorded: Recorded<'a>) -> Self {
        RecordedLine { began: None, time: None, recorded, form: LineForm::Recorded }
    }

    /// Sets the time in milliseconds since the start of the recording.
    #[must_use]
    pub fn at(mut self, milliseconds: i64) -> Self {
        let (sign, size) = (if milliseconds < 0 { "-" } else { "" }, milliseconds.unsigned_abs());
        self.time = Some(Text::Owned(format!("{sign}{}.{:03}", size / 1000, size % 1000)));
        self
    }

    /// Makes it the first line, with the start of the recording in milliseconds since 1970.
    #[must_use]
    pub fn beginning(mut self, began: i64) -> Self {
        self.began = Some(began);
        self
    }

    /// Parses a line. Any other text, including invalid JSON, is a bare message for the caller to check.
    pub fn parse(line: &'a str) -> Result<Self, DecodeError> {
        if !line.trim_start().starts_with('{') {
            let recorded = Recorded::Message { from: None, other_side: false, text: Text::Borrowed(line) };
            return Ok(RecordedLine { began: None, time: None, recorded, form: LineForm::Bare });
        }
        let mut reader = Reader::new(line, WireFormat::Any);
        let keys = Keys::read(&mut reader).map_err(|fault| DecodeError::new(&fault, line))?;
        let (recorded, form) = keys.recorded(line)?;
        let number = |value: &Raw<'a>| value.as_str().parse::<f64>().is_ok().then(|| source(value));
        let (began, time) = match form {
            LineForm::Bare => (None, None),
            LineForm::Recorded => (keys.began.as_ref(), keys.t.as_ref()),
            LineForm::Trace => (None, keys.ts.as_ref()),
        };
        let began = began.and_then(|began| began.as_str().parse().ok());
        Ok(RecordedLine { began, time: time.and_then(number), recorded, form })
    }

    /// Returns the time in milliseconds since the start of the recording, clamped to the valid range.
    pub fn milliseconds(&self) -> Option<i64> {
        let seconds: f64 = self.time.as_ref()?.parse().ok()?;
        Some((seconds * 1000.0).round() as i64)
    }

    /// Writes the line as a recorded one, without newline.
    pub fn write(&self, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = self.write_to(out);
    }

    fn write_to(&self, out: &mut impl std::fmt::Write) -> std::fmt::Result {
        out.write_char('{')?;
        if let Some(began) = self.began {
            write!(out, r#""began":{began},"#)?;
        }
        if let Some(time) = &self.time {
            write!(out, r#""t":{time},"#)?;
        }
        match &self.recorded {
            Recorded::Message { from, other_side, text } => {
                between(out, *other_side, |out| {
                    write_direction(out, *from)?;
                    write!(out, r#""msg":{}"#, on_one_line(text))
                })?;
            }
            Recorded::Noise { from, other_side, text } => {
                between(out, *other_side, |out| {
                    write_direction(out, Some(*from))?;
                    write!(out, r#""noise":{}"#, quoted(text))
                })?;
            }
            Recorded::StandardError(text) => write!(out, r#""stderr":{}"#, quoted(text))?,
            Recorded::Process(text) => write!(out, r#""process":{}"#, quoted(text))?,
            Recorded::Diagnostic(text) => write!(out, r#""diagnostic":{}"#, on_one_line(text))?,
            Recorded::Hub(text) => write!(out, r#""hub":{}"#, on_one_line(text))?,
            Recorded::Elsewhere => out.write_str(r#""process":"""#)?,
        }
        out.write_char('}')
    }
}

impl std::fmt::Display for RecordedLine<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.write_to(formatter)
    }
}

/// Writes content directly, or under the key of the other side.
fn between<W: std::fmt::Write>(
    out: &mut W,
    other_side: bool,
    write: impl FnOnce(&mut W) -> std::fmt::Result,
) -> std::fmt::Result {
    if !other_side {
        return write(out);
    }
    out.write_str(r#""other":{"#)?;
    write(out)?;
    out.write_char('}')
}

fn write_direction(out: &mut impl std::fmt::Write, from: Option<Side>) -> std::fmt::Result {
    match from {
        Some(Side::Client) => write!(out, r#""dir":"{TO_AGENT}","#),
        Some(Side::Agent) => write!(out, r#""dir":"{TO_CLIENT}","#),
        None => Ok(()),
    }
}

/// Replaces newlines, which are only white space in valid JSON.
fn on_one_line(json: &str) -> Text<'_> {
    let json = json.trim();
    if json.contains(['\n', '\r']) {
        Text::Owned(json.replace(['\n', '\r'], " "))
    } else {
        Text::Borrowed(json)
    }
}

fn quoted(text: &str) -> String {
    Text::Borrowed(text).encode(WireFormat::Any)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(from: Side, other_side: bool, text: &str) -> Recorded<'_> {
        Recorded::Message { from: Some(from), other_side, text: text.into() }
    }

    #[test]
    fn lines_are_written_and_read_alike() {
        for (recorded, expected) in [
            (
                message(Side::Client, false, r#"{"id": 1.0,"a":"ä\n"}"#),
                r#""dir":"client->agent","msg":{"id": 1.0,"a":"ä\n"}"#,
            ),
            (message(Side::Agent, true, "{}"), r#""other":{"dir":"agent->client","msg":{}}"#),
            (
                Recorded::Noise { from: Side::Agent, other_side: false, text: "oh\nno".into() },
                r#""dir":"agent->client","noise":"oh\nno""#,
            ),
            (
                Recorded::Noise { from: Side::Client, other_side: true, text: "x".into() },
                r#""other":{"dir":"client->agent","noise":"x"}"#,
            ),
            (Recorded::StandardError("\"x\"".into()), r#""stderr":"\"x\"""#),
            (Recorded::Process("exited with code 1".into()), r#""process":"exited with code 1""#),
            (Recorded::Diagnostic(r#"{"lost":"x"}"#.into()), r#""diagnostic":{"lost":"x"}"#),
            (Recorded::Hub(r#"{"hub":"answered"}"#.into()), r#""hub":{"hub":"answered"}"#),
        ] {
            let line = RecordedLine::new(recorded).at(-100);
            let text = line.to_string();
            assert_eq!(text, format!(r#"{{"t":-0.100,{expected}}}"#));
            assert_eq!(RecordedLine::parse(&text), Ok(line.clone()));
            assert_eq!(line.milliseconds(), Some(-100));
            let first = line.beginning(5000).to_string();
            assert_eq!(RecordedLine::parse(&first).unwrap().began, Some(5000));
        }
    }

    #[test]
    fn a_message_on_several_lines_is_written_on_one() {
        let line = RecordedLine::new(message(Side::Agent, false, "\n{\n\"a\":1}\r\n"));
        assert_eq!(line.to_string(), r#"{"dir":"agent->client","msg":{ "a":1}}"#);
    }

    #[test]
    fn a_bare_message_is_a_recorded_line_without_direction() {
        for text in [
            r#"{"jsonrpc":"2.0","method":"x","msg":1,"dir":"client->agent"}"#,
            r#"{"sessionUpdate":"x","process":"y"}"#,
            r#"{"sessionId":"s","update":{}}"#,
            "{}",
            "[1]",
            "Warning: not JSON",
        ] {
            let line = RecordedLine::parse(text).unwrap();
            assert_eq!(line.form, LineForm::Bare, "{text}");
            let bare = Recorded::Message { from: None, other_side: false, text: text.into() };
            assert_eq!(line.recorded, bare, "{text}");
        }
    }

    #[test]
    fn a_direction_need_not_be_known_but_must_be_one() {
        let line = RecordedLine::parse(r#"{"msg":{},"t":2}"#).unwrap();
        assert_eq!((line.milliseconds(), line.form), (Some(2000), LineForm::Recorded));
        assert!(matches!(line.recorded, Recorded::Message { from: None, .. }));
        for text in [
            "{",
            r#"{"dir":"x","msg":1}"#,
            r#"{"dir":7,"msg":1}"#,
            r#"{"noise":"x"}"#,
            r#"{"dir":"client->agent","noise":7}"#,
            r#"{"stderr":7}"#,
            r#"{"other":{"stderr":"x"}}"#,
            r#"{"other":{"msg":1}}"#,
            r#"{"other":1}"#,
        ] {
            assert!(RecordedLine::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_that_make_no_sense_are_no_harm() {
        for (time, expected) in [
            ("\"x\"", None),
            ("null", None),
            ("1e300", Some(i64::MAX)),
            ("-1e300", Some(i64::MIN)),
            ("0.0004", Some(0)),
        ] {
            let text = format!(r#"{{"t":{time},"dir":"client->agent","msg":1}}"#);
            assert_eq!(RecordedLine::parse(&text).unwrap().milliseconds(), expected, "{time}");
        }
    }

    #[test]
    fn traces_of_the_conductor_are_read_from_the_clients_side() {
        let read = |line: &str| {
            let line = RecordedLine::parse(line).unwrap();
            assert_eq!(line.form, LineForm::Trace);
            match line.recorded {
                Recorded::Message { from, text, .. } => Some((from, text.into_owned())),
                _ => None,
            }
        };
        assert_eq!(
            read(
                r#"{"type":"request","ts":0.5,"protocol":"acp","from":"client","to":"proxy:0","id":1,"method":"session/new","session":null,"params":{"cwd":"/p"}}"#
            ),
            Some((
                Some(Side::Client),
                r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/p"}}"#.into()
            ))
        );
        assert_eq!(
            read(
                r#"{"type":"response","ts":0.6,"from":"proxy:0","to":"client","id":1,"is_error":true,"payload":{"code":1}}"#
            ),
            Some((Some(Side::Agent), r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#.into()))
        );
        for elsewhere in [
            r#"{"type":"notification","ts":1,"protocol":"acp","from":"proxy:0","to":"agent","method":"x"}"#,
            r#"{"type":"notification","ts":1,"protocol":"mcp","from":"client","to":"agent","method":"x"}"#,
            r#"{"type":"started","ts":1,"from":"client"}"#,
        ] {
            assert_eq!(read(elsewhere), None, "{elsewhere}");
        }
    }
}
