//! The live session, to which updates are applied.

use std::ops::Deref;
use std::sync::Arc;

use switchboard_acp::{Field, Text, UnknownVariant, Wire, WireFormat, v2};

use crate::change::{Change, Changes, ContentChange, EntryChange, EntryField, FieldChange};
use crate::content::Attached;
use crate::entry::{Body, Compaction, Entry, EntryKind, Message, Origin, Terminal, ToolCall};
use crate::patch::{
    MetaRule, patch_content, patch_defaulted, patch_extra, patch_list, patch_raw, patch_shared, patch_text,
};
use crate::snapshot::{List, Plan, Snapshot, Usage};

const MAX_NOTICES: usize = 100;

/// Default number of bytes kept of a terminal's output. See [`Session::limit_terminal_output`].
pub const TERMINAL_OUTPUT_LIMIT: usize = 8 * 1024 * 1024;

/// State of one session, folded from its updates.
///
/// Every decoded update can be applied: a chunk with a new id creates the entry, a reference to an unknown
/// entry is kept, and a late chunk is added to its message at any position. Read methods are on [`Snapshot`],
/// to which a session derefs.
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) view: Snapshot,
    pub(crate) meta_rule: MetaRule,
    /// Origin of new entries.
    pub(crate) origin: Origin,
    /// Replay in progress, next to the current state.
    pub(crate) replay: Option<Box<Session>>,
    /// For each kind, the entry of the last update, which the next one usually concerns too.
    pub(crate) recent: [usize; EntryKind::ALL.len()],
    pub(crate) terminal_limit: usize,
    /// Indices of the pending permissions.
    pub(crate) pending: Vec<usize>,
    /// True if the transcript is kept.
    pub(crate) keeps_transcript: bool,
    /// True if settled questions are kept.
    pub(crate) keeps_settled: bool,
    /// Number of sealed entries. An update with the id of a sealed entry creates a new one.
    pub(crate) sealed: usize,
}

impl Deref for Session {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.view
    }
}

impl PartialEq for Session {
    fn eq(&self, other: &Self) -> bool {
        self.view == other.view
            && self.meta_rule == other.meta_rule
            && self.origin == other.origin
            && self.replay == other.replay
            && self.terminal_limit == other.terminal_limit
            && self.sealed == other.sealed
    }
}

impl Session {
    /// Creates an empty session for updates in a dialect.
    ///
    /// The dialect determines the effect of an update's `_meta`: in [`WireFormat::Spec`] it replaces the
    /// stored one, otherwise it is merged key by key. If the dialect is unknown ([`WireFormat::Any`]), it is
    /// merged, which loses nothing; see [`Session::peer_replaces_meta`].
    pub fn new(dialect: WireFormat) -> Self {
        let meta_rule = if dialect == WireFormat::Spec { MetaRule::Replace } else { MetaRule::Merge };
        let view = Snapshot::new(dialect);
        Session {
            view,
            meta_rule,
            origin: Origin::Live,
            replay: None,
            recent: Default::default(),
            terminal_limit: TERMINAL_OUTPUT_LIMIT,
            pending: Vec::new(),
            keeps_transcript: true,
            keeps_settled: true,
            sealed: 0,
        }
    }

    /// Sets the number of bytes kept of each terminal's output. Beyond it, the oldest are dropped and counted
    /// by [`Bytes::dropped`](crate::Bytes::dropped).
    pub fn limit_terminal_output(&mut self, bytes: usize) {
        self.terminal_limit = bytes;
        if let Some(replay) = &mut self.replay {
            replay.limit_terminal_output(bytes);
        }
    }

    /// Switches a session of an unknown dialect to the `spec` dialect: from now on, metadata is replaced.
    pub fn peer_replaces_meta(&mut self) {
        self.meta_rule = MetaRule::Replace;
        if let Some(replay) = &mut self.replay {
            replay.peer_replaces_meta();
        }
    }

    /// Switches a session of an unknown dialect to the newest dialect: from now on, metadata is merged.
    pub fn peer_merges_meta(&mut self) {
        self.meta_rule = MetaRule::Merge;
        if let Some(replay) = &mut self.replay {
            replay.peer_merges_meta();
        }
    }

