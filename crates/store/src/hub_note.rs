//! Applies hub records about the questions of a session to the session engine.

use switchboard_acp::extensions::{Author, HubRecord};
use switchboard_acp::{Field, Moment};
use switchboard_session::{Conversation, Decider};

/// Applies a [`HubRecord`] of [`Channel::Hub`](crate::Channel::Hub) to a conversation: the author of an
/// answer, which precedes the answer; a question without an answer; a prompt that never reached its agent;
/// the agent's new id for a session. Returns true if it changed anything.
pub fn apply_hub_note(conversation: &mut Conversation, note: &str, at: Moment) -> bool {
    match HubRecord::parse(note) {
        // The agent lost the session and opened another one in its place.
        Some(HubRecord::AgentSession(record)) => {
            let before = record.was.as_deref();
            before.is_some_and(|before| conversation.continue_as(before, &record.id) == Ok(true))
        }
        // The agent had closed its input. The prompt is sent again to the next agent process.
        Some(HubRecord::PromptUndelivered(record)) => {
            record.request.inspect(|request| conversation.forget_call(request, true)).is_some()
        }
        Some(HubRecord::Answered(record)) => match (record.request, record.by.as_ref().and_then(answerer)) {
            (Some(request), Some(by)) => conversation.name_answerer(&request, by),
            _ => false,
        },
        Some(HubRecord::Unanswered(record)) => record.request.is_some_and(|request| {
            let reason = record.reason.map_or_else(String::new, |reason| format!(" ({reason})"));
            conversation.dismiss(&request, Decider::Other(format!("hub{reason}").into()), at).is_ok()
        }),
        _ => false,
    }
}

/// Returns the rule that answered, or the token's name and the client that used it.
fn answerer(by: &Author<'_>) -> Option<Decider> {
    match &by.policy {
        Field::Set(rule) => return Some(Decider::Rule((&**rule).into())),
        Field::Clear => return Some(Decider::Other("policy".into())),
        Field::Keep => {}
    }
    if let Some(person) = &by.person {
        return Some(Decider::from(&**person));
    }
    let token = by.token.as_ref()?;
    if by.decider.as_deref() == Some("remembered") {
        return Some(Decider::Remembered);
    }
    let program: Vec<_> =
        [&by.client, &by.version].into_iter().flatten().filter(|part| !part.is_empty()).collect();
    let program: Vec<&str> = program.into_iter().map(|part| &**part).collect();
    let program = if program.is_empty() { String::new() } else { format!(" ({})", program.join(" ")) };
    Some(Decider::Other(format!("{token}{program}").into()))
}
