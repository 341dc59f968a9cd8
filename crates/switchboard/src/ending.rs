//! Shutdown of the program after a stop signal: within two seconds, whatever is pending.
//!
//! One clock starts with the signal, and every step has a deadline on that clock, so that consecutive waits
//! do not add up. A separate thread watches it: if all other threads are stuck, for example because output is
//! not read, it ends the agent, the recording and the process.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use switchboard_transport::{Child, Grace};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::outcome::CommandError;
use crate::recording::Recording;
use crate::stdio;

/// Makes a write above the file size limit (`ulimit -f`) fail, as on a full disk, instead of ending the
/// process: the recording then ends with a message, and the conversation continues. Child processes have the
/// default behaviour.
pub(crate) fn outlive_file_size_limit() {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
    let _inside = runtime.enter();
    // The handler stays when its receiver and its runtime are gone. Without one the signal ends the process,
    // as before.
    drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())));
}

/// Reason for the shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Interrupt,
    Terminate,
    HangUp,
    /// The timeout is over.
    Timeout,
}

impl Stop {
    /// Returns the exit code: 128 plus the signal's number, as in shells. The numbers are the same on all
    /// systems.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Stop::Timeout => 3,
            Stop::HangUp => 128 + 1,
            Stop::Interrupt => 128 + 2,
            Stop::Terminate => 128 + 15,
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Stop::HangUp => "SIGHUP",
            Stop::Interrupt => "SIGINT",
            Stop::Terminate => "SIGTERM",
            Stop::Timeout => "the time is over",
        })
    }
}

/// Phases of the shutdown with a deadline.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Phase {
    /// The agent's work.
    Work,
    /// The agent's process.
    Agent,
    /// The recording.
    Recording,
    /// Messages to the user.
    Words,
    /// Emergency actions if all else is stuck.
    LastActs,
}

impl Phase {
    const fn end(self) -> Duration {
        Duration::from_millis(match self {
            Phase::Work => 700,
            Phase::Agent => 1100,
            Phase::Recording => 1500,
            Phase::Words => 1650,
            Phase::LastActs => 1850,
        })
    }
}

/// Maximum grace period for each step of the agent's end, so that an unresponsive agent does not use up the
/// time.
const SHORT_GRACE: Grace =
    Grace { input_closed: Duration::from_millis(250), terminate: Duration::from_millis(350) };

/// Time and reason of the shutdown.
static SHUTDOWN: OnceLock<(Instant, Stop)> = OnceLock::new();

/// Emergency actions.
static EMERGENCY_ACTIONS: Mutex<Vec<Box<dyn FnOnce() + Send>>> = Mutex::new(Vec::new());

/// Starts the shutdown. Only the first call counts.
pub(crate) fn begin(stop: Stop) {
    SHUTDOWN.get_or_init(|| (Instant::now(), stop));
}

/// Returns the reason for the shutdown, if it has started.
pub(crate) fn told() -> Option<Stop> {
    SHUTDOWN.get().map(|(_, stop)| *stop)
}

/// Returns the rest of a period that started with the shutdown.
fn left(time: Duration) -> Option<Duration> {
    SHUTDOWN.get().map(|(told, _)| time.saturating_sub(told.elapsed()))
}

/// Returns a timeout: the usual one, or less during the shutdown.
pub(crate) fn at_most(usual: Duration, phase: Phase) -> Duration {
    left(phase.end()).map_or(usual, |left| usual.min(left))
}

/// Returns the agent's grace period during the shutdown.
pub(crate) fn grace() -> Grace {
    let left = at_most(SHORT_GRACE.input_closed + SHORT_GRACE.terminate, Phase::Agent);
    let input_closed = SHORT_GRACE.input_closed.min(left / 2);
    Grace { input_closed, terminate: SHORT_GRACE.terminate.min(left - input_closed) }
}

/// Registers an agent and a recording, so that a stuck program leaves neither a running process nor an
/// incomplete recording.
pub(crate) fn takes_along(child: &Child, recording: Option<&Recording>) {
    let (child, recording) = (child.clone(), recording.cloned());
    let act = move || {
        child.kill();
        if let Some(recording) = recording {
            recording.cut_off("the process was killed: the program did not stop after a signal");
        }
    };
    EMERGENCY_ACTIONS.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(act));
}

/// Listens for stop signals. From then on they do not end the process by themselves.
#[derive(Debug)]
pub(crate) struct Stops {
    stops: mpsc::Receiver<Stop>,
    shared: Arc<EndingFlags>,
}

