//! Content that grows by chunks: one text with boundaries instead of one allocation per chunk.

use std::fmt;
use std::sync::Arc;

use switchboard_acp::{Extra, Meta, Wire, v2};

use crate::segment::{Odd, Segment};
use crate::shared_vec::SharedVec;

/// Type of a content block: [`v2::ContentBlock`] in messages, [`v2::ToolCallContent`] in tool calls.
pub trait Block: Clone + PartialEq + fmt::Debug + private::Sealed + 'static {
    /// The same type, borrowed from a message.
    type Wire<'a>: Wire<'a, Owned = Self> + Clone;

    #[doc(hidden)]
    fn plain_text<'b>(block: &'b Self::Wire<'_>) -> Option<&'b str>;

    #[doc(hidden)]
    fn from_text(text: &str) -> Self::Wire<'_>;

    #[doc(hidden)]
    fn borrowed(&self) -> Self::Wire<'_>;

    /// Returns the text of a text block, with or without annotations.
    #[doc(hidden)]
    fn any_text(&self) -> Option<&str>;
}

mod private {
    pub trait Sealed {}
    impl Sealed for super::v2::ContentBlock<'static> {}
    impl Sealed for super::v2::ToolCallContent<'static> {}
}

impl Block for v2::ContentBlock<'static> {
    type Wire<'a> = v2::ContentBlock<'a>;

    fn plain_text<'b>(block: &'b v2::ContentBlock<'_>) -> Option<&'b str> {
        match block {
            v2::ContentBlock::Text(text)
                if text.annotations.is_none() && text.meta.is_none() && text.extra.is_empty() =>
            {
                Some(&text.text)
            }
            _ => None,
        }
    }

    fn from_text(text: &str) -> v2::ContentBlock<'_> {
        v2::ContentBlock::text(text)
    }

    fn borrowed(&self) -> v2::ContentBlock<'_> {
        self.clone()
    }

    fn any_text(&self) -> Option<&str> {
        self.as_text()
    }
}

impl Block for v2::ToolCallContent<'static> {
    type Wire<'a> = v2::ToolCallContent<'a>;

    fn plain_text<'b>(block: &'b v2::ToolCallContent<'_>) -> Option<&'b str> {
        match block {
            v2::ToolCallContent::Content(content) if content.meta.is_none() && content.extra.is_empty() => {
                v2::ContentBlock::plain_text(&content.content)
            }
            _ => None,
        }
    }

    fn from_text(text: &str) -> v2::ToolCallContent<'_> {
        v2::ToolCallContent::text(text)
    }

    fn borrowed(&self) -> v2::ToolCallContent<'_> {
        self.clone()
    }

    fn any_text(&self) -> Option<&str> {
        match self {
            v2::ToolCallContent::Content(content) => content.content.as_text(),
            _ => None,
        }
    }
}

/// Content of a message, a tool call or a summary: one item per received block, in order.
///
/// Blocks of plain text are stored in one growing text with boundaries; other blocks are stored as they are.
/// Appending takes constant time for content of any length, even if a snapshot shares it.
///
/// ```
/// use switchboard_acp::{WireFormat, Wire, v2};
/// use switchboard_session::Session;
///
/// let mut session = Session::new(WireFormat::Any);
/// for text in ["Hel", "lo"] {
///     let chunk = v2::ContentChunk::new("m-1", v2::ContentBlock::text(text));
///     session.apply(&v2::SessionUpdate::AgentMessageChunk(chunk));
/// }
/// let message = session.entry(0).and_then(|entry| entry.as_message()).unwrap();
/// assert_eq!(message.content().len(), 2);
/// assert_eq!(message.content().text(), "Hello");
/// assert_eq!(message.content().blocks().last().unwrap().as_text(), Some("lo"));
/// ```
#[derive(Clone)]
pub struct Content<B> {
    /// Segments before the tail. Empty for short content.
    sealed: Option<Arc<Sealed<B>>>,
    tail: Segment<B>,
}

