//! Conversion of an entry to an update.

use switchboard_acp::{AbsolutePath, Field, v2};

use crate::content::{Block, Content};
use crate::entry::{Entry, EntryKind};
use crate::patch::set;

impl Entry {
    /// Returns the update that creates this entry in an empty session. Does not include the metadata of
    /// single chunks.
    pub fn to_update(&self) -> v2::SessionUpdate<'_> {
        let head = self.head();
        match self {
            Entry::Message(message) => {
                let update = v2::MessageUpdate {
                    content: set_content(&message.content),
                    meta: set(head.meta().cloned()),
                    extra: head.extra().clone(),
                    ..v2::MessageUpdate::new(self.id())
                };
                match head.kind {
                    EntryKind::UserMessage => v2::SessionUpdate::UserMessage(update),
                    EntryKind::AgentThought => v2::SessionUpdate::AgentThought(update),
                    _ => v2::SessionUpdate::AgentMessage(update),
                }
            }
            Entry::ToolCall(call) => v2::SessionUpdate::from(v2::ToolCallUpdate {
                name: set(call.name().map(Into::into)),
                title: set(call.title().map(Into::into)),
                kind: Field::Set(call.kind.clone()),
                status: Field::Set(call.status.clone()),
                content: set_content(&call.content),
                locations: set(call.locations.as_ref().map(|locations| locations.to_vec())),
                raw_input: set(call.raw_input().cloned()),
                raw_output: set(call.raw_output().cloned()),
                capabilities: set(call.capabilities().cloned()),
                meta: set(head.meta().cloned()),
                extra: head.extra().clone(),
                ..v2::ToolCallUpdate::new(self.id())
            }),
            Entry::Terminal(terminal) => {
                let output = (!terminal.has_no_output()).then(|| terminal.wire_output());
                v2::SessionUpdate::from(v2::TerminalUpdate {
                    command: set(terminal.command().map(Into::into)),
                    cwd: set(terminal.cwd().map(AbsolutePath::as_sent)),
                    output: set(output),
                    exit_status: set(terminal.exit_status().cloned()),
                    size: set(terminal.size().cloned()),
                    capabilities: set(terminal.capabilities().cloned()),
                    meta: set(head.meta().cloned()),
                    extra: head.extra().clone(),
                    ..v2::TerminalUpdate::new(self.id())
                })
            }
            Entry::Subagent(subagent) => {
                let directories = subagent.additional_directories().map(<[_]>::to_vec);
                v2::SessionUpdate::SubagentUpdate(Box::new(v2::unstable::SubagentUpdate {
                    session_id: self.id().into(),
                    title: set(subagent.title().map(Into::into)),
                    description: set(subagent.description().map(Into::into)),
                    capabilities: set(subagent.capabilities().cloned()),
                    state: set(subagent.state().cloned()),
                    cwd: set(subagent.cwd().map(AbsolutePath::as_sent)),
                    additional_directories: set(directories),
                    meta: set(head.meta().cloned()),
                    extra: head.extra().clone(),
                    more: switchboard_acp::More,
                }))
            }
            Entry::SessionMessage(message) => {
                v2::SessionUpdate::SessionMessage(Box::new(v2::unstable::SessionMessage {
                    message_id: self.id().into(),
                    sender_session_id: set(message.sender().map(Into::into)),
                    recipient_session_id: set(message.recipient().map(Into::into)),
                    sender_message_id: set(message.sender_message().map(Into::into)),
                    recipient_message_id: set(message.recipient_message().map(Into::into)),
                    content: set_content(&message.content),
                    meta: set(head.meta().cloned()),
                    extra: head.extra().clone(),
                    more: switchboard_acp::More,
                }))
            }
            Entry::Compaction(compaction) => {
                v2::SessionUpdate::CompactionUpdate(Box::new(v2::CompactionUpdate {
                    summary: set_content(&compaction.summary),
                    error: set(compaction.error().map(Into::into)),
                    meta: set(head.meta().cloned()),
                    extra: head.extra().clone(),
                    ..v2::CompactionUpdate::new(self.id(), compaction.status.clone())
                }))
            }
        }
    }
}

/// Returns the entry that an update concerns: its kind and its id.
///
/// ```
/// use switchboard_acp::v2;
/// use switchboard_session::{EntryKind, entry_of_update};
///
/// let update = v2::SessionUpdate::from(v2::ToolCallUpdate::new("c-1"));
/// assert_eq!(entry_of_update(&update), Some((EntryKind::ToolCall, "c-1")));
/// ```
pub fn entry_of_update<'u>(update: &'u v2::SessionUpdate<'_>) -> Option<(EntryKind, &'u str)> {
    use v2::SessionUpdate as Update;
    Some(match update {
        Update::UserMessage(message) => (EntryKind::UserMessage, &message.message_id),
        Update::UserMessageChunk(chunk) => (EntryKind::UserMessage, &chunk.message_id),
        Update::AgentMessage(message) => (EntryKind::AgentMessage, &message.message_id),
        Update::AgentMessageChunk(chunk) => (EntryKind::AgentMessage, &chunk.message_id),
        Update::AgentThought(message) => (EntryKind::AgentThought, &message.message_id),
        Update::AgentThoughtChunk(chunk) => (EntryKind::AgentThought, &chunk.message_id),
        Update::ToolCallUpdate(call) => (EntryKind::ToolCall, &call.tool_call_id),
        Update::ToolCallContentChunk(chunk) => (EntryKind::ToolCall, &chunk.tool_call_id),
        Update::TerminalUpdate(terminal) => (EntryKind::Terminal, &terminal.terminal_id),
        Update::TerminalOutputChunk(chunk) => (EntryKind::Terminal, &chunk.terminal_id),
        Update::CompactionUpdate(compaction) => (EntryKind::Compaction, &compaction.compaction_id),
        Update::CompactionSummaryChunk(chunk) => (EntryKind::Compaction, &chunk.compaction_id),
        Update::SubagentUpdate(subagent) => (EntryKind::Subagent, &subagent.session_id),
        Update::SessionMessage(message) => (EntryKind::SessionMessage, &message.message_id),
        Update::SessionMessageChunk(chunk) => (EntryKind::SessionMessage, &chunk.message_id),
        Update::SessionInfoUpdate(_)
        | Update::StateUpdate(_)
        | Update::PlanUpdate(_)
        | Update::PlanRemoved(_)
        | Update::AvailableCommandsUpdate(_)
        | Update::ConfigOptionUpdate(_)
        | Update::UsageUpdate(_)
        | Update::Notice(_)
        | Update::Unknown(_) => return None,
        Update::More(none) => none.never(),
    })
}

fn set_content<B: Block>(content: &Content<B>) -> Field<Vec<B::Wire<'_>>> {
    set((!content.is_empty()).then(|| content.blocks().collect()))
}
