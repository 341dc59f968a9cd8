//! Sub-agents: sessions that the agent opens while it works in others. A client without sub-agent support is
//! not told of these sessions. Each is folded here and shown in one tool call of the session that the client
//! opened. The [`SubagentTree`] determines parents, names and ends.

use std::collections::VecDeque;

use switchboard_acp::rpc::RpcError;
use switchboard_acp::v2::ToolCallStatus;
use switchboard_acp::{Diagnostic, Extra, Raw, Wire, WireFormat, v2};
use switchboard_session::{LinkedSession, Session as Fold, SubagentTree};

use crate::Moment;
use crate::map::{HashMap, HashSet};
use crate::sessions::Size;

/// Maximum bytes kept of each sub-agent's output, and rendered in one tool call for it and all its
/// descendants.
pub(super) const SHOWN: usize = 1024 * 1024;
/// Maximum number of tracked sessions of the client.
const OPENED: usize = 100_000;
/// Maximum bytes and updates held for sessions whose parent is unknown.
const UNLINKED_BYTES: usize = 1024 * 1024;
const UNLINKED_UPDATES: usize = 4096;
/// Maximum bytes shown of an error.
const ERROR: usize = 200;

/// The sub-agent sessions of a connection.
#[derive(Debug, Default)]
pub(super) struct Subagents {
    opened: OpenedSessions,
    tree: SubagentTree,
    /// Displayed state of each sub-agent in the tree.
    children: HashMap<String, Child>,
    /// Sub-agents that no tool call shows yet.
    pub(super) without_call: Vec<String>,
    unlinked: VecDeque<HeldUpdate>,
    unlinked_bytes: usize,
    /// Held updates whose session's parent is known now.
    ready: VecDeque<HeldUpdate>,
}

/// The sessions that the client opened.
#[derive(Debug, Default)]
struct OpenedSessions {
    /// Set if the list is complete, because the bridge saw the handshake.
    are_known: bool,
    ids: HashSet<String>,
    order: VecDeque<String>,
}

/// An update of a session whose parent is unknown.
#[derive(Debug)]
pub(super) struct HeldUpdate {
    pub(super) params: v2::UpdateSessionNotification<'static>,
    /// Malformed parts, with pointers relative to this root.
    pub(super) left_out: (String, Vec<Diagnostic>),
    pub(super) envelope: Extra<'static>,
    /// Received size in bytes.
    pub(super) size: usize,
}

/// Relation of a session to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionRelation {
    /// Opened by the client.
    Opened,
    /// Session of a sub-agent.
    Child,
    /// Unknown.
    Unknown,
}

/// The tool call that shows a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShownBy {
    pub(super) call: String,
    /// Set if the bridge created the call.
    pub(super) is_own: bool,
}

/// Displayed state of a sub-agent.
#[derive(Debug)]
pub(super) struct Child {
    /// Its folded session.
    pub(super) fold: Fold,
    /// Items of its tool calls that are more than text, converted to version 1.
    pub(super) items: HashMap<String, Vec<Vec<Raw<'static>>>>,
    /// The parent's tool call that refers to it.
    pub(super) referred: Option<String>,
    /// For a direct child of the client's session: the call that shows it and all its descendants.
    pub(super) shown_by: Option<ShownBy>,
    /// Title and status last sent for a call that the bridge created.
    pub(super) sent: Option<(String, ToolCallStatus)>,
    /// Time of its last reported end.
    ended: Option<Moment>,
    /// For a direct child of the client's session: bytes shown of it and all its descendants.
    shown: usize,
    /// Bytes kept, and bytes left out because of the limit.
    taken: usize,
    pub(super) left_out: usize,
    /// Set if the limit was reported.
    pub(super) is_reported: bool,
    /// Number of updates about it.
    pub(super) updates: u32,
    pub(super) since: Moment,
}

impl Child {
    fn new(now: Moment) -> Self {
        Child {
            fold: Fold::new(WireFormat::Any),
            items: HashMap::default(),
            referred: None,
            shown_by: None,
            sent: None,
            ended: None,
            shown: 0,
            taken: 0,
            left_out: 0,
            is_reported: false,
            updates: 0,
            since: now,
        }
    }

    /// Folds an update. Above the limit, only the status of known calls is applied.
    pub(super) fn take(&mut self, update: &v2::SessionUpdate<'_>, fits: bool) {
        if fits {
            // The limit must not leave calls in progress forever.
            self.fold.apply(update);
        } else if let v2::SessionUpdate::ToolCallUpdate(update) = update
            && self.fold.tool_call(&update.tool_call_id).is_some()
        {
            let mut status = v2::ToolCallUpdate::new(&*update.tool_call_id);
            status.status = update.status.clone();
            self.fold.apply(&status.into());
        }
    }

