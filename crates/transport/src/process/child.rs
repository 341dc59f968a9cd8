//! A child process and the task that looks after it.

use std::fmt;
use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::group::Group;
use super::standard_error::StandardError;
use super::watchdog::Watchdog;
use super::{ChildOutput, Grace, ProcessLease, StandardErrorLines};
use crate::ProcessEnd;
use crate::outbox::OutboxCloser;

/// How long a process whose output has ended gets to exit before it is reported as still running.
const EXIT_PATIENCE: Duration = Duration::from_millis(500);
/// How long a process may take to be gone that was killed.
pub(super) const KILLED: Duration = Duration::from_secs(1);
/// How many lines of standard error are told with the end of a connection.
const TOLD_LINES: usize = 20;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
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

/// A process that we started. Clones are the same process; when the last one, and the connection to it, are gone,
/// it is ended with its whole process group: its input is closed, then it is told to terminate, then it is killed,
/// with the grace times of its [`Program`](crate::Program) between.
#[derive(Debug, Clone)]
pub struct Child {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    program: String,
    relay_for: Option<String>,
    process_id: u32,
    standard_error: Arc<StandardError>,
    life: watch::Receiver<Life>,
    /// Set, or dropped, when the process is to end: how long it is given for that.
    stop: watch::Sender<Option<Grace>>,
    grace: Grace,
    input: Mutex<Option<OutboxCloser>>,
}

/// How far a process is on its way.
#[derive(Debug, Clone, Copy, Default)]
struct Life {
    exit: Option<Exit>,
    /// Nobody of its group is left.
    over: bool,
}

impl Child {
    /// Looks after a process from now on. `None` when it has been waited for already.
    pub(super) fn start(
        (program, relay_for): (String, Option<String>),
        process: tokio::process::Child,
        standard_error: ChildStderr,
        grace: Grace,
        (watchdog, mut lease): (Option<Watchdog>, Option<ProcessLease>),
    ) -> Option<Self> {
        let process_id = process.id()?;
        let group = Group::of(process_id)?;
        if let Some(watchdog) = &watchdog {
            watchdog.watch(group.leader());
            // Before anybody else has a say: this process may stand still from here on.
            if let Some(until) = lease.as_mut().and_then(|lease| *lease.until.borrow_and_update()) {
                watchdog.allow_until(until);
            }
        }
        let (life_sender, life) = watch::channel(Life::default());
        let (stop, stop_receiver) = watch::channel(None);
        let kept = Arc::new(StandardError::new(standard_error).ok()?);
        tokio::spawn(look_after(process, group, stop_receiver, life_sender, grace, (watchdog, lease)));
        let reader = Arc::clone(&kept);
        let ended = exited(life.clone());
        tokio::spawn(async move { reader.read(ended).await });
        let input = Mutex::new(None);
        let handle =
            Handle { program, relay_for, process_id, standard_error: kept, life, stop, grace, input };
        Some(Child { handle: Arc::new(handle) })
    }

    /// The program as it was named.
    pub fn program(&self) -> &str {
        &self.handle.program
    }

    /// The number of the process, and of its process group.
    pub fn process_id(&self) -> u32 {
        self.handle.process_id
    }

    /// How the process ended; `None` while it runs.
    pub fn exit(&self) -> Option<Exit> {
        self.handle.life.borrow().exit
    }

