//! Conversion between records and recorded lines ([`RecordedLine`]), the import and export format.

use std::borrow::Cow;

use switchboard_acp::{DecodeError, LineForm, Moment, Raw, Recorded, RecordedLine};

use crate::record::{Channel, Record};

/// Error of [`parse_line`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// Not a line of a recording.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// The line does not state the direction of the message.
    #[error("expected a recorded message with its direction, found a line without \"dir\"")]
    NoDirection,
}

/// Formats a record as one line, with its time in seconds since `began`. Returns `None` for records that are
/// not messages, unless `everything` is true.
pub fn to_line(record: &Record, began: Moment, everything: bool) -> Option<String> {
    line(record, began, everything).map(|line| line.to_string())
}

/// Like [`to_line`], for the first line of a recording, which also has the start time.
pub fn to_first_line(record: &Record, began: Moment, everything: bool) -> Option<String> {
    line(record, began, everything).map(|line| line.beginning(began.0).to_string())
}

fn line(record: &Record, began: Moment, everything: bool) -> Option<RecordedLine<'_>> {
    // Check for UTF-8 first: nearly all records are, and the check is fast.
    let text = match std::str::from_utf8(&record.bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(&record.bytes),
    };
    let is_json = Raw::parse(&*text).is_ok();
    let is_message = record.channel.is_message() && is_json;
    if !everything && !is_message {
        return None;
    }
    let recorded = match (record.channel, record.channel.message()) {
        (_, Some((from, other_side))) if is_json => Recorded::Message { from: Some(from), other_side, text },
        (_, Some((from, other_side))) => Recorded::Noise { from, other_side, text },
        (Channel::StandardError, _) => Recorded::StandardError(text),
        (Channel::Process, _) => Recorded::Process(text),
        (Channel::Hub, _) if is_json => Recorded::Hub(text),
        // No line format exists for this channel, and the line must not be mistaken for another kind.
        (Channel::Unknown(code), _) => {
            let note = serde_json::json!({"unknownChannel": code, "text": text});
            Recorded::Diagnostic(note.to_string().into())
        }
        _ if is_json => Recorded::Diagnostic(text),
        _ => Recorded::Diagnostic(serde_json::Value::from(text.into_owned()).to_string().into()),
    };
    Some(RecordedLine::new(recorded).at(record.time.0.saturating_sub(began.0)))
}

/// Returns the start time of a recording from its first line, if present.
pub fn began(first_line: &str) -> Option<Moment> {
    RecordedLine::parse(first_line).ok()?.began.map(Moment)
}

/// Parses a line of a recording that began at `began`. Returns `None` for trace lines that are not messages
/// between the client and its peer.
pub fn parse_line(line: &str, began: Moment) -> Result<Option<Record>, LineError> {
    let line = RecordedLine::parse(line)?;
    let time = Moment(began.0.saturating_add(line.milliseconds().unwrap_or_default()));
    let (channel, text) = match line.recorded {
        Recorded::Message { from: Some(from), other_side, text } if line.form != LineForm::Bare => {
            (Channel::of_message(from, other_side), text)
        }
        Recorded::Message { .. } => return Err(LineError::NoDirection),
        Recorded::Noise { from, other_side, text } => (Channel::of_message(from, other_side), text),
        Recorded::StandardError(text) => (Channel::StandardError, text),
        Recorded::Process(text) => (Channel::Process, text),
        Recorded::Diagnostic(text) => (Channel::Diagnostic, text),
        Recorded::Hub(text) => (Channel::Hub, text),
        Recorded::Elsewhere => return Ok(None),
    };
    Ok(Some(Record::new(channel, text.into_owned()).at(time)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_being_lines() {
        let began = Moment(5000);
        for (channel, bytes, message) in [
            (Channel::ToAgent, r#"{"id": 1.0,"a":"ä\n"}"#, true),
            (Channel::ToClient, "Warning: not JSON", false),
            (Channel::StandardError, "oh\nno \"x\"", false),
            (Channel::Process, "exited with code 1", false),
            (Channel::OtherToAgent, r#"{"id":1}"#, false),
            (Channel::OtherToClient, "noise on the other side", false),
            (Channel::Diagnostic, r#"{"lost":"x"}"#, false),
            (Channel::Hub, r#"{"hub":"answered","request":1}"#, false),
        ] {
            let record = Record::new(channel, bytes).at(Moment(4900));
            assert_eq!(to_line(&record, began, false).is_some(), message);
            let line = to_line(&record, began, true).unwrap();
            assert!(line.starts_with(r#"{"t":-0.100,"#), "{line}");
            assert_eq!(parse_line(&line, began), Ok(Some(record)));
        }
    }

    #[test]
    fn records_of_unknown_kinds_are_not_misread() {
        for bytes in [r#"{"jsonrpc":"2.0"}"#, "words"] {
            let record = Record::new(Channel::Unknown(9), bytes).at(Moment(0));
            assert_eq!(to_line(&record, Moment(0), false), None);
            let line = to_line(&record, Moment(0), true).unwrap();
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            let shown = serde_json::json!({"text": bytes, "unknownChannel": 9});
            assert_eq!(line, serde_json::json!({"t": 0.0, "diagnostic": shown}));
        }
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
            assert!(parse_line(line, Moment(0)).is_err(), "{line}");
        }
    }
}
