//! Sub-agents: sessions that the agent opens in the course of others. A client that does not know of them is told of none of
//! their sessions. Each is folded here, and shown in one tool call of the session that the client did open.

use std::collections::VecDeque;

use switchboard_acp::v2::ToolCallStatus;
use switchboard_acp::{Diagnostic, Extra, Field, Raw, Wire, WireFormat, v2};
use switchboard_session::{MAX_ANCESTORS, MAX_SUBAGENTS, Session as Fold, subagent_name};

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
/// How many bytes a name may have where it labels something.
const NAME: usize = 200;

/// The sessions on a connection, as far as one belongs to another.
#[derive(Debug, Default)]
pub(super) struct Family {
    opened: OpenedSessions,
    children: HashMap<String, Child>,
    /// In the order in which they were told of.
    order: VecDeque<String>,
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

/// Why a session does not become the child of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unlinked {
    Itself,
    Opened,
    Taken,
    Full,
}

impl Unlinked {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Unlinked::Itself => "a session that is said to be its own sub-agent",
            Unlinked::Opened => "a sub-agent whose session is one that the client opened",
            Unlinked::Taken => "a sub-agent that belongs to another session already",
            Unlinked::Full => {
                "more sub-agents at work than can be remembered; what this one does is not shown"
            }
        }
    }
}

/// How far a sub-agent is with its work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Work {
    /// Nothing was told of it.
    #[default]
    Untold,
    Going,
    Over(ToolCallStatus),
}

/// The tool call that shows a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShownBy {
    pub(super) call: String,
    /// Whether the bridge has made it.
    pub(super) is_own: bool,
}

/// A sub-agent.
#[derive(Debug)]
pub(super) struct Child {
    /// The session that the client opened.
    pub(super) root: String,
    pub(super) parent: String,
    /// The sub-agent below the root that it descends from, or is.
    pub(super) top: String,
    /// How many ancestors it has. One that would have too many is shown beside its parent.
    depth: usize,
    /// The sub-agents that it has itself, in the order in which they were told of.
    pub(super) below: Vec<String>,
    /// What it says, and as a sub-agent with its own id what its parent tells of it.
    pub(super) fold: Fold,
    /// The items of its tool calls that are more than text, as version 1 has them.
    pub(super) items: HashMap<String, Vec<Vec<Raw<'static>>>>,
    /// The call of its parent that refers to it.
    pub(super) referred: Option<String>,
    /// Of one below the root: the call that shows it and all below it.
    pub(super) shown_by: Option<ShownBy>,
    /// What the client was told of a call that the bridge has made: title and status.
    pub(super) told: Option<(String, ToolCallStatus)>,
    pub(super) work: Work,
    /// When its work was last over.
    ended: Option<Moment>,
    pub(super) failed: Option<String>,
    pub(super) name: Option<String>,
    /// Bytes of it and of all below it that one call shows, of one below the root.
    shown: usize,
    can_be_cancelled: bool,
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
    /// What its parent tells of it; `fits`: there is room for that.
    pub(super) fn told_of(&mut self, update: &v2::unstable::SubagentUpdate<'_>, fits: bool, now: Moment) {
        if fits {
            self.fold.apply(&v2::SessionUpdate::SubagentUpdate(Box::new(update.clone())));
            // What is forgotten is still its name, until it has another.
            if !(update.title.is_keep() && update.description.is_keep()) {
                let own = self.fold.subagent(&update.session_id);
                let name = own.and_then(|own| subagent_name(own.title(), own.description()));
                self.name = name.map(|name| clipped(&name));
            }
            if let Field::Set(capabilities) = &update.capabilities {
                self.can_be_cancelled = capabilities.cancel.is_some();
            } else if update.capabilities.is_clear() {
                self.can_be_cancelled = false;
            }
        }
        if let Field::Set(state) = &update.state {
            self.state(state, now);
        }
    }

