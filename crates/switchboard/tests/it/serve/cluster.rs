//! Several hubs with a shared log on NATS servers.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchboard_testkit::NatsServer;

use super::hub::{Client, Hub};
use super::nats::place_with_server;
use super::{block_on, cursors, text};
use crate::agent_program::Place;
use crate::interop::SWITCHBOARD;

/// Time after which the servers forget a hub, plus a few seconds.
const FORGOTTEN: Duration = Duration::from_secs(12);

/// Returns a directory with a NATS server and two hubs.
fn two_hubs() -> Option<(Place, NatsServer, Hub, Hub)> {
    let (place, server) = place_with_server(&["--jetstream"])?;
    let [one, other] = ["one", "other"]
        .map(|name| Hub::start_as(&place, name, &["--session-log", &server.address(), "demo"]));
    Some((place, server, one, other))
}

/// Returns a session with running work at one hub, a client there, and one at the other hub.
async fn at_work(place: &Place, one: &Hub, other: &Hub) -> (Client, Client, String) {
    let mut at_one = one.client(2).await;
    let session = at_one.new_session(place).await;
    let mut at_other = other.client(2).await;
    attach(&mut at_other, &session, place).await;
    at_one.prompt(&session, "slow 600").await;
    at_other.until(|message| message["params"]["update"]["state"] == "running").await;
    (at_one, at_other, session)
}

/// Attaches to a session from its beginning; returns its cursors and its text.
pub(super) async fn attach(client: &mut Client, session: &str, place: &Place) -> (Vec<u64>, String) {
    attach_in(client, session, &place.work()).await
}

async fn attach_in(client: &mut Client, session: &str, folder: &Path) -> (Vec<u64>, String) {
    let resume = json!({"sessionId": session, "cwd": folder, "replayFrom": {"type": "start"}});
    let begun = Instant::now();
    loop {
        let resumed = client.ask("session/resume", resume.clone()).await;
        if resumed.get("error").is_none() {
            break;
        }
        // It may just have been created at another hub.
        assert!(resumed["error"]["code"] == -32002 && begun.elapsed() < FORGOTTEN, "{resumed}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let seen: Vec<Value> = client.seen.drain(..).collect();
    let mut places = cursors(&seen);
    // The last one is the state again.
    places.pop();
    (places, text(&seen))
}

fn is_error(message: &Value) -> bool {
    message["params"]["update"]["stopReason"] == "error"
}

#[test]
fn a_session_is_used_through_any_hub() {
    let Some((place, _server, one, other)) = two_hubs() else { return };
    block_on(async {
        let mut at_one = one.client(2).await;
        let session = at_one.new_session(&place).await;
        at_one.prompt(&session, "hello").await;
        let first = text(&at_one.until_idle().await);
        let mut at_other = other.client(2).await;
        assert_eq!(attach(&mut at_other, &session, &place).await.1, first);

        // A prompt at this hub runs at the other, and both clients see it.
        let prompt = at_other.prompt(&session, "permission").await;
        let answer = at_other.answer(prompt).await;
        assert!(answer.get("error").is_none(), "{answer}");
        let question = at_other.question().await;
        let same = at_one.question().await;
        at_other.allow(&question).await;
        at_one.until(|message| message["params"]["requestId"] == same["id"]).await;
        let seen = at_other.until_idle().await;
        assert!(seen.iter().all(|message| message["method"] != "$/cancel_request"), "{seen:?}");
        let at_home = at_one.until_idle().await;
        assert_eq!((cursors(&seen), text(&seen)), (cursors(&at_home), text(&at_home)));

        // So does a cancellation.
        at_other.prompt(&session, "slow 600").await;
        at_one.until(|message| message["params"]["update"]["state"] == "running").await;
        at_other.until(|message| message["params"]["update"]["state"] == "running").await;
        at_other
            .send(json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}))
            .await;
        let ended = at_one.until(|message| message["params"]["update"]["state"] == "idle").await;
        assert_eq!(ended["params"]["update"]["stopReason"], "cancelled", "{ended}");
        at_other.until_idle().await;

        // A version 1 client gets the response at the end of its turn.
        let mut old = other.client(1).await;
        let load = json!({"sessionId": session, "cwd": place.work(), "mcpServers": []});
        assert!(old.ask("session/load", load).await.get("error").is_none());
        let prompt = old.prompt(&session, "hello").await;
        let answer = old.answer(prompt).await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert!(text(&old.seen.drain(..).collect::<Vec<_>>()).ends_with(&first));

        // A session that its hub has released continues here, and a deleted one is gone here as well.
        let closed = at_one.ask("session/close", json!({"sessionId": session})).await;
        assert!(closed.get("error").is_none(), "{closed}");
        let mut again = other.client(2).await;
        again.prompt(&session, "hello").await;
        again.until(|message| message["params"]["update"]["state"] == "running").await;
        again.seen.clear();
        again.until(|message| message["params"]["update"]["stopReason"] == "end_turn").await;
        assert_eq!(text(&again.seen.drain(..).collect::<Vec<_>>()), first);
        let deleted = at_one.ask("session/delete", json!({"sessionId": session})).await;
        assert!(deleted.get("error").is_none(), "{deleted}");
        for client in [&mut at_one, &mut again] {
            let begun = Instant::now();
            loop {
                let list = client.ask("session/list", json!({})).await;
                if list["result"]["sessions"] == json!([]) {
                    break;
                }
                assert!(begun.elapsed() < FORGOTTEN, "{list}");
            }
        }
    });
    assert_eq!((one.end(), other.end()), (Some(0), Some(0)));
}

