//! A different mark in every place where JSON can hold one: each comes out in the other version, or stands in the report
//! by its pointer.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use switchboard_bridge::{
    Bridge, BridgeOptions, Dialect, Handled, Loss, Moment, Output, RecordingBridge, Severity, Side, Version,
};
use switchboard_testkit::recordings;

/// A mark: a text that stands nowhere else, and where it was put.
struct Mark {
    text: String,
    pointer: String,
}

/// Puts an unknown key and a key of metadata into every object of a message, and a mark behind words for people, so that
/// keys and values are both looked for. Objects whose keys are data stay as they are.
fn mark(message: &mut Value, count: &mut u64) -> Vec<Mark> {
    let mut marks = Vec::new();
    put(message, &mut String::new(), count, &mut marks);
    marks
}

/// Keys whose objects have the sender's data for keys: variables, fields of a form, and what was filled in.
const DATA: [&str; 2] = ["env", "properties"];

/// Keys whose values are words for people: whatever they say, it is the same for the protocol.
const WORDS: [&str; 3] = ["title", "description", "hint"];

fn put(value: &mut Value, pointer: &mut String, count: &mut u64, marks: &mut Vec<Mark>) {
    let length = pointer.len();
    match value {
        Value::Object(object) => {
            let is_answer = pointer == "/result/content";
            let is_data = is_answer || DATA.iter().any(|key| pointer.ends_with(&format!("/{key}")));
            for (key, value) in object.iter_mut() {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                match value {
                    // Until a question is answered, its own title stands in the place of that of the call.
                    Value::String(_) if pointer.ends_with("/subject/toolCall/title") => {}
                    Value::String(words) if WORDS.contains(&&**key) => {
                        *count += 1;
                        let text = format!("mark-{count}.");
                        words.push_str(&format!(" {text}"));
                        marks.push(Mark { text, pointer: pointer.clone() });
                    }
                    value => put(value, pointer, count, marks),
                }
                pointer.truncate(length);
            }
            if is_data {
                return;
            }
            let is_meta = pointer.ends_with("/_meta");
            let mut add = |object: &mut Map<String, Value>, way: &str| {
                *count += 1;
                let text = format!("mark-{count}.");
                object.insert(format!("key{count}"), json!(text));
                marks.push(Mark { text, pointer: format!("{pointer}{way}/key{count}") });
            };
            add(object, "");
            if !is_meta {
                let meta = object.entry("_meta").or_insert_with(|| json!({}));
                if let Value::Object(meta) = meta {
                    add(meta, "/_meta");
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                pointer.push_str(&format!("/{index}"));
                put(item, pointer, count, marks);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

/// What became of a conversation: what the report says of each message, and all that came out.
struct Outcome {
    losses: Vec<Vec<Loss>>,
    output: String,
}

/// The marks that are nowhere.
fn missing(marks: &[Vec<Mark>], outcome: &Outcome) -> Vec<String> {
    let covers = |loss: &Loss, pointer: &str| {
        loss.severity != Severity::Guess
            && pointer
                .strip_prefix(&*loss.pointer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_other = |character: char| !(character.is_ascii_alphanumeric() || matches!(character, '-' | '.'));
    let told: HashSet<&str> =
        outcome.output.split(is_other).filter(|text| text.starts_with("mark-")).collect();
    let mut missing = Vec::new();
    for (marks, losses) in marks.iter().zip(&outcome.losses) {
        for mark in marks {
            let is_reported = losses.iter().any(|loss| covers(loss, &mark.pointer));
            if !is_reported && !told.contains(&*mark.text) {
                missing.push(mark.pointer.clone());
            }
        }
    }
    missing
}

fn is_handshake(message: &Value) -> bool {
    message["method"] == "initialize"
}

/// Translates a conversation, both sides of which speak the same version. What is said before a handshake is answered is
/// translated when it is.
fn translate(lines: &[(Side, Value)], to: Version) -> Outcome {
    let mut bridge = RecordingBridge::new(to);
    let mut losses: Vec<Vec<Loss>> = Vec::new();
    let mut output = String::new();
    let mut waiting = None;
    for (index, (from, message)) in lines.iter().enumerate() {
        bridge.take(Some(*from), &message.to_string(), Moment(index as u64 * 20));
        losses.push(bridge.take_losses());
        if is_handshake(message) {
            waiting = Some(index);
        } else if let Some(since) = waiting
            && message.get("method").is_none()
        {
            let told = losses[index].clone();
            losses[since..index].iter_mut().for_each(|earlier| earlier.clone_from(&told));
            waiting = None;
        }
        output.extend(bridge.drain().map(|line| line.text + "\n"));
    }
    bridge.finish();
    output.extend(bridge.drain().map(|line| line.text + "\n"));
    // A prompt whose turn never comes is lost only then, and the end of a turn that never began.
    let later = losses.iter().flatten().cloned().chain(bridge.take_losses());
    let waits = |loss: &Loss| matches!(&*loss.message, "session/prompt" | "state_update");
    for loss in later.filter(waits).collect::<Vec<_>>() {
        for ((_, message), losses) in lines.iter().zip(&mut losses) {
            let kind = [&message["method"], &message["params"]["update"]["sessionUpdate"]];
            if kind.contains(&&json!(loss.message))
                || (message.get("result").is_some() && !loss.pointer.is_empty())
            {
                losses.push(loss.clone());
            }
        }
    }
    Outcome { losses, output }
}

/// Marks a conversation and translates it.
pub(crate) fn lost_in(name: &str, conversation: &[(Side, Value)], to: Version) -> (usize, Vec<String>) {
    let mut count = 0;
    let mut marked = conversation.to_vec();
    let marks: Vec<_> = marked.iter_mut().map(|(_, message)| mark(message, &mut count)).collect();
    let outcome = translate(&marked, to);
    let missing = missing(&marks, &outcome);
    let missing = missing.into_iter().map(|pointer| format!("{name}: {pointer}")).collect();
    (usize::try_from(count).unwrap(), missing)
}

fn assert_none(kind: &str, marks: usize, missing: &[String]) {
    let mut places = std::collections::BTreeMap::<String, usize>::new();
    for pointer in missing {
        let place: String = pointer.chars().filter(|character| !character.is_ascii_digit()).collect();
        *places.entry(place).or_default() += 1;
    }
    println!("{kind}: {marks} marks, {} nowhere", missing.len());
    assert!(missing.is_empty(), "{kind}: {} of {marks} marks are nowhere: {places:#?}", missing.len());
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn answer(id: u64, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn update(update: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
}

/// A block of every kind.
fn blocks() -> Value {
    let annotations = || json!({"audience": ["user"], "priority": 0.5});
    json!([
        {"type": "text", "text": "words", "annotations": annotations()},
        {"type": "image", "data": "AAAA", "mimeType": "image/png", "uri": "file:///w/a.png", "annotations": annotations()},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav", "annotations": annotations()},
        {"type": "resource_link", "name": "n", "uri": "file:///w/a", "title": "t", "annotations": annotations()},
        {"type": "resource", "resource": {"uri": "file:///w/a", "text": "x"}, "annotations": annotations()},
        {"type": "resource", "resource": {"uri": "file:///w/b", "blob": "AAAA"}},
    ])
}

fn in_items(blocks: &Value) -> Vec<Value> {
    let blocks = blocks.as_array().unwrap();
    blocks.iter().map(|block| json!({"type": "content", "content": block})).collect()
}

fn permission_options() -> Value {
    json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}])
}

/// A form with a field of every kind.
fn form() -> Value {
    json!({"sessionId": "s", "mode": "form", "message": "Which?", "requestedSchema": {"type": "object", "required": ["a"],
    "properties": {
        "a": {"type": "string", "minLength": 1, "format": "email"},
        "b": {"type": "string", "oneOf": [{"const": "x", "title": "X"}]},
        "c": {"type": "number", "minimum": 0}, "d": {"type": "integer"}, "e": {"type": "boolean"},
        "f": {"type": "array", "items": {"type": "string", "enum": ["x"]}},
        "g": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}},
    }}})
}

fn plan_entries() -> Value {
    json!([{"content": "a", "priority": "high", "status": "completed"}, {"content": "b", "priority": "low", "status": "pending"}])
}

/// Updates of version 1 of every kind.
fn updates_v1() -> Vec<Value> {
    let mut content = in_items(&blocks());
    content.push(json!({"type": "diff", "path": "/w/a", "oldText": "a\n", "newText": "b\n"}));
    content.push(json!({"type": "diff", "path": "/w/new", "newText": "b\n"}));
    content.push(json!({"type": "terminal", "terminalId": "t"}));
    let mut updates = vec![
        json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Edit", "name": "edit", "kind": "edit",
            "status": "pending", "content": content, "locations": [{"path": "/w/a", "line": 2}], "rawInput": {"a": {}},
            "rawOutput": {"b": [{}]}}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "title": "Edited"}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": in_items(&blocks())}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "d", "content": []}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c",
            "_meta": {"terminal_info": {"terminal_id": "u", "cwd": "/w"}, "terminal_output": {"terminal_id": "u", "data": "x"},
                "terminal_exit": {"terminal_id": "u", "exit_code": 1}}}),
        json!({"sessionUpdate": "plan", "entries": plan_entries()}),
        json!({"sessionUpdate": "available_commands_update", "availableCommands": [
            {"name": "web", "description": "Search", "input": {"hint": "query"}}, {"name": "a", "description": "b"}]}),
        json!({"sessionUpdate": "current_mode_update", "currentModeId": "code"}),
        json!({"sessionUpdate": "config_option_update", "configOptions": options_v1()}),
        json!({"sessionUpdate": "session_info_update", "title": "t", "updatedAt": null}),
        json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 1, "currency": "USD"}}),
        json!({"sessionUpdate": "notice", "severity": "info", "title": "t", "description": "d"}),
        json!({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "completed", "summary": blocks()}),
        json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "k", "content": blocks()[0]}),
        json!({"sessionUpdate": "_mine", "x": {"y": [{}]}}),
    ];
    for block in blocks().as_array().unwrap() {
        for role in ["user_message", "agent_message", "agent_thought"] {
            updates.push(json!({"sessionUpdate": format!("{role}_chunk"), "content": block}));
            updates
                .push(json!({"sessionUpdate": format!("{role}_chunk"), "messageId": "m", "content": block}));
        }
    }
    updates
}

