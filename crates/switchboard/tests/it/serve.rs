//! `switchboard serve`: sessions that outlive their clients.

mod behind;
pub(crate) mod browser_clients;
mod chaos;
mod cluster;
mod damage;
mod editors;
mod full_disk;
pub(crate) mod hub;
mod leaving;
pub(crate) mod lifecycle;
mod local_clients;
mod memory;
mod nats;
mod nats_access;
mod prompts;
mod push;
mod run_on;
mod taken_up;

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use self::hub::{Client, Hub};
use crate::agent_program::Place;
use crate::interop::{SWITCHBOARD, acpx, run_acpx};

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Returns the text of the agent, from whole messages and chunks.
fn text(messages: &[Value]) -> String {
    let said = shown(messages).into_iter().filter(|(what, _)| what.starts_with("agent_message "));
    said.map(|(_, text)| text).collect()
}

/// Returns the messages and tool calls that a client shows after these messages, with text and status,
/// independent of chunk boundaries.
pub(crate) fn shown(messages: &[Value]) -> Vec<(String, String)> {
    let updates = messages.iter().filter(|message| message["method"] == "session/update");
    shown_of(updates.map(|message| &message["params"]["update"]))
}

/// The same for bare updates.
pub(crate) fn shown_of<'u>(updates: impl Iterator<Item = &'u Value>) -> Vec<(String, String)> {
    let mut shown: Vec<(String, String, Option<String>)> = Vec::new();
    for update in updates {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        let id = ["messageId", "toolCallId"].into_iter().find_map(|key| update[key].as_str());
        if kind == "compaction_update" && update["_meta"]["switchboard/memoryLost"] == true {
            // An agent that has lost its memory may reuse its ids.
            shown.iter_mut().filter(|(what, ..)| !what.contains('~')).for_each(|(what, ..)| what.push('~'));
        }
        let stem = kind.trim_end_matches("_chunk").trim_end_matches("_update").trim_end_matches("_content");
        let what @ ("user_message" | "agent_message" | "agent_thought" | "tool_call") = stem else {
            continue;
        };
        let what = format!("{what} {}", id.unwrap_or_default());
        let at = shown.iter().position(|(known, ..)| *known == what).unwrap_or_else(|| {
            shown.push((what, String::new(), None));
            shown.len() - 1
        });
        let text_of = |block: &Value| {
            let block = if block["content"].is_object() { &block["content"] } else { block };
            block["text"].as_str().unwrap_or_default().to_owned()
        };
        match (&update["content"], kind.ends_with("_chunk")) {
            (content, true) => shown[at].1 += &text_of(content),
            (Value::Array(blocks), false) => shown[at].1 = blocks.iter().map(text_of).collect(),
            (Value::Null, false) if update.get("content").is_some() => shown[at].1.clear(),
            _ => {}
        }
        if let Some(status) = update["status"].as_str() {
            shown[at].2 = Some(status.to_owned());
        }
    }
    let line = |(what, text, status): (String, String, Option<String>)| {
        (what.split('~').next().unwrap_or_default().to_owned(), text + &status.unwrap_or_default())
    };
    shown.into_iter().map(line).collect()
}

/// Returns the cursors of the updates.
fn cursors(messages: &[Value]) -> Vec<u64> {
    let cursors = messages.iter().filter_map(|message| message["params"]["_meta"]["acp/cursor"].as_str());
    let position =
        |cursor: &str| cursor.rsplit_once('.').unwrap().1.split('-').next().unwrap().parse().unwrap();
    cursors.map(position).collect()
}

