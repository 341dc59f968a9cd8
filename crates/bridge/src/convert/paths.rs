//! Normalization of relative paths and invalid line numbers.

use switchboard_acp::{AbsolutePath, LineNumber, Meta, v1, v2};

use crate::convert::{Conversion, meta};
use crate::loss::Severity;

/// Resolves a relative path below a directory. `None` if it is absolute, empty, or relative to a home
/// directory.
pub(crate) fn resolve(path: &str, directory: &str) -> Option<String> {
    if AbsolutePath::is_absolute(path) || path.is_empty() || path.starts_with('~') {
        return None;
    }
    let separator = if directory.contains('\\') && !directory.starts_with('/') { '\\' } else { '/' };
    let path = path.strip_prefix("./").or_else(|| path.strip_prefix(".\\")).unwrap_or(path);
    Some(format!("{}{separator}{path}", directory.trim_end_matches(['/', '\\'])))
}

/// Makes the paths of a session absolute and removes invalid line numbers.
pub(crate) struct PathNormalizer<'s> {
    /// The session's working directory if it is known.
    pub(crate) directory: Option<&'s str>,
    /// Metadata key for the original of a replaced path.
    pub(crate) key: &'static str,
}

impl PathNormalizer<'_> {
    pub(crate) fn settle_locations(
        &self,
        locations: &mut [v2::ToolCallLocation<'_>],
        cx: &mut Conversion<'_>,
    ) {
        for (index, location) in locations.iter_mut().enumerate() {
            let mut cx = cx.item(index);
            self.settle_path(&mut location.path, &mut location.meta, &mut cx.key("path"));
            if location.line.take_if(|line| LineNumber::get(*line).is_none()).is_some() {
                cx.key("line").omit(Severity::Minor, "line numbers start at 1; line 0 is left out");
            }
        }
    }

    /// Normalizes the paths of version 1 diffs.
    pub(crate) fn settle_content(&self, content: &mut [v1::ToolCallContent<'_>], cx: &mut Conversion<'_>) {
        for (index, item) in content.iter_mut().enumerate() {
            if let v1::ToolCallContent::Diff(diff) = item {
                self.settle_path(&mut diff.path, &mut diff.meta, &mut cx.item(index).key("path"));
            }
        }
    }

    fn settle_path(
        &self,
        path: &mut AbsolutePath<'_>,
        metadata: &mut Option<Meta<'_>>,
        cx: &mut Conversion<'_>,
    ) {
        if AbsolutePath::is_absolute(path.as_str()) {
            return;
        }
        match self.directory.and_then(|directory| resolve(path, directory)) {
            Some(resolved) => {
                meta::add(metadata, self.key, &meta::text(path));
                *path = AbsolutePath::as_sent(resolved);
                let reason = "the path is not absolute; it is resolved in the session's working directory";
                cx.omit(Severity::Guess, reason);
            }
            None => {
                let reason = "the path is not absolute; it is passed on unchanged because the working directory is unknown";
                cx.omit(Severity::Minor, reason);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn only_what_is_not_absolute_anywhere_is_resolved() {
        let resolved = |path, directory: &str| resolve(path, directory);
        for fine in ["/w/a", r"C:\w\a", "C:/w/a", r"\\server\share\a", "~/a", ""] {
            assert_eq!(resolved(fine, "/w"), None, "{fine}");
        }
        assert_eq!(resolved("a.txt", "/w").as_deref(), Some("/w/a.txt"));
        assert_eq!(resolved("./a.txt", "/w/").as_deref(), Some("/w/a.txt"));
        assert_eq!(resolved("../a.txt", "/w").as_deref(), Some("/w/../a.txt"));
        assert_eq!(resolved("a.txt", "/").as_deref(), Some("/a.txt"));
        assert_eq!(resolved(r"src\a.txt", r"C:\w").as_deref(), Some(r"C:\w\src\a.txt"));
    }
}
