//! Structured diffs for ACP: a list of changed paths and, if possible, a Git patch. This crate builds them
//! from bytes, files, directory trees and Git repositories; parses patches of other tools; checks that list
//! and patch agree; and applies them atomically. Its patches are accepted by Git, and it never modifies
//! anything outside the given root.
//!
//! # Overview
//!
//! A [`Diff`] has [`Change`]s and optionally a [`PatchText`]. The `build_from_…` functions create one
//! according to [`BuildOptions`]; [`Built`] adds the [`Problem`]s found. [`parse_patch`] splits patch text
//! into [`FilePatch`]es with [`Hunk`]s and numbered [`Line`]s, and lists a [`PatchFault`] for each unreadable
//! part; [`write_patch`] is the inverse. [`check`] returns every [`Disagreement`] between the changes and the
//! patch, and [`Note`]s about permitted differences. [`apply`] and [`apply_patch`] change a directory,
//! [`apply_to_bytes`] one file in memory. [`from_v1`] and [`to_v1`] convert from and to the old and new texts
//! of ACP version 1. `From` converts from and to the wire types.
//!
//! Functions that read or change files are available on Unix only; functions on bytes and text everywhere.
//!
//! # Example
//!
//! ```
//! use std::path::Path;
//! use switchboard_diff::{
//!     BuildOptions, Direction, LineKind, apply_to_bytes, build_from_bytes, check, parse_patch,
//! };
//!
//! let (old, new) = (b"one\ntwo\nthree\n", b"one\n2\nthree\n");
//! let built = build_from_bytes(Path::new("/w/list.txt"), Some(old), Some(new), &BuildOptions::default());
//! assert_eq!(built.diff.changes[0].mime_type.as_deref(), Some("text/plain"));
//! assert!(check(&built.diff).agrees());
//!
//! let text = built.diff.patch.unwrap().text;
//! let patch = parse_patch(text.as_bytes());
//! let removed = patch.files[0].hunks()[0].lines.iter().find(|line| line.kind == LineKind::Removed);
//! assert_eq!(removed.unwrap().old_number, Some(2));
//!
//! let back = apply_to_bytes(&patch.files[0], Some(new), Direction::Backward)?;
//! assert_eq!(back.content.as_deref(), Some(&old[..]));
//! # Ok::<(), switchboard_diff::Error>(())
//! ```

mod acp;
mod apply;
mod build;
mod check;
#[cfg(unix)]
mod disk;
mod entry;
mod error;
mod intraline;
mod lines;
mod location;
mod mime;
mod model;
#[cfg(unix)]
mod names;
mod options;
mod patch;
mod renames;
mod stat;
mod texts;

pub use acp::PARTIAL_KEY;
pub use apply::{Applied, AppliedFile, ApplyOptions, Direction, apply_to_bytes};
#[cfg(unix)]
pub use apply::{apply, apply_patch};
pub use build::{Built, build_from_bytes};
#[cfg(unix)]
pub use build::{GitComparison, build_from_files, build_from_git, build_from_trees};
pub use check::{Checked, Disagreement, Note, check};
pub use error::{Conflict, Error, NotApplicable, PathReason, Problem};
pub use model::{Change, Diff, FileType, Operation, PatchFormat, PatchText};
pub use options::{BinaryForm, BuildOptions, Detect, PatchOptions, PathForm, Renames};
pub use patch::{
    BinaryHunk, BinaryMethod, Body, FaultKind, FilePatch, Header, Hunk, Index, Line, LineKind, Mode,
    ParsedPatch, PatchFault, Similarity, parse_patch, write_patch,
};
pub use stat::{FileStat, sections, stat};
pub use texts::{
    CHANGES_KEY, FileAtHand, ITEMS_KEY, InV1, OPERATION_KEY, PATCH_KEY, from_v1, read_back, to_v1,
};

/// Runs the examples of the guide as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/diffs.md")]
mod guide {}

/// Runs the README example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
