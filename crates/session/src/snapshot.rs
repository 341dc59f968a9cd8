//! Read access to a session.

use std::collections::HashMap;
use std::sync::Arc;

use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Extra, Meta, UnknownVariant, Wire, WireFormat, v2};

use crate::content::Attached;
use crate::entry::{Compaction, Entry, EntryKind, Message, Terminal, ToolCall};
use crate::index::Index;
use crate::outline::{Malformed, Outlines};
use crate::request::{Elicitation, Permission};
use crate::shared_vec::SharedVec;
use crate::short_text::ShortText;
use crate::subagent::Subagent;

/// The state of a session at one moment.
///
/// [`Session`](crate::Session) derefs to it. A copy shares everything with its session, costs a few reference
/// counts for a session of any length, and can be read on another thread while the session continues.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) dialect: WireFormat,
    pub(crate) revision: u64,
    pub(crate) entries: SharedVec<Entry>,
    pub(crate) entry_index: Index,
    /// Former ids of entries that a replay renamed.
    pub(crate) aliases: Arc<HashMap<(EntryKind, ShortText), usize>>,
    pub(crate) permissions: SharedVec<Arc<Permission>>,
    pub(crate) permission_index: Index,
    pub(crate) elicitations: SharedVec<Arc<Elicitation>>,
    pub(crate) elicitation_index: Index,
    pub(crate) plans: SharedVec<Arc<Plan>>,
    pub(crate) plan_index: Index,
    pub(crate) unknown: SharedVec<Arc<UnknownVariant<'static>>>,
    pub(crate) notices: Arc<Vec<v2::Notice<'static>>>,
    pub(crate) state: Option<Arc<v2::StateUpdate<'static>>>,
    pub(crate) info: Info,
    pub(crate) commands: Option<List<v2::AvailableCommand<'static>>>,
    pub(crate) config_options: Option<List<v2::SessionConfigOption<'static>>>,
    pub(crate) usage: Option<Arc<Usage>>,
    /// Tool calls and terminals with malformed updates.
    pub(crate) malformed: Arc<Malformed>,
    /// Tool calls of a session without transcript.
    pub(crate) outlines: Option<Arc<Outlines>>,
}

/// Properties of the session.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Info {
    pub(crate) title: Option<ShortText>,
    pub(crate) updated_at: Option<ShortText>,
    pub(crate) meta: Option<Meta<'static>>,
    pub(crate) extra: Extra<'static>,
}

/// A list that updates replace as a whole, with its attachments.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct List<T> {
    pub(crate) items: Arc<[T]>,
    pub(crate) attached: Option<Arc<Attached>>,
}

impl<T> List<T> {
    pub(crate) fn new<'a, W>(items: &[W], attached: Option<Arc<Attached>>) -> Self
    where
        W: Wire<'a, Owned = T> + Clone,
    {
        List { items: items.iter().map(|item| item.clone().into_owned()).collect(), attached }
    }
}

/// A plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub(crate) id: Arc<str>,
    pub(crate) content: v2::PlanUpdateContent<'static>,
    pub(crate) attached: Option<Arc<Attached>>,
    pub(crate) revision: u64,
}

impl Plan {
    /// Returns true if everything except the revision is equal.
    pub(crate) fn has_same_content(&self, other: &Plan) -> bool {
        self.content == other.content && self.attached == other.attached
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the content of the plan.
    pub fn content(&self) -> &v2::PlanUpdateContent<'static> {
        &self.content
    }

    /// Returns the update that creates this plan.
    pub fn to_update(&self) -> v2::PlanUpdate<'static> {
        let mut update = v2::PlanUpdate::new(self.content.clone());
        (update.meta, update.extra) = Attached::parts(self.attached());
        update
    }

    /// Returns the attachments of its update.
    pub fn attached(&self) -> Option<&Attached> {
        self.attached.as_deref()
    }

    /// Returns the session's revision at which it last changed.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

/// Usage of the context window, and cost of the session.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens in the context.
    pub used: u64,
    /// Size of the context window in tokens.
    pub size: u64,
    /// Cost of the session, if reported.
    pub cost: Option<v2::Cost<'static>>,
    /// Metadata of the last update.
    pub meta: Option<Meta<'static>>,
    /// Unknown keys of the last update.
    pub extra: Extra<'static>,
}

