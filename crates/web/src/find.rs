//! Search in a session and in the output of a terminal, including the parts that the page does not show.

use maud::{Markup, html};
use serde::Serialize;
use switchboard_session::{Entry, Snapshot, Terminal};

use super::{export, render};

/// Maximum number of lines that are shown, from the first match on.
const MOST_HITS: usize = 200;
/// Number of bytes that are shown before and after a match.
const AROUND: usize = 160;

/// Maximum number of entries that a search in a session returns.
const MOST_ENTRIES: usize = 10_000;

/// Entries of a session that contain a text.
#[derive(Debug, Serialize)]
pub(crate) struct FoundEntries {
    /// Positions in order.
    positions: Vec<usize>,
    /// True if there are more.
    is_cut: bool,
}

/// Searches messages, tool calls and terminals. ASCII letters match case-insensitively.
pub(crate) fn in_session(snapshot: &Snapshot, query: &str) -> FoundEntries {
    let wanted = query.to_ascii_lowercase();
    let has_it = |entry: &Entry| match entry {
        // Its call has the output.
        Entry::Terminal(terminal) if render::has_tool_call(snapshot, terminal.id()) => false,
        Entry::Terminal(terminal) => {
            let output: Vec<u8> = terminal.output().pieces().flatten().copied().collect();
            let is_command = |command: &str| command.to_ascii_lowercase().contains(&wanted);
            plain(&output).to_ascii_lowercase().contains(&wanted)
                || terminal.command().is_some_and(is_command)
        }
        entry => export::copied(snapshot, entry).to_ascii_lowercase().contains(&wanted),
    };
    let mut found =
        snapshot.entries().enumerate().filter(|(_, entry)| has_it(entry)).map(|(position, _)| position);
    let positions = found.by_ref().take(MOST_ENTRIES).collect();
    FoundEntries { positions, is_cut: found.next().is_some() }
}

/// Renders the lines that contain a text. ASCII letters match case-insensitively.
pub(crate) fn in_output(terminal: &Terminal, query: &str) -> Markup {
    let wanted = query.to_ascii_lowercase();
    let mut output = Vec::with_capacity(terminal.output().len());
    for piece in terminal.output().pieces() {
        output.extend_from_slice(piece);
    }
    let text = plain(&output);
    let (mut hits, mut found, mut count) = (Vec::new(), 0, 0);
    for (place, line) in text.lines().enumerate() {
        count = place + 1;
        let Some(at) = line.to_ascii_lowercase().find(&wanted) else { continue };
        found += 1;
        if hits.len() < MOST_HITS {
            hits.push((place + 1, line, at));
        }
    }
    html! {
        p class="meta" {
            @if found == 1 { "1 line" } @else { (found) " lines" }
            " of " (count) @if found > hits.len() { "; the first " (hits.len()) " are shown" }
        }
        ol class="file" {
            @for (number, line, at) in hits { li value=(number) { code { (excerpt(line, at, wanted.len())) } } }
        }
    }
}

/// Renders a match, highlighted, with its context.
fn excerpt(line: &str, at: usize, length: usize) -> Markup {
    let end = at + length;
    let start = line.floor_char_boundary(at.saturating_sub(AROUND));
    let stop = line.ceil_char_boundary((end + AROUND).min(line.len()));
    html! {
        @if start > 0 { "…" }
        (render::visible_line(&line[start..at])) mark { (render::visible_line(&line[at..end])) }
        (render::visible_line(&line[end..stop]))
        @if stop < line.len() { "…" }
    }
}

/// Returns terminal output as plain text without control sequences. For an overwritten line, the last text counts.
fn plain(output: &[u8]) -> String {
    let mut text = Vec::with_capacity(output.len());
    let (mut bytes, mut line) = (output.iter().copied().peekable(), 0);
    while let Some(byte) = bytes.next() {
        match byte {
            0x1b => match bytes.next() {
                // A control sequence (CSI) ends at its first final byte, a command (OSC) at BEL or another escape.
                Some(b'[') => while bytes.next().is_some_and(|byte| !(0x40..=0x7e).contains(&byte)) {},
                Some(b']') => {
                    while let Some(byte) = bytes.next() {
                        if byte == 7 || (byte == 0x1b && bytes.next_if_eq(&b'\\').is_some()) {
                            break;
                        }
                    }
                }
                _ => {}
            },
            b'\r' if bytes.peek().is_some_and(|next| !matches!(next, b'\n' | b'\r')) => text.truncate(line),
            b'\n' => {
                text.push(byte);
                line = text.len();
            }
            b'\t' | b' '.. => text.push(byte),
            _ => {}
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use switchboard_acp::{Base64, WireFormat, v2};
    use switchboard_session::Session;

    use super::*;

    fn found(output: &[u8], query: &str) -> String {
        let mut session = Session::new(WireFormat::Any);
        let chunk = v2::TerminalOutputChunk::new("t", Base64::from_bytes(output));
        session.apply(&v2::SessionUpdate::TerminalOutputChunk(chunk));
        in_output(session.terminal("t").unwrap(), query).into_string()
    }

    #[test]
    fn a_line_is_found_whatever_its_colours_and_hostile_output_stays_text() {
        let shown = found(
            b"one\r\n\x1b[1;31mErr\x1b[0mor: <b>\n\x1b]0;title error\x07two\n10%\r99% error\n",
            "ERROR",
        );
        assert!(shown.contains("2 lines of 4"), "{shown}");
        assert!(
            shown.contains(r#"<li value="2"><code><mark>Error</mark>: &lt;b&gt;</code></li>"#),
            "{shown}"
        );
        assert!(shown.contains(r#"<li value="4"><code>99% <mark>error</mark></code></li>"#), "{shown}");
        assert!(found(b"", "x").contains("0 lines of 0"));
    }

    #[test]
    fn excerpts_are_bounded_and_cut_between_characters() {
        let many = found(&b"hit\n".repeat(3 * MOST_HITS), "hit");
        assert_eq!(many.matches("<mark>").count(), MOST_HITS);
        assert!(many.contains("600 lines of 600; the first 200 are shown"), "{many}");
        let long = found(format!("{}hit{}", "é".repeat(5000), "字".repeat(5000)).as_bytes(), "hit");
        assert!(long.len() < 1500 && long.contains("<mark>hit</mark>"), "{long}");
        for odd in ["\x1b", "\x1b[", "\x1b]", "\x1b]0;x", "\r", "\x1b]\x1b", "a\r\r\nb"] {
            let _ = found(odd.as_bytes(), "b");
        }
        assert_eq!(plain(b"a\r\r\nb\x1b]0;\x1b\\c"), "a\nbc");
    }
}
