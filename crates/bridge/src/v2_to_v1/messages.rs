//! Messages. Version 1 agents often do not say which chunks belong together.

use switchboard_protocol::{Text, v1, v2};

use super::{Session, tell};
use crate::Side;
use crate::convert::message::chunk_to_v2;
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

    pub(super) fn chunk_tag(self) -> &'static str {
        match self {
            Role::User => "user_message_chunk",
            Role::Agent => "agent_message_chunk",
            Role::Thought => "agent_thought_chunk",
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
        let salt = &self.salt;
        let next = || {
            *count += 1;
            format!("b-{}-{salt}{count}", role.word())
        };
        // Those of the agent that look like ours are counted.
        self.own_messages.make(next, |_| false)
    }

    /// An id of the agent. One that looks like ours is not made any more.
    fn take_id<'a>(&mut self, role: Role, id: Text<'a>) -> Text<'a> {
        if self.own_messages.contains(&id) {
            return self.own_messages.set_apart(id);
        }
        let number = id
            .strip_prefix("b-")
            .and_then(|rest| rest.strip_prefix(role.word())?.strip_prefix('-')?.strip_prefix(&*self.salt))
            .and_then(|number| number.parse::<u64>().ok());
        if let Some(number) = number {
            let count = self.minted.entry(role).or_default();
            *count = number.max(*count);
        }
        id
    }

    pub(super) fn chunk(
        &mut self,
        role: Role,
        id: &str,
        mut chunk: v1::ContentChunk<'_>,
        keeps: bool,
        shared: &mut Shared,
    ) {
        if role == Role::User
            && let Some(turn) = &mut self.turn
            && turn.repeats(&chunk.content)
        {
            return turn.lose_echo(id, chunk, shared);
        }
        let message_id = match chunk.message_id.take() {
            Some(message_id) => {
                self.run = None;
                let message_id = self.take_id(role, message_id);
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
                    shared.lose(
                        Some(id),
                        "message",
                        "/params/update/messageId",
                        reason,
                        Severity::Guess,
                        Side::Client,
                    );
                    Text::Owned(made)
                }
            },
        };
        chunk.message_id = Some(message_id);
        let tag = role.chunk_tag();
        let Some(wire) = shared.convert_update(id, tag, |cx| chunk_to_v2(chunk, cx)) else { return };
        let update = match role {
            Role::User => v2::SessionUpdate::UserMessageChunk(wire),
            Role::Agent => v2::SessionUpdate::AgentMessageChunk(wire),
            Role::Thought => v2::SessionUpdate::AgentThoughtChunk(wire),
        };
        tell(id, self, update, keeps, shared);
    }
}
