//! Content in pages, so that a message of any length costs the same to show.

use std::ops::Range;

use switchboard_session::{Block, Content};

/// How much text one page has, about.
const PAGE_BYTES: usize = 32 << 10;
/// Up to this much text is one page.
const LIVE_BYTES: usize = 2 * PAGE_BYTES;
/// How far a page may go on to end with a paragraph or a line.
const LOOK_AHEAD: usize = 4 << 10;
/// More things than this that are no text are not shown on one page.
const MOST_ITEMS: usize = 256;

/// A stretch of content.
#[derive(Debug)]
pub(super) enum Run<'c, B> {
    /// Text that stands together, with a prefix for the keys of its parts. It ends the same way from now on, unless
    /// it is the last.
    Text { key: String, text: String },
    /// Something else, with its place among the items.
    Item { index: usize, block: &'c B },
}

/// Some pages of content.
#[derive(Debug)]
pub(super) struct Pages<'c, B> {
    pub(super) runs: Vec<Run<'c, B>>,
    /// The first of them.
    pub(super) first: usize,
    /// How many bytes of text come before them.
    pub(super) earlier_bytes: usize,
    /// How many things that are no text were left out, because they are too many.
    pub(super) left_out: usize,
}

/// The last pages: those that still change. The beginning of a page stays where it is while the content grows.
pub(super) fn last_pages<B: Block>(content: &Content<B>) -> Pages<'_, B> {
    let length = content.text_len();
    if length <= LIVE_BYTES {
        return pages(content, 0..1, true);
    }
    // A boundary counts when enough text follows to place it for good.
    let last = (length - LOOK_AHEAD) / PAGE_BYTES;
    pages(content, last - 1..last + 1, true)
}

/// The page before another, unless that is the first.
pub(super) fn page_before<B: Block>(content: &Content<B>, page: usize) -> Option<Pages<'_, B>> {
    let page = page.checked_sub(1)?;
    (page < content.text_len().div_ceil(PAGE_BYTES)).then(|| pages(content, page..page + 1, false))
}

/// `to_end`: the last of the wanted pages goes on to the end of the content.
fn pages<B: Block>(content: &Content<B>, wanted: Range<usize>, to_end: bool) -> Pages<'_, B> {
    let start = wanted.start * PAGE_BYTES;
    let end = if to_end { usize::MAX } else { wanted.end * PAGE_BYTES };
    let (first_item, first_byte) = content.item_at_byte(start);
    let mut collector = Collector {
        wanted: &wanted,
        to_end,
        runs: Vec::new(),
        text: String::new(),
        start: first_byte,
        after: None,
    };
    let mut structured = 0;
    for (index, item) in (first_item..).zip(content.items_from(first_item)) {
        let here = collector.start + collector.text.len();
        // What follows the last page decides where it ends.
        if here >= end.saturating_add(LOOK_AHEAD) {
            break;
        }
        match (item.text(), item.structured()) {
            (Some(text), _) => collector.text.push_str(text),
            (None, Some(block)) => {
                collector.flush();
                collector.after = Some(index);
                if here >= start && here < end {
                    structured += 1;
                    collector.runs.push(Run::Item { index, block });
                }
            }
            (None, None) => {}
        }
    }
    collector.flush();
    let mut runs = collector.runs;
    let left_out = structured.max(MOST_ITEMS) - MOST_ITEMS;
    let mut seen = 0;
    runs.retain(|run| {
        let is_item = matches!(run, Run::Item { .. });
        seen += usize::from(is_item);
        !is_item || seen > left_out
    });
    Pages { runs, first: wanted.start, earlier_bytes: start, left_out }
}

struct Collector<'p, 'c, B> {
    wanted: &'p Range<usize>,
    to_end: bool,
    runs: Vec<Run<'c, B>>,
    text: String,
    /// Where the text begins.
    start: usize,
    /// The item before the text that is no text.
    after: Option<usize>,
}

impl<B> Collector<'_, '_, B> {
    /// Ends the text: what of it lies on the wanted pages becomes runs, one a page.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        for page in self.wanted.clone() {
            let (from, to) = (self.boundary(page, &text), self.boundary(page + 1, &text));
            if from < to {
                let key = match self.after {
                    Some(item) if from == 0 => format!("a{item}"),
                    _ => format!("b{page}"),
                };
                self.runs.push(Run::Text { key, text: text[from..to].to_owned() });
            }
        }
        self.start += text.len();
    }

    /// Where in the text a page begins: after a blank line or a line, if one ends soon.
    fn boundary(&self, page: usize, text: &str) -> usize {
        if self.to_end && page == self.wanted.end {
            return text.len();
        }
        let place = match (page * PAGE_BYTES).checked_sub(self.start) {
            // Text that begins with a page, after something else: all of it is on that page.
            None => return 0,
            Some(0) if page == 0 || self.after.is_some() => return 0,
            Some(place) => place,
        };
        if place >= text.len() {
            return text.len();
        }
        let place = text.ceil_char_boundary(place);
        let ahead = &text[place..text.floor_char_boundary(place + LOOK_AHEAD).max(place)];
        let after = |pattern: &str| ahead.find(pattern).map(|found| place + found + pattern.len());
        after("\n\n").or_else(|| after("\n")).unwrap_or(place)
    }
}