fn options_v1() -> Value {
    let value = |value: &str| json!({"value": value, "name": value});
    json!([
        {"type": "select", "id": "mode", "name": "Mode", "category": "mode", "currentValue": "ask", "options": [value("ask"), value("code")]},
        {"type": "select", "id": "model", "name": "Model", "currentValue": "a", "options": [{"group": "g", "name": "G", "options": [value("a")]}]},
        {"type": "boolean", "id": "b", "name": "B", "currentValue": true},
    ])
}

fn options_v2() -> Value {
    let value = |value: &str| json!({"value": value, "name": value});
    json!([
        {"type": "select", "configId": "mode", "name": "Mode", "category": "mode", "currentValue": "ask", "options": [value("ask"), value("code")]},
        {"type": "select", "configId": "model", "name": "Model", "currentValue": "a", "options": [{"groupId": "g", "name": "G", "options": [value("a")]}]},
        {"type": "boolean", "configId": "b", "name": "B", "currentValue": true},
        {"type": "_dial", "configId": "d", "name": "D", "x": {}},
    ])
}

/// A diff of every kind.
fn diffs_v2() -> Vec<Value> {
    let patch = |text: &str| json!({"format": "git_patch", "text": text});
    let edit = "diff --git /w/a /w/a\n--- /w/a\n+++ /w/a\n@@ -1,1 +1,1 @@\n-a\n+b\n";
    vec![
        json!({"type": "diff", "changes": [{"operation": "modify", "path": "/w/a", "fileType": "text", "mimeType": "text/plain"}], "patch": patch(edit)}),
        json!({"type": "diff", "changes": [{"operation": "move", "oldPath": "/w/a", "path": "/w/b"}, {"operation": "_odd", "path": "/w/c"}]}),
        json!({"type": "diff", "changes": []}),
    ]
}

