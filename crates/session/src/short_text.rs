//! Texts that are usually short: ids, names, titles.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Maximum length in bytes of a text stored inline. Common ids are shorter: 30 bytes for Claude, 29 for
/// OpenAI, 36 for UUIDs.
const INLINE: usize = 38;

/// An immutable text. A short one is stored inline: a session has tens of thousands of ids and titles, and
/// allocating each would take longer than everything else done with them.
#[derive(Clone)]
pub(crate) struct ShortText(Form);

#[derive(Clone)]
enum Form {
    Inline { length: u8, bytes: [u8; INLINE] },
    Shared(Arc<str>),
}

impl ShortText {
    /// Returns the text as bytes, for comparisons.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Form::Inline { length, bytes } => &bytes[..usize::from(*length).min(INLINE)],
            Form::Shared(text) => text.as_bytes(),
        }
    }
}

impl From<&str> for ShortText {
    #[inline]
    fn from(text: &str) -> Self {
        let mut bytes = [0; INLINE];
        match bytes.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(text.as_bytes());
                ShortText(Form::Inline { length: text.len() as u8, bytes })
            }
            None => ShortText(Form::Shared(text.into())),
        }
    }
}

impl Deref for ShortText {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            // The bytes come from a text, so they are valid UTF-8.
            Form::Inline { .. } => std::str::from_utf8(self.as_bytes()).unwrap_or_default(),
            Form::Shared(text) => text,
        }
    }
}

impl PartialEq for ShortText {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for ShortText {}

impl Hash for ShortText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for ShortText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_any_length_is_kept_as_it_is() {
        for text in
            ["", "c-1", "toolu_01A09q90qw90lq917835lq9", "é".repeat(19).as_str(), "ü".repeat(20).as_str()]
        {
            let short = ShortText::from(text);
            assert_eq!(&*short, text);
            assert_eq!(short, short.clone());
            assert_eq!(format!("{short:?}"), format!("{text:?}"));
        }
        for length in 0..100 {
            let (text, other) = ("x".repeat(length), format!("{}y", "x".repeat(length)));
            assert_eq!(&*ShortText::from(&*text), text);
            assert_ne!(ShortText::from(&*text), ShortText::from(&*other));
        }
    }

    #[test]
    fn it_is_as_small_as_it_can_be() {
        assert_eq!(size_of::<ShortText>(), 40);
        assert_eq!(size_of::<Option<ShortText>>(), 40);
    }
}
