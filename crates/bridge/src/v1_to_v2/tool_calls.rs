//! Tool calls. Version 1 replaces their content as a whole, so growing content is sent at intervals: after
//! substantial growth, after some time, and at the end.

use std::collections::VecDeque;

use crate::map::HashMap;

use switchboard_acp::{Extra, Field, Raw, Text, Wire, WireFormat, v1, v2};

use super::subagents::Subagents;
use super::{Active, render};
use crate::convert::content::plain_text;
use crate::convert::meta;
use crate::convert::paths::PathNormalizer;
use crate::convert::tool_call::{
    announcement, in_one, item_to_v1, placeholder, terminal_as_text, update_to_v1,
};
use crate::loss::Severity;
use crate::terminals::{Terminal, Terminals};
use crate::{BridgeOptions, Moment, Side};

/// Bytes that may be sent for each received byte, in addition to an initial allowance.
const FACTOR: usize = 8;
const START: usize = 256 * 1024;
/// Milliseconds after which content is sent even if it is large and has hardly grown.
const PATIENCE: u64 = 30_000;

/// The tool calls of a session.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    known: HashMap<String, Call>,
    order: VecDeque<String>,
    /// Calls with unsent content.
    dirty: Vec<String>,
    /// Set if calls were evicted since this was last read.
    pub(super) evicted: bool,
}

/// Sent and unsent state of a tool call.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) announced: bool,
    pub(super) title: Option<String>,
    kind: Option<v2::ToolKind>,
    /// Its files. A question repeats them, for clients that read only the question.
    locations: Vec<v1::ToolCallLocation<'static>>,
    /// Everything known of a call that only a question has mentioned.
    unannounced: Option<Box<v1::ToolCallUpdate<'static>>>,
    items: VecDeque<ContentItem>,
    /// Terminals among the items that are not introduced to the client yet.
    introductions: Vec<String>,
    /// Bytes of all items.
    size: usize,
    received: usize,
    sent: usize,
    dirty_since: Option<Moment>,
    /// Set if the unsent content has more than text.
    unsent: bool,
    last_sent: Option<Moment>,
}

#[derive(Debug)]
enum ContentItem {
    /// An encoded item.
    Written(Raw<'static>),
    /// A terminal, rendered each time it is sent.
    Terminal(v2::Terminal<'static>),
    /// A sub-agent, rendered each time it is sent.
    Child(v2::unstable::SessionReference<'static>),
}

/// Order of a call's content.
#[derive(Debug)]
pub(super) enum Layout<'d> {
    /// As the agent ordered it.
    AsSent,
    /// For a permission request: diffs first, because some clients read only the first item, then the description of
    /// the request, then everything else.
    Question { description: Option<Raw<'d>> },
}

/// Returns whether an item of a tool call's content is a diff.
pub(super) fn is_diff(item: &Raw<'_>) -> bool {
    item.text("type").as_deref() == Some("diff")
}

/// Returns the content of a permission request's tool call: diffs, the description, everything else.
pub(super) fn in_question<'i>(
    description: impl IntoIterator<Item = Raw<'i>>,
    items: impl IntoIterator<Item = Raw<'i>>,
) -> Raw<'static> {
    let (diffs, rest): (Vec<_>, Vec<_>) = items.into_iter().partition(is_diff);
    Raw::array(diffs.into_iter().chain(description).chain(rest))
}

/// Content of calls that is stored elsewhere.
#[derive(Debug, Clone, Copy)]
struct Shown<'s> {
    terminals: &'s Terminals,
    subagents: &'s Subagents,
}

impl ToolCalls {
    pub(super) fn forget(&mut self) {
        *self = ToolCalls::default();
    }

    pub(super) fn get(&self, id: &str) -> Option<&Call> {
        self.known.get(id)
    }

