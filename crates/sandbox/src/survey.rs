//! Facts about the file system: paths that rules and protected names close.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use switchboard_policy::{PROTECTED_NAMES, PathEffect, PathRules};

use crate::git_config::{self, ConfigEntry};
use crate::layout::ClosedPath;

/// Maximum number of files and folders that are looked at.
pub(crate) const MAX_ENTRIES: usize = 1_000_000;

/// Folders of packages that others have written. Their editor settings run nothing, and package managers replace them.
const FOREIGN: &str = "node_modules";

/// Files of a Git folder that Git runs or obeys. `commondir` makes Git read the others from elsewhere.
const GIT_PARTS: [&str; 4] = ["hooks", "config", "config.worktree", "commondir"];
/// Files of the Git folder of a linked worktree that decide where Git reads its configuration.
const WORKTREE_PARTS: [&str; 2] = ["commondir", "gitdir"];
/// Maximum number of configuration files of Git that include each other.
const MAX_INCLUDES: usize = 20;

/// Options of a survey.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SurveyOptions<'s> {
    /// The rules that close paths; without them, only protected names are searched.
    pub(crate) rules: Option<&'s PathRules>,
    /// Protected names that may be written.
    pub(crate) unprotected: &'s [String],
    /// Sockets that the rules let in.
    pub(crate) sockets: &'s [PathBuf],
    /// The home directory.
    pub(crate) home: Option<&'s Path>,
}

/// The search for closed paths.
#[derive(Debug)]
pub(crate) struct Survey<'s> {
    options: SurveyOptions<'s>,
    /// Wildcards have to be compared with every path.
    has_wildcards: bool,
    /// Folders of hooks that the user's own configuration of Git names for every repository.
    global_hooks: Vec<String>,
    entries: usize,
    limit: usize,
    closed: Vec<ClosedPath>,
    /// Protected names that are links, which cannot be mounted over.
    links: Vec<PathBuf>,
    names: BTreeSet<PathBuf>,
    gaps: Vec<String>,
}

/// Facts found by a survey.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) closed: Vec<ClosedPath>,
    /// Protected links, which the agent can replace.
    pub(crate) links: Vec<PathBuf>,
    /// All protected names, as they are spelled.
    pub(crate) names: BTreeSet<PathBuf>,
    /// Names that would have to be protected, but cannot be.
    pub(crate) gaps: Vec<String>,
}

impl<'s> Survey<'s> {
    pub(crate) fn new(options: SurveyOptions<'s>) -> Self {
        let rules = options.rules.map(PathRules::rules).unwrap_or_default();
        let has_wildcards = rules.iter().any(switchboard_policy::PathRule::has_wildcards);
        Survey {
            options,
            has_wildcards,
            global_hooks: global_hooks(options.home),
            entries: 0,
            limit: MAX_ENTRIES,
            closed: Vec::new(),
            links: Vec::new(),
            names: BTreeSet::new(),
            gaps: Vec::new(),
        }
    }

    /// Looks for everything that is closed: paths that rules name, and matches of wildcards and protected names below the
    /// searched folders. Fails if there are too many files.
    pub(crate) fn search(mut self, roots: &[PathBuf], searched: &[PathBuf]) -> Result<Found, String> {
        let root_names: Vec<String> = roots.iter().map(|root| root.to_string_lossy().into_owned()).collect();
        let home = self.options.home.and_then(Path::to_str);
        for rule in self.options.rules.map(PathRules::rules).unwrap_or_default() {
            for path in rule.literal_paths(&root_names, home) {
                let because = format!("the rule {:?}", rule.id);
                self.close(Path::new(&path), rule.effect, &because);
            }
        }
        for root in roots {
            self.walk(root, true)?;
        }
        if self.has_wildcards {
            for folder in searched {
                self.walk(folder, false)?;
            }
        }
        let areas: Vec<&PathBuf> = roots.iter().chain(searched).collect();
        if self.options.rules.is_some() {
            self.close_hard_links(&areas)?;
        }
        let Survey { closed, links, names, gaps, .. } = self;
        Ok(Found { closed, links, names, gaps })
    }

