//! How far the records of a session are on their way to the disk.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::error::{Result, StoreError};
use crate::private::Identity;
use crate::queue::locked;

/// How long something that is written may wait for the disk. With the time that the disk takes it must stay below the
/// tenth of a second that is promised.
const SYNC: Duration = Duration::from_millis(50);
/// How often it is checked that the store is still the file that its name stands for.
const LOOK: Duration = Duration::from_millis(500);

/// How far the records of one session are.
#[derive(Debug)]
pub(crate) struct Progress {
    state: Mutex<ProgressState>,
    /// Held while the disk is waited for, so that one wait serves all who wait.
    syncing: Mutex<()>,
    /// Bytes that were ever written, for who wants to know whether much is going on.
    pub(crate) traffic: Arc<AtomicU64>,
    ticker: Arc<Ticker>,
}

#[derive(Debug, Default)]
struct ProgressState {
    /// All before this one survive the process.
    written: u64,
    /// All before this one survive a power cut.
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

    /// Notes what was written to a file.
    pub(crate) fn wrote(&self, file: &Arc<File>, next: u64, bytes: usize) {
        self.traffic.fetch_add(bytes as u64, Ordering::Relaxed);
        let mut state = locked(&self.state);
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

    /// The first failure, and the number of the first record that is not kept.
    pub(crate) fn failure(&self) -> Option<(u64, StoreError)> {
        let state = locked(&self.state);
        state.failed.clone().map(|error| (state.written, error))
    }

    /// The number behind the last record that is written.
    pub(crate) fn written(&self) -> u64 {
        locked(&self.state).written
    }

    pub(crate) fn is_durable(&self, sequence: u64) -> bool {
        locked(&self.state).durable > sequence
    }

    /// Waits until everything written is on the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        let _one = locked(&self.syncing);
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

    fn is_behind(&self) -> bool {
        !locked(&self.state).unsynced.is_empty()
    }
}

/// Sees to it that what is written gets to the disk soon.
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
            // Under the lock, or it could fall asleep at this moment.
            drop(locked(&self.stopped));
            self.changed.notify_all();
        }
    }

    pub(crate) fn stop(&self) {
        *locked(&self.stopped) = true;
        self.changed.notify_all();
    }

    /// That the store's file is not what was opened any more, if that is so.
    pub(crate) fn replaced(&self) -> Option<StoreError> {
        (Identity::of(&self.path).ok() != self.identity)
            .then(|| StoreError::Replaced { path: self.path.clone() })
    }

    /// Runs until it is stopped.
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
            self.awake.store(false, Ordering::Release);
            let all: Vec<_> = {
                let mut all = locked(&self.all);
                all.retain(|progress| progress.strong_count() > 0);
                all.iter().filter_map(Weak::upgrade).collect()
            };
            for progress in all.iter().filter(|progress| progress.is_behind()) {
                // The failure is told with the next append.
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
    fn what_is_written_is_durable_once_all_its_files_are_on_the_disk() {
        let (progress, _ticker) = progress();
        let file = Arc::new(tempfile::tempfile().unwrap());
        progress.wrote(&file, 1, 10);
        assert!(!progress.is_durable(0) && progress.is_behind());
        progress.sync().unwrap();
        assert!(progress.is_durable(0) && !progress.is_behind());
        // A pipe has no disk: what was written to the other file is not safe either, and nobody is told that it is.
        let (_reader, pipe) = std::io::pipe().unwrap();
        let pipe = Arc::new(File::from(std::os::fd::OwnedFd::from(pipe)));
        progress.wrote(&pipe, 2, 10);
        progress.wrote(&file, 3, 10);
        assert!(progress.sync().is_err());
        assert!(!progress.is_durable(1) && !progress.is_durable(2));
        assert_eq!(progress.failure().unwrap().0, 3, "of what is written, nothing is missing");
    }

    #[test]
    fn what_is_written_gets_to_the_disk_unasked() {
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
