//! Patterns for paths and names.
//!
//! Written here because a rule must also say whether it may match a path that is only partly known: whether two patterns can
//! have a path in common. Published matchers such as `globset` decide about one path that is known.

use crate::host::Host;
use crate::path::{components, resolve};
use crate::sketch::Sketch;

/// A pattern for absolute paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathPattern {
    anchor: Anchor,
    /// The names behind the anchor.
    names: Vec<Name>,
    /// The same with links followed in the part that has no wildcards, where that is another path.
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

/// A path, as the names in it.
pub(crate) type Names = Vec<String>;

/// The names in a path.
pub(crate) fn names(path: &str) -> Names {
    components(path).map(str::to_owned).collect()
}

/// What `$root` and `~` are in one judgement, as they are written and with links followed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Anchors {
    pub(crate) roots: Vec<Vec<Name>>,
    pub(crate) homes: Vec<Vec<Name>>,
}

impl Anchors {
    /// Whether a path is the root or below it.
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
                "the pattern {text:?} can never match: behind $root and ~ there must be a slash"
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
                "the pattern {text:?} can never match: only $root, at the beginning, stands for something"
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
                "the pattern {text:?} can never match, because braces are names like others; write several patterns"
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

    /// What the names in a path need to have for it to be one of these.
    pub(crate) fn needed(&self) -> &Sketch {
        &self.needed
    }

    /// Whether a path, by its names, is one of these.
    pub(crate) fn matches(&self, path: &Names, anchors: &Anchors, ignores_case: bool) -> bool {
        self.fits(path, anchors, |name, found| match name {
            Name::Any => true,
            Name::Plain(plain) => same(plain, found, ignores_case),
            Name::Wild(wild) if ignores_case => wildcard(&wild.to_lowercase(), &found.to_lowercase()),
            Name::Wild(wild) => wildcard(wild, found),
        })
    }

    /// Whether a path may be one of these, in whose names a shell would put in something: for `*`, `?` and [`ANYTHING`].
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

/// A folder as a pattern for itself.
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

/// Goes back to the last `**` alone, so that it never takes longer than the product of both lengths.
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

/// Stands in a path for anything that a shell may put there, also for what begins with a dot.
pub(crate) const ANYTHING: char = '\0';

/// The longest names that are compared; longer ones may be anything.
const MAX_NAME: usize = 256;

/// Whether a name may be both as a pattern says and as one of a shell does, whose wildcards leave out what begins with a dot.
fn overlap(pattern: &str, open: &str, is_wild: bool) -> bool {
    if pattern.len() > MAX_NAME || open.len() > MAX_NAME {
        return true;
    }
    if pattern.starts_with('.') && open.starts_with(['*', '?']) {
        return false;
    }
    let is_star = |letter: char| letter == '*' || letter == ANYTHING;
    let open: Vec<char> = open.chars().collect();
    // Which beginnings of the second one go with the beginning of the first that was read.
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

/// Whether a text is as a pattern with `*` and `?` says.
pub(crate) fn wildcard(mut pattern: &str, mut text: &str) -> bool {
    // Behind the last `*`, and what it has not taken yet.
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
