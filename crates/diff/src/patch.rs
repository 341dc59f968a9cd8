//! Patch text: model, parser and writer.
//!
//! Not a library, because an agent's patch must be read exactly as Git reads it, and needs more than unified
//! hunks: extended headers, quoted names, binary hunks, paths and lines that are not UTF-8, the position of
//! each fault, and reversal.

mod binary;
mod fault;
mod model;
mod names;
mod parse;
mod quote;
mod reverse;
mod write;

pub use fault::{FaultKind, PatchFault};
pub use model::{
    BinaryHunk, BinaryMethod, Body, FilePatch, Header, Hunk, Index, Line, LineKind, Mode, Similarity,
};
pub use parse::{ParsedPatch, parse_patch};
pub(crate) use write::write_file;
pub use write::write_patch;
