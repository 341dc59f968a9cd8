//! Pagination of content, so that the cost of showing a message does not depend on its length.

use std::ops::Range;

use switchboard_session::{Block, Content};

/// Approximate size of a page in bytes of text.
const PAGE_BYTES: usize = 32 << 10;
/// Maximum size in bytes of text that is a single page.
const LIVE_BYTES: usize = 2 * PAGE_BYTES;
/// Maximum number of bytes by which a page may be extended to end at a paragraph or a line.
const LOOK_AHEAD: usize = 4 << 10;
/// Maximum number of non-text items that are shown on one page.
const MOST_ITEMS: usize = 256;

/// A run of content on a page.
#[derive(Debug)]
pub(super) enum Run<'c, B> {
    /// Contiguous text, with a key prefix for its parts. Its end is final unless it is the last run.
    Text { key: String, text: String },
    /// A non-text item with its index.
    Item { index: usize, block: &'c B },
}

/// A range of pages of content.
#[derive(Debug)]
pub(super) struct Pages<'c, B> {
    pub(super) runs: Vec<Run<'c, B>>,
    /// Index of the first page.
    pub(super) first: usize,
    /// Number of bytes of text before the first page.
    pub(super) earlier_bytes: usize,
    /// Number of non-text items that were left out because of the limit.
    pub(super) left_out: usize,
}

/// Returns the last pages, which still change. The start of a page is stable while the content grows.
pub(super) fn last_pages<B: Block>(content: &Content<B>) -> Pages<'_, B> {
    let length = content.text_len();
    if length <= LIVE_BYTES {
        return pages(content, 0..1, true);
    }
    // A boundary is final once enough text follows it.
    let last = (length - LOOK_AHEAD) / PAGE_BYTES;
    pages(content, last - 1..last + 1, true)
}

/// Returns the page before another, or `None` for the first.
pub(super) fn page_before<B: Block>(content: &Content<B>, page: usize) -> Option<Pages<'_, B>> {
    let page = page.checked_sub(1)?;
    (page < content.text_len().div_ceil(PAGE_BYTES)).then(|| pages(content, page..page + 1, false))
}

/// Collects pages. With `to_end`, the last one extends to the end of the content.
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
        // The text after the last page determines its end.
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
    /// Start of the text, in bytes.
    start: usize,
    /// Index of the non-text item before the text.
    after: Option<usize>,
}

impl<B> Collector<'_, '_, B> {
    /// Ends the text, and adds one run for each requested page that contains some of it.
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

    /// Returns the offset in the text at which a page starts: after a nearby blank line or line break.
    fn boundary(&self, page: usize, text: &str) -> usize {
        if self.to_end && page == self.wanted.end {
            return text.len();
        }
        let place = match (page * PAGE_BYTES).checked_sub(self.start) {
            // A text that starts on a page after an item belongs to that page from its start.
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