/// Activity of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Activity {
    /// Foreground work is running.
    Running,
    /// Foreground work waits for the user.
    RequiresAction,
    /// No foreground work. A session without a reported state is idle.
    #[default]
    Idle,
    /// An unknown state, or one that the agent cannot observe. Not idle.
    Unknown,
}

/// Returns the activity of a state.
pub(crate) fn activity_of(state: &v2::StateUpdate<'_>) -> Activity {
    match state {
        v2::StateUpdate::Idle(_) => Activity::Idle,
        v2::StateUpdate::Running(_) => Activity::Running,
        v2::StateUpdate::RequiresAction(_) => Activity::RequiresAction,
        v2::StateUpdate::Unobservable(_) | v2::StateUpdate::Unknown(_) => Activity::Unknown,
        v2::StateUpdate::More(none) => none.never(),
    }
}

impl Snapshot {
    pub(crate) fn new(dialect: WireFormat) -> Self {
        Snapshot {
            dialect,
            revision: 0,
            entries: SharedVec::default(),
            entry_index: Index::default(),
            aliases: Arc::default(),
            permissions: SharedVec::default(),
            permission_index: Index::default(),
            elicitations: SharedVec::default(),
            elicitation_index: Index::default(),
            plans: SharedVec::default(),
            plan_index: Index::default(),
            unknown: SharedVec::default(),
            notices: Arc::default(),
            state: None,
            info: Info::default(),
            commands: None,
            config_options: None,
            usage: None,
            malformed: Arc::default(),
            outlines: None,
        }
    }

    /// Returns the dialect of the session's values.
    pub fn dialect(&self) -> WireFormat {
        self.dialect
    }

    /// Returns the revision, which increases by one with every change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    // ----- transcript

    /// Returns the transcript in order of first appearance.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Returns the transcript from a position.
    pub fn entries_from(&self, position: usize) -> impl Iterator<Item = &Entry> {
        self.entries.iter_from(position)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if the transcript is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entry at a position.
    pub fn entry(&self, position: usize) -> Option<&Entry> {
        self.entries.get(position)
    }

    /// Returns the position of the entry with an id.
    pub fn position(&self, kind: EntryKind, id: &str) -> Option<usize> {
        self.find_entry(self.entry_hash(kind, id), kind, id)
    }

    /// Returns the entry with an id.
    pub fn find(&self, kind: EntryKind, id: &str) -> Option<&Entry> {
        self.entry(self.position(kind, id)?)
    }

    /// Returns the message or thought with an id.
    pub fn message(&self, kind: EntryKind, id: &str) -> Option<&Message> {
        self.find(kind, id)?.as_message()
    }

    /// Returns the tool call with an id.
    pub fn tool_call(&self, id: &str) -> Option<&ToolCall> {
        self.find(EntryKind::ToolCall, id)?.as_tool_call()
    }

    /// Returns the terminal with an id.
    pub fn terminal(&self, id: &str) -> Option<&Terminal> {
        self.find(EntryKind::Terminal, id)?.as_terminal()
    }

    /// Returns the compaction with an id.
    pub fn compaction(&self, id: &str) -> Option<&Compaction> {
        self.find(EntryKind::Compaction, id)?.as_compaction()
    }

    /// Returns the sub-agent with a session id, as reported by this session.
    pub fn subagent(&self, session_id: &str) -> Option<&Subagent> {
        self.find(EntryKind::Subagent, session_id)?.as_subagent()
    }

    /// Returns the sub-agents reported by this session, in order.
    pub fn subagents(&self) -> impl Iterator<Item = &Subagent> {
        self.entries().filter_map(Entry::as_subagent)
    }

    pub(crate) fn entry_hash(&self, kind: EntryKind, id: &str) -> u64 {
        self.entry_index.hash((kind as u8, id))
    }

    pub(crate) fn find_entry(&self, hash: u64, kind: EntryKind, id: &str) -> Option<usize> {
        let found = self.entry_index.find(hash, |position| self.is_entry(position, kind, id));
        if found.is_none() && !self.aliases.is_empty() {
            return self.aliases.get(&(kind, id.into())).copied();
        }
        found
    }

    pub(crate) fn is_entry(&self, position: usize, kind: EntryKind, id: &str) -> bool {
        self.entries.get(position).is_some_and(|entry| entry.head().is(kind, id))
    }

    /// Returns the entries that are new or changed since an earlier snapshot of the same session, with their
    /// positions.
    ///
    /// ```
    /// use switchboard_acp::{Wire, WireFormat, v2};
    /// use switchboard_session::Session;
    ///
    /// let mut session = Session::new(WireFormat::Any);
    /// let mut say = |id: &str, text: &str| {
    ///     let chunk = v2::ContentChunk::new(id.to_owned(), v2::ContentBlock::text(text.to_owned()));
    ///     session.apply(&v2::SessionUpdate::AgentMessageChunk(chunk));
    ///     session.snapshot()
    /// };
    /// say("m-1", "Looking");
    /// let before = say("m-2", "It");
    /// let now = say("m-2", " works");
    /// let changed: Vec<_> = now.changed_since(&before).map(|(position, entry)| (position, entry.id())).collect();
    /// assert_eq!(changed, [(1, "m-2")]);
    /// ```
    pub fn changed_since<'s>(&'s self, earlier: &'s Snapshot) -> impl Iterator<Item = (usize, &'s Entry)> {
        let is_new = |entry: &Entry| earlier.find(entry.kind(), entry.id()) != Some(entry);
        self.entries().enumerate().filter(move |(_, entry)| is_new(entry))
    }

