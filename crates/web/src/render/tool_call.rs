//! Tool calls: one line that unfolds to the content.

use maud::{Markup, html};
use switchboard_acp::{LineNumber, Wire, WireFormat, v2};
use switchboard_session::{Item, Snapshot, ToolCall};

use super::message::earlier_part;
use super::pages::{Pages, Run, last_pages};
use super::text::{relative, survives, visible_line, with_relative_paths};
use super::{Part, Place, RenderCache, Waits, content, diff, icons, json, markdown, terminal};

/// Maximum number of items that are searched for changes of files.
const MOST_ITEMS: usize = 64;
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
    let mut parts = vec![Part::new("head", head(call, waits, place, cache))];
    parts.extend(body(snapshot, call, place, cache));
    parts.extend(details(call, cache));
    parts
}

/// Renders the name of the tool and the raw values, folded.
fn details(call: &ToolCall, cache: &RenderCache) -> Option<Part> {
    let raw = [("Raw input", call.raw_input()), ("Raw output", call.raw_output())];
    let raw = raw.map(|(label, value)| value.map(|value| (label, value.as_str())));
    let name = call.name().filter(|_| call.title().is_some());
    if name.is_none() && raw == [None, None] {
        return None;
    }
    let sources = raw.map(|value| value.map(|(_, json)| json::source(json)));
    Some(cache.part("raw", ("details", name, sources), || {
        html! {
            div.p.raws data-part="raw" {
                details.raw data-keep="details" {
                    summary { "Details" }
                    @if let Some(name) = name { p.note { "Tool " code { (visible_line(name)) } } }
                    @for (label, json) in raw.into_iter().flatten() { p.note { (label) } (json::block(json)) }
                }
            }
        }
    }))
}

/// Returns `true` if a call is unfolded until the user decides otherwise: while it is not finished, if it has failed,
/// and if it has changed files.
fn is_unfolded(call: &ToolCall, waits: Option<Waits>) -> bool {
    match call.status() {
        _ if waits.is_some() => true,
        v2::ToolCallStatus::Completed => changes(call).next().is_some(),
        v2::ToolCallStatus::Cancelled => false,
        _ => true,
    }
}

/// Returns the changes of files that a call reports.
fn changes(call: &ToolCall) -> impl Iterator<Item = &v2::Diff<'static>> {
    let items = call.content().items().take(MOST_ITEMS).filter_map(Item::structured);
    items.filter_map(|item| match item {
        v2::ToolCallContent::Diff(diff) => Some(&**diff),
        _ => None,
    })
}

/// Returns `true` if a finished call can be hidden behind the line of several.
pub(crate) fn is_routine(call: &ToolCall) -> bool {
    *call.status() == v2::ToolCallStatus::Completed && changes(call).next().is_none()
}

