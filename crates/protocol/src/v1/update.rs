//! Updates of a session during a turn.

use crate::macros::{object, union};
use crate::rpc::Params;
use crate::v1::unstable::*;
use crate::v1::*;
use crate::{AbsolutePath, Raw, Text};

object! {
    /// One update of a session.
    SessionNotification {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// The update.
        required update: SessionUpdate<'a> = "update",
    } with optional _meta
}

impl<'a> Params<'a> for SessionNotification<'a> {
    const METHOD: &'static str = "session/update";
}

union! {
    /// An update of a session.
    SessionUpdate by "sessionUpdate" {
        /// Appends to a user message.
        UserMessageChunk(ContentChunk<'a>) = "user_message_chunk",
        /// Appends to an agent message.
        AgentMessageChunk(ContentChunk<'a>) = "agent_message_chunk",
        /// Appends to an agent thought.
        AgentThoughtChunk(ContentChunk<'a>) = "agent_thought_chunk",
        /// Announces a tool call.
        ToolCall(Box<ToolCall<'a>>) = "tool_call",
        /// Changes a tool call.
        ToolCallUpdate(Box<ToolCallUpdate<'a>>) = "tool_call_update",
        /// Replaces the plan.
        Plan(Plan<'a>) = "plan",
        /// Replaces one of several plans. **Unstable.**
        PlanUpdate(Box<PlanUpdate<'a>>) = "plan_update",
        /// Removes one of several plans. **Unstable.**
        PlanRemoved(PlanRemoved<'a>) = "plan_removed",
        /// Replaces the list of commands.
        AvailableCommandsUpdate(AvailableCommandsUpdate<'a>) = "available_commands_update",
        /// Changes the mode.
        CurrentModeUpdate(CurrentModeUpdate<'a>) = "current_mode_update",
        /// Replaces the list of configuration options.
        ConfigOptionUpdate(ConfigOptionUpdate<'a>) = "config_option_update",
        /// Changes the title or the time of the session.
        SessionInfoUpdate(Box<SessionInfoUpdate<'a>>) = "session_info_update",
        /// Usage of the context window, and cost of the session.
        UsageUpdate(Box<UsageUpdate<'a>>) = "usage_update",
        /// A notice to show once.
        Notice(Box<Notice<'a>>) = "notice",
        /// Creates or changes the record of a compaction.
        CompactionUpdate(Box<CompactionUpdate<'a>>) = "compaction_update",
        /// Appends to the summary of a compaction.
        CompactionSummaryChunk(CompactionSummaryChunk<'a>) = "compaction_summary_chunk",
        /// Announces a sub-agent's session, or updates its properties in its parent session. **Unstable.**
        SubagentUpdate(Box<SubagentUpdate<'a>>) = "subagent_update",
        /// Creates or changes a message from one session to another. **Unstable.**
        SessionMessage(Box<SessionMessage<'a>>) = "session_message",
        /// Appends to a message from one session to another. **Unstable.**
        SessionMessageChunk(SessionMessageChunk<'a>) = "session_message_chunk",
    }
}

object! {
    /// Appends one block to a message. Without an id, it belongs to the previous message of the same kind.
    ContentChunk {
        /// The block.
        required content: ContentBlock<'a> = "content",
        /// Id of the message.
        optional message_id: Text<'a> = "messageId",
    } with optional _meta
}

object! {
    /// Announces a tool call.
    ToolCall {
        /// Id for later references.
        required tool_call_id: Text<'a> = "toolCallId",
        /// Title for display.
        required title: Text<'a> = "title",
        /// Name of the tool, for programs.
        optional name: Text<'a> = "name",
        /// Kind of tool, as a hint for display.
        defaulted kind: ToolKind = "kind",
        /// Status.
        defaulted status: ToolCallStatus = "status",
        /// Output.
        defaulted content: Vec<ToolCallContent<'a>> = "content",
        /// Files that the call works on.
        defaulted locations: Vec<ToolCallLocation<'a>> = "locations",
        /// Input of the tool.
        optional raw_input: Raw<'a> = "rawInput",
        /// Raw output of the tool.
        optional raw_output: Raw<'a> = "rawOutput",
    } with optional _meta
}

object! {
    /// Changes a tool call. `null` means unchanged; lists are replaced as a whole.
    ToolCallUpdate {
        /// Id of the tool call.
        required tool_call_id: Text<'a> = "toolCallId",
        /// Title for display.
        optional title: Text<'a> = "title",
        /// Name of the tool, for programs.
        optional name: Text<'a> = "name",
        /// Kind of tool, as a hint for display.
        optional kind: ToolKind = "kind",
        /// Status.
        optional status: ToolCallStatus = "status",
        /// Complete output.
        optional content: Vec<ToolCallContent<'a>> = "content",
        /// All files that the call works on.
        optional locations: Vec<ToolCallLocation<'a>> = "locations",
        /// Input of the tool.
        optional raw_input: Raw<'a> = "rawInput",
        /// Raw output of the tool.
        optional raw_output: Raw<'a> = "rawOutput",
    } with optional _meta
}

union! {
    /// One item of a tool call's content.
    ToolCallContent by "type" {
        /// A content block.
        Content(Content<'a>) = "content",
        /// A file before and after a change.
        Diff(Diff<'a>) = "diff",
        /// Position of a terminal.
        Terminal(Terminal<'a>) = "terminal",
    }
}

object! {
    /// A file before and after a change. Many agents send snippets instead of whole files.
    Diff {
        /// Path of the file.
        required path: AbsolutePath<'a> = "path",
        /// Text before the change. Missing for a new file.
        optional old_text: Text<'a> = "oldText",
        /// Text after the change.
        required new_text: Text<'a> = "newText",
    } with optional _meta
}

object! {
    /// Replaces the plan.
    Plan {
        /// All steps.
        required entries: Vec<PlanEntry<'a>> = "entries",
    } with optional _meta
}

object! {
    /// Replaces one of several plans. **Unstable.**
    PlanUpdate {
        /// Complete plan.
        required plan: PlanUpdateContent<'a> = "plan",
    } with optional _meta
}

union! {
    /// One of several plans. **Unstable.**
    PlanUpdateContent by "type" {
        /// A list of steps.
        Items(PlanItems<'a>) = "items",
        /// A file.
        File(PlanFile<'a>) = "file",
        /// Text in Markdown.
        Markdown(PlanMarkdown<'a>) = "markdown",
    }
}

object! {
    /// Replaces the list of commands.
    AvailableCommandsUpdate {
        /// All available commands.
        required available_commands: Vec<AvailableCommand<'a>> = "availableCommands",
    } with optional _meta
}

object! {
    /// A command for prompts, as `/name`.
    AvailableCommand {
        /// Name after the slash.
        required name: Text<'a> = "name",
        /// Description of the command.
        required description: Text<'a> = "description",
        /// Input after its name.
        optional input: AvailableCommandInput<'a> = "input",
    } with optional _meta
}

object! {
    /// Input after a command's name.
    AvailableCommandInput {
        /// Placeholder for empty input.
        required hint: Text<'a> = "hint",
    } with optional _meta
}

object! {
    /// The mode changed.
    CurrentModeUpdate {
        /// Current mode.
        required current_mode_id: Text<'a> = "currentModeId",
    } with optional _meta
}

object! {
    /// Replaces the list of configuration options.
    ConfigOptionUpdate {
        /// All configuration options of the session.
        required config_options: Vec<SessionConfigOption<'a>> = "configOptions",
    } with optional _meta
}