/// Updates of version 2 of every kind.
fn updates_v2() -> Vec<Value> {
    let mut content = in_items(&blocks());
    content.extend(diffs_v2());
    content.push(json!({"type": "terminal", "terminalId": "t"}));
    content.push(json!({"type": "_chart", "points": [{}]}));
    let icons =
        json!({"type": "resource_link", "name": "n", "uri": "file:///w/a", "icons": [{"src": "i.png"}]});
    let mut updates = vec![
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Edit", "name": "edit", "kind": "edit",
            "status": "pending", "content": content, "locations": [{"path": "/w/a", "line": 2}], "rawInput": {"a": {}},
            "rawOutput": {"b": [{}]}, "capabilities": {"cancel": {}}}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "cancelled", "kind": "_odd"}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": null, "title": null}),
        json!({"sessionUpdate": "terminal_update", "terminalId": "t", "command": "ls", "cwd": "/w", "output": {"data": "YQo="},
            "exitStatus": {"exitCode": 1}, "size": {"cols": 80, "rows": 24}, "capabilities": {"cancel": {}}}),
        json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "YQo="}),
        json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": plan_entries()}}),
        json!({"sessionUpdate": "plan_update", "plan": {"type": "_tree", "planId": "p", "root": {}}}),
        json!({"sessionUpdate": "available_commands_update", "availableCommands": [
            {"type": "command", "name": "web", "description": "Search", "input": {"type": "text", "hint": "query"}},
            {"type": "command", "name": "a", "description": "b", "input": {"type": "_form", "x": {}}},
            {"type": "_macro", "name": "a", "description": "b"}]}),
        json!({"sessionUpdate": "config_option_update", "configOptions": options_v2()}),
        json!({"sessionUpdate": "session_info_update", "title": null, "updatedAt": "2026-01-01T00:00:00Z"}),
        json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 1, "currency": "USD"}}),
        json!({"sessionUpdate": "notice", "severity": "info", "title": "t", "description": "d"}),
        json!({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "completed", "summary": blocks()}),
        json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "k", "content": blocks()[0]}),
        json!({"sessionUpdate": "state_update", "state": "running", "background": [{"type": "terminal", "terminalId": "t"}]}),
        json!({"sessionUpdate": "state_update", "state": "requires_action"}),
        json!({"sessionUpdate": "state_update", "state": "_dreaming", "of": {}}),
        json!({"sessionUpdate": "state_update", "state": "idle"}),
        json!({"sessionUpdate": "_mine", "x": {"y": [{}]}}),
        json!({"sessionUpdate": "agent_message_chunk", "messageId": "n", "content": icons}),
        json!({"sessionUpdate": "agent_message_chunk", "messageId": "n", "content": {"type": "_video", "of": {}}}),
    ];
    for role in ["user_message", "agent_message", "agent_thought"] {
        for block in blocks().as_array().unwrap() {
            updates
                .push(json!({"sessionUpdate": format!("{role}_chunk"), "messageId": "m", "content": block}));
        }
        updates.push(json!({"sessionUpdate": role, "messageId": "m", "content": blocks()}));
        updates.push(
            json!({"sessionUpdate": role, "messageId": "m", "content": [{"type": "text", "text": "other"}]}),
        );
        updates.push(json!({"sessionUpdate": role, "messageId": "m", "content": null}));
        updates.push(json!({"sessionUpdate": role, "messageId": "m"}));
    }
    for item in in_items(&blocks()).into_iter().chain(diffs_v2()) {
        updates.push(json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": item}));
    }
    updates
}

