//! The files of a request, resolved once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::expansion::PossiblePaths;
use crate::command::{FileName, Match};
use crate::glob::{Anchors, Names, PathPattern, exactly, names, wildcard};
use crate::host::{Host, Node};
use crate::path::{PathDoubt, decoded, is_uri, join, resolve, tidy};
use crate::program::Origin;
use crate::shell::{Cwd, DirectoryChange, DirectoryStep};
use crate::sketch::Sketch;
use crate::subject::Subject;

/// Maximum number of resolved files; others are used as written.
const MAX_LOOKUPS: usize = 2000;
/// Maximum number of folders listed for wildcards.
const MAX_LISTED: usize = 200;
/// Maximum number of files of one word with wildcards.
const MAX_EXPANDED: usize = 500;
/// Maximum number of parent folders searched for a git repository.
const MAX_PARENTS: usize = 64;

/// A path in all forms that rules are checked against.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// Every possible form, for deny rules.
    pub(super) forms: Vec<Names>,
    /// Forms with wildcards if the path is not literal.
    uncertain: Vec<Names>,
    /// The resolved file if it is certain, for allow rules.
    pub(super) resolved: Option<String>,
    /// The names in it.
    certain: Option<Names>,
    /// All files of a word with wildcards if they are known.
    files: Option<Vec<Rc<View>>>,
    pub(super) doubt: Option<PathDoubt>,
    /// Sketch of all names in all forms.
    pub(super) sketch: Sketch,
}

/// Views by file name and the directory that it is relative to.
type Views = HashMap<(FileName, Option<String>), Rc<View>>;

pub(super) struct Files<'s> {
    host: &'s dyn Host,
    anchors: Anchors,
    ignores_case: bool,
    /// The start directory of the request, as written.
    start: Option<String>,
    root: String,
    known: RefCell<Views>,
    listed: RefCell<HashMap<String, Option<Rc<Vec<String>>>>>,
    directories: RefCell<Vec<(Cwd, Option<String>)>>,
}

impl<'s> Files<'s> {
    pub(super) fn new(subject: &'s Subject, host: &'s dyn Host) -> Self {
        let both = |folder: &str| {
            let mut all = vec![exactly(&tidy(folder))];
            all.extend(
                resolve(folder, host).ok().map(|folder| exactly(&folder)).filter(|it| !all.contains(it)),
            );
            all
        };
        let root = Some(&*subject.scene.root).filter(|root| root.starts_with('/'));
        let anchors = Anchors {
            roots: root.map(both).unwrap_or_default(),
            homes: host.home().filter(|home| home.starts_with('/')).map(both).unwrap_or_default(),
        };
        let start = Some(subject.cwd()).filter(|cwd| cwd.starts_with('/') && !cwd.contains('\0'));
        Files {
            host,
            anchors,
            ignores_case: host.ignores_case(root.unwrap_or("/")),
            start: start.map(str::to_owned),
            root: subject.scene.root.clone(),
            known: RefCell::default(),
            listed: RefCell::default(),
            directories: RefCell::default(),
        }
    }

    /// Returns the start directory of the request.
    pub(super) fn start(&self) -> Option<&str> {
        self.start.as_deref()
    }

    /// Returns the working directory of a command.
    pub(super) fn cwd(&self, cwd: &Cwd) -> Option<String> {
        let Cwd::After(steps) = cwd else { return None };
        if steps.is_empty() {
            return self.start.clone();
        }
        if let Some((_, found)) = self.directories.borrow().iter().find(|(known, _)| known == cwd) {
            return found.clone();
        }
        let found = self.walk(steps);
        self.directories.borrow_mut().push((cwd.clone(), found.clone()));
        found
    }

    fn walk(&self, steps: &[DirectoryStep]) -> Option<String> {
        let mut here = self.start.clone()?;
        for step in steps {
            let there = match &step.change {
                DirectoryChange::Home => self.host.home()?.to_owned(),
                DirectoryChange::InHome(rest) => join(self.host.home()?, rest.trim_start_matches('/')),
                DirectoryChange::To(target) => join(&here, target),
            };
            // A shell resolves `..` along its path, the system along the links. If they differ, the directory
            // is unknown.
            let (by_shell, by_system) =
                (resolve(&tidy(&there), self.host).ok()?, resolve(&there, self.host).ok()?);
            if by_shell != by_system {
                return None;
            }
            // If the folder does not exist, the command runs in the one before.
            if step.may_fail && self.host.look(&by_system) != Node::Folder {
                return None;
            }
            here = tidy(&there);
        }
        Some(here)
    }

