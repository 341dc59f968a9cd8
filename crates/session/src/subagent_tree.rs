//! The tree of sub-agents: parent, name and state of each session that an agent opened within another
//! session.
//!
//! All consumers share these rules. [`Conversation`](crate::Conversation) keeps a tree for everything that
//! reads a folded connection: `run`, the web page, stored sessions, exports, the hub, telemetry. The bridge
//! keeps one for the sub-agents that it shows inside tool calls. The type is in this crate because it is the
//! lowest one that interprets the sessions named in updates.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use switchboard_acp::rpc::RpcError;
use switchboard_acp::v2::ToolCallStatus;
use switchboard_acp::v2::unstable::SubagentUpdate;
use switchboard_acp::{Field, Text, Wire, v2};

use crate::references::sessions_started_by;
use crate::snapshot::{Activity, activity_of};
use crate::subagent::subagent_name;

/// Maximum number of sub-agent sessions on a connection.
pub const MAX_SUBAGENTS: usize = 10_000;

/// Maximum number of ancestors of a session. Names of all ancestors are shown in questions, so more would be
/// unreadable.
pub const MAX_ANCESTORS: usize = 64;

/// Maximum length of a name in bytes. It labels lines, calls and questions.
const MAX_NAME: usize = 200;

/// Maximum number of names kept per sub-agent, so that it gets the same one if an agent sets an earlier title
/// again.
const MAX_NAMES: usize = 8;

/// Maximum number of titles with a hint for their next free number.
const MAX_HINTS: usize = 4 * MAX_SUBAGENTS;

/// Parent of a session that an agent opened within another one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parent {
    /// Id of the parent session.
    pub session: Arc<str>,
    /// Tool call in the parent that represents it, if known.
    pub tool_call: Option<Arc<str>>,
}

/// Reason why a session does not become the child of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotLinked {
    /// It is the other session, or an ancestor of it.
    Circle,
    /// It already has another parent.
    Taken,
    /// The client opened it, so it has no parent.
    Opened,
    /// Its descendants would have too many ancestors.
    TooDeep,
    /// The maximum number is reached, and all sub-agents are active.
    Full,
}

impl NotLinked {
    /// Returns the expectation that the session violates, for diagnostics.
    pub fn expected(self) -> &'static str {
        match self {
            NotLinked::Circle => "a session that the other does not descend from",
            NotLinked::Taken => "a session that is not the child of another already",
            NotLinked::Opened => "a session other than those that the client opened",
            NotLinked::TooDeep => "a session of one with fewer ancestors",
            NotLinked::Full => "no more sub-agents on this connection",
        }
    }
}

/// Position that a session got in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Linked {
    /// True if it was not in the tree before.
    pub is_new: bool,
    /// True if the parent is at the maximum depth, so that the session became the parent's sibling instead.
    pub is_beside_parent: bool,
    /// Sub-agent that was removed to stay within [`MAX_SUBAGENTS`].
    pub forgotten: Option<Arc<str>>,
}

/// A session that an update reports as started, with its position in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkedSession<'u> {
    /// Id of the started session.
    pub session: &'u str,
    /// Tool call that represents it, if the update names one.
    pub tool_call: Option<Text<'u>>,
    /// JSON pointer within the update to the object with its id.
    pub pointer: String,
    /// Its position, or the reason why it has none.
    pub place: Result<Linked, NotLinked>,
}

/// A session with a parent.
#[derive(Debug, Clone)]
struct Child {
    parent: Parent,
    /// 1-based index among all children that its parent has had.
    number: usize,
    /// Title and description reported by the parent, clipped to the length of a name.
    title: Option<Arc<str>>,
    description: Option<Arc<str>>,
    /// Title of its own session, and title of the tool call that represents it.
    own_title: Option<Arc<str>>,
    call_title: Option<Arc<str>>,
    /// Its names with their sources. The last one is current; the others stay reserved.
    names: Vec<(NameSource, Arc<str>)>,
    /// Latest state, reported by itself or its parent, or implied by the end of its parent.
    state: Option<Arc<v2::StateUpdate<'static>>>,
    /// True if a reported state shows that it has worked.
    has_begun: bool,
    can_be_cancelled: bool,
}

/// Source of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NameSource {
    /// Title and description from the parent.
    FromParent(Arc<str>),
    /// Title of the session or of its tool call.
    Title(Arc<str>),
    Number,
}

/// The children of one session.
#[derive(Debug, Clone, Default)]
struct Children {
    /// In order of appearance.
    children: Vec<Arc<str>>,
    /// Number of children so far.
    count: usize,
    /// Children by the tool call that represents them.
    calls: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// Owner of each name: no two children share one.
    names: HashMap<Arc<str>, Arc<str>>,
    /// First number to try for the next child with a title. Only a hint: `names` decides.
    next: HashMap<Arc<str>, usize>,
    /// Sub-agents that the session's last state lists as background work.
    background: HashSet<Arc<str>>,
}

