//! What comes from the peer: calls, and things that should not have come.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use switchboard_acp::rpc::{RequestId, RpcError, codes};
use tokio::sync::watch;

use crate::connection::{ConnectionInner, error_line, failure, method_not_found, result_line};
use crate::{Closure, Error, Json, Noise, RequestRefusal, SharedText, TooLong};

/// What an [`Inbox`](crate::Inbox) hands out, in the order in which it came.
#[derive(Debug)]
pub enum Event {
    /// A call that must be answered.
    Request(IncomingRequest),
    /// A call that has no answer.
    Notification(IncomingNotification),
    /// Something that should not have come and has been dealt with: worth a line in a log.
    Anomaly(Anomaly),
    /// The last event: the peer is gone, or reading failed.
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
    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The JSON text of the parameters; an empty object where there are none.
    pub fn params(&self) -> &str {
        self.params.as_deref().unwrap_or("{}")
    }

    /// The whole message as it came.
    pub fn line(&self) -> &SharedText {
        &self.line
    }
}

/// A request of the peer. It is answered exactly once: dropped without an answer, it is answered with an error, unless
/// it is [left open](IncomingRequest::leave_open).
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
    /// The id.
    pub fn id(&self) -> &RequestId<'static> {
        &self.id
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The JSON text of the parameters; an empty object where there are none.
    pub fn params(&self) -> &str {
        self.params.as_deref().unwrap_or("{}")
    }

    /// The whole message as it came.
    pub fn line(&self) -> &SharedText {
        &self.line
    }

    /// Tells when the peer takes the request back. It must be answered all the same.
    pub fn cancellation(&self) -> Cancellation {
        self.cancellation.clone()
    }

    /// Answers with a result.
    pub async fn respond(mut self, result: impl Into<Json<'_>>) -> Result<(), Error> {
        let line = result_line(&self.id, result.into().as_str());
        self.send(line).await
    }

    /// Answers with a result, without waiting for room where the peer does not read: for small answers that whatever
    /// comes next relies on.
    pub fn respond_at_once(mut self, result: impl Into<Json<'static>>) {
        let line = result_line(&self.id, result.into().as_str());
        if let Some(line) = self.close(line) {
            self.shared.outbox.queue_unbounded(&line);
        }
    }

    /// Whether the peer has taken the request back.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Answers with an error.
    pub async fn fail(mut self, error: &RpcError<'_>) -> Result<(), Error> {
        let line = error_line(&self.id, error);
        self.send(line).await
    }

    /// Answers that the method is not known here.
    pub async fn method_not_found(self) -> Result<(), Error> {
        let error = method_not_found(&self.method);
        self.fail(&error).await
    }

    /// Gives the request up without an answer, because this end of the connection is about to close. The peer learns
    /// that from the closed connection, and can still ask somebody else: an error would be an answer.
    pub fn leave_open(mut self) {
        self.answered = true;
        self.shared.state().requests.incoming.close(&self.id);
    }

    async fn send(&mut self, line: String) -> Result<(), Error> {
        // Marked before the wait: a future that is dropped there has lost the answer, but when the queue is so
        // full that it had to wait, another answer would not get through either.
        let Some(line) = self.close(line) else { return Ok(()) };
        self.shared.send(&line).await.map(drop)
    }

    /// Closes the request and tells what is to be sent: the answer, or all of the batch, or nothing yet.
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

/// Tells when the peer takes a request back.
#[derive(Debug, Clone)]
pub struct Cancellation(pub(crate) watch::Receiver<bool>);

impl Cancellation {
    /// Whether it has.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it does; for ever once the request is answered.
    pub async fn cancelled(&mut self) {
        if self.0.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The answers to the requests of one batch, sent together when the last one is there.
#[derive(Debug)]
pub(crate) struct BatchAnswers(Mutex<(usize, String)>);

impl BatchAnswers {
    /// Answers to so many requests will come.
    pub(crate) fn new(expected: usize) -> Self {
        BatchAnswers(Mutex::new((expected, String::from("["))))
    }

    /// Adds an answer; the whole text when it was the last.
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

/// Something that came and should not have.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Anomaly {
    /// Something that is no message, set aside.
    Noise(Noise),
    /// A line over the limit. A call whose answer it was has failed with that error, a request has been refused.
    TooLong(TooLong),
    /// The stream ended inside a message.
    Unfinished(Noise),
    /// JSON that should be a message and is none. It has been answered with an error unless it is an answer
    /// itself.
    Malformed {
        /// The text.
        line: SharedText,
        /// What is wrong.
        reason: String,
    },
    /// An answer to a call that was given up, dropped.
    LateAnswer {
        /// The id that it names.
        id: RequestId<'static>,
        /// The message.
        line: SharedText,
    },
    /// A further answer to a call, dropped.
    SecondAnswer {
        /// The id that it names.
        id: RequestId<'static>,
        /// The message.
        line: SharedText,
    },
    /// An answer to no call, dropped.
    UnaskedAnswer {
        /// The id that it names.
        id: RequestId<'static>,
        /// The message.
        line: SharedText,
    },
    /// An error that names no request: the peer could not read something that was sent to it.
    ErrorWithoutRequest(RpcError<'static>),
    /// A call of a method that is not known here: refused, where it wants an answer, and dropped.
    UnknownMethod {
        /// The method.
        method: SharedText,
        /// Whether it wants an answer.
        wants_answer: bool,
    },
    /// A request that was refused.
    Refused {
        /// Its id.
        id: RequestId<'static>,
        /// Its method.
        method: SharedText,
        /// Why.
        reason: RequestRefusal,
    },
}

impl Anomaly {
    /// Whether it is something that came instead of a message, and not a message that should not have come.
    pub fn is_no_message(&self) -> bool {
        matches!(self, Anomaly::Noise(_) | Anomaly::TooLong(_) | Anomaly::Unfinished(_))
    }

    /// Whether it is worth a word to a person: not an empty line, nor a notification of somebody's own.
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
            Anomaly::LateAnswer { id, .. } => write!(formatter, "the answer to {id}, which was given up"),
            Anomaly::SecondAnswer { id, .. } => write!(formatter, "a further answer to {id}"),
            Anomaly::UnaskedAnswer { id, .. } => {
                write!(formatter, "an answer to {id}, which nobody asked")
            }
            Anomaly::ErrorWithoutRequest(error) => write!(formatter, "an error for no request: {error}"),
            Anomaly::UnknownMethod { method, .. } => write!(formatter, "the unknown method {method}"),
            Anomaly::Refused { id, method, reason } => {
                write!(formatter, "the request {id} for {method} was refused: {reason}")
            }
        }
    }
}
