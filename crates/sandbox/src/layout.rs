//! The mounts of a sandbox, as a pure function of bindings and closed paths.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use switchboard_policy::PathEffect;

/// Maximum number of mounts: bubblewrap takes 9000 arguments.
const MAX_MOUNTS: usize = 2900;

/// A part of the sandbox's file system.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mount {
    /// A file or folder of the machine.
    Bind {
        /// Path on the machine.
        source: PathBuf,
        /// Path in the sandbox.
        target: PathBuf,
        /// True if it can be written.
        is_writable: bool,
    },
    /// A symbolic link.
    Link {
        /// Content of the link.
        content: PathBuf,
        /// Path of the link.
        path: PathBuf,
    },
    /// An empty folder in memory.
    Memory(PathBuf),
    /// The processes of the sandbox.
    Processes(PathBuf),
    /// The usual devices.
    Devices(PathBuf),
    /// A mount that becomes read-only.
    Sealed(PathBuf),
}

impl Mount {
    /// Returns the path in the sandbox.
    pub fn target(&self) -> &Path {
        match self {
            Mount::Bind { target, .. } => target,
            Mount::Link { path, .. } => path,
            Mount::Memory(path) | Mount::Processes(path) | Mount::Devices(path) | Mount::Sealed(path) => path,
        }
    }

    /// Returns the options of bubblewrap.
    fn arguments(&self) -> Vec<OsString> {
        let words = |option: &str, paths: &[&Path]| {
            let paths = paths.iter().map(|path| path.as_os_str().to_owned());
            [OsString::from(option)].into_iter().chain(paths).collect()
        };
        match self {
            Mount::Bind { source, target, is_writable: true } => words("--bind", &[source, target]),
            Mount::Bind { source, target, is_writable: false } => words("--ro-bind", &[source, target]),
            Mount::Link { content, path } => words("--symlink", &[content, path]),
            Mount::Memory(path) => words("--tmpfs", &[path]),
            Mount::Processes(path) => words("--proc", &[path]),
            Mount::Devices(path) => words("--dev", &[path]),
            Mount::Sealed(path) => words("--remount-ro", &[path]),
        }
    }
}

/// A file or folder of the machine that the sandbox shows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Binding {
    /// Path on the machine, without links.
    pub source: PathBuf,
    /// Path in the sandbox.
    pub target: PathBuf,
    /// True if it can be written.
    pub is_writable: bool,
    /// The line or rule that opens it, for people.
    pub because: String,
    /// The part that the binding plays.
    pub(crate) part: Part,
}

/// The part of a binding in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A folder of the session. A rule that hides it is an error.
    Root,
    /// A folder of the sandbox itself, to which no rule applies.
    Private,
    /// Anything else.
    Other,
}

impl Binding {
    /// Creates a binding at the same path.
    pub fn new(path: impl Into<PathBuf>, is_writable: bool, because: impl Into<String>) -> Self {
        let path = path.into();
        Binding {
            source: path.clone(),
            target: path,
            is_writable,
            because: because.into(),
            part: Part::Other,
        }
    }

    pub(crate) fn part(mut self, part: Part) -> Self {
        self.part = part;
        self
    }

    /// Sets another path in the sandbox.
    #[must_use]
    pub fn at(mut self, target: impl Into<PathBuf>) -> Self {
        self.target = target.into();
        self
    }
}

/// A path of the machine that is hidden or read-only, although it is inside a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClosedPath {
    /// Path on the machine, without links.
    pub path: PathBuf,
    /// True for a folder.
    pub is_folder: bool,
    /// The effect.
    pub effect: PathEffect,
    /// The rule that closes it, for people.
    pub because: String,
}

impl ClosedPath {
    /// Creates a closed path.
    pub fn new(
        path: impl Into<PathBuf>,
        is_folder: bool,
        effect: PathEffect,
        because: impl Into<String>,
    ) -> Self {
        ClosedPath { path: path.into(), is_folder, effect, because: because.into() }
    }
}

/// The file system of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layout {
    /// The mounts in their order.
    pub mounts: Vec<Mount>,
    /// Closed paths as they are in the sandbox.
    pub closed: Vec<ClosedPath>,
    /// The bindings in their order.
    pub bindings: Vec<Binding>,
}

