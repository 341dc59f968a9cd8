//! A process group: a program and all that it started and that did not leave the group.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::time::{sleep, timeout};

use super::child::{KILLED, Patience};

/// How often a group is asked whether somebody is left.
const LOOK: Duration = Duration::from_millis(10);

/// The group that a child leads. Dropped before it has been ended, it is killed.
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
        // The only failure is that nobody is left, which is what the signal is for.
        let _ = kill_process_group(self.leader, signal);
    }

    /// Whether nobody of the group runs. The dead count as gone, even while whoever inherited them has not taken
    /// notice.
    fn is_empty(&self) -> bool {
        test_kill_process_group(self.leader).is_err() || only_dead_are_left(self.leader).unwrap_or(false)
    }

    /// Ends whoever is left in the group after its leader is gone. The number of a group is not given to another
    /// one as long as somebody is in it, so nobody else can be hit.
    pub(super) async fn end(mut self, patience: &mut Patience) {
        if !self.is_empty() {
            self.terminate();
            if patience.within(|grace| grace.terminate, self.emptied()).await.is_none() {
                self.kill();
                let _ = timeout(KILLED, self.emptied()).await;
            }
        }
        self.ended = true;
    }

    async fn emptied(&self) {
        while !self.is_empty() {
            sleep(LOOK).await;
        }
    }
}

/// Looks through all processes; `None` where the system does not show them.
fn only_dead_are_left(group: Pid) -> Option<bool> {
    let group = group.as_raw_nonzero().to_string();
    for entry in std::fs::read_dir("/proc").ok()? {
        // A process that ends while we look leaves nothing to read.
        let Ok(status) = std::fs::read_to_string(entry.ok()?.path().join("stat")) else { continue };
        // Behind the name, which may hold anything: state, parent, group.
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
