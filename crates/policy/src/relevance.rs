//! Which lines of a recording have to be read.

use memchr::memchr2_iter;
use memchr::memmem::Finder;

/// Tells at a glance which lines have to be read by a [`QuestionReader`](crate::QuestionReader). Most of a recording is text that comes
/// in small pieces, and has nothing to do with tool calls.
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
    /// Ready to look.
    pub fn new() -> Self {
        Relevance { update: Finder::new("session/update"), began: Finder::new("\"began\"") }
    }

    /// Whether a line may be about a tool call, a permission or what belongs to them. Also the first line of a recording
    /// matters.
    pub fn matters(&self, line: &[u8]) -> bool {
        self.update.find(line).is_none() || names_a_call(line) || self.began.find(line).is_some()
    }
}

/// Whether an update may be about a tool call or a terminal: looked for in one pass, by bytes that most text has few of.
fn names_a_call(line: &[u8]) -> bool {
    memchr2_iter(b'_', b'\\', line).any(|place| {
        let (before, after) = line.split_at(place);
        before.ends_with(b"tool") && after.starts_with(b"_call")
            || before.ends_with(b"terminal") && after.starts_with(b"_update")
            // The words may be written with escapes.
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
        fn whatever_names_a_call_matters(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..8)) {
            let line = pieces.concat();
            let words = ["tool_call", "terminal_update", "\"began\"", "\\u00"];
            let expected = !line.contains("session/update") || words.iter().any(|word| line.contains(word));
            prop_assert_eq!(Relevance::new().matters(line.as_bytes()), expected);
        }
    }
}
