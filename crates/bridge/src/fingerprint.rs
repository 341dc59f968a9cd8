//! Fingerprint of the delivered content of a message or tool call: enough to tell whether new content
//! continues the old, without storing the content.

use std::hash::{DefaultHasher, Hash, Hasher};

use switchboard_acp::{Wire, WireFormat};

/// One block of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FingerprintPart<'u> {
    /// Plain text, joined with adjacent text.
    Text(&'u str),
    /// Any other block, by its hash.
    Other(u64),
}

impl<'u> FingerprintPart<'u> {
    /// Returns the part for a version 1 block, with its text if it is plain text.
    pub(crate) fn of<'b>(block: &impl Wire<'b>, text: Option<&'u str>) -> Self {
        match text {
            Some(text) => FingerprintPart::Text(text),
            None => {
                let mut hasher = DefaultHasher::new();
                block.encode(WireFormat::V1).hash(&mut hasher);
                FingerprintPart::Other(hasher.finish())
            }
        }
    }
}

/// An incremental FNV-1a hash.
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

/// Hash and length of the delivered content. Adjacent text counts as one piece, however it was split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContentFingerprint {
    hash: Running,
    pieces: usize,
    /// Bytes of the last piece if that is text.
    text: Option<usize>,
}

impl Default for ContentFingerprint {
    fn default() -> Self {
        ContentFingerprint { hash: Running::START, pieces: 0, text: None }
    }
}

/// Start of the undelivered content: index of the first unit, and bytes to skip in its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remainder {
    pub(crate) first: usize,
    pub(crate) skip: usize,
}

/// Separator before each piece in the hash. No UTF-8 text contains this byte.
const MARK: u8 = 0xff;

impl ContentFingerprint {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces == 0
    }

    pub(crate) fn clear(&mut self) {
        *self = ContentFingerprint::default();
    }

    pub(crate) fn push(&mut self, unit: FingerprintPart<'_>) {
        match unit {
            FingerprintPart::Text(text) => self.push_text(text.as_bytes()),
            FingerprintPart::Other(hash) => {
                self.pieces += 1;
                self.text = None;
                self.hash.add(&[MARK, b'o']);
                self.hash.add(&hash.to_le_bytes());
            }
        }
    }

    fn push_text(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.text.is_none() {
            self.pieces += 1;
            self.hash.add(&[MARK, b't']);
        }
        self.hash.add(bytes);
        self.text = Some(self.text.unwrap_or(0) + bytes.len());
    }

    /// Returns the position in `units` after the delivered content; `None` if `units` does not begin with it.
    pub(crate) fn rest<'u>(&self, units: impl Iterator<Item = FingerprintPart<'u>>) -> Option<Remainder> {
        let mut seen = ContentFingerprint::default();
        let mut is_seen = self.is_empty();
        let mut count = 0;
        for (index, unit) in units.enumerate() {
            count = index + 1;
            if unit == FingerprintPart::Text("") {
                continue;
            }
            if is_seen {
                return Some(Remainder { first: index, skip: 0 });
            }
            let mut skip = 0;
            match unit {
                FingerprintPart::Text(text) => {
                    let piece = seen.pieces + usize::from(seen.text.is_none());
                    let last = self.text.filter(|_| piece == self.pieces);
                    let wanted = last.map_or(usize::MAX, |length| length - seen.text.unwrap_or(0));
                    let part = text.len().min(wanted);
                    seen.push_text(&text.as_bytes()[..part]);
                    if part < text.len() {
                        if !text.is_char_boundary(part) {
                            return None;
                        }
                        skip = part;
                    }
                }
                FingerprintPart::Other(_) => seen.push(unit),
            }
            if seen.pieces > self.pieces {
                return None;
            }
            if seen.pieces == self.pieces && seen.text == self.text {
                if seen != *self {
                    return None;
                }
                is_seen = true;
                if skip > 0 {
                    return Some(Remainder { first: index, skip });
                }
            }
        }
        is_seen.then_some(Remainder { first: count, skip: 0 })
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
        assert_eq!(rest(&[Text("a"), Other(1)], &[Text("a"), Text("b")]), None);
        assert_eq!(rest(&[Other(1)], &[Other(1), Text(""), Text("a"), Text("")]), Some((2, 0)));
        assert_eq!(rest(&[Other(1)], &[Other(1), Text("")]), Some((2, 0)));
        assert_eq!(rest(&[Other(1), Text("a"), Other(1)], &[Other(1), Other(1), Text("a")]), None);
        assert_eq!(rest(&[Text("ab"), Text("c")], &[Text("abd")]), None);
    }
}