    /// Makes a protected name read-only.
    fn protect(&mut self, path: &Path, because: &str) {
        if path.is_symlink() {
            self.links.push(path.to_owned());
        }
        self.names.insert(path.to_owned());
        self.close(path, PathEffect::ReadOnly, because);
    }

    /// Closes the file or folder that a path leads to.
    fn close(&mut self, path: &Path, effect: PathEffect, because: &str) {
        // A path that does not exist, or leads nowhere, has nothing to close.
        let Ok(real) = path.canonicalize() else { return };
        let Ok(metadata) = fs::metadata(&real) else { return };
        self.closed.push(ClosedPath::new(real, metadata.is_dir(), effect, because));
    }

    fn count(&mut self, folder: &Path) -> Result<(), String> {
        self.entries += 1;
        if self.entries > self.limit {
            return Err(format!(
                "the rules and protected names would have to be compared with more than {} files below {}; \
                 choose a smaller folder",
                self.limit,
                folder.display()
            ));
        }
        Ok(())
    }

    /// Compares everything below a folder with the wildcards and, in a root, with the protected names.
    fn walk(&mut self, top: &Path, is_root: bool) -> Result<(), String> {
        let mut folders = vec![(top.to_owned(), false)];
        while let Some((folder, is_foreign)) = folders.pop() {
            let Ok(entries) = fs::read_dir(&folder) else {
                // The agent could change its permissions and read it.
                self.close(&folder, PathEffect::Hidden, "a folder that Switchboard cannot read");
                continue;
            };
            for entry in entries {
                let entry = entry.map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
                self.count(top)?;
                let path = entry.path();
                let kind = entry
                    .file_type()
                    .map_err(|error| format!("cannot look at {}: {error}", path.display()))?;
                let name = entry.file_name();
                if self.has_wildcards && self.close_by_rule(&path) {
                    continue;
                }
                if is_root && self.is_protected(&name, kind, is_foreign) {
                    self.protect(&path, "a protected name");
                }
                if is_root && kind.is_socket() && !self.options.sockets.contains(&path) {
                    // Its server runs outside, and may do anything for the agent.
                    self.close(&path, PathEffect::Hidden, "a socket, which `sockets` in the rules lets in");
                }
                if is_root && name == "HEAD" && is_bare_repository(&folder) {
                    // Git obeys it as soon as somebody works in it.
                    self.protect_git(&folder, top)?;
                }
                if !kind.is_dir() {
                    continue;
                }
                if name == ".git" && is_root {
                    self.protect_git(&path, top)?;
                    if self.has_wildcards {
                        folders.push((path, true));
                    }
                } else if name == "objects" && folder.file_name().is_some_and(|name| name == ".git") {
                    // Compressed objects under their hashes.
                } else if name != FOREIGN || self.has_wildcards {
                    folders.push((path, is_foreign || name == FOREIGN));
                }
            }
        }
        Ok(())
    }

    /// Closes a path that a rule matches. Returns whether it is hidden, with everything below it.
    fn close_by_rule(&mut self, path: &Path) -> bool {
        // Names that are not UTF-8 are compared with replacement characters: a wildcard matches them.
        let Some((rule, effect)) = self.options.rules.and_then(|rules| rules.effect(&path.to_string_lossy()))
        else {
            return false;
        };
        let because = format!("the rule {:?}", rule.id);
        self.close(path, effect, &because);
        effect == PathEffect::Hidden
    }

    fn is_unprotected(&self, name: &str) -> bool {
        self.options.unprotected.iter().any(|known| known == name)
    }

    fn is_protected(&self, name: &std::ffi::OsStr, kind: fs::FileType, is_foreign: bool) -> bool {
        let Some(name) = name.to_str() else { return false };
        // A folder `.git` is protected in parts, and a file `.git` leads to such a folder.
        let counts = name != ".git" || !kind.is_dir();
        PROTECTED_NAMES.contains(&name) && counts && !is_foreign && !self.is_unprotected(name)
    }

