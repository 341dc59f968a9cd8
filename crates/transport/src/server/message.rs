//! Parses clients' messages and creates responses to invalid ones.

use switchboard_acp::Raw;

use crate::invalid_line::invalid_line_answer;
use crate::routing::Routing;

/// Returns the routing fields of a message. Fails with the response to send if the text is not JSON, an
/// array, or not an object.
pub(super) fn read(text: &str) -> Result<Routing, String> {
    match (invalid_line_answer(text), Raw::parse(text)) {
        (Some(answer), _) => Err(answer),
        (None, Ok(message)) => Ok(Routing::of(&message)),
        // Text that cannot be parsed always has a response.
        (None, Err(error)) => Err(error.to_string()),
    }
}

/// Returns true for an `initialize` request.
pub(super) fn opens(message: &Routing) -> bool {
    message.method.as_deref() == Some("initialize") && message.id.is_some()
}