struct Sealed<B> {
    segments: SharedVec<Arc<SealedSegment<B>>>,
    items: usize,
    /// Bytes of text.
    bytes: usize,
}

struct SealedSegment<B> {
    /// Number of items before this segment.
    first: usize,
    /// Number of bytes of text before this segment.
    first_byte: usize,
    segment: Segment<B>,
}

/// Metadata and unknown keys that an update has in addition to its content.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Attached {
    /// Metadata.
    pub meta: Option<Meta<'static>>,
    /// Keys that the protocol does not define.
    pub extra: Extra<'static>,
}

impl Attached {
    /// Returns metadata and unknown keys in the form of an update.
    pub(crate) fn parts(attached: Option<&Self>) -> (Option<Meta<'static>>, Extra<'static>) {
        attached.map_or_else(Default::default, |attached| (attached.meta.clone(), attached.extra.clone()))
    }

    /// Creates a value, or `None` if there is neither metadata nor unknown keys.
    #[inline]
    pub(crate) fn of(meta: Option<&Meta<'_>>, extra: &Extra<'_>) -> Option<Arc<Self>> {
        if meta.is_none() && extra.is_empty() {
            return None;
        }
        let meta = meta.map(|meta| meta.clone().into_owned());
        Some(Arc::new(Attached { meta, extra: extra.clone().into_owned() }))
    }
}

/// One item of [`Content`].
#[derive(Debug)]
pub struct Item<'c, B> {
    pub(crate) text: &'c str,
    pub(crate) odd: Option<&'c Odd<B>>,
}

impl<B> Clone for Item<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Item<'_, B> {}

impl<'c, B: Block> Item<'c, B> {
    /// Returns the protocol's block.
    pub fn block(self) -> B::Wire<'c> {
        match self.odd.and_then(|odd| odd.block.as_deref()) {
            Some(block) => block.borrowed(),
            None => B::from_text(self.text),
        }
    }

    /// Returns the text of a text item.
    pub fn text(self) -> Option<&'c str> {
        match self.odd.and_then(|odd| odd.block.as_deref()) {
            Some(block) => block.any_text(),
            None => Some(self.text),
        }
    }

    /// Returns the block if it is more than plain text.
    pub fn structured(self) -> Option<&'c B> {
        self.odd?.block.as_deref()
    }

    /// Returns the metadata of the chunk with this item.
    pub fn chunk_meta(self) -> Option<&'c Meta<'static>> {
        self.odd?.chunk.as_ref()?.meta.as_ref()
    }

    /// Returns the unknown keys of the chunk with this item.
    pub fn chunk_extra(self) -> Option<&'c Extra<'static>> {
        self.odd?.chunk.as_ref().map(|chunk| &chunk.extra)
    }
}

impl<B: Block> PartialEq for Item<'_, B> {
    fn eq(&self, other: &Self) -> bool {
        let parts = |item: &Self| item.odd.map(|odd| (odd.block.clone(), odd.chunk.clone()));
        match (self.odd, other.odd) {
            (None, None) => self.text == other.text,
            _ => self.text == other.text && parts(self) == parts(other),
        }
    }
}

impl<B> Default for Content<B> {
    fn default() -> Self {
        Content { sealed: None, tail: Segment::default() }
    }
}

