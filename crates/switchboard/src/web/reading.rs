//! What the records of a recording are.

use switchboard_protocol::Diagnostic;
use switchboard_session::Side;
use switchboard_store::Channel;

/// What was malformed in a message, if anything was.
pub(crate) fn in_words(left_out: &[Diagnostic]) -> Option<String> {
    let each: Vec<String> = left_out.iter().map(ToString::to_string).collect();
    (!each.is_empty()).then(|| each.join("; "))
}

/// Who sent a message, and whether on the other side of a translation.
pub(crate) fn sender(channel: Channel) -> Option<(Side, bool)> {
    match channel {
        Channel::ToAgent => Some((Side::Client, false)),
        Channel::ToClient => Some((Side::Agent, false)),
        Channel::OtherToAgent => Some((Side::Client, true)),
        Channel::OtherToClient => Some((Side::Agent, true)),
        _ => None,
    }
}
