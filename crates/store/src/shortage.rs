//! Whether the store has room for what is recorded, for those who go on without it until it has.

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::error::StoreError;
use crate::private;
use crate::queue::locked;

/// How often it is tried whether there is room again.
const AGAIN: Duration = Duration::from_secs(1);
/// How much must be writable before there is room again.
const PROBE: usize = 256 * 1024;
/// How many ids of deleted sessions are remembered until somebody asks for them.
const MAX_DELETED: usize = 10_000;

/// What is known about room for recordings.
#[derive(Debug, Default)]
pub(crate) struct Shortage(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Since there has been no room, or since that was last tried.
    tried: Option<Instant>,
    deleted: VecDeque<String>,
}

impl Shortage {
    /// Notes a failure, if it is for lack of room.
    pub(crate) fn note(&self, error: &StoreError) {
        if matches!(error, StoreError::Full { .. }) {
            locked(&self.0).tried.get_or_insert_with(Instant::now);
        }
    }

    /// Returns whether there is no room. Tries from time to time whether there is room again.
    pub(crate) fn lasts(&self, store: &Path, is_below_limit: impl FnOnce() -> bool) -> bool {
        let mut known = locked(&self.0);
        let Some(tried) = known.tried else { return false };
        if tried.elapsed() >= AGAIN {
            known.tried = Some(Instant::now());
            // Without the lock, since the disk may take its time.
            drop(known);
            if is_below_limit() && can_write(store) {
                locked(&self.0).tried = None;
                return false;
            }
        }
        true
    }

    /// Remembers sessions that were deleted to make room.
    pub(crate) fn deleted(&self, ids: Vec<String>) {
        let mut known = locked(&self.0);
        known.deleted.extend(ids);
        let surplus = known.deleted.len().saturating_sub(MAX_DELETED);
        known.deleted.drain(..surplus);
    }

    /// Returns the sessions that were deleted to make room since this was last asked.
    pub(crate) fn take_deleted(&self) -> Vec<String> {
        locked(&self.0).deleted.drain(..).collect()
    }
}

/// Tries to write a file beside the store.
pub(crate) fn can_write(store: &Path) -> bool {
    let mut name = store.as_os_str().to_owned();
    name.push("-probe");
    let path = PathBuf::from(name);
    let written = private::options()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        // Not nothing, which some file systems do not store.
        .and_then(|mut file| file.write_all(&vec![0x5a; PROBE]));
    drop(std::fs::remove_file(&path));
    written.is_ok()
}
