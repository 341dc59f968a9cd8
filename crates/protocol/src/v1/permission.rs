//! Permission requests, which are about a tool call.

use crate::macros::object;
use crate::v1::{PermissionOption, ToolCallUpdate};
use crate::{Meta, Text};

object! {
    /// Asks the user to allow a tool call.
    RequestPermissionRequest {
        required session_id: Text<'a> = "sessionId",
        required tool_call: ToolCallUpdate<'a> = "toolCall",
        strict_required options: Vec<PermissionOption<'a>> = "options",
        optional meta: Meta<'a> = "_meta",
    }
}