    /// Returns an immutable snapshot of the current state.
    pub fn snapshot(&self) -> Snapshot {
        self.view.clone()
    }

    /// Applies an update and returns the changes.
    ///
    /// ```
    /// use switchboard_acp::{WireFormat, v2};
    /// use switchboard_session::{Change, EntryField, FieldChange, Session};
    ///
    /// let mut session = Session::new(WireFormat::Any);
    /// let call = v2::ToolCallUpdate::new("c-1").title("Read").status(v2::ToolCallStatus::Completed);
    /// let changes = session.apply(&call.into());
    /// let Some(Change::Entry(change)) = changes.iter().next() else { panic!() };
    /// assert!(change.created);
    /// assert_eq!(change.fields.get(EntryField::Title), Some(FieldChange::Set));
    /// assert_eq!(session.tool_call("c-1").unwrap().title(), Some("Read"));
    /// ```
    pub fn apply(&mut self, update: &v2::SessionUpdate<'_>) -> Changes {
        // Outlines are updated during a replay too, because a policy decision may refer to a replayed call.
        self.outline(update);
        match &mut self.replay {
            Some(replay) => {
                // No changes are reported during a replay. They are computed when it is merged.
                replay.apply(update);
                Changes::default()
            }
            None if self.pending.is_empty() => self.apply_to_view(update),
            None => {
                // Apply first, then compare: a question is stale if the call it refers to has changed.
                let changes = self.apply_to_view(update);
                self.update_asked(changes)
            }
        }
    }

    /// Seals all current entries: the agent restarts its ids, so an update with the id of one of them refers
    /// to a new entry.
    pub(crate) fn seal(&mut self) {
        self.sealed = self.view.entries.len();
        self.forget_calls();
    }

    /// Increments the revision if anything changed.
    pub(crate) fn finish(&mut self, mut changes: Changes) -> Changes {
        if !changes.is_empty() {
            self.view.revision += 1;
            changes.set_revision(self.view.revision);
            if !self.keeps_settled {
                self.forget_settled();
            }
        }
        changes
    }

    /// Like [`finish`](Session::finish), for at most one change, as with nearly every update.
    #[inline]
    pub(crate) fn finish_one(&mut self, change: Option<Change>) -> Changes {
        let Some(change) = change else { return Changes::default() };
        self.view.revision += 1;
        Changes::one(change, self.view.revision)
    }

    fn apply_to_view(&mut self, update: &v2::SessionUpdate<'_>) -> Changes {
        use v2::SessionUpdate as Update;
        if !self.keeps_transcript && !concerns_state(update.tag()) {
            return Changes::default();
        }
        match update {
            Update::UserMessageChunk(chunk) => self.message_chunk(EntryKind::UserMessage, chunk),
            Update::AgentMessageChunk(chunk) => self.message_chunk(EntryKind::AgentMessage, chunk),
            Update::AgentThoughtChunk(chunk) => self.message_chunk(EntryKind::AgentThought, chunk),
            Update::UserMessage(update) => self.message_update(EntryKind::UserMessage, update),
            Update::AgentMessage(update) => self.message_update(EntryKind::AgentMessage, update),
            Update::AgentThought(update) => self.message_update(EntryKind::AgentThought, update),
            Update::ToolCallUpdate(update) => self.tool_call_update(update),
            Update::ToolCallContentChunk(chunk) => self.tool_call_chunk(chunk),
            Update::TerminalUpdate(update) => self.terminal_update(update),
            Update::TerminalOutputChunk(chunk) => self.terminal_chunk(chunk),
            Update::CompactionUpdate(update) => self.compaction_update(update),
            Update::CompactionSummaryChunk(chunk) => self.compaction_chunk(chunk),
            Update::SessionInfoUpdate(update) => self.info_update(update),
            Update::StateUpdate(state) => self.state_update(state),
            Update::PlanUpdate(update) => self.plan_update(update),
            Update::PlanRemoved(removed) => {
                let index = self.view.remove_plan(&removed.plan_id);
                self.finish_one(index.map(|index| Change::PlanRemoved { index }))
            }
            Update::SubagentUpdate(update) => self.subagent_update(update),
            Update::SessionMessage(update) => self.session_message(update),
            Update::SessionMessageChunk(chunk) => self.session_message_chunk(chunk),
            Update::AvailableCommandsUpdate(update) => {
                let attached = Attached::of(update.meta.as_ref(), &update.extra);
                let list = List::new(&update.available_commands, attached);
                let changed = replace_list(&mut self.view.commands, list);
                self.finish_one(changed.then_some(Change::Commands))
            }
            Update::ConfigOptionUpdate(update) => {
                let attached = Attached::of(update.meta.as_ref(), &update.extra);
                let list = List::new(&update.config_options, attached);
                let changed = replace_list(&mut self.view.config_options, list);
                self.finish_one(changed.then_some(Change::ConfigOptions))
            }
            Update::UsageUpdate(update) => self.usage_update(update),
            Update::Notice(notice) => {
                let notices = Arc::make_mut(&mut self.view.notices);
                if notices.len() == MAX_NOTICES {
                    notices.remove(0);
                }
                notices.push((**notice).clone().into_owned());
                self.finish_one(Some(Change::Notice))
            }
            Update::Unknown(unknown) => self.keep_unknown(unknown),
            Update::More(none) => none.never(),
        }
    }

