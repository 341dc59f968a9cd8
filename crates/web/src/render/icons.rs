//! Small icons in the colour of the text, always next to words.

use maud::{Markup, html};
use switchboard_acp::v2;

const READ: &str = "M4 1.5h5l3 3v10H4z M9 1.5v3h3";
const EDIT: &str = "M2.5 13.5l1-3.5L11 2.5 13.5 5 6 12.5z";
const DELETE: &str = "M3 4h10 M6 4V2.5h4V4 M4.5 4l.5 9.5h6l.5-9.5";
const MOVE: &str = "M2 8h11 M9 4l4 4-4 4";
const SEARCH: &str = "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9z M10.5 10.5L14 14";
const EXECUTE: &str = "M1.5 2.5h13v11h-13z M4 6l2.5 2L4 10 M8 10.5h4";
const THINK: &str = "M2 3h12v8H7l-3 3v-3H2z M5 7h.01 M8 7h.01 M11 7h.01";
const FETCH: &str = "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13z M1.5 8h13 M8 1.5c2.5 2 2.5 11 0 13 \
    M8 1.5c-2.5 2-2.5 11 0 13";
const SWITCH_MODE: &str = "M2 5h10 M9 2l3 3-3 3 M14 11H4 M7 8l-3 3 3 3";
const OTHER: &str = "M8 1.5l5.5 3.2v6.6L8 14.5l-5.5-3.2V4.7z M8 6a2 2 0 1 0 0 4 2 2 0 0 0 0-4z";
const ATTACHMENT: &str =
    "M13 7l-5.5 5.5a3 3 0 0 1-4.2-4.2l6-6a2 2 0 0 1 2.8 2.8L6.5 10.7a1 1 0 0 1-1.4-1.4L10 4.5";
const LINK: &str =
    "M6.5 9.5l3-3 M7 4.5l1.5-1.5a3 3 0 0 1 4.3 4.3L11.3 8.8 M9 11.5L7.5 13a3 3 0 0 1-4.3-4.3L4.7 7.2";

/// Returns the icon and the name of a tool kind.
pub(super) fn of_kind(kind: &v2::ToolKind) -> (Markup, &str) {
    let (outline, word) = match kind {
        v2::ToolKind::Read => (READ, "Read"),
        v2::ToolKind::Edit => (EDIT, "Edit"),
        v2::ToolKind::Delete => (DELETE, "Delete"),
        v2::ToolKind::Move => (MOVE, "Move"),
        v2::ToolKind::Search => (SEARCH, "Search"),
        v2::ToolKind::Execute => (EXECUTE, "Execute"),
        v2::ToolKind::Think => (THINK, "Think"),
        v2::ToolKind::Fetch => (FETCH, "Fetch"),
        v2::ToolKind::SwitchMode => (SWITCH_MODE, "Switch mode"),
        v2::ToolKind::Other => (OTHER, "Tool"),
        v2::ToolKind::Unknown(word) => (OTHER, &**word),
        v2::ToolKind::More(none) => none.never(),
    };
    (icon(outline), word)
}

pub(super) fn attachment() -> Markup {
    icon(ATTACHMENT)
}

pub(super) fn link() -> Markup {
    icon(LINK)
}

/// Renders an outline in a square of 16 units.
fn icon(outline: &str) -> Markup {
    html! { svg.icon viewBox="0 0 16 16" aria-hidden="true" { path d=(outline) {} } }
}