impl<B: Block> Content<B> {
    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.sealed_items() + self.tail.len()
    }

    /// Returns true if there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes of [`Content::text`] without building it.
    pub fn text_len(&self) -> usize {
        self.sealed_bytes() + self.tail.text_len()
    }

    fn sealed_items(&self) -> usize {
        self.sealed.as_ref().map_or(0, |sealed| sealed.items)
    }

    fn sealed_bytes(&self) -> usize {
        self.sealed.as_ref().map_or(0, |sealed| sealed.bytes)
    }

    fn segments(&self) -> impl Iterator<Item = &Segment<B>> {
        let sealed = self.sealed.iter().flat_map(|sealed| sealed.segments.iter());
        sealed.map(|sealed| &sealed.segment).chain([&self.tail])
    }

    /// Returns all items in order.
    pub fn items(&self) -> impl Iterator<Item = Item<'_, B>> {
        self.segments().flat_map(Segment::items)
    }

    /// Returns the first item that starts with or contains a byte of [`Content::text`], and the number of
    /// bytes of text before that item. Past the end, returns the index of the next item. Does not iterate
    /// over earlier items.
    pub fn item_at_byte(&self, byte: usize) -> (usize, usize) {
        let tail = (self.sealed_items(), self.sealed_bytes(), &self.tail);
        // Several segments without text can start at the same byte.
        let sealed = self
            .sealed
            .as_ref()
            .filter(|sealed| byte <= sealed.bytes)
            .and_then(|sealed| sealed.segments.get(sealed.place_of(|segment| segment.first_byte < byte)));
        let (mut item, mut start, segment) =
            sealed.map_or(tail, |sealed| (sealed.first, sealed.first_byte, &sealed.segment));
        for length in segment.items().map(|item| item.text().map_or(0, str::len)) {
            if start == byte || start + length > byte {
                break;
            }
            (item, start) = (item + 1, start + length);
        }
        (item, start)
    }

    /// Returns the items from an index, without iterating over earlier ones. After a change that appended N
    /// items, `items_from(len() - N)` returns the new ones.
    pub fn items_from(&self, start: usize) -> impl Iterator<Item = Item<'_, B>> {
        let sealed = self.sealed.as_ref().filter(|sealed| start < sealed.items);
        let place = sealed.map_or(0, |sealed| sealed.place_of(|segment| segment.first <= start));
        let first = sealed.and_then(|sealed| sealed.segments.get(place));
        let skipped = first.map_or_else(|| self.sealed_items(), |segment| segment.first);
        let segments = sealed.into_iter().flat_map(move |sealed| sealed.segments.iter_from(place));
        let segments = segments.map(|sealed| &sealed.segment).chain([&self.tail]);
        segments.flat_map(Segment::items).skip(start - skipped)
    }

    /// Returns the protocol's array: one block per item.
    pub fn blocks(&self) -> impl Iterator<Item = B::Wire<'_>> {
        self.items().map(Item::block)
    }

    /// Returns the text of all text items in pieces that are as long as possible.
    pub fn text_pieces(&self) -> impl Iterator<Item = &str> {
        self.segments().flat_map(Segment::text_pieces)
    }

    /// Returns the text of all text items.
    pub fn text(&self) -> String {
        self.text_pieces().collect()
    }

    /// Appends one item.
    #[inline]
    pub(crate) fn push(
        &mut self,
        block: &B::Wire<'_>,
        chunk_meta: Option<&Meta<'_>>,
        chunk_extra: &Extra<'_>,
    ) {
        if chunk_meta.is_none()
            && chunk_extra.is_empty()
            && let Some(text) = B::plain_text(block)
        {
            if !self.tail.push_within_capacity(text) {
                self.push_text(text);
            }
        } else {
            self.push_odd(block, Attached::of(chunk_meta, chunk_extra));
        }
    }

    fn push_text(&mut self, text: &str) {
        self.make_room(text.len());
        // Reserve extra capacity only for content that continues: most long messages are one piece.
        let last = self
            .sealed
            .as_ref()
            .filter(|_| self.tail.len() == 0)
            .and_then(|sealed| sealed.segments.get(sealed.segments.len().checked_sub(1)?));
        if let Some(last) = last {
            self.tail = last.segment.successor(text.len());
        }
        self.tail.push(text, None, None);
        self.seal_if_full();
    }

    fn push_odd(&mut self, block: &B::Wire<'_>, chunk: Option<Arc<Attached>>) {
        let (text, block) = match B::plain_text(block) {
            Some(text) => (text, None),
            None => ("", Some(Arc::new(block.clone().into_owned()))),
        };
        self.make_room(text.len());
        self.tail.push(text, block, chunk);
        self.seal_if_full();
    }

    fn make_room(&mut self, length: usize) {
        if !self.tail.has_room(length) {
            self.seal();
        }
    }

    /// Seals a long tail at once, so that long text is never copied.
    fn seal_if_full(&mut self) {
        if self.tail.is_full() {
            self.seal();
        }
    }

    /// Replaces the content with these blocks.
    pub(crate) fn replace<'a, 'b: 'a>(&mut self, blocks: impl IntoIterator<Item = &'a B::Wire<'b>>)
    where
        B::Wire<'b>: 'a,
    {
        self.clear();
        for block in blocks {
            self.push(block, None, &Extra::new());
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Content::default();
    }

    fn seal(&mut self) {
        let segment = std::mem::take(&mut self.tail);
        let sealed = Arc::make_mut(self.sealed.get_or_insert_default());
        let (first, first_byte) = (sealed.items, sealed.bytes);
        sealed.items += segment.len();
        sealed.bytes += segment.text_len();
        sealed.segments.push(Arc::new(SealedSegment { first, first_byte, segment }));
    }

    /// Returns true if both have equal content, regardless of chunk boundaries.
    pub(crate) fn has_same_content(&self, other: &Self) -> bool {
        same_pieces(self.runs(), other.runs())
    }

    fn runs(&self) -> impl Iterator<Item = Run<'_, B>> {
        self.segments().flat_map(Segment::items).map(|item| match item.structured() {
            Some(block) => Run::Block(block),
            None => Run::Text(item.text),
        })
    }
}

