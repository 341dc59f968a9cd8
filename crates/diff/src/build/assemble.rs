//! Creates changes and patch text from pairs of files.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha1::{Digest as _, Sha1};

use super::Built;
use crate::entry::{Entry, is_text};
use crate::error::Problem;
use crate::lines::diff_lines;
use crate::mime::mime_type;
use crate::model::{Change, Diff, FileType, Operation, PatchText};
use crate::options::{BinaryForm, BuildOptions, Detect, PatchOptions, PathForm};
use crate::patch::{BinaryHunk, Body, FilePatch, Header, Index, Mode, Similarity, write_file};
use crate::renames::{self, RenameSource};

/// A path on both sides.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) old: Option<Entry>,
    pub(crate) new: Option<Entry>,
}

/// An empty directory that was added or removed.
#[derive(Debug)]
pub(crate) struct FoundDirectory {
    pub(crate) path: Vec<u8>,
    pub(crate) is_new: bool,
}

/// Result of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Paths that differ.
    pub(crate) files: Vec<Found>,
    pub(crate) directories: Vec<FoundDirectory>,
    /// Files that are equal on both sides, only needed to detect copies.
    pub(crate) unchanged: Vec<Entry>,
    pub(crate) problems: Vec<Problem>,
}

/// One change before it is written.
#[derive(Debug)]
struct PlannedChange {
    operation: Operation,
    old: Option<Entry>,
    new: Option<Entry>,
    similarity: Option<u8>,
}

impl PlannedChange {
    fn path(&self) -> &[u8] {
        self.new.as_ref().or(self.old.as_ref()).map_or(b"", |entry| &entry.path)
    }
}

/// Creates the diff of a comparison. All paths are below `root`.
pub(crate) fn assemble(comparison: Comparison, root: &Path, options: &BuildOptions) -> Built {
    let Comparison { files, directories, unchanged, mut problems } = comparison;
    let steps = find_steps(files, &unchanged, options, &mut problems);
    let mut output = Output::new(root, &options.patch);
    let mut directories = directories.into_iter().peekable();
    for step in &steps {
        while let Some(directory) = directories.next_if(|directory| *directory.path < *step.path()) {
            output.add_directory(&directory);
        }
        output.add_step(step, &mut problems);
    }
    directories.for_each(|directory| output.add_directory(&directory));
    let patch = output.finish(&mut problems);
    let root = root.to_str().filter(|root| !root.is_empty()).map(str::to_owned);
    Built { diff: Diff { changes: output.changes, patch, root, partial: false }, problems }
}

/// Determines the changes: splits changes of type, detects moves and copies, sorts by path.
fn find_steps(
    files: Vec<Found>,
    unchanged: &[Entry],
    options: &BuildOptions,
    problems: &mut Vec<Problem>,
) -> Vec<PlannedChange> {
    let mut steps = Vec::new();
    let (mut deleted, mut added) = (Vec::new(), Vec::new());
    let step = |operation, old, new| PlannedChange { operation, old, new, similarity: None };
    for found in files {
        match (found.old, found.new) {
            (Some(old), Some(new)) if old.is_symlink() == new.is_symlink() => {
                steps.push(step(Operation::Modify, Some(old), Some(new)));
            }
            // A file that becomes a link or the reverse is deleted and added, not moved, as in Git.
            (Some(old), Some(new)) => {
                steps.push(step(Operation::Delete, Some(old), None));
                steps.push(step(Operation::Add, None, Some(new)));
            }
            (old, new) => {
                deleted.extend(old);
                added.extend(new);
            }
        }
    }
    let mut sources: Vec<RenameSource<'_>> =
        deleted.iter().map(|entry| RenameSource { entry, stays: false }).collect();
    if matches!(options.renames.detect, Detect::Copies | Detect::CopiesOfAll) {
        let changed = steps.iter().filter_map(|step| step.old.as_ref());
        sources.extend(changed.map(|entry| RenameSource { entry, stays: true }));
    }
    if options.renames.detect == Detect::CopiesOfAll {
        sources.extend(unchanged.iter().map(|entry| RenameSource { entry, stays: true }));
    }
    sources.sort_by(|first, second| first.entry.path.cmp(&second.entry.path));
    added.sort_by(|first, second| first.path.cmp(&second.path));
    let targets: Vec<&Entry> = added.iter().collect();
    let matches = renames::find(&sources, &targets, options.renames);
    if matches.gave_up {
        problems.push(Problem::TooManyForRenames { added: targets.len(), deleted: sources.len() });
    }
    let mut moved: Vec<&[u8]> = Vec::new();
    let mut made = Vec::new();
    for found in &matches.found {
        let source = sources[found.source];
        if !found.is_copy && !source.stays {
            moved.push(&source.entry.path);
        }
        let operation = if found.is_copy { Operation::Copy } else { Operation::Move };
        made.push((found.target, operation, source.entry.clone(), found.similarity));
    }
    moved.sort_unstable();
    let gone: Vec<bool> = deleted.iter().map(|entry| moved.binary_search(&&*entry.path).is_err()).collect();
    drop((moved, sources, targets));

    for (entry, is_gone) in deleted.into_iter().zip(gone) {
        if is_gone {
            steps.push(step(Operation::Delete, Some(entry), None));
        }
    }
    let mut made = made.into_iter().peekable();
    for (at, entry) in added.into_iter().enumerate() {
        steps.push(match made.next_if(|(target, ..)| *target == at) {
            Some((_, operation, source, similarity)) => {
                PlannedChange { operation, old: Some(source), new: Some(entry), similarity: Some(similarity) }
            }
            None => step(Operation::Add, None, Some(entry)),
        });
    }
    // Stable sort: for a path that changes its type, the deletion comes first.
    steps.sort_by(|first, second| first.path().cmp(second.path()));
    steps
}

