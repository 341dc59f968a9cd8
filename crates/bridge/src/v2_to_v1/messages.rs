//! Messages. Version 1 agents often do not mark which chunks belong together.

use std::hash::BuildHasher;

use switchboard_acp::{Extra, Field, Text, v1, v2};

use super::{Active, Session};
use crate::Side;
use crate::convert::message::chunk_to_v2;
use crate::loss::Severity;
use crate::map::HashSet;
use crate::role::Role;

/// Maximum number of tracked user message ids.
const USER_IDS: usize = 256;
/// Maximum number of tracked messages of a replay.
const BEGUN: usize = 100_000;

/// Consecutive chunks without a message id.
#[derive(Debug)]
pub(super) struct ChunkRun {
    role: Role,
    id: String,
}

/// Messages that a replay has started. The client may still show them from before, so an empty message that
/// replaces the old content precedes the first chunk.
#[derive(Debug, Default)]
pub(super) struct StartedMessages {
    /// Hashes, because the length of ids is not limited.
    messages: HashSet<u64>,
    /// Set if the list was dropped. No message is started then, because that would erase its content.
    is_forgotten: bool,
}

impl StartedMessages {
    pub(super) fn forgotten() -> Self {
        StartedMessages { is_forgotten: true, ..StartedMessages::default() }
    }

    /// Returns whether this is the first chunk of a message.
    pub(super) fn begins(&mut self, role: Role, id: &str) -> bool {
        // Above the limit the list is given up: erasing content would be worse than showing it twice.
        if self.messages.len() >= BEGUN {
            *self = StartedMessages::forgotten();
        }
        let hash = self.messages.hasher().hash_one((role, id));
        !self.is_forgotten && self.messages.insert(hash)
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }
}

impl Session {
    /// Creates an id for a message. `bridge` distinguishes this bridge from others of the same session.
    pub(super) fn mint(&mut self, bridge: &str, role: Role) -> String {
        let count = self.minted.entry(role).or_default();
        let salt = &self.salt;
        let next = || {
            *count += 1;
            format!("b-{}-{bridge}{salt}{count}", role.word())
        };
        // Ids of the agent that look like the bridge's are counted in `take_id`.
        self.own_messages.make(next, |_| false)
    }

    /// Returns the client's id for a message id of the agent. An id that looks like the bridge's is not
    /// created any more.
    fn take_id<'a>(&mut self, bridge: &str, role: Role, id: Text<'a>) -> Text<'a> {
        // The agent uses an id that the bridge created before.
        if self.own_messages.contains(&id) {
            return self.own_messages.disambiguate(id);
        }
        let counted = |id: &str| {
            let rest = id.strip_prefix("b-")?.strip_prefix(role.word())?.strip_prefix('-')?;
            rest.strip_prefix(bridge)?.strip_prefix(&*self.salt)?.parse::<u64>().ok()
        };
        let number = counted(&id);
        // Continue after the agent's number, so that the next created id is free.
        if let Some(number) = number {
            let count = self.minted.entry(role).or_default();
            *count = number.max(*count);
        }
        id
    }

    /// Returns the client's id for a user message and counts it. A prompt gets its id before the agent names
    /// it. A replay reuses the id of the live message if it is known, else the next counted one.
    fn user_id(&mut self, bridge: &str, theirs: &str, replays: bool) -> String {
        let known =
            self.user_ids.iter().rev().find(|(known, _)| known == theirs).map(|(_, ours)| ours.clone());
        // Without a known id, the count of the live messages gives the same id again.
        if known.is_none() && replays {
            let ours = self.mint(bridge, Role::User);
            self.know_user_id(theirs, ours.clone());
            return ours;
        }
        // Chunks of the same message are counted once.
        if self.counted_user.as_deref() != Some(theirs) {
            // Keep counting, so that no new prompt reuses the number of a live one.
            *self.minted.entry(Role::User).or_default() += 1;
        }
        let ours = known.unwrap_or_else(|| self.take_id(bridge, Role::User, theirs.into()).into_owned());
        self.know_user_id(theirs, ours.clone());
        ours
    }

    /// Stores the ids of a counted user message.
    fn know_user_id(&mut self, theirs: &str, ours: String) {
        self.counted_user = Some(theirs.to_owned());
        if self.user_ids.iter().any(|(known, _)| known == theirs) {
            return;
        }
        if self.user_ids.len() >= USER_IDS {
            self.user_ids.pop_front();
        }
        self.user_ids.push_back((theirs.to_owned(), ours));
    }
}

impl Active<'_> {
    pub(super) fn chunk(&mut self, role: Role, mut chunk: v1::ContentChunk<'_>) {
        // The client already has its prompt from the acceptance.
        if role == Role::User
            && let Some(turn) = &mut self.session.turn
            && turn.repeats(&chunk.content)
        {
            let named = chunk.message_id.as_deref().map(|id| (id.to_owned(), turn.message_id().to_owned()));
            turn.report_lost_echo(self.id, chunk, self.context);
            // The agent's id stands for the prompt from now on, for example in a replay.
            if let Some((theirs, ours)) = named {
                self.session.know_user_id(&theirs, ours);
            }
            return;
        }
        let bridge = &*self.context.salt;
        let message_id = match chunk.message_id.take() {
            Some(message_id) => {
                // A message with an id ends a run of chunks without ids.
                self.session.run = None;
                match role {
                    Role::User => Text::Owned(self.session.user_id(bridge, &message_id, self.replays)),
                    Role::Agent | Role::Thought => self.session.take_id(bridge, role, message_id),
                }
            }
            None => match &self.session.run {
                // Chunks of the same role without ids belong to the same message until something else
                // happens.
                Some(run) if run.role == role => Text::Owned(run.id.clone()),
                _ => {
                    let made = self.session.mint(bridge, role);
                    self.session.run = Some(ChunkRun { role, id: made.clone() });
                    let reason = "the agent does not mark where a message begins; it is inferred";
                    self.report_loss("message", "/params/update/messageId", reason, Severity::Guess);
                    Text::Owned(made)
                }
            },
        };
        // Converted first: an empty message without its chunk would only erase content.
        let begins = (self.replays || self.keeps) && self.session.started.begins(role, &message_id);
        let empty = begins.then(|| v2::MessageUpdate::new(message_id.clone().into_owned()));
        chunk.message_id = Some(message_id);
        let tag = role.chunk_tag();
        let Some(wire) = self.context.convert_update(self.id, tag, |cx| chunk_to_v2(chunk, cx)) else {
            return;
        };
        // Directly before the first chunk.
        if let Some(empty) = empty {
            self.begin_message(role, empty);
        }
        self.tell(role.chunk_v2(wire));
    }

    /// Sends or stores the start of a replayed message.
    fn begin_message(&mut self, role: Role, mut message: v2::MessageUpdate<'_>) {
        message.content = Field::Set(Vec::new());
        let update = role.message_v2(message);
        let params = v2::UpdateSessionNotification::new(self.id, update);
        let line = self.context.call_line(Side::Client, "session/update", &params, &Extra::new());
        // For agents that cannot replay, the journal is sent later; the client has the live message now.
        if self.keeps {
            self.session.journal.add(&line);
        } else {
            self.context.send(Side::Client, line);
        }
    }
}
