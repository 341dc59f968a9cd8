//! The icons of the page: outlines in a square of 16 units, in the colour of the text, always next to words or in a
//! named button. The page contains each outline once, as a symbol, and refers to it.

use maud::{Markup, html};
use switchboard_acp::v2;

/// Name and outline of every icon.
const ICONS: [(&str, &str); 31] = [
    ("read", "M4 1.5h5l3 3v10H4z M9 1.5v3h3"),
    ("edit", "M2.5 13.5l1-3.5L11 2.5 13.5 5 6 12.5z"),
    ("delete", "M3 4h10 M6 4V2.5h4V4 M4.5 4l.5 9.5h6l.5-9.5"),
    ("move", "M2 8h11 M9 4l4 4-4 4"),
    ("search", "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9z M10.5 10.5L14 14"),
    ("execute", "M1.5 2.5h13v11h-13z M4 6l2.5 2L4 10 M8 10.5h4"),
    ("think", "M2 3h12v8H7l-3 3v-3H2z M5 7h.01 M8 7h.01 M11 7h.01"),
    (
        "fetch",
        "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13z M1.5 8h13 M8 1.5c2.5 2 2.5 11 0 13 M8 1.5c-2.5 2-2.5 11 0 13",
    ),
    ("switch", "M2 5h10 M9 2l3 3-3 3 M14 11H4 M7 8l-3 3 3 3"),
    ("tool", "M8 1.5l5.5 3.2v6.6L8 14.5l-5.5-3.2V4.7z M8 6a2 2 0 1 0 0 4 2 2 0 0 0 0-4z"),
    ("attach", "M13 7l-5.5 5.5a3 3 0 0 1-4.2-4.2l6-6a2 2 0 0 1 2.8 2.8L6.5 10.7a1 1 0 0 1-1.4-1.4L10 4.5"),
    (
        "link",
        "M6.5 9.5l3-3 M7 4.5l1.5-1.5a3 3 0 0 1 4.3 4.3L11.3 8.8 M9 11.5L7.5 13a3 3 0 0 1-4.3-4.3L4.7 7.2",
    ),
    ("copy", "M5.5 5.5h8v8h-8z M10.5 5.5v-3h-8v8h3"),
    ("plus", "M8 3v10 M3 8h10"),
    ("menu", "M2.5 4.5h11 M2.5 8h11 M2.5 11.5h11"),
    (
        "more",
        "M3 8a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0 M7.4 8a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0 M11.8 8a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0",
    ),
    ("changes", "M5 2.5v6 M2 5.5h6 M2 12.5h6 M11 4h3 M11 8h3 M11 12h3"),
    ("close", "M4 4l8 8 M12 4l-8 8"),
    ("send", "M8 13V3 M4 7l4-4 4 4"),
    ("stop", "M5 5h6v6H5z"),
    ("chevron", "M6 4l4 4-4 4"),
    ("down", "M4 6l4 4 4-4"),
    ("up", "M4 10l4-4 4 4"),
    ("question", "M8 2L1.5 13.5h13z M8 6.5v3.5 M8 12v.01"),
    ("settings", "M2.5 5h6 M12 5h1.5 M10.2 3.3v3.4 M2.5 11h2 M8 11h5.5 M6.2 9.3v3.4"),
    ("pin", "M6 2h4 M6.5 2v4.5L4.5 9h7l-2-2.5V2 M8 9v5"),
    ("done", "M3.5 8.5l3 3 6-7"),
    ("undo", "M5.5 2.5L2.5 5.5l3 3 M2.5 5.5h7a4 4 0 0 1 0 8H6"),
    ("redo", "M10.5 2.5l3 3-3 3 M13.5 5.5h-7a4 4 0 0 0 0 8H10"),
    ("open", "M9.5 2.5h4v4 M13.5 2.5L7.5 8.5 M11.5 9.5v4h-9v-9h4"),
    ("agent", "M3 5.5h10v8H3z M8 5.5V2.5 M6 9v1 M10 9v1"),
];

/// Returns the icon and the name of a tool kind.
pub(super) fn of_kind(kind: &v2::ToolKind) -> (Markup, &str) {
    let (name, word) = match kind {
        v2::ToolKind::Read => ("read", "Read"),
        v2::ToolKind::Edit => ("edit", "Edit"),
        v2::ToolKind::Delete => ("delete", "Delete"),
        v2::ToolKind::Move => ("move", "Move"),
        v2::ToolKind::Search => ("search", "Search"),
        v2::ToolKind::Execute => ("execute", "Execute"),
        v2::ToolKind::Think => ("think", "Think"),
        v2::ToolKind::Fetch => ("fetch", "Fetch"),
        v2::ToolKind::SwitchMode => ("switch", "Switch mode"),
        v2::ToolKind::Other => ("tool", "Tool"),
        v2::ToolKind::Unknown(word) => ("tool", &**word),
        v2::ToolKind::More(none) => none.never(),
    };
    (icon(name), word)
}

/// Renders an icon by its name in the set.
pub(crate) fn icon(name: &str) -> Markup {
    debug_assert!(ICONS.iter().any(|(known, _)| *known == name), "{name} is not an icon");
    html! { svg.icon aria-hidden="true" { use href={ "#i-" (name) } {} } }
}

/// Returns the names of all icons.
#[cfg(debug_assertions)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ICONS.iter().map(|(name, _)| *name)
}

/// Renders the symbols of all icons, once for each page.
pub(crate) fn sprite() -> Markup {
    html! {
        svg.sprite aria-hidden="true" {
            @for (name, outline) in ICONS {
                symbol id={ "i-" (name) } viewBox="0 0 16 16" { path d=(outline) {} }
            }
        }
    }
}
