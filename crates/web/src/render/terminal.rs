//! Terminals as screens with colours.

use std::fmt::Write;
use std::num::NonZeroU16;

use maud::{Markup, PreEscaped, html};
use switchboard_acp::v2;
use switchboard_session::{Bytes, Permission, Snapshot, Terminal};
use vt100::{Cell, Color, Parser, Screen};

use super::text::{push_visible, relative, size, survives, visible, visible_line};
use super::{Part, RenderCache};

/// Maximum number of bytes that are shown of the output, from its end.
const SHOWN_BYTES: usize = 64 << 10;
/// Step size in bytes by which the start of longer output moves, so that lines are stable between two steps.
const STEP: usize = 16 << 10;
/// Minimum length of output in bytes for which a search is offered.
const SEARCHABLE: usize = 1000;
/// Maximum number of lines above the screen.
const SCROLLBACK: usize = 1000;
/// Maximum number of cells that the output may write. Beyond it the start is skipped, because a few bytes can clear a
/// whole screen.
const MOST_CELLS: usize = 4_000_000;
/// Default size of a screen in rows and columns. The columns are many, because nothing shows that lines were cut.
const DEFAULT_SIZE: (u16, u16) = (24, 160);
/// Maximum size of a screen in rows and columns. An agent may declare billions of cells.
const LARGEST_SIZE: (u16, u16) = (100, 300);

/// Progress of a terminal's command without an exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Progress {
    /// The permission to run it is pending.
    Asked,
    /// The permission to run it was rejected.
    Refused,
    Running,
}

impl Progress {
    /// Derives the progress from the latest permission request for the terminal or for a tool call that shows it.
    fn of(snapshot: &Snapshot, terminal: &Terminal) -> Self {
        let is_about = |permission: &&Permission| {
            let command = match permission.subject() {
                Some(v2::RequestPermissionSubject::Command(command)) => command.terminal_id.as_deref(),
                _ => None,
            };
            let call = permission.tool_call_id().and_then(|id| snapshot.tool_call(id));
            command == Some(terminal.id())
                || call.is_some_and(|call| call.terminal_ids().any(|id| id == terminal.id()))
        };
        match snapshot.permissions().filter(is_about).last() {
            Some(permission) if permission.settlement().is_pending() => Progress::Asked,
            Some(permission) if !permission.is_granted() => Progress::Refused,
            _ => Progress::Running,
        }
    }
}

/// Renders a terminal as a part.
pub(super) fn part(
    key: &str,
    snapshot: &Snapshot,
    terminal: &Terminal,
    folder: &str,
    cache: &RenderCache,
) -> Part {
    let progress = Progress::of(snapshot, terminal);
    let size = terminal.size().map_or(DEFAULT_SIZE, |size| (size.rows.get(), size.cols.get()));
    let size = (size.0.min(LARGEST_SIZE.0), size.1.min(LARGEST_SIZE.1));
    let (skipped, output) = end_of(terminal.output());
    let facts =
        (terminal.id(), terminal.command(), terminal.cwd(), terminal.exit_status(), terminal.capabilities());
    cache.part(key, ("terminal", facts, folder, size, skipped, &output, progress), || {
        let expensive = expensive_length(&output, size);
        let (skipped, output) = (skipped + expensive, &output[expensive..]);
        let screen = screen(output, size);
        html! {
            section.p.term data-part=(key) aria-label="Terminal" {
                (heading(terminal, folder))
                @if skipped > 0 {
                    p.note { "The last " (self::size(output.len())) " of " (self::size(terminal.output().len())) " of output are shown." }
                }
                @if !screen.is_empty() {
                    pre.screen tabindex="0" { code { (PreEscaped(screen)) } }
                }
                (ending(terminal, progress))
            }
        }
    })
}

fn heading(terminal: &Terminal, folder: &str) -> Markup {
    let can_cancel = terminal.capabilities().is_some_and(|capabilities| capabilities.cancel.is_some());
    html! {
        div.term-head {
            @if let Some(command) = terminal.command() {
                pre.cmd { code { span.dim aria-hidden="true" { "$ " } (visible(command)) } }
            } @else {
                span.dim { "Terminal " (visible_line(terminal.id())) }
            }
            @if let Some(cwd) = terminal.cwd().filter(|cwd| *cwd != folder) {
                span.dim.path { "in " (visible_line(relative(cwd, folder))) }
            }
            @if terminal.output().len() > SEARCHABLE && survives(terminal.id()) {
                button type="button" data-action="find-output" data-terminal=(terminal.id()) { "Search" }
            }
            @if can_cancel && terminal.exit_status().is_none() && survives(terminal.id()) {
                button type="button" data-action="cancel" data-terminal=(terminal.id()) { "Cancel" }
            }
        }
    }
}

