//! Agent processes: shared, ended, kept warm, and lost.

use std::time::Duration;

use serde_json::json;
use switchboard_store::Role;
use switchboard_transport::Program;

use crate::support::{Place, hello, person};

#[tokio::test]
async fn sessions_share_a_process() {
    let place = Place::start();
    let mut client = place.client().await;
    for text in ["one", "two"] {
        let session = client.new_session().await;
        client.turn(&session, text).await;
    }
    let counts = place.hub.counts().await.unwrap();
    assert_eq!((counts.processes, counts.idle), (1, 2));
    place.end().await;
}

#[tokio::test]
async fn a_session_whose_agent_died_continues_with_another_process() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    client
        .begin("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": "die"}]}))
        .await;
    assert_eq!(client.until_idle().await, "error");
    place.until_counts(|counts| counts.processes == 0).await;
    client.seen.clear();
    assert_eq!(client.turn(&session, "hello").await, "you said hello");
    place.end().await;
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_the_error_of_the_handshake() {
    let place = Place::start_with(|options| {
        options.agents = vec![("one".to_owned(), Program::new("/nowhere/agent"))];
    });
    let mut client = place.connect(person("root", Role::Admin), None).await;
    let refused = client.ask("initialize", hello()).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("/nowhere/agent"), "{refused}");
    place.end().await;
}

#[tokio::test]
async fn an_agent_that_does_not_answer_the_handshake_is_given_up() {
    let place = Place::start_with(|options| {
        let silent = Program::new("/bin/sh").args(["-c", "while read -r line; do :; done"]);
        options.agents = vec![("one".to_owned(), silent)];
        options.handshake_timeout = Duration::from_millis(100);
    });
    let mut client = place.connect(person("root", Role::Admin), None).await;
    let refused = client.ask("initialize", hello()).await;
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("did not answer the handshake"), "{refused}");
    place.until_counts(|counts| counts.processes == 0).await;
    place.end().await;
}

#[tokio::test]
async fn a_process_without_work_and_clients_is_ended_and_started_again() {
    let place = Place::start_with(|options| options.idle = Duration::from_millis(1));
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.turn(&session, "one ").await;
    client.ask("session/detach", json!({"sessionId": session})).await;
    place.until_counts(|counts| (counts.processes, counts.dormant) == (0, 1)).await;
    assert_eq!(client.resume(&session).await, "you said one ");
    assert_eq!(client.turn(&session, "two").await, "you said two");
    place.end().await;
}

#[tokio::test]
async fn a_warm_agent_runs_before_the_first_session() {
    let place = Place::start_with(|options| {
        options.warm = vec!["two".to_owned()];
        options.idle = Duration::from_millis(1);
    });
    place.until_counts(|counts| counts.processes == 1).await;
    let mut client = place.connect(person("root", Role::Admin), Some("two")).await;
    client.ask("initialize", hello()).await;
    let session = client.new_session().await;
    client.turn(&session, "hello").await;
    assert_eq!(place.hub.counts().await.unwrap().processes, 1, "the session runs in it");
    client.ask("session/detach", json!({"sessionId": session})).await;
    place.until_counts(|counts| counts.dormant == 1).await;
    assert_eq!(place.hub.counts().await.unwrap().processes, 1, "it is not ended");
    place.end().await;
}
