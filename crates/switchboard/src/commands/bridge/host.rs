//! Files and commands of this machine, for version 1 agents.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use switchboard_bridge::{FileAtHand, Host, HostError, TerminalStart};
use switchboard_hub::files::{FilesOnDisk, read_file, real_path};
use switchboard_transport::Program;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::launcher::LAUNCHER_FD;

/// An event of a command.
#[derive(Debug)]
pub(super) enum TerminalEvent {
    Output { terminal_id: String, bytes: Vec<u8> },
    Exited { terminal_id: String, code: Option<i64>, signal: Option<String> },
}

/// Serves files and runs commands.
#[derive(Debug)]
pub(super) struct LocalHost {
    files: bool,
    events: mpsc::Sender<TerminalEvent>,
    running: HashMap<String, Pid>,
}

impl LocalHost {
    pub(super) fn new(files: bool, events: mpsc::Sender<TerminalEvent>) -> Self {
        LocalHost { files, events, running: HashMap::new() }
    }
}

impl Drop for LocalHost {
    fn drop(&mut self) {
        for group in self.running.values() {
            let _ = kill_process_group(*group, Signal::KILL);
        }
    }
}

impl Host for LocalHost {
    fn find_program(&mut self, name: &str) -> Option<String> {
        Program::new(name).locate().ok()?.into_os_string().into_string().ok()
    }

    fn file(&mut self, path: &str, roots: &[String]) -> FileAtHand<'static> {
        if !self.files {
            return FileAtHand::Unknown;
        }
        match real_path(path, roots) {
            Ok(real) if real.exists() => {
                read_file(&real).map_or(FileAtHand::Unknown, |content| FileAtHand::Content(content.into()))
            }
            Ok(_) => FileAtHand::Absent,
            Err(_) => FileAtHand::Unknown,
        }
    }

    fn read_text_file(&mut self, path: &str, roots: &[String]) -> Result<String, HostError> {
        FilesOnDisk.read_text_file(path, roots)
    }

    fn write_text_file(&mut self, path: &str, content: &str, roots: &[String]) -> Result<(), HostError> {
        FilesOnDisk.write_text_file(path, content, roots)
    }

    fn start_terminal(&mut self, start: &TerminalStart, roots: &[String]) -> Result<(), HostError> {
        let directory = real_path(&start.cwd, roots)?;
        // Agents that send a single line mean a shell command.
        let mut command = if start.args.is_empty() && start.command.contains(char::is_whitespace) {
            let mut shell = Command::new("/bin/sh");
            shell.arg("-c").arg(&start.command);
            shell
        } else {
            let mut command = Command::new(&start.command);
            command.args(&start.args);
            command
        };
        command
            .env_remove(LAUNCHER_FD)
            .envs(start.env.iter().map(|(name, value)| (name, value)))
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child =
            command.spawn().map_err(|error| HostError::failed(format!("{}: {error}", start.command)))?;
        if let Some(group) = child.id().and_then(|id| Pid::from_raw(id as i32)) {
            self.running.insert(start.terminal_id.clone(), group);
        }
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let (terminal_id, events) = (start.terminal_id.clone(), self.events.clone());
        tokio::spawn(async move {
            tokio::join!(pass_on(output, &terminal_id, &events), pass_on(errors, &terminal_id, &events));
            let (code, signal) = match child.wait().await {
                Ok(status) => {
                    (status.code().map(i64::from), status.signal().map(|signal| format!("signal {signal}")))
                }
                Err(_) => (None, None),
            };
            // Fails if the receiver is gone.
            let _ = events.send(TerminalEvent::Exited { terminal_id, code, signal }).await;
        });
        Ok(())
    }

    fn kill_terminal(&mut self, terminal_id: &str) {
        if let Some(group) = self.running.remove(terminal_id) {
            // Fails if the process has already exited.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn pass_on(
    output: Option<impl AsyncRead + Unpin>,
    terminal_id: &str,
    events: &mpsc::Sender<TerminalEvent>,
) {
    let Some(mut output) = output else { return };
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count) = output.read(&mut buffer).await
        && count > 0
    {
        let bytes = buffer[..count].to_vec();
        if events.send(TerminalEvent::Output { terminal_id: terminal_id.to_owned(), bytes }).await.is_err() {
            return;
        }
    }
}
