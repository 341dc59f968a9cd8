//! Where the values of a text are.

use std::ops::Range;

use crate::configuration::commented_json::string_length;

/// A value, by its place in the text.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    /// With its brackets or quotes.
    pub(super) span: Range<usize>,
    pub(super) items: Vec<Item>,
    /// The comma behind the last item.
    pub(super) last_comma: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    Scalar,
}

/// A value in an object or a list.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) key: Option<String>,
    /// Where it begins: with its key, if it has one.
    pub(super) start: usize,
    pub(super) value: Node,
}

impl Node {
    /// Where in the list of items a key or a number is.
    pub(super) fn place(&self, key: &str) -> Option<usize> {
        match self.kind {
            Kind::Object => self.items.iter().position(|item| item.key.as_deref() == Some(key)),
            Kind::Array => key.parse().ok().filter(|place| *place < self.items.len()),
            Kind::Scalar => None,
        }
    }

    pub(super) fn child(&self, key: &str) -> Option<&Node> {
        Some(&self.items.get(self.place(key)?)?.value)
    }
}

/// The tree of a text that is JSON with comments. The reader that decided so also bounded its depth.
pub(super) fn parse(text: &str) -> Option<Node> {
    let mut parser = Parser { text, place: if text.starts_with('\u{FEFF}') { 3 } else { 0 } };
    let root = parser.value()?;
    parser.skip();
    (parser.place == text.len()).then_some(root)
}

struct Parser<'t> {
    text: &'t str,
    place: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.place..).unwrap_or_default()
    }

    /// Passes over white space and comments.
    fn skip(&mut self) {
        self.place += space_length(self.rest());
    }

    fn byte(&mut self) -> Option<u8> {
        self.skip();
        self.rest().bytes().next()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_it = self.byte() == Some(byte);
        self.place += usize::from(is_it);
        is_it
    }

    fn value(&mut self) -> Option<Node> {
        let first = self.byte()?;
        let start = self.place;
        let (kind, close) = match first {
            b'{' => (Kind::Object, b'}'),
            b'[' => (Kind::Array, b']'),
            b'"' => {
                self.place += string_length(self.rest());
                return Some(scalar(start..self.place));
            }
            _ => {
                let ends = |character: char| character.is_whitespace() || ",]}/".contains(character);
                self.place += self.rest().find(ends).unwrap_or(self.rest().len());
                return (self.place > start).then(|| scalar(start..self.place));
            }
        };
        self.place += 1;
        let mut node = Node { kind, span: start..start, items: Vec::new(), last_comma: None };
        while !self.takes(close) {
            if !node.items.is_empty() {
                self.skip();
                node.last_comma = Some(self.place);
                if !self.takes(b',') {
                    return None;
                }
                if self.takes(close) {
                    node.span.end = self.place;
                    return Some(node);
                }
            }
            node.last_comma = None;
            node.items.push(self.item(kind)?);
        }
        node.span.end = self.place;
        Some(node)
    }

    fn item(&mut self, kind: Kind) -> Option<Item> {
        self.skip();
        let start = self.place;
        let key = match kind {
            Kind::Object => {
                let length = string_length(self.rest());
                let key = serde_json::from_str(self.rest().get(..length)?).ok()?;
                self.place += length;
                if !self.takes(b':') {
                    return None;
                }
                Some(key)
            }
            Kind::Array | Kind::Scalar => None,
        };
        Some(Item { key, start, value: self.value()? })
    }
}

fn scalar(span: Range<usize>) -> Node {
    Node { kind: Kind::Scalar, span, items: Vec::new(), last_comma: None }
}

/// The length of the white space and the comments at the start.
pub(super) fn space_length(text: &str) -> usize {
    let mut place = 0;
    loop {
        let rest = &text[place..];
        place += if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            match rest.chars().next() {
                Some(character) if character.is_whitespace() => character.len_utf8(),
                _ => return place,
            }
        };
    }
}