    // ----- entries

    /// Returns the index of an entry and creates it if needed. The flag is true for a new one.
    fn place(&mut self, kind: EntryKind, id: &str) -> (usize, bool) {
        let view = &mut self.view;
        // Sealed entries are ignored, so that a reused id creates a new entry at the end.
        let (hash, next) = (view.entry_hash(kind, id), view.entries.len());
        let sealed = self.sealed;
        let found = if view.aliases.is_empty() {
            let entries = &view.entries;
            let is_it = |position| {
                position >= sealed && entries.get(position).is_some_and(|entry| entry.head().is(kind, id))
            };
            view.entry_index.find_or_insert(hash, next, is_it)
        } else {
            let found = view.find_entry(hash, kind, id).filter(|position| *position >= sealed);
            if found.is_none() {
                view.entry_index.insert(hash, next);
            }
            found
        };
        if found.is_none() {
            view.entries.push(Entry::new(kind, id, self.origin));
        }
        let position = found.unwrap_or(next);
        self.recent[kind as usize] = position;
        (position, found.is_none())
    }

    /// Creates or changes an entry. Reports it only if `change` returns a change.
    #[inline]
    pub(crate) fn change_entry<T: Body>(
        &mut self,
        kind: EntryKind,
        id: &str,
        edit: impl FnOnce(&mut T, &mut EntryChange),
    ) -> Option<Change> {
        // Fast path: consecutive chunks belong to the same entry, so the lookup by hash is skipped.
        let recent = self.recent[kind as usize];
        let body = self.view.entries.get(recent).filter(|_| recent >= self.sealed).and_then(T::of);
        let is_recent = body.is_some_and(|body| body.head().is(kind, id));
        let (position, created) = if is_recent { (recent, false) } else { self.place(kind, id) };
        let body = self.view.entries.get_mut(position).and_then(T::of_mut)?;
        let mut change = EntryChange::new(position, kind, created);
        edit(body, &mut change);
        if change.is_empty() {
            return None;
        }
        // The revision is incremented after all changes of an update, in `finish` or `finish_one`.
        body.head_mut().revision = self.view.revision + 1;
        Some(Change::Entry(change))
    }

    fn message_chunk(&mut self, kind: EntryKind, chunk: &v2::ContentChunk<'_>) -> Changes {
        let change = self.change_entry(kind, &chunk.message_id, |message: &mut Message, change| {
            message.content.push(&chunk.content, chunk.meta.as_ref(), &chunk.extra);
            change.content = ContentChange::Appended(1);
        });
        self.finish_one(change)
    }

