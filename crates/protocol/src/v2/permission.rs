//! Permission requests.

use serde_json::{Value, json};

use crate::error::{Problem, Read};
use crate::json::reader::Reader;
use crate::macros::{object, union};
use crate::v2::{PermissionOption, ToolCallUpdate};
use crate::{AbsolutePath, Meta, Text, WireFormat};

object! {
    /// Asks the user to allow something. Title and description are words of the prompt alone and never change
    /// a tool call; the subject says what it is about.
    RequestPermissionRequest rules some_unique_options shape at_least_one_option {
        required session_id: Text<'a> = "sessionId",
        required title: Text<'a> = "title",
        optional description: Text<'a> = "description",
        strict_optional subject: RequestPermissionSubject<'a> = "subject",
        strict_required options: Vec<PermissionOption<'a>> = "options",
        optional meta: Meta<'a> = "_meta",
    }
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
    schema["properties"]["options"]["minItems"] = json!(1);
}

union! {
    /// What a permission is about. A client that does not know the kind shows title, description and options.
    RequestPermissionSubject by "type" {
        ToolCall(Box<ToolCallPermissionSubject<'a>>) = "tool_call",
        Command(CommandPermissionSubject<'a>) = "command" @newest,
    }
}

object! {
    /// A tool call. The update is applied to the stored call before the prompt is shown.
    ToolCallPermissionSubject {
        required tool_call: ToolCallUpdate<'a> = "toolCall",
        optional meta: Meta<'a> = "_meta" @newest,
    }
}

object! {
    /// A command line.
    CommandPermissionSubject {
        required command: Text<'a> = "command",
        required cwd: AbsolutePath<'a> = "cwd",
        optional tool_call_id: Text<'a> = "toolCallId",
        optional terminal_id: Text<'a> = "terminalId",
        optional meta: Meta<'a> = "_meta",
    }
}
