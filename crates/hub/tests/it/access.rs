//! Access: roles, tokens, shares and agents by name.

use std::time::Duration;

use serde_json::json;
use switchboard_hub::Identity;
use switchboard_store::Role;

use crate::support::{LIMIT, Place, code, hello, person};

/// Error code for a role that does not suffice.
const NOT_ALLOWED: i64 = -32004;

/// Creates a token of the store. Returns its identity.
fn token(place: &Place, name: &str, role: Role) -> Identity {
    let text = place.store.add_token(name, role, false).unwrap();
    let token = place.store.find_token(&text).unwrap().unwrap();
    Identity { name: token.name.into(), role: token.role, all: token.all, made: token.made.0 }
}

#[tokio::test]
async fn a_viewer_neither_starts_nor_prompts() {
    let place = Place::start();
    let mut owner = place.client().await;
    let session = owner.new_session().await;
    owner.turn(&session, "hello").await;
    let mut viewer = place.client_as(Identity { all: true, ..person("ben", Role::View) }).await;
    assert_eq!(code(&viewer.ask("session/new", json!({"cwd": "/w/p"})).await), NOT_ALLOWED);
    assert_eq!(viewer.resume(&session).await, "you said hello");
    assert_eq!(code(&viewer.prompt(&session, "hello").await), NOT_ALLOWED);
    assert_eq!(code(&viewer.ask("session/delete", json!({"sessionId": session})).await), NOT_ALLOWED);
    place.end().await;
}

#[tokio::test]
async fn who_may_answer_may_cancel_but_not_prompt() {
    let place = Place::start();
    let mut owner = place.client().await;
    let session = owner.new_session().await;
    let mut helper = place.client_as(Identity { all: true, ..person("ben", Role::Answer) }).await;
    helper.resume(&session).await;
    assert_eq!(code(&helper.prompt(&session, "hello").await), NOT_ALLOWED);
    owner.prompt(&session, "wait").await;
    helper.notify("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(owner.until_idle().await, "cancelled");
    place.end().await;
}

#[tokio::test]
async fn everyone_sees_the_sessions_they_started_and_administrators_see_all() {
    let place = Place::start();
    let mut anna = place.client_as(person("anna", Role::Use)).await;
    let session = anna.new_session().await;
    anna.turn(&session, "hello").await;
    let mut ben = place.client_as(person("ben", Role::Use)).await;
    assert!(ben.listed().await.is_empty());
    assert_eq!(code(&ben.prompt(&session, "hello").await), -32002, "it does not exist for others");
    assert_eq!(anna.listed().await.len(), 1);
    assert_eq!(place.client().await.listed().await.len(), 1);
    place.end().await;
}

#[tokio::test]
async fn a_shared_session_is_visible_until_the_share_ends() {
    let place = Place::start();
    let mut owner = place.client().await;
    let session = owner.new_session().await;
    owner.turn(&session, "hello").await;
    let carl = token(&place, "carl", Role::Use);
    let count = || async { place.hub.sessions(&carl).await.map(|(_, sessions)| sessions.len()) };
    let until = async |wanted: usize| {
        let seen = async {
            while count().await != Some(wanted) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(LIMIT, seen).await.expect("the share has no effect");
    };
    assert_eq!(count().await, Some(0));
    place.store.share(&session, "carl").unwrap();
    until(1).await;
    place.store.unshare(&session, "carl").unwrap();
    until(0).await;
    place.end().await;
}

#[tokio::test]
async fn the_connection_of_a_revoked_token_ends() {
    let place = Place::start();
    let carl = token(&place, "carl", Role::Use);
    let mut client = place.client_as(carl.clone()).await;
    place.store.revoke_token("carl").unwrap();
    client.until_end().await;
    assert_eq!(place.hub.sessions(&carl).await, None);
    place.end().await;
}

#[tokio::test]
async fn programs_of_clients_are_for_administrators() {
    let place = Place::start();
    let servers = json!([{"type": "stdio", "name": "s", "command": "/bin/true", "args": [], "env": []}]);
    let params = json!({"cwd": "/w/p", "mcpServers": servers});
    let mut anna = place.client_as(person("anna", Role::Use)).await;
    let refused = anna.ask("session/new", params.clone()).await;
    assert_eq!(code(&refused), NOT_ALLOWED, "{refused}");
    assert_eq!(refused["error"]["data"]["setting"], "hub.agent_options");
    let allowed = place.client().await.ask("session/new", params).await;
    assert!(allowed["result"]["sessionId"].is_string(), "{allowed}");
    place.end().await;
}

#[tokio::test]
async fn an_unknown_agent_ends_the_connection() {
    let place = Place::start();
    let mut client = place.connect(person("root", Role::Admin), Some("three")).await;
    client.until_end().await;
    assert!(place.hub.has_agent(Some("two")) && !place.hub.has_agent(Some("three")));
    assert_eq!(place.hub.agents(), ["one", "two"]);
    place.end().await;
}

#[tokio::test]
async fn a_client_of_one_agent_sees_only_its_sessions() {
    let place = Place::start();
    let mut first = place.client().await;
    let session = first.new_session().await;
    first.turn(&session, "hello").await;
    let mut second = place.connect(person("root", Role::Admin), Some("two")).await;
    second.ask("initialize", hello()).await;
    assert!(second.listed().await.is_empty());
    let own = second.new_session().await;
    second.turn(&own, "hello").await;
    assert_eq!(second.listed().await.len(), 1);
    assert_eq!(first.listed().await.len(), 2);
    place.end().await;
}

#[tokio::test]
async fn requests_before_the_handshake_are_refused() {
    let place = Place::start();
    let mut client = place.connect(person("root", Role::Admin), None).await;
    let refused = client.ask("session/new", json!({"cwd": "/w/p"})).await;
    assert!(refused.get("error").is_some(), "{refused}");
    place.end().await;
}