    fn message_update(&mut self, kind: EntryKind, update: &v2::MessageUpdate<'_>) -> Changes {
        let rule = self.meta_rule;
        let change = self.change_entry(kind, &update.message_id, |message: &mut Message, change| {
            change.content = patch_content(&mut message.content, &update.content);
            message.head.patch_attached(rule, &update.meta, &update.extra, &mut change.fields);
        });
        self.finish_one(change)
    }

    #[inline(never)]
    fn tool_call_update(&mut self, update: &v2::ToolCallUpdate<'_>) -> Changes {
        let change = self.patch_tool_call(update);
        self.finish_one(change)
    }

    #[inline]
    pub(crate) fn patch_tool_call(&mut self, update: &v2::ToolCallUpdate<'_>) -> Option<Change> {
        let rule = self.meta_rule;
        self.change_entry(EntryKind::ToolCall, &update.tool_call_id, |call: &mut ToolCall, change| {
            call.patch(rule, update, change);
        })
    }

    /// Updates the outlines of a session without transcript. Replayed history concerns the same calls.
    fn outline(&mut self, update: &v2::SessionUpdate<'_>) {
        if let Some(outlines) = &mut self.view.outlines
            && matches!(
                update,
                v2::SessionUpdate::ToolCallUpdate(_)
                    | v2::SessionUpdate::ToolCallContentChunk(_)
                    | v2::SessionUpdate::TerminalUpdate(_)
            )
        {
            Arc::make_mut(outlines).apply(self.meta_rule, update);
        }
    }

    /// Records that part of a tool call or a terminal was malformed and left out.
    pub(crate) fn note_malformed(&mut self, kind: EntryKind, id: &str, problem: &str) {
        if matches!(kind, EntryKind::ToolCall | EntryKind::Terminal) {
            Arc::make_mut(&mut self.view.malformed).note(kind, id, problem);
        }
    }

    /// Removes the outlines of tool calls: the next agent process restarts its ids.
    pub(crate) fn forget_calls(&mut self) {
        self.view.malformed = Arc::default();
        if let Some(outlines) = &mut self.view.outlines {
            Arc::make_mut(outlines).clear();
        }
    }

    fn tool_call_chunk(&mut self, chunk: &v2::ToolCallContentChunk<'_>) -> Changes {
        let change =
            self.change_entry(EntryKind::ToolCall, &chunk.tool_call_id, |call: &mut ToolCall, change| {
                call.content.push(&chunk.content, chunk.meta.as_ref(), &chunk.extra);
                change.content = ContentChange::Appended(1);
            });
        self.finish_one(change)
    }

    fn terminal_update(&mut self, update: &v2::TerminalUpdate<'_>) -> Changes {
        let (rule, limit) = (self.meta_rule, self.terminal_limit);
        let change =
            self.change_entry(EntryKind::Terminal, &update.terminal_id, |terminal: &mut Terminal, change| {
                match &update.output {
                    Field::Keep => {}
                    Field::Clear if terminal.has_no_output() => {}
                    Field::Clear => {
                        terminal.clear_output();
                        change.content = ContentChange::Replaced(0);
                    }
                    Field::Set(output) => {
                        let before = terminal.clone();
                        terminal.clear_output();
                        terminal.append(limit, &output.data);
                        terminal.output_attached = Attached::of(output.meta.as_ref(), &output.extra);
                        if *terminal == before {
                            *terminal = before;
                        } else {
                            change.content = ContentChange::Replaced(terminal.output.len());
                        }
                    }
                }
                let fields = &mut change.fields;
                let cwd = update.cwd.clone().map(switchboard_acp::AbsolutePath::into_text);
                fields.note(EntryField::Command, patch_text(&mut terminal.command, &update.command));
                fields.note(EntryField::Cwd, patch_text(&mut terminal.cwd, &cwd));
                fields.note(
                    EntryField::ExitStatus,
                    patch_shared(&mut terminal.exit_status, &update.exit_status),
                );
                fields.note(EntryField::Size, patch_shared(&mut terminal.size, &update.size));
                let capabilities = patch_shared(&mut terminal.capabilities, &update.capabilities);
                fields.note(EntryField::Capabilities, capabilities);
                terminal.head.patch_attached(rule, &update.meta, &update.extra, fields);
            });
        self.finish_one(change)
    }

