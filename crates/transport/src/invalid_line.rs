//! Response to an invalid line of a client.

use switchboard_acp::Raw;
use switchboard_acp::rpc::{RequestId, codes, is_batch};

use crate::connection::{error_line, failure};

/// Returns the response to a client's line that is not a message: -32700 for text that is not JSON, and
/// -32600 for an array or a bare value, both with the id `null`. An array gets one response regardless of its
/// content, because the protocol has no batches. `None` for an object, whose errors refer to its id.
///
/// ```
/// use switchboard_transport::invalid_line_answer;
///
/// assert!(invalid_line_answer("{bad").unwrap().contains("-32700"));
/// assert!(invalid_line_answer("[]").unwrap().contains("-32600"));
/// assert_eq!(invalid_line_answer(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#), None);
/// ```
pub fn invalid_line_answer(text: &str) -> Option<String> {
    let refused = |code, reason: String| Some(error_line(&RequestId::Null, &failure(code, reason)));
    let message = match Raw::parse(text) {
        Ok(message) => message,
        Err(error) => return refused(codes::PARSE_ERROR, format!("the message is not valid JSON: {error}")),
    };
    if is_batch(text) {
        let reason = "batches are not supported; send each message by itself";
        return refused(codes::INVALID_REQUEST, reason.to_owned());
    }
    if !message.is_object() {
        let reason = "a message is an object with a method, or with an id and a result or an error";
        return refused(codes::INVALID_REQUEST, reason.to_owned());
    }
    None
}