impl<B> Clone for Sealed<B> {
    fn clone(&self) -> Self {
        Sealed { segments: self.segments.clone(), items: self.items, bytes: self.bytes }
    }
}

impl<B> Default for Sealed<B> {
    fn default() -> Self {
        Sealed { segments: SharedVec::default(), items: 0, bytes: 0 }
    }
}

impl<B> Sealed<B> {
    /// Returns the last segment for which `is_early` returns true.
    fn place_of(&self, is_early: impl Fn(&SealedSegment<B>) -> bool) -> usize {
        let (mut low, mut high) = (0, self.segments.len());
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if self.segments.get(middle).is_some_and(|segment| is_early(segment)) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}

enum Run<'c, B> {
    Text(&'c str),
    Block(&'c B),
}

fn same_pieces<'c, B: Block>(
    left: impl Iterator<Item = Run<'c, B>>,
    right: impl Iterator<Item = Run<'c, B>>,
) -> bool {
    let (mut left, mut right) = (left, right);
    let (mut left_text, mut right_text) = ("", "");
    loop {
        let common = left_text.len().min(right_text.len());
        if left_text.as_bytes()[..common] != right_text.as_bytes()[..common] {
            return false;
        }
        // Equal bytes up to the end of one text are a character boundary of the other.
        (left_text, right_text) = (&left_text[common..], &right_text[common..]);
        let left_block = next_block(&mut left_text, &mut left);
        let right_block = next_block(&mut right_text, &mut right);
        match (left_block, right_block) {
            (None, None) if left_text.is_empty() && right_text.is_empty() => return true,
            (None, None) if left_text.is_empty() != right_text.is_empty() => return false,
            (None, None) => {}
            (Some(left), Some(right)) if left == right => {}
            _ => return false,
        }
    }
}

/// Fills an empty text from the runs, or returns the block before the next text.
fn next_block<'c, B>(text: &mut &'c str, runs: &mut impl Iterator<Item = Run<'c, B>>) -> Option<&'c B> {
    while text.is_empty() {
        match runs.next()? {
            Run::Text(next) => *text = next,
            Run::Block(block) => return Some(block),
        }
    }
    None
}

impl<B: Block> PartialEq for Content<B> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.items().eq(other.items())
    }
}