/// The diff being written.
struct Output<'a> {
    root: &'a Path,
    options: &'a PatchOptions,
    changes: Vec<Change>,
    text: Vec<u8>,
    is_useful: bool,
    is_too_large: bool,
}

impl<'a> Output<'a> {
    fn new(root: &'a Path, options: &'a PatchOptions) -> Self {
        Output { root, options, changes: Vec::new(), text: Vec::new(), is_useful: false, is_too_large: false }
    }

    fn add_directory(&mut self, directory: &FoundDirectory) {
        let operation = if directory.is_new { Operation::Add } else { Operation::Delete };
        let path = self.absolute(&directory.path);
        self.add_change(operation, &path, None, FileType::Directory);
    }

    fn add_step(&mut self, step: &PlannedChange, problems: &mut Vec<Problem>) {
        let mut load = |entry: &Option<Entry>| -> Option<Option<Arc<Vec<u8>>>> {
            match entry.as_ref().map(Entry::load) {
                None => Some(Some(Arc::default())),
                Some(Ok(content)) => Some(Some(content)),
                Some(Err(problem)) => {
                    let is_large = matches!(problem, Problem::LargeFile { .. });
                    problems.push(problem);
                    is_large.then_some(None)
                }
            }
        };
        let (Some(old), Some(new)) = (load(&step.old), load(&step.new)) else { return };
        let texts = match (&old, &new) {
            (Some(old), Some(new)) if is_text(old) && is_text(new) => Some((&***old, &***new)),
            _ => None,
        };
        let is_symlink = step.new.as_ref().or(step.old.as_ref()).is_some_and(Entry::is_symlink);
        let file_type = match texts {
            _ if is_symlink => FileType::Symlink,
            Some(_) => FileType::Text,
            None => FileType::Binary,
        };
        let new_path = step.new.as_ref().map(|entry| self.absolute(&entry.path));
        let old_path = step.old.as_ref().map(|entry| self.absolute(&entry.path));
        let path = new_path.as_deref().or(old_path.as_deref()).unwrap_or_default();
        for path in [old_path.as_deref(), Some(path)].into_iter().flatten() {
            if str::from_utf8(path).is_err() {
                problems.push(Problem::NameNotUnicode { path: to_path(path) });
            }
        }
        let source = old_path.as_deref().filter(|_| step.operation.has_old_path());
        self.add_change(step.operation.clone(), path, source, file_type);
        if self.is_too_large {
            return;
        }
        let contents = old.as_deref().zip(new.as_deref());
        let file = self.file_patch(step, &old_path, &new_path, texts, contents);
        let is_useful = match &file.body {
            Body::Hunks(hunks) => {
                !hunks.is_empty() || step.operation != Operation::Modify || file.old_mode != file.new_mode
            }
            Body::BinaryNamed => {
                step.operation.has_old_path() || file.old_mode.is_some() && file.new_mode.is_some()
            }
            Body::BinaryContent { .. } => true,
        };
        self.is_useful |= is_useful;
        write_file(&mut self.text, &file);
        if self.text.len() > self.options.max_size {
            self.is_too_large = true;
            self.text = Vec::new();
        }
    }