/// Parts of a layout.
#[derive(Debug, Clone, Default)]
pub(crate) struct LayoutParts {
    /// Links at the top, such as `/bin`.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) closed: Vec<ClosedPath>,
    /// An empty folder on the machine.
    pub(crate) empty_folder: PathBuf,
    /// True if nothing is mounted over `/proc`: the kernel refuses to mount another one below a covered one, which the
    /// agent's own sandbox needs.
    pub(crate) has_plain_processes: bool,
}

impl Layout {
    /// Computes the mounts. Fails if there are too many, or if a rule hides a folder of the session.
    pub(crate) fn compute(parts: LayoutParts) -> Result<Layout, String> {
        let LayoutParts { links, bindings, closed, empty_folder, has_plain_processes } = parts;
        // One binding for each target: the writable one, because it was named as such.
        let mut by_target: BTreeMap<PathBuf, Binding> = BTreeMap::new();
        for mut binding in bindings {
            // Rules close, the table opens: a binding inside a closed path is closed too.
            let around = closed
                .iter()
                .filter(|closed| binding.part != Part::Private && binding.source.starts_with(&closed.path))
                .max_by_key(|closed| closed.effect);
            match around.map(|closed| (closed.effect, closed)) {
                Some((PathEffect::Hidden, closed)) if binding.part == Part::Root => {
                    let (path, because) = (binding.source.display(), &closed.because);
                    return Err(format!("{path} is a folder of the session, but {because} hides it"));
                }
                Some((PathEffect::Hidden, _)) => continue,
                Some((PathEffect::ReadOnly, _)) => binding.is_writable = false,
                None => {}
            }
            let known = by_target.get(&binding.target);
            if known.is_none_or(|known| binding.is_writable && !known.is_writable) {
                by_target.insert(binding.target.clone(), binding);
            }
        }
        let mut bindings: Vec<Binding> = by_target.into_values().collect();
        // Parents first: a mount hides everything that was mounted below it before.
        bindings.sort_by_key(|binding| depth(&binding.target));
        let mut mounts: Vec<(usize, Mount)> = Vec::new();
        for (path, content) in links {
            mounts.push((depth(&path), Mount::Link { content, path }));
        }
        mounts.push((1, Mount::Processes("/proc".into())));
        mounts.push((1, Mount::Devices("/dev".into())));
        mounts.push((1, Mount::Memory("/run".into())));
        mounts.extend(bindings.iter().map(|binding| {
            let Binding { source, target, is_writable, .. } = binding;
            let bind =
                Mount::Bind { source: source.clone(), target: target.clone(), is_writable: *is_writable };
            (depth(target), bind)
        }));
        let closed = placed(&bindings, closed);
        let pins = pins(&bindings, &closed);
        mounts.extend(
            pins.into_iter()
                .map(|(source, target)| (depth(&target), Mount::Bind { source, target, is_writable: true })),
        );
        for (source, closed) in &closed {
            let source = match (closed.effect, closed.is_folder) {
                (PathEffect::ReadOnly, _) => source.clone(),
                (PathEffect::Hidden, true) => empty_folder.clone(),
                (PathEffect::Hidden, false) => "/dev/null".into(),
            };
            let target = closed.path.clone();
            mounts.push((depth(&target), Mount::Bind { source, target, is_writable: false }));
        }
        if mounts.len() > MAX_MOUNTS {
            return Err(format!(
                "{} paths would have to be closed one by one, over the limit of {MAX_MOUNTS}; \
                 name their folder in the rules, as in \"$root/secrets/**\"",
                mounts.len()
            ));
        }
        // Stable: of equal depth, the order above.
        mounts.sort_by_key(|(depth, _)| *depth);
        let mut mounts: Vec<Mount> = mounts.into_iter().map(|(_, mount)| mount).collect();
        if !has_plain_processes {
            // As uid 0 bubblewrap leaves parts of it writable.
            mounts.push(Mount::Bind {
                source: "/proc/sys".into(),
                target: "/proc/sys".into(),
                is_writable: false,
            });
        }
        mounts.push(Mount::Sealed("/".into()));
        let closed = closed.into_iter().map(|(_, closed)| closed).collect();
        Ok(Layout { mounts, closed, bindings })
    }

