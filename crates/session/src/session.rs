//! The session that goes on: every update applies.

use std::ops::Deref;
use std::sync::Arc;

use switchboard_protocol::{Field, Revision, Text, UnknownVariant, Wire, v2};

use crate::change::{Change, Changes, ContentChange, EntryChange, EntryField, FieldChange};
use crate::content::Attached;
use crate::entry::{Entry, EntryKind, Head, Origin};
use crate::patch::{
    MetaRule, patch_content, patch_defaulted, patch_extra, patch_list, patch_shared, patch_text,
};
use crate::snapshot::{List, Plan, Snapshot, Usage};

const MAX_NOTICES: usize = 100;

/// How many bytes of a terminal's output are kept unless [`Session::limit_terminal_output`] says otherwise.
pub const TERMINAL_OUTPUT_LIMIT: usize = 8 * 1024 * 1024;

/// The state of one session, folded from its updates.
///
/// Whatever could be decoded applies: a chunk for an id never seen creates the entry, a reference to something
/// unseen is kept, a late chunk goes to its message wherever that stands. Reading goes through [`Snapshot`],
/// to which a session derefs.
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) view: Snapshot,
    pub(crate) meta_rule: MetaRule,
    /// Where new entries come from.
    pub(crate) origin: Origin,
    /// History that is being replayed, beside the present state.
    pub(crate) replay: Option<Box<Session>>,
    /// For each kind, the entry that the last update went to; the next one mostly goes there too.
    pub(crate) recent: [usize; EntryKind::ALL.len()],
    pub(crate) terminal_limit: usize,
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
    }
}

impl Session {
    /// A session in which nothing has happened yet, whose updates are read in a dialect.
    ///
    /// The dialect decides what the `_meta` of an update does: in [`Revision::Spec`] it replaces the stored
    /// one, else it is merged into it key by key. Merging is also the rule while the dialect is unknown
    /// ([`Revision::Any`]), because it loses nothing; see [`Session::peer_replaces_meta`].
    pub fn new(dialect: Revision) -> Self {
        let meta_rule = if dialect == Revision::Spec { MetaRule::Replace } else { MetaRule::Merge };
        let view = Snapshot::new(dialect);
        Session {
            view,
            meta_rule,
            origin: Origin::Live,
            replay: None,
            recent: Default::default(),
            terminal_limit: TERMINAL_OUTPUT_LIMIT,
        }
    }

    /// Keeps at most so many bytes of each terminal's output from here on. Where more come, the oldest go, and
    /// [`Bytes::dropped`](crate::Bytes::dropped) says how many.
    pub fn limit_terminal_output(&mut self, bytes: usize) {
        self.terminal_limit = bytes;
        if let Some(replay) = &mut self.replay {
            replay.limit_terminal_output(bytes);
        }
    }

    /// Tells that the peer, whose dialect was unknown, has turned out to speak the `spec` dialect: from here
    /// on, metadata is replaced.
    pub fn peer_replaces_meta(&mut self) {
        self.meta_rule = MetaRule::Replace;
        if let Some(replay) = &mut self.replay {
            replay.peer_replaces_meta();
        }
    }

    /// All that can be read, at this moment. It does not change any more.
    pub fn snapshot(&self) -> Snapshot {
        self.view.clone()
    }

    /// Applies an update and tells what it changed.
    ///
    /// ```
    /// use switchboard_protocol::{Revision, v2};
    /// use switchboard_session::{Change, EntryField, FieldChange, Session};
    ///
    /// let mut session = Session::new(Revision::Any);
    /// let call = v2::ToolCallUpdate::new("c-1").title("Read").status(v2::ToolCallStatus::Completed);
    /// let changes = session.apply(&call.into());
    /// let Some(Change::Entry(change)) = changes.iter().next() else { panic!() };
    /// assert!(change.created);
    /// assert_eq!(change.fields.get(EntryField::Title), Some(FieldChange::Set));
    /// assert_eq!(session.tool_call("c-1").unwrap().title(), Some("Read"));
    /// ```
    pub fn apply(&mut self, update: &v2::SessionUpdate<'_>) -> Changes {
        if let Some(replay) = &mut self.replay {
            replay.apply(update);
            return Changes::default();
        }
        let mut changes = Changes::default();
        self.apply_to_view(update, &mut changes);
        self.count(&mut changes);
        changes
    }

    /// Counts the revision up if anything changed.
    #[inline]
    fn count(&mut self, changes: &mut Changes) {
        if !changes.is_empty() {
            self.view.revision += 1;
            changes.set_revision(self.view.revision);
        }
    }

