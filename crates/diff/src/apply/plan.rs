//! The plan for applying a diff, computed before anything is written.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::AsFd as _;

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use super::hunks::{AppliedFile, Misfit, apply_section, makes_plain_file};
use super::placement::Placement;
use super::transaction::Transaction;
use super::{Applied, ApplyOptions, Direction};
use crate::disk::{self, ReadError, Root, Stamp};
use crate::error::{Conflict, Error, NotApplicable, PathReason};
use crate::model::Operation;
use crate::patch::{FilePatch, Mode};

/// A directory that the list of changes adds or deletes.
#[derive(Debug)]
pub(super) struct DirectoryChange {
    pub(super) path: Vec<u8>,
    pub(super) is_new: bool,
}

/// A file on disk.
#[derive(Debug, Clone)]
pub(super) struct Original {
    pub(super) stamp: Stamp,
    content: Vec<u8>,
}

impl Original {
    fn mode(&self) -> Mode {
        self.stamp.mode()
    }
}

/// A file after the change.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) content: Vec<u8>,
    pub(super) mode: Mode,
}

/// All planned changes.
pub(super) struct Plan<'a> {
    root: &'a Root,
    limit: u64,
    /// File on disk at every path inspected.
    originals: HashMap<Vec<u8>, Option<Original>>,
    /// File after the change at every changed path. `None` for a removal.
    targets: BTreeMap<Vec<u8>, Option<Target>>,
    /// Paths where a section creates a file in place of one that another section removes.
    taken_over: HashSet<Vec<u8>>,
    directories: Vec<DirectoryChange>,
    displaced: Vec<(Vec<u8>, usize, i64)>,
}

/// A section with its paths below the root.
struct Section<'a> {
    file: FilePatch<'a>,
    old_path: Option<Vec<u8>>,
    new_path: Option<Vec<u8>>,
}

