//! Metadata of things that are updated: one dialect of version 2 replaces it as a whole, the other merges it key
//! by key.

use std::collections::HashMap;

use switchboard_acp::{Field, Meta, Text, Wire, v2};

use crate::options::Dialect;

/// How many things with metadata are remembered, and bytes of it; past that, all are forgotten.
const REMEMBERED: usize = 20_000;
const BYTES: usize = 16 * 1024 * 1024;

/// The metadata that the agent's things have, by session and thing.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    known: HashMap<(String, String), Meta<'static>>,
    bytes: usize,
    /// Whether something is forgotten, since that was last asked.
    pub(crate) forgets: bool,
}

impl Metadata {
    /// Of how many things it is, and its bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.known.len(), self.bytes)
    }

    /// Makes an update of one dialect mean the same in the other. Gives an update to be sent before it, if need be.
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
                    *self = Metadata { forgets: true, ..Metadata::default() };
                }
                let had = self.remove(&key);
                match client {
                    // The agent merges, the client replaces: it gets the sum.
                    Dialect::Spec => {
                        let sum = merge(had.as_ref(), new);
                        self.insert(key, sum.clone());
                        *field = Field::Set(sum);
                        None
                    }
                    // The agent replaces, the client merges: what was there goes first.
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

/// An update of the same thing that only clears its metadata.
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
