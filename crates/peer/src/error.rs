//! Errors of both roles.

use std::fmt;

use switchboard_acp::DecodeError;
use switchboard_acp::rpc::{RequestId, RpcError, codes};
use switchboard_session::SessionError;

/// An error of a client or agent operation.
///
/// An error response of the peer is data, which a [`Reply`](crate::Reply) has inside. Use `??` to treat both
/// alike.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection failed: it was closed, a response timed out, or the agent's program could not be
    /// started.
    #[error(transparent)]
    Transport(#[from] switchboard_transport::Error),
    /// A JSON-RPC error: a response of the peer, or an error that an agent's author wants to send.
    #[error(transparent)]
    Rpc(#[from] RpcError<'static>),
    /// The result in a response does not match its method.
    #[error("cannot read the response to {method}: {reason}")]
    BadAnswer {
        /// The method that was called.
        method: &'static str,
        /// The decoding error.
        reason: DecodeError,
    },
    /// The agent refused the handshake in both versions of the protocol.
    #[error("the agent refused the handshake: {0}")]
    NotInitialized(RpcError<'static>),
    /// The agent chose an unsupported version.
    #[error("the agent requests protocol version {0}, which is not supported")]
    UnknownVersion(u64),
    /// The question was already answered or cancelled.
    #[error("the question {id} is already settled")]
    AlreadySettled {
        /// The id of the request.
        id: RequestId<'static>,
    },
    /// The answer does not match the question.
    #[error(transparent)]
    NotAllowed(SessionError),
    /// The turn is over: no more updates can be sent in it.
    #[error("the turn is over")]
    TurnOver,
    /// The session is closed: no more updates can be sent in it.
    #[error("the session {0} is closed")]
    SessionClosed(String),
    /// The message to send breaks a rule of the protocol.
    #[error("{0}")]
    BrokenRule(String),
}

impl Error {
    /// Creates the error of failed work, with a reason that is shown to the user. For use with `map_err`.
    pub fn failed(reason: impl fmt::Display) -> Self {
        Error::Rpc(RpcError::new(codes::INTERNAL_ERROR, reason.to_string()))
    }

    /// Creates the error for a value that breaks the rule of its type.
    #[allow(clippy::needless_pass_by_value, reason = "for use with `map_err`")]
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

/// Converts an error to a response for the other side.
impl From<Error> for RpcError<'static> {
    fn from(error: Error) -> Self {
        match error {
            Error::Rpc(error) => error,
            other => RpcError::new(codes::INTERNAL_ERROR, other.to_string()),
        }
    }
}
