//! What is odd about what an agent does.

use switchboard_acp::Diagnostic;
use switchboard_peer::Event;

/// What is odd about something that an agent did, whichever version it speaks.
pub(crate) fn of_event(event: &Event) -> Option<String> {
    match event {
        Event::Malformed { reason, .. } => Some(format!("a malformed message: {reason}")),
        Event::Anomaly(anomaly) if anomaly.is_worth_telling() => Some(anomaly.to_string()),
        Event::TooManySessions => {
            Some("the agent talks of too many sessions; the update was dropped".to_owned())
        }
        Event::Update(update) => {
            // A session that cannot be the child of the one that tells so.
            let unlinked = |odd: &&Diagnostic| odd.kept && odd.pointer.ends_with("/sessionId");
            let odd = update.diagnostics().iter().find(unlinked)?;
            Some(format!("a sub-agent that does not fit: {odd}"))
        }
        _ => None,
    }
}
