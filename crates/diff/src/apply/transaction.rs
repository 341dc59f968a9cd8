//! Writes several files atomically: all change or none.
//!
//! New contents are first written under temporary names next to their targets. Then each path is changed by
//! one rename, and the previous file is kept under a temporary name until the last rename has succeeded.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode as Permissions, OFlags, RenameFlags};
use rustix::io::Errno;

use super::plan::Target;
use crate::disk::{self, Root, Stamp};
use crate::error::Error;
use crate::patch::Mode;

/// Pending writes and removals below a root.
pub(super) struct Transaction<'a> {
    root: &'a Root,
    writes: Vec<Write<'a>>,
    removals: Vec<(&'a [u8], Stamp)>,
    new_directories: Vec<&'a [u8]>,
    old_directories: Vec<&'a [u8]>,
    /// Makes the temporary names of this transaction unique.
    tag: u64,
    names: usize,
    undo: Vec<Undo>,
    /// Temporary files that are removed at the end.
    leftovers: Vec<Vec<u8>>,
    #[cfg(test)]
    pub(super) fail_at: Option<usize>,
}

struct Write<'a> {
    path: &'a [u8],
    target: &'a Target,
    original: Option<Stamp>,
    staged: Vec<u8>,
}

/// Undo information of a step.
enum Undo {
    Rename { from: Vec<u8>, to: Vec<u8> },
    RemoveFile(Vec<u8>),
    RemoveDirectory(Vec<u8>),
    MakeDirectory(Vec<u8>, u32),
}

/// A failed step and its path.
struct FailedStep {
    path: Vec<u8>,
    cause: Cause,
}

enum Cause {
    Io(io::Error),
    Changed,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(root: &'a Root) -> Self {
        Transaction {
            root,
            writes: Vec::new(),
            removals: Vec::new(),
            new_directories: Vec::new(),
            old_directories: Vec::new(),
            tag: RandomState::new().hash_one(std::process::id()),
            names: 0,
            undo: Vec::new(),
            leftovers: Vec::new(),
            #[cfg(test)]
            fail_at: None,
        }
    }

    /// Adds a write of a file or link. The current file must still match `original` when it is replaced.
    pub(super) fn write(&mut self, path: &'a [u8], target: &'a Target, original: Option<Stamp>) {
        self.writes.push(Write { path, target, original, staged: Vec::new() });
    }

    /// Adds the removal of a file or link, and of directories that become empty.
    pub(super) fn remove(&mut self, path: &'a [u8], original: Stamp) {
        self.removals.push((path, original));
    }

    pub(super) fn make_directory(&mut self, path: &'a [u8]) {
        self.new_directories.push(path);
    }

    pub(super) fn remove_directory(&mut self, path: &'a [u8]) {
        self.old_directories.push(path);
    }

    /// Executes all changes, or none.
    pub(super) fn commit(mut self) -> Result<(), Error> {
        let outcome = self.stage().and_then(|()| self.swap());
        match outcome {
            Ok(()) => {
                self.clean_up();
                Ok(())
            }
            Err(failure) => Err(self.roll_back(failure)),
        }
    }

    /// Writes all new contents under temporary names.
    fn stage(&mut self) -> Result<(), FailedStep> {
        for at in 0..self.writes.len() {
            let (path, target) = (self.writes[at].path, self.writes[at].target);
            let original = self.writes[at].original;
            self.step(path)?;
            let directory = self.nearest_directory(path);
            let staged = self.own_name(directory);
            let (parent, name) = self.root.open_parent(&staged).at(path)?;
            // Record the name first, so that a partially written file is removed if the disk is full.
            self.writes[at].staged.clone_from(&staged);
            create(parent.as_fd(), name, target, original).at(path)?;
        }
        Ok(())
    }

