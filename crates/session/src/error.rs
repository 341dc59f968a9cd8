use switchboard_acp::DecodeError;
use switchboard_acp::rpc::RequestId;

use crate::form::FormFault;

/// Error of a session operation. Updates never fail: every decoded update can be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The session has no request with this id.
    #[error("no request with id {id}")]
    NoSuchRequest {
        /// The id given.
        id: RequestId<'static>,
    },
    /// The request was already answered or cancelled. A late answer is dropped.
    #[error("request {id} is already answered or cancelled")]
    AlreadySettled {
        /// Id of the request.
        id: RequestId<'static>,
    },
    /// Another question with this id is pending. The new one is ignored.
    #[error("request id {id} is in use by a pending request")]
    IdInUse {
        /// The id.
        id: RequestId<'static>,
    },
    /// The answer names an option that was not offered, so it is not an approval. The request stays pending.
    #[error("permission request {id} does not offer the option {option_id:?}")]
    OptionNotOffered {
        /// Id of the request.
        id: RequestId<'static>,
        /// The option named by the answer.
        option_id: Box<str>,
    },
    /// The answer does not match the form. The request stays pending.
    #[error("the answer to {id} does not match the form: {}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    DoesNotFit {
        /// Id of the request.
        id: RequestId<'static>,
        /// Errors by field.
        faults: Vec<FormFault>,
    },
    /// A stored session has an unsupported version.
    #[error("cannot read a stored session of version {version}; update Switchboard")]
    UnknownVersion {
        /// The version found.
        version: u32,
    },
    /// Part of a stored session is invalid.
    #[error("the stored session is damaged in {place}")]
    Damaged {
        /// The part.
        place: &'static str,
        /// Reason.
        #[source]
        source: Option<DecodeError>,
    },
}
