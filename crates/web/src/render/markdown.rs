//! Markdown as parts, about one for each top-level block.

use std::fmt::Write;
use std::ops::Range;

use maud::{Markup, html};
use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd};
use switchboard_acp::display::visible_line as plain_line;
use url::Url;

use super::pieces::Pieces;
use super::text::{push_attribute, push_prose, push_visible, visible};
use super::{Part, RenderCache, code, sanitize};

/// Maximum nesting of tags. Deeper tags are left out; their text is kept.
const DEEPEST: usize = 40;
/// Maximum number of quote and list markers in a line. More take quadratic time in the parser.
const MOST_MARKERS: usize = 32;

/// Minimum size of a part's source in bytes. A smaller part also takes the next block.
const PART_BYTES: usize = 256;

/// Renders a text as parts. Their keys are `prefix` and a number.
pub(super) fn parts(prefix: &str, text: &str, cache: &RenderCache) -> Vec<Part> {
    if is_too_deep(text) {
        let key = format!("{prefix}-0");
        return vec![cache.part(&key, ("text", text), || {
            html! { div.p.md data-part=(key) { pre { (visible(text)) } } }
        })];
    }
    let parser = Parser::new_ext(text, options());
    let references = references(&parser);
    let part = |(number, group): (usize, Group<'_>)| {
        let key = format!("{prefix}-{number}");
        let source = &text[group.range.clone()];
        cache.part(&key, ("markdown", source, &references), || {
            html! { div.p.md data-part=(key) { (group.render(source, cache)) } }
        })
    };
    groups(parser).into_iter().enumerate().map(part).collect()
}

/// Blocks that form one part. Mostly one, but short blocks are combined, so that many short lines do not become
/// thousands of parts.
struct Group<'t> {
    range: Range<usize>,
    events: Vec<Event<'t>>,
    is_code: bool,
}

fn groups<'t>(parser: Parser<'t>) -> Vec<Group<'t>> {
    let mut groups: Vec<Group<'t>> = Vec::new();
    let mut depth = 0;
    for (event, range) in parser.into_offset_iter() {
        if depth == 0 {
            let is_code = matches!(event, Event::Start(Tag::CodeBlock(_)));
            match groups.last_mut() {
                Some(last) if !is_code && !last.is_code && last.range.len() < PART_BYTES => {
                    last.range.end = range.end;
                }
                _ => groups.push(Group { range, events: Vec::new(), is_code }),
            }
        }
        depth = depth_after(depth, &event);
        if let Some(group) = groups.last_mut() {
            group.events.push(event);
        }
    }
    groups
}

impl Group<'_> {
    fn render(self, source: &str, cache: &RenderCache) -> Markup {
        if self.is_code {
            return self.code();
        }
        let mut pieces = Pieces::default();
        self.events.into_iter().for_each(|event| pieces.event(event));
        pieces.cleaned(source, cache)
    }

    /// Renders a code block.
    fn code(self) -> Markup {
        let (mut name, mut text) = (None, String::new());
        for event in &self.events {
            match event {
                Event::Start(Tag::CodeBlock(kind)) => name = language(kind),
                Event::Text(part) => text.push_str(part),
                _ => {}
            }
        }
        code::block(name, &text)
    }
}

/// Renders a complete text as one piece, for places without parts.
pub(super) fn whole(text: &str) -> Markup {
    if is_too_deep(text) {
        return html! { pre { (visible(text)) } };
    }
    let mut writer = Writer::default();
    for event in Parser::new_ext(text, options()) {
        writer.event(event);
    }
    sanitize::clean(&writer.finish())
}

pub(super) fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

fn depth_after(depth: usize, event: &Event<'_>) -> usize {
    match event {
        Event::Start(_) => depth + 1,
        Event::End(_) => depth - 1,
        _ => depth,
    }
}

/// Returns the link reference definitions. They may be anywhere in the text, and affect all blocks.
fn references(parser: &Parser<'_>) -> Vec<(String, String)> {
    let definitions = parser.reference_definitions().iter();
    let mut references: Vec<_> =
        definitions.map(|(name, definition)| (name.to_owned(), definition.dest.to_string())).collect();
    references.sort_unstable();
    references
}

