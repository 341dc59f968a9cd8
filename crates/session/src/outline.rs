//! Outlines of tool calls: their input without their output.
//!
//! A policy decision about a tool call needs its kind, title, input, locations, the paths of its diffs and
//! the commands of its terminals, but not its output. [`Outlines`] folds only those parts of the updates and
//! stays small regardless of the amount of output. A call of a complete transcript is reduced to its outline
//! by the same code, so that a decision does not depend on how much a session keeps.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use switchboard_acp::{Extra, Field, Meta, Raw, Text, UnknownVariant, Wire, v2};

use crate::change::EntryChange;
use crate::content::{Attached, Content, Item};
use crate::entry::{EntryKind, Origin, ToolCall};
use crate::patch::{MetaRule, patch_text};
use crate::short_text::ShortText;
use crate::snapshot::Snapshot;

/// Maximum number of outlines of calls and terminals. Beyond it, the oldest are evicted.
const MAX_OUTLINES: usize = 1024;
/// Maximum size of all outlines of a session in bytes. Beyond it, the oldest are evicted.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Maximum size of an input or a command line in bytes. A larger one is dropped and marked as too large.
const MAX_INPUT: usize = 1024 * 1024;
/// Maximum size of a title, a name or a directory in bytes.
const MAX_WORDS: usize = 64 * 1024;
/// Maximum size of all locations, and of the kept content, in bytes.
const MAX_PARTS: usize = 256 * 1024;
/// Maximum number of evicted ids that can be distinguished from new ones.
const MAX_FORGOTTEN: usize = 65_536;
/// Maximum number of calls and terminals whose malformed updates are recorded.
const MAX_MALFORMED: usize = 1000;
/// Maximum size of a call's first text in bytes.
const MAX_TEXT: usize = 4096;
/// Maximum size of one value in `_meta`, and of one value in a nested object, in bytes.
const MAX_META_VALUE: usize = 256;
/// Maximum number of entries of `_meta`, and of a nested object.
const MAX_META_ENTRIES: usize = 64;
/// Approximate size of an outline in addition to its texts, in bytes.
const OVERHEAD: usize = 512;

const TOO_LARGE: &str = "a part of the tool call is too large";
const NO_LONGER_KEPT: &str = "the earlier updates of the tool call are no longer kept";
const TOO_MUCH_MALFORMED: &str = "too much was malformed before";

/// Outline of a tool call: its kind, title, name, status, input, locations and short metadata, the paths of
/// its diffs and the ids of its terminals. Contains the start of its text until the call ends, because some
/// agents report a command only there.
#[derive(Debug, Clone)]
pub struct ToolCallOutline<'s> {
    call: Cow<'s, ToolCall>,
    problem: Option<Cow<'s, str>>,
}

impl ToolCallOutline<'_> {
    /// Returns the call, reduced to its outline.
    pub fn call(&self) -> &ToolCall {
        &self.call
    }

    /// Returns the reason why the call may do something else or more than the outline shows. Such a call must
    /// not be allowed without asking the user.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

/// The command of a terminal, as far as the session shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TerminalOutline<'s> {
    /// The command line.
    pub command: Option<&'s str>,
    /// The working directory.
    pub cwd: Option<&'s str>,
    /// Reason why the command may be another one.
    pub problem: Option<&'s str>,
}

/// Outlines of the calls and terminals of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outlines {
    calls: HashMap<ShortText, OutlinedCall>,
    terminals: HashMap<ShortText, OutlinedTerminal>,
    /// Oldest first.
    order: VecDeque<(EntryKind, ShortText)>,
    bytes: usize,
    /// True if the oldest are never evicted, to read a recording.
    is_unlimited: bool,
    /// Hashes of evicted ids, so that a later update does not make one of them look complete.
    forgotten: HashSet<u64>,
    hasher: RandomState,
}

#[derive(Debug, Clone)]
struct OutlinedCall {
    call: ToolCall,
    /// True if earlier updates are not available.
    is_partial: bool,
    /// Parts that are too large, until they are replaced.
    cut: Cut,
    bytes: usize,
}