    /// Returns the top of the git working tree of a directory; the root if none is found.
    fn top(&self, cwd: &str) -> String {
        let mut folder = tidy(cwd);
        for _ in 0..MAX_PARENTS {
            if self.host.look(&join(&folder, ".git")) != Node::Missing {
                return folder;
            }
            match folder.rfind('/') {
                Some(at) if folder.len() > 1 => folder.truncate(at.max(1)),
                _ => break,
            }
        }
        if self.root.starts_with('/') { self.root.clone() } else { cwd.to_owned() }
    }

    /// Returns whether git would use the project's own repository in a directory. A repository in a folder
    /// between may have a planted configuration that runs programs.
    pub(super) fn is_own_repository(&self, cwd: &str) -> bool {
        let Ok(mut folder) = resolve(cwd, self.host) else { return false };
        let is_there = |folder: &str, name: &str| self.host.look(&join(folder, name)) != Node::Missing;
        for _ in 0..MAX_PARENTS {
            let names = names(&folder);
            if !self.anchors.are_above(&names, self.ignores_case) {
                return false;
            }
            if self.anchors.roots.iter().any(|root| root.len() == names.len()) {
                return true;
            }
            let is_bare = ["HEAD", "objects", "refs"].iter().all(|name| is_there(&folder, name));
            if is_bare || is_there(&folder, ".git") {
                return false;
            }
            folder.truncate(folder.rfind('/').unwrap_or(0).max(1));
        }
        false
    }

    /// Returns the view of a path as sent, relative to a directory that may be unknown.
    pub(super) fn path(&self, text: &str, cwd: Option<&str>) -> Rc<View> {
        self.view(&FileName::known(text), cwd)
    }

    /// Returns the view of a file that a command names, relative to a directory that may be unknown.
    pub(super) fn view(&self, name: &FileName, cwd: Option<&str>) -> Rc<View> {
        let key = (name.clone(), cwd.map(str::to_owned));
        if let Some(view) = self.known.borrow().get(&key) {
            return Rc::clone(view);
        }
        let view = Rc::new(self.look(name, cwd));
        self.known.borrow_mut().insert(key, Rc::clone(&view));
        view
    }