    // ----- questions of the agent

    /// Returns all permission requests, in order.
    pub fn permissions(&self) -> impl Iterator<Item = &Permission> {
        self.permissions.iter().map(|permission| &**permission)
    }

    /// Returns the pending permission requests.
    pub fn pending_permissions(&self) -> impl Iterator<Item = &Permission> {
        self.permissions().filter(|permission| permission.settlement.is_pending())
    }

    /// Returns the permission request at an index.
    pub fn permission_at(&self, index: usize) -> Option<&Permission> {
        self.permissions.get(index).map(|permission| &**permission)
    }

    /// Returns the permission request with an id. If the id was reused, returns the last one.
    pub fn permission(&self, id: &RequestId<'_>) -> Option<&Permission> {
        self.permission_at(self.permission_place(id)?)
    }

    pub(crate) fn push_permission(&mut self, permission: Arc<Permission>) -> usize {
        let index = self.permissions.len();
        let hash = self.permission_index.hash(&permission.id);
        self.permission_index.insert(hash, index);
        self.permissions.push(permission);
        index
    }

    pub(crate) fn permission_place(&self, id: &RequestId<'_>) -> Option<usize> {
        let is_it = |place| self.permissions.get(place).is_some_and(|permission| permission.id == *id);
        self.permission_index.find(self.permission_index.hash(id), is_it)
    }

    /// Returns all elicitations, in order.
    pub fn elicitations(&self) -> impl Iterator<Item = &Elicitation> {
        self.elicitations.iter().map(|elicitation| &**elicitation)
    }

    /// Returns the pending elicitations.
    pub fn pending_elicitations(&self) -> impl Iterator<Item = &Elicitation> {
        self.elicitations().filter(|elicitation| elicitation.settlement.is_pending())
    }

    /// Returns the elicitation with an id. If the id was reused, returns the last one.
    pub fn elicitation(&self, id: &RequestId<'_>) -> Option<&Elicitation> {
        self.elicitations.get(self.elicitation_place(id)?).map(|elicitation| &**elicitation)
    }

    pub(crate) fn push_elicitation(&mut self, elicitation: Arc<Elicitation>) -> usize {
        let index = self.elicitations.len();
        let hash = self.elicitation_index.hash(&elicitation.id);
        self.elicitation_index.insert(hash, index);
        self.elicitations.push(elicitation);
        index
    }

    pub(crate) fn elicitation_place(&self, id: &RequestId<'_>) -> Option<usize> {
        let is_it = |place| self.elicitations.get(place).is_some_and(|elicitation| elicitation.id == *id);
        self.elicitation_index.find(self.elicitation_index.hash(id), is_it)
    }

    // ----- other state

