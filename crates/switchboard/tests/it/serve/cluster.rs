//! Several hubs whose log is kept by the same NATS servers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchboard_testkit::NatsServer;

use super::hub::{Client, Hub};
use super::{block_on, cursors, text};
use crate::agent_program::Place;

/// After how long the servers forget a hub, and a few seconds.
const FORGOTTEN: Duration = Duration::from_secs(12);

/// A place with a NATS server.
fn place_with_server() -> Option<(Place, NatsServer)> {
    let place = Place::new();
    let folder = place.home().join("nats");
    std::fs::create_dir_all(&folder).unwrap();
    let server = NatsServer::start(&folder)?;
    Some((place, server))
}

/// Looks at a session from its beginning; gives the places and the text of what it has.
async fn attach(client: &mut Client, session: &str, place: &Place) -> (Vec<u64>, String) {
    let resume = json!({"sessionId": session, "cwd": place.work(), "replayFrom": {"type": "start"}});
    let begun = Instant::now();
    loop {
        let resumed = client.ask("session/resume", resume.clone()).await;
        if resumed.get("error").is_none() {
            break;
        }
        // It may have been begun at another hub only just now.
        assert!(resumed["error"]["code"] == -32002 && begun.elapsed() < FORGOTTEN, "{resumed}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let seen: Vec<Value> = client.seen.drain(..).collect();
    let mut places = cursors(&seen);
    // The last is the state, once more.
    places.pop();
    (places, text(&seen))
}

fn is_error(message: &Value) -> bool {
    message["params"]["update"]["stopReason"] == "error"
}

#[test]
fn a_session_is_used_through_any_hub() {
    let Some((place, server)) = place_with_server() else { return };
    let one = Hub::start_as(&place, "one", &["--log", &server.address(), "demo"]);
    let other = Hub::start_as(&place, "other", &["--log", &server.address(), "demo"]);
    block_on(async {
        let mut at_one = one.client(2).await;
        let session = at_one.new_session(&place).await;
        at_one.prompt(&session, "hello").await;
        let first = text(&at_one.until_idle().await);
        let mut at_other = other.client(2).await;
        assert_eq!(attach(&mut at_other, &session, &place).await.1, first);

        // What is asked for here is done there, and both see it.
        let prompt = at_other.prompt(&session, "permission").await;
        let answer = at_other.answer(prompt).await;
        assert!(answer.get("error").is_none(), "{answer}");
        let question = at_other.question().await;
        let same = at_one.question().await;
        at_other.allow(&question).await;
        at_one.until(|message| message["params"]["requestId"] == same["id"]).await;
        let seen = at_other.until_idle().await;
        assert!(seen.iter().all(|message| message["method"] != "$/cancel_request"), "{seen:?}");
        let at_home = at_one.until_idle().await;
        assert_eq!((cursors(&seen), text(&seen)), (cursors(&at_home), text(&at_home)));

        // So is what is cancelled here.
        at_other.prompt(&session, "slow 600").await;
        at_one.until(|message| message["params"]["update"]["state"] == "running").await;
        at_other.until(|message| message["params"]["update"]["state"] == "running").await;
        at_other
            .send(json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}))
            .await;
        let ended = at_one.until(|message| message["params"]["update"]["state"] == "idle").await;
        assert_eq!(ended["params"]["update"]["stopReason"], "cancelled", "{ended}");
        at_other.until_idle().await;

        // An old client gets the answer when its turn is over.
        let mut old = other.client(1).await;
        let load = json!({"sessionId": session, "cwd": place.work(), "mcpServers": []});
        assert!(old.ask("session/load", load).await.get("error").is_none());
        let prompt = old.prompt(&session, "hello").await;
        let answer = old.answer(prompt).await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert!(text(&old.seen.drain(..).collect::<Vec<_>>()).ends_with(&first));

        // A session that its hub has let go of goes on here, and one that is deleted is gone here, too.
        let closed = at_one.ask("session/close", json!({"sessionId": session})).await;
        assert!(closed.get("error").is_none(), "{closed}");
        let mut again = other.client(2).await;
        again.prompt(&session, "hello").await;
        again.until(|message| message["params"]["update"]["state"] == "running").await;
        again.seen.clear();
        again.until(|message| message["params"]["update"]["stopReason"] == "end_turn").await;
        assert_eq!(text(&again.seen.drain(..).collect::<Vec<_>>()), first);
        let deleted = at_one.ask("session/delete", json!({"sessionId": session})).await;
        assert!(deleted.get("error").is_none(), "{deleted}");
        for client in [&mut at_one, &mut again] {
            let begun = Instant::now();
            loop {
                let list = client.ask("session/list", json!({})).await;
                if list["result"]["sessions"] == json!([]) {
                    break;
                }
                assert!(begun.elapsed() < FORGOTTEN, "{list}");
            }
        }
    });
    assert_eq!((one.end(), other.end()), (Some(0), Some(0)));
}

