//! What the records of a recording are.

use switchboard_acp::Diagnostic;

/// What was malformed in a message, if anything was.
pub(crate) fn in_words(left_out: &[Diagnostic]) -> Option<String> {
    let each: Vec<String> = left_out.iter().map(ToString::to_string).collect();
    (!each.is_empty()).then(|| each.join("; "))
}
