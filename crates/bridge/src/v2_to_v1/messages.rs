//! Messages. Version 1 agents often do not say which chunks belong together.

use switchboard_protocol::{Text, v1, v2};

use super::{Session, tell};
use crate::Side;
use crate::loss::Severity;
use crate::shared::Shared;

/// Who speaks, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Role {
    User,
    Agent,
    Thought,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Agent => "agent",
            Role::Thought => "thought",
        }
    }
}

/// Chunks without an id that follow each other.
#[derive(Debug)]
pub(super) struct Run {
    role: Role,
    id: String,
}

impl Session {
    /// A new id for a message.
    pub(super) fn mint(&mut self, role: Role) -> String {
        let count = self.minted.entry(role).or_default();
        *count += 1;
        format!("b-{}-{}{count}", role.word(), self.salt)
    }

    pub(super) fn chunk(
        &mut self,
        role: Role,
        id: &str,
        chunk: v1::ContentChunk<'_>,
        keeps: bool,
        shared: &mut Shared,
    ) {
        if role == Role::User && self.turn.as_mut().is_some_and(|turn| turn.repeats(&chunk.content)) {
            return;
        }
        let message_id = match chunk.message_id {
            Some(message_id) => {
                self.run = None;
                if role == Role::User && self.counted_user.as_deref() != Some(&*message_id) {
                    // So that no prompt gets a number that was used for another when it was live.
                    *self.minted.entry(Role::User).or_default() += 1;
                    self.counted_user = Some(message_id.clone().into_owned());
                }
                message_id
            }
            None => match &self.run {
                Some(run) if run.role == role => Text::Owned(run.id.clone()),
                _ => {
                    let made = self.mint(role);
                    self.run = Some(Run { role, id: made.clone() });
                    let reason = "where a message begins is inferred, for the agent does not say it";
                    shared.lose(Some(id), "message", "messageId", reason, Severity::Guess, Side::Client);
                    Text::Owned(made)
                }
            },
        };
        let mut wire = v2::ContentChunk::new(message_id, chunk.content);
        (wire.meta, wire.extra) = (chunk.meta, chunk.extra);
        let update = match role {
            Role::User => v2::SessionUpdate::UserMessageChunk(wire),
            Role::Agent => v2::SessionUpdate::AgentMessageChunk(wire),
            Role::Thought => v2::SessionUpdate::AgentThoughtChunk(wire),
        };
        tell(id, self, update, keeps, shared);
    }
}
