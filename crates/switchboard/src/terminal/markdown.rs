//! Streaming Markdown.

use switchboard_acp::display::visible;
use termimad::{Alignment, MadSkin};

/// Splits a stream of Markdown into parts that can be shown: single lines, but code and tables as a whole.
#[derive(Debug, Default)]
pub(crate) struct MarkdownStream {
    waiting: String,
}

impl MarkdownStream {
    /// Appends a chunk and returns the complete parts.
    pub(crate) fn push(&mut self, piece: &str) -> Option<String> {
        self.waiting.push_str(piece);
        let complete = complete_length(&self.waiting);
        if complete == 0 {
            return None;
        }
        let rest = self.waiting.split_off(complete);
        Some(std::mem::replace(&mut self.waiting, rest))
    }

    /// Returns the rest.
    pub(crate) fn finish(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.waiting);
        (!rest.is_empty()).then_some(rest)
    }

    /// Returns the last incomplete line, to show progress.
    pub(crate) fn tail(&self) -> &str {
        self.waiting.lines().last().unwrap_or("")
    }
}

/// Returns the length of the complete text: up to the last line end outside of code blocks and tables.
fn complete_length(text: &str) -> usize {
    let mut complete = 0;
    let mut at = 0;
    let mut fence: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        at += line.len();
        if !line.ends_with('\n') {
            break;
        }
        let content = line.trim();
        match fence {
            Some(mark) if content.starts_with(mark) && content.trim_matches(['`', '~']).is_empty() => {
                fence = None;
                complete = at;
            }
            Some(_) => {}
            None if content.starts_with("```") => fence = Some("```"),
            None if content.starts_with("~~~") => fence = Some("~~~"),
            // The next line may belong to the table too.
            None if content.starts_with('|') => {}
            None => complete = at,
        }
    }
    complete
}

/// Renders Markdown for a terminal of a maximum width.
pub(crate) fn render(markdown: &str, coloured: bool, width: usize) -> String {
    let mut skin = if coloured { MadSkin::default() } else { MadSkin::no_style() };
    for header in &mut skin.headers {
        header.align = Alignment::Left;
    }
    let shown = visible(markdown);
    let shown =
        if shown.contains("```") || shown.contains("~~~") { shown } else { with_flat_lists(&shown).into() };
    skin.text(&shown, Some(width.max(20))).to_string()
}

/// Removes the indentation of an inner list's item, which alone would be rendered as code.
fn with_flat_lists(text: &str) -> String {
    let mut flat = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_start_matches(' ');
        let indentation = line.len() - content.len();
        let is_item = ["- ", "* ", "+ "].iter().any(|mark| content.starts_with(mark));
        if is_item && indentation > 3 {
            flat.push_str("   ");
            flat.push_str(content);
        } else {
            flat.push_str(line);
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_at_once_but_code_and_tables_as_a_whole() {
        let mut stream = MarkdownStream::default();
        assert_eq!(stream.push("# Head"), None);
        assert_eq!(stream.push("ing\ntext"), Some("# Heading\n".to_owned()));
        assert_eq!(stream.push("\n```rust\nfn main"), Some("text\n".to_owned()));
        assert_eq!(stream.push("() {}\n"), None);
        assert_eq!(stream.tail(), "fn main() {}");
        assert_eq!(stream.push("```\n| a |\n"), Some("```rust\nfn main() {}\n```\n".to_owned()));
        assert_eq!(stream.push("| b |\n"), None);
        assert_eq!(stream.push("end\n"), Some("| a |\n| b |\nend\n".to_owned()));
        assert_eq!(stream.push("rest"), None);
        assert_eq!(stream.finish(), Some("rest".to_owned()));
        assert_eq!(stream.finish(), None);
    }

    #[test]
    fn rendered_text_is_harmless() {
        let shown = render("**a**\u{1B}[2J", false, 80);
        assert!(!shown.contains('\u{1B}'), "{shown:?}");
    }
}
