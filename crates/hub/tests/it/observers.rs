//! What programs around a hub see: records, events, numbers and changes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use switchboard_hub::{Listener, SessionActivity, SessionEvent, SessionEventKind};
use switchboard_store::{Channel, Role};

use crate::support::{LIMIT, Place, person};

/// A listener that keeps everything.
#[derive(Clone, Default)]
pub(crate) struct Recorded {
    records: Arc<Mutex<Vec<(Channel, String)>>>,
    events: Arc<Mutex<Vec<SessionEvent>>>,
}

impl Recorded {
    /// Waits for an event.
    pub(crate) async fn until_event<T>(&self, meant: impl Fn(&SessionEventKind) -> Option<T>) -> T {
        let wait = async {
            loop {
                if let Some(found) = self.events.lock().unwrap().iter().find_map(|event| meant(&event.kind)) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LIMIT, wait).await.expect("the event does not come")
    }
}

impl Listener for Recorded {
    fn record_appended(&mut self, _session: &str, channel: Channel, text: &str) {
        self.records.lock().unwrap().push((channel, text.to_owned()));
    }

    fn client_message(&mut self, line: &str) -> Option<String> {
        line.contains("change me").then(|| line.replace("change me", "changed"))
    }

    fn session_event(&mut self, event: SessionEvent) {
        self.events.lock().unwrap().push(event);
    }

    fn wants_events(&self) -> bool {
        true
    }
}

fn observed() -> (Place, Recorded) {
    let recorded = Recorded::default();
    let listener = recorded.clone();
    (Place::start_with(|options| options.listener = Some(Box::new(listener))), recorded)
}

#[tokio::test]
async fn records_are_seen_in_the_order_of_the_log() {
    let (place, recorded) = observed();
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.turn(&session, "hello").await;
    let records = recorded.records.lock().unwrap().clone();
    let at = |channel: Channel, part: &str| {
        let is_it = |(known, text): &(Channel, String)| *known == channel && text.contains(part);
        records.iter().position(is_it).unwrap_or_else(|| panic!("{part}: {records:?}"))
    };
    let places = [
        at(Channel::ToAgent, "session/new"),
        at(Channel::ToAgent, "session/prompt"),
        at(Channel::ToClient, "you said"),
        at(Channel::ToClient, "end_turn"),
    ];
    assert!(places.is_sorted(), "{places:?}");
    place.end().await;
}

#[tokio::test]
async fn a_listener_can_replace_a_message() {
    let (place, _) = observed();
    let mut client = place.client().await;
    let session = client.new_session().await;
    assert_eq!(client.turn(&session, "change me").await, "you said changed");
    place.end().await;
}

#[tokio::test]
async fn events_tell_of_questions_answers_and_turns() {
    let (place, recorded) = observed();
    let mut client = place.client().await;
    let session = client.new_session().await;
    client.prompt(&session, "ask").await;
    let question = client.question().await;
    client.choose(&question, "y").await;
    client.until_idle().await;
    let reason = recorded.until_event(|event| match event {
        SessionEventKind::TurnEnded { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert_eq!(reason.await, "end_turn");
    let by = recorded.until_event(|event| match event {
        SessionEventKind::Resolved { by, .. } => Some(by.clone()),
        _ => None,
    });
    assert_eq!(by.await.as_deref(), Some("root"));
    place.end().await;
}

#[tokio::test]
async fn an_event_tells_of_an_agent_that_died() {
    let (place, recorded) = observed();
    let mut client = place.client().await;
    let session = client.new_session().await;
    client
        .begin("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": "die"}]}))
        .await;
    client.until_idle().await;
    let reason = recorded.until_event(|event| match event {
        SessionEventKind::AgentDied { reason } => Some(reason.clone()),
        _ => None,
    });
    assert!(reason.await.contains('3'), "the exit code");
    place.end().await;
}

#[tokio::test]
async fn the_activity_of_a_session_is_seen_without_a_connection() {
    let place = Place::start();
    let root = person("root", Role::Admin);
    let mut changes = place.hub.changes();
    let mut client = place.client().await;
    let session = client.new_session().await;
    let until = async |wanted: SessionActivity, changes: &mut tokio::sync::watch::Receiver<u64>| {
        loop {
            let (_, sessions) = place.hub.sessions(&root).await.unwrap();
            if sessions.first().map(|session| session.state) == Some(wanted) {
                return sessions[0].clone();
            }
            tokio::time::timeout(LIMIT, changes.changed()).await.unwrap().unwrap();
        }
    };
    client.prompt(&session, "ask").await;
    let waiting = until(SessionActivity::Waiting, &mut changes).await;
    assert_eq!(
        (&*waiting.id, &*waiting.agent, &*waiting.owner, waiting.questions),
        (&*session, "one", "root", 1)
    );
    let question = client.question().await;
    client.choose(&question, "y").await;
    until(SessionActivity::Idle, &mut changes).await;
    place.end().await;
}

#[tokio::test]
async fn metrics_count_sessions_and_clients() {
    let place = Place::start();
    let mut client = place.client().await;
    client.new_session().await;
    let counts = place.hub.counts().await.unwrap();
    assert_eq!((counts.connections, counts.subscriptions), (1, 1));
    let text = place.hub.metrics().await.unwrap();
    assert!(text.lines().any(|line| line.starts_with("# TYPE switchboard_")), "{text}");
    drop(client);
    place.until_counts(|counts| counts.connections == 0).await;
    place.end().await;
}

#[tokio::test]
async fn a_hub_that_has_ended_takes_nobody_and_says_nothing() {
    let place = Place::start();
    let mut client = place.client().await;
    place.end().await;
    client.until_end().await;
    assert!(place.hub.counts().await.is_none());
    assert_eq!(place.hub.metrics().await, None);
    assert_eq!(place.hub.sessions(&person("root", Role::Admin)).await, None);
    place.end().await;
}
