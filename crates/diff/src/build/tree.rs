//! Comparison of two directory trees.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;

use rustix::fs::{Dir, FileType};

use super::Built;
use super::assemble::{Comparison, Found, FoundDirectory, assemble};
use crate::disk::{self, ReadError, Root, Stamp, describe};
use crate::entry::Entry;
use crate::error::{Error, Problem};
use crate::names::{is_git_name, is_plain_git};
use crate::options::{BuildOptions, Detect};

/// Number of files of one directory compared before the rest is left to another thread.
const BATCH: usize = 128;
/// Maximum total size in bytes of changed files kept from the comparison for the patch.
const KEEP: usize = 64 * 1024 * 1024;
/// Maximum number of threads. More do not make a disk faster.
const THREADS: usize = 8;

/// Builds the diff from the directory tree `old` to the tree `new`.
///
/// The diff contains paths in `old` ([`BuildOptions::root`] changes that). Symbolic links are compared as
/// links and never followed. Entries named `.git` are skipped. A directory is listed only if it is empty and
/// missing on the other side. Files that cannot be read, or change while they are read, are left out and
/// listed in [`Built::problems`].
pub fn build_from_trees(old: &Path, new: &Path, options: &BuildOptions) -> Result<Built, Error> {
    let open = |path: &Path| -> Result<Arc<Root>, Error> {
        let failed = |source| Error::Read { path: path.to_owned(), source };
        let path = path.canonicalize().map_err(failed)?;
        Root::open(&path).map(Arc::new).map_err(failed)
    };
    let (old, new) = (open(old)?, open(new)?);
    let comparison = compare(&old, &new, options);
    Ok(assemble(comparison, options.root.as_deref().unwrap_or(old.path()), options))
}

