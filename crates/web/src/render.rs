//! Rendering of sessions as HTML for the page.
//!
//! Everything that an agent sends is untrusted until it is escaped here. These functions are pure: they use no I/O
//! and no clock, and write neither scripts nor styles into the page. Classes are listed in `assets/entries.css`.
//!
//! Contract between the markup and the page:
//!
//! - A [`Part`] is one element with `data-part` (its key). The page replaces it as a whole when its hash changes.
//! - `<details data-keep="...">` keeps its fold state when its part is replaced; the value is unique within the part.
//! - `<button data-action="...">` triggers an action: `follow` (with `data-path` and optionally `data-line`),
//!   `earlier` (with `data-before`: see [`earlier`]), `cancel` (with `data-tool-call` or `data-terminal`).
//! - `<button data-option="ID">` answers the permission that it is in (`data-permission`); the buttons of a form
//!   (`data-elicitation`) have `data-answer` with `accept`, `decline` or `cancel`.
//! - `<a data-action="look">` selects another session of the recording; with a modifier key it is an ordinary link.
//! - Images and audio are `data:` URLs, so the content security policy must allow them for `img-src` and `media-src`.

mod cache;
mod code;
mod content;
mod diff;
mod elicitation;
mod icons;
mod image;
mod json;
mod markdown;
mod message;
mod pages;
mod panel;
mod permission;
mod pieces;
mod sanitize;
mod subagent;
mod terminal;
mod text;
mod tool_call;

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};

use maud::Markup;
use switchboard_acp::v2;
use switchboard_session::{Entry, EntryKind, Item, Snapshot, ToolCall};

pub(crate) use cache::RenderCache;
pub(crate) use code::{language_of, line as code_line};
pub(crate) use diff::{Lines, file_heading, hunk, line_counts, part as diff};
pub(crate) use elicitation::elicitation;
#[cfg(debug_assertions)]
pub(crate) use icons::names as icon_names;
pub(crate) use icons::{icon, sprite};
pub(crate) use json::block as json_block;
pub(crate) use message::{TurnEnd, earlier, failed_turn, turn_end};
pub(crate) use panel::{commands, config_options, notice_part, notices, plan_line, plans, state, usage};
pub(crate) use permission::{always, left_out, no_rule, permission, question_details, rule_offer};
pub(crate) use subagent::{Nest, Place, Work, line, more, nest, whose, work};
pub(crate) use text::{money, relative, visible, visible_line};
pub(crate) use tool_call::{RunCounts, is_routine, run_line};

/// A piece of an entry that is replaced as a whole in the page. An entry's parts have stable keys in a stable order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// Letters, digits and hyphens; unique in the entry.
    pub(crate) key: String,
    /// Hash of the HTML. It is seeded per process, so agents cannot craft two texts that share a hash.
    pub(crate) hash: u64,
    /// One element, with the key as its `data-part`.
    pub(crate) html: Arc<str>,
}

impl Part {
    fn new(key: impl Into<String>, html: Markup) -> Self {
        static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let html = html.into_string();
        Part { key: key.into(), hash: HASHER.hash_one(&html), html: html.into() }
    }
}

/// Attributes of the element around an entry's parts: `<article class aria-label>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Article {
    /// Classes, separated by spaces.
    pub(crate) class: &'static str,
    /// Accessible name of the entry. Not escaped.
    pub(crate) label: String,
}

/// Returns the attributes of an entry's element. `name` returns the name of a sub-agent.
pub(crate) fn frame(entry: &Entry, name: impl Fn(&str) -> Option<String>) -> Article {
    let (class, label) = match entry {
        Entry::Message(_) => match entry.kind() {
            EntryKind::UserMessage => ("e e-user", "Message of the user".to_owned()),
            EntryKind::AgentThought => ("e e-thought", "Thought of the agent".to_owned()),
            _ => ("e e-agent", "Message of the agent".to_owned()),
        },
        Entry::ToolCall(call) => {
            let title = switchboard_acp::display::visible_line(tool_call::title(call));
            ("e e-tool", format!("Tool call: {title}"))
        }
        Entry::Terminal(_) => ("e e-term", "Terminal".to_owned()),
        Entry::Compaction(compaction) if compaction.is_memory_loss() => {
            ("e e-compact e-memory-lost", "Memory of the agent lost".to_owned())
        }
        Entry::Compaction(_) => ("e e-compact", "Compaction of the conversation".to_owned()),
        Entry::Subagent(subagent) => {
            let name = name(subagent.session_id());
            let name = name.as_deref().or(subagent.title()).unwrap_or_default();
            ("e e-sub", format!("Sub-agent: {}", switchboard_acp::display::visible_line(name)))
        }
        Entry::SessionMessage(_) => ("e e-between", "Message between sessions".to_owned()),
    };
    Article { class, label }
}

/// Wait state of a tool call with a pending question. It takes precedence over the call's reported status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// The user can answer the question.
    ForYou,
    /// The user cannot answer the question.
    ForAnswer,
}

/// Renders the parts of one entry.
pub(crate) fn entry(
    snapshot: &Snapshot,
    entry: &Entry,
    waits: Option<Waits>,
    place: &Place<'_>,
    cache: &RenderCache,
) -> Vec<Part> {
    match entry {
        Entry::Message(message) => message::message(message, cache),
        Entry::ToolCall(call) => tool_call::tool_call(snapshot, call, waits, place, cache),
        // The tool call of a terminal shows it.
        Entry::Terminal(terminal) if has_tool_call(snapshot, terminal.id()) => Vec::new(),
        Entry::Terminal(terminal) => {
            vec![terminal::part("screen", snapshot, terminal, place.folder, cache)]
        }
        Entry::Compaction(compaction) => message::compaction(compaction, cache),
        // A sub-agent is shown at its tool call, or here with its transcript.
        Entry::Subagent(subagent) if (place.is_shown_here)(subagent.session_id()) => Vec::new(),
        Entry::Subagent(subagent) => subagent::elsewhere(subagent, place),
        Entry::SessionMessage(message) => subagent::session_message(snapshot, message, place, cache),
    }
}

/// Renders all parts of one entry without paging, for exports.
pub(crate) fn whole_entry(
    snapshot: &Snapshot,
    entry: &Entry,
    place: &Place<'_>,
    cache: &RenderCache,
) -> Vec<Part> {
    match entry {
        Entry::Message(message) => message::whole(message, cache),
        entry => self::entry(snapshot, entry, None, place, cache),
    }
}

/// Returns `true` if a tool call near a terminal shows it. Only nearby calls and their first items are searched,
/// because their number is unbounded.
pub(crate) fn has_tool_call(snapshot: &Snapshot, terminal: &str) -> bool {
    const NEAR: usize = 32;
    const MOST_ITEMS: usize = 256;
    let Some(position) = snapshot.position(EntryKind::Terminal, terminal) else { return false };
    let near = snapshot.entries_from(position.saturating_sub(NEAR)).take(2 * NEAR);
    let shows = |call: &ToolCall| {
        let items = call.content().items().take(MOST_ITEMS).filter_map(Item::structured);
        items
            .filter_map(|item| match item {
                v2::ToolCallContent::Terminal(shown) => Some(&*shown.terminal_id),
                _ => None,
            })
            .any(|id| id == terminal)
    };
    near.filter_map(Entry::as_tool_call).any(shows)
}

#[cfg(test)]
// Tests pass `json!` values to small functions; references there would only be noise.
#[allow(clippy::unwrap_used, clippy::needless_pass_by_value)]
mod tests {
    mod allowed;
    mod attacks;
    mod entries;
    mod pace;
    mod sample;
}
