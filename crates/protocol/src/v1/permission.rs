//! Permission requests, which are about a tool call.

use crate::Text;
use crate::macros::object;
use crate::v1::{PermissionOption, ToolCallUpdate};

object! {
    /// Asks the user to allow a tool call.
    RequestPermissionRequest {
        /// The session that asks.
        required session_id: Text<'a> = "sessionId",
        /// The call, with what is new about it.
        required tool_call: ToolCallUpdate<'a> = "toolCall",
        /// What the user can choose from.
        strict_required options: Vec<PermissionOption<'a>> = "options",
    } with optional _meta
}
