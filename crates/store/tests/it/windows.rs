//! The window of a long session equals the end of its full state.

use serde_json::{Value, json};
use switchboard_store::{Channel, Moment, Record, State, Store};
use switchboard_testkit::{TagPlace, stream};

use crate::support::{Scratch, chunk, records, scratch, update};

/// Returns everything that a session holds except counts of entries and changes, with the last `entries`
/// entries.
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
    assert_eq!(full.conversation.dialect(), window.conversation.dialect(), "at {at}");
    assert_eq!((full.refused, &full.gaps), (window.refused, &window.gaps), "at {at}");
    for (place, (_, all)) in full.conversation.sessions().enumerate() {
        let end = window.conversation.sessions().nth(place).unwrap().1;
        assert_eq!(all.len(), window.hidden[place] + end.len());
        assert_eq!(held(&full, place, count), held(&window, place, count), "session {place} at {at}");
        assert_eq!(turns(&full, place), turns(&window, place), "session {place} at {at}");
    }
    window
}

/// Returns the prompts of a session and its parent. Positions count entries.
fn turns(state: &State, place: usize) -> String {
    let conversation = &state.conversation;
    let id = conversation.sessions().nth(place).unwrap().0;
    let turns: Vec<_> = conversation
        .turns(id)
        .map(|turn| (turn.id(), turn.asked_at(), turn.message_id(), turn.is_inserted(), turn.end()))
        .collect();
    let mut children: Vec<_> = conversation.children(id.unwrap_or_default()).collect();
    children.sort_by_key(|(child, _)| *child);
    format!("{turns:?} {:?} {children:?}", conversation.parent(id.unwrap_or_default()))
}

/// Returns the messages of the stream with everything that a window could omit.
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
                // Late chunks for early messages, and a question that stays pending over several checkpoints.
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
    // Many notices and unknown updates.
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

