//! The watchdog, which ends a program if this process is killed without a chance to do so.

use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};
use tokio::time::timeout;

/// The watchdog's shell script. Its input is first a line with the process group id. Then lease lines follow,
/// each with the end of the lease as a time and in seconds from now; unless a new one arrives before, the
/// group is killed then. The last line says that the group has ended. If the input ends without it, this
/// process is gone and the group is ended. Signals from the terminal must not end the watchdog.
///
/// The shorter of both lease times counts: a line written late, because this process was suspended, does not
/// extend the lease, and neither does a clock that is set back.
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

/// Time for the watchdog to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// A shell that holds the read end of a pipe whose write end only this process has.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: tokio::process::Child,
    input: ChildStdin,
}

impl Watchdog {
    /// Starts the watchdog. Returns `None` if there is no shell: the program then runs unwatched.
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

    /// Sends the process group id. Does not block, because the pipe is empty.
    pub(super) fn watch(&self, group: Pid) {
        // If the shell is gone, the program runs unwatched.
        let _ = rustix::io::write(&self.input, format!("{}\n", group.as_raw_nonzero()).as_bytes());
    }

    /// Sends the time until which the group may run.
    pub(super) fn allow_until(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        // Every shell can sleep for whole seconds. Rounding down makes the end earlier, never later.
        let end = (SystemTime::now() + left).duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = format!("until {} {}\n", end.as_secs(), left.as_secs());
        // If the pipe is full or the shell is gone, the previous time stays in effect.
        let _ = rustix::io::write(&self.input, line.as_bytes());
    }

    /// Tells the watchdog that the group has ended, and waits for it to exit.
    pub(super) async fn release(mut self) {
        let _ = self.input.write_all(b"ended\n").await;
        drop(self.input);
        let _ = timeout(EXIT_TIMEOUT, self.process.wait()).await;
    }
}
