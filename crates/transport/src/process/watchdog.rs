//! What ends a program when we are killed so suddenly that we cannot do it ourselves.

use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};
use tokio::time::timeout;

/// First a line with the number of the group. Then lines of a lease, each with the time at which it ends and how many seconds
/// that is from now: unless another one comes before, the group is killed then, whatever we do meanwhile. Last either a line
/// that says that the group has been ended, or the end of the input: then we are gone. Whatever a terminal sends to its
/// programs must not end the watch.
///
/// Of a lease the shorter time counts: a line that we wrote late, because we stood still, does not extend it, and neither does a
/// clock that is set back.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
read group || exit 0
timer=
while read word end left; do
    if [ "$word" = ended ]; then
        [ -z "$timer" ] || kill -s USR1 "$timer"
        exit 0
    fi
    now=$(date +%s)
    [ $((end - now)) -ge "$left" ] || left=$((end - now))
    [ "$left" -ge 0 ] || left=0
    before=$timer
    (
        sleeping=
        trap '[ -z "$sleeping" ] || kill -s KILL "$sleeping"; exit 0' USR1
        sleep "$left" &
        sleeping=$!
        wait "$sleeping"
        kill -s KILL -- "-$group"
    ) < /dev/null &
    timer=$!
    [ -z "$before" ] || kill -s USR1 "$before"
done
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

    /// Tells until when the group may run.
    pub(super) fn allow_until(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        // Whole seconds are what every shell can sleep; the part of one that is lost makes it earlier, never later.
        let end = (SystemTime::now() + left).duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = format!("until {} {}\n", end.as_secs(), left.as_secs());
        // Where the pipe is full or the shell is gone, the time that it was told last stands.
        let _ = rustix::io::write(&self.input, line.as_bytes());
    }

    /// Tells that the group has been ended, and waits for the shell to be gone.
    pub(super) async fn release(mut self) {
        let _ = self.input.write_all(b"ended\n").await;
        drop(self.input);
        let _ = timeout(PATIENCE, self.process.wait()).await;
    }
}
