//! Identities of files: a path that is looked up twice may lead to two files, if an agent changes it in between.

use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use serde::{Deserialize, Serialize};

/// Device and inode of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// Returns the identity of a file whose path has no links. Fails if it has one, or if the file is missing.
    pub(crate) fn without_links(path: &Path) -> Result<Self, String> {
        let failed = |reason: &dyn std::fmt::Display| format!("cannot look at {}: {reason}", path.display());
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open =
            |folder, name: &Path| openat(folder, name, flags, Mode::empty()).map_err(|error| failed(&error));
        let mut file = open(CWD, Path::new("/"))?;
        let mut stat = fstat(&file).map_err(|error| failed(&error))?;
        for component in path.components() {
            let name = match component {
                Component::RootDir => continue,
                Component::Normal(name) => name,
                _ => return Err(failed(&"it is not a plain absolute path")),
            };
            file = openat(&file, name, flags, Mode::empty()).map_err(|error| failed(&error))?;
            stat = fstat(&file).map_err(|error| failed(&error))?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                return Err(failed(&"a link has appeared in its path"));
            }
        }
        Ok(Identity { device: stat.st_dev, inode: stat.st_ino })
    }

    /// Returns the identity of the file that a path leads to.
    pub(crate) fn of(path: &Path) -> Result<Self, String> {
        let stat =
            rustix::fs::stat(path).map_err(|error| format!("cannot look at {}: {error}", path.display()))?;
        Ok(Identity { device: stat.st_dev, inode: stat.st_ino })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_link_has_no_identity() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", top.join("link")).unwrap();
        let plain = Identity::without_links(&top.join("a/b")).unwrap();
        assert_eq!(Identity::of(&top.join("link/b")), Ok(plain));
        assert_ne!(Identity::of(&top.join("a")), Ok(plain));
        for path in ["link/b", "link", "missing", "a/../a"] {
            assert!(Identity::without_links(&top.join(path)).is_err(), "{path}");
        }
    }
}
