//! Diffs of a Git repository, computed by the `git` program.
//!
//! Git compares, because only it can apply a repository's attributes, line-ending rules and filters. It is
//! called such that user configuration does not change the result: no pager, no colour, no external diff or
//! text conversion, no optional locks, explicit prefixes and order.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Built;
use crate::disk::{Root, Stamp};
use crate::error::{Error, Problem};
use crate::mime::mime_type;
use crate::model::{Change, Diff, FileType, Operation, PatchText};
use crate::options::{BinaryForm, BuildOptions, Detect, PathForm};
use crate::patch::{Body, FilePatch, Header, Mode, parse_patch, write_file};

/// Maximum size of a list of changed files in bytes.
const MAX_LIST: u64 = 256 * 1024 * 1024;
const WORDS: u64 = 4096;

/// Comparison in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitComparison {
    /// The last commit with the work tree.
    WorkTree {
        /// True if untracked files that are not ignored count as new.
        untracked: bool,
    },
    /// The last commit with the staged files.
    Staged,
    /// Any argument of `git diff`: `main..topic`, `main...topic`, or one revision against the work tree.
    Range(String),
}

/// Builds the diff of a Git repository. `directory` is any directory in its work tree; the diff covers the
/// whole repository.
///
/// Moves and copies are detected by Git. The `git` program must be installed. It may run filters from the
/// repository's configuration, as for `git diff`.
pub fn build_from_git(
    directory: &Path,
    comparison: &GitComparison,
    options: &BuildOptions,
) -> Result<Built, Error> {
    let mut git = Git::find(directory, options)?;
    let mut problems = Vec::new();
    let mut revisions: Vec<OsString> = match comparison {
        GitComparison::WorkTree { .. } => vec![git.head()?],
        GitComparison::Staged => vec!["--cached".into(), git.head()?],
        GitComparison::Range(range) => vec!["--end-of-options".into(), range.into()],
    };
    revisions.push("--".into());
    if *comparison == (GitComparison::WorkTree { untracked: true }) {
        git.add_untracked()?;
    }
    let changes = match git.list(&revisions) {
        // Git stops at the first unreadable file, so exclude unreadable files and retry.
        Err(error) if *comparison != GitComparison::Staged => {
            let unreadable = git.exclude_unreadable()?;
            if unreadable.is_empty() {
                return Err(error);
            }
            problems.extend(unreadable);
            git.list(&revisions)?
        }
        other => other?,
    };
    let (unmerged, changes): (Vec<_>, Vec<_>) = changes.into_iter().partition(|change| change.is_unmerged);
    problems
        .extend(unmerged.iter().map(|change| Problem::Unmerged { path: git.root.full_path(&change.path) }));
    let before = git.stamps(&changes);
    let built = Built { problems, ..Built::default() };
    let mut output = Output { root: git.work_tree.clone(), options, built, text: Vec::new() };
    if let Some(root) = &options.root {
        output.root.clone_from(root);
    }
    let limit = options.patch.max_size as u64;
    let patch = git.patch(&revisions, limit)?;
    if git.stamps(&changes) != before {
        return Err(Error::ChangedWhileRead { path: git.work_tree });
    }
    let Some(patch) = patch else {
        output.add_changes(&changes);
        output.built.problems.push(Problem::PatchTooLarge { limit: options.patch.max_size });
        return Ok(output.finish(false));
    };
    let mut parsed = parse_patch(&patch);
    // With only unmerged files, the output is one line for each of them.
    if let Some(fault) = parsed.faults.pop().filter(|_| !changes.is_empty()) {
        return Err(fault.into());
    }
    let encoded = git.encode_foreign(&changes, &parsed.files, &revisions)?;
    let encoded = encoded.as_deref().map(parse_patch).unwrap_or_default();
    git.agree(&changes, &parsed.files)?;
    output.add_sections(&changes, parsed.files, &encoded.files);
    Ok(output.finish(true))
}

/// One line of `git diff --raw --numstat`.
#[derive(Debug)]
struct Listed {
    old_mode: Mode,
    new_mode: Mode,
    operation: Operation,
    /// A file that becomes a link or the reverse: Git lists it once and shows two sections.
    is_type_change: bool,
    /// A path with a merge conflict, which has no staged content to compare.
    is_unmerged: bool,
    old_path: Vec<u8>,
    path: Vec<u8>,
    /// Lines added and removed. `None` for a binary file.
    counts: Option<(usize, usize)>,
}

