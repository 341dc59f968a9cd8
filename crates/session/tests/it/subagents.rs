//! Sub-agent sessions: parents, names and activity.

use serde_json::{Value, json};
use switchboard_acp::v2::unstable::AuthState;
use switchboard_acp::{Moment, Side, WireFormat};
use switchboard_session::{Conversation, EntryKind, Folded};

struct Talk(Conversation);

impl Talk {
    fn new() -> Self {
        Talk(Conversation::new(WireFormat::Any))
    }

    /// Sends a message of the agent and returns the diagnostics.
    fn send(&mut self, message: Value) -> Vec<String> {
        let text = message.to_string();
        let Folded { left_out, .. } = self.0.read(&text, Some(Side::Agent), Moment(0)).unwrap();
        left_out.into_iter().map(|odd| format!("{}: {}", odd.pointer, odd.expected)).collect()
    }

    fn client(&mut self, message: Value) {
        self.0.read(&message.to_string(), Some(Side::Client), Moment(0)).unwrap();
    }

    fn update(&mut self, session: &str, update: Value) -> Vec<String> {
        let params = json!({"sessionId": session, "update": update});
        self.send(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    }

    /// Sends an update about a sub-agent.
    fn subagent(&mut self, parent: &str, child: &str, mut rest: Value) -> Vec<String> {
        rest["sessionUpdate"] = "subagent_update".into();
        rest["sessionId"] = child.into();
        self.update(parent, rest)
    }

    fn state(&mut self, session: &str, state: &str) {
        self.update(session, json!({"sessionUpdate": "state_update", "state": state}));
    }
}

#[test]
fn a_question_tells_whose_it_is_down_to_the_root() {
    let mut talk = Talk::new();
    talk.subagent("root", "a", json!({"title": "Explorer"}));
    talk.subagent("a", "b", json!({"title": "Tests", "description": "of the\nparser"}));
    talk.send(
        json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": {"sessionId": "b",
        "title": "May I?", "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}),
    );
    let (place, _) = talk.0.question(&7.into()).unwrap();
    let asker = talk.0.id_at(place).unwrap().clone();
    assert_eq!(talk.0.speaker(&asker).unwrap(), "sub-agent \"Tests (of the)\" of \"Explorer\"");
    assert_eq!(talk.0.names("b"), ["Tests (of the)", "Explorer"]);
    assert_eq!(talk.0.root("b"), "root");
    assert_eq!((talk.0.speaker("root"), talk.0.root("root")), (None, "root"));
}

#[test]
fn names_tell_sub_agents_apart_and_fall_back() {
    let mut talk = Talk::new();
    for child in ["a", "b", "c"] {
        talk.subagent("root", child, json!({"title": "general", "description": "Help"}));
    }
    // Reported again, it does not become another one.
    talk.subagent("root", "b", json!({"description": "Help"}));
    let content = json!([{"type": "session", "sessionId": "d"}]);
    talk.update(
        "root",
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "Task", "content": content}),
    );
    talk.subagent("root", "e", json!({}));
    let names: Vec<_> = ["a", "b", "c", "d", "e"].map(|child| talk.0.name(child).unwrap()).into();
    assert_eq!(names, ["general (Help)", "general (Help) #2", "general (Help) #3", "Task #4", "number 5"]);
    talk.subagent("root", "e", json!({"title": "late", "description": "x".repeat(100)}));
    assert_eq!(talk.0.name("e").unwrap(), format!("late ({}…)", "x".repeat(60)));
}

#[test]
fn the_state_told_last_counts_whoever_told_it() {
    let mut talk = Talk::new();
    talk.state("root", "running");
    talk.subagent("root", "a", json!({"title": "A", "state": {"state": "running"}}));
    talk.state("a", "requires_action");
    assert_eq!(talk.0.state_in_words("a"), "waiting for an answer");
    talk.state("root", "idle");
    assert!(talk.0.is_at_work("root"));
    talk.subagent("root", "a", json!({"state": {"state": "idle", "stopReason": "cancelled"}}));
    assert_eq!(talk.0.state_in_words("a"), "cancelled");
    assert_eq!(talk.0.session(Some("root")).unwrap().subagent("a").unwrap().state_in_words(), "cancelled");
    assert!(!talk.0.is_at_work("root"));
    // An active grandchild whose parent is done.
    talk.subagent("a", "b", json!({}));
    assert!(!talk.0.is_at_work("root"));
    talk.state("b", "running");
    assert!(talk.0.is_at_work("root") && talk.0.is_at_work("a"));
    talk.state("b", "something_new");
    assert!(!talk.0.is_at_work("root"));
}

#[test]
fn background_work_tells_of_children_whose_state_nobody_told() {
    let mut talk = Talk::new();
    let background = json!([{"type": "subagent", "sessionId": "a"}]);
    talk.update("root", json!({"sessionUpdate": "state_update", "state": "idle", "background": background}));
    assert!(talk.0.is_at_work("root"));
    talk.subagent("root", "a", json!({"state": {"state": "idle"}}));
    assert!(!talk.0.is_at_work("root"));
}

#[test]
fn a_child_that_was_there_before_its_parent_is_found_with_its_state() {
    let mut talk = Talk::new();
    talk.state("a", "running");
    assert_eq!(talk.0.parent("a"), None);
    talk.subagent("root", "a", json!({"title": "A"}));
    assert!(talk.0.is_at_work("root"));
    assert_eq!(talk.0.state_in_words("a"), "at work");
}