/// Renders the output of a call, without its heading and raw values.
pub(super) fn body(
    snapshot: &Snapshot,
    call: &ToolCall,
    place: &Place<'_>,
    cache: &RenderCache,
) -> Vec<Part> {
    let mut parts = Vec::new();
    // A change of the only file shows its path.
    let is_change = call.locations().len() == 1 && changes(call).next().is_some();
    if !call.locations().is_empty() && !is_change {
        parts.push(Part::new("places", locations(call, place.folder)));
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
        v2::ToolCallContent::Diff(diff) => diff::part(key, diff, place.folder, cache),
        v2::ToolCallContent::Terminal(reference) => match snapshot.terminal(&reference.terminal_id) {
            Some(terminal) => terminal::part(key, snapshot, terminal, place.folder, cache),
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

/// Returns the path that a call is about, unless its title has it.
fn target<'c>(call: &'c ToolCall, title: &str, folder: &str) -> Option<&'c str> {
    let [location] = call.locations() else { return None };
    let path = relative(location.path.as_str(), folder);
    let name = path.rsplit('/').next().unwrap_or(path);
    (!name.is_empty() && !title.contains(name)).then_some(path)
}

fn head(call: &ToolCall, waits: Option<Waits>, place: &Place<'_>, cache: &RenderCache) -> Markup {
    let (icon, word) = icons::of_kind(call.kind());
    let can_cancel = call.capabilities().is_some_and(|capabilities| capabilities.cancel.is_some());
    let title = with_relative_paths(title(call), place.folder);
    html! {
        header.p.head data-part="head" {
            details.fold data-keep="fold" open[is_unfolded(call, waits)] {
                summary.call-line {
                    (icon)
                    h3.title { span.sr { (visible_line(word)) ": " } (visible_line(&title)) }
                    @if let Some(path) = target(call, &title, place.folder) { span.target { (visible_line(path)) } }
                    span.right {
                        @for diff in changes(call).take(1) { (diff::short_counts(diff, cache)) }
                        (status(call.status(), waits))
                        span.took {}
                    }
                }
            }
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
        v2::ToolCallStatus::Pending => ("st st-off", "○", "pending"),
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

fn locations(call: &ToolCall, folder: &str) -> Markup {
    let all = call.locations();
    html! {
        ul.p.places data-part="places" aria-label="Files" {
            @for location in all.iter().take(MOST_LOCATIONS) {
                @let line = location.line.and_then(LineNumber::get);
                li {
                    button.path type="button" data-action="follow" data-path=(location.path.as_str()) data-line=[line] {
                        (visible_line(relative(location.path.as_str(), folder)))
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

/// Number of finished calls of each kind, for the line that stands for all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RunCounts {
    read: usize,
    searched: usize,
    ran: usize,
    fetched: usize,
    others: usize,
}

impl RunCounts {
    /// Counts a call.
    pub(crate) fn add(&mut self, call: &ToolCall) {
        let count = match call.kind() {
            v2::ToolKind::Read => &mut self.read,
            v2::ToolKind::Search => &mut self.searched,
            v2::ToolKind::Execute => &mut self.ran,
            v2::ToolKind::Fetch => &mut self.fetched,
            _ => &mut self.others,
        };
        *count += 1;
    }

    /// Returns the counts as words: `Read 8 files, ran 3 commands`.
    fn words(self) -> String {
        let times = |count: usize| match count {
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            count => format!("{count} times"),
        };
        let many = |count: usize, one: &str, many: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {many}"),
        };
        let mut words = Vec::new();
        let mut say = |count: usize, text: String| words.extend((count > 0).then_some(text));
        say(self.read, format!("read {}", many(self.read, "file", "files")));
        say(self.searched, format!("searched {}", times(self.searched)));
        say(self.ran, format!("ran {}", many(self.ran, "command", "commands")));
        say(self.fetched, format!("fetched {}", many(self.fetched, "page", "pages")));
        say(self.others, format!("used {}", many(self.others, "other tool", "other tools")));
        if self.others > 0 && words.len() == 1 {
            words = vec![format!("used {}", many(self.others, "tool", "tools"))];
        }
        let words = words.join(", ");
        let mut letters = words.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    }
}

/// Renders the line of several finished calls. `first` is the position of the first one.
pub(crate) fn run_line(counts: RunCounts, first: usize, took: Option<&str>, is_open: bool) -> Part {
    let html = html! {
        div.p.run-line data-part="run" {
            button.run type="button" data-action="run" data-first=(first) aria-expanded=(is_open) {
                (icons::icon("chevron")) (counts.words())
                @if let Some(took) = took { span.took { (took) } }
            }
        }
    };
    Part::new("run", html)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_calls_is_told_in_words() {
        let told =
            |read, searched, ran, fetched, others| RunCounts { read, searched, ran, fetched, others }.words();
        assert_eq!(told(8, 0, 3, 0, 0), "Read 8 files, ran 3 commands");
        assert_eq!(told(6, 2, 0, 0, 0), "Read 6 files, searched twice");
        assert_eq!(told(0, 1, 1, 1, 1), "Searched once, ran 1 command, fetched 1 page, used 1 other tool");
        assert_eq!(told(0, 0, 0, 0, 3), "Used 3 tools");
    }
}