fn servers(tagged: bool) -> Value {
    let mut stdio =
        json!({"name": "s", "command": "/bin/s", "args": ["a"], "env": [{"name": "A", "value": "1"}]});
    if tagged {
        stdio["type"] = json!("stdio");
    }
    json!([stdio, {"type": "http", "name": "h", "url": "http://x", "headers": [{"name": "A", "value": "1"}]}])
}

/// Client and agent take turns.
struct Talk(Vec<(Side, Value)>);

impl Talk {
    fn client(&mut self, message: Value) {
        self.0.push((Side::Client, message));
    }

    fn agent(&mut self, message: Value) {
        self.0.push((Side::Agent, message));
    }

    /// A request of the client and its answer.
    fn ask(&mut self, id: u64, method: &str, params: Value, result: Value) {
        self.client(request(id, method, params));
        self.agent(answer(id, result));
    }

    /// A request of the agent and its answer.
    fn question(&mut self, id: u64, method: &str, params: Value, result: Value) {
        self.agent(request(id, method, params));
        self.client(answer(id, result));
    }

    /// What both versions spell alike.
    fn alike(&mut self) {
        self.ask(
            20,
            "session/list",
            json!({"cwd": "/w"}),
            json!({"sessions": [{"sessionId": "s", "cwd": "/w", "title": "t"}], "nextCursor": "n"}),
        );
        self.ask(21, "session/delete", json!({"sessionId": "z"}), json!({}));
        self.ask(22, "_own/method", json!({"a": {}}), json!({"b": {}}));
        self.client(request(23, "session/list", json!({})));
        self.agent(json!({"jsonrpc": "2.0", "id": 23, "error": {"code": -32000, "message": "log in", "data": {"why": {}}}}));
        self.question(24, "elicitation/create", form(), json!({"action": "accept", "content": {"a": "x"}}));
        self.question(25, "elicitation/create", json!({"sessionId": "s", "mode": "url", "message": "m", "elicitationId": "e", "url": "https://x"}), json!({"action": "decline"}));
        self.agent(
            json!({"jsonrpc": "2.0", "method": "elicitation/complete", "params": {"elicitationId": "e"}}),
        );
        self.question(26, "_own/question", json!({"a": {}}), json!({"b": {}}));
        self.agent(json!({"jsonrpc": "2.0", "method": "_own/news", "params": {"a": {}}}));
        self.client(json!({"jsonrpc": "2.0", "method": "_own/news", "params": {"a": {}}}));
        self.agent(request(27, "_own/question", json!({})));
        self.agent(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 27}}));
        self.client(answer(27, json!({})));
        self.client(json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}));
        self.client(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 99}}));
        self.agent(answer(98, json!({})));
    }
}