#[derive(Debug, Clone, Default)]
struct OutlinedTerminal {
    command: Option<ShortText>,
    cwd: Option<ShortText>,
    is_partial: bool,
    command_is_cut: bool,
    cwd_is_cut: bool,
    bytes: usize,
}

/// Parts of a call that are too large to keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cut {
    title: bool,
    name: bool,
    input: bool,
    locations: bool,
    content: bool,
}

impl Cut {
    /// Resets the flags of parts that an update replaces.
    fn reset(&mut self, update: &v2::ToolCallUpdate<'_>) {
        self.title &= matches!(update.title, Field::Keep);
        self.name &= matches!(update.name, Field::Keep);
        self.input &= matches!(update.raw_input, Field::Keep);
        self.locations &= matches!(update.locations, Field::Keep);
        self.content &= matches!(update.content, Field::Keep);
    }

    /// Removes the parts of a call that are too large.
    fn apply(&mut self, call: &mut ToolCall) {
        let is_long = |text: &Option<ShortText>| text.as_ref().is_some_and(|text| text.len() > MAX_WORDS);
        self.title |= is_long(&call.title);
        self.name |= is_long(&call.name);
        self.input |= call.raw_input.as_ref().is_some_and(|input| input.as_str().len() > MAX_INPUT);
        self.locations |= location_bytes(call) > MAX_PARTS;
        self.content |= content_bytes(call) > MAX_PARTS;
        call.title = call.title.take().filter(|_| !self.title);
        call.name = call.name.take().filter(|_| !self.name);
        call.raw_input = call.raw_input.take().filter(|_| !self.input);
        call.locations = call.locations.take().filter(|_| !self.locations);
        if self.content {
            call.content.clear();
        }
    }

    fn problem(self) -> Option<&'static str> {
        (self != Cut::default()).then_some(TOO_LARGE)
    }
}

impl OutlinedCall {
    fn problem(&self) -> Option<&'static str> {
        self.is_partial.then_some(NO_LONGER_KEPT).or(self.cut.problem())
    }
}

impl OutlinedTerminal {
    fn problem(&self) -> Option<&'static str> {
        let is_cut = self.command_is_cut || self.cwd_is_cut;
        self.is_partial.then_some(NO_LONGER_KEPT).or(is_cut.then_some(TOO_LARGE))
    }
}

impl Outlines {
    /// Creates outlines without a limit on their number.
    pub(crate) fn unlimited() -> Self {
        Outlines { is_unlimited: true, ..Outlines::default() }
    }

    /// Removes all calls after a connection has ended: the next agent process reuses ids.
    pub(crate) fn clear(&mut self) {
        *self = Outlines { is_unlimited: self.is_unlimited, ..Outlines::default() };
    }

    /// Applies the parts of an update that concern tool calls and terminals.
    pub(crate) fn apply(&mut self, rule: MetaRule, update: &v2::SessionUpdate<'_>) {
        match update {
            v2::SessionUpdate::ToolCallUpdate(update) => self.tool_call_update(rule, update),
            v2::SessionUpdate::ToolCallContentChunk(chunk) => {
                self.edit(&chunk.tool_call_id, |call, _| {
                    push_outlines(&mut call.content, std::slice::from_ref(&chunk.content));
                });
            }
            v2::SessionUpdate::TerminalUpdate(update) => self.terminal_update(update),
            _ => {}
        }
    }

    pub(crate) fn tool_call_update(&mut self, rule: MetaRule, update: &v2::ToolCallUpdate<'_>) {
        self.edit(&update.tool_call_id, |call, cut| {
            cut.reset(update);
            match &update.content {
                Field::Keep => {}
                Field::Clear => call.content.clear(),
                Field::Set(items) => {
                    call.content.clear();
                    push_outlines(&mut call.content, items);
                }
            }
            let outlined = v2::ToolCallUpdate {
                name: update.name.clone(),
                title: update.title.clone(),
                kind: update.kind.clone(),
                status: update.status.clone(),
                locations: update.locations.clone(),
                raw_input: update.raw_input.clone(),
                meta: update.meta.clone().map(|meta| short_meta(&meta)),
                ..v2::ToolCallUpdate::new(&*update.tool_call_id)
            };
            call.patch(rule, &outlined, &mut EntryChange::new(0, EntryKind::ToolCall, false));
            if let Some(meta) = call.head.meta().filter(|meta| meta.entries().nth(MAX_META_ENTRIES).is_some())
            {
                let meta = Some(short_meta(meta));
                call.head.attached = Some(Arc::new(Attached { meta, extra: Extra::new() }));
            }
        });
    }

