//! A bridge with both of its sides.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use switchboard_bridge::{Bridge, BridgeOptions, Handled, Loss, Moment, Output, Severity, Side, Version};

pub(crate) struct Bench {
    pub(crate) bridge: Bridge,
    pub(crate) now: i64,
    pub(crate) to_client: Vec<Value>,
    pub(crate) to_agent: Vec<Value>,
    pub(crate) losses: Vec<Loss>,
}

impl Bench {
    pub(crate) fn new(options: BridgeOptions) -> Self {
        Bench::of(Bridge::new(options))
    }

    pub(crate) fn of(bridge: Bridge) -> Self {
        Bench { bridge, now: 0, to_client: Vec::new(), to_agent: Vec::new(), losses: Vec::new() }
    }

    pub(crate) fn v1_client() -> Self {
        Bench::new(BridgeOptions::between(Version::V1, Version::V2))
    }

    pub(crate) fn v2_client() -> Self {
        Bench::new(BridgeOptions::between(Version::V2, Version::V1))
    }

    /// Opens session `s` as a client of a version.
    pub(crate) fn open(&mut self) {
        self.client(
            json!({"id": "open", "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}),
        );
        let id = self.take_agent().pop().expect("a request")["id"].clone();
        self.agent(json!({"id": id, "result": {"sessionId": "s", "configOptions": []}}));
        self.take_client();
    }

    /// Sends a message of one side and lets some time pass.
    pub(crate) fn say(&mut self, from: Side, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.line(from, &message.to_string());
    }

    pub(crate) fn line(&mut self, from: Side, line: &str) {
        let passes = self.bridge.is_passthrough(from, line.as_bytes());
        let handled = self.bridge.handle(from, line, Moment(self.now));
        if handled == Handled::Forward {
            if passes {
                assert_eq!(
                    self.bridge.drain().next(),
                    None,
                    "nothing is said before a line that passes: {line}"
                );
            }
            self.collect();
            self.arrive(from.other(), line);
        }
        assert!(!passes || handled == Handled::Forward, "a line that passes is forwarded: {line}");
        self.collect();
        self.pass(500);
    }

    pub(crate) fn pass(&mut self, milliseconds: i64) {
        self.now += milliseconds;
        self.bridge.tick(Moment(self.now));
        self.collect();
    }

    pub(crate) fn client(&mut self, message: Value) {
        self.say(Side::Client, message);
    }

    pub(crate) fn agent(&mut self, message: Value) {
        self.say(Side::Agent, message);
    }

    /// Sends an update of session `s` as the agent.
    pub(crate) fn update(&mut self, update: Value) {
        self.agent(json!({"method": "session/update", "params": {"sessionId": "s", "update": update}}));
    }

    fn arrive(&mut self, to: Side, line: &str) {
        assert!(!line.contains('\n'), "one line: {line}");
        let message: Value = serde_json::from_str(line).expect("JSON");
        match to {
            Side::Client => self.to_client.push(message),
            Side::Agent => self.to_agent.push(message),
        }
    }

    pub(crate) fn collect(&mut self) {
        let outputs: Vec<Output> = self.bridge.drain().collect();
        for output in outputs {
            match output {
                Output::Line { to, line } => self.arrive(to, &line),
                Output::Loss(loss) => self.losses.push(loss),
            }
        }
    }

    pub(crate) fn take_client(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.to_client)
    }

    pub(crate) fn take_agent(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.to_agent)
    }

    /// Asserts that the client got nothing, using a marker message that it gets next.
    pub(crate) fn assert_nothing_for_client(&mut self, why: &str) {
        self.agent(json!({"method": "_proof", "params": {}}));
        assert_eq!(
            self.take_client(),
            [json!({"jsonrpc": "2.0", "method": "_proof", "params": {}})],
            "{why}"
        );
    }

    /// Asserts that the agent got nothing, using a marker message that it gets next.
    pub(crate) fn assert_nothing_for_agent(&mut self, why: &str) {
        self.client(json!({"method": "_proof", "params": {}}));
        assert_eq!(self.take_agent(), [json!({"jsonrpc": "2.0", "method": "_proof", "params": {}})], "{why}");
    }

    /// Returns the updates of session `s` that the client got.
    pub(crate) fn take_updates(&mut self) -> Vec<Value> {
        let mut updates = Vec::new();
        for message in self.take_client() {
            assert_eq!(message["method"], "session/update", "{message}");
            updates.push(message["params"]["update"].clone());
        }
        updates
    }

    pub(crate) fn lost(&self) -> Vec<String> {
        let losses = self.losses.iter().filter(|loss| loss.severity != Severity::Guess);
        losses.map(|loss| format!("{} {}", loss.message, loss.element)).collect()
    }
}

/// Folds a session by the objects of its updates: the session engine's JSON without chunk boundaries.
pub(crate) fn amounts_to(session: &str) -> BTreeMap<String, Value> {
    let session: Value = serde_json::from_str(session).expect("JSON");
    let mut state = BTreeMap::new();
    let joined = |blocks: &Value, inside: bool| -> String {
        let blocks = blocks.as_array().into_iter().flatten();
        blocks
            .map(|block| if inside && block["type"] == "content" { &block["content"] } else { block })
            .map(|block| block["text"].as_str().map_or_else(|| block.to_string(), str::to_owned))
            .collect()
    };
    for entry in session["entries"].as_array().into_iter().flatten() {
        let kind = entry["type"].as_str().unwrap_or_default();
        match kind {
            "tool_call" => {
                let title = entry["title"].as_str().filter(|title| !is_placeholder(title));
                let value = json!({"title": title, "kind": entry["kind"], "status": entry["status"],
                    "content": joined(&entry["content"], true), "locations": entry.get("locations"),
                    "rawInput": entry.get("rawInput"), "rawOutput": entry.get("rawOutput")});
                state.insert(format!("tool_call {}", entry["toolCallId"]), value);
            }
            "user_message" | "agent_message" | "agent_thought" => {
                let text = joined(&entry["content"], false);
                if !text.is_empty() {
                    state.insert(format!("{kind} {}", entry["messageId"]), json!(text));
                }
            }
            _ => {}
        }
    }
    for key in ["title", "usage", "plans", "commands", "configOptions"] {
        state.insert(key.to_owned(), session.get(key).cloned().unwrap_or_default());
    }
    state
}

/// Returns whether a title is a default for a call without one, which version 1 requires.
fn is_placeholder(title: &str) -> bool {
    matches!(title, "Tool call" | "Read" | "Execute")
}

/// Returns whether a loss of this kind is reported.
pub(crate) fn is_reported(key: &str, lost: &[String]) -> bool {
    let kind = key.split(' ').next().unwrap_or_default();
    lost.iter().any(|message| match kind {
        "tool_call" => {
            message.starts_with("tool_call")
                || message.starts_with("terminal_")
                || message == "session/request_permission"
        }
        "plans" => message == "plan_update",
        "commands" => message == "available_commands_update",
        "usage" => message == "usage_update",
        "title" => message == "session_info_update",
        kind => message.starts_with(kind),
    })
}