    /// Returns the options of bubblewrap for the mounts.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        self.mounts.iter().flat_map(Mount::arguments).collect()
    }

    /// Returns the folders of the sandbox itself that need mount points, each with the rest of the path.
    pub(crate) fn mount_points(&self) -> Vec<(PathBuf, PathBuf)> {
        let inside = |mount: &Mount| {
            let parent = mount.target().parent()?;
            let binding = shown_by(&self.bindings, parent)?;
            let rest = mount.target().strip_prefix(&binding.target).ok()?;
            let is_private = binding.part == Part::Private && binding.is_writable;
            (is_private && !rest.as_os_str().is_empty()).then(|| (binding.source.clone(), rest.to_owned()))
        };
        self.mounts.iter().filter_map(inside).collect()
    }

    /// Explains the access to a path of the machine: `writable`, `read-only`, `hidden` or `not there`, and the reason.
    pub fn explain(&self, path: &Path) -> (&'static str, String) {
        let closed = self.closed.iter().filter(|closed| path.starts_with(&closed.path));
        if let Some(closed) = closed.max_by_key(|closed| (closed.effect, depth(&closed.path))) {
            let word = match closed.effect {
                PathEffect::Hidden => "hidden",
                PathEffect::ReadOnly => "read-only",
            };
            return (word, closed.because.clone());
        }
        let bindings = self.bindings.iter().filter(|binding| path.starts_with(&binding.target));
        match bindings.max_by_key(|binding| depth(&binding.target)) {
            Some(binding) if binding.part == Part::Private => {
                ("not there", "a private folder of the sandbox is in its place".to_owned())
            }
            Some(binding) if binding.is_writable => ("writable", binding.because.clone()),
            Some(binding) => ("read-only", binding.because.clone()),
            None => ("not there", "nothing opens it".to_owned()),
        }
    }
}

/// Words of programs for the errors of a closed path: EROFS, EACCES and EBUSY.
const REFUSALS: [&str; 6] =
    ["read-only file system", "permission denied", "device or resource busy", "erofs", "eacces", "ebusy"];
/// Maximum number of words of a line that are looked at.
const MAX_WORDS: usize = 200;

/// Returns whether a text may tell of a closed path.
pub fn may_tell_of_closed_path(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    REFUSALS.iter().any(|words| lower.contains(words))
}

impl Layout {
    /// Returns the closed path that the output of a program names next to the words of a refusal, with the access and the
    /// reason. A guess, for people only: the kernel reports no refused files.
    pub fn told_of(&self, output: &str, roots: &[PathBuf]) -> Option<(PathBuf, &'static str, String)> {
        output.lines().filter(|line| may_tell_of_closed_path(line)).find_map(|line| {
            let is_end =
                |letter: char| letter.is_whitespace() || "'\"`:,;()[]{}<>=\u{2018}\u{2019}".contains(letter);
            line.split(is_end).filter(|word| !word.is_empty()).take(MAX_WORDS).find_map(|word| {
                let word = Path::new(word);
                let closed = |path: PathBuf| {
                    let (access, because) = self.explain(&path);
                    matches!(access, "hidden" | "read-only").then_some((path, access, because))
                };
                if word.is_absolute() {
                    return closed(word.to_owned());
                }
                let below = roots.iter().find_map(|root| closed(root.join(word)));
                below.or_else(|| {
                    // Relative to another folder.
                    let path =
                        self.closed.iter().map(|closed| &closed.path).find(|path| path.ends_with(word))?;
                    closed(path.clone())
                })
            })
        })
    }
}

/// Returns the number of names in an absolute path.
fn depth(path: &Path) -> usize {
    path.components().count().saturating_sub(1)
}

/// Returns the deepest binding that shows a path of the sandbox.
pub(crate) fn shown_by<'b>(bindings: &'b [Binding], target: &Path) -> Option<&'b Binding> {
    bindings
        .iter()
        .filter(|binding| target.starts_with(&binding.target))
        .max_by_key(|binding| depth(&binding.target))
}

