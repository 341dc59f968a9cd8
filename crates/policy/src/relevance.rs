//! Prefilter for the lines of a recording.

use memchr::memchr2_iter;
use memchr::memmem::Finder;

/// Detects lines that a [`QuestionReader`](crate::QuestionReader) has to read, without parsing them. Most of
/// a recording is text in small chunks, which does not concern tool calls.
///
/// ```
/// let relevance = switchboard_policy::Relevance::new();
/// assert!(!relevance.matters(br#"{"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk"}}}"#));
/// assert!(relevance.matters(br#"{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call"}}}"#));
/// assert!(relevance.matters(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
/// ```
#[derive(Debug, Clone)]
pub struct Relevance {
    update: Finder<'static>,
    began: Finder<'static>,
}

impl Default for Relevance {
    fn default() -> Self {
        Relevance::new()
    }
}

impl Relevance {
    /// Creates a filter.
    pub fn new() -> Self {
        Relevance { update: Finder::new("session/update"), began: Finder::new("\"began\"") }
    }

    /// Returns whether a line may concern a tool call or a permission. The first line of a recording always
    /// does.
    pub fn matters(&self, line: &[u8]) -> bool {
        self.update.find(line).is_none() || names_a_call(line) || self.began.find(line).is_some()
    }
}

/// Returns whether an update may concern a tool call or a terminal: one pass over bytes that are rare in
/// text.
fn names_a_call(line: &[u8]) -> bool {
    memchr2_iter(b'_', b'\\', line).any(|place| {
        let (before, after) = line.split_at(place);
        before.ends_with(b"tool") && after.starts_with(b"_call")
            || before.ends_with(b"terminal") && after.starts_with(b"_update")
            // The names may be written with escapes.
            || after.starts_with(b"\\u00")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PIECES: [&str; 12] = [
        "tool",
        "_call",
        "tool_call",
        "terminal",
        "_update",
        "_",
        "\\",
        "\\u00",
        "u00",
        "\"began\"",
        "session/update",
        "x",
    ];

    proptest! {
        #[test]
        fn every_mention_of_a_call_is_relevant(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..8)) {
            let line = pieces.concat();
            let words = ["tool_call", "terminal_update", "\"began\"", "\\u00"];
            let expected = !line.contains("session/update") || words.iter().any(|word| line.contains(word));
            prop_assert_eq!(Relevance::new().matters(line.as_bytes()), expected);
        }
    }
}
