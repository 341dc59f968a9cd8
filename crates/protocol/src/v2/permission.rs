//! Permission requests.

use serde_json::Value;

use crate::error::{Problem, Read};
use crate::json::reader::Reader;
use crate::macros::{object, union};
use crate::schema::not_empty;
use crate::v2::{PermissionOption, ToolCallUpdate};
use crate::{AbsolutePath, Text, WireFormat};

object! {
    /// Asks the user to allow something. Title and description are words of the prompt alone and never change
    /// a tool call; the subject says what it is about.
    RequestPermissionRequest rules some_unique_options shape at_least_one_option {
        /// The session that asks.
        required session_id: Text<'a> = "sessionId",
        /// The question in one line.
        required title: Text<'a> = "title",
        /// The question in more words.
        optional description: Text<'a> = "description",
        /// What it is about.
        strict_optional subject: RequestPermissionSubject<'a> = "subject",
        /// What the user can choose from.
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
    /// What a permission is about. A client that does not know the kind shows title, description and options.
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
        /// The call, with what is new about it.
        required tool_call: ToolCallUpdate<'a> = "toolCall",
    } with optional _meta @newest
}

object! {
    /// A command line.
    CommandPermissionSubject {
        /// The command line, as it is run.
        required command: Text<'a> = "command",
        /// The directory that it is run in.
        required cwd: AbsolutePath<'a> = "cwd",
        /// The tool call that runs it.
        optional tool_call_id: Text<'a> = "toolCallId",
        /// The terminal that it runs in.
        optional terminal_id: Text<'a> = "terminalId",
    } with optional _meta
}