    fn terminal_chunk(&mut self, chunk: &v2::TerminalOutputChunk<'_>) -> Changes {
        let limit = self.terminal_limit;
        let change =
            self.change_entry(EntryKind::Terminal, &chunk.terminal_id, |terminal: &mut Terminal, change| {
                let place = terminal.output.dropped() + terminal.output.len();
                let attached = Attached::of(chunk.meta.as_ref(), &chunk.extra);
                let added = terminal.append(limit, &chunk.data);
                if added > 0 || attached.is_some() {
                    change.content = ContentChange::Appended(added);
                }
                if let Some(attached) = attached {
                    terminal.chunks.push((place, attached));
                }
            });
        self.finish_one(change)
    }

    fn compaction_update(&mut self, update: &v2::CompactionUpdate<'_>) -> Changes {
        let rule = self.meta_rule;
        let change = self.change_entry(
            EntryKind::Compaction,
            &update.compaction_id,
            |compaction: &mut Compaction, change| {
                change.content = patch_content(&mut compaction.summary, &update.summary);
                let fields = &mut change.fields;
                if compaction.status != update.status {
                    compaction.status = update.status.clone();
                    fields.note(EntryField::Status, Some(FieldChange::Set));
                }
                fields.note(EntryField::Error, patch_text(&mut compaction.error, &update.error));
                compaction.head.patch_attached(rule, &update.meta, &update.extra, fields);
            },
        );
        self.finish_one(change)
    }

    fn compaction_chunk(&mut self, chunk: &v2::CompactionSummaryChunk<'_>) -> Changes {
        let change = self.change_entry(
            EntryKind::Compaction,
            &chunk.compaction_id,
            |compaction: &mut Compaction, change| {
                compaction.summary.push(&chunk.content, chunk.meta.as_ref(), &chunk.extra);
                change.content = ContentChange::Appended(1);
            },
        );
        self.finish_one(change)
    }

    // ----- the session as a whole

    fn state_update(&mut self, state: &v2::StateUpdate<'_>) -> Changes {
        // The same state reported again is not a second completion.
        if self.view.state.as_deref() == Some(state) {
            return Changes::default();
        }
        self.view.state = Some(Arc::new(state.clone().into_owned()));
        self.finish_one(Some(Change::State))
    }

    fn plan_update(&mut self, update: &v2::PlanUpdate<'_>) -> Changes {
        let id = match &update.plan {
            v2::PlanUpdateContent::Items(items) => Text::Borrowed(&*items.plan_id),
            v2::PlanUpdateContent::File(file) => Text::Borrowed(&*file.plan_id),
            v2::PlanUpdateContent::Markdown(markdown) => Text::Borrowed(&*markdown.plan_id),
            v2::PlanUpdateContent::Unknown(unknown) => unknown.text("planId").unwrap_or_default(),
            v2::PlanUpdateContent::More(none) => none.never(),
        };
        let known = self.view.plan_place(&id);
        let plan = Arc::new(Plan {
            id: (*id).into(),
            content: update.plan.clone().into_owned(),
            attached: Attached::of(update.meta.as_ref(), &update.extra),
            revision: self.view.revision + 1,
        });
        match known.and_then(|index| self.view.plans.get_mut(index)) {
            Some(stored) => {
                if stored.has_same_content(&plan) {
                    return Changes::default();
                }
                *stored = plan;
            }
            None => self.view.push_plan(plan),
        }
        let index = known.unwrap_or(self.view.plans.len() - 1);
        self.finish_one(Some(Change::Plan { index, created: known.is_none() }))
    }