#[test]
fn a_team_shares_a_hub_and_each_sees_what_it_started() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let token = |name: &str| {
        let made = place.run(&["tokens", "add", name, "--role", "use", "--store", hub.store()]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        made.stdout.trim().to_owned()
    };
    let [anna, ben] = ["anna", "ben"].map(token);
    block_on(async {
        let mut first = hub.client_as(&anna, 2).await;
        let session = first.new_session(&place).await;
        first.prompt(&session, "hello").await;
        first.until_idle().await;
        let mut other = hub.client_as(&ben, 2).await;
        assert_eq!(other.ask("session/list", json!({})).await["result"]["sessions"], json!([]));
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]});
        assert_eq!(other.ask("session/prompt", prompt.clone()).await["error"]["code"], -32002);
        let server = json!([{"type": "stdio", "name": "s", "command": "/bin/true", "args": [], "env": []}]);
        let refused = other.ask("session/new", json!({"cwd": place.work(), "mcpServers": server})).await;
        assert_eq!(refused["error"]["code"], -32004, "{refused}");
        assert_eq!(refused["error"]["data"]["setting"], "hub.agent_options", "{refused}");
        let wrong = json!({"cwd": place.work(), "additionalDirectories": "/etc", "mcpServers": []});
        assert_eq!(other.ask("session/new", wrong).await["error"]["code"], -32602);

        // A new token with the same name has no access to sessions of the old one, from the start.
        let revoked = place.run(&["tokens", "revoke", "anna", "--store", hub.store()]);
        assert_eq!(revoked.code, 0, "{}", revoked.stderr);
        let anna = token("anna");
        let mut later = hub.client_as(&anna, 2).await;
        assert_eq!(later.ask("session/list", json!({})).await["result"]["sessions"], json!([]));
        assert_eq!(later.ask("session/prompt", prompt).await["error"]["code"], -32002);
        let mut admin = hub.client(2).await;
        assert_eq!(admin.ask("session/list", json!({})).await["result"]["sessions"][0]["sessionId"], session);
    });
    // It still has its sessions after the hub was killed.
    let listed = |token: &str, hub: &Hub| {
        block_on(async {
            let mut client = hub.client_as(token, 2).await;
            client.ask("session/list", json!({})).await["result"]["sessions"].as_array().unwrap().len()
        })
    };
    let mut hub = hub;
    block_on(async {
        let mut client = hub.client_as(&ben, 2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "hello").await;
        client.until_idle().await;
    });
    hub.cut_off();
    let hub = Hub::start(&place, &["demo"]);
    assert_eq!(listed(&ben, &hub), 1);
}

#[test]
fn clients_of_both_versions_look_at_one_session() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut new = hub.client(2).await;
        let session = new.new_session(&place).await;
        new.prompt(&session, "hello").await;
        let first = new.until_idle().await;

        let mut old = hub.client(1).await;
        let list = old.ask("session/list", json!({"cwd": place.work()})).await;
        assert_eq!(list["result"]["sessions"][0]["sessionId"], *session, "{list}");
        let load = json!({"sessionId": session, "cwd": place.work(), "mcpServers": []});
        let loaded = old.ask("session/load", load).await;
        assert!(loaded.get("error").is_none(), "{loaded}");
        let history: Vec<Value> = old.seen.drain(..).collect();
        assert_eq!(text(&history), text(&first));

        // Both clients see the turns of the other immediately.
        let prompt = old.prompt(&session, "tool").await;
        let answer = old.answer(prompt).await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        let second = new.until_idle().await;
        let seen: Vec<Value> = old.seen.drain(..).collect();
        assert_eq!(text(&seen), text(&second));
        assert!(
            second.iter().any(|message| message["params"]["update"]["sessionUpdate"] == "tool_call_update")
        );

        // No record is missing or duplicated.
        let places = [cursors(&first), cursors(&second)].concat();
        assert!(places.is_sorted_by(|one, other| one < other), "{places:?}");
        let mut third = hub.client(2).await;
        let resume = json!({"sessionId": session, "cwd": place.work(), "replayFrom": {"type": "start"}});
        let resumed = third.ask("session/resume", resume).await;
        assert!(resumed.get("error").is_none(), "{resumed}");
        let replayed: Vec<Value> = third.seen.drain(..).collect();
        assert_eq!(shown(&replayed), shown(&[first, second].concat()));
        let places = cursors(&replayed);
        assert!(places.is_sorted(), "{places:?}");
    });
    assert_eq!(hub.end(), Some(0));
}

