//! Agents that do not stop, that close their input, and that lose their memory.

use serde_json::json;

use super::hub::Hub;
use super::{block_on, text};
use crate::agent_program::Place;

/// A version 1 agent that cannot load sessions. It sends its process id, works forever on the prompt `wait`,
/// and ignores cancellations. If its directory contains the file `deaf`, it removes the file after it has
/// opened a session, closes its input, and sends a message about it.
const STUBBORN: &str = r#"#!/bin/sh
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case $line in
    *'"initialize"'*) result='{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"stubborn","version":"1"}}' ;;
    *'"session/new"'*) result="{\"sessionId\":\"s-$$\"}" ;;
    *'"session/prompt"'*)
        printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-%s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I am %s."}}}}\n' $$ $$
        case $line in *wait*) continue ;; esac
        result='{"stopReason":"end_turn"}'
        ;;
    *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
    case $line in *'"session/new"'*)
        if [ -e deaf ]; then
            rm deaf
            exec <&-
            printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-%s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"deaf"}}}}\n' $$
            exec sleep 1000
        fi ;;
    esac
done
"#;

/// Writes the agent to a directory, with one second to stop. Returns its command.
pub(crate) fn write_stubborn(place: &Place) -> [&'static str; 3] {
    place.write("work/stubborn", STUBBORN);
    place.write("home/.config/switchboard/config.json", r#"{"hub": {"cancel_timeout": "1s"}}"#);
    ["--", "sh", "stubborn"]
}

fn stubborn(place: &Place) -> Hub {
    Hub::start(place, &write_stubborn(place))
}

/// Returns the process id that an agent has sent.
fn process(said: &str) -> u32 {
    said.rsplit_once("I am ").unwrap().1.trim_end_matches('.').parse().unwrap()
}

fn is_running(process: u32) -> bool {
    std::path::Path::new(&format!("/proc/{process}")).exists()
}

#[test]
fn an_agent_that_ignores_cancel_is_given_up_and_started_again_and_the_session_stays_one() {
    let place = Place::new();
    let hub = stubborn(&place);
    let session = block_on(async {
        let mut client = hub.client(1).await;
        let opened = client.ask("session/new", json!({"cwd": place.work(), "mcpServers": []})).await;
        let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
        let prompt = |text: &str| json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        let waiting = client.begin("session/prompt", prompt("wait")).await;
        let said = client.until(|message| message["params"]["update"]["content"]["text"].is_string()).await;
        let first = process(&text(&[said]));
        client
            .send(json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}))
            .await;
        let answer = client.answer(waiting).await;
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
        // Its process runs until a client stops it, or needs another one.
        assert!(is_running(first));
        let mut other = hub.client(2).await;
        let list = other.ask("session/list", json!({})).await;
        let listed = &list["result"]["sessions"][0];
        assert_eq!(listed["_meta"]["switchboard/unresponsive"], true, "{list}");
        client.seen.clear();
        let answer = client.ask("session/prompt", prompt("hello")).await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        let said: Vec<_> = client.seen.drain(..).collect();
        assert!(text(&said).contains("lost its memory of what is above"), "{said:?}");
        let second = process(&text(&said));
        assert_ne!(first, second);
        assert!(!is_running(first), "two would work in the same folder");
        // Stopped by a client, and started again by the next prompt.
        let waiting = client.begin("session/prompt", prompt("wait again")).await;
        client.until(|message| message["params"]["update"]["content"]["text"].is_string()).await;
        let ended = other.ask("_switchboard/end_agent", json!({"sessionId": session})).await;
        assert!(ended["result"].is_object(), "{ended}");
        let answer = client.answer(waiting).await;
        assert!(answer["error"]["message"].as_str().unwrap().contains("ended by a client"), "{answer}");
        let answer = client.ask("session/prompt", prompt("hello")).await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        session
    });
    assert_eq!(hub.end(), Some(0));
    // There is one session with one transcript for all later clients.
    let store = place.home().join("hub.sqlite3");
    let store = store.to_str().unwrap();
    let shown = place.run(&["sessions", "show", &session, "--store", store]);
    assert_eq!(shown.stdout.matches("I am ").count(), 4, "{}", shown.stdout);
    assert_eq!(shown.stdout.matches("--- The agent has lost its memory").count(), 2, "{}", shown.stdout);
    let json = place.run(&["sessions", "show", &session, "--json", "--store", store]);
    assert_eq!(json.stdout.lines().count(), 1, "{}", json.stdout);
    for before_and_after in ["again", "hello"] {
        let found = place.run(&["sessions", "search", before_and_after, "--store", store]);
        assert!(found.stdout.contains(&session), "{}", found.stdout);
    }
    let listed = place.run(&["sessions", "list", "--store", store]);
    assert!(listed.stdout.contains("wait"), "the title stays: {}", listed.stdout);
}

