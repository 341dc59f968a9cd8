//! Clients that leave a session with a pending permission request, and clients that attach after text was
//! withdrawn.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use super::hub::{Client, Hub};
use super::{block_on, shown, token};
use crate::agent_program::Place;

/// Attaches to a session with the method of a version.
async fn attach(client: &mut Client, session: &str, place: &Place, version: u64) {
    let method = if version == 1 { "session/load" } else { "session/resume" };
    let params = json!({"sessionId": session, "cwd": place.work(), "mcpServers": [],
        "replayFrom": {"type": "start"}});
    let answer = client.ask(method, params).await;
    assert!(answer.get("error").is_none(), "{answer}");
}

/// Connects with `switchboard connect`, waits for the pending request if its role may answer, and
/// disconnects.
fn come_by_connect(place: &Place, hub: &Hub, token: &str, session: &str, is_asked: bool, is_killed: bool) {
    let mut command = place.command(&["connect", &format!("ws://{}/acp", hub.address)]);
    let mut child =
        command.env("SWITCHBOARD_TOKEN", token).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let info = json!({"name": "editor", "version": "1"});
    let resume = json!({"sessionId": session, "cwd": place.work()});
    for (id, method, params) in [
        (1, "initialize", json!({"protocolVersion": 2, "info": info, "capabilities": {}})),
        (2, "session/resume", resume),
    ] {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(input, "{line}").unwrap();
    }
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let is_question = line["method"] == "session/request_permission";
        let is_answer = line["id"] == 2 && line.get("method").is_none();
        if if is_asked { is_question } else { is_answer } {
            break;
        }
    }
    if is_killed {
        child.kill().unwrap();
    }
    drop(input);
    child.wait().unwrap();
}

#[test]
fn a_question_survives_every_role_that_leaves_in_every_way() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let token = |name: &str, role: &str| {
        let made = token(&place, &hub, name, role);
        (made, role == "answer")
    };
    let (view, answer) = (token("vera", "view"), token("anna", "answer"));
    block_on(async {
        let mut owner = hub.client(2).await;
        let session = owner.new_session(&place).await;
        owner.prompt(&session, "permission").await;
        let question = owner.question().await;
        for name in ["vera", "anna"] {
            let shared = place.run(&["hub", "share", &session, name, "--store", hub.store()]);
            assert_eq!(shared.code, 0, "{}", shared.stderr);
        }
        for (token, is_asked) in [view, answer, (hub.token.clone(), true)] {
            // A running hub reads new shares; the delay is not tested here.
            let mut looking = hub.client_as(&token, 2).await;
            while looking.ask("session/list", json!({})).await["result"]["sessions"][0].is_null() {
                tokio::task::yield_now().await;
            }
            for version in [1, 2] {
                for way in ["dropped", "detached", "error", "http dropped", "http error"] {
                    let mut client = match way.starts_with("http") {
                        true => hub.client_over_http_as(&token, version).await,
                        false => hub.client_as(&token, version).await,
                    };
                    attach(&mut client, &session, &place, version).await;
                    if is_asked {
                        let asked = client.question().await;
                        if way.ends_with("error") {
                            let error = json!({"code": -32603, "message": "the window was closed"});
                            client.send(json!({"jsonrpc": "2.0", "id": asked["id"], "error": error})).await;
                        }
                    }
                    if way == "detached" {
                        client.ask("session/detach", json!({"sessionId": session})).await;
                    }
                    // Its messages are processed before it disconnects.
                    client.ask("session/list", json!({})).await;
                    drop(client);
                    // The next client gets the pending request.
                    let mut next = hub.client(2).await;
                    attach(&mut next, &session, &place, 2).await;
                    next.question().await;
                }
            }
            for is_killed in [false, true] {
                come_by_connect(&place, &hub, &token, &session, is_asked, is_killed);
            }
        }
        // The request was never cancelled for the first client, and its answer is used.
        owner.ask("session/list", json!({})).await;
        let withdrawn = owner.seen.iter().filter(|message| message["method"] == "$/cancel_request").count();
        assert_eq!(withdrawn, 0, "{:?}", owner.seen);
        owner.allow(&question).await;
        let updates = owner.until_idle().await;
        let last = updates.last().unwrap();
        assert_eq!(last["params"]["update"]["stopReason"], "end_turn", "{last}");
        let calls = shown(&updates).into_iter().filter(|(what, _)| what.starts_with("tool_call"));
        assert!(calls.into_iter().any(|(_, text)| text.ends_with("completed")), "{updates:?}");
    });
    assert_eq!(hub.end(), Some(0));
}

#[test]
fn text_that_the_agent_took_back_is_sent_to_nobody_who_comes_later() {
    let place = Place::new();
    let mut hub = Hub::start(&place, &["demo"]);
    let (session, first) = block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        let mut seen = Vec::new();
        for prompt in ["redact", "replace"] {
            client.prompt(&session, prompt).await;
            seen.extend(client.until_idle().await);
        }
        (session, seen)
    });
    let said = |messages: &[Value]| messages.iter().map(Value::to_string).collect::<String>();
    assert!(said(&first).contains("five") && shown(&first).iter().all(|(_, text)| !text.contains("five")));
    for is_restarted in [false, true] {
        if is_restarted {
            hub.kill();
            hub = Hub::start(&place, &["demo"]);
        }
        block_on(async {
            for version in [1, 2] {
                for is_http in [false, true] {
                    let mut client = match is_http {
                        true => hub.client_over_http(version).await,
                        false => hub.client(version).await,
                    };
                    attach(&mut client, &session, &place, version).await;
                    let right = |message: &Value| message.to_string().contains("Now it is right.");
                    if !client.seen.iter().any(right) {
                        let last = client.until(right).await;
                        client.seen.push_back(last);
                    }
                    let seen: Vec<Value> = client.seen.drain(..).collect();
                    let words = said(&seen);
                    for gone in ["hunter", "five", "password"] {
                        assert!(!words.contains(gone), "version {version}: {gone} in {words}");
                    }
                    assert!(words.contains("four"), "{words}");
                    if version == 2 {
                        assert_eq!(shown(&seen), shown(&first));
                    }
                }
            }
            // With any cursor, the client shows the correct state.
            let cursor =
                |message: &Value| message["params"]["_meta"]["acp/cursor"].as_str().map(str::to_owned);
            for (at, message) in first.iter().enumerate() {
                let Some(cursor) = cursor(message) else { continue };
                let mut client = hub.client(2).await;
                let params =
                    json!({"sessionId": session, "cwd": place.work(), "_meta": {"acp/cursor": cursor}});
                let answer = client.ask("session/resume", params).await;
                assert!(answer.get("error").is_none(), "{answer}");
                let rest: Vec<Value> = client.seen.drain(..).collect();
                assert!(!said(&rest).contains("hunter"), "after {cursor}: {rest:?}");
                assert_eq!(shown(&[&first[..=at], &rest].concat()), shown(&first), "after {cursor}");
            }
            // A client that keeps its messages has no duplicates.
            let mut client = hub.client(2).await;
            attach(&mut client, &session, &place, 2).await;
            let again: Vec<Value> = client.seen.drain(..).collect();
            assert_eq!(shown(&[first.clone(), again].concat()), shown(&first));
        });
    }
}
