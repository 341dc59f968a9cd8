/// One field of an update: leave it, clear it, or set it.
///
/// An update of a tool call, a message or a terminal is a patch. A key that is not there leaves the stored
/// value alone, `null` clears it, and any other value replaces it. `""`, `0`, `false`, `{}` and `[]` are
/// values: `[]` empties a list just as `null` does, and yet the two stay apart on the wire.
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
    /// The key is not there: what is stored stays.
    #[default]
    Keep,
    /// The key is `null`: what is stored goes away.
    Clear,
    /// The key has a value: it takes the place of what is stored.
    Set(T),
}

impl<T> Field<T> {
    /// Whether the update says nothing about this field.
    pub fn is_keep(&self) -> bool {
        matches!(self, Field::Keep)
    }

    /// Whether the update clears this field with `null`.
    pub fn is_clear(&self) -> bool {
        matches!(self, Field::Clear)
    }

    /// The new value, where the update sets one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Field::Set(value) => Some(value),
            Field::Keep | Field::Clear => None,
        }
    }

    /// The new value, taken out of the update.
    pub fn into_value(self) -> Option<T> {
        match self {
            Field::Set(value) => Some(value),
            Field::Keep | Field::Clear => None,
        }
    }

    /// Does to the stored value what the update says. Returns whether the update named the field at all.
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

    /// The same operation with a reference to the value.
    pub fn as_ref(&self) -> Field<&T> {
        match self {
            Field::Keep => Field::Keep,
            Field::Clear => Field::Clear,
            Field::Set(value) => Field::Set(value),
        }
    }

    /// The same operation with another value.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Field<U> {
        match self {
            Field::Keep => Field::Keep,
            Field::Clear => Field::Clear,
            Field::Set(value) => Field::Set(convert(value)),
        }
    }
}

impl<T> Field<Vec<T>> {
    /// Whether the update leaves an empty list behind: `null` and `[]` both do.
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