    fn edit(&mut self, id: &str, edit: impl FnOnce(&mut ToolCall, &mut Cut)) {
        let key = ShortText::from(id);
        if !self.calls.contains_key(&key) {
            let is_partial = self.is_forgotten(EntryKind::ToolCall, id);
            let call = ToolCall::named(id, Origin::Live);
            let outlined = OutlinedCall { call, is_partial, cut: Cut::default(), bytes: 0 };
            self.calls.insert(key.clone(), outlined);
            self.order.push_back((EntryKind::ToolCall, key.clone()));
        }
        let Some(outlined) = self.calls.get_mut(&key) else { return };
        edit(&mut outlined.call, &mut outlined.cut);
        trim(&mut outlined.call, &mut outlined.cut);
        let before = std::mem::replace(&mut outlined.bytes, bytes_of(&outlined.call));
        self.bytes = (self.bytes + outlined.bytes).saturating_sub(before);
        self.forget_oldest(&key);
    }

    fn terminal_update(&mut self, update: &v2::TerminalUpdate<'_>) {
        let key = ShortText::from(&*update.terminal_id);
        if !self.terminals.contains_key(&key) {
            let is_partial = self.is_forgotten(EntryKind::Terminal, &update.terminal_id);
            self.terminals
                .insert(key.clone(), OutlinedTerminal { is_partial, ..OutlinedTerminal::default() });
            self.order.push_back((EntryKind::Terminal, key.clone()));
        }
        let Some(terminal) = self.terminals.get_mut(&key) else { return };
        let cwd = update.cwd.clone().map(switchboard_acp::AbsolutePath::into_text);
        let length = |text: &Option<ShortText>| text.as_ref().map_or(0, |text| text.len());
        if patch_text(&mut terminal.command, &update.command).is_some() {
            terminal.command_is_cut = length(&terminal.command) > MAX_INPUT;
            terminal.command = terminal.command.take().filter(|_| !terminal.command_is_cut);
        }
        if patch_text(&mut terminal.cwd, &cwd).is_some() {
            terminal.cwd_is_cut = length(&terminal.cwd) > MAX_WORDS;
            terminal.cwd = terminal.cwd.take().filter(|_| !terminal.cwd_is_cut);
        }
        let bytes = length(&terminal.command) + length(&terminal.cwd) + OVERHEAD;
        let before = std::mem::replace(&mut terminal.bytes, bytes);
        self.bytes = (self.bytes + bytes).saturating_sub(before);
        self.forget_oldest(&key);
    }

    /// Evicts the oldest until the rest is within the limits. Keeps `newest`.
    fn forget_oldest(&mut self, newest: &ShortText) {
        while !self.is_unlimited && (self.order.len() > MAX_OUTLINES || self.bytes > MAX_BYTES) {
            let Some(oldest) = self.order.iter().position(|(_, id)| id != newest) else { return };
            let Some((kind, id)) = self.order.remove(oldest) else { return };
            let bytes = match kind {
                EntryKind::Terminal => self.terminals.remove(&id).map(|terminal| terminal.bytes),
                _ => self.calls.remove(&id).map(|call| call.bytes),
            };
            self.bytes = self.bytes.saturating_sub(bytes.unwrap_or_default());
            if self.forgotten.len() < MAX_FORGOTTEN {
                self.forgotten.insert(self.hash(kind, &id));
            }
        }
    }

    fn hash(&self, kind: EntryKind, id: &str) -> u64 {
        self.hasher.hash_one((kind as u8, id))
    }

