//! Which session an agent opened in the course of which other.

use std::collections::HashMap;
use std::sync::Arc;

/// How many sessions are known as children of others.
const MAX_CHILDREN: usize = 10_000;

/// Where a session belongs that an agent has opened in the course of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The other session.
    pub session: Arc<str>,
    /// The tool call there that stands for it, where that is known.
    pub tool_call: Option<Arc<str>>,
}

/// Why a session does not become the child of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotLinked {
    /// It is the other, or the other descends from it.
    Circle,
    /// It is the child of a third already.
    Taken,
    /// There are too many.
    Full,
}

impl NotLinked {
    pub(super) fn reason(self) -> &'static str {
        match self {
            NotLinked::Circle => "a session that the other does not descend from",
            NotLinked::Taken => "a session that is not the child of another already",
            NotLinked::Full => "no more sub-agents on this connection",
        }
    }
}

/// Sessions and the sessions that they descend from: always trees.
#[derive(Debug, Clone, Default)]
pub(super) struct Lineage {
    parents: HashMap<Arc<str>, Parent>,
    /// In the order in which they were told.
    children: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// Goes up with every change.
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
        if let Some(known) = self.parents.get_mut(child) {
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
        if self.parents.len() >= MAX_CHILDREN {
            return Err(NotLinked::Full);
        }
        self.revision += 1;
        let (child, parent): (Arc<str>, Arc<str>) = (child.into(), parent.into());
        self.children.entry(Arc::clone(&parent)).or_default().push(Arc::clone(&child));
        self.parents.insert(child, Parent { session: parent, tool_call: tool_call.map(Into::into) });
        Ok(())
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn parent(&self, session: &str) -> Option<&Parent> {
        self.parents.get(session)
    }

    /// The session's parent, the parent's parent and so on. It ends, because a link never closes a circle.
    pub(super) fn ancestors<'l>(&'l self, session: &str) -> impl Iterator<Item = &'l Parent> {
        std::iter::successors(self.parent(session), |parent| self.parent(&parent.session))
    }

    pub(super) fn children(&self, session: &str) -> impl Iterator<Item = (&str, &Parent)> {
        let children = self.children.get(session).into_iter().flatten();
        children.filter_map(|child| Some((&**child, self.parents.get(child)?)))
    }

    /// Forgets a session that is gone. Its children stay, without a parent.
    pub(super) fn forget(&mut self, session: &str) {
        if let Some(parent) = self.parents.remove(session)
            && let Some(siblings) = self.children.get_mut(&parent.session)
        {
            siblings.retain(|sibling| **sibling != *session);
        }
        for child in self.children.remove(session).into_iter().flatten() {
            self.parents.remove(&child);
        }
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
