//! Trace context is always passed on, and spans are sent only on request.

#[cfg(feature = "otlp")]
mod sending;

use serde_json::{Value, json};

use crate::agent_program::Place;
use crate::bridge::Client;
use crate::serve::hub::Hub;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const ANSWERED: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

/// Returns the demo agent in a version. It writes received messages to a file in the working directory, and
/// its messages contain a trace context.
fn agent(place: &Place, version: u8) -> String {
    let program = env!("CARGO_BIN_EXE_switchboard");
    let heard = place.work().join("heard.jsonl");
    format!(
        r#"tee {} | {program} demo-agent --protocol {version} | sed -u 's/"sessionUpdate":"agent_message_chunk"/&,"_meta":{{"traceparent":"{ANSWERED}"}}/'"#,
        heard.display()
    )
}

/// Returns the metadata of the prompt that the agent received.
fn heard(place: &Place) -> Value {
    let heard = std::fs::read_to_string(place.work().join("heard.jsonl")).unwrap();
    let lines = heard.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let prompts: Vec<Value> = lines.filter(|line| line["method"] == "session/prompt").collect();
    assert_eq!(prompts.len(), 1, "{heard}");
    prompts[0]["params"]["_meta"].clone()
}

fn prompt(session: &str) -> Value {
    let text = [json!({"type": "text", "text": "hello"})];
    let meta = json!({"traceparent": PARENT, "tracestate": "vendor=1", "baggage": "a=b"});
    json!({"sessionId": session, "prompt": text, "_meta": meta})
}

#[test]
fn the_bridge_passes_on_where_work_belongs() {
    for (client_version, agent_version) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let place = Place::new();
        let mut client = Client::with_agent(&[], &agent(&place, agent_version));
        let answer = client.ask(
            1,
            "initialize",
            json!({"protocolVersion": client_version, "clientCapabilities": {},
            "capabilities": {}, "info": {"name": "test", "version": "1"}}),
        );
        assert_eq!(answer["result"]["protocolVersion"], client_version);
        let opened = client.ask(2, "session/new", json!({"cwd": place.work(), "mcpServers": []}));
        let session = opened["result"]["sessionId"].as_str().unwrap();
        client
            .say(&json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt(session)}));
        let chunk = loop {
            let message = client.hear();
            if message["params"]["update"]["sessionUpdate"] == "agent_message_chunk" {
                break message;
            }
        };
        let case = format!("client {client_version}, agent {agent_version}");
        assert_eq!(chunk["params"]["update"]["_meta"]["traceparent"], ANSWERED, "{case}");
        client.end();
        let meta = heard(&place);
        assert_eq!(
            (&meta["traceparent"], &meta["tracestate"], &meta["baggage"]),
            (&json!(PARENT), &json!("vendor=1"), &json!("a=b")),
            "{case}"
        );
    }
}

#[test]
fn the_hub_passes_on_where_work_belongs() {
    for (client_version, agent_version) in [(1, 2), (2, 1)] {
        let place = Place::new();
        let hub = Hub::start(&place, &["--", "sh", "-c", &agent(&place, agent_version)]);
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let mut client = hub.client(client_version).await;
            let session = client.new_session(&place).await;
            client.begin("session/prompt", prompt(&session)).await;
            let told =
                client.until(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
            assert_eq!(told.await["params"]["update"]["_meta"]["traceparent"], ANSWERED);
        });
        let meta = heard(&place);
        assert_eq!((&meta["traceparent"], &meta["tracestate"]), (&json!(PARENT), &json!("vendor=1")));
        assert_eq!(hub.end(), Some(0));
    }
}

#[test]
#[cfg(not(feature = "otlp"))]
fn a_program_without_telemetry_says_how_to_get_it() {
    let place = Place::new();
    for command in [&["run", "demo", "hello"][..], &["bridge", "demo"], &["serve", "demo"]] {
        let run = place.run(&[command, &["--otlp", "http://127.0.0.1:9"]].concat());
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains("released packages include it"), "{}", run.stderr);
        let help = place.run(&[command[0], "--help"]);
        assert!(help.code == 0 && !help.stdout.contains("--otlp"), "{}", help.stdout);
    }
}
