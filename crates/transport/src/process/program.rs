//! Programs to start, and their lookup.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::sync::watch;

use super::confinement::{self, Confined, Confinement, ConfinementNotice, ProgramStart};
use super::watchdog::Watchdog;
use super::{Child, ChildInput, ChildOutput};
use crate::{Connection, ConnectionOptions, Error};

/// A program with its arguments, environment and working directory, ready to be started.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), switchboard_transport::Error> {
/// use switchboard_transport::{Answer, ConnectionOptions, Exit, Json, Program};
///
/// let program = Program::new("sh").args(["-c", r#"read request; echo '{"jsonrpc":"2.0","id":1,"result":{}}'"#]);
/// let (child, mut connection) = program.connect(ConnectionOptions::default())?;
/// let call = connection.caller.call("initialize", Json::default());
/// let answer = connection.inbox.until(call, |_| {}).await?;
/// assert!(matches!(answer, Answer::Result(_)));
/// assert_eq!(child.shut_down().await, Some(Exit::Code(0)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Program {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, Option<OsString>)>,
    working_directory: Option<PathBuf>,
    grace: Grace,
    watchdog: bool,
    lease: Option<ProcessLease>,
    relay_for: Option<String>,
    confinement: Option<Arc<dyn Confinement>>,
    /// Notice for the sessions, without a confinement.
    notice: Option<ConfinementNotice>,
    roots: Vec<PathBuf>,
}

/// Time until which processes may run, granted by another party. Their watchdogs kill them when it expires,
/// even if this process is suspended. Each extension must arrive before that.
///
/// The granting party must not grant the same to another process before that time. Processes are gone shortly
/// after it. The watchdog counts whole seconds and may end processes up to one second early.
#[derive(Debug, Clone)]
pub struct ProcessLease {
    pub(super) until: watch::Receiver<Option<Instant>>,
}

impl ProcessLease {
    /// Creates a lease and its sender, which extends it. Processes that are started before the first grant
    /// run without a limit until then.
    pub fn channel() -> (watch::Sender<Option<Instant>>, Self) {
        let (sender, until) = watch::channel(None);
        (sender, ProcessLease { until })
    }

    /// Waits for an extension. Never returns if there will be none.
    pub(super) async fn extended(&mut self) -> Option<Instant> {
        if self.until.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        *self.until.borrow_and_update()
    }
}

/// Grace times for the steps of ending a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grace {
    /// Time to exit after the input was closed. Default: 1 second.
    pub input_closed: Duration,
    /// Time to exit after SIGTERM, before SIGKILL. Default: 2 seconds.
    pub terminate: Duration,
}

impl Grace {
    /// Returns the shorter of both times for each step.
    pub(super) fn min(self, other: Grace) -> Self {
        Grace {
            input_closed: self.input_closed.min(other.input_closed),
            terminate: self.terminate.min(other.terminate),
        }
    }
}

impl Default for Grace {
    fn default() -> Self {
        Grace { input_closed: Duration::from_secs(1), terminate: Duration::from_secs(2) }
    }
}

/// A process with its pipes, for raw bytes instead of a [`Connection`].
#[derive(Debug)]
pub struct Spawned {
    /// The process.
    pub child: Child,
    /// Standard input of the process. To end the process, drop this first: it is the gentlest way.
    pub input: ChildInput,
    /// Standard output of the process.
    pub output: ChildOutput,
}

/// The descriptor by which a launcher of our own program watches it. It is for that program alone.
const LAUNCHER_FD: &str = "SWITCHBOARD_LAUNCHER_FD";

