//! What an agent tells about a session while a turn goes on.

use crate::macros::{object, union};
use crate::rpc::Params;
use crate::v1::*;
use crate::{AbsolutePath, Meta, Raw, Text};

object! {
    /// One update of a session.
    SessionNotification {
        required session_id: Text<'a> = "sessionId",
        required update: SessionUpdate<'a> = "update",
        optional meta: Meta<'a> = "_meta",
    }
}

impl<'a> Params<'a> for SessionNotification<'a> {
    const METHOD: &'static str = "session/update";
}

union! {
    /// Something new in a session.
    SessionUpdate by "sessionUpdate" {
        UserMessageChunk(ContentChunk<'a>) = "user_message_chunk",
        AgentMessageChunk(ContentChunk<'a>) = "agent_message_chunk",
        AgentThoughtChunk(ContentChunk<'a>) = "agent_thought_chunk",
        ToolCall(Box<ToolCall<'a>>) = "tool_call",
        ToolCallUpdate(Box<ToolCallUpdate<'a>>) = "tool_call_update",
        Plan(Plan<'a>) = "plan",
        AvailableCommandsUpdate(AvailableCommandsUpdate<'a>) = "available_commands_update",
        CurrentModeUpdate(CurrentModeUpdate<'a>) = "current_mode_update",
        ConfigOptionUpdate(ConfigOptionUpdate<'a>) = "config_option_update",
        SessionInfoUpdate(Box<SessionInfoUpdate<'a>>) = "session_info_update",
        UsageUpdate(Box<UsageUpdate<'a>>) = "usage_update",
        Notice(Box<Notice<'a>>) = "notice",
        CompactionUpdate(Box<CompactionUpdate<'a>>) = "compaction_update",
        CompactionSummaryChunk(CompactionSummaryChunk<'a>) = "compaction_summary_chunk",
    }
}

object! {
    /// Appends one block to a message. Without an id, it belongs to the message before it of the same kind.
    ContentChunk {
        required content: ContentBlock<'a> = "content",
        optional message_id: Text<'a> = "messageId",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Announces a tool call.
    ToolCall {
        required tool_call_id: Text<'a> = "toolCallId",
        required title: Text<'a> = "title",
        optional name: Text<'a> = "name",
        defaulted kind: ToolKind = "kind",
        defaulted status: ToolCallStatus = "status",
        defaulted content: Vec<ToolCallContent<'a>> = "content",
        defaulted locations: Vec<ToolCallLocation<'a>> = "locations",
        optional raw_input: Raw<'a> = "rawInput",
        optional raw_output: Raw<'a> = "rawOutput",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Changes a tool call. `null` means unchanged; lists are replaced as a whole.
    ToolCallUpdate {
        required tool_call_id: Text<'a> = "toolCallId",
        optional title: Text<'a> = "title",
        optional name: Text<'a> = "name",
        optional kind: ToolKind = "kind",
        optional status: ToolCallStatus = "status",
        optional content: Vec<ToolCallContent<'a>> = "content",
        optional locations: Vec<ToolCallLocation<'a>> = "locations",
        optional raw_input: Raw<'a> = "rawInput",
        optional raw_output: Raw<'a> = "rawOutput",
        optional meta: Meta<'a> = "_meta",
    }
}

union! {
    /// One item of a tool call's content.
    ToolCallContent by "type" {
        Content(Content<'a>) = "content",
        Diff(Diff<'a>) = "diff",
        Terminal(Terminal<'a>) = "terminal",
    }
}

object! {
    /// One file before and after. Many agents put snippets here instead of whole files.
    Diff {
        required path: AbsolutePath<'a> = "path",
        /// Missing for a new file.
        optional old_text: Text<'a> = "oldText",
        required new_text: Text<'a> = "newText",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Replaces the plan.
    Plan {
        required entries: Vec<PlanEntry<'a>> = "entries",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Replaces the list of commands.
    AvailableCommandsUpdate {
        required available_commands: Vec<AvailableCommand<'a>> = "availableCommands",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A command that the user can give in a prompt, as `/name`.
    AvailableCommand {
        required name: Text<'a> = "name",
        required description: Text<'a> = "description",
        optional input: AvailableCommandInput<'a> = "input",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// What may follow a command's name.
    AvailableCommandInput {
        required hint: Text<'a> = "hint",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// The mode has changed.
    CurrentModeUpdate {
        required current_mode_id: Text<'a> = "currentModeId",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Replaces the list of configuration options.
    ConfigOptionUpdate {
        required config_options: Vec<SessionConfigOption<'a>> = "configOptions",
        optional meta: Meta<'a> = "_meta",
    }
}
