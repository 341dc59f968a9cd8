//! Authorization: the role that each request of the page needs.
//!
//! The page is a client of the hub, which checks all requests that reach it. This module also covers those that do
//! not: files, rules and recordings.

use switchboard_store::Role;

use super::request::Request;

/// Returns the minimum role for a request. [`UserState::room`](super::user_state::UserState::room) decides about the visible
/// sessions.
pub(crate) fn needed(request: &Request) -> Role {
    match request {
        // Read access to visible sessions.
        Request::Shown
        | Request::Look { .. }
        | Request::Window { .. }
        | Request::At { rows: None }
        | Request::Fold { .. }
        | Request::FoldRun { .. }
        | Request::FindIn { .. }
        | Request::Earlier { .. }
        | Request::Wire { window: None, .. }
        | Request::Sessions { .. }
        | Request::Questions { .. }
        | Request::FindOutput { .. }
        // The response lacks the file's text unless `UserState::may_read_files`.
        | Request::File { .. }
        | Request::Family
        | Request::Link
        | Request::Looking { .. }
        | Request::Notifications
        | Request::ShortCode
        | Request::Copy { .. }
        // The diffs lack what only the files have unless `UserState::may_read_files`.
        | Request::Changes
        | Request::Patch
        // The original must be visible, too.
        | Request::History
        | Request::Pictures
        | Request::Export { .. } => Role::View,
        // Answers to questions of agents.
        Request::Choose { .. }
        | Request::Give { .. }
        | Request::Choices
        | Request::Withdraw { .. }
        | Request::Cancel { .. } => Role::Answer,
        // New sessions, and control of visible ones.
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
        // Like an agent, they change files of the session's folder.
        | Request::UndoChange { .. }
        | Request::RestoreChange { .. }
        | Request::KeepChange { .. }
        // The hub allows it only to the session's owner.
        | Request::Delete { .. } => Role::Use,
        // Recorded messages contain text that was replaced or cleared since, so they need access to everything.
        Request::At { rows: Some(_) }
        | Request::Wire { window: Some(_), .. }
        | Request::Message { .. }
        | Request::MessagesOf { .. }
        | Request::QuestionMessage { .. }
        | Request::Find { .. }
        | Request::EntryOf { .. }
        | Request::Verdict => Role::Admin,
        // Actions on an agent as a whole, on sessions of all its users, and on the hub's rules.
        Request::Login { .. }
        | Request::Resume { .. }
        | Request::Archive { away: false, .. }
        | Request::Rule { .. }
        | Request::SaveRule { .. }
        | Request::AllowHost { .. }
        // Starts a program of the user who started the hub.
        | Request::OpenEditor { .. } => Role::Admin,
    }
}

/// Returns the error message for an insufficient role.
pub(crate) fn refusal(role: Role, needs: Role) -> String {
    format!("your token has the role {role}, and this needs {needs}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::request::Numbered;

    /// Returns one request of each kind, with the role that it needs.
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
            (Role::View, json!({"type": "changes"})),
            (Role::View, json!({"type": "patch"})),
            (Role::View, json!({"type": "history"})),
            (Role::Use, json!({"type": "undo-change", "path": "/a", "hunk": 0, "revision": "r"})),
            (Role::Use, json!({"type": "restore-change", "change": 1})),
            (
                Role::Use,
                json!({"type": "keep-change", "path": "/a", "hunk": 0, "revision": "r", "kept": true}),
            ),
            (Role::Admin, json!({"type": "open-editor", "session": session, "path": "/a"})),
            (Role::Admin, json!({"type": "login", "method": "m"})),
            (Role::Admin, json!({"type": "resume", "session": session, "folder": "/"})),
            (Role::Admin, json!({"type": "archive", "session": session, "away": false})),
            (Role::Admin, json!({"type": "allow-host", "host": "a.com"})),
            (Role::Admin, json!({"type": "rule", "id": "1", "revision": "r", "decision": "allow"})),
            (
                Role::Admin,
                json!({"type": "save-rule", "id": "1", "revision": "r", "decision": "allow", "rule": ""}),
            ),
        ]
    }

    #[test]
    fn file_names_and_changes_need_more_than_the_role_view() {
        for (role, message) in messages() {
            let read: Numbered = serde_json::from_value(message.clone()).unwrap();
            assert_eq!(needed(&read.request), role, "{message}");
        }
    }
}
