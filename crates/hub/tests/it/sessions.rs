//! Sessions: created, shown, listed, resumed and deleted.

use serde_json::json;

use crate::support::{Place, code};

#[tokio::test]
async fn a_session_is_created_only_in_an_allowed_folder() {
    let place = Place::start();
    let mut client = place.client().await;
    let refused = client.ask("session/new", json!({"cwd": "/elsewhere"})).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("is outside"), "{refused}");
    assert!(refused["error"]["data"].to_string().contains("/w"), "{refused}");
    client.new_session().await;
    place.end().await;
}

#[tokio::test]
async fn a_turn_is_shown_to_the_client_that_prompts() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    assert_eq!(client.turn(&session, "hello").await, "you said hello");
    place.end().await;
}

#[tokio::test]
async fn every_attached_client_sees_a_turn() {
    let place = Place::start();
    let (mut one, mut other) = (place.client().await, place.client().await);
    let session = one.new_session().await;
    assert_eq!(other.resume(&session).await, "");
    one.prompt(&session, "hello").await;
    other.until(|message| message["params"]["update"]["state"] == "running").await;
    other.until_idle().await;
    assert_eq!(other.text(), "you said hello");
    place.end().await;
}

#[tokio::test]
async fn a_later_client_gets_the_history() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.turn(&session, "one ").await;
    client.turn(&session, "two").await;
    assert_eq!(place.client().await.resume(&session).await, "you said one you said two");
    place.end().await;
}

#[tokio::test]
async fn text_that_was_replaced_is_not_sent_to_later_clients() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    assert_eq!(client.turn(&session, "replace").await, "clean");
    let mut later = place.client().await;
    let params = json!({"sessionId": session, "cwd": "/w/p", "replayFrom": {"type": "start"}});
    later.ask("session/resume", params).await;
    assert!(!later.seen.iter().any(|message| message.to_string().contains("secret")), "{:?}", later.seen);
    assert_eq!(later.text(), "clean");
    place.end().await;
}

#[tokio::test]
async fn a_session_goes_on_without_its_client() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.prompt(&session, "hello").await;
    drop(client);
    let mut later = place.client().await;
    place.until_counts(|counts| counts.working == 0).await;
    assert_eq!(later.resume(&session).await, "you said hello");
    place.end().await;
}

#[tokio::test]
async fn a_session_goes_on_after_a_restart() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.turn(&session, "one ").await;
    let place = place.restart().await;
    let mut client = place.client().await;
    assert_eq!(client.resume(&session).await, "you said one ");
    assert_eq!(client.turn(&session, "two").await, "you said two");
    place.end().await;
}

#[tokio::test]
async fn a_session_is_listed_under_its_first_prompt_until_the_agent_names_it() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    assert!(client.listed().await.is_empty(), "a session without a prompt is not listed");
    client.turn(&session, "hello").await;
    let listed = client.listed().await;
    assert_eq!((&listed[0]["sessionId"], &listed[0]["title"]), (&json!(session), &json!("hello")));
    client.turn(&session, "title").await;
    assert_eq!(client.listed().await[0]["title"], "A title");
    place.end().await;
}

#[tokio::test]
async fn a_client_that_detaches_gets_no_updates() {
    let place = Place::start();
    let (mut one, mut other) = (place.client().await, place.client().await);
    let session = one.new_session().await;
    other.resume(&session).await;
    let detached = other.ask("session/detach", json!({"sessionId": session})).await;
    assert!(detached.get("error").is_none(), "{detached}");
    one.turn(&session, "hello").await;
    other.seen.clear();
    other.listed().await;
    assert!(other.seen.is_empty(), "{:?}", other.seen);
    place.end().await;
}

#[tokio::test]
async fn a_deleted_session_is_gone() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.turn(&session, "hello").await;
    let deleted = client.ask("session/delete", json!({"sessionId": session})).await;
    assert!(deleted.get("error").is_none(), "{deleted}");
    assert!(client.listed().await.is_empty());
    let params = json!({"sessionId": session, "cwd": "/w/p", "replayFrom": {"type": "start"}});
    assert_eq!(code(&client.ask("session/resume", params).await), -32002);
    place.end().await;
}

#[tokio::test]
async fn an_unknown_session_is_not_found() {
    let place = Place::start();
    let mut client = place.client().await;
    assert_eq!(code(&client.prompt("nowhere", "hello").await), -32002);
    place.end().await;
}

#[tokio::test]
async fn updates_of_an_unknown_kind_arrive_unchanged_and_are_kept() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.prompt(&session, "unknown").await;
    let is_it = |message: &serde_json::Value| message["params"]["update"]["sessionUpdate"] == "_later";
    let wanted = json!({"sessionUpdate": "_later", "value": {"a": [1]}});
    assert_eq!(client.until(is_it).await["params"]["update"], wanted);
    client.until_idle().await;
    let mut later = place.client().await;
    later
        .begin(
            "session/resume",
            json!({"sessionId": session, "cwd": "/w/p", "replayFrom": {"type": "start"}}),
        )
        .await;
    assert_eq!(later.until(is_it).await["params"]["update"], wanted);
    place.end().await;
}
