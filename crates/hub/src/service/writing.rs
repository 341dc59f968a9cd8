//! Performing the outputs of the core in order: a record is durable before anything that depends on it is performed.
//!
//! A remote log may take its time. Events are still handled meanwhile, and outputs that are independent of the pending
//! records are performed without waiting for them.

use std::collections::{HashSet, VecDeque};
use std::time::Instant;

use super::{BURST, Event, Events, Service};
use crate::core::{ConnectionId, Output, SessionId};
use crate::log::{BoxFuture, SessionLog};

/// A session whose log cannot be written, with the reason.
type Failure = (SessionId, String);

/// Sessions and connections with outputs that wait for records to become durable. No later output may overtake these.
#[derive(Default)]
struct PendingWrites {
    sessions: HashSet<SessionId>,
    connections: HashSet<ConnectionId>,
}

impl PendingWrites {
    fn add(&mut self, output: &Output) {
        match output {
            Output::Send { connection, line } => {
                self.connections.insert(*connection);
                self.sessions.extend(line.stream.clone());
            }
            Output::Close { connection, .. } => {
                self.connections.insert(*connection);
            }
            Output::ToAgent { session, .. } => self.sessions.extend(session.clone()),
            Output::Append { session, .. }
            | Output::Remove { session }
            | Output::Load { session }
            | Output::Read { session, .. }
            | Output::Replay { session, .. }
            | Output::FindMessage { session, .. }
            | Output::Acquire { session }
            | Output::Release { session }
            | Output::ForwardReply { session, .. } => {
                self.sessions.insert(SessionId::clone(session));
            }
            // Readers of the log do not depend on these two: they read an open log as well, and its metadata is saved for
            // the next start.
            Output::CloseLog { .. }
            | Output::Changed { .. }
            | Output::Create { .. }
            | Output::StartAgent { .. }
            | Output::EndAgent { .. }
            | Output::Forward { .. }
            | Output::Event(_)
            | Output::Report(_) => {}
        }
    }

    /// Returns whether an event must wait until the records are durable, because it needs the log or all earlier
    /// outputs.
    fn blocks(&self, event: &Event) -> bool {
        match event {
            Event::Resume { connection, .. } | Event::Reconnected { connection } => {
                self.connections.contains(connection)
            }
            Event::Created { .. } | Event::ReevaluatePolicy { .. } | Event::End { .. } => true,
            _ => false,
        }
    }

    /// Returns whether an output can be performed at once: it changes nothing and is independent of everything that
    /// waits.
    fn is_independent(&self, output: &Output) -> bool {
        match output {
            Output::Send { connection, line } => {
                let is_free = line.stream.as_ref().is_none_or(|session| !self.sessions.contains(session));
                is_free && !self.connections.contains(connection)
            }
            Output::Load { session }
            | Output::Read { session, .. }
            | Output::Replay { session, .. }
            | Output::FindMessage { session, .. } => !self.sessions.contains(session),
            _ => false,
        }
    }
}

/// Returns the session whose records must be durable before an output is performed.
fn required_session(output: &Output) -> Option<&SessionId> {
    match output {
        Output::Append { session, .. } | Output::ForwardReply { session, .. } => Some(session),
        Output::Send { line, .. } => line.stream.as_ref(),
        Output::ToAgent { session, .. } => session.as_ref(),
        // Nobody is notified of something that is not in the log.
        Output::Event(event) => Some(&event.session),
        _ => None,
    }
}

