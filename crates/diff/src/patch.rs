//! Patch text: its model, a reader and a writer.
//!
//! Written here, because a patch of an agent is read as git reads it or refused, and needs more than unified hunks: extended
//! headers, quoted names, binary hunks, paths and lines that are not UTF-8, the place of each fault, and the reverse.

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