impl Listed {
    fn file_type(&self) -> FileType {
        let mode = if self.operation == Operation::Delete { self.old_mode } else { self.new_mode };
        if mode.is_symlink() {
            FileType::Symlink
        } else if !mode.is_file() {
            FileType::Other("_submodule".to_owned())
        } else if self.counts.is_none() {
            FileType::Binary
        } else {
            FileType::Text
        }
    }

    fn is_in_work_tree(&self) -> bool {
        self.operation != Operation::Delete
    }
}

struct Git<'a> {
    work_tree: PathBuf,
    root: Root,
    options: &'a BuildOptions,
    /// Temporary index with the untracked files.
    index: Option<tempfile::NamedTempFile>,
    /// Path specifications that exclude unreadable files.
    excluded: Vec<OsString>,
}

impl<'a> Git<'a> {
    fn find(directory: &Path, options: &'a BuildOptions) -> Result<Self, Error> {
        let mut command = command(directory);
        command.args(["rev-parse", "--show-toplevel"]);
        let mut path = run(command, "rev-parse", MAX_LIST, &[])?.unwrap_or_default();
        path.pop_if(|byte| *byte == b'\n');
        let work_tree = PathBuf::from(OsString::from_vec(path));
        let root =
            Root::open(&work_tree).map_err(|source| Error::Read { path: work_tree.clone(), source })?;
        Ok(Git { work_tree, root, options, index: None, excluded: Vec::new() })
    }

    fn command(&self) -> Command {
        let mut command = command(&self.work_tree);
        if let Some(index) = &self.index {
            command.env("GIT_INDEX_FILE", index.path());
        }
        command
    }

