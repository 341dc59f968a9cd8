//! Tool calls. Version 1 has their content replaced as a whole, so that growing content is told now and then: when
//! it has grown by a good part since, when some time has passed, and in the end.

use std::collections::VecDeque;

use crate::map::HashMap;

use switchboard_diff::FileAtHand;
use switchboard_protocol::{Extra, Field, Raw, Text, Wire, WireFormat, v1, v2};

use super::Session;
use crate::convert::content::plain_text;
use crate::convert::paths::Places;
use crate::convert::tool_call::{
    announcement, in_one, item_to_v1, placeholder, terminal_as_text, update_to_v1,
};
use crate::convert::{Losses, meta};
use crate::loss::Severity;
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
    /// Whether some are forgotten, since that was last asked.
    pub(super) forgets: bool,
}

/// What the client knows of a call, and what it is yet to be told.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) announced: bool,
    pub(super) title: Option<String>,
    kind: Option<v2::ToolKind>,
    /// Of a call that was so far only asked about: all that is known of it.
    unannounced: Option<Box<v1::ToolCallUpdate<'static>>>,
    items: VecDeque<Item>,
    /// Terminals among them that the client is yet to be told of.
    introductions: Vec<String>,
    /// Bytes of all items.
    size: usize,
    received: usize,
    sent: usize,
    dirty_since: Option<Moment>,
    /// Whether there is more than text among what the client is yet to be told.
    untold: bool,
    told: Option<Moment>,
}

#[derive(Debug)]
enum Item {
    /// An item as it is sent again and again.
    Written(Raw<'static>),
    /// The output of a terminal, as it is when it is told.
    Terminal(v2::Terminal<'static>),
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
            if self.order.len() > limit {
                self.forget_one();
            }
        }
        self.known.entry(id.to_owned()).or_default()
    }

    /// Forgets the oldest call that the client knows all of.
    fn forget_one(&mut self) {
        let is_told = |id: &String| self.known.get(id).is_none_or(|call| call.dirty_since.is_none());
        let place = self.order.iter().position(is_told).unwrap_or(0);
        let Some(oldest) = self.order.remove(place) else { return };
        self.known.remove(&oldest);
        self.dirty.retain(|dirty| *dirty != oldest);
        self.forgets = true;
    }

