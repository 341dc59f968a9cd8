//! The home and the working folder of a test.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::editors::{self, Editors};
use crate::wait_until;

/// An empty home and a working folder. Dropping it ends every process that has this home.
#[derive(Debug)]
pub struct Place {
    folder: tempfile::TempDir,
    editors: Editors,
}

impl Place {
    /// Creates a place for the clients.
    #[must_use]
    pub fn new(editors: &Editors) -> Self {
        let folder = tempfile::Builder::new().prefix("switchboard-editors-").tempdir();
        let folder = folder.unwrap_or_else(|error| panic!("cannot make a folder: {error}"));
        for name in ["home", "work", "bin"] {
            std::fs::create_dir(folder.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        Place { folder, editors: editors.clone() }
    }

    /// Returns the clients.
    #[must_use]
    pub fn editors(&self) -> &Editors {
        &self.editors
    }

    /// Returns the home folder.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Returns the working folder.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Writes a file below the folder of the place, and returns its path.
    pub fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(path);
        editors::write(&path, text);
        path
    }

    /// Puts a program on the `PATH` that runs the demo agent, as the program of a real agent would be there.
    pub fn add_agent(&self, name: &str) {
        use std::os::unix::fs::PermissionsExt;
        let program = self.editors.program().display();
        let script = self.write(&format!("bin/{name}"), &format!("#!/bin/sh\nexec '{program}' demo-agent\n"));
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755))
            .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    }

    /// Returns a command in the working folder with this home. The `PATH` begins with the agents, and has the program under test.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", self.path(&[]))
            .env("HOME", self.home())
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .current_dir(self.work())
            .stdin(Stdio::null());
        command
    }

    /// Returns the `PATH`, with folders before everything else.
    #[must_use]
    pub fn path(&self, first: &[&Path]) -> OsString {
        let own = self.folder.path().join("bin");
        let program = self.editors.program().parent().map(Path::to_owned);
        let rest = std::env::var_os("PATH").unwrap_or_default();
        let all = first.iter().map(|folder| folder.to_path_buf()).chain([own]).chain(program);
        std::env::join_paths(all.chain(std::env::split_paths(&rest))).unwrap_or(rest)
    }

    /// Returns a command of the program under test.
    #[must_use]
    pub fn switchboard(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(self.editors.program());
        command.args(arguments);
        command
    }

    /// Runs the program under test, and returns its standard output. It must succeed.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> String {
        editors::succeed(&mut self.switchboard(arguments))
    }

    /// Returns the sessions in the store, newest first.
    #[track_caller]
    #[must_use]
    pub fn sessions(&self) -> Vec<Value> {
        let listed = self.run(&["sessions", "list", "--json"]);
        listed.lines().map(|line| serde_json::from_str(line).unwrap_or_default()).collect()
    }

    /// Returns the text of a recorded session.
    #[track_caller]
    #[must_use]
    pub fn recorded(&self, session: &Value) -> String {
        self.run(&["sessions", "show", session["id"].as_str().unwrap_or_default()])
    }

    /// Returns the file that the demo agent edits, as it is now.
    #[must_use]
    pub fn edited(&self) -> String {
        std::fs::read_to_string(self.work().join("switchboard-demo/config.json")).unwrap_or_default()
    }

    /// Returns the processes with this home whose command line contains some words.
    #[must_use]
    pub fn processes(&self, words: &str) -> Vec<(u32, String)> {
        let home = format!("HOME={}", self.home().display());
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let has_home = |id: &u32| {
            let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes())
        };
        let line = |id: u32| {
            let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            (id, String::from_utf8_lossy(&line).replace('\0', " ").trim().to_owned())
        };
        ids.filter(has_home).map(line).filter(|(_, line)| line.contains(words)).collect()
    }

    /// Waits until no process with this home has these words in its command line.
    #[track_caller]
    pub fn wait_gone(&self, words: &str) {
        let state = || format!("{:#?}", self.processes(""));
        wait_until(&format!("the end of {words}"), state, || self.processes(words).is_empty().then_some(()));
    }

    /// Waits until the text of a session in the store contains some words.
    #[track_caller]
    pub fn wait_recorded(&self, words: &str) {
        let texts = || self.sessions().iter().map(|session| self.recorded(session)).collect::<Vec<_>>();
        let state = || texts().join("\n\n");
        let is_there = || texts().iter().any(|text| text.contains(words)).then_some(());
        wait_until(&format!("{words:?} in a recording"), state, is_there);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Clients start servers of their own, also in sessions of their own. They may start others while they are ended.
        for _ in 0..10 {
            let left = self.processes("");
            if left.is_empty() {
                break;
            }
            for (id, _) in left {
                if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
                    let _ = kill_process(id, Signal::KILL);
                }
            }
            std::thread::park_timeout(std::time::Duration::from_millis(20));
        }
    }
}
