//! Patterns for paths and names.
//!
//! Implemented here because a rule must also decide whether it may match a path that is only partly known:
//! whether two patterns can have a path in common. Published matchers such as `globset` match one known path.

use crate::host::Host;
use crate::path::{components, resolve};
use crate::sketch::Sketch;

/// A pattern for absolute paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathPattern {
    anchor: Anchor,
    /// The names after the anchor.
    names: Vec<Name>,
    /// The names with links resolved in the part without wildcards, if that differs.
    resolved: Option<Vec<Name>>,
    needed: Sketch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Top,
    Root,
    Home,
}

/// A name in a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Name {
    /// `**`
    Any,
    /// A name without wildcards.
    Plain(String),
    /// A name with `*` and `?`.
    Wild(String),
}

impl Name {
    fn parse(text: &str) -> Name {
        match text {
            "**" => Name::Any,
            _ if text.contains(['*', '?']) => Name::Wild(text.to_owned()),
            _ => Name::Plain(text.to_owned()),
        }
    }
}

/// A path as a list of names.
pub(crate) type Names = Vec<String>;

/// Splits a path into names.
pub(crate) fn names(path: &str) -> Names {
    components(path).map(str::to_owned).collect()
}

/// Values of `$root` and `~` in one evaluation, as written and with links resolved.
#[derive(Debug, Clone, Default)]
pub(crate) struct Anchors {
    pub(crate) roots: Vec<Vec<Name>>,
    pub(crate) homes: Vec<Vec<Name>>,
}

impl Anchors {
    /// Returns whether a path is the root or below it.
    pub(crate) fn are_above(&self, path: &Names, ignores_case: bool) -> bool {
        self.roots.iter().any(|root| {
            path.len() >= root.len()
                && root.iter().zip(path).all(|(name, found)| match name {
                    Name::Plain(plain) => same(plain, found, ignores_case),
                    Name::Any | Name::Wild(_) => false,
                })
        })
    }
}

impl PathPattern {
    pub(crate) fn parse(text: &str, host: &dyn Host) -> Result<PathPattern, String> {
        let (anchor, rest) = if let Some(rest) = text.strip_prefix("$root") {
            (Anchor::Root, rest)
        } else if let Some(rest) = text.strip_prefix('~') {
            (Anchor::Home, rest)
        } else if text.starts_with('/') || text == "**" || text.starts_with("**/") {
            (Anchor::Top, text)
        } else {
            let hint = if text.is_empty() {
                "$root/**".to_owned()
            } else {
                format!("$root/{text}\" or \"**/{text}")
            };
            return Err(format!(
                "the pattern {text:?} can never match, because paths are absolute; write \"{hint}\""
            ));
        };
        if anchor != Anchor::Top && !rest.is_empty() && !rest.starts_with('/') {
            return Err(format!(
                "the pattern {text:?} can never match: $root and ~ must be followed by a slash"
            ));
        }
        if rest.contains('$') && rest.contains("$root")
            || rest.split('/').any(|name| {
                name.starts_with("$")
                    && name.len() > 1
                    && name[1..].bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            })
        {
            return Err(format!(
                "the pattern {text:?} can never match: $root is the only variable, and only at the beginning"
            ));
        }
        if components(rest).any(|name| name == "." || name == "..") {
            return Err(format!(
                "the pattern {text:?} can never match, because paths are compared without \".\" and \"..\""
            ));
        }
        let has_braces = rest.split('/').any(|name| {
            name.split_once('{')
                .is_some_and(|(_, rest)| rest.split_once('}').is_some_and(|(inner, _)| inner.contains(',')))
        });
        if has_braces {
            return Err(format!(
                "the pattern {text:?} can never match, because braces are not expanded; write several patterns"
            ));
        }
        let names: Vec<Name> = components(rest).map(Name::parse).collect();
        let literal = names.iter().take_while(|name| matches!(name, Name::Plain(_))).count();
        let resolved =
            (anchor == Anchor::Top && literal > 0).then(|| follow(&names, literal, host)).flatten();
        let needed = match &resolved {
            Some(resolved) => needed(&names).common(needed(resolved)),
            None => needed(&names),
        };
        Ok(PathPattern { anchor, names, resolved, needed })
    }

    /// Returns the sketch that a path must contain to match.
    pub(crate) fn needed(&self) -> &Sketch {
        &self.needed
    }

