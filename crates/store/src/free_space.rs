//! Tracks if the store is out of space, so that a hub can refuse work until there is space again.

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::error::StoreError;
use crate::private;
use crate::queue::locked;

/// Minimum time between two checks for free space.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Number of bytes that must be writable before the store counts as having space again.
const PROBE: usize = 256 * 1024;
/// Maximum number of deleted session ids remembered until [`FreeSpace::take_deleted`] is called.
const MAX_DELETED: usize = 10_000;

/// State of the free space.
#[derive(Debug, Default)]
pub(crate) struct FreeSpace(Mutex<Measurement>);

#[derive(Debug, Default)]
struct Measurement {
    /// Time of the first failure or of the last check. `None` while there is space.
    tried: Option<Instant>,
    deleted: VecDeque<String>,
}

impl FreeSpace {
    /// Records a failure if it is [`StoreError::Full`].
    pub(crate) fn note(&self, error: &StoreError) {
        if matches!(error, StoreError::Full { .. }) {
            locked(&self.0).tried.get_or_insert_with(Instant::now);
        }
    }

    /// Returns true while the store is out of space. Checks for free space at most once per [`CHECK_INTERVAL`].
    pub(crate) fn is_full(&self, store: &Path, is_below_limit: impl FnOnce() -> bool) -> bool {
        let mut known = locked(&self.0);
        let Some(tried) = known.tried else { return false };
        if tried.elapsed() >= CHECK_INTERVAL {
            known.tried = Some(Instant::now());
            // Release the lock first, since the disk may be slow.
            drop(known);
            if is_below_limit() && can_write(store) {
                locked(&self.0).tried = None;
                return false;
            }
        }
        true
    }

    /// Remembers sessions that were deleted to free space.
    pub(crate) fn deleted(&self, ids: Vec<String>) {
        let mut known = locked(&self.0);
        known.deleted.extend(ids);
        let surplus = known.deleted.len().saturating_sub(MAX_DELETED);
        known.deleted.drain(..surplus);
    }

    /// Returns the sessions deleted to free space since the last call.
    pub(crate) fn take_deleted(&self) -> Vec<String> {
        locked(&self.0).deleted.drain(..).collect()
    }
}

/// Returns true if a probe file can be written next to the store.
pub(crate) fn can_write(store: &Path) -> bool {
    let mut name = store.as_os_str().to_owned();
    name.push("-probe");
    let path = PathBuf::from(name);
    let written = private::options()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        // Not zeros, which some file systems do not allocate.
        .and_then(|mut file| file.write_all(&vec![0x5a; PROBE]));
    drop(std::fs::remove_file(&path));
    written.is_ok()
}