    pub(crate) fn finish(&mut self, mut changes: Changes) -> Changes {
        self.count(&mut changes);
        changes
    }

    fn apply_to_view(&mut self, update: &v2::SessionUpdate<'_>, changes: &mut Changes) {
        use v2::SessionUpdate as Update;
        match update {
            Update::UserMessageChunk(chunk) => self.message_chunk(EntryKind::UserMessage, chunk, changes),
            Update::AgentMessageChunk(chunk) => self.message_chunk(EntryKind::AgentMessage, chunk, changes),
            Update::AgentThoughtChunk(chunk) => self.message_chunk(EntryKind::AgentThought, chunk, changes),
            Update::UserMessage(update) => self.message_update(EntryKind::UserMessage, update, changes),
            Update::AgentMessage(update) => self.message_update(EntryKind::AgentMessage, update, changes),
            Update::AgentThought(update) => self.message_update(EntryKind::AgentThought, update, changes),
            Update::ToolCallUpdate(update) => self.tool_call_update(update, changes),
            Update::ToolCallContentChunk(chunk) => self.tool_call_chunk(chunk, changes),
            Update::TerminalUpdate(update) => self.terminal_update(update, changes),
            Update::TerminalOutputChunk(chunk) => self.terminal_chunk(chunk, changes),
            Update::CompactionUpdate(update) => self.compaction_update(update, changes),
            Update::CompactionSummaryChunk(chunk) => self.compaction_chunk(chunk, changes),
            Update::StateUpdate(state) => self.state_update(state, changes),
            Update::PlanUpdate(update) => self.plan_update(update, changes),
            Update::AvailableCommandsUpdate(update) => {
                let attached = Attached::of(update.meta.as_ref(), &update.extra);
                let list = List::new(&update.available_commands, attached);
                if self.view.commands.as_ref() != Some(&list) {
                    self.view.commands = Some(list);
                    changes.push(Change::Commands);
                }
            }
            Update::ConfigOptionUpdate(update) => {
                let attached = Attached::of(update.meta.as_ref(), &update.extra);
                let list = List::new(&update.config_options, attached);
                if self.view.config_options.as_ref() != Some(&list) {
                    self.view.config_options = Some(list);
                    changes.push(Change::ConfigOptions);
                }
            }
            Update::SessionInfoUpdate(update) => self.info_update(update, changes),
            Update::UsageUpdate(update) => self.usage_update(update, changes),
            Update::Notice(notice) => {
                let notices = Arc::make_mut(&mut self.view.notices);
                if notices.len() == MAX_NOTICES {
                    notices.remove(0);
                }
                notices.push((**notice).clone().into_owned());
                changes.push(Change::Notice);
            }
            Update::Unknown(unknown) => self.keep_unknown(unknown, changes),
        }
    }

    // ----- entries

    /// The place of an entry, which is created if need be.
    fn place(&mut self, kind: EntryKind, id: &str) -> EntryChange {
        let recent = self.recent[kind as usize];
        if self.view.is_entry(recent, kind, id) {
            return EntryChange::new(recent, kind, false);
        }
        let hash = self.view.entry_hash(kind, id);
        let found = self.view.find_entry(hash, kind, id);
        let position = found.unwrap_or_else(|| {
            let position = self.view.entries.len();
            self.view.entry_index.insert(hash, position);
            self.view.entries.push(Entry::new(kind, id, self.origin));
            position
        });
        self.recent[kind as usize] = position;
        EntryChange::new(position, kind, found.is_none())
    }