    /// Protects the parts of a Git folder that Git runs or obeys, also those of its submodules and worktrees.
    fn protect_git(&mut self, git: &Path, top: &Path) -> Result<(), String> {
        let mut folders = vec![(git.to_owned(), false)];
        while let Some((folder, is_worktree)) = folders.pop() {
            for part in GIT_PARTS.iter().chain(WORKTREE_PARTS.iter().filter(|_| is_worktree)) {
                let path = folder.join(part);
                if !self.is_unprotected(&format!(".git/{part}")) && path.symlink_metadata().is_ok() {
                    self.protect(&path, "a protected name");
                }
            }
            self.protect_configured(&folder)?;
            for entry in fs::read_dir(folder.join("worktrees")).into_iter().flatten().flatten() {
                self.count(top)?;
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push((entry.path(), true));
                }
            }
            // A submodule may have any number of names with slashes. Nothing in its folder tells for sure that it is one: an
            // agent can remove every file that is not protected, and put it back in a later session.
            let mut below = vec![folder.join("modules")];
            while let Some(parent) = below.pop() {
                for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
                    self.count(top)?;
                    let (path, name) = (entry.path(), entry.file_name());
                    let is_other = ["objects", "refs", "logs", "hooks", "info", "modules", "worktrees"]
                        .iter()
                        .any(|known| name == *known);
                    if is_other || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        continue;
                    }
                    folders.push((path.clone(), false));
                    below.push(path);
                }
            }
        }
        Ok(())
    }

    /// Protects the files and folders that the configuration in a Git folder makes Git run or obey.
    fn protect_configured(&mut self, git: &Path) -> Result<(), String> {
        // Hooks are searched from the top of the working tree, or from the folder of a repository without one.
        let tree = if git.ends_with(".git") { git.parent().unwrap_or(git) } else { git };
        for hooks in self.global_hooks.clone() {
            self.protect_hooks(tree, &hooks);
        }
        let mut files = vec![git.join("config"), git.join("config.worktree")];
        let mut count = 0;
        while let Some(file) = files.pop() {
            count += 1;
            if count > MAX_INCLUDES {
                return Err(format!("the configuration of Git in {} includes too many files", git.display()));
            }
            let folder = file.parent().unwrap_or(git).to_owned();
            for entry in git_config::read(&file)? {
                match entry {
                    ConfigEntry::Hooks(hooks) => self.protect_hooks(tree, &hooks),
                    ConfigEntry::Include(path) => {
                        let path = self.expanded(&folder, &path);
                        if path.symlink_metadata().is_ok() {
                            self.protect(&path, "included by the configuration of Git");
                            files.push(path);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Protects a folder of hooks that a configuration of Git names.
    fn protect_hooks(&mut self, tree: &Path, hooks: &str) {
        if self.is_unprotected(".git/hooks") {
            return;
        }
        let path = self.expanded(tree, hooks);
        let Ok(real) = path.canonicalize() else { return };
        if tree.canonicalize().is_ok_and(|tree| tree.starts_with(&real)) {
            self.gaps.push(format!("hooks of Git in {} can be changed", real.display()));
            return;
        }
        self.protect(&path, "hooks in the configuration of Git");
    }

    /// Returns a path of a configuration of Git as an absolute path.
    fn expanded(&self, folder: &Path, text: &str) -> PathBuf {
        let path = match (text.strip_prefix("~/"), self.options.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => folder.join(text),
        };
        match (path.parent().and_then(|parent| parent.canonicalize().ok()), path.file_name()) {
            (Some(parent), Some(name)) => parent.join(name),
            _ => path,
        }
    }

    /// Protects the Git folder that a linked worktree shares with others.
    pub(crate) fn protect_common_folder(&mut self, git: &Path) -> Result<(), String> {
        self.protect_git(git, git)
    }

    /// Closes other hard links of closed files, which have the same content.
    fn close_hard_links(&mut self, areas: &[&PathBuf]) -> Result<(), String> {
        let mut wanted: Linked = HashMap::new();
        for closed in self.closed.iter().filter(|closed| !closed.is_folder) {
            if let Ok(metadata) = fs::metadata(&closed.path)
                && metadata.nlink() > 1
            {
                insert_stricter(&mut wanted, &metadata, closed.clone());
            }
        }
        for closed in self.closed.clone().iter().filter(|closed| closed.is_folder) {
            self.linked_files(&closed.path, closed, &mut wanted)?;
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let known: HashSet<PathBuf> = self.closed.iter().map(|closed| closed.path.clone()).collect();
        let mut folders: Vec<PathBuf> = areas.iter().map(|&area| area.clone()).collect();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                self.count(&folder)?;
                let path = entry.path();
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() {
                    if !known.contains(&path) {
                        folders.push(path);
                    }
                    continue;
                }
                let same = wanted.get(&(metadata.dev(), metadata.ino()));
                if let Some(closed) = same.filter(|_| !known.contains(&path)) {
                    let because = format!("{}: another link to {}", closed.because, closed.path.display());
                    self.closed.push(ClosedPath::new(path, false, closed.effect, because));
                }
            }
        }
        Ok(())
    }

    /// Collects the files below a closed folder that have other links.
    fn linked_files(&mut self, top: &Path, closed: &ClosedPath, wanted: &mut Linked) -> Result<(), String> {
        let mut folders = vec![top.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                self.count(top)?;
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() {
                    folders.push(entry.path());
                } else if metadata.nlink() > 1 {
                    let linked = ClosedPath { path: entry.path(), is_folder: false, ..closed.clone() };
                    insert_stricter(wanted, &metadata, linked);
                }
            }
        }
        Ok(())
    }
}

/// Returns the folders of hooks in the user's own configuration of Git.
fn global_hooks(home: Option<&Path>) -> Vec<String> {
    let files = home.map(|home| [home.join(".gitconfig"), home.join(".config/git/config")]);
    let entries = files.iter().flatten().flat_map(|file| git_config::read(file).unwrap_or_default());
    let hooks = entries.filter_map(|entry| match entry {
        ConfigEntry::Hooks(hooks) => Some(hooks),
        ConfigEntry::Include(_) => None,
    });
    hooks.collect()
}

/// Returns whether Git takes a folder for a repository, although it is not called `.git`.
fn is_bare_repository(folder: &Path) -> bool {
    !folder.ends_with(".git") && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

/// Closed files with several hard links, by device and inode.
type Linked = HashMap<(u64, u64), ClosedPath>;

/// Adds a closed file, unless a stricter rule closes another link to it.
fn insert_stricter(wanted: &mut Linked, metadata: &fs::Metadata, closed: ClosedPath) {
    let key = (metadata.dev(), metadata.ino());
    if wanted.get(&key).is_none_or(|known| known.effect < closed.effect) {
        wanted.insert(key, closed);
    }
}

/// Returns the Git folder that a linked worktree shares with others, if both name each other. A file `.git` alone proves
/// nothing: an agent can write one that names any folder.
pub(crate) fn common_git_folder(root: &Path) -> Option<PathBuf> {
    let file = root.join(".git");
    let metadata = fs::symlink_metadata(&file).ok().filter(fs::Metadata::is_file)?;
    let read = |path: &Path| String::from_utf8(git_config::read_file(path, 4096).ok()??).ok();
    let text = (metadata.len() < 4096).then(|| read(&file)).flatten()?;
    let own = root.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let back = read(&own.join("gitdir"))?;
    if Path::new(back.trim()).canonicalize().ok()? != file.canonicalize().ok()? {
        return None;
    }
    let common = own.join(read(&own.join("commondir"))?.trim()).canonicalize().ok()?;
    let is_usual = own.parent()?.file_name()? == "worktrees" && own.parent()?.parent()? == common;
    (is_usual && common.join("HEAD").is_file()).then_some(common)
}

#[cfg(test)]
mod tests {
    use switchboard_policy::{NoFiles, Policy, SandboxMode};

    use super::*;

    fn rules(text: &str, root: &Path) -> PathRules {
        let policy = Policy::parse(text, &NoFiles::default()).unwrap();
        policy.path_rules(None, SandboxMode::Workspace, &[root.display().to_string()], &NoFiles::default())
    }

    fn found(text: &str, root: &Path, unprotected: &[String]) -> Vec<(String, PathEffect)> {
        let rules = rules(text, root);
        let options = SurveyOptions { rules: Some(&rules), unprotected, ..SurveyOptions::default() };
        let found = Survey::new(options).search(&[root.to_owned()], &[]).unwrap();
        let mut closed: Vec<(String, PathEffect)> = found
            .closed
            .iter()
            .map(|closed| (closed.path.strip_prefix(root).unwrap().display().to_string(), closed.effect))
            .collect();
        closed.sort();
        closed.dedup();
        closed
    }

    fn folder_with(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        (folder, root)
    }

    #[test]
    fn protected_names_are_found_at_any_depth() {
        let (_folder, root) = folder_with(&[
            ".git/hooks/pre-commit",
            ".git/config",
            ".git/HEAD",
            ".git/objects/.vscode/x",
            ".git/modules/a/b/HEAD",
            ".git/modules/a/b/config",
            "sub/.envrc",
            "sub/deep/.vscode/tasks.json",
            "linked/.git",
            "node_modules/p/.vscode/x",
            "src/main.rs",
        ]);
        let names: Vec<String> = found("", &root, &[]).into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [
                ".git/config",
                ".git/hooks",
                ".git/modules/a/b/config",
                "linked/.git",
                "sub/.envrc",
                "sub/deep/.vscode"
            ]
        );
        let fewer = found("", &root, &[".vscode".to_owned(), ".git/hooks".to_owned()]);
        assert!(
            !fewer.iter().any(|(name, _)| name.contains("vscode") || name.contains("hooks")),
            "{fewer:?}"
        );
    }

    #[test]
    fn files_that_the_configuration_of_git_names_are_protected() {
        let (_folder, root) = folder_with(&[
            ".git/HEAD",
            ".git/objects/x",
            ".githooks/pre-commit",
            "shared/config",
            "shared/deeper",
            "tools/hooks/x",
            "bare/HEAD",
            "bare/config",
            "bare/objects/x",
            "bare/refs/x",
            "bare/hooks/post-update",
            "home/.gitconfig",
        ]);
        fs::write(
            root.join(".git/config"),
            "[Core]\n\thookspath = .githooks # ours\n[include]\n\tpath = \"../shared/config\"\n",
        )
        .unwrap();
        fs::write(root.join("shared/config"), "[includeIf \"gitdir:/x\"] path = deeper").unwrap();
        fs::write(root.join("home/.gitconfig"), "[core]\nhooksPath = tools/hooks\n").unwrap();
        let home = root.join("home");
        let options = SurveyOptions { home: Some(&home), ..SurveyOptions::default() };
        let found = Survey::new(options).search(std::slice::from_ref(&root), &[]).unwrap();
        let names: Vec<String> =
            found.names.iter().map(|name| name.strip_prefix(&root).unwrap().display().to_string()).collect();
        assert_eq!(
            names,
            [
                ".git/config",
                ".githooks",
                "bare/config",
                "bare/hooks",
                "shared/config",
                "shared/deeper",
                "tools/hooks"
            ]
        );
        assert!(found.closed.iter().any(|closed| closed.path == root.join("shared/config")), "{found:?}");
        // Hooks in the working tree itself cannot be read-only without it.
        fs::write(root.join(".git/config"), "[core]\nhooksPath = .\n").unwrap();
        let found = Survey::new(options).search(std::slice::from_ref(&root), &[]).unwrap();
        assert!(found.gaps.iter().any(|gap| gap.contains("hooks of Git")), "{found:?}");
        assert!(!found.closed.iter().any(|closed| closed.path == root), "{found:?}");
    }

    #[test]
    fn a_linked_worktree_cannot_be_led_to_another_configuration() {
        let (_folder, root) = folder_with(&[
            ".git/HEAD",
            ".git/config",
            ".git/commondir",
            // Without a HEAD, which an agent may have removed.
            ".git/worktrees/w/commondir",
            ".git/worktrees/w/gitdir",
            ".git/modules/a/b/config",
        ]);
        let names: Vec<String> = found("", &root, &[]).into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [
                ".git/commondir",
                ".git/config",
                ".git/modules/a/b/config",
                ".git/worktrees/w/commondir",
                ".git/worktrees/w/gitdir"
            ]
        );
    }

    #[test]
    fn sockets_are_closed_unless_they_are_listed() {
        let (_folder, root) = folder_with(&["x"]);
        let (one, two) = (root.join("one.sock"), root.join("two.sock"));
        let _listeners = [&one, &two].map(|path| std::os::unix::net::UnixListener::bind(path).unwrap());
        let sockets = [two];
        let options = SurveyOptions { sockets: &sockets, ..SurveyOptions::default() };
        let found = Survey::new(options).search(std::slice::from_ref(&root), &[]).unwrap();
        let closed: Vec<_> = found.closed.iter().map(|closed| (&closed.path, closed.effect)).collect();
        assert_eq!(closed, [(&one, PathEffect::Hidden)]);
    }

    #[test]
    fn wildcards_follow_links_and_find_other_hard_links() {
        let (_folder, root) = folder_with(&["a/.env", "data/value", "b/plain", "node_modules/x/.env"]);
        std::os::unix::fs::symlink("../data/value", root.join("a/.env.link")).unwrap();
        fs::hard_link(root.join("a/.env"), root.join("b/twin")).unwrap();
        let closed = found("[[rule]]\ndecision = \"deny\"\npath = [\"**/.env*\"]\n", &root, &[]);
        let hidden = |name: &str| (name.to_owned(), PathEffect::Hidden);
        assert_eq!(
            closed,
            [hidden("a/.env"), hidden("b/twin"), hidden("data/value"), hidden("node_modules/x/.env")]
        );
    }

    #[test]
    fn files_below_a_hidden_folder_are_hidden_under_their_other_names() {
        let (_folder, root) = folder_with(&["secret/key", "open/x"]);
        fs::hard_link(root.join("secret/key"), root.join("open/copy")).unwrap();
        let closed = found("[[rule]]\ndecision = \"deny\"\npath = [\"$root/secret/**\"]\n", &root, &[]);
        let names: Vec<String> = closed.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["open/copy", "secret"]);
    }

    #[test]
    fn too_many_files_are_refused_and_never_skipped() {
        let (_folder, root) = folder_with(&["a", "b", "c"]);
        let rules = rules("", &root);
        let mut survey = Survey::new(SurveyOptions { rules: Some(&rules), ..SurveyOptions::default() });
        survey.limit = 2;
        let refused = survey.search(std::slice::from_ref(&root), &[]).unwrap_err();
        assert!(refused.contains("more than 2 files"), "{refused}");
    }

    #[test]
    fn a_worktree_leads_to_its_common_folder_only_if_that_knows_it() {
        let (_folder, root) =
            folder_with(&["main/.git/HEAD", "main/.git/worktrees/w/HEAD", "w/file", "x/file"]);
        let own = root.join("main/.git/worktrees/w");
        fs::write(own.join("commondir"), "../..\n").unwrap();
        fs::write(own.join("gitdir"), format!("{}\n", root.join("w/.git").display())).unwrap();
        let pointer = format!("gitdir: {}\n", own.display());
        fs::write(root.join("w/.git"), &pointer).unwrap();
        assert_eq!(common_git_folder(&root.join("w")), Some(root.join("main/.git")));
        // Written by an agent, to get at the folder of another project.
        fs::write(root.join("x/.git"), &pointer).unwrap();
        assert_eq!(common_git_folder(&root.join("x")), None);
        for odd in ["gitdir: /", "gitdir:", "", "gitdir: ../main/.git"] {
            fs::write(root.join("x/.git"), odd).unwrap();
            assert_eq!(common_git_folder(&root.join("x")), None, "{odd:?}");
        }
    }
}
