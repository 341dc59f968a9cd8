//! Reading back this hub's own messages in stream order, before any record in them is sent to clients.
//!
//! The servers compare the expected last sequence of a message with what they have stored. A cluster may accept two
//! concurrent messages, because it checks before it agrees on their order. Both are acknowledged then, and for readers
//! of the stream the first one counts. A hub therefore checks the order itself: no other hub may have written to the
//! session between its previous message and this one. If nothing is read back, because the server that delivers
//! messages is down, the hub asks the servers of the session for the order. A single server never accepts the second
//! message, so nothing is read back then.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::DeliverPolicy;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Writers;
use super::message::{count, fence, hub};
use super::server::{DURABLE_TIMEOUT, Server, locked, session_of, subject};
use super::stream_reader::StreamReader;

/// Pause before a failed operation is retried.
const PAUSE: Duration = Duration::from_millis(250);

/// Time after which messages that were not delivered back are requested.
const DELIVERY_TIMEOUT: Duration = Duration::from_millis(100);

/// Position up to which this hub has read the stream back.
pub(super) struct ReadBack {
    reached: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

impl ReadBack {
    /// Starts to read after a message.
    pub(super) fn start(
        server: Arc<Server>,
        name: Arc<str>,
        writers: Arc<Mutex<Writers>>,
        from: u64,
    ) -> Self {
        let (reached, receiver) = watch::channel(from);
        let task = tokio::spawn(async move {
            loop {
                // A single server decides the order itself, so there is nothing to read back.
                if !server.is_replicated() {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                let start_sequence = *reached.borrow() + 1;
                let from = DeliverPolicy::ByStartSequence { start_sequence };
                if let Ok(mut messages) = StreamReader::of_headers(&server.stream, subject("*"), from).await {
                    while let Ok((message, _)) = messages.next().await {
                        let Ok(sequence) = message.info().map(|info| info.stream_sequence) else { break };
                        let session = session_of(&message.subject);
                        if let (Some(session), Some(headers)) = (session, &message.headers) {
                            locked(&writers).observe(&name, session, sequence, headers);
                        }
                        // After `observe`, so that a waiter that sees this sequence also sees a lost ownership.
                        reached.send_replace(sequence);
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        ReadBack { reached: receiver, task }
    }

    /// Waits until messages of a session have been read back, each with the sequence that it must follow. If they are
    /// not delivered, asks the servers of the session.
    pub(super) async fn wait_for(
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
            if matches!(tokio::time::timeout(DELIVERY_TIMEOUT, seen).await, Ok(Ok(_))) {
                return Ok(());
            }
            // The reader may be connected to a server that is down or behind.
            match server.are_consecutive(session, written).await {
                Ok(true) => return Ok(()),
                Ok(false) => return Err("another hub has taken over the session".to_owned()),
                Err(reason) if begun.elapsed() >= DURABLE_TIMEOUT => {
                    let reason = format!("cannot verify the written messages: {reason}");
                    return Err(server.record_failure(&reason));
                }
                Err(_) => {}
            }
        }
    }
}

impl Drop for ReadBack {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Writers {
    /// Takes a message into account. Returns whether this hub owns the session, and thus already has the records.
    ///
    /// This hub is no longer the owner if another one has acquired the session since, or has written to it after this
    /// one acquired it.
    pub(super) fn observe(&mut self, name: &str, session: &str, sequence: u64, headers: &HeaderMap) -> bool {
        let Some(writer) = self.sessions.get(session) else { return false };
        if hub(headers) == Some(name) {
            return true;
        }
        // Messages of an earlier owner that were published before the takeover are expected. Later ones with records
        // mean that this hub was overtaken.
        let is_after = sequence > writer.taken && count(headers).is_some_and(|count| count > 0);
        if fence(headers).unwrap_or_default() < writer.fence && !is_after {
            return true;
        }
        if let Some((session, _)) = self.sessions.remove_entry(session) {
            self.lost.push((session, "another hub has taken over the session".to_owned()));
        }
        false
    }
}