#[test]
fn the_first_answer_wins_and_is_written_down_with_its_name() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let session = block_on(async {
        let (mut one, mut other) = (hub.client(2).await, hub.client(1).await);
        let session = one.new_session(&place).await;
        one.prompt(&session, "permission").await;
        let asked = one.question().await;
        // A client that attaches later gets the pending request as well.
        let load = json!({"sessionId": session, "cwd": place.work(), "mcpServers": []});
        assert!(other.ask("session/load", load).await.get("error").is_none());
        let also_asked = other.question().await;
        other.allow(&also_asked).await;
        let withdrawn = one.until(|message| message["method"] == "$/cancel_request").await;
        assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
        // A second answer has no effect.
        one.allow(&asked).await;
        one.until_idle().await;
        session
    });
    let shown = place.run(&["sessions", "show", &session, "--store", hub.store()]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(shown.stdout.contains("launch (old 1)"), "{}", shown.stdout);
}

#[test]
fn work_goes_on_without_its_client_and_after_a_restart() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let (session, cursor) = block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "permission").await;
        client.question().await;
        drop(client);
        // Another client gets the pending request, and the work continues.
        let mut client = hub.client(2).await;
        let resume = json!({"sessionId": session, "cwd": place.work()});
        assert!(client.ask("session/resume", resume).await.get("error").is_none());
        let question = client.question().await;
        client.allow(&question).await;
        let updates = client.until_idle().await;
        let last = updates.last().unwrap()["params"]["_meta"]["acp/cursor"].as_str().unwrap().to_owned();
        (session, last)
    });
    assert_eq!(hub.end(), Some(0));

    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut client = hub.client(2).await;
        let list = client.ask("session/list", json!({})).await;
        assert_eq!(list["result"]["sessions"][0]["sessionId"], *session, "{list}");
        let meta = json!({"acp/cursor": cursor});
        let resume = json!({"sessionId": session, "cwd": place.work(), "_meta": meta});
        assert!(client.ask("session/resume", resume).await.get("error").is_none());
        // Only the state: it has received everything else.
        let seen: Vec<Value> = client.seen.drain(..).collect();
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!(seen[0]["params"]["update"]["state"], "idle");
        // The next prompt starts the agent again.
        client.prompt(&session, "hello").await;
        let updates = client.until_idle().await;
        assert!(!text(&updates).is_empty(), "{updates:?}");
    });
}

#[test]
fn a_power_cut_ends_the_turn_and_nothing_else() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let prompt = |session: &str| {
        let meta = json!({"switchboard/operationId": "once"});
        json!({"sessionId": session, "prompt": [{"type": "text", "text": "permission"}], "_meta": meta})
    };
    let session = block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.begin("session/prompt", prompt(&session)).await;
        client.question().await;
        session
    });
    hub.kill();

    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut client = hub.client(2).await;
        let resume = json!({"sessionId": session, "cwd": place.work(), "replayFrom": {"type": "start"}});
        assert!(client.ask("session/resume", resume).await.get("error").is_none());
        let seen: Vec<Value> = client.seen.drain(..).collect();
        let state = &seen.last().unwrap()["params"]["update"];
        assert_eq!((&state["state"], &state["stopReason"]), (&json!("idle"), &json!("error")), "{state}");
        // The tool call with the pending request has ended, and no request is sent for it.
        let calls: Vec<_> =
            shown(&seen).into_iter().filter(|(what, _)| what.starts_with("tool_call")).collect();
        assert!(!calls.is_empty() && calls.iter().all(|(_, text)| !text.ends_with("pending")), "{calls:?}");
        assert!(calls.iter().any(|(_, text)| text.ends_with("failed")), "{calls:?}");
        assert!(seen.iter().all(|message| message["method"] != "session/request_permission"), "{seen:?}");
        // The prompt has already run, so it does not run again.
        let answer = client.ask("session/prompt", prompt(&session)).await;
        assert!(answer.get("result").is_some(), "{answer}");
        client.prompt(&session, "hello").await;
        let updates = client.until_idle().await;
        assert!(
            updates.iter().all(|message| message["method"] != "session/request_permission"),
            "{updates:?}"
        );
    });
}

