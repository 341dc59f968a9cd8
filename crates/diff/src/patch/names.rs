//! Determines the file of a section: names, prefixes and operation.

use std::borrow::Cow;

use super::fault::FaultKind;
use super::quote::{read_name, read_quoted};
use crate::model::Operation;
use switchboard_acp::AbsolutePath;

type Name<'a> = Cow<'a, [u8]>;

const NOTHING: &[u8] = b"/dev/null";

/// Maximum length in bytes of a `diff --git` line that is split: every blank in it is a candidate.
const MAX_HEADER: usize = 16 * 1024;

/// Prefixes that Git writes before the two names of a header, depending on the comparison.
const PREFIXES: [(&[u8], &[u8]); 10] = [
    (b"a/", b"b/"),
    (b"i/", b"w/"),
    (b"c/", b"i/"),
    (b"c/", b"w/"),
    (b"o/", b"w/"),
    (b"1/", b"2/"),
    (b"b/", b"a/"),
    (b"w/", b"i/"),
    (b"i/", b"c/"),
    (b"w/", b"c/"),
];

/// The name lines of a section before they are interpreted.
#[derive(Debug, Default)]
pub(super) struct NameLines<'a> {
    /// The rest of the `diff --git` line. `None` in a section without one.
    pub(super) git: Option<&'a [u8]>,
    /// The name in the `---` line, if there is one.
    pub(super) old: Option<Name<'a>>,
    /// The name in the `+++` line, if there is one.
    pub(super) new: Option<Name<'a>>,
    pub(super) rename: (Option<Name<'a>>, Option<Name<'a>>),
    pub(super) copy: (Option<Name<'a>>, Option<Name<'a>>),
    pub(super) is_new: bool,
    pub(super) is_deleted: bool,
}

/// The interpreted names of a section.
#[derive(Debug)]
pub(super) struct Resolved<'a> {
    pub(super) operation: Operation,
    pub(super) old_path: Option<Name<'a>>,
    pub(super) new_path: Option<Name<'a>>,
    pub(super) old_prefix: Name<'a>,
    pub(super) new_prefix: Name<'a>,
}

/// Parses the text after `--- ` or `+++ `: a name, quoted or up to a tab before a time.
pub(super) fn read_label(label: &[u8]) -> Result<Name<'_>, FaultKind> {
    let name = if label.starts_with(b"\"") {
        Cow::Owned(read_quoted(label).ok_or(FaultKind::Quoting)?.0)
    } else {
        Cow::Borrowed(&label[..memchr::memchr(b'\t', label).unwrap_or(label.len())])
    };
    if name.is_empty() { Err(FaultKind::NoName) } else { Ok(name) }
}

impl<'a> NameLines<'a> {
    pub(super) fn resolve(self) -> Result<Resolved<'a>, FaultKind> {
        match (self.rename, self.copy) {
            ((None, None), (None, None)) => {}
            ((Some(from), Some(to)), (None, None)) if !self.is_new && !self.is_deleted => {
                return resolve_pair(Operation::Move, self.git, from, to);
            }
            ((None, None), (Some(from), Some(to))) if !self.is_new && !self.is_deleted => {
                return resolve_pair(Operation::Copy, self.git, from, to);
            }
            _ => return Err(FaultKind::Contradiction),
        }
        let header = self.git.filter(|header| header.len() <= MAX_HEADER).and_then(split_header);
        let is_null = |name: &Option<Name<'_>>| name.as_deref() == Some(NOTHING);
        let old_missing = self.is_new || is_null(&self.old);
        let new_missing = self.is_deleted || is_null(&self.new);
        let (header_old, header_new) = header.unzip();
        let old = self.old.filter(|name| **name != *NOTHING).or(header_old.filter(|name| **name != *NOTHING));
        let new = self.new.filter(|name| **name != *NOTHING).or(header_new.filter(|name| **name != *NOTHING));
        let operation = match (old_missing, new_missing) {
            (true, true) => return Err(FaultKind::Contradiction),
            (true, false) => Operation::Add,
            (false, true) => Operation::Delete,
            (false, false) if old.is_none() => Operation::Add,
            (false, false) if new.is_none() => Operation::Delete,
            (false, false) => Operation::Modify,
        };
        let (old_length, new_length) = match (&old, &new) {
            (Some(old), Some(new)) => prefix_lengths(old, new),
            (None, Some(new)) => (0, lone_prefix_length(new, b"b/")),
            (Some(old), None) => (lone_prefix_length(old, b"a/"), 0),
            (None, None) => return Err(FaultKind::NoName),
        };
        let (old_prefix, old_path) = old.map(|name| split_at(name, old_length)).unzip();
        let (new_prefix, new_path) = new.map(|name| split_at(name, new_length)).unzip();
        let (old_prefix, new_prefix) = match (old_prefix, new_prefix) {
            (Some(old), Some(new)) => (old, new),
            (Some(old), None) => (old.clone(), swap_prefix(old, b"b/")),
            (None, Some(new)) => (swap_prefix(new.clone(), b"a/"), new),
            (None, None) => Default::default(),
        };
        let resolved = |operation, old_path, new_path| {
            Ok(Resolved { operation, old_path, new_path, old_prefix, new_prefix })
        };
        match operation {
            Operation::Add if new_path.is_some() => resolved(operation, None, new_path),
            Operation::Delete if old_path.is_some() => resolved(operation, old_path, None),
            Operation::Modify if old_path == new_path => resolved(operation, old_path, new_path),
            // Git writes two names without rename lines if it was given two files to compare; applying such a
            // section moves the file. Other tools compare `name.orig` and `name` this way.
            Operation::Modify if self.git.is_some() => resolved(Operation::Move, old_path, new_path),
            Operation::Modify => {
                let shorter = old_path.into_iter().chain(new_path).rev().min_by_key(|path| path.len());
                resolved(operation, shorter.clone(), shorter)
            }
            _ => Err(FaultKind::NoName),
        }
    }
}

