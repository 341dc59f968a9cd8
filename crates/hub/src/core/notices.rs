//! Notices for clients of `session/attach`: which client prompted, and which one answered a question. They are not in
//! the log. For a session of another hub they are derived from the records of that hub.

use serde_json::{Value, json};
use switchboard_acp::Raw;
use switchboard_acp::extensions::Author;

use super::ConnectionId;
use super::session_state::Question;

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
    pub(super) by: Author<'static>,
    pub(super) operation: Option<String>,
}

/// An action of a client of this hub in a session of another hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClientAction {
    /// A prompt with this idempotency key.
    Prompt(String),
    /// The answer to the question at this offset.
    Answer(u64),
}