impl Service {
    /// Performs all outputs of the core. With `events`, events are handled while records become durable.
    pub(super) async fn perform(&mut self, log: &mut dyn SessionLog, mut events: Option<&mut Events>) {
        loop {
            let mut rest = Vec::new();
            let mut failed: Vec<Failure> = Vec::new();
            let mut waiting = PendingWrites::default();
            let mut has_records = false;
            // Deferred outputs are older than those of the core, so they come first. Appends are handed to the log
            // here. Everything else is collected, because it may depend on them.
            while let Some(output) = self.deferred.pop_front().or_else(|| self.core.next_output()) {
                waiting.add(&output);
                match output {
                    Output::Append { session, sequence, channel, text } => {
                        has_records = true;
                        // After a failed append, later records of the session would leave a gap, so they are not
                        // written.
                        let is_broken = failed.iter().any(|(failed, _)| *failed == session);
                        if !is_broken && let Err(reason) = log.append(&session, sequence, channel, &text) {
                            failed.push((session, reason));
                        } else if let Some(listener) = &mut self.listener {
                            listener.record_appended(&session, channel, &text);
                        }
                    }
                    output => rest.push(output),
                }
            }
            // One commit makes all records of this batch durable. Nothing in `rest` is performed before it has
            // finished.
            if has_records {
                let begun = Instant::now();
                failed.extend(self.wait_durable(log.commit(), waiting, events.as_deref_mut()).await);
                self.metrics.appended(begun.elapsed());
            }
            // Watchers of the summaries are notified when everything has been performed, not in between.
            if rest.is_empty() && failed.is_empty() && self.deferred.is_empty() {
                let version = self.core.summary_version();
                if std::mem::replace(&mut self.summary_version, version) != version {
                    self.changed.send_modify(|count| *count += 1);
                }
                return;
            }
            // Outputs that were deferred meanwhile and depend on a failed log are treated like earlier ones.
            let is_lost = |output: &Output| {
                required_session(output)
                    .is_some_and(|session| failed.iter().any(|(failed, _)| failed == session))
            };
            let deferred = std::mem::take(&mut self.deferred);
            let (lost, deferred): (VecDeque<Output>, VecDeque<Output>) =
                deferred.into_iter().partition(is_lost);
            rest.extend(lost);
            self.deferred = deferred;
            let mut unanswered = Vec::new();
            for output in rest {
                let reason = required_session(&output)
                    .and_then(|session| failed.iter().find(|(failed, _)| failed == session));
                match (output, reason) {
                    (output, None) => self.perform_one(output, log),
                    // The line depends on a record that does not exist. Dropping it silently would leave a gap at the
                    // client, so its connection is closed below.
                    (Output::Send { connection, .. }, Some((session, reason))) => {
                        unanswered.push((
                            connection,
                            format!("cannot write the log of session {session}: {reason}"),
                        ));
                    }
                    (_, Some(_)) => {}
                }
            }
            // Last, because the core responds with new outputs, which the next iteration performs.
            for (session, reason) in failed {
                self.core.log_failed(&session, &reason);
            }
            // A client that waits for a response need not be a subscriber of the session.
            for (connection, reason) in unanswered {
                self.core.close_connection(connection, reason);
            }
        }
    }

    /// Waits until records are durable. Events that arrive meanwhile are handled at once, but their outputs are
    /// deferred unless they are independent of the pending records.
    async fn wait_durable(
        &mut self,
        mut commit: BoxFuture<'_, Vec<Failure>>,
        mut waiting: PendingWrites,
        events: Option<&mut Events>,
    ) -> Vec<Failure> {
        let Some(events) = events else { return commit.await };
        loop {
            // Backpressure while the log is slow: above this limit, events stay in their bounded channel, and the tasks
            // of clients and agents wait.
            let accepts_events = self.deferred.len() < BURST && events.next.is_none();
            let event = tokio::select! {
                // The commit is polled first, so that a flood of events cannot delay its end.
                biased;
                failed = &mut commit => return failed,
                event = events.coming.recv(), if accepts_events => event,
            };
            match event {
                Some(event) if waiting.blocks(&event) => events.next = Some(event),
                Some(event) => {
                    self.update_clock();
                    self.handle_in_core(event);
                    self.perform_or_defer(&mut waiting);
                }
                None => return commit.await,
            }
        }
    }

    /// Performs the outputs of an event at once if all of them are independent; otherwise defers all of them.
    fn perform_or_defer(&mut self, waiting: &mut PendingWrites) {
        let outputs: Vec<Output> = std::iter::from_fn(|| self.core.next_output()).collect();
        // All or none of them: performing only some would reorder the outputs of one event.
        let is_free = outputs.iter().all(|output| waiting.is_independent(output));
        for output in outputs {
            if is_free {
                self.perform_without_log(output);
            } else {
                waiting.add(&output);
                self.deferred.push_back(output);
            }
        }
    }
}
