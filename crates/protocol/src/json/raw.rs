use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::reader::Reader;
use crate::error::{DecodeError, Read};
use crate::{Text, Wire, WireFormat};

/// Any JSON value as its original text: numbers, key order and white space are preserved.
#[derive(Clone)]
pub struct Raw<'a>(Source<'a>);

#[derive(Clone)]
enum Source<'a> {
    Text(Cow<'a, str>),
    Shared(Arc<str>),
}

impl<'a> Raw<'a> {
    /// Parses a text that is one JSON value.
    ///
    /// ```
    /// use switchboard_acp::Raw;
    /// assert_eq!(Raw::parse("[1.0, 1e3]").unwrap().as_str(), "[1.0, 1e3]");
    /// assert!(Raw::parse("[1.0,").is_err());
    /// ```
    pub fn parse(text: impl Into<Cow<'a, str>>) -> Result<Self, DecodeError> {
        let text = text.into();
        let mut reader = Reader::new(&text, WireFormat::Any);
        let outcome = reader.read_raw().and_then(|_| reader.finish());
        match outcome {
            Ok(()) => Ok(Raw::from_checked(text)),
            Err(fault) => Err(DecodeError::new(&fault, &text)),
        }
    }

    pub(crate) fn from_checked(text: impl Into<Cow<'a, str>>) -> Self {
        Raw(Source::Text(text.into()))
    }

    /// Returns the JSON of a value.
    ///
    /// ```
    /// use switchboard_acp::{Raw, WireFormat, v2};
    /// let option = v2::EnvVariable::new("A", "1");
    /// assert_eq!(Raw::of(&option, WireFormat::Any).as_str(), r#"{"name":"A","value":"1"}"#);
    /// ```
    pub fn of<'v>(value: &impl Wire<'v>, format: WireFormat) -> Raw<'static> {
        Raw::from_checked(value.encode(format))
    }

    /// Returns an array of values.
    pub fn array<'i>(items: impl IntoIterator<Item = Raw<'i>>) -> Raw<'static> {
        let mut text = String::from("[");
        for item in items {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(item.as_str());
        }
        text.push(']');
        Raw::from_checked(text)
    }

    /// Returns the JSON text.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Source::Text(text) => text,
            Source::Shared(text) => text,
        }
    }

    /// Returns the JSON text with the lifetime of the parsed text. `None` if it is owned.
    pub fn as_source(&self) -> Option<&'a str> {
        match self.0 {
            Source::Text(Cow::Borrowed(text)) => Some(text),
            Source::Text(Cow::Owned(_)) | Source::Shared(_) => None,
        }
    }

    /// Converts the value to an owned one.
    pub fn into_owned(self) -> Raw<'static> {
        Raw(match self.0 {
            Source::Text(text) => Source::Text(Cow::Owned(text.into_owned())),
            Source::Shared(text) => Source::Shared(text),
        })
    }

    /// Converts the value to an owned one whose copies share one text.
    ///
    /// ```
    /// use switchboard_acp::Raw;
    /// let shared = Raw::parse("[1.0, 1e3]").unwrap().to_shared();
    /// assert_eq!(shared.as_str().as_ptr(), shared.clone().as_str().as_ptr());
    /// ```
    pub fn to_shared(&self) -> Raw<'static> {
        Raw(Source::Shared(match &self.0 {
            Source::Text(text) => Arc::from(&**text),
            Source::Shared(text) => Arc::clone(text),
        }))
    }

    /// Returns the value with a shorter lifetime.
    pub fn borrowed(&self) -> Raw<'_> {
        Raw::from_checked(self.as_str())
    }

    /// Returns the value as a tree. Numbers beyond machine types are rounded, so this is only for inspection.
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::from_str(self.as_str()).unwrap_or(serde_json::Value::Null)
    }

    /// Returns the string if the value is one.
    pub fn as_text(&self) -> Option<Text<'_>> {
        Reader::new(self.as_str(), WireFormat::Any).read_string().ok()
    }

    /// Returns the value of a key if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<Raw<'_>> {
        self.entries().find_map(|(name, value)| (name == key).then_some(value))
    }

    /// Returns the string under a key if this is an object that has one.
    pub fn text(&self, key: &str) -> Option<String> {
        Some(self.get(key)?.as_text()?.into_owned())
    }

    /// Returns the keys and values of an object.
    pub fn entries(&self) -> impl Iterator<Item = (Text<'_>, Raw<'_>)> {
        let mut reader = Reader::new(self.as_str(), WireFormat::Any);
        let mut first = true;
        let mut open = reader.begin_object().is_ok();
        std::iter::from_fn(move || {
            if !open {
                return None;
            }
            let mut next = || -> Read<_> {
                match reader.next_key(&mut first)? {
                    Some(key) => Ok(Some((key, reader.read_raw()?))),
                    None => Ok(None),
                }
            };
            let entry = next().ok().flatten();
            open = entry.is_some();
            entry
        })
    }

    /// Returns the items of an array.
    pub fn items(&self) -> impl Iterator<Item = Raw<'_>> {
        let mut reader = Reader::new(self.as_str(), WireFormat::Any);
        let mut first = true;
        let mut open = reader.begin_array().is_ok();
        std::iter::from_fn(move || {
            if !open {
                return None;
            }
            let mut next = || -> Read<_> {
                if reader.next_item(first)? { Ok(Some(reader.read_raw()?)) } else { Ok(None) }
            };
            let item = next().ok().flatten();
            (first, open) = (false, item.is_some());
            item
        })
    }

    /// Returns true if the value is an object.
    pub fn is_object(&self) -> bool {
        self.as_str().trim_start().starts_with('{')
    }
}

