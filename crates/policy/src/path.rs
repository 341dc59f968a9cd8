//! Paths as written, and with links resolved.

use crate::host::{Host, Node};

/// Maximum number of followed links.
const MAX_LINKS: usize = 40;
/// Maximum number of path components.
const MAX_COMPONENTS: usize = 1000;

/// Reason why the file of a path is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathDoubt {
    Circle,
    Unreadable,
    TooLong,
}

impl PathDoubt {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            PathDoubt::Circle => "a path contains a cycle of links",
            PathDoubt::Unreadable => "a path leads through a folder that cannot be read",
            PathDoubt::TooLong => "a path is too long",
        }
    }
}

/// Resolves a path like the operating system: each link in its position, so that `..` after it is the parent
/// of its target.
pub(crate) fn resolve(path: &str, host: &dyn Host) -> Result<String, PathDoubt> {
    let mut pending: Vec<String> = components(path).rev().map(str::to_owned).collect();
    let mut resolved = String::new();
    let (mut links, mut looked) = (0, 0);
    while let Some(name) = pending.pop() {
        looked += 1;
        if looked > MAX_COMPONENTS {
            return Err(PathDoubt::TooLong);
        }
        match &*name {
            "." => continue,
            ".." => {
                resolved.truncate(resolved.rfind('/').unwrap_or(0));
                continue;
            }
            _ => {}
        }
        let length = resolved.len();
        resolved.push('/');
        resolved.push_str(&name);
        match host.look(&resolved) {
            Node::Link(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(PathDoubt::Circle);
                }
                resolved.truncate(if target.starts_with('/') { 0 } else { length });
                pending.extend(components(&target).rev().map(str::to_owned));
            }
            Node::Unreadable => return Err(PathDoubt::Unreadable),
            Node::Missing | Node::Folder | Node::File { .. } => {}
        }
    }
    if resolved.is_empty() {
        resolved.push('/');
    }
    Ok(resolved)
}

/// Returns the names in a path.
pub(crate) fn components(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// Returns the path without `.` and `..`, without resolving links.
pub(crate) fn tidy(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in components(path) {
        match name {
            "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

/// Joins a folder and a path.
pub(crate) fn join(folder: &str, path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", folder.trim_end_matches('/')) }
}

/// Returns whether a text is a URI: `file:///x`, `https://x`.
pub(crate) fn is_uri(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, rest)| {
        scheme.len() > 1
            && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
            && (rest.starts_with('/') || scheme.eq_ignore_ascii_case("file"))
    })
}

/// Returns the path of a file URI, or any text with its percent encoding decoded.
pub(crate) fn decoded(text: &str) -> String {
    let path = match text.split_once(':') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => match rest.strip_prefix("//") {
            Some(rest) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or(rest),
            None => rest,
        },
        _ => text,
    };
    let (mut bytes, mut rest) = (Vec::with_capacity(path.len()), path.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.filter(|_| first == b'%').and_then(|code| u8::from_str_radix(code, 16).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Links(&'static [(&'static str, &'static str)]);

    impl Host for Links {
        fn look(&self, path: &str) -> Node {
            match self.0.iter().find(|(name, _)| *name == path) {
                Some((_, "?")) => Node::Unreadable,
                Some((_, target)) => Node::Link((*target).to_owned()),
                None => Node::Missing,
            }
        }

        fn home(&self) -> Option<&str> {
            None
        }

        fn ignores_case(&self, _: &str) -> bool {
            false
        }
    }

    #[test]
    fn links_are_followed_before_the_parent_is_taken() {
        let host = Links(&[
            ("/w/out", "/etc"),
            ("/w/up", ".."),
            ("/w/deep", "a/b/c"),
            ("/w/a/b/c", "/x/y"),
            ("/round", "round"),
            ("/one", "/two"),
            ("/two", "one"),
            ("/odd", "?"),
        ]);
        for (path, expected) in [
            ("/w/x", Ok("/w/x")),
            ("/w//x/./y/", Ok("/w/x/y")),
            ("/w/x/../y", Ok("/w/y")),
            ("/w/out/passwd", Ok("/etc/passwd")),
            ("/w/out/../y", Ok("/y")),
            ("/w/up/y", Ok("/y")),
            ("/w/deep/z", Ok("/x/y/z")),
            ("/../../y", Ok("/y")),
            ("/", Ok("/")),
            ("/w/a\nb", Ok("/w/a\nb")),
            ("/round/x", Err(PathDoubt::Circle)),
            ("/one", Err(PathDoubt::Circle)),
            ("/odd/x", Err(PathDoubt::Unreadable)),
        ] {
            assert_eq!(resolve(path, &host), expected.map(str::to_owned), "{path}");
        }
    }

    #[test]
    fn addresses_are_told_from_paths() {
        for (text, is) in [
            ("file:///etc/passwd", true),
            ("FILE:/etc", true),
            ("https://x/y", true),
            ("/a:b", false),
            ("a:b", false),
            ("c:/x", false),
            ("", false),
        ] {
            assert_eq!(is_uri(text), is, "{text}");
        }
        assert_eq!(decoded("file:///etc/%70asswd"), "/etc/passwd");
        assert_eq!(decoded("file://host/etc/x"), "/etc/x");
        assert_eq!(decoded("/a/%2e%2E/b%"), "/a/../b%");
    }
}
