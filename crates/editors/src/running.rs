//! Clients that run in the background.

use std::path::PathBuf;
use std::process::{Child, Command};

use crate::wait_until;

/// A process whose output goes to a file. It is killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts a command. The file of its output is made anew.
    #[must_use]
    pub fn start(mut command: Command, log: PathBuf) -> Self {
        let file = std::fs::File::create(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let copy = file.try_clone().unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let child = command.stdout(file).stderr(copy).spawn();
        Running { child: child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}")), log }
    }

    /// Returns its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns everything that it has printed.
    #[must_use]
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Waits until it has printed some words, and returns the line that has them.
    #[track_caller]
    pub fn wait_line(&mut self, words: &str) -> String {
        let log = self.log.clone();
        let printed = move || String::from_utf8_lossy(&std::fs::read(&log).unwrap_or_default()).into_owned();
        let line = || printed().lines().find(|line| line.contains(words)).map(str::to_owned);
        wait_until(&format!("{words:?} in the output"), &printed, || {
            let found = line();
            if found.is_none()
                && let Ok(Some(status)) = self.child.try_wait()
            {
                panic!("it ended ({status}) before it printed {words:?}:\n{}", printed());
            }
            found
        })
    }

    /// Kills it, so that it can do nothing any more.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.unwrap_or_else(|error| panic!("no port is free: {error}")).port()
}
