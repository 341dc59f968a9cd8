//! Types common to versions 1 and 2. Fields and variants of only one version are marked.

pub(crate) mod common;
pub(crate) mod content;
pub(crate) mod elicitation;
pub(crate) mod permission;
pub(crate) mod session;
pub(crate) mod tool;
pub(crate) mod unstable;
