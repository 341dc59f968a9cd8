//! File permissions: recordings contain entire conversations, so only their owner may read them.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// A file or folder of the store that other users could read when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exposed {
    /// Path of the file or folder.
    pub path: PathBuf,
    /// Permission bits before the correction.
    pub mode: u32,
    /// Reason why the permissions could not be corrected, if so.
    pub problem: Option<String>,
}

/// Returns open options that create files with mode 0600.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a folder and its missing parents with mode 0700.
pub(crate) fn create_folder(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Copies a file to a copy with mode 0600. Removes an incomplete copy.
pub(crate) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let copied = File::open(from).and_then(|mut from| {
        let mut to = options().write(true).create(true).truncate(true).open(to)?;
        std::io::copy(&mut from, &mut to)?;
        to.sync_data()
    });
    if copied.is_err() {
        drop(std::fs::remove_file(to));
    }
    copied
}

/// Removes the permissions of other users from a file or folder. Returns the previous mode if there were any.
#[cfg(unix)]
pub(crate) fn tighten(path: &Path) -> Option<Exposed> {
    use std::os::unix::fs::PermissionsExt;
    let mode = path.metadata().ok()?.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return None;
    }
    let private = std::fs::Permissions::from_mode(mode & 0o700);
    let problem = std::fs::set_permissions(path, private).err().map(|error| error.to_string());
    Some(Exposed { path: path.to_owned(), mode, problem })
}

#[cfg(not(unix))]
pub(crate) fn tighten(_: &Path) -> Option<Exposed> {
    None
}

/// Identity of a file, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity(#[cfg(unix)] (u64, u64));

#[cfg(unix)]
impl Identity {
    fn from(metadata: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Identity((metadata.dev(), metadata.ino()))
    }

    pub(crate) fn of(path: &Path) -> std::io::Result<Self> {
        path.metadata().map(|metadata| Identity::from(&metadata))
    }

    pub(crate) fn of_file(file: &File) -> std::io::Result<Self> {
        file.metadata().map(|metadata| Identity::from(&metadata))
    }
}

#[cfg(not(unix))]
impl Identity {
    pub(crate) fn of(path: &Path) -> std::io::Result<Self> {
        path.metadata().map(|_| Identity())
    }

    pub(crate) fn of_file(file: &File) -> std::io::Result<Self> {
        file.metadata().map(|_| Identity())
    }
}
