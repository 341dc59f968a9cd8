//! Tool calls as cards.

use maud::{Markup, html};
use switchboard_acp::{LineNumber, Wire, WireFormat, v2};
use switchboard_session::{Snapshot, ToolCall};

use super::message::earlier_part;
use super::pages::{Pages, Run, last_pages};
use super::text::{survives, visible, visible_line};
use super::{Part, Place, RenderCache, Waits, content, diff, icons, json, markdown, terminal};

/// Maximum number of listed locations.
const MOST_LOCATIONS: usize = 50;

/// Returns the title of a call, its name, or a placeholder.
pub(super) fn title(call: &ToolCall) -> &str {
    call.title().or_else(|| call.name()).unwrap_or("A tool call without a title")
}

pub(super) fn tool_call(
    snapshot: &Snapshot,
    call: &ToolCall,
    waits: Option<Waits>,
    place: &Place<'_>,
    cache: &RenderCache,
) -> Vec<Part> {
    let mut parts = vec![Part::new("head", head(call, waits))];
    parts.extend(body(snapshot, call, place, cache));
    for (key, label, value) in
        [("input", "Raw input", call.raw_input()), ("output", "Raw output", call.raw_output())]
    {
        if let Some(value) = value {
            parts.push(cache.part(key, ("folded", json::source(value.as_str())), || {
                html! { div.p.raws data-part=(key) { (json::folded(label, key, value.as_str())) } }
            }));
        }
    }
    parts
}

/// Renders the output of a call, without its heading and raw values.
pub(super) fn body(
    snapshot: &Snapshot,
    call: &ToolCall,
    place: &Place<'_>,
    cache: &RenderCache,
) -> Vec<Part> {
    let mut parts = Vec::new();
    if !call.locations().is_empty() {
        parts.push(Part::new("places", locations(call)));
    }
    parts.extend(page_parts(snapshot, &last_pages(call.content()), place, cache));
    parts
}

pub(super) fn page_parts(
    snapshot: &Snapshot,
    pages: &Pages<'_, v2::ToolCallContent<'static>>,
    place: &Place<'_>,
    cache: &RenderCache,
) -> Vec<Part> {
    let mut parts: Vec<Part> = earlier_part(pages).into_iter().collect();
    for run in &pages.runs {
        match run {
            Run::Text { key, text } => parts.extend(markdown::parts(key, text, cache)),
            // The sub-agent's transcript is shown below.
            Run::Item { block: v2::ToolCallContent::Session(session), .. }
                if (place.is_shown_here)(&session.session_id) => {}
            Run::Item { index, block } => {
                parts.push(item(snapshot, &format!("i{index}"), block, place, cache));
            }
        }
    }
    parts
}

fn item(
    snapshot: &Snapshot,
    key: &str,
    item: &v2::ToolCallContent<'static>,
    place: &Place<'_>,
    cache: &RenderCache,
) -> Part {
    match item {
        v2::ToolCallContent::Content(content) => content::part(key, &content.content, cache),
        v2::ToolCallContent::Diff(diff) => diff::part(key, diff, cache),
        v2::ToolCallContent::Terminal(reference) => match snapshot.terminal(&reference.terminal_id) {
            Some(terminal) => terminal::part(key, snapshot, terminal, cache),
            None => Part::new(
                key,
                html! {
                    p.p.note data-part=(key) {
                        "Terminal " code { (visible_line(&reference.terminal_id)) } ": nothing has come of it yet."
                    }
                },
            ),
        },
        v2::ToolCallContent::Session(session) => Part::new(
            key,
            html! {
                p.p.note data-part=(key) {
                    "The work of session " (place.link(&session.session_id, &session.session_id)) "."
                }
            },
        ),
        v2::ToolCallContent::Unknown(unknown) => cache.part(key, ("unknown", item), || {
            let json = item.encode(WireFormat::Any);
            html! { div.p.block data-part=(key) { (content::unknown("content", &unknown.tag, &json)) } }
        }),
        v2::ToolCallContent::More(none) => none.never(),
    }
}

fn head(call: &ToolCall, waits: Option<Waits>) -> Markup {
    let (icon, word) = icons::of_kind(call.kind());
    let can_cancel = call.capabilities().is_some_and(|capabilities| capabilities.cancel.is_some());
    html! {
        header.p.head data-part="head" {
            (icon)
            h3.title { span.sr { (visible_line(word)) ": " } (visible_line(title(call))) }
            @if let (Some(name), true) = (call.name(), call.title().is_some()) {
                code.dim { (visible_line(name)) }
            }
            (status(call.status(), waits))
            span.took {}
            (super::message::tools())
            @if can_cancel && !call.status().is_final() && survives(call.id()) {
                button type="button" data-action="cancel" data-tool-call=(call.id()) { "Cancel" }
            }
        }
    }
}

/// Renders the status of a call as words and colour.
fn status(status: &v2::ToolCallStatus, waits: Option<Waits>) -> Markup {
    let (class, mark, words) = match status {
        _ if !status.is_final() && waits == Some(Waits::ForYou) => {
            ("st st-wait st-you", "!", "waiting for you")
        }
        _ if !status.is_final() && waits.is_some() => ("st st-wait", "!", "waiting for an answer"),
        v2::ToolCallStatus::Pending => ("st st-wait", "○", "pending"),
        v2::ToolCallStatus::InProgress => ("st st-run", "◐", "running"),
        v2::ToolCallStatus::Paused => ("st st-wait", "‖", "paused"),
        v2::ToolCallStatus::Completed => ("st st-good", "✓", "completed"),
        v2::ToolCallStatus::Failed => ("st st-bad", "✗", "failed"),
        v2::ToolCallStatus::Cancelled => ("st st-off", "∅", "cancelled"),
        v2::ToolCallStatus::Unknown(word) => ("st st-off", "?", &**word),
        v2::ToolCallStatus::More(none) => none.never(),
    };
    html! { span class=(class) { span aria-hidden="true" { (mark) " " } (visible_line(words)) } }
}

fn locations(call: &ToolCall) -> Markup {
    let all = call.locations();
    html! {
        ul.p.places data-part="places" aria-label="Files" {
            @for location in all.iter().take(MOST_LOCATIONS) {
                @let line = location.line.and_then(LineNumber::get);
                li {
                    button.path type="button" data-action="follow" data-path=(location.path.as_str()) data-line=[line] {
                        (visible(&location.path))
                        @if let Some(line) = line { ":" (line) }
                    }
                }
            }
            @if all.len() > MOST_LOCATIONS {
                li.dim { (all.len() - MOST_LOCATIONS) " more" }
            }
        }
    }
}
