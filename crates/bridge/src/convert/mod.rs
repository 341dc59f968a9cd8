//! The parts of messages, each translated by itself. Whether a loss fails the translation or is noted is up to
//! the [`Notes`](crate::loss::Notes) that they are given.

pub(crate) mod config;
pub(crate) mod content;
pub(crate) mod initialize;
pub(crate) mod meta;
pub(crate) mod misc;
pub(crate) mod paths;
pub(crate) mod permission;
pub(crate) mod servers;
pub(crate) mod tool_call;
