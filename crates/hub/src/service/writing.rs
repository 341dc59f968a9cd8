//! Doing what the core says: records are safe before anything that follows from them. Servers that keep a log may take their
//! time; what has nothing to do with what is being written does not wait for them.

use std::collections::{HashSet, VecDeque};
use std::time::Instant;

use super::{BURST, Event, Events, Service};
use crate::core::{ConnectionId, Output, SessionId};
use crate::log::{Later, SessionLog};

/// A session whose log cannot be written, and why.
type Failure = (SessionId, String);

/// What waits until records are safe: nothing may overtake it.
#[derive(Default)]
struct Waiting {
    sessions: HashSet<SessionId>,
    connections: HashSet<ConnectionId>,
}

impl Waiting {
    fn add(&mut self, output: &Output) {
        match output {
            Output::Send { connection, line } => {
                self.connections.insert(*connection);
                self.sessions.extend(line.stream.clone());
            }
            Output::Close { connection, .. } => {
                self.connections.insert(*connection);
            }
            Output::ToHost { session, .. } => self.sessions.extend(session.clone()),
            Output::Append { session, .. }
            | Output::Remove { session }
            | Output::Load { session }
            | Output::Read { session, .. }
            | Output::Replay { session, .. }
            | Output::Seek { session, .. }
            | Output::Rest { session }
            | Output::Changed { session }
            | Output::Own { session }
            | Output::Release { session }
            | Output::Answer { session, .. } => {
                self.sessions.insert(SessionId::clone(session));
            }
            Output::Create { .. }
            | Output::StartHost { .. }
            | Output::EndHost { .. }
            | Output::PassOn { .. }
            | Output::Tell(_) => {}
        }
    }

    /// Whether nothing that has happened can be looked at before records are safe: it needs the log, or everything to be done
    /// that was said before.
    fn stops(&self, event: &Event) -> bool {
        match event {
            Event::Continue { connection, .. } | Event::Reconnected { connection } => {
                self.connections.contains(connection)
            }
            Event::Created { .. } | Event::JudgeAgain { .. } | Event::End { .. } => true,
            _ => false,
        }
    }

    /// Whether something can be done at once: it changes nothing, and has nothing to do with what waits.
    fn lets_through(&self, output: &Output) -> bool {
        match output {
            Output::Send { connection, line } => {
                let is_free = line.stream.as_ref().is_none_or(|session| !self.sessions.contains(session));
                is_free && !self.connections.contains(connection)
            }
            Output::Load { session }
            | Output::Read { session, .. }
            | Output::Replay { session, .. }
            | Output::Seek { session, .. } => !self.sessions.contains(session),
            _ => false,
        }
    }
}

/// The session whose records must be safe before something is done.
fn about(output: &Output) -> Option<&SessionId> {
    match output {
        Output::Append { session, .. } | Output::Answer { session, .. } => Some(session),
        Output::Send { line, .. } => line.stream.as_ref(),
        Output::ToHost { session, .. } => session.as_ref(),
        _ => None,
    }
}

impl Service {
    /// Does what the core says. Where events are given, what happens meanwhile is heard while records are being made safe.
    pub(super) async fn perform(&mut self, log: &mut dyn SessionLog, mut events: Option<&mut Events>) {
        loop {
            let mut rest = Vec::new();
            let mut failed: Vec<Failure> = Vec::new();
            let mut waiting = Waiting::default();
            let mut has_records = false;
            while let Some(output) = self.held.pop_front().or_else(|| self.core.next_output()) {
                waiting.add(&output);
                match output {
                    Output::Append { session, sequence, channel, text } => {
                        has_records = true;
                        let is_broken = failed.iter().any(|(failed, _)| *failed == session);
                        if !is_broken && let Err(reason) = log.append(&session, sequence, channel, &text) {
                            failed.push((session, reason));
                        } else if let Some(listener) = &mut self.listener {
                            listener.written(&session, channel, &text);
                        }
                    }
                    output => rest.push(output),
                }
            }
            if has_records {
                let begun = Instant::now();
                failed.extend(self.made_safe(log.commit(), waiting, events.as_deref_mut()).await);
                self.metrics.appended(begun.elapsed());
            }
            if rest.is_empty() && failed.is_empty() && self.held.is_empty() {
                let states = self.core.states();
                if std::mem::replace(&mut self.told, states) != states {
                    self.changed.send_modify(|count| *count += 1);
                }
                return;
            }
            // What came of a log meanwhile that cannot be written is as what came before.
            let is_lost = |output: &Output| {
                about(output).is_some_and(|session| failed.iter().any(|(failed, _)| failed == session))
            };
            let held = std::mem::take(&mut self.held);
            let (lost, held): (VecDeque<Output>, VecDeque<Output>) = held.into_iter().partition(is_lost);
            rest.extend(lost);
            self.held = held;
            let mut untold = Vec::new();
            for output in rest {
                let reason =
                    about(&output).and_then(|session| failed.iter().find(|(failed, _)| failed == session));
                match (output, reason) {
                    (output, None) => self.act(output, log),
                    (Output::Send { connection, .. }, Some((session, reason))) => {
                        untold
                            .push((connection, format!("the log of {session} cannot be written: {reason}")));
                    }
                    (_, Some(_)) => {}
                }
            }
            for (session, reason) in failed {
                self.core.log_failed(&session, &reason);
            }
            // Who waits for an answer of it need not look at the session.
            for (connection, reason) in untold {
                self.core.cut_off(connection, reason);
            }
        }
    }

    /// Waits until records are safe. What happens meanwhile is told to the core as if it had happened before, and what comes of
    /// it is done afterwards, but for what only shows what others have to do with.
    async fn made_safe(
        &mut self,
        mut commit: Later<'_, Vec<Failure>>,
        mut waiting: Waiting,
        events: Option<&mut Events>,
    ) -> Vec<Failure> {
        let Some(events) = events else { return commit.await };
        loop {
            let hears = self.held.len() < BURST && events.next.is_none();
            let event = tokio::select! {
                biased;
                failed = &mut commit => return failed,
                event = events.coming.recv(), if hears => event,
            };
            match event {
                Some(event) if waiting.stops(&event) => events.next = Some(event),
                Some(event) => {
                    self.look_at_clock();
                    self.tell_core(event);
                    self.sort_out(&mut waiting);
                }
                None => return commit.await,
            }
        }
    }

    /// Does what comes of an event at once, if nothing of it has to wait.
    fn sort_out(&mut self, waiting: &mut Waiting) {
        let outputs: Vec<Output> = std::iter::from_fn(|| self.core.next_output()).collect();
        let is_free = outputs.iter().all(|output| waiting.lets_through(output));
        for output in outputs {
            if is_free {
                self.act_without_log(output);
            } else {
                waiting.add(&output);
                self.held.push_back(output);
            }
        }
    }
}