    fn open(&mut self, id: &str, limit: usize) -> &mut Call {
        // Insert the new call into the order before an old one is removed.
        if !self.known.contains_key(id) {
            self.order.push_back(id.to_owned());
            if self.order.len() > limit {
                self.forget_one();
            }
        }
        self.known.entry_ref(id).or_default()
    }

    /// Evicts the oldest call without unsent content.
    fn forget_one(&mut self) {
        // Unsent content would be lost, so such calls are evicted last.
        let is_sent = |id: &String| self.known.get(id).is_none_or(|call| call.dirty_since.is_none());
        let place = self.order.iter().position(is_sent).unwrap_or(0);
        let Some(oldest) = self.order.remove(place) else { return };
        self.known.remove(&oldest);
        self.dirty.retain(|dirty| *dirty != oldest);
        self.evicted = true;
    }

    /// Drops the content of all calls except references to sub-agents.
    pub(super) fn forget_content(&mut self) {
        for call in self.known.values_mut() {
            call.items.retain(|item| matches!(item, ContentItem::Child(_)));
            call.items.shrink_to_fit();
            call.size = 0;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns the bytes of all content and of ids.
    pub(super) fn bytes(&self) -> usize {
        self.known.iter().map(|(id, call)| 2 * id.len() + call.size + call.locations_size()).sum()
    }

    /// Records that a call is the first to show a terminal.
    pub(super) fn introduce(&mut self, id: &str, terminal_id: &str) {
        if let Some(call) = self.known.get_mut(id) {
            call.introductions.push(terminal_id.to_owned());
        }
    }

    pub(super) fn take_introductions(&mut self, id: &str) -> Vec<String> {
        self.known.get_mut(id).map(|call| std::mem::take(&mut call.introductions)).unwrap_or_default()
    }

    /// Returns the time when unsent content is due.
    pub(super) fn next_due(&self, options: &BridgeOptions) -> Option<Moment> {
        self.dirty.iter().filter_map(|id| self.known.get(id)?.due(options)).min()
    }

    fn mark(&mut self, id: &str, now: Moment) {
        if let Some(call) = self.known.get_mut(id)
            // The first change counts: the deadline must not move with every chunk.
            && call.dirty_since.is_none()
        {
            call.dirty_since = Some(now);
            self.dirty.push(id.to_owned());
        }
    }

    /// Returns all content of a call and marks it as sent.
    fn content(
        &mut self,
        id: &str,
        layout: Layout<'_>,
        shown: Shown<'_>,
        now: Moment,
    ) -> Option<Raw<'static>> {
        let call = self.known.get_mut(id)?;
        // Sent content is no longer due, whichever message carries it.
        if call.dirty_since.take().is_some() {
            self.dirty.retain(|dirty| dirty != id);
        }
        Some(call.content(layout, shown, now))
    }

    fn is_due(&self, id: &str, options: &BridgeOptions, now: Moment) -> bool {
        self.known.get(id).and_then(|call| call.due(options)).is_some_and(|due| due <= now)
    }
}

impl Call {
    fn due(&self, options: &BridgeOptions) -> Option<Moment> {
        let since = self.dirty_since?;
        // At most one report per coalescing interval.
        let earliest = self.last_sent.map_or(since, |sent| sent.after(options.coalescing));
        // Total output stays proportional to input. Without this bound, resending all content for each chunk
        // would be quadratic.
        if self.sent + self.size <= FACTOR * self.received + START {
            Some(earliest)
        } else {
            Some(since.after(PATIENCE).max(earliest))
        }
    }

    /// Returns the approximate bytes of the locations.
    fn locations_size(&self) -> usize {
        self.locations.iter().map(|location| location.path.as_str().len() + 64).sum()
    }

    /// Returns whether it shows a diff.
    pub(super) fn shows_diff(&self) -> bool {
        self.items.iter().any(|item| matches!(item, ContentItem::Written(item) if is_diff(item)))
    }

