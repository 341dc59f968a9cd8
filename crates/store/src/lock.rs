//! One writer a session, over all processes: a lock that the system takes back when the process ends, however
//! it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::{Result, StoreError};

#[derive(Debug)]
pub(crate) struct SessionLock {
    file: File,
    path: PathBuf,
}

impl SessionLock {
    /// Takes the lock of a session.
    pub(crate) fn take(store: &Path, session: &str) -> Result<Self> {
        let mut folder = store.as_os_str().to_owned();
        folder.push("-writers");
        let path = Path::new(&folder).join(session);
        let fail = |error: std::io::Error| StoreError::Open {
            path: store.to_owned(),
            reason: format!("cannot lock {}: {error}", path.display()),
        };
        std::fs::create_dir_all(&folder).map_err(fail)?;
        loop {
            let file =
                OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(fail)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::SessionInUse { session: session.to_owned() });
                }
                Err(TryLockError::Error(error)) => return Err(fail(error)),
            }
            // Its owner may have removed the file between our opening and our locking of it.
            if is_same(&file, &path) {
                return Ok(SessionLock { file, path });
            }
        }
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // While it is still locked, so that nobody can lock a file that is about to go.
        drop(std::fs::remove_file(&self.path));
        drop(self.file.unlock());
    }
}

#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), path.metadata()) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_same(_: &File, path: &Path) -> bool {
    path.exists()
}