/// Interprets a section whose rename or copy lines give both names without prefix.
fn resolve_pair<'a>(
    operation: Operation,
    git: Option<&'a [u8]>,
    from: Name<'a>,
    to: Name<'a>,
) -> Result<Resolved<'a>, FaultKind> {
    if from.is_empty() || to.is_empty() {
        return Err(FaultKind::NoName);
    }
    let (old_prefix, new_prefix) = git
        .filter(|header| header.len() <= MAX_HEADER)
        .and_then(|header| prefixes_around(header, &from, &to))
        .unwrap_or_default();
    Ok(Resolved { operation, old_path: Some(from), new_path: Some(to), old_prefix, new_prefix })
}

/// Returns the two prefixes in a header with known names.
fn prefixes_around<'a>(header: &'a [u8], from: &[u8], to: &[u8]) -> Option<(Name<'a>, Name<'a>)> {
    let split = |old: Name<'a>, new: Name<'a>| {
        (old.ends_with(from) && new.ends_with(to)).then(|| {
            let (old_length, new_length) = (old.len() - from.len(), new.len() - to.len());
            (split_at(old, old_length).0, split_at(new, new_length).0)
        })
    };
    if let Some((old, new)) = split_quoted(header) {
        return split(old, new);
    }
    // Both prefixes usually have the same length, so the split nearest to that is right.
    let names = from.len() + to.len() + 1;
    let prefixes = header.len().checked_sub(names)?;
    memchr::memchr_iter(b' ', header)
        .filter_map(|space| split(Cow::Borrowed(&header[..space]), Cow::Borrowed(&header[space + 1..])))
        .min_by_key(|(old, _)| (old.len() * 2).abs_diff(prefixes))
}

/// Returns the two names of a `diff --git` line with prefixes, if it can be split in one plausible way.
fn split_header(header: &[u8]) -> Option<(Name<'_>, Name<'_>)> {
    if header.contains(&b'"') {
        return split_quoted(header);
    }
    let splits = || {
        memchr::memchr_iter(b' ', header)
            .map(|space| (&header[..space], &header[space + 1..]))
            .filter(|(old, new)| !old.is_empty() && !new.is_empty())
    };
    let same_below_prefix = |old: &[u8], new: &[u8]| {
        let (old_length, new_length) = prefix_lengths(old, new);
        old[old_length..] == new[new_length..]
    };
    let mut found = splits().filter(|(old, new)| same_below_prefix(old, new));
    let names = match (found.next(), found.next()) {
        (Some(names), None) => Some(names),
        // Several splits match only if a name repeats itself; both sides then have the same length.
        (Some(_), Some(_)) => splits()
            .filter(|(old, new)| same_below_prefix(old, new))
            .min_by_key(|(old, new)| old.len().abs_diff(new.len())),
        (None, _) => splits().find(|(old, new)| *old == NOTHING || *new == NOTHING),
    }
    .or_else(|| {
        let mut all = splits();
        all.next().filter(|_| all.next().is_none())
    });
    names.map(|(old, new)| (Cow::Borrowed(old), Cow::Borrowed(new)))
}

/// Splits a header in which at least one name is quoted.
fn split_quoted(header: &[u8]) -> Option<(Name<'_>, Name<'_>)> {
    if header.starts_with(b"\"") {
        let (old, rest) = read_quoted(header)?;
        Some((Cow::Owned(old), read_name(rest.strip_prefix(b" ")?)?))
    } else {
        let quote = memchr::memmem::find(header, b" \"")?;
        Some((Cow::Borrowed(&header[..quote]), read_name(&header[quote + 1..])?))
    }
}

/// Returns the lengths of the prefixes of two names in one section.
fn prefix_lengths(old: &[u8], new: &[u8]) -> (usize, usize) {
    if AbsolutePath::is_absolute(old) || AbsolutePath::is_absolute(new) {
        return (0, 0);
    }
    let known = PREFIXES.iter().find(|(first, second)| {
        old.starts_with(first) && new.starts_with(second) && old.len() > 2 && new.len() > 2
    });
    if known.is_some() {
        return (2, 2);
    }
    let first_component = |name: &[u8]| memchr::memchr(b'/', name).map_or(0, |slash| slash + 1);
    let (old_length, new_length) = (first_component(old), first_component(new));
    if old != new && old_length > 0 && new_length > 0 && old[old_length..] == new[new_length..] {
        (old_length, new_length)
    } else {
        (0, 0)
    }
}

/// Returns the length of the prefix of a name without a counterpart.
fn lone_prefix_length(name: &[u8], usual: &[u8]) -> usize {
    if name.starts_with(usual) && name.len() > usual.len() { usual.len() } else { 0 }
}

fn swap_prefix<'a>(prefix: Name<'a>, usual: &'static [u8]) -> Name<'a> {
    if prefix.is_empty() { prefix } else { Cow::Borrowed(usual) }
}

fn split_at(name: Name<'_>, length: usize) -> (Name<'_>, Name<'_>) {
    match name {
        Cow::Borrowed(name) => (Cow::Borrowed(&name[..length]), Cow::Borrowed(&name[length..])),
        Cow::Owned(mut name) => {
            let path = name.split_off(length);
            (Cow::Owned(name), Cow::Owned(path))
        }
    }
}
