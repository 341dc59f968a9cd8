//! What an agent tells about a session while a turn goes on.

use crate::macros::{object, union};
use crate::rpc::Params;
use crate::v1::unstable::*;
use crate::v1::*;
use crate::{AbsolutePath, Raw, Text};

object! {
    /// One update of a session.
    SessionNotification {
        /// The session.
        required session_id: Text<'a> = "sessionId",
        /// What is new in it.
        required update: SessionUpdate<'a> = "update",
    } with optional _meta
}

impl<'a> Params<'a> for SessionNotification<'a> {
    const METHOD: &'static str = "session/update";
}

union! {
    /// Something new in a session.
    SessionUpdate by "sessionUpdate" {
        /// Appends to a message of the user.
        UserMessageChunk(ContentChunk<'a>) = "user_message_chunk",
        /// Appends to a message of the agent.
        AgentMessageChunk(ContentChunk<'a>) = "agent_message_chunk",
        /// Appends to a thought of the agent.
        AgentThoughtChunk(ContentChunk<'a>) = "agent_thought_chunk",
        /// Announces a tool call.
        ToolCall(Box<ToolCall<'a>>) = "tool_call",
        /// Changes a tool call.
        ToolCallUpdate(Box<ToolCallUpdate<'a>>) = "tool_call_update",
        /// Replaces the plan.
        Plan(Plan<'a>) = "plan",
        /// Replaces one of several plans. **Unstable.**
        PlanUpdate(Box<PlanUpdate<'a>>) = "plan_update",
        /// Takes one of several plans away. **Unstable.**
        PlanRemoved(PlanRemoved<'a>) = "plan_removed",
        /// Replaces the list of commands.
        AvailableCommandsUpdate(AvailableCommandsUpdate<'a>) = "available_commands_update",
        /// Changes the mode.
        CurrentModeUpdate(CurrentModeUpdate<'a>) = "current_mode_update",
        /// Replaces the list of configuration options.
        ConfigOptionUpdate(ConfigOptionUpdate<'a>) = "config_option_update",
        /// Changes the title or the time of the session.
        SessionInfoUpdate(Box<SessionInfoUpdate<'a>>) = "session_info_update",
        /// How full the context window is, and what the session has cost.
        UsageUpdate(Box<UsageUpdate<'a>>) = "usage_update",
        /// Something that the user should see once.
        Notice(Box<Notice<'a>>) = "notice",
        /// Creates or changes the record of a compaction.
        CompactionUpdate(Box<CompactionUpdate<'a>>) = "compaction_update",
        /// Appends to the summary of a compaction.
        CompactionSummaryChunk(CompactionSummaryChunk<'a>) = "compaction_summary_chunk",
        /// Announces the session of a sub-agent, or changes what the session that started it tells of it. **Unstable.**
        SubagentUpdate(Box<SubagentUpdate<'a>>) = "subagent_update",
        /// Creates or changes a message from one session to another. **Unstable.**
        SessionMessage(Box<SessionMessage<'a>>) = "session_message",
        /// Appends to a message from one session to another. **Unstable.**
        SessionMessageChunk(SessionMessageChunk<'a>) = "session_message_chunk",
    }
}

object! {
    /// Appends one block to a message. Without an id, it belongs to the message before it of the same kind.
    ContentChunk {
        /// The block.
        required content: ContentBlock<'a> = "content",
        /// The message that it belongs to.
        optional message_id: Text<'a> = "messageId",
    } with optional _meta
}

object! {
    /// Announces a tool call.
    ToolCall {
        /// The name by which everything else refers to it.
        required tool_call_id: Text<'a> = "toolCallId",
        /// What the tool is doing, for people.
        required title: Text<'a> = "title",
        /// The tool's own name, for programs.
        optional name: Text<'a> = "name",
        /// What the tool does, as a hint for display.
        defaulted kind: ToolKind = "kind",
        /// How far it is.
        defaulted status: ToolCallStatus = "status",
        /// What it has produced.
        defaulted content: Vec<ToolCallContent<'a>> = "content",
        /// The files that it works on.
        defaulted locations: Vec<ToolCallLocation<'a>> = "locations",
        /// What the tool was given.
        optional raw_input: Raw<'a> = "rawInput",
        /// What the tool gave back.
        optional raw_output: Raw<'a> = "rawOutput",
    } with optional _meta
}

object! {
    /// Changes a tool call. `null` means unchanged; lists are replaced as a whole.
    ToolCallUpdate {
        /// The call.
        required tool_call_id: Text<'a> = "toolCallId",
        /// What the tool is doing, for people.
        optional title: Text<'a> = "title",
        /// The tool's own name, for programs.
        optional name: Text<'a> = "name",
        /// What the tool does, as a hint for display.
        optional kind: ToolKind = "kind",
        /// How far it is.
        optional status: ToolCallStatus = "status",
        /// All that it has produced.
        optional content: Vec<ToolCallContent<'a>> = "content",
        /// All files that it works on.
        optional locations: Vec<ToolCallLocation<'a>> = "locations",
        /// What the tool was given.
        optional raw_input: Raw<'a> = "rawInput",
        /// What the tool gave back.
        optional raw_output: Raw<'a> = "rawOutput",
    } with optional _meta
}

union! {
    /// One item of a tool call's content.
    ToolCallContent by "type" {
        /// A content block.
        Content(Content<'a>) = "content",
        /// One file before and after.
        Diff(Diff<'a>) = "diff",
        /// The place of a terminal.
        Terminal(Terminal<'a>) = "terminal",
    }
}

object! {
    /// One file before and after. Many agents put snippets here instead of whole files.
    Diff {
        /// The file.
        required path: AbsolutePath<'a> = "path",
        /// Missing for a new file.
        optional old_text: Text<'a> = "oldText",
        /// The text after.
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
        /// The plan, whole.
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
        /// All commands that the user can give.
        required available_commands: Vec<AvailableCommand<'a>> = "availableCommands",
    } with optional _meta
}

object! {
    /// A command that the user can give in a prompt, as `/name`.
    AvailableCommand {
        /// What follows the slash.
        required name: Text<'a> = "name",
        /// What the command does.
        required description: Text<'a> = "description",
        /// What may follow its name.
        optional input: AvailableCommandInput<'a> = "input",
    } with optional _meta
}

object! {
    /// What may follow a command's name.
    AvailableCommandInput {
        /// Shown while nothing is typed yet.
        required hint: Text<'a> = "hint",
    } with optional _meta
}

object! {
    /// The mode has changed.
    CurrentModeUpdate {
        /// The mode it is in now.
        required current_mode_id: Text<'a> = "currentModeId",
    } with optional _meta
}

object! {
    /// Replaces the list of configuration options.
    ConfigOptionUpdate {
        /// All that the user can set for the session.
        required config_options: Vec<SessionConfigOption<'a>> = "configOptions",
    } with optional _meta
}
