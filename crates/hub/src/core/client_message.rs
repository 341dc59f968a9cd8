//! Messages of clients, decoded once.

use std::sync::Arc;

use switchboard_acp::rpc::{Message, Notification, Request};
use switchboard_acp::{DecodeError, Raw, Wire, WireFormat};

use super::lines::{self, Rewrite};

/// A message of a client with its text. It may have to wait, or be sent to another hub, and is not decoded again then.
/// Clones share the text and the message.
#[derive(Debug, Clone)]
pub(super) struct ClientMessage {
    text: Arc<str>,
    message: Arc<Message<'static>>,
}

impl ClientMessage {
    /// Decodes a message.
    pub(super) fn decode(text: Arc<str>) -> Result<Self, DecodeError> {
        let message = Message::decode(&text, WireFormat::Any)?.into_owned();
        Ok(ClientMessage { text, message: Arc::new(message) })
    }

    /// Returns the text as it was received.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the decoded message.
    pub(super) fn message(&self) -> &Message<'static> {
        &self.message
    }

    /// Returns the request, if the message is one.
    pub(super) fn request(&self) -> Option<&Request<'static>> {
        match &*self.message {
            Message::Request(request) => Some(request),
            Message::Notification(_) | Message::Response(_) => None,
        }
    }

    /// Returns the parameters of a request or notification; `None` for a response.
    pub(super) fn params(&self) -> Option<Option<&Raw<'static>>> {
        match &*self.message {
            Message::Request(Request { params, .. }) | Message::Notification(Notification { params, .. }) => {
                Some(params.as_ref())
            }
            Message::Response(_) => None,
        }
    }

    /// Returns the request or notification with other parameters. A response has none and remains as it is.
    pub(super) fn with_params(&self, params: Raw<'static>) -> Self {
        let mut message = (*self.message).clone();
        let text = match &mut message {
            Message::Request(Request { id, method, params: own, .. }) => {
                let own = own.insert(params);
                lines::call(Some(id), method, Some(own), Rewrite::default())
            }
            Message::Notification(Notification { method, params: own, .. }) => {
                let own = own.insert(params);
                lines::call(None, method, Some(own), Rewrite::default())
            }
            Message::Response(_) => return self.clone(),
        };
        ClientMessage { text: text.into(), message: Arc::new(message) }
    }
}
