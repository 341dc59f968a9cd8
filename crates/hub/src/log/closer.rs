//! Closes logs in the background, with a few threads however many are closed at once. A close that has not started can
//! be cancelled.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use switchboard_store::Recorder;

use crate::core::SessionId;

/// Maximum number of logs that are closed at the same time. Each waits for the single writer of the store.
const THREADS: usize = 4;
/// The same at shutdown: the writer of the store handles many at once faster than one after the other.
const SHUTDOWN_THREADS: usize = 32;
/// Maximum time for closing all logs at shutdown. Everything that is not in the store's file by then is in the
/// journals.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(1500);

/// A log to be closed.
struct Job {
    session: SessionId,
    recorder: Recorder,
    /// Dropped when the job is done.
    _done: SyncSender<()>,
}

/// Queue of the closing threads.
#[derive(Default)]
struct Work {
    waiting: VecDeque<Job>,
    threads: usize,
}

/// Closes logs in the background.
#[derive(Default)]
pub(super) struct Closer {
    work: Arc<Mutex<Work>>,
}

/// A log that is being closed.
pub(super) struct Closing(Receiver<()>);

impl Closing {
    pub(super) fn is_done(&self) -> bool {
        matches!(self.0.try_recv(), Err(TryRecvError::Disconnected))
    }

    /// Waits until the log is closed.
    pub(super) fn wait(self) {
        // Nothing is ever sent: the channel closes with the job.
        let _ = self.0.recv();
    }
}

fn locked(work: &Mutex<Work>) -> MutexGuard<'_, Work> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Closer {
    /// Queues a log for closing.
    pub(super) fn close(&self, session: &SessionId, recorder: Recorder) -> Closing {
        let (done, closing) = sync_channel(1);
        let mut work = locked(&self.work);
        work.waiting.push_back(Job { session: Arc::clone(session), recorder, _done: done });
        if work.threads < THREADS {
            let shared = Arc::clone(&self.work);
            let thread = std::thread::Builder::new().name("log-closer".to_owned());
            match thread.spawn(move || close_all(&shared)) {
                Ok(_) => work.threads += 1,
                // No more threads are available: the caller closes it, unless another thread does.
                Err(_) if work.threads == 0 => {
                    work.threads += 1;
                    drop(work);
                    close_all(&self.work);
                }
                Err(_) => {}
            }
        }
        Closing(closing)
    }

    /// Cancels the closing of a log that has not started.
    pub(super) fn cancel(&self, session: &SessionId) -> Option<Recorder> {
        let mut work = locked(&self.work);
        let offset = work.waiting.iter().position(|job| job.session == *session)?;
        work.waiting.remove(offset).map(|job| job.recorder)
    }

    /// Closes these logs and all queued ones, within a time limit.
    pub(super) fn finish(self, recorders: Vec<Recorder>, closing: Vec<Closing>) {
        let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
        let waiting = std::mem::take(&mut locked(&self.work).waiting);
        let all: VecDeque<Recorder> =
            recorders.into_iter().chain(waiting.into_iter().map(|job| job.recorder)).collect();
        let all = Mutex::new(all);
        let close_next = || {
            let recorder = all.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(recorder) = recorder else { return false };
            // Errors were already reported when the records were written.
            drop(recorder.close_within(deadline.saturating_duration_since(Instant::now())));
            true
        };
        std::thread::scope(|scope| {
            for _ in 1..SHUTDOWN_THREADS {
                // If no more threads are available, this one does the work.
                drop(std::thread::Builder::new().spawn_scoped(scope, || while close_next() {}));
            }
            while close_next() {}
        });
        closing.into_iter().for_each(Closing::wait);
    }
}

fn close_all(work: &Mutex<Work>) {
    loop {
        let job = {
            let mut work = locked(work);
            match work.waiting.pop_front() {
                Some(job) => job,
                None => {
                    work.threads -= 1;
                    return;
                }
            }
        };
        drop(job.recorder.close());
    }
}
