//! Sub-agents, and messages between sessions.

use std::fmt::Write;

use maud::{Markup, html};
use switchboard_acp::v2;
use switchboard_session::{Item, SessionMessage, Snapshot, Subagent};

use super::message::{Reading, content_parts, fold};
use super::text::{cut, prose, survives, visible_line};
use super::{Part, RenderCache, Waits, panel};
use crate::subagents::Named;

/// Maximum number of bytes that are shown of a sub-agent's description.
const DESCRIPTION_BYTES: usize = 4 << 10;

/// Context of an entry, for links to other sessions and their names.
pub(crate) struct Place<'a> {
    /// Recording that links point to; without one there are no links.
    pub(crate) recording: &'a str,
    /// Session that contains the entry.
    pub(crate) session: &'a str,
    /// Folder of the session, to which paths are relative. Empty if it is not known.
    pub(crate) folder: &'a str,
    /// Parent of that session.
    pub(crate) parent: Option<&'a str>,
    /// Returns `true` if a sub-agent is shown in the entry itself or in a tool call of the same session.
    pub(crate) is_shown_here: &'a dyn Fn(&str) -> bool,
    /// Returns the name of a sub-agent.
    pub(crate) name: &'a dyn Fn(&str) -> Option<String>,
}

impl Default for Place<'_> {
    fn default() -> Self {
        Place {
            recording: "",
            session: "",
            folder: "",
            parent: None,
            is_shown_here: &|_| false,
            name: &|_| None,
        }
    }
}

impl Place<'_> {
    /// Renders a link to another session, with a name.
    pub(super) fn link(&self, session: &str, name: &str) -> Markup {
        match self.recording {
            "" => html! { code { (visible_line(name)) } },
            recording => link(recording, session, &visible_line(name)),
        }
    }
}

/// Renders a link to a session. There is no link if the id would not survive the address.
pub(crate) fn link(recording: &str, session: &str, words: &Markup) -> Markup {
    if !survives(session) || session.is_empty() {
        return words.clone();
    }
    html! {
        a.to-session href=(address(recording, session)) data-action="look" data-recording=(recording)
            data-session=(session) { (words) }
    }
}

/// Renders links to sessions, each a child of the one before.
pub(crate) fn line(recording: &str, sessions: &[Named]) -> Markup {
    html! {
        @for (place, session) in sessions.iter().enumerate() {
            @if place > 0 { span aria-hidden="true" { " › " } }
            (link(recording, &session.id, &visible_line(&session.name)))
        }
    }
}

/// Renders the path of the sub-agent that asks a question, from the root.
pub(crate) fn whose(recording: &str, sessions: &[Named]) -> Part {
    let html = html! { p.p.whose data-part="whose" { "Asked by a sub-agent: " (line(recording, sessions)) } };
    Part::new("whose", html)
}

/// Returns the address of a session's view.
fn address(recording: &str, session: &str) -> String {
    let mut address = String::from("/r");
    for part in [recording, session] {
        address.push('/');
        for byte in part.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
                address.push(char::from(byte));
            } else {
                // Writing to a string does not fail.
                let _ = write!(address, "%{byte:02X}");
            }
        }
    }
    address
}

/// Progress of a sub-agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// As reported by the sub-agent or its parent, as words.
    Told(&'static str),
    Waits(Waits),
    /// The agent process has exited.
    Over,
}

/// Renders the state of a sub-agent as words and colour.
pub(crate) fn work(state: Option<&v2::StateUpdate<'_>>, words: &str) -> Markup {
    use v2::{StateUpdate as State, StopReason};
    let (class, mark) = match state {
        Some(State::Running(_)) => ("st st-run", "◐ "),
        Some(State::RequiresAction(_)) => ("st st-wait", "! "),
        Some(State::Idle(idle)) => match idle.stop_reason {
            Some(StopReason::Cancelled) => ("st st-off", "∅ "),
            Some(StopReason::EndTurn | StopReason::Unknown(_)) | None => ("st st-good", "✓ "),
            _ => ("st st-bad", "✗ "),
        },
        Some(State::Unobservable(_) | State::Unknown(_)) | None => ("st st-off", "? "),
        Some(State::More(none)) => none.never(),
    };
    html! { span class=(class) { span aria-hidden="true" { (mark) } (words) } }
}

