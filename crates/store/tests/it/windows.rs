//! The end of a long session is the end of the whole of it.

use serde_json::Value;
use switchboard_store::{Channel, Record, State, Store};
use switchboard_testkit::{TagPlace, stream};

use crate::support::{chunk, records, scratch, update};

/// Everything that a session holds, but for what counts entries and changes. Of its entries, the last ones.
fn held(state: &State, place: usize, entries: usize) -> Value {
    let session = state.conversation.sessions().nth(place).unwrap().1;
    let mut held = serde_json::to_value(session).unwrap();
    strip(&mut held);
    if let Some(all) = held["entries"].as_array_mut() {
        all.drain(..all.len().saturating_sub(entries));
    }
    held
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for key in ["revision", "contentRevision", "position", "aliases"] {
                members.remove(key);
            }
            members.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

fn compare(store: &Store, id: &str, at: u64, count: usize) -> State {
    let (full, window) = (store.state(id, Some(at)).unwrap(), store.window(id, Some(at), count).unwrap());
    let ids = |state: &State| {
        state.conversation.sessions().map(|(id, _)| id.map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(ids(&full), ids(&window));
    for (place, (_, all)) in full.conversation.sessions().enumerate() {
        let end = window.conversation.sessions().nth(place).unwrap().1;
        assert_eq!(all.len(), window.hidden[place] + end.len());
        assert_eq!(held(&full, place, count), held(&window, place, count), "session {place} at {at}");
    }
    window
}

/// The messages of the stream, with everything among them that a window could leave out.
fn messages() -> Vec<Record> {
    let session = "sess_abc123def456";
    let note = |update_text: &str| {
        update(&format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update_text}}}}}"#
        ))
    };
    let mut messages = Vec::new();
    for (number, line) in stream(9_000, TagPlace::First).iter().enumerate() {
        messages.push(update(line));
        match number % 3000 {
            100 => {
                // Late chunks for what came long ago, and a question that stays open over several checkpoints.
                let late = String::from_utf8(chunk("msg_000000", "late").bytes).unwrap();
                messages.push(update(&late.replace("s-1", session)));
                messages.push(chunk("other", "in a second session"));
                messages.push(update(&format!(
                    r#"{{"jsonrpc":"2.0","id":{number},"method":"session/request_permission","params":{{"sessionId":"{session}","title":"May I?","options":[{{"optionId":"a","name":"Allow","kind":"allow_once"}}],"_meta":{{"n":{number}}},"subject":{{"type":"tool_call","toolCall":{{"toolCallId":"toolu_0100000001","title":"asked {number}"}}}}}}}}"#
                )));
            }
            200 => messages.push(note(&format!(
                r#"{{"sessionUpdate":"agent_message_chunk","messageId":"with-meta-{number}","content":{{"type":"text","text":"a"}},"_meta":{{"chunk":{number}}},"extra":[{number}]}}"#
            ))),
            300 => messages.push(note(&format!(r#"{{"sessionUpdate":"_unknown","n":{number}}}"#))),
            400 => messages.push(note(&format!(
                r#"{{"sessionUpdate":"usage_update","used":{number},"size":9,"_meta":{{"u":{number}}},"more":1.0}}"#
            ))),
            500 => messages.push(note(&format!(
                r#"{{"sessionUpdate":"session_info_update","title":"t{number}","_meta":{{"i":{number}}}}}"#
            ))),
            600 => messages.push(note(&format!(
                r#"{{"sessionUpdate":"available_commands_update","availableCommands":[{{"name":"c{number}","description":"d","_meta":{{"c":1}}}}],"_meta":{{"l":{number}}}}}"#
            ))),
            700 => messages.push(note(&format!(
                r#"{{"sessionUpdate":"notice","severity":"info","message":"notice {number}","_meta":{{"x":1}}}}"#
            ))),
            2999 => {
                let asked = number - 2899;
                messages.push(Record::new(
                    Channel::ToAgent,
                    format!(
                        r#"{{"jsonrpc":"2.0","id":{asked},"result":{{"outcome":{{"outcome":"cancelled"}}}}}}"#
                    ),
                ));
            }
            _ => {}
        }
    }
    // More notices and unknown updates than anybody would list.
    for number in 0..150 {
        messages.push(note(&format!(r#"{{"sessionUpdate":"_unknown","late":{number}}}"#)));
    }
    messages.extend(stream(3000, TagPlace::First).iter().map(|line| update(&line.replace("\"msg_", "\"n_"))));
    messages
}

#[test]
fn the_end_of_a_session_is_the_same_with_and_without_checkpoints() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    for message in messages() {
        recorder.put(message).unwrap();
    }
    recorder.complete().unwrap();
    assert!(scratch.store.sizes().unwrap().checkpoints > 0);
    let length = scratch.store.session(&id).unwrap().length;
    for at in (0..=length).step_by(3777).skip(1).chain([length]) {
        compare(&scratch.store, &id, at, 50);
    }
    let window = scratch.store.window(&id, None, 50).unwrap();
    assert!(window.hidden[0] > 500, "{:?}", window.hidden);
    let session = window.conversation.sessions().next().unwrap().1;
    assert_eq!(session.permissions().count(), 3);
    assert!(session.unknown().count() > 150, "{}", session.unknown().count());
}

#[test]
fn history_that_is_replayed_in_the_middle_moves_no_window() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    let lines = stream(4000, TagPlace::First);
    let session = "sess_abc123def456";
    let ask = format!(
        r#"{{"jsonrpc":"2.0","id":"r","method":"session/resume","params":{{"sessionId":"{session}","cwd":"/","replayFrom":{{"type":"start"}}}}}}"#
    );
    for line in &lines {
        recorder.put(update(line)).unwrap();
    }
    recorder.put(Record::new(Channel::ToAgent, ask)).unwrap();
    // With something that was not there before, in the middle.
    for line in lines[..1500].iter().chain(&lines[2000..2100]) {
        recorder.put(update(&line.replace("toolu_0100000004", "toolu_new"))).unwrap();
    }
    recorder.put(update(r#"{"jsonrpc":"2.0","id":"r","result":{}}"#)).unwrap();
    for line in stream(6000, TagPlace::Last) {
        recorder.put(update(&line.replace("\"msg_", "\"z_").replace("\"toolu_", "\"zoolu_"))).unwrap();
    }
    recorder.complete().unwrap();
    let length = scratch.store.session(&id).unwrap().length;
    assert_eq!(records(&scratch.store, &id).len() as u64, length);
    for at in (3500..=length).step_by(1611).chain([length]) {
        compare(&scratch.store, &id, at, 30);
    }
}
