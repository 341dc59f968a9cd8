//! Building diffs: from bytes, files, trees and repositories to one common end.

mod assemble;
mod files;
#[cfg(unix)]
mod git;
#[cfg(unix)]
mod tree;

pub(crate) use assemble::blob_name;

use crate::error::Problem;
use crate::model::Diff;

pub use files::build_from_bytes;
#[cfg(unix)]
pub use files::build_from_files;
#[cfg(unix)]
pub use git::{GitComparison, build_from_git};
#[cfg(unix)]
pub use tree::build_from_trees;

/// A diff, and what the one who asked for it should know about it.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Built {
    /// The diff.
    pub diff: Diff,
    /// What is missing from it, or says less than it could.
    pub problems: Vec<Problem>,
}
