//! Which session an agent opened in the course of which other, what such a session is called, and what it is doing.

use std::collections::HashMap;
use std::sync::Arc;

use switchboard_acp::{Diagnostic, Field, Text, Wire, v2};

use super::Conversation;
use crate::references::{StartedSession, sessions_started_by};
use crate::snapshot::{Activity, activity_of};
use crate::subagent::{Subagent, state_in_words, subagent_name};

/// How many sessions of a connection are known as those of sub-agents, here and in the bridge.
pub const MAX_SUBAGENTS: usize = 10_000;

/// How many ancestors a session can have, here and in the bridge. Nobody could follow more, and every name of an asker goes
/// through them.
pub const MAX_ANCESTORS: usize = 64;

/// Where a session belongs that an agent has opened in the course of another.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parent {
    /// The other session.
    pub session: Arc<str>,
    /// The tool call there that stands for it, where that is known.
    pub tool_call: Option<Arc<str>>,
}

/// A session with a parent.
#[derive(Debug, Clone)]
struct Child {
    parent: Parent,
    /// The how-manyth child of its parent it is.
    number: usize,
    /// What the parent calls it, and the how-manyth child of that name it is.
    name: Option<(Arc<str>, usize)>,
    /// What was told last of its state, by itself or by its parent.
    state: Option<Arc<v2::StateUpdate<'static>>>,
}

/// Why a session does not become the child of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotLinked {
    /// It is the other, or the other descends from it.
    Circle,
    /// It is the child of a third already.
    Taken,
    /// The other has too many ancestors.
    TooDeep,
    /// There are too many.
    Full,
}

impl NotLinked {
    pub(super) fn reason(self) -> &'static str {
        match self {
            NotLinked::Circle => "a session that the other does not descend from",
            NotLinked::Taken => "a session that is not the child of another already",
            NotLinked::TooDeep => "a session of one with fewer ancestors",
            NotLinked::Full => "no more sub-agents on this connection",
        }
    }
}

/// Sessions and the sessions that they descend from: always trees.
#[derive(Debug, Clone, Default)]
pub(super) struct Lineage {
    known: HashMap<Arc<str>, Child>,
    /// In the order in which they were told.
    children: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// How many children of a session have a name.
    names: HashMap<(Arc<str>, Arc<str>), usize>,
    /// Goes up with every change of who belongs to whom.
    revision: u64,
}

impl Lineage {
    /// Makes a session the child of another; what is known of the tool call stays unless another is told.
    pub(super) fn link(
        &mut self,
        child: &str,
        parent: &str,
        tool_call: Option<&str>,
    ) -> Result<(), NotLinked> {
        if let Some(Child { parent: known, .. }) = self.known.get_mut(child) {
            if *known.session != *parent {
                return Err(NotLinked::Taken);
            }
            if tool_call.is_some() && known.tool_call.as_deref() != tool_call {
                known.tool_call = tool_call.map(Into::into);
                self.revision += 1;
            }
            return Ok(());
        }
        if child == parent || self.ancestors(parent).any(|ancestor| *ancestor.session == *child) {
            return Err(NotLinked::Circle);
        }
        // A session that has children of its own takes them along.
        if self.ancestors(parent).count() + self.height(child) >= MAX_ANCESTORS {
            return Err(NotLinked::TooDeep);
        }
        if self.known.len() >= MAX_SUBAGENTS {
            return Err(NotLinked::Full);
        }
        self.revision += 1;
        let (child, parent): (Arc<str>, Arc<str>) = (child.into(), parent.into());
        let siblings = self.children.entry(Arc::clone(&parent)).or_default();
        siblings.push(Arc::clone(&child));
        let number = siblings.len();
        let parent = Parent { session: parent, tool_call: tool_call.map(Into::into) };
        self.known.insert(child, Child { parent, number, name: None, state: None });
        Ok(())
    }

    /// How many generations descend from a session that is about to become a child.
    fn height(&self, session: &str) -> usize {
        let mut generation: Vec<&str> = self.children(session).map(|(child, _)| child).collect();
        let mut height = 0;
        while !generation.is_empty() {
            height += 1;
            generation =
                generation.iter().flat_map(|child| self.children(child).map(|(child, _)| child)).collect();
        }
        height
    }

    /// The parent calls a child by a name.
    fn call(&mut self, child: &str, name: String) {
        let Some(known) = self.known.get_mut(child) else { return };
        if known.name.as_ref().is_some_and(|(before, _)| **before == *name) {
            return;
        }
        let key = (Arc::clone(&known.parent.session), Arc::<str>::from(name));
        // Of very many names, those that come last are not counted.
        if self.names.len() >= MAX_SUBAGENTS && !self.names.contains_key(&key) {
            known.name = Some((key.1, 1));
            return;
        }
        let name = Arc::clone(&key.1);
        let count = self.names.entry(key).or_default();
        *count += 1;
        known.name = Some((name, *count));
    }