    /// Changes one path after the other.
    fn swap(&mut self) -> Result<(), FailedStep> {
        let blocking = self.blocking_directories();
        for path in &blocking {
            for (removed, stamp) in self.removals.iter().filter(|(removed, _)| is_below(removed, path)) {
                self.verify(removed, Some(stamp))?;
            }
            self.set_aside(path)?;
        }
        for (path, stamp) in self.removals.clone() {
            if !blocking.iter().any(|directory| is_below(path, directory)) {
                self.verify(path, Some(&stamp))?;
                self.set_aside(path)?;
            }
        }
        for at in 0..self.writes.len() {
            let (path, original) = (self.writes[at].path, self.writes[at].original);
            self.verify(path, original.as_ref())?;
            self.make_parents(path)?;
            match original {
                Some(_) => self.replace(at)?,
                None => {
                    self.step(path)?;
                    let staged = self.writes[at].staged.clone();
                    self.rename(&staged, path, RenameFlags::NOREPLACE).at(path)?;
                    self.undo.push(Undo::RemoveFile(path.to_vec()));
                }
            }
            self.writes[at].staged.clear();
        }
        for path in self.new_directories.clone() {
            self.make_parents(path)?;
            self.make_missing(path)?;
        }
        // Deepest first.
        // Removals and displaced directories come before writes, which may need their paths.
        let mut old = self.old_directories.clone();
        old.sort_by_key(|path| std::cmp::Reverse(path.len()));
        for path in old {
            self.step(path)?;
            let permissions = self.root.stamp(path).at(path)?.permissions();
            self.unlink(path, AtFlags::REMOVEDIR).at(path)?;
            self.undo.push(Undo::MakeDirectory(path.to_vec(), permissions));
        }
        Ok(())
    }

    /// Called before every step that can fail, so that a test can make any of them fail.
    #[cfg_attr(not(test), allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "fails in tests"))]
    fn step(&mut self, _path: &[u8]) -> Result<(), FailedStep> {
        #[cfg(test)]
        if let Some(left) = &mut self.fail_at {
            if *left == 0 {
                return Err(FailedStep {
                    path: _path.to_vec(),
                    cause: Cause::Io(io::Error::other("made to fail")),
                });
            }
            *left -= 1;
        }
        Ok(())
    }

    /// Returns directories at paths where a file will be. The plan has checked that they become empty.
    fn blocking_directories(&self) -> Vec<Vec<u8>> {
        let is_directory =
            |path: &[u8]| self.root.stamp(path).is_ok_and(|stamp| stamp.kind() == FileType::Directory);
        let paths = self.writes.iter().map(|write| write.path);
        paths.filter(|path| is_directory(path)).map(<[u8]>::to_vec).collect()
    }

    fn verify(&self, path: &[u8], expected: Option<&Stamp>) -> Result<(), FailedStep> {
        let found = match self.root.stamp(path) {
            Ok(stamp) => Some(stamp),
            Err(Errno::NOENT | Errno::NOTDIR) => None,
            Err(error) => return Err(error).at(path),
        };
        if found.as_ref() == expected {
            Ok(())
        } else {
            Err(FailedStep { path: path.to_vec(), cause: Cause::Changed })
        }
    }

    /// Renames the file at a path to a temporary name in the same directory.
    fn set_aside(&mut self, path: &[u8]) -> Result<(), FailedStep> {
        self.step(path)?;
        let aside = self.own_name(parent_of(path).to_vec());
        self.rename(path, &aside, RenameFlags::NOREPLACE).at(path)?;
        self.undo.push(Undo::Rename { from: aside.clone(), to: path.to_vec() });
        self.leftovers.push(aside);
        Ok(())
    }

    /// Replaces a file with a staged one, atomically if the file system supports links.
    fn replace(&mut self, at: usize) -> Result<(), FailedStep> {
        let (path, staged) = (self.writes[at].path, self.writes[at].staged.clone());
        self.step(path)?;
        let aside = self.own_name(parent_of(path).to_vec());
        match self.link(path, &aside) {
            Ok(()) => self.leftovers.push(aside.clone()),
            // Without links, the file is missing for a moment.
            Err(_) => {
                self.rename(path, &aside, RenameFlags::NOREPLACE).at(path)?;
                self.leftovers.push(aside.clone());
            }
        }
        self.undo.push(Undo::Rename { from: aside, to: path.to_vec() });
        self.step(path)?;
        self.rename(&staged, path, RenameFlags::empty()).at(path)
    }

