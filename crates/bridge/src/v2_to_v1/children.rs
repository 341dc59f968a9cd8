//! Sub-agents. Version 1 tells of their states in the session that they belong to only, version 2 also in their own. Whose
//! they are is what the [`SubagentTree`](switchboard_session::SubagentTree) says.

use std::sync::Arc;

use switchboard_acp::{Field, Wire, v1, v2};
use switchboard_session::NotLinked;

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
        let update = v2::SessionUpdate::SubagentUpdate(Box::new(subagent::to_v2(update.clone())));
        let linked = self.subagents.apply(parent, &update);
        // A circle would have a session say that it is at work in itself.
        if linked.iter().any(|linked| linked.place == Err(NotLinked::Circle)) {
            return None;
        }
        let v2::SessionUpdate::SubagentUpdate(update) = update else { return None };
        let id = update.session_id.into_owned();
        self.sessions.open(&id);
        let Field::Set(state) = update.state else { return None };
        Some((id, state.into_owned()))
    }

    /// What is to be done with what comes of a session now.
    pub(super) fn hearing(&self, id: &str) -> Hearing {
        let Some(session) = self.sessions.get(id) else { return Hearing::default() };
        let waits = session.turn.is_some();
        let above = self.subagents.ancestors(id).filter_map(|above| self.sessions.get(&above.session));
        let own = Hearing { swallows: session.swallows, replays: session.replays, waits };
        above.fold(own, |hearing, above: &Session| Hearing {
            swallows: hearing.swallows || above.swallows,
            replays: hearing.replays || above.replays,
            waits,
        })
    }

    /// The sub-agents of a session, and theirs.
    pub(super) fn below(&self, id: &str) -> Vec<Arc<str>> {
        self.subagents.descendants(id)
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
