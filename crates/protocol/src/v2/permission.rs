//! Permission requests.

use serde_json::Value;

use crate::error::{Problem, Read};
use crate::json::reader::Reader;
use crate::macros::{object, union};
use crate::schema::not_empty;
use crate::v2::{PermissionOption, ToolCallUpdate};
use crate::{AbsolutePath, Text, WireFormat};

object! {
    /// Requests a permission from the user. Title and description are only for display and never change a
    /// tool call; the subject identifies the action.
    RequestPermissionRequest rules some_unique_options shape at_least_one_option {
        /// Session of the request.
        required session_id: Text<'a> = "sessionId",
        /// Title of the question.
        required title: Text<'a> = "title",
        /// Description of the question.
        optional description: Text<'a> = "description",
        /// Subject.
        strict_optional subject: RequestPermissionSubject<'a> = "subject",
        /// Options for the user.
        strict_required options: Vec<PermissionOption<'a>> = "options",
    } with optional _meta
}

fn some_unique_options(
    request: &RequestPermissionRequest<'_>,
    reader: &mut Reader<'_>,
    start: usize,
) -> Read<()> {
    if request.options.is_empty() {
        return reader.fault(start, Problem::Rule("at least one option".into()));
    }
    let ids = request.options.iter().map(|option| &*option.option_id);
    match crate::json::raw::first_duplicate(ids) {
        Some(id) => {
            let rule = format!("option ids that differ, not \"{id}\" twice");
            reader.fault(start, Problem::Rule(rule.into()))
        }
        None => Ok(()),
    }
}

fn at_least_one_option(schema: &mut Value, _: WireFormat) {
    not_empty(schema, "options");
}

union! {
    /// Subject of a permission request. A client that does not know the kind shows title, description and
    /// options.
    RequestPermissionSubject by "type" {
        /// A tool call.
        ToolCall(Box<ToolCallPermissionSubject<'a>>) = "tool_call",
        /// A command line.
        Command(CommandPermissionSubject<'a>) = "command" @newest,
    }
}

object! {
    /// A tool call. The update is applied to the stored call before the prompt is shown.
    ToolCallPermissionSubject {
        /// The call, with its changes.
        required tool_call: ToolCallUpdate<'a> = "toolCall",
    } with optional _meta @newest
}

object! {
    /// A command line.
    CommandPermissionSubject {
        /// Command line.
        required command: Text<'a> = "command",
        /// Working directory.
        required cwd: AbsolutePath<'a> = "cwd",
        /// Id of the tool call that runs it.
        optional tool_call_id: Text<'a> = "toolCallId",
        /// Id of its terminal.
        optional terminal_id: Text<'a> = "terminalId",
    } with optional _meta
}
