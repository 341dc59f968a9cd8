//! Diffs in a terminal.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

use switchboard_acp::display::{visible, visible_line};
use switchboard_acp::v2;

use super::style::{Role, Style};
use super::text::{visible_path, working_directory};

/// Renders a diff with every changed path and the whole patch.
pub(crate) fn render(diff: &v2::Diff<'_>, style: Style) -> String {
    let mut text = String::new();
    for change in &diff.changes {
        let path = visible_path(&change.path().unwrap_or_default());
        let from = change.old_path().map(|old| format!("{} -> ", visible_path(old.as_str())));
        let kind = match change.file_type() {
            None | Some(v2::DiffFileType::Text) => String::new(),
            Some(other) => format!(" ({})", visible_line(other.as_str())),
        };
        let role = match change {
            v2::DiffChange::Add(_) | v2::DiffChange::Copy(_) => Role::Added,
            v2::DiffChange::Delete(_) => Role::Removed,
            _ => Role::Place,
        };
        let operation = style.paint(role, visible_line(change.tag()));
        let _ = writeln!(text, "{operation} {}{path}{kind}", from.unwrap_or_default());
    }
    if let Some(patch) = &diff.patch {
        // Lines of files are never changed, although they may look like a header.
        let mut hunk = HunkLines::default();
        for line in patch.text.lines() {
            let is_header = !hunk.contains_next(line);
            let line = match working_directory() {
                Some(folder) if is_header => relative_header(line, folder),
                _ => Cow::Borrowed(line),
            };
            let shown = visible(&line);
            let painted = match line.as_bytes().first() {
                _ if is_header
                    && ["diff --git", "+++ ", "--- "].iter().any(|word| line.starts_with(word)) =>
                {
                    style.paint(Role::Strong, shown)
                }
                Some(b'+') => style.paint(Role::Added, shown),
                Some(b'-') => style.paint(Role::Removed, shown),
                Some(b'@') => style.paint(Role::Place, shown),
                Some(b' ') | None => shown.into_owned(),
                Some(_) => style.paint(Role::Faint, shown),
            };
            text.push_str(&painted);
            text.push('\n');
        }
    }
    text
}

/// The number of lines that follow in a hunk, on both sides.
#[derive(Debug, Default)]
struct HunkLines {
    old: u64,
    new: u64,
}

impl HunkLines {
    /// Returns whether the next line belongs to a file.
    fn contains_next(&mut self, line: &str) -> bool {
        if self.old == 0 && self.new == 0 {
            if let Some((old, new)) = hunk_lengths(line) {
                (self.old, self.new) = (old, new);
            }
            return false;
        }
        match line.as_bytes().first() {
            Some(b'-') => self.old = self.old.saturating_sub(1),
            Some(b'+') => self.new = self.new.saturating_sub(1),
            // "\ No newline at end of file" belongs to the line before it.
            Some(b'\\') => {}
            _ => {
                self.old = self.old.saturating_sub(1);
                self.new = self.new.saturating_sub(1);
            }
        }
        true
    }
}

/// Returns the numbers of old and new lines from the header of a hunk.
fn hunk_lengths(line: &str) -> Option<(u64, u64)> {
    let mut ranges = line.strip_prefix("@@ -")?.split(' ');
    let length = |range: &str| match range.split_once(',') {
        Some((_, length)) => length.parse().ok(),
        None => Some(1),
    };
    Some((length(ranges.next()?)?, length(ranges.next()?.strip_prefix('+')?)?))
}

/// Returns a header line of a patch with paths relative to a folder where they are inside it.
fn relative_header<'l>(line: &'l str, folder: &Path) -> Cow<'l, str> {
    let Some(folder) = folder.to_str().filter(|folder| folder.len() > 1 && line.contains(folder)) else {
        return Cow::Borrowed(line);
    };
    // A path is preceded by a space, or by a quote if it contains special characters.
    let shortened = line.replace(&format!(" {folder}/"), " ").replace(&format!("\"{folder}/"), "\"");
    if line.contains("/../") { Cow::Borrowed(line) } else { Cow::Owned(shortened) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_relative_paths_and_lines_of_files_are_unchanged() {
        let folder = Path::new("/w");
        let header = |line| relative_header(line, folder).into_owned();
        assert_eq!(header("diff --git /w/a b.txt /w/c"), "diff --git a b.txt c");
        assert_eq!(header(r#"+++ "/w/\303\244""#), r#"+++ "\303\244""#);
        assert_eq!(header("--- /work/a"), "--- /work/a");
        assert_eq!(header("--- /w/../etc/passwd"), "--- /w/../etc/passwd");
        let mut hunk = HunkLines::default();
        let lines = ["--- /w/a", "@@ -1,2 +1 @@ x", "--- /w/a", "+++ /w/a", "-", "\\ No newline", "--- /w/b"];
        let within = lines.map(|line| hunk.contains_next(line));
        assert_eq!(within, [false, false, true, true, true, false, false]);
    }
    use switchboard_acp::AbsolutePath;

    #[test]
    fn paths_and_lines_are_shown_and_harmless() {
        let path = v2::DiffPathChange::new(AbsolutePath::parse("/w/a\u{202E}b").unwrap());
        let mut diff = v2::Diff::new(vec![v2::DiffChange::Add(path)]);
        diff.patch = Some(v2::DiffPatch::git("diff --git /w/a /w/a\n@@ -0,0 +1 @@\n+\u{1B}[2Jx\n"));
        assert_eq!(
            render(&diff, Style::PLAIN),
            "add /w/a<U+202E>b\ndiff --git /w/a /w/a\n@@ -0,0 +1 @@\n+␛[2Jx\n"
        );
    }
}
