//! What an agent tells about a session while it goes on.

use serde_json::{Value, json};

use crate::error::Read;
use crate::json::reader::Reader;
use crate::macros::{object, union};
use crate::v2::*;
use crate::{Meta, Text, WireFormat};

object! {
    /// One update of a session.
    UpdateSessionNotification {
        required session_id: Text<'a> = "sessionId",
        required update: SessionUpdate<'a> = "update",
        optional meta: Meta<'a> = "_meta",
    }
}

union! {
    /// Something new in a session. Updates of unknown kinds are kept and change nothing; version 1's
    /// `tool_call`, `plan` and `current_mode_update` are unknown here.
    SessionUpdate by "sessionUpdate" {
        UserMessageChunk(ContentChunk<'a>) = "user_message_chunk",
        UserMessage(MessageUpdate<'a>) = "user_message",
        AgentMessageChunk(ContentChunk<'a>) = "agent_message_chunk",
        AgentMessage(MessageUpdate<'a>) = "agent_message",
        AgentThoughtChunk(ContentChunk<'a>) = "agent_thought_chunk",
        AgentThought(MessageUpdate<'a>) = "agent_thought",
        StateUpdate(Box<StateUpdate<'a>>) = "state_update",
        ToolCallContentChunk(ToolCallContentChunk<'a>) = "tool_call_content_chunk",
        ToolCallUpdate(Box<ToolCallUpdate<'a>>) = "tool_call_update",
        TerminalUpdate(Box<TerminalUpdate<'a>>) = "terminal_update" @newest,
        TerminalOutputChunk(TerminalOutputChunk<'a>) = "terminal_output_chunk" @newest,
        PlanUpdate(Box<PlanUpdate<'a>>) = "plan_update",
        AvailableCommandsUpdate(AvailableCommandsUpdate<'a>) = "available_commands_update",
        ConfigOptionUpdate(ConfigOptionUpdate<'a>) = "config_option_update",
        SessionInfoUpdate(Box<SessionInfoUpdate<'a>>) = "session_info_update",
        UsageUpdate(Box<UsageUpdate<'a>>) = "usage_update",
        Notice(Box<Notice<'a>>) = "notice" @newest,
        CompactionUpdate(Box<CompactionUpdate<'a>>) = "compaction_update" @newest,
        CompactionSummaryChunk(CompactionSummaryChunk<'a>) = "compaction_summary_chunk" @newest,
    }
}

object! {
    /// Replaces a plan.
    PlanUpdate {
        required plan: PlanUpdateContent<'a> = "plan",
        optional meta: Meta<'a> = "_meta",
    }
}

union! {
    /// A plan.
    PlanUpdateContent by "type" requires ["planId"] rules no_unstable_plan shape refuse_unstable_plans {
        Items(PlanItems<'a>) = "items",
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
        schema["not"] = json!({"properties": {"type": {"enum": ["file", "markdown"]}}});
    }
}

object! {
    /// A plan as a list of steps.
    PlanItems {
        required plan_id: Text<'a> = "planId",
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
    /// Replaces the list of configuration options.
    ConfigOptionUpdate {
        required config_options: Vec<SessionConfigOption<'a>> = "configOptions",
        optional meta: Meta<'a> = "_meta",
    }
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
