//! What has been delivered of a message or a tool call: not the content itself, only enough of it to tell whether
//! new content goes on where the old one ended.

use std::hash::{DefaultHasher, Hash, Hasher};

/// One block of content, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FingerprintPart<'u> {
    /// Text and nothing else: joined with its neighbours.
    Text(&'u str),
    /// Anything else, by its hash.
    Other(u64),
}

pub(crate) fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// A hash of bytes that may come in any portions (FNV-1a).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Running(u64);

impl Running {
    const START: Running = Running(0xcbf2_9ce4_8422_2325);

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text { length: usize, hash: Running },
    Other(u64),
}

/// What was delivered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContentFingerprint(Vec<Piece>);

/// Where new content goes beyond what was delivered: from this unit on, without so many bytes of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remainder {
    pub(crate) first: usize,
    pub(crate) skip: usize,
}

impl ContentFingerprint {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn push(&mut self, unit: FingerprintPart<'_>) {
        match (unit, self.0.last_mut()) {
            (FingerprintPart::Text(""), _) => {}
            (FingerprintPart::Text(text), Some(Piece::Text { length, hash })) => {
                *length += text.len();
                hash.add(text.as_bytes());
            }
            (FingerprintPart::Text(text), _) => {
                let mut hash = Running::START;
                hash.add(text.as_bytes());
                self.0.push(Piece::Text { length: text.len(), hash });
            }
            (FingerprintPart::Other(hash), _) => self.0.push(Piece::Other(hash)),
        }
    }

    /// Where `units` goes on after what was delivered; `None` when it does not begin with that.
    pub(crate) fn rest<'u>(&self, units: impl Iterator<Item = FingerprintPart<'u>>) -> Option<Remainder> {
        let mut pieces = self.0.iter();
        let mut current = pieces.next();
        let (mut taken, mut running) = (0, Running::START);
        let mut rest = None;
        let mut count = 0;
        for (index, unit) in units.enumerate() {
            count = index + 1;
            match (unit, current) {
                (FingerprintPart::Text(""), _) => {}
                (_, None) => {
                    rest.get_or_insert(Remainder { first: index, skip: 0 });
                }
                (FingerprintPart::Text(text), Some(Piece::Text { length, hash })) => {
                    let part = text.len().min(length - taken);
                    running.add(&text.as_bytes()[..part]);
                    taken += part;
                    if taken < *length {
                        continue;
                    }
                    if running != *hash {
                        return None;
                    }
                    current = pieces.next();
                    (taken, running) = (0, Running::START);
                    if part < text.len() {
                        if current.is_some() || !text.is_char_boundary(part) {
                            return None;
                        }
                        rest = Some(Remainder { first: index, skip: part });
                    }
                }
                (FingerprintPart::Other(new), Some(Piece::Other(old))) if new == *old => {
                    current = pieces.next();
                }
                _ => return None,
            }
        }
        if current.is_some() {
            return None;
        }
        Some(rest.unwrap_or(Remainder { first: count, skip: 0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::{ContentFingerprint, FingerprintPart, Remainder};

    fn delivered(units: &[FingerprintPart<'_>]) -> ContentFingerprint {
        let mut pieces = ContentFingerprint::default();
        units.iter().for_each(|unit| pieces.push(*unit));
        pieces
    }

    #[test]
    fn content_that_goes_on_is_told_from_content_that_does_not() {
        use FingerprintPart::{Other, Text};
        let rest = |old: &[FingerprintPart<'_>], new: &[FingerprintPart<'_>]| {
            delivered(old).rest(new.iter().copied()).map(|Remainder { first, skip }| (first, skip))
        };
        assert_eq!(rest(&[], &[Text("a")]), Some((0, 0)));
        assert_eq!(rest(&[Text("Hel")], &[Text("Hello")]), Some((0, 3)));
        assert_eq!(rest(&[Text("He"), Text("l")], &[Text("H"), Text("ello")]), Some((1, 2)));
        assert_eq!(rest(&[Text("Hello")], &[Text("Hello")]), Some((1, 0)));
        assert_eq!(rest(&[Text("Hello")], &[Text("Hello"), Text("!")]), Some((1, 0)));
        assert_eq!(rest(&[Text("Hello")], &[Text("Hello"), Other(1)]), Some((1, 0)));
        assert_eq!(rest(&[Text("a"), Other(1)], &[Text("a"), Other(1), Text("b")]), Some((2, 0)));
        assert_eq!(rest(&[Text("a"), Other(1)], &[Text("ab"), Other(1)]), None);
        assert_eq!(rest(&[Text("a"), Other(1)], &[Text("a"), Other(2)]), None);
        assert_eq!(rest(&[Text("Hello")], &[Text("Hel")]), None);
        assert_eq!(rest(&[Text("wrong")], &[Text("right")]), None);
        assert_eq!(rest(&[Text("\u{e9}")], &[Text("\u{e9}t\u{e9}")]), Some((0, 2)));
    }
}
