//! Every recording translated into the other version: the output is valid and folds to the same session,
//! except for reported losses.

use std::collections::BTreeMap;

use crate::support::{amounts_to, is_reported};
use serde_json::{Value, json};
use switchboard_acp::WireFormat;
use switchboard_acp::check::{Checker, Rules};
use switchboard_bridge::{Loss, Moment, RecordingBridge, Severity, Side, TranslatedLine, Version};
use switchboard_session::{Conversation, Moment as SessionMoment, Side as SessionSide};
use switchboard_testkit::{Recorded, Recording, recordings};

struct Translated {
    lines: Vec<TranslatedLine>,
    back: Vec<TranslatedLine>,
    losses: Vec<Loss>,
}

fn translate(lines: &[Recorded], to: Version) -> Translated {
    translate_told(lines, to, true)
}

fn translate_told(lines: &[Recorded], to: Version, is_told: bool) -> Translated {
    let mut bridge = RecordingBridge::new(to);
    for (index, line) in lines.iter().enumerate() {
        let from = if line.from_agent { Side::Agent } else { Side::Client };
        let from = is_told.then_some(from);
        bridge.take(from, &line.message, Moment(index as i64 * 20));
    }
    bridge.finish();
    let lines = bridge.drain().collect();
    Translated { lines, back: bridge.take_back(), losses: losses(&mut bridge) }
}

fn losses(bridge: &mut RecordingBridge) -> Vec<Loss> {
    bridge.take_losses().into_iter().map(|(_, loss)| loss).collect()
}

/// Returns the version of a recording with one connection; `None` for others.
fn version(recording: &Recording) -> Option<Version> {
    let mut versions = recording.lines.iter().filter_map(|line| {
        let message: Value = serde_json::from_str(&line.message).ok()?;
        let result = message.get("result")?;
        result.get("protocolVersion")?;
        let is_new = result.get("info").is_some() && result.get("agentCapabilities").is_none();
        Some(if is_new { Version::V2 } else { Version::V1 })
    });
    let first = versions.next()?;
    versions.next().is_none().then_some(first)
}

