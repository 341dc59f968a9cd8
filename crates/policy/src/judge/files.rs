//! The files that a request is about, found once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::open::Possible;
use crate::command::Match;
use crate::glob::{Anchors, Names, PathPattern, exactly, names};
use crate::host::{Host, Node};
use crate::path::{PathDoubt, decoded, is_uri, join, resolve, tidy};
use crate::shell::{Cwd, DirectoryChange};
use crate::sketch::Sketch;
use crate::subject::Subject;

/// How many files are looked up; more are taken as they are written.
const MAX_LOOKUPS: usize = 2000;

/// A path in all the forms that rules are tried on.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// Every form that it may be meant in, for rules that forbid.
    pub(super) forms: Vec<Names>,
    /// The same with wildcards, where it is not written out.
    open: Vec<Names>,
    /// The file that it certainly is, for rules that allow.
    pub(super) resolved: Option<String>,
    /// The names in that.
    certain: Option<Names>,
    pub(super) doubt: Option<PathDoubt>,
    /// Of all names in all forms.
    pub(super) sketch: Sketch,
}

pub(super) struct Files<'s> {
    host: &'s dyn Host,
    anchors: Anchors,
    ignores_case: bool,
    /// The directory that the request begins in, as it is written.
    start: Option<String>,
    known: RefCell<HashMap<Key, Rc<View>>>,
    directories: RefCell<Vec<(Cwd, Option<String>)>>,
}

type Key = (String, bool, bool, Option<String>);

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
            known: RefCell::default(),
            directories: RefCell::default(),
        }
    }

    /// The directory that the request begins in.
    pub(super) fn start(&self) -> Option<&str> {
        self.start.as_deref()
    }

    /// The directory that a command runs in.
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

    fn walk(&self, steps: &[DirectoryChange]) -> Option<String> {
        let mut here = self.start.clone()?;
        for step in steps {
            let there = match step {
                DirectoryChange::Home => self.host.home()?.to_owned(),
                DirectoryChange::InHome(rest) => join(self.host.home()?, rest.trim_start_matches('/')),
                DirectoryChange::To(target) => join(&here, target),
            };
            // A shell goes back along the way it came, the system along the links; where they differ, nobody knows.
            let (by_shell, by_system) =
                (resolve(&tidy(&there), self.host).ok()?, resolve(&there, self.host).ok()?);
            if by_shell != by_system {
                return None;
            }
            here = tidy(&there);
        }
        Some(here)
    }

    /// A path as it was told, in a directory that may not be known.
    pub(super) fn view(&self, text: &str, has_tilde: bool, is_known: bool, cwd: Option<&str>) -> Rc<View> {
        let key = (text.to_owned(), has_tilde, is_known, cwd.map(str::to_owned));
        if let Some(view) = self.known.borrow().get(&key) {
            return Rc::clone(view);
        }
        let view = Rc::new(self.look(text, has_tilde, is_known, cwd));
        self.known.borrow_mut().insert(key, Rc::clone(&view));
        view
    }

    fn look(&self, text: &str, has_tilde: bool, is_known: bool, cwd: Option<&str>) -> View {
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
            let possible = Possible::of(text, cwd, self.host.home());
            meant.extend(possible.certain);
            view.open = possible.open.iter().map(|form| names(&tidy(form))).collect();
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
        let is_odd = text.is_empty() || text.contains(['$', '\0']) || is_uri(text);
        let certain = match text.starts_with('~') {
            true if has_tilde => expanded.first().cloned(),
            true => None,
            false if text.starts_with('/') => Some(text.to_owned()),
            false => cwd.map(|cwd| join(cwd, text)),
        };
        let certain = certain.filter(|_| is_known && !is_odd && may_look);
        view.resolved = certain.and_then(|path| resolve(&path, &Lasting(self.host)).ok());
        view.certain = view.resolved.as_deref().map(names);
        match view.open.is_empty() {
            true => view.forms.iter().chain(&view.certain).flatten().for_each(|name| view.sketch.add(name)),
            false => view.sketch = Sketch::ANYTHING,
        }
        view
    }

    pub(super) fn is_forbidden(&self, patterns: &[PathPattern], view: &View) -> Match {
        let is_meant =
            |pattern: &PathPattern, form: &Names| pattern.matches(form, &self.anchors, self.ignores_case);
        let may_be =
            |pattern: &PathPattern, form: &Names| pattern.may_match(form, &self.anchors, self.ignores_case);
        let patterns = || patterns.iter().filter(|pattern| view.sketch.may_have(pattern.needed()));
        if patterns().any(|pattern| view.forms.iter().any(|form| is_meant(pattern, form))) {
            Match::Yes
        } else if patterns().any(|pattern| view.open.iter().any(|form| may_be(pattern, form))) {
            Match::Maybe
        } else {
            Match::No
        }
    }

    pub(super) fn is_allowed(&self, patterns: &[PathPattern], view: &View) -> bool {
        let Some(path) = &view.certain else { return false };
        let mut patterns = patterns.iter().filter(|pattern| view.sketch.may_have(pattern.needed()));
        patterns.any(|pattern| pattern.matches(path, &self.anchors, self.ignores_case))
    }

    /// Whether a directory is one of these, with its links followed.
    pub(super) fn is_in(&self, patterns: &[PathPattern], cwd: &str) -> bool {
        let view = self.view(cwd, false, true, None);
        self.is_allowed(patterns, &view)
    }

    /// Whether a file has other names, so that writing to it changes what they name as well.
    pub(super) fn has_other_names(&self, view: &View) -> bool {
        let node = view.resolved.as_deref().map(|path| self.host.look(path));
        matches!(node, Some(Node::File { links }) if links > 1)
    }
}

/// A machine as all programs on it see it. A link of a process leads elsewhere for every other one.
struct Lasting<'h>(&'h dyn Host);

impl Host for Lasting<'_> {
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

impl View {
    fn add(&mut self, form: Names) {
        if !self.forms.contains(&form) {
            self.forms.push(form);
        }
    }
}

impl Subject {
    /// The file that a path of the request names, with links followed as far as they can be.
    pub(crate) fn located(&self, path: &str, host: &dyn Host) -> String {
        let files = Files::new(self, host);
        let view = files.view(path, false, true, files.start());
        view.resolved.clone().unwrap_or_else(|| path.to_owned())
    }
}