impl Program {
    /// Creates a program from a path if it contains a slash, else from a name that is looked up in `PATH`.
    pub fn new(program: impl Into<OsString>) -> Self {
        Program {
            program: program.into(),
            arguments: Vec::new(),
            environment: vec![(LAUNCHER_FD.into(), None)],
            working_directory: None,
            grace: Grace::default(),
            watchdog: true,
            lease: None,
            relay_for: None,
            confinement: None,
            notice: None,
            roots: Vec::new(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable. Others are inherited.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), Some(value.into())));
        self
    }

    /// Removes an environment variable.
    #[must_use]
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), None));
        self
    }

    /// Sets the working directory. A relative program path is resolved against it.
    #[must_use]
    pub fn working_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.working_directory = Some(directory.into());
        self
    }

    /// Declares the program a relay to a peer at an address. When it ends, errors name the address and the relay's own last
    /// message instead of the relay's process.
    #[must_use]
    pub fn relay_for(mut self, address: impl Into<String>) -> Self {
        self.relay_for = Some(address.into());
        self
    }

    /// Sets the grace times for ending the process.
    #[must_use]
    pub fn grace(mut self, grace: Grace) -> Self {
        self.grace = grace;
        self
    }

    /// Enables or disables the watchdog, a small shell process that ends the program if this process is
    /// killed. Enabled by default.
    #[must_use]
    pub fn watchdog(mut self, watchdog: bool) -> Self {
        self.watchdog = watchdog;
        self
    }

    /// Lets the program run only while a lease is valid. It then requires a watchdog to start.
    #[must_use]
    pub fn lease(mut self, lease: ProcessLease) -> Self {
        self.watchdog = true;
        self.lease = Some(lease);
        self
    }

    /// Lets the operating system confine the program. It does not start otherwise.
    #[must_use]
    pub fn confined(mut self, confinement: Arc<dyn Confinement>) -> Self {
        self.confinement = Some(confinement);
        self
    }

    /// Sets a notice for the sessions of a program that is not confined, although it usually is.
    #[must_use]
    pub fn with_notice(mut self, notice: ConfinementNotice) -> Self {
        self.notice = Some(notice);
        self
    }

    /// Sets the folders in which a confined program may work, instead of none.
    #[must_use]
    pub fn roots(mut self, roots: Vec<PathBuf>) -> Self {
        self.roots = roots;
        self
    }

    /// Returns true if the program is confined.
    pub fn is_confined(&self) -> bool {
        self.confinement.is_some()
    }

    /// Returns true if the program is only a relay to a peer at an address.
    pub fn is_relay(&self) -> bool {
        self.relay_for.is_some()
    }

    /// Returns true if the program has a lease.
    pub fn has_lease(&self) -> bool {
        self.lease.is_some()
    }

    /// Starts the program and connects to it. Must be called inside a tokio runtime.
    pub fn connect(&self, options: ConnectionOptions) -> Result<(Child, Connection), Error> {
        let spawned = self.spawn()?;
        let child = spawned.child.clone();
        Ok((child, Connection::to_process(spawned, options)))
    }

    /// Starts the program. Must be called inside a tokio runtime.
    pub fn spawn(&self) -> Result<Spawned, Error> {
        let name = self.program.to_string_lossy().into_owned();
        if let Some(directory) = self.working_directory.as_ref().filter(|directory| !directory.is_dir()) {
            return Err(Error::WorkingDirectoryMissing { program: name, directory: directory.clone() });
        }
        let path = self.find()?;
        if let Some(confinement) = &self.confinement {
            return self.spawn_confined(&name, &path, confinement.as_ref());
        }
        let mut command = Command::new(&path);
        command
            .arg0(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = &self.working_directory {
            command.current_dir(directory);
        }
        // Start the watchdog first, so that the program never runs without it.
        let watchdog = if self.watchdog { Watchdog::start(self.grace.terminate) } else { None };
        let not_started =
            |source| Error::ProgramNotStarted { program: name.clone(), path: path.clone(), source };
        if watchdog.is_none() && self.lease.is_some() {
            let reason = "/bin/sh, which would end it with its lease, cannot be started";
            return Err(not_started(Arc::new(std::io::Error::other(reason))));
        }
        let process = command.spawn().map_err(|error| not_started(Arc::new(error)))?;
        self.supervised(&name, &path, process, watchdog, None)
    }

    /// Starts the program under its confinement, or fails.
    fn spawn_confined(
        &self,
        name: &str,
        path: &Path,
        confinement: &dyn Confinement,
    ) -> Result<Spawned, Error> {
        let not_confined = |reason: String| Error::NotConfined { program: name.to_owned(), reason };
        let confined = confinement
            .confine(ProgramStart {
                path: path.to_owned(),
                arguments: self.arguments.clone(),
                environment: self.environment.clone(),
                working_directory: self.working_directory.clone(),
                roots: self.roots.clone(),
            })
            .map_err(not_confined)?;
        let watchdog = if self.watchdog { Watchdog::start(self.grace.terminate) } else { None };
        if watchdog.is_none() && self.lease.is_some() {
            return Err(not_confined(
                "/bin/sh, which would end it with its lease, cannot be started".to_owned(),
            ));
        }
        let (process, confined) = confinement::start(confined).map_err(not_confined)?;
        self.supervised(name, path, process, watchdog, Some(confined))
    }

    /// Supervises a started process.
    fn supervised(
        &self,
        name: &str,
        path: &Path,
        mut process: tokio::process::Child,
        watchdog: Option<Watchdog>,
        confined: Option<Box<dyn Confined>>,
    ) -> Result<Spawned, Error> {
        let not_started =
            |source| Error::ProgramNotStarted { program: name.to_owned(), path: path.to_owned(), source };
        let missing = || not_started(Arc::new(std::io::Error::other("a pipe is missing")));
        let input = ChildInput::new(process.stdin.take().ok_or_else(missing)?);
        let input = input.map_err(|error| not_started(Arc::new(error)))?;
        let output = process.stdout.take().ok_or_else(missing)?;
        let standard_error = process.stderr.take().ok_or_else(missing)?;
        let child = Child::start(
            (name.to_owned(), self.relay_for.clone()),
            process,
            standard_error,
            self.grace,
            (watchdog, self.lease.clone()),
            confined,
        )
        .ok_or_else(missing)?;
        if let Some(notice) = self.notice.clone().filter(|_| self.confinement.is_none()) {
            child.note(notice);
        }
        let output = child.output(output);
        Ok(Spawned { child, input, output })
    }

    /// Replaces this process with the program, which inherits its standard streams, terminal and process id.
    /// Returns only on failure. For interactive programs such as a login.
    pub fn replace_process(&self) -> Error {
        let path = match self.find() {
            Ok(path) => path,
            Err(error) => return error,
        };
        let mut command = std::process::Command::new(&path);
        command.arg0(&self.program).args(&self.arguments);
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = &self.working_directory {
            command.current_dir(directory);
        }
        let program = self.program.to_string_lossy().into_owned();
        Error::ProgramNotStarted { program, path, source: Arc::new(command.exec()) }
    }

    /// Returns the path of the file that would be started. Fails with the paths that were tried.
    pub fn locate(&self) -> Result<PathBuf, Error> {
        self.find()
    }

    /// Looks up the program with the search path that the process will have.
    fn find(&self) -> Result<PathBuf, Error> {
        let not_found = |searched, not_executable| Error::ProgramNotFound {
            program: self.program.to_string_lossy().into_owned(),
            searched,
            not_executable,
        };
        if self.program.as_encoded_bytes().contains(&b'/') {
            let path = match &self.working_directory {
                Some(directory) => absolute(directory).join(&self.program),
                None => absolute(Path::new(&self.program)),
            };
            return match is_executable(&path) {
                true => Ok(path),
                false => {
                    let there = path.exists().then(|| path.clone());
                    Err(not_found(vec![path], there))
                }
            };
        }
        let mut not_executable = None;
        let folders: Vec<PathBuf> = self.search_path().map_or(Vec::new(), |path| {
            std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty()).collect()
        });
        for folder in &folders {
            let path = absolute(folder).join(&self.program);
            if is_executable(&path) {
                return Ok(path);
            }
            if not_executable.is_none() && path.is_file() {
                not_executable = Some(path);
            }
        }
        Err(not_found(folders, not_executable))
    }

    fn search_path(&self) -> Option<OsString> {
        let set = self.environment.iter().rev().find(|(name, _)| name == OsStr::new("PATH"));
        set.map_or_else(|| std::env::var_os("PATH"), |(_, value)| value.clone())
    }
}

/// Returns the absolute path, or the path unchanged if the working directory is unknown.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
