//! One call and its answer.

use std::sync::Arc;
use std::time::Duration;

use switchboard_acp::rpc::{RequestId, RpcError};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::connection::{ConnectionInner, Limit, cancel_line};
use crate::{ClosureCause, Error, SharedText};

/// How long a call waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deadline {
    /// As long as the options of the connection say.
    #[default]
    Default,
    /// So long.
    After(Duration),
    /// Until the answer comes or the connection closes.
    Never,
}

/// What the peer answered: both forms are data, none is a failure of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The JSON text of the result.
    Result(SharedText),
    /// The error.
    Error(RpcError<'static>),
}

impl Answer {
    /// The answer as a `Result`, for the question mark.
    pub fn into_result(self) -> Result<SharedText, RpcError<'static>> {
        match self {
            Answer::Result(result) => Ok(result),
            Answer::Error(error) => Err(error),
        }
    }
}

/// A request that has been sent. Dropped before the answer came, it tells the peer to cancel.
#[derive(Debug)]
pub struct PendingCall {
    shared: Arc<ConnectionInner>,
    id: RequestId<'static>,
    method: String,
    receiver: oneshot::Receiver<Result<Answer, Error>>,
    /// Where the request ends in the stream; `None` while it is not queued.
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

    /// The id of the request.
    pub fn id(&self) -> &RequestId<'static> {
        &self.id
    }

    /// Asks the peer to give up the request. It may still answer with a result; it gets the grace time of the
    /// options for it, however long the deadline was.
    pub fn cancel(&mut self) {
        if self.cancelled || self.done {
            return;
        }
        self.cancelled = true;
        self.shared.outbox.queue_unbounded(&cancel_line(&self.id));
        self.limit = limit_after(self.shared.options.cancel_grace);
    }

    /// Waits for the answer. When the future is dropped before it came, it can be asked for again.
    pub async fn answer(&mut self) -> Result<Answer, Error> {
        if self.done {
            return Err(self.shared.closed_here());
        }
        let limit = self.limit;
        let outcome = tokio::select! {
            biased;
            outcome = &mut self.receiver => outcome.unwrap_or_else(|_| Err(self.shared.closed_here())),
            cause = self.shared.outbox.lost(self.position.unwrap_or(0)) => {
                Err(Error::Closed(self.shared.closure(cause).await))
            }
            after = pass(limit) => {
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

    /// Forgets the request and, where the peer has it and was not told yet, tells it.
    fn give_up(&mut self) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        let waited = self.shared.state().requests.outgoing.abandon(&self.id).is_some();
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

/// `None` for a time so far away that no clock shows it.
fn limit_after(after: Duration) -> Option<Limit> {
    Some(Limit { at: Instant::now().checked_add(after)?, after })
}

async fn pass(limit: Option<Limit>) -> Duration {
    match limit {
        Some(limit) => {
            sleep_until(limit.at).await;
            limit.after
        }
        None => std::future::pending().await,
    }
}
