//! Conversions between the versions, value by value and in both directions. Each function destructures its
//! value with every field named, so that a field added to the protocol does not compile until its conversion
//! is decided: a counterpart, the metadata ([`meta`]), or the report ([`Conversion`]). The [`Losses`]
//! determine whether a loss fails the conversion.

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
