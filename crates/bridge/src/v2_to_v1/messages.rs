//! Messages. Version 1 agents often do not say which chunks belong together.

use switchboard_protocol::{Text, v1};

use super::{Active, Session};
use crate::convert::message::chunk_to_v2;
use crate::loss::Severity;
use crate::role::Role;

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
}

impl Active<'_> {
    pub(super) fn chunk(&mut self, role: Role, mut chunk: v1::ContentChunk<'_>) {
        if role == Role::User
            && let Some(turn) = &mut self.session.turn
            && turn.repeats(&chunk.content)
        {
            return turn.lose_echo(self.id, chunk, self.context);
        }
        let message_id = match chunk.message_id.take() {
            Some(message_id) => {
                self.session.run = None;
                let message_id = self.session.take_id(role, message_id);
                if role == Role::User && self.session.counted_user.as_deref() != Some(&*message_id) {
                    // So that no prompt gets a number that was used for another when it was live.
                    *self.session.minted.entry(Role::User).or_default() += 1;
                    self.session.counted_user = Some(message_id.clone().into_owned());
                }
                message_id
            }
            None => match &self.session.run {
                Some(run) if run.role == role => Text::Owned(run.id.clone()),
                _ => {
                    let made = self.session.mint(role);
                    self.session.run = Some(Run { role, id: made.clone() });
                    let reason = "where a message begins is inferred, for the agent does not say it";
                    self.lose("message", "/params/update/messageId", reason, Severity::Guess);
                    Text::Owned(made)
                }
            },
        };
        chunk.message_id = Some(message_id);
        let tag = role.chunk_tag();
        let Some(wire) = self.context.convert_update(self.id, tag, |cx| chunk_to_v2(chunk, cx)) else {
            return;
        };
        self.tell(role.chunk_v2(wire));
    }
}
