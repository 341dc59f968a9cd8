//! Connections that are resumed on another socket.

use serde_json::{Value, json};

use super::hub::Hub;
use super::{block_on, text};
use crate::agent_program::Place;

#[test]
fn lost_messages_are_sent_again_in_either_version() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    for version in [1, 2] {
        block_on(async {
            let mut client = hub.client(version).await;
            let session = client.new_session(&place).await;
            let prompt = client.prompt(&session, "hello").await;
            let is_end = move |message: &Value| match version {
                1 => message["id"] == prompt && message.get("method").is_none(),
                _ => message["params"]["update"]["state"] == "idle",
            };
            client.until(is_end).await;
            let cursor =
                |message: &Value| message["params"]["_meta"]["acp/cursor"].as_str().map(str::to_owned);
            let seen: Vec<Value> = client.seen.drain(..).collect();
            let first = seen.iter().position(|message| cursor(message).is_some()).unwrap();

            // The first socket may still be open.
            let mut again = hub.take_up(&client).await;
            let resume = |cursor: &str| json!({"streams": [{"sessionId": session, "cursor": cursor}]});
            let params = resume(&cursor(&seen[first]).unwrap());
            again.send(json!({"jsonrpc": "2.0", "method": "stream/resume", "params": params})).await;
            again.until(is_end).await;
            let lost: Vec<Value> = again.seen.drain(..).collect();
            assert!(!text(&lost).is_empty());
            assert_eq!(text(&lost), text(&seen[first + 1..]), "version {version}");

            let mut again = hub.take_up(&client).await;
            let answer = again.ask("stream/resume", resume("elsewhere.1")).await;
            assert_eq!(answer["result"], json!({}), "version {version}: {answer}");
            let failed = again.until(|message| message["method"] == "stream/resume_failed").await;
            assert_eq!(failed["params"], json!({"sessionId": session, "reason": "unknown_cursor"}));

            // A connection with another first message is not resumed.
            let mut hasty = hub.take_up(&client).await;
            hasty.begin("session/list", json!({})).await;
            let reason = hasty.ended().await;
            assert!(reason.contains("1002"), "version {version}: {reason}");
        });
    }
}