    /// Returns true if an entry with this id may have been evicted. If too many were, this holds for every
    /// unknown id.
    fn is_forgotten(&self, kind: EntryKind, id: &str) -> bool {
        self.forgotten.len() >= MAX_FORGOTTEN || self.forgotten.contains(&self.hash(kind, id))
    }

    fn tool_call(&self, id: &str) -> Option<ToolCallOutline<'_>> {
        match self.calls.get(&ShortText::from(id)) {
            Some(known) => Some(ToolCallOutline {
                call: Cow::Borrowed(&known.call),
                problem: known.problem().map(Into::into),
            }),
            None => self.is_forgotten(EntryKind::ToolCall, id).then(|| ToolCallOutline {
                call: Cow::Owned(ToolCall::named(id, Origin::Live)),
                problem: Some(NO_LONGER_KEPT.into()),
            }),
        }
    }

    fn terminal(&self, id: &str) -> Option<TerminalOutline<'_>> {
        let Some(known) = self.terminals.get(&ShortText::from(id)) else {
            let is_forgotten = self.is_forgotten(EntryKind::Terminal, id);
            let problem = Some(NO_LONGER_KEPT);
            return is_forgotten.then_some(TerminalOutline { command: None, cwd: None, problem });
        };
        let (command, cwd) = (known.command.as_deref(), known.cwd.as_deref());
        Some(TerminalOutline { command, cwd, problem: known.problem() })
    }
}

/// Calls and terminals with malformed updates, and the first problem of each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Malformed(HashMap<(EntryKind, ShortText), Arc<str>>);

impl Malformed {
    pub(crate) fn note(&mut self, kind: EntryKind, id: &str, problem: &str) {
        if self.0.len() < MAX_MALFORMED {
            self.0.entry((kind, id.into())).or_insert_with(|| problem.into());
        }
    }

    fn problem(&self, kind: EntryKind, id: &str) -> Option<&str> {
        if self.0.is_empty() {
            return None;
        }
        let is_full = self.0.len() >= MAX_MALFORMED;
        self.0.get(&(kind, id.into())).map(|problem| &**problem).or(is_full.then_some(TOO_MUCH_MALFORMED))
    }
}

impl Snapshot {
    /// Returns the outline of a tool call by its id. Also available without a transcript, if outlines are
    /// kept.
    ///
    /// ```
    /// use switchboard_acp::{Raw, WireFormat, v2};
    /// use switchboard_session::Conversation;
    ///
    /// let mut conversation = Conversation::new(WireFormat::Any).without_transcript().with_tool_call_outlines();
    /// let call = v2::ToolCallUpdate::new("c-1").title("Read").raw_input(Raw::parse(r#"{"path":"/a"}"#)?);
    /// conversation.apply_update(Some("s"), &call.into())?;
    /// let session = conversation.session(Some("s")).unwrap();
    /// assert_eq!((session.len(), session.tool_call_outline("c-1").unwrap().call().title()), (0, Some("Read")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tool_call_outline(&self, id: &str) -> Option<ToolCallOutline<'_>> {
        let malformed = self.malformed.problem(EntryKind::ToolCall, id);
        let outline = match &self.outlines {
            Some(outlines) => outlines.tool_call(id),
            None => self.tool_call(id).map(|call| {
                let (call, problem) = outline_of(call);
                ToolCallOutline { call: Cow::Owned(call), problem: problem.map(Into::into) }
            }),
        };
        match (outline, malformed) {
            (Some(outline), Some(malformed)) => {
                Some(ToolCallOutline { problem: Some(malformed.into()), ..outline })
            }
            // None of its updates could be parsed.
            (None, Some(malformed)) => Some(ToolCallOutline {
                call: Cow::Owned(ToolCall::named(id, Origin::Live)),
                problem: Some(malformed.into()),
            }),
            (outline, None) => outline,
        }
    }

    /// Returns the command of a terminal by the terminal's id.
    pub fn terminal_outline(&self, id: &str) -> Option<TerminalOutline<'_>> {
        let malformed = self.malformed.problem(EntryKind::Terminal, id);
        let outline = match &self.outlines {
            Some(outlines) => outlines.terminal(id),
            None => self.terminal(id).map(|terminal| {
                let command = terminal.command().filter(|command| command.len() <= MAX_INPUT);
                let cwd = terminal.cwd().filter(|cwd| cwd.len() <= MAX_WORDS);
                let is_cut = (command, cwd) != (terminal.command(), terminal.cwd());
                TerminalOutline { command, cwd, problem: is_cut.then_some(TOO_LARGE) }
            }),
        };
        let unread =
            malformed.map(|problem| TerminalOutline { command: None, cwd: None, problem: Some(problem) });
        match outline {
            Some(outline) => Some(TerminalOutline { problem: malformed.or(outline.problem), ..outline }),
            None => unread,
        }
    }
}

