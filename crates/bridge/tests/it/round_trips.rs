//! Round trips from version 2 to version 1 and back: an agent and a client of version 2 with two bridges
//! between them that exchange version 1.

use serde_json::{Value, json};
use switchboard_bridge::{
    Bridge, BridgeOptions, Dialect, Host, Moment, RecordingBridge, Side, Stateless, Version,
};

use crate::support::Bench;

/// Exchanges version 1 lines between two bridges until none are left.
struct Chain {
    /// The bridge of the agent.
    near_agent: Bench,
    /// The bridge of the client.
    near_client: Bench,
}

impl Chain {
    fn new() -> Self {
        let mut chain = Chain { near_agent: Bench::v1_client(), near_client: Bench::v2_client() };
        let params = json!({"cwd": "/w", "mcpServers": []});
        chain.near_client.client(json!({"id": 1, "method": "session/new", "params": params}));
        chain.carry();
        let id = chain.near_agent.take_agent().remove(0)["id"].clone();
        chain.near_agent.agent(json!({"id": id, "result": {"sessionId": "s"}}));
        chain.carry();
        chain.near_client.take_client();
        chain
    }

    fn carry(&mut self) {
        loop {
            let (to_agent, to_client) = (self.near_client.take_agent(), self.near_agent.take_client());
            if to_agent.is_empty() && to_client.is_empty() {
                return;
            }
            to_agent.into_iter().for_each(|line| self.near_agent.client(line));
            to_client.into_iter().for_each(|line| self.near_client.agent(line));
        }
    }

    fn update(&mut self, update: Value) {
        self.near_agent.update(update);
        self.carry();
    }
}

fn tool_call(content: &Value) -> Value {
    json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Edit", "content": content})
}

#[test]
fn diffs_that_version_1_cannot_show_come_back_as_they_were() {
    let patch = "diff --git /w/a /w/b\nsimilarity index 50%\nrename from /w/a\nrename to /w/b\n\
                 --- /w/a\n+++ /w/b\n@@ -1 +1 @@\n-a\n+b\n";
    let patch = json!({"format": "git_patch", "text": patch});
    let binary = json!({"operation": "modify", "path": "/w/logo.png", "fileType": "binary"});
    for changes in [
        json!([binary]),
        json!([{"operation": "move", "oldPath": "/w/a", "path": "/w/b"}]),
        json!([{"operation": "copy", "oldPath": "/w/a", "path": "/w/b"}, binary]),
        json!([{"operation": "delete", "path": "/w/logo.png", "fileType": "binary"}]),
    ] {
        for patch in [Value::Null, patch.clone()] {
            let mut diff = json!({"type": "diff", "changes": changes});
            if !patch.is_null() {
                diff["patch"] = patch;
            }
            let mut chain = Chain::new();
            let words = |text: &str| json!({"type": "content", "content": {"type": "text", "text": text}});
            chain.update(tool_call(&json!([words("before"), diff, words("after")])));
            let told = chain.near_client.take_updates();
            let mut content = told[0]["content"].clone();
            // For a client of unknown dialect, the patch has both keys.
            if let Some(patch) = content[1].get_mut("patch").and_then(Value::as_object_mut) {
                patch.remove("diff");
            }
            assert_eq!(content, json!([words("before"), diff, words("after")]), "{told:?}");
            // An unchanged repetition is not sent.
            chain.update(tool_call(&json!([words("before"), diff, words("after")])));
            let told = chain.near_client.take_updates();
            assert!(told.iter().all(|update| update.get("content").is_none()), "{told:?}");
        }
    }
}

