//! Errors of a translation.

use switchboard_acp::DecodeError;
use switchboard_acp::rpc::{RpcError, codes};

/// A message that cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The other version cannot express an element of the message.
    #[error("{element}: {reason}")]
    Unrepresentable {
        /// The part of the message.
        element: String,
        /// The reason.
        reason: String,
    },
    /// The message does not match the schema of its method.
    #[error("malformed: {0}")]
    Malformed(#[from] DecodeError),
    /// The receiver does not have the method.
    #[error("method {method}: {reason}")]
    MethodMissing {
        /// Name of the method.
        method: String,
        /// The reason.
        reason: String,
    },
}

impl Error {
    #[allow(clippy::needless_pass_by_value, reason = "a name or a path")]
    pub(crate) fn unrepresentable(element: impl ToString, reason: impl Into<String>) -> Self {
        Error::Unrepresentable { element: element.to_string(), reason: reason.into() }
    }

    /// Returns the JSON-RPC error for the sender of the request.
    pub fn to_rpc(&self) -> RpcError<'static> {
        let code = match self {
            Error::Unrepresentable { .. } | Error::Malformed(_) => codes::INVALID_PARAMS,
            Error::MethodMissing { .. } => codes::METHOD_NOT_FOUND,
        };
        RpcError::new(code, self.to_string())
    }
}
