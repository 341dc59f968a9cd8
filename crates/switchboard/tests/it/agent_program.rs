//! Runs the program with agents, in a temporary directory and with a temporary home.

use std::io::{ErrorKind, PipeReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::program::Run;

/// Returns the program with default signal handlers, also if the tests run with some signals ignored, as with
/// `nohup`.
pub(crate) fn listening_to_signals() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_switchboard")]);
    command
}

/// Sends a signal to a process.
pub(crate) fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success());
}

/// Returns a full pipe. Writing to it blocks as long as the reader is kept.
pub(crate) fn full_pipe() -> (PipeReader, Stdio) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    for size in [4096, 1] {
        let full = std::iter::repeat_with(|| writer.write(&vec![b' '; size])).find_map(Result::err).unwrap();
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
    }
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    (reader, writer.into())
}

/// A working directory, and a home without configuration.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::below(std::env::temp_dir())
    }

    /// Creates one below another directory.
    pub(crate) fn below(folder: impl AsRef<Path>) -> Self {
        let folder = tempfile::tempdir_in(folder).unwrap();
        for name in ["home", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Place { folder }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work").canonicalize().unwrap()
    }

    /// Writes a file below the folder.
    pub(crate) fn write(&self, path: impl AsRef<Path>, text: &str) -> PathBuf {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Creates a FIFO in the working directory. Reading it blocks until it is written.
    pub(crate) fn fifo(&self, name: &str) -> PathBuf {
        let path = self.work().join(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = listening_to_signals();
        command
            .args(arguments)
            .current_dir(self.work())
            .env("HOME", self.home())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_DATA_HOME")
            .env_remove("SWITCHBOARD_STORE")
            .env_remove("SWITCHBOARD_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program. A run that does not exit by itself is terminated and fails the test.
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        self.run_command(self.command(arguments))
    }

    pub(crate) fn run_command(&self, mut command: Command) -> Run {
        // On SIGTERM, the program stops its agents.
        let child = command.spawn().unwrap();
        let id = child.id();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let guard = std::thread::spawn(move || {
            let late = wait.recv_timeout(std::time::Duration::from_secs(60));
            if late == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").arg(id.to_string()).status();
            }
            late
        });
        let output = child.wait_with_output().unwrap();
        drop(done);
        let late = guard.join().unwrap();
        assert_ne!(late, Err(std::sync::mpsc::RecvTimeoutError::Timeout), "{output:?}");
        Run {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Returns all lines of the only session in the store.
    pub(crate) fn recorded(&self) -> Vec<Value> {
        let list = self.run(&["sessions", "list", "--json"]).json_lines();
        assert_eq!(list.len(), 1, "{list:?}");
        self.run(&["sessions", "export", "--everything", list[0]["id"].as_str().unwrap()]).json_lines()
    }

    /// Runs a prompt with the demo agent.
    pub(crate) fn demo(&self, prompt: &str, more: &[&str]) -> Run {
        self.run(&[&["run", "demo", prompt], more].concat())
    }
}