    /// Returns the last commit, or the empty tree if there is none yet.
    fn head(&self) -> Result<OsString, Error> {
        let mut command = self.command();
        command.args(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
        if run(command, "rev-parse", WORDS, &[]).is_ok() {
            return Ok("HEAD".into());
        }
        let mut command = self.command();
        command.args(["hash-object", "-t", "tree", "--stdin"]);
        let mut name = run(command, "hash-object", WORDS, &[])?.unwrap_or_default();
        name.pop_if(|byte| *byte == b'\n');
        Ok(OsString::from_vec(name))
    }

    /// Creates a temporary index that includes the untracked files. The real one stays unchanged.
    fn add_untracked(&mut self) -> Result<(), Error> {
        let mut command = self.command();
        command.args(["ls-files", "-z", "--others", "--exclude-standard"]);
        let list = run(command, "ls-files", MAX_LIST, &[])?.unwrap_or_default();
        // A name that ends with a slash is a nested repository.
        let files = list.split_inclusive(|&byte| byte == 0).filter(|name| !name.ends_with(b"/\0"));
        let files: Vec<u8> = files.flatten().copied().collect();
        if files.is_empty() {
            return Ok(());
        }
        let mut command = self.command();
        command.args(["rev-parse", "--path-format=absolute", "--git-path", "index"]);
        let mut path = run(command, "rev-parse", WORDS, &[])?.unwrap_or_default();
        path.pop_if(|byte| *byte == b'\n');
        let path = PathBuf::from(OsString::from_vec(path));
        let failed = |source| Error::Read { path: path.clone(), source };
        let copy = tempfile::NamedTempFile::new().map_err(failed)?;
        match std::fs::copy(&path, copy.path()) {
            // Git uses the time of the index to decide which files to examine more closely: those changed at
            // the same time. The copy must not appear younger.
            Ok(_) => {
                let modified = path.metadata().and_then(|metadata| metadata.modified()).map_err(failed)?;
                copy.as_file().set_modified(modified).map_err(failed)?;
            }
            // A repository without an index. Git does not accept an empty file as an index.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                std::fs::remove_file(copy.path()).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
        self.index = Some(copy);
        let mut command = self.command();
        command.env("GIT_LITERAL_PATHSPECS", "1");
        command.args(["add", "--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul"]);
        run(command, "add", WORDS, &files).map(drop)
    }

    /// Finds unreadable files in the work tree, and excludes them from now on.
    fn exclude_unreadable(&mut self) -> Result<Vec<Problem>, Error> {
        let mut command = self.command();
        command.args(["ls-files", "-z", "--cached"]);
        let list = run(command, "ls-files", MAX_LIST, &[])?.unwrap_or_default();
        let mut problems = Vec::new();
        for path in list.split(|&byte| byte == 0).filter(|path| !path.is_empty()) {
            if let Err(source) = self.root.try_open(path) {
                let mut specification = OsString::from(":(top,exclude,literal)");
                specification.push(OsStr::from_bytes(path));
                self.excluded.push(specification);
                problems.push(Problem::Unreadable { path: self.root.full_path(path), source });
            }
        }
        Ok(problems)
    }

    fn diff_command(&self, attributes: Option<&Path>) -> Command {
        let mut command = self.command();
        if let Some(attributes) = attributes {
            let mut setting = OsString::from("core.attributesFile=");
            setting.push(attributes);
            command.arg("-c").arg(setting);
        }
        command.args([
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--no-relative",
            "--full-index",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            "--diff-algorithm=myers",
            "--indent-heuristic",
            "--inter-hunk-context=0",
            "--ignore-submodules=none",
            "--submodule=short",
            "-O/dev/null",
        ]);
        let renames = self.options.renames;
        let threshold = renames.threshold.min(100);
        command.arg(format!("-l{}", renames.limit));
        match renames.detect {
            Detect::Nothing => command.arg("--no-renames"),
            Detect::Moves => command.arg(format!("-M{threshold}%")),
            Detect::Copies => command.arg(format!("-C{threshold}%")),
            Detect::CopiesOfAll => command.arg(format!("-C{threshold}%")).arg("--find-copies-harder"),
        };
        command
    }

    fn list(&self, revisions: &[OsString]) -> Result<Vec<Listed>, Error> {
        let mut command = self.diff_command(None);
        command.args(["--raw", "--numstat", "--no-abbrev", "-z"]).args(revisions).args(&self.excluded);
        let list = run(command, "diff", MAX_LIST, &[])?;
        list.as_deref().and_then(parse_list).ok_or_else(|| Error::Git {
            action: "diff",
            message: "the list of changes cannot be read".to_owned(),
        })
    }

    /// Returns the patch, or `None` if it exceeds `limit` bytes.
    fn patch(&self, revisions: &[OsString], limit: u64) -> Result<Option<Vec<u8>>, Error> {
        let mut command = self.diff_command(None);
        self.patch_arguments(&mut command);
        command.args(revisions).args(&self.excluded);
        run(command, "diff", limit, &[])
    }

    fn patch_arguments(&self, command: &mut Command) {
        command.arg("--patch").arg(format!("-U{}", self.options.patch.context));
        if self.options.patch.binary == BinaryForm::Content {
            command.arg("--binary");
        }
    }

    /// Requests files as binary that Git takes for text but that are not UTF-8: their text cannot be in a
    /// string.
    fn encode_foreign(
        &self,
        changes: &[Listed],
        files: &[FilePatch<'_>],
        revisions: &[OsString],
    ) -> Result<Option<Vec<u8>>, Error> {
        let foreign: Vec<&[u8]> = files.iter().filter(|file| is_foreign(file)).map(FilePatch::path).collect();
        if foreign.is_empty() || self.options.patch.binary == BinaryForm::Named {
            return Ok(None);
        }
        let failed = |source| Error::Write { path: std::env::temp_dir(), source };
        let mut attributes = tempfile::NamedTempFile::new().map_err(failed)?;
        attributes.write_all(b"* -diff\n").map_err(failed)?;
        let mut command = self.diff_command(Some(attributes.path()));
        self.patch_arguments(&mut command);
        command.env("GIT_LITERAL_PATHSPECS", "1").args(revisions);
        for change in changes.iter().filter(|change| foreign.contains(&&*change.path)) {
            command.arg(OsStr::from_bytes(&change.path)).arg(OsStr::from_bytes(&change.old_path));
        }
        run(command, "diff", u64::MAX, &[])
    }

    /// Returns the current stamps of the changed files in the work tree.
    fn stamps(&self, changes: &[Listed]) -> Vec<Option<Stamp>> {
        let changed = changes.iter().filter(|change| change.is_in_work_tree());
        changed.map(|change| self.root.stamp(&change.path).ok()).collect()
    }

    /// Checks that the list and the patch agree. They come from two runs, so a file may have changed in
    /// between.
    fn agree(&self, changes: &[Listed], files: &[FilePatch<'_>]) -> Result<(), Error> {
        let mut files = files.iter();
        for change in changes {
            let sections = if change.is_type_change { 2 } else { 1 };
            let (mut added, mut removed) = (0, 0);
            for _ in 0..sections {
                let changed = || Error::ChangedWhileRead { path: self.root.full_path(&change.path) };
                let file = files.next().filter(|file| file.path() == change.path).ok_or_else(changed)?;
                let counts = file.counts();
                added += counts.0;
                removed += counts.1;
                if sections == 1 && file.operation != change.operation {
                    return Err(changed());
                }
            }
            if change.counts.is_some_and(|counts| counts != (added, removed)) {
                return Err(Error::ChangedWhileRead { path: self.root.full_path(&change.path) });
            }
        }
        match files.next() {
            Some(file) => Err(Error::ChangedWhileRead { path: self.root.full_path(file.path()) }),
            None => Ok(()),
        }
    }
}

fn is_foreign(file: &FilePatch<'_>) -> bool {
    let mut lines = file.hunks().iter().flat_map(|hunk| &hunk.lines);
    lines.any(|line| str::from_utf8(line.content).is_err() || line.content.contains(&0))
}

struct Output<'a> {
    root: PathBuf,
    options: &'a BuildOptions,
    built: Built,
    text: Vec<u8>,
}

impl Output<'_> {
    fn add_changes(&mut self, changes: &[Listed]) {
        for change in changes {
            let file_type = change.file_type();
            for operation in operations(change) {
                self.add_change(change, operation, file_type.clone());
            }
        }
    }

    fn add_change(&mut self, listed: &Listed, operation: Operation, file_type: FileType) {
        let path = self.absolute(&listed.path);
        let mut text = |path: Vec<u8>| match String::from_utf8(path) {
            Ok(text) => text,
            Err(error) => {
                let lossy = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let path = PathBuf::from(OsString::from_vec(error.into_bytes()));
                self.built.problems.push(Problem::NameNotUnicode { path });
                lossy
            }
        };
        let mime_type = mime_type(&path, &file_type).map(str::to_owned);
        let path = text(path);
        let old_path = operation.has_old_path().then(|| absolute(&self.root, &listed.old_path)).map(text);
        self.built.diff.changes.push(Change {
            operation,
            path,
            old_path,
            mime_type,
            file_type: Some(file_type),
        });
    }

    fn add_sections(&mut self, changes: &[Listed], files: Vec<FilePatch<'_>>, encoded: &[FilePatch<'_>]) {
        let mut files = files.into_iter();
        for change in changes {
            let operations = operations(change);
            let sides = operations.len();
            for operation in operations {
                let Some(mut file) = files.next() else { return };
                if is_foreign(&file) {
                    let again = encoded.iter().find(|other| {
                        other.path() == file.path()
                            && other.operation == file.operation
                            && other.hunks().is_empty()
                    });
                    match again {
                        Some(other) => file = other.clone(),
                        None => file.body = Body::BinaryNamed,
                    }
                }
                let file_type = match file.file_type() {
                    Some(known) if sides == 2 || known == FileType::Binary => known,
                    _ => change.file_type(),
                };
                self.add_change(change, operation, file_type);
                self.add_section(file);
            }
        }
    }

    fn add_section(&mut self, mut file: FilePatch<'_>) {
        file.preamble = b"";
        if self.options.patch.paths == PathForm::Absolute {
            let place = |path: Option<Cow<'_, [u8]>>| path.map(|path| Cow::Owned(self.absolute(&path)));
            file.old_path = place(file.old_path);
            file.new_path = place(file.new_path);
            file.header = Header::Git { old_prefix: Cow::Borrowed(b""), new_prefix: Cow::Borrowed(b"") };
            // Like in our own diffs, include content hashes only if they are needed.
            let is_symlink =
                file.new_mode.is_some_and(Mode::is_symlink) && file.operation == Operation::Modify;
            if !is_symlink && !matches!(file.body, Body::BinaryContent { .. }) {
                file.index = None;
                if file.old_mode == file.new_mode {
                    (file.old_mode, file.new_mode) = (None, None);
                }
            }
        }
        write_file(&mut self.text, &file);
    }

    fn absolute(&self, path: &[u8]) -> Vec<u8> {
        absolute(&self.root, path)
    }

    fn finish(mut self, has_patch: bool) -> Built {
        let limit = self.options.patch.max_size;
        if has_patch && self.text.len() > limit {
            self.built.problems.push(Problem::PatchTooLarge { limit });
        } else if has_patch && is_useful(&self.text) {
            let text = String::from_utf8(self.text)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
            self.built.diff.patch = Some(PatchText::git(text));
        }
        self.built.diff = Diff { root: self.root.to_str().map(str::to_owned), ..self.built.diff };
        self.built
    }
}

/// Returns true if a patch shows more than that binary files differ.
fn is_useful(text: &[u8]) -> bool {
    parse_patch(text).files.iter().any(|file| {
        file.body != Body::BinaryNamed
            || file.operation.has_old_path()
            || (file.old_mode.is_some() && file.new_mode.is_some() && file.old_mode != file.new_mode)
    })
}

fn absolute(root: &Path, path: &[u8]) -> Vec<u8> {
    root.join(OsStr::from_bytes(path)).into_os_string().into_vec()
}

/// Returns the operations of a change. A change of type is two changes, like two sections.
fn operations(change: &Listed) -> Vec<Operation> {
    if change.is_type_change {
        vec![Operation::Delete, Operation::Add]
    } else {
        vec![change.operation.clone()]
    }
}

/// Creates a `git` command that ignores user configuration.
fn command(directory: &Path) -> Command {
    let mut command = Command::new("git");
    let inherited = std::env::vars_os().map(|(name, _)| name);
    for name in inherited.filter(|name| name.as_bytes().starts_with(b"GIT_")) {
        command.env_remove(name);
    }
    command
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("LC_ALL", "C")
        .arg("-C")
        .arg(directory)
        .args(["--no-pager", "-c", "core.fsmonitor=false", "-c", "core.quotePath=true"])
        .args(["-c", "diff.suppressBlankEmpty=false", "-c", "core.safecrlf=false"]);
    command
}

/// Runs a command with `input` on its standard input. Returns `None` if its output exceeds `limit` bytes.
fn run(
    mut command: Command,
    action: &'static str,
    limit: u64,
    input: &[u8],
) -> Result<Option<Vec<u8>>, Error> {
    let failed = |error: std::io::Error| Error::Git { action, message: error.to_string() };
    // Use files for both, which avoids a deadlock between full pipes.
    let mut complaints = tempfile::tempfile().map_err(failed)?;
    let mut stdin = tempfile::tempfile().map_err(failed)?;
    stdin.write_all(input).and_then(|()| stdin.rewind()).map_err(failed)?;
    command.stdin(stdin).stdout(Stdio::piped()).stderr(complaints.try_clone().map_err(failed)?);
    let mut child = command.spawn().map_err(failed)?;
    let mut output = Vec::new();
    let read = match child.stdout.take() {
        Some(stdout) => stdout.take(limit.saturating_add(1)).read_to_end(&mut output),
        None => Ok(0),
    };
    let is_too_long = output.len() as u64 > limit;
    if is_too_long || read.is_err() {
        // It may have exited already.
        let _ = child.kill();
    }
    let status = child.wait().map_err(failed)?;
    read.map_err(failed)?;
    if is_too_long {
        return Ok(None);
    }
    if !status.success() {
        let mut message = Vec::new();
        complaints.rewind().map_err(failed)?;
        complaints.take(WORDS).read_to_end(&mut message).map_err(failed)?;
        let message = String::from_utf8_lossy(&message).trim().to_owned();
        return Err(Error::Git {
            action,
            message: if message.is_empty() { status.to_string() } else { message },
        });
    }
    Ok(Some(output))
}

/// Parses the output of `git diff --raw --numstat -z`: first all changes, then all counts, in the same order.
fn parse_list(list: &[u8]) -> Option<Vec<Listed>> {
    let mut fields = list.split(|&byte| byte == 0).peekable();
    let mut changes = Vec::new();
    while let Some(line) = fields.next_if(|field| field.starts_with(b":")) {
        let mut words = line[1..].split(|&byte| byte == b' ');
        let mut mode = || {
            let digits = str::from_utf8(words.next()?).ok()?;
            u32::from_str_radix(digits, 8).ok().map(Mode)
        };
        let (old_mode, new_mode) = (mode()?, mode()?);
        let status = *words.nth(2)?.first()?;
        let old_path = fields.next()?.to_vec();
        let operation = match status {
            b'A' => Operation::Add,
            b'D' => Operation::Delete,
            b'M' | b'T' => Operation::Modify,
            b'R' => Operation::Move,
            b'C' => Operation::Copy,
            b'U' => Operation::Modify,
            _ => return None,
        };
        let path = if operation.has_old_path() { fields.next()?.to_vec() } else { old_path.clone() };
        let is_type_change = status == b'T';
        let is_unmerged = status == b'U';
        changes.push(Listed {
            old_mode,
            new_mode,
            operation,
            is_type_change,
            is_unmerged,
            old_path,
            path,
            counts: None,
        });
    }
    for change in &mut changes {
        let line = fields.next()?;
        let mut words = line.splitn(3, |&byte| byte == b'\t');
        let mut number = || str::from_utf8(words.next()?).ok()?.parse().ok();
        change.counts = number().zip(number());
        if line.ends_with(b"\t") {
            // A move or copy: both paths follow.
            fields.next()?;
            fields.next()?;
        }
    }
    Some(changes)
}
