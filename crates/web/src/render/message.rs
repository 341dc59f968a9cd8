//! Messages, thoughts and compactions.

use maud::{Markup, Render, html};
use switchboard_acp::display::elapsed;
use switchboard_acp::v2;
use switchboard_session::{Compaction, Content, Entry, EntryKind, Message, Moment, Snapshot};

use super::icons::icon;
use super::pages::{Pages, Run, last_pages, page_before};
use super::text::{prose, size};
use super::{Part, Place, RenderCache, content, markdown, panel};

pub(super) type Blocks = Content<v2::ContentBlock<'static>>;

/// Format of a message's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Markdown,
    /// Plain text, as typed by the user.
    Plain,
}

impl Reading {
    fn of(kind: EntryKind) -> Self {
        if kind == EntryKind::UserMessage { Reading::Plain } else { Reading::Markdown }
    }
}

pub(super) fn message(message: &Message, cache: &RenderCache) -> Vec<Part> {
    let head = match message.kind() {
        EntryKind::AgentThought => {
            let words = words(message.content().text_len());
            fold(html! { (icon("think")) span.who { "Thought, " (words) } })
        }
        EntryKind::UserMessage => html! {
            header.p.head data-part="head" {
                span.tools {
                    button type="button" data-action="edit-prompt" title="Edit and send again" aria-label="Edit and send again" {
                        (icon("edit"))
                    }
                    (tool_buttons())
                }
            }
        },
        _ => html! { header.p.head data-part="head" { (tools()) } },
    };
    let mut parts = vec![Part::new("head", head)];
    parts.extend(content_parts(message.content(), Reading::of(message.kind()), cache));
    parts
}

/// Renders a complete message without paging.
pub(super) fn whole(message: &Message, cache: &RenderCache) -> Vec<Part> {
    let (content, mut parts) = (message.content(), self::message(message, cache));
    let Some(mut page) = parts.iter().any(|part| part.key == "earlier").then(|| last_pages(content).first)
    else {
        return parts;
    };
    let reading = Reading::of(message.kind());
    parts.retain(|part| part.key != "earlier");
    while let Some(pages) = page_before(content, page) {
        page = pages.first;
        let earlier = page_parts(&pages, reading, cache).into_iter().filter(|part| part.key != "earlier");
        // Inserts after the heading.
        parts.splice(1..1, earlier);
    }
    parts
}

/// Returns the approximate number of words as text.
fn words(bytes: usize) -> String {
    match bytes.div_ceil(6) {
        0 | 1 => "1 word".to_owned(),
        count @ 2..100 => format!("{count} words"),
        count => format!("about {} words", count / 100 * 100),
    }
}

/// Renders the buttons of an entry.
pub(super) fn tools() -> Markup {
    html! { span.tools { (tool_buttons()) } }
}

fn tool_buttons() -> Markup {
    html! {
        button type="button" data-action="copy-entry" title="Copy" aria-label="Copy" { (icon("copy")) }
        button type="button" data-action="link-entry" title="Copy a link" aria-label="Copy a link" { (icon("link")) }
    }
}

/// Renders the failure of a turn below its last entry, with a button that sends the prompt again.
pub(crate) fn failed_turn(reason: &str, said: Option<usize>) -> Part {
    let html = html! {
        p.p.note.bad.failed data-part="failed" {
            (prose(reason)) " "
            @if let Some(said) = said {
                button type="button" data-action="again" data-said=(said) { "Try again" }
            }
        }
    };
    Part::new("failed", html)
}

/// Duration, cost and other facts about a turn that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnEnd {
    /// Time of the end, in Unix milliseconds.
    pub(crate) at: i64,
    /// Duration in milliseconds.
    pub(crate) took: i64,
    /// Cost, formatted.
    pub(crate) cost: Option<String>,
    /// Number of tokens.
    pub(crate) tokens: Option<u64>,
    pub(crate) is_cancelled: bool,
}

/// Renders the end of a turn below its last entry.
pub(crate) fn turn_end(end: &TurnEnd) -> Part {
    let html = html! {
        p.p.turn-end data-part="turn" {
            @if end.is_cancelled { span { "Stopped" } }
            time data-at=(end.at) {}
            @if end.took >= 1000 { span { (elapsed(Moment(end.took).since(Moment(0)))) } }
            @if let Some(cost) = &end.cost { span { (cost) } }
            @if let Some(tokens) = end.tokens.filter(|tokens| *tokens > 0) { span { (panel::compact(tokens)) " tokens" } }
        }
    };
    Part::new("turn", html)
}

