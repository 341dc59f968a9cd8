//! Metadata of updated objects: one dialect of version 2 replaces it as a whole, the other merges it key by
//! key.

use std::collections::HashMap;

use switchboard_acp::{Field, Meta, Text, Wire, v2};

use crate::options::Dialect;

/// Maximum number of objects with tracked metadata, and bytes of it. Above that, all of it is dropped.
const REMEMBERED: usize = 20_000;
const BYTES: usize = 16 * 1024 * 1024;

/// Last known metadata of the agent's objects, by session and object.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    known: HashMap<(String, String), Meta<'static>>,
    bytes: usize,
    /// Set if metadata was dropped since this was last read.
    pub(crate) evicted: bool,
}

impl Metadata {
    /// Returns the number of objects and the bytes of their metadata.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.known.len(), self.bytes)
    }

    /// Adapts the metadata of an update to the other dialect. Returns an update to send before it if one is
    /// needed.
    pub(crate) fn adjust(
        &mut self,
        session: &str,
        update: &mut v2::SessionUpdate<'_>,
        client: Dialect,
    ) -> Option<v2::SessionUpdate<'static>> {
        let key = (session.to_owned(), key_of(update)?);
        let field = field_of(update)?;
        match field {
            Field::Keep => None,
            Field::Clear => {
                self.remove(&key);
                None
            }
            Field::Set(new) => {
                if self.known.len() >= REMEMBERED || self.bytes >= BYTES {
                    *self = Metadata { evicted: true, ..Metadata::default() };
                }
                let had = self.remove(&key);
                match client {
                    // The agent merges, the client replaces: the client gets the merged metadata.
                    Dialect::Spec => {
                        let sum = merge(had.as_ref(), new);
                        self.insert(key, sum.clone());
                        *field = Field::Set(sum);
                        None
                    }
                    // The agent replaces, the client merges: the old metadata is cleared first.
                    Dialect::Newest => {
                        self.insert(key, new.clone().into_owned());
                        had.and_then(|_| emptied(update))
                    }
                }
            }
        }
    }
}

impl Metadata {
    fn insert(&mut self, key: (String, String), meta: Meta<'static>) {
        self.bytes += meta.as_raw().as_str().len();
        self.known.insert(key, meta);
    }

    fn remove(&mut self, key: &(String, String)) -> Option<Meta<'static>> {
        let meta = self.known.remove(key)?;
        self.bytes -= meta.as_raw().as_str().len();
        Some(meta)
    }
}

fn merge(old: Option<&Meta<'_>>, new: &Meta<'_>) -> Meta<'static> {
    let is_null = |value: &switchboard_acp::Raw<'_>| value.as_str() == "null";
    let kept = old.into_iter().flat_map(Meta::entries).filter(|(key, _)| new.get(key).is_none());
    Meta::from_entries(kept.chain(new.entries().filter(|(_, value)| !is_null(value))))
}

fn key_of(update: &v2::SessionUpdate<'_>) -> Option<String> {
    use v2::SessionUpdate as Update;
    let id: &str = match update {
        Update::UserMessage(message) | Update::AgentMessage(message) | Update::AgentThought(message) => {
            &message.message_id
        }
        Update::ToolCallUpdate(call) => &call.tool_call_id,
        Update::TerminalUpdate(terminal) => &terminal.terminal_id,
        Update::CompactionUpdate(compaction) => &compaction.compaction_id,
        Update::SessionInfoUpdate(_) => "",
        _ => return None,
    };
    Some(format!("{} {id}", update.tag()))
}

fn field_of<'u, 'a>(update: &'u mut v2::SessionUpdate<'a>) -> Option<&'u mut Field<Meta<'a>>> {
    use v2::SessionUpdate as Update;
    match update {
        Update::UserMessage(message) | Update::AgentMessage(message) | Update::AgentThought(message) => {
            Some(&mut message.meta)
        }
        Update::ToolCallUpdate(call) => Some(&mut call.meta),
        Update::TerminalUpdate(terminal) => Some(&mut terminal.meta),
        Update::CompactionUpdate(compaction) => Some(&mut compaction.meta),
        Update::SessionInfoUpdate(info) => Some(&mut info.meta),
        _ => None,
    }
}

/// Returns an update of the same object that only clears its metadata.
fn emptied(update: &v2::SessionUpdate<'_>) -> Option<v2::SessionUpdate<'static>> {
    use v2::SessionUpdate as Update;
    let own = |id: &Text<'_>| Text::Owned(id.clone().into_owned());
    let message = |message: &v2::MessageUpdate<'_>| v2::MessageUpdate::new(own(&message.message_id));
    let mut emptied = match update {
        Update::UserMessage(known) => Update::UserMessage(message(known)),
        Update::AgentMessage(known) => Update::AgentMessage(message(known)),
        Update::AgentThought(known) => Update::AgentThought(message(known)),
        Update::ToolCallUpdate(known) => v2::ToolCallUpdate::new(own(&known.tool_call_id)).into(),
        Update::TerminalUpdate(known) => v2::TerminalUpdate::new(own(&known.terminal_id)).into(),
        Update::CompactionUpdate(known) => Update::CompactionUpdate(Box::new(v2::CompactionUpdate::new(
            own(&known.compaction_id),
            known.status.clone(),
        ))),
        Update::SessionInfoUpdate(_) => Update::SessionInfoUpdate(Box::new(v2::SessionInfoUpdate::new())),
        _ => return None,
    };
    *field_of(&mut emptied)? = Field::Clear;
    Some(emptied)
}
