//! Reads files below a root without following symbolic links.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode as Permissions, OFlags, Stat};
use rustix::io::Errno;

use crate::patch::Mode;

/// A root directory. It stays open, so that moving or replacing it does not redirect later accesses.
#[derive(Debug)]
pub(crate) struct Root {
    directory: OwnedFd,
    path: PathBuf,
}

/// Metadata of a file when it was inspected. A file with an equal stamp has not been written since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    mode: u32,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    #[allow(clippy::unnecessary_cast, reason = "the types of the fields differ between systems")]
    pub(crate) fn new(stat: &Stat) -> Self {
        Stamp {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            mode: stat.st_mode as u32,
            size: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode as _)
    }

    /// Returns the Git mode of the file.
    pub(crate) fn mode(&self) -> Mode {
        match self.kind() {
            FileType::Symlink => Mode::SYMLINK,
            _ if self.mode & 0o100 != 0 => Mode::EXECUTABLE,
            _ => Mode::FILE,
        }
    }

    /// Returns the permission bits.
    pub(crate) fn permissions(&self) -> u32 {
        self.mode & 0o777
    }

    pub(crate) fn is_same_file(&self, other: &Stamp) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Reason why a file could not be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    Io(io::Error),
    Changed,
    TooLarge,
    Special(&'static str),
}

impl From<Errno> for ReadError {
    fn from(error: Errno) -> Self {
        ReadError::Io(error.into())
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Io(error)
    }
}

impl Root {
    /// Opens a root. The path itself may contain links, since the caller chose it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Permissions::empty())?;
        Ok(Root { directory, path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn full_path(&self, path: &[u8]) -> PathBuf {
        self.path.join(OsStr::from_bytes(path))
    }

    /// Opens the directory of `path`, one component after the other.
    pub(crate) fn open_parent<'a>(&self, path: &'a [u8]) -> rustix::io::Result<(Directory<'_>, &'a [u8])> {
        let mut directory = Directory::Borrowed(self.directory.as_fd());
        let Some(slash) = memchr::memrchr(b'/', path) else { return Ok((directory, path)) };
        for component in path[..slash].split(|&byte| byte == b'/') {
            directory = Directory::Owned(open_directory(directory.as_fd(), component)?);
        }
        Ok((directory, &path[slash + 1..]))
    }

    /// Returns the stamp of `path`, without following a link.
    pub(crate) fn stamp(&self, path: &[u8]) -> rustix::io::Result<Stamp> {
        let (directory, name) = self.open_parent(path)?;
        stamp_at(directory.as_fd(), name)
    }

    /// Checks that a file can be opened. A missing file or another kind of file is not an error.
    pub(crate) fn try_open(&self, path: &[u8]) -> io::Result<()> {
        let opened = self.open_parent(path).and_then(|(directory, name)| open_file(directory.as_fd(), name));
        match opened {
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a file, or the target of a link. Fails if its stamp differs from `expected` before or after
    /// reading.
    pub(crate) fn read(
        &self,
        path: &[u8],
        expected: Option<&Stamp>,
        limit: u64,
    ) -> Result<(Vec<u8>, Stamp), ReadError> {
        let (directory, name) = self.open_parent(path)?;
        read_at(directory.as_fd(), name, expected, limit)
    }
}

/// A directory on the path to a file.
#[derive(Debug)]
pub(crate) enum Directory<'a> {
    Borrowed(BorrowedFd<'a>),
    Owned(OwnedFd),
}

impl AsFd for Directory<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Directory::Borrowed(directory) => *directory,
            Directory::Owned(directory) => directory.as_fd(),
        }
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Opens a directory. Fails for a link.
pub(crate) fn open_directory(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Permissions::empty())
}

/// Opens a file. Fails for a link, and does not block on a pipe.
pub(crate) fn open_file(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Permissions::empty())
}

/// Returns the stamp of a name in a directory, without following a link.
pub(crate) fn stamp_at(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Stamp> {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| Stamp::new(&stat))
}

pub(crate) fn stamp_of(file: &OwnedFd) -> rustix::io::Result<Stamp> {
    rustix::fs::fstat(file).map(|stat| Stamp::new(&stat))
}

pub(crate) fn read_link_at(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Vec<u8>> {
    rustix::fs::readlinkat(parent, name, Vec::new()).map(std::ffi::CString::into_bytes)
}

fn read_at(
    parent: BorrowedFd<'_>,
    name: &[u8],
    expected: Option<&Stamp>,
    limit: u64,
) -> Result<(Vec<u8>, Stamp), ReadError> {
    let before = stamp_at(parent, name)?;
    if expected.is_some_and(|expected| *expected != before) {
        return Err(ReadError::Changed);
    }
    match before.kind() {
        FileType::RegularFile => {
            let file = open_file(parent, name)?;
            if stamp_of(&file)? != before {
                return Err(ReadError::Changed);
            }
            let mut content = Vec::new();
            read_whole(&file, &before, limit, &mut content)?;
            if stamp_of(&file)? != before {
                return Err(ReadError::Changed);
            }
            Ok((content, before))
        }
        FileType::Symlink => {
            let target = read_link_at(parent, name)?;
            if stamp_at(parent, name)? != before {
                return Err(ReadError::Changed);
            }
            Ok((target, before))
        }
        other => Err(ReadError::Special(describe(other))),
    }
}

/// Reads an open file with the given stamp into `content`, which is cleared first.
pub(crate) fn read_whole(
    file: &OwnedFd,
    stamp: &Stamp,
    limit: u64,
    content: &mut Vec<u8>,
) -> Result<(), ReadError> {
    if stamp.size > limit {
        return Err(ReadError::TooLarge);
    }
    let size = usize::try_from(stamp.size).map_err(|_| ReadError::TooLarge)?;
    content.clear();
    content.resize(size, 0);
    let mut filled = 0;
    while filled < size {
        match rustix::io::read(file, &mut content[filled..]) {
            Ok(0) => return Err(ReadError::Changed),
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns the name of a file kind.
pub(crate) fn describe(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of an unknown kind",
    }
}