/// A small deterministic random number generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// Returns a random message of a conversation, with all kinds of updates and requests in any order.
fn anything(numbers: &mut Numbers, number: usize) -> Record {
    let session = ["a", "b", "c"][numbers.below(100) / 45];
    // Earlier entries are updated again now and then.
    let thing = if numbers.below(8) == 0 { numbers.below(number / 6 + 1) } else { number / 6 };
    let meta = match numbers.below(3) {
        0 => json!({"n": number}),
        1 => json!({"n": null, "of": {"key": number}}),
        _ => Value::Null,
    };
    // Long enough that a few hundred messages make several checkpoints.
    let text = json!({"type": "text", "text": format!("{number} ").repeat(600 + numbers.below(900))});
    let (from, mut message) = match numbers.below(26) {
        0..7 => (
            false,
            json!({"sessionUpdate": (["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"][numbers.below(3)]), "messageId": format!("m{thing}"), "content": text, "_meta": meta, "more": number}),
        ),
        7..9 => (
            false,
            json!({"sessionUpdate": (["agent_message", "user_message"][numbers.below(2)]), "messageId": format!("m{thing}"), "content": [text], "_meta": meta}),
        ),
        9..13 => (
            false,
            json!({"sessionUpdate": "tool_call_update", "toolCallId": format!("t{thing}"), "title": format!("call {number}"), "status": (["pending", "in_progress", "completed"][numbers.below(3)]), "content": [{"type": "content", "content": text}], "_meta": meta, "unknown": [number]}),
        ),
        13 => (
            false,
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": format!("t{thing}"), "content": {"type": "content", "content": text}}),
        ),
        14 => (
            false,
            json!({"sessionUpdate": "state_update", "state": (["running", "idle", "idle", "requires_action"][numbers.below(4)]), "stopReason": (["end_turn", "cancelled"][numbers.below(2)]), "_meta": meta}),
        ),
        15 => (false, json!({"sessionUpdate": "usage_update", "used": number, "size": 9, "_meta": meta})),
        16 => (
            false,
            json!({"sessionUpdate": "session_info_update", "title": format!("title {number}"), "_meta": meta}),
        ),
        17 => (
            false,
            json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": format!("p{}", number % 3), "entries": [{"content": "one", "priority": "low", "status": "pending"}]}}),
        ),
        18 => (false, json!({"sessionUpdate": "_unknown", "n": number})),
        19 => (
            false,
            json!({"sessionUpdate": "subagent_update", "sessionId": (["b", "c"][numbers.below(2)]), "toolCallId": format!("t{thing}")}),
        ),
        // Reveals one dialect, after the other may have been assumed.
        20 if number > 200 && numbers.below(2) == 0 => (
            false,
            json!({"sessionUpdate": "notice", "severity": "info", "message": format!("notice {number}"), "_meta": meta}),
        ),
        20 if number > 150 => (
            false,
            json!({"sessionUpdate": "terminal_update", "terminalId": format!("x{thing}"), "command": "make", "_meta": meta}),
        ),
        20 => (
            false,
            json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "c", "description": "d"}]}),
        ),
        21 => (
            true,
            json!({"id": number, "method": "session/prompt", "params": {"sessionId": session, "prompt": [text]}}),
        ),
        22 => {
            let result =
                if numbers.below(3) == 0 { json!({"messageId": format!("m{thing}")}) } else { json!({}) };
            (false, json!({"id": (number - numbers.below(number.min(9) + 1)), "result": result}))
        }
        23 => (
            false,
            json!({"id": format!("q{number}"), "method": "session/request_permission", "params": {"sessionId": session, "title": "May I?", "options": [{"optionId": "a", "name": "Allow", "kind": "allow_once"}], "_meta": meta, "subject": {"type": "tool_call", "toolCall": {"toolCallId": format!("t{thing}"), "title": format!("asked {number}")}}}}),
        ),
        24 => (
            true,
            json!({"id": format!("q{}", number - numbers.below(number.min(40) + 1)), "result": {"outcome": {"outcome": "selected", "optionId": "a"}}}),
        ),
        // An invalid message.
        _ => (false, json!({"sessionUpdate": "tool_call_update", "title": 7})),
    };
    if message.get("sessionUpdate").is_some() {
        if message["_meta"].is_null() {
            message.as_object_mut().unwrap().remove("_meta");
        }
        message = json!({"method": "session/update", "params": {"sessionId": session, "update": message}});
    }
    message["jsonrpc"] = "2.0".into();
    if numbers.below(40) == 0 {
        message = json!([message, {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": {"sessionUpdate": "agent_message_chunk", "messageId": format!("m{thing}"), "content": {"type": "text", "text": "in a batch"}}}}]);
    }
    let channel = if from { Channel::ToAgent } else { Channel::ToClient };
    Record::new(channel, message.to_string()).at(Moment(1_700_000_000_000 + number as i64))
}

/// Creates a store with a session of this many random messages. Returns its id and the generator.
fn recorded(
    seed: u64,
    count: usize,
    message: impl Fn(&mut Numbers, usize) -> Record,
) -> (Scratch, String, Numbers) {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for number in 0..count {
        recorder.put(message(&mut numbers, number)).unwrap();
    }
    recorder.complete().unwrap();
    (scratch, id, numbers)
}

#[test]
fn the_end_of_any_conversation_is_the_end_of_the_whole() {
    for seed in 1..=5_u64 {
        let (scratch, id, mut numbers) = recorded(seed, 1200, anything);
        assert!(scratch.store.sizes().unwrap().checkpoints > 0);
        for at in [1200, 1199, 900 + numbers.below(300) as u64, 500 + numbers.below(300) as u64] {
            let window = compare(&scratch.store, &id, at, 1 + numbers.below(20));
            assert!(
                at < 1200 || window.hidden.iter().any(|hidden| *hidden > 10),
                "seed {seed}: {:?}",
                window.hidden
            );
        }
    }
}

/// Returns an update that replaces some state as a whole, or nearly so.
fn whole_update(numbers: &mut Numbers, number: usize) -> Value {
    let plan = format!("p{}", numbers.below(6));
    let meta = if numbers.below(3) == 0 { json!({"n": number}) } else { json!({}) };
    let mut update = match numbers.below(12) {
        0..5 => json!({"sessionUpdate": "usage_update", "used": numbers.below(9), "size": 9}),
        5..8 => {
            json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": plan, "entries": [{"content": format!("step {}", numbers.below(3)), "priority": "low", "status": "pending"}]}})
        }
        8 => {
            json!({"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": plan, "content": format!("# {number}")}})
        }
        9 => json!({"sessionUpdate": "plan_removed", "planId": plan}),
        10 => {
            json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": format!("c{}", numbers.below(3)), "description": "d"}]})
        }
        _ => {
            json!({"sessionUpdate": "config_option_update", "configOptions": [{"configId": "o", "name": "O", "type": "boolean", "currentValue": (numbers.below(2) == 0)}]})
        }
    };
    // Most updates omit the cost: the previous cost must survive checkpoints.
    match numbers.below(300) {
        0..2 if update["sessionUpdate"] == "usage_update" => {
            update["cost"] = json!({"amount": number, "currency": "EUR"});
        }
        2 if update["sessionUpdate"] == "usage_update" => update["cost"] = Value::Null,
        _ => {}
    }
    if meta.get("n").is_some() {
        update["_meta"] = meta;
    }
    update
}

#[test]
fn replayed_history_is_kept_once_and_completely() {
    for seed in 1..=4_u64 {
        let count = 4000;
        let (scratch, id, mut numbers) = recorded(seed, count, |numbers, number| {
            let update = match numbers.below(3) {
                0 => {
                    json!({"sessionUpdate": "agent_message_chunk", "messageId": format!("m{}", number / 40), "content": {"type": "text", "text": format!("{number} ").repeat(300)}})
                }
                _ => whole_update(numbers, number),
            };
            let session = ["a", "b"][numbers.below(2)];
            let message = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}});
            Record::new(Channel::ToClient, message.to_string())
        });
        for _ in 0..12 {
            compare(&scratch.store, &id, 500 + numbers.below(count - 500) as u64, 1 + numbers.below(9));
        }
        let window = compare(&scratch.store, &id, count as u64, 5);
        assert!(window.hidden.iter().all(|hidden| *hidden > 10), "seed {seed}: {:?}", window.hidden);
        let (_, session) = window.conversation.sessions().next().unwrap();
        assert!(session.plans().count() > 1 && session.usage().is_some(), "seed {seed}");
        // The revision counts folded messages: hundreds, of thousands of updates.
        let full = scratch.store.state(&id, None).unwrap();
        let (_, all) = full.conversation.sessions().next().unwrap();
        assert!(session.revision() * 3 < all.revision(), "{} of {}", session.revision(), all.revision());
    }
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
    // With entries in the middle that did not exist before.
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

