//! Clients that resume a session from a cursor: on another connection, and after a restart.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::hub::{Client, Hub};
use super::{block_on, shown};
use crate::agent_program::Place;

fn cursor(message: &Value) -> Option<&str> {
    message["params"]["_meta"]["acp/cursor"].as_str()
}

/// Returns the messages to a client that attaches from the beginning, after another client has sent a prompt.
async fn watch(hub: &Hub, place: &Place, version: u64) -> (String, Vec<Value>) {
    let (mut owner, mut client) = (hub.client(2).await, hub.client(version).await);
    let session = owner.new_session(place).await;
    let params = json!({"sessionId": session, "historyPolicy": "full"});
    assert!(client.ask("session/attach", params).await.get("error").is_none());
    for prompt in ["hello", "tool"] {
        owner.prompt(&session, prompt).await;
        owner.until_idle().await;
        client.until(|message| message["params"]["update"]["sessionUpdate"] == "turn_complete").await;
    }
    let seen = client.seen.drain(..).filter(|message| cursor(message).is_some()).collect();
    (session, seen)
}

/// Sends a request with a new client, and returns its messages.
async fn after(hub: &Hub, version: u64, method: &str, params: Value) -> (Vec<Value>, Value) {
    let mut client: Client = hub.client(version).await;
    let answer = client.ask(method, params).await;
    (client.seen.drain(..).collect(), answer)
}

#[test]
fn attaching_after_a_message_works_after_a_restart() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let seen = block_on(async { [watch(&hub, &place, 1).await, watch(&hub, &place, 2).await] });
    let check = |hub: &Hub| {
        block_on(async {
            for (version, (session, seen)) in [1, 2].into_iter().zip(&seen) {
                let ids = seen.iter().filter_map(|message| message["params"]["update"]["messageId"].as_str());
                let ids: std::collections::BTreeSet<&str> = ids.collect();
                assert!(ids.len() >= 3, "{seen:?}");
                for id in ids {
                    let last = |message: &Value| message["params"]["update"]["messageId"] == id;
                    let last = seen.iter().rposition(last).unwrap();
                    let params =
                        json!({"sessionId": session, "historyPolicy": "after_message", "afterMessageId": id});
                    let (rest, answer) = after(hub, version, "session/attach", params).await;
                    assert_eq!(answer["result"]["historyPolicy"], "after_message", "{answer}");
                    let all = [&seen[..=last], &rest].concat();
                    assert_eq!(shown(&all), shown(seen), "version {version} after {id}");
                }
                let params =
                    json!({"sessionId": session, "historyPolicy": "after_message", "afterMessageId": "none"});
                let (_, answer) = after(hub, version, "session/attach", params).await;
                assert_eq!(answer["error"]["code"], -32602, "{answer}");
                assert_eq!(answer["error"]["data"]["reason"], "unknown_message", "{answer}");
            }
        });
    };
    check(&hub);
    assert_eq!(hub.end(), Some(0));
    check(&Hub::start(&place, &["demo"]));
}

#[test]
fn a_cursor_is_good_on_another_connection_in_either_version() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let seen = block_on(async { [watch(&hub, &place, 1).await, watch(&hub, &place, 2).await] });
    assert_eq!(hub.end(), Some(0));
    let hub = Hub::start(&place, &["demo"]);
    for (version, (session, seen)) in [1, 2].into_iter().zip(&seen) {
        for last in [0, seen.len() / 3, seen.len() / 2, seen.len() - 1] {
            let known = cursor(&seen[last]).unwrap();
            // If one record became several messages, the client has all of them.
            let more = seen[last + 1..].iter().take_while(|message| cursor(message) == Some(known)).count();
            let had = &seen[..=last + more];
            let params = json!({"sessionId": session, "cwd": place.work(), "mcpServers": [],
                "_meta": {"acp/cursor": known}});
            let (by_request, answer) = block_on(after(&hub, version, "session/resume", params));
            assert!(answer.get("error").is_none(), "{answer}");
            assert_eq!(shown(&[had, &by_request].concat()), shown(seen), "version {version} after {known}");
            if shown(had) != shown(seen) {
                stream(&hub, version, session, known, had, &shown(seen));
            }
        }
        // The session continues to work.
        block_on(async {
            let mut client = hub.client(version).await;
            let known = cursor(seen.last().unwrap()).unwrap();
            let params = json!({"sessionId": session, "cwd": place.work(), "mcpServers": [],
                "_meta": {"acp/cursor": known}});
            assert!(client.ask("session/resume", params).await.get("error").is_none());
            let prompt = client.prompt(session, "hello").await;
            assert!(client.answer(prompt).await.get("error").is_none());
        });
        let refused = ask(&hub, version, session, "elsewhere.1");
        assert!(refused.starts_with("HTTP/1.1 409"), "{refused}");
    }
}

/// Opens the event stream of a session from a cursor, on a connection that has only sent `initialize`.
fn open(hub: &Hub, version: u64, session: &str, cursor: &str) -> TcpStream {
    let own = format!("Host: {}\r\nAuthorization: Bearer {}\r\n", hub.address, hub.token);
    let params = match version {
        1 => json!({"protocolVersion": 1, "clientCapabilities": {}}),
        _ => json!({"protocolVersion": 2, "info": {"name": "new", "version": "2"}, "capabilities": {}}),
    };
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let mut post = TcpStream::connect(&hub.address).unwrap();
    post.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!("{own}Connection: close\r\nContent-Type: application/json");
    write!(post, "POST /acp HTTP/1.1\r\n{head}\r\nContent-Length: {}\r\n\r\n{hello}", hello.len()).unwrap();
    let mut answer = String::new();
    post.read_to_string(&mut answer).unwrap();
    let id = answer.lines().find_map(|line| line.strip_prefix("acp-connection-id: ")).expect(&answer);
    let mut stream = TcpStream::connect(&hub.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head =
        format!("{own}Accept: text/event-stream\r\nAcp-Connection-Id: {id}\r\nAcp-Session-Id: {session}");
    write!(stream, "GET /acp HTTP/1.1\r\n{head}\r\nLast-Event-ID: {cursor}\r\n\r\n").unwrap();
    stream
}

/// Reads the stream until a client with earlier messages shows the expected state.
fn stream(hub: &Hub, version: u64, session: &str, cursor: &str, had: &[Value], wanted: &[(String, String)]) {
    let mut stream = open(hub, version, session, cursor);
    let (mut text, mut piece) = (String::new(), [0; 4096]);
    loop {
        let messages: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?.trim()).ok())
            .collect();
        if shown(&[had, &messages].concat()) == wanted {
            return;
        }
        let read = stream.read(&mut piece).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert!(read > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
}

/// Returns the beginning of the response.
fn ask(hub: &Hub, version: u64, session: &str, cursor: &str) -> String {
    let mut piece = [0; 512];
    let read = open(hub, version, session, cursor).read(&mut piece).unwrap();
    String::from_utf8_lossy(&piece[..read]).into_owned()
}
