//! A hub whose journals were damaged while it was stopped.

use serde_json::{Value, json};

use super::hub::Hub;
use super::{block_on, text};
use crate::agent_program::Place;

#[test]
fn a_hub_that_was_killed_shows_everything_around_a_damaged_record() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let (session, said) = block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "hello").await;
        let before = text(&client.until_idle().await);
        client.prompt(&session, "flood 50").await;
        client.until_idle().await;
        client.prompt(&session, "hello").await;
        let after = text(&client.until_idle().await);
        assert!(!before.is_empty() && !after.is_empty());
        (session, [before, after])
    });
    let store = hub.store().to_owned();
    hub.kill();
    let journal = format!("{store}-writers/{session}.0");
    let mut bytes = std::fs::read(&journal).unwrap();
    let wrong = bytes.windows(8).position(|window| window == b"piece 20").unwrap();
    bytes[wrong] ^= 1;
    std::fs::write(&journal, bytes).unwrap();

    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut client = hub.client(2).await;
        let resume = json!({"sessionId": session, "cwd": place.work(), "replayFrom": {"type": "start"}});
        let resumed = client.ask("session/resume", resume).await;
        assert!(resumed.get("error").is_none(), "{resumed}");
        let seen: Vec<Value> = client.seen.drain(..).collect();
        let shown = text(&seen);
        // Only the records that were written together with the damaged one are lost.
        assert!(!shown.contains("piece 20\n"), "{shown}");
        assert!(said.iter().all(|said| shown.contains(&**said)), "{shown}");
        // The session continues.
        client.prompt(&session, "hello").await;
        assert!(!text(&client.until_idle().await).is_empty());
    });
    assert_eq!(hub.end(), Some(0));
    let show = place.run(&["sessions", "--store", &store, "show", &session]);
    assert_eq!(show.code, 1, "{}", show.stderr);
    assert!(show.stderr.contains("the damaged file is kept as"), "{}", show.stderr);
}