    /// What it is at, as its parent tells or itself.
    pub(super) fn state(&mut self, state: &v2::StateUpdate<'_>, now: Moment) {
        let v2::StateUpdate::Idle(idle) = state else {
            self.work = Work::Going;
            self.failed = None;
            return;
        };
        self.failed = idle.error.as_ref().map(|error| clipped(&error.message));
        let status = match &idle.stop_reason {
            // It was opened and has not begun.
            None if self.work == Work::Untold => return,
            // It is told twice, by itself and by its parent, of whom one may say less.
            None if matches!(self.work, Work::Over(_)) => return,
            Some(v2::StopReason::Cancelled) => ToolCallStatus::Cancelled,
            Some(v2::StopReason::Error | v2::StopReason::Refusal) => ToolCallStatus::Failed,
            _ => ToolCallStatus::Completed,
        };
        if !matches!(self.work, Work::Over(_)) {
            self.ended = Some(now);
        }
        self.work = Work::Over(status);
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

    /// What the status of a call is that shows nothing else.
    pub(super) fn status(&self) -> ToolCallStatus {
        match &self.work {
            Work::Untold if self.fold.is_empty() => ToolCallStatus::Pending,
            Work::Untold | Work::Going => ToolCallStatus::InProgress,
            Work::Over(status) => status.clone(),
        }
    }

    fn forget(&mut self) -> usize {
        self.fold = Fold::new(WireFormat::Any);
        self.items.clear();
        self.left_out += self.taken;
        std::mem::take(&mut self.taken)
    }
}

/// A name that fits into a label: one line, not too long.
fn clipped(name: &str) -> String {
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    match name.char_indices().find(|(place, character)| place + character.len_utf8() > NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

impl Family {
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
        self.children.retain(|_, child| child.root != root);
        self.order.retain(|id| self.children.contains_key(id));
        self.uncalled.retain(|id| self.children.contains_key(id));
    }

    /// All that was said in a session comes again, also what its sub-agents said.
    pub(super) fn begin_replay(&mut self, root: &str) {
        for child in self.children.values_mut().filter(|child| child.root == root) {
            child.forget();
            (child.left_out, child.shown, child.told) = (0, 0, None);
        }
    }

    /// Forgets a sub-agent and those below it.
    fn remove(&mut self, id: &str) {
        let mut gone = vec![id.to_owned()];
        while let Some(id) = gone.pop() {
            let Some(child) = self.children.remove(&id) else { continue };
            if let Some(above) = self.children.get_mut(&child.parent) {
                above.below.retain(|known| *known != id);
            }
            if let Some(top) = self.children.get_mut(&child.top) {
                top.shown = top.shown.saturating_sub(child.taken);
            }
            self.order.retain(|known| *known != id);
            self.uncalled.retain(|known| *known != id);
            gone.extend(child.below);
        }
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

    /// Whether nobody has told of a sub-agent.
    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    pub(super) fn get(&self, id: &str) -> Option<&Child> {
        self.children.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut Child> {
        self.children.get_mut(id)
    }

    /// The agent is gone, and with it all that was at work. Gives those below the client's sessions.
    pub(super) fn end(&mut self, reason: &str) -> Vec<(String, String)> {
        for child in self.children.values_mut().filter(|child| child.work == Work::Going) {
            child.work = Work::Over(ToolCallStatus::Failed);
            child.failed = Some(clipped(reason));
        }
        let tops =
            self.order.iter().filter(|id| self.children.get(*id).is_some_and(|child| child.top == **id));
        tops.map(|id| (self.root_of(id).to_owned(), id.clone())).collect()
    }

    /// The session that the client opened of which a session is part: itself, where it is no sub-agent's.
    pub(super) fn root_of<'f>(&'f self, id: &'f str) -> &'f str {
        self.children.get(id).map_or(id, |child| &child.root)
    }

    /// Makes a session that of a sub-agent of another, which is the client's or a sub-agent's itself. The first one to tell
    /// of it is its parent, so that no circle comes about.
    pub(super) fn link(&mut self, id: &str, parent: &str, now: Moment) -> Result<(), Unlinked> {
        if id == parent {
            return Err(Unlinked::Itself);
        }
        if let Some(known) = self.children.get(id) {
            let is_same = known.parent == parent
                || self
                    .children
                    .get(parent)
                    .is_some_and(|parent| parent.parent == known.parent && parent.depth >= MAX_ANCESTORS);
            return if is_same { Ok(()) } else { Err(Unlinked::Taken) };
        }
        if self.opened.ids.contains(id) {
            return Err(Unlinked::Opened);
        }
        if self.children.len() >= MAX_SUBAGENTS && !self.make_room() {
            return Err(Unlinked::Full);
        }
        let (root, parent, top, depth) = match self.children.get(parent) {
            Some(above) if above.depth >= MAX_ANCESTORS => {
                (above.root.clone(), above.parent.clone(), above.top.clone(), above.depth)
            }
            Some(above) => (above.root.clone(), parent.to_owned(), above.top.clone(), above.depth + 1),
            None => {
                // A session that has sub-agents and is none is the client's, whether it was seen to open it or not.
                self.open(parent);
                self.uncalled.push(id.to_owned());
                (parent.to_owned(), parent.to_owned(), id.to_owned(), 1)
            }
        };
        let child = Child {
            root,
            parent,
            top,
            depth,
            below: Vec::new(),
            fold: Fold::new(WireFormat::Any),
            items: HashMap::default(),
            referred: None,
            shown_by: None,
            told: None,
            work: Work::default(),
            ended: None,
            failed: None,
            name: None,
            shown: 0,
            can_be_cancelled: false,
            taken: 0,
            left_out: 0,
            is_reported: false,
            heard: 0,
            since: now,
        };
        if let Some(above) = self.children.get_mut(&child.parent) {
            above.below.push(id.to_owned());
        }
        self.children.insert(id.to_owned(), child);
        self.order.push_back(id.to_owned());
        self.settle(id);
        Ok(())
    }

    /// Forgets the sub-agent that is over, has none itself and was told of before all others. What it still says is a
    /// stranger's.
    fn make_room(&mut self) -> bool {
        let is_over = |child: &Child| matches!(child.work, Work::Over(_)) && child.below.is_empty();
        let is_it = |id: &&String| self.children.get(*id).is_some_and(is_over);
        let Some(id) = self.order.iter().find(is_it).cloned() else { return false };
        self.remove(&id);
        true
    }

    /// Finds room for so many bytes of a sub-agent in the call that shows it. Whether there is some.
    pub(super) fn reserve(&mut self, id: &str, size: usize) -> bool {
        let Some(top) = self.children.get(id).map(|child| child.top.clone()) else { return false };
        let fits = self.children.get_mut(&top).is_some_and(|top| {
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
        let child = self.children.get(id);
        let named = child.and_then(|child| child.name.clone());
        let named = named.or_else(|| child.and_then(|child| child.fold.title()).map(clipped));
        named.unwrap_or_else(|| clipped(id))
    }

    /// What a sub-agent is called down from the session that the client opened.
    pub(super) fn full_name(&self, id: &str) -> String {
        let mut name = self.name(id);
        let mut above = self.children.get(id);
        while let Some(child) = above.filter(|child| child.parent != child.root) {
            name = format!("{} › {name}", self.name(&child.parent));
            above = self.children.get(&child.parent);
        }
        name
    }

    /// The sub-agent of a session to or from which a message is that the session has.
    pub(super) fn other_end(
        &self,
        root: &str,
        message: &v2::unstable::SessionMessage<'_>,
    ) -> Option<(String, String)> {
        let is_child = |id: &str| self.children.get(id).is_some_and(|child| child.root == root);
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
        let has = |child: &Child| {
            child.root == root
                && child.fold.find(switchboard_session::EntryKind::SessionMessage, message_id).is_some()
        };
        self.order.iter().rev().find(|id| self.children.get(*id).is_some_and(has)).cloned()
    }

    /// Whether sub-agents of a session are at work, of those that go on in the background where that is told.
    pub(super) fn is_at_work(&self, root: &str, background: Option<&[v2::BackgroundWork<'_>]>) -> bool {
        let is_listed = |id: &str| {
            background.is_none_or(|works| {
                works
                    .iter()
                    .any(|work| matches!(work, v2::BackgroundWork::Subagent(work) if work.session_id == id))
            })
        };
        let is_going = |child: &Child| child.root == root && child.work == Work::Going;
        self.children.iter().any(|(id, child)| is_going(child) && (is_listed(id) || is_listed(&child.top)))
    }

    /// When the last of a session's sub-agents was done.
    pub(super) fn last_end(&self, root: &str) -> Option<Moment> {
        self.children.values().filter(|child| child.root == root).filter_map(|child| child.ended).max()
    }

    /// The sub-agents of a session that are at work and may be cancelled.
    pub(super) fn to_cancel(&self, root: &str) -> Vec<String> {
        let is_it = |child: &Child| child.root == root && child.work == Work::Going && child.can_be_cancelled;
        self.order.iter().filter(|id| self.children.get(*id).is_some_and(is_it)).cloned().collect()
    }

    /// Whether a call of a session is the one that shows a sub-agent.
    pub(super) fn is_shown_by(&self, id: &str, root: &str, call: &str) -> bool {
        self.children.get(id).is_some_and(|child| {
            child.root == root && child.shown_by.as_ref().is_some_and(|shown_by| shown_by.call == call)
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
            for id in &self.order {
                if freed >= bytes {
                    return freed;
                }
                let Some(child) = self.children.get_mut(id) else { continue };
                if root.is_none_or(|root| child.root == root)
                    && matches!(child.work, Work::Over(_)) == is_over
                {
                    let (top, bytes) = (child.top.clone(), child.forget());
                    freed += bytes;
                    if let Some(top) = self.children.get_mut(&top) {
                        top.shown = top.shown.saturating_sub(bytes);
                    }
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