    /// Returns the bytes kept of its output.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Stores the converted items of a call; `anew`: replaces its items.
    pub(super) fn keep_items(&mut self, call: &str, anew: bool, items: Vec<Vec<Raw<'static>>>) {
        let kept = self.items.entry(call.to_owned()).or_default();
        if anew {
            kept.clear();
        }
        kept.extend(items);
    }

    fn forget(&mut self) -> usize {
        self.fold = Fold::new(WireFormat::Any);
        self.items.clear();
        // Dropped bytes count as left out, so that the rendered note stays correct.
        self.left_out += self.taken;
        std::mem::take(&mut self.taken)
    }
}

/// Returns an error as one line of bounded length.
fn clipped(error: &str) -> String {
    let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
    match error.char_indices().find(|(place, character)| place + character.len_utf8() > ERROR) {
        Some((end, _)) => format!("{}…", &error[..end]),
        None => error,
    }
}

impl Subagents {
    /// Starts tracking with the handshake: from now on, a session that the client did not open is not the
    /// client's.
    pub(super) fn begin(&mut self) {
        self.opened.are_known = true;
    }

    /// Records a session that the client opens or has opened.
    pub(super) fn open(&mut self, id: &str) {
        if self.opened.ids.contains(id) {
            return;
        }
        // The oldest session is removed. A prompt in it adds it again.
        if self.opened.order.len() >= OPENED
            && let Some(oldest) = self.opened.order.pop_front()
        {
            self.opened.ids.remove(&oldest);
        }
        self.opened.ids.insert(id.to_owned());
        self.opened.order.push_back(id.to_owned());
        // A session that the client opens is not a sub-agent, even if it was announced as one.
        self.remove(id);
        self.settle(id);
    }

    /// Removes the sub-agents of a closed session. Its own id stays known as the client's.
    pub(super) fn close(&mut self, root: &str) {
        for id in self.tree.forget_all(root) {
            self.children.remove(&*id);
        }
        self.without_call.retain(|id| self.children.contains_key(id));
    }

    /// Prepares for a replay of a session and its sub-agents.
    pub(super) fn begin_replay(&mut self, root: &str) {
        for id in self.tree.descendants(root) {
            if let Some(child) = self.children.get_mut(&*id) {
                child.forget();
                (child.left_out, child.shown, child.sent) = (0, 0, None);
            }
        }
    }

    /// Removes a sub-agent and its descendants.
    fn remove(&mut self, id: &str) {
        if !self.tree.contains(id) {
            return;
        }
        let top = self.tree.top(id).to_owned();
        let mut freed = 0;
        for id in self.tree.forget_all(id) {
            freed += self.children.remove(&*id).map_or(0, |child| child.taken);
        }
        // The freed bytes belong to the call of the topmost ancestor.
        if let Some(top) = self.children.get_mut(&top) {
            top.shown = top.shown.saturating_sub(freed);
        }
        self.without_call.retain(|id| self.children.contains_key(id));
    }

    pub(super) fn relation(&self, id: &str) -> SessionRelation {
        // Sub-agents first: an announced session may also be in the client's list after a reload.
        if !self.children.is_empty() && self.children.contains_key(id) {
            SessionRelation::Child
        // Without the handshake the list is incomplete, so every session counts as the client's.
        } else if !self.opened.are_known || self.opened.ids.contains(id) {
            SessionRelation::Opened
        } else {
            SessionRelation::Unknown
        }
    }