#[test]
fn circles_second_parents_and_great_depth_are_reported_and_kept_as_entries() {
    let mut talk = Talk::new();
    assert!(talk.subagent("a", "b", json!({"title": "B"})).is_empty());
    let odd = talk.subagent("b", "a", json!({"title": "A"}));
    assert_eq!(odd, ["/params/update/sessionId: a session that the other does not descend from"]);
    let odd = talk.subagent("c", "b", json!({"title": "B again"}));
    assert_eq!(odd, ["/params/update/sessionId: a session that is not the child of another already"]);
    assert_eq!(talk.0.speaker("b").unwrap(), "sub-agent \"B\"");
    for (session, child) in [("b", "a"), ("c", "b")] {
        let session = talk.0.session(Some(session)).unwrap();
        assert_eq!(session.find(EntryKind::Subagent, child).unwrap().id(), child);
    }
    let id = |number: usize| format!("d{number}");
    for number in 0..64 {
        assert!(talk.subagent(&id(number), &id(number + 1), json!({})).is_empty(), "{number}");
    }
    let odd = talk.subagent(&id(64), "deeper", json!({}));
    assert_eq!(odd, ["/params/update/sessionId: a session of one with fewer ancestors"]);
    assert_eq!(talk.0.names("d64").len(), 64);
    // From the other end too.
    assert_eq!(talk.subagent("above", "d0", json!({})).len(), 1);
}

#[test]
fn a_thousand_children_are_all_there() {
    let mut talk = Talk::new();
    for number in 0..1000 {
        let child = format!("c{number}");
        talk.subagent("root", &child, json!({"title": "same", "state": {"state": "running"}}));
    }
    assert_eq!(talk.0.children("root").count(), 1000);
    assert_eq!(talk.0.name("c999").unwrap(), "same #1000");
    for number in 0..1000 {
        assert!(talk.0.is_at_work("root"));
        talk.state(&format!("c{number}"), "idle");
    }
    assert!(!talk.0.is_at_work("root"));
}

#[test]
fn a_question_after_the_end_of_a_child_is_asked_all_the_same() {
    let mut talk = Talk::new();
    talk.subagent("root", "a", json!({"title": "A", "state": {"state": "idle"}}));
    talk.send(
        json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {"sessionId": "a",
        "title": "Late?", "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}),
    );
    assert_eq!(talk.0.session(Some("a")).unwrap().pending_permissions().count(), 1);
    assert_eq!(talk.0.speaker("a").unwrap(), "sub-agent \"A\"");
}

#[test]
fn the_login_is_known_as_it_was_told_last() {
    let mut talk = Talk::new();
    let state = |talk: &Talk| talk.0.auth_status().map(|status| status.state.clone());
    assert_eq!(state(&talk), None);
    talk.send(
        json!({"jsonrpc": "2.0", "method": "auth/status_update", "params": {"state": "unauthenticated"}}),
    );
    assert_eq!(state(&talk), Some(AuthState::Unauthenticated));
    // A failed login changes nothing, a successful one does.
    for (answer, expected) in [
        (json!({"error": {"code": -1, "message": "no"}}), Some(AuthState::Unauthenticated)),
        (json!({"result": {}}), None),
    ] {
        talk.client(json!({"jsonrpc": "2.0", "id": 1, "method": "auth/login", "params": {"methodId": "m"}}));
        let mut answer = answer;
        (answer["jsonrpc"], answer["id"]) = ("2.0".into(), 1.into());
        talk.send(answer);
        assert_eq!(state(&talk), expected);
    }
    talk.client(json!({"jsonrpc": "2.0", "id": 2, "method": "auth/status", "params": {}}));
    talk.send(json!({"jsonrpc": "2.0", "id": 2, "result": {"state": "authenticated", "accounts": [{"label": "Me"}]}}));
    assert_eq!(state(&talk), Some(AuthState::Authenticated));
    assert_eq!(talk.0.auth_status().unwrap().accounts.as_ref().unwrap()[0].label, "Me");
    // The form of agents that do not support the protocol's method yet.
    let early = |status: Value| json!({"jsonrpc": "2.0", "method": "_auth/status_update", "params": {"authStatus": status}});
    talk.send(early(json!({"kind": "none", "label": "Not logged in"})));
    assert_eq!(state(&talk), Some(AuthState::Unauthenticated));
    talk.send(early(json!({"kind": "api_key", "label": "Key", "detail": "env"})));
    assert_eq!(talk.0.auth_status().unwrap().accounts.as_ref().unwrap()[0].label, "Key (env)");
    talk.send(early(json!(17)));
    assert_eq!(state(&talk), Some(AuthState::Authenticated));
}

#[test]
fn copies_and_new_titles_are_known_from_the_answers() {
    let mut talk = Talk::new();
    talk.client(json!({"jsonrpc": "2.0", "id": 1, "method": "session/fork", "params": {"sessionId": "s", "cwd": "/w"}}));
    let commands = json!([{"type": "command", "name": "c", "description": "d"}]);
    talk.send(
        json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "copy", "availableCommands": commands}}),
    );
    assert_eq!(talk.0.session(Some("copy")).unwrap().commands().len(), 1);
    talk.client(
        json!({"jsonrpc": "2.0", "id": 2, "method": "session/set_title", "params": {"sessionId": "copy", "title": "x"}}),
    );
    talk.send(json!({"jsonrpc": "2.0", "id": 2, "result": {"title": "X"}}));
    assert_eq!(talk.0.session(Some("copy")).unwrap().title(), Some("X"));
}