    /// Applies the lists in the response to `session/new`, `session/resume` or `session/set_config_option`.
    /// Lists that are not included stay unchanged.
    pub fn apply_lists(
        &mut self,
        config_options: Option<&[v2::SessionConfigOption<'_>]>,
        commands: Option<&[v2::AvailableCommand<'_>]>,
    ) -> Changes {
        let mut changes = Changes::default();
        // Attachments of a list stay while the list is unchanged.
        let view = &mut self.view;
        if let Some(options) = config_options
            && view.config_options.as_ref().is_none_or(|known| *known.items != *options)
        {
            view.config_options = Some(List::new(options, None));
            changes.push(Change::ConfigOptions);
        }
        if let Some(commands) = commands
            && view.commands.as_ref().is_none_or(|known| *known.items != *commands)
        {
            view.commands = Some(List::new(commands, None));
            changes.push(Change::Commands);
        }
        self.finish(changes)
    }

    fn info_update(&mut self, update: &v2::SessionInfoUpdate<'_>) -> Changes {
        let mut changes = Changes::default();
        let info = &mut self.view.info;
        if patch_text(&mut info.title, &update.title).is_some() {
            changes.push(Change::Title);
        }
        let updated_at = patch_text(&mut info.updated_at, &update.updated_at);
        let meta = self.meta_rule.apply(&mut info.meta, &update.meta);
        let extra = patch_extra(&mut info.extra, &update.extra);
        if updated_at.or(meta).or(extra).is_some() {
            changes.push(Change::Info);
        }
        self.finish(changes)
    }

    fn usage_update(&mut self, update: &v2::UsageUpdate<'_>) -> Changes {
        let cost = match &update.cost {
            Field::Set(cost) => Some(cost.clone().into_owned()),
            // In the `spec` dialect a missing cost is equivalent to `null`.
            Field::Keep if self.view.dialect != WireFormat::Spec => {
                self.view.usage.as_ref().and_then(|usage| usage.cost.clone())
            }
            Field::Keep | Field::Clear => None,
        };
        let usage = Usage {
            used: update.used,
            size: update.size,
            cost,
            meta: update.meta.clone().map(Wire::into_owned),
            extra: update.extra.clone().into_owned(),
        };
        if self.view.usage.as_deref() == Some(&usage) {
            return Changes::default();
        }
        self.view.usage = Some(Arc::new(usage));
        self.finish_one(Some(Change::Usage))
    }

    fn keep_unknown(&mut self, unknown: &UnknownVariant<'_>) -> Changes {
        let index = self.view.unknown.len();
        self.view.unknown.push(Arc::new(unknown.clone().into_owned()));
        self.finish_one(Some(Change::Unknown { index }))
    }
}

impl ToolCall {
    /// Applies an update to the call.
    #[inline]
    pub(crate) fn patch(
        &mut self,
        rule: MetaRule,
        update: &v2::ToolCallUpdate<'_>,
        change: &mut EntryChange,
    ) {
        change.content = patch_content(&mut self.content, &update.content);
        let fields = &mut change.fields;
        fields.note(EntryField::Title, patch_text(&mut self.title, &update.title));
        fields.note(EntryField::Name, patch_text(&mut self.name, &update.name));
        fields.note(EntryField::Kind, patch_defaulted(&mut self.kind, &update.kind));
        fields.note(EntryField::Status, patch_defaulted(&mut self.status, &update.status));
        fields.note(EntryField::Locations, patch_list(&mut self.locations, &update.locations));
        fields.note(EntryField::RawInput, patch_raw(&mut self.raw_input, &update.raw_input));
        fields.note(EntryField::RawOutput, patch_raw(&mut self.raw_output, &update.raw_output));
        fields.note(EntryField::Capabilities, patch_shared(&mut self.capabilities, &update.capabilities));
        self.head.patch_attached(rule, &update.meta, &update.extra, fields);
    }
}

/// Returns true if updates with this tag concern the session's state, not its transcript.
pub(crate) fn concerns_state(tag: &str) -> bool {
    matches!(
        tag,
        "state_update"
            | "session_info_update"
            | "available_commands_update"
            | "config_option_update"
            | "usage_update"
    )
}

/// Replaces a list. Returns false if it is unchanged.
fn replace_list<T: PartialEq>(stored: &mut Option<List<T>>, list: List<T>) -> bool {
    let changed = stored.as_ref() != Some(&list);
    *stored = Some(list);
    changed
}