    /// Returns whether no sub-agent is known.
    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    pub(super) fn get(&self, id: &str) -> Option<&Child> {
        self.children.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut Child> {
        self.children.get_mut(id)
    }

    /// Returns the tree with parents, names and states of the sub-agents.
    pub(super) fn tree(&self) -> &SubagentTree {
        &self.tree
    }

    /// Stores the title that a call had before it referred to a sub-agent.
    pub(super) fn set_call_title(&mut self, session: &str, call: &str, title: &str) {
        self.tree.set_call_title(session, call, Some(title));
    }

    /// Applies sub-agents and state of an update of a session that is the client's or a sub-agent's.
    pub(super) fn apply<'u>(
        &mut self,
        session: &str,
        update: &'u v2::SessionUpdate<'_>,
        now: Moment,
    ) -> Vec<LinkedSession<'u>> {
        let about = match update {
            v2::SessionUpdate::StateUpdate(_) => session,
            v2::SessionUpdate::SubagentUpdate(update) => &*update.session_id,
            _ => "",
        };
        // The end is timed on the first transition only.
        let was_over = self.tree.outcome(about).is_some();
        let opened = &self.opened.ids;
        // The tree must not link sessions of the client.
        let linked = self.tree.apply_unless(session, update, |id| opened.contains(id));
        if !was_over
            && self.tree.outcome(about).is_some()
            && let Some(child) = self.children.get_mut(about)
        {
            child.ended = Some(now);
        }
        for started in &linked {
            let Ok(place) = &started.place else { continue };
            // The tree evicts its oldest entry when it is full; the displayed state follows.
            if let Some(forgotten) = &place.forgotten {
                self.children.remove(&**forgotten);
                self.without_call.retain(|id| **id != **forgotten);
            }
            if place.is_new {
                self.add(started.session, now);
            }
        }
        linked
    }

    /// Starts showing a sub-agent that is new in the tree.
    fn add(&mut self, id: &str, now: Moment) {
        let mut child = Child::new(now);
        // A sub-agent may be announced after it has ended.
        child.ended = self.tree.outcome(id).map(|_| now);
        self.children.insert(id.to_owned(), child);
        if self.tree.top(id) == id {
            // A session that has sub-agents but is not one itself must be the client's, even if it was not
            // seen to be opened.
            let root = self.tree.root(id).to_owned();
            self.open(&root);
            self.without_call.push(id.to_owned());
        }
        // Updates that arrived before the announcement can be handled now.
        self.settle(id);
    }

    /// Ends all sub-agents, because the agent has exited. Returns the direct children of the client's
    /// sessions.
    pub(super) fn end(&mut self, error: &RpcError<'_>) -> Vec<(String, String)> {
        self.tree.end_all(error);
        let is_top = |id: &&str| self.tree.top(id) == *id;
        self.tree.all().filter(is_top).map(|id| (self.root_of(id).to_owned(), id.to_owned())).collect()
    }

    /// Returns the client's session that a session belongs to; itself if it is not a sub-agent's.
    pub(super) fn root_of<'f>(&'f self, id: &'f str) -> &'f str {
        self.tree.root(id)
    }

    /// Returns the status of a tool call that shows only this sub-agent.
    pub(super) fn status(&self, id: &str) -> ToolCallStatus {
        self.tree.outcome(id).unwrap_or(ToolCallStatus::InProgress)
    }

    /// Returns the error of a failed sub-agent if it was reported.
    pub(super) fn failure(&self, id: &str) -> Option<String> {
        match self.tree.state(id)? {
            v2::StateUpdate::Idle(idle) => idle.error.as_ref().map(|error| clipped(&error.message)),
            _ => None,
        }
    }

    /// Returns the sub-agents of a session whose calls show an outdated status.
    pub(super) fn with_new_status(&self, root: &str) -> Vec<String> {
        let is_it = |(id, _): &(&str, _)| {
            let sent = self.children.get(*id).and_then(|child| child.sent.as_ref());
            sent.is_some_and(|(_, status)| *status != self.status(id))
        };
        self.tree.children(root).filter(is_it).map(|(id, _)| id.to_owned()).collect()
    }

    /// Reserves bytes for a sub-agent in the call that shows it. Returns whether they fit.
    pub(super) fn reserve(&mut self, id: &str, size: usize) -> bool {
        let fits = self.children.get_mut(self.tree.top(id)).is_some_and(|top| {
            // All descendants share the limit of the call that shows them.
            let fits = top.shown + size <= SHOWN;
            top.shown += if fits { size } else { 0 };
            fits
        });
        if let Some(child) = self.children.get_mut(id) {
            *(if fits { &mut child.taken } else { &mut child.left_out }) += size;
        }
        fits
    }

    /// Returns the display name of a sub-agent.
    pub(super) fn name(&self, id: &str) -> String {
        self.tree.name(id).unwrap_or_else(|| id.to_owned())
    }

    /// Returns the names of a sub-agent and its ancestors, outermost first.
    pub(super) fn full_name(&self, id: &str) -> String {
        let names: Vec<String> = self.tree.names(id).into_iter().rev().collect();
        names.join(" › ")
    }

    /// Returns the sub-agent that sends or receives a message of a session.
    pub(super) fn other_end(
        &self,
        root: &str,
        message: &v2::unstable::SessionMessage<'_>,
    ) -> Option<(String, String)> {
        let is_child = |id: &str| self.children.contains_key(id) && self.root_of(id) == root;
        let ends = [
            (&message.recipient_session_id, &message.recipient_message_id),
            (&message.sender_session_id, &message.sender_message_id),
        ];
        ends.into_iter().find_map(|(session, own)| {
            // The recipient is checked first: a message is shown where it arrives.
            let session = session.value().filter(|session| is_child(session))?;
            let own = own.value().unwrap_or(&message.message_id);
            Some((session.clone().into_owned(), own.clone().into_owned()))
        })
    }

    /// Returns the sub-agent whose transcript contains a message of the session.
    pub(super) fn with_message(&self, root: &str, message_id: &str) -> Option<String> {
        let has = |id: &&str| {
            let child = self.children.get(*id).filter(|_| self.root_of(id) == root);
            child.is_some_and(|child| {
                child.fold.find(switchboard_session::EntryKind::SessionMessage, message_id).is_some()
            })
        };
        // The newest sub-agent first, because ids may repeat across sub-agents.
        self.tree.all().rev().find(has).map(str::to_owned)
    }

    /// Returns the time when the last sub-agent of a session ended.
    pub(super) fn last_end(&self, root: &str) -> Option<Moment> {
        let ended = |id: &std::sync::Arc<str>| self.children.get(&**id)?.ended;
        self.tree.descendants(root).iter().filter_map(ended).max()
    }

    /// Returns whether a call is the one that shows a sub-agent.
    pub(super) fn is_shown_by(&self, id: &str, root: &str, call: &str) -> bool {
        self.children.get(id).is_some_and(|child| {
            self.root_of(id) == root && child.shown_by.as_ref().is_some_and(|shown_by| shown_by.call == call)
        })
    }

    /// Returns the sub-agents of a session that no tool call shows yet.
    pub(super) fn without_call_in(&self, root: &str) -> Vec<String> {
        self.without_call.iter().filter(|id| self.root_of(id) == root).cloned().collect()
    }

    // ----- sessions without a known parent

    /// Holds an update of a session with unknown parent. Returns the oldest updates above the limit.
    pub(super) fn hold(&mut self, held: HeldUpdate) -> Vec<HeldUpdate> {
        // Count first, so that the limit includes the new update.
        self.unlinked_bytes += held.size;
        self.unlinked.push_back(held);
        let mut lost = Vec::new();
        while self.unlinked_bytes > UNLINKED_BYTES || self.unlinked.len() > UNLINKED_UPDATES {
            let Some(oldest) = self.unlinked.pop_front() else { break };
            self.unlinked_bytes -= oldest.size;
            lost.push(oldest);
        }
        lost
    }

    /// Releases the held updates of a session whose parent is known now.
    fn settle(&mut self, id: &str) {
        if self.unlinked.iter().any(|held| held.params.session_id == id) {
            let (known, others) =
                std::mem::take(&mut self.unlinked).into_iter().partition(|held| held.params.session_id == id);
            // Only updates of this session move; their order is preserved.
            self.unlinked = others;
            self.unlinked_bytes -= known.iter().map(|held: &HeldUpdate| held.size).sum::<usize>();
            self.ready.extend::<VecDeque<HeldUpdate>>(known);
        }
    }

    /// Returns the next held update that can be handled now.
    pub(super) fn next_ready(&mut self) -> Option<HeldUpdate> {
        self.ready.pop_front()
    }

    /// Removes and returns the updates whose session's parent stayed unknown.
    pub(super) fn take_unlinked(&mut self) -> VecDeque<HeldUpdate> {
        self.unlinked_bytes = 0;
        std::mem::take(&mut self.unlinked)
    }

    // ----- retained state

    pub(super) fn size(&self) -> Size {
        let bytes = self.children.values().map(|child| child.taken).sum::<usize>() + self.unlinked_bytes;
        Size { sessions: 0, entries: self.children.len() + self.unlinked.len(), bytes }
    }

    /// Drops the output of sub-agents, finished ones first, of one session or of all. Returns the number of
    /// bytes freed.
    pub(super) fn forget(&mut self, root: Option<&str>, bytes: usize) -> usize {
        let mut freed = 0;
        // Finished sub-agents first: their calls rarely change again.
        for is_over in [true, false] {
            for id in self.tree.all() {
                if freed >= bytes {
                    return freed;
                }
                let is_it = root.is_none_or(|root| self.tree.root(id) == root)
                    && self.tree.outcome(id).is_some() == is_over;
                let Some(child) = self.children.get_mut(id).filter(|_| is_it) else { continue };
                let bytes = child.forget();
                freed += bytes;
                // Freed bytes can be used by other sub-agents of the same call.
                if let Some(top) = self.children.get_mut(self.tree.top(id)) {
                    top.shown = top.shown.saturating_sub(bytes);
                }
            }
        }
        freed
    }
}

impl HeldUpdate {
    pub(super) fn new(
        params: v2::UpdateSessionNotification<'_>,
        (root, left_out): (&str, &[Diagnostic]),
        envelope: &Extra<'_>,
        size: usize,
    ) -> Self {
        let (params, envelope) = (params.into_owned(), envelope.clone().into_owned());
        HeldUpdate { params, left_out: (root.to_owned(), left_out.to_vec()), envelope, size }
    }
}