#[test]
fn two_prompts_at_once_are_held_in_their_order() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let (mut one, mut other) = (hub.client(1).await, hub.client(1).await);
        let session = one.new_session(&place).await;
        let load = json!({"sessionId": session, "cwd": place.work(), "mcpServers": []});
        assert!(other.ask("session/load", load).await.get("error").is_none());
        let first = one.prompt(&session, "permission").await;
        let question = one.question().await;
        let second = other.prompt(&session, "hello").await;
        one.allow(&question).await;
        assert_eq!(one.answer(first).await["result"]["stopReason"], "end_turn");
        assert_eq!(other.answer(second).await["result"]["stopReason"], "end_turn");
    });
}

#[test]
fn an_old_client_is_answered_when_its_own_turn_ends_however_often_it_asks() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let (session, again, answer) = block_on(async {
        let (mut new, mut old) = (hub.client(2).await, hub.client(1).await);
        let session = new.new_session(&place).await;
        let load = json!({"sessionId": session, "cwd": place.work(), "mcpServers": []});
        assert!(old.ask("session/load", load.clone()).await.get("error").is_none());
        new.prompt(&session, "permission").await;
        let question = new.question().await;
        new.prompt(&session, "hello").await;
        // It is queued now, before the next one.
        new.ask("session/list", json!({})).await;
        let again = json!({
            "sessionId": session, "prompt": [{"type": "text", "text": "tool"}],
            "_meta": {"switchboard/operationId": "once"},
        });
        let prompt = old.begin("session/prompt", again.clone()).await;
        new.allow(&question).await;
        let answer = old.answer(prompt).await["result"].clone();
        assert_eq!(answer["stopReason"], "end_turn", "{answer}");
        let calls = |messages: &mut Client| {
            let seen = messages.seen.drain(..);
            seen.filter(|message| message["params"]["update"]["sessionUpdate"] == "tool_call").count()
        };
        let called = calls(&mut old);
        assert!(called > 1, "the calls of the first turn, and its own");
        assert_eq!(old.ask("session/prompt", again.clone()).await["result"], answer);
        assert_eq!(calls(&mut old), 0, "it does not run again");
        (session, again, answer)
    });
    assert_eq!(hub.end(), Some(0));
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut old = hub.client(1).await;
        let load = json!({"sessionId": session, "cwd": place.work(), "mcpServers": []});
        assert!(old.ask("session/load", load).await.get("error").is_none());
        assert_eq!(old.ask("session/prompt", again).await["result"], answer);
    });
}

#[test]
fn a_hub_keeps_the_protocol() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    for version in ["v1", "v2"] {
        let address = format!("ws://{}/acp", hub.address);
        let judged = place
            .command(&["conform", "agent", "--format", "json", "--protocol", version, "--", &address])
            .env("SWITCHBOARD_TOKEN", &hub.token)
            // Its sessions use temporary directories here.
            .env("TMPDIR", place.work())
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&judged.stdout).unwrap();
        let broken: Vec<&Value> =
            report["rules"].as_array().unwrap().iter().filter(|rule| rule["status"] == "fail").collect();
        assert_eq!(report["verdict"], "conformant", "version {version}: {broken:?}");
    }
    assert_eq!(hub.end(), Some(0));
}