/// An agent that lost the session, and restarts its message numbering, opened another one in its place.
#[test]
fn a_session_that_an_agent_began_anew_is_one_transcript_in_the_state_and_in_every_window() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    let said = |session: &str, message: usize, text: &str| {
        update(&format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"agent_message_chunk","messageId":"m{message}","content":{{"type":"text","text":"{text}"}}}}}}}}"#
        ))
    };
    let note = |id: &str, was: &str| {
        Record::new(Channel::Hub, format!(r#"{{"hub":"agent session","id":"{id}","was":{was}}}"#))
    };
    recorder.put(note("a", "null")).unwrap();
    let long = "some more words to make a checkpoint worthwhile ".repeat(4);
    let mut texts = Vec::new();
    for (session, was) in [("a", None), ("b", Some("a")), ("c", Some("b"))] {
        if let Some(was) = was {
            recorder.put(note(session, &format!("\"{was}\""))).unwrap();
        }
        for message in 0..4000 {
            recorder.put(said(session, message, &long)).unwrap();
            texts.push(long.clone());
        }
        // A message that is continued belongs to the agent's current session too.
        recorder.put(said(session, 7, session)).unwrap();
        let place = texts.len() - 4000 + 7;
        texts[place].push_str(session);
    }
    recorder.complete().unwrap();
    scratch.store.catch_up().unwrap();
    let mut recorder = scratch.store.resume(&id).unwrap();
    for text in ["x", "y"] {
        // After the last checkpoint, a message that is hidden by then is continued.
        recorder.put(said("c", 9, text)).unwrap();
        let place = texts.len() - 4000 + 9;
        texts[place].push_str(text);
    }
    recorder.complete().unwrap();
    let database = rusqlite::Connection::open(scratch.folder.path().join("store.sqlite3")).unwrap();
    let checkpoints: i64 =
        database.query_row("SELECT count(*) FROM checkpoints", [], |row| row.get(0)).unwrap();
    assert!(checkpoints > 3, "{checkpoints}");
    let told = |state: &State| -> Vec<String> {
        let sessions: Vec<_> = state.conversation.sessions().collect();
        assert_eq!(sessions.len(), 1, "one session");
        assert_eq!(sessions[0].0, Some("a"), "under the id that it had first");
        let entries = sessions[0].1.entries();
        entries.map(|entry| entry.as_message().unwrap().content().text().clone()).collect()
    };
    assert_eq!(told(&scratch.store.state(&id, None).unwrap()), texts);
    let window = scratch.store.window(&id, None, 3).unwrap();
    // All except those since the last checkpoint, which are up to 512 kB.
    assert!(window.hidden[0] > 10_500, "{:?}", window.hidden);
    let shown = told(&window);
    assert_eq!(shown[shown.len() - 3..], texts[texts.len() - 3..]);
    assert!(shown.contains(&texts[texts.len() - 4000 + 9]), "what changed lately is whole");
}