#[test]
fn a_session_whose_hub_is_lost_goes_on_at_another() {
    let Some((place, _server, one, other)) = two_hubs() else { return };
    block_on(async {
        let (_at_one, mut at_other, session) = at_work(&place, &one, &other).await;
        one.kill();
        let begun = Instant::now();
        let told = at_other.until(is_error).await;
        assert!(begun.elapsed() < FORGOTTEN, "{:?}", begun.elapsed());
        assert!(told.to_string().contains("the turn was interrupted"), "{told}");
        at_other.seen.clear();
        at_other.prompt(&session, "hello").await;
        assert!(!text(&at_other.until_idle().await).is_empty());
    });
    assert_eq!(other.end(), Some(0));
}

/// Returns whether a process is running; a zombie is not.
fn is_running(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn the_agent_of_a_hub_that_stands_still_or_is_cut_off_is_gone_before_another_goes_on() {
    let Some((place, server)) = place_with_server(&["--jetstream"]) else { return };
    for is_frozen in [true, false] {
        let gate = switchboard_testkit::Gate::start(([127, 0, 0, 1], server.port()).into()).unwrap();
        let pid = place.home().join(format!("pid-{is_frozen}"));
        // Its child processes are stopped as well, also those that ignore SIGTERM.
        let agent = format!(
            "trap '' TERM; echo $$ > '{}'; sleep 1000 & '{SWITCHBOARD}' demo-agent",
            pid.to_str().unwrap()
        );
        let names = [format!("one-{is_frozen}"), format!("other-{is_frozen}")];
        let through_gate = format!("nats://{}", gate.address());
        let one =
            Hub::start_as(&place, &names[0], &["--session-log", &through_gate, "--", "sh", "-c", &agent]);
        let agent = format!("'{SWITCHBOARD}' demo-agent");
        let other =
            Hub::start_as(&place, &names[1], &["--session-log", &server.address(), "--", "sh", "-c", &agent]);
        block_on(async {
            let (_at_one, mut at_other, session) = at_work(&place, &one, &other).await;
            let process = std::fs::read_to_string(&pid).unwrap().trim().to_owned();
            assert!(is_running(&process));
            match is_frozen {
                true => one.signal("STOP"),
                false => gate.open(false),
            }
            // Another hub continues the session when the lease has expired.
            let prompt = at_other.prompt(&session, "hello").await;
            at_other.until(is_error).await;
            assert!(!is_running(&process), "two agents work in one folder");
            let answer = at_other.answer(prompt).await;
            assert!(answer.get("error").is_none(), "{answer}");
            match is_frozen {
                true => one.signal("CONT"),
                false => gate.open(true),
            }
            at_other.until_idle().await;
        });
        assert_eq!((one.end(), other.end()), (Some(0), Some(0)));
    }
}

#[test]
fn a_hub_that_stood_still_writes_nothing_more() {
    let Some((place, _server, one, other)) = two_hubs() else { return };
    block_on(async {
        let (at_one, mut at_other, session) = at_work(&place, &one, &other).await;
        one.signal("STOP");
        // A prompt in the meantime waits for the hub that can run it.
        let prompt = at_other.prompt(&session, "hello").await;
        let told = at_other.until(is_error).await;
        assert!(told.to_string().contains("the turn was interrupted"), "{told}");
        let answer = at_other.answer(prompt).await;
        assert!(answer.get("error").is_none(), "{answer}");
        at_other.until_idle().await;
        one.signal("CONT");
        let reason = at_one.ended().await;
        assert!(reason.contains("cannot write the log"), "{reason}");
        let mut beside = other.client(2).await;
        let there = attach(&mut beside, &session, &place).await;
        let begun = Instant::now();
        // It first has to read the records since then.
        let mut again = loop {
            let mut again = one.client(2).await;
            let here = attach(&mut again, &session, &place).await;
            if here == there {
                break again;
            }
            assert!(begun.elapsed() < FORGOTTEN, "{here:?} is not {there:?}");
        };
        // Afterwards it works like any other hub.
        again.prompt(&session, "hello").await;
        assert!(!text(&again.until_idle().await).is_empty());
    });
    assert_eq!((one.end(), other.end()), (Some(0), Some(0)));
}

#[test]
fn a_session_goes_on_only_where_its_folder_is() {
    let Some((place, server)) = place_with_server(&["--jetstream"]) else { return };
    let folders = ["a", "b", "both"].map(|name| place.work().join(name));
    for folder in &folders {
        std::fs::create_dir(folder).unwrap();
    }
    let [of_a, of_b, of_both] = &folders;
    let start = |name: &str, roots: &[&PathBuf]| {
        let configuration = place.home().join(name);
        place.write(
            format!("home/{name}/switchboard/config.json"),
            &json!({"roots": roots.iter().map(|root| root.to_str().unwrap()).collect::<Vec<_>>()})
                .to_string(),
        );
        let mut command = place.command(&["serve"]);
        command.env("XDG_CONFIG_HOME", configuration);
        Hub::start_command(&place, name, command, &["--session-log", &server.address(), "demo"]).unwrap()
    };
    let (a, b, c) = (start("a", &[of_a]), start("b", &[of_b, of_both]), start("c", &[of_both]));
    block_on(async {
        let mut at_b = b.client(2).await;
        for (folder, hubs) in [(of_b, vec![]), (of_both, vec![&c])] {
            let refused = at_b.ask("session/new", json!({"cwd": of_a, "mcpServers": []})).await;
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
            let begun = at_b.ask("session/new", json!({"cwd": folder, "mcpServers": []})).await;
            let session =
                begun["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
            at_b.prompt(&session, "hello").await;
            at_b.until_idle().await;
            // It releases the session and keeps running.
            let closed = at_b.ask("session/close", json!({"sessionId": session})).await;
            assert!(closed.get("error").is_none(), "{closed}");
            until_let_go(&server, &session).await;
            let mut at_a = a.client(2).await;
            // Every hub can attach to it.
            attach_in(&mut at_a, &session, folder).await;
            let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]});
            let begun = Instant::now();
            let refused = loop {
                let refused = at_a.ask("session/prompt", prompt.clone()).await;
                assert_eq!(refused["error"]["code"], -32602, "{refused}");
                // The list of hubs is refreshed every second.
                let named = refused["error"]["data"]["hubs"].as_array().map_or(0, Vec::len);
                if named == 1 + hubs.len() || begun.elapsed() > FORGOTTEN {
                    break refused;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            };
            let mut addresses: Vec<String> =
                [&b].into_iter().chain(hubs).map(|hub| format!("http://{}", hub.address)).collect();
            addresses.sort();
            let mut named: Vec<String> = serde_json::from_value(refused["error"]["data"]["hubs"].clone())
                .unwrap_or_else(|_| panic!("{refused}"));
            named.sort();
            assert_eq!(named, addresses, "{refused}");
            let message = refused["error"]["message"].as_str().unwrap();
            let folder = folder.to_str().unwrap();
            assert!(message.starts_with(&format!("cannot resume the session in {folder}: ")), "{message}");
            assert!(message.contains("; these hubs have the folder: http://127.0.0.1:"), "{message}");
            assert_eq!(refused["error"]["data"]["roots"], json!([of_a]), "{refused}");
            // The session can continue at the same hub.
            until_let_go(&server, &session).await;
            let mut again = b.client(2).await;
            attach_in(&mut again, &session, Path::new(folder)).await;
            again.prompt(&session, "hello").await;
            assert!(!text(&again.until_idle().await).is_empty());
        }
    });
    assert_eq!((a.end(), b.end(), c.end()), (Some(0), Some(0), Some(0)));
}

