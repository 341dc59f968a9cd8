//! Sub-agents. Version 1 reports their states only in the parent's session, version 2 also in their own. The
//! [`SubagentTree`](switchboard_session::SubagentTree) determines their parents.

use std::sync::Arc;

use switchboard_acp::{Field, Wire, v1, v2};
use switchboard_session::NotLinked;

use super::{Session, V2ToV1};
use crate::convert::subagent;

/// Treatment of updates of a session.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UpdateTreatment {
    /// Its history is suppressed, because the replay of another session was requested.
    pub(super) swallows: bool,
    /// Its history is replayed, alone or with that of another session.
    pub(super) replays: bool,
    /// Its client waits for a turn.
    pub(super) waits: bool,
}

impl V2ToV1 {
    /// Handles the announcement of a sub-agent. Returns its state, to be sent in its own session.
    pub(super) fn apply_subagent(
        &mut self,
        parent: &str,
        update: &v1::unstable::SubagentUpdate<'_>,
    ) -> Option<(String, v2::StateUpdate<'static>)> {
        let update = v2::SessionUpdate::SubagentUpdate(Box::new(subagent::to_v2(update.clone())));
        let linked = self.subagents.apply(parent, &update);
        // A cycle would make a session report itself as running.
        if linked.iter().any(|linked| linked.place == Err(NotLinked::Circle)) {
            return None;
        }
        let v2::SessionUpdate::SubagentUpdate(update) = update else { return None };
        let id = update.session_id.into_owned();
        // The session must exist before its state is sent.
        self.sessions.open(&id);
        let Field::Set(state) = update.state else { return None };
        Some((id, state.into_owned()))
    }

    /// Returns the treatment of updates of a session at this time.
    pub(super) fn treatment(&self, id: &str) -> UpdateTreatment {
        let Some(session) = self.sessions.get(id) else { return UpdateTreatment::default() };
        let waits = session.turn.is_some();
        // A replay of an ancestor replays its sub-agents as well.
        let above = self.subagents.ancestors(id).filter_map(|above| self.sessions.get(&above.session));
        let own = UpdateTreatment { swallows: session.swallows, replays: session.replays, waits };
        above.fold(own, |treatment, above: &Session| UpdateTreatment {
            swallows: treatment.swallows || above.swallows,
            replays: treatment.replays || above.replays,
            waits,
        })
    }

    /// Returns all descendants of a session.
    pub(super) fn below(&self, id: &str) -> Vec<Arc<str>> {
        self.subagents.descendants(id)
    }

    /// Returns the journals of a session's sub-agents, for agents that cannot replay.
    pub(super) fn journals_of_children(&self, id: &str) -> Vec<String> {
        self.below(id)
            .iter()
            .filter_map(|child| self.sessions.get(child))
            .flat_map(|child| child.journal.lines.clone())
            .collect()
    }
}
