//! Notices for clients of `session/attach`: which client prompted, and which one answered a question. They are not in
//! the log. For a session of another hub they are derived from the records of that hub.

use serde_json::{Value, json};
use switchboard_acp::extensions::{Author, HubRecord, PromptRecord, QuestionRecord};
use switchboard_acp::rpc::Message;
use switchboard_acp::{Raw, Wire, WireFormat};
use switchboard_store::Channel;
use switchboard_transport::SharedText;

use super::session_state::Question;
use super::{ConnectionId, Core, SessionId, lines};

/// Returns the notice that a prompt was received.
pub(super) fn received(prompt: Option<&Raw<'_>>, by: &Author<'_>, from: Option<ConnectionId>) -> Value {
    let prompt = prompt.map(Raw::to_value);
    json!({"sessionUpdate": "prompt_received", "prompt": prompt, "sentBy": sender(by, from)})
}

/// Returns the notice that a question was answered.
pub(super) fn resolved(
    question: &Question,
    outcome: &Value,
    by: &Author<'_>,
    from: Option<ConnectionId>,
) -> Value {
    let call = question.params.to_value().pointer("/subject/toolCall/toolCallId").cloned();
    let mut sender = sender(by, from);
    if by.is_policy() {
        sender["policy"] = json!(by.policy.value());
    }
    json!({
        "sessionUpdate": "permission_resolved", "toolCallId": call,
        "chosenOptionId": outcome.pointer("/result/outcome/optionId"), "resolvedBy": sender,
    })
}

fn sender(by: &Author<'_>, from: Option<ConnectionId>) -> Value {
    json!({"clientId": from.map(|from| from.to_string()), "name": by.client, "version": by.version})
}

/// A prompt that another hub has announced in a record. Its text is in the next one.
#[derive(Debug)]
pub(super) struct AnnouncedPrompt {
    by: Author<'static>,
    operation: Option<String>,
}

/// An action of a client of this hub in a session of another hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClientAction {
    /// A prompt with this idempotency key.
    Prompt(String),
    /// The answer to the question at this offset.
    Answer(u64),
}

impl Core {
    /// Sends a notice to the clients of a session that understand notices.
    pub(super) fn notice(&mut self, id: &SessionId, update: &Value, except: Option<ConnectionId>) {
        let text: SharedText = lines::update(id, &update.to_string()).into();
        for connection in self.notice_subscribers(id) {
            if Some(connection) != except {
                self.cx.outbox.send(connection, text.clone(), Some(id));
            }
        }
    }

    fn notice_subscribers(&self, id: &SessionId) -> Vec<ConnectionId> {
        let attached =
            self.sessions.get(id).into_iter().flat_map(|session| session.subscribers.iter().copied());
        let knows = |connection: &ConnectionId| {
            let subscription =
                self.cx.clients.connections.get(connection).and_then(|client| client.subscriptions.get(id));
            subscription.is_some_and(|subscription| subscription.wants_notices)
        };
        attached.filter(knows).collect()
    }

    /// Returns the notice for a record of another hub. Must be called before the record is applied.
    pub(super) fn notice_of_record(
        &mut self,
        id: &SessionId,
        channel: Channel,
        text: &str,
    ) -> Option<(Value, Option<ConnectionId>)> {
        let announced = self.sessions.get_mut(id)?.announced.take();
        if self.notice_subscribers(id).is_empty() {
            return None;
        }
        match channel {
            Channel::Hub => match HubRecord::parse(text)?.into_owned() {
                HubRecord::Prompt(PromptRecord { by, operation, .. }) => {
                    let by = by.unwrap_or_else(Author::new);
                    let announced = AnnouncedPrompt { by, operation: operation.map(Into::into) };
                    self.sessions.get_mut(id)?.announced = Some(announced);
                    None
                }
                HubRecord::Answered(QuestionRecord { question: Some(offset), outcome, by, .. }) => {
                    let outcome = outcome.map(|outcome| outcome.to_value()).unwrap_or_default();
                    let by = by.unwrap_or_else(Author::new);
                    let update = resolved(self.question(id, offset)?, &outcome, &by, None);
                    Some((update, self.cx.cluster.take_action(id, &ClientAction::Answer(offset))))
                }
                _ => None,
            },
            Channel::ToAgent => {
                let AnnouncedPrompt { by, operation } = announced?;
                let Ok(Message::Request(request)) = Message::decode(text, WireFormat::Any) else {
                    return None;
                };
                let prompt = request.params.as_ref().and_then(|params| params.get("prompt"));
                let update = received(prompt.as_ref(), &by, None);
                let from =
                    operation.and_then(|name| self.cx.cluster.take_action(id, &ClientAction::Prompt(name)));
                Some((update, from))
            }
            _ => None,
        }
    }
}
