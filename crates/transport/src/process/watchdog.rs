//! What ends a program when we are killed so suddenly that we cannot do it ourselves.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};
use tokio::time::timeout;

/// First a line with the number of the group, then either a line that says that it has been ended, or the end of
/// the input: then we are gone. Whatever a terminal sends to its programs must not end the watch.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
read group || exit 0
read ended && exit 0
seconds=$1
kill -s TERM -- "-$group" || exit 0
while [ "$seconds" -gt 0 ]; do
    sleep 1
    kill -s 0 -- "-$group" || exit 0
    seconds=$((seconds - 1))
done
kill -s KILL -- "-$group"
"#;

/// How long a watchdog gets to take notice.
const PATIENCE: Duration = Duration::from_secs(1);

/// A shell that holds the reading end of a pipe whose other end only we hold.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: tokio::process::Child,
    input: ChildStdin,
}

impl Watchdog {
    /// `None` where there is no shell: the program then runs unwatched.
    pub(super) fn start(grace: Duration) -> Option<Self> {
        let mut process = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "watchdog"])
            .arg(grace.as_secs().max(1).to_string())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .ok()?;
        let input = process.stdin.take()?;
        Some(Watchdog { process, input })
    }

    /// Tells which group to end, at once: the pipe is empty, so that there is nothing to wait for.
    pub(super) fn watch(&self, group: Pid) {
        // A shell that is gone leaves the program unwatched.
        let _ = rustix::io::write(&self.input, format!("{}\n", group.as_raw_nonzero()).as_bytes());
    }

    /// Tells that the group has been ended, and waits for the shell to be gone.
    pub(super) async fn release(mut self) {
        let _ = self.input.write_all(b"ended\n").await;
        drop(self.input);
        let _ = timeout(PATIENCE, self.process.wait()).await;
    }
}