    /// Creates or changes an entry. Only what says that it changed counts.
    fn change_entry(
        &mut self,
        kind: EntryKind,
        id: &str,
        changes: &mut Changes,
        edit: impl for<'e> FnOnce(&'e mut Entry, &mut EntryChange) -> Option<&'e mut Head>,
    ) {
        let mut change = self.place(kind, id);
        let revision = self.view.revision + 1;
        let entry = self.view.entries.get_mut(change.position);
        let head = entry.and_then(|entry| edit(entry, &mut change));
        if !change.is_empty() {
            if let Some(head) = head {
                head.revision = revision;
            }
            changes.push(Change::Entry(change));
        }
    }

    fn message_chunk(&mut self, kind: EntryKind, chunk: &v2::ContentChunk<'_>, changes: &mut Changes) {
        self.change_entry(kind, &chunk.message_id, changes, |entry, change| {
            let Entry::Message(message) = entry else { return None };
            let message = Arc::make_mut(message);
            message.content.push(&chunk.content, chunk.meta.as_ref(), &chunk.extra);
            change.content = ContentChange::Appended(1);
            Some(&mut message.head)
        });
    }

    fn message_update(&mut self, kind: EntryKind, update: &v2::MessageUpdate<'_>, changes: &mut Changes) {
        let rule = self.meta_rule;
        self.change_entry(kind, &update.message_id, changes, |entry, change| {
            let Entry::Message(message) = entry else { return None };
            let message = Arc::make_mut(message);
            change.content = patch_content(&mut message.content, &update.content);
            let fields = &mut change.fields;
            fields.note(EntryField::Meta, rule.apply(&mut message.head.meta, &update.meta));
            fields.note(EntryField::Extra, patch_extra(&mut message.head.extra, &update.extra));
            Some(&mut message.head)
        });
    }

    pub(crate) fn tool_call_update(&mut self, update: &v2::ToolCallUpdate<'_>, changes: &mut Changes) {
        let rule = self.meta_rule;
        self.change_entry(EntryKind::ToolCall, &update.tool_call_id, changes, |entry, change| {
            let Entry::ToolCall(call) = entry else { return None };
            let call = Arc::make_mut(call);
            change.content = patch_content(&mut call.content, &update.content);
            let fields = &mut change.fields;
            fields.note(EntryField::Title, patch_text(&mut call.title, &update.title));
            fields.note(EntryField::Name, patch_text(&mut call.name, &update.name));
            fields.note(EntryField::Kind, patch_defaulted(&mut call.kind, &update.kind));
            fields.note(EntryField::Status, patch_defaulted(&mut call.status, &update.status));
            fields.note(EntryField::Locations, patch_list(&mut call.locations, &update.locations));
            fields.note(EntryField::RawInput, patch_shared(&mut call.raw_input, &update.raw_input));
            fields.note(EntryField::RawOutput, patch_shared(&mut call.raw_output, &update.raw_output));
            fields.note(EntryField::Capabilities, patch_shared(&mut call.capabilities, &update.capabilities));
            fields.note(EntryField::Meta, rule.apply(&mut call.head.meta, &update.meta));
            fields.note(EntryField::Extra, patch_extra(&mut call.head.extra, &update.extra));
            Some(&mut call.head)
        });
    }

    fn tool_call_chunk(&mut self, chunk: &v2::ToolCallContentChunk<'_>, changes: &mut Changes) {
        self.change_entry(EntryKind::ToolCall, &chunk.tool_call_id, changes, |entry, change| {
            let Entry::ToolCall(call) = entry else { return None };
            let call = Arc::make_mut(call);
            call.content.push(&chunk.content, chunk.meta.as_ref(), &chunk.extra);
            change.content = ContentChange::Appended(1);
            Some(&mut call.head)
        });
    }

    fn terminal_update(&mut self, update: &v2::TerminalUpdate<'_>, changes: &mut Changes) {
        let (rule, limit) = (self.meta_rule, self.terminal_limit);
        self.change_entry(EntryKind::Terminal, &update.terminal_id, changes, |entry, change| {
            let Entry::Terminal(terminal) = entry else { return None };
            let terminal = Arc::make_mut(terminal);
            match &update.output {
                Field::Keep => {}
                Field::Clear if terminal.has_no_output() => {}
                Field::Clear => {
                    terminal.clear_output();
                    change.content = ContentChange::Replaced(0);
                }
                Field::Set(output) => {
                    terminal.clear_output();
                    terminal.append(limit, &output.data);
                    terminal.output_attached = Attached::of(output.meta.as_ref(), &output.extra);
                    change.content = ContentChange::Replaced(terminal.output.len());
                }
            }
            let fields = &mut change.fields;
            let cwd = update.cwd.clone().map(switchboard_protocol::AbsolutePath::into_text);
            fields.note(EntryField::Command, patch_text(&mut terminal.command, &update.command));
            fields.note(EntryField::Cwd, patch_text(&mut terminal.cwd, &cwd));
            fields.note(EntryField::ExitStatus, patch_shared(&mut terminal.exit_status, &update.exit_status));
            fields.note(EntryField::Size, patch_shared(&mut terminal.size, &update.size));
            let capabilities = patch_shared(&mut terminal.capabilities, &update.capabilities);
            fields.note(EntryField::Capabilities, capabilities);
            fields.note(EntryField::Meta, rule.apply(&mut terminal.head.meta, &update.meta));
            fields.note(EntryField::Extra, patch_extra(&mut terminal.head.extra, &update.extra));
            Some(&mut terminal.head)
        });
    }

    fn terminal_chunk(&mut self, chunk: &v2::TerminalOutputChunk<'_>, changes: &mut Changes) {
        let limit = self.terminal_limit;
        self.change_entry(EntryKind::Terminal, &chunk.terminal_id, changes, |entry, change| {
            let Entry::Terminal(terminal) = entry else { return None };
            let terminal = Arc::make_mut(terminal);
            let place = terminal.output.dropped() + terminal.output.len();
            let attached = Attached::of(chunk.meta.as_ref(), &chunk.extra);
            let added = terminal.append(limit, &chunk.data);
            if added > 0 || attached.is_some() {
                change.content = ContentChange::Appended(added);
            }
            if let Some(attached) = attached {
                terminal.chunks.push((place, attached));
            }
            Some(&mut terminal.head)
        });
    }

    fn compaction_update(&mut self, update: &v2::CompactionUpdate<'_>, changes: &mut Changes) {
        let rule = self.meta_rule;
        self.change_entry(EntryKind::Compaction, &update.compaction_id, changes, |entry, change| {
            let Entry::Compaction(compaction) = entry else { return None };
            let compaction = Arc::make_mut(compaction);
            change.content = patch_content(&mut compaction.summary, &update.summary);
            let fields = &mut change.fields;
            if compaction.status != update.status {
                compaction.status = update.status.clone();
                fields.note(EntryField::Status, Some(FieldChange::Set));
            }
            fields.note(EntryField::Error, patch_text(&mut compaction.error, &update.error));
            fields.note(EntryField::Meta, rule.apply(&mut compaction.head.meta, &update.meta));
            fields.note(EntryField::Extra, patch_extra(&mut compaction.head.extra, &update.extra));
            Some(&mut compaction.head)
        });
    }

    fn compaction_chunk(&mut self, chunk: &v2::CompactionSummaryChunk<'_>, changes: &mut Changes) {
        self.change_entry(EntryKind::Compaction, &chunk.compaction_id, changes, |entry, change| {
            let Entry::Compaction(compaction) = entry else { return None };
            let compaction = Arc::make_mut(compaction);
            compaction.summary.push(&chunk.content, chunk.meta.as_ref(), &chunk.extra);
            change.content = ContentChange::Appended(1);
            Some(&mut compaction.head)
        });
    }

    // ----- the session as a whole

    fn state_update(&mut self, state: &v2::StateUpdate<'_>, changes: &mut Changes) {
        // The same state told again is not a second completion.
        if self.view.state.as_deref() != Some(state) {
            self.view.state = Some(Arc::new(state.clone().into_owned()));
            changes.push(Change::State);
        }
    }

    fn plan_update(&mut self, update: &v2::PlanUpdate<'_>, changes: &mut Changes) {
        let id = match &update.plan {
            v2::PlanUpdateContent::Items(items) => Text::Borrowed(&*items.plan_id),
            v2::PlanUpdateContent::Unknown(unknown) => unknown.text("planId").unwrap_or_default(),
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
                if stored.says_the_same(&plan) {
                    return;
                }
                *stored = plan;
            }
            None => self.view.push_plan(plan),
        }
        let index = known.unwrap_or(self.view.plans.len() - 1);
        changes.push(Change::Plan { index, created: known.is_none() });
    }

    /// Takes over what the answer to `session/new`, `session/resume` or `session/set_config_option` lists.
    /// What it does not list stays.
    pub fn apply_lists(
        &mut self,
        config_options: Option<&[v2::SessionConfigOption<'_>]>,
        commands: Option<&[v2::AvailableCommand<'_>]>,
    ) -> Changes {
        let mut changes = Changes::default();
        // What came beside a list stays while the list stays the same.
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

    fn info_update(&mut self, update: &v2::SessionInfoUpdate<'_>, changes: &mut Changes) {
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
    }

    fn usage_update(&mut self, update: &v2::UsageUpdate<'_>, changes: &mut Changes) {
        let cost = match &update.cost {
            Field::Set(cost) => Some(cost.clone().into_owned()),
            // In the `spec` dialect a missing cost says the same as `null`.
            Field::Keep if self.view.dialect != Revision::Spec => {
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
        if self.view.usage.as_deref() != Some(&usage) {
            self.view.usage = Some(Arc::new(usage));
            changes.push(Change::Usage);
        }
    }

    fn keep_unknown(&mut self, unknown: &UnknownVariant<'_>, changes: &mut Changes) {
        changes.push(Change::Unknown { index: self.view.unknown.len() });
        self.view.unknown.push(Arc::new(unknown.clone().into_owned()));
    }
}