    /// Something is told of the state of a session, which concerns nobody here where it is no child.
    pub(super) fn tell_state(&mut self, child: &str, state: &v2::StateUpdate<'_>) {
        if let Some(known) = self.known.get_mut(child) {
            known.state = Some(Arc::new(state.clone().into_owned()));
        }
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn parent(&self, session: &str) -> Option<&Parent> {
        self.known.get(session).map(|child| &child.parent)
    }

    /// The session's parent, the parent's parent and so on. It ends, because a link never closes a circle.
    pub(super) fn ancestors<'l>(&'l self, session: &str) -> impl Iterator<Item = &'l Parent> {
        std::iter::successors(self.parent(session), |parent| self.parent(&parent.session))
    }

    pub(super) fn children(&self, session: &str) -> impl Iterator<Item = (&str, &Parent)> {
        let children = self.children.get(session).into_iter().flatten();
        children.filter_map(|child| Some((&**child, self.parent(child)?)))
    }

    /// A session has another id from here on.
    pub(super) fn rename(&mut self, session: &str, to: &Arc<str>) {
        if let Some(children) = self.children.remove(session) {
            for child in &children {
                if let Some(known) = self.known.get_mut(child) {
                    known.parent.session = Arc::clone(to);
                }
            }
            self.children.insert(Arc::clone(to), children);
        }
        if let Some(known) = self.known.remove(session) {
            let siblings = self.children.get_mut(&known.parent.session).into_iter().flatten();
            siblings.filter(|sibling| ***sibling == *session).for_each(|sibling| *sibling = Arc::clone(to));
            self.known.insert(Arc::clone(to), known);
        }
        let names = std::mem::take(&mut self.names);
        let renamed = |parent: Arc<str>| if *parent == *session { Arc::clone(to) } else { parent };
        self.names =
            names.into_iter().map(|((parent, name), count)| ((renamed(parent), name), count)).collect();
        self.revision += 1;
    }

    /// Forgets a session that is gone. Its children stay, without a parent.
    pub(super) fn forget(&mut self, session: &str) {
        if let Some(Child { parent, .. }) = self.known.remove(session)
            && let Some(siblings) = self.children.get_mut(&parent.session)
        {
            siblings.retain(|sibling| **sibling != *session);
        }
        for child in self.children.remove(session).into_iter().flatten() {
            self.known.remove(&child);
        }
        self.names.retain(|(parent, _), _| **parent != *session);
    }
}

impl Conversation {
    /// Where a session belongs that an agent has opened in the course of another, as far as it told that.
    pub fn parent(&self, session: &str) -> Option<&Parent> {
        self.lineage.parent(session)
    }

    /// Goes up whenever something is told of which session belongs to which.
    pub fn lineage_revision(&self) -> u64 {
        self.lineage.revision()
    }

