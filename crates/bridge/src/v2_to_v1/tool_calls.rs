//! Tool calls. Version 1 agents send all content again and again; what is new in it is appended.

use std::collections::VecDeque;

use crate::map::HashMap;

use switchboard_acp::{AbsolutePath, Base64, Field, Meta, Raw, Text, WireFormat, v1, v2};
use switchboard_diff::read_back;

use super::Active;
use crate::Side;
use crate::convert::content::plain_text;
use crate::convert::paths::{self, Places};
use crate::convert::tool_call::{announced, item_to_v2, update_to_v2};
use crate::convert::{Losses, meta};
use crate::fingerprint::{ContentFingerprint, FingerprintPart};
use crate::loss::Severity;

/// The tool calls of a session.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    known: HashMap<String, Call>,
    order: VecDeque<String>,
}

#[derive(Debug, Default)]
struct Call {
    title: Option<String>,
    /// What the client has of the content.
    pieces: ContentFingerprint,
}

impl ToolCalls {
    pub(super) fn forget(&mut self) {
        *self = ToolCalls::default();
    }

    pub(super) fn title(&self, id: &str) -> Option<String> {
        self.known.get(id)?.title.clone()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Bytes of ids and titles.
    pub(super) fn bytes(&self) -> usize {
        let title = |call: &Call| call.title.as_ref().map_or(0, String::len);
        self.known.iter().map(|(id, call)| 2 * id.len() + title(call)).sum()
    }

    /// The call, and whether it is new.
    fn open(&mut self, id: &str, limit: usize) -> (&mut Call, bool) {
        let is_new = !self.known.contains_key(id);
        if is_new {
            self.order.push_back(id.to_owned());
            if self.order.len() > limit
                && let Some(oldest) = self.order.pop_front()
            {
                self.known.remove(&oldest);
            }
        }
        (self.known.entry_ref(id).or_default(), is_new)
    }
}

/// What an agent that runs commands itself tells in the metadata of a call.
#[derive(Debug, Default)]
struct Displayed {
    info: Option<Info>,
    output: Vec<(String, String)>,
    exit: Option<(String, v2::TerminalExitStatus<'static>)>,
}

/// A terminal that is new.
#[derive(Debug)]
struct Info {
    terminal_id: String,
    command: Option<String>,
    cwd: Option<String>,
}

/// The keys of that, and of what became of them in one widespread agent.
const INFO: &str = "terminal_info";
const OUTPUT: [&str; 2] = ["terminal_output", "terminal_output_delta"];
const EXIT: &str = "terminal_exit";

impl Displayed {
    /// Takes that out of the metadata. What else stands there stays, also inside of what is taken.
    fn take(meta: &mut Option<Meta<'_>>) -> Self {
        let mut displayed = Displayed::default();
        let Some(present) = meta.as_ref() else { return displayed };
        let mut kept = Vec::new();
        for (key, value) in present.entries() {
            let terminal = value.text("terminal_id");
            let known: &[&str] = match (&*key, terminal) {
                (INFO, Some(terminal_id)) => {
                    let (command, cwd) = (value.text("command"), value.text("cwd"));
                    displayed.info = Some(Info { terminal_id, command, cwd });
                    &["terminal_id", "command", "cwd"]
                }
                (key, Some(id)) if OUTPUT.contains(&key) => {
                    displayed.output.extend(value.text("data").map(|data| (id, data)));
                    &["terminal_id", "data"]
                }
                (EXIT, Some(id)) => {
                    let mut status = v2::TerminalExitStatus::new();
                    status.exit_code = value.get("exit_code").and_then(|code| code.as_str().parse().ok());
                    status.signal = value.text("signal").map(Text::Owned);
                    displayed.exit = Some((id, status));
                    &["terminal_id", "exit_code", "signal"]
                }
                _ => {
                    kept.push((Text::Owned(key.into_owned()), value.into_owned()));
                    continue;
                }
            };
            let mut rest = value.entries().filter(|(key, _)| !known.contains(&&**key)).peekable();
            if rest.peek().is_some() {
                let rest = Meta::from_entries(rest).as_raw().clone();
                kept.push((Text::Owned(key.into_owned()), rest));
            }
        }
        if displayed.info.is_some() || !displayed.output.is_empty() || displayed.exit.is_some() {
            *meta = (!kept.is_empty()).then(|| Meta::from_entries(kept));
        }
        displayed
    }
}

/// What a call is part of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'p> {
    /// The kind of message.
    pub(super) message: &'p str,
    /// Where the call stands in it.
    pub(super) root: &'p str,
    /// Whether it is a question, which must hold all content.
    pub(super) in_question: bool,
}

impl Active<'_> {
    pub(super) fn tool_call(&mut self, call: v1::ToolCall<'_>) {
        self.tool_call_update(announced(call), true);
    }