/// Sessions that agents opened within other sessions. Always a forest.
///
/// ```
/// use switchboard_acp::{Wire, WireFormat, v2};
/// use switchboard_session::SubagentTree;
///
/// let mut tree = SubagentTree::default();
/// for child in ["a", "b"] {
///     let text = format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{child}","title":"Explorer"}}"#);
///     tree.apply("root", &v2::SessionUpdate::decode(&text, WireFormat::Any)?);
/// }
/// assert_eq!(tree.name("a").as_deref(), Some("Explorer"));
/// assert_eq!(tree.name("b").as_deref(), Some("Explorer #2"));
/// assert_eq!(tree.root("b"), "root");
/// # Ok::<(), switchboard_acp::DecodeError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct SubagentTree {
    known: HashMap<Arc<str>, Child>,
    below: HashMap<Arc<str>, Children>,
    /// All children in order of appearance.
    order: VecDeque<Arc<str>>,
    /// Increases with every change of the tree's structure.
    revision: u64,
}

impl SubagentTree {
    /// Applies an update of a session: started sessions with their properties, its state and its title.
    /// Returns the started sessions.
    pub fn apply<'u>(&mut self, session: &str, update: &'u v2::SessionUpdate<'_>) -> Vec<LinkedSession<'u>> {
        self.apply_unless(session, update, |_| false)
    }

