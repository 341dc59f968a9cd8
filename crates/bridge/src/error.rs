//! Why a translation is not possible.

use switchboard_acp::DecodeError;
use switchboard_acp::rpc::{RpcError, codes};

/// Why something cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The other version has no way to say it.
    #[error("{element}: {reason}")]
    Unrepresentable {
        /// The part of the message.
        element: String,
        /// Why it cannot be said.
        reason: String,
    },
    /// The message is not what its method wants.
    #[error("malformed: {0}")]
    Malformed(#[from] DecodeError),
    /// The method does not exist at the receiver.
    #[error("method {method}: {reason}")]
    MethodMissing {
        /// The method.
        method: String,
        /// Why there is nothing to call.
        reason: String,
    },
}

impl Error {
    #[allow(clippy::needless_pass_by_value, reason = "a name or a place, whichever is at hand")]
    pub(crate) fn unrepresentable(element: impl ToString, reason: impl Into<String>) -> Self {
        Error::Unrepresentable { element: element.to_string(), reason: reason.into() }
    }

    /// The error that the one who asked gets.
    pub fn to_rpc(&self) -> RpcError<'static> {
        let code = match self {
            Error::Unrepresentable { .. } | Error::Malformed(_) => codes::INVALID_PARAMS,
            Error::MethodMissing { .. } => codes::METHOD_NOT_FOUND,
        };
        RpcError::new(code, self.to_string())
    }
}
