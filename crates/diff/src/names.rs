//! Detection of path names equivalent to `.git`.

use crate::error::PathReason;

/// Returns true if a path component is `.git`, or treated as such by a file system that folds case, drops
/// trailing dots and blanks, ignores some characters, or has short names.
pub(crate) fn is_git_name(component: &[u8]) -> bool {
    // Windows treats a backslash as a separator, and a colon as the start of a stream name.
    component.split(|&byte| byte == b'\\').any(|part| {
        let part = part.split(|&byte| byte == b':').next().unwrap_or(part);
        let visible = without_ignored(part);
        let end = visible.iter().rposition(|&byte| byte != b' ' && byte != b'.').map_or(0, |at| at + 1);
        let name = &visible[..end];
        name.eq_ignore_ascii_case(b".git") || is_short_git(name)
    })
}

/// Returns true if a component is exactly `.git`, as in every repository.
pub(crate) fn is_plain_git(component: &[u8]) -> bool {
    component == b".git"
}

/// Returns true for Windows' short names of `.git`: `GIT~1`, or another number if that is taken.
fn is_short_git(name: &[u8]) -> bool {
    let Some((stem, number)) = name.split_at_checked(4) else { return false };
    stem.eq_ignore_ascii_case(b"git~") && !number.is_empty() && number.iter().all(u8::is_ascii_digit)
}

/// Returns the name without the characters that macOS ignores when comparing names.
fn without_ignored(name: &[u8]) -> Vec<u8> {
    let Ok(text) = str::from_utf8(name) else { return name.to_vec() };
    let is_ignored = |character: &char| matches!(character, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    text.chars().filter(|character| !is_ignored(character)).collect::<String>().into_bytes()
}

/// Checks the components of a relative path, and returns it without `.` and empty ones.
pub(crate) fn check_relative(path: &[u8]) -> Result<Vec<u8>, PathReason> {
    if path.contains(&0) {
        return Err(PathReason::Nul);
    }
    let mut checked = Vec::with_capacity(path.len());
    for component in path.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => continue,
            b".." => return Err(PathReason::Parent),
            _ if is_git_name(component) => return Err(PathReason::Git),
            _ => {}
        }
        if !checked.is_empty() {
            checked.push(b'/');
        }
        checked.extend_from_slice(component);
    }
    if checked.is_empty() { Err(PathReason::Empty) } else { Ok(checked) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_disguise_of_git_is_seen() {
        let disguises = [
            ".git",
            ".GIT",
            ".Git",
            ".git.",
            ".git ",
            ".git . .",
            "git~1",
            "GIT~1",
            "GiT~2",
            "GIT~1 .",
            ".git:stream",
            ".git::$INDEX_ALLOCATION",
            ".git\\config",
            "x\\.git",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".gi\u{206f}t",
        ];
        for name in disguises {
            assert!(is_git_name(name.as_bytes()), "{name:?}");
        }
    }

    #[test]
    fn ordinary_names_are_left_alone() {
        for name in
            [".gitignore", ".github", "git", "git~", "agit~1", "dot.git", ".gi t", "git~1x", "...", ""]
        {
            assert!(!is_git_name(name.as_bytes()), "{name:?}");
        }
    }

    #[test]
    fn relative_paths_are_checked_by_component() {
        assert_eq!(check_relative(b"a/./b//c").as_deref(), Ok(&b"a/b/c"[..]));
        assert_eq!(check_relative(b"a/../b"), Err(PathReason::Parent));
        assert_eq!(check_relative(b"sub/.git/config"), Err(PathReason::Git));
        assert_eq!(check_relative(b"nul\0byte"), Err(PathReason::Nul));
        assert_eq!(check_relative(b"./"), Err(PathReason::Empty));
        assert_eq!(check_relative(b"..."), Ok(b"...".to_vec()));
    }
}
