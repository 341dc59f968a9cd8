//! Structured diffs.

mod build;
mod disk;
mod entry;
mod error;
mod intraline;
mod lines;
mod mime;
mod model;
mod names;
mod options;
mod patch;
mod renames;

pub use build::*;
pub use error::*;
pub use model::*;
pub use options::*;
pub use patch::*;