fn status(nest: &Nest<'_>) -> Markup {
    let (class, mark, words) = match nest.work {
        Work::Told(words) => return work(nest.state, words),
        Work::Waits(Waits::ForYou) => ("st st-wait", "! ", "waiting for you"),
        Work::Waits(Waits::ForAnswer) => ("st st-wait", "! ", "waiting for an answer"),
        Work::Over => ("st st-off", "∅ ", "gone with the agent"),
    };
    html! { span class=(class) { span aria-hidden="true" { (mark) } (words) } }
}

/// A sub-agent inside the entry that started it.
pub(crate) struct Nest<'a> {
    pub(crate) recording: &'a str,
    pub(crate) session: &'a str,
    /// Description by the parent session.
    pub(crate) subagent: Option<&'a Subagent>,
    pub(crate) name: &'a str,
    pub(crate) state: Option<&'a v2::StateUpdate<'a>>,
    pub(crate) work: Work,
    /// `true` if the entry contains nothing else.
    pub(crate) is_by_itself: bool,
    pub(crate) can_cancel: bool,
    pub(crate) can_unfold: bool,
    /// If unfolded, the number of entries before the first shown one.
    pub(crate) left_out: Option<usize>,
}

/// Renders the heading of a sub-agent, and if unfolded its description and plan.
pub(crate) fn nest(nest: &Nest<'_>, inside: &Snapshot, cache: &RenderCache) -> Vec<Part> {
    let mut parts = vec![Part::new("head", head(nest, inside))];
    let Some(left_out) = nest.left_out else { return parts };
    if let Some(words) = nest.subagent.and_then(|subagent| long_description(subagent, nest.name)) {
        parts.push(Part::new("words", html! { p.p.note data-part="words" { (prose(words)) } }));
    }
    if inside.plans().next().is_some() {
        let plans = panel::plans(inside, cache);
        parts.push(Part::new("plans", html! { div.p.nest-plan data-part="plans" { (plans) } }));
    }
    if left_out > 0 {
        let words = html! { "Show all by itself" };
        let html = html! {
            p.p.note data-part="before" {
                (left_out) @if left_out == 1 { " earlier entry. " } @else { " earlier entries. " }
                (link(nest.recording, nest.session, &words))
            }
        };
        parts.push(Part::new("before", html));
    } else if inside.is_empty() {
        let words = "Nothing has come of it yet.";
        parts.push(Part::new("empty", html! { p.p.note data-part="empty" { (words) } }));
    }
    parts
}

/// Renders the number of sub-agents that an entry does not show, with a button that lists all.
pub(crate) fn more(count: usize) -> Option<Part> {
    (count > 0).then(|| {
        let html = html! {
            p.p.note data-part="more" {
                (count) " earlier sub-agents are not shown here. "
                button type="button" data-action="family" { "List all" }
            }
        };
        Part::new("more", html)
    })
}

/// Returns the description of a sub-agent, unless its name contains it.
fn long_description<'s>(subagent: &'s Subagent, name: &str) -> Option<&'s str> {
    let description = subagent.description().map(str::trim).filter(|words| !words.is_empty())?;
    (!name.contains(description)).then(|| cut(description, DESCRIPTION_BYTES))
}