fn is_too_deep(text: &str) -> bool {
    text.lines().any(|line| {
        let is_marker = |byte: &&u8| matches!(byte, b'>' | b'-' | b'*' | b'+');
        let is_prefix =
            |byte: &&u8| matches!(byte, b' ' | b'\t' | b'.' | b')' | b'0'..=b'9') || is_marker(byte);
        let prefix = line.as_bytes().iter().take_while(is_prefix);
        let is_number_end = |byte: &&u8| matches!(byte, b'.' | b')');
        // A line of one repeated character is a thematic break or an underline.
        let trimmed = line.trim();
        let is_ruler =
            trimmed.bytes().all(|byte| trimmed.starts_with(char::from(byte))) && !trimmed.starts_with('>');
        !is_ruler && prefix.filter(|byte| is_marker(byte) || is_number_end(byte)).count() > MOST_MARKERS
    })
}

/// Returns `true` if a link to an address is allowed: `http`, `https` or `mailto` without unusual characters.
pub(super) fn is_safe_link(address: &str) -> bool {
    let is_odd = |character: char| character.is_control() || character.is_whitespace() || character == '\\';
    let Ok(url) = Url::parse(address) else { return false };
    // Browsers repair malformed addresses, which then lead elsewhere than they seem to.
    let starts = |start: &str| address.get(..start.len()).is_some_and(|it| it.eq_ignore_ascii_case(start));
    let is_plain = match url.scheme() {
        "http" => starts("http://"),
        "https" => starts("https://"),
        "mailto" => starts("mailto:"),
        _ => false,
    };
    is_plain && !address.contains(is_odd)
}

/// Writes Markdown events as HTML. All text is escaped.
#[derive(Debug, Default)]
pub(super) struct Writer {
    out: String,
    /// Closing tags of the open elements; empty for those that were left out.
    open: Vec<&'static str>,
    alignments: Vec<Alignment>,
    column: usize,
    in_head: bool,
    in_code: bool,
    links: usize,
}

