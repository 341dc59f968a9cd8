//! Builds diffs from bytes, files, trees and repositories.

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

/// A diff with the problems found while building it.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Built {
    /// The diff.
    pub diff: Diff,
    /// Files that are missing from it or shown with less detail.
    pub problems: Vec<Problem>,
}
