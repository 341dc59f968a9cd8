//! An entry as the update that makes it.

use switchboard_protocol::{AbsolutePath, Field, v2};

use crate::content::{Block, Content};
use crate::entry::{Entry, EntryKind};
use crate::patch::set;

impl Entry {
    /// The one update that makes this entry in a session that does not have it. Only the metadata of single
    /// chunks is not in it.
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

fn set_content<B: Block>(content: &Content<B>) -> Field<Vec<B::Wire<'_>>> {
    set((!content.is_empty()).then(|| content.blocks().collect()))
}