/// Reduces a complete call to its outline.
fn outline_of(call: &ToolCall) -> (ToolCall, Option<&'static str>) {
    let mut outline = ToolCall::named(&call.head.id, call.head.origin);
    outline.kind = call.kind.clone();
    outline.status = call.status.clone();
    outline.title = call.title.clone();
    outline.name = call.name.clone();
    outline.locations = call.locations.clone();
    outline.raw_input = call.raw_input.clone();
    let blocks: Vec<v2::ToolCallContent<'_>> = call.content.blocks().collect();
    push_outlines(&mut outline.content, &blocks);
    let meta = call.head.meta().map(short_meta).filter(|meta| meta.entries().next().is_some());
    outline.head.attached = meta.map(|meta| Arc::new(Attached { meta: Some(meta), extra: Extra::new() }));
    let mut cut = Cut::default();
    trim(&mut outline, &mut cut);
    (outline, cut.problem())
}

/// Removes the parts that an outline does not keep.
fn trim(call: &mut ToolCall, cut: &mut Cut) {
    if call.status.is_final() && call.content.text_len() > 0 {
        // After the call has ended, its text is output.
        let rest: Vec<_> = call.content.items().filter_map(Item::structured).cloned().collect();
        call.content.replace(&rest);
    }
    cut.apply(call);
}

/// Appends the outlines of blocks to outlined content.
fn push_outlines(content: &mut Content<v2::ToolCallContent<'static>>, blocks: &[v2::ToolCallContent<'_>]) {
    let mut known: Option<Known> = None;
    for block in blocks {
        let outlined = match block {
            v2::ToolCallContent::Content(block) => match &block.content {
                v2::ContentBlock::Unknown(_) => Some(of_unknown_kind()),
                block => block
                    .as_text()
                    .filter(|text| !text.is_empty() && content.text_len() == 0)
                    .map(|text| v2::ToolCallContent::text(short_text(text))),
            },
            v2::ToolCallContent::Diff(diff) => {
                let known = known.get_or_insert_with(|| Known::of(content));
                let changes = diff.changes.iter().map(path_change);
                let changes: Vec<_> = changes.filter(|change| known.changes.insert(change.clone())).collect();
                (!changes.is_empty()).then(|| v2::ToolCallContent::diff(v2::Diff::new(changes)))
            }
            v2::ToolCallContent::Terminal(terminal) => {
                Some(v2::ToolCallContent::Terminal(v2::Terminal::new(terminal.terminal_id.to_string())))
            }
            v2::ToolCallContent::Session(_) | v2::ToolCallContent::Unknown(_) => Some(of_unknown_kind()),
            v2::ToolCallContent::More(none) => none.never(),
        };
        let Some(outlined) = outlined else { continue };
        let is_new = match &outlined {
            v2::ToolCallContent::Content(_) | v2::ToolCallContent::Diff(_) => true,
            other => known.get_or_insert_with(|| Known::of(content)).others.insert(other.clone()),
        };
        if is_new {
            content.push(&outlined, None, &Extra::new());
        }
    }
}

/// Parts that an outline already contains, so that repeated content does not make it grow.
struct Known {
    changes: HashSet<v2::DiffChange<'static>>,
    others: HashSet<v2::ToolCallContent<'static>>,
}

