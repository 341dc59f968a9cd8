//! Tracks which records of a session are written and which are durable.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::error::{Result, StoreError};
use crate::private::Identity;
use crate::queue::locked;

/// Maximum time from a write to the next sync. Together with the sync itself it must stay below the
/// documented 100 ms.
const SYNC: Duration = Duration::from_millis(50);
/// Interval for checking that the path still refers to the opened store.
const LOOK: Duration = Duration::from_millis(500);

/// Write and sync progress of one session.
#[derive(Debug)]
pub(crate) struct Progress {
    state: Mutex<ProgressState>,
    /// Held during a sync, so that one sync serves all waiting threads.
    syncing: Mutex<()>,
    /// Total bytes written, to detect load.
    pub(crate) traffic: Arc<AtomicU64>,
    ticker: Arc<Ticker>,
}

#[derive(Debug, Default)]
struct ProgressState {
    /// Records below this number survive a crash of the process.
    written: u64,
    /// Records below this number are durable.
    durable: u64,
    unsynced: Vec<Arc<File>>,
    failed: Option<StoreError>,
}

impl Progress {
    pub(crate) fn new(next: u64, traffic: &Arc<AtomicU64>, ticker: &Arc<Ticker>) -> Arc<Self> {
        let state = ProgressState { written: next, durable: next, ..ProgressState::default() };
        let progress = Arc::new(Progress {
            state: Mutex::new(state),
            syncing: Mutex::new(()),
            traffic: Arc::clone(traffic),
            ticker: Arc::clone(ticker),
        });
        locked(&ticker.all).push(Arc::downgrade(&progress));
        progress
    }

    /// Notes that records below `next` were written to `file`.
    pub(crate) fn wrote(&self, file: &Arc<File>, next: u64, bytes: usize) {
        self.traffic.fetch_add(bytes as u64, Ordering::Relaxed);
        let mut state = locked(&self.state);
        // Register the file in the same critical section as `written`, so that a sync that covers the record
        // also syncs its file.
        state.written = next;
        if !state.unsynced.last().is_some_and(|last| Arc::ptr_eq(last, file)) {
            state.unsynced.push(Arc::clone(file));
        }
        drop(state);
        self.ticker.wake();
    }

    pub(crate) fn fail(&self, error: StoreError) {
        locked(&self.state).failed.get_or_insert(error);
    }

    /// Returns the first failure and the number of the first record that is not kept.
    pub(crate) fn failure(&self) -> Option<(u64, StoreError)> {
        let state = locked(&self.state);
        state.failed.clone().map(|error| (state.written, error))
    }

    /// Returns the sequence number after the last written record.
    pub(crate) fn written(&self) -> u64 {
        locked(&self.state).written
    }

    pub(crate) fn is_durable(&self, sequence: u64) -> bool {
        locked(&self.state).durable > sequence
    }

    /// Waits until all written records are durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let _one = locked(&self.syncing);
        // Read `written` before syncing: records written during the sync are not covered by it.
        let (written, files) = {
            let mut state = locked(&self.state);
            (state.written, std::mem::take(&mut state.unsynced))
        };
        for file in files {
            if let Err(error) = file.sync_data() {
                let error = StoreError::Disk { reason: error.to_string() };
                self.fail(error.clone());
                return Err(error);
            }
        }
        let mut state = locked(&self.state);
        state.durable = state.durable.max(written);
        Ok(())
    }

    fn has_unsynced(&self) -> bool {
        !locked(&self.state).unsynced.is_empty()
    }
}

/// Syncs written records to the disk every [`SYNC`].
#[derive(Debug)]
pub(crate) struct Ticker {
    all: Mutex<Vec<Weak<Progress>>>,
    awake: AtomicBool,
    stopped: Mutex<bool>,
    changed: Condvar,
    path: PathBuf,
    identity: Option<Identity>,
}

impl Ticker {
    pub(crate) fn new(path: PathBuf, identity: Option<Identity>) -> Arc<Self> {
        Arc::new(Ticker {
            all: Mutex::default(),
            awake: AtomicBool::new(false),
            stopped: Mutex::new(false),
            changed: Condvar::new(),
            path,
            identity,
        })
    }

    fn wake(&self) {
        if !self.awake.swap(true, Ordering::AcqRel) {
            // Take the lock, or the thread could start to wait after it has checked `awake` and miss the
            // notification.
            drop(locked(&self.stopped));
            self.changed.notify_all();
        }
    }

    pub(crate) fn stop(&self) {
        *locked(&self.stopped) = true;
        self.changed.notify_all();
    }

    /// Returns an error if the path no longer refers to the opened file.
    pub(crate) fn replaced(&self) -> Option<StoreError> {
        (Identity::of(&self.path).ok() != self.identity)
            .then(|| StoreError::Replaced { path: self.path.clone() })
    }

    /// Runs until stopped.
    pub(crate) fn run(&self) {
        let mut looked = Instant::now();
        loop {
            let mut stopped = locked(&self.stopped);
            while !*stopped && !self.awake.load(Ordering::Acquire) {
                stopped = self.changed.wait(stopped).unwrap_or_else(PoisonError::into_inner);
            }
            if !*stopped {
                let waited = self.changed.wait_timeout(stopped, SYNC).unwrap_or_else(PoisonError::into_inner);
                stopped = waited.0;
            }
            if *stopped {
                return;
            }
            drop(stopped);
            // Reset the flag before syncing: a write during the sync sets it again and gets another round.
            self.awake.store(false, Ordering::Release);
            let all: Vec<_> = {
                let mut all = locked(&self.all);
                all.retain(|progress| progress.strong_count() > 0);
                all.iter().filter_map(Weak::upgrade).collect()
            };
            for progress in all.iter().filter(|progress| progress.has_unsynced()) {
                // A failure is reported by the next append.
                drop(progress.sync());
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                if let Some(error) = self.replaced() {
                    all.iter().for_each(|progress| progress.fail(error.clone()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> (Arc<Progress>, Arc<Ticker>) {
        let ticker = Ticker::new(PathBuf::new(), None);
        (Progress::new(0, &Arc::default(), &ticker), ticker)
    }

    #[test]
    fn a_write_is_durable_when_all_its_files_are_synced() {
        let (progress, _ticker) = progress();
        let file = Arc::new(tempfile::tempfile().unwrap());
        progress.wrote(&file, 1, 10);
        assert!(!progress.is_durable(0) && progress.has_unsynced());
        progress.sync().unwrap();
        assert!(progress.is_durable(0) && !progress.has_unsynced());
        // A pipe cannot be synced: no record of this batch counts as durable, not even those in the other
        // file.
        let (_reader, pipe) = std::io::pipe().unwrap();
        let pipe = Arc::new(File::from(std::os::fd::OwnedFd::from(pipe)));
        progress.wrote(&pipe, 2, 10);
        progress.wrote(&file, 3, 10);
        assert!(progress.sync().is_err());
        assert!(!progress.is_durable(1) && !progress.is_durable(2));
        assert_eq!(progress.failure().unwrap().0, 3, "of what is written, nothing is missing");
    }

    #[test]
    fn writes_are_synced_without_a_request() {
        let (progress, ticker) = progress();
        let ticking = {
            let ticker = Arc::clone(&ticker);
            std::thread::spawn(move || ticker.run())
        };
        for next in 1..4 {
            progress.wrote(&Arc::new(tempfile::tempfile().unwrap()), next, 10);
            while !progress.is_durable(next - 1) {
                std::thread::yield_now();
            }
        }
        ticker.stop();
        ticking.join().unwrap();
    }
}
