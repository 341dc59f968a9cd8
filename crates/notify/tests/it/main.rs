//! The integration tests of the crate, in one binary.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod commands;
mod sink;
mod targets;

use switchboard_hub::{PendingQuestionEvent, SessionEvent, SessionEventKind};

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}

/// Returns a question of an agent.
fn asked(session: &str, id: u64) -> SessionEvent {
    let question = PendingQuestionEvent {
        id,
        action: "asks to run a command",
        details: "$ rm -r secret-folder".to_owned(),
        is_complete: true,
        options: Vec::new(),
    };
    SessionEvent::new(session, "claude", "/home/anna/project", SessionEventKind::Asked(question))
}

fn resolved(session: &str, question: u64) -> SessionEvent {
    let kind = SessionEventKind::Resolved { question, by: Some("anna".to_owned()) };
    SessionEvent::new(session, "claude", "/home/anna/project", kind)
}