/// State shared with the watching thread.
#[derive(Debug, Default)]
struct EndingFlags {
    has_time_limit: AtomicBool,
    /// Set if the program has noticed the shutdown.
    is_heard: AtomicBool,
}

impl Stops {
    /// Starts to listen, and sets the timeout of the program.
    pub(crate) fn listen(timeout: Option<Duration>) -> Result<Self, CommandError> {
        let failed = |error| CommandError::failed(format!("cannot handle signals: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let signals = {
            let _inside = runtime.enter();
            Signals::listen().map_err(failed)?
        };
        // A few queued signals are enough.
        let (told, stops) = mpsc::channel(4);
        let limit = timeout.and_then(|timeout| tokio::time::Instant::now().checked_add(timeout));
        let shared = Arc::new(EndingFlags::default());
        shared.has_time_limit.store(limit.is_some(), Ordering::Release);
        let known = Arc::clone(&shared);
        let watch = move || watch(&runtime, signals, limit, &known, &told);
        std::thread::Builder::new().name("ending".to_owned()).spawn(watch).map_err(failed)?;
        Ok(Stops { stops, shared })
    }

    /// Returns a listener without any signals.
    #[cfg(test)]
    pub(crate) fn never() -> Self {
        Stops { stops: mpsc::channel(1).1, shared: Arc::default() }
    }

    /// Returns the next reason to end.
    pub(crate) async fn next(&mut self) -> Stop {
        match self.stops.recv().await {
            Some(stop) => {
                self.shared.is_heard.store(true, Ordering::Release);
                stop
            }
            // The thread lives as long as the process.
            None => std::future::pending().await,
        }
    }

    /// Removes the timeout, because the work was done in time.
    pub(crate) fn lift_time_limit(&self) {
        self.shared.has_time_limit.store(false, Ordering::Release);
    }
}

/// Forwards stop signals and enforces the deadlines.
fn watch(
    runtime: &Runtime,
    mut signals: Signals,
    mut limit: Option<tokio::time::Instant>,
    shared: &EndingFlags,
    told: &mpsc::Sender<Stop>,
) {
    runtime.block_on(async {
        loop {
            let is_heard = shared.is_heard.load(Ordering::Acquire);
            // A program that has not even noticed the signal by the deadline of its work is stuck.
            let patience = if is_heard { Phase::Words } else { Phase::Work };
            if left(patience.end()).is_some_and(|left| left.is_zero()) {
                give_up();
            }
            let deadline = SHUTDOWN.get().map(|(told, _)| (*told + patience.end()).into());
            let stop = tokio::select! {
                stop = signals.next() => stop,
                () = stdio::sleep_until(limit), if limit.is_some() => {
                    limit = None;
                    if !shared.has_time_limit.load(Ordering::Acquire) {
                        continue;
                    }
                    Stop::Timeout
                }
                () = stdio::sleep_until(deadline), if deadline.is_some() => continue,
            };
            begin(stop);
            // A full queue means that earlier signals are still unread.
            let _ = told.try_send(stop);
        }
    });
}

/// Runs the emergency actions, bounded in time, and ends the process.
fn give_up() -> ! {
    let (done, all_done) = std::sync::mpsc::sync_channel(1);
    let act = move || {
        let acts = std::mem::take(&mut *EMERGENCY_ACTIONS.lock().unwrap_or_else(PoisonError::into_inner));
        acts.into_iter().for_each(|act| act());
        done.send(())
    };
    // Even these may be stuck; then the agent's watchdog ends it, and the next reader repairs the recording.
    if std::thread::Builder::new().spawn(act).is_ok() {
        let _ = all_done.recv_timeout(left(Phase::LastActs.end()).unwrap_or_default());
    }
    std::process::exit(told().map_or(1, |stop| stop.exit_code().into()));
}

/// The stop signals.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` under `nohup`: an ignored signal stays ignored.
    hang_up: Option<Signal>,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let hang_up = if ignores_hang_up() { None } else { Some(signal(SignalKind::hangup())?) };
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Signals { interrupt, terminate, hang_up })
    }

    async fn next(&mut self) -> Stop {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Interrupt,
            _ = self.terminate.recv() => Stop::Terminate,
            _ = hang_up => Stop::HangUp,
        }
    }
}

/// Returns whether this process was started with the signal ignored, if the system reports it.
pub(crate) fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}
