//! The session in a browser.

pub(crate) mod render;
