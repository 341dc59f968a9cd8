//! A process group: a program and all descendants that did not leave the group.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::time::{sleep, timeout};

use super::child::{GraceTimer, KILL_TIMEOUT};

/// Interval for checking if processes are left in a group.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Process group led by a child. Killed if dropped before it has ended.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    ended: bool,
}

impl Group {
    pub(super) fn of(leader: u32) -> Option<Self> {
        let leader = Pid::from_raw(i32::try_from(leader).ok()?)?;
        Some(Group { leader, ended: false })
    }

    pub(super) fn leader(&self) -> Pid {
        self.leader
    }

    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // The only possible failure is an empty group, which is the goal.
        let _ = kill_process_group(self.leader, signal);
    }

    /// Returns true if no process of the group runs. Zombies do not count.
    fn is_empty(&self) -> bool {
        test_kill_process_group(self.leader).is_err() || only_dead_are_left(self.leader).unwrap_or(false)
    }

    /// Ends the remaining processes of a group after its leader has exited. The id of a group is not reused
    /// while it has members, so no other process can be hit.
    pub(super) async fn end(mut self, patience: &mut GraceTimer) {
        if !self.is_empty() {
            self.terminate();
            if patience.within(|grace| grace.terminate, self.emptied()).await.is_none() {
                self.kill();
                let _ = timeout(KILL_TIMEOUT, self.emptied()).await;
            }
        }
        self.ended = true;
    }

    async fn emptied(&self) {
        while !self.is_empty() {
            sleep(POLL_INTERVAL).await;
        }
    }
}

/// Scans all processes. `None` if the system does not list them.
fn only_dead_are_left(group: Pid) -> Option<bool> {
    let group = group.as_raw_nonzero().to_string();
    for entry in std::fs::read_dir("/proc").ok()? {
        // A process may exit during the scan.
        let Ok(status) = std::fs::read_to_string(entry.ok()?.path().join("stat")) else { continue };
        // After the name, which may contain any character: state, parent, group.
        let Some((_, fields)) = status.rsplit_once(')') else { continue };
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next();
        if fields.nth(1) == Some(&group) && !matches!(state, Some("Z" | "X")) {
            return Some(false);
        }
    }
    Some(true)
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            self.kill();
        }
    }
}
