//! Descriptions of an agent's protocol errors.

use switchboard_acp::Diagnostic;
use switchboard_peer::Event;

/// Returns the description of an event's protocol error, for either version.
pub(crate) fn of_event(event: &Event) -> Option<String> {
    match event {
        Event::Malformed { reason, .. } => Some(format!("a malformed message: {reason}")),
        Event::Anomaly(anomaly) if anomaly.is_worth_telling() => Some(anomaly.to_string()),
        Event::TooManySessions => Some("the limit of sessions is reached; the update was dropped".to_owned()),
        Event::Update(update) => {
            // A session that cannot be the child of its announcing session.
            let unlinked = |odd: &&Diagnostic| odd.kept && odd.pointer.ends_with("/sessionId");
            let odd = update.diagnostics().iter().find(unlinked)?;
            Some(format!("invalid sub-agent: {odd}"))
        }
        _ => None,
    }
}