    /// Returns whether all diffs precede all other items.
    pub(super) fn begins_with_diffs(&self) -> bool {
        let is_diff = |item: &ContentItem| matches!(item, ContentItem::Written(item) if is_diff(item));
        !self.items.iter().skip_while(|item| is_diff(item)).any(is_diff)
    }

    /// Adds details to a permission request that the agent left out because it sent them before.
    pub(super) fn complete(&self, question: &mut v1::ToolCallUpdate<'_>) {
        if question.kind.is_none() {
            question.kind.clone_from(&self.kind);
        }
        if question.locations.is_none() && !self.locations.is_empty() {
            question.locations = Some(self.locations.clone());
        }
    }

    /// Returns all content and marks it as sent.
    fn content(&mut self, layout: Layout<'_>, shown: Shown<'_>, now: Moment) -> Raw<'static> {
        let Shown { terminals, subagents } = shown;
        let items = self.items.iter().flat_map(|item| match item {
            ContentItem::Written(item) => vec![item.borrowed()],
            ContentItem::Child(reference) => render::work_in(subagents, reference),
            ContentItem::Terminal(shown) => {
                let terminal = terminals.get(&*shown.terminal_id);
                // An introduced terminal is referenced; the client displays it itself.
                let item = if terminal.is_some_and(|terminal| terminal.introduced) {
                    v1::ToolCallContent::Terminal(shown.clone())
                } else {
                    terminal_as_text(shown.clone(), terminal.map(Terminal::markdown).unwrap_or_default())
                };
                vec![Raw::of(&item, WireFormat::V1)]
            }
        });
        let content = match layout {
            Layout::AsSent => Raw::array(items),
            Layout::Question { description } => in_question(description, items),
        };
        // Rendered size replaces the estimate, which `push` and `grow` only add to.
        self.sent += content.as_str().len();
        self.size = content.as_str().len();
        self.last_sent = Some(now);
        self.unsent = false;
        content
    }

    /// Keeps showing the sub-agents that it showed before.
    fn keep_children(&mut self, earlier: VecDeque<ContentItem>) {
        for item in earlier {
            if let ContentItem::Child(child) = &item
                && !self
                    .items
                    .iter()
                    .any(|known| matches!(known, ContentItem::Child(known) if known.session_id == child.session_id))
            {
                self.items.push_back(item);
            }
        }
    }

    fn push(&mut self, item: ContentItem, size: usize) {
        // One byte for the separator in the array.
        self.size += size + 1;
        self.received += size + 1;
        self.items.push_back(item);
    }
}

/// Inserts encoded content.
pub(super) fn put(content: Option<Raw<'static>>, extra: &mut Extra<'_>) {
    if let Some(content) = content {
        extra.insert("content", content);
    }
}

/// Returns whether an item is plain text.
fn is_plain(item: &v1::ToolCallContent<'_>) -> bool {
    matches!(item, v1::ToolCallContent::Content(v1::Content { content, meta: None, extra, more: _ })
        if extra.is_empty() && plain_text(content).is_some())
}

/// Position of a call in a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallPosition<'p> {
    /// Kind of message.
    pub(super) message: &'p str,
    /// JSON pointer to the call.
    pub(super) root: &'p str,
}

/// The position of a call in an update of its own.
const UPDATE: CallPosition<'_> = CallPosition { message: "tool_call_update", root: "/params/update" };

