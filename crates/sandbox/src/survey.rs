//! Facts about the file system: paths that rules and protected names close.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use switchboard_policy::{PROTECTED_NAMES, PathEffect, PathRules};

use crate::layout::ClosedPath;

/// Maximum number of files and folders that are looked at.
pub(crate) const MAX_ENTRIES: usize = 1_000_000;

/// Folders of packages that others have written. Their editor settings run nothing, and package managers replace them.
const FOREIGN: &str = "node_modules";

/// The search for closed paths.
#[derive(Debug)]
pub(crate) struct Survey<'s> {
    rules: &'s PathRules,
    unprotected: &'s [String],
    /// Wildcards have to be compared with every path.
    has_wildcards: bool,
    entries: usize,
    limit: usize,
    closed: Vec<ClosedPath>,
    /// Protected names that are links, which cannot be mounted over.
    links: Vec<PathBuf>,
}

/// Facts found by a survey.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) closed: Vec<ClosedPath>,
    /// Protected links, which the agent can replace.
    pub(crate) links: Vec<PathBuf>,
}

impl<'s> Survey<'s> {
    pub(crate) fn new(rules: &'s PathRules, unprotected: &'s [String]) -> Self {
        let has_wildcards = rules.rules().iter().any(switchboard_policy::PathRule::has_wildcards);
        Survey {
            rules,
            unprotected,
            has_wildcards,
            entries: 0,
            limit: MAX_ENTRIES,
            closed: Vec::new(),
            links: Vec::new(),
        }
    }

    /// Looks for everything that is closed: paths that rules name, and matches of wildcards and protected names below the
    /// searched folders. Fails if there are too many files.
    pub(crate) fn search(
        mut self,
        roots: &[PathBuf],
        searched: &[PathBuf],
        home: Option<&str>,
    ) -> Result<Found, String> {
        let root_names: Vec<String> = roots.iter().map(|root| root.to_string_lossy().into_owned()).collect();
        for rule in self.rules.rules() {
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
        self.close_hard_links(&areas)?;
        Ok(Found { closed: self.closed, links: self.links })
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
                    if kind.is_symlink() {
                        self.links.push(path.clone());
                    }
                    self.close(&path, PathEffect::ReadOnly, "a protected name");
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
        let Some((rule, effect)) = self.rules.effect(&path.to_string_lossy()) else { return false };
        let because = format!("the rule {:?}", rule.id);
        self.close(path, effect, &because);
        effect == PathEffect::Hidden
    }

    fn is_unprotected(&self, name: &str) -> bool {
        self.unprotected.iter().any(|known| known == name)
    }

    fn is_protected(&self, name: &std::ffi::OsStr, kind: fs::FileType, is_foreign: bool) -> bool {
        let Some(name) = name.to_str() else { return false };
        // A folder `.git` is protected in parts, and a file `.git` leads to such a folder.
        let counts = name != ".git" || !kind.is_dir();
        PROTECTED_NAMES.contains(&name) && counts && !is_foreign && !self.is_unprotected(name)
    }

    /// Protects the parts of a Git folder that Git runs or obeys, also those of its submodules and worktrees.
    fn protect_git(&mut self, git: &Path, top: &Path) -> Result<(), String> {
        let mut folders = vec![git.to_owned()];
        while let Some(folder) = folders.pop() {
            for part in ["hooks", "config", "config.worktree"] {
                let path = folder.join(part);
                if !self.is_unprotected(&format!(".git/{part}")) && path.symlink_metadata().is_ok() {
                    if path.is_symlink() {
                        self.links.push(path.clone());
                    }
                    self.close(&path, PathEffect::ReadOnly, "a protected name");
                }
            }
            for part in ["modules", "worktrees"] {
                let mut below = vec![folder.join(part)];
                // A submodule may have any number of names with slashes. Its folder has a HEAD.
                while let Some(parent) = below.pop() {
                    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
                        self.count(top)?;
                        let path = entry.path();
                        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                            continue;
                        }
                        if path.join("HEAD").exists() { folders.push(path) } else { below.push(path) }
                    }
                }
            }
        }
        Ok(())
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
    let read = |path: &Path| {
        (fs::metadata(path).ok()?.len() < 4096).then(|| fs::read_to_string(path).ok()).flatten()
    };
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
        let found = Survey::new(&rules, unprotected).search(&[root.to_owned()], &[], None).unwrap();
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
        let mut survey = Survey::new(&rules, &[]);
        survey.limit = 2;
        let refused = survey.search(std::slice::from_ref(&root), &[], None).unwrap_err();
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
