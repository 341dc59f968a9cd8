//! One call and its response.

use std::sync::Arc;
use std::time::Duration;

use switchboard_acp::rpc::{RequestId, RpcError};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::connection::{ConnectionInner, Limit, cancel_line};
use crate::{ClosureCause, Error, SharedText};

/// Time limit of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deadline {
    /// The default of the connection.
    #[default]
    Default,
    /// This long.
    After(Duration),
    /// No limit: until the response arrives or the connection closes.
    Never,
}

/// The peer's response. Both variants are data, not failures of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// JSON text of the result.
    Result(SharedText),
    /// The error.
    Error(RpcError<'static>),
}

impl Answer {
    /// Converts the response to a `Result`.
    pub fn into_result(self) -> Result<SharedText, RpcError<'static>> {
        match self {
            Answer::Result(result) => Ok(result),
            Answer::Error(error) => Err(error),
        }
    }
}

/// A request that has been sent. Dropping it before the response arrives sends a cancellation.
#[derive(Debug)]
pub struct PendingCall {
    shared: Arc<ConnectionInner>,
    id: RequestId<'static>,
    method: String,
    receiver: oneshot::Receiver<Result<Answer, Error>>,
    /// Position of the request's end in the stream. `None` until it is queued.
    position: Option<u64>,
    limit: Option<Limit>,
    cancelled: bool,
    done: bool,
}

impl PendingCall {
    pub(crate) fn new(
        shared: Arc<ConnectionInner>,
        id: RequestId<'static>,
        method: &str,
        receiver: oneshot::Receiver<Result<Answer, Error>>,
        allowed: Option<Duration>,
    ) -> Self {
        let limit = allowed.and_then(limit_after);
        let method = method.to_owned();
        PendingCall { shared, id, method, receiver, position: None, limit, cancelled: false, done: false }
    }

    pub(crate) fn sent(&mut self, position: u64) {
        self.position = Some(position);
    }

    /// Returns the id of the request.
    pub fn id(&self) -> &RequestId<'static> {
        &self.id
    }

    /// Sends a cancellation. The peer may still respond with a result, within the grace time of the options
    /// regardless of the original time limit.
    pub fn cancel(&mut self) {
        if self.cancelled || self.done {
            return;
        }
        self.cancelled = true;
        self.shared.outbox.queue_unbounded(&cancel_line(&self.id));
        // The grace time replaces the original limit, which may be shorter or unlimited.
        self.limit = limit_after(self.shared.options.cancel_grace);
    }

    /// Waits for the response. Cancel safe: can be called again if the future was dropped.
    pub async fn answer(&mut self) -> Result<Answer, Error> {
        if self.done {
            return Err(self.shared.closed_here());
        }
        let limit = self.limit;
        // A response that has arrived wins over a closed connection and over the time limit.
        let outcome = tokio::select! {
            biased;
            outcome = &mut self.receiver => outcome.unwrap_or_else(|_| Err(self.shared.closed_here())),
            cause = self.shared.outbox.lost(self.position.unwrap_or(0)) => {
                Err(Error::Closed(self.shared.closure(cause).await))
            }
            after = sleep_for(limit) => {
                let method = self.method.clone();
                return Err(if self.cancelled {
                    self.give_up();
                    Error::CancelIgnored { method, after }
                } else {
                    self.give_up();
                    Error::DeadlinePassed { method, after }
                });
            }
        };
        self.done = true;
        self.shared.state().requests.outgoing.abandon(&self.id);
        outcome
    }

    /// Abandons the request and sends a cancellation if the peer has the request and no cancellation was sent
    /// yet.
    fn give_up(&mut self) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        let waited = self.shared.state().requests.outgoing.abandon(&self.id).is_some();
        // No cancellation for a request that was never queued: the peer would not know its id.
        if waited && !self.cancelled && self.position.is_some() {
            self.shared.outbox.queue_unbounded(&cancel_line(&self.id));
        }
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl ConnectionInner {
    fn closed_here(&self) -> Error {
        Error::Closed(Arc::new(crate::Closure { cause: ClosureCause::ClosedHere, process: None }))
    }
}

/// Returns `None` for a time beyond the range of the clock.
fn limit_after(after: Duration) -> Option<Limit> {
    Some(Limit { at: Instant::now().checked_add(after)?, after })
}

async fn sleep_for(limit: Option<Limit>) -> Duration {
    match limit {
        Some(limit) => {
            sleep_until(limit.at).await;
            limit.after
        }
        None => std::future::pending().await,
    }
}
