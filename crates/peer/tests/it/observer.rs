//! Events that an observer sees.

use std::sync::{Arc, Mutex};

use switchboard_acp::v2;
use switchboard_peer::{
    Client, ClientOptions, Observed, Observer, Turn, Versions, WireSide, agent_connection_options,
    serve_versions,
};
use switchboard_transport::{Connection, Direction};

use crate::support::{Scripted, Work, bounded, path};

/// Returns every message that an agent of these versions and its client exchange for one prompt.
async fn observe(versions: Versions) -> Vec<String> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let observer = Observer::new(move |observed| {
        notes.lock().unwrap().push(match observed {
            Observed::Line { side, direction, line } => {
                let side = if side == WireSide::Agent { "agent" } else { "canonical" };
                let arrow = if direction == Direction::Sent { '>' } else { '<' };
                let message: serde_json::Value = serde_json::from_str(line).unwrap();
                let update = &message["params"]["update"]["sessionUpdate"];
                let name = update.as_str().or(message["method"].as_str()).unwrap_or("answer");
                format!("{side} {arrow} {name}")
            }
            Observed::Version(version) => format!("version {version}"),
            Observed::Loss(_) => "loss".to_owned(),
            other => format!("{other:?}"),
        });
    });
    let options = ClientOptions { observer: Some(observer), ..ClientOptions::new("test", "1.0") };
    let (near, far) = Connection::pair(options.connection_options(), agent_connection_options());
    fn greet(turn: &Turn) -> Work<'_> {
        Box::pin(async {
            turn.say("hello").await?;
            Ok(v2::StopReason::EndTurn)
        })
    }
    tokio::spawn(serve_versions(Scripted(greet), far, versions));
    let Client { agent, mut feed } = Client::connect(near, options).await.unwrap();
    let request = v2::NewSessionRequest::new(path("/w"));
    let session = feed.until(agent.new_session(&request), drop).await.unwrap().unwrap().session_id;
    let content = vec![v2::ContentBlock::text("hi")];
    let mut turn = feed.until(agent.prompt(&session, content), drop).await.unwrap().unwrap();
    feed.until(turn.ended(), drop).await.unwrap();
    let seen = seen.lock().unwrap();
    seen.clone()
}

#[tokio::test]
async fn one_wire_is_seen_with_an_agent_of_version_two() {
    let seen = bounded(observe(Versions::Both)).await;
    assert_eq!(seen[..3], ["agent > initialize", "agent < answer", "version 2"]);
    for wanted in ["agent > session/prompt", "agent < agent_message_chunk", "agent < state_update"] {
        assert!(seen.iter().any(|line| line == wanted), "{wanted} is missing in {seen:#?}");
    }
    assert!(!seen.iter().any(|line| line.starts_with("canonical")), "{seen:#?}");
}

#[tokio::test]
async fn both_sides_of_the_translation_are_seen_with_an_agent_of_version_one() {
    let seen = bounded(observe(Versions::One)).await;
    let place = |wanted: &str| {
        seen.iter()
            .position(|line| line == wanted)
            .unwrap_or_else(|| panic!("{wanted} is missing in {seen:#?}"))
    };
    assert!(place("version 1") < place("canonical > initialize"));
    assert!(place("canonical > session/prompt") < place("agent > session/prompt"));
    assert!(place("agent < agent_message_chunk") < place("canonical < agent_message_chunk"));
    assert!(place("canonical < state_update") > place("canonical > session/prompt"));
}