#[test]
fn a_prompt_to_an_agent_that_has_closed_its_input_goes_to_the_next_one() {
    let place = Place::new();
    place.write("work/deaf", "");
    let hub = stubborn(&place);
    block_on(async {
        for version in [1, 2] {
            place.write("work/deaf", "");
            let mut client = hub.client(version).await;
            let opened = client.ask("session/new", json!({"cwd": place.work(), "mcpServers": []})).await;
            let session =
                opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
            client.until(|message| message["params"]["update"]["content"]["text"] == "deaf").await;
            let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]});
            let answer = client.ask("session/prompt", prompt).await;
            assert_eq!(answer["error"], serde_json::Value::Null, "{answer}");
            if version == 2 {
                client.until_idle().await;
            }
            // The other version gets another process.
            client.ask("_switchboard/end_agent", json!({"sessionId": session})).await;
            let closed = client.ask("session/close", json!({"sessionId": session})).await;
            drop(closed);
        }
    });
}

#[test]
fn at_the_limit_of_open_files_every_new_session_is_answered_and_the_connection_stays() {
    let place = Place::new();
    let command = place.command(&["serve"]);
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "ulimit -n 48; exec \"$@\"", "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.current_dir(place.work()).stdout(std::process::Stdio::piped()).stdin(std::process::Stdio::null());
    let hub = Hub::start_command(&place, "hub", limited, &["demo"]).unwrap();
    block_on(async {
        let mut client = hub.client(2).await;
        let mut opened = 0;
        for _ in 0..60 {
            let answer = client.ask("session/new", json!({"cwd": place.work(), "mcpServers": []})).await;
            assert!(answer["result"].is_object() || answer["error"]["message"].is_string(), "{answer}");
            opened += usize::from(answer["result"].is_object());
        }
        assert!(opened > 0);
        // Open connections still work.
        let list = client.ask("session/list", json!({})).await;
        assert!(list["result"]["sessions"].is_array(), "{list}");
    });
}

#[test]
fn the_messages_of_an_agent_that_is_started_again_have_ids_of_their_own() {
    let place = Place::new();
    let hub = stubborn(&place);
    let session = block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        let mut seen = std::collections::HashSet::new();
        for _ in 0..4 {
            client.prompt(&session, "hello").await;
            let said = client.until_idle().await;
            let ids = said.iter().filter_map(|message| message["params"]["update"]["messageId"].as_str());
            let ids: std::collections::BTreeSet<_> = ids.map(str::to_owned).collect();
            assert!(ids.len() >= 2, "the prompt and the answer: {said:?}");
            for id in ids {
                assert!(seen.insert(id.clone()), "{id} again: {said:?}");
            }
            client.ask("_switchboard/end_agent", json!({"sessionId": session})).await;
            client.seen.clear();
        }
        session
    });
    assert_eq!(hub.end(), Some(0));
    let store = place.home().join("hub.sqlite3");
    let shown = place.run(&["sessions", "show", &session, "--store", store.to_str().unwrap()]);
    let lines = shown.stdout.lines().filter(|line| line.matches("I am ").count() == 1).count();
    assert_eq!(lines, 4, "each answer is a message of its own: {}", shown.stdout);
}