    /// Forgets the content of all calls.
    pub(super) fn forget_content(&mut self) {
        for call in self.known.values_mut() {
            call.items = VecDeque::new();
            call.size = 0;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Bytes of all content, and of ids.
    pub(super) fn bytes(&self) -> usize {
        self.known.iter().map(|(id, call)| 2 * id.len() + call.size).sum()
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

    /// All content, behind what a question says.
    fn content(&mut self, leading: Option<Raw<'_>>, terminals: &Terminals, now: Moment) -> Raw<'static> {
        let items = self.items.iter().map(|item| match item {
            Item::Written(item) => item.borrowed(),
            Item::Terminal(shown) => {
                let terminal = terminals.get(&*shown.terminal_id);
                let item = if terminal.is_some_and(|terminal| terminal.introduced) {
                    v1::ToolCallContent::Terminal(shown.clone())
                } else {
                    terminal_as_text(shown.clone(), terminal.map(Terminal::text).unwrap_or_default())
                };
                Raw::of(&item, WireFormat::V1)
            }
        });
        let content = Raw::array(leading.into_iter().chain(items));
        self.sent += content.as_str().len();
        self.size = content.as_str().len();
        self.told = Some(now);
        self.dirty_since = None;
        self.untold = false;
        content
    }

    fn push(&mut self, item: Item, size: usize) {
        self.size += size + 1;
        self.received += size + 1;
        self.items.push_back(item);
    }
}

/// Puts content that is written already in its place.
pub(super) fn put(content: Option<Raw<'static>>, extra: &mut Extra<'_>) {
    if let Some(content) = content {
        extra.insert("content", content);
    }
}

fn send(session_id: &str, update: v1::ToolCallUpdate<'_>, shared: &mut Shared) {
    shared.update_v1(session_id, v1::SessionUpdate::ToolCallUpdate(Box::new(update)));
}

/// Whether an item is nothing but text.
fn is_plain(item: &v1::ToolCallContent<'_>) -> bool {
    matches!(item, v1::ToolCallContent::Content(v1::Content { content, meta: None, extra })
        if extra.is_empty() && plain_text(content).is_some())
}

/// What a call is part of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'p> {
    /// The kind of message.
    pub(super) message: &'p str,
    /// Where the call stands in it.
    pub(super) root: &'p str,
}

/// An update of its own.
const UPDATE: Place<'_> = Place { message: "tool_call_update", root: "/params/update" };

impl Session {
    pub(super) fn tool_call(&mut self, id: &str, update: v2::ToolCallUpdate<'_>, shared: &mut Shared) {
        let call_id = update.tool_call_id.clone().into_owned();
        let (wire, replaced) = self.patch(id, update, UPDATE, shared);
        self.tell(id, &call_id, wire, replaced, shared);
    }

    /// Takes an update in. Gives what there is to tell beside content, and whether the content is another.
    pub(super) fn patch(
        &mut self,
        id: &str,
        mut update: v2::ToolCallUpdate<'_>,
        place: Place<'_>,
        shared: &mut Shared,
    ) -> (v1::ToolCallUpdate<'static>, bool) {
        let call_id = update.tool_call_id.clone().into_owned();
        let places = Places { directory: self.roots.first().map(String::as_str), key: meta::V2_PATH };
        let converted = shared.convert(Some(id), place.message, place.root, Side::Client, |cx| {
            if let Field::Set(locations) = &mut update.locations {
                places.settle_locations(locations, &mut cx.key("locations"));
            }
            update_to_v1(update, true, cx)
        });
        // What is noted does not fail.
        let Ok((wire, content)) = converted else { return (v1::ToolCallUpdate::new(call_id), false) };
        let wire = wire.into_owned();
        let call = self.calls.open(&call_id, shared.options.limits.entries);
        if let Some(title) = &wire.title {
            call.title = Some(title.clone().into_owned());
        }
        if let Some(kind) = &wire.kind {
            call.kind = Some(kind.clone());
        }
        let replaced = !content.is_keep();
        if replaced {
            // What else was said goes first, so that it has been said.
            if call.untold && call.dirty_since.is_some() {
                self.flush_call(id, &call_id, shared);
            }
            let call = self.calls.open(&call_id, shared.options.limits.entries);
            call.items.clear();
            call.size = 0;
            call.untold = false;
        }
        if let Field::Set(items) = content {
            for (index, item) in items.into_iter().enumerate() {
                let root = format!("{}/content/{index}", place.root);
                self.add_item(id, &call_id, item, Place { root: &root, ..place }, shared);
            }
        }
        (wire, replaced)
    }

    fn add_item(
        &mut self,
        id: &str,
        call_id: &str,
        item: v2::ToolCallContent<'_>,
        place: Place<'_>,
        shared: &mut Shared,
    ) {
        if let v2::ToolCallContent::Terminal(terminal) = item {
            let terminal = terminal.into_owned();
            self.show_terminal(id, &terminal.terminal_id, call_id, place, shared);
            let size = self.terminals.get(&*terminal.terminal_id).map_or(0, Terminal::size);
            let call = self.calls.open(call_id, shared.options.limits.entries);
            call.untold |= terminal.meta.is_some() || !terminal.extra.is_empty();
            call.push(Item::Terminal(terminal), size);
            return;
        }
        let mut losses = Losses::noted();
        let (host, roots) = (&mut shared.host, &self.roots);
        let file = |path: &str| {
            if crate::host::is_inside(path, roots) { host.file(path, roots) } else { FileAtHand::Unknown }
        };
        let items = item_to_v1(item, file, &mut losses.at(place.message, place.root));
        shared.note(Some(id), place.message, losses, Side::Client);
        let limits = &shared.options.limits;
        let (entries, most) = (limits.entries, limits.content);
        let call = self.calls.open(call_id, entries);
        for item in items.unwrap_or_default() {
            call.untold |= !is_plain(&item);
            let item = Raw::of(&item, WireFormat::V1);
            let size = item.as_str().len();
            call.push(Item::Written(item), size);
        }
        let mut dropped = false;
        while call.size > most && call.items.len() > 1 {
            if let Some(Item::Written(item)) = call.items.pop_front() {
                call.size -= item.as_str().len() + 1;
            }
            dropped = true;
        }
        if dropped {
            let reason = format!("the oldest content is dropped, for a call may hold {most} bytes");
            self.lose(id, place.message, place.root, reason, Severity::Major, shared);
        }
    }

    /// Tells the client of a change: the first time by announcing the call.
    fn tell(
        &mut self,
        id: &str,
        call_id: &str,
        mut wire: v1::ToolCallUpdate<'static>,
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
        let content = with_content.then(|| call.content(None, &self.terminals, now));
        if content.is_some() {
            self.calls.dirty.retain(|dirty| dirty != call_id);
        }
        put(content, &mut wire.extra);
        send(id, wire, shared);
    }

    /// Announces a call, with all that is known of it.
    fn announce(&mut self, id: &str, call_id: &str, wire: v1::ToolCallUpdate<'static>, shared: &mut Shared) {
        let now = shared.now;
        let Some(call) = self.calls.known.get_mut(call_id) else { return };
        let earlier = call.unannounced.take().map(|earlier| *earlier);
        let wire = match earlier {
            Some(earlier) => both(id, earlier, wire, shared),
            None => wire,
        };
        let title = call.title.clone().unwrap_or_else(|| placeholder(call.kind.as_ref()));
        call.announced = true;
        let mut announced = announcement(wire, Text::Owned(title));
        let introduces = !call.introductions.is_empty();
        let with_content = !call.items.is_empty() && !introduces;
        let content = with_content.then(|| call.content(None, &self.terminals, now));
        self.calls.dirty.retain(|dirty| dirty != call_id);
        put(content, &mut announced.extra);
        shared.update_v1(id, v1::SessionUpdate::ToolCall(Box::new(announced)));
        if introduces {
            self.flush(id, call_id, shared);
        }
    }

    /// Remembers what a question said of a call that was never announced.
    pub(super) fn postpone(
        &mut self,
        id: &str,
        call_id: &str,
        wire: v1::ToolCallUpdate<'static>,
        shared: &mut Shared,
    ) {
        if let Some(call) = self.calls.known.get_mut(call_id) {
            let wire = match call.unannounced.take() {
                Some(earlier) => both(id, *earlier, wire, shared),
                None => wire,
            };
            call.unannounced = Some(Box::new(wire));
        }
    }

    /// The content of a call as the client is to show it.
    pub(super) fn content_of(
        &mut self,
        call_id: &str,
        leading: Option<Raw<'_>>,
        now: Moment,
    ) -> Option<Raw<'static>> {
        let content = self.calls.known.get_mut(call_id)?.content(leading, &self.terminals, now);
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
        let content = with_content.then(|| call.content(None, &self.terminals, now));
        if content.is_some() {
            self.calls.dirty.retain(|dirty| dirty != call_id);
        }
        put(content, &mut wire.extra);
        send(id, wire, shared);
    }

    pub(super) fn tool_call_chunk(
        &mut self,
        id: &str,
        chunk: v2::ToolCallContentChunk<'_>,
        shared: &mut Shared,
    ) {
        const TAG: &str = "tool_call_content_chunk";
        let v2::ToolCallContentChunk { tool_call_id, content, meta, extra } = chunk;
        let call_id = tool_call_id.into_owned();
        let reason = "version 1 has no chunks of tool content, hence nothing to say of one";
        shared.lose_rest(Some(id), TAG, "/params/update", (meta.as_ref(), &extra), reason, Side::Client);
        let place = Place { message: TAG, root: "/params/update/content" };
        self.add_item(id, &call_id, content, place, shared);
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
        let content = self.content_of(call_id, None, now);
        if content.is_some() {
            let mut wire = v1::ToolCallUpdate::new(call_id);
            put(content, &mut wire.extra);
            send(id, wire, shared);
        }
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

/// Two updates of a call that the client has heard of only by a question, in one.
fn both(
    id: &str,
    earlier: v1::ToolCallUpdate<'static>,
    later: v1::ToolCallUpdate<'static>,
    shared: &mut Shared,
) -> v1::ToolCallUpdate<'static> {
    let kept = later.clone();
    let place = UPDATE;
    let converted =
        shared.convert(Some(id), place.message, place.root, Side::Client, |cx| in_one(earlier, later, cx));
    converted.unwrap_or(kept)
}