impl Active<'_> {
    pub(super) fn tool_call(&mut self, update: v2::ToolCallUpdate<'_>) {
        let call_id = update.tool_call_id.clone().into_owned();
        let (wire, replaced) = self.patch(update, UPDATE);
        self.tell(&call_id, wire, replaced);
    }

    /// Applies an update. Returns the update for the client without content, and whether the content was
    /// replaced.
    pub(super) fn patch(
        &mut self,
        mut update: v2::ToolCallUpdate<'_>,
        place: CallPosition<'_>,
    ) -> (v1::ToolCallUpdate<'static>, bool) {
        let call_id = update.tool_call_id.clone().into_owned();
        let places =
            PathNormalizer { directory: self.session.roots.first().map(String::as_str), key: meta::V2_PATH };
        let converted = self.context.convert(Some(self.id), place.message, place.root, Side::Client, |cx| {
            if let Field::Set(locations) = &mut update.locations {
                places.settle_locations(locations, &mut cx.key("locations"));
            }
            update_to_v1(update, true, cx)
        });
        // A noted loss does not fail.
        let Ok((wire, content)) = converted else { return (v1::ToolCallUpdate::new(call_id), false) };
        let wire = wire.into_owned();
        let call = self.session.calls.open(&call_id, self.context.options.limits.entries);
        if let Some(title) = &wire.title {
            call.title = Some(title.clone().into_owned());
        }
        if let Some(kind) = &wire.kind {
            call.kind = Some(kind.clone());
        }
        if let Some(locations) = &wire.locations {
            call.locations.clone_from(locations);
        }
        let replaced = !content.is_keep();
        if replaced {
            // Send the other content first, or the client would never see it.
            // Replaced content that was never sent would be invisible, which matters for diffs and images.
            if call.unsent && call.dirty_since.is_some() {
                self.flush_call(&call_id);
            }
            // Opened again, because the flush needed the session.
            let call = self.session.calls.open(&call_id, self.context.options.limits.entries);
            let earlier = std::mem::take(&mut call.items);
            call.size = 0;
            call.unsent = false;
            if let Field::Set(items) = content {
                for (index, item) in items.into_iter().enumerate() {
                    let root = format!("{}/content/{index}", place.root);
                    self.add_item(&call_id, item, CallPosition { root: &root, ..place });
                }
            }
            // No other call shows these sub-agents.
            let call = self.session.calls.open(&call_id, self.context.options.limits.entries);
            call.keep_children(earlier);
        }
        (wire, replaced)
    }

    fn add_item(&mut self, call_id: &str, item: v2::ToolCallContent<'_>, place: CallPosition<'_>) {
        if let v2::ToolCallContent::Terminal(terminal) = item {
            let terminal = terminal.into_owned();
            // The terminal is linked to the call before its item is added, so that growth is attributed to
            // the call.
            self.show_terminal(&terminal.terminal_id, call_id, place);
            let size = self.session.terminals.get(&*terminal.terminal_id).map_or(0, Terminal::size);
            let call = self.session.calls.open(call_id, self.context.options.limits.entries);
            call.unsent |= terminal.meta.is_some() || !terminal.extra.is_empty();
            call.push(ContentItem::Terminal(terminal), size);
            return;
        }
        if let v2::ToolCallContent::Session(reference) = &item
            && self.subagents.is_shown_by(&reference.session_id, self.id, call_id)
        {
            let reason = "the work of the sub-agent is shown in place of its session";
            let rest = (reference.meta.as_ref(), &reference.extra);
            self.context.report_lost_rest(
                Some(self.id),
                place.message,
                place.root,
                rest,
                reason,
                Side::Client,
            );
            let call = self.session.calls.open(call_id, self.context.options.limits.entries);
            call.push(ContentItem::Child(reference.clone().into_owned()), 0);
            return;
        }
        let (at, roots) = ((place.message, place.root), &self.session.roots);
        let items = self.context.convert_with_files(self.id, at, roots, |file, cx| {
            let places = PathNormalizer { directory: roots.first().map(String::as_str), key: meta::V2_PATH };
            let mut items = item_to_v1(item, file, cx)?;
            places.settle_content(&mut items, cx);
            Ok(items)
        });
        let limits = &self.context.options.limits;
        let (entries, most) = (limits.entries, limits.content);
        let call = self.session.calls.open(call_id, entries);
        for item in items.unwrap_or_default() {
            call.unsent |= !is_plain(&item);
            let item = Raw::of(&item, WireFormat::V1);
            let size = item.as_str().len();
            call.push(ContentItem::Written(item), size);
        }
        let mut dropped = false;
        // The newest item is always kept, even if it alone exceeds the limit.
        while call.size > most && call.items.len() > 1 {
            // The output of sub-agents has a limit of its own.
            let oldest = call.items.iter().position(|item| !matches!(item, ContentItem::Child(_)));
            let Some(oldest) = oldest.and_then(|oldest| call.items.remove(oldest)) else { break };
            if let ContentItem::Written(item) = oldest {
                call.size = call.size.saturating_sub(item.as_str().len() + 1);
            }
            dropped = true;
        }
        if dropped {
            let reason =
                format!("the oldest content is dropped, because a tool call may hold at most {most} bytes");
            self.report_loss(place.message, place.root, reason, Severity::Major);
        }
    }

    /// Sends a change to the client, as an announcement if it is the first.
    fn tell(&mut self, call_id: &str, mut wire: v1::ToolCallUpdate<'static>, replaced: bool) {
        let Some(call) = self.session.calls.known.get_mut(call_id) else { return };
        if !call.announced {
            return self.announce(call_id, wire);
        }
        let is_final = wire.status.as_ref().is_some_and(v2::ToolCallStatus::is_final);
        // The final status carries all unsent content, because clients may collapse the call.
        let with_content = replaced || (is_final && call.dirty_since.is_some());
        let is_empty = wire == v1::ToolCallUpdate::new(call_id);
        if is_empty && !with_content {
            return;
        }
        if with_content {
            // The terminal must be known before content refers to it.
            self.introduce_terminals(call_id);
        }
        put(with_content.then(|| self.content_of(call_id, Layout::AsSent)).flatten(), &mut wire.extra);
        self.send(wire);
    }

    /// Announces a call with everything known of it.
    fn announce(&mut self, call_id: &str, wire: v1::ToolCallUpdate<'static>) {
        let now = self.context.now;
        // Include details that a question stored before the announcement.
        let wire = self.with_earlier(call_id, wire);
        let Some(call) = self.session.calls.known.get_mut(call_id) else { return };
        let title = call.title.clone().unwrap_or_else(|| placeholder(call.kind.as_ref()));
        call.announced = true;
        let mut announced = announcement(wire, Text::Owned(title));
        // Terminals are introduced in an update of an announced call, so their content follows after the
        // announcement.
        let introduces = !call.introductions.is_empty();
        let with_content = !call.items.is_empty() && !introduces;
        let shown = Shown { terminals: &self.session.terminals, subagents: self.subagents };
        let content =
            with_content.then(|| self.session.calls.content(call_id, Layout::AsSent, shown, now)).flatten();
        put(content, &mut announced.extra);
        self.update(v1::SessionUpdate::ToolCall(Box::new(announced)));
        if introduces {
            self.flush(call_id);
        }
    }

    /// Stores details of a call that only a question has mentioned.
    pub(super) fn postpone(&mut self, call_id: &str, wire: v1::ToolCallUpdate<'static>) {
        let wire = self.with_earlier(call_id, wire);
        if let Some(call) = self.session.calls.known.get_mut(call_id) {
            call.unannounced = Some(Box::new(wire));
        }
    }

    /// Merges an update with earlier details of a call that only a question has mentioned.
    fn with_earlier(
        &mut self,
        call_id: &str,
        later: v1::ToolCallUpdate<'static>,
    ) -> v1::ToolCallUpdate<'static> {
        let call = self.session.calls.known.get_mut(call_id);
        // Taken, so that details are merged once.
        let Some(earlier) = call.and_then(|call| call.unannounced.take()) else { return later };
        let kept = later.clone();
        let CallPosition { message, root } = UPDATE;
        self.context
            .convert(Some(self.id), message, root, Side::Client, |cx| in_one(*earlier, later, cx))
            .unwrap_or(kept)
    }

    /// Returns the content of a call for the client.
    pub(super) fn content_of(&mut self, call_id: &str, layout: Layout<'_>) -> Option<Raw<'static>> {
        let now = self.context.now;
        let shown = Shown { terminals: &self.session.terminals, subagents: self.subagents };
        self.session.calls.content(call_id, layout, shown, now)
    }

    /// Restores a call after a question has changed it.
    pub(super) fn restore(&mut self, call_id: &str, with_content: bool) {
        let Some(call) = self.session.calls.known.get_mut(call_id) else { return };
        // A question showed the call before it was announced.
        if !call.announced {
            let nothing = v1::ToolCallUpdate::new(call_id.to_owned());
            return self.announce(call_id, nothing);
        }
        let mut wire = v1::ToolCallUpdate::new(call_id);
        let title = call.title.clone().unwrap_or_else(|| placeholder(call.kind.as_ref()));
        wire.title = Some(Text::Owned(title));
        put(with_content.then(|| self.content_of(call_id, Layout::AsSent)).flatten(), &mut wire.extra);
        self.send(wire);
    }

    pub(super) fn tool_call_chunk(&mut self, chunk: v2::ToolCallContentChunk<'_>) {
        const TAG: &str = "tool_call_content_chunk";
        let v2::ToolCallContentChunk { tool_call_id, content, meta, extra, more: _ } = chunk;
        let call_id = tool_call_id.into_owned();
        let reason = "version 1 has no chunks of tool content and no metadata of them";
        self.report_lost_rest(TAG, (meta.as_ref(), &extra), reason);
        let place = CallPosition { message: TAG, root: "/params/update/content" };
        // Add first, then decide whether it is time to send.
        self.add_item(&call_id, content, place);
        self.touch(&call_id);
    }

    /// Marks the content of a call as grown.
    pub(super) fn touch(&mut self, call_id: &str) {
        let now = self.context.now;
        // The first chunk announces the call.
        if self.session.calls.known.get(call_id).is_some_and(|call| !call.announced) {
            let nothing = v1::ToolCallUpdate::new(call_id.to_owned());
            return self.announce(call_id, nothing);
        }
        self.session.calls.mark(call_id, now);
        // Send at once if the interval has passed; otherwise `tick` does.
        if self.session.calls.is_due(call_id, &self.context.options, now) {
            self.flush(call_id);
        }
    }

    fn send(&mut self, update: v1::ToolCallUpdate<'_>) {
        self.update(v1::SessionUpdate::ToolCallUpdate(Box::new(update)));
    }

    pub(super) fn grow(&mut self, call_id: &str, bytes: usize) {
        if let Some(call) = self.session.calls.known.get_mut(call_id) {
            call.received += bytes;
            call.size += bytes;
        }
    }

    fn flush(&mut self, call_id: &str) {
        // Same order as in `tell`: introductions, then content.
        self.introduce_terminals(call_id);
        let content = self.content_of(call_id, Layout::AsSent);
        if content.is_some() {
            let mut wire = v1::ToolCallUpdate::new(call_id);
            put(content, &mut wire.extra);
            self.send(wire);
        }
    }

    /// Sends the unsent content of a call.
    pub(super) fn flush_call(&mut self, call_id: &str) {
        if self.session.calls.get(call_id).is_some_and(|call| call.dirty_since.is_some()) {
            self.flush(call_id);
        }
    }

    /// Sends all held output.
    pub(super) fn flush_all(&mut self) {
        // Messages before tool calls, as the agent sent them.
        self.release();
        for call_id in std::mem::take(&mut self.session.calls.dirty) {
            self.flush(&call_id);
        }
    }

    pub(super) fn flush_due(&mut self) {
        let now = self.context.now;
        let due: Vec<String> = self
            .session
            .calls
            .dirty
            .iter()
            .filter(|call| self.session.calls.is_due(call, &self.context.options, now))
            .cloned()
            .collect();
        for call_id in due {
            self.flush(&call_id);
        }
    }
}
