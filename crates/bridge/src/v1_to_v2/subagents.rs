//! Sub-agents: sessions that the agent opens in the course of others. A client that does not know of them is told of none of
//! their sessions. Each is folded here, and shown in one tool call of the session that the client did open. Whose they are,
//! their names and their ends are those of the [`SubagentTree`]: nothing here decides that.

use std::collections::VecDeque;

use switchboard_acp::rpc::RpcError;
use switchboard_acp::v2::ToolCallStatus;
use switchboard_acp::{Diagnostic, Extra, Raw, Wire, WireFormat, v2};
use switchboard_session::{LinkedSession, Session as Fold, SubagentTree};

use crate::Moment;
use crate::map::{HashMap, HashSet};
use crate::sessions::Size;

/// How many bytes of what one of them says are kept, and how many one tool call shows of it and all below it.
pub(super) const SHOWN: usize = 1024 * 1024;
/// How many sessions are known as the client's.
const OPENED: usize = 100_000;
/// How many bytes and updates are kept of sessions of which nobody has told whose they are.
const STRANGE_BYTES: usize = 1024 * 1024;
const STRANGE_UPDATES: usize = 4096;
/// How many bytes of an error are shown.
const ERROR: usize = 200;

/// The sessions on a connection, as far as one belongs to another.
#[derive(Debug, Default)]
pub(super) struct Subagents {
    opened: OpenedSessions,
    tree: SubagentTree,
    /// What is shown of each sub-agent in the tree.
    children: HashMap<String, Child>,
    /// Those that no tool call shows yet.
    pub(super) uncalled: Vec<String>,
    strangers: VecDeque<HeldUpdate>,
    strange_bytes: usize,
    /// What strangers said of whom it has been told by now whose they are.
    ready: VecDeque<HeldUpdate>,
}

/// The sessions that the client opened.
#[derive(Debug, Default)]
struct OpenedSessions {
    /// Whether all are known: the bridge was there from the handshake on.
    are_known: bool,
    ids: HashSet<String>,
    order: VecDeque<String>,
}

/// An update of a session of which nobody has told whose it is.
#[derive(Debug)]
pub(super) struct HeldUpdate {
    pub(super) params: v2::UpdateSessionNotification<'static>,
    /// What was malformed in it, by pointers into what stands at this place.
    pub(super) left_out: (String, Vec<Diagnostic>),
    pub(super) envelope: Extra<'static>,
    /// Bytes that it came in.
    pub(super) size: usize,
}

/// What a session is to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It opened it.
    Opened,
    /// It belongs to a sub-agent.
    Child,
    /// Nobody has told.
    Stranger,
}

/// The tool call that shows a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShownBy {
    pub(super) call: String,
    /// Whether the bridge has made it.
    pub(super) is_own: bool,
}

/// What is shown of a sub-agent.
#[derive(Debug)]
pub(super) struct Child {
    /// What it says.
    pub(super) fold: Fold,
    /// The items of its tool calls that are more than text, as version 1 has them.
    pub(super) items: HashMap<String, Vec<Vec<Raw<'static>>>>,
    /// The call of its parent that refers to it.
    pub(super) referred: Option<String>,
    /// Of one below the root: the call that shows it and all below it.
    pub(super) shown_by: Option<ShownBy>,
    /// What the client was told of a call that the bridge has made: title and status.
    pub(super) told: Option<(String, ToolCallStatus)>,
    /// When an end of its work was last told.
    ended: Option<Moment>,
    /// Bytes of it and of all below it that one call shows, of one below the root.
    shown: usize,
    /// Bytes that were taken in, and that there was no room for.
    taken: usize,
    pub(super) left_out: usize,
    /// Whether it has been reported that not all is shown.
    pub(super) is_reported: bool,
    /// How often something was heard of it.
    pub(super) heard: u32,
    pub(super) since: Moment,
}

impl Child {
    fn new(now: Moment) -> Self {
        Child {
            fold: Fold::new(WireFormat::Any),
            items: HashMap::default(),
            referred: None,
            shown_by: None,
            told: None,
            ended: None,
            shown: 0,
            taken: 0,
            left_out: 0,
            is_reported: false,
            heard: 0,
            since: now,
        }
    }

    /// Takes in what it says. Where there is no room for that, the status of calls counts all the same.
    pub(super) fn take(&mut self, update: &v2::SessionUpdate<'_>, fits: bool) {
        if fits {
            self.fold.apply(update);
        } else if let v2::SessionUpdate::ToolCallUpdate(update) = update
            && self.fold.tool_call(&update.tool_call_id).is_some()
        {
            let mut status = v2::ToolCallUpdate::new(&*update.tool_call_id);
            status.status = update.status.clone();
            self.fold.apply(&status.into());
        }
    }

    /// How many bytes of what it said are kept.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Remembers how items of a call look in version 1; `anew`: in the place of those that it had.
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
        self.left_out += self.taken;
        std::mem::take(&mut self.taken)
    }
}

