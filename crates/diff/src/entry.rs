//! A file on one side of a comparison.

#[cfg(unix)]
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(unix)]
use crate::disk::{ReadError, Root, Stamp};
use crate::error::Problem;
use crate::patch::Mode;

/// A file on one side: path, mode and access to its content.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Relative to the root of its side, with `/` between components.
    pub(crate) path: Vec<u8>,
    pub(crate) mode: Mode,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Memory(Arc<Vec<u8>>),
    #[cfg(unix)]
    Disk {
        root: Arc<Root>,
        stamp: Stamp,
    },
    #[cfg(unix)]
    TooLarge {
        root: Arc<Root>,
        size: u64,
        limit: u64,
    },
}

impl Entry {
    pub(crate) fn in_memory(path: impl Into<Vec<u8>>, mode: Mode, content: Vec<u8>) -> Self {
        Entry { path: path.into(), mode, content: Content::Memory(Arc::new(content)) }
    }

    /// Creates an entry that is read when its content is needed. The file must then still match `stamp`.
    #[cfg(unix)]
    pub(crate) fn on_disk(root: &Arc<Root>, path: Vec<u8>, stamp: Stamp, limit: u64) -> Self {
        let mode = stamp.mode();
        let root = Arc::clone(root);
        let content = if stamp.size() > limit {
            Content::TooLarge { root, size: stamp.size(), limit }
        } else {
            Content::Disk { root, stamp }
        };
        Entry { path, mode, content }
    }

    pub(crate) fn is_symlink(&self) -> bool {
        self.mode.is_symlink()
    }

    pub(crate) fn size(&self) -> u64 {
        match &self.content {
            Content::Memory(content) => content.len() as u64,
            #[cfg(unix)]
            Content::Disk { stamp, .. } => stamp.size(),
            #[cfg(unix)]
            Content::TooLarge { size, .. } => *size,
        }
    }

    /// Returns the content, or the reason why it is unavailable.
    pub(crate) fn load(&self) -> Result<Arc<Vec<u8>>, Problem> {
        match &self.content {
            Content::Memory(content) => Ok(Arc::clone(content)),
            #[cfg(unix)]
            Content::Disk { root, stamp } => match root.read(&self.path, Some(stamp), u64::MAX) {
                Ok((content, _)) => Ok(Arc::new(content)),
                Err(ReadError::Changed) => Err(Problem::ChangedWhileRead { path: self.full_path(root) }),
                Err(ReadError::Io(source)) => Err(Problem::Unreadable { path: self.full_path(root), source }),
                Err(ReadError::TooLarge) => Err(Problem::ChangedWhileRead { path: self.full_path(root) }),
                Err(ReadError::Special(kind)) => {
                    Err(Problem::SpecialFile { path: self.full_path(root), kind })
                }
            },
            #[cfg(unix)]
            Content::TooLarge { root, limit, .. } => {
                Err(Problem::LargeFile { path: self.full_path(root), limit: *limit })
            }
        }
    }

    /// Returns the content, ignoring failures.
    pub(crate) fn content(&self) -> Option<Arc<Vec<u8>>> {
        self.load().ok()
    }

    #[cfg(unix)]
    fn full_path(&self, root: &Root) -> PathBuf {
        root.full_path(&self.path)
    }
}

/// Returns true if content can be text in a patch: valid UTF-8, since a patch is a string, without NUL bytes.
pub(crate) fn is_text(content: &[u8]) -> bool {
    memchr::memchr(0, content).is_none() && str::from_utf8(content).is_ok()
}