    /// Returns the paths that the pattern names without wildcards, except one `/**` at the end: none, or one for each
    /// form of its anchor.
    pub(crate) fn literal_paths(&self, roots: &[String], home: Option<&str>) -> Vec<String> {
        let plain = |names: &[Name]| {
            let names = names.strip_suffix(&[Name::Any]).unwrap_or(names);
            let plain = names.iter().map(|name| match name {
                Name::Plain(name) => Some(name.as_str()),
                Name::Any | Name::Wild(_) => None,
            });
            plain.collect::<Option<Vec<_>>>().map(|names| names.join("/"))
        };
        let below = |folder: &str, rest: String| {
            let folder = folder.trim_end_matches('/');
            if rest.is_empty() && !folder.is_empty() { folder.to_owned() } else { format!("{folder}/{rest}") }
        };
        match self.anchor {
            Anchor::Root => roots.iter().filter_map(|root| Some(below(root, plain(&self.names)?))).collect(),
            Anchor::Home => {
                home.into_iter().filter_map(|home| Some(below(home, plain(&self.names)?))).collect()
            }
            Anchor::Top => {
                let forms = [Some(&self.names), self.resolved.as_ref()].into_iter().flatten();
                forms.filter_map(|names| Some(below("", plain(names)?))).collect()
            }
        }
    }

    /// Returns whether a path matches.
    pub(crate) fn matches(&self, path: &Names, anchors: &Anchors, ignores_case: bool) -> bool {
        self.fits(path, anchors, |name, found| match name {
            Name::Any => true,
            Name::Plain(plain) => same(plain, found, ignores_case),
            Name::Wild(wild) if ignores_case => wildcard(&wild.to_lowercase(), &found.to_lowercase()),
            Name::Wild(wild) => wildcard(wild, found),
        })
    }

    /// Returns whether a path may match after a shell expands its `*`, `?` and [`ANYTHING`].
    pub(crate) fn may_match(&self, path: &Names, anchors: &Anchors, ignores_case: bool) -> bool {
        let lower = |text: &str| if ignores_case { text.to_lowercase() } else { text.to_owned() };
        self.fits(path, anchors, |name, found| match name {
            Name::Any => true,
            Name::Plain(text) => overlap(&lower(text), &lower(found), false),
            Name::Wild(text) => overlap(&lower(text), &lower(found), true),
        })
    }

    fn fits(&self, path: &Names, anchors: &Anchors, fits: impl Fn(&Name, &str) -> bool) -> bool {
        let below = |folder: &Vec<Name>| {
            let starts = path.len() >= folder.len()
                && folder.iter().zip(path.iter()).all(|(name, found)| fits(name, found));
            starts && match_names(&self.names, &path[folder.len()..], &fits)
        };
        match self.anchor {
            Anchor::Root => anchors.roots.iter().any(below),
            Anchor::Home => anchors.homes.iter().any(below),
            Anchor::Top => {
                match_names(&self.names, path, &fits)
                    || self.resolved.as_ref().is_some_and(|own| match_names(own, path, &fits))
            }
        }
    }
}

fn needed(names: &[Name]) -> Sketch {
    Sketch::needed(names.iter().filter_map(|name| match name {
        Name::Any => None,
        Name::Plain(text) | Name::Wild(text) => Some(text.as_str()),
    }))
}

/// Returns a folder as a pattern that matches only itself.
pub(crate) fn exactly(path: &str) -> Vec<Name> {
    components(path).map(|name| Name::Plain(name.to_owned())).collect()
}

fn follow(names: &[Name], literal: usize, host: &dyn Host) -> Option<Vec<Name>> {
    let mut folder = String::new();
    for name in &names[..literal] {
        let Name::Plain(name) = name else { return None };
        folder.push('/');
        folder.push_str(name);
    }
    let resolved = resolve(&folder, host).ok().filter(|resolved| *resolved != folder)?;
    let plain = components(&resolved).map(|name| Name::Plain(name.to_owned()));
    Some(plain.chain(names[literal..].iter().cloned()).collect())
}

fn same(left: &str, right: &str, ignores_case: bool) -> bool {
    left == right || ignores_case && left.to_lowercase() == right.to_lowercase()
}