/// An error as one line that is not too long.
fn clipped(error: &str) -> String {
    let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
    match error.char_indices().find(|(place, character)| place + character.len_utf8() > ERROR) {
        Some((end, _)) => format!("{}…", &error[..end]),
        None => error,
    }
}

impl Subagents {
    /// The bridge is there from the handshake on: what the client has not opened from now on, it has not.
    pub(super) fn begin(&mut self) {
        self.opened.are_known = true;
    }

    /// The client opens a session, or shows that it has.
    pub(super) fn open(&mut self, id: &str) {
        if self.opened.ids.contains(id) {
            return;
        }
        if self.opened.order.len() >= OPENED
            && let Some(oldest) = self.opened.order.pop_front()
        {
            self.opened.ids.remove(&oldest);
        }
        self.opened.ids.insert(id.to_owned());
        self.opened.order.push_back(id.to_owned());
        self.remove(id);
        self.settle(id);
    }

    /// The session that the client opened is gone, and with it those of its sub-agents. Its id is one that the client knows
    /// all the same.
    pub(super) fn close(&mut self, root: &str) {
        for id in self.tree.forget_all(root) {
            self.children.remove(&*id);
        }
        self.uncalled.retain(|id| self.children.contains_key(id));
    }

    /// All that was said in a session comes again, also what its sub-agents said.
    pub(super) fn begin_replay(&mut self, root: &str) {
        for id in self.tree.descendants(root) {
            if let Some(child) = self.children.get_mut(&*id) {
                child.forget();
                (child.left_out, child.shown, child.told) = (0, 0, None);
            }
        }
    }

    /// Forgets a sub-agent and those below it.
    fn remove(&mut self, id: &str) {
        if !self.tree.contains(id) {
            return;
        }
        let top = self.tree.top(id).to_owned();
        let mut freed = 0;
        for id in self.tree.forget_all(id) {
            freed += self.children.remove(&*id).map_or(0, |child| child.taken);
        }
        if let Some(top) = self.children.get_mut(&top) {
            top.shown = top.shown.saturating_sub(freed);
        }
        self.uncalled.retain(|id| self.children.contains_key(id));
    }

