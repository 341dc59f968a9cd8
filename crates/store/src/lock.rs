//! One writer a session, over all processes: a lock that the system takes back when the process ends, however
//! it ends.

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
    /// Takes the lock of a session.
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
                // Whoever only looks whether a session is taken shares its lock, for a moment.
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
            // Its owner may have removed the file between our opening and our locking of it.
            if is_same(&file, &path) {
                return Ok(SessionLock { file, path });
            }
        }
    }

    /// Whether somebody has the lock of a session.
    pub(crate) fn is_taken(store: &Path, session: &str) -> bool {
        SessionLock::is_taken_in(&Folder::beside(store), session)
    }

    /// Whether somebody has the lock of a session whose journal is in a folder.
    pub(crate) fn is_taken_in(folder: &Folder, session: &str) -> bool {
        let path = folder.path().join(session);
        // One that is not there, or that we may not look at, is at least none of ours.
        let Ok(file) = File::open(&path) else { return false };
        // Shared, so that two who look do not take each other for an owner.
        let is_taken = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        drop(file.unlock());
        is_taken
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // While it is still locked, so that nobody can lock a file that is about to go.
        drop(std::fs::remove_file(&self.path));
        drop(self.file.unlock());
    }
}

fn is_same(file: &File, path: &Path) -> bool {
    matches!((Identity::of_file(file), Identity::of(path)), (Ok(open), Ok(named)) if open == named)
}
