//! What those clients are told beside the log that know such notices: who prompted, who answered. Where another hub writes the
//! session it is read from what that wrote down.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_acp::extensions::{Author, HubRecord, PromptRecord, QuestionRecord};
use switchboard_acp::rpc::Message;
use switchboard_acp::{Raw, Wire, WireFormat};
use switchboard_store::Channel;
use switchboard_transport::SharedText;

use super::memory::Question;
use super::{ConnectionId, Core, SessionId, lines};

/// How much of what clients here have wanted of other hubs is remembered, to tell their own notices from others'.
const ACTS: usize = 1024;

/// A prompt has come.
pub(super) fn received(prompt: Option<&Raw<'_>>, by: &Author<'_>, from: Option<ConnectionId>) -> Value {
    let prompt = prompt.map(Raw::to_value);
    json!({"sessionUpdate": "prompt_received", "prompt": prompt, "sentBy": sender(by, from)})
}

/// A question has its answer.
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

/// A prompt that another hub has written down, and whose text comes next.
#[derive(Debug)]
pub(super) struct Announced {
    by: Author<'static>,
    operation: Option<String>,
}

/// Something that a client here has wanted of another hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// The prompt of this name.
    Prompt(String),
    /// The answer to the question at this place.
    Answer(u64),
}

impl Core {
    /// Tells something to those clients of a session that know such notices.
    pub(super) fn notice(&mut self, id: &SessionId, update: &Value, except: Option<ConnectionId>) {
        let text: SharedText = lines::update(id, &update.to_string()).into();
        for connection in self.who_know_notices(id) {
            if Some(connection) != except {
                self.send(connection, text.clone(), Some(id));
            }
        }
    }

    fn who_know_notices(&self, id: &SessionId) -> Vec<ConnectionId> {
        let attached = self.sessions.get(id).into_iter().flat_map(|session| session.attached.iter().copied());
        let knows = |connection: &ConnectionId| {
            let attachment = self.connections.get(connection).and_then(|client| client.attachments.get(id));
            attachment.is_some_and(|attachment| attachment.knows_notices)
        };
        attached.filter(knows).collect()
    }

    /// A client here wants something of a session that another hub writes: it is not told of it as of another's.
    pub(super) fn acted(&mut self, id: &SessionId, act: Act, connection: ConnectionId) {
        let acts = &mut self.sharing.acts;
        if acts.len() >= ACTS {
            acts.pop_front();
        }
        acts.push_back((Arc::clone(id), act, connection));
    }

    fn whose(&mut self, id: &SessionId, act: &Act) -> Option<ConnectionId> {
        let acts = &mut self.sharing.acts;
        let place = acts.iter().position(|(session, known, _)| session == id && known == act)?;
        acts.remove(place).map(|(.., connection)| connection)
    }

    /// What a record that another hub has written says to those who know notices. It is asked before the record counts.
    pub(super) fn notice_in(
        &mut self,
        id: &SessionId,
        channel: Channel,
        text: &str,
    ) -> Option<(Value, Option<ConnectionId>)> {
        let announced = self.sessions.get_mut(id)?.announced.take();
        if self.who_know_notices(id).is_empty() {
            return None;
        }
        match channel {
            Channel::Hub => match HubRecord::parse(text)?.into_owned() {
                HubRecord::Prompt(PromptRecord { by, operation, .. }) => {
                    let by = by.unwrap_or_else(Author::new);
                    let announced = Announced { by, operation: operation.map(Into::into) };
                    self.sessions.get_mut(id)?.announced = Some(announced);
                    None
                }
                HubRecord::Answered(QuestionRecord { question: Some(place), outcome, by, .. }) => {
                    let outcome = outcome.map(|outcome| outcome.to_value()).unwrap_or_default();
                    let by = by.unwrap_or_else(Author::new);
                    let update = resolved(self.question(id, place)?, &outcome, &by, None);
                    Some((update, self.whose(id, &Act::Answer(place))))
                }
                _ => None,
            },
            Channel::ToAgent => {
                let Announced { by, operation } = announced?;
                let Ok(Message::Request(request)) = Message::decode(text, WireFormat::Any) else {
                    return None;
                };
                let prompt = request.params.as_ref().and_then(|params| params.get("prompt"));
                let update = received(prompt.as_ref(), &by, None);
                let from = operation.and_then(|name| self.whose(id, &Act::Prompt(name)));
                Some((update, from))
            }
            _ => None,
        }
    }
}
