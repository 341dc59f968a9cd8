//! What can go wrong in either role.

use std::fmt;

use switchboard_acp::DecodeError;
use switchboard_acp::rpc::{RequestId, RpcError, codes};
use switchboard_session::SessionError;

/// Why something could not be done.
///
/// An error that the peer answers is data, which a [`Reply`](crate::Reply) has inside; whoever does not care for the
/// difference writes `??`, in a function that returns this error or any.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection failed: closed, no answer in time, or the agent's program could not be started.
    #[error(transparent)]
    Transport(#[from] switchboard_transport::Error),
    /// An error as JSON-RPC has it: one that the peer answered, or that an agent's author wants it to be answered.
    #[error(transparent)]
    Rpc(#[from] RpcError<'static>),
    /// The peer answered, but not as the method's result should be.
    #[error("the answer to {method} cannot be read: {reason}")]
    BadAnswer {
        /// The method that was called.
        method: &'static str,
        /// What is wrong with the answer.
        reason: DecodeError,
    },
    /// The agent refused to open a connection, in both versions of the protocol.
    #[error("the agent refuses to initialize: {0}")]
    NotInitialized(RpcError<'static>),
    /// The agent chose a version that nobody here speaks.
    #[error("the agent wants to speak version {0} of the protocol, which is not known here")]
    UnknownVersion(u64),
    /// The question was answered or taken back before.
    #[error("the question {id} is settled already")]
    AlreadySettled {
        /// The request that asked it.
        id: RequestId<'static>,
    },
    /// The answer to a question is not one that the question allows.
    #[error(transparent)]
    NotAllowed(SessionError),
    /// The turn is over: nothing can be said in it any more.
    #[error("the turn is over")]
    TurnOver,
    /// The session is closed: nothing can be said in it any more.
    #[error("the session {0} is closed")]
    SessionClosed(String),
    /// What is to be sent breaks a rule of the protocol.
    #[error("{0}")]
    BrokenRule(String),
}

impl Error {
    /// An agent's work failed, for a reason that the user is told: for errors of other crates, behind `map_err`.
    pub fn failed(reason: impl fmt::Display) -> Self {
        Error::Rpc(RpcError::new(codes::INTERNAL_ERROR, reason.to_string()))
    }

    /// A value that breaks the rule of its type.
    #[allow(clippy::needless_pass_by_value, reason = "it stands behind `map_err`")]
    pub(crate) fn rule(error: DecodeError) -> Self {
        Error::BrokenRule(error.to_string())
    }
}

impl From<SessionError> for Error {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::AlreadySettled { id } => Error::AlreadySettled { id },
            other => Error::NotAllowed(other),
        }
    }
}

/// What the other side is told.
impl From<Error> for RpcError<'static> {
    fn from(error: Error) -> Self {
        match error {
            Error::Rpc(error) => error,
            other => RpcError::new(codes::INTERNAL_ERROR, other.to_string()),
        }
    }
}
