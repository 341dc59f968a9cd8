//! Terminal output for people. All text of agents passes through [`text::visible`] first.

pub(crate) mod diff;
pub(crate) mod markdown;
pub(crate) mod style;
pub(crate) mod text;
