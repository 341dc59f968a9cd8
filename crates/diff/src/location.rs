//! Resolves the relative paths of a patch.

use std::collections::HashMap;

use switchboard_acp::AbsolutePath;

use crate::model::Diff;
use crate::patch::FilePatch;

/// Makes the paths of a patch comparable with the absolute paths of the changes.
pub(crate) struct Location<'a> {
    root: Option<&'a str>,
}

impl<'a> Location<'a> {
    /// Determines the root: the one given in the diff, or else the one under which most paths of the patch
    /// are listed.
    pub(crate) fn new(diff: &'a Diff, files: &[FilePatch<'_>]) -> Self {
        if let Some(root) = &diff.root {
            return Location { root: Some(root.trim_end_matches('/')) };
        }
        let relative = || files.iter().map(FilePatch::path).filter(|path| !AbsolutePath::is_absolute(path));
        if relative().next().is_none() {
            return Location { root: None };
        }
        let mut ends: HashMap<&[u8], Vec<&str>> = HashMap::new();
        for path in diff.changes.iter().map(|change| change.path.as_str()) {
            for (slash, _) in path.match_indices('/') {
                ends.entry(&path.as_bytes()[slash + 1..]).or_default().push(&path[..slash]);
            }
        }
        let mut votes: HashMap<&str, usize> = HashMap::new();
        for root in relative().filter_map(|path| ends.get(path)).flatten() {
            *votes.entry(root).or_default() += 1;
        }
        // If several match equally well, use the longest, which is nearest to the files.
        let root =
            votes.into_iter().max_by_key(|&(root, votes)| (votes, root.len(), root)).map(|(root, _)| root);
        Location { root }
    }

    /// Returns the path in the form of the changes.
    pub(crate) fn place(&self, path: &[u8]) -> String {
        let path = String::from_utf8_lossy(path);
        match self.root {
            Some(root) if !AbsolutePath::is_absolute(path.as_bytes()) => format!("{root}/{path}"),
            _ => path.into_owned(),
        }
    }
}
