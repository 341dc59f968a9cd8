//! Texts of clients to messages, and what is answered to those that are none.

use switchboard_acp::Raw;
use switchboard_acp::rpc::{RequestId, codes, is_batch};

use crate::connection::{error_line, failure};
use crate::routing::Routing;

/// What decides where the message goes; or the answer where it is none: no JSON, several in an array, or no object.
pub(super) fn read(text: &str) -> Result<Routing, String> {
    let refused = |code, reason: String| error_line(&RequestId::Null, &failure(code, reason));
    let message = Raw::parse(text)
        .map_err(|error| refused(codes::PARSE_ERROR, format!("the message is no JSON: {error}")))?;
    if is_batch(text) {
        let reason = "several messages in an array are not taken; send each by itself";
        return Err(refused(codes::INVALID_REQUEST, reason.to_owned()));
    }
    if !message.is_object() {
        let reason = "a message is an object with a method, or with an id and a result or an error";
        return Err(refused(codes::INVALID_REQUEST, reason.to_owned()));
    }
    Ok(Routing::of(&message))
}

/// Whether it asks for the beginning of a conversation.
pub(super) fn opens(message: &Routing) -> bool {
    message.method.as_deref() == Some("initialize") && message.id.is_some()
}
