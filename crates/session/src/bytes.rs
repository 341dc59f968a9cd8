//! Bytes that grow by chunks.

use std::fmt;
use std::sync::Arc;

use crate::shared_vec::SharedVec;

const SEGMENT: usize = 8192;

/// The output of a terminal. Appending takes constant time, also while a snapshot shares the bytes.
#[derive(Clone, Default)]
pub struct Bytes {
    sealed: SharedVec<Arc<[u8]>>,
    tail: Vec<u8>,
    length: usize,
}

impl Bytes {
    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bytes in pieces. A piece may end inside a character.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.sealed.iter().map(|piece| &**piece).chain([&*self.tail]).filter(|piece| !piece.is_empty())
    }

    /// All bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length);
        bytes.extend(self.pieces().flatten());
        bytes
    }

    /// Lets the caller write to the end.
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let before = self.tail.len();
        write(&mut self.tail);
        let added = self.tail.len().saturating_sub(before);
        self.length += added;
        if self.tail.len() >= SEGMENT {
            self.sealed.push(self.tail.as_slice().into());
            self.tail.clear();
            self.tail.shrink_to(2 * SEGMENT);
        }
        added
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && self.pieces().flatten().eq(other.pieces().flatten())
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", String::from_utf8_lossy(&self.to_vec()))
    }
}