    /// Like [`apply`](SubagentTree::apply), but does not link sessions for which `is_opened` returns true:
    /// the client opened them.
    pub fn apply_unless<'u>(
        &mut self,
        session: &str,
        update: &'u v2::SessionUpdate<'_>,
        is_opened: impl Fn(&str) -> bool,
    ) -> Vec<LinkedSession<'u>> {
        use v2::SessionUpdate as Update;
        match update {
            // Apply the session's own state and title before linking children, whose names and states depend
            // on it.
            Update::StateUpdate(state) => self.set_state(session, state),
            Update::SessionInfoUpdate(update) if !update.title.is_keep() => {
                self.set_title(session, update.title.value().map(|title| &**title));
            }
            _ => {}
        }
        let mut linked = Vec::new();
        for started in sessions_started_by(update) {
            let place = match started.session != session && is_opened(started.session) {
                true => Err(NotLinked::Opened),
                false => self.link(started.session, session, started.tool_call.as_deref()),
            };
            if let (Ok(_), Update::SubagentUpdate(update)) = (&place, update) {
                self.apply_parent_update(update);
            }
            let (tool_call, pointer) = (started.tool_call, started.pointer);
            linked.push(LinkedSession { session: started.session, tool_call, pointer, place });
        }
        if let Update::ToolCallUpdate(update) = update
            && !update.title.is_keep()
        {
            self.set_call_title(session, &update.tool_call_id, update.title.value().map(|title| &**title));
        }
        linked
    }

    /// Makes a session the child of another. Keeps the known tool call unless the update names another.
    fn link(&mut self, child: &str, parent: &str, tool_call: Option<&str>) -> Result<Linked, NotLinked> {
        let mut linked = Linked { is_new: false, is_beside_parent: false, forgotten: None };
        if child == parent {
            return Err(NotLinked::Circle);
        }
        // At the maximum depth, link to the grandparent instead of refusing: the sub-agent stays visible.
        let depth = self.depth(parent);
        let mut parent = parent;
        let above = self.parent(parent).map(|above| Arc::clone(&above.session));
        if let Some(above) = above.as_deref().filter(|_| depth >= MAX_ANCESTORS) {
            linked.is_beside_parent = true;
            parent = above;
        }
        if let Some(known) = self.known.get(child) {
            if *known.parent.session != *parent {
                return Err(NotLinked::Taken);
            }
            if !linked.is_beside_parent {
                self.set_tool_call(child, tool_call);
            }
            return Ok(linked);
        }
        // A link from an ancestor would close a cycle, and `ancestors` would not terminate.
        if self.ancestors(parent).any(|ancestor| *ancestor.session == *child) {
            return Err(NotLinked::Circle);
        }
        // A session keeps its own children, so their depth counts too.
        if self.depth(parent) + self.height(child) >= MAX_ANCESTORS {
            return Err(NotLinked::TooDeep);
        }
        if self.known.len() >= MAX_SUBAGENTS {
            // Evict only after all other checks, so that a refused link removes nothing.
            linked.forgotten = Some(self.evict_ended(parent).ok_or(NotLinked::Full)?);
        }
        linked.is_new = true;
        self.revision += 1;
        let (child, parent): (Arc<str>, Arc<str>) = (child.into(), parent.into());
        let below = self.below.entry(Arc::clone(&parent)).or_default();
        below.children.push(Arc::clone(&child));
        below.count += 1;
        let new = Child {
            parent: Parent { session: parent, tool_call: None },
            number: below.count,
            title: None,
            description: None,
            own_title: None,
            call_title: None,
            names: Vec::new(),
            state: None,
            has_begun: false,
            can_be_cancelled: false,
        };
        self.order.push_back(Arc::clone(&child));
        self.known.insert(Arc::clone(&child), new);
        // A tool call belongs to the reported parent. It has no meaning for a sibling of that parent.
        self.set_tool_call(&child, tool_call.filter(|_| !linked.is_beside_parent));
        self.update_name(&child);
        Ok(linked)
    }

    fn set_tool_call(&mut self, child: &str, tool_call: Option<&str>) {
        let Some(tool_call) = tool_call else { return };
        let Some((id, _)) = self.known.get_key_value(child) else { return };
        let id = Arc::clone(id);
        let Some(known) = self.known.get_mut(child) else { return };
        if known.parent.tool_call.as_deref() == Some(tool_call) {
            return;
        }
        // The title of the previous call no longer applies.
        let before = known.parent.tool_call.replace(tool_call.into());
        known.call_title = None;
        if let Some(below) = self.below.get_mut(&known.parent.session) {
            below.remove_from_call(before.as_deref(), child);
            below.calls.entry(tool_call.into()).or_default().push(id);
        }
        self.revision += 1;
        self.update_name(child);
    }

    /// Removes the oldest sub-agent that has ended and has no children. One without a reported end stays,
    /// because it may still ask a question.
    fn evict_ended(&mut self, parent: &str) -> Option<Arc<str>> {
        let is_it = |id: &&Arc<str>| {
            ***id != *parent && self.outcome(id).is_some() && self.children(id).next().is_none()
        };
        let id = self.order.iter().find(is_it).cloned()?;
        self.forget(&id);
        Some(id)
    }

    /// Returns the number of generations below a session.
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

    // ----- reported properties

    /// Applies a parent's update about a sub-agent.
    fn apply_parent_update(&mut self, update: &SubagentUpdate<'_>) {
        let Some(known) = self.known.get_mut(&*update.session_id) else { return };
        patch(&mut known.title, &update.title, clipped);
        // A name contains only the first line.
        patch(&mut known.description, &update.description, |text| {
            clipped(text.trim().lines().next().unwrap_or_default())
        });
        match &update.capabilities {
            Field::Keep => {}
            Field::Clear => known.can_be_cancelled = false,
            Field::Set(capabilities) => known.can_be_cancelled = capabilities.cancel.is_some(),
        }
        self.update_name(&update.session_id);
        // After the name, because an idle state can end the sub-agents below.
        if let Some(state) = update.state.value() {
            self.set_state(&update.session_id, state);
        }
    }

    /// Sets the title of a session. It names a sub-agent that has no title from its parent.
    pub fn set_title(&mut self, session: &str, title: Option<&str>) {
        if let Some(known) = self.known.get_mut(session) {
            known.own_title = title.and_then(clipped);
            self.update_name(session);
        }
    }

    /// Sets the title of a tool call. It names a sub-agent that has no other title.
    pub fn set_call_title(&mut self, session: &str, tool_call: &str, title: Option<&str>) {
        let Some(children) = self.below.get(session).and_then(|below| below.calls.get(tool_call)) else {
            return;
        };
        for child in children.clone() {
            if let Some(known) = self.known.get_mut(&child) {
                known.call_title = title.and_then(clipped);
                self.update_name(&child);
            }
        }
    }

    /// Sets the state of a session. When it becomes idle, its sub-agents end, except those in its list of
    /// background work or, without a list, those that are active.
    pub fn set_state(&mut self, session: &str, state: &v2::StateUpdate<'_>) {
        if let Some(known) = self.known.get_mut(session) {
            known.set_state(state);
        }
        let background = background_of(state);
        let listed = background.unwrap_or_default().iter().filter_map(|work| match work {
            v2::BackgroundWork::Subagent(subagent) => Some(Arc::from(&*subagent.session_id)),
            _ => None,
        });
        let listed: HashSet<Arc<str>> = listed.take(MAX_SUBAGENTS).collect();
        match self.below.get_mut(session) {
            Some(below) => below.background.clone_from(&listed),
            // The listed sub-agents may be linked later.
            None if !listed.is_empty() => {
                let below = Children { background: listed, ..Children::default() };
                self.below.insert(session.into(), below);
                return;
            }
            None => return,
        }
        if let v2::StateUpdate::Idle(idle) = state {
            self.end_below(session, idle.stop_reason.as_ref(), background.map(|_| &listed));
        }
    }

    fn end_below(
        &mut self,
        session: &str,
        reason: Option<&v2::StopReason>,
        background: Option<&HashSet<Arc<str>>>,
    ) {
        let reason = match reason {
            Some(reason @ (v2::StopReason::Cancelled | v2::StopReason::Error)) => reason.clone(),
            _ => v2::StopReason::EndTurn,
        };
        // Ends the whole subtree, except below sub-agents that continue.
        let mut waiting = vec![Arc::<str>::from(session)];
        while let Some(session) = waiting.pop() {
            for child in self.below.get(&session).map_or(&[][..], |below| &below.children).to_vec() {
                let goes_on = match background {
                    Some(background) => background.contains(&child),
                    None => self.is_active(&child),
                };
                if goes_on {
                    continue;
                }
                if self.outcome(&child).is_none()
                    && let Some(known) = self.known.get_mut(&child)
                {
                    let mut idle = v2::IdleState::new();
                    idle.stop_reason = Some(reason.clone());
                    known.set_state(&v2::StateUpdate::Idle(idle));
                }
                waiting.push(child);
            }
        }
    }

    /// Ends all unfinished sub-agents with an error, because the agent process has ended.
    pub fn end_all(&mut self, error: &RpcError<'_>) {
        for known in self.known.values_mut().filter(|known| known.outcome().is_none()) {
            let mut idle = v2::IdleState::new();
            idle.stop_reason = Some(v2::StopReason::Error);
            idle.error = Some(Box::new(error.clone().into_owned()));
            known.set_state(&v2::StateUpdate::Idle(idle));
        }
        self.below.values_mut().for_each(|below| below.background.clear());
    }

    // ----- names

    /// Sets the name of a child: the first that none of its siblings has or had.
    fn update_name(&mut self, child: &str) {
        let Some((id, known)) = self.known.get_key_value(child) else { return };
        let id = Arc::clone(id);
        let told = subagent_name(known.title.as_deref(), known.description.as_deref());
        let title = known.own_title.as_ref().or(known.call_title.as_ref());
        let source = match (told.as_deref().and_then(clipped), title) {
            (Some(told), _) => NameSource::FromParent(told),
            (None, Some(title)) => NameSource::Title(Arc::clone(title)),
            (None, None) => NameSource::Number,
        };
        let (number, parent) = (known.number, Arc::clone(&known.parent.session));
        let Some(known) = self.known.get_mut(child) else { return };
        // A title that was used before gets its earlier name back.
        if let Some(place) = known.names.iter().position(|(had, _)| *had == source) {
            let name = known.names.remove(place);
            return known.names.push(name);
        }
        let Some(below) = self.below.get_mut(&parent) else { return };
        let name = below.free_name(&source, number);
        below.names.insert(Arc::clone(&name), id);
        known.names.push((source, name));
        if known.names.len() > MAX_NAMES {
            let (_, oldest) = known.names.remove(0);
            // Release the oldest name, so that memory stays bounded.
            below.names.remove(&oldest);
        }
    }

    /// Returns the display name of a sub-agent: title and description from its parent, with a number if
    /// another has the same; else its own title or the title of its tool call, with its index; else its
    /// index. One line of limited length, unique among siblings. [`None`] for a session without a parent.
    ///
    /// The name is untrusted text of the agent. Escape it before display.
    pub fn name(&self, session: &str) -> Option<String> {
        self.known.get(session)?.names.last().map(|(_, name)| name.to_string())
    }

    /// Returns the names of a sub-agent and of its ancestors, nearest first, without the root. Empty for a
    /// session without a parent.
    pub fn names(&self, session: &str) -> Vec<String> {
        let above = self.ancestors(session).filter_map(|parent| self.name(&parent.session));
        self.name(session).into_iter().chain(above).collect()
    }

    /// Returns the speaker of a session in words: `sub-agent "Tests" of "Explorer"`. [`None`] for a session
    /// without a parent, where the agent speaks.
    pub fn speaker(&self, session: &str) -> Option<String> {
        let names = self.names(session);
        let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        (!quoted.is_empty()).then(|| format!("sub-agent {}", quoted.join(" of ")))
    }

    // ----- structure

    /// Returns true if there are no sub-agents.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns true if a session belongs to a sub-agent.
    pub fn contains(&self, session: &str) -> bool {
        self.known.contains_key(session)
    }

    /// Returns a number that increases with every change of the tree's structure.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the parent of a sub-agent's session.
    pub fn parent(&self, session: &str) -> Option<&Parent> {
        self.known.get(session).map(|child| &child.parent)
    }

    /// Returns the ancestors of a session, nearest first. Ends, because links never form a cycle.
    pub fn ancestors<'t>(&'t self, session: &str) -> impl Iterator<Item = &'t Parent> {
        std::iter::successors(self.parent(session), |parent| self.parent(&parent.session))
    }

    /// Returns the number of ancestors of a session.
    fn depth(&self, session: &str) -> usize {
        self.ancestors(session).count()
    }

    /// Returns the topmost ancestor of a session, or the session itself if it has no parent.
    pub fn root<'t>(&'t self, session: &'t str) -> &'t str {
        self.ancestors(session).last().map_or(session, |parent| &parent.session)
    }

    /// Returns the child of the root that a sub-agent descends from or is.
    pub fn top<'t>(&'t self, session: &'t str) -> &'t str {
        let below_root = |parent: &&Parent| self.known.contains_key(&parent.session);
        self.ancestors(session).take_while(below_root).last().map_or(session, |parent| &parent.session)
    }

    /// Returns the children of a session in order of appearance.
    pub fn children(&self, session: &str) -> impl Iterator<Item = (&str, &Parent)> {
        let children = self.below.get(session).into_iter().flat_map(|below| &below.children);
        children.filter_map(|child| Some((&**child, self.parent(child)?)))
    }

    /// Returns all descendants of a session, each before its own children.
    pub fn descendants(&self, session: &str) -> Vec<Arc<str>> {
        let below = |id: &str| self.below.get(id).into_iter().flat_map(|below| below.children.iter().rev());
        let mut waiting: Vec<&Arc<str>> = below(session).collect();
        let mut descendants = Vec::new();
        while let Some(child) = waiting.pop() {
            descendants.push(Arc::clone(child));
            waiting.extend(below(child));
        }
        descendants
    }

    /// Returns all sub-agents in order of appearance.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.order.iter().map(|id| &**id)
    }

    // ----- work

    /// Returns the latest state of a sub-agent, reported by itself or its parent, or implied by the end of
    /// its parent.
    pub fn state(&self, session: &str) -> Option<&v2::StateUpdate<'static>> {
        self.known.get(session)?.state.as_deref()
    }

    /// Returns true if the last known state of a sub-agent is active.
    pub fn is_active(&self, session: &str) -> bool {
        self.state(session).is_some_and(is_active)
    }

    /// Returns the outcome of a sub-agent's work: completed, failed or cancelled. [`None`] while it has not
    /// ended.
    pub fn outcome(&self, session: &str) -> Option<ToolCallStatus> {
        self.known.get(session)?.outcome()
    }

    /// Returns the active descendants of a session that clients can cancel.
    pub fn to_cancel(&self, session: &str) -> Vec<Arc<str>> {
        let is_it = |id: &Arc<str>| {
            self.is_active(id) && self.known.get(id).is_some_and(|known| known.can_be_cancelled)
        };
        self.descendants(session).into_iter().filter(is_it).collect()
    }

    /// Returns true if any descendant of a session is active. A sub-agent without a state counts as active
    /// while its parent lists it as background work.
    pub fn has_work_below(&self, session: &str) -> bool {
        let is_at_work = |id: &str| self.is_active(id);
        let mut waiting = vec![session];
        while let Some(session) = waiting.pop() {
            let Some(below) = self.below.get(session) else { continue };
            let is_listed = |id: &Arc<str>| below.background.contains(id) && self.state(id).is_none();
            if below.children.iter().any(|child| is_at_work(child) || is_listed(child)) {
                return true;
            }
            waiting.extend(below.children.iter().map(|child| &**child));
        }
        false
    }

    // ----- removal

    /// Changes the id of a session.
    pub fn rename(&mut self, session: &str, to: &Arc<str>) {
        if let Some(below) = self.below.remove(session) {
            for child in &below.children {
                if let Some(known) = self.known.get_mut(child) {
                    known.parent.session = Arc::clone(to);
                }
            }
            self.below.insert(Arc::clone(to), below);
        }
        if let Some(known) = self.known.remove(session) {
            if let Some(below) = self.below.get_mut(&known.parent.session) {
                let in_calls = below.calls.values_mut().flatten();
                let everywhere = below.children.iter_mut().chain(in_calls).chain(below.names.values_mut());
                everywhere.filter(|id| ***id == *session).for_each(|id| *id = Arc::clone(to));
            }
            self.order.iter_mut().filter(|id| ***id == *session).for_each(|id| *id = Arc::clone(to));
            self.known.insert(Arc::clone(to), known);
        }
        self.revision += 1;
    }

    /// Removes a session. Its children remain as sessions without a parent.
    pub fn forget(&mut self, session: &str) {
        self.forget_one(session);
        if let Some(below) = self.below.remove(session) {
            for child in &below.children {
                self.known.remove(child);
            }
            self.order.retain(|id| self.known.contains_key(id));
        }
        self.revision += 1;
    }

    /// Removes a session and all its descendants. Returns the removed sub-agents.
    pub fn forget_all(&mut self, session: &str) -> Vec<Arc<str>> {
        // Collect before removing: the tree below cannot be walked afterwards.
        let mut gone = self.descendants(session);
        gone.extend(self.known.get_key_value(session).map(|(id, _)| Arc::clone(id)));
        self.forget_one(session);
        self.below.remove(session);
        for id in &gone {
            self.known.remove(id);
            self.below.remove(id);
        }
        if !gone.is_empty() {
            self.order.retain(|id| self.known.contains_key(id));
            self.revision += 1;
        }
        gone
    }

    fn forget_one(&mut self, session: &str) {
        let Some(Child { parent, names, .. }) = self.known.remove(session) else { return };
        self.order.retain(|known| **known != *session);
        if let Some(below) = self.below.get_mut(&parent.session) {
            below.children.retain(|sibling| **sibling != *session);
            below.remove_from_call(parent.tool_call.as_deref(), session);
            for (_, name) in names {
                below.names.remove(&name);
            }
        }
    }
}

