//! Notifications and the page: nobody is notified of what they look at.

use std::time::{Duration, Instant};

use serde_json::json;

use super::talk::Talk;
use crate::agent_program::Place;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_question_is_held_while_its_page_is_looked_at_and_sent_when_the_page_is_left() {
    let place = Place::new();
    let file = place.home().join("events");
    let script = format!("cat >> {}", file.display());
    let target = json!({"command": ["sh", "-c", script], "after": "0s"});
    let config = json!({"hub": {"notify": [target]}}).to_string();
    place.write("home/.config/switchboard/config.json", &config);
    let talk = Talk::with(place, &["demo"]);
    talk.say("command");
    talk.page.wait_for("[data-question] button");
    // The page shows the outcomes.
    talk.page.click("#settings summary");
    talk.page.click("[data-action=notifications]");
    talk.page.wait_for("dialog :: command: 0 sent");
    talk.page.screenshot("notifications");
    assert!(!file.exists(), "{:?}", std::fs::read_to_string(&file));
    talk.all_is_well();
    talk.page.eval("location.href = 'about:blank'");
    let until = Instant::now() + PATIENCE;
    while !std::fs::read_to_string(&file).unwrap_or_default().contains("\"event\":\"question\"") {
        assert!(Instant::now() < until, "{:?}", std::fs::read_to_string(&file));
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