fn compare(old: &Arc<Root>, new: &Arc<Root>, options: &BuildOptions) -> Comparison {
    let walk = Walk {
        roots: [Arc::clone(old), Arc::clone(new)],
        max_file_size: options.max_file_size,
        keep_unchanged: options.renames.detect == Detect::CopiesOfAll,
        kept: AtomicUsize::new(0),
        queue: Mutex::new(Queue {
            tasks: vec![Task::Directory { path: Vec::new(), parents: None }],
            running: 0,
        }),
        more: Condvar::new(),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let mut all = Comparison::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(|| walk.work())).collect();
        let results = std::iter::once(Ok(walk.work())).chain(workers.into_iter().map(ScopedJoinHandle::join));
        for result in results {
            match result {
                Ok(part) => {
                    all.files.extend(part.files);
                    all.directories.extend(part.directories);
                    all.unchanged.extend(part.unchanged);
                    all.problems.extend(part.problems);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let path = |found: &Found| found.new.as_ref().or(found.old.as_ref()).map(|entry| entry.path.clone());
    all.files.sort_by_cached_key(path);
    all.directories.sort_by(|first, second| first.path.cmp(&second.path));
    all
}

/// The open directories of both sides. One may be missing.
type Directories = [Option<Arc<OwnedFd>>; 2];

enum Task {
    /// Compare a directory. It is opened only when the task starts, so that few are open at a time.
    Directory { path: Vec<u8>, parents: Option<(Directories, Vec<u8>)> },
    /// Compare files of an open directory.
    Files { path: Vec<u8>, directories: Directories, names: Vec<Vec<u8>> },
}

struct Queue {
    /// Last in, first out: walks depth first and keeps the list short.
    tasks: Vec<Task>,
    running: usize,
}

struct Walk {
    roots: [Arc<Root>; 2],
    max_file_size: u64,
    keep_unchanged: bool,
    kept: AtomicUsize,
    queue: Mutex<Queue>,
    more: Condvar,
}

/// Kind of a directory entry on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Symlink,
    Directory,
    Special(FileType),
}

impl Walk {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes tasks until all are done, and returns the results.
    fn work(&self) -> Comparison {
        let mut worker = Worker { walk: self, found: Comparison::default(), buffers: Default::default() };
        let mut queue = self.lock();
        loop {
            if let Some(task) = queue.tasks.pop() {
                queue.running += 1;
                drop(queue);
                let _finished = Running(self);
                worker.run(task);
                drop(_finished);
                queue = self.lock();
            } else if queue.running == 0 {
                return worker.found;
            } else {
                queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn push(&self, task: Task) {
        self.lock().tasks.push(task);
        self.more.notify_one();
    }
}

/// Counts a task as done even if it panics: the other threads must not wait for it forever.
struct Running<'a>(&'a Walk);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
        self.0.more.notify_all();
    }
}

struct Worker<'a> {
    walk: &'a Walk,
    found: Comparison,
    buffers: [Vec<u8>; 2],
}

impl Worker<'_> {
    fn run(&mut self, task: Task) {
        match task {
            Task::Directory { path, parents } => self.compare_directory(path, parents.as_ref()),
            Task::Files { path, directories, names } => {
                for name in names {
                    self.compare_files(&path, &directories, &name);
                }
            }
        }
    }

    fn compare_directory(&mut self, path: Vec<u8>, parents: Option<&(Directories, Vec<u8>)>) {
        let mut directories: Directories = [None, None];
        let mut listings = [Vec::new(), Vec::new()];
        for side in 0..2 {
            let opened = match parents {
                None => {
                    let flags = rustix::fs::OFlags::RDONLY
                        | rustix::fs::OFlags::DIRECTORY
                        | rustix::fs::OFlags::CLOEXEC;
                    rustix::fs::openat(&*self.walk.roots[side], ".", flags, rustix::fs::Mode::empty())
                }
                Some((parents, name)) => match &parents[side] {
                    Some(parent) => disk::open_directory(parent.as_fd(), name),
                    None => continue,
                },
            };
            let listed = opened.and_then(|directory| Ok((list(&directory)?, directory)));
            match listed {
                Ok((listing, directory)) => {
                    listings[side] = listing;
                    directories[side] = Some(Arc::new(directory));
                }
                Err(error) => {
                    // With one side only, everything in it would appear as added or removed.
                    return self.unreadable(side, &path, error.into());
                }
            }
        }
        let is_empty = listings.iter().all(Vec::is_empty);
        if is_empty && directories.iter().filter(|side| side.is_some()).count() == 1 {
            self.found.directories.push(FoundDirectory { path, is_new: directories[1].is_some() });
            return;
        }
        let [old, new] = listings;
        let mut pairs = Vec::new();
        merge(old, new, |name, kinds| {
            let child = child_path(&path, &name);
            if is_git_name(&name) {
                if !is_plain_git(&name) {
                    let side = usize::from(kinds[0].is_none());
                    self.found.problems.push(Problem::RefusedName { path: self.full_path(side, &child) });
                }
                return;
            }
            if kinds == [Some(Kind::File); 2] {
                pairs.push(name);
                return;
            }
            self.compare_entries(&child, &directories, name, kinds);
        });
        let mut batches: Vec<Vec<Vec<u8>>> = Vec::new();
        while pairs.len() > BATCH {
            batches.push(pairs.split_off(pairs.len() - BATCH));
        }
        for names in batches {
            self.walk.push(Task::Files { path: path.clone(), directories: directories.clone(), names });
        }
        for name in pairs {
            self.compare_files(&path, &directories, &name);
        }
    }

    /// Compares entries that are not files on both sides.
    fn compare_entries(
        &mut self,
        path: &[u8],
        directories: &Directories,
        name: Vec<u8>,
        kinds: [Option<Kind>; 2],
    ) {
        let mut entries = [None, None];
        for side in 0..2 {
            let (Some(kind), Some(directory)) = (kinds[side], &directories[side]) else { continue };
            entries[side] = match kind {
                Kind::Directory => continue,
                Kind::Special(kind) => {
                    let problem =
                        Problem::SpecialFile { path: self.full_path(side, path), kind: describe(kind) };
                    self.found.problems.push(problem);
                    return;
                }
                Kind::Symlink => match disk::read_link_at(directory.as_fd(), &name) {
                    Ok(target) => Some(Entry::in_memory(path, crate::patch::Mode::SYMLINK, target)),
                    Err(error) => return self.unreadable(side, path, error.into()),
                },
                Kind::File => match self.stamp(directory, &name) {
                    Ok(stamp) => Some(self.on_disk(side, path, stamp)),
                    Err(error) => return self.unreadable(side, path, error),
                },
            };
        }
        let is_directory = kinds.map(|kind| kind == Some(Kind::Directory));
        if is_directory != [false, false] {
            let keep = |side: usize| directories[side].clone().filter(|_| is_directory[side]);
            let parents = Some(([keep(0), keep(1)], name));
            self.walk.push(Task::Directory { path: path.to_vec(), parents });
        }
        let [old, new] = entries;
        let is_same = match (&old, &new) {
            (None, None) => return,
            (Some(old), Some(new)) => old.is_symlink() && new.is_symlink() && old.content() == new.content(),
            _ => false,
        };
        if is_same {
            self.add_unchanged(old);
        } else {
            self.found.files.push(Found { old, new });
        }
    }

    fn stamp(&self, directory: &OwnedFd, name: &[u8]) -> std::io::Result<Stamp> {
        // Open it, because an unreadable file must be reported before moves are detected.
        let file = disk::open_file(directory.as_fd(), name)?;
        Ok(disk::stamp_of(&file)?)
    }

    fn on_disk(&self, side: usize, path: &[u8], stamp: Stamp) -> Entry {
        Entry::on_disk(&self.walk.roots[side], path.to_vec(), stamp, self.walk.max_file_size)
    }

    /// Compares a name that is a file on both sides.
    fn compare_files(&mut self, parent: &[u8], directories: &Directories, name: &[u8]) {
        let [Some(old_directory), Some(new_directory)] = directories else { return };
        let mut open = |side: usize, directory: &OwnedFd| -> Option<(OwnedFd, Stamp)> {
            let opened = disk::open_file(directory.as_fd(), name)
                .and_then(|file| disk::stamp_of(&file).map(|stamp| (file, stamp)));
            match opened {
                Ok((_, stamp)) if stamp.kind() != FileType::RegularFile => {
                    let path = self.full_path(side, &child_path(parent, name));
                    self.found.problems.push(Problem::ChangedWhileRead { path });
                    None
                }
                Ok(opened) => Some(opened),
                Err(error) => {
                    self.unreadable(side, &child_path(parent, name), error.into());
                    None
                }
            }
        };
        let Some((old, old_stamp)) = open(0, old_directory) else { return };
        let Some((new, new_stamp)) = open(1, new_directory) else { return };
        if old_stamp.is_same_file(&new_stamp) {
            return self.add_unchanged(
                self.walk.keep_unchanged.then(|| self.on_disk(0, &child_path(parent, name), old_stamp)),
            );
        }
        let mut contents = None;
        if old_stamp.size() == new_stamp.size() {
            match self.compare_contents([(&old, &old_stamp), (&new, &new_stamp)]) {
                Ok(Equality::Same) if old_stamp.mode() == new_stamp.mode() => {
                    let keep = self.walk.keep_unchanged;
                    let entry = keep.then(|| self.on_disk(0, &child_path(parent, name), old_stamp));
                    return self.add_unchanged(entry);
                }
                Ok(Equality::Same) => {}
                Ok(Equality::Different(kept)) => contents = kept,
                Err((side, ReadError::Io(error))) => {
                    return self.unreadable(side, &child_path(parent, name), error);
                }
                Err((side, _)) => {
                    let path = self.full_path(side, &child_path(parent, name));
                    return self.found.problems.push(Problem::ChangedWhileRead { path });
                }
            }
        }
        let path = child_path(parent, name);
        let found = match contents {
            Some([old, new]) => Found {
                old: Some(Entry::in_memory(path.clone(), old_stamp.mode(), old)),
                new: Some(Entry::in_memory(path, new_stamp.mode(), new)),
            },
            None => Found {
                old: Some(self.on_disk(0, &path, old_stamp)),
                new: Some(self.on_disk(1, &path, new_stamp)),
            },
        };
        self.found.files.push(found);
    }

    /// Compares two open files of equal size. Returns the contents if they differ and fit into the limit.
    fn compare_contents(&mut self, files: [(&OwnedFd, &Stamp); 2]) -> Result<Equality, (usize, ReadError)> {
        let size = files[0].1.size();
        if size > self.walk.max_file_size {
            let same = stream_equal(files[0].0, files[1].0).map_err(|error| (0, error.into()))?;
            return Ok(if same { Equality::Same } else { Equality::Different(None) });
        }
        for (side, (file, stamp)) in files.into_iter().enumerate() {
            disk::read_whole(file, stamp, u64::MAX, &mut self.buffers[side])
                .map_err(|error| (side, error))?;
        }
        if self.buffers[0] == self.buffers[1] {
            return Ok(Equality::Same);
        }
        for (side, (file, stamp)) in files.into_iter().enumerate() {
            let after = disk::stamp_of(file).map_err(|error| (side, error.into()))?;
            if after != *stamp {
                return Err((side, ReadError::Changed));
            }
        }
        let both = self.buffers[0].len() * 2;
        let fits = self.walk.kept.fetch_add(both, Ordering::Relaxed) + both <= KEEP;
        Ok(Equality::Different(fits.then(|| self.buffers.clone())))
    }

    fn add_unchanged(&mut self, entry: Option<Entry>) {
        if self.walk.keep_unchanged {
            self.found.unchanged.extend(entry);
        }
    }

    fn unreadable(&mut self, side: usize, path: &[u8], source: std::io::Error) {
        let path = self.full_path(side, path);
        self.found.problems.push(Problem::Unreadable { path, source });
    }

    fn full_path(&self, side: usize, path: &[u8]) -> PathBuf {
        self.walk.roots[side].full_path(path)
    }
}

