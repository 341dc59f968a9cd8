//! Tool calls. Version 1 agents send all content again and again; what is new in it is appended.

use std::collections::VecDeque;

use crate::map::HashMap;

use switchboard_diff as diff;
use switchboard_diff::FileAtHand;
use switchboard_protocol::{AbsolutePath, Base64, Field, Meta, Raw, Text, Wire, WireFormat, v1, v2};

use super::served::Terminals;
use super::{Session, tell};
use crate::Side;
use crate::convert::content::plain_text;
use crate::convert::meta;
use crate::convert::paths::{self, Places};
use crate::fingerprint::{ContentFingerprint, FingerprintPart, hash_of};
use crate::loss::{At, Notes, Severity};
use crate::options::Dialect;
use crate::shared::Shared;

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
        (self.known.entry(id.to_owned()).or_default(), is_new)
    }
}

/// What an agent that runs commands itself tells in the metadata of a call.
#[derive(Debug, Default)]
struct Displayed {
    info: Option<(String, Option<String>)>,
    output: Option<(String, String)>,
    exit: Option<(String, v2::TerminalExitStatus<'static>)>,
}

/// The keys of that, and of what became of them in one widespread agent.
const INFO: &str = "terminal_info";
const OUTPUT: [&str; 2] = ["terminal_output", "terminal_output_delta"];
const EXIT: &str = "terminal_exit";

impl Displayed {
    fn take(meta: &mut Option<Meta<'_>>) -> Self {
        let mut displayed = Displayed::default();
        let Some(present) = meta.as_ref() else { return displayed };
        let text = |raw: &Raw<'_>, key: &str| Some(raw.get(key)?.as_text()?.into_owned());
        let mut kept = Vec::new();
        for (key, value) in present.entries() {
            let terminal = text(&value, "terminal_id");
            match (&*key, terminal) {
                (INFO, Some(id)) => displayed.info = Some((id, text(&value, "cwd"))),
                (key, Some(id)) if OUTPUT.contains(&key) => {
                    displayed.output = text(&value, "data").map(|data| (id, data));
                }
                (EXIT, Some(id)) => {
                    let mut status = v2::TerminalExitStatus::new();
                    status.exit_code = value.get("exit_code").and_then(|code| code.as_str().parse().ok());
                    status.signal = text(&value, "signal").map(Text::Owned);
                    displayed.exit = Some((id, status));
                }
                _ => kept.push((Text::Owned(key.into_owned()), value.into_owned())),
            }
        }
        if displayed.info.is_some() || displayed.output.is_some() || displayed.exit.is_some() {
            *meta = (!kept.is_empty()).then(|| Meta::from_entries(kept));
        }
        displayed
    }
}

impl Session {
    pub(super) fn tool_call(
        &mut self,
        id: &str,
        call: v1::ToolCall<'_>,
        terminals: &Terminals,
        keeps: bool,
        shared: &mut Shared,
    ) {
        let update = v1::ToolCallUpdate {
            tool_call_id: call.tool_call_id,
            title: Some(call.title),
            name: call.name,
            kind: call.kind,
            status: call.status,
            content: call.content,
            locations: call.locations,
            raw_input: call.raw_input,
            raw_output: call.raw_output,
            meta: call.meta,
            extra: call.extra,
        };
        self.tool_call_update(id, update, true, terminals, keeps, shared);
    }

    /// `announces`: the agent says all there is to say, so that what is missing has its default again.
    pub(super) fn tool_call_update(
        &mut self,
        id: &str,
        mut update: v1::ToolCallUpdate<'_>,
        announces: bool,
        terminals: &Terminals,
        keeps: bool,
        shared: &mut Shared,
    ) {
        let limit = shared.options.limits.entries;
        let (_, is_new) = self.calls.open(&update.tool_call_id, limit);
        if is_new {
            self.run = None;
        } else if announces {
            update.kind.get_or_insert(v1::ToolKind::Other);
            update.status.get_or_insert(v1::ToolCallStatus::Pending);
            update.content.get_or_insert_default();
            update.locations.get_or_insert_default();
        }
        let resets_raw = announces && !is_new;
        let displayed = Displayed::take(&mut update.meta);
        let call_id = update.tool_call_id.clone().into_owned();
        let mut wire = self.patch(id, update, false, terminals, keeps, shared);
        if resets_raw {
            for field in [&mut wire.raw_input, &mut wire.raw_output] {
                if field.is_keep() {
                    *field = Field::Clear;
                }
            }
        }
        if is_new || wire != v2::ToolCallUpdate::new(call_id.clone()) {
            tell(id, self, v2::SessionUpdate::ToolCallUpdate(Box::new(wire)), keeps, shared);
        }
        self.display(id, &call_id, displayed, keeps, shared);
    }

