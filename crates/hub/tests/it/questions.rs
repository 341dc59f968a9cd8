//! Questions: asked, answered, withdrawn, and decided by a policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use switchboard_hub::{AnswerResult, PermissionRequest, Policy, PolicyDecision, SessionEventKind};
use switchboard_store::Role;

use crate::observers::Recorded;
use crate::support::{Place, person};

#[tokio::test]
async fn the_first_answer_counts_and_the_question_is_withdrawn_elsewhere() {
    let place = Place::start();
    let (mut one, mut other) = (place.client().await, place.client().await);
    let session = one.new_session().await;
    other.resume(&session).await;
    one.prompt(&session, "ask").await;
    let (first, second) = (one.question().await, other.question().await);
    other.choose(&second, "y").await;
    one.until(|message| message["method"] == "$/cancel_request" && message["params"]["requestId"] == first)
        .await;
    one.choose(&first, "n").await;
    one.until_idle().await;
    assert_eq!(one.text(), "allowed");
    place.end().await;
}

#[tokio::test]
async fn a_rejection_reaches_the_agent() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.prompt(&session, "ask").await;
    let question = client.question().await;
    client.choose(&question, "n").await;
    client.until_idle().await;
    assert_eq!(client.text(), "rejected");
    place.end().await;
}

#[tokio::test]
async fn a_question_survives_its_clients() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.prompt(&session, "ask").await;
    client.question().await;
    drop(client);
    place.until_counts(|counts| counts.subscriptions == 0).await;
    assert_eq!(place.hub.counts().await.unwrap().waiting, 1);
    let mut later = place.client().await;
    later.resume(&session).await;
    let question = later.question().await;
    later.choose(&question, "y").await;
    later.until_idle().await;
    assert_eq!(later.text(), "allowed");
    place.end().await;
}

#[tokio::test]
async fn a_question_that_the_agent_withdraws_is_withdrawn_at_the_client() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.prompt(&session, "withdraw").await;
    let question = client.question().await;
    client
        .until(|message| {
            message["method"] == "$/cancel_request" && message["params"]["requestId"] == question
        })
        .await;
    client.until_idle().await;
    assert_eq!(place.hub.counts().await.unwrap().waiting, 0);
    place.end().await;
}

#[tokio::test]
async fn an_answer_of_a_viewer_does_not_count() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    let mut viewer =
        place.client_as(switchboard_hub::Identity { all: true, ..person("ben", Role::View) }).await;
    viewer.resume(&session).await;
    client.prompt(&session, "ask").await;
    let question = client.question().await;
    for id in 0..20 {
        viewer.choose(&json!(id), "y").await;
    }
    viewer.choose(&question, "y").await;
    viewer.listed().await;
    assert_eq!(place.hub.counts().await.unwrap().waiting, 1);
    client.choose(&question, "n").await;
    client.until_idle().await;
    assert_eq!(client.text(), "rejected");
    place.end().await;
}

#[tokio::test]
async fn a_cancellation_withdraws_the_question() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.prompt(&session, "ask").await;
    let question = client.question().await;
    client.notify("session/cancel", json!({"sessionId": session})).await;
    client
        .until(|message| {
            message["method"] == "$/cancel_request" && message["params"]["requestId"] == question
        })
        .await;
    client.until_idle().await;
    assert_eq!(place.hub.counts().await.unwrap().waiting, 0);
    place.end().await;
}

/// A policy that allows everything while the switch is on.
struct Switch(Arc<AtomicBool>);

impl Policy for Switch {
    fn evaluate(&mut self, request: &PermissionRequest<'_>) -> Option<PolicyDecision> {
        assert_eq!((request.folder, request.agent), ("/w/p", Some("sh")));
        self.0.load(Ordering::SeqCst).then(|| PolicyDecision {
            by: json!({"policy": "all", "decision": "allow"}),
            result: Some(r#"{"outcome":{"outcome":"selected","optionId":"y"}}"#.to_owned()),
            notice: "allowed by a rule".to_owned(),
        })
    }
}

#[tokio::test]
async fn a_policy_answers_before_clients_are_asked() {
    let place = Place::start_with(|options| {
        options.policy = Some(Box::new(Switch(Arc::new(AtomicBool::new(true)))));
    });
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.prompt(&session, "ask").await;
    client.until_idle().await;
    assert!(!client.seen.iter().any(|message| message["method"] == "session/request_permission"));
    assert_eq!(client.text(), "allowed");
    place.end().await;
}

#[tokio::test]
async fn a_changed_policy_answers_pending_questions() {
    let switch = Arc::new(AtomicBool::new(false));
    let policy = Switch(Arc::clone(&switch));
    let place = Place::start_with(|options| options.policy = Some(Box::new(policy)));
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.prompt(&session, "ask").await;
    let question = client.question().await;
    assert_eq!(place.hub.reevaluate_policy().await.len(), 0);
    switch.store(true, Ordering::SeqCst);
    let answered = place.hub.reevaluate_policy().await;
    assert_eq!(answered.iter().map(|(session, _)| &**session).collect::<Vec<_>>(), [&*session]);
    client
        .until(|message| {
            message["method"] == "$/cancel_request" && message["params"]["requestId"] == question
        })
        .await;
    client.until_idle().await;
    assert_eq!(client.text(), "allowed");
    place.end().await;
}

#[tokio::test]
async fn an_answer_from_elsewhere_counts_once_and_only_for_an_offered_option() {
    let recorded = Recorded::default();
    let listener = recorded.clone();
    let place = Place::start_with(|options| options.listener = Some(Box::new(listener)));
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.prompt(&session, "ask").await;
    client.question().await;
    let shown = recorded.until_event(|event| match event {
        SessionEventKind::Asked(question) => Some(question.clone()),
        _ => None,
    });
    let shown = shown.await;
    assert_eq!(shown.details.lines().next(), Some("May I?"));
    assert_eq!(place.hub.answer_shown(&session, &shown, "other", "phone").await, AnswerResult::Changed);
    assert_eq!(place.hub.answer_shown("nowhere", &shown, "y", "phone").await, AnswerResult::NotPending);
    assert_eq!(place.hub.answer_shown(&session, &shown, "y", "phone").await, AnswerResult::Answered);
    assert_eq!(place.hub.answer_shown(&session, &shown, "y", "phone").await, AnswerResult::NotPending);
    client.until_idle().await;
    assert_eq!(client.text(), "allowed");
    place.end().await;
}
