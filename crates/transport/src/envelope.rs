//! Parses lines into messages that own their text, and inspects invalid lines.

use switchboard_acp::rpc::{Glimpse, Message, RequestId, RpcError};
use switchboard_acp::{Raw, Wire, WireFormat};

use crate::SharedText;

/// A request, notification or response, with parts that share the buffer of the line.
#[derive(Debug)]
pub(crate) enum Envelope {
    Request { id: RequestId<'static>, method: SharedText, params: Option<SharedText> },
    Notification { method: SharedText, params: Option<SharedText> },
    Response { id: RequestId<'static>, outcome: Result<SharedText, RpcError<'static>> },
}

/// Reason why a line is not a message, and the fields that could be read from it.
#[derive(Debug)]
pub(crate) struct InvalidLine {
    /// True if it is not valid JSON.
    pub(crate) syntax: bool,
    pub(crate) reason: String,
    pub(crate) glimpse: Glimpse,
}

impl Envelope {
    pub(crate) fn read(text: &SharedText) -> Result<Self, InvalidLine> {
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
            Err(error) => Err(InvalidLine {
                // Parsing stops at the first error, which may precede the invalid JSON.
                syntax: error.is_syntax() || Raw::parse(text.as_str()).is_err(),
                reason: error.to_string(),
                glimpse: Glimpse::of(text),
            }),
        }
    }
}