impl From<serde_json::Value> for Raw<'static> {
    fn from(value: serde_json::Value) -> Self {
        Raw::from_checked(value.to_string())
    }
}

impl PartialEq for Raw<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Raw<'_> {}

impl Hash for Raw<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Raw<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Display for Raw<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Unknown keys of an object, in order, with their unparsed values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
// One word in size, because it is nearly always empty and part of every type.
#[allow(clippy::box_collection)]
pub struct Extra<'a>(Option<Box<Vec<(Text<'a>, Raw<'a>)>>>);

impl<'a> Extra<'a> {
    /// Creates an empty collection.
    pub const fn new() -> Self {
        Extra(None)
    }

    fn entries(&self) -> &[(Text<'a>, Raw<'a>)] {
        self.0.as_ref().map_or(&[], |entries| entries)
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Returns true if it is empty.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&Raw<'a>> {
        self.entries().iter().find_map(|(name, value)| (name == key).then_some(value))
    }

    /// Returns all keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Raw<'a>)> {
        self.entries().iter().map(|(name, value)| (&**name, value))
    }

    /// Adds a key or replaces its value.
    pub fn insert(&mut self, key: impl Into<Text<'a>>, value: Raw<'a>) {
        let key = key.into();
        self.remove(&key);
        self.push(key, value);
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) -> Option<Raw<'a>> {
        let entries = self.0.as_mut()?;
        let index = entries.iter().position(|(name, _)| name == key)?;
        let (_, value) = entries.remove(index);
        if entries.is_empty() {
            self.0 = None;
        }
        Some(value)
    }

    /// Converts the keys and values to owned ones.
    pub fn into_owned(self) -> Extra<'static> {
        let own = |(key, value): (Text<'a>, Raw<'a>)| (Text::Owned(key.into_owned()), value.into_owned());
        Extra(self.0.map(|entries| Box::new(entries.into_iter().map(own).collect())))
    }

    pub(crate) fn push(&mut self, key: Text<'a>, value: Raw<'a>) {
        self.0.get_or_insert_default().push((key, value));
    }

    /// Returns a duplicate key. Called once per object, so that many keys do not have quadratic cost.
    #[inline(always)]
    pub(crate) fn duplicate(&self) -> Option<&str> {
        let entries = self.0.as_ref()?;
        first_duplicate(entries.iter().map(|(key, _)| &**key))
    }
}

/// Returns the first duplicate key.
pub(crate) fn first_duplicate<'k>(keys: impl ExactSizeIterator<Item = &'k str>) -> Option<&'k str> {
    if keys.len() < 2 {
        return None;
    }
    let mut seen = HashSet::with_capacity(keys.len());
    keys.into_iter().find(|key| !seen.insert(*key))
}
