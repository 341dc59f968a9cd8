//! Messages of the peer: requests, notifications and anomalies.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use switchboard_acp::rpc::{RequestId, RpcError, codes};
use tokio::sync::watch;

use crate::connection::{ConnectionInner, error_line, failure, method_not_found, result_line};
use crate::{Closure, Error, Json, Noise, RequestRefusal, SharedText, TooLong};

/// Event of an [`Inbox`](crate::Inbox), in order of arrival.
#[derive(Debug)]
pub enum Event {
    /// A request that must be answered.
    Request(IncomingRequest),
    /// A notification.
    Notification(IncomingNotification),
    /// An unexpected message or line that has already been handled. Worth a log entry.
    Anomaly(Anomaly),
    /// The last event: the peer is gone or reading failed.
    Closed(Arc<Closure>),
}

/// A notification of the peer.
#[derive(Debug, Clone)]
pub struct IncomingNotification {
    pub(crate) line: SharedText,
    pub(crate) method: SharedText,
    pub(crate) params: Option<SharedText>,
}

impl IncomingNotification {
    /// Returns the method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Returns the JSON text of the parameters, or an empty object if there are none.
    pub fn params(&self) -> &str {
        self.params.as_deref().unwrap_or("{}")
    }

    /// Returns the original message.
    pub fn line(&self) -> &SharedText {
        &self.line
    }
}

/// A request of the peer. It is answered exactly once: dropping it sends an error, unless it is [left
/// open](IncomingRequest::leave_open).
#[derive(Debug)]
pub struct IncomingRequest {
    pub(crate) id: RequestId<'static>,
    pub(crate) line: SharedText,
    pub(crate) method: SharedText,
    pub(crate) params: Option<SharedText>,
    pub(crate) cancellation: Cancellation,
    pub(crate) shared: Arc<ConnectionInner>,
    pub(crate) batch: Option<Arc<BatchAnswers>>,
    pub(crate) answered: bool,
}

impl IncomingRequest {
    /// Returns the id.
    pub fn id(&self) -> &RequestId<'static> {
        &self.id
    }

    /// Returns the method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Returns the JSON text of the parameters, or an empty object if there are none.
    pub fn params(&self) -> &str {
        self.params.as_deref().unwrap_or("{}")
    }

    /// Returns the original message.
    pub fn line(&self) -> &SharedText {
        &self.line
    }

    /// Returns a handle that reports cancellation by the peer. A cancelled request must still be answered.
    pub fn cancellation(&self) -> Cancellation {
        self.cancellation.clone()
    }

    /// Responds with a result.
    pub async fn respond(mut self, result: impl Into<Json<'_>>) -> Result<(), Error> {
        let line = result_line(&self.id, result.into().as_str());
        self.send(line).await
    }

    /// Responds with a result without waiting for queue capacity. For small results that later messages
    /// depend on.
    pub fn respond_at_once(mut self, result: impl Into<Json<'static>>) {
        let line = result_line(&self.id, result.into().as_str());
        if let Some(line) = self.close(line) {
            self.shared.outbox.queue_unbounded(&line);
        }
    }

    /// Returns true if the peer has cancelled the request.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Responds with an error.
    pub async fn fail(mut self, error: &RpcError<'_>) -> Result<(), Error> {
        let line = error_line(&self.id, error);
        self.send(line).await
    }

    /// Responds with "method not found".
    pub async fn method_not_found(self) -> Result<(), Error> {
        let error = method_not_found(&self.method);
        self.fail(&error).await
    }

    /// Drops the request without a response because this end is about to close the connection. The peer
    /// notices the closed connection and can retry elsewhere, which an error response would prevent.
    pub fn leave_open(mut self) {
        self.answered = true;
        self.shared.state().requests.incoming.close(&self.id);
    }

    async fn send(&mut self, line: String) -> Result<(), Error> {
        // Mark as answered before waiting. If the future is dropped during the wait, the response is lost,
        // but with a queue that full, another response would not be sent either.
        let Some(line) = self.close(line) else { return Ok(()) };
        self.shared.send(&line).await.map(drop)
    }

    /// Closes the request. Returns the line to send: the response, the whole batch of responses, or nothing
    /// yet.
    fn close(&mut self, line: String) -> Option<String> {
        self.answered = true;
        self.shared.state().requests.incoming.close(&self.id);
        match &self.batch {
            Some(batch) => batch.add(&line),
            None => Some(line),
        }
    }
}