fn check(name: &str, lines: &[TranslatedLine], revision: WireFormat) -> Vec<String> {
    let mut faults = Vec::new();
    let mut checker = Checker::new(Rules { revision, ..Rules::default() });
    for line in lines {
        let direction = match line.from {
            Side::Client => "client->agent",
            Side::Agent => "agent->client",
        };
        let recorded = format!(r#"{{"dir":"{direction}","msg":{}}}"#, line.text);
        let verdict = checker.check(recorded.as_bytes());
        if !verdict.is_valid() {
            faults.push(format!("{name}: {:?}\n{}", verdict.errors, line.text));
        }
    }
    faults
}

#[test]
fn recordings_come_out_valid_in_the_other_version() {
    let mut counts = BTreeMap::<&str, usize>::new();
    let mut faults = Vec::new();
    for recording in recordings() {
        let Some(source) = version(&recording) else { continue };
        let translated = translate(&recording.lines, source.other());
        let revision = if source == Version::V1 { WireFormat::Any } else { WireFormat::V1 };
        // One client sends "." as its directory, which is forwarded.
        let wrong = recording.lines.iter().any(|line| {
            let message: Value = serde_json::from_str(&line.message).unwrap_or_default();
            message["params"]["cwd"] == "."
        });
        let found = check(&recording.name, &translated.lines, revision);
        faults.extend(found.into_iter().filter(|fault| !(wrong && fault.contains("an absolute path"))));
        *counts.entry(if source == Version::V1 { "v1 to v2" } else { "v2 to v1" }).or_default() += 1;
    }
    println!("{counts:?}");
    assert!(
        faults.is_empty(),
        "{} faults, among them\n{}",
        faults.len(),
        faults[..faults.len().min(5)].join("\n")
    );
}

fn fold(lines: impl Iterator<Item = (bool, String)>) -> BTreeMap<String, BTreeMap<String, Value>> {
    let mut conversation = Conversation::new(WireFormat::Any);
    for (index, (from_agent, text)) in lines.enumerate() {
        let side = if from_agent { SessionSide::Agent } else { SessionSide::Client };
        let _ = conversation.read(&text, Some(side), SessionMoment(index as i64));
    }
    conversation
        .sessions()
        .map(|(id, session)| (id.unwrap_or_default().to_owned(), amounts_to(&session.to_json(id))))
        .collect()
}

/// Folds the sessions of a recording. User messages are identified by text, because the bridge gives them
/// other ids.
fn sessions(lines: impl Iterator<Item = (bool, String)>) -> BTreeMap<String, BTreeMap<String, Value>> {
    let rename = |(key, value): (String, Value)| match key.split_once(' ') {
        Some(("user_message", _)) => (format!("user_message {value}"), value),
        _ => (key, value),
    };
    fold(lines).into_iter().map(|(id, state)| (id, state.into_iter().map(rename).collect())).collect()
}

#[test]
fn version_2_recordings_amount_to_the_same_there_and_back() {
    let (mut compared, mut reported) = (0, 0);
    for recording in recordings() {
        // A version 1 agent that replays has other ids for prompts than the bridge created for them.
        let replays = recording.lines.iter().any(|line| line.message.contains("\"replayFrom\""));
        if version(&recording) != Some(Version::V2) || replays {
            continue;
        }
        let translated = translate(&recording.lines, Version::V1);
        let lost: Vec<String> = translated
            .losses
            .iter()
            .filter(|loss| loss.severity != Severity::Guess)
            .map(|loss| loss.message.clone())
            .collect();
        let original = sessions(recording.lines.iter().map(|line| (line.from_agent, line.message.clone())));
        let back = sessions(translated.back.iter().map(|line| (line.from == Side::Agent, line.text.clone())));
        for (id, session) in &original {
            for (key, value) in session {
                if is_reported(key, &lost) {
                    reported += 1;
                    continue;
                }
                let after = back.get(id).and_then(|session| session.get(key));
                assert_eq!(Some(value), after, "{}: {key}, lost {lost:?}", recording.name);
                compared += 1;
            }
        }
    }
    println!("{compared} things are the same, {reported} may differ as reported");
}

/// Returns the content of a version 1 recording: text of each kind, and tool calls with their last title and
/// status.
fn said(lines: &[Recorded]) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut sessions = BTreeMap::<String, BTreeMap<String, String>>::new();
    for line in lines.iter().filter(|line| line.from_agent) {
        let message: Value = serde_json::from_str(&line.message).expect("JSON");
        let params = &message["params"];
        let session =
            sessions.entry(params["sessionId"].as_str().unwrap_or_default().to_owned()).or_default();
        let update = if message["method"] == "session/update" { &params["update"] } else { &Value::Null };
        match update["sessionUpdate"].as_str() {
            Some(kind @ ("agent_message_chunk" | "agent_thought_chunk")) => {
                let text = update["content"]["text"].as_str().unwrap_or_default();
                session.entry(kind.trim_end_matches("_chunk").to_owned()).or_default().push_str(text);
            }
            Some("tool_call" | "tool_call_update") => {
                let id = update["toolCallId"].as_str().unwrap_or_default();
                for key in ["title", "status", "kind"] {
                    if let Some(value) = update[key].as_str() {
                        session.insert(format!("{id} {key}"), value.to_owned());
                    }
                }
            }
            _ => {}
        }
    }
    sessions
}

#[test]
fn version_1_recordings_say_the_same_in_version_2() {
    let mut compared = 0;
    for recording in recordings() {
        if version(&recording) != Some(Version::V1) {
            continue;
        }
        let translated = translate(&recording.lines, Version::V2);
        let mut conversation = Conversation::new(WireFormat::Any);
        for line in &translated.lines {
            let side = if line.from == Side::Agent { SessionSide::Agent } else { SessionSide::Client };
            let outcome = conversation.read(&line.text, Some(side), SessionMoment(0));
            assert!(
                line.from == Side::Client || outcome.is_ok(),
                "{}: {outcome:?}: {}",
                recording.name,
                line.text
            );
        }
        for (id, session) in said(&recording.lines) {
            let Some(folded) = conversation.session(Some(&id)) else { continue };
            for (key, value) in &session {
                let after = match key.split_once(' ') {
                    Some((call, key)) => folded.tool_call(call).map(|call| match key {
                        "title" => call.title().unwrap_or_default().to_owned(),
                        "status" => call.status().to_string(),
                        _ => call.kind().to_string(),
                    }),
                    None => Some(
                        folded
                            .entries()
                            .filter(|entry| entry.kind().as_str() == key)
                            .filter_map(|entry| Some(entry.as_message()?.content().text()))
                            .collect(),
                    ),
                };
                // A question may have changed a call since.
                let asked =
                    recording.lines.iter().any(|line| line.message.contains("session/request_permission"));
                if key.contains(' ') && asked {
                    continue;
                }
                assert_eq!(Some(value), after.as_ref(), "{}: {key}", recording.name);
                compared += 1;
            }
        }
    }
    println!("{compared} things are the same");
}

