//! Diffs of single files.

use std::path::{Path, PathBuf};

use super::Built;
use super::assemble::{Comparison, Found, assemble, to_path};
#[cfg(unix)]
use crate::disk::{ReadError, Root, describe};
use crate::entry::Entry;
#[cfg(unix)]
use crate::error::Error;
use crate::options::BuildOptions;
use crate::patch::Mode;

/// Builds the diff of one file from its two contents. `None` means that the file does not exist on that side;
/// without either, the diff is empty.
///
/// `path` is the absolute path in the diff. Nothing is read from disk.
///
/// ```
/// use std::path::Path;
/// use switchboard_diff::{BuildOptions, Operation, build_from_bytes};
///
/// let built = build_from_bytes(
///     Path::new("/w/config.json"),
///     Some(b"{\n  \"debug\": false\n}\n"),
///     Some(b"{\n  \"debug\": true\n}\n"),
///     &BuildOptions::default(),
/// );
/// assert_eq!(built.diff.changes[0].operation, Operation::Modify);
/// assert_eq!(
///     built.diff.patch.unwrap().text,
///     "diff --git /w/config.json /w/config.json\n\
///      --- /w/config.json\n\
///      +++ /w/config.json\n\
///      @@ -1,3 +1,3 @@\n {\n-  \"debug\": false\n+  \"debug\": true\n }\n"
/// );
/// ```
pub fn build_from_bytes(
    path: &Path,
    old: Option<&[u8]>,
    new: Option<&[u8]>,
    options: &BuildOptions,
) -> Built {
    let (root, name) = split(path);
    let entry = |content: &[u8]| Entry::in_memory(name.clone(), Mode::FILE, content.to_vec());
    build_pair(old.map(entry), new.map(entry), options.root.as_deref().unwrap_or(&root), options)
}

/// Builds the diff from the file `old` to the file `new`.
///
/// The diff contains the path of `old` ([`BuildOptions::root`] changes its directory). `/dev/null` means a
/// missing file. A symbolic link is compared as a link.
#[cfg(unix)]
pub fn build_from_files(old: &Path, new: &Path, options: &BuildOptions) -> Result<Built, Error> {
    let named = if old == Path::new("/dev/null") { new } else { old };
    let parent = parent_of(named)?;
    let name = name_of(named);
    let read = |path: &Path| read_entry(path, name.clone(), options.max_file_size);
    let (old, new) = (read(old)?, read(new)?);
    Ok(build_pair(old, new, options.root.as_deref().unwrap_or(&parent), options))
}

fn build_pair(old: Option<Entry>, new: Option<Entry>, root: &Path, options: &BuildOptions) -> Built {
    let differs = match (&old, &new) {
        (Some(old), Some(new)) => old.mode != new.mode || old.content() != new.content(),
        (None, None) => false,
        _ => true,
    };
    let files = if differs { vec![Found { old, new }] } else { Vec::new() };
    assemble(Comparison { files, ..Comparison::default() }, root, options)
}

#[cfg(unix)]
fn read_entry(path: &Path, name: Vec<u8>, limit: u64) -> Result<Option<Entry>, Error> {
    if path == Path::new("/dev/null") {
        return Ok(None);
    }
    let directory = parent_of(path)?;
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let root = Root::open(&directory).map_err(failed)?;
    match root.read(&name_of(path), None, limit) {
        Ok((content, stamp)) => Ok(Some(Entry::in_memory(name, stamp.mode(), content))),
        Err(ReadError::Io(source)) => Err(failed(source)),
        Err(ReadError::Changed) => Err(Error::ChangedWhileRead { path: path.to_owned() }),
        Err(ReadError::TooLarge) => Err(Error::TooLarge { path: path.to_owned(), limit }),
        Err(ReadError::Special(found)) => Err(Error::WrongKind {
            path: path.to_owned(),
            found,
            wanted: describe(rustix::fs::FileType::RegularFile),
        }),
    }
}

/// Returns the directory of a path, with links resolved.
#[cfg(unix)]
fn parent_of(path: &Path) -> Result<PathBuf, Error> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    parent.canonicalize().map_err(|source| Error::Read { path: path.to_owned(), source })
}

#[cfg(unix)]
fn name_of(path: &Path) -> Vec<u8> {
    path.file_name().unwrap_or(path.as_os_str()).as_encoded_bytes().to_vec()
}

/// Splits a path into its directory, unmodified, and its name. A path without a slash, as on Windows, is all
/// name.
fn split(path: &Path) -> (PathBuf, Vec<u8>) {
    let bytes = path.as_os_str().as_encoded_bytes();
    // Of several slashes in a row, the first ends the directory.
    let last = memchr::memrchr(b'/', bytes);
    let slash = last.map(|at| bytes[..at].iter().rposition(|&byte| byte != b'/').map_or(0, |end| end + 1));
    let (directory, name) = match slash {
        Some(0) => (&bytes[..1], &bytes[1..]),
        Some(slash) => (&bytes[..slash], &bytes[slash + 1..]),
        None => (&bytes[..0], bytes),
    };
    (to_path(directory), name.to_vec())
}