/// A conversation of version 1 with everything in it.
fn conversation_v1() -> Vec<(Side, Value)> {
    let mut talk = Talk(Vec::new());
    talk.ask(
        0,
        "initialize",
        json!({"protocolVersion": 1, "clientInfo": {"name": "c", "version": "1"}, "clientCapabilities": {
            "fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true, "auth": {"terminal": true},
            "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
            "elicitation": {"form": {}, "url": {}}}}),
        json!({"protocolVersion": 1, "agentInfo": {"name": "a", "version": "1"}, "agentCapabilities": {"loadSession": true,
            "promptCapabilities": {"image": true}, "mcpCapabilities": {"http": true, "sse": true}, "auth": {"logout": {}},
            "sessionCapabilities": {"list": {}, "delete": {}, "additionalDirectories": {}, "resume": {}, "close": {}}},
            "authMethods": [{"id": "key", "name": "Key"}, {"type": "terminal", "id": "t", "name": "T", "args": ["login"], "env": {"A": "1"}}]}),
    );
    talk.ask(1, "authenticate", json!({"methodId": "key"}), json!({}));
    let modes = json!({"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]});
    talk.ask(
        2,
        "session/new",
        json!({"cwd": "/w", "additionalDirectories": ["/x"], "mcpServers": servers(false)}),
        json!({"sessionId": "s", "modes": modes}),
    );
    talk.ask(3, "session/set_mode", json!({"sessionId": "s", "modeId": "code"}), json!({}));
    talk.ask(
        4,
        "session/set_config_option",
        json!({"sessionId": "s", "configId": "model", "value": "a"}),
        json!({"configOptions": options_v1()}),
    );
    talk.ask(
        5,
        "session/set_config_option",
        json!({"type": "boolean", "sessionId": "s", "configId": "b", "value": true}),
        json!({"configOptions": options_v1()}),
    );
    talk.client(request(6, "session/prompt", json!({"sessionId": "s", "prompt": blocks()})));
    updates_v1().into_iter().for_each(|told| talk.agent(update(told)));
    let call = json!({"toolCallId": "c", "title": "Allow?", "status": "pending", "content": in_items(&blocks()), "locations": [{"path": "/w/a"}], "rawInput": {}});
    talk.question(
        7,
        "session/request_permission",
        json!({"sessionId": "s", "toolCall": call, "options": permission_options()}),
        json!({"outcome": {"outcome": "selected", "optionId": "y"}}),
    );
    talk.question(
        8,
        "session/request_permission",
        json!({"sessionId": "s", "toolCall": {"toolCallId": "e"}, "options": permission_options()}),
        json!({"outcome": {"outcome": "cancelled"}}),
    );
    talk.question(
        9,
        "session/request_permission",
        json!({"sessionId": "s", "toolCall": {"toolCallId": "e"}, "options": permission_options()}),
        json!({"outcome": {"outcome": "selected", "optionId": "odd"}}),
    );
    talk.question(
        10,
        "fs/read_text_file",
        json!({"sessionId": "s", "path": "/w/a"}),
        json!({"content": "x"}),
    );
    talk.question(
        11,
        "terminal/create",
        json!({"sessionId": "s", "command": "ls", "env": [{"name": "A", "value": "1"}]}),
        json!({"terminalId": "t"}),
    );
    talk.alike();
    talk.agent(answer(6, json!({"stopReason": "end_turn"})));
    talk.client(request(
        12,
        "session/prompt",
        json!({"sessionId": "s", "prompt": [{"type": "text", "text": "again"}]}),
    ));
    talk.agent(
        json!({"jsonrpc": "2.0", "id": 12, "error": {"code": -32603, "message": "no", "data": {"why": {}}}}),
    );
    let with_both = json!({"modes": modes, "configOptions": options_v1()});
    talk.ask(
        13,
        "session/load",
        json!({"sessionId": "s", "cwd": "/w", "mcpServers": servers(false)}),
        with_both,
    );
    talk.ask(
        14,
        "session/resume",
        json!({"sessionId": "s", "cwd": "/w"}),
        json!({"configOptions": options_v1()}),
    );
    talk.ask(
        15,
        "session/new",
        json!({"cwd": "/w", "mcpServers": [{"type": "sse", "name": "e", "url": "http://x", "headers": []}]}),
        json!({"sessionId": "t"}),
    );
    talk.ask(16, "session/close", json!({"sessionId": "s"}), json!({}));
    talk.ask(17, "logout", json!({}), json!({}));
    talk.0
}

/// A conversation of version 2 with everything in it.
fn conversation_v2() -> Vec<(Side, Value)> {
    let mut talk = Talk(Vec::new());
    talk.ask(
        0,
        "initialize",
        json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"},
            "capabilities": {"auth": {"terminal": {}}, "elicitation": {"form": {}, "url": {}}}}),
        json!({"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {"auth": {}, "session": {
            "prompt": {"image": {}, "audio": {}, "embeddedContext": {}}, "mcp": {"stdio": {}, "http": {}}, "delete": {},
            "additionalDirectories": {}}},
            "authMethods": [{"type": "agent", "methodId": "key", "name": "Key"},
                {"type": "terminal", "methodId": "t", "name": "T", "args": ["login"], "env": [{"name": "A", "value": "1"}]},
                {"type": "_magic", "methodId": "m", "name": "M", "spell": {}}]}),
    );
    talk.ask(1, "auth/login", json!({"methodId": "key"}), json!({}));
    let commands = json!([{"type": "command", "name": "a", "description": "b"}]);
    talk.ask(
        2,
        "session/new",
        json!({"cwd": "/w", "additionalDirectories": ["/x"], "mcpServers": servers(true)}),
        json!({"sessionId": "s", "configOptions": options_v2(), "availableCommands": commands}),
    );
    talk.ask(
        3,
        "session/set_config_option",
        json!({"type": "id", "sessionId": "s", "configId": "mode", "value": "code"}),
        json!({"configOptions": options_v2()}),
    );
    talk.ask(
        4,
        "session/set_config_option",
        json!({"type": "boolean", "sessionId": "s", "configId": "b", "value": true}),
        json!({"configOptions": options_v2()}),
    );
    talk.client(request(
        5,
        "session/set_config_option",
        json!({"type": "_dial", "sessionId": "s", "configId": "d", "value": {}}),
    ));
    talk.agent(json!({"jsonrpc": "2.0", "id": 5, "error": {"code": -32602, "message": "no"}}));
    talk.client(request(6, "session/prompt", json!({"sessionId": "s", "prompt": blocks()})));
    talk.agent(answer(6, json!({"messageId": "u"})));
    talk.agent(update(json!({"sessionUpdate": "user_message", "messageId": "u", "content": blocks()})));
    updates_v2().into_iter().for_each(|told| talk.agent(update(told)));
    let ask = |subject: Value| json!({"sessionId": "s", "title": "Allow?", "description": "d", "subject": subject, "options": permission_options()});
    let call = json!({"toolCallId": "c", "status": "pending", "content": in_items(&blocks()), "locations": [{"path": "/w/a"}], "rawInput": {}});
    talk.question(
        7,
        "session/request_permission",
        ask(json!({"type": "tool_call", "toolCall": call})),
        json!({"outcome": {"outcome": "selected", "optionId": "y"}}),
    );
    let command =
        json!({"type": "command", "command": "ls", "cwd": "/w", "toolCallId": "c", "terminalId": "t"});
    talk.question(
        8,
        "session/request_permission",
        ask(command),
        json!({"outcome": {"outcome": "cancelled"}}),
    );
    talk.question(
        9,
        "session/request_permission",
        ask(json!({"type": "_spell", "of": {}})),
        json!({"outcome": {"outcome": "_perhaps", "of": {}}}),
    );
    let odd = json!([{"optionId": "z", "name": "Odd", "kind": "_odd"}]);
    talk.question(
        10,
        "session/request_permission",
        json!({"sessionId": "s", "title": "t", "options": odd}),
        json!({"outcome": {"outcome": "cancelled"}}),
    );
    talk.agent(request(
        11,
        "session/request_permission",
        ask(json!({"type": "tool_call", "toolCall": {"toolCallId": "new", "title": "t"}})),
    ));
    talk.agent(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 11}}));
    talk.client(answer(11, json!({"outcome": {"outcome": "cancelled"}})));
    talk.ask(12, "tool_call/cancel", json!({"sessionId": "s", "toolCallId": "c"}), json!({}));
    talk.alike();
    talk.agent(update(
        json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "_tired", "background": []}),
    ));
    talk.client(request(
        13,
        "session/prompt",
        json!({"sessionId": "s", "prompt": [{"type": "text", "text": "again"}]}),
    ));
    talk.agent(answer(13, json!({"messageId": "v"})));
    talk.agent(update(json!({"sessionUpdate": "state_update", "state": "running"})));
    talk.agent(update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "error", "error": {"code": 1, "message": "m", "data": {}}})));
    talk.client(request(
        14,
        "session/prompt",
        json!({"sessionId": "s", "prompt": [{"type": "_video", "of": {}}]}),
    ));
    talk.agent(json!({"jsonrpc": "2.0", "id": 14, "error": {"code": -32602, "message": "no"}}));
    talk.ask(
        15,
        "session/resume",
        json!({"sessionId": "s", "cwd": "/w", "mcpServers": servers(true), "replayFrom": {"type": "start"}}),
        json!({"configOptions": options_v2(), "availableCommands": commands}),
    );
    talk.ask(16, "session/resume", json!({"sessionId": "s", "cwd": "/w"}), json!({}));
    talk.ask(17, "session/close", json!({"sessionId": "s"}), json!({}));
    talk.ask(18, "auth/logout", json!({}), json!({}));
    talk.0
}