    pub(super) fn standing(&self, id: &str) -> Standing {
        if !self.children.is_empty() && self.children.contains_key(id) {
            Standing::Child
        } else if !self.opened.are_known || self.opened.ids.contains(id) {
            Standing::Opened
        } else {
            Standing::Stranger
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

    /// Returns parents, names and states of the sub-agents.
    pub(super) fn tree(&self) -> &SubagentTree {
        &self.tree
    }

    /// Takes a title that a call was given before it stood for a sub-agent.
    pub(super) fn tell_call_title(&mut self, session: &str, call: &str, title: &str) {
        self.tree.tell_call_title(session, call, Some(title));
    }

    /// Takes what an update of a session, which is the client's or a sub-agent's, says of sub-agents and of its state.
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
        let was_over = self.tree.outcome(about).is_some();
        let opened = &self.opened.ids;
        let linked = self.tree.apply_unless(session, update, |id| opened.contains(id));
        if !was_over
            && self.tree.outcome(about).is_some()
            && let Some(child) = self.children.get_mut(about)
        {
            child.ended = Some(now);
        }
        for started in &linked {
            let Ok(place) = &started.place else { continue };
            if let Some(forgotten) = &place.forgotten {
                self.children.remove(&**forgotten);
                self.uncalled.retain(|id| **id != **forgotten);
            }
            if place.is_new {
                self.add(started.session, now);
            }
        }
        linked
    }

    /// Begins to show a sub-agent that is new in the tree.
    fn add(&mut self, id: &str, now: Moment) {
        let mut child = Child::new(now);
        child.ended = self.tree.outcome(id).map(|_| now);
        self.children.insert(id.to_owned(), child);
        if self.tree.top(id) == id {
            // A session that has sub-agents and is none is the client's, whether it was seen to open it or not.
            let root = self.tree.root(id).to_owned();
            self.open(&root);
            self.uncalled.push(id.to_owned());
        }
        self.settle(id);
    }

    /// The agent is gone, and with it all that was not over. Returns the sub-agents below the client's sessions.
    pub(super) fn end(&mut self, error: &RpcError<'_>) -> Vec<(String, String)> {
        self.tree.end_all(error);
        let is_top = |id: &&str| self.tree.top(id) == *id;
        self.tree.all().filter(is_top).map(|id| (self.root_of(id).to_owned(), id.to_owned())).collect()
    }

    /// The session that the client opened of which a session is part: itself, where it is no sub-agent's.
    pub(super) fn root_of<'f>(&'f self, id: &'f str) -> &'f str {
        self.tree.root(id)
    }

    /// Returns the status of a call that shows nothing but this sub-agent.
    pub(super) fn status(&self, id: &str) -> ToolCallStatus {
        self.tree.outcome(id).unwrap_or(ToolCallStatus::InProgress)
    }

    /// Returns why the work of a sub-agent failed, where that was told.
    pub(super) fn failure(&self, id: &str) -> Option<String> {
        match self.tree.state(id)? {
            v2::StateUpdate::Idle(idle) => idle.error.as_ref().map(|error| clipped(&error.message)),
            _ => None,
        }
    }

    /// Returns the sub-agents of a session whose calls show another status than they have.
    pub(super) fn with_new_status(&self, root: &str) -> Vec<String> {
        let is_it = |(id, _): &(&str, _)| {
            let told = self.children.get(*id).and_then(|child| child.told.as_ref());
            told.is_some_and(|(_, status)| *status != self.status(id))
        };
        self.tree.children(root).filter(is_it).map(|(id, _)| id.to_owned()).collect()
    }

    /// Finds room for so many bytes of a sub-agent in the call that shows it. Whether there is some.
    pub(super) fn reserve(&mut self, id: &str, size: usize) -> bool {
        let fits = self.children.get_mut(self.tree.top(id)).is_some_and(|top| {
            let fits = top.shown + size <= SHOWN;
            top.shown += if fits { size } else { 0 };
            fits
        });
        if let Some(child) = self.children.get_mut(id) {
            *(if fits { &mut child.taken } else { &mut child.left_out }) += size;
        }
        fits
    }

    /// What people know a sub-agent by.
    pub(super) fn name(&self, id: &str) -> String {
        self.tree.name(id).unwrap_or_else(|| id.to_owned())
    }

    /// What a sub-agent is called down from the session that the client opened.
    pub(super) fn full_name(&self, id: &str) -> String {
        let names: Vec<String> = self.tree.names(id).into_iter().rev().collect();
        names.join(" › ")
    }

    /// The sub-agent of a session to or from which a message is that the session has.
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
            let session = session.value().filter(|session| is_child(session))?;
            let own = own.value().unwrap_or(&message.message_id);
            Some((session.clone().into_owned(), own.clone().into_owned()))
        })
    }

    /// The sub-agent of a session whose transcript has a message of the session.
    pub(super) fn with_message(&self, root: &str, message_id: &str) -> Option<String> {
        let has = |id: &&str| {
            let child = self.children.get(*id).filter(|_| self.root_of(id) == root);
            child.is_some_and(|child| {
                child.fold.find(switchboard_session::EntryKind::SessionMessage, message_id).is_some()
            })
        };
        self.tree.all().rev().find(has).map(str::to_owned)
    }

    /// When the last of a session's sub-agents was done.
    pub(super) fn last_end(&self, root: &str) -> Option<Moment> {
        let ended = |id: &std::sync::Arc<str>| self.children.get(&**id)?.ended;
        self.tree.descendants(root).iter().filter_map(ended).max()
    }

    /// Whether a call of a session is the one that shows a sub-agent.
    pub(super) fn is_shown_by(&self, id: &str, root: &str, call: &str) -> bool {
        self.children.get(id).is_some_and(|child| {
            self.root_of(id) == root && child.shown_by.as_ref().is_some_and(|shown_by| shown_by.call == call)
        })
    }

    /// Those of a session that no tool call shows yet.
    pub(super) fn uncalled_of(&self, root: &str) -> Vec<String> {
        self.uncalled.iter().filter(|id| self.root_of(id) == root).cloned().collect()
    }

    // ----- strangers

    /// Keeps what a stranger says, until it is told whose it is. Gives what there is no room for any more.
    pub(super) fn hold(&mut self, held: HeldUpdate) -> Vec<HeldUpdate> {
        self.strange_bytes += held.size;
        self.strangers.push_back(held);
        let mut lost = Vec::new();
        while self.strange_bytes > STRANGE_BYTES || self.strangers.len() > STRANGE_UPDATES {
            let Some(oldest) = self.strangers.pop_front() else { break };
            self.strange_bytes -= oldest.size;
            lost.push(oldest);
        }
        lost
    }

    /// It is known now whose a session is.
    fn settle(&mut self, id: &str) {
        if self.strangers.iter().any(|held| held.params.session_id == id) {
            let (known, others) = std::mem::take(&mut self.strangers)
                .into_iter()
                .partition(|held| held.params.session_id == id);
            self.strangers = others;
            self.strange_bytes -= known.iter().map(|held: &HeldUpdate| held.size).sum::<usize>();
            self.ready.extend::<VecDeque<HeldUpdate>>(known);
        }
    }

    /// The next update that was kept and can be taken now.
    pub(super) fn next_ready(&mut self) -> Option<HeldUpdate> {
        self.ready.pop_front()
    }

    /// No more is to come: what strangers said, and nobody came to know of.
    pub(super) fn take_strangers(&mut self) -> VecDeque<HeldUpdate> {
        self.strange_bytes = 0;
        std::mem::take(&mut self.strangers)
    }

    // ----- memory

    pub(super) fn size(&self) -> Size {
        let bytes = self.children.values().map(|child| child.taken).sum::<usize>() + self.strange_bytes;
        Size { sessions: 0, entries: self.children.len() + self.strangers.len(), bytes }
    }

    /// Forgets what sub-agents said, first of those that are over, of one session or of all. Gives how many bytes that freed.
    pub(super) fn forget(&mut self, root: Option<&str>, bytes: usize) -> usize {
        let mut freed = 0;
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
