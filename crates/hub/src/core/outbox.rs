//! Outputs of the core in their order, and the clock and counters that they depend on.

use super::lines::Outcome;
use super::{AgentId, ConnectionId, Output, SessionId, ToClient, lines};
use std::collections::VecDeque;
use switchboard_acp::rpc::RequestId;

use switchboard_transport::SharedText;

/// Outputs that the driver has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) queue: VecDeque<Output>,
    /// Monotonic time in milliseconds.
    pub(super) now: u64,
    /// Wall-clock time in Unix milliseconds, for display.
    pub(super) time: i64,
    last_ticket: u64,
    /// Changes whenever the summaries of sessions may have changed, apart from times.
    pub(super) summary_version: u64,
}

impl Outbox {
    /// Adds an output. The driver performs outputs in the order in which they are added.
    pub(super) fn push(&mut self, output: Output) {
        self.queue.push_back(output);
    }

    /// Returns a new ticket, which identifies the result of an output.
    pub(super) fn next_ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    /// Reports something to the operator.
    pub(super) fn report(&mut self, message: impl Into<String>) {
        self.push(Output::Report(message.into()));
    }

    /// Sends a line without a cursor to a client, on the stream of a session or of the connection.
    pub(super) fn send(
        &mut self,
        connection: ConnectionId,
        text: impl Into<SharedText>,
        stream: Option<&SessionId>,
    ) {
        let line = ToClient::plain(text.into(), stream.cloned());
        self.push(Output::Send { connection, line });
    }

    /// Responds to a request of an agent with an error.
    pub(super) fn refuse_agent(&mut self, process: AgentId, id: &RequestId<'_>, code: i32, message: &str) {
        let line = lines::answer(id, &Outcome::error(code, message, None));
        self.push(Output::ToAgent { process, line, session: None });
    }

    /// Drops the prompts for an exited process that are still in the output queue. Returns the agent's session ids.
    pub(super) fn take_unsent(&mut self, id: AgentId) -> Vec<String> {
        let mut prompted_session = Vec::new();
        self.queue.retain(|output| match output {
            Output::ToAgent { process, line, .. } if *process == id => match lines::prompted_session(line) {
                Some(session) => {
                    prompted_session.push(session);
                    false
                }
                None => true,
            },
            _ => true,
        });
        prompted_session
    }
}
