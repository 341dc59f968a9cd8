//! Messages and thoughts of an agent.

use std::sync::Arc;

use switchboard_acp::{Field, Meta, v2};

use super::sending::Emitter;
use crate::Error;

/// A message or a thought that is being written.
#[derive(Debug)]
pub struct Message {
    emitter: Emitter,
    id: Arc<str>,
    is_thought: bool,
}

impl Message {
    pub(super) fn new(emitter: Emitter, is_thought: bool) -> Self {
        let id = emitter.core.make_id(if is_thought { "thought" } else { "message" });
        Message { emitter, id, is_thought }
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Appends text.
    pub async fn text(&self, text: &str) -> Result<(), Error> {
        self.append(v2::ContentBlock::text(text)).await
    }

    /// Appends content of any kind.
    pub async fn append(&self, content: v2::ContentBlock<'_>) -> Result<(), Error> {
        let chunk = v2::ContentChunk::new(&*self.id, content);
        let update = if self.is_thought {
            v2::SessionUpdate::AgentThoughtChunk(chunk)
        } else {
            v2::SessionUpdate::AgentMessageChunk(chunk)
        };
        self.emitter.say(update).await
    }

    /// Replaces the content.
    pub async fn replace(&self, content: Vec<v2::ContentBlock<'_>>) -> Result<(), Error> {
        self.update(Field::Set(content), Field::Keep).await
    }

    /// Clears the content.
    pub async fn clear(&self) -> Result<(), Error> {
        self.update(Field::Clear, Field::Keep).await
    }

    /// Changes content and metadata, each of which may be kept.
    pub async fn update(
        &self,
        content: Field<Vec<v2::ContentBlock<'_>>>,
        meta: Field<Meta<'_>>,
    ) -> Result<(), Error> {
        let update = v2::MessageUpdate { content, meta, ..v2::MessageUpdate::new(&*self.id) };
        let update = if self.is_thought {
            v2::SessionUpdate::AgentThought(update)
        } else {
            v2::SessionUpdate::AgentMessage(update)
        };
        self.emitter.say(update).await
    }
}