/// Matches names with backtracking to the last `**` only, so that the time is at most the product of both
/// lengths.
fn match_names(pattern: &[Name], names: &[String], fits: &impl Fn(&Name, &str) -> bool) -> bool {
    let (mut at, mut name) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while name < names.len() {
        if pattern.get(at) == Some(&Name::Any) {
            back = Some((at + 1, name));
            at += 1;
        } else if pattern.get(at).is_some_and(|wanted| fits(wanted, &names[name])) {
            (at, name) = (at + 1, name + 1);
        } else if let Some((after, start)) = back {
            back = Some((after, start + 1));
            (at, name) = (after, start + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|rest| *rest == Name::Any)
}

/// Placeholder in a path for anything that a shell may insert, including names that begin with a dot.
pub(crate) const ANYTHING: char = '\0';

/// Maximum length of compared names; longer ones match anything.
const MAX_NAME: usize = 256;

/// Returns whether a name can match both a pattern and a shell pattern, whose wildcards skip names that begin
/// with a dot.
fn overlap(pattern: &str, open: &str, is_wild: bool) -> bool {
    if pattern.len() > MAX_NAME || open.len() > MAX_NAME {
        return true;
    }
    if pattern.starts_with('.') && open.starts_with(['*', '?']) {
        return false;
    }
    let is_star = |letter: char| letter == '*' || letter == ANYTHING;
    let open: Vec<char> = open.chars().collect();
    // Prefixes of the second pattern that match the consumed prefix of the first.
    let mut reached = vec![false; open.len() + 1];
    reached[0] = true;
    let through_stars = |reached: &mut [bool]| {
        for (at, letter) in open.iter().enumerate() {
            reached[at + 1] |= reached[at] && is_star(*letter);
        }
    };
    through_stars(&mut reached);
    for wanted in pattern.chars() {
        let mut next = vec![false; open.len() + 1];
        if is_wild && wanted == '*' {
            let mut before = false;
            for (at, is_reached) in reached.iter().enumerate() {
                before |= is_reached;
                next[at] = before;
            }
        } else {
            for (at, letter) in open.iter().enumerate().filter(|(at, _)| reached[*at]) {
                let is_any = *letter == '?' || is_wild && wanted == '?';
                next[at] |= is_star(*letter);
                next[at + 1] |= is_any || is_star(*letter) || *letter == wanted;
            }
        }
        through_stars(&mut next);
        reached = next;
    }
    reached[open.len()]
}

/// Returns whether a text matches a pattern with `*` and `?`.
pub(crate) fn wildcard(mut pattern: &str, mut text: &str) -> bool {
    // The pattern after the last `*`, and the text that it has not consumed yet.
    let mut back: Option<(&str, &str)> = None;
    loop {
        match (pattern.chars().next(), text.chars().next()) {
            (Some('*'), _) => {
                pattern = &pattern[1..];
                back = Some((pattern, text));
            }
            (None, None) => return true,
            (Some(wanted), Some(letter)) if wanted == '?' || wanted == letter => {
                (pattern, text) = (&pattern[wanted.len_utf8()..], &text[letter.len_utf8()..]);
            }
            _ => {
                let Some((after, left)) = back else { return false };
                let Some(taken) = left.chars().next() else { return false };
                (pattern, text) = (after, &left[taken.len_utf8()..]);
                back = Some((pattern, text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::NoFiles;

    #[test]
    fn patterns_match_whole_paths() {
        let anchors = Anchors { roots: vec![exactly("/w/[a]*b")], homes: vec![exactly("/home/me")] };
        for (pattern, path, expected) in [
            ("$root/**", "/w/[a]*b", true),
            ("$root/**", "/w/[a]*b/x/y", true),
            ("$root/**", "/w/[a]xb/x", false),
            ("$root/**", "/w/[a]*bc", false),
            ("$root", "/w/[a]*b", true),
            ("$root", "/w/[a]*b/x", false),
            ("$root/*", "/w/[a]*b/x", true),
            ("$root/*", "/w/[a]*b/x/y", false),
            ("$root/src/**/*.rs", "/w/[a]*b/src/a.rs", true),
            ("$root/src/**/*.rs", "/w/[a]*b/src/a/b/c.rs", true),
            ("$root/src/**/*.rs", "/w/[a]*b/a.rs", false),
            ("**/.env*", "/x/.env", true),
            ("**/.env*", "/.env.local", true),
            ("**/.env*", "/x/env", false),
            ("**/.git/hooks/**", "/x/.git/hooks", true),
            ("**/.git/hooks/**", "/x/.git/hooks/pre-commit", true),
            ("**/a/**/b", "/a/a/x/b", true),
            ("~/.ssh/**", "/home/me/.ssh/id", true),
            ("~/.ssh/**", "/home/you/.ssh/id", false),
            ("/etc/**", "/etc", true),
            ("/etc/pass??", "/etc/passwd", true),
            ("**", "/", true),
            ("**", "/x/y\nz", true),
            ("/x/*", "/x/y\nz", true),
            ("/X", "/x", false),
        ] {
            let parsed = PathPattern::parse(pattern, &NoFiles::default()).unwrap();
            assert_eq!(parsed.matches(&names(path), &anchors, false), expected, "{pattern} {path}");
        }
        let parsed = PathPattern::parse("/X/*.RS", &NoFiles::default()).unwrap();
        assert!(parsed.matches(&names("/x/a.rs"), &anchors, true));
    }

    #[test]
    fn patterns_that_can_never_match_are_refused() {
        for pattern in [
            "src/**",
            "",
            ".env",
            "*.pem",
            "$rootsrc",
            "~me/x",
            "$root/../x",
            "/a/./b",
            "/a/{b,c}",
            "$HOME/x",
            "/x/$HOME/y",
        ] {
            assert!(PathPattern::parse(pattern, &NoFiles::default()).is_err(), "{pattern}");
        }
    }
}
