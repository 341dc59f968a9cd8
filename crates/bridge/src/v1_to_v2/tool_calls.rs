//! Tool calls. Version 1 has their content replaced as a whole, so that growing content is told now and then: when
//! it has grown by a good part since, when some time has passed, and in the end.

use std::collections::VecDeque;

use crate::map::HashMap;

use switchboard_protocol::{Field, Text, Wire, WireFormat, v1, v2};

use super::{Around, Session};
use crate::convert::meta;
use crate::convert::paths::Places;
use crate::convert::tool_call::{item_to_v1, placeholder, scalars_to_v1};
use crate::loss::{At, Notes, Severity};
use crate::shared::Shared;
use crate::terminals::{Terminal, Terminals};
use crate::{BridgeOptions, Moment, Side};

/// What may be sent for each byte that came in, beside a start.
const FACTOR: usize = 8;
const START: usize = 256 * 1024;
/// After so many milliseconds content is told even if it is much and has hardly grown.
const PATIENCE: u64 = 30_000;

/// The tool calls of a session.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    known: HashMap<String, Call>,
    order: VecDeque<String>,
    /// Calls with content that the client does not have.
    dirty: Vec<String>,
}

/// What the client knows of a call, and what it is yet to be told.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) announced: bool,
    pub(super) title: Option<String>,
    kind: Option<v2::ToolKind>,
    /// Of a call that was so far only asked about: all that is known of it.
    unannounced: Option<Box<v1::ToolCallUpdate<'static>>>,
    items: Vec<Item>,
    /// Terminals among them that the client is yet to be told of.
    introductions: Vec<String>,
    /// Bytes of all items.
    size: usize,
    received: usize,
    sent: usize,
    dirty_since: Option<Moment>,
    told: Option<Moment>,
}

#[derive(Debug)]
enum Item {
    /// An item as JSON.
    Json(String),
    /// The output of a terminal, as it is when it is told.
    Terminal(String),
}

impl ToolCalls {
    pub(super) fn forget(&mut self) {
        *self = ToolCalls::default();
    }

    pub(super) fn get(&self, id: &str) -> Option<&Call> {
        self.known.get(id)
    }

    fn open(&mut self, id: &str, limit: usize) -> &mut Call {
        if !self.known.contains_key(id) {
            self.order.push_back(id.to_owned());
            if self.order.len() > limit
                && let Some(oldest) = self.order.pop_front()
            {
                self.known.remove(&oldest);
                self.dirty.retain(|dirty| *dirty != oldest);
            }
        }
        self.known.entry(id.to_owned()).or_default()
    }

    /// A call is the first to show a terminal.
    pub(super) fn introduce(&mut self, id: &str, terminal_id: &str) {
        if let Some(call) = self.known.get_mut(id) {
            call.introductions.push(terminal_id.to_owned());
        }
    }

    pub(super) fn take_introductions(&mut self, id: &str) -> Vec<String> {
        self.known.get_mut(id).map(|call| std::mem::take(&mut call.introductions)).unwrap_or_default()
    }

    /// When content is next to be told.
    pub(super) fn next_due(&self, options: &BridgeOptions) -> Option<Moment> {
        self.dirty.iter().filter_map(|id| self.known.get(id)?.due(options)).min()
    }

    fn mark(&mut self, id: &str, now: Moment) {
        if let Some(call) = self.known.get_mut(id)
            && call.dirty_since.is_none()
        {
            call.dirty_since = Some(now);
            self.dirty.push(id.to_owned());
        }
    }

    fn is_due(&self, id: &str, options: &BridgeOptions, now: Moment) -> bool {
        self.known.get(id).and_then(|call| call.due(options)).is_some_and(|due| due <= now)
    }
}

impl Call {
    fn due(&self, options: &BridgeOptions) -> Option<Moment> {
        let since = self.dirty_since?;
        let earliest = self.told.map_or(since, |told| told.after(options.coalescing));
        if self.sent + self.size <= FACTOR * self.received + START {
            Some(earliest)
        } else {
            Some(since.after(PATIENCE).max(earliest))
        }
    }

