//! Tool calls. Version 1 agents send all content repeatedly; only the new part is appended.

use std::collections::VecDeque;

use crate::map::HashMap;

use switchboard_acp::{AbsolutePath, Base64, Field, Meta, Raw, Text, WireFormat, v1, v2};
use switchboard_diff::read_back;

use super::Active;
use crate::Side;
use crate::convert::content::plain_text;
use crate::convert::paths::{self, PathNormalizer};
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
    /// Fingerprint of the content that the client has.
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

    /// Returns the bytes of ids and titles.
    pub(super) fn bytes(&self) -> usize {
        let title = |call: &Call| call.title.as_ref().map_or(0, String::len);
        self.known.iter().map(|(id, call)| 2 * id.len() + title(call)).sum()
    }

    /// Returns the call and whether it is new.
    fn open(&mut self, id: &str, limit: usize) -> (&mut Call, bool) {
        let is_new = !self.known.contains_key(id);
        if is_new {
            // Insert the new call before an old one is removed.
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

/// Terminal data in the metadata of a call, from an agent that runs commands itself.
#[derive(Debug, Default)]
struct TerminalMeta {
    info: Option<Info>,
    output: Vec<(String, String)>,
    exit: Option<(String, v2::TerminalExitStatus<'static>)>,
}

/// A new terminal.
#[derive(Debug)]
struct Info {
    terminal_id: String,
    command: Option<String>,
    cwd: Option<String>,
}

/// Metadata keys, including a variant of one widespread agent.
const INFO: &str = "terminal_info";
const OUTPUT: [&str; 2] = ["terminal_output", "terminal_output_delta"];
const EXIT: &str = "terminal_exit";

impl TerminalMeta {
    /// Removes terminal data from the metadata. Other keys are kept, including unknown keys inside the data.
    fn take(meta: &mut Option<Meta<'_>>) -> Self {
        let mut displayed = TerminalMeta::default();
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
                // All other metadata is kept.
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
        // Unchanged metadata is not rebuilt.
        if displayed.info.is_some() || !displayed.output.is_empty() || displayed.exit.is_some() {
            *meta = (!kept.is_empty()).then(|| Meta::from_entries(kept));
        }
        displayed
    }
}

/// Position of a call in a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallPosition<'p> {
    /// Kind of message.
    pub(super) message: &'p str,
    /// JSON pointer to the call.
    pub(super) root: &'p str,
    /// Set if the message is a question, which must contain all content.
    pub(super) in_question: bool,
}

impl Active<'_> {
    pub(super) fn tool_call(&mut self, call: v1::ToolCall<'_>) {
        self.tool_call_update(announced(call), true);
    }

    /// Handles an update. `announces`: the update is complete, so that missing fields are reset to their
    /// defaults.
    pub(super) fn tool_call_update(&mut self, mut update: v1::ToolCallUpdate<'_>, announces: bool) {
        let limit = self.context.options.limits.entries;
        let (_, is_new) = self.session.calls.open(&update.tool_call_id, limit);
        if is_new {
            // A tool call ends the current message.
            self.session.run = None;
        } else if announces {
            // A second announcement of a known call resets fields that it does not mention.
            update.kind.get_or_insert(v1::ToolKind::Other);
            update.status.get_or_insert(v1::ToolCallStatus::Pending);
            update.content.get_or_insert_default();
            update.locations.get_or_insert_default();
        }
        let resets_raw = announces && !is_new;
        // Terminal data is removed before the update is translated, or it would be sent as metadata, too.
        let displayed = TerminalMeta::take(&mut update.meta);
        let call_id = update.tool_call_id.clone().into_owned();
        let message = if announces { "tool_call" } else { "tool_call_update" };
        let place = CallPosition { message, root: "/params/update", in_question: false };
        // The terminal must be known before content refers to it.
        self.introduce(&displayed);
        let mut wire = self.patch(update, place);
        if resets_raw {
            for field in [&mut wire.raw_input, &mut wire.raw_output] {
                if field.is_keep() {
                    *field = Field::Clear;
                }
            }
        }
        // An update without changes is not sent, unless it announces the call.
        if is_new || wire != v2::ToolCallUpdate::new(call_id.clone()) {
            self.tell(v2::SessionUpdate::ToolCallUpdate(Box::new(wire)));
        }
        // Output follows the call that shows the terminal.
        self.display(&call_id, displayed);
    }

    /// Translates an update. Appended content is sent at once, unless the update is part of a question, which
    /// must contain all of it.
    pub(super) fn patch<'a>(
        &mut self,
        mut update: v1::ToolCallUpdate<'a>,
        place: CallPosition<'_>,
    ) -> v2::ToolCallUpdate<'a> {
        self.settle_places(&mut update, place);
        let call_id = update.tool_call_id.clone();
        let limit = self.context.options.limits.entries;
        let (call, is_new) = self.session.calls.open(&call_id, limit);
        // The title in a question belongs to the question.
        if let Some(title) = update.title.as_ref().filter(|_| !place.in_question || call.title.is_none()) {
            call.title = Some(title.clone().into_owned());
        }
        let (mut wire, content) = update_to_v2(update);
        let Some(items) = content else { return wire };
        let parts: Vec<FingerprintPart<'_>> =
            items.iter().map(|item| FingerprintPart::of(item, plain(item))).collect();
        let (call, _) = self.session.calls.open(&call_id, limit);
        // New content that begins with the delivered one is appended in chunks instead of sent again.
        let rest = call.pieces.rest(parts.iter().copied());
        let appends = rest.is_some() && !call.pieces.is_empty() && !place.in_question;
        let unchanged = rest.is_some_and(|rest| rest.first == items.len());
        // Nothing new, except for content that was cleared.
        if unchanged && !(items.is_empty() && !is_new && !call.pieces.is_empty()) {
            return wire;
        }
        // The fingerprint covers all content, also the part that is not sent again.
        call.pieces.clear();
        parts.into_iter().for_each(|part| call.pieces.push(part));
        let (first, skip) = rest.filter(|_| appends).map_or((0, 0), |rest| (rest.first, rest.skip));
        let mut converted = Vec::with_capacity(items.len() - first);
        let mut items: VecDeque<_> = items.into_iter().skip(first).collect();
        let mut next = first;
        loop {
            // Content that was translated from a version 2 diff is restored.
            if let Some((diff, count)) = read_back(items.make_contiguous()) {
                items.drain(..count);
                next += count;
                converted.push(v2::ToolCallContent::Diff(Box::new(diff)));
                continue;
            }
            let Some(mut item) = items.pop_front() else { break };
            let index = next;
            next += 1;
            // The first new item may continue a text: skip the bytes that the client has.
            if index == first
                && skip > 0
                && let Some(text) = plain(&item)
            {
                let block = v1::ContentBlock::text(text[skip..].to_owned());
                item = v1::ToolCallContent::Content(v1::Content::new(block));
            }
            let root = format!("{}/content/{index}", place.root);
            converted.extend(self.item(item, CallPosition { root: &root, ..place }));
        }
        // Chunks are sent before the update itself, which may contain the final status.
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

    /// Normalizes paths and lines, which version 1 agents send in any form.
    fn settle_places(&mut self, update: &mut v1::ToolCallUpdate<'_>, place: CallPosition<'_>) {
        let places =
            PathNormalizer { directory: self.session.roots.first().map(String::as_str), key: meta::V1_PATH };
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
        place: CallPosition<'_>,
    ) -> Option<v2::ToolCallContent<'a>> {
        if let v1::ToolCallContent::Terminal(terminal) = &item {
            let known = self.terminals.is_known(&terminal.terminal_id)
                || self.session.terminals.iter().any(|known| *known == terminal.terminal_id);
            // Text now, a reference later if the terminal appears after all.
            if !known {
                let terminal_id = terminal.terminal_id.clone().into_owned();
                let reason = "the terminal is unknown; a text is shown in its place";
                self.report_loss(place.message, place.root, reason, Severity::Major);
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
        // A noted loss does not fail.
        item.ok()
    }

    /// Introduces terminals that the agent runs itself, before a call shows them.
    fn introduce(&mut self, displayed: &TerminalMeta) {
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
                    self.report_loss("tool_call", pointer, reason, Severity::Minor);
                }
                None => {}
            }
            remember(&mut self.session.terminals, terminal_id.clone(), limit);
            self.tell(update.into());
        }
        // Agents may send output without an introduction.
        let output = displayed.output.iter().map(|(terminal_id, _)| terminal_id);
        for terminal_id in output.chain(displayed.exit.iter().map(|(terminal_id, _)| terminal_id)) {
            if !self.session.terminals.contains(terminal_id) {
                remember(&mut self.session.terminals, terminal_id.clone(), limit);
                self.tell(v2::TerminalUpdate::new(terminal_id.clone()).into());
            }
        }
    }

    /// Sends an update of a client terminal, which calls may refer to from then on.
    pub(super) fn recorded_terminal(&mut self, update: v2::TerminalUpdate<'static>) {
        let limit = self.context.options.limits.entries;
        remember(&mut self.session.terminals, update.terminal_id.clone().into_owned(), limit);
        self.tell(update.into());
    }

    /// Sends the output of terminals that the agent runs itself.
    fn display(&mut self, call_id: &str, displayed: TerminalMeta) {
        for (terminal_id, data) in displayed.output {
            if let Some(place) =
                self.session.missing_terminals.iter().position(|missing| *missing == terminal_id)
            {
                // The terminal exists after all; the call shows a text in its place so far.
                self.session.missing_terminals.remove(place);
                let item = v2::ToolCallContent::Terminal(v2::Terminal::new(terminal_id.clone()));
                let chunk = v2::ToolCallContentChunk::new(call_id, item);
                self.tell(v2::SessionUpdate::ToolCallContentChunk(chunk));
            }
            let chunk = v2::TerminalOutputChunk::new(terminal_id, Base64::from_bytes(data.as_bytes()));
            self.tell(v2::SessionUpdate::TerminalOutputChunk(chunk));
        }
        // Exit status last, after all output.
        if let Some((terminal_id, status)) = displayed.exit {
            let mut update = v2::TerminalUpdate::new(terminal_id);
            update.exit_status = Field::Set(status);
            self.tell(update.into());
        }
    }
}

/// Adds an id and removes the oldest above the limit.
fn remember(known: &mut VecDeque<String>, id: String, limit: usize) {
    if !known.contains(&id) {
        if known.len() >= limit {
            known.pop_front();
        }
        known.push_back(id);
    }
}

/// Returns a text in place of an unknown terminal, with the original in metadata.
fn unknown_terminal(item: &v1::ToolCallContent<'_>) -> v2::ToolCallContent<'static> {
    let words = match item {
        v1::ToolCallContent::Terminal(terminal) => format!("[terminal {}: not found]", terminal.terminal_id),
        _ => String::new(),
    };
    let mut content = v2::Content::new(v2::ContentBlock::text(words));
    meta::add(&mut content.meta, meta::V1_CONTENT, &Raw::of(item, WireFormat::V1));
    v2::ToolCallContent::Content(content)
}

/// Returns the text of a plain text item.
fn plain<'i>(item: &'i v1::ToolCallContent<'_>) -> Option<&'i str> {
    match item {
        v1::ToolCallContent::Content(item) if item.meta.is_none() && item.extra.is_empty() => {
            plain_text(&item.content)
        }
        _ => None,
    }
}