#[test]
fn the_description_of_a_question_comes_back_as_its_description() {
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]);
    let shown = json!([{"type": "content", "content": {"type": "text", "text": "of the call"}}]);
    let about_call = json!({"type": "tool_call", "toolCall": {"toolCallId": "c"}});
    for (content, subject) in [(Some(&shown), Some(&about_call)), (None, Some(&about_call)), (None, None)] {
        let mut chain = Chain::new();
        chain.update(tool_call(content.unwrap_or(&json!([]))));
        chain.near_client.take_client();
        let mut params = json!({"sessionId": "s", "title": "May I?", "description": "Because I must.", "options": options});
        if let Some(subject) = subject {
            params["subject"] = subject.clone();
        }
        let asked = json!({"id": 7, "method": "session/request_permission", "params": params});
        chain.near_agent.agent(asked);
        chain.carry();
        let told = chain.near_client.take_client();
        let asked = told.iter().find(|line| line["method"] == "session/request_permission").unwrap();
        assert_eq!(asked["params"]["title"], "May I?", "{asked}");
        assert_eq!(asked["params"]["description"], "Because I must.", "{asked}");
        let of_call = asked["params"]["subject"]["toolCall"].to_string();
        assert!(!of_call.contains("Because I must."), "{of_call}");
        // A version 1 client still shows it.
        let mut lone = Bench::v1_client();
        lone.agent(json!({"id": 7, "method": "session/request_permission", "params": params}));
        let asked = lone.take_client().pop().unwrap();
        assert!(asked["params"]["toolCall"]["content"].to_string().contains("Because I must."), "{asked}");
    }
}