/// Waits until no hub writes a session.
async fn until_let_go(server: &NatsServer, session: &str) {
    let client = async_nats::connect(server.address()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let owners = context.get_key_value("switchboard-owners").await.unwrap();
    let begun = Instant::now();
    while owners.get(session).await.unwrap().is_some() {
        assert!(begun.elapsed() < FORGOTTEN, "somebody still writes {session}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn clients_of_another_hub_see_the_authors_of_prompts_and_answers() {
    let Some((place, _server, one, other)) = two_hubs() else { return };
    let kind =
        |name: &'static str| move |message: &Value| message["params"]["update"]["sessionUpdate"] == name;
    let is_notice =
        |message: &&Value| ["prompt_received", "permission_resolved"].iter().any(|name| kind(name)(message));
    block_on(async {
        let mut owner = one.client(2).await;
        let session = owner.new_session(&place).await;
        let join = json!({"sessionId": session, "historyPolicy": "full", "clientInfo": {"name": "guest"}});
        let mut beside = one.client(2).await;
        assert!(beside.ask("session/attach", join.clone()).await.get("error").is_none());
        let mut looking = other.client(2).await;
        attach(&mut looking, &session, &place).await;
        for version in [1, 2] {
            let mut guest = other.client(version).await;
            let attached = guest.ask("session/attach", join.clone()).await;
            assert_eq!(attached["result"]["historyPolicy"], "full", "{attached}");
            guest.seen.clear();
            owner.prompt(&session, "permission").await;
            let question = owner.question().await;
            guest.question().await;
            owner.allow(&question).await;
            let received = guest.until(kind("prompt_received")).await;
            assert_eq!(received["params"]["update"]["sentBy"]["name"], "new", "{received}");
            assert_eq!(received["params"]["update"]["prompt"][0]["text"], "permission", "{received}");
            let resolved = guest.until(kind("permission_resolved")).await;
            let at_home = beside.until(kind("permission_resolved")).await;
            for field in ["toolCallId", "chosenOptionId"] {
                assert_eq!(resolved["params"]["update"][field], at_home["params"]["update"][field]);
            }
            assert_eq!(resolved["params"]["update"]["resolvedBy"]["name"], "new", "{resolved}");
            guest.until(kind("turn_complete")).await;
            beside.until(kind("turn_complete")).await;
            owner.until_idle().await;

            // The other clients are informed about its actions, but not the client itself.
            guest.seen.clear();
            beside.seen.clear();
            guest.prompt(&session, "permission").await;
            let question = guest.question().await;
            guest.allow(&question).await;
            let name = if version == 1 { "old" } else { "new" };
            let received = beside.until(kind("prompt_received")).await;
            assert_eq!(received["params"]["update"]["sentBy"]["name"], name, "{received}");
            let resolved = beside.until(kind("permission_resolved")).await;
            assert_eq!(resolved["params"]["update"]["resolvedBy"]["name"], name, "{resolved}");
            guest.until(kind("turn_complete")).await;
            beside.until(kind("turn_complete")).await;
            assert_eq!(guest.seen.iter().find(is_notice), None);
            owner.until_idle().await;
        }
        // Clients that do not support these notifications get none.
        assert_eq!(looking.seen.iter().chain(&owner.seen).find(is_notice), None);
    });
    assert_eq!((one.end(), other.end()), (Some(0), Some(0)));
}
