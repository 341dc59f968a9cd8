//! Descriptions of malformed messages.

use switchboard_acp::Diagnostic;

/// Describes the malformed parts of a message. Returns `None` if there are none.
pub(crate) fn in_words(left_out: &[Diagnostic]) -> Option<String> {
    let each: Vec<String> = left_out.iter().map(ToString::to_string).collect();
    (!each.is_empty()).then(|| each.join("; "))
}