    /// Returns all plans in order of first appearance.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.plans.iter().map(|plan| &**plan)
    }

    /// Returns the plan with an id.
    pub fn plan(&self, id: &str) -> Option<&Plan> {
        self.plans.get(self.plan_place(id)?).map(|plan| &**plan)
    }

    pub(crate) fn plan_place(&self, id: &str) -> Option<usize> {
        let is_it = |place| self.plans.get(place).is_some_and(|plan| *plan.id == *id);
        self.plan_index.find(self.plan_index.hash(id), is_it)
    }

    /// Removes a plan. Returns its former index.
    pub(crate) fn remove_plan(&mut self, id: &str) -> Option<usize> {
        let place = self.plan_place(id)?;
        let plans = std::mem::take(&mut self.plans);
        self.plan_index = Index::default();
        for (_, plan) in plans.iter().enumerate().filter(|(other, _)| *other != place) {
            self.push_plan(Arc::clone(plan));
        }
        Some(place)
    }

    pub(crate) fn push_plan(&mut self, plan: Arc<Plan>) {
        let hash = self.plan_index.hash(plan.id());
        self.plan_index.insert(hash, self.plans.len());
        self.plans.push(plan);
    }

    /// Returns updates of unknown kinds, in order.
    pub fn unknown(&self) -> impl Iterator<Item = &UnknownVariant<'static>> {
        self.unknown.iter().map(|unknown| &**unknown)
    }

    /// Returns the latest notices, at most a hundred. They are not part of the history.
    pub fn notices(&self) -> &[v2::Notice<'static>] {
        &self.notices
    }

    /// Returns the activity.
    pub fn activity(&self) -> Activity {
        self.state().map_or(Activity::Idle, activity_of)
    }

    /// Returns the last reported state.
    pub fn state(&self) -> Option<&v2::StateUpdate<'static>> {
        self.state.as_deref()
    }

    /// Returns the reason why the last work ended. `None` while work is running, or if an idle session gave
    /// no reason.
    pub fn stop_reason(&self) -> Option<&v2::StopReason> {
        match self.state.as_deref()? {
            v2::StateUpdate::Idle(idle) => idle.stop_reason.as_ref(),
            _ => None,
        }
    }

    /// Returns the background work, if the last state lists it.
    pub fn background(&self) -> Option<&[v2::BackgroundWork<'static>]> {
        match self.state.as_deref()? {
            v2::StateUpdate::Running(state)
            | v2::StateUpdate::RequiresAction(state)
            | v2::StateUpdate::Unobservable(state) => state.background.as_deref(),
            v2::StateUpdate::Idle(state) => state.background.as_deref(),
            v2::StateUpdate::Unknown(_) => None,
            v2::StateUpdate::More(none) => none.never(),
        }
    }

    /// Returns the title.
    pub fn title(&self) -> Option<&str> {
        self.info.title.as_deref()
    }

    /// Returns the modification time reported by the agent.
    pub fn updated_at(&self) -> Option<&str> {
        self.info.updated_at.as_deref()
    }

    /// Returns the metadata.
    pub fn meta(&self) -> Option<&Meta<'static>> {
        self.info.meta.as_ref()
    }

    /// Returns the commands that the user can give.
    pub fn commands(&self) -> &[v2::AvailableCommand<'static>] {
        self.commands.as_ref().map_or(&[], |commands| &commands.items)
    }

    /// Returns the attachments of the commands.
    pub fn commands_attached(&self) -> Option<&Attached> {
        self.commands.as_ref()?.attached.as_deref()
    }

    /// Returns the configuration options.
    pub fn config_options(&self) -> &[v2::SessionConfigOption<'static>] {
        self.config_options.as_ref().map_or(&[], |options| &options.items)
    }

    /// Returns options and commands in the form of a response that opens the session. [`None`] if never
    /// reported.
    #[allow(clippy::type_complexity)]
    pub fn lists(
        &self,
    ) -> (Option<&[v2::SessionConfigOption<'static>]>, Option<&[v2::AvailableCommand<'static>]>) {
        let options = self.config_options.as_ref().map(|options| &*options.items);
        (options, self.commands.as_ref().map(|commands| &*commands.items))
    }

    /// Returns the attachments of the options.
    pub fn config_options_attached(&self) -> Option<&Attached> {
        self.config_options.as_ref()?.attached.as_deref()
    }

    /// Returns context usage and cost, if reported.
    pub fn usage(&self) -> Option<&Usage> {
        self.usage.as_deref()
    }
}

/// Compares everything that can be read.
impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.dialect == other.dialect
            && self.revision == other.revision
            && self.entries == other.entries
            && self.aliases == other.aliases
            && self.permissions == other.permissions
            && self.elicitations == other.elicitations
            && self.plans == other.plans
            && self.unknown == other.unknown
            && self.notices == other.notices
            && self.state == other.state
            && self.info == other.info
            && self.commands == other.commands
            && self.config_options == other.config_options
            && self.usage == other.usage
    }
}
