//! Permissions and elicitations.

use serde_json::json;
use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_session::{Change, Decider, Moment, RequestEvent, Session, SessionError, Settlement, Side};

use crate::generate::{apply, fold};

fn open(session: &mut Session, id: i64, subject: serde_json::Value) -> Vec<Change> {
    let request = json!({
        "sessionId": "s", "title": "Write?", "description": "To disk", "subject": subject,
        "options": [
            {"optionId": "y", "name": "Allow", "kind": "allow_once"},
            {"optionId": "n", "name": "Reject", "kind": "reject_once"},
            {"optionId": "m", "name": "Maybe", "kind": "_maybe"},
        ],
    });
    let text = request.to_string();
    let request = v2::RequestPermissionRequest::decode(&text, WireFormat::Newest).unwrap();
    session.open_permission(&id.into(), &request, Moment(10)).iter().cloned().collect()
}

#[test]
fn a_tool_call_subject_patches_the_call_first_and_the_prompt_never_does() {
    let mut session = fold(
        WireFormat::Newest,
        &[json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Patch", "kind": "edit"})],
    );
    let subject =
        json!({"type": "tool_call", "toolCall": {"toolCallId": "c", "status": "in_progress", "kind": null}});
    let changes = open(&mut session, 5, subject);
    assert!(matches!(
        changes[..],
        [Change::Entry(_), Change::Permission { index: 0, event: RequestEvent::Opened }]
    ));
    let call = session.tool_call("c").unwrap();
    assert_eq!(
        (call.title(), call.kind().as_str(), call.status().as_str()),
        (Some("Patch"), "other", "in_progress")
    );
    assert_eq!(call.revision(), session.revision());
    let permission = session.permission(&5.into()).unwrap();
    assert_eq!((permission.title(), permission.description()), ("Write?", Some("To disk")));
    assert_eq!(permission.tool_call_id(), Some("c"));
    // A subject with an unknown call creates it.
    open(&mut session, 6, json!({"type": "tool_call", "toolCall": {"toolCallId": "new"}}));
    assert!(session.tool_call("new").is_some());
}

#[test]
fn several_are_open_at_once_and_settle_one_by_one() {
    let mut session = Session::new(WireFormat::Newest);
    for id in 1..=4 {
        open(&mut session, id, json!(null));
    }
    session.answer_permission(&2.into(), "y", "user", Moment(20)).unwrap();
    session.cancel_permission(&3.into(), Side::Agent, Moment(30)).unwrap();
    let pending: Vec<_> = session.pending_permissions().map(|permission| permission.id().clone()).collect();
    assert_eq!(pending, [RequestId::Number(1), RequestId::Number(4)]);
    let settled = session.permission(&2.into()).unwrap();
    assert!(settled.is_granted());
    let answer = Settlement::Answered { answer: "y".into(), by: "user".into(), at: Moment(20) };
    assert_eq!(settled.settlement(), &answer);

    let changes = session.cancel_requests(Side::Client, Moment(40));
    assert_eq!(changes.len(), 2);
    assert_eq!(session.pending_permissions().count(), 0);
    let cancelled = Settlement::Cancelled { by: Decider::Client, at: Moment(40) };
    assert_eq!(session.permission(&4.into()).unwrap().settlement(), &cancelled);
    assert!(session.cancel_requests(Side::Client, Moment(50)).is_empty());
    // Late updates still apply.
    assert!(
        !apply(&mut session, &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c"})).is_empty()
    );
}

#[test]
fn only_an_offered_option_of_a_kind_that_allows_is_an_approval() {
    let mut session = Session::new(WireFormat::Newest);
    open(&mut session, 1, json!({"type": "_spaceship", "name": "x"}));
    let before = session.snapshot();
    let refused = session.answer_permission(&1.into(), "z", "user", Moment(1));
    assert!(matches!(refused, Err(SessionError::OptionNotOffered { .. })), "{refused:?}");
    let unknown = v2::RequestPermissionOutcome::decode(r#"{"outcome":"granted"}"#, WireFormat::Any).unwrap();
    let missing = session.answer_permission(&9.into(), "y", "user", Moment(1));
    assert!(matches!(missing, Err(SessionError::NoSuchRequest { .. })), "{missing:?}");
    assert_eq!(*session, before);
    let mut other = session.clone();
    other.settle_permission(&1.into(), &unknown, "user", Moment(1)).unwrap();
    let settled = other.permission(&1.into()).unwrap();
    assert!(matches!(settled.settlement(), Settlement::NotAnApproval { .. }) && !settled.is_granted());
    let text = serde_json::to_string(&other).unwrap();
    assert_eq!(serde_json::from_str::<Session>(&text).unwrap(), other);

    session.answer_permission(&1.into(), "m", "user", Moment(1)).unwrap();
    assert!(!session.permission(&1.into()).unwrap().is_granted());
    let late = session.answer_permission(&1.into(), "y", "user", Moment(2));
    assert!(matches!(late, Err(SessionError::AlreadySettled { .. })), "{late:?}");
    assert!(!session.permission(&1.into()).unwrap().is_granted());
}

#[test]
fn an_id_used_again_is_a_new_question() {
    let mut session = Session::new(WireFormat::Newest);
    open(&mut session, 1, json!(null));
    session.answer_permission(&1.into(), "y", "user", Moment(1)).unwrap();
    open(&mut session, 1, json!(null));
    assert!(!session.permission(&1.into()).unwrap().is_granted());
    open(&mut session, 1, json!(null));
    assert_eq!(session.pending_permissions().count(), 1);
    assert_eq!(session.permissions().count(), 3);
}

#[test]
fn elicitations_are_asked_answered_and_completed() {
    let mut session = Session::new(WireFormat::Newest);
    let page = json!({"sessionId": "s", "mode": "url", "message": "Log in", "elicitationId": "e", "url": "https://x"});
    let text = page.to_string();
    let request = v2::CreateElicitationRequest::decode(&text, WireFormat::Newest).unwrap();
    session.open_elicitation(&1.into(), &request, Moment(1));
    session.open_elicitation(&2.into(), &request, Moment(2));
    let accept = v2::CreateElicitationResponse::decode(r#"{"action":"accept"}"#, WireFormat::Newest).unwrap();
    session.answer_elicitation(&1.into(), &accept, "user", Moment(3)).unwrap();
    assert!(session.answer_elicitation(&1.into(), &accept, "user", Moment(4)).is_err());
    assert_eq!(session.complete_elicitation("e").len(), 1);
    assert!(session.complete_elicitation("other").is_empty());
    assert_eq!(session.cancel_requests(Side::Agent, Moment(5)).len(), 1);
    assert_eq!(session.pending_elicitations().count(), 0);
}

#[test]
fn requests_are_stored_and_restored() {
    let mut session = Session::new(WireFormat::Newest);
    for id in 1..=3 {
        open(&mut session, id, json!({"type": "command", "command": "ls", "cwd": "/w"}));
    }
    session.answer_permission(&1.into(), "y", "policy", Moment(7)).unwrap();
    session.cancel_permission(&2.into(), Side::Agent, Moment(8)).unwrap();
    let text = serde_json::to_string(&session).unwrap();
    let mut restored: Session = serde_json::from_str(&text).unwrap();
    assert_eq!(restored, session);
    assert!(restored.answer_permission(&3.into(), "z", "user", Moment(9)).is_err());
    assert_eq!(
        restored.answer_permission(&3.into(), "n", "user", Moment(9)),
        session.answer_permission(&3.into(), "n", "user", Moment(9)),
    );
    assert_eq!(restored, session);
}