    fn look(&self, name: &FileName, cwd: Option<&str>) -> View {
        let top = match name.origin {
            Origin::Tree | Origin::TreePathspec => cwd.map(|cwd| self.top(cwd)),
            Origin::Folder | Origin::Pathspec => None,
        };
        let cwd = top.as_deref().or(cwd);
        let (text, has_tilde, is_known) = (&*name.text, name.has_tilde, name.is_known);
        let mut view = View { forms: vec![names(text)], ..View::default() };
        let may_look = self.known.borrow().len() < MAX_LOOKUPS;
        let home = |text: &str| {
            let rest = text.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
            Some(format!("{}{rest}", self.host.home()?.trim_end_matches('/')))
        };
        let mut meant = vec![text.to_owned()];
        if text.contains('%') || is_uri(text) {
            meant.push(decoded(text));
        }
        if !is_known || has_tilde {
            let possible = PossiblePaths::of(text, cwd, self.host.home());
            meant.extend(possible.certain);
            view.uncertain = possible.uncertain.iter().map(|form| names(&tidy(form))).collect();
        }
        let is_pathspec = matches!(name.origin, Origin::Pathspec | Origin::TreePathspec);
        let is_search = is_pathspec && text.contains(['*', '?', '[']);
        if is_search {
            let possible = PossiblePaths::of_pathspec(text, cwd);
            view.uncertain.extend(possible.iter().map(|form| names(&tidy(form))));
        }
        let expanded: Vec<String> = meant.iter().filter_map(|text| home(text)).collect();
        meant.extend(expanded.iter().cloned());
        for text in &meant {
            let absolute = match cwd {
                _ if text.starts_with('/') => text.clone(),
                Some(cwd) => join(cwd, text),
                None => continue,
            };
            view.add(names(&tidy(&absolute)));
            match resolve(&absolute, self.host) {
                Ok(path) => view.add(names(&path)),
                Err(doubt @ (PathDoubt::Circle | PathDoubt::TooLong)) => view.doubt = Some(doubt),
                Err(PathDoubt::Unreadable) => {}
            }
        }
        if name.is_glob && may_look {
            let pattern = if has_tilde { expanded.first().map(String::as_str) } else { Some(text) };
            view.files = pattern.and_then(|pattern| self.expand(pattern, name.splits, cwd));
            let mut doubts = view.files.iter().flatten().filter_map(|file| file.doubt);
            view.doubt = view.doubt.or(doubts.next_back());
        }
        let is_odd = text.is_empty() || text.contains(['$', '\0']) || is_uri(text);
        // For a pattern of git, the folder that it searches.
        let text = if is_search { PossiblePaths::folder_of(text) } else { text };
        let certain = match text.starts_with('~') {
            true if has_tilde => expanded.first().cloned(),
            true => None,
            false if text.starts_with('/') => Some(text.to_owned()),
            false => cwd.map(|cwd| join(cwd, text)),
        };
        let certain = certain.filter(|_| is_known && !is_odd && may_look);
        view.resolved = certain.and_then(|path| resolve(&path, &StableHost(self.host)).ok());
        view.certain = view.resolved.as_deref().map(names);
        match view.uncertain.is_empty() && view.files.is_none() {
            true => view.forms.iter().chain(&view.certain).flatten().for_each(|name| view.sketch.add(name)),
            false => view.sketch = Sketch::ANYTHING,
        }
        view
    }

    /// Expands a word with wildcards to all files that any shell may insert, or to the word itself if there
    /// are none. `None` if they are unknown or one of them would be an option.
    fn expand(&self, pattern: &str, splits: bool, cwd: Option<&str>) -> Option<Vec<Rc<View>>> {
        let mut found = vec![String::new()];
        let mut is_first = true;
        for component in pattern.split('/') {
            let mut next = Vec::new();
            for before in &found {
                let written =
                    |name: &str| if is_first { name.to_owned() } else { format!("{before}/{name}") };
                if !component.contains(['*', '?', '[']) {
                    next.push(written(component));
                    continue;
                }
                let folder = match before.as_str() {
                    "" if is_first => cwd?.to_owned(),
                    "" => "/".to_owned(),
                    before if before.starts_with('/') => before.to_owned(),
                    before => join(cwd?, before),
                };
                let listed = self.list(&folder)?;
                let fits = |name: &&str| {
                    wildcard(&without_sets(component), name)
                        && (component.starts_with('.') || !name.starts_with('.'))
                };
                next.extend(listed.iter().map(String::as_str).chain([".", ".."]).filter(fits).map(written));
                if next.len() > MAX_EXPANDED {
                    return None;
                }
            }
            found = next;
            is_first = false;
        }
        if found.is_empty() {
            found.push(pattern.to_owned());
        }
        let is_option = |name: &String| name.starts_with('-');
        let is_split =
            |name: &String| name.contains(|letter: char| letter.is_whitespace() || "*?[\\".contains(letter));
        if found.iter().any(is_option) || splits && found.iter().any(is_split) {
            return None;
        }
        Some(found.iter().map(|name| self.path(name, cwd)).collect())
    }

    /// Returns the names in a folder; empty if it does not exist.
    fn list(&self, folder: &str) -> Option<Rc<Vec<String>>> {
        if let Some(known) = self.listed.borrow().get(folder) {
            return known.clone();
        }
        if self.listed.borrow().len() >= MAX_LISTED {
            return None;
        }
        let resolved = resolve(folder, &StableHost(self.host)).ok();
        let names = resolved.and_then(|folder| self.host.list(&folder)).map(Rc::new);
        self.listed.borrow_mut().insert(folder.to_owned(), names.clone());
        names
    }