impl Known {
    fn of(content: &Content<v2::ToolCallContent<'static>>) -> Self {
        let mut known = Known { changes: HashSet::new(), others: HashSet::new() };
        for block in content.items().filter_map(Item::structured) {
            match block {
                v2::ToolCallContent::Diff(diff) => known.changes.extend(diff.changes.iter().cloned()),
                other => drop(known.others.insert(other.clone())),
            }
        }
        known
    }
}

/// Returns a placeholder for content of an unknown kind.
fn of_unknown_kind() -> v2::ToolCallContent<'static> {
    v2::ToolCallContent::Unknown(UnknownVariant { tag: "_unknown".into(), entries: Extra::new() })
}

/// Returns a change with only its operation and paths.
fn path_change(change: &v2::DiffChange<'_>) -> v2::DiffChange<'static> {
    let one = |change: &v2::DiffPathChange<'_>| v2::DiffPathChange::new(change.path.clone().into_owned());
    let two = |change: &v2::DiffPathPairChange<'_>| {
        v2::DiffPathPairChange::new(change.old_path.clone().into_owned(), change.path.clone().into_owned())
    };
    match change {
        v2::DiffChange::Add(change) => v2::DiffChange::Add(one(change)),
        v2::DiffChange::Delete(change) => v2::DiffChange::Delete(one(change)),
        v2::DiffChange::Modify(change) => v2::DiffChange::Modify(one(change)),
        v2::DiffChange::Move(change) => v2::DiffChange::Move(two(change)),
        v2::DiffChange::Copy(change) => v2::DiffChange::Copy(two(change)),
        v2::DiffChange::Unknown(unknown) => {
            let mut entries = Extra::new();
            if let Some(path) = unknown.entries.get("path") {
                entries.insert("path".to_owned(), path.clone().into_owned());
            }
            v2::DiffChange::Unknown(UnknownVariant { tag: "_unknown".into(), entries })
        }
        v2::DiffChange::More(none) => none.never(),
    }
}

/// Returns the start of a text. A longer text ends with the mark of truncated texts.
fn short_text(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// Returns the short values of metadata, including nested ones. Some agents put a tool's output next to its
/// name.
fn short_meta(meta: &Meta<'_>) -> Meta<'static> {
    let is_short = |(key, value): &(Text<'_>, Raw<'_>)| key.len() + value.as_str().len() <= MAX_META_VALUE;
    let entries = meta.entries().filter_map(|(key, value)| {
        let entry = (key, value);
        if is_short(&entry) {
            return Some(entry);
        }
        let (key, value) = entry;
        let within = Meta::from_entries(value.entries().filter(is_short).take(MAX_META_ENTRIES));
        let is_object = value.is_object() && key.len() <= MAX_META_VALUE;
        is_object.then(|| (key, within.as_raw().clone().into_owned()))
    });
    Meta::from_entries(entries.take(MAX_META_ENTRIES))
}

/// Returns the approximate size of a call's outline in bytes.
fn bytes_of(call: &ToolCall) -> usize {
    let texts = [call.title.as_deref(), call.name.as_deref(), call.raw_input.as_ref().map(Raw::as_str)];
    let texts: usize = texts.into_iter().flatten().map(str::len).sum();
    let meta = call.head.meta().map_or(0, |meta| meta.as_raw().as_str().len());
    texts + location_bytes(call) + content_bytes(call) + meta + OVERHEAD
}

fn location_bytes(call: &ToolCall) -> usize {
    call.locations().iter().map(|location| location.path.as_str().len() + 64).sum()
}

fn content_bytes(call: &ToolCall) -> usize {
    let change = |change: &v2::DiffChange<'_>| {
        let path = change.path().map_or(0, |path| path.len());
        path + change.old_path().map_or(0, |path| path.as_str().len()) + 128
    };
    let content = call.content.items().map(|item| match item.structured() {
        Some(v2::ToolCallContent::Diff(diff)) => diff.changes.iter().map(change).sum(),
        Some(v2::ToolCallContent::Terminal(terminal)) => terminal.terminal_id.len() + 128,
        _ => item.text().map_or(64, str::len),
    });
    content.sum()
}