enum Equality {
    Same,
    Different(Option<[Vec<u8>; 2]>),
}

/// Compares files that are too large for memory.
fn stream_equal(old: &OwnedFd, new: &OwnedFd) -> rustix::io::Result<bool> {
    let mut buffers = [vec![0; 256 * 1024], vec![0; 256 * 1024]];
    loop {
        let [first, second] = &mut buffers;
        let (first, second) = (fill(old, first)?, fill(new, second)?);
        if first != second {
            return Ok(false);
        }
        if first.is_empty() {
            return Ok(true);
        }
    }
}

fn fill<'a>(file: &OwnedFd, buffer: &'a mut [u8]) -> rustix::io::Result<&'a [u8]> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::read(file, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(&buffer[..filled])
}

/// Returns the sorted names in a directory with their kinds.
fn list(directory: &OwnedFd) -> rustix::io::Result<Vec<(Vec<u8>, Kind)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            kind = disk::stamp_at(directory.as_fd(), name)?.kind();
        }
        let kind = match kind {
            FileType::RegularFile => Kind::File,
            FileType::Symlink => Kind::Symlink,
            FileType::Directory => Kind::Directory,
            other => Kind::Special(other),
        };
        names.push((name.to_vec(), kind));
    }
    names.sort_unstable_by(|first, second| first.0.cmp(&second.0));
    Ok(names)
}