/// Translates a recording with invalid lines between the handshake and its response.
fn with_noise(to: Version, told: bool) -> (Vec<String>, Vec<Loss>) {
    let mut bridge = RecordingBridge::new(to);
    let lines = [
        (
            Side::Client,
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
        ),
        (Side::Agent, "Listening on stdio {"),
        (Side::Agent, "[12:30] \"a string\""),
        // A response to another request does not determine the version.
        (Side::Agent, r#"{"jsonrpc":"2.0","id":77,"result":{}}"#),
        (Side::Agent, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{}}}"#),
        (
            Side::Agent,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"Read"}}}"#,
        ),
        (Side::Agent, "and so on"),
    ];
    for (number, (from, line)) in lines.into_iter().enumerate() {
        bridge.take(told.then_some(from), line, Moment(number as i64));
    }
    bridge.finish();
    (bridge.drain().map(|line| line.text).collect(), losses(&mut bridge))
}

#[test]
fn noise_before_the_handshake_is_answered_is_left_out_and_reported() {
    for told in [true, false] {
        let (lines, losses) = with_noise(Version::V1, told);
        assert_eq!(lines.len(), 4, "as they are: {lines:?}");
        assert!(lines.iter().all(|line| line.starts_with('{')), "{lines:?}");
        assert_eq!(losses.iter().filter(|loss| loss.message == "line").count(), 3, "{losses:?}");

        let (lines, losses) = with_noise(Version::V2, told);
        let last: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
        assert_eq!(last["params"]["update"]["sessionUpdate"], "tool_call_update", "{lines:?}");
        assert_eq!(losses.iter().filter(|loss| loss.message == "line").count(), 3, "{losses:?}");
    }
}

/// Translates messages of both sides and returns the last line.
fn last_of(to: Version, messages: &[(Side, Value)]) -> (Value, Vec<(u64, Loss)>) {
    let mut bridge = RecordingBridge::new(to);
    for (number, (from, message)) in messages.iter().enumerate() {
        bridge.take(Some(*from), &message.to_string(), Moment(number as i64));
    }
    bridge.finish();
    let last = bridge.drain().last().expect("a line").text;
    (serde_json::from_str(&last).expect("JSON"), bridge.take_losses())
}

#[test]
fn a_mode_that_is_set_beside_an_option_for_modes_is_answered_with_the_options() {
    let mode = |name: &str| json!({"id": name, "name": name});
    let value = |name: &str| json!({"value": name, "name": name});
    let messages = [
        (
            Side::Client,
            json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}),
        ),
        (
            Side::Agent,
            json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s",
            "modes": {"currentModeId": "ask", "availableModes": [mode("ask"), mode("code")]},
            "configOptions": [{"type": "select", "id": "m", "name": "Mode", "category": "mode", "currentValue": "ask",
                "options": [value("ask"), value("code")]}]}}),
        ),
        (
            Side::Client,
            json!({"jsonrpc": "2.0", "id": 2, "method": "session/set_mode", "params": {"sessionId": "s", "modeId": "code"}}),
        ),
        (Side::Agent, json!({"jsonrpc": "2.0", "id": 2, "result": {"_meta": {"a": 1}}})),
    ];
    let (answer, losses) = last_of(Version::V2, &messages);
    assert_eq!(answer["result"]["configOptions"][0]["currentValue"], "code", "{answer}");
    assert_eq!(answer["result"]["_meta"], json!({"a": 1}));
    assert!(losses.is_empty(), "{losses:?}");
}

#[test]
fn losses_of_a_handshake_are_reported_at_its_line() {
    let update = json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "x"}});
    let messages = [
        (
            Side::Agent,
            json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}),
        ),
        // Without a name it is not a version 2 handshake.
        (
            Side::Client,
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 2}}),
        ),
        (Side::Agent, json!({"jsonrpc": "2.0", "method": "_news", "params": {}})),
        (Side::Agent, json!({"jsonrpc": "2.0", "id": 0, "error": {"code": -32602, "message": "no"}})),
    ];
    let (_, losses) = last_of(Version::V1, &messages);
    let of_handshake = losses.iter().find(|(_, loss)| loss.message == "initialize").expect("a loss");
    assert_eq!((of_handshake.0, &*of_handshake.1.pointer), (2, ""), "{losses:?}");
    // Its response matches no pending request.
    assert!(losses.iter().any(|(line, loss)| *line == 4 && loss.message == "answer"), "{losses:?}");
}

#[test]
fn senders_are_inferred_in_recordings_without_directions() {
    let mut compared = 0;
    for recording in recordings() {
        let Some(version) = version(&recording) else { continue };
        // A method outside the protocol may come from either side.
        let methods = ["session/", "initialize", "fs/", "terminal/", "elicitation/", "authenticate", "$/"];
        let is_odd = |line: &Recorded| {
            let message: Value = serde_json::from_str(&line.message).unwrap();
            let method = message["method"].as_str();
            method.is_some_and(|method| !methods.iter().any(|start| method.starts_with(start)))
        };
        if recording.lines.iter().any(is_odd) {
            continue;
        }
        let told = translate(&recording.lines, version.other());
        let untold = translate_told(&recording.lines, version.other(), false);
        let text = |line: &TranslatedLine| (line.from, line.text.clone());
        let [told, untold] = [told, untold].map(|it| it.lines.iter().map(text).collect::<Vec<_>>());
        assert_eq!(told, untold, "{}", recording.name);
        compared += 1;
    }
    assert!(compared >= 10, "only {compared} recordings were compared");
}