impl Writer {
    pub(super) fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.in_code => push_visible(&mut self.out, &text),
            Event::Text(text) => push_prose(&mut self.out, &text),
            Event::Code(code) => match path(&code).filter(|_| self.links == 0) {
                Some((path, line)) => {
                    self.out.push_str(
                        "<button class=\"path\" type=\"button\" data-action=\"follow\" data-path=\"",
                    );
                    push_attribute(&mut self.out, path);
                    if let Some(line) = line {
                        let _ = write!(self.out, "\" data-line=\"{line}");
                    }
                    self.out.push_str("\"><code>");
                    push_visible(&mut self.out, &code);
                    self.out.push_str("</code></button>");
                }
                None => {
                    self.out.push_str("<code>");
                    push_visible(&mut self.out, &code);
                    self.out.push_str("</code>");
                }
            },
            Event::Html(text) | Event::InlineHtml(text) => push_visible(&mut self.out, &text),
            Event::SoftBreak => self.out.push('\n'),
            Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::TaskListMarker(done) => {
                let (mark, word) = if done { ("☑", "done") } else { ("☐", "to do") };
                let _ = write!(self.out, "<span class=\"task\" title=\"{word}\">{mark}</span> ");
            }
            // The parser's options disable these.
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                push_prose(&mut self.out, &text);
            }
        }
    }

    fn open(&mut self, tag: &str, close: &'static str) {
        if self.open.len() < DEEPEST {
            self.out.push_str(tag);
            self.open.push(close);
        } else {
            self.open.push("");
        }
    }

    fn close(&mut self) {
        let close = self.open.pop().unwrap_or_default();
        self.out.push_str(close);
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.open("<p>", "</p>"),
            Tag::Heading { level, .. } => {
                // Headings start at level 3, below those of the page.
                let (open, close) = match level {
                    HeadingLevel::H1 => ("<h3>", "</h3>"),
                    HeadingLevel::H2 => ("<h4>", "</h4>"),
                    HeadingLevel::H3 => ("<h5>", "</h5>"),
                    _ => ("<h6>", "</h6>"),
                };
                self.open(open, close);
            }
            Tag::BlockQuote(_) => self.open("<blockquote>", "</blockquote>"),
            Tag::CodeBlock(kind) => {
                self.in_code = true;
                match language(&kind) {
                    Some(language) => {
                        self.open(&format!("<pre data-lang=\"{language}\"><code>"), "</code></pre>");
                    }
                    None => self.open("<pre><code>", "</code></pre>"),
                }
            }
            Tag::HtmlBlock => self.open("<div class=\"html\">", "</div>"),
            Tag::List(None) => self.open("<ul>", "</ul>"),
            Tag::List(Some(1)) => self.open("<ol>", "</ol>"),
            Tag::List(Some(start)) => self.open(&format!("<ol start=\"{start}\">"), "</ol>"),
            Tag::Item => self.open("<li>", "</li>"),
            Tag::Table(alignments) => {
                self.alignments = alignments;
                self.open("<div class=\"tbl\"><table>", "</tbody></table></div>");
            }
            Tag::TableHead => {
                self.in_head = true;
                self.column = 0;
                self.open("<thead><tr>", "</tr></thead><tbody>");
            }
            Tag::TableRow => {
                self.column = 0;
                self.open("<tr>", "</tr>");
            }
            Tag::TableCell => {
                let class = match self.alignments.get(self.column) {
                    Some(Alignment::Center) => " class=\"ac\"",
                    Some(Alignment::Right) => " class=\"ar\"",
                    _ => "",
                };
                self.column += 1;
                let (name, close) = if self.in_head { ("th", "</th>") } else { ("td", "</td>") };
                self.open(&format!("<{name}{class}>"), close);
            }
            Tag::Emphasis => self.open("<em>", "</em>"),
            Tag::Strong => self.open("<strong>", "</strong>"),
            Tag::Strikethrough => self.open("<del>", "</del>"),
            Tag::Link { link_type, dest_url, .. } => self.link("", &dest_url, link_type),
            // The page loads no external resources, so an image becomes a link to it.
            Tag::Image { link_type, dest_url, .. } => self.link("Image: ", &dest_url, link_type),
            // The parser's options disable these.
            Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => self.open("", ""),
        }
    }

    fn link(&mut self, mark: &str, address: &str, kind: LinkType) {
        self.links += 1;
        let address = match kind {
            LinkType::Email => format!("mailto:{address}"),
            _ => address.to_owned(),
        };
        let mut tag = String::new();
        let close = if self.links == 1 && is_safe_link(&address) {
            tag.push_str("<a href=\"");
            push_attribute(&mut tag, &address);
            tag.push_str("\" title=\"");
            push_attribute(&mut tag, &plain_line(&address));
            tag.push_str("\" rel=\"noopener noreferrer nofollow\" target=\"_blank\">");
            "</a>"
        } else {
            tag.push_str("<span class=\"nolink\" title=\"");
            push_attribute(&mut tag, &plain_line(&address));
            tag.push_str("\">");
            "</span>"
        };
        self.open(&tag, close);
        self.out.push_str(mark);
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::CodeBlock => self.in_code = false,
            TagEnd::TableHead => self.in_head = false,
            TagEnd::Link | TagEnd::Image => self.links = self.links.saturating_sub(1),
            _ => {}
        }
        self.close();
    }

    pub(super) fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.out
    }

    /// Returns the number of open tags.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Enters an element whose tag is written by the caller.
    pub(super) fn enter(&mut self) {
        self.open.push("");
    }

    /// Leaves an element whose tag is written by the caller.
    pub(super) fn leave(&mut self) {
        self.open.pop();
    }

    /// Returns the number of bytes in the buffer.
    pub(super) fn written(&self) -> usize {
        self.out.len()
    }

    /// Removes and returns the content of the buffer.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }
}

