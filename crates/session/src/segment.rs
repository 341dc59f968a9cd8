//! A segment of content: one text with boundaries.

use std::iter::Peekable;
use std::sync::Arc;

use crate::content::{Attached, Block, Item};

/// Maximum bytes of text in a segment, unless its first item alone is longer. After a snapshot, the next
/// change copies at most this much. Allocators are much faster below a kilobyte than above it.
const SEGMENT_BYTES: usize = 992;
/// Maximum number of items in a segment.
const SEGMENT_ITEMS: usize = 248;

#[derive(Debug, Clone)]
pub(crate) struct Segment<B> {
    text: String,
    /// Start of each item's text except the first, never beyond [`SEGMENT_BYTES`].
    starts: Vec<u16>,
    length: u32,
    /// Data that is not plain text, by item.
    odd: Vec<Odd<B>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Odd<B> {
    /// Item index within the segment.
    item: u32,
    /// The complete block, unless it is plain text.
    pub(crate) block: Option<Arc<B>>,
    pub(crate) chunk: Option<Arc<Attached>>,
}

impl<B> Default for Segment<B> {
    fn default() -> Self {
        Segment { text: String::new(), starts: Vec::new(), length: 0, odd: Vec::new() }
    }
}

impl<B: Block> Segment<B> {
    pub(crate) fn len(&self) -> usize {
        self.length as usize
    }

    /// Returns the number of bytes of its text items, including those that are more than plain text.
    pub(crate) fn text_len(&self) -> usize {
        let blocks = self.odd.iter().filter_map(|odd| odd.block.as_deref());
        self.text.len() + blocks.filter_map(B::any_text).map(str::len).sum::<usize>()
    }

    pub(crate) fn items(&self) -> SegmentItems<'_, B> {
        SegmentItems { segment: self, next: 0, start: 0, odd: self.odd.iter().peekable() }
    }

    pub(crate) fn text_pieces(&self) -> impl Iterator<Item = &str> {
        let whole = self.odd.iter().all(|odd| odd.block.is_none());
        let pieces = if whole { None } else { Some(self.items().filter_map(Item::text)) };
        whole.then_some(&*self.text).into_iter().chain(pieces.into_iter().flatten())
    }

    /// Returns true if an item with this much text fits.
    pub(crate) fn has_room(&self, length: usize) -> bool {
        self.length == 0 || (self.text.len() + length <= SEGMENT_BYTES && self.len() < SEGMENT_ITEMS)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.text.len() >= SEGMENT_BYTES || self.len() >= SEGMENT_ITEMS
    }

    /// Appends a text if that needs no allocation, which is the usual case.
    #[inline]
    pub(crate) fn push_within_capacity(&mut self, text: &str) -> bool {
        let free = self.text.capacity().min(SEGMENT_BYTES).saturating_sub(self.text.len());
        if text.len() > free || self.starts.len() == self.starts.capacity() {
            return false;
        }
        self.append(text);
        true
    }

    #[inline]
    fn append(&mut self, text: &str) {
        if self.length > 0 {
            self.starts.push(self.text.len() as u16);
        }
        self.text.push_str(text);
        self.length += 1;
    }

    /// Appends an item that fits.
    pub(crate) fn push(&mut self, text: &str, block: Option<Arc<B>>, chunk: Option<Arc<Attached>>) {
        if block.is_some() || chunk.is_some() {
            self.odd.push(Odd { item: self.length, block, chunk });
        }
        self.reserve(text.len());
        self.append(text);
    }

    /// Grows text and boundaries together, in larger steps than vectors do, because streamed content usually
    /// continues. The first item gets an exact allocation, since it may be the only one.
    fn reserve(&mut self, length: usize) {
        let wanted = self.text.len() + length;
        if self.length == 0 {
            self.text.reserve_exact(length);
            return;
        }
        let (texts, starts) = (self.text.capacity(), self.starts.capacity());
        let grows = wanted > texts || self.starts.len() == starts;
        if grows && wanted > texts / 2 {
            let room = (wanted.max(64) * 4).min(SEGMENT_BYTES).max(texts);
            self.text.reserve_exact(room - self.text.len());
        }
        if grows && self.starts.len() >= starts / 2 {
            let room = (self.starts.len() * 5).clamp(12, SEGMENT_ITEMS - 1).max(starts);
            self.starts.reserve_exact(room - self.starts.len());
        }
    }

    /// Returns the next segment with the same capacity, for an item with this much text.
    pub(crate) fn successor(&self, length: usize) -> Self {
        if length >= SEGMENT_BYTES {
            return Segment::default();
        }
        let starts = Vec::with_capacity(self.starts.len().clamp(4, SEGMENT_ITEMS - 1));
        Segment { text: String::with_capacity(SEGMENT_BYTES), starts, length: 0, odd: Vec::new() }
    }
}

pub(crate) struct SegmentItems<'c, B> {
    segment: &'c Segment<B>,
    next: u32,
    start: usize,
    odd: Peekable<std::slice::Iter<'c, Odd<B>>>,
}

impl<'c, B> Iterator for SegmentItems<'c, B> {
    type Item = Item<'c, B>;

    fn next(&mut self) -> Option<Item<'c, B>> {
        let Segment { text, starts, length, .. } = self.segment;
        if self.next == *length {
            return None;
        }
        let end = starts.get(self.next as usize).map_or(text.len(), |&end| usize::from(end));
        let text = &text[self.start..end];
        let odd = self.odd.next_if(|odd| odd.item == self.next);
        self.start = end;
        self.next += 1;
        Some(Item { text, odd })
    }
}