fn ending(terminal: &Terminal, progress: Progress) -> Markup {
    let Some(status) = terminal.exit_status() else {
        return match progress {
            Progress::Asked => {
                html! { p.st.st-wait { span aria-hidden="true" { "! " } "waiting for permission" } }
            }
            Progress::Refused => html! { p.st.st-off { span aria-hidden="true" { "∅ " } "not allowed" } },
            Progress::Running => html! { p.st.st-run { span aria-hidden="true" { "◐ " } "running" } },
        };
    };
    html! {
        @match (status.exit_code, status.signal.as_deref()) {
            (_, Some(signal)) => p.st.st-bad { span aria-hidden="true" { "✗ " } "ended by signal " (visible_line(signal)) },
            (Some(0), None) => p.st.st-good { span aria-hidden="true" { "✓ " } "exited with 0" },
            (Some(code), None) => p.st.st-bad { span aria-hidden="true" { "✗ " } "exited with " (code) },
            (None, None) => p.st.st-off { "exited" },
        }
    }
}

/// Returns the end of the output from the start of a line, and the number of bytes before it.
fn end_of(output: &Bytes) -> (usize, Vec<u8>) {
    let start =
        if output.len() <= SHOWN_BYTES { 0 } else { (output.len() - SHOWN_BYTES).next_multiple_of(STEP) };
    let mut bytes = Vec::with_capacity(output.len() - start);
    let mut place = 0;
    for piece in output.pieces() {
        let skipped = start.saturating_sub(place).min(piece.len());
        bytes.extend_from_slice(&piece[skipped..]);
        place += piece.len();
    }
    if start == 0 {
        return (0, bytes);
    }
    let cut = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    bytes.drain(..cut);
    (start + cut, bytes)
}

/// Returns the number of bytes to skip at the start, so that the rest renders in bounded time.
fn expensive_length(output: &[u8], (rows, columns): (u16, u16)) -> usize {
    let (line, screen) = (usize::from(columns), usize::from(rows) * usize::from(columns));
    let mut events = Vec::new();
    let mut at = 0;
    while let Some(found) = output[at..].iter().position(|byte| matches!(byte, b'\n' | b'\x1b')) {
        at += found + 1;
        let rest = &output[at..];
        let cost = match (output[at - 1], rest.first()) {
            (b'\x1b', Some(b'[')) => {
                let end = rest.iter().skip(1).position(|byte| (0x40..=0x7E).contains(byte)).unwrap_or(0) + 1;
                let is_digit = |byte: &&u8| byte.is_ascii_digit();
                match rest.get(end) {
                    Some(b'J' | b'S' | b'T' | b'L' | b'M' | b'h' | b'l') => screen,
                    // Repeats a character, at most 65,535 times.
                    Some(b'b') if rest[1..end].iter().filter(is_digit).count() > 3 => 65_535,
                    Some(b'b' | b'@' | b'P' | b'X' | b'K') => line.max(999),
                    _ => 1,
                }
            }
            (b'\x1b', Some(b'c')) => screen,
            _ => line,
        };
        events.push((at, cost));
    }
    let mut cells = 0;
    let is_too_much = |(_, cost): &&(usize, usize)| {
        cells += cost;
        cells > MOST_CELLS
    };
    let Some((place, _)) = events.iter().rev().find(is_too_much) else { return 0 };
    let to_line = output[*place..].iter().position(|byte| *byte == b'\n').filter(|length| *length < STEP);
    place + to_line.map_or(0, |length| length + 1)
}

/// Renders the screen after an output, with the scrollback.
fn screen(output: &[u8], (rows, columns): (u16, u16)) -> String {
    let at_least_one = |wanted: u16| NonZeroU16::new(wanted).unwrap_or(NonZeroU16::MIN);
    let mut parser = Parser::new(at_least_one(rows), at_least_one(columns), SCROLLBACK);
    if has_bare_line_feeds(output) {
        for line in output.split_inclusive(|byte| *byte == b'\n') {
            parser.process(line);
            if line.ends_with(b"\n") {
                parser.process(b"\r");
            }
        }
    } else {
        parser.process(output);
    }
    let screen = parser.screen_mut();
    let mut lines = Vec::new();
    // Reads the scrollback from the top, line by line: only the first row is found in constant time.
    screen.set_scrollback(usize::MAX);
    for offset in (1..=screen.scrollback()).rev() {
        screen.set_scrollback(offset);
        lines.push(line(screen, 0, columns));
    }
    screen.set_scrollback(0);
    lines.extend((0..rows).map(|row| line(screen, row, columns)));
    let used = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    lines.truncate(used);
    lines.join("\n")
}