/// Returns a recording of a version 1 agent that runs a command in a client terminal: it reads the output
/// twice, then waits for the exit.
fn with_terminal() -> Vec<(Side, Value)> {
    let ask = |id: u32, method: &str, mut params: Value| {
        params["sessionId"] = json!("s");
        (Side::Agent, json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    };
    let answer =
        |id: u32, result: Value| (Side::Client, json!({"jsonrpc": "2.0", "id": id, "result": result}));
    let terminal = json!({"terminalId": "term-1"});
    let update = |update: Value| {
        (
            Side::Agent,
            json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}),
        )
    };
    vec![
        ask(
            1,
            "terminal/create",
            json!({"command": "make", "args": ["-j", "all"], "cwd": "/w", "env": [{"name": "A", "value": "b"}]}),
        ),
        answer(1, terminal.clone()),
        update(
            json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Build", "status": "in_progress",
            "content": [{"type": "terminal", "terminalId": "term-1"}]}),
        ),
        ask(2, "terminal/output", terminal.clone()),
        answer(2, json!({"output": "one\n", "truncated": false})),
        ask(3, "terminal/output", terminal.clone()),
        answer(3, json!({"output": "one\ntwo\n", "truncated": false})),
        ask(4, "terminal/output", terminal.clone()),
        answer(4, json!({"output": "one\ntwo\n", "truncated": false})),
        ask(5, "terminal/wait_for_exit", terminal.clone()),
        answer(5, json!({"exitCode": 3})),
        ask(6, "terminal/release", terminal),
        answer(6, json!({})),
        update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"})),
    ]
}

#[test]
fn the_output_of_a_terminal_of_the_client_is_folded_from_its_answers() {
    for is_told in [true, false] {
        let mut bridge = RecordingBridge::new(Version::V2);
        for (index, (from, message)) in with_terminal().into_iter().enumerate() {
            bridge.take(is_told.then_some(from), &message.to_string(), Moment(index as i64 * 20));
        }
        bridge.finish();
        let lines: Vec<TranslatedLine> = bridge.drain().collect();
        assert_eq!(check("terminal", &lines, WireFormat::Any), [] as [String; 0]);
        let mut conversation = Conversation::new(WireFormat::Any);
        for line in &lines {
            let side = if line.from == Side::Agent { SessionSide::Agent } else { SessionSide::Client };
            conversation.read(&line.text, Some(side), SessionMoment(0)).unwrap();
        }
        let session = conversation.session(Some("s")).unwrap();
        let terminal = session.terminal("term-1").unwrap();
        assert_eq!(terminal.command(), Some("make -j all"));
        assert_eq!(terminal.output().to_vec(), b"one\ntwo\n");
        assert_eq!(terminal.exit_status().unwrap().exit_code, Some(3));
        assert_eq!(session.tool_call("c").unwrap().terminal_ids().collect::<Vec<_>>(), ["term-1"]);
        // Equal output is not sent twice, and other information is reported.
        let outputs = lines.iter().filter(|line| line.text.contains(r#""output":"#)).count();
        assert_eq!(outputs, 2);
        let lost: Vec<_> = losses(&mut bridge).into_iter().map(|loss| (loss.message, loss.pointer)).collect();
        assert_eq!(lost, [("terminal/create".to_owned(), "/params/env".to_owned())]);
    }
}

#[test]
fn a_terminal_that_the_client_refuses_or_an_answer_that_is_no_output_changes_nothing() {
    let mut messages = with_terminal();
    messages[1].1 = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "no"}});
    messages[4].1 = json!({"jsonrpc": "2.0", "id": 2, "result": {"output": 7}});
    messages.truncate(5);
    let mut bridge = RecordingBridge::new(Version::V2);
    for (index, (from, message)) in messages.into_iter().enumerate() {
        bridge.take(Some(from), &message.to_string(), Moment(index as i64 * 20));
    }
    bridge.finish();
    let lines: Vec<TranslatedLine> = bridge.drain().collect();
    assert!(lines.iter().all(|line| !line.text.contains("terminal_update")), "{lines:?}");
    assert!(lines.iter().any(|line| line.text.contains("[terminal term-1: not found]")), "{lines:?}");
}
