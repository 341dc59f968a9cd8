//! Maps the paths of a diff below the root, and refuses invalid ones.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::disk::Root;
use crate::error::{Error, PathReason};
use crate::names::check_relative;

/// Maps the paths of a diff to paths relative to the root.
pub(super) struct Placement {
    pub(super) root: Root,
    /// Directories that absolute paths may start with, tried in order.
    bases: Vec<PathBuf>,
}

impl Placement {
    pub(super) fn new(root: &Path, base: Option<&Path>) -> Result<Self, Error> {
        let failed = |source| Error::Read { path: root.to_owned(), source };
        let given = std::path::absolute(root).map_err(failed)?;
        let resolved = root.canonicalize().map_err(failed)?;
        let root = Root::open(&resolved).map_err(failed)?;
        Ok(Placement { root, bases: base.map(Path::to_owned).into_iter().chain([given, resolved]).collect() })
    }

    /// Returns the path relative to the root, or the reason why it is refused.
    pub(super) fn place(&self, path: &[u8]) -> Result<Vec<u8>, Error> {
        self.relative(path)
            .and_then(check_relative)
            .map_err(|reason| Error::RefusedPath { path: String::from_utf8_lossy(path).into_owned(), reason })
    }

    /// Returns the path relative to the root for comparisons. A refused path is returned unchanged.
    pub(super) fn place_lossy(&self, path: &[u8]) -> String {
        let placed = self.relative(path).and_then(check_relative);
        String::from_utf8_lossy(placed.as_deref().unwrap_or(path)).into_owned()
    }

    fn relative<'a>(&self, path: &'a [u8]) -> Result<&'a [u8], PathReason> {
        if path.contains(&0) {
            return Err(PathReason::Nul);
        }
        if !path.starts_with(b"/") {
            return Ok(path);
        }
        let below = |base: &PathBuf| {
            let base = base.as_os_str().as_bytes();
            let base = base.strip_suffix(b"/").unwrap_or(base);
            path.strip_prefix(base)?.strip_prefix(b"/")
        };
        if path.split(|&byte| byte == b'/').any(|component| component == b"..") {
            return Err(PathReason::Parent);
        }
        self.bases.iter().find_map(below).ok_or(PathReason::OutsideRoot)
    }
}
