use switchboard_acp::DecodeError;
use switchboard_acp::rpc::RequestId;

use crate::form::FormFault;

/// Why something asked of a session cannot be done. Updates never fail: whatever was decoded applies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// No request with this id was made in the session.
    #[error("there is no request {id}")]
    NoSuchRequest {
        /// The id asked for.
        id: RequestId<'static>,
    },
    /// The request has been answered or taken back before; what comes late is dropped.
    #[error("the request {id} is settled already")]
    AlreadySettled {
        /// The request.
        id: RequestId<'static>,
    },
    /// Another question with this id waits for its answer. The new one is none.
    #[error("the id {id} is in use by a request that is not answered yet")]
    IdInUse {
        /// The id.
        id: RequestId<'static>,
    },
    /// The answer names an option that was not offered, so it is no approval. The request stays open.
    #[error("the permission {id} has no option {option_id:?}")]
    OptionNotOffered {
        /// The request.
        id: RequestId<'static>,
        /// The option that the answer names.
        option_id: Box<str>,
    },
    /// The answer to a form does not fit the form. The request stays open.
    #[error("the answer to {id} does not fit: {}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    DoesNotFit {
        /// The request.
        id: RequestId<'static>,
        /// What is wrong, field by field.
        faults: Vec<FormFault>,
    },
    /// A stored session is of a version that this library does not read.
    #[error("a stored session of version {version} cannot be read")]
    UnknownVersion {
        /// The version found.
        version: u32,
    },
    /// Part of a stored session is not what it should be.
    #[error("the stored session is damaged in {place}")]
    Damaged {
        /// Which part.
        place: &'static str,
        /// What is wrong there.
        #[source]
        source: Option<DecodeError>,
    },
}