/// Returns the closed paths where the sandbox shows them, each with its source. A path inside a hidden folder needs no
/// mount of its own.
fn placed(bindings: &[Binding], closed: Vec<ClosedPath>) -> Vec<(PathBuf, ClosedPath)> {
    let mut by_target: BTreeMap<PathBuf, (PathBuf, ClosedPath)> = BTreeMap::new();
    for closed in closed {
        for binding in bindings.iter().filter(|binding| binding.part != Part::Private) {
            let Ok(rest) = closed.path.strip_prefix(&binding.source) else { continue };
            // Joining an empty path would add a slash.
            let target =
                if rest.as_os_str().is_empty() { binding.target.clone() } else { binding.target.join(rest) };
            if shown_by(bindings, &target) != Some(binding) {
                continue;
            }
            let known = by_target.get(&target);
            if known.is_none_or(|(_, known)| known.effect < closed.effect) {
                let here = ClosedPath { path: target.clone(), ..closed.clone() };
                by_target.insert(target, (closed.path.clone(), here));
            }
        }
    }
    let is_covered = |(_, inner): &(PathBuf, ClosedPath)| {
        inner.path.ancestors().skip(1).any(|ancestor| {
            by_target.get(ancestor).is_some_and(|(_, outer)| {
                outer.effect >= inner.effect
                    // A binding between them shows the inner path again.
                    && shown_by(bindings, &inner.path)
                        .is_none_or(|binding| !binding.target.starts_with(&outer.path))
            })
        })
    };
    by_target.values().filter(|closed| !is_covered(closed)).cloned().collect()
}

