//! How the program ends when it is told to: within two seconds, whatever there is still to do.
//!
//! One clock runs from the moment at which it is told, and everything that has to be done then has its end on that
//! clock, so that waits which follow each other do not add up. A thread of its own looks at it: should all others be
//! stuck, for instance because nobody reads what is written, that thread ends the agent, the recording and the process.

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

/// Takes care that a write beyond the limit of a file's size (`ulimit -f`) fails, as on a full disk, instead of ending the
/// process: the recording then ends with a message, and the conversation goes on. Programs that are started have the usual
/// behaviour.
pub(crate) fn outlive_file_size_limit() {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
    let _inside = runtime.enter();
    // The handler stays when its receiver and its runtime are gone. Without one the signal ends the process, as before.
    drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())));
}

/// Why the program is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Interrupt,
    Terminate,
    HangUp,
    /// The time that it had is over.
    Timeout,
}

impl Stop {
    /// The exit code: 128 and the signal's number, as shells have it. The numbers are the same on all systems.
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

/// What has to be over when, after the program was told to end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Phase {
    /// What the agent was doing.
    Work,
    /// The agent.
    Agent,
    /// The recording of it.
    Recording,
    /// What is said about it.
    Words,
    /// What must be done when all that is stuck.
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

/// The most that an agent gets for each step of its end, so that one which does not listen does not take all the time.
const HURRY: Grace =
    Grace { input_closed: Duration::from_millis(250), terminate: Duration::from_millis(350) };

/// Since when the program is to end, and why.
static TOLD: OnceLock<(Instant, Stop)> = OnceLock::new();

/// What is done when everything else is stuck.
static LAST_ACTS: Mutex<Vec<Box<dyn FnOnce() + Send>>> = Mutex::new(Vec::new());

/// The program is to end from now on. The first time counts.
pub(crate) fn begin(stop: Stop) {
    TOLD.get_or_init(|| (Instant::now(), stop));
}

/// Why the program is to end, if it is.
pub(crate) fn told() -> Option<Stop> {
    TOLD.get().map(|(_, stop)| *stop)
}

/// How much of a time is left that began when the program was told to end.
fn left(time: Duration) -> Option<Duration> {
    TOLD.get().map(|(told, _)| time.saturating_sub(told.elapsed()))
}

/// How long something may take: its usual time, or less when the program is to end.
pub(crate) fn at_most(usual: Duration, phase: Phase) -> Duration {
    left(phase.end()).map_or(usual, |left| usual.min(left))
}

/// How long the agent is given to end in a hurry.
pub(crate) fn grace() -> Grace {
    let left = at_most(HURRY.input_closed + HURRY.terminate, Phase::Agent);
    let input_closed = HURRY.input_closed.min(left / 2);
    Grace { input_closed, terminate: HURRY.terminate.min(left - input_closed) }
}

/// What a stuck program does not leave behind: an agent that runs, and a recording without an end.
pub(crate) fn takes_along(child: &Child, recording: Option<&Recording>) {
    let (child, recording) = (child.clone(), recording.cloned());
    let act = move || {
        child.kill();
        if let Some(recording) = recording {
            recording.cut_off("the process was killed: the program was told to end, and was stuck");
        }
    };
    LAST_ACTS.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(act));
}

/// Listens for what ends the program. From then on signals do not end the process by themselves.
#[derive(Debug)]
pub(crate) struct Stops {
    stops: mpsc::Receiver<Stop>,
    shared: Arc<EndingFlags>,
}

/// What the thread that looks at the clock has to know.
#[derive(Debug, Default)]
struct EndingFlags {
    has_time_limit: AtomicBool,
    /// Somebody has taken notice that the program is to end.
    is_heard: AtomicBool,
}

impl Stops {
    /// Listens, and sets the time after which the program is to end, too.
    pub(crate) fn listen(timeout: Option<Duration>) -> Result<Self, CommandError> {
        let failed = |error| CommandError::failed(format!("cannot listen for signals: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let signals = {
            let _inside = runtime.enter();
            Signals::listen().map_err(failed)?
        };
        // Nobody needs to know how often more than one was sent.
        let (told, stops) = mpsc::channel(4);
        let limit = timeout.and_then(|timeout| tokio::time::Instant::now().checked_add(timeout));
        let shared = Arc::new(EndingFlags::default());
        shared.has_time_limit.store(limit.is_some(), Ordering::Release);
        let known = Arc::clone(&shared);
        let watch = move || watch(&runtime, signals, limit, &known, &told);
        std::thread::Builder::new().name("ending".to_owned()).spawn(watch).map_err(failed)?;
        Ok(Stops { stops, shared })
    }

    /// Nothing ends it before its time.
    #[cfg(test)]
    pub(crate) fn never() -> Self {
        Stops { stops: mpsc::channel(1).1, shared: Arc::default() }
    }

    /// The next reason to end.
    pub(crate) async fn next(&mut self) -> Stop {
        match self.stops.recv().await {
            Some(stop) => {
                self.shared.is_heard.store(true, Ordering::Release);
                stop
            }
            // The thread is there as long as the process.
            None => std::future::pending().await,
        }
    }

    /// The work was done in time.
    pub(crate) fn lift_time_limit(&self) {
        self.shared.has_time_limit.store(false, Ordering::Release);
    }
}

/// Passes on what ends the program, and sees to it that it does.
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
            // Who has not even taken notice by the time at which the work was to be over is stuck.
            let patience = if is_heard { Phase::Words } else { Phase::Work };
            if left(patience.end()).is_some_and(|left| left.is_zero()) {
                give_up();
            }
            let deadline = TOLD.get().map(|(told, _)| (*told + patience.end()).into());
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
            // Who has not yet taken those before knows enough.
            let _ = told.try_send(stop);
        }
    });
}

/// Everything else is stuck: does what must be done, as far as that can be, and ends the process.
fn give_up() -> ! {
    let (done, all_done) = std::sync::mpsc::sync_channel(1);
    let act = move || {
        let acts = std::mem::take(&mut *LAST_ACTS.lock().unwrap_or_else(PoisonError::into_inner));
        acts.into_iter().for_each(|act| act());
        done.send(())
    };
    // Even these may be stuck; then the agent has its watchdog, and the recording is repaired by who opens it next.
    if std::thread::Builder::new().spawn(act).is_ok() {
        let _ = all_done.recv_timeout(left(Phase::LastActs.end()).unwrap_or_default());
    }
    std::process::exit(told().map_or(1, |stop| stop.exit_code().into()));
}

/// The signals that ask the program to end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None under `nohup`: who asked that it be ignored means it.
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

/// Whether this process was started with the signal ignored, where the system tells.
pub(crate) fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}
