//! Outputs of the core in their order, and the clock and counters that they depend on.

use std::collections::{BTreeMap, VecDeque};

use switchboard_acp::rpc::RequestId;
use switchboard_transport::SharedText;

use super::lines::{self, Outcome};
use super::{AgentId, ConnectionId, Output, SessionId, ToClient};

/// Reason why a message was dropped. Nothing is dropped without being counted or reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dropped {
    /// The answer to a question that was answered or cancelled before.
    LateAnswer,
    /// The answer of a client whose token has lost the right to answer.
    AnswerWithoutRight,
    /// A cancellation of a request that is not pending any more.
    LateCancellation,
    /// A cancellation that names no request.
    CancellationWithoutRequest,
    /// A repetition of a request whose response is still due, or of a notification.
    DuplicateRequest,
    /// A message of a client that has disconnected.
    DisconnectedClient,
    /// A line of an agent process that has exited.
    EndedProcess,
    /// A line of an agent in its own version about a session that is not open.
    UnrecordedLine,
    /// A response to a request that is not pending.
    UnknownResponse,
    /// A request of another hub that cannot be parsed.
    InvalidForwardedRequest,
    /// The loss report of a client without the right to make it, or which is not attached to the session.
    LossWithoutRight,
    /// A loss beyond the number of different losses that are recorded.
    TooManyLosses,
    /// A message that waited for an agent which did not start, and that has no response.
    WaitedInVain,
}

impl Dropped {
    /// Returns the name in the metrics.
    fn as_str(self) -> &'static str {
        match self {
            Dropped::LateAnswer => "late_answer",
            Dropped::AnswerWithoutRight => "answer_without_right",
            Dropped::LateCancellation => "late_cancellation",
            Dropped::CancellationWithoutRequest => "cancellation_without_request",
            Dropped::DuplicateRequest => "duplicate_request",
            Dropped::DisconnectedClient => "disconnected_client",
            Dropped::EndedProcess => "ended_process",
            Dropped::UnrecordedLine => "unrecorded_line",
            Dropped::UnknownResponse => "unknown_response",
            Dropped::InvalidForwardedRequest => "invalid_forwarded_request",
            Dropped::LossWithoutRight => "loss_without_right",
            Dropped::TooManyLosses => "too_many_losses",
            Dropped::WaitedInVain => "waited_in_vain",
        }
    }
}

/// Outputs that the driver has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) queue: VecDeque<Output>,
    /// Monotonic time in milliseconds.
    pub(super) now: u64,
    /// Wall-clock time in Unix milliseconds, for display.
    pub(super) time: i64,
    last_ticket: u64,
    /// Number of dropped messages.
    dropped: BTreeMap<Dropped, u64>,
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

    /// Counts a message that is dropped.
    pub(super) fn drop_message(&mut self, reason: Dropped) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    /// Returns the numbers of dropped messages by reason.
    pub(super) fn dropped(&self) -> Vec<(&'static str, u64)> {
        self.dropped.iter().map(|(reason, count)| (reason.as_str(), *count)).collect()
    }
}