impl Child {
    fn set_state(&mut self, state: &v2::StateUpdate<'_>) {
        match state {
            v2::StateUpdate::Idle(idle) => {
                let says_more = idle.stop_reason.is_some() || idle.error.is_some();
                // Both the sub-agent and its parent report the end. Keep the report with more detail.
                if !says_more && matches!(self.state.as_deref(), Some(v2::StateUpdate::Idle(_))) {
                    return;
                }
                self.has_begun |= says_more;
            }
            _ => self.has_begun = true,
        }
        self.state = Some(Arc::new(state.clone().into_owned()));
    }

    fn outcome(&self) -> Option<ToolCallStatus> {
        let Some(v2::StateUpdate::Idle(idle)) = self.state.as_deref() else { return None };
        // An idle sub-agent that never worked has been opened but not started.
        self.has_begun.then_some(match &idle.stop_reason {
            Some(v2::StopReason::Cancelled) => ToolCallStatus::Cancelled,
            Some(v2::StopReason::Error | v2::StopReason::Refusal) => ToolCallStatus::Failed,
            _ => ToolCallStatus::Completed,
        })
    }
}

impl Children {
    fn remove_from_call(&mut self, tool_call: Option<&str>, child: &str) {
        let Some(tool_call) = tool_call else { return };
        if let Some(children) = self.calls.get_mut(tool_call) {
            children.retain(|id| **id != *child);
            if children.is_empty() {
                self.calls.remove(tool_call);
            }
        }
    }

