//! Patch text: its model, a reader and a writer.

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
