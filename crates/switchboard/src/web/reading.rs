//! What single messages say, read as a good client does: what is malformed and optional is left out.

use switchboard_protocol::rpc::{Expected, Message};
use switchboard_protocol::{Diagnostic, Wire, WireFormat, v2};
use switchboard_session::{Conversation, ConversationError, EntryKind, Moment, Side, Step};
use switchboard_store::Channel;

/// What a line did to the sessions.
pub(crate) enum Folded {
    Step { step: Option<Step>, entity: Option<(EntryKind, String)>, problem: Option<String> },
    Refused(String),
}

impl Folded {
    fn of(folded: Result<switchboard_session::Folded<'_>, ConversationError>) -> Self {
        match folded {
            Ok(switchboard_session::Folded { step, entry, left_out, .. }) => Folded::Step {
                step,
                entity: entry.map(|(kind, id)| (kind, id.into_owned())),
                problem: in_words(&left_out),
            },
            Err(reason) => Folded::Refused(reason.to_string()),
        }
    }
}

/// Folds one message.
pub(crate) fn fold(conversation: &mut Conversation, side: Side, text: &str, at: Moment) -> Folded {
    Folded::of(conversation.read(text, Some(side), at))
}

/// What can be told of a message whose sessions are folded elsewhere: what a question is about, and what is wrong with it.
pub(super) fn read_question(text: &str) -> Folded {
    let told = Folded::Step { step: None, entity: None, problem: None };
    let Ok(message) = Message::decode(text, WireFormat::Any) else { return told };
    let Message::Request(request) = &message else { return told };
    let read = match &*request.method {
        "session/request_permission" => {
            v2::RequestPermissionRequest::decode_tolerant(request.params_text(), WireFormat::Any)
                .map(|(_, diagnostics)| diagnostics)
        }
        "elicitation/create" => {
            v2::CreateElicitationRequest::decode_tolerant(request.params_text(), WireFormat::Any)
                .map(|(_, diagnostics)| diagnostics)
        }
        _ => return told,
    };
    match read {
        Ok(diagnostics) => {
            Folded::Step { step: None, entity: asked_entity(&message), problem: in_words(&diagnostics) }
        }
        Err(reason) => Folded::Refused(reason.to_string()),
    }
}

fn in_words(diagnostics: &[Diagnostic]) -> Option<String> {
    let each: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    (!each.is_empty()).then(|| each.join("; "))
}

/// An update of a session, read as a good client does.
pub(super) struct Update<'t> {
    pub(super) notification: v2::UpdateSessionNotification<'t>,
    /// What is wrong with it and left out.
    pub(super) problem: Option<String>,
}

impl<'t> Update<'t> {
    /// `None` when it is something else, or cannot be read.
    pub(super) fn read(text: &'t str) -> Option<Self> {
        let read = Expected::<v2::UpdateSessionNotification<'t>>::decode_tolerant(text, WireFormat::Any);
        let Ok((Expected::Params(notification), diagnostics)) = read else { return None };
        Some(Update { notification, problem: in_words(&diagnostics) })
    }

    pub(super) fn apply(self, conversation: &mut Conversation) -> Folded {
        let Update { notification, problem } = self;
        match Folded::of(conversation.apply_update(Some(&notification.session_id), &notification.update)) {
            Folded::Step { step, entity, .. } => Folded::Step { step, entity, problem },
            refused @ Folded::Refused(_) => refused,
        }
    }
}

/// The tool call that a permission is about.
fn asked_entity(message: &Message<'_>) -> Option<(EntryKind, String)> {
    let Message::Request(request) = message else { return None };
    if request.method != "session/request_permission" {
        return None;
    }
    let subject = request.params.as_ref()?.get("subject")?;
    let call = subject.get("toolCall")?;
    let id = call.get("toolCallId")?;
    Some((EntryKind::ToolCall, id.as_text()?.into_owned()))
}

/// Who sent a message, and whether on the other side of a translation.
pub(crate) fn sender(channel: Channel) -> Option<(Side, bool)> {
    match channel {
        Channel::ToAgent => Some((Side::Client, false)),
        Channel::ToClient => Some((Side::Agent, false)),
        Channel::OtherToAgent => Some((Side::Client, true)),
        Channel::OtherToClient => Some((Side::Agent, true)),
        _ => None,
    }
}