    fn content(&mut self, terminals: &Terminals, now: Moment) -> String {
        let mut content = String::with_capacity(self.size + 2);
        content.push('[');
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                content.push(',');
            }
            match item {
                Item::Json(json) => content.push_str(json),
                Item::Terminal(id) => {
                    let terminal = terminals.get(id);
                    let item = if terminal.is_some_and(|terminal| terminal.introduced) {
                        v1::ToolCallContent::Terminal(v1::Terminal::new(id.as_str()))
                    } else {
                        let text = terminal.map(Terminal::text).unwrap_or_default();
                        v1::ToolCallContent::Content(v1::Content::new(v1::ContentBlock::text(text)))
                    };
                    item.encode_into(&mut content, WireFormat::V1);
                }
            }
        }
        content.push(']');
        self.sent += content.len();
        self.size = content.len();
        self.told = Some(now);
        self.dirty_since = None;
        content
    }

    fn push(&mut self, item: Item, size: usize) {
        self.size += size + 1;
        self.received += size + 1;
        self.items.push(item);
    }
}

/// Sends an update of a call, its content, if it goes along, as text.
fn send(session_id: &str, update: &v1::SessionUpdate<'_>, content: Option<&str>, shared: &mut Shared) {
    let mut line = String::with_capacity(192 + content.map_or(0, str::len));
    line.push_str(r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"#);
    Text::Borrowed(session_id).encode_into(&mut line, WireFormat::V1);
    line.push_str(r#","update":"#);
    update.encode_into(&mut line, WireFormat::V1);
    if let Some(content) = content {
        line.pop();
        line.push_str(r#","content":"#);
        line.push_str(content);
        line.push('}');
    }
    line.push_str("}}");
    shared.send(Side::Client, line);
}

impl Session {
    pub(super) fn tool_call(&mut self, id: &str, update: v2::ToolCallUpdate<'_>, shared: &mut Shared) {
        let call_id = update.tool_call_id.clone().into_owned();
        let (wire, replaced) = self.patch(id, update, "tool_call_update", shared);
        self.tell(id, &call_id, wire, replaced, shared);
    }

    /// Takes an update in. Gives what there is to tell beside content, and whether the content is another.
    pub(super) fn patch(
        &mut self,
        id: &str,
        mut update: v2::ToolCallUpdate<'_>,
        tag: &str,
        shared: &mut Shared,
    ) -> (v1::ToolCallUpdate<'static>, bool) {
        let mut notes = Notes::default();
        let call_id = update.tool_call_id.clone().into_owned();
        let content = std::mem::take(&mut update.content);
        if let Field::Set(locations) = &mut update.locations {
            let places = Places { directory: self.roots.first().map(String::as_str), key: meta::V2_PATH };
            places.settle_locations(locations, &At::key("locations"), &mut notes);
        }
        let scalars = scalars_to_v1(&mut update, true, &At::key(tag), &mut notes).ok();
        shared.note(Some(id), tag, notes.entries, Side::Client);
        let mut wire = v1::ToolCallUpdate::new(call_id.clone());
        if let Some(scalars) = scalars {
            wire.title = scalars.title.map(Wire::into_owned);
            wire.name = scalars.name.map(Wire::into_owned);
            wire.kind = scalars.kind;
            wire.status = scalars.status;
            wire.locations = scalars.locations.map(Wire::into_owned);
            wire.raw_input = scalars.raw_input.map(Wire::into_owned);
            wire.raw_output = scalars.raw_output.map(Wire::into_owned);
            wire.meta = scalars.meta.map(Wire::into_owned);
        }
        wire.extra = update.extra.into_owned();
        let call = self.calls.open(&call_id, shared.options.limits.entries);
        if let Some(title) = &wire.title {
            call.title = Some(title.clone().into_owned());
        }
        if let Some(kind) = &wire.kind {
            call.kind = Some(kind.clone());
        }
        let replaced = !content.is_keep();
        if replaced {
            call.items.clear();
            call.size = 0;
        }
        if let Field::Set(items) = content {
            for (index, item) in items.into_iter().enumerate() {
                self.add_item(id, &call_id, item, tag, Some(index), shared);
            }
        }
        (wire, replaced)
    }

    fn add_item(
        &mut self,
        id: &str,
        call_id: &str,
        item: v2::ToolCallContent<'_>,
        tag: &str,
        index: Option<usize>,
        shared: &mut Shared,
    ) {
        if let v2::ToolCallContent::Terminal(terminal) = &item {
            let terminal_id = terminal.terminal_id.clone().into_owned();
            self.show_terminal(id, &terminal_id, call_id, tag, shared);
            let size = self.terminals.get(&terminal_id).map_or(0, Terminal::size);
            let call = self.calls.open(call_id, shared.options.limits.entries);
            call.push(Item::Terminal(terminal_id), size);
            return;
        }
        let mut notes = Notes::default();
        let at = At::key("content");
        let place = index.map_or(at, |index| at.item(index));
        let mut around = Around { shared, roots: &self.roots };
        let items = item_to_v1(item, &mut around, &place, &mut notes);
        shared.note(Some(id), tag, notes.entries, Side::Client);
        let limits = &shared.options.limits;
        let (entries, most) = (limits.entries, limits.content);
        let call = self.calls.open(call_id, entries);
        for item in items.unwrap_or_default() {
            let json = item.encode(WireFormat::V1);
            let size = json.len();
            call.push(Item::Json(json), size);
        }
        let mut dropped = false;
        while call.size > most && call.items.len() > 1 {
            if let Item::Json(json) = call.items.remove(0) {
                call.size -= json.len() + 1;
            }
            dropped = true;
        }
        if dropped {
            let reason = format!("the oldest content is dropped, for a call may hold {most} bytes");
            self.lose(id, tag, "content", reason, Severity::Major, shared);
        }
    }

    /// Tells the client of a change: the first time by announcing the call.
    fn tell(
        &mut self,
        id: &str,
        call_id: &str,
        wire: v1::ToolCallUpdate<'static>,
        replaced: bool,
        shared: &mut Shared,
    ) {
        let now = shared.now;
        let Some(call) = self.calls.known.get_mut(call_id) else { return };
        if !call.announced {
            return self.announce(id, call_id, wire, shared);
        }
        let is_final = wire.status.as_ref().is_some_and(v2::ToolCallStatus::is_final);
        let with_content = replaced || (is_final && call.dirty_since.is_some());
        let is_empty = wire == v1::ToolCallUpdate::new(call_id);
        if is_empty && !with_content {
            return;
        }
        if with_content {
            self.introduce_terminals(id, call_id, shared);
        }
        let Some(call) = self.calls.known.get_mut(call_id) else { return };
        let content = with_content.then(|| call.content(&self.terminals, now));
        if content.is_some() {
            self.calls.dirty.retain(|dirty| dirty != call_id);
        }
        let update = v1::SessionUpdate::ToolCallUpdate(Box::new(wire));
        send(id, &update, content.as_deref(), shared);
    }

    /// Announces a call, with all that is known of it.
    fn announce(&mut self, id: &str, call_id: &str, wire: v1::ToolCallUpdate<'static>, shared: &mut Shared) {
        let now = shared.now;
        let Some(call) = self.calls.known.get_mut(call_id) else { return };
        let earlier = call.unannounced.take().map(|earlier| *earlier);
        let wire = match earlier {
            Some(earlier) => later(earlier, wire),
            None => wire,
        };
        let title = call.title.clone().unwrap_or_else(|| placeholder(call.kind.as_ref()));
        call.announced = true;
        let mut announced = v1::ToolCall::new(call_id, title);
        announced.name = wire.name;
        announced.kind = wire.kind;
        announced.status = wire.status;
        announced.locations = wire.locations;
        announced.raw_input = wire.raw_input;
        announced.raw_output = wire.raw_output;
        announced.meta = wire.meta;
        announced.extra = wire.extra;
        let introduces = !call.introductions.is_empty();
        let with_content = !call.items.is_empty() && !introduces;
        let content = with_content.then(|| call.content(&self.terminals, now));
        self.calls.dirty.retain(|dirty| dirty != call_id);
        let update = v1::SessionUpdate::ToolCall(Box::new(announced));
        send(id, &update, content.as_deref(), shared);
        if introduces {
            self.flush(id, call_id, shared);
        }
    }

    /// Remembers what a question said of a call that was never announced.
    pub(super) fn postpone(&mut self, call_id: &str, wire: v1::ToolCallUpdate<'static>) {
        if let Some(call) = self.calls.known.get_mut(call_id) {
            let wire = match call.unannounced.take() {
                Some(earlier) => later(*earlier, wire),
                None => wire,
            };
            call.unannounced = Some(Box::new(wire));
        }
    }

    /// The content of a call as the client is to show it.
    pub(super) fn content_of(&mut self, call_id: &str, now: Moment) -> Option<String> {
        let content = self.calls.known.get_mut(call_id)?.content(&self.terminals, now);
        self.calls.dirty.retain(|dirty| dirty != call_id);
        Some(content)
    }

    /// Shows a call again as it is, after a question has shown it otherwise.
    pub(super) fn restore(&mut self, id: &str, call_id: &str, with_content: bool, shared: &mut Shared) {
        let now = shared.now;
        let Some(call) = self.calls.known.get_mut(call_id) else { return };
        if !call.announced {
            let nothing = v1::ToolCallUpdate::new(call_id.to_owned());
            return self.announce(id, call_id, nothing, shared);
        }
        let mut wire = v1::ToolCallUpdate::new(call_id);
        let title = call.title.clone().unwrap_or_else(|| placeholder(call.kind.as_ref()));
        wire.title = Some(Text::Owned(title));
        let content = with_content.then(|| call.content(&self.terminals, now));
        if content.is_some() {
            self.calls.dirty.retain(|dirty| dirty != call_id);
        }
        let update = v1::SessionUpdate::ToolCallUpdate(Box::new(wire));
        send(id, &update, content.as_deref(), shared);
    }

    pub(super) fn tool_call_chunk(
        &mut self,
        id: &str,
        chunk: v2::ToolCallContentChunk<'_>,
        shared: &mut Shared,
    ) {
        let call_id = chunk.tool_call_id.into_owned();
        if chunk.meta.is_some() {
            let reason = "version 1 has no chunks of tool content, hence no metadata of one";
            self.lose(id, "tool_call_content_chunk", "_meta", reason, Severity::Minor, shared);
        }
        self.add_item(id, &call_id, chunk.content, "tool_call_content_chunk", None, shared);
        self.touch(id, &call_id, shared);
    }

    /// The content of a call has grown.
    pub(super) fn touch(&mut self, id: &str, call_id: &str, shared: &mut Shared) {
        let now = shared.now;
        if self.calls.known.get(call_id).is_some_and(|call| !call.announced) {
            let nothing = v1::ToolCallUpdate::new(call_id.to_owned());
            return self.announce(id, call_id, nothing, shared);
        }
        self.calls.mark(call_id, now);
        if self.calls.is_due(call_id, &shared.options, now) {
            self.flush(id, call_id, shared);
        }
    }

    pub(super) fn grow(&mut self, call_id: &str, bytes: usize) {
        if let Some(call) = self.calls.known.get_mut(call_id) {
            call.received += bytes;
            call.size += bytes;
        }
    }

    fn flush(&mut self, id: &str, call_id: &str, shared: &mut Shared) {
        let now = shared.now;
        self.introduce_terminals(id, call_id, shared);
        let Some(content) = self.content_of(call_id, now) else { return };
        let update = v1::SessionUpdate::ToolCallUpdate(Box::new(v1::ToolCallUpdate::new(call_id)));
        send(id, &update, Some(&content), shared);
    }

    /// Tells the content of a call that the client does not have yet.
    pub(super) fn flush_call(&mut self, id: &str, call_id: &str, shared: &mut Shared) {
        if self.calls.dirty.iter().any(|dirty| dirty == call_id) {
            self.flush(id, call_id, shared);
        }
    }

    /// Tells everything that was held back.
    pub(super) fn flush_all(&mut self, id: &str, shared: &mut Shared) {
        self.release(id, shared);
        for call_id in std::mem::take(&mut self.calls.dirty) {
            self.flush(id, &call_id, shared);
        }
    }

    pub(super) fn flush_due(&mut self, id: &str, shared: &mut Shared) {
        let now = shared.now;
        let due: Vec<String> = self
            .calls
            .dirty
            .iter()
            .filter(|call| self.calls.is_due(call, &shared.options, now))
            .cloned()
            .collect();
        for call_id in due {
            self.flush(id, &call_id, shared);
        }
    }
}

/// Both updates in one.
fn later<'a>(earlier: v1::ToolCallUpdate<'a>, later: v1::ToolCallUpdate<'a>) -> v1::ToolCallUpdate<'a> {
    v1::ToolCallUpdate {
        tool_call_id: later.tool_call_id,
        title: later.title.or(earlier.title),
        name: later.name.or(earlier.name),
        kind: later.kind.or(earlier.kind),
        status: later.status.or(earlier.status),
        content: None,
        locations: later.locations.or(earlier.locations),
        raw_input: later.raw_input.or(earlier.raw_input),
        raw_output: later.raw_output.or(earlier.raw_output),
        meta: later.meta.or(earlier.meta),
        extra: if later.extra.is_empty() { earlier.extra } else { later.extra },
    }
}