#[test]
fn a_prompt_that_is_posted_again_runs_once() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let sessions = block_on(async {
        let mut sessions = Vec::new();
        for version in [1, 2] {
            let mut client = hub.client_over_http(version).await;
            let session = client.new_session(&place).await;
            let prompt = json!([{"type": "text", "text": "hello"}]);
            let params = json!({"sessionId": session, "prompt": prompt});
            let prompt = json!({"jsonrpc": "2.0", "id": 70, "method": "session/prompt", "params": params});
            client.send(prompt.clone()).await;
            client.send(prompt.clone()).await;
            let answer = client.answer(70).await;
            assert!(answer.get("result").is_some(), "{answer}");
            // Also one whose response was lost.
            client.send(prompt).await;
            assert_eq!(client.answer(70).await, answer, "version {version}");
            sessions.push(session);
        }
        sessions
    });
    let store = hub.store().to_owned();
    assert_eq!(hub.end(), Some(0));
    for session in sessions {
        let exported = place.command(&["sessions", "export", &session, "--store", &store]).output().unwrap();
        let exported = String::from_utf8(exported.stdout).unwrap();
        assert_eq!(exported.matches(r#""method":"session/prompt""#).count(), 1, "{exported}");
    }
}

#[test]
fn an_attaching_client_gets_history_questions_and_notices_in_either_version() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut owner = hub.client(2).await;
        let session = owner.new_session(&place).await;
        owner.prompt(&session, "hello").await;
        let mut said = text(&owner.until_idle().await);
        for version in [1, 2] {
            let mut guest = hub.client(version).await;
            let attach =
                json!({"sessionId": session, "historyPolicy": "full", "clientInfo": {"name": "guest"}});
            let attached = guest.ask("session/attach", attach).await;
            assert_eq!(attached["result"]["historyPolicy"], "full", "{attached}");
            assert_eq!(text(guest.seen.make_contiguous()), said, "version {version}");
            owner.prompt(&session, "permission").await;
            let question = owner.question().await;
            guest.question().await;
            owner.allow(&question).await;
            let kind = |name: &'static str| {
                move |message: &Value| message["params"]["update"]["sessionUpdate"] == name
            };
            let received = guest.until(kind("prompt_received")).await;
            assert_eq!(received["params"]["update"]["sentBy"]["name"], "new", "{received}");
            let resolved = guest.until(kind("permission_resolved")).await;
            assert_eq!(resolved["params"]["update"]["resolvedBy"]["name"], "new", "{resolved}");
            guest.until(kind("turn_complete")).await;
            said += &text(&owner.until_idle().await);
            let detached = guest.ask("session/detach", json!({"sessionId": session})).await;
            assert_eq!(detached["result"], json!({"sessionId": session, "status": "detached"}));
        }
    });
}

#[test]
fn an_agent_that_dies_ends_its_turn_and_is_started_again() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "crash").await;
        let updates = client.until_idle().await;
        let state = &updates.last().unwrap()["params"]["update"];
        assert_eq!(state["stopReason"], "error", "{state}");
        client.prompt(&session, "hello").await;
        assert!(!text(&client.until_idle().await).is_empty());
    });
}

#[test]
fn sub_agents_belong_to_their_session_by_name() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "subagents").await;
        let mut named = Vec::new();
        loop {
            let message = client.until(|message| message.get("method").is_some()).await;
            let name = message["params"]["sessionId"].as_str().unwrap_or(&session).to_owned();
            assert!(name == session || name.starts_with(&format!("{session}:")), "{message}");
            let update = &message["params"]["update"];
            if update["sessionUpdate"] == "subagent_update" {
                named.push(update["sessionId"].as_str().unwrap().to_owned());
            }
            if message["method"] == "session/request_permission" {
                assert!(named.contains(&name), "{message}");
                client.allow(&message).await;
            }
            if name == session && update["state"] == "idle" {
                break;
            }
        }
        assert!(
            !named.is_empty() && named.iter().all(|name| name.starts_with(&format!("{session}:"))),
            "{named:?}"
        );
        // They are not listed as separate sessions.
        let list = client.ask("session/list", json!({})).await;
        assert_eq!(list["result"]["sessions"].as_array().unwrap().len(), 1, "{list}");
        for name in [format!("{session}:nobody"), format!("nobody:{}", named[0])] {
            let refused = client.ask("session/set_config_option", json!({"sessionId": name})).await;
            assert_eq!(refused["error"]["code"], -32002, "{refused}");
        }
    });
}

