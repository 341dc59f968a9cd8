//! A prefilter that avoids most comparisons.

/// Approximate set of adjacent letter pairs in some names. A pair that is not in the sketch is not in the
/// names.
///
/// Case is ignored, and non-ASCII letters are left out of the requirements of a pattern.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sketch([u64; 4]);

impl Sketch {
    /// The sketch of names that may contain anything.
    pub(crate) const ANYTHING: Sketch = Sketch([u64::MAX; 4]);

    /// Returns the pairs that every name matching a pattern must contain; `*` and `?` match anything.
    pub(crate) fn needed<'n>(names: impl IntoIterator<Item = &'n str>) -> Sketch {
        let mut sketch = Sketch::default();
        for name in names {
            let is_letter = |byte: u8| byte.is_ascii() && byte != b'*' && byte != b'?';
            pairs(name)
                .filter(|pair| pair.iter().all(|byte| is_letter(*byte)))
                .for_each(|pair| sketch.set(pair));
        }
        sketch
    }

    /// Adds a name.
    pub(crate) fn add(&mut self, name: &str) {
        match name.is_ascii() {
            true => pairs(name).for_each(|pair| self.set(pair)),
            // Lowercasing may change its letters.
            false => *self = Sketch::ANYTHING,
        }
    }

    /// Adds all pairs of another sketch.
    pub(crate) fn join(&mut self, other: &Sketch) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }

    /// Returns the pairs that both have.
    pub(crate) fn common(mut self, other: Sketch) -> Sketch {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        self
    }

    /// Returns whether names with this sketch may contain all pairs that a pattern needs.
    pub(crate) fn may_have(&self, needed: &Sketch) -> bool {
        self.0.iter().zip(needed.0).all(|(word, needed)| needed & !word == 0)
    }

    fn set(&mut self, [first, second]: [u8; 2]) {
        let place = (u16::from_be_bytes([first, second]).wrapping_mul(0x9e37) >> 8) as usize;
        if let Some(word) = self.0.get_mut(place / 64) {
            *word |= 1 << (place % 64);
        }
    }
}

fn pairs(name: &str) -> impl Iterator<Item = [u8; 2]> {
    let bytes = name.as_bytes();
    bytes
        .iter()
        .zip(bytes.iter().skip(1))
        .map(|(first, second)| [first.to_ascii_lowercase(), second.to_ascii_lowercase()])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::glob::{Anchors, PathPattern, names};
    use crate::host::NoFiles;

    #[test]
    fn other_names_are_told_apart() {
        let mut found = Sketch::default();
        found.add("src");
        found.add("Main.rs");
        assert!(found.may_have(&Sketch::needed(["main.*"])));
        assert!(!found.may_have(&Sketch::needed([".key-7*"])));
        found.add("\u{212a}ey");
        assert!(found.may_have(&Sketch::needed(["key"])));
    }

    proptest! {
        /// A matching pattern's requirements are always met, in any case.
        #[test]
        fn nothing_that_matches_is_left_out(
            pattern in "/[ab*?K\u{e4}\u{212a}/.]{1,8}",
            path in "/[abABkK\u{e4}\u{c4}\u{212a}/.]{1,8}",
            ignores_case: bool,
        ) {
            let Ok(pattern) = PathPattern::parse(&pattern, &NoFiles::default()) else { return Ok(()) };
            let path = names(&path);
            let mut found = Sketch::default();
            path.iter().for_each(|name| found.add(name));
            if pattern.matches(&path, &Anchors::default(), ignores_case) {
                prop_assert!(found.may_have(pattern.needed()));
            }
        }
    }
}
