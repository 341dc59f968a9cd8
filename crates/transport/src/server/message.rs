//! Texts of clients to messages, and what is answered to those that are none.

use switchboard_acp::Raw;

use crate::invalid_line::invalid_line_answer;
use crate::routing::Routing;

/// What decides where the message goes; or the answer where it is none: no JSON, several in an array, or no object.
pub(super) fn read(text: &str) -> Result<Routing, String> {
    match (invalid_line_answer(text), Raw::parse(text)) {
        (Some(answer), _) => Err(answer),
        (None, Ok(message)) => Ok(Routing::of(&message)),
        // What cannot be parsed has an answer.
        (None, Err(error)) => Err(error.to_string()),
    }
}

/// Whether it asks for the beginning of a conversation.
pub(super) fn opens(message: &Routing) -> bool {
    message.method.as_deref() == Some("initialize") && message.id.is_some()
}
