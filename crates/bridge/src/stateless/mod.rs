//! Translation of one thing at a time, without memory: what cannot be said fails, by element and reason.

mod messages;
mod updates;

pub use messages::Stateless;
pub(crate) use messages::sender_of;
pub use updates::{update_to_v1, update_to_v2};

use crate::loss::Note;

/// A translated value, with what was left out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted<T> {
    /// The value in the other version.
    pub value: T,
    /// What had to be left out, where the protocol's text allows that.
    pub omitted: Vec<Note>,
}
