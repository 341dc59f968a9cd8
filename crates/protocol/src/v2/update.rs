//! What an agent tells about a session while it goes on.

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
        /// The session.
        required session_id: Text<'a> = "sessionId",
        /// What is new in it.
        required update: SessionUpdate<'a> = "update",
    } with optional _meta
}

union! {
    /// Something new in a session. Updates of unknown kinds are kept and change nothing; version 1's
    /// `tool_call`, `plan` and `current_mode_update` are unknown here.
    SessionUpdate by "sessionUpdate" {
        /// Appends to a message of the user.
        UserMessageChunk(ContentChunk<'a>) = "user_message_chunk",
        /// Creates or changes a message of the user.
        UserMessage(MessageUpdate<'a>) = "user_message",
        /// Appends to a message of the agent.
        AgentMessageChunk(ContentChunk<'a>) = "agent_message_chunk",
        /// Creates or changes a message of the agent.
        AgentMessage(MessageUpdate<'a>) = "agent_message",
        /// Appends to a thought of the agent.
        AgentThoughtChunk(ContentChunk<'a>) = "agent_thought_chunk",
        /// Creates or changes a thought of the agent.
        AgentThought(MessageUpdate<'a>) = "agent_thought",
        /// Whether the session is at work.
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
        /// Takes one of the plans away. **Unstable.**
        PlanRemoved(PlanRemoved<'a>) = "plan_removed" @unstable,
        /// Replaces the list of commands.
        AvailableCommandsUpdate(AvailableCommandsUpdate<'a>) = "available_commands_update",
        /// Replaces the list of configuration options.
        ConfigOptionUpdate(ConfigOptionUpdate<'a>) = "config_option_update",
        /// Changes the title or the time of the session.
        SessionInfoUpdate(Box<SessionInfoUpdate<'a>>) = "session_info_update",
        /// How full the context window is, and what the session has cost.
        UsageUpdate(Box<UsageUpdate<'a>>) = "usage_update",
        /// Something that the user should see once.
        Notice(Box<Notice<'a>>) = "notice" @newest,
        /// Creates or changes the record of a compaction.
        CompactionUpdate(Box<CompactionUpdate<'a>>) = "compaction_update" @newest,
        /// Appends to the summary of a compaction.
        CompactionSummaryChunk(CompactionSummaryChunk<'a>) = "compaction_summary_chunk" @newest,
        /// Announces the session of a sub-agent, or changes what the session that started it tells of it. **Unstable.**
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
        /// The plan, whole.
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

/// The `spec` dialect reserves two kinds of plans for experiments, and refuses them.
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
        /// The plan; one that was not heard of yet is new.
        required plan_id: Text<'a> = "planId",
        /// All steps.
        required entries: Vec<PlanEntry<'a>> = "entries",
    } with optional _meta
}

object! {
    /// Replaces the list of commands.
    AvailableCommandsUpdate {
        /// All commands that the user can give.
        required available_commands: Vec<AvailableCommand<'a>> = "availableCommands",
    } with optional _meta
}

object! {
    /// Replaces the list of configuration options.
    ConfigOptionUpdate {
        /// All that the user can set for the session.
        required config_options: Vec<SessionConfigOption<'a>> = "configOptions",
    } with optional _meta
}

object! {
    /// Announces the session of a sub-agent, or changes what the session that started it tells of it. **Unstable.**
    SubagentUpdate {
        /// The session of the sub-agent; one that was not heard of yet is new.
        required session_id: Text<'a> = "sessionId",
        /// What people know the sub-agent by.
        patch title: Text<'a> = "title",
        /// What the sub-agent is for.
        patch description: Text<'a> = "description",
        /// What the client may ask of the sub-agent's session by itself.
        patch capabilities: SubagentSessionCapabilities<'a> = "capabilities",
        /// Whether the sub-agent is at work, as its own session tells, too. Cleared: not known.
        patch state: StateUpdate<'a> = "state",
        /// The directory that the sub-agent works in; cleared: that of the session that started it.
        patch cwd: AbsolutePath<'a> = "cwd",
        /// More directories of the sub-agent's workspace; cleared: those of the session that started it.
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
