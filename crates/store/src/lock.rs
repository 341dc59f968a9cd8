//! Exclusive write access to a session across processes: a file lock, which the operating system releases
//! when the process ends for any reason.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::{Result, StoreError};
use crate::private::{self, Identity};
use crate::segment::Folder;

#[derive(Debug)]
pub(crate) struct SessionLock {
    file: File,
    path: PathBuf,
}

impl SessionLock {
    /// Locks a session. Fails with [`StoreError::SessionInUse`] if another recorder holds the lock.
    pub(crate) fn take(store: &Path, session: &str) -> Result<Self> {
        let folder = Folder::beside(store);
        let path = folder.path().join(session);
        let fail = |error: std::io::Error| StoreError::Open {
            path: store.to_owned(),
            reason: format!("cannot lock {}: {error}", path.display()),
        };
        private::create_folder(folder.path()).map_err(fail)?;
        loop {
            let file =
                private::options().create(true).truncate(false).write(true).open(&path).map_err(fail)?;
            match file.try_lock() {
                Ok(()) => {}
                // A process that checks the lock holds it shared for a moment. If sharing succeeds, there is
                // no owner: try again.
                Err(TryLockError::WouldBlock) if file.try_lock_shared().is_ok() => {
                    drop(file.unlock());
                    std::thread::yield_now();
                    continue;
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::SessionInUse { session: session.to_owned() });
                }
                Err(TryLockError::Error(error)) => return Err(fail(error)),
            }
            // The previous owner may have removed the file after we opened it. A lock on a removed file
            // excludes no one, so the name must still refer to the locked file.
            if is_same(&file, &path) {
                return Ok(SessionLock { file, path });
            }
        }
    }

    /// Returns true if a recorder holds the lock of a session.
    pub(crate) fn is_taken(store: &Path, session: &str) -> bool {
        SessionLock::is_taken_in(&Folder::beside(store), session)
    }

    /// Like [`SessionLock::is_taken`], for a given journal folder.
    pub(crate) fn is_taken_in(folder: &Folder, session: &str) -> bool {
        let path = folder.path().join(session);
        // A missing or inaccessible lock file cannot belong to a recorder of this user.
        let Ok(file) = File::open(&path) else { return false };
        // Shared, so that two processes that check at the same time do not mistake each other for an owner.
        let is_taken = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        drop(file.unlock());
        is_taken
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // Remove the file before unlocking it, so that no process can lock a file that is about to be
        // removed.
        drop(std::fs::remove_file(&self.path));
        drop(self.file.unlock());
    }
}

fn is_same(file: &File, path: &Path) -> bool {
    matches!((Identity::of_file(file), Identity::of(path)), (Ok(open), Ok(named)) if open == named)
}