    fn make_parents(&mut self, path: &[u8]) -> Result<(), FailedStep> {
        for (slash, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            self.make_missing(&path[..slash])?;
        }
        Ok(())
    }

    fn make_missing(&mut self, path: &[u8]) -> Result<(), FailedStep> {
        let (parent, name) = self.root.open_parent(path).at(path)?;
        match rustix::fs::mkdirat(&parent, name, Permissions::from_bits_retain(0o777)) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(()),
            Err(error) => return Err(error).at(path),
        }
        drop(parent);
        self.undo.push(Undo::RemoveDirectory(path.to_vec()));
        self.step(path)
    }

    /// Returns the deepest existing directory on a path that is not a link.
    fn nearest_directory(&self, path: &[u8]) -> Vec<u8> {
        let mut nearest = 0;
        for (slash, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let is_directory =
                self.root.stamp(&path[..slash]).is_ok_and(|stamp| stamp.kind() == FileType::Directory);
            if !is_directory {
                break;
            }
            nearest = slash;
        }
        path[..nearest].to_vec()
    }

    fn own_name(&mut self, mut directory: Vec<u8>) -> Vec<u8> {
        self.names += 1;
        if !directory.is_empty() {
            directory.push(b'/');
        }
        directory.extend_from_slice(format!(".switchboard-{:016x}-{}", self.tag, self.names).as_bytes());
        directory
    }

    fn rename(&self, from: &[u8], to: &[u8], flags: RenameFlags) -> rustix::io::Result<()> {
        let (from_parent, from_name) = self.root.open_parent(from)?;
        let (to_parent, to_name) = self.root.open_parent(to)?;
        if flags.is_empty() {
            return rustix::fs::renameat(&from_parent, from_name, &to_parent, to_name);
        }
        match rustix::fs::renameat_with(&from_parent, from_name, &to_parent, to_name, flags) {
            // The file system does not support rename flags.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                match disk::stamp_at(to_parent.as_fd(), to_name) {
                    Err(Errno::NOENT) => rustix::fs::renameat(&from_parent, from_name, &to_parent, to_name),
                    Ok(_) => Err(Errno::EXIST),
                    Err(error) => Err(error),
                }
            }
            other => other,
        }
    }

    fn link(&self, from: &[u8], to: &[u8]) -> rustix::io::Result<()> {
        let (from_parent, from_name) = self.root.open_parent(from)?;
        let (to_parent, to_name) = self.root.open_parent(to)?;
        rustix::fs::linkat(&from_parent, from_name, &to_parent, to_name, AtFlags::empty())
    }

    fn unlink(&self, path: &[u8], flags: AtFlags) -> rustix::io::Result<()> {
        let (parent, name) = self.root.open_parent(path)?;
        rustix::fs::unlinkat(&parent, name, flags)
    }

    /// Removes temporary files and empty directories, as Git does.
    fn clean_up(&self) {
        // The diff is applied. A remaining temporary file is not a failure.
        for path in &self.leftovers {
            let _ = self.remove_all(path);
        }
        for (path, _) in &self.removals {
            let mut directory = parent_of(path);
            while !directory.is_empty() && !self.new_directories.contains(&directory) {
                if self.unlink(directory, AtFlags::REMOVEDIR).is_err() {
                    break;
                }
                directory = parent_of(directory);
            }
        }
    }

    fn remove_all(&self, path: &[u8]) -> rustix::io::Result<()> {
        let (parent, name) = self.root.open_parent(path)?;
        remove_all(parent.as_fd(), name)
    }

    /// Undoes the completed steps, last one first.
    fn roll_back(mut self, failure: FailedStep) -> Error {
        let mut unrestored = Vec::new();
        for undo in std::mem::take(&mut self.undo).into_iter().rev() {
            let (result, path) = match &undo {
                Undo::Rename { from, to } => (self.rename(from, to, RenameFlags::empty()), to),
                Undo::RemoveFile(path) => (self.unlink(path, AtFlags::empty()), path),
                Undo::RemoveDirectory(path) => (self.unlink(path, AtFlags::REMOVEDIR), path),
                Undo::MakeDirectory(path, permissions) => (self.make_again(path, *permissions), path),
            };
            if result.is_err() {
                let path = String::from_utf8_lossy(path);
                unrestored.push(match &undo {
                    Undo::Rename { from, .. } => {
                        format!("{path} (kept as {})", String::from_utf8_lossy(from))
                    }
                    _ => path.into_owned(),
                });
            }
        }
        for write in self.writes.iter().filter(|write| !write.staged.is_empty()) {
            let _ = self.unlink(&write.staged, AtFlags::empty());
        }
        // If it is a link to an original that is already restored, renaming one onto the other has no effect.
        if unrestored.is_empty() {
            for path in &self.leftovers {
                let _ = self.unlink(path, AtFlags::empty());
            }
        }
        let path = self.root.full_path(&failure.path);
        match failure.cause {
            Cause::Changed => Error::ChangedWhileRead { path },
            Cause::Io(source) if unrestored.is_empty() => Error::Write { path, source },
            Cause::Io(source) => Error::HalfWritten { path, source, unrestored },
        }
    }

    fn make_again(&self, path: &[u8], permissions: u32) -> rustix::io::Result<()> {
        let (parent, name) = self.root.open_parent(path)?;
        rustix::fs::mkdirat(&parent, name, Permissions::from_bits_retain(permissions as _))
    }
}

