//! Markdown blocks as HTML in pieces. While a long block grows, only its end is sanitized again.

use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{CowStr, Event, Tag};
use switchboard_acp::display::visible;

use super::markdown::Writer;
use super::{RenderCache, sanitize};

/// Approximate size of a piece in bytes.
const PIECE_BYTES: usize = 1 << 10;
/// Maximum number of character references; blocks with more are shown as plain text.
const MOST_REFERENCES: usize = 4000;

/// Markdown blocks as HTML, written piece by piece.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    writer: Writer,
    done: Vec<Piece>,
    /// Closing tag of the open block that may be cut between its children.
    end: Option<&'static str>,
}

#[derive(Debug)]
enum Piece {
    /// A tag of ours, independent of the text.
    Tag(&'static str),
    /// Balanced HTML.
    Html(String),
}

impl Piece {
    fn html(&self) -> &str {
        match self {
            Piece::Tag(tag) => tag,
            Piece::Html(html) => html,
        }
    }
}

impl Pieces {
    pub(super) fn event(&mut self, event: Event<'_>) {
        match (event, self.end) {
            (Event::Start(tag), None) if self.can_cut() && ends(&tag).is_some() => self.start(&tag),
            (Event::End(_), Some(end)) if self.can_cut() => {
                self.cut();
                self.writer.leave();
                self.end = None;
                self.done.push(Piece::Tag(end));
            }
            (Event::Text(text), _) if self.can_cut() => {
                for part in parts(&text) {
                    self.writer.event(Event::Text(CowStr::Borrowed(part)));
                    self.cut_if_long();
                }
            }
            (event, _) => {
                self.writer.event(event);
                self.cut_if_long();
            }
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        self.cut();
        if let Some((start, end)) = ends(tag) {
            self.done.push(Piece::Tag(start));
            self.end = Some(end);
            self.writer.enter();
        }
    }

    /// Returns `true` if no element inside the piece is open.
    fn can_cut(&self) -> bool {
        self.writer.depth() == usize::from(self.end.is_some())
    }

    fn cut_if_long(&mut self) {
        if self.can_cut() && self.writer.written() >= PIECE_BYTES {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.writer.written() > 0 {
            self.done.push(Piece::Html(self.writer.take()));
        }
    }

    /// Returns the complete HTML, not sanitized.
    pub(super) fn written(mut self) -> String {
        self.cut();
        self.done.iter().map(Piece::html).collect()
    }

    /// Returns the complete HTML, sanitized. `source` is the Markdown.
    pub(super) fn cleaned(mut self, source: &str, cache: &RenderCache) -> Markup {
        self.cut();
        let references = |piece: &Piece| piece.html().bytes().filter(|byte| *byte == b'&').count();
        // The sanitizer is slow with character references, and so many of them are not prose.
        if self.done.iter().map(references).sum::<usize>() > MOST_REFERENCES {
            return html! { pre { (visible(source)) } };
        }
        let length = self.done.iter().map(|piece| piece.html().len()).sum::<usize>();
        if length < 2 * PIECE_BYTES {
            return sanitize::clean(&self.written());
        }
        let mut cleaned = String::with_capacity(length);
        for piece in &self.done {
            match piece {
                Piece::Tag(tag) => cleaned.push_str(tag),
                Piece::Html(html) => cleaned.push_str(&cache.html(("piece", html), || sanitize::clean(html))),
            }
        }
        PreEscaped(cleaned)
    }
}

/// Returns the tags of a block whose children are valid outside of it. Table rows, for example, are not.
fn ends(tag: &Tag<'_>) -> Option<(&'static str, &'static str)> {
    match tag {
        Tag::Paragraph => Some(("<p>", "</p>")),
        Tag::BlockQuote(_) => Some(("<blockquote>", "</blockquote>")),
        Tag::List(None) => Some(("<ul>", "</ul>")),
        Tag::List(Some(1)) => Some(("<ol>", "</ol>")),
        _ => None,
    }
}

/// Splits a text after spaces, so that no sequence of combining characters is split.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let least = rest.ceil_char_boundary(PIECE_BYTES);
        let length = rest[least..].find(' ').map_or(rest.len(), |place| least + place + 1);
        let (part, after) = rest.split_at(length);
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pulldown_cmark::Parser;

    use super::super::markdown::options;
    use super::*;

    /// Returns the HTML of a text: rendered in pieces, and as a whole.
    fn both(text: &str) -> (String, String) {
        let (mut pieces, mut writer) = (Pieces::default(), Writer::default());
        for event in Parser::new_ext(text, options()) {
            pieces.event(event.clone());
            writer.event(event);
        }
        let cache = RenderCache::default();
        (pieces.cleaned(text, &cache).0, sanitize::clean(&writer.finish()).0)
    }

    const WORDS: [&str; 30] = [
        "word",
        "*",
        "**",
        "~~",
        "`",
        "_a_",
        "[a](https://x.example/)",
        "![b](c)",
        "<b>",
        "&amp;",
        "&",
        "\u{202e}",
        "\n",
        "\n\n",
        "\n- ",
        "\n    - ",
        "\n1. ",
        "\n> ",
        "\n# ",
        "\n```\n",
        "\n|a|b|\n|-|-|\n|c|d|\n",
        "  \n",
        "\\",
        "\r",
        "\r\n",
        "\0",
        "- [x] ",
        "\n2) ",
        "<div>\n",
        "ü😀\u{200d}",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn pieces_together_are_the_whole(
            words in prop::collection::vec((0..WORDS.len(), 0_usize..400), 1..120)
        ) {
            let text: String = words.iter().map(|&(word, filling)| format!("{} {}", WORDS[word], "some words ".repeat(filling / 20))).collect();
            let (pieces, whole) = both(&text);
            prop_assume!(!pieces.starts_with("<pre>"));
            prop_assert_eq!(pieces, whole);
        }
    }

    #[test]
    fn long_blocks_are_cut_where_nothing_is_torn() {
        for text in [
            "some words ".repeat(2000),
            "*some* words ".repeat(2000),
            "some words\n".repeat(2000),
            "- some words\n".repeat(1000),
            "- some words\n\n".repeat(1000),
            "1. some words\n".repeat(1000),
            "> some words\n>\n".repeat(1000),
            "word".repeat(5000),
            format!("**{}**", "some words ".repeat(2000)),
            format!("| a |\n|---|\n{}", "| b |\n".repeat(1000)),
            format!("7. {}", "some words ".repeat(2000)),
        ] {
            let (pieces, whole) = both(&text);
            assert_eq!(pieces, whole, "{}", &text[..20]);
        }
    }

    #[test]
    fn of_a_block_that_grows_only_the_end_is_cleaned_anew() {
        let cache = RenderCache::default();
        let count = |text: &str| {
            let mut pieces = Pieces::default();
            Parser::new_ext(text, options()).for_each(|event| pieces.event(event));
            drop(pieces.cleaned(text, &cache));
            cache.len()
        };
        let mut text: String =
            (0..900).map(|number| format!("Some *words* and `code {number}` that go on. ")).collect();
        let before = count(&text);
        assert!(before > 20, "{before} pieces");
        text.push_str("More.");
        assert!(count(&text) - before <= 2);
    }
}
