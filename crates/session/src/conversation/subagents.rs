//! The sub-agents of a connection, as its updates tell of them.

use switchboard_acp::{Diagnostic, v2};

use super::Conversation;
use crate::subagent::state_in_words;
use crate::subagent_tree::{LinkedSession, NotLinked, Parent, SubagentTree, is_active};

impl Conversation {
    /// Returns the tree of sub-agents: whose they are, their names, how their work stands.
    pub fn subagents(&self) -> &SubagentTree {
        &self.subagents
    }

    /// Where a session belongs that an agent has opened in the course of another, as far as it told that.
    pub fn parent(&self, session: &str) -> Option<&Parent> {
        self.subagents.parent(session)
    }

    /// Goes up whenever something is told of which session belongs to which.
    pub fn lineage_revision(&self) -> u64 {
        self.subagents.revision()
    }

    /// The session's parent, the parent's parent and so on, up to a session that nobody's agent has opened.
    pub fn ancestors<'c>(&'c self, session: &str) -> impl Iterator<Item = &'c Parent> {
        self.subagents.ancestors(session)
    }

    /// The session that nobody's agent has opened and that a session descends from; itself, where it is none's child.
    pub fn root<'c>(&'c self, session: &'c str) -> &'c str {
        self.subagents.root(session)
    }

    /// The sessions that an agent has opened in the course of another, in the order in which it told them.
    pub fn children<'c>(&'c self, session: &str) -> impl Iterator<Item = (&'c str, &'c Parent)> {
        self.subagents.children(session)
    }

    /// Returns what people know a sub-agent by: see [`SubagentTree::name`].
    pub fn name(&self, session: &str) -> Option<String> {
        self.subagents.name(session)
    }

    /// Returns the names of a sub-agent and of those above it: see [`SubagentTree::names`].
    pub fn names(&self, session: &str) -> Vec<String> {
        self.subagents.names(session)
    }

    /// Returns who speaks or asks in a session, in words: see [`SubagentTree::speaker`].
    pub fn speaker(&self, session: &str) -> Option<String> {
        self.subagents.speaker(session)
    }

    /// The state of a session; of a sub-agent's the one in the tree.
    pub fn state(&self, session: &str) -> Option<&v2::StateUpdate<'static>> {
        match self.subagents.contains(session) {
            true => self.subagents.state(session),
            false => self.session(Some(session))?.state(),
        }
    }

    /// That state in a few words, as in `at work`.
    pub fn state_in_words(&self, session: &str) -> &'static str {
        state_in_words(self.state(session))
    }

    /// Whether work goes on in a session, or in one that descends from it. Of a sub-agent whose state was never told, the
    /// background work of the session that started it tells, also where nothing else was told of it.
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

    /// Notes which sessions an update says that this one has started, and what it says of them.
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
            let Ok(place) = place else { continue };
            if let Some(call) = &tool_call
                && let Some(title) = self.call_title(parent, call)
            {
                self.subagents.tell_call_title(parent, call, Some(&title));
            }
            if place.is_new {
                self.tell_of_earlier(child);
            }
        }
    }

    fn call_title(&self, session: &str, call: &str) -> Option<String> {
        self.session(Some(session))?.tool_call(call)?.title().map(str::to_owned)
    }

    /// A child may have told of itself before anybody told whose it is.
    fn tell_of_earlier(&mut self, child: &str) {
        let Some(session) = self.session(Some(child)) else { return };
        let (title, state) = (session.title().map(str::to_owned), session.state.clone());
        self.subagents.tell_title(child, title.as_deref());
        if let Some(state) = state.filter(|_| self.subagents.state(child).is_none()) {
            self.subagents.tell_state(child, &state);
        }
    }
}