    /// Returns a name that no child has or had.
    fn free_name(&mut self, source: &NameSource, number: usize) -> Arc<str> {
        let (first, title) = match source {
            NameSource::FromParent(title) => (self.next.get(title).copied().unwrap_or(1), Some(title)),
            NameSource::Title(title) => (number, Some(title)),
            NameSource::Number => (number, None),
        };
        let is_told = matches!(source, NameSource::FromParent(_));
        let name_of = |number: usize| -> Arc<str> {
            match title {
                Some(title) if is_told && number == 1 => Arc::clone(title),
                Some(title) => format!("{title} #{number}").into(),
                None => format!("number {number}").into(),
            }
        };
        // There are more numbers than names, so one is free.
        let mut number = first;
        let mut name = name_of(number);
        while self.names.contains_key(&name) {
            number += 1;
            name = name_of(number);
        }
        if let NameSource::FromParent(title) = source {
            if self.next.len() >= MAX_HINTS {
                self.next.clear();
            }
            self.next.insert(Arc::clone(title), number + 1);
        }
        name
    }
}

/// Returns true if a session in this state is active.
pub(crate) fn is_active(state: &v2::StateUpdate<'_>) -> bool {
    matches!(activity_of(state), Activity::Running | Activity::RequiresAction)
}

fn background_of<'s, 'a>(state: &'s v2::StateUpdate<'a>) -> Option<&'s [v2::BackgroundWork<'a>]> {
    match state {
        v2::StateUpdate::Running(state)
        | v2::StateUpdate::RequiresAction(state)
        | v2::StateUpdate::Unobservable(state) => state.background.as_deref(),
        v2::StateUpdate::Idle(state) => state.background.as_deref(),
        v2::StateUpdate::Unknown(_) => None,
        v2::StateUpdate::More(none) => none.never(),
    }
}

