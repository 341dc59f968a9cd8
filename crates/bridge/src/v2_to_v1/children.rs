//! Sub-agents. Version 1 tells of their states in the session that they belong to only, version 2 also in their own.

use switchboard_acp::{Field, Wire, v1, v2};
use switchboard_session::MAX_ANCESTORS;

use super::{Session, V2ToV1};
use crate::convert::subagent;

/// What is to be done with what comes of a session.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Hearing {
    /// What was said is not to be told again: it comes because that of another session was asked for.
    pub(super) swallows: bool,
    /// It is its history, or comes with that of another.
    pub(super) replays: bool,
    /// Its client waits for a turn.
    pub(super) waits: bool,
}

impl V2ToV1 {
    /// A session tells of a sub-agent. Gives what that is at, to be told in its own session.
    pub(super) fn child_told(
        &mut self,
        parent: &str,
        update: &v1::unstable::SubagentUpdate<'_>,
    ) -> Option<(String, v2::StateUpdate<'static>)> {
        let id = &*update.session_id;
        let is_new = self.sessions.get(id).is_none_or(|child| child.parent.is_none());
        // A circle would have a session say that it is at work in itself.
        if id == parent || (is_new && self.lineage(parent).iter().any(|above| above == id)) {
            return None;
        }
        let child = self.sessions.open(id);
        child.parent.get_or_insert_with(|| parent.to_owned());
        let Field::Set(state) = subagent::to_v2(update.clone()).state else { return None };
        child.is_child_at_work = !matches!(state, v2::StateUpdate::Idle(_));
        Some((id.to_owned(), state.into_owned()))
    }

    /// The sessions that one belongs to.
    fn lineage(&self, id: &str) -> Vec<String> {
        let above = |id: &String| self.sessions.get(id)?.parent.clone();
        std::iter::successors(above(&id.to_owned()), above).take(MAX_ANCESTORS).collect()
    }

    /// What is to be done with what comes of a session now.
    pub(super) fn hearing(&self, id: &str) -> Hearing {
        let Some(session) = self.sessions.get(id) else { return Hearing::default() };
        let waits = session.turn.is_some();
        if session.parent.is_none() {
            return Hearing { swallows: session.swallows, replays: session.replays, waits };
        }
        let above = self.lineage(id);
        let family: Vec<&Session> =
            above.iter().filter_map(|id| self.sessions.get(id)).chain([session]).collect();
        let swallows = family.iter().any(|session| session.swallows);
        Hearing { swallows, replays: family.iter().any(|session| session.replays), waits }
    }

    /// The sub-agents of a session, and theirs.
    pub(super) fn below(&self, id: &str) -> Vec<String> {
        let is_below = |child: &String| self.lineage(child).iter().any(|above| above == id);
        self.sessions.ids().into_iter().filter(is_below).collect()
    }

    /// What the client was told of the sub-agents of a session, for agents that cannot replay it.
    pub(super) fn told_of_children(&self, id: &str) -> Vec<String> {
        self.below(id)
            .iter()
            .filter_map(|child| self.sessions.get(child))
            .flat_map(|child| child.journal.lines.clone())
            .collect()
    }
}
