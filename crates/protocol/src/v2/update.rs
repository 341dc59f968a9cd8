//! Updates of a session.

use serde_json::{Value, json};

use crate::error::Read;
use crate::json::reader::Reader;
use crate::macros::{object, union};
use crate::v2::unstable::*;
use crate::v2::*;
use crate::{AbsolutePath, Text, WireFormat};

object! {
    /// One update of a session.
    UpdateSessionNotification {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// The update.
        required update: SessionUpdate<'a> = "update",
    } with optional _meta
}

union! {
    /// An update of a session. Updates of unknown kinds are kept but change nothing; version 1's `tool_call`,
    /// `plan` and `current_mode_update` are unknown here.
    SessionUpdate by "sessionUpdate" {
        /// Appends to a user message.
        UserMessageChunk(ContentChunk<'a>) = "user_message_chunk",
        /// Creates or changes a user message.
        UserMessage(MessageUpdate<'a>) = "user_message",
        /// Appends to an agent message.
        AgentMessageChunk(ContentChunk<'a>) = "agent_message_chunk",
        /// Creates or changes an agent message.
        AgentMessage(MessageUpdate<'a>) = "agent_message",
        /// Appends to an agent thought.
        AgentThoughtChunk(ContentChunk<'a>) = "agent_thought_chunk",
        /// Creates or changes an agent thought.
        AgentThought(MessageUpdate<'a>) = "agent_thought",
        /// State of the session.
        StateUpdate(Box<StateUpdate<'a>>) = "state_update",
        /// Appends to the content of a tool call.
        ToolCallContentChunk(ToolCallContentChunk<'a>) = "tool_call_content_chunk",
        /// Creates or changes a tool call.
        ToolCallUpdate(Box<ToolCallUpdate<'a>>) = "tool_call_update",
        /// Creates or changes a terminal.
        TerminalUpdate(Box<TerminalUpdate<'a>>) = "terminal_update" @newest,
        /// Appends to the output of a terminal.
        TerminalOutputChunk(TerminalOutputChunk<'a>) = "terminal_output_chunk" @newest,
        /// Replaces one of the plans.
        PlanUpdate(Box<PlanUpdate<'a>>) = "plan_update",
        /// Removes a plan. **Unstable.**
        PlanRemoved(PlanRemoved<'a>) = "plan_removed" @unstable,
        /// Replaces the list of commands.
        AvailableCommandsUpdate(AvailableCommandsUpdate<'a>) = "available_commands_update",
        /// Replaces the list of configuration options.
        ConfigOptionUpdate(ConfigOptionUpdate<'a>) = "config_option_update",
        /// Changes the title or the time of the session.
        SessionInfoUpdate(Box<SessionInfoUpdate<'a>>) = "session_info_update",
        /// Usage of the context window, and cost of the session.
        UsageUpdate(Box<UsageUpdate<'a>>) = "usage_update",
        /// A notice to show once.
        Notice(Box<Notice<'a>>) = "notice" @newest,
        /// Creates or changes the record of a compaction.
        CompactionUpdate(Box<CompactionUpdate<'a>>) = "compaction_update" @newest,
        /// Appends to the summary of a compaction.
        CompactionSummaryChunk(CompactionSummaryChunk<'a>) = "compaction_summary_chunk" @newest,
        /// Announces a sub-agent's session, or updates its properties in its parent session. **Unstable.**
        SubagentUpdate(Box<SubagentUpdate<'a>>) = "subagent_update" @unstable,
        /// Creates or changes a message from one session to another. **Unstable.**
        SessionMessage(Box<SessionMessage<'a>>) = "session_message" @unstable,
        /// Appends to a message from one session to another. **Unstable.**
        SessionMessageChunk(SessionMessageChunk<'a>) = "session_message_chunk" @unstable,
    }
}

object! {
    /// Replaces a plan.
    PlanUpdate {
        /// Complete plan.
        required plan: PlanUpdateContent<'a> = "plan",
    } with optional _meta
}

union! {
    /// A plan.
    PlanUpdateContent by "type" requires ["planId"] rules no_unstable_plan shape refuse_unstable_plans {
        /// A list of steps.
        Items(PlanItems<'a>) = "items",
        /// A file. **Unstable.**
        File(PlanFile<'a>) = "file" @unstable,
        /// Text in Markdown. **Unstable.**
        Markdown(PlanMarkdown<'a>) = "markdown" @unstable,
    }
}

/// Refuses two kinds of plans that the `spec` dialect reserves for experiments.
fn no_unstable_plan(plan: &PlanUpdateContent<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    match plan {
        PlanUpdateContent::Unknown(unknown)
            if reader.revision() == WireFormat::Spec && matches!(&*unknown.tag, "file" | "markdown") =>
        {
            let rule = format!("a kind of plan other than \"{}\", which is experimental", unknown.tag);
            reader.broken_rule(start, rule)
        }
        _ => Ok(()),
    }
}

fn refuse_unstable_plans(schema: &mut Value, revision: WireFormat) {
    if revision == WireFormat::Spec {
        let kinds = json!({"enum": ["file", "markdown"], "description": "Kinds that are experimental."});
        schema["not"] = json!({"type": "object", "properties": {"type": kinds}});
    }
}

object! {
    /// A plan as a list of steps.
    PlanItems {
        /// Id of the plan. An unknown id creates a plan.
        required plan_id: Text<'a> = "planId",
        /// All steps.
        required entries: Vec<PlanEntry<'a>> = "entries",
    } with optional _meta
}

object! {
    /// Replaces the list of commands.
    AvailableCommandsUpdate {
        /// All available commands.
        required available_commands: Vec<AvailableCommand<'a>> = "availableCommands",
    } with optional _meta
}

object! {
    /// Replaces the list of configuration options.
    ConfigOptionUpdate {
        /// All configuration options of the session.
        required config_options: Vec<SessionConfigOption<'a>> = "configOptions",
    } with optional _meta
}

object! {
    /// Announces a sub-agent's session, or updates its properties in its parent session. **Unstable.**
    SubagentUpdate {
        /// Id of the sub-agent's session. An unknown id announces a new sub-agent.
        required session_id: Text<'a> = "sessionId",
        /// Title of the sub-agent.
        patch title: Text<'a> = "title",
        /// Task of the sub-agent.
        patch description: Text<'a> = "description",
        /// Actions that the client can request for the sub-agent's session.
        patch capabilities: SubagentSessionCapabilities<'a> = "capabilities",
        /// State of the sub-agent, which its own session also reports. Cleared means unknown.
        patch state: StateUpdate<'a> = "state",
        /// Working directory of the sub-agent. Cleared means its parent's.
        patch cwd: AbsolutePath<'a> = "cwd",
        /// Additional directories of the sub-agent's workspace. Cleared means its parent's.
        patch additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
    } with patch _meta
}

impl<'a> From<ToolCallUpdate<'a>> for SessionUpdate<'a> {
    fn from(update: ToolCallUpdate<'a>) -> Self {
        SessionUpdate::ToolCallUpdate(Box::new(update))
    }
}

impl<'a> From<TerminalUpdate<'a>> for SessionUpdate<'a> {
    fn from(update: TerminalUpdate<'a>) -> Self {
        SessionUpdate::TerminalUpdate(Box::new(update))
    }
}
