//! An editor on a hub through `switchboard connect`, with network failures and a hub that is killed.

pub(crate) mod editor;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};

use serde_json::{Value, json};
use switchboard_testkit::{FAULTS, FaultProxy};

use crate::agent_program::Place;
use crate::serve::shown_of;
use editor::{Editor, Hub};

/// Asserts that the editor received the whole log, and that each prompt ran once.
fn assert_nothing_lost(place: &Place, hub: &Hub, editor: &Editor, session: &str) {
    let mut second = Editor::start(place, &hub.url("ws"), 2);
    let params = json!({"sessionId": session, "cwd": place.work(), "replayFrom": {"type": "start"}});
    let resumed = second.call("session/resume", params);
    assert!(resumed["result"].is_object(), "{resumed}");
    let logged = second.updates(session);
    let got = editor.updates(session);
    assert_eq!(shown_of(got.iter()), shown_of(logged.iter()));
    let mut prompts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut known = BTreeSet::new();
    for update in got.iter().filter(|update| update["sessionUpdate"] == "user_message") {
        // A message that is repeated after a reconnect has the same id.
        if known.insert(update["messageId"].as_str().unwrap()) {
            *prompts.entry(update["content"][0]["text"].as_str().unwrap()).or_default() += 1;
        }
    }
    for (text, prompt) in &editor.prompts {
        let runs = prompts.get(&**text).copied().unwrap_or_default();
        let answers = editor.answers(*prompt);
        assert_eq!(answers.len(), 1, "answers to {text}: {answers:?}");
        assert!(runs <= 1, "{text} ran {runs} times");
        assert_eq!(answers[0]["result"].is_object(), runs == 1, "{text}: {}", answers[0]);
    }
    assert_eq!(second.end(), 0);
}

/// Runs a long session over a network with this number of faults.
fn survive(scheme: &str, seed: u64, faults: usize) {
    let place = Place::new();
    let hub = Hub::start(&place, 0);
    let proxy = FaultProxy::start(hub.address, seed, faults).unwrap();
    let mut editor = Editor::start(&place, &format!("{scheme}://{}/acp", proxy.address()), 2);
    let session = editor.open(&place);
    let mut turns = 0;
    while proxy.left() > 0 {
        turns += 1;
        assert!(turns < 2000, "{:?} left of {faults}", proxy.left());
        let scenario = ["permission", "hello"][turns % 2];
        let answer = editor.prompt(&session, &format!("{scenario} {turns}"));
        assert!(answer["result"].is_object(), "{answer}");
        editor.turn_end(&session, &format!("{scenario} {turns}"));
    }
    assert!(proxy.counts().iter().all(|count| *count > 0), "{FAULTS:?}: {:?}", proxy.counts());
    // Each turn with a permission request has exactly one, with its own name.
    let asked: BTreeSet<&String> = editor.asked.iter().collect();
    assert_eq!((asked.len(), editor.asked.len()), (turns / 2, turns / 2), "{:?}", editor.asked);
    assert_nothing_lost(&place, &hub, &editor, &session);
    assert_eq!(editor.end(), 0);
}

#[test]
fn two_hundred_faults_on_the_way_and_nothing_is_lost() {
    survive("ws", 16, 200);
}

#[test]
fn streams_of_events_survive_as_well() {
    survive("http", 7, 60);
}

#[test]
fn a_hub_that_is_killed_fifty_times_goes_on_where_it_was() {
    let place = Place::new();
    let mut hub = Hub::start(&place, 0);
    let mut editor = Editor::start(&place, &hub.url("ws"), 2);
    let session = editor.open(&place);
    let mut turns_ended = 0;
    for kill in 0..200_usize {
        // Repeats if each kill came too late for its turn.
        if kill >= 50 && turns_ended > 0 {
            break;
        }
        let scenario = ["permission", "hello", "hello"][kill % 3];
        let text = format!("{scenario} {kill}");
        let id = editor.send_prompt(&session, &text);
        // Before the first update, in the middle of a turn, or after its end.
        editor.wait_for_updates(&session, kill % 7 * 5);
        hub.kill();
        hub = Hub::start(&place, hub.address.port());
        let answer = editor.answer_to(id);
        if answer["result"].is_object() {
            let end = editor.turn_end(&session, &text);
            turns_ended += usize::from(end["stopReason"] == "error");
        }
    }
    assert!(turns_ended > 0, "a turn that a kill has ended is said to be over");
    assert_nothing_lost(&place, &hub, &editor, &session);
    assert_eq!(editor.end(), 0);
}

#[test]
fn an_editor_of_version_one_notices_nothing() {
    let place = Place::new();
    let hub = Hub::start(&place, 0);
    let proxy = FaultProxy::start(hub.address, 5, 40).unwrap();
    let mut editor = Editor::start(&place, &format!("ws://{}/acp", proxy.address()), 1);
    let session = editor.open(&place);
    let mut turns = 0;
    while proxy.left() > 0 {
        turns += 1;
        let scenario = ["permission", "hello"][turns % 2];
        let answer = editor.prompt(&session, &format!("{scenario} {turns}"));
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    }
    assert!(editor.lines.iter().all(|line| !line.to_string().contains("acp/cursor")));
    let said = |updates: &[Value]| -> String {
        let of_agent = updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        of_agent.map(|update| update["content"]["text"].as_str().unwrap_or_default()).collect()
    };
    let mut second = Editor::start(&place, &hub.url("ws"), 1);
    let params = json!({"sessionId": session, "cwd": place.work(), "mcpServers": []});
    second.call("session/load", params);
    assert_eq!(said(&editor.updates(&session)), said(&second.updates(&session)));
    assert_eq!((second.end(), editor.end()), (0, 0));
}

#[test]
fn a_first_connection_is_waited_for_and_a_wrong_token_is_the_end() {
    let place = Place::new();
    let hub = Hub::start(&place, 0);
    let port = hub.address.port();
    let url = hub.url("ws");
    hub.kill_for_good();
    let mut editor = Editor::start_unanswered(&place, &url, 2);
    editor.wait_for_error("retrying");
    let mut hub = Hub::start(&place, port);
    assert!(editor.answer_to(1)["result"].is_object());
    // The next start has another token, in another file.
    hub.kill();
    let _hub = Hub::start_with_token_in(&place, port, "other-token");
    editor.wait_for_error("401");
    assert_eq!(editor.exit_code(), 5);
    // Also after so many wrong tokens that the hub answers with another error: this token will never be
    // valid.
    for _ in 0..10 {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let request = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer wrong\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    let editor = Editor::start_unanswered(&place, &url, 2);
    editor.wait_for_error("429");
    assert_eq!(editor.exit_code(), 5);
    let answered = Editor::start_no_wait(&place, &format!("ws://127.0.0.1:{port}/elsewhere"));
    assert_eq!(answered.exit_code(), 1);
}
