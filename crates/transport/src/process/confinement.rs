//! Confinement of programs by the operating system. This crate only starts them; a [`Confinement`] says how.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};

use tokio::process::Command;

/// Maximum length of the last words of a process that could not be confined.
const LAST_WORDS: u64 = 16 * 1024;

/// A program as it would be started without confinement.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProgramStart {
    /// Path of the file.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables that were set, or removed with `None`.
    pub environment: Vec<(OsString, Option<OsString>)>,
    /// The working directory.
    pub working_directory: Option<PathBuf>,
    /// Folders in which it may work.
    pub roots: Vec<PathBuf>,
}

impl ProgramStart {
    /// Creates the start of a program without arguments and folders.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        ProgramStart {
            path: path.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            working_directory: None,
            roots: Vec::new(),
        }
    }

    /// Sets the arguments.
    #[must_use]
    pub fn arguments(mut self, arguments: Vec<OsString>) -> Self {
        self.arguments = arguments;
        self
    }

    /// Sets the one folder in which it works.
    #[must_use]
    pub fn folder(mut self, folder: PathBuf) -> Self {
        self.working_directory = Some(folder.clone());
        self.roots = vec![folder];
        self
    }
}

/// Starts programs so that the operating system confines them.
pub trait Confinement: fmt::Debug + Send + Sync {
    /// Prepares the confinement of a program. Fails with the reason why it is impossible; nothing is started then.
    fn confine(&self, start: ProgramStart) -> Result<Box<dyn Confined>, String>;
}

/// A prepared confinement, which lasts as long as its process.
pub trait Confined: Send + Sync {
    /// Returns the command to start, and a file that the process inherits. Called on a thread that starts no other process
    /// meanwhile.
    fn command(&mut self) -> Result<(std::process::Command, OwnedFd), String>;

    /// Waits until the confinement is proven, before the program itself runs. `ended` returns the last words of the process
    /// if it has ended. An error ends the process.
    fn wait_until_ready(&mut self, ended: &mut dyn FnMut() -> Option<String>) -> Result<(), String>;

    /// Returns the notices of this confinement; `None` if there are none or they were taken.
    fn notices(&mut self) -> Option<tokio::sync::mpsc::Receiver<ConfinementNotice>>;

    /// Returns a function that gets the output of the process as it is read; `None` if there is none or it was taken. It must
    /// be quick.
    fn listener(&mut self) -> Option<OutputListener> {
        None
    }

    /// Does what is left to do when the process and everything that it has started have ended. May block.
    fn ended(&mut self) {}
}

/// Gets the output of a confined process, in pieces of any length.
pub type OutputListener = Box<dyn FnMut(&[u8]) + Send>;

/// A notice about the confinement of a process, for its session.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfinementNotice {
    /// The notice in one line.
    pub title: String,
    /// Details and advice.
    pub description: Option<String>,
    /// True if something was refused.
    pub is_warning: bool,
    /// The same for programs.
    pub data: serde_json::Value,
}

/// Work for the thread that starts confined processes.
type Job = Box<dyn FnOnce() + Send>;

/// The thread that starts confined processes, as long as this process lives. The kernel ends a confined process when the
/// thread that started it ends. It is one thread, so that no other process inherits the file of a [`Confined`].
static STARTER: OnceLock<Mutex<mpsc::SyncSender<Job>>> = OnceLock::new();

fn starter() -> Result<mpsc::SyncSender<Job>, String> {
    if STARTER.get().is_none() {
        let (sender, jobs) = mpsc::sync_channel::<Job>(1);
        let run = move || jobs.into_iter().for_each(|job| job());
        std::thread::Builder::new()
            .name("starter".to_owned())
            .spawn(run)
            .map_err(|error| error.to_string())?;
        // If another thread was faster, this one ends with its sender.
        let _ = STARTER.set(Mutex::new(sender));
    }
    let starter = STARTER.get().ok_or("the starting thread is missing")?;
    Ok(starter.lock().unwrap_or_else(PoisonError::into_inner).clone())
}

/// Starts a confined process and waits for its proof.
pub(super) fn start(
    mut confined: Box<dyn Confined>,
) -> Result<(tokio::process::Child, Box<dyn Confined>), String> {
    let runtime = tokio::runtime::Handle::current();
    let (sender, started) = mpsc::sync_channel(1);
    let job = Box::new(move || {
        let _inside = runtime.enter();
        let result = spawn(confined.as_mut()).map(|process| (process, confined));
        // The receiver waits for it.
        let _ = sender.send(result);
    });
    starter()?.send(job).map_err(|_| "the starting thread has ended".to_owned())?;
    started.recv().map_err(|_| "the starting thread has failed".to_owned())?
}

fn spawn(confined: &mut dyn Confined) -> Result<tokio::process::Child, String> {
    let (command, inherited) = confined.command()?;
    let program = command.get_program().to_string_lossy().into_owned();
    let mut command = Command::from(command);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut process = command.spawn().map_err(|error| format!("cannot start {program}: {error}"))?;
    drop(inherited);
    let mut ended = || match process.try_wait() {
        Ok(None) => None,
        Ok(Some(status)) => {
            let words = process.stderr.take().and_then(|pipe| pipe.into_owned_fd().ok()).map(last_words);
            let words = words.unwrap_or_default();
            Some(if words.trim().is_empty() { format!("{program} ended with {status}") } else { words })
        }
        Err(error) => Some(format!("{program}: {error}")),
    };
    let ready = confined.wait_until_ready(&mut ended);
    if ready.is_err() {
        // Dropping it kills it too, but later.
        let _ = process.start_kill();
    }
    ready.map(|()| process)
}

/// Reads the standard error of an ended process as far as it is there.
fn last_words(pipe: OwnedFd) -> String {
    let mut bytes = Vec::new();
    // The pipe does not block: a process that is left behind cannot hold this up.
    let _ = File::from(pipe).take(LAST_WORDS).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