    /// The newest lines of standard error, oldest first, at most as many as asked for.
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        self.handle.standard_error.last_lines(count)
    }

    /// The lines of standard error: first those that were kept already, then those that come. A listener that falls behind
    /// misses the oldest; the process never waits for it.
    pub fn standard_error(&self) -> StandardErrorLines {
        self.handle.standard_error.listen()
    }

    /// Shows each line of standard error to a function at once, first those that were kept already. What was written
    /// before something that is read from the standard output is shown before that is read, as far as the two pipes
    /// tell. The function is called in the middle of reading, so it must be quick.
    pub fn on_standard_error(&self, listener: impl FnMut(&str) + Send + 'static) {
        self.handle.standard_error.tell(Box::new(listener));
    }

    /// Waits until nothing more comes on standard error.
    pub async fn standard_error_ended(&self) {
        self.handle.standard_error.ended().await;
    }

    /// The output of the process.
    pub(super) fn output(&self, pipe: ChildStdout) -> ChildOutput {
        ChildOutput::new(pipe, exited(self.handle.life.clone()), Arc::clone(&self.handle.standard_error))
    }

    /// Waits until the process has ended by itself or by somebody.
    pub async fn wait(&self) -> Option<Exit> {
        let mut life = self.handle.life.clone();
        life.wait_for(|life| life.exit.is_some()).await.ok()?.exit
    }

    /// Ends the process and its group and waits until they are gone; the exit is `None` only when even killing
    /// did not end it in time.
    pub async fn shut_down(&self) -> Option<Exit> {
        self.shut_down_within(self.handle.grace).await
    }

    /// As [`Child::shut_down`], with other times than the program's. Whoever gives less time is heard, also when the
    /// process is being ended already.
    pub async fn shut_down_within(&self, grace: Grace) -> Option<Exit> {
        if let Some(input) = &*self.handle.input.lock().unwrap_or_else(PoisonError::into_inner) {
            input.close();
        }
        self.handle.stop.send_modify(|stop| *stop = Some(stop.map_or(grace, |known| known.min(grace))));
        let mut life = self.handle.life.clone();
        // An error says that the runtime is shutting down, which kills the group.
        let _ = life.wait_for(|life| life.over).await;
        life.borrow().exit
    }

    /// Kills the process and its group at once, and waits for nothing: for whoever cannot wait any more.
    pub fn kill(&self) {
        if !self.handle.life.borrow().over {
            // Dropped before it has been ended, a group is killed.
            drop(Group::of(self.handle.process_id));
        }
    }

    /// The outbox to be closed as the first step of ending the process.
    pub(crate) fn attach_input(&self, input: OutboxCloser) {
        *self.handle.input.lock().unwrap_or_else(PoisonError::into_inner) = Some(input);
    }

    /// What is known of the process when its output has ended, after giving it a moment to exit.
    pub async fn describe_end(&self) -> ProcessEnd {
        let told = async {
            self.wait().await;
            self.handle.standard_error.ended().await;
        };
        // When the time has passed, what is known then is told.
        let _ = timeout(EXIT_PATIENCE, told).await;
        let last_lines = self.last_lines(TOLD_LINES);
        ProcessEnd {
            program: self.handle.program.clone(),
            exit: self.exit(),
            last_lines,
            relay_for: self.handle.relay_for.clone(),
        }
    }
}

async fn exited(mut life: watch::Receiver<Life>) {
    // An error says that nobody looks after the process any more: then it has been killed.
    let _ = life.wait_for(|life| life.exit.is_some()).await;
}

/// Waits for the end of the process or of the wish for it, then ends the group. When the runtime drops this task,
/// the group is killed with it.
async fn look_after(
    mut process: tokio::process::Child,
    group: Group,
    mut stop: watch::Receiver<Option<Grace>>,
    life: watch::Sender<Life>,
    grace: Grace,
    (watchdog, mut lease): (Option<Watchdog>, Option<ProcessLease>),
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
    let mut patience = Patience { stop, grace };
    let exited = match by_itself {
        Some(status) => status,
        None => end(&mut process, &group, &mut patience).await,
    };
    life.send_modify(|life| life.exit = exited.map(Exit::from));
    group.end(&mut patience).await;
    if let Some(watchdog) = watchdog {
        watchdog.release().await;
    }
    life.send_modify(|life| life.over = true);
}

/// Ends a process whose input has been closed.
async fn end(
    process: &mut tokio::process::Child,
    group: &Group,
    patience: &mut Patience,
) -> Option<ExitStatus> {
    if let Some(status) = patience.within(|grace| grace.input_closed, process.wait()).await {
        return status.ok();
    }
    group.terminate();
    if let Some(status) = patience.within(|grace| grace.terminate, process.wait()).await {
        return status.ok();
    }
    group.kill();
    timeout(KILLED, process.wait()).await.ok()?.ok()
}

/// How long a process is given, which may become less while it is waited for.
#[derive(Debug)]
pub(super) struct Patience {
    stop: watch::Receiver<Option<Grace>>,
    grace: Grace,
}

impl Patience {
    /// Waits for something as long as `time` says of the grace; `None` when that is over.
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
                    // Nobody is left who could change it.
                    return timeout_at(begun + time(grace), future).await.ok();
                },
            }
        }
    }
}
