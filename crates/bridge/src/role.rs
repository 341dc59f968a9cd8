//! Roles of message senders.

use switchboard_acp::{v1, v2};

/// The sender of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    User,
    Agent,
    /// The agent's reasoning.
    Thought,
}

impl Role {
    /// Returns the role as one word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Agent => "agent",
            Role::Thought => "thought",
        }
    }

    pub(crate) fn chunk_tag(self) -> &'static str {
        match self {
            Role::User => "user_message_chunk",
            Role::Agent => "agent_message_chunk",
            Role::Thought => "agent_thought_chunk",
        }
    }

    pub(crate) fn message_tag(self) -> &'static str {
        match self {
            Role::User => "user_message",
            Role::Agent => "agent_message",
            Role::Thought => "agent_thought",
        }
    }

    pub(crate) fn chunk_v1(self, chunk: v1::ContentChunk<'_>) -> v1::SessionUpdate<'_> {
        match self {
            Role::User => v1::SessionUpdate::UserMessageChunk(chunk),
            Role::Agent => v1::SessionUpdate::AgentMessageChunk(chunk),
            Role::Thought => v1::SessionUpdate::AgentThoughtChunk(chunk),
        }
    }

    pub(crate) fn chunk_v2(self, chunk: v2::ContentChunk<'_>) -> v2::SessionUpdate<'_> {
        match self {
            Role::User => v2::SessionUpdate::UserMessageChunk(chunk),
            Role::Agent => v2::SessionUpdate::AgentMessageChunk(chunk),
            Role::Thought => v2::SessionUpdate::AgentThoughtChunk(chunk),
        }
    }

    pub(crate) fn message_v2(self, message: v2::MessageUpdate<'_>) -> v2::SessionUpdate<'_> {
        match self {
            Role::User => v2::SessionUpdate::UserMessage(message),
            Role::Agent => v2::SessionUpdate::AgentMessage(message),
            Role::Thought => v2::SessionUpdate::AgentThought(message),
        }
    }
}
