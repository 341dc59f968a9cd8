//! Several messages in one array.

use crate::WireFormat;
use crate::error::{DecodeError, Read};
use crate::json::reader::Reader;

/// Default maximum number of messages in a batch.
pub const BATCH_LIMIT: usize = 1024;

/// Reason why a text that starts with a bracket is not a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchFault {
    /// It has too many entries.
    TooMany {
        /// Maximum number of entries.
        limit: usize,
    },
    /// It is not a JSON array. A line that starts with a bracket is more often a log line than a malformed
    /// batch.
    NotJson(DecodeError),
}

impl std::fmt::Display for BatchFault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BatchFault::TooMany { limit } => {
                write!(formatter, "expected at most {limit} messages in a batch, found more")
            }
            BatchFault::NotJson(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for BatchFault {}

/// Returns true if a line starts like a batch.
pub fn is_batch(line: &str) -> bool {
    line.trim_start().starts_with('[')
}

/// Returns the texts of the entries of an array. Stops after `limit` entries.
///
/// ```
/// use switchboard_acp::rpc::{BatchFault, batch_entries};
///
/// assert_eq!(batch_entries(r#"[{"a":1}, 2]"#, 10), Ok(vec![r#"{"a":1}"#, "2"]));
/// assert_eq!(batch_entries("[1,2,3]", 2), Err(BatchFault::TooMany { limit: 2 }));
/// assert!(matches!(batch_entries("[12:30] started", 2), Err(BatchFault::NotJson(_))));
/// ```
pub fn batch_entries(text: &str, limit: usize) -> Result<Vec<&str>, BatchFault> {
    let mut reader = Reader::new(text, WireFormat::Any);
    let mut read = || -> Read<Option<Vec<&str>>> {
        reader.begin_array()?;
        let mut entries = Vec::new();
        while reader.next_item(entries.is_empty())? {
            if entries.len() == limit {
                return Ok(None);
            }
            let start = reader.position();
            reader.skip_value()?;
            entries.push(&text[start..reader.position()]);
        }
        reader.finish()?;
        Ok(Some(entries))
    };
    match read() {
        Ok(Some(entries)) => Ok(entries),
        Ok(None) => Err(BatchFault::TooMany { limit }),
        Err(fault) => Err(BatchFault::NotJson(DecodeError::new(&fault, text))),
    }
}

/// Returns the messages of a line: one, or those of an array. A line that is not a valid array is returned
/// unchanged, for the caller to report.
///
/// ```
/// use switchboard_acp::rpc::messages;
///
/// assert_eq!(messages(r#"[{"a":1},{"b":2}]"#), [r#"{"a":1}"#, r#"{"b":2}"#]);
/// assert_eq!(messages(r#"{"a":1}"#), [r#"{"a":1}"#]);
/// assert_eq!(messages("[12:30] started"), ["[12:30] started"]);
/// ```
pub fn messages(line: &str) -> Vec<&str> {
    let entries =
        if is_batch(line) { batch_entries(line, BATCH_LIMIT).unwrap_or_default() } else { Vec::new() };
    if entries.is_empty() { vec![line] } else { entries }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_cut_into_its_entries() {
        assert_eq!(batch_entries(r#" [ {"a":1} , 2, "[" ] "#, 3), Ok(vec![r#"{"a":1}"#, "2", "\"[\""]));
        assert_eq!(batch_entries("[]", 3), Ok(vec![]));
        assert_eq!(batch_entries("[1,2,3,4]", 3), Err(BatchFault::TooMany { limit: 3 }));
        for text in ["[1,", "[1] x", "[12:30] started", "{}", ""] {
            assert!(matches!(batch_entries(text, 3), Err(BatchFault::NotJson(_))), "{text}");
        }
    }
}
