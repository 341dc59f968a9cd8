//! Which lines of a recording have to be read.

use memchr::memmem::Finder;

/// Tells at a glance which lines have to be read by an [`Observer`](crate::Observer). Most of a recording is text that comes
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
    call: Finder<'static>,
    terminal: Finder<'static>,
    began: Finder<'static>,
    escape: Finder<'static>,
}

impl Default for Relevance {
    fn default() -> Self {
        Relevance::new()
    }
}

impl Relevance {
    /// Ready to look.
    pub fn new() -> Self {
        Relevance {
            update: Finder::new("session/update"),
            call: Finder::new("tool_call"),
            terminal: Finder::new("terminal_update"),
            began: Finder::new("\"began\""),
            // The words may be written with escapes.
            escape: Finder::new("\\u00"),
        }
    }

    /// Whether a line may be about a tool call, a permission or what belongs to them. Also the first line of a recording
    /// matters.
    pub fn matters(&self, line: &[u8]) -> bool {
        let has = |finder: &Finder<'_>| finder.find(line).is_some();
        !has(&self.update) || has(&self.call) || has(&self.terminal) || has(&self.began) || has(&self.escape)
    }
}