    pub(super) fn is_denied(&self, all: &[PathPattern], view: &View) -> Match {
        let is_meant =
            |pattern: &PathPattern, form: &Names| pattern.matches(form, &self.anchors, self.ignores_case);
        let may_be =
            |pattern: &PathPattern, form: &Names| pattern.may_match(form, &self.anchors, self.ignores_case);
        let patterns = || all.iter().filter(|pattern| view.sketch.may_have(pattern.needed()));
        if patterns().any(|pattern| view.forms.iter().any(|form| is_meant(pattern, form))) {
            Match::Yes
        } else if let Some(files) = &view.files {
            files.iter().map(|file| self.is_denied(all, file)).max().unwrap_or(Match::No)
        } else if patterns().any(|pattern| view.uncertain.iter().any(|form| may_be(pattern, form))) {
            Match::Maybe
        } else {
            Match::No
        }
    }

    pub(super) fn is_allowed(&self, patterns: &[PathPattern], view: &View) -> bool {
        if let Some(files) = &view.files {
            return files.iter().all(|file| self.is_allowed(patterns, file));
        }
        let Some(path) = &view.certain else { return false };
        let mut patterns = patterns.iter().filter(|pattern| view.sketch.may_have(pattern.needed()));
        patterns.any(|pattern| pattern.matches(path, &self.anchors, self.ignores_case))
    }

    /// Returns whether a file is certainly below the root.
    pub(super) fn is_in_root(&self, view: &View) -> bool {
        match &view.files {
            Some(files) => files.iter().all(|file| self.is_in_root(file)),
            None => view.certain.as_ref().is_some_and(|path| self.anchors.are_above(path, self.ignores_case)),
        }
    }

    /// Returns whether the files of a word with wildcards are known and none of them is an option.
    pub(super) fn is_expanded(&self, name: &FileName, cwd: &str) -> bool {
        self.view(name, Some(cwd)).files.is_some()
    }

    /// Returns whether a directory matches, with links resolved.
    pub(super) fn is_in(&self, patterns: &[PathPattern], cwd: &str) -> bool {
        self.is_allowed(patterns, &self.path(cwd, None))
    }

    /// Returns whether a file is known to exist.
    pub(super) fn is_there(&self, view: &View) -> bool {
        view.resolved.as_deref().is_some_and(|path| self.host.look(path) != Node::Missing)
    }

    /// Returns whether a file has other hard links, so that writing to it changes those as well.
    pub(super) fn has_other_names(&self, view: &View) -> bool {
        let node = view.resolved.as_deref().map(|path| self.host.look(path));
        matches!(node, Some(Node::File { links }) if links > 1)
    }
}

/// A host without links of processes, which have a different target for every process.
struct StableHost<'h>(&'h dyn Host);

impl Host for StableHost<'_> {
    fn look(&self, path: &str) -> Node {
        match self.0.look(path) {
            Node::Link(_) if path.starts_with("/proc/") => Node::Unreadable,
            node => node,
        }
    }

    fn home(&self) -> Option<&str> {
        self.0.home()
    }

    fn ignores_case(&self, folder: &str) -> bool {
        self.0.ignores_case(folder)
    }
}

/// Replaces each set of letters in a shell pattern by a wildcard: shells differ in their syntax, and a quoted
/// set is literal.
fn without_sets(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((before, behind)) = rest.split_once('[') {
        out.push_str(before);
        out.push('*');
        // Without an end, or with an ambiguous one, the set may extend to the end of the name.
        match behind.get(1..).and_then(|inner| inner.split_once(']')) {
            Some((_, after)) if !after.contains(']') => rest = after,
            _ => return out,
        }
    }
    out.push_str(rest);
    out
}

impl View {
    fn add(&mut self, form: Names) {
        if !self.forms.contains(&form) {
            self.forms.push(form);
        }
    }
}

impl Subject {
    /// Returns the file of a path in the request, with links resolved as far as possible.
    pub(crate) fn located(&self, path: &str, host: &dyn Host) -> String {
        let files = Files::new(self, host);
        let view = files.path(path, files.start());
        view.resolved.clone().unwrap_or_else(|| path.to_owned())
    }
}
