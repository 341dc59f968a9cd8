//! Applies fields of an update to stored values.

use std::sync::Arc;

use switchboard_acp::{Extra, Field, Meta, Raw, Text, Wire};

use crate::change::{ContentChange, FieldChange};
use crate::content::{Block, Content};
use crate::short_text::ShortText;

/// Effect of an update's `_meta` on the stored one. The two dialects differ here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaRule {
    /// Replaces the stored metadata, like every other field.
    Replace,
    /// Merges keys into the stored metadata; a `null` key is removed.
    Merge,
}

impl MetaRule {
    pub(crate) fn apply(
        self,
        stored: &mut Option<Meta<'static>>,
        field: &Field<Meta<'_>>,
    ) -> Option<FieldChange> {
        match (self, field) {
            (_, Field::Keep) => None,
            (_, Field::Clear) => stored.take().map(|_| FieldChange::Cleared),
            (MetaRule::Replace, Field::Set(meta)) => replace(stored, meta.clone().into_owned()),
            (MetaRule::Merge, Field::Set(meta)) => merge(stored, meta),
        }
    }
}

fn merge(stored: &mut Option<Meta<'static>>, meta: &Meta<'_>) -> Option<FieldChange> {
    let text = meta.as_raw().as_str();
    if stored.is_none() && meta.entries().next().is_some() && !text.contains("null") {
        return replace(stored, meta.clone().into_owned());
    }
    let mut merged: Vec<(Text<'_>, Raw<'_>)> = stored.iter().flat_map(Meta::entries).collect();
    let mut touched = false;
    for (key, value) in meta.entries() {
        let place = merged.iter().position(|(known, _)| *known == key);
        match (place, value.as_str() == "null") {
            (Some(place), true) => {
                merged.remove(place);
                touched = true;
            }
            (Some(place), false) => {
                touched |= merged[place].1 != value;
                merged[place].1 = value;
            }
            (None, true) => {}
            (None, false) => {
                merged.push((key, value));
                touched = true;
            }
        }
    }
    if !touched {
        return None;
    }
    let merged = Meta::from_entries(merged);
    *stored = Some(merged);
    Some(FieldChange::Set)
}

fn replace<T: PartialEq>(stored: &mut Option<T>, value: T) -> Option<FieldChange> {
    if stored.as_ref() == Some(&value) {
        return None;
    }
    *stored = Some(value);
    Some(FieldChange::Set)
}

#[inline]
pub(crate) fn patch_text(stored: &mut Option<ShortText>, field: &Field<Text<'_>>) -> Option<FieldChange> {
    match field {
        Field::Keep => None,
        Field::Clear => stored.take().map(|_| FieldChange::Cleared),
        Field::Set(text) if stored.as_deref() == Some(&**text) => None,
        Field::Set(text) => {
            *stored = Some((**text).into());
            Some(FieldChange::Set)
        }
    }
}

#[inline]
pub(crate) fn patch_shared<'a, T: Wire<'a, Owned: PartialEq> + Clone>(
    stored: &mut Option<Arc<T::Owned>>,
    field: &Field<T>,
) -> Option<FieldChange> {
    match field {
        Field::Keep => None,
        Field::Clear => stored.take().map(|_| FieldChange::Cleared),
        Field::Set(value) => replace(stored, Arc::new(value.clone().into_owned())),
    }
}

#[inline]
pub(crate) fn patch_raw(stored: &mut Option<Raw<'static>>, field: &Field<Raw<'_>>) -> Option<FieldChange> {
    match field {
        Field::Keep => None,
        Field::Clear => stored.take().map(|_| FieldChange::Cleared),
        Field::Set(value) if stored.as_ref() == Some(value) => None,
        Field::Set(value) => {
            *stored = Some(value.to_shared());
            Some(FieldChange::Set)
        }
    }
}

/// Applies a field that has a default instead of being absent.
#[inline]
pub(crate) fn patch_defaulted<T: Clone + PartialEq + Default>(
    stored: &mut T,
    field: &Field<T>,
) -> Option<FieldChange> {
    let (value, change) = match field {
        Field::Keep => return None,
        Field::Clear => (T::default(), FieldChange::Cleared),
        Field::Set(value) => (value.clone(), FieldChange::Set),
    };
    if *stored == value {
        return None;
    }
    *stored = value;
    Some(change)
}

#[inline]
pub(crate) fn patch_list<'a, T: Wire<'a, Owned: PartialEq> + Clone>(
    stored: &mut Option<Arc<[T::Owned]>>,
    field: &Field<Vec<T>>,
) -> Option<FieldChange> {
    match field {
        Field::Keep => None,
        Field::Set(items) if !items.is_empty() => {
            replace(stored, items.iter().map(|item| item.clone().into_owned()).collect())
        }
        Field::Clear | Field::Set(_) => stored.take().map(|_| FieldChange::Cleared),
    }
}

#[inline]
pub(crate) fn patch_content<'a, B: Block>(
    stored: &mut Content<B>,
    field: &Field<Vec<B::Wire<'a>>>,
) -> ContentChange {
    let blocks: &[B::Wire<'a>] = match field {
        Field::Keep => return ContentChange::Kept,
        Field::Clear => &[],
        Field::Set(blocks) => blocks,
    };
    if blocks.is_empty() && stored.is_empty() {
        return ContentChange::Kept;
    }
    let mut content = Content::default();
    content.replace(blocks);
    // Many agents stream a message and then send it as a whole. Keep the items of the chunks, so that
    // consumers see no change.
    if stored.is_empty() == content.is_empty() && stored.has_same_content(&content) {
        return ContentChange::Kept;
    }
    *stored = content;
    ContentChange::Replaced(blocks.len())
}

/// Merges unknown keys: each keeps its latest value.
pub(crate) fn patch_extra(stored: &mut Extra<'static>, extra: &Extra<'_>) -> Option<FieldChange> {
    let mut change = None;
    for (key, value) in extra.iter() {
        if stored.get(key).is_none_or(|known| known.as_str() != value.as_str()) {
            stored.insert(key.to_owned(), value.clone().into_owned());
            change = Some(FieldChange::Set);
        }
    }
    change
}

/// Returns the field that sets this value on a new entry.
pub(crate) fn set<T>(value: Option<T>) -> Field<T> {
    value.map_or(Field::Keep, Field::Set)
}