/// Returns the language of a code block, if the name is valid.
fn language<'k>(kind: &'k CodeBlockKind<'_>) -> Option<&'k str> {
    let CodeBlockKind::Fenced(info) = kind else { return None };
    let name = info.split([' ', ',', '{', '\t']).next()?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'#' | b'-' | b'_' | b'.');
    (!name.is_empty() && name.len() <= 24 && name.bytes().all(is_name)).then_some(name)
}

/// Maximum length of a path in bytes.
const LONGEST_PATH: usize = 300;

/// Parses a file path with a folder and an extension from inline code. Returns it with the line number, if it has
/// one.
fn path(code: &str) -> Option<(&str, Option<u32>)> {
    let mut pieces = code.splitn(3, ':');
    let path = pieces.next().filter(|path| path.len() <= LONGEST_PATH)?;
    let line = match (pieces.next(), pieces.next()) {
        (None, _) => None,
        (Some(line), None) => Some(line.parse().ok()?),
        (Some(line), Some(column)) => column.parse::<u32>().ok().and(line.parse().ok()).map(Some)?,
    };
    let is_usual =
        |letter: char| letter.is_alphanumeric() || matches!(letter, '/' | '.' | '_' | '-' | '+' | '@');
    let (folder, name) = path.rsplit_once('/')?;
    let (stem, ending) = name.rsplit_once('.')?;
    let is_ending = (1..=8).contains(&ending.len()) && ending.chars().any(char::is_alphabetic);
    let is_path = path.chars().all(is_usual) && !folder.contains("//") && !stem.is_empty() && is_ending;
    is_path.then_some((path, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_addresses_of_the_web_and_mail_are_links() {
        for address in
            ["https://example.org", "HTTP://example.org/a?b#c", "mailto:a@example.org", "https://ü.example"]
        {
            assert!(is_safe_link(address), "{address}");
        }
        for address in [
            "",
            "http:",
            "http://",
            "https:/x",
            "http:x",
            "//x",
            "/x",
            "x",
            "javascript:x",
            " https://x",
            "https://x y",
            "https://x\\y",
            "java\nscript:x",
            "https://x\n",
            "data:text/html,x",
            "file:///x",
            "ftp://x",
            "\u{feff}https://x",
        ] {
            assert!(!is_safe_link(address), "{address}");
        }
    }

    #[test]
    fn text_with_senseless_nesting_is_not_read_as_markdown() {
        for text in [
            "> > quote",
            &"-".repeat(100),
            &"* ".repeat(3),
            &"=".repeat(80),
            "1.2.3.4",
            &"*".repeat(90),
            "- - -",
        ] {
            assert!(!is_too_deep(text), "{text}");
        }
        for text in
            [">".repeat(40), "> ".repeat(40), "- ".repeat(40) + "a", "1. ".repeat(40), " > -".repeat(20)]
        {
            assert!(is_too_deep(&text), "{text}");
        }
    }

    #[track_caller]
    fn check(markdown: &str, expected: &str) {
        assert_eq!(whole(markdown).0, expected, "{markdown}");
    }

    #[test]
    fn markdown_becomes_html_and_html_becomes_text() {
        check(
            "a *b* **c** ~~d~~ `e`\nf  \ng",
            "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e</code>\nf<br>g</p>",
        );
        check("# a\n#### b", "<h3>a</h3><h6>b</h6>");
        check("3. a\n4. b", "<ol start=\"3\"><li>a</li><li>b</li></ol>");
        check(
            "- [x] a\n- [ ] b",
            "<ul><li><span class=\"task\" title=\"done\">☑</span> a</li><li><span class=\"task\" title=\"to do\">☐</span> b</li></ul>",
        );
        check("<div>\n*a*", "<div class=\"html\">&lt;div&gt;\n*a*</div>");
        check("a <b>c</b>", "<p>a &lt;b&gt;c&lt;/b&gt;</p>");
        check(
            "```rs\"x\na\u{202e}\n```",
            "<pre><code>a<span class=\"hid\" title=\"right-to-left override\">U+202E</span>\n</code></pre>",
        );
        check("[a][r]\n\n[r]: /x", "<p><span class=\"nolink\" title=\"/x\">a</span></p>");
    }
}