#[test]
fn every_mark_in_a_written_conversation_comes_out_or_is_reported() {
    for (name, conversation, to) in
        [("version 1", conversation_v1(), Version::V2), ("version 2", conversation_v2(), Version::V1)]
    {
        let (marks, missing) = lost_in(name, &conversation, to);
        assert!(marks > 1000, "{marks}");
        assert_none(name, marks, &missing);
    }
}

#[test]
fn every_mark_in_a_recording_comes_out_or_is_reported() {
    let (mut marks, mut missing) = (0, Vec::new());
    for recording in recordings() {
        let conversation: Vec<_> = recording
            .lines
            .iter()
            .map(|line| {
                let side = if line.from_agent { Side::Agent } else { Side::Client };
                (side, serde_json::from_str(&line.message).expect("JSON"))
            })
            .collect();
        for to in [Version::V1, Version::V2] {
            let (count, lost) = lost_in(&recording.name, &conversation, to);
            marks += count;
            missing.extend(lost);
        }
    }
    assert_none("recordings", marks, &missing);
}

#[test]
fn every_mark_passes_between_dialects() {
    let dialects = [None, Some(Dialect::Spec), Some(Dialect::Newest)];
    for (client, agent) in dialects.into_iter().flat_map(|client| dialects.map(|agent| (client, agent))) {
        let mut bridge = Bridge::new(BridgeOptions {
            client_dialect: client,
            agent_dialect: agent,
            ..BridgeOptions::between(Version::V2, Version::V2)
        });
        let (mut count, mut marks, mut losses, mut output) = (0, Vec::new(), Vec::new(), String::new());
        for (from, mut message) in conversation_v2() {
            marks.push(mark(&mut message, &mut count));
            let line = message.to_string();
            let handled = bridge.handle(from, &line, Moment(0));
            let mut lost = Vec::new();
            for said in bridge.drain() {
                match said {
                    Output::Line { line, .. } => output.push_str(&line),
                    Output::Loss(loss) => lost.push(loss),
                }
            }
            if handled == Handled::Forward {
                output.push_str(&line);
            }
            losses.push(lost);
        }
        let name = format!("{client:?} {agent:?}");
        assert_none(&name, usize::try_from(count).unwrap(), &missing(&marks, &Outcome { losses, output }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_mark_in_a_generated_conversation_comes_out_or_is_reported(
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..60)
    ) {
        for (to, all, whole) in [
            (Version::V2, updates_v1(), conversation_v1()),
            (Version::V1, updates_v2(), conversation_v2()),
        ] {
            // The handshake, the session, the prompt, and then anything.
            let begin = whole.iter().position(|(_, message)| message["method"] == "session/prompt").unwrap();
            let mut conversation = whole[..=begin].to_vec();
            for (update_pick, message_pick) in &picks {
                conversation.push((Side::Agent, update(update_pick.get(&all).clone())));
                conversation.push(message_pick.get(&whole[begin..]).clone());
            }
            let (marks, missing) = lost_in("generated", &conversation, to);
            assert_none("generated", marks, &missing);
        }
    }
}
