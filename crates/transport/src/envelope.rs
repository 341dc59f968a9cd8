//! Lines to messages that own their text, and what can be said of lines that are none.

use switchboard_acp::rpc::{Glimpse, Message, RequestId, RpcError};
use switchboard_acp::{Raw, Wire, WireFormat};

use crate::SharedText;

/// A call or an answer, with its parts in the buffer of the line.
#[derive(Debug)]
pub(crate) enum Envelope {
    Request { id: RequestId<'static>, method: SharedText, params: Option<SharedText> },
    Notification { method: SharedText, params: Option<SharedText> },
    Response { id: RequestId<'static>, outcome: Result<SharedText, RpcError<'static>> },
}

/// Why a line is no message, and what can be told of it all the same.
#[derive(Debug)]
pub(crate) struct Unreadable {
    /// Whether it is not even JSON.
    pub(crate) syntax: bool,
    pub(crate) reason: String,
    pub(crate) glimpse: Glimpse,
}

impl Envelope {
    pub(crate) fn read(text: &SharedText) -> Result<Self, Unreadable> {
        let part = |raw: Raw<'_>| text.part_or_copy(raw.as_str());
        match Message::decode(text, WireFormat::Any) {
            Ok(Message::Notification(call)) => Ok(Envelope::Notification {
                method: text.part_or_copy(&call.method),
                params: call.params.map(part),
            }),
            Ok(Message::Request(call)) => Ok(Envelope::Request {
                id: call.id.into_owned(),
                method: text.part_or_copy(&call.method),
                params: call.params.map(part),
            }),
            Ok(Message::Response(answer)) => Ok(Envelope::Response {
                id: answer.id.into_owned(),
                outcome: answer.outcome.map(part).map_err(Wire::into_owned),
            }),
            Err(error) => Err(Unreadable {
                // Reading stops at the first fault, which may stand before the place where it is no JSON.
                syntax: error.is_syntax() || Raw::parse(text.as_str()).is_err(),
                reason: error.to_string(),
                glimpse: Glimpse::of(text),
            }),
        }
    }
}
