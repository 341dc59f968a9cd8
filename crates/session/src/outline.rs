//! Tool calls in outline: what they are to do, without what they have produced.
//!
//! Whoever has to decide over a tool call needs its kind, title, input, locations, the paths of its diffs and the commands of
//! its terminals, and nothing of its output. An [`Outlines`] folds that much of the updates, and stays small however much
//! the tools print. A call of a whole transcript is reduced to its outline by the same code, so that a decision does not
//! depend on how much a session keeps.

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

/// Maximum number of calls and terminals in outline. Of more, the oldest are forgotten.
const MAX_OUTLINES: usize = 1024;
/// Maximum number of bytes of all outlines of a session. Of more, the oldest are forgotten.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of bytes of an input or a command line. Of a larger one it is kept that it is too large.
const MAX_INPUT: usize = 1024 * 1024;
/// The same of a title, a name and a directory.
const MAX_WORDS: usize = 64 * 1024;
/// The same of all locations, and of all that is kept of the content.
const MAX_PARTS: usize = 256 * 1024;
/// Maximum number of forgotten ids that are told apart from new ones.
const MAX_FORGOTTEN: usize = 65_536;
/// Maximum number of calls and terminals whose malformed updates are told apart.
const MAX_MALFORMED: usize = 1000;
/// Maximum number of bytes of a call's first text.
const MAX_TEXT: usize = 4096;
/// Maximum number of bytes of one value in `_meta`, and of one value in an object there.
const MAX_META_VALUE: usize = 256;
/// Maximum number of entries of `_meta`, and of an object there.
const MAX_META_ENTRIES: usize = 64;
/// Bytes that an outline takes beside its texts, roughly.
const OVERHEAD: usize = 512;

const TOO_LARGE: &str = "a part of the tool call is too large";
const NO_LONGER_KEPT: &str = "the earlier updates of the tool call are no longer kept";
const TOO_MUCH_MALFORMED: &str = "too much was malformed before";

/// What a tool call is to do: its kind, title, name, status, input, locations and short metadata, the paths of its diffs and
/// the ids of its terminals. Of its text only the beginning is there, until the call ends, because some agents tell a
/// command nowhere else.
#[derive(Debug, Clone)]
pub struct ToolCallOutline<'s> {
    call: Cow<'s, ToolCall>,
    problem: Option<Cow<'s, str>>,
}

impl ToolCallOutline<'_> {
    /// The call, reduced to its outline.
    pub fn call(&self) -> &ToolCall {
        &self.call
    }

    /// Why the call may have been told to do something else or more than the outline shows. Such a call must not be allowed
    /// without asking.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

/// The command that runs in a terminal, as far as the session shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TerminalOutline<'s> {
    /// The command line.
    pub command: Option<&'s str>,
    /// The directory in which it runs.
    pub cwd: Option<&'s str>,
    /// Why the command may be another one.
    pub problem: Option<&'s str>,
}

/// The calls and terminals of a session in outline.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outlines {
    calls: HashMap<ShortText, OutlinedCall>,
    terminals: HashMap<ShortText, OutlinedTerminal>,
    /// Oldest first.
    order: VecDeque<(EntryKind, ShortText)>,
    bytes: usize,
    /// Whether the oldest stay however many there are, as where a recording is read.
    is_unlimited: bool,
    /// Hashes of the ids of forgotten calls and terminals, so that a later update does not make one of them look complete.
    forgotten: HashSet<u64>,
    hasher: RandomState,
}

#[derive(Debug, Clone)]
struct OutlinedCall {
    call: ToolCall,
    /// Whether updates before those that were applied are no longer kept.
    is_partial: bool,
    /// The parts that are too large, until they are told anew.
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

/// Which parts of a call are too large to be kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cut {
    title: bool,
    name: bool,
    input: bool,
    locations: bool,
    content: bool,
}

impl Cut {
    /// Parts that an update tells anew are to be looked at again.
    fn told_anew(&mut self, update: &v2::ToolCallUpdate<'_>) {
        self.title &= matches!(update.title, Field::Keep);
        self.name &= matches!(update.name, Field::Keep);
        self.input &= matches!(update.raw_input, Field::Keep);
        self.locations &= matches!(update.locations, Field::Keep);
        self.content &= matches!(update.content, Field::Keep);
    }

    /// Takes away the parts of a call that are too large.
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
    /// Returns outlines without a limit to their number.
    pub(crate) fn unlimited() -> Self {
        Outlines { is_unlimited: true, ..Outlines::default() }
    }

    /// Forgets all calls of a connection that has ended: the next agent process counts its ids anew.
    pub(crate) fn clear(&mut self) {
        *self = Outlines { is_unlimited: self.is_unlimited, ..Outlines::default() };
    }

    /// Applies what an update says of tool calls and terminals, and nothing else of it.
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
            cut.told_anew(update);
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

    /// Forgets the oldest until the rest is within the limits. The one that was just told of stays.
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

    /// Whether something of this id may have been forgotten; where too many were, everything unknown may.
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

/// Calls and terminals of which an update was malformed, with the first problem of each.
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
    /// Returns what a tool call is to do, by its id. A session without transcript has it too, if it keeps outlines.
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
            // Nothing of its updates could be read.
            (None, Some(malformed)) => Some(ToolCallOutline {
                call: Cow::Owned(ToolCall::named(id, Origin::Live)),
                problem: Some(malformed.into()),
            }),
            (outline, None) => outline,
        }
    }

    /// Returns the command of a terminal, by the terminal's id.
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

/// The outline of a call with all that it has produced.
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

/// Takes away what an outline has no room or use for.
fn trim(call: &mut ToolCall, cut: &mut Cut) {
    if call.status.is_final() && call.content.text_len() > 0 {
        // What it says by now is what it has produced.
        let rest: Vec<_> = call.content.items().filter_map(Item::structured).cloned().collect();
        call.content.replace(&rest);
    }
    cut.apply(call);
}

/// Adds the outlines of blocks to content that consists of such.
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

/// What an outline has already, so that content which is told again and again does not make it grow.
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

/// Stands for all content of which nobody can say what it does.
fn of_unknown_kind() -> v2::ToolCallContent<'static> {
    v2::ToolCallContent::Unknown(UnknownVariant { tag: "_unknown".into(), entries: Extra::new() })
}

/// A change without all but its operation and its paths.
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

/// The beginning of a text. One that is longer ends as texts end that were cut off.
fn short_text(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// The short values of metadata, also those in objects. Some agents put a tool's output beside its name.
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

/// Bytes that the outline of a call takes, roughly.
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
