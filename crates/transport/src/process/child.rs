//! A child process and the task that supervises it.

use std::fmt;
use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::confinement::{Confined, ConfinementNotice, OutputListener};
use super::group::Group;
use super::standard_error::StandardError;
use super::watchdog::Watchdog;
use super::{ChildOutput, Grace, ProcessLease, StandardErrorLines};
use crate::ProcessEnd;
use crate::outbox::OutboxCloser;

/// Time for a process whose output has ended to exit before it is reported as still running.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time for a killed process to disappear.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of lines of standard error reported with a closed connection.
const REPORTED_LINES: usize = 20;

/// Exit of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// Exit with this code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or(0)),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(formatter, "ended with exit code {code}"),
            Exit::Signal(number) => {
                write!(formatter, "was ended by signal {number}")?;
                let names = [
                    (Signal::ABORT, "abort"),
                    (Signal::HUP, "hangup"),
                    (Signal::INT, "interrupt"),
                    (Signal::KILL, "kill"),
                    (Signal::SEGV, "segmentation fault"),
                    (Signal::TERM, "terminate"),
                ];
                match names.iter().find(|(signal, _)| signal.as_raw() == *number) {
                    Some((_, name)) => write!(formatter, " ({name})"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// A child process. Clones refer to the same process. When the last one and the connection to it are dropped,
/// the process is ended with its process group: its input is closed, then it gets SIGTERM, then SIGKILL, with
/// the grace times of its [`Program`](crate::Program) in between.
#[derive(Debug, Clone)]
pub struct Child {
    handle: Arc<Handle>,
}

struct Handle {
    program: String,
    relay_for: Option<String>,
    process_id: u32,
    standard_error: Arc<StandardError>,
    life: watch::Receiver<Life>,
    /// Set or dropped when the process should end. Holds the grace times.
    stop: watch::Sender<Option<Grace>>,
    grace: Grace,
    input: Mutex<Option<OutboxCloser>>,
    notices: Mutex<Option<mpsc::Receiver<ConfinementNotice>>>,
    listener: Mutex<Option<OutputListener>>,
}

/// Lifecycle of a process.
#[derive(Debug, Clone, Copy, Default)]
struct Life {
    exit: Option<Exit>,
    /// True if no process of its group is left.
    over: bool,
}

impl fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Handle")
            .field("program", &self.program)
            .field("process_id", &self.process_id)
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

impl Child {
    /// Starts to supervise a process. Returns `None` if it has already been waited for.
    pub(super) fn start(
        (program, relay_for): (String, Option<String>),
        process: tokio::process::Child,
        standard_error: ChildStderr,
        grace: Grace,
        (watchdog, mut lease): (Option<Watchdog>, Option<ProcessLease>),
        mut confined: Option<Box<dyn Confined>>,
    ) -> Option<Self> {
        let notices = Mutex::new(confined.as_mut().and_then(|confined| confined.notices()));
        let listener = Mutex::new(confined.as_mut().and_then(|confined| confined.listener()));
        let process_id = process.id()?;
        let group = Group::of(process_id)?;
        if let Some(watchdog) = &watchdog {
            watchdog.watch(group.leader());
            // Set the lease first: this process may be suspended at any point after this.
            if let Some(until) = lease.as_mut().and_then(|lease| *lease.until.borrow_and_update()) {
                watchdog.allow_until(until);
            }
        }
        let (life_sender, life) = watch::channel(Life::default());
        let (stop, stop_receiver) = watch::channel(None);
        let kept = Arc::new(StandardError::new(standard_error).ok()?);
        tokio::spawn(supervise(
            process,
            group,
            stop_receiver,
            life_sender,
            grace,
            (watchdog, lease),
            confined,
        ));
        let reader = Arc::clone(&kept);
        let ended = exited(life.clone());
        tokio::spawn(async move { reader.read(ended).await });
        let input = Mutex::new(None);
        let handle = Handle {
            program,
            relay_for,
            process_id,
            standard_error: kept,
            life,
            stop,
            grace,
            input,
            notices,
            listener,
        };
        Some(Child { handle: Arc::new(handle) })
    }

    /// Returns the program as given.
    pub fn program(&self) -> &str {
        &self.handle.program
    }

    /// Takes the notices of its confinement; `None` if it is not confined or they were taken.
    pub fn confinement_notices(&self) -> Option<mpsc::Receiver<ConfinementNotice>> {
        self.handle.notices.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Adds a notice for the sessions of a process that is not confined.
    pub(super) fn note(&self, notice: ConfinementNotice) {
        let (sender, receiver) = mpsc::channel(1);
        // It is empty.
        let _ = sender.try_send(notice);
        *self.handle.notices.lock().unwrap_or_else(PoisonError::into_inner) = Some(receiver);
    }

    /// Returns the process id, which is also the id of the process group.
    pub fn process_id(&self) -> u32 {
        self.handle.process_id
    }

    /// Returns the exit of the process, or `None` while it runs.
    pub fn exit(&self) -> Option<Exit> {
        self.handle.life.borrow().exit
    }

    /// Returns up to `count` of the latest lines of standard error, oldest first.
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        self.handle.standard_error.last_lines(count)
    }

    /// Returns the lines of standard error: first the kept ones, then new ones. A slow listener misses the
    /// oldest lines; the process never waits for it.
    pub fn standard_error(&self) -> StandardErrorLines {
        self.handle.standard_error.listen()
    }

    /// Passes each line of standard error to a function at once, starting with the kept ones. Lines written
    /// before some standard output are passed before that output is read, as far as two pipes allow. The
    /// function runs during reading, so it must be quick.
    pub fn on_standard_error(&self, listener: impl FnMut(&str) + Send + 'static) {
        self.handle.standard_error.tell(Box::new(listener));
    }

    /// Waits until standard error has ended.
    pub async fn standard_error_ended(&self) {
        self.handle.standard_error.ended().await;
    }

    /// Returns the output of the process.
    pub(super) fn output(&self, pipe: ChildStdout) -> ChildOutput {
        let listener = self.handle.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        ChildOutput::new(
            pipe,
            exited(self.handle.life.clone()),
            Arc::clone(&self.handle.standard_error),
            listener,
        )
    }

    /// Waits until the process has exited.
    pub async fn wait(&self) -> Option<Exit> {
        let mut life = self.handle.life.clone();
        life.wait_for(|life| life.exit.is_some()).await.ok()?.exit
    }

    /// Ends the process and its group and waits until they are gone. Returns `None` only if even killing took
    /// too long.
    pub async fn shut_down(&self) -> Option<Exit> {
        self.shut_down_within(self.handle.grace).await
    }

    /// Like [`Child::shut_down`], with other grace times. The shorter time wins, also if the process is
    /// already being ended.
    pub async fn shut_down_within(&self, grace: Grace) -> Option<Exit> {
        if let Some(input) = &*self.handle.input.lock().unwrap_or_else(PoisonError::into_inner) {
            input.close();
        }
        self.handle.stop.send_modify(|stop| *stop = Some(stop.map_or(grace, |known| known.min(grace))));
        let mut life = self.handle.life.clone();
        // An error means that the runtime is shutting down, which kills the group.
        let _ = life.wait_for(|life| life.over).await;
        life.borrow().exit
    }

    /// Kills the process and its group without waiting.
    pub fn kill(&self) {
        if !self.handle.life.borrow().over {
            // Dropping a group that has not been ended kills it.
            drop(Group::of(self.handle.process_id));
        }
    }

    /// Registers the outbox that is closed as the first step of ending the process.
    pub(crate) fn attach_input(&self, input: OutboxCloser) {
        *self.handle.input.lock().unwrap_or_else(PoisonError::into_inner) = Some(input);
    }

    /// Returns the state of the process after its output has ended. Gives it a moment to exit.
    pub async fn describe_end(&self) -> ProcessEnd {
        let told = async {
            self.wait().await;
            self.handle.standard_error.ended().await;
        };
        // After the timeout, the current state is returned.
        let _ = timeout(EXIT_TIMEOUT, told).await;
        let last_lines = self.last_lines(REPORTED_LINES);
        ProcessEnd {
            program: self.handle.program.clone(),
            exit: self.exit(),
            last_lines,
            relay_for: self.handle.relay_for.clone(),
        }
    }
}

async fn exited(mut life: watch::Receiver<Life>) {
    // An error means that the process is no longer supervised, so it has been killed.
    let _ = life.wait_for(|life| life.exit.is_some()).await;
}

/// Waits until the process exits or should end, then ends the group. If the runtime drops this task, the
/// group is killed.
async fn supervise(
    mut process: tokio::process::Child,
    group: Group,
    mut stop: watch::Receiver<Option<Grace>>,
    life: watch::Sender<Life>,
    grace: Grace,
    (watchdog, mut lease): (Option<Watchdog>, Option<ProcessLease>),
    confined: Option<Box<dyn Confined>>,
) {
    let extended = async {
        loop {
            match (&mut lease, &watchdog) {
                (Some(lease), Some(watchdog)) => {
                    if let Some(until) = lease.extended().await {
                        watchdog.allow_until(until);
                    }
                }
                _ => std::future::pending::<()>().await,
            }
        }
    };
    let by_itself = tokio::select! {
        status = process.wait() => Some(status.ok()),
        _ = stop.wait_for(Option::is_some) => None,
        () = extended => None,
    };
    let mut patience = GraceTimer { stop, grace };
    let exited = match by_itself {
        Some(status) => status,
        None => end(&mut process, &group, &mut patience).await,
    };
    life.send_modify(|life| life.exit = exited.map(Exit::from));
    group.end(&mut patience).await;
    if let Some(watchdog) = watchdog {
        watchdog.release().await;
    }
    // Its private files are removed when nothing uses them any more.
    if let Some(mut confined) = confined {
        let ending = tokio::task::spawn_blocking(move || confined.ended());
        // An error means that the runtime is shutting down.
        let _ = ending.await;
    }
    life.send_modify(|life| life.over = true);
}

/// Ends a process whose input has been closed.
async fn end(
    process: &mut tokio::process::Child,
    group: &Group,
    patience: &mut GraceTimer,
) -> Option<ExitStatus> {
    if let Some(status) = patience.within(|grace| grace.input_closed, process.wait()).await {
        return status.ok();
    }
    group.terminate();
    if let Some(status) = patience.within(|grace| grace.terminate, process.wait()).await {
        return status.ok();
    }
    group.kill();
    timeout(KILL_TIMEOUT, process.wait()).await.ok()?.ok()
}

/// Grace times, which may be shortened while waiting.
#[derive(Debug)]
pub(super) struct GraceTimer {
    stop: watch::Receiver<Option<Grace>>,
    grace: Grace,
}

impl GraceTimer {
    /// Waits for a future within the time that `time` selects from the grace times. Returns `None` after
    /// that.
    pub(super) async fn within<T>(
        &mut self,
        time: fn(Grace) -> Duration,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        let begun = Instant::now();
        tokio::pin!(future);
        loop {
            let grace = self.stop.borrow_and_update().unwrap_or(self.grace);
            tokio::select! {
                output = &mut future => return Some(output),
                () = sleep_until(begun + time(grace)) => return None,
                changed = self.stop.changed() => if changed.is_err() {
                    // No handle is left that could change the time.
                    return timeout_at(begun + time(grace), future).await.ok();
                },
            }
        }
    }
}