/// Applies a field of an update to a text.
fn patch(text: &mut Option<Arc<str>>, field: &Field<Text<'_>>, read: impl Fn(&str) -> Option<Arc<str>>) {
    match field {
        Field::Keep => {}
        Field::Clear => *text = None,
        Field::Set(told) => *text = read(told),
    }
}

/// Returns a text as one line of limited length, or [`None`] if it is blank.
fn clipped(text: &str) -> Option<Arc<str>> {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if line.len() > MAX_NAME {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.len() > MAX_NAME {
        let end = (0..=MAX_NAME).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0);
        line.truncate(end);
        line.push('…');
    }
    (!line.is_empty()).then(|| line.into())
}

#[cfg(test)]
mod tests {
    use switchboard_acp::WireFormat;

    use super::*;

    fn links(tree: &mut SubagentTree, session: &str, update: &str) -> Vec<Result<Linked, NotLinked>> {
        let update = v2::SessionUpdate::decode(update, WireFormat::Any).unwrap();
        tree.apply(session, &update).into_iter().map(|linked| linked.place).collect()
    }

    /// Applies a parent's update about a sub-agent.
    fn told(tree: &mut SubagentTree, parent: &str, child: &str, rest: &str) {
        let update = format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{child}"{rest}}}"#);
        assert!(links(tree, parent, &update)[0].is_ok(), "{update}");
    }

