//! Terminals as screens with colours.

use std::fmt::Write;
use std::num::NonZeroU16;

use maud::{Markup, PreEscaped, html};
use switchboard_session::{Bytes, Terminal};
use vt100::{Cell, Color, Parser, Screen};

use super::text::{push_visible, size, visible, visible_line};
use super::{Part, RenderCache};

/// Of more output than this only the end is read.
const SHOWN_BYTES: usize = 96 << 10;
/// The beginning of what is read moves in steps of this size, so that lines stay where they are between two steps.
const STEP: usize = 32 << 10;
/// Lines above the screen that are kept.
const SCROLLBACK: usize = 1000;
/// The size of a screen that did not tell its own; the columns are many because nothing tells that lines were cut.
const DEFAULT_SIZE: (u16, u16) = (24, 160);
/// A larger screen is made smaller: somebody may ask for billions of cells.
const LARGEST_SIZE: (u16, u16) = (200, 400);

/// A terminal as a part.
pub(super) fn part(key: &str, terminal: &Terminal, cache: &RenderCache) -> Part {
    let (skipped, output) = end_of(terminal.output());
    let size = terminal.size().map(|size| (size.rows.get(), size.cols.get()));
    let facts =
        (terminal.id(), terminal.command(), terminal.cwd(), terminal.exit_status(), terminal.capabilities());
    cache.part(key, ("terminal", facts, size, skipped, &output), || {
        let screen = screen(&output, size.unwrap_or(DEFAULT_SIZE));
        html! {
            section.p.term data-part=(key) aria-label="Terminal" {
                (heading(terminal))
                @if skipped > 0 {
                    p.note { "The last " (self::size(output.len())) " of " (self::size(terminal.output().len())) " of output are shown." }
                }
                @if !screen.is_empty() {
                    pre.screen tabindex="0" { code { (PreEscaped(screen)) } }
                }
                (ending(terminal))
            }
        }
    })
}

fn heading(terminal: &Terminal) -> Markup {
    let can_cancel = terminal.capabilities().is_some_and(|capabilities| capabilities.cancel.is_some());
    html! {
        div.term-head {
            @if let Some(command) = terminal.command() {
                pre.cmd { code { span.dim aria-hidden="true" { "$ " } (visible(command)) } }
            } @else {
                span.dim { "Terminal " (visible_line(terminal.id())) }
            }
            @if let Some(cwd) = terminal.cwd() {
                span.dim.path { "in " (visible_line(cwd)) }
            }
            @if can_cancel && terminal.exit_status().is_none() {
                button type="button" data-action="cancel" data-terminal=(terminal.id()) { "Cancel" }
            }
        }
    }
}

fn ending(terminal: &Terminal) -> Markup {
    let Some(status) = terminal.exit_status() else {
        return html! { p.st.st-run { span aria-hidden="true" { "◐ " } "running" } };
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

/// The end of the output, from the beginning of a line on, and how many bytes come before it.
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

/// What a terminal of a size shows after an output, with the lines above it.
fn screen(output: &[u8], (rows, columns): (u16, u16)) -> String {
    let bounded = |wanted: u16, most: u16| NonZeroU16::new(wanted.clamp(1, most)).unwrap_or(NonZeroU16::MIN);
    let (rows, columns) = (bounded(rows, LARGEST_SIZE.0), bounded(columns, LARGEST_SIZE.1));
    let mut parser = Parser::new(rows, columns, SCROLLBACK);
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
    // As far up as it goes.
    screen.set_scrollback(usize::MAX);
    let above = screen.scrollback();
    let mut lines = Vec::new();
    let mut offset = above;
    while offset > 0 {
        screen.set_scrollback(offset);
        let count = offset.min(usize::from(rows.get()));
        lines.extend((0..count).map(|row| line(screen, row as u16, columns.get())));
        offset -= count;
    }
    screen.set_scrollback(0);
    lines.extend((0..rows.get()).map(|row| line(screen, row, columns.get())));
    let used = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    lines.truncate(used);
    lines.join("\n")
}

/// A program that writes to a pipe ends lines with a line feed alone, which on a terminal only goes down.
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

/// How a cell looks.
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

    /// Writes text that looks like this. Classes, because the page forbids styles in the markup.
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
            // The default colours change places too.
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

/// The place of a colour among the 256 that have a class. A page without styles in its markup cannot have all of the
/// 16 million, so a true colour becomes the nearest of those.
fn palette_index(color: Color) -> Option<u8> {
    match color {
        Color::Default => None,
        Color::Idx(index) => Some(index),
        Color::Rgb(red, green, blue) => Some(nearest(red, green, blue)),
    }
}

/// The nearest colour of the cube and the greys. The first 16 are the theme's and stand for no fixed colour.
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

/// The colour of a place after the first 16: a cube of 6 steps a side, and 24 greys.
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