impl Section<'_> {
    fn name(&self) -> String {
        String::from_utf8_lossy(self.file.path()).into_owned()
    }

    fn conflict(&self, conflict: Conflict) -> Error {
        Error::Conflict { path: self.name(), conflict }
    }
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        placement: &'a Placement,
        files: &[FilePatch<'_>],
        mut directories: Vec<DirectoryChange>,
        options: &ApplyOptions,
    ) -> Result<Self, Error> {
        // All paths first, so that an invalid one is refused before any file is read.
        let mut sections = Vec::with_capacity(files.len());
        for file in files {
            let file = match options.direction {
                Direction::Forward => file.clone(),
                Direction::Backward => file.reversed().ok_or_else(|| Error::NotApplicable {
                    path: String::from_utf8_lossy(file.path()).into_owned(),
                    reason: NotApplicable::NoBinaryContent,
                })?,
            };
            let place = |path: Option<&[u8]>| path.map(|path| placement.place(path)).transpose();
            let (old_path, new_path) = (place(file.old_path.as_deref())?, place(file.new_path.as_deref())?);
            sections.push(Section { file, old_path, new_path });
        }
        if options.direction == Direction::Backward {
            // Undo in reverse order.
            sections.reverse();
            directories.iter_mut().for_each(|change| change.is_new = !change.is_new);
        }
        let mut plan = Plan {
            root: &placement.root,
            limit: options.max_file_size,
            originals: HashMap::new(),
            targets: BTreeMap::new(),
            taken_over: HashSet::new(),
            directories,
            displaced: Vec::new(),
        };
        let leaving: HashSet<&[u8]> = sections
            .iter()
            .filter(|section| matches!(section.file.operation, Operation::Delete | Operation::Move))
            .filter_map(|section| section.old_path.as_deref())
            .collect();
        let mut copies = Vec::new();
        for section in &sections {
            if section.file.operation == Operation::Copy && options.direction == Direction::Backward {
                copies.push(plan.undo_copy(section)?);
            } else {
                plan.add_section(section, &leaving)?;
            }
        }
        for (section, source, content) in copies {
            // The copy must still match the source, or it must not be removed.
            let now = match plan.targets.get(source) {
                Some(target) => target.as_ref().map(|target| target.content.clone()),
                None => plan.source(source)?.map(|original| original.content),
            };
            if now.as_deref() != Some(&*content) {
                return Err(section.conflict(Conflict::Copy));
            }
        }
        plan.check_places()?;
        Ok(plan)
    }

    fn add_section(&mut self, section: &Section<'_>, leaving: &HashSet<&[u8]>) -> Result<(), Error> {
        let file = &section.file;
        check_modes(section)?;
        let (old_path, new_path) = (section.old_path.as_deref(), section.new_path.as_deref());
        let missing = || section.conflict(Conflict::Missing);
        // A moved or copied file is based on the content on disk, regardless of other sections; an edited
        // file on the result of the previous sections. This is how Git reads a patch.
        let (content, mode) = match (&file.operation, old_path) {
            (Operation::Add, _) | (_, None) => (None, None),
            (Operation::Move | Operation::Copy, Some(path)) => {
                let original = self.source(path)?.ok_or_else(missing)?;
                (Some(original.content.clone()), Some(original.mode()))
            }
            (Operation::Delete, Some(path)) if self.taken_over.contains(path) => {
                let original = self.source(path)?.ok_or_else(missing)?;
                (Some(original.content.clone()), Some(original.mode()))
            }
            (_, Some(path)) => match self.targets.get(path) {
                Some(Some(target)) => (Some(target.content.clone()), Some(target.mode)),
                Some(None) => return Err(missing()),
                None => match self.source(path)? {
                    Some(original) => (Some(original.content.clone()), Some(original.mode())),
                    None if makes_plain_file(file) => (None, None),
                    None => return Err(missing()),
                },
            },
        };
        if let Some(mode) = mode {
            let says_symlink = file.old_mode.map(Mode::is_symlink);
            let has_hunks = !file.hunks().is_empty();
            if says_symlink.is_some_and(|says| says != mode.is_symlink())
                || (says_symlink.is_none() && mode.is_symlink() && has_hunks)
            {
                return Err(section.conflict(Conflict::FileType));
            }
        }
        if let Some(path) =
            new_path.filter(|path| Some(*path) != old_path || file.operation == Operation::Add)
        {
            let is_free = match self.targets.get(path) {
                Some(Some(_)) => return Err(section.conflict(Conflict::WrittenTwice)),
                Some(None) => true,
                None => leaving.contains(path) || self.original(path)?.is_none(),
            };
            if !is_free {
                return Err(section.conflict(Conflict::Exists));
            }
            if !self.targets.contains_key(path) && self.original(path)?.is_some() {
                self.taken_over.insert(path.to_vec());
            }
        }
        let applied = apply_section(file, content.as_deref(), self.limit)
            .map_err(|misfit: Misfit| misfit.at(section.name()))?;
        self.note_displaced(new_path.or(old_path), &applied);
        if let (Some(path), Some(content)) = (new_path, applied.content) {
            let mode = file.new_mode.or(mode).unwrap_or(Mode::FILE);
            self.targets.insert(path.to_vec(), Some(Target { content, mode }));
        }
        match (&file.operation, old_path) {
            (Operation::Delete, Some(path)) if !self.taken_over.contains(path) => {
                self.targets.insert(path.to_vec(), None);
            }
            (Operation::Move, Some(path)) => _ = self.targets.entry(path.to_vec()).or_insert(None),
            _ => {}
        }
        Ok(())
    }

    /// Removes a copy. Returns the content that its source must have for it to be the patch's copy.
    fn undo_copy<'b>(
        &mut self,
        section: &'b Section<'_>,
    ) -> Result<(&'b Section<'b>, &'b [u8], Vec<u8>), Error> {
        check_modes(section)?;
        let missing = || section.conflict(Conflict::Missing);
        let copy = section.old_path.as_deref().ok_or_else(missing)?;
        let source = section.new_path.as_deref().ok_or_else(missing)?;
        let original = self.source(copy)?.ok_or_else(missing)?;
        let applied = apply_section(&section.file, Some(&original.content), self.limit)
            .map_err(|misfit| misfit.at(section.name()))?;
        self.targets.entry(copy.to_vec()).or_insert(None);
        Ok((section, source, applied.content.unwrap_or_default()))
    }

    fn note_displaced(&mut self, path: Option<&[u8]>, applied: &AppliedFile) {
        for (at, &offset) in applied.offsets.iter().enumerate() {
            if offset != 0 {
                self.displaced.push((path.unwrap_or_default().to_vec(), at + 1, offset));
            }
        }
    }

    /// Returns the file on disk that a section is based on. Never follows a link.
    fn source(&mut self, path: &[u8]) -> Result<Option<Original>, Error> {
        match self.way_to(path)? {
            PathInspection::Blocked { is_symlink: true, .. } => Err(refuse(path, PathReason::BehindSymlink)),
            _ => self.original(path),
        }
    }

    /// Returns the file on disk at a path, or `None` if there is none.
    fn original(&mut self, path: &[u8]) -> Result<Option<Original>, Error> {
        if let Some(known) = self.originals.get(path) {
            return Ok(known.clone());
        }
        let original = match self.way_to(path)? {
            PathInspection::Open => match self.root.read(path, None, self.limit) {
                Ok((content, stamp)) => Some(Original { stamp, content }),
                Err(ReadError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(ReadError::Special("a directory")) => None,
                Err(ReadError::Special(_)) => return Err(refuse(path, PathReason::Device)),
                Err(ReadError::Io(source)) => {
                    return Err(Error::Read { path: self.root.full_path(path), source });
                }
                Err(ReadError::Changed) => {
                    return Err(Error::ChangedWhileRead { path: self.root.full_path(path) });
                }
                Err(ReadError::TooLarge) => {
                    return Err(Error::TooLarge { path: self.root.full_path(path), limit: self.limit });
                }
            },
            // Later sections may remove the obstacle, so it is checked when all sections have been read.
            PathInspection::Missing | PathInspection::Blocked { .. } => None,
        };
        self.originals.insert(path.to_vec(), original.clone());
        Ok(original)
    }

    /// Inspects the directories on a path.
    fn way_to(&self, path: &[u8]) -> Result<PathInspection, Error> {
        for (slash, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let ancestor = &path[..slash];
            match self.root.stamp(ancestor) {
                Ok(stamp) if stamp.kind() == FileType::Directory => {}
                Ok(stamp) => {
                    let is_symlink = stamp.kind() == FileType::Symlink;
                    return Ok(PathInspection::Blocked { by: ancestor.to_vec(), is_symlink });
                }
                Err(Errno::NOENT) => return Ok(PathInspection::Missing),
                Err(error) => {
                    return Err(Error::Read { path: self.root.full_path(ancestor), source: error.into() });
                }
            }
        }
        Ok(PathInspection::Open)
    }

    /// Checks that every file can be created, once all removals are known.
    fn check_places(&mut self) -> Result<(), Error> {
        let goes_away = |path: &[u8]| matches!(self.targets.get(path), Some(None));
        let made = self.targets.iter().filter_map(|(path, target)| target.as_ref().map(|_| path));
        let made_directories =
            self.directories.iter().filter(|change| change.is_new).map(|change| &change.path);
        let made: Vec<&Vec<u8>> = made.chain(made_directories).collect();
        for path in made {
            if let PathInspection::Blocked { by, is_symlink } = self.way_to(path)?
                && !goes_away(&by)
            {
                return Err(refuse(path, behind(is_symlink)));
            }
            for (slash, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
                if let Some(Some(target)) = self.targets.get(&path[..slash]) {
                    return Err(refuse(path, behind(target.mode.is_symlink())));
                }
            }
            let PathInspection::Open = self.way_to(path)? else { continue };
            match self.root.stamp(path) {
                Err(Errno::NOENT) => {}
                Err(error) => {
                    return Err(Error::Read { path: self.root.full_path(path), source: error.into() });
                }
                Ok(stamp) if stamp.kind() == FileType::Directory => {
                    let is_directory = self.directories.iter().any(|change| change.path == *path);
                    if !is_directory && !self.will_be_empty(path)? {
                        return Err(conflict(path, Conflict::IsDirectory));
                    }
                }
                Ok(stamp) => {
                    let is_directory = self.directories.iter().any(|change| change.path == *path);
                    if is_directory && !goes_away(path) {
                        return Err(conflict(path, Conflict::Exists));
                    }
                    if !matches!(stamp.kind(), FileType::RegularFile | FileType::Symlink) {
                        return Err(refuse(path, PathReason::Device));
                    }
                }
            }
        }
        for change in self.directories.iter().filter(|change| !change.is_new) {
            let way = self.way_to(&change.path)?;
            if let PathInspection::Blocked { is_symlink, .. } = way {
                return Err(refuse(&change.path, behind(is_symlink)));
            }
            match self.root.stamp(&change.path) {
                Ok(stamp) if stamp.kind() != FileType::Directory => {
                    return Err(conflict(&change.path, Conflict::FileType));
                }
                Ok(_) if !self.will_be_empty(&change.path)? => {
                    return Err(conflict(&change.path, Conflict::LeftOver));
                }
                Ok(_) => {}
                Err(_) => return Err(conflict(&change.path, Conflict::Missing)),
            }
        }
        Ok(())
    }

    /// Returns true if all files in a directory are removed. Its subdirectories do not count.
    fn will_be_empty(&self, path: &[u8]) -> Result<bool, Error> {
        let failed =
            |path: &[u8], error: Errno| Error::Read { path: self.root.full_path(path), source: error.into() };
        let mut open = vec![path.to_vec()];
        while let Some(path) = open.pop() {
            let (parent, name) = self.root.open_parent(&path).map_err(|error| failed(&path, error))?;
            let directory =
                disk::open_directory(parent.as_fd(), name).map_err(|error| failed(&path, error))?;
            for entry in Dir::read_from(&directory).map_err(|error| failed(&path, error))? {
                let entry = entry.map_err(|error| failed(&path, error))?;
                let name = entry.file_name().to_bytes();
                if name == b"." || name == b".." {
                    continue;
                }
                let child = [&path[..], b"/", name].concat();
                let kind =
                    disk::stamp_at(directory.as_fd(), name).map_err(|error| failed(&child, error))?.kind();
                if kind == FileType::Directory {
                    open.push(child);
                } else if !matches!(self.targets.get(&child), Some(None)) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Executes the plan.
    pub(super) fn carry_out(self) -> Result<Applied, Error> {
        let mut applied = Applied::default();
        let mut transaction = Transaction::new(self.root);
        for (path, target) in &self.targets {
            let original = self.originals.get(path).and_then(Option::as_ref);
            match target {
                Some(target) => {
                    let unchanged = original.is_some_and(|original| {
                        original.content == target.content && original.mode() == target.mode
                    });
                    if !unchanged {
                        applied.written.push(self.root.full_path(path));
                        transaction.write(path, target, original.map(|original| original.stamp));
                    }
                }
                None => {
                    if let Some(original) = original {
                        applied.removed.push(self.root.full_path(path));
                        transaction.remove(path, original.stamp);
                    }
                }
            }
        }
        for change in &self.directories {
            let path = self.root.full_path(&change.path);
            if change.is_new {
                applied.written.push(path);
                transaction.make_directory(&change.path);
            } else {
                applied.removed.push(path);
                transaction.remove_directory(&change.path);
            }
        }
        applied.displaced = self
            .displaced
            .iter()
            .map(|(path, hunk, offset)| (self.root.full_path(path), *hunk, *offset))
            .collect();
        transaction.commit()?;
        Ok(applied)
    }
}

/// Result of inspecting the directories on a path.
enum PathInspection {
    Open,
    /// A directory is missing.
    Missing,
    /// Another file is in place of a directory.
    Blocked {
        by: Vec<u8>,
        is_symlink: bool,
    },
}

fn behind(is_symlink: bool) -> PathReason {
    if is_symlink { PathReason::BehindSymlink } else { PathReason::BehindFile }
}

fn refuse(path: &[u8], reason: PathReason) -> Error {
    Error::RefusedPath { path: String::from_utf8_lossy(path).into_owned(), reason }
}

fn conflict(path: &[u8], conflict: Conflict) -> Error {
    Error::Conflict { path: String::from_utf8_lossy(path).into_owned(), conflict }
}

/// Checks the modes: only files and links are supported, and a section must not change between them.
fn check_modes(section: &Section<'_>) -> Result<(), Error> {
    let modes = [section.file.old_mode, section.file.new_mode];
    let is_supported = |mode: &Mode| mode.is_file() || mode.is_symlink();
    if !modes.iter().flatten().all(is_supported) {
        return Err(Error::NotApplicable { path: section.name(), reason: NotApplicable::UnsupportedMode });
    }
    if let [Some(old), Some(new)] = modes
        && old.is_symlink() != new.is_symlink()
    {
        return Err(section.conflict(Conflict::FileType));
    }
    Ok(())
}
