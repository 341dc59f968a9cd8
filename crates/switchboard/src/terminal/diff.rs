//! Diffs in a terminal.

use std::fmt::Write;

use switchboard_acp::display::{visible, visible_line};
use switchboard_acp::v2;

use super::style::{Role, Style};
use super::text::visible_path;

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
        for line in patch.text.lines() {
            let shown = visible(line);
            let painted = match line.as_bytes().first() {
                _ if line.starts_with("diff --git") => style.paint(Role::Strong, shown),
                _ if line.starts_with("+++ ") || line.starts_with("--- ") => style.paint(Role::Strong, shown),
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

#[cfg(test)]
mod tests {
    use super::*;
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