    /// `announces`: the agent says all there is to say, so that what is missing has its default again.
    pub(super) fn tool_call_update(&mut self, mut update: v1::ToolCallUpdate<'_>, announces: bool) {
        let limit = self.context.options.limits.entries;
        let (_, is_new) = self.session.calls.open(&update.tool_call_id, limit);
        if is_new {
            self.session.run = None;
        } else if announces {
            update.kind.get_or_insert(v1::ToolKind::Other);
            update.status.get_or_insert(v1::ToolCallStatus::Pending);
            update.content.get_or_insert_default();
            update.locations.get_or_insert_default();
        }
        let resets_raw = announces && !is_new;
        let displayed = Displayed::take(&mut update.meta);
        let call_id = update.tool_call_id.clone().into_owned();
        let message = if announces { "tool_call" } else { "tool_call_update" };
        let place = Place { message, root: "/params/update", in_question: false };
        self.introduce(&displayed);
        let mut wire = self.patch(update, place);
        if resets_raw {
            for field in [&mut wire.raw_input, &mut wire.raw_output] {
                if field.is_keep() {
                    *field = Field::Clear;
                }
            }
        }
        if is_new || wire != v2::ToolCallUpdate::new(call_id.clone()) {
            self.tell(v2::SessionUpdate::ToolCallUpdate(Box::new(wire)));
        }
        self.display(&call_id, displayed);
    }

