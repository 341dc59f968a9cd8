//! Types that versions 1 and 2 have in common. What only one of them knows is marked at the field or variant.

pub(crate) mod common;
pub(crate) mod content;
pub(crate) mod elicitation;
pub(crate) mod permission;
pub(crate) mod session;
pub(crate) mod tool;
pub(crate) mod unstable;
