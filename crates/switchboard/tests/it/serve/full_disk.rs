//! A hub with a full disk.

use std::fs::File;
use std::io::Write;

use serde_json::{Value, json};
use switchboard_testkit::{Mount, run_on_mount};

use super::hub::Hub;
use super::{block_on, shown, text};
use crate::agent_program::Place;

const SMALL_DISK: &str = "SWITCHBOARD_HUB_SMALL_DISK_TEST";

#[test]
fn nothing_that_was_told_is_lost_and_with_room_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (test, done) = ("serve::full_disk::child_on_a_small_disk", "it goes on");
    run_on_mount(Mount::Small(16), folder.path(), SMALL_DISK, test, done);
}

/// Child process: a hub on a small disk. Does nothing in an ordinary test run.
#[test]
fn child_on_a_small_disk() {
    let Ok(folder) = std::env::var(SMALL_DISK) else { return };
    let place = Place::below(&folder);
    let hub = Hub::start(&place, &["demo"]);
    let filler = place.home().join("filler");
    block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "hello").await;
        let mut told = client.until_idle().await;

        let mut file = File::create(&filler).unwrap();
        for size in [65536, 4096, 512, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        drop(file);
        // Some records may still fit; those that do not are not sent to any client, and the client gets an
        // error.
        let more = loop {
            client.prompt(&session, "flood 20000").await;
            match client.until_idle_or_end().await {
                Ok(more) => told.extend(more),
                Err(more) => break more,
            }
        };
        told.extend(more);
        let reason = client.ended().await;
        assert!(reason.contains("1011") && reason.contains("store is full"), "{reason}");

        // Other clients are served if this needs no space.
        let mut other = hub.client(2).await;
        let list = other.ask("session/list", json!({})).await;
        assert_eq!(list["result"]["sessions"][0]["sessionId"], *session, "{list}");
        let refused = other.ask("session/new", json!({"cwd": place.work(), "mcpServers": []})).await;
        let message = refused["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains("store is full"), "{refused}");

        // The session can be read again, and connections stay open.
        let resume = json!({"sessionId": session, "cwd": place.work(), "replayFrom": {"type": "start"}});
        for _ in 0..2 {
            let resumed = other.ask("session/resume", resume.clone()).await;
            assert!(resumed.get("error").is_none(), "{resumed}");
            let seen: Vec<Value> = other.seen.drain(..).collect();
            assert!(!text(&seen).is_empty());
            let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]});
            let refused = other.ask("session/prompt", prompt).await;
            let message = refused["error"]["message"].as_str().unwrap_or_default().to_owned();
            assert!(message.contains("store is full"), "{refused}");
        }

        std::fs::remove_file(&filler).unwrap();
        // Free space is detected without a restart.
        loop {
            let created = other.ask("session/new", json!({"cwd": place.work(), "mcpServers": []})).await;
            if created.get("error").is_none() {
                break;
            }
        }
        other.seen.clear();
        let resumed = other.ask("session/resume", resume).await;
        assert!(resumed.get("error").is_none(), "{resumed}");
        let kept: Vec<Value> = other.seen.drain(..).collect();
        // All messages that were sent are in the log.
        let logged = shown(&kept);
        for (what, text) in shown(&told) {
            assert!(logged.iter().any(|(known, all)| *known == what && all.starts_with(&text)), "{what}");
        }
        let state = &kept.last().unwrap()["params"]["update"];
        assert_eq!((&state["state"], &state["stopReason"]), (&json!("idle"), &json!("error")), "{state}");
        other.prompt(&session, "hello").await;
        assert!(!text(&other.until_idle().await).is_empty());
    });
    assert_eq!(hub.end(), Some(0));
    println!("it goes on");
}

#[test]
fn a_running_hub_deletes_the_oldest_dormant_sessions_before_its_store_is_full() {
    let place = Place::new();
    place.write("home/.config/switchboard/config.json", r#"{"store": {"max_size": "700kB"}}"#);
    let hub = Hub::start(&place, &["demo"]);
    let mut sessions = Vec::new();
    block_on(async {
        let mut client = hub.client(2).await;
        // Many times the available space.
        for number in 0..6 {
            let session = client.new_session(&place).await;
            for turn in 0..2 {
                client.prompt(&session, "flood 10000").await;
                let told = client.until_idle_or_end().await;
                assert!(told.is_ok(), "session {number}, turn {turn}");
            }
            let closed = client.ask("session/close", json!({"sessionId": session})).await;
            assert!(closed.get("error").is_none(), "{closed}");
            sessions.push(session);
        }
        let list = client.ask("session/list", json!({})).await;
        let listed: Vec<String> = list["result"]["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|session| session["sessionId"].as_str().unwrap().to_owned())
            .collect();
        assert!(listed.contains(sessions.last().unwrap()), "{listed:?}");
    });
    let store = hub.store().to_owned();
    assert_eq!(hub.end(), Some(0));
    let list = place.run(&["sessions", "--store", &store, "list", "--json"]);
    assert_eq!(list.code, 0, "{}", list.stderr);
    let left: Vec<Value> = list.json_lines();
    assert!(left.len() < sessions.len() && !left.is_empty(), "{} of {}", left.len(), sessions.len());
    // The oldest are deleted, and the newest are complete.
    let is_left = |id: &String| left.iter().any(|session| session["id"] == *id);
    assert!(!is_left(&sessions[0]) && is_left(sessions.last().unwrap()), "{left:?}");
}