/// Creates a token with the command line.
fn token(place: &Place, hub: &Hub, name: &str, role: &str) -> String {
    let made = place.run(&["tokens", "add", name, "--role", role, "--store", hub.store()]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    made.stdout.trim().to_owned()
}

#[test]
fn roles_and_sharing_are_kept() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let (view, answer) = (token(&place, &hub, "vera", "view"), token(&place, &hub, "anna", "answer"));
    block_on(async {
        let mut own = hub.client(2).await;
        let session = own.new_session(&place).await;
        own.prompt(&session, "hello").await;
        own.until_idle().await;
        let mut viewer = hub.client_as(&view, 2).await;
        let resume = json!({"sessionId": session, "cwd": place.work(), "replayFrom": {"type": "start"}});
        let refused = viewer.ask("session/resume", resume.clone()).await;
        assert_eq!(refused["error"]["code"], -32002, "{refused}");
        assert_eq!(refused["error"]["data"]["sessionId"], *session);
        assert_eq!(viewer.ask("session/list", json!({})).await["result"]["sessions"], json!([]));

        for name in ["vera", "anna"] {
            let shared = place.run(&["hub", "share", &session, name, "--store", hub.store()]);
            assert_eq!(shared.code, 0, "{}", shared.stderr);
        }
        // A running hub reads new shares; the delay is not tested here.
        let is_shared = async |client: &mut Client| loop {
            let list = client.ask("session/list", json!({})).await;
            if list["result"]["sessions"][0]["sessionId"] == *session {
                break;
            }
            tokio::task::yield_now().await;
        };
        is_shared(&mut viewer).await;
        assert!(viewer.ask("session/resume", resume.clone()).await.get("error").is_none());
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]});
        let refused = viewer.ask("session/prompt", prompt).await;
        assert_eq!(refused["error"]["code"], -32004, "{refused}");
        assert_eq!(refused["error"]["data"], json!({"role": "view", "needs": "use"}));
        let refused = viewer.ask("session/new", json!({"cwd": place.work()})).await;
        assert_eq!(refused["error"]["code"], -32004, "{refused}");

        let mut answerer = hub.client_as(&answer, 2).await;
        is_shared(&mut answerer).await;
        assert!(answerer.ask("session/resume", resume).await.get("error").is_none());
        own.prompt(&session, "permission").await;
        own.question().await;
        let question = answerer.question().await;
        answerer.allow(&question).await;
        own.until_idle().await;
        // A client with the role `view` did not get the request.
        let seen = viewer.until_idle().await;
        assert!(seen.iter().all(|message| message["method"] != "session/request_permission"), "{seen:?}");

        let revoked = place.run(&["tokens", "revoke", "vera", "--store", hub.store()]);
        assert_eq!(revoked.code, 0, "{}", revoked.stderr);
        let end = viewer.ended().await;
        assert!(end.contains("4401"), "{end}");
        let refused = hub.client_with(&view, "").await.err().unwrap().to_string();
        assert!(refused.contains("401"), "{refused}");
    });
}

#[test]
fn strangers_stay_outside() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let mode = std::fs::metadata(place.home().join("hub.token")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let status = |head: &str| hub.http(head).lines().next().unwrap_or_default().to_owned();
    assert!(status("GET /health HTTP/1.1").contains("200"));
    assert!(status("GET /metrics HTTP/1.1").contains("401"));
    let own = format!("Authorization: Bearer {}", hub.token);
    assert!(status(&format!("GET /metrics HTTP/1.1\n{own}")).contains("200"));
    assert!(status(&format!("GET /metrics HTTP/1.1\n{own}\nOrigin: http://evil.example")).contains("403"));
    assert!(status(&format!("POST /acp/nobody HTTP/1.1\n{own}\nContent-Length: 0")).contains("404"));
    // Ten wrong tokens per minute are allowed; the valid one still works.
    let wrong = "GET /metrics HTTP/1.1\nAuthorization: Bearer sb_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for _ in 0..10 {
        assert!(status(wrong).contains("401"));
    }
    let refused = hub.http(wrong);
    assert!(refused.contains("429") && refused.to_lowercase().contains("retry-after"), "{refused}");
    assert!(status(&format!("GET /metrics HTTP/1.1\n{own}")).contains("200"));
}

#[test]
fn acpx_works_in_a_hub() {
    let Some(acpx) = acpx() else { return };
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let (url, file) = (format!("ws://{}/acp", hub.address), place.home().join("hub.token"));
    let agent = [SWITCHBOARD, "connect", &url, "--token-file", file.to_str().unwrap()];
    for prompt in ["hello", "permission"] {
        let run = run_acpx(&place, &acpx, &agent, prompt);
        let said: Vec<Value> = run.json_lines();
        let end = said.iter().filter_map(|message| message["result"]["stopReason"].as_str()).next_back();
        assert_eq!(end, Some("end_turn"), "{prompt}: {}{}", run.stdout, run.stderr);
        // The client leaves, and the session stays unchanged.
        block_on(async {
            let mut client = hub.client(1).await;
            let list = client.ask("session/list", json!({})).await;
            let session = list["result"]["sessions"][0]["sessionId"].as_str().unwrap().to_owned();
            let load = json!({"sessionId": session, "cwd": place.work(), "mcpServers": []});
            assert!(client.ask("session/load", load).await.get("error").is_none());
            let seen: Vec<Value> = client.seen.drain(..).collect();
            assert!(!text(&seen).is_empty() && text(&seen) == text(&said), "{prompt}: {}", run.stdout);
        });
    }
}