    /// Translates an update. What is appended to the content is told at once, unless the update is part of a
    /// question, which must hold all of it.
    pub(super) fn patch<'a>(
        &mut self,
        id: &str,
        mut update: v1::ToolCallUpdate<'a>,
        in_question: bool,
        terminals: &Terminals,
        keeps: bool,
        shared: &mut Shared,
    ) -> v2::ToolCallUpdate<'a> {
        self.settle_places(id, &mut update, shared);
        let call_id = update.tool_call_id.clone();
        let limit = shared.options.limits.entries;
        let (call, is_new) = self.calls.open(&call_id, limit);
        if let Some(title) = update.title.as_ref().filter(|_| !in_question || call.title.is_none()) {
            call.title = Some(title.clone().into_owned());
        }
        let set = |value: Option<Text<'a>>| value.map_or(Field::Keep, Field::Set);
        let mut wire = v2::ToolCallUpdate::new(update.tool_call_id);
        wire.title = set(update.title);
        wire.name = set(update.name);
        wire.kind = update.kind.map_or(Field::Keep, Field::Set);
        wire.status = update.status.map_or(Field::Keep, Field::Set);
        wire.locations = update.locations.map_or(Field::Keep, Field::Set);
        wire.raw_input = update.raw_input.map_or(Field::Keep, Field::Set);
        wire.raw_output = update.raw_output.map_or(Field::Keep, Field::Set);
        wire.meta = update.meta.map_or(Field::Keep, Field::Set);
        wire.extra = update.extra;
        let Some(items) = update.content else { return wire };
        let hashes: Vec<u64> = items.iter().map(|item| hash_of(&item.encode(WireFormat::V1))).collect();
        let (call, _) = self.calls.open(&call_id, limit);
        let rest = call.pieces.rest(units(&items, &hashes));
        let appends = rest.is_some() && !call.pieces.is_empty() && !in_question;
        let unchanged = rest.is_some_and(|rest| rest.first == items.len());
        if unchanged && !(items.is_empty() && !is_new && !call.pieces.is_empty()) {
            return wire;
        }
        call.pieces.clear();
        units(&items, &hashes).for_each(|unit| call.pieces.push(unit));
        let (first, skip) = rest.filter(|_| appends).map_or((0, 0), |rest| (rest.first, rest.skip));
        let mut converted = Vec::with_capacity(items.len() - first);
        for (index, mut item) in items.into_iter().enumerate().skip(first) {
            if index == first
                && skip > 0
                && let Some(text) = plain(&item)
            {
                let block = v1::ContentBlock::text(text[skip..].to_owned());
                item = v1::ToolCallContent::Content(v1::Content::new(block));
            }
            if let Some(item) = self.item(id, item, terminals, shared) {
                converted.push(item);
            }
        }
        if appends {
            for item in converted {
                let chunk = v2::ToolCallContentChunk::new(call_id.clone(), item);
                tell(id, self, v2::SessionUpdate::ToolCallContentChunk(chunk), keeps, shared);
            }
        } else {
            wire.content = Field::Set(converted);
        }
        wire
    }

    /// Agents of version 1 name files as they like.
    fn settle_places(&self, id: &str, update: &mut v1::ToolCallUpdate<'_>, shared: &mut Shared) {
        let places = Places { directory: self.roots.first().map(String::as_str), key: meta::V1_PATH };
        let mut notes = Notes::default();
        places.settle_locations(
            update.locations.as_deref_mut().unwrap_or_default(),
            &At::key("locations"),
            &mut notes,
        );
        places.settle_content(
            update.content.as_deref_mut().unwrap_or_default(),
            &At::key("content"),
            &mut notes,
        );
        shared.note(Some(id), "tool_call_update", notes.entries, Side::Client);
    }

    fn item<'a>(
        &mut self,
        id: &str,
        item: v1::ToolCallContent<'a>,
        terminals: &Terminals,
        shared: &mut Shared,
    ) -> Option<v2::ToolCallContent<'a>> {
        match item {
            v1::ToolCallContent::Content(item) => Some(v2::ToolCallContent::Content(item)),
            v1::ToolCallContent::Diff(source) => {
                let file = if crate::host::is_inside(&source.path, &self.roots) {
                    shared.host.file(&source.path, &self.roots)
                } else {
                    FileAtHand::Unknown
                };
                let wire = diff::from_v1(source, &file);
                if wire.meta.as_ref().is_some_and(|meta| meta.get(diff::PARTIAL_KEY).is_some()) {
                    let reason = "whether the texts are whole files is not known, nor their place in them";
                    shared.lose(
                        Some(id),
                        "tool_call_update",
                        "content.diff",
                        reason,
                        Severity::Guess,
                        Side::Client,
                    );
                }
                Some(v2::ToolCallContent::Diff(Box::new(wire)))
            }
            v1::ToolCallContent::Terminal(terminal) => {
                if shared.peers.client_dialect == Some(Dialect::Spec) {
                    // Its output follows as text.
                    return None;
                }
                let known = terminals.is_known(&terminal.terminal_id)
                    || self.terminals.iter().any(|known| *known == terminal.terminal_id);
                if !known {
                    self.terminals.push(terminal.terminal_id.clone().into_owned());
                    let update = v2::TerminalUpdate::new(terminal.terminal_id.clone());
                    tell(id, self, update.into(), false, shared);
                }
                Some(v2::ToolCallContent::Terminal(terminal))
            }
            v1::ToolCallContent::Unknown(unknown) => Some(v2::ToolCallContent::Unknown(unknown)),
        }
    }

    /// Tells of terminals that the agent runs by itself.
    fn display(&mut self, id: &str, call_id: &str, displayed: Displayed, keeps: bool, shared: &mut Shared) {
        let as_text = shared.peers.client_dialect == Some(Dialect::Spec);
        if let Some((terminal_id, cwd)) = displayed.info.filter(|_| !as_text) {
            let mut update = v2::TerminalUpdate::new(terminal_id.clone());
            let directory = self.roots.first();
            let cwd =
                cwd.map(|cwd| directory.and_then(|directory| paths::resolve(&cwd, directory)).unwrap_or(cwd));
            if let Some(cwd) = cwd.and_then(|cwd| AbsolutePath::parse(cwd).ok()) {
                update.cwd = Field::Set(cwd);
            }
            if !self.terminals.contains(&terminal_id) {
                self.terminals.push(terminal_id);
            }
            tell(id, self, update.into(), keeps, shared);
        }
        if let Some((terminal_id, data)) = displayed.output {
            if as_text {
                let item = v2::ToolCallContent::text(data);
                let chunk = v2::ToolCallContentChunk::new(call_id, item);
                tell(id, self, v2::SessionUpdate::ToolCallContentChunk(chunk), keeps, shared);
            } else {
                let chunk = v2::TerminalOutputChunk::new(terminal_id, Base64::from_bytes(data.as_bytes()));
                tell(id, self, v2::SessionUpdate::TerminalOutputChunk(chunk), keeps, shared);
            }
        }
        if let Some((terminal_id, status)) = displayed.exit.filter(|_| !as_text) {
            let mut update = v2::TerminalUpdate::new(terminal_id);
            update.exit_status = Field::Set(status);
            tell(id, self, update.into(), keeps, shared);
        }
    }
}

fn units<'i>(
    items: &'i [v1::ToolCallContent<'_>],
    hashes: &'i [u64],
) -> impl Iterator<Item = FingerprintPart<'i>> {
    items
        .iter()
        .zip(hashes)
        .map(|(item, hash)| plain(item).map_or(FingerprintPart::Other(*hash), FingerprintPart::Text))
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
