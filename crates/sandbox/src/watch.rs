//! Comparison of protected names: those that an agent makes cannot be closed, because they are missing at the start, and those
//! that it could replace are told.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::survey::{Survey, SurveyOptions, common_git_folder};

/// Maximum number of entries of a folder that are compared.
const MAX_ENTRIES: usize = 10_000;

/// A change of a file that other programs run or obey.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProtectedChange {
    /// The file or folder.
    pub path: PathBuf,
    /// True if it was missing before.
    pub is_new: bool,
}

/// State of a protected name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mark {
    /// It is mounted read-only, so only others than the agent change it.
    Held,
    /// Hash of its content's metadata.
    Seen(blake3::Hash),
}

/// Compares protected names with those of the last time.
#[derive(Debug)]
pub struct Watch {
    roots: Vec<PathBuf>,
    home: PathBuf,
    unprotected: Vec<String>,
    /// Settings of the agent, which may be missing.
    settings: Vec<PathBuf>,
    /// True if the agent may replace everything.
    is_nested: bool,
    known: BTreeMap<PathBuf, Mark>,
}

impl Watch {
    pub(crate) fn new(
        roots: Vec<PathBuf>,
        home: PathBuf,
        unprotected: Vec<String>,
        settings: Vec<PathBuf>,
        is_nested: bool,
        names: impl IntoIterator<Item = PathBuf>,
    ) -> Self {
        let mut watch = Watch { roots, home, unprotected, settings, is_nested, known: BTreeMap::new() };
        let settings = watch.settings.iter().filter(|path| path.symlink_metadata().is_ok());
        let names: Vec<PathBuf> = names.into_iter().chain(settings.cloned()).collect();
        watch.known = names.into_iter().map(|path| (path.clone(), watch.mark(&path))).collect();
        watch
    }

    fn mark(&self, path: &Path) -> Mark {
        if self.is_nested || path.is_symlink() { Mark::Seen(content(path)) } else { Mark::Held }
    }

    /// Returns the changes since the last call. Each is returned once. Fails if there are too many files.
    pub fn changes(&mut self) -> Result<Vec<ProtectedChange>, String> {
        let options = SurveyOptions {
            unprotected: &self.unprotected,
            home: Some(&self.home),
            ..SurveyOptions::default()
        };
        let mut survey = Survey::new(options);
        for common in self.roots.iter().filter_map(|root| common_git_folder(root)) {
            survey.protect_common_folder(&common)?;
        }
        let mut names = survey.search(&self.roots, &[])?.names;
        names.extend(self.settings.iter().filter(|path| path.symlink_metadata().is_ok()).cloned());
        let mut changes = Vec::new();
        for path in names {
            let known = self.known.get(&path);
            let mark = match known {
                Some(Mark::Held) => continue,
                // What was missing is not held, and its later changes are told too.
                None => Mark::Seen(content(&path)),
                Some(Mark::Seen(_)) => Mark::Seen(content(&path)),
            };
            if known != Some(&mark) {
                changes.push(ProtectedChange { is_new: known.is_none(), path: path.clone() });
                self.known.insert(path, mark);
            }
        }
        Ok(changes)
    }
}

/// Returns a hash of the metadata of everything at a path. A change of the content changes its time.
fn content(top: &Path) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    let mut paths = vec![top.to_owned()];
    let mut count = 0;
    while let Some(path) = paths.pop() {
        count += 1;
        if count > MAX_ENTRIES {
            break;
        }
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        hasher.update(path.as_os_str().as_bytes());
        for number in [
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            u64::from(metadata.mode()),
            metadata.mtime() as u64,
            metadata.mtime_nsec() as u64,
        ] {
            hasher.update(&number.to_le_bytes());
        }
        if metadata.is_symlink() {
            hasher.update(fs::read_link(&path).unwrap_or_default().as_os_str().as_bytes());
        }
        if metadata.is_dir() {
            let mut entries: Vec<PathBuf> =
                fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            entries.sort();
            paths.extend(entries);
        }
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_and_changed_names_are_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let write = |name: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        };
        write("old/.vscode/tasks.json");
        write("shared");
        std::os::unix::fs::symlink("shared", root.join(".envrc")).unwrap();
        let settings = root.join("home/.claude/settings.json");
        let names = [root.join("old/.vscode"), root.join(".envrc")];
        let start = |is_nested| {
            let settings = vec![settings.clone()];
            Watch::new(vec![root.clone()], root.join("home"), Vec::new(), settings, is_nested, names.clone())
        };
        let (mut watch, mut nested) = (start(false), start(true));
        let told = |watch: &mut Watch| -> Vec<(String, bool)> {
            let changes = watch.changes().unwrap();
            let name = |path: &Path| path.strip_prefix(&root).unwrap().display().to_string();
            changes.iter().map(|change| (name(&change.path), change.is_new)).collect()
        };
        assert_eq!(told(&mut watch), []);
        assert_eq!(told(&mut nested), []);
        write("new/.envrc");
        write("home/.claude/settings.json");
        write("old/.vscode/tasks2.json");
        fs::remove_file(root.join(".envrc")).unwrap();
        std::os::unix::fs::symlink("other", root.join(".envrc")).unwrap();
        let one = |name: &str, is_new| (name.to_owned(), is_new);
        let wanted = [
            one(".envrc", false),
            one("home/.claude", true),
            one("home/.claude/settings.json", true),
            one("new/.envrc", true),
        ];
        assert_eq!(told(&mut watch), wanted);
        assert_eq!(told(&mut watch), []);
        assert!(told(&mut nested).contains(&one("old/.vscode", false)), "not held there");
        write("new/.envrc");
        fs::write(root.join("new/.envrc"), "longer than before").unwrap();
        assert_eq!(told(&mut watch), [one("new/.envrc", false)]);
    }
}