#[test]
fn a_session_that_another_hub_has_is_refused_and_both_go_on() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "permission").await;
        let question = client.question().await;
        // A second hub on the same store, while the first one is working.
        let other = Hub::start(&place, &["demo"]);
        let mut guest = other.client(2).await;
        let resume = json!({"sessionId": session, "cwd": place.work(), "replayFrom": {"type": "start"}});
        let refused = guest.ask("session/resume", resume.clone()).await;
        let reason = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}")).to_owned();
        assert!(reason.contains("open in another program"), "{reason}");
        assert!(guest.ask("session/list", json!({})).await.get("result").is_some());
        client.allow(&question).await;
        client.until_idle().await;
        assert_eq!(hub.end(), Some(0));
        // Now no hub has it.
        assert!(guest.ask("session/resume", resume).await.get("result").is_some());
        guest.prompt(&session, "hello").await;
        guest.until(|message| message.to_string().contains("Hello")).await;
        assert_eq!(other.end(), Some(0));
    });
}

#[test]
fn sessions_deleted_by_another_process_are_not_listed() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let session = block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "hello").await;
        client.until_idle().await;
        session
    });
    assert_eq!(hub.end(), Some(0));
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut client = hub.client(2).await;
        let deleted = place.run(&["sessions", "delete", &session, "--store", hub.store()]);
        assert_eq!(deleted.code, 0, "{}", deleted.stderr);
        loop {
            let list = client.ask("session/list", json!({})).await;
            if list["result"]["sessions"] == json!([]) {
                break;
            }
        }
        let gone = client.ask("session/resume", json!({"sessionId": session, "cwd": place.work()})).await;
        assert_eq!(gone["error"]["code"], -32002, "{gone}");
    });
}

#[test]
fn invalid_requests_get_specific_errors() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    std::os::unix::fs::symlink("/", place.work().join("out")).unwrap();
    block_on(async {
        let mut client = hub.client(2).await;
        for folder in ["/", "/etc", "relative", &format!("{}/out/etc", place.work().display())] {
            let refused = client.ask("session/new", json!({"cwd": folder})).await;
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
            assert_eq!(refused["error"]["data"]["roots"], json!([place.work()]), "{refused}");
        }
        let more = json!({"cwd": place.work(), "additionalDirectories": ["/etc"]});
        assert_eq!(client.ask("session/new", more).await["error"]["code"], -32602);
        let unknown = client.ask("session/prompt", json!({"sessionId": "nobody", "prompt": []})).await;
        assert_eq!(unknown["error"]["code"], -32002, "{unknown}");
        let session = client.new_session(&place).await;
        let other = client.new_session(&place).await;
        for cursor in [format!("{session}.99999"), format!("{other}.1"), "x".to_owned()] {
            let meta = json!({"acp/cursor": cursor});
            let resume = json!({"sessionId": session, "cwd": place.work(), "_meta": meta});
            let refused = client.ask("session/resume", resume).await;
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
        }
        let elsewhere = client.ask("session/resume", json!({"sessionId": session, "cwd": "/"})).await;
        assert_eq!(elsewhere["error"]["code"], -32602);
        let mut stranger = hub.client_with(&hub.token, "").await.unwrap();
        let refused = stranger.initialize(0).await;
        assert_eq!(refused["error"]["code"], -32022, "{refused}");
        let nobody = hub.client_with(&hub.token, "/nobody").await.err().unwrap().to_string();
        assert!(nobody.contains("404"), "{nobody}");
        // Other clients are not affected.
        client.prompt(&session, "hello").await;
        client.until_idle().await;
    });
}