/// Returns `true` if most lines end with a bare line feed, as in the output to a pipe. A terminal would not return to
/// the first column.
fn has_bare_line_feeds(output: &[u8]) -> bool {
    let line_feeds = output.iter().filter(|byte| **byte == b'\n').count();
    let pairs = output.windows(2).filter(|pair| *pair == b"\r\n").count();
    line_feeds > pairs * 2
}

fn line(screen: &Screen, row: u16, columns: u16) -> String {
    let cells: Vec<&Cell> = (0..columns).filter_map(|column| screen.cell(row, column)).collect();
    let is_used = |cell: &&Cell| cell.has_contents() || look(cell).shows_blanks();
    let used = cells.iter().rposition(is_used).map_or(0, |last| last + 1);
    let mut out = String::new();
    let mut text = String::new();
    let mut current = Look::default();
    for cell in cells.iter().take(used).filter(|cell| !cell.is_wide_continuation()) {
        let look = look(cell);
        if look != current {
            current.push(&mut out, &text);
            text.clear();
            current = look;
        }
        text.push_str(if cell.has_contents() { cell.contents() } else { " " });
    }
    current.push(&mut out, &text);
    out
}

/// Attributes of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Look {
    foreground: Option<u8>,
    background: Option<u8>,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    inverse: bool,
}

fn look(cell: &Cell) -> Look {
    Look {
        foreground: palette_index(cell.fgcolor()),
        background: palette_index(cell.bgcolor()),
        bold: cell.bold(),
        dim: cell.dim(),
        italic: cell.italic(),
        underline: cell.underline(),
        inverse: cell.inverse(),
    }
}

impl Look {
    fn shows_blanks(self) -> bool {
        self.background.is_some() || self.inverse || self.underline
    }

    /// Writes text with these attributes. Uses classes, because the content security policy forbids inline styles.
    fn push(self, out: &mut String, text: &str) {
        if text.is_empty() {
            return;
        }
        if self == Look::default() {
            push_visible(out, text);
            return;
        }
        let numbered = |prefix: char, color: Option<u8>| color.map(|color| format!("{prefix}{color}"));
        let (text_color, ground) = if self.inverse {
            // Inverse video swaps the default colours, too.
            let or_other = |class: Option<String>, other: &str| class.or_else(|| Some(other.to_owned()));
            (or_other(numbered('f', self.background), "fx"), or_other(numbered('k', self.foreground), "kx"))
        } else {
            (numbered('f', self.foreground), numbered('k', self.background))
        };
        let marks = [(self.bold, "tb"), (self.dim, "td"), (self.italic, "ti"), (self.underline, "tu")];
        let marks = marks.into_iter().filter(|(is_set, _)| *is_set).map(|(_, class)| class.to_owned());
        let classes: Vec<String> = text_color.into_iter().chain(ground).chain(marks).collect();
        let _ = write!(out, "<span class=\"{}\">", classes.join(" "));
        push_visible(out, text);
        out.push_str("</span>");
    }
}

/// Returns the palette index of a colour. Inline styles are forbidden, so a true colour becomes the nearest of the
/// 256 with a class.
fn palette_index(color: Color) -> Option<u8> {
    match color {
        Color::Default => None,
        Color::Idx(index) => Some(index),
        Color::Rgb(red, green, blue) => Some(nearest(red, green, blue)),
    }
}

/// Returns the nearest colour of the cube and the greys. The first 16 belong to the theme, and have no fixed value.
fn nearest(red: u8, green: u8, blue: u8) -> u8 {
    let distance = |candidate: &u8| {
        let (r, g, b) = palette_color(*candidate);
        [(red, r), (green, g), (blue, b)]
            .map(|(left, right)| u32::from(left.abs_diff(right)).pow(2))
            .iter()
            .sum::<u32>()
    };
    (16..=255).min_by_key(distance).unwrap_or(15)
}

