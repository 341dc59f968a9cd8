//! What the role of a token allows on the page: one place for every message of a tab.
//!
//! The page is a client of the hub, which checks again what gets there. Here is also what never gets there: files, rules,
//! recordings.

use switchboard_store::Role;

use super::request::Request;

/// Returns the least role that a message of the page needs. Which sessions a token sees is decided by
/// [`Desk::room`](super::desk::Desk::room).
pub(crate) fn needed(request: &Request) -> Role {
    match request {
        // Looking at what can be seen.
        Request::Shown
        | Request::Look { .. }
        | Request::Window { .. }
        | Request::At { rows: None }
        | Request::Fold { .. }
        | Request::Earlier { .. }
        | Request::Wire { window: None, .. }
        | Request::Sessions { .. }
        | Request::Questions { .. }
        | Request::FindOutput { .. }
        // Without the text of the file, unless `Desk::may_read_files`.
        | Request::File { .. }
        | Request::Family
        | Request::Link
        | Request::Copy { .. }
        | Request::Changes
        | Request::Pictures
        | Request::Export { .. } => Role::View,
        // Answering what agents ask.
        Request::Choose { .. }
        | Request::Give { .. }
        | Request::Choices
        | Request::Withdraw { .. }
        | Request::Cancel { .. } => Role::Answer,
        // Starting sessions, and controlling those that can be seen.
        Request::New { .. }
        | Request::Start
        | Request::Attach
        | Request::Prompt { .. }
        | Request::Again { .. }
        | Request::TakeBack { .. }
        | Request::Files { .. }
        | Request::Steer { .. }
        | Request::Fork { .. }
        | Request::Rename { .. }
        | Request::Archive { away: true, .. }
        | Request::CancelToolCall { .. }
        | Request::CancelTerminal { .. }
        | Request::Configure { .. }
        | Request::EndAgent
        // The hub lets a session go only for who started it.
        | Request::Delete { .. } => Role::Use,
        // Recorded messages hold text that was replaced or cleared since, and are for those who may see everything.
        Request::At { rows: Some(_) }
        | Request::Wire { window: Some(_), .. }
        | Request::Message { .. }
        | Request::MessagesOf { .. }
        | Request::QuestionMessage { .. }
        | Request::Find { .. }
        | Request::EntryOf { .. }
        | Request::Verdict => Role::Admin,
        // What concerns an agent as a whole, what it remembers of anybody's, and the rules of the hub.
        Request::Login { .. }
        | Request::Resume { .. }
        | Request::Archive { away: false, .. }
        | Request::Rule { .. }
        | Request::SaveRule { .. } => Role::Admin,
    }
}

/// Says that a role is not enough.
pub(crate) fn refusal(role: Role, needs: Role) -> String {
    format!("your token has the role {role}, and this needs {needs}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::request::Numbered;

    /// A message of each kind that needs more than to look.
    fn messages() -> Vec<(Role, Value)> {
        let session = "s";
        vec![
            (Role::View, json!({"type": "look", "recording": "r"})),
            (Role::View, json!({"type": "sessions"})),
            (Role::Answer, json!({"type": "choose", "id": "1", "option": "o", "revision": "r"})),
            (Role::Answer, json!({"type": "give", "id": "1", "revision": "r", "action": "decline"})),
            (Role::Answer, json!({"type": "cancel", "session": session})),
            (Role::Use, json!({"type": "files", "query": ""})),
            (Role::Use, json!({"type": "prompt", "session": session, "text": "x", "mentions": ["a"]})),
            (Role::Use, json!({"type": "new"})),
            (Role::Use, json!({"type": "start"})),
            (Role::Use, json!({"type": "delete", "recording": "r"})),
            (Role::Use, json!({"type": "configure", "session": session, "id": "mode", "value": "x"})),
            (Role::Use, json!({"type": "cancel-terminal", "session": session, "id": "t"})),
            (Role::Admin, json!({"type": "login", "method": "m"})),
            (Role::Admin, json!({"type": "resume", "session": session, "folder": "/"})),
            (Role::Admin, json!({"type": "archive", "session": session, "away": false})),
            (Role::Admin, json!({"type": "rule", "id": "1", "revision": "r", "decision": "allow"})),
            (
                Role::Admin,
                json!({"type": "save-rule", "id": "1", "revision": "r", "decision": "allow", "rule": ""}),
            ),
        ]
    }

    #[test]
    fn what_shows_names_of_files_or_changes_something_needs_more_than_to_view() {
        for (role, message) in messages() {
            let read: Numbered = serde_json::from_value(message.clone()).unwrap();
            assert_eq!(needed(&read.request), role, "{message}");
        }
    }
}