impl<B: Block> fmt::Debug for Content<B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.items().map(|item| item.block().into_owned())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Blocks = Content<v2::ContentBlock<'static>>;

    fn content(texts: &[&str]) -> Blocks {
        let mut content = Blocks::default();
        for text in texts {
            push(&mut content, text);
        }
        content
    }

    fn push(content: &mut Blocks, text: &str) {
        let block = match text.strip_prefix('!') {
            Some(name) => v2::ContentBlock::ResourceLink(Box::new(v2::ResourceLink::new(name, "file:///w"))),
            None => v2::ContentBlock::text(text),
        };
        content.push(&block, None, &Extra::new());
    }

    #[test]
    fn boundaries_do_not_matter_to_what_is_said() {
        let cases: [(&[&str], &[&str], bool); 8] = [
            (&[], &[], true),
            (&["ab", "c"], &["a", "bc"], true),
            (&["ab", "", "c", ""], &["abc"], true),
            (&["ab"], &["abc"], false),
            (&["a", "!x", "b"], &["a", "!x", "b"], true),
            (&["a", "!x", "b"], &["ab", "!x"], false),
            (&["a", "!x"], &["a", "!y"], false),
            (&["é"], &["è"], false),
        ];
        for (left, right, same) in cases {
            assert_eq!(content(left).has_same_content(&content(right)), same, "{left:?} {right:?}");
            assert_eq!(content(right).has_same_content(&content(left)), same, "{right:?} {left:?}");
        }
    }

    #[test]
    fn items_survive_sealing_and_can_be_read_from_anywhere() {
        let mut grown = Blocks::default();
        let mut expected = Vec::new();
        for number in 0..3000 {
            let text = if number % 100 == 99 { format!("!{number}") } else { "x".repeat(number % 40) };
            push(&mut grown, &text);
            expected.push(text);
        }
        push(&mut grown, &"long ".repeat(5000));
        expected.push("long ".repeat(5000));
        assert_eq!(grown.len(), expected.len());
        let shown = |item: Item<'_, v2::ContentBlock<'static>>| match item.structured() {
            Some(v2::ContentBlock::ResourceLink(link)) => format!("!{}", link.name),
            _ => item.text().unwrap().to_owned(),
        };
        assert!(grown.items().map(shown).eq(expected.iter().cloned()));
        for start in [0, 1, 511, 512, 513, 1500, 3000, 3001] {
            assert!(grown.items_from(start).map(shown).eq(expected[start..].iter().cloned()), "{start}");
        }
        let text: String = expected.iter().filter(|text| !text.starts_with('!')).cloned().collect();
        assert_eq!(grown.text(), text);
        assert_eq!(grown.text_len(), text.len());
        for byte in [0, 1, 500, 991, 992, 993, 30_000, text.len() - 25_000, text.len() - 1, text.len()] {
            let lengths: Vec<usize> = grown.items().map(|item| item.text().map_or(0, str::len)).collect();
            let starts =
                lengths.iter().scan(0, |start, length| Some(std::mem::replace(start, *start + length)));
            let is_it =
                |(_, (start, length)): &(usize, (usize, &usize))| *start == byte || start + *length > byte;
            let expected =
                starts.zip(&lengths).enumerate().find(is_it).map(|(item, (start, _))| (item, start));
            assert_eq!(grown.item_at_byte(byte), expected.unwrap_or((lengths.len(), text.len())), "{byte}");
        }
        let mut odd = content(&["!a", "!b", "c", "!d"]);
        assert_eq!([0, 1, 2].map(|byte| odd.item_at_byte(byte)), [(0, 0), (3, 1), (4, 1)]);
        (0..1000).for_each(|_| push(&mut odd, "!e"));
        assert_eq!([0, 1, 2].map(|byte| odd.item_at_byte(byte)), [(0, 0), (3, 1), (1004, 1)]);
    }
}