/// Returns the colour of an index from 16 on: a cube of 6 steps per side, and 24 greys.
fn palette_color(index: u8) -> (u8, u8, u8) {
    let step = |digit: u8| if digit == 0 { 0 } else { 55 + 40 * digit };
    match index.saturating_sub(16) {
        place @ 0..216 => (step(place / 36), step(place / 6 % 6), step(place % 6)),
        place => {
            let grey = 8 + 10 * (place - 216);
            (grey, grey, grey)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_sheet_has_every_colour() {
        let css = include_str!("../assets/entries.css");
        for index in 0..=255 {
            let start = format!(".f{index}{{color:#");
            let place = css.find(&start).unwrap_or_else(|| panic!("no {start}"));
            let color = &css[place + start.len()..place + start.len() + 6];
            assert!(css.contains(&format!(".k{index}{{background:#{color}}}")), "{index}");
            if index >= 16 {
                let (red, green, blue) = palette_color(index);
                assert_eq!(color, format!("{red:02x}{green:02x}{blue:02x}"), "{index}");
            }
        }
    }

    #[test]
    fn true_colours_become_the_nearest_of_the_palette() {
        assert_eq!(nearest(0, 0, 0), 16);
        assert_eq!(nearest(255, 255, 255), 231);
        assert_eq!(nearest(255, 0, 0), 196);
        assert_eq!(nearest(90, 90, 90), 240);
        for index in 16..=255 {
            let (red, green, blue) = palette_color(index);
            assert_eq!(palette_color(nearest(red, green, blue)), (red, green, blue));
        }
    }

    #[track_caller]
    fn check(output: &str, size: (u16, u16), expected: &str) {
        assert_eq!(screen(output.as_bytes(), size), expected, "{output:?}");
    }

    #[test]
    fn a_screen_equals_that_of_a_terminal() {
        check("one\r\ntwo\rT", (4, 20), "one\nTwo");
        check("a\x1b[2;5Hb\x1b[1;1HA", (4, 20), "A\n    b");
        check("progress 10%\rprogress 99%", (4, 20), "progress 99%");
        check("\x1b[?1049hgone\x1b[?1049lback", (4, 20), "back");
        check("字 \u{1b}[4m<\u{1b}[0m", (4, 20), "字 <span class=\"tu\">&lt;</span>");
        check("\x1b[7m \x1b[0m", (4, 20), "<span class=\"fx kx\"> </span>");
    }

    #[test]
    fn lines_of_a_pipe_begin_at_the_left() {
        check("a\nb\nc\n", (4, 20), "a\nb\nc");
        check("a\r\nb\r\n", (4, 20), "a\nb");
    }

    #[test]
    fn lines_above_the_screen_stay_up_to_a_limit() {
        let lines: Vec<String> = (0..3000).map(|number| format!("line {number}")).collect();
        let shown = screen((lines.join("\n") + "\n").as_bytes(), (10, 20));
        // The last row of the screen is the empty one after the last line.
        let kept = SCROLLBACK + 9;
        assert_eq!(shown, lines[3000 - kept..].join("\n"));
    }

    #[test]
    fn output_that_is_expensive_to_show_is_cut_to_its_end() {
        let size = (100, 300);
        assert_eq!(expensive_length(&b"line\n".repeat(10_000), size), 0);
        assert_eq!(expensive_length(&b"\x1b[1;32mok\x1b[0m\x1b[K".repeat(3000), size), 0);
        for bomb in ["\x1b[2J", "\x1b[99999S", "\x1b[?1049h", "\x1bc", "a\x1b[65535b", "\x1b[9999L"] {
            let output = bomb.repeat(10_000);
            let length = expensive_length(output.as_bytes(), size);
            assert!(length > output.len() / 2 && length < output.len(), "{bomb:?}: {length}");
        }
    }

    #[test]
    fn long_output_begins_with_a_whole_line_that_stays_for_a_while() {
        let mut session = switchboard_session::Session::new(switchboard_acp::WireFormat::Any);
        let mut starts = Vec::new();
        for number in 0..30_000 {
            let data = switchboard_acp::Base64::from_bytes(format!("line {number}\n").as_bytes());
            let chunk = v2::TerminalOutputChunk::new("t", data);
            session.apply(&v2::SessionUpdate::TerminalOutputChunk(chunk));
            let Some(terminal) = session.terminal("t").filter(|_| number % 100 == 0) else { continue };
            let (skipped, output) = end_of(terminal.output());
            assert!(output.len() <= SHOWN_BYTES && output.starts_with(b"line "));
            assert_eq!(skipped + output.len(), terminal.output().len());
            starts.push(skipped);
        }
        starts.dedup();
        let length = session.terminal("t").map_or(0, |terminal| terminal.output().len());
        assert!((10..=length / STEP).contains(&starts.len()), "{starts:?}");
    }
}