fn head(nest: &Nest<'_>, inside: &Snapshot) -> Markup {
    let name = nest.name;
    let is_safe = survives(nest.session);
    let can_cancel = nest.can_cancel
        && nest.subagent.and_then(Subagent::capabilities).is_some_and(|can| can.cancel.is_some());
    let title = html! { span.sr { "Sub-agent: " } (visible_line(name)) };
    let by_itself = html! { span aria-hidden="true" { "↗" } span.sr { "Open by itself" } };
    html! {
        header.p.head.nest-head data-part="head" {
            @if nest.can_unfold && is_safe {
                button.nest-fold type="button" data-action="nest" data-session=(nest.session) { (title) }
            } @else {
                span.nest-name { (title) }
            }
            (status(nest))
            @if nest.is_by_itself { span.took {} }
            @if nest.left_out.is_none() && !inside.is_empty() {
                span.dim.count { (inside.len()) @if inside.len() == 1 { " entry" } @else { " entries" } }
            }
            @if can_cancel && is_safe {
                button type="button" data-action="cancel-session" data-session=(nest.session) { "Cancel" }
            }
            span.by-itself title="Open by itself" { (link(nest.recording, nest.session, &by_itself)) }
        }
    }
}

/// Renders a sub-agent whose transcript is not shown in this session.
pub(super) fn elsewhere(subagent: &Subagent, place: &Place<'_>) -> Vec<Part> {
    let name = subagent.title().or(subagent.description()).unwrap_or(subagent.session_id());
    let head = html! {
        header.p.head data-part="head" {
            span.who { "Sub-agent: " (place.link(subagent.session_id(), name)) }
            (work(subagent.state(), subagent.state_in_words()))
        }
    };
    let note = html! {
        p.p.note data-part="note" { "It is not shown here, because it belongs to another session or cannot be told apart." }
    };
    let words = long_description(subagent, name)
        .map(|words| Part::new("words", html! { p.p.note data-part="words" { (prose(words)) } }));
    [Part::new("head", head)].into_iter().chain(words).chain([Part::new("note", note)]).collect()
}

/// Renders a message from one session to another. Messages to and from a sub-agent are also in its own transcript,
/// and mostly for agents, so this one is folded with its first line as heading.
pub(super) fn session_message(
    snapshot: &Snapshot,
    message: &SessionMessage,
    place: &Place<'_>,
    cache: &RenderCache,
) -> Vec<Part> {
    let name = |id: &str| match (place.name)(id) {
        _ if place.parent == Some(id) => html! { (place.link(id, "the session above")) },
        Some(name) => html! { "sub-agent " (place.link(id, &name)) },
        None => html! { "session " (place.link(id, id)) },
    };
    let is_here = |id: Option<&str>| id.is_some_and(|id| id == place.session);
    let end = |id: Option<&str>| id.map_or_else(|| html! { "an unknown session" }, name);
    let (from, to) = (message.sender(), message.recipient());
    let words = match (is_here(from), is_here(to)) {
        (true, false) => html! { "To " (end(to)) },
        (false, true) => html! { "From " (end(from)) },
        _ => html! { "From " (end(from)) " to " (end(to)) },
    };
    let is_with_child = [from, to].into_iter().flatten().any(|id| snapshot.subagent(id).is_some());
    let head = match is_with_child {
        true => fold(html! { span.who { (words) " " span.begins { (visible_line(&beginning(message))) } } }),
        false => html! { header.p.head data-part="head" { span.who { (words) } } },
    };
    let mut parts = vec![Part::new("head", head)];
    parts.extend(content_parts(message.content(), Reading::Markdown, cache));
    parts
}

/// Maximum number of bytes of a message in its heading.
const BEGINNING_BYTES: usize = 80;

/// Returns the first line of a message, cut at a maximum length.
fn beginning(message: &SessionMessage) -> String {
    let mut beginning = String::new();
    for text in message.content().items().filter_map(Item::text) {
        let text = if beginning.is_empty() { text.trim_start() } else { text };
        let (line, is_over) = text.split_once('\n').map_or((text, false), |(line, _)| (line, true));
        beginning.push_str(cut(line, BEGINNING_BYTES));
        if is_over || beginning.len() >= BEGINNING_BYTES {
            break;
        }
    }
    match beginning.len() {
        0..BEGINNING_BYTES => beginning,
        _ => format!("{}…", cut(&beginning, BEGINNING_BYTES)),
    }
}