    fn file_patch<'b>(
        &self,
        step: &'b PlannedChange,
        old_path: &'b Option<Vec<u8>>,
        new_path: &'b Option<Vec<u8>>,
        texts: Option<(&'b [u8], &'b [u8])>,
        contents: Option<(&'b Vec<u8>, &'b Vec<u8>)>,
    ) -> FilePatch<'b> {
        let (old_prefix, new_prefix): (&[u8], &[u8]) = match self.options.paths {
            PathForm::Absolute => (b"", b""),
            PathForm::Relative => (b"a/", b"b/"),
        };
        let header =
            Header::Git { old_prefix: Cow::Borrowed(old_prefix), new_prefix: Cow::Borrowed(new_prefix) };
        let name = |entry: &'b Option<Entry>, absolute: &'b Option<Vec<u8>>| match self.options.paths {
            PathForm::Absolute => absolute.as_deref().map(Cow::Borrowed),
            PathForm::Relative => entry.as_ref().map(|entry| Cow::Borrowed(&*entry.path)),
        };
        let body = match (texts, contents, self.options.binary) {
            (Some((old, new)), ..) => Body::Hunks(diff_lines(old, new, self.options.context)),
            (None, Some((old, new)), _) if old == new => Body::Hunks(Vec::new()),
            (None, Some((old, new)), BinaryForm::Content) => Body::BinaryContent {
                forward: BinaryHunk::literal(new),
                backward: Some(BinaryHunk::literal(old)),
            },
            (None, ..) => Body::BinaryNamed,
        };
        let mode = |entry: &Option<Entry>| entry.as_ref().map(|entry| entry.mode);
        let (mut old_mode, mut new_mode) = (mode(&step.old), mode(&step.new));
        // Git verifies binary content by these hashes and refuses it without them. They also carry the mode
        // of a link that only changes its target.
        let names_contents = matches!(body, Body::BinaryContent { .. })
            || (step.operation == Operation::Modify && new_mode.is_some_and(Mode::is_symlink));
        let index = contents.filter(|_| names_contents).map(|(old, new)| {
            let name = |entry: &Option<Entry>, content: &[u8]| match entry {
                Some(_) => Cow::Owned(blob_name(content)),
                None => Cow::Owned(vec![b'0'; 40]),
            };
            Index { old: name(&step.old, old), new: name(&step.new, new) }
        });
        if old_mode == new_mode && index.is_none() {
            // An unchanged mode is not written, so it is not in the model either.
            (old_mode, new_mode) = (None, None);
        }
        FilePatch {
            preamble: b"",
            header,
            operation: step.operation.clone(),
            old_path: name(&step.old, old_path),
            new_path: name(&step.new, new_path),
            old_mode,
            new_mode,
            similarity: step.similarity.map(Similarity::Alike),
            index,
            body,
        }
    }

    fn add_change(
        &mut self,
        operation: Operation,
        path: &[u8],
        old_path: Option<&[u8]>,
        file_type: FileType,
    ) {
        let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        self.changes.push(Change {
            operation,
            path: text(path),
            old_path: old_path.map(text),
            mime_type: mime_type(path, &file_type).map(str::to_owned),
            file_type: Some(file_type),
        });
    }

    fn absolute(&self, path: &[u8]) -> Vec<u8> {
        let root = self.root.as_os_str().as_encoded_bytes();
        if root.is_empty() {
            // The path as given: from another system, or outside of any known directory.
            return path.to_vec();
        }
        let mut absolute = Vec::with_capacity(root.len() + 1 + path.len());
        absolute.extend_from_slice(root.strip_suffix(b"/").unwrap_or(root));
        absolute.push(b'/');
        absolute.extend_from_slice(path);
        absolute
    }

    fn finish(&mut self, problems: &mut Vec<Problem>) -> Option<PatchText> {
        if self.is_too_large {
            problems.push(Problem::PatchTooLarge { limit: self.options.max_size });
            return None;
        }
        let text = std::mem::take(&mut self.text);
        if !self.is_useful {
            return None;
        }
        // Names are quoted and content is text, so this never replaces anything.
        let text = String::from_utf8(text)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Some(PatchText::git(text))
    }
}

/// Converts bytes to a path. On systems where paths are not bytes, invalid Unicode is replaced.
pub(crate) fn to_path(path: &[u8]) -> PathBuf {
    #[cfg(unix)]
    let path: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(path);
    #[cfg(not(unix))]
    let path = String::from_utf8_lossy(path).into_owned();
    PathBuf::from(path)
}

/// Returns Git's object name of content.
pub(crate) fn blob_name(content: &[u8]) -> Vec<u8> {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    let mut name = String::with_capacity(40);
    for byte in hash.finalize() {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name.into_bytes()
}