    /// Translates an update. What is appended to the content is told at once, unless the update is part of a
    /// question, which must hold all of it.
    pub(super) fn patch<'a>(
        &mut self,
        mut update: v1::ToolCallUpdate<'a>,
        place: Place<'_>,
    ) -> v2::ToolCallUpdate<'a> {
        self.settle_places(&mut update, place);
        let call_id = update.tool_call_id.clone();
        let limit = self.context.options.limits.entries;
        let (call, is_new) = self.session.calls.open(&call_id, limit);
        if let Some(title) = update.title.as_ref().filter(|_| !place.in_question || call.title.is_none()) {
            call.title = Some(title.clone().into_owned());
        }
        let (mut wire, content) = update_to_v2(update);
        let Some(items) = content else { return wire };
        let parts: Vec<FingerprintPart<'_>> =
            items.iter().map(|item| FingerprintPart::of(item, plain(item))).collect();
        let (call, _) = self.session.calls.open(&call_id, limit);
        let rest = call.pieces.rest(parts.iter().copied());
        let appends = rest.is_some() && !call.pieces.is_empty() && !place.in_question;
        let unchanged = rest.is_some_and(|rest| rest.first == items.len());
        if unchanged && !(items.is_empty() && !is_new && !call.pieces.is_empty()) {
            return wire;
        }
        call.pieces.clear();
        parts.into_iter().for_each(|part| call.pieces.push(part));
        let (first, skip) = rest.filter(|_| appends).map_or((0, 0), |rest| (rest.first, rest.skip));
        let mut converted = Vec::with_capacity(items.len() - first);
        let mut items: VecDeque<_> = items.into_iter().skip(first).collect();
        let mut next = first;
        loop {
            // What stands for a diff of version 2 is that diff again.
            if let Some((diff, count)) = read_back(items.make_contiguous()) {
                items.drain(..count);
                next += count;
                converted.push(v2::ToolCallContent::Diff(Box::new(diff)));
                continue;
            }
            let Some(mut item) = items.pop_front() else { break };
            let index = next;
            next += 1;
            if index == first
                && skip > 0
                && let Some(text) = plain(&item)
            {
                let block = v1::ContentBlock::text(text[skip..].to_owned());
                item = v1::ToolCallContent::Content(v1::Content::new(block));
            }
            let root = format!("{}/content/{index}", place.root);
            converted.extend(self.item(item, Place { root: &root, ..place }));
        }
        if appends {
            for item in converted {
                let chunk = v2::ToolCallContentChunk::new(call_id.clone(), item);
                self.tell(v2::SessionUpdate::ToolCallContentChunk(chunk));
            }
        } else {
            wire.content = Field::Set(converted);
        }
        wire
    }

    /// Agents of version 1 name files as they like.
    fn settle_places(&mut self, update: &mut v1::ToolCallUpdate<'_>, place: Place<'_>) {
        let places = Places { directory: self.session.roots.first().map(String::as_str), key: meta::V1_PATH };
        let mut losses = Losses::noted();
        let mut cx = losses.at(place.message, place.root);
        let locations = update.locations.as_deref_mut().unwrap_or_default();
        places.settle_locations(locations, &mut cx.key("locations"));
        let content = update.content.as_deref_mut().unwrap_or_default();
        places.settle_content(content, &mut cx.key("content"));
        self.context.note(Some(self.id), place.message, losses, Side::Client);
    }

    fn item<'a>(
        &mut self,
        item: v1::ToolCallContent<'a>,
        place: Place<'_>,
    ) -> Option<v2::ToolCallContent<'a>> {
        if let v1::ToolCallContent::Terminal(terminal) = &item {
            let known = self.terminals.is_known(&terminal.terminal_id)
                || self.session.terminals.iter().any(|known| *known == terminal.terminal_id);
            if !known {
                let terminal_id = terminal.terminal_id.clone().into_owned();
                let reason = "there is no such terminal; words stand in its place";
                self.lose(place.message, place.root, reason, Severity::Major);
                let item = unknown_terminal(&item);
                remember(
                    &mut self.session.missing_terminals,
                    terminal_id,
                    self.context.options.limits.entries,
                );
                return Some(item);
            }
        }
        let (at, roots) = ((place.message, place.root), &self.session.roots);
        let item = self.context.convert_with_files(self.id, at, roots, |file, cx| item_to_v2(item, file, cx));
        // What is noted does not fail.
        item.ok()
    }

    /// Tells of terminals that the agent runs by itself, before a call shows them.
    fn introduce(&mut self, displayed: &Displayed) {
        let limit = self.context.options.limits.entries;
        if let Some(Info { terminal_id, command, cwd }) = &displayed.info {
            let mut update = v2::TerminalUpdate::new(terminal_id.clone());
            update.command = command.clone().map_or(Field::Keep, |command| Field::Set(Text::Owned(command)));
            let directory = self.session.roots.first();
            let resolved = |cwd: &String| {
                directory.and_then(|directory| paths::resolve(cwd, directory)).unwrap_or_else(|| cwd.clone())
            };
            match cwd.as_ref().map(|cwd| AbsolutePath::parse(resolved(cwd))) {
                Some(Ok(cwd)) => update.cwd = Field::Set(cwd),
                Some(Err(error)) => {
                    let (pointer, reason) = ("/params/update/_meta/terminal_info/cwd", error.to_string());
                    self.lose("tool_call", pointer, reason, Severity::Minor);
                }
                None => {}
            }
            remember(&mut self.session.terminals, terminal_id.clone(), limit);
            self.tell(update.into());
        }
        let output = displayed.output.iter().map(|(terminal_id, _)| terminal_id);
        for terminal_id in output.chain(displayed.exit.iter().map(|(terminal_id, _)| terminal_id)) {
            if !self.session.terminals.contains(terminal_id) {
                remember(&mut self.session.terminals, terminal_id.clone(), limit);
                self.tell(v2::TerminalUpdate::new(terminal_id.clone()).into());
            }
        }
    }

    /// Tells of a terminal of the client, which the calls that show it may name from then on.
    pub(super) fn recorded_terminal(&mut self, update: v2::TerminalUpdate<'static>) {
        let limit = self.context.options.limits.entries;
        remember(&mut self.session.terminals, update.terminal_id.clone().into_owned(), limit);
        self.tell(update.into());
    }

    /// Tells what terminals that the agent runs by itself put out.
    fn display(&mut self, call_id: &str, displayed: Displayed) {
        for (terminal_id, data) in displayed.output {
            if let Some(place) =
                self.session.missing_terminals.iter().position(|missing| *missing == terminal_id)
            {
                // It is there after all; so far words stand in its place.
                self.session.missing_terminals.remove(place);
                let item = v2::ToolCallContent::Terminal(v2::Terminal::new(terminal_id.clone()));
                let chunk = v2::ToolCallContentChunk::new(call_id, item);
                self.tell(v2::SessionUpdate::ToolCallContentChunk(chunk));
            }
            let chunk = v2::TerminalOutputChunk::new(terminal_id, Base64::from_bytes(data.as_bytes()));
            self.tell(v2::SessionUpdate::TerminalOutputChunk(chunk));
        }
        if let Some((terminal_id, status)) = displayed.exit {
            let mut update = v2::TerminalUpdate::new(terminal_id);
            update.exit_status = Field::Set(status);
            self.tell(update.into());
        }
    }
}

/// Adds an id to those that are known, and forgets the oldest where there are too many.
fn remember(known: &mut VecDeque<String>, id: String, limit: usize) {
    if !known.contains(&id) {
        if known.len() >= limit {
            known.pop_front();
        }
        known.push_back(id);
    }
}

/// Words in the place of a terminal that is not there, with the original beside them.
fn unknown_terminal(item: &v1::ToolCallContent<'_>) -> v2::ToolCallContent<'static> {
    let words = match item {
        v1::ToolCallContent::Terminal(terminal) => format!("[terminal {}: not found]", terminal.terminal_id),
        _ => String::new(),
    };
    let mut content = v2::Content::new(v2::ContentBlock::text(words));
    meta::add(&mut content.meta, meta::V1_CONTENT, &Raw::of(item, WireFormat::V1));
    v2::ToolCallContent::Content(content)
}

/// The text of an item that is nothing but text.
fn plain<'i>(item: &'i v1::ToolCallContent<'_>) -> Option<&'i str> {
    match item {
        v1::ToolCallContent::Content(item) if item.meta.is_none() && item.extra.is_empty() => {
            plain_text(&item.content)
        }
        _ => None,
    }
}
