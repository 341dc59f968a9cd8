//! What both versions say, value by value and in both directions. Each function takes its value apart by naming every
//! part, so that one that the protocol gains does not compile until somebody says where it goes: over, into the metadata
//! ([`meta`]), or into the report ([`Conversion`]). Whether a loss fails the conversion is up to the [`Losses`] it is given.

pub(crate) mod config;
pub(crate) mod content;
mod conversion;
pub(crate) mod elicitation;
pub(crate) mod initialize;
pub(crate) mod lists;
pub(crate) mod message;
pub(crate) mod meta;
pub(crate) mod paths;
pub(crate) mod permission;
pub(crate) mod servers;
pub(crate) mod session;
pub(crate) mod subagent;
pub(crate) mod terminal;
pub(crate) mod tool_call;
pub(crate) mod update;

pub(crate) use conversion::{Conversion, Losses};