/// Creates a file or link.
fn create(
    parent: BorrowedFd<'_>,
    name: &[u8],
    target: &Target,
    original: Option<Stamp>,
) -> rustix::io::Result<()> {
    if target.mode.is_symlink() {
        return rustix::fs::symlinkat(&*target.content, parent, name);
    }
    let permissions = if target.mode.is_executable() { 0o777 } else { 0o666 };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(parent, name, flags, Permissions::from_bits_retain(permissions))?;
    write_all(&file, &target.content)?;
    match original {
        Some(stamp) if stamp.kind() == FileType::RegularFile => {
            let permissions = kept_permissions(stamp.permissions(), target.mode);
            rustix::fs::fchmod(&file, Permissions::from_bits_retain(permissions as _))
        }
        _ => Ok(()),
    }
}

/// Returns the permissions of a replaced file. It is kept, and made executable for those who may read it.
fn kept_permissions(permissions: u32, mode: Mode) -> u32 {
    match (permissions & 0o100 != 0, mode.is_executable()) {
        (false, true) => permissions | (permissions & 0o444) >> 2,
        (true, false) => permissions & !0o111,
        _ => permissions,
    }
}

fn write_all(file: &OwnedFd, mut content: &[u8]) -> rustix::io::Result<()> {
    while !content.is_empty() {
        match rustix::io::write(file, content) {
            Ok(count) => content = &content[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes a file, or a directory with its content, without following links.
fn remove_all(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        other => return other,
    }
    let directory = disk::open_directory(parent, name)?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            remove_all(directory.as_fd(), name)?;
        }
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

fn parent_of(path: &[u8]) -> &[u8] {
    memchr::memrchr(b'/', path).map_or(b"", |slash| &path[..slash])
}

fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with(b"/"))
}

trait At<T> {
    fn at(self, path: &[u8]) -> Result<T, FailedStep>;
}

impl<T> At<T> for rustix::io::Result<T> {
    fn at(self, path: &[u8]) -> Result<T, FailedStep> {
        self.map_err(|error| FailedStep { path: path.to_vec(), cause: Cause::Io(error.into()) })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    /// Returns everything below a directory: kind and content.
    fn everything(root: &Path) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut open = vec![root.to_owned()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(root).unwrap().display().to_string();
                let kind = path.symlink_metadata().unwrap().file_type();
                let content = if kind.is_symlink() {
                    format!("-> {}", std::fs::read_link(&path).unwrap().display())
                } else if kind.is_dir() {
                    open.push(path);
                    "directory".to_owned()
                } else {
                    std::fs::read_to_string(&path).unwrap()
                };
                found.insert(name, content);
            }
        }
        found
    }

    fn make_tree(root: &Path) {
        for directory in ["gone", "block/sub", "empty"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        for file in ["edit", "gone/file", "block/sub/file", "stays"] {
            std::fs::write(root.join(file), format!("old {file}")).unwrap();
        }
        std::os::unix::fs::symlink("stays", root.join("link")).unwrap();
    }

    /// Prepares a transaction with every kind of step.
    fn prepare<'a>(root: &'a Root, targets: &'a [Target; 2], fail_at: Option<usize>) -> Transaction<'a> {
        let stamp = |path: &str| root.stamp(path.as_bytes()).unwrap();
        let [file, link] = targets;
        let mut transaction = Transaction::new(root);
        transaction.fail_at = fail_at;
        transaction.write(b"edit", file, Some(stamp("edit")));
        transaction.write(b"link", link, Some(stamp("link")));
        transaction.write(b"new/deep/file", file, None);
        transaction.write(b"block", file, None);
        transaction.remove(b"block/sub/file", stamp("block/sub/file"));
        transaction.remove(b"gone/file", stamp("gone/file"));
        transaction.make_directory(b"made/here");
        transaction.remove_directory(b"empty");
        transaction
    }

    fn targets() -> [Target; 2] {
        [
            Target { content: b"new".to_vec(), mode: Mode::FILE },
            Target { content: b"edit".to_vec(), mode: Mode::SYMLINK },
        ]
    }

    #[test]
    fn whichever_step_fails_everything_is_as_it_was() {
        let targets = targets();
        let mut failures = 0;
        loop {
            let place = tempfile::tempdir().unwrap();
            make_tree(place.path());
            let before = everything(place.path());
            let root = Root::open(place.path()).unwrap();
            match prepare(&root, &targets, Some(failures)).commit() {
                Err(Error::Write { .. }) => assert_eq!(everything(place.path()), before, "step {failures}"),
                Err(other) => panic!("step {failures}: {other}"),
                Ok(()) => {
                    let after: Vec<(String, String)> = everything(place.path()).into_iter().collect();
                    let expected = [
                        ("block", "new"),
                        ("edit", "new"),
                        ("link", "-> edit"),
                        ("made", "directory"),
                        ("made/here", "directory"),
                        ("new", "directory"),
                        ("new/deep", "directory"),
                        ("new/deep/file", "new"),
                        ("stays", "old stays"),
                    ];
                    assert_eq!(after, expected.map(|(path, content)| (path.to_owned(), content.to_owned())));
                    break;
                }
            }
            failures += 1;
        }
        assert!(failures > 12, "every step was made to fail: {failures}");
    }

    #[test]
    fn a_file_that_changed_since_it_was_read_stops_everything() {
        let targets = targets();
        for changed in ["edit", "gone/file", "block/sub/file"] {
            let place = tempfile::tempdir().unwrap();
            make_tree(place.path());
            let root = Root::open(place.path()).unwrap();
            let transaction = prepare(&root, &targets, None);
            std::fs::write(place.path().join(changed), "somebody else's work").unwrap();
            let before = everything(place.path());
            let error = transaction.commit().unwrap_err();
            assert!(matches!(error, Error::ChangedWhileRead { .. }), "{changed}: {error}");
            assert_eq!(everything(place.path()), before, "{changed}");
        }
    }

    #[test]
    fn a_file_that_came_since_is_not_overwritten() {
        let targets = targets();
        let place = tempfile::tempdir().unwrap();
        make_tree(place.path());
        let root = Root::open(place.path()).unwrap();
        let transaction = prepare(&root, &targets, None);
        std::fs::create_dir_all(place.path().join("new/deep")).unwrap();
        std::fs::write(place.path().join("new/deep/file"), "somebody else's work").unwrap();
        let before = everything(place.path());
        assert!(matches!(transaction.commit(), Err(Error::ChangedWhileRead { .. })));
        assert_eq!(everything(place.path()), before);
    }
}
