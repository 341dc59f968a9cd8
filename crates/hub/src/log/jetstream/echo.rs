//! What this hub has written comes back to it in the order of the stream, and only then is it told to anybody.
//!
//! The servers compare the number that a message names as the last one of its session with what they have kept, and a cluster may
//! let two through that come at the same moment: it looks before it agrees on their order. Both are acknowledged then, and the first
//! of them counts for everybody who reads the stream. So a hub looks at that order itself: nobody else may have written to a
//! session between what it wrote before and what it writes now. Where nothing comes back, because the server that tells it is gone,
//! it asks those that keep the session for that order. One server alone lets nobody through who is second, and nothing is read back.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::DeliverPolicy;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Writers;
use super::message::{count, fence, hub};
use super::reading::Reading;
use super::server::{PATIENCE, Server, locked, session_of, subject};

/// How long to wait before what has failed is tried again.
const PAUSE: Duration = Duration::from_millis(250);

/// How long what was written may take to come back before it is asked for.
const TOLD: Duration = Duration::from_millis(100);

/// How far this hub has read back what the stream has.
pub(super) struct Echo {
    reached: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

impl Echo {
    /// Begins to read, behind a message.
    pub(super) fn begin(
        server: Arc<Server>,
        name: Arc<str>,
        writers: Arc<Mutex<Writers>>,
        from: u64,
    ) -> Self {
        let (reached, receiver) = watch::channel(from);
        let task = tokio::spawn(async move {
            loop {
                if !server.is_replicated() {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                let start_sequence = *reached.borrow() + 1;
                let from = DeliverPolicy::ByStartSequence { start_sequence };
                if let Ok(mut messages) = Reading::of_headers(&server.stream, subject("*"), from).await {
                    while let Ok((message, _)) = messages.next().await {
                        let Ok(sequence) = message.info().map(|info| info.stream_sequence) else { break };
                        let session = session_of(&message.subject);
                        if let (Some(session), Some(headers)) = (session, &message.headers) {
                            locked(&writers).see(&name, session, sequence, headers);
                        }
                        reached.send_replace(sequence);
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        Echo { reached: receiver, task }
    }

    /// Waits until messages of a session have been seen, each with the number of the one that it is to follow. The server that
    /// tells them may be gone; then those that keep the session are asked.
    pub(super) async fn has(
        &self,
        server: &Server,
        session: &str,
        written: &[(u64, u64)],
    ) -> Result<(), String> {
        let last = written.last().map_or(0, |(_, sequence)| *sequence);
        let begun = Instant::now();
        loop {
            let mut reached = self.reached.clone();
            let seen = reached.wait_for(|reached| *reached >= last);
            if matches!(tokio::time::timeout(TOLD, seen).await, Ok(Ok(_))) {
                return Ok(());
            }
            match server.follow_each_other(session, written).await {
                Ok(true) => return Ok(()),
                Ok(false) => return Err("another hub has gone on with it".to_owned()),
                Err(reason) if begun.elapsed() >= PATIENCE => {
                    let reason = format!("the servers do not tell what they have taken: {reason}");
                    return Err(server.fault(&reason));
                }
                Err(_) => {}
            }
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Writers {
    /// Takes notice of a message. Gives whether this hub writes its session, and so has what it says.
    ///
    /// It does not write it any more where another one has taken it since, or has written to it after this one took it.
    pub(super) fn see(&mut self, name: &str, session: &str, sequence: u64, headers: &HeaderMap) -> bool {
        let Some(writer) = self.known.get(session) else { return false };
        if hub(headers) == Some(name) {
            return true;
        }
        let is_after = sequence > writer.taken && count(headers).is_some_and(|count| count > 0);
        if fence(headers).unwrap_or_default() < writer.fence && !is_after {
            return true;
        }
        if let Some((session, _)) = self.known.remove_entry(session) {
            self.lost.push((session, "another hub has gone on with it".to_owned()));
        }
        false
    }
}
