//! The sub-agents of a connection, folded from its updates.

use switchboard_acp::{Diagnostic, v2};

use super::Conversation;
use crate::subagent::state_in_words;
use crate::subagent_tree::{LinkedSession, NotLinked, Parent, SubagentTree, is_active};

impl Conversation {
    /// Returns the tree of sub-agents: parents, names and states.
    pub fn subagents(&self) -> &SubagentTree {
        &self.subagents
    }

    /// Returns the parent of a session that an agent opened within another one, if reported.
    pub fn parent(&self, session: &str) -> Option<&Parent> {
        self.subagents.parent(session)
    }

    /// Returns a number that increases with every change of the tree's structure.
    pub fn lineage_revision(&self) -> u64 {
        self.subagents.revision()
    }

    /// Returns the ancestors of a session, nearest first.
    pub fn ancestors<'c>(&'c self, session: &str) -> impl Iterator<Item = &'c Parent> {
        self.subagents.ancestors(session)
    }

    /// Returns the topmost ancestor of a session, or the session itself if it has no parent.
    pub fn root<'c>(&'c self, session: &'c str) -> &'c str {
        self.subagents.root(session)
    }

    /// Returns the children of a session in order of appearance.
    pub fn children<'c>(&'c self, session: &str) -> impl Iterator<Item = (&'c str, &'c Parent)> {
        self.subagents.children(session)
    }

    /// Returns the display name of a sub-agent: see [`SubagentTree::name`].
    pub fn name(&self, session: &str) -> Option<String> {
        self.subagents.name(session)
    }

    /// Returns the names of a sub-agent and its ancestors: see [`SubagentTree::names`].
    pub fn names(&self, session: &str) -> Vec<String> {
        self.subagents.names(session)
    }

    /// Returns the speaker of a session in words: see [`SubagentTree::speaker`].
    pub fn speaker(&self, session: &str) -> Option<String> {
        self.subagents.speaker(session)
    }

    /// Returns the state of a session. For a sub-agent, the state in the tree.
    pub fn state(&self, session: &str) -> Option<&v2::StateUpdate<'static>> {
        match self.subagents.contains(session) {
            true => self.subagents.state(session),
            false => self.session(Some(session))?.state(),
        }
    }

    /// Returns that state in a few words, such as `at work`.
    pub fn state_in_words(&self, session: &str) -> &'static str {
        state_in_words(self.state(session))
    }

    /// Returns true if a session or one of its descendants is active. A sub-agent without a reported state
    /// counts as active while its parent lists it as background work, even if nothing else is known about it.
    pub fn is_at_work(&self, session: &str) -> bool {
        if self.state(session).is_some_and(is_active) || self.subagents.has_work_below(session) {
            return true;
        }
        let descendants = self.subagents.descendants(session);
        let family = descendants.iter().map(|id| &**id).chain([session]);
        let mut background = family.filter_map(|id| self.session(Some(id))?.background()).flatten();
        background.any(|work| match work {
            v2::BackgroundWork::Subagent(subagent) => self.state(&subagent.session_id).is_none(),
            _ => false,
        })
    }

    /// Links the sessions that an update reports as started, and applies their properties.
    pub(super) fn link_children(
        &mut self,
        parent: &str,
        update: &v2::SessionUpdate<'_>,
        left_out: &mut Vec<Diagnostic>,
    ) {
        for linked in self.subagents.apply(parent, update) {
            let LinkedSession { session: child, tool_call, pointer, place } = linked;
            let odd = match &place {
                Err(fault) => Some(*fault),
                Ok(place) => place.is_beside_parent.then_some(NotLinked::TooDeep),
            };
            if let Some(odd) = odd {
                let pointer = format!("/params/update{pointer}/sessionId");
                let (expected, found) = (odd.expected().into(), format!("{child:?}"));
                left_out.push(Diagnostic { pointer, expected, found, kept: true });
            }
            // A refused link is reported above but has no other effect.
            let Ok(place) = place else { continue };
            // The call's title may have been reported before the call was linked to the sub-agent.
            if let Some(call) = &tool_call
                && let Some(title) = self.call_title(parent, call)
            {
                self.subagents.set_call_title(parent, call, Some(&title));
            }
            if place.is_new {
                self.apply_earlier(child);
            }
        }
    }

    fn call_title(&self, session: &str, call: &str) -> Option<String> {
        self.session(Some(session))?.tool_call(call)?.title().map(str::to_owned)
    }

    /// Applies the title and state that a child reported before its parent was known.
    fn apply_earlier(&mut self, child: &str) {
        let Some(session) = self.session(Some(child)) else { return };
        let (title, state) = (session.title().map(str::to_owned), session.state.clone());
        self.subagents.set_title(child, title.as_deref());
        if let Some(state) = state.filter(|_| self.subagents.state(child).is_none()) {
            self.subagents.set_state(child, &state);
        }
    }
}