impl Drop for IncomingRequest {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let error = if self.is_cancelled() {
            failure(codes::REQUEST_CANCELLED, "the request was cancelled")
        } else {
            failure(codes::INTERNAL_ERROR, "the request was dropped without an answer")
        };
        let line = error_line(&self.id, &error);
        if let Some(line) = self.close(line) {
            self.shared.outbox.queue_unbounded(&line);
        }
    }
}

/// Reports cancellation of a request by the peer.
#[derive(Debug, Clone)]
pub struct Cancellation(pub(crate) watch::Receiver<bool>);

impl Cancellation {
    /// Returns true if the request is cancelled.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the request is cancelled. Never returns once it is answered.
    pub async fn cancelled(&mut self) {
        if self.0.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Responses to the requests of one batch, sent together when complete.
#[derive(Debug)]
pub(crate) struct BatchAnswers(Mutex<(usize, String)>);

impl BatchAnswers {
    /// Creates a collection for this many responses.
    pub(crate) fn new(expected: usize) -> Self {
        BatchAnswers(Mutex::new((expected, String::from("["))))
    }

    /// Adds a response. Returns the complete batch if it was the last.
    pub(crate) fn add(&self, answer: &str) -> Option<String> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (missing, text) = &mut *state;
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(answer);
        *missing = missing.saturating_sub(1);
        if *missing > 0 {
            return None;
        }
        text.push(']');
        Some(std::mem::take(text))
    }
}

/// An unexpected message or line.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Anomaly {
    /// A line that is not a message.
    Noise(Noise),
    /// A line beyond the length limit. If it was a response, its call has failed; if it was a request, it was
    /// refused.
    TooLong(TooLong),
    /// The stream ended inside a message.
    Unfinished(Noise),
    /// JSON that should be a message but is not valid. It was answered with an error, unless it is a response
    /// itself.
    Malformed {
        /// The text.
        line: SharedText,
        /// Reason.
        reason: String,
    },
    /// A response to a call that was given up. Dropped.
    LateAnswer {
        /// Request id of the response.
        id: RequestId<'static>,
        /// The message.
        line: SharedText,
    },
    /// A second response to a call. Dropped.
    SecondAnswer {
        /// Request id of the response.
        id: RequestId<'static>,
        /// The message.
        line: SharedText,
    },
    /// A response without a call. Dropped.
    UnaskedAnswer {
        /// Request id of the response.
        id: RequestId<'static>,
        /// The message.
        line: SharedText,
    },
    /// An error without a request id: the peer could not parse a message.
    ErrorWithoutRequest(RpcError<'static>),
    /// A method that this side does not support. A request was refused, a notification dropped.
    UnknownMethod {
        /// The method.
        method: SharedText,
        /// True for a request.
        wants_answer: bool,
    },
    /// A request that was refused.
    Refused {
        /// Request id.
        id: RequestId<'static>,
        /// The method.
        method: SharedText,
        /// Reason.
        reason: RequestRefusal,
    },
}

impl Anomaly {
    /// Returns true for input that is not a message, as opposed to an unexpected message.
    pub fn is_no_message(&self) -> bool {
        matches!(self, Anomaly::Noise(_) | Anomaly::TooLong(_) | Anomaly::Unfinished(_))
    }

    /// Returns true if it should be reported to a person: not for an empty line or an unknown notification.
    pub fn is_worth_telling(&self) -> bool {
        match self {
            Anomaly::Noise(noise) => !noise.is_blank(),
            Anomaly::UnknownMethod { wants_answer, .. } => *wants_answer,
            _ => true,
        }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Anomaly::Noise(noise) | Anomaly::Unfinished(noise) => noise.fmt(formatter),
            Anomaly::TooLong(too_long) => too_long.fmt(formatter),
            Anomaly::Malformed { reason, .. } => write!(formatter, "a malformed message: {reason}"),
            Anomaly::LateAnswer { id, .. } => write!(formatter, "a late response to {id}"),
            Anomaly::SecondAnswer { id, .. } => write!(formatter, "a second response to {id}"),
            Anomaly::UnaskedAnswer { id, .. } => {
                write!(formatter, "a response to {id} without a request")
            }
            Anomaly::ErrorWithoutRequest(error) => write!(formatter, "an error without a request: {error}"),
            Anomaly::UnknownMethod { method, .. } => write!(formatter, "the unknown method {method}"),
            Anomaly::Refused { id, method, reason } => {
                write!(formatter, "the request {id} for {method} was refused: {reason}")
            }
        }
    }
}
