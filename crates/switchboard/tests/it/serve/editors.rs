//! Version 1 clients that behave as editors do: CodeCompanion fails on a title that is `null`, reads only the first content
//! item of a permission request, and drops requests that arrive outside of a prompt.

use serde_json::{Value, json};

use super::block_on;
use super::hub::{Client, Hub};
use crate::agent_program::Place;

async fn listed(client: &mut Client) -> Vec<Value> {
    let list = client.ask("session/list", json!({})).await;
    list["result"]["sessions"].as_array().unwrap_or_else(|| panic!("{list}")).clone()
}

#[test]
fn a_session_is_listed_by_its_first_prompt_before_the_turn_has_ended_and_an_empty_one_is_not() {
    for version in [1, 2] {
        let place = Place::new();
        let hub = Hub::start(&place, &["demo"]);
        let session = block_on(async {
            let mut client = hub.client(version).await;
            let session = client.new_session(&place).await;
            client.new_session(&place).await;
            assert_eq!(listed(&mut client).await, [] as [Value; 0], "nothing was prompted");
            client.prompt(&session, "permission").await;
            client.question().await;
            let listed = listed(&mut client).await;
            assert_eq!((listed.len(), &listed[0]["title"]), (1, &json!("permission")), "{listed:?}");
            assert_eq!(listed[0]["sessionId"], *session);
            session
        });
        hub.kill();
        // After a power cut, the store has the same content.
        let hub = Hub::start(&place, &["demo"]);
        block_on(async {
            let listed = listed(&mut hub.client(version).await).await;
            assert_eq!((listed.len(), &listed[0]["title"]), (1, &json!("permission")), "{listed:?}");
            assert_eq!(listed[0]["sessionId"], *session);
        });
    }
}

#[test]
fn an_editor_that_drops_a_question_at_load_is_told_that_its_prompt_waits_and_asked_again() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut first = hub.client(1).await;
        let session = first.new_session(&place).await;
        first.prompt(&session, "permission").await;
        first.question().await;
        drop(first);

        let mut editor = hub.client(1).await;
        let load = json!({"sessionId": session, "cwd": place.work(), "mcpServers": []});
        let loaded = editor.ask("session/load", load).await;
        assert!(loaded.get("error").is_none(), "{loaded}");
        let dropped = editor.question().await;
        editor.seen.clear();

        editor.prompt(&session, "hello").await;
        let asked = editor.question().await;
        assert_ne!(asked["id"], dropped["id"], "a request of its own");
        let notice =
            editor.seen.iter().find_map(|message| message["params"]["update"]["content"]["text"].as_str());
        let title = asked["params"]["toolCall"]["title"].as_str().unwrap();
        let notice = notice.unwrap_or_else(|| panic!("{:?}", editor.seen));
        assert!(notice.contains("This prompt is queued") && notice.contains(title), "{notice}");
        let cancelled = editor.seen.iter().find(|message| message["method"] == "$/cancel_request");
        assert_eq!(cancelled.map(|message| &message["params"]["requestId"]), Some(&dropped["id"]));
        let (asked, dropped) = (&asked["params"]["toolCall"], &dropped["params"]["toolCall"]);
        assert_eq!(asked["toolCallId"], dropped["toolCallId"]);
        assert_eq!((&asked["kind"], &asked["content"]), (&dropped["kind"], &dropped["content"]));
        assert!(asked["kind"].is_string(), "{asked}");
        let more = editor.seen.iter().filter(|message| message["method"] == "session/request_permission");
        assert_eq!(more.count(), 0, "it is asked once");
    });
}

#[test]
fn the_prompt_of_an_editor_that_was_asked_again_is_answered_in_its_turn() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let (mut first, mut editor) = (hub.client(2).await, hub.client(1).await);
        let session = first.new_session(&place).await;
        let load = json!({"sessionId": session, "cwd": place.work(), "mcpServers": []});
        assert!(editor.ask("session/load", load).await.get("error").is_none());
        // The permission request of another client's turn arrives outside of its prompt, and is dropped.
        let turn = first.prompt(&session, "permission").await;
        first.question().await;
        editor.question().await;

        let prompt = editor.prompt(&session, "hello").await;
        let asked = editor.question().await;
        editor.allow(&asked).await;
        let answer = editor.answer(prompt).await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert!(first.answer(turn).await.get("error").is_none());
        let said = super::text(&editor.seen.drain(..).collect::<Vec<_>>());
        assert!(said.contains("Hello! I am"), "{said}");
    });
}