/// Returns the folders between a writable binding and a closed path, which are mounted onto themselves: a mount point cannot
/// be renamed, and without this the agent could rename a parent and put another folder in its place.
fn pins(bindings: &[Binding], closed: &[(PathBuf, ClosedPath)]) -> Vec<(PathBuf, PathBuf)> {
    let mut pins: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    let targets: BTreeSet<&Path> = closed.iter().map(|(_, closed)| closed.path.as_path()).collect();
    let mut pin_parents = |target: &Path| {
        let mut folder = target;
        while let Some(parent) = folder.parent() {
            folder = parent;
            let Some(binding) = shown_by(bindings, folder) else { break };
            let Ok(rest) = folder.strip_prefix(&binding.target) else { break };
            if rest.as_os_str().is_empty() {
                break;
            }
            let is_read_only = folder.ancestors().any(|folder| targets.contains(folder));
            if binding.is_writable && !is_read_only {
                pins.insert(folder.to_owned(), binding.source.join(rest));
            }
        }
    };
    for (_, closed) in closed {
        pin_parents(&closed.path);
    }
    // Also for bindings inside others, such as a root in the private home.
    for binding in bindings {
        pin_parents(&binding.target);
    }
    pins.into_iter().map(|(target, source)| (source, target)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(bindings: &[(&str, bool)], closed: &[(&str, bool, PathEffect)]) -> LayoutParts {
        LayoutParts {
            links: vec![("/bin".into(), "usr/bin".into())],
            bindings: bindings.iter().map(|(path, writable)| Binding::new(path, *writable, "test")).collect(),
            closed: closed
                .iter()
                .map(|(path, folder, effect)| ClosedPath::new(path, *folder, *effect, "test"))
                .collect(),
            empty_folder: "/empty".into(),
            has_plain_processes: false,
        }
    }

    fn shown(layout: &Layout) -> Vec<String> {
        let words = layout.mounts.iter().map(|mount| {
            let words: Vec<String> =
                mount.arguments().iter().map(|word| word.to_string_lossy().into_owned()).collect();
            words.join(" ")
        });
        words.collect()
    }

    #[test]
    fn parents_are_mounted_first_and_pinned() {
        let layout = Layout::compute(parts(
            &[("/home/u/w", true), ("/home/u", true), ("/usr", false), ("/tmp", true)],
            &[
                ("/home/u/w/a/.git/hooks", true, PathEffect::ReadOnly),
                ("/home/u/w/a/.env", false, PathEffect::Hidden),
                ("/home/u/w/secret", true, PathEffect::Hidden),
                ("/home/u/w/secret/inner", false, PathEffect::Hidden),
                ("/elsewhere/x", false, PathEffect::Hidden),
            ],
        ))
        .unwrap();
        assert_eq!(
            shown(&layout),
            [
                "--symlink usr/bin /bin",
                "--proc /proc",
                "--dev /dev",
                "--tmpfs /run",
                "--bind /tmp /tmp",
                "--ro-bind /usr /usr",
                "--bind /home/u /home/u",
                "--bind /home/u/w /home/u/w",
                "--bind /home/u/w/a /home/u/w/a",
                "--ro-bind /empty /home/u/w/secret",
                "--bind /home/u/w/a/.git /home/u/w/a/.git",
                "--ro-bind /dev/null /home/u/w/a/.env",
                "--ro-bind /home/u/w/a/.git/hooks /home/u/w/a/.git/hooks",
                "--ro-bind /proc/sys /proc/sys",
                "--remount-ro /",
            ]
        );
        assert_eq!(layout.explain(Path::new("/home/u/w/a/.env")).0, "hidden");
        assert_eq!(layout.explain(Path::new("/home/u/w/secret/inner")).0, "hidden");
        assert_eq!(layout.explain(Path::new("/home/u/w/a/b")).0, "writable");
        assert_eq!(layout.explain(Path::new("/usr/bin/sh")).0, "read-only");
        assert_eq!(layout.explain(Path::new("/srv")).0, "not there");
    }

    /// Whole layouts as they are written down, so that a change of any mount or of the order is seen in a review.
    #[test]
    fn layouts_are_as_written_down() {
        let usual =
            [("/usr", false), ("/etc", false), ("/home/u/.gitconfig", false), ("/home/u/.cargo/bin", false)];
        let workspace = parts(
            &[&usual[..], &[("/home/u/project", true), ("/home/u/.claude", true), ("/data", false)]].concat(),
            &[
                ("/home/u/project/.git/hooks", true, PathEffect::ReadOnly),
                ("/home/u/project/.git/config", false, PathEffect::ReadOnly),
                ("/home/u/project/.env", false, PathEffect::Hidden),
                ("/home/u/project/deep/er/secrets", true, PathEffect::Hidden),
                ("/home/u/project/deep/er/secrets/key", false, PathEffect::ReadOnly),
                ("/home/u/.claude/settings.json", false, PathEffect::ReadOnly),
                ("/home/u/.ssh", true, PathEffect::Hidden),
                ("/data/hidden", true, PathEffect::Hidden),
                ("/etc/shadow", false, PathEffect::Hidden),
            ],
        );
        let worktree = parts(
            &[&usual[..], &[("/home/u/tree", true), ("/home/u/main/.git", true)]].concat(),
            &[
                ("/home/u/tree/.git", false, PathEffect::ReadOnly),
                ("/home/u/main/.git/hooks", true, PathEffect::ReadOnly),
                ("/home/u/main/.git/worktrees/tree/commondir", false, PathEffect::ReadOnly),
            ],
        );
        let mut text = String::new();
        for (name, mut parts, is_nested) in
            [("workspace", workspace, false), ("linked worktree, own sandbox", worktree, true)]
        {
            parts.has_plain_processes = is_nested;
            let private = |source: &str, target: &str| {
                Binding::new(source, true, "private").at(target).part(Part::Private)
            };
            parts.bindings.extend([private("/run-1/tmp", "/tmp"), private("/kept/home", "/home/u")]);
            let layout = Layout::compute(parts).unwrap();
            text.push_str(&format!("# {name}\n{}\n", shown(&layout).join("\n")));
        }
        assert_eq!(text, include_str!("layout/golden.txt"), "{text}");
    }

    #[test]
    fn a_closed_path_is_closed_under_each_name() {
        let mut both = parts(&[("/data/w", true)], &[("/data/w/.env", false, PathEffect::Hidden)]);
        both.bindings.push(Binding::new("/data/w", true, "as given").at("/home/w"));
        let layout = Layout::compute(both).unwrap();
        let closed: Vec<_> = layout.closed.iter().map(|closed| closed.path.display().to_string()).collect();
        assert_eq!(closed, ["/data/w/.env", "/home/w/.env"]);
    }

    #[test]
    fn a_read_only_folder_can_have_a_hidden_file() {
        let layout = Layout::compute(parts(
            &[("/w", true)],
            &[("/w/.claude", true, PathEffect::ReadOnly), ("/w/.claude/key", false, PathEffect::Hidden)],
        ))
        .unwrap();
        let shown = shown(&layout);
        let at = |line: &str| shown.iter().position(|found| found == line);
        assert!(
            at("--ro-bind /w/.claude /w/.claude") < at("--ro-bind /dev/null /w/.claude/key"),
            "{shown:?}"
        );
        assert!(at("--ro-bind /dev/null /w/.claude/key").is_some(), "{shown:?}");
        assert!(!shown.contains(&"--bind /w/.claude /w/.claude".to_owned()), "{shown:?}");
    }

    #[test]
    fn output_tells_of_closed_paths_next_to_a_refusal_only() {
        let layout = Layout::compute(parts(
            &[("/w", true), ("/usr", false)],
            &[("/w/sub/.env", false, PathEffect::Hidden), ("/w/.git/hooks", true, PathEffect::ReadOnly)],
        ))
        .unwrap();
        let roots = [PathBuf::from("/w")];
        let told = |text: &str| {
            layout.told_of(text, &roots).map(|(path, access, _)| (path.display().to_string(), access))
        };
        let some = |path: &str, access| Some((path.to_owned(), access));
        assert_eq!(told("cat: /w/sub/.env: Permission denied"), some("/w/sub/.env", "hidden"));
        assert_eq!(told("cat: .env: Permission denied"), some("/w/sub/.env", "hidden"));
        assert_eq!(
            told("x\ntouch: cannot touch '.git/hooks/a': Read-only file system\n"),
            some("/w/.git/hooks/a", "read-only")
        );
        assert_eq!(told("Error: EROFS: read-only file system, open '/usr/x'"), some("/usr/x", "read-only"));
        for text in [
            "cat: /w/sub/.env: No such file",
            "cat: other: Permission denied",
            "cat: .envrc: Permission denied",
            "/w/sub/.env is there\nPermission denied",
            "",
        ] {
            assert_eq!(told(text), None, "{text}");
        }
    }

    #[test]
    fn too_many_closed_paths_are_refused() {
        let names: Vec<String> = (0..MAX_MOUNTS).map(|number| format!("/w/{number}")).collect();
        let closed: Vec<_> = names.iter().map(|name| (name.as_str(), false, PathEffect::Hidden)).collect();
        let refused = Layout::compute(parts(&[("/w", true)], &closed)).unwrap_err();
        assert!(refused.contains("over the limit"), "{refused}");
    }

    /// Returns what a path is in the end, by applying the mounts in order as the kernel does.
    fn seen(layout: &Layout, path: &Path) -> Option<(PathBuf, bool)> {
        let mut seen = None;
        for mount in &layout.mounts {
            if let Mount::Bind { source, target, is_writable } = mount
                && let Ok(rest) = path.strip_prefix(target)
            {
                let source = if rest.as_os_str().is_empty() { source.clone() } else { source.join(rest) };
                seen = Some((source, *is_writable));
            }
        }
        seen
    }

    fn any_path() -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(vec!["a", "b", "c", ".git"]), 1..5)
            .prop_map(|names| format!("/{}", names.join("/")))
    }

    proptest! {
        #[test]
        fn no_mount_shows_a_hidden_path_or_lets_a_closed_one_be_written(
            bindings in prop::collection::vec((any_path(), any::<bool>()), 1..6),
            closed in prop::collection::vec((any_path(), any::<bool>()), 1..6),
            below in any_path(),
        ) {
            let bound: Vec<(&str, bool)> = bindings.iter().map(|(path, writable)| (path.as_str(), *writable)).collect();
            let effect = |hidden: bool| if hidden { PathEffect::Hidden } else { PathEffect::ReadOnly };
            let shut: Vec<(&str, bool, PathEffect)> =
                closed.iter().map(|(path, hidden)| (path.as_str(), true, effect(*hidden))).collect();
            let layout = Layout::compute(parts(&bound, &shut)).unwrap();
            for (path, hidden) in &closed {
                for path in [PathBuf::from(path), PathBuf::from(format!("{path}{below}"))] {
                    if let Some((source, is_writable)) = seen(&layout, &path) {
                        prop_assert!(!is_writable, "{path:?} can be written");
                        prop_assert!(!*hidden || source.starts_with("/empty"), "{path:?} shows {source:?}");
                    }
                }
            }
        }
    }
}