    /// The session's parent, the parent's parent and so on, up to a session that nobody's agent has opened.
    pub fn ancestors<'c>(&'c self, session: &str) -> impl Iterator<Item = &'c Parent> {
        self.lineage.ancestors(session)
    }

    /// The session that nobody's agent has opened and that a session descends from; itself, where it is none's child.
    pub fn root<'c>(&'c self, session: &'c str) -> &'c str {
        self.ancestors(session).last().map_or(session, |parent| &parent.session)
    }

    /// The sessions that an agent has opened in the course of another, in the order in which it told them.
    pub fn children<'c>(&'c self, session: &str) -> impl Iterator<Item = (&'c str, &'c Parent)> {
        self.lineage.children(session)
    }

    /// What people know a sub-agent's session by: title and description that the session told which started it, with a
    /// number where an earlier one has the same; else its own title, or the title of the tool call that stands for it.
    /// [`None`] for a session that is nobody's child.
    ///
    /// It is the agent's text: who shows it takes care of that.
    pub fn name(&self, session: &str) -> Option<String> {
        let child = self.lineage.known.get(session)?;
        match &child.name {
            Some((name, 1)) => return Some(name.to_string()),
            Some((name, number)) => return Some(format!("{name} #{number}")),
            None => {}
        }
        let own = self.session(Some(session)).and_then(|session| session.title());
        let parent = self.session(Some(&child.parent.session));
        let call = || parent?.tool_call(child.parent.tool_call.as_deref()?)?.title();
        let number = child.number;
        Some(
            own.or_else(call)
                .map_or_else(|| format!("number {number}"), |title| format!("{title} #{number}")),
        )
    }

    /// The names of a sub-agent's session, of the one that started it and so on, without the root's: whose something is.
    /// Nothing for a session that is nobody's child.
    pub fn names(&self, session: &str) -> Vec<String> {
        let above = self.ancestors(session).filter_map(|parent| self.name(&parent.session));
        self.name(session).into_iter().chain(above).collect()
    }

    /// Who speaks or asks in a session, down to the root, in words: `sub-agent "Tests" of "Explorer"`. [`None`] for a
    /// session that is nobody's child: there it is the agent.
    pub fn speaker(&self, session: &str) -> Option<String> {
        let names = self.names(session);
        let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        (!quoted.is_empty()).then(|| format!("sub-agent {}", quoted.join(" of ")))
    }

    /// The state of a session; of a sub-agent's what was told last, by itself or by the session that started it.
    pub fn state(&self, session: &str) -> Option<&v2::StateUpdate<'static>> {
        match self.lineage.known.get(session) {
            Some(child) => child.state.as_deref(),
            None => self.session(Some(session))?.state(),
        }
    }

    /// That state in a few words, as in `at work`.
    pub fn state_in_words(&self, session: &str) -> &'static str {
        state_in_words(self.state(session))
    }

    /// Whether work goes on in a session, or in one that descends from it. Of a sub-agent whose state was never told, the
    /// background work of the session that started it tells.
    pub fn is_at_work(&self, session: &str) -> bool {
        let is_active = |session: &str| {
            matches!(self.state(session).map(activity_of), Some(Activity::Running | Activity::RequiresAction))
        };
        let mut waiting = vec![session];
        while let Some(session) = waiting.pop() {
            if is_active(session) {
                return true;
            }
            let background = self.session(Some(session)).and_then(|session| session.background());
            for work in background.unwrap_or_default() {
                if let v2::BackgroundWork::Subagent(subagent) = work
                    && self.state(&subagent.session_id).is_none()
                {
                    return true;
                }
            }
            waiting.extend(self.children(session).map(|(child, _)| child));
        }
        false
    }

    /// Makes a session the child of another, or says why not.
    fn link(
        &mut self,
        child: &str,
        parent: &str,
        tool_call: Option<&str>,
        pointer: &str,
        left_out: &mut Vec<Diagnostic>,
    ) -> bool {
        if let Err(fault) = self.lineage.link(child, parent, tool_call) {
            let (expected, found) = (fault.reason().into(), format!("{child:?}"));
            left_out.push(Diagnostic { pointer: pointer.to_owned(), expected, found, kept: true });
            return false;
        }
        // A child may have told of itself before anybody told whose it is.
        let own = self.session(Some(child)).and_then(|session| session.state.clone());
        if let Some(known) = self.lineage.known.get_mut(child)
            && known.state.is_none()
        {
            known.state = own;
        }
        true
    }

    /// Notes which sessions an update says that this one has started, and what it says of them.
    pub(super) fn link_children(
        &mut self,
        parent: &str,
        update: &v2::SessionUpdate<'_>,
        left_out: &mut Vec<Diagnostic>,
    ) {
        for started in sessions_started_by(update) {
            let StartedSession { session: child, tool_call, pointer } = started;
            let pointer = format!("/params/update{pointer}/sessionId");
            if !self.link(child, parent, tool_call.as_deref(), &pointer, left_out) {
                continue;
            }
            let v2::SessionUpdate::SubagentUpdate(update) = update else { continue };
            // While history is replayed, the entry is not there yet.
            let entry = self.session(Some(parent)).and_then(|session| session.subagent(child));
            let title = now(&update.title, entry.and_then(Subagent::title));
            let description = now(&update.description, entry.and_then(Subagent::description));
            if let Some(name) = subagent_name(title, description) {
                self.lineage.call(child, name);
            }
            if let Some(state) = update.state.value() {
                self.lineage.tell_state(child, state);
            }
        }
    }
}

/// What a field is after an update, given what it was.
fn now<'f>(field: &'f Field<Text<'_>>, before: Option<&'f str>) -> Option<&'f str> {
    match field {
        Field::Keep => before,
        Field::Clear => None,
        Field::Set(text) => Some(text),
    }
}

#[cfg(test)]
mod tests {
    use super::{Lineage, NotLinked};

    #[test]
    fn links_form_trees_whatever_is_told() {
        let mut lineage = Lineage::default();
        assert_eq!(lineage.link("child", "root", None), Ok(()));
        assert_eq!(lineage.link("grandchild", "child", Some("c-1")), Ok(()));
        assert_eq!(lineage.link("root", "grandchild", None), Err(NotLinked::Circle));
        assert_eq!(lineage.link("self", "self", None), Err(NotLinked::Circle));
        assert_eq!(lineage.link("grandchild", "root", None), Err(NotLinked::Taken));
        // Told again without the call: the call is still known.
        assert_eq!(lineage.link("grandchild", "child", None), Ok(()));
        assert_eq!(lineage.parent("grandchild").unwrap().tool_call.as_deref(), Some("c-1"));
        let ancestors: Vec<_> = lineage.ancestors("grandchild").map(|parent| &*parent.session).collect();
        assert_eq!(ancestors, ["child", "root"]);

        lineage.forget("child");
        assert!(lineage.parent("grandchild").is_none());
        assert_eq!(lineage.children("root").count(), 0);
        assert_eq!(lineage.link("grandchild", "root", None), Ok(()));
    }
}
