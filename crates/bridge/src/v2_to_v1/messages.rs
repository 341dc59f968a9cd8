//! Messages. Version 1 agents often do not say which chunks belong together.

use std::hash::BuildHasher;

use switchboard_acp::{Extra, Field, Text, v1, v2};

use super::{Active, Session};
use crate::Side;
use crate::convert::message::chunk_to_v2;
use crate::loss::Severity;
use crate::map::HashSet;
use crate::role::Role;

/// How many ids of user messages are remembered.
const USER_IDS: usize = 256;
/// How many messages of a replay are remembered.
const BEGUN: usize = 100_000;

/// Chunks without an id that follow each other.
#[derive(Debug)]
pub(super) struct Run {
    role: Role,
    id: String,
}

/// The messages that a replay has begun. A client may still show them from before, so the first chunk comes after an empty
/// message, which replaces what it shows.
#[derive(Debug, Default)]
pub(super) struct Begun {
    /// Hashes, for ids are as long as the agent likes.
    messages: HashSet<u64>,
    /// Which have begun is not known any more. None begins then, because that would take away what was told of it.
    is_forgotten: bool,
}

impl Begun {
    pub(super) fn forgotten() -> Self {
        Begun { is_forgotten: true, ..Begun::default() }
    }

    /// Whether a message begins here.
    pub(super) fn begins(&mut self, role: Role, id: &str) -> bool {
        if self.messages.len() >= BEGUN {
            *self = Begun::forgotten();
        }
        let hash = self.messages.hasher().hash_one((role, id));
        !self.is_forgotten && self.messages.insert(hash)
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }
}

impl Session {
    /// A new id for a message. `bridge` distinguishes this bridge from others of the same session.
    pub(super) fn mint(&mut self, bridge: &str, role: Role) -> String {
        let count = self.minted.entry(role).or_default();
        let salt = &self.salt;
        let next = || {
            *count += 1;
            format!("b-{}-{bridge}{salt}{count}", role.word())
        };
        // Those of the agent that look like ours are counted.
        self.own_messages.make(next, |_| false)
    }

    /// An id of the agent for what it says. One that looks like ours is not made any more.
    fn take_id<'a>(&mut self, bridge: &str, role: Role, id: Text<'a>) -> Text<'a> {
        if self.own_messages.contains(&id) {
            return self.own_messages.set_apart(id);
        }
        let counted = |id: &str| {
            let rest = id.strip_prefix("b-")?.strip_prefix(role.word())?.strip_prefix('-')?;
            rest.strip_prefix(bridge)?.strip_prefix(&*self.salt)?.parse::<u64>().ok()
        };
        let number = counted(&id);
        if let Some(number) = number {
            let count = self.minted.entry(role).or_default();
            *count = number.max(*count);
        }
        id
    }

    /// The id of a user message for the client, and counts it. Prompts get theirs before the agent names them. In a replay it
    /// is the one that was told, and the one that was counted where that is not known.
    fn user_id(&mut self, bridge: &str, theirs: &str, replays: bool) -> String {
        let known =
            self.user_ids.iter().rev().find(|(known, _)| known == theirs).map(|(_, ours)| ours.clone());
        if known.is_none() && replays {
            let ours = self.mint(bridge, Role::User);
            self.know_user_id(theirs, ours.clone());
            return ours;
        }
        if self.counted_user.as_deref() != Some(theirs) {
            // So that no prompt gets a number that was used for another when it was live.
            *self.minted.entry(Role::User).or_default() += 1;
        }
        let ours = known.unwrap_or_else(|| self.take_id(bridge, Role::User, theirs.into()).into_owned());
        self.know_user_id(theirs, ours.clone());
        ours
    }

    /// A user message that was counted has these ids.
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
        if role == Role::User
            && let Some(turn) = &mut self.session.turn
            && turn.repeats(&chunk.content)
        {
            let named = chunk.message_id.as_deref().map(|id| (id.to_owned(), turn.message_id().to_owned()));
            turn.lose_echo(self.id, chunk, self.context);
            if let Some((theirs, ours)) = named {
                self.session.know_user_id(&theirs, ours);
            }
            return;
        }
        let bridge = &*self.context.salt;
        let message_id = match chunk.message_id.take() {
            Some(message_id) => {
                self.session.run = None;
                match role {
                    Role::User => Text::Owned(self.session.user_id(bridge, &message_id, self.replays)),
                    Role::Agent | Role::Thought => self.session.take_id(bridge, role, message_id),
                }
            }
            None => match &self.session.run {
                Some(run) if run.role == role => Text::Owned(run.id.clone()),
                _ => {
                    let made = self.session.mint(bridge, role);
                    self.session.run = Some(Run { role, id: made.clone() });
                    let reason = "where a message begins is inferred, for the agent does not say it";
                    self.lose("message", "/params/update/messageId", reason, Severity::Guess);
                    Text::Owned(made)
                }
            },
        };
        let begins = (self.replays || self.keeps) && self.session.begun.begins(role, &message_id);
        let empty = begins.then(|| v2::MessageUpdate::new(message_id.clone().into_owned()));
        chunk.message_id = Some(message_id);
        let tag = role.chunk_tag();
        let Some(wire) = self.context.convert_update(self.id, tag, |cx| chunk_to_v2(chunk, cx)) else {
            return;
        };
        if let Some(empty) = empty {
            self.begin_message(role, empty);
        }
        self.tell(role.chunk_v2(wire));
    }

    /// Tells that a message of a replay begins, now or when what is kept is told again.
    fn begin_message(&mut self, role: Role, mut message: v2::MessageUpdate<'_>) {
        message.content = Field::Set(Vec::new());
        let update = role.message_v2(message);
        let params = v2::UpdateSessionNotification::new(self.id, update);
        let line = self.context.call_line(Side::Client, "session/update", &params, &Extra::new());
        if self.keeps {
            self.session.journal.add(&line);
        } else {
            self.context.send(Side::Client, line);
        }
    }
}