/// Renders a heading that hides all parts after it until it is unfolded. The page keeps the state of the fold.
pub(super) fn fold(words: impl Render) -> Markup {
    html! {
        header.p.head data-part="head" {
            details.fold data-keep="fold" { summary { (words) } }
        }
    }
}

pub(super) fn compaction(compaction: &Compaction, cache: &RenderCache) -> Vec<Part> {
    if compaction.is_memory_loss() {
        // Always visible, because it affects everything that follows.
        let words = compaction.summary().text();
        let head = html! { header.p.head data-part="head" { span.who role="separator" { (prose(&words)) } } };
        return vec![Part::new("head", head)];
    }
    let words = match compaction.status() {
        v2::CompactionStatus::InProgress => "The conversation is being compacted",
        v2::CompactionStatus::Completed => "The conversation was compacted",
        v2::CompactionStatus::Failed => "Compacting the conversation failed",
        v2::CompactionStatus::Cancelled => "Compacting the conversation was cancelled",
        v2::CompactionStatus::Unknown(_) => "The conversation is being compacted (unknown state)",
        v2::CompactionStatus::More(none) => none.never(),
    };
    let summary = compaction.summary();
    if summary.is_empty() && compaction.error().is_none() {
        let head = html! { header.p.head data-part="head" { span.who { (words) } } };
        return vec![Part::new("head", head)];
    }
    let mut parts = vec![Part::new("head", fold(html! { (icon("chevron")) span.who { (words) } }))];
    if let Some(error) = compaction.error() {
        parts.push(Part::new("error", html! { p.p.note.bad data-part="error" { (prose(error)) } }));
    }
    if !summary.is_empty() {
        parts.extend(content_parts(summary, Reading::Markdown, cache));
    }
    parts
}

/// Renders the page of an entry before `page`, which is the `data-before` of the button, with a button for the
/// earlier ones. Empty if there is none.
pub(crate) fn earlier(snapshot: &Snapshot, entry: &Entry, page: usize, cache: &RenderCache) -> Vec<Part> {
    match entry {
        Entry::Message(message) => page_before(message.content(), page)
            .map(|pages| page_parts(&pages, Reading::of(message.kind()), cache)),
        Entry::Compaction(compaction) => {
            page_before(compaction.summary(), page).map(|pages| page_parts(&pages, Reading::Markdown, cache))
        }
        Entry::ToolCall(call) => page_before(call.content(), page)
            .map(|pages| super::tool_call::page_parts(snapshot, &pages, &Place::default(), cache)),
        Entry::SessionMessage(message) => {
            page_before(message.content(), page).map(|pages| page_parts(&pages, Reading::Markdown, cache))
        }
        Entry::Terminal(_) | Entry::Subagent(_) => None,
    }
    .unwrap_or_default()
}

pub(super) fn content_parts(content: &Blocks, reading: Reading, cache: &RenderCache) -> Vec<Part> {
    if content.is_empty() {
        let words = "Empty: its content was removed, or none has come.";
        return vec![Part::new("empty", html! { p.p.note data-part="empty" { (words) } })];
    }
    page_parts(&last_pages(content), reading, cache)
}

fn page_parts(
    pages: &Pages<'_, v2::ContentBlock<'static>>,
    reading: Reading,
    cache: &RenderCache,
) -> Vec<Part> {
    let mut parts: Vec<Part> = earlier_part(pages).into_iter().collect();
    for run in &pages.runs {
        match run {
            Run::Text { key, text } => parts.extend(text_parts(key, text, reading, cache)),
            Run::Item { index, block } => parts.push(content::part(&format!("i{index}"), block, cache)),
        }
    }
    parts
}

fn text_parts(key: &str, text: &str, reading: Reading, cache: &RenderCache) -> Vec<Part> {
    match reading {
        Reading::Markdown => markdown::parts(key, text, cache),
        Reading::Plain => vec![cache.part(key, ("plain", text), || {
            html! { div.p.said data-part=(key) { (prose(text)) } }
        })],
    }
}

/// Renders a notice of the content that is not shown, with a button that requests it.
pub(super) fn earlier_part<B>(pages: &Pages<'_, B>) -> Option<Part> {
    if pages.earlier_bytes == 0 && pages.left_out == 0 {
        return None;
    }
    let html = html! {
        p.p.note data-part="earlier" {
            @if pages.earlier_bytes > 0 {
                (pages.earlier_bytes) " earlier bytes (" (size(pages.earlier_bytes)) ") "
                button type="button" data-action="earlier" data-before=(pages.first) { "Show earlier" }
            }
            @if pages.left_out > 0 {
                " " (pages.left_out) " attachments are not shown, because they are too many."
            }
        }
    };
    Some(Part::new("earlier", html))
}