#[test]
fn a_session_whose_hub_is_lost_goes_on_at_another() {
    let Some((place, server)) = place_with_server() else { return };
    let one = Hub::start_as(&place, "one", &["--log", &server.address(), "demo"]);
    let other = Hub::start_as(&place, "other", &["--log", &server.address(), "demo"]);
    block_on(async {
        let mut at_one = one.client(2).await;
        let session = at_one.new_session(&place).await;
        let mut at_other = other.client(2).await;
        attach(&mut at_other, &session, &place).await;
        at_one.prompt(&session, "slow 600").await;
        at_other.until(|message| message["params"]["update"]["state"] == "running").await;
        one.kill();
        let begun = Instant::now();
        let told = at_other.until(is_error).await;
        assert!(begun.elapsed() < FORGOTTEN, "{:?}", begun.elapsed());
        assert!(told.to_string().contains("the turn was interrupted"), "{told}");
        at_other.seen.clear();
        at_other.prompt(&session, "hello").await;
        assert!(!text(&at_other.until_idle().await).is_empty());
    });
    assert_eq!(other.end(), Some(0));
}

#[test]
fn a_hub_that_stood_still_writes_nothing_more() {
    let Some((place, server)) = place_with_server() else { return };
    let one = Hub::start_as(&place, "one", &["--log", &server.address(), "demo"]);
    let other = Hub::start_as(&place, "other", &["--log", &server.address(), "demo"]);
    block_on(async {
        let mut at_one = one.client(2).await;
        let session = at_one.new_session(&place).await;
        let mut at_other = other.client(2).await;
        attach(&mut at_other, &session, &place).await;
        at_one.prompt(&session, "slow 600").await;
        at_other.until(|message| message["params"]["update"]["state"] == "running").await;
        one.signal("STOP");
        // A prompt that comes meanwhile waits for the one that can do it.
        let prompt = at_other.prompt(&session, "hello").await;
        let told = at_other.until(is_error).await;
        assert!(told.to_string().contains("the turn was interrupted"), "{told}");
        let answer = at_other.answer(prompt).await;
        assert!(answer.get("error").is_none(), "{answer}");
        at_other.until_idle().await;
        one.signal("CONT");
        let reason = at_one.ended().await;
        assert!(reason.contains("cannot be written"), "{reason}");
        let mut beside = other.client(2).await;
        let there = attach(&mut beside, &session, &place).await;
        let begun = Instant::now();
        // It has to read first what came meanwhile.
        let mut again = loop {
            let mut again = one.client(2).await;
            let here = attach(&mut again, &session, &place).await;
            if here == there {
                break again;
            }
            assert!(begun.elapsed() < FORGOTTEN, "{here:?} is not {there:?}");
        };
        // And it is as good as any other from then on.
        again.prompt(&session, "hello").await;
        assert!(!text(&again.until_idle().await).is_empty());
    });
    assert_eq!((one.end(), other.end()), (Some(0), Some(0)));
}
