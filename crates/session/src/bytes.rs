//! A byte buffer that grows by chunks, up to a limit.

use std::fmt;
use std::sync::Arc;

use crate::shared_vec::SharedVec;

const SEGMENT: usize = 8192;

/// Output of a terminal: the latest bytes, and the number of earlier bytes that were dropped.
///
/// Appending takes constant time, even while a snapshot shares the bytes.
#[derive(Clone, Default)]
pub struct Bytes {
    sealed: SharedVec<Arc<[u8]>>,
    /// Number of sealed segments that are dropped completely.
    passed: usize,
    /// Number of dropped bytes in the next segment.
    skipped: usize,
    tail: Vec<u8>,
    length: usize,
    dropped: usize,
}

impl Bytes {
    /// Returns the number of bytes kept.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns true if it is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the number of bytes before the first one kept, which were dropped because of the limit.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// Returns the bytes in pieces. A piece may end inside a character.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let sealed = self.sealed.iter_from(self.passed).map(|piece| &**piece);
        let mut skipped = self.skipped;
        let pieces = sealed.chain([&*self.tail]).map(move |piece| &piece[std::mem::take(&mut skipped)..]);
        pieces.filter(|piece| !piece.is_empty())
    }

    /// Returns all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length);
        self.pieces().for_each(|piece| bytes.extend_from_slice(piece));
        bytes
    }

    /// Sets the number of dropped bytes.
    pub(crate) fn set_dropped(&mut self, dropped: usize) {
        self.dropped = dropped;
    }

    /// Lets `write` append bytes, and drops the oldest beyond the limit. Returns the number of bytes written.
    pub(crate) fn append(&mut self, limit: usize, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let before = self.tail.len();
        write(&mut self.tail);
        let added = self.tail.len().saturating_sub(before);
        self.length += added;
        if self.tail.len() >= SEGMENT {
            for piece in self.tail.chunks(SEGMENT) {
                self.sealed.push(piece.into());
            }
            self.tail.clear();
            self.tail.shrink_to(2 * SEGMENT);
        }
        self.drop_first(self.length.saturating_sub(limit));
        added
    }

    fn drop_first(&mut self, count: usize) {
        self.length -= count;
        self.dropped += count;
        self.skipped += count;
        while let Some(segment) = self.sealed.get(self.passed).filter(|segment| segment.len() <= self.skipped)
        {
            self.skipped -= segment.len();
            self.passed += 1;
        }
        if self.passed == self.sealed.len() {
            self.tail.drain(..std::mem::take(&mut self.skipped));
        }
        // Compact only when half is dropped, so that each byte is moved once on average.
        if self.passed > self.sealed.len() / 2 {
            self.sealed = self.sealed.iter_from(self.passed).cloned().collect();
            self.passed = 0;
        }
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length
            && self.dropped == other.dropped
            && self.pieces().flatten().eq(other.pieces().flatten())
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", String::from_utf8_lossy(&self.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_latest_bytes_whatever_the_pieces_and_the_limit() {
        for limit in [0, 1, 1000, SEGMENT, SEGMENT + 1, 5 * SEGMENT] {
            let (mut bytes, mut all) = (Bytes::default(), Vec::new());
            for (number, length) in
                [1, 0, 700, SEGMENT - 1, 3, 3 * SEGMENT, 9, 20 * SEGMENT + 5, 1].iter().enumerate()
            {
                let piece = vec![number as u8; *length];
                assert_eq!(bytes.append(limit, |buffer| buffer.extend(&piece)), *length);
                all.extend(piece);
                let expected = &all[all.len().saturating_sub(limit)..];
                assert_eq!(bytes.to_vec(), expected, "limit {limit}, piece {number}");
                assert_eq!((bytes.len(), bytes.dropped()), (expected.len(), all.len() - expected.len()));
                assert!(
                    bytes.sealed.len() * SEGMENT <= 2 * (limit + SEGMENT),
                    "limit {limit}, piece {number}"
                );
            }
        }
    }
}
