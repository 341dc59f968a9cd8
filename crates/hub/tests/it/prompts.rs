//! Prompts: in order, once, cancelled and refused.

use serde_json::{Value, json};
use switchboard_acp::extensions::OPERATION_ID;

use crate::support::{Place, code, prompt};

/// Returns the parameters of a prompt with an idempotency key.
fn named(session: &str, text: &str, key: &str) -> Value {
    let mut params = prompt(session, text);
    params["_meta"] = json!({OPERATION_ID.name(): key});
    params
}

#[tokio::test]
async fn prompts_of_one_session_run_in_order() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    let first = client.begin("session/prompt", prompt(&session, "one ")).await;
    let second = client.begin("session/prompt", prompt(&session, "two")).await;
    for id in [first, second] {
        assert!(client.response(id).await.get("error").is_none());
    }
    client.until_idle().await;
    client.until_idle().await;
    assert_eq!(client.text(), "you said one you said two");
    place.end().await;
}

#[tokio::test]
async fn a_prompt_that_is_sent_twice_runs_once() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    let first = client.ask("session/prompt", named(&session, "hello", "k")).await;
    client.until_idle().await;
    let again = client.ask("session/prompt", named(&session, "hello", "k")).await;
    assert_eq!(first["result"]["messageId"], again["result"]["messageId"]);
    assert_eq!(place.client().await.resume(&session).await, "you said hello");
    place.end().await;
}

#[tokio::test]
async fn a_prompt_that_is_sent_again_after_a_restart_runs_once() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    let first = client.ask("session/prompt", named(&session, "hello", "k")).await;
    client.until_idle().await;
    let place = place.restart().await;
    let mut client = place.client().await;
    client.resume(&session).await;
    let again = client.ask("session/prompt", named(&session, "hello", "k")).await;
    assert_eq!(first["result"]["messageId"], again["result"]["messageId"]);
    assert_eq!(place.client().await.resume(&session).await, "you said hello");
    place.end().await;
}

#[tokio::test]
async fn a_turn_is_cancelled() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.prompt(&session, "wait").await;
    client.until(|message| message["params"]["update"]["content"]["text"] == "working").await;
    client.notify("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(client.until_idle().await, "cancelled");
    assert_eq!(client.turn(&session, "hello").await, "you said hello");
    place.end().await;
}

#[tokio::test]
async fn an_error_of_the_agent_is_the_response() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    let refused = client.prompt(&session, "refuse").await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("not today"), "{refused}");
    assert_eq!(client.turn(&session, "hello").await, "you said hello");
    place.end().await;
}

#[tokio::test]
async fn a_prompt_without_a_session_is_malformed() {
    let place = Place::start();
    let mut client = place.client().await;
    assert_eq!(code(&client.ask("session/prompt", json!({"prompt": []})).await), -32602);
    place.end().await;
}

#[tokio::test]
async fn a_line_of_the_agent_that_is_no_message_changes_nothing() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    assert_eq!(client.turn(&session, "noise").await, "fine");
    place.end().await;
}

#[tokio::test]
async fn a_tool_call_arrives_with_its_fields() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.prompt(&session, "tool").await;
    let call = client.until(|message| message["params"]["update"]["toolCallId"].is_string()).await;
    let update = &call["params"]["update"];
    assert_eq!(
        (&update["title"], &update["kind"], &update["status"]),
        (&json!("Read"), &json!("read"), &json!("completed"))
    );
    client.until_idle().await;
    place.end().await;
}

#[tokio::test]
async fn a_method_that_the_hub_does_not_know_is_answered_by_the_agent() {
    let place = Place::start();
    let mut client = place.client().await;
    let session = client.new_session().await;
    let answer = client.ask("_vendor/thing", json!({"sessionId": session})).await;
    assert_eq!(answer["result"], json!({}), "{answer}");
    place.end().await;
}
