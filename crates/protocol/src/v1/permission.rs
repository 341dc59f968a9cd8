//! Permission requests for tool calls.

use crate::Text;
use crate::macros::object;
use crate::v1::{PermissionOption, ToolCallUpdate};

object! {
    /// Asks the user to allow a tool call.
    RequestPermissionRequest {
        /// Session of the request.
        required session_id: Text<'a> = "sessionId",
        /// The call, with its changes.
        required tool_call: ToolCallUpdate<'a> = "toolCall",
        /// Options for the user.
        strict_required options: Vec<PermissionOption<'a>> = "options",
    } with optional _meta
}