/// Merges two sorted listings.
fn merge(
    old: Vec<(Vec<u8>, Kind)>,
    new: Vec<(Vec<u8>, Kind)>,
    mut visit: impl FnMut(Vec<u8>, [Option<Kind>; 2]),
) {
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some(first), Some(second)) => first.0.cmp(&second.0),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return,
        };
        let first = if order.is_le() { old.next() } else { None };
        let second = if order.is_ge() { new.next() } else { None };
        let kinds = [first.as_ref().map(|entry| entry.1), second.as_ref().map(|entry| entry.1)];
        if let Some((name, _)) = first.or(second) {
            visit(name, kinds);
        }
    }
}

fn child_path(parent: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(parent.len() + 1 + name.len());
    if !parent.is_empty() {
        path.extend_from_slice(parent);
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates two trees with a file that differs in size, one that differs at the same size, and one that
    /// moves.
    fn make_trees(place: &Path) -> [PathBuf; 2] {
        let roots = [place.join("old"), place.join("new")];
        let moved: String = (0..20).map(|at| format!("line {at}\n")).collect();
        for (root, size, same, at) in [(&roots[0], "1\n", "a\n", "from"), (&roots[1], "22\n", "b\n", "to")] {
            std::fs::create_dir(root).unwrap();
            std::fs::write(root.join("size"), size).unwrap();
            std::fs::write(root.join("same"), same).unwrap();
            std::fs::write(root.join(at), &moved).unwrap();
        }
        roots
    }

    fn open(path: &Path) -> Arc<Root> {
        Arc::new(Root::open(path).unwrap())
    }

    #[test]
    fn a_file_that_changes_after_it_was_compared_is_left_out() {
        for (changed, side, content) in [("size", 1, "333\n"), ("size", 0, "999\n"), ("to", 1, "other\n")] {
            let place = tempfile::tempdir().unwrap();
            let roots = make_trees(place.path());
            let options = BuildOptions::default();
            let comparison = compare(&open(&roots[0]), &open(&roots[1]), &options);
            let path = roots[side].join(changed);
            std::fs::write(&path, content).unwrap();
            let built = assemble(comparison, &roots[0], &options);
            assert!(
                matches!(&built.problems[..], [Problem::ChangedWhileRead { path: named }] if *named == path),
                "{changed}: {:?}",
                built.problems
            );
            let text = built.diff.patch.unwrap().text;
            assert!(!text.contains(content), "{text}");
            assert!(built.diff.changes.iter().all(|change| !change.path.ends_with(changed)));
            assert!(
                built.diff.changes.iter().any(|change| change.path.ends_with("same")),
                "the rest goes on"
            );
        }
    }

    #[test]
    fn a_file_that_changes_between_two_looks_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("x"), "one").unwrap();
        let root = open(place.path());
        let stamp = root.stamp(b"x").unwrap();
        assert_eq!(root.read(b"x", Some(&stamp), 100).unwrap().0, b"one");
        std::fs::write(place.path().join("x"), "three").unwrap();
        assert!(matches!(root.read(b"x", Some(&stamp), 100), Err(ReadError::Changed)));
        // Shorter than when it was opened.
        let file = disk::open_file(root.as_fd(), b"x").unwrap();
        let stamp = disk::stamp_of(&file).unwrap();
        std::fs::write(place.path().join("x"), "").unwrap();
        let read = disk::read_whole(&file, &stamp, 100, &mut Vec::new());
        assert!(matches!(read, Err(ReadError::Changed)));
    }

    #[test]
    fn one_large_directory_is_shared_between_threads() {
        let place = tempfile::tempdir().unwrap();
        let roots = [place.path().join("old"), place.path().join("new")];
        for root in &roots {
            std::fs::create_dir(root).unwrap();
            for at in 0..1000 {
                let content = if at % 100 == 0 { root.display().to_string() } else { at.to_string() };
                std::fs::write(root.join(format!("file{at:04}")), content).unwrap();
            }
        }
        let built = build_from_trees(&roots[0], &roots[1], &BuildOptions::default()).unwrap();
        assert_eq!(built.diff.changes.len(), 10);
        assert!(built.diff.changes.is_sorted_by(|first, second| first.path < second.path));
    }
}