    fn titled(tree: &mut SubagentTree, child: &str, title: &str) -> String {
        told(tree, "root", child, &format!(r#","title":"{title}""#));
        tree.name(child).unwrap()
    }

    fn state(tree: &mut SubagentTree, session: &str, rest: &str) {
        links(tree, session, &format!(r#"{{"sessionUpdate":"state_update",{rest}}}"#));
    }

    const RUNNING: &str = r#","state":{"state":"running"}"#;

    #[test]
    fn links_form_trees_whatever_is_told() {
        let mut tree = SubagentTree::default();
        let mut link =
            |child: &str, parent: &str, call| tree.link(child, parent, call).map(|linked| linked.is_new);
        assert_eq!(link("child", "root", None), Ok(true));
        assert_eq!(link("grandchild", "child", Some("c-1")), Ok(true));
        assert_eq!(link("root", "grandchild", None), Err(NotLinked::Circle));
        assert_eq!(link("self", "self", None), Err(NotLinked::Circle));
        assert_eq!(link("grandchild", "root", None), Err(NotLinked::Taken));
        // Reported again without the call: the call is still known.
        assert_eq!(link("grandchild", "child", None), Ok(false));
        assert_eq!(tree.parent("grandchild").unwrap().tool_call.as_deref(), Some("c-1"));
        let ancestors: Vec<_> = tree.ancestors("grandchild").map(|parent| &*parent.session).collect();
        assert_eq!(ancestors, ["child", "root"]);
        assert_eq!(
            (tree.top("grandchild"), tree.top("child"), tree.root("root")),
            ("child", "child", "root")
        );

        tree.forget("child");
        assert!(tree.parent("grandchild").is_none());
        assert_eq!(tree.children("root").count(), 0);
        assert!(tree.link("grandchild", "root", None).unwrap().is_new);
    }

    #[test]
    fn no_two_siblings_have_the_same_name_whatever_they_are_called() {
        let mut tree = SubagentTree::default();
        assert_eq!(titled(&mut tree, "a", "Explorer"), "Explorer");
        assert_eq!(titled(&mut tree, "b", "Explorer #2"), "Explorer #2");
        assert_eq!(titled(&mut tree, "c", "Explorer"), "Explorer #3");
        // Named by its own title, with its index.
        told(&mut tree, "root", "d", "");
        assert_eq!(tree.name("d").unwrap(), "number 4");
        assert_eq!(titled(&mut tree, "e", "Explorer #4"), "Explorer #4");
        links(&mut tree, "d", r#"{"sessionUpdate":"session_info_update","title":"Explorer"}"#);
        assert_eq!(tree.name("d").unwrap(), "Explorer #5");
        // An earlier name is reused by its owner, and no other child gets it meanwhile.
        assert_eq!(titled(&mut tree, "a", "Writer"), "Writer");
        assert_eq!(titled(&mut tree, "f", "Explorer"), "Explorer #6");
        assert_eq!(titled(&mut tree, "a", "Explorer"), "Explorer");
        // Names of other sessions' children are independent.
        told(&mut tree, "a", "g", r#","title":"Explorer""#);
        assert_eq!(tree.names("g"), ["Explorer", "Explorer"]);
    }

    #[test]
    fn titles_of_calls_name_children_whenever_they_come() {
        let mut tree = SubagentTree::default();
        let content = r#""content":[{"type":"session","sessionId":"a"}]"#;
        let call = |rest: &str| {
            format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"Task"{rest}}}"#)
        };
        links(&mut tree, "root", &call(&format!(",{content}")));
        assert_eq!(tree.name("a").unwrap(), "Task #1");
        links(&mut tree, "root", &call("").replace("Task", "Other"));
        assert_eq!(tree.name("a").unwrap(), "Other #1");
        // Children whose call got its title before they were linked are named by the caller, which knows the
        // call.
        let chunk = r#"{"sessionUpdate":"tool_call_content_chunk","toolCallId":"d","content":{"type":"session","sessionId":"b"}}"#;
        links(&mut tree, "root", chunk);
        tree.set_call_title("root", "d", Some("Late"));
        assert_eq!(tree.name("b").unwrap(), "Late #2");
    }

    #[test]
    fn names_are_short_lines() {
        let mut tree = SubagentTree::default();
        assert_eq!(titled(&mut tree, "a", "  two\\n lines "), "two lines");
        let long = titled(&mut tree, "b", &"ä ".repeat(1000));
        assert!(long.len() <= 203 && long.ends_with('…'), "{long}");
        assert_eq!(titled(&mut tree, "c", " \\n "), "number 3");
    }

    #[test]
    fn renaming_without_end_keeps_little_and_never_shares_a_name() {
        let mut tree = SubagentTree::default();
        titled(&mut tree, "a", "same");
        for number in 0..1000 {
            titled(&mut tree, "b", &format!("title {number}"));
        }
        assert_eq!(titled(&mut tree, "b", "same"), "same #2");
        assert!(tree.below["root"].names.len() <= 2 * MAX_NAMES);
    }

    #[test]
    fn the_end_of_a_parent_is_that_of_children_whose_end_nobody_tells() {
        let mut tree = SubagentTree::default();
        told(&mut tree, "root", "untold", "");
        told(&mut tree, "untold", "below", "");
        told(&mut tree, "root", "opened", r#","state":{"state":"idle"}"#);
        told(&mut tree, "root", "running", RUNNING);
        assert_eq!((tree.outcome("opened"), tree.outcome("untold")), (None, None));
        state(&mut tree, "root", r#""state":"idle","stopReason":"end_turn""#);
        for child in ["untold", "below", "opened"] {
            assert_eq!(tree.outcome(child), Some(ToolCallStatus::Completed), "{child}");
        }
        // It may continue in the background: no update says otherwise.
        assert_eq!(tree.outcome("running"), None);
        assert!(tree.has_work_below("root"));
        // Now an update does.
        state(&mut tree, "root", r#""state":"idle","stopReason":"cancelled","background":[]"#);
        assert_eq!(tree.outcome("running"), Some(ToolCallStatus::Cancelled));
        assert!(!tree.has_work_below("root"));
        // It works again.
        state(&mut tree, "running", r#""state":"running""#);
        assert!(tree.has_work_below("root") && tree.outcome("running").is_none());
    }

    #[test]
    fn background_work_that_is_listed_goes_on() {
        let mut tree = SubagentTree::default();
        told(&mut tree, "root", "untold", "");
        told(&mut tree, "root", "other", RUNNING);
        told(&mut tree, "other", "below", RUNNING);
        let listed = r#""background":[{"type":"subagent","sessionId":"untold"}]"#;
        state(&mut tree, "root", &format!(r#""state":"idle","stopReason":"end_turn",{listed}"#));
        assert_eq!(tree.outcome("untold"), None);
        assert!(tree.has_work_below("root"));
        assert_eq!(tree.outcome("other"), Some(ToolCallStatus::Completed));
        assert_eq!(tree.outcome("below"), Some(ToolCallStatus::Completed));
        state(&mut tree, "untold", r#""state":"idle","stopReason":"refusal""#);
        assert_eq!(tree.outcome("untold"), Some(ToolCallStatus::Failed));
        assert!(!tree.has_work_below("root"));
    }

    #[test]
    fn an_end_that_says_less_does_not_replace_one_that_says_more() {
        let mut tree = SubagentTree::default();
        told(&mut tree, "root", "a", RUNNING);
        state(&mut tree, "a", r#""state":"idle","stopReason":"cancelled""#);
        told(&mut tree, "root", "a", r#","state":{"state":"idle"}"#);
        assert_eq!(tree.outcome("a"), Some(ToolCallStatus::Cancelled));
    }

    #[test]
    fn unfinished_sub_agents_fail_when_the_agent_exits() {
        let mut tree = SubagentTree::default();
        told(&mut tree, "root", "untold", "");
        told(&mut tree, "root", "running", RUNNING);
        told(&mut tree, "root", "done", r#","state":{"state":"idle","stopReason":"end_turn"}"#);
        tree.end_all(&RpcError::new(-1, "gone"));
        let outcomes = ["untold", "running", "done"].map(|child| tree.outcome(child).unwrap());
        assert_eq!(outcomes, [ToolCallStatus::Failed, ToolCallStatus::Failed, ToolCallStatus::Completed]);
        assert!(!tree.has_work_below("root"));
    }

    #[test]
    fn those_that_are_over_make_room_for_others() {
        let mut tree = SubagentTree::default();
        for number in 0..MAX_SUBAGENTS {
            told(&mut tree, "root", &format!("c{number}"), RUNNING);
        }
        assert_eq!(tree.link("more", "root", None), Err(NotLinked::Full));
        state(&mut tree, "c7", r#""state":"idle","stopReason":"end_turn""#);
        let linked = tree.link("more", "root", None).unwrap();
        assert_eq!(linked.forgotten.as_deref(), Some("c7"));
        assert_eq!(tree.known.len(), MAX_SUBAGENTS);
        assert!(!tree.contains("c7") && tree.name("more").unwrap() == "number 10001");
    }

    #[test]
    fn a_child_of_one_that_is_too_deep_stands_beside_it() {
        let mut tree = SubagentTree::default();
        for depth in 0..MAX_ANCESTORS {
            tree.link(&format!("d{}", depth + 1), &format!("d{depth}"), None).unwrap();
        }
        for is_new in [true, false] {
            let linked = tree.link("deeper", "d64", Some("call")).unwrap();
            assert_eq!((linked.is_new, linked.is_beside_parent), (is_new, true));
        }
        assert_eq!(*tree.parent("deeper").unwrap().session, *"d63");
        assert_eq!(tree.depth("deeper"), MAX_ANCESTORS);
    }

    #[test]
    fn a_session_with_another_id_keeps_name_and_children() {
        let mut tree = SubagentTree::default();
        titled(&mut tree, "a", "A");
        told(&mut tree, "a", "b", r#","title":"B","toolCallId":"c""#);
        tree.rename("a", &"z".into());
        assert_eq!((tree.root("b"), tree.names("b")), ("root", vec!["B".to_owned(), "A".to_owned()]));
        tree.rename("root", &"r".into());
        assert_eq!((tree.root("b"), tree.name("z").as_deref()), ("r", Some("A")));
        assert_eq!(tree.forget_all("r").len(), 2);
        assert!(tree.is_empty() && tree.below.is_empty() && tree.order.is_empty());
    }
}
