/// One field of an update: keep, clear or set.
///
/// An update of a tool call, a message or a terminal is a patch. A missing key keeps the stored value, `null`
/// clears it, and any other value replaces it. `""`, `0`, `false`, `{}` and `[]` are values: `[]` empties a
/// list like `null`, but the two are distinct on the wire.
///
/// ```
/// use switchboard_acp::Field;
///
/// let mut title = Some("Reading".to_owned());
/// Field::Keep.apply_to(&mut title);
/// assert_eq!(title.as_deref(), Some("Reading"));
/// Field::Set("Read 3 files".to_owned()).apply_to(&mut title);
/// assert_eq!(title.as_deref(), Some("Read 3 files"));
/// Field::Clear.apply_to(&mut title);
/// assert_eq!(title, None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Field<T> {
    /// The key is missing: the stored value stays.
    #[default]
    Keep,
    /// The key is `null`: the stored value is removed.
    Clear,
    /// The key has a value, which replaces the stored one.
    Set(T),
}

impl<T> Field<T> {
    /// Returns true if the key is missing.
    pub fn is_keep(&self) -> bool {
        matches!(self, Field::Keep)
    }

    /// Returns true if the key is `null`.
    pub fn is_clear(&self) -> bool {
        matches!(self, Field::Clear)
    }

    /// Returns the new value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Field::Set(value) => Some(value),
            Field::Keep | Field::Clear => None,
        }
    }

    /// Returns the new value, consuming the field.
    pub fn into_value(self) -> Option<T> {
        match self {
            Field::Set(value) => Some(value),
            Field::Keep | Field::Clear => None,
        }
    }

    /// Applies the field to a stored value. Returns true if the key was present.
    pub fn apply_to(self, stored: &mut Option<T>) -> bool {
        match self {
            Field::Keep => false,
            Field::Clear => {
                *stored = None;
                true
            }
            Field::Set(value) => {
                *stored = Some(value);
                true
            }
        }
    }

    /// Returns the same operation with a reference to the value.
    pub fn as_ref(&self) -> Field<&T> {
        match self {
            Field::Keep => Field::Keep,
            Field::Clear => Field::Clear,
            Field::Set(value) => Field::Set(value),
        }
    }

    /// Returns the same operation with a converted value.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Field<U> {
        match self {
            Field::Keep => Field::Keep,
            Field::Clear => Field::Clear,
            Field::Set(value) => Field::Set(convert(value)),
        }
    }
}

impl<T> Field<Vec<T>> {
    /// Returns true if the update leaves an empty list: `null` and `[]` both do.
    pub fn empties(&self) -> bool {
        match self {
            Field::Keep => false,
            Field::Clear => true,
            Field::Set(items) => items.is_empty(),
        }
    }
}

impl<T> From<T> for Field<T> {
    fn from(value: T) -> Self {
        Field::Set(value)
    }
}