/// Elements that the newest dialect does not have are never sent to it.
#[test]
fn line_0_is_not_sent_to_the_newest_dialect() {
    let update = |kind: &str| {
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {
            "sessionUpdate": kind, "toolCallId": "c", "title": "t", "locations": [{"path": "/w/a", "line": 0}]}}})
    };
    let line_of = |line: &Value| line["params"]["update"]["locations"][0]["line"].clone();
    // Stateless.
    let converted =
        Stateless::new(Version::V2).convert(&update("tool_call").to_string(), Some(Side::Agent)).unwrap();
    assert_eq!(line_of(&serde_json::from_str(&converted.value[0]).unwrap()), Value::Null);
    assert!(
        converted.omitted.iter().any(|note| note.pointer.ends_with("/locations/0/line")),
        "{converted:?}"
    );
    // Through a bridge from version 1.
    let mut bench = Bench::v2_client();
    bench.agent(update("tool_call"));
    assert_eq!(line_of(&bench.take_client()[0]), Value::Null);
    // From an agent of the other dialect, in either spelling.
    for client_dialect in [Some(Dialect::Newest), None] {
        let options = BridgeOptions {
            client_dialect,
            agent_dialect: Some(Dialect::Spec),
            ..BridgeOptions::between(Version::V2, Version::V2)
        };
        let mut bench = Bench::new(options);
        for spelled in [r#""line":0"#, r#""line": 0"#, "\"line\"\t:\t0"] {
            bench.line(Side::Agent, &update("tool_call_update").to_string().replace(r#""line":0"#, spelled));
            assert_eq!(line_of(&bench.take_client()[0]), Value::Null, "{client_dialect:?} {spelled}");
        }
        bench
            .line(Side::Agent, &update("tool_call_update").to_string().replace(r#""line":0"#, r#""line":7"#));
        assert_eq!(line_of(&bench.take_client()[0]), 7);
    }
}

#[test]
fn relative_paths_are_resolved_or_reported() {
    let diff = json!([{"type": "diff", "changes": [{"operation": "add", "path": "a.txt"}],
        "patch": {"format": "git_patch", "text": "diff --git a/a.txt b/a.txt\nnew file mode 100644\n--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+x\n"}}]);
    let mut bench = Bench::v1_client();
    bench.open();
    bench.update(tool_call(&diff));
    let told = bench.take_updates();
    assert_eq!(told[0]["content"][0]["path"], "/w/a.txt", "{told:?}");
    assert_eq!(told[0]["content"][0]["_meta"]["acp.v2/path"], "a.txt", "{told:?}");
    // Stateless: a path that cannot be resolved is an error with its pointer.
    let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {
        "sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "locations": [{"path": "src/a"}]}}});
    let refused = Stateless::new(Version::V2).convert(&line.to_string(), Some(Side::Agent)).unwrap_err();
    assert!(refused.to_string().contains("locations/0/path"), "{refused}");
}

/// A host that knows one program.
struct Machine;

impl Host for Machine {
    fn find_program(&mut self, name: &str) -> Option<String> {
        (name == "npx").then(|| "/usr/bin/npx".to_owned())
    }
}

#[test]
fn programs_of_mcp_servers_are_resolved_or_reported() {
    let server = |command: &str| json!({"name": "m", "command": command, "args": [], "env": []});
    let cases = [
        ("session/new", json!({"cwd": "/w", "mcpServers": []})),
        ("session/load", json!({"sessionId": "s", "cwd": "/w", "mcpServers": []})),
        ("session/resume", json!({"sessionId": "s", "cwd": "/w", "mcpServers": []})),
    ];
    for (method, mut params) in cases {
        let mut sent = |bridge, command| {
            params["mcpServers"] = json!([server(command)]);
            let mut bench = Bench::of(bridge);
            bench.client(json!({"id": 1, "method": method, "params": params}));
            let sent = bench.take_agent().remove(0)["params"]["mcpServers"][0]["command"].clone();
            let reported = bench.losses.iter().any(|loss| loss.pointer == "/params/mcpServers/0/command");
            (sent, reported)
        };
        let options = || BridgeOptions::between(Version::V1, Version::V2);
        let here = || Bridge::with_host(options(), Box::new(Machine));
        assert_eq!(sent(here(), "npx"), (json!("/usr/bin/npx"), false), "{method}");
        assert_eq!(sent(here(), "uvx"), (json!("uvx"), true), "{method}");
        assert_eq!(sent(here(), "./npx"), (json!("./npx"), true), "{method}");
        assert_eq!(sent(here(), "/opt/npx"), (json!("/opt/npx"), false), "{method}");
        assert_eq!(sent(Bridge::new(options()), "npx"), (json!("npx"), true), "{method}");
    }
}

#[test]
fn metadata_of_answers_without_a_counterpart_is_reported() {
    let mut recording = RecordingBridge::new(Version::V1);
    let mut take = |from, mut message: Value| {
        message["jsonrpc"] = json!("2.0");
        recording.take(Some(from), &message.to_string(), Moment(0));
    };
    let info = json!({"name": "n", "version": "1"});
    take(
        Side::Client,
        json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 2, "info": info}}),
    );
    take(
        Side::Agent,
        json!({"id": 0, "result": {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}}}),
    );
    take(Side::Client, json!({"id": 1, "method": "session/new", "params": {"cwd": "/w"}}));
    take(Side::Agent, json!({"id": 1, "result": {"sessionId": "s"}}));
    let prompt = json!({"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]});
    take(Side::Client, json!({"id": 2, "method": "session/prompt", "params": prompt}));
    take(Side::Agent, json!({"id": 2, "result": {"messageId": "u", "_meta": {"of": "prompt"}}}));
    let idle = json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"});
    take(Side::Agent, json!({"method": "session/update", "params": {"sessionId": "s", "update": idle}}));
    take(Side::Client, json!({"id": 3, "method": "session/list", "params": {}}));
    take(Side::Agent, json!({"id": 3, "result": {"sessions": [], "_meta": {"of": "list"}}}));
    take(Side::Client, json!({"id": 4, "method": "session/close", "params": {"sessionId": "s"}}));
    take(Side::Agent, json!({"id": 4, "result": {"_meta": {"of": "close"}}}));
    recording.finish();
    let lines: String = recording.drain().map(|line| line.text).collect();
    let losses = recording.take_losses();
    // Each is in the translation or reported with its line.
    for (number, name) in [(6, "prompt"), (9, "list"), (11, "close")] {
        let is_told = lines.contains(&format!(r#"{{"of":"{name}"}}"#));
        let is_reported =
            losses.iter().any(|(line, loss)| *line == number && loss.pointer == "/result/_meta");
        assert!(is_told || is_reported, "{name}: {losses:?}\n{lines}");
    }
}
