//! Complete conversations: every kind of message with every field, each with a unique text.

use serde_json::{Value, json};
use switchboard_bridge::Side;

pub(crate) fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(crate) fn answer(id: u64, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

pub(crate) fn update(update: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "session-s", "update": update}})
}

/// Returns updates about sub-agents that are the same in both versions.
fn of_children() -> [Value; 5] {
    let usage = json!({"totalTokens": 4006, "inputTokens": 4007, "outputTokens": 4008});
    [
        json!({"sessionUpdate": "subagent_update", "sessionId": "child-c", "title": "child-title", "description": "child-words",
            "capabilities": {"cancel": {}}, "state": {"state": "running"}, "cwd": "/w/child", "additionalDirectories": ["/w/more-of-it"]}),
        json!({"sessionUpdate": "subagent_update", "sessionId": "child-c",
            "state": {"state": "idle", "stopReason": "error", "error": {"code": 4009, "message": "child-error"}, "usage": usage}}),
        json!({"sessionUpdate": "session_message", "messageId": "between-b", "senderSessionId": "session-s", "recipientSessionId": "child-c",
            "senderMessageId": "sender-m", "recipientMessageId": "recipient-m", "content": blocks()}),
        json!({"sessionUpdate": "session_message", "messageId": "between-c", "senderSessionId": "stranger-x",
            "content": [{"type": "text", "text": "stranger-words"}]}),
        json!({"sessionUpdate": "session_message_chunk", "messageId": "between-b", "content": blocks()[0]}),
    ]
}

/// Returns the conversation with a sub-agent that does everything, while the session is running.
pub(crate) fn with_child(
    mut talk: Vec<(Side, Value)>,
    updates: &[Value],
    question: Value,
) -> Vec<(Side, Value)> {
    let is_update =
        |(from, message): &(Side, Value)| *from == Side::Agent && message["method"] == "session/update";
    let begin = talk.iter().position(is_update).expect("an update");
    let mut child = Talk(vec![(Side::Agent, update(of_children()[0].clone()))]);
    for of_child in updates {
        let mut message = update(of_child.clone());
        message["params"]["sessionId"] = json!("child-c");
        child.agent(message);
    }
    child.question(
        901,
        "session/request_permission",
        question,
        json!({"outcome": {"outcome": "selected", "optionId": "option-yes"}}),
    );
    talk.splice(begin..begin, child.0);
    talk
}

/// Returns a block of every kind.
pub(crate) fn blocks() -> Value {
    let annotations = || json!({"audience": ["user"], "priority": 0.5});
    json!([
        {"type": "text", "text": "words", "annotations": annotations()},
        {"type": "image", "data": "SU1BR0U=", "mimeType": "image/png", "uri": "file:///w/a.png", "annotations": annotations()},
        {"type": "audio", "data": "QVVESU8=", "mimeType": "audio/wav", "annotations": annotations()},
        {"type": "resource_link", "name": "link-name", "uri": "file:///w/link", "title": "link-title", "description": "link-words",
            "mimeType": "text/link", "size": 4001, "annotations": annotations()},
        {"type": "resource", "resource": {"uri": "file:///w/text", "text": "resource-text", "mimeType": "text/x"}, "annotations": annotations()},
        {"type": "resource", "resource": {"uri": "file:///w/blob", "blob": "QkxPQg==", "mimeType": "blob/x"}},
    ])
}

pub(crate) fn in_items(blocks: &Value) -> Vec<Value> {
    let blocks = blocks.as_array().unwrap();
    blocks.iter().map(|block| json!({"type": "content", "content": block})).collect()
}

/// Returns the content of a question.
fn asked() -> Vec<Value> {
    in_items(&json!([{"type": "text", "text": "asked-words"}, blocks()[1], blocks()[3]]))
}

pub(crate) fn permission_options() -> Value {
    json!([{"optionId": "y", "name": "Yes-name", "kind": "allow_once"}, {"optionId": "n", "name": "No-name", "kind": "reject_once"}])
}

/// Returns a form with a field of every kind.
pub(crate) fn form() -> Value {
    json!({"sessionId": "session-s", "mode": "form", "message": "Which?", "requestedSchema": {"type": "object", "required": ["a"],
    "properties": {
        "a": {"type": "string", "minLength": 1, "format": "email"},
        "b": {"type": "string", "oneOf": [{"const": "x", "title": "X"}]},
        "c": {"type": "number", "minimum": 0}, "d": {"type": "integer"}, "e": {"type": "boolean"},
        "f": {"type": "array", "items": {"type": "string", "enum": ["x"]}},
        "g": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}},
    }}})
}

pub(crate) fn plan_entries() -> Value {
    json!([{"content": "first-step", "priority": "high", "status": "completed"}, {"content": "next-step", "priority": "low", "status": "in_progress"}])
}

/// Returns version 1 updates of every kind.
pub(crate) fn updates_v1() -> Vec<Value> {
    let mut content = in_items(&blocks());
    content.push(
        json!({"type": "diff", "path": "/w/changed", "oldText": "old-text\n", "newText": "new-text\n"}),
    );
    content.push(json!({"type": "diff", "path": "/w/new", "newText": "added-text\n"}));
    content.push(json!({"type": "terminal", "terminalId": "term-t"}));
    let mut updates = vec![
        json!({"sessionUpdate": "tool_call", "toolCallId": "call-c", "title": "Edit-title", "name": "edit-name", "kind": "edit",
            "status": "pending", "content": content, "locations": [{"path": "/w/place", "line": 4002}], "rawInput": {"a": {"in": "raw-input"}},
            "rawOutput": {"b": [{"out": "raw-output"}]}}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "call-c", "status": "completed", "title": "Edited-title"}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "call-c", "content": in_items(&blocks())}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "call-d", "content": []}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "call-c", "title": "Run-title",
            "_meta": {"terminal_info": {"terminal_id": "term-u", "command": "run-that", "cwd": "/w/cwd"}, "terminal_output": {"terminal_id": "term-u", "data": "x"},
                "terminal_exit": {"terminal_id": "term-u", "exit_code": 41}}}),
        json!({"sessionUpdate": "plan", "entries": plan_entries()}),
        json!({"sessionUpdate": "available_commands_update", "availableCommands": [
            {"name": "web-name", "description": "web-words", "input": {"hint": "web-hint"}}, {"name": "other-name", "description": "other-words"}]}),
        json!({"sessionUpdate": "current_mode_update", "currentModeId": "code"}),
        json!({"sessionUpdate": "config_option_update", "configOptions": options_v1()}),
        json!({"sessionUpdate": "session_info_update", "title": "info-title", "updatedAt": null}),
        json!({"sessionUpdate": "usage_update", "used": 4003, "size": 4004, "cost": {"amount": 40.05, "currency": "USD"}}),
        json!({"sessionUpdate": "notice", "severity": "warning", "title": "notice-title", "description": "notice-words"}),
        json!({"sessionUpdate": "compaction_update", "compactionId": "compaction-k", "status": "failed", "summary": blocks(), "error": "compaction-error"}),
        json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "compaction-k", "content": blocks()[0]}),
        json!({"sessionUpdate": "_mine", "x": {"y": [{}]}}),
    ];
    updates.extend(of_children());
    for block in blocks().as_array().unwrap() {
        for role in ["user_message", "agent_message", "agent_thought"] {
            updates.push(json!({"sessionUpdate": format!("{role}_chunk"), "content": block}));
            updates.push(
                json!({"sessionUpdate": format!("{role}_chunk"), "messageId": "message-m", "content": block}),
            );
        }
    }
    updates
}

pub(crate) fn options_v1() -> Value {
    let value = |value: &str| json!({"value": value, "name": format!("{value}-name"), "description": format!("{value}-words")});
    json!([
        {"type": "select", "id": "mode", "name": "Mode-name", "description": "mode-words", "category": "mode", "currentValue": "ask", "options": [value("ask"), value("code")]},
        {"type": "select", "id": "model", "name": "Model-name", "description": "model-words", "category": "_model-category", "currentValue": "large",
            "options": [{"group": "group-g", "name": "Group-name", "options": [value("large"), value("small")]}]},
        {"type": "boolean", "id": "switch", "name": "Switch-name", "description": "switch-words", "category": "_switch-category", "currentValue": true},
    ])
}

pub(crate) fn options_v2() -> Value {
    let value = |value: &str| json!({"value": value, "name": format!("{value}-name"), "description": format!("{value}-words")});
    json!([
        {"type": "select", "configId": "mode", "name": "Mode-name", "description": "mode-words", "category": "mode", "currentValue": "ask", "options": [value("ask"), value("code")]},
        {"type": "select", "configId": "model", "name": "Model-name", "description": "model-words", "category": "_model-category", "currentValue": "large",
            "options": [{"groupId": "group-g", "name": "Group-name", "options": [value("large"), value("small")]}]},
        {"type": "boolean", "configId": "switch", "name": "Switch-name", "description": "switch-words", "category": "_switch-category", "currentValue": true},
        {"type": "_dial", "configId": "d", "name": "D", "x": {}},
    ])
}

/// Returns the diff after one change.
fn smaller_v2() -> Value {
    let mut options = options_v2();
    options[1]["currentValue"] = json!("small");
    options
}

/// Returns a diff of every kind.
pub(crate) fn diffs_v2() -> Vec<Value> {
    let patch = |text: &str| json!({"format": "git_patch", "text": text});
    let edit = "diff --git /w/patched /w/patched\n--- /w/patched\n+++ /w/patched\n@@ -1,1 +1,1 @@\n-old-line\n+new-line\n";
    vec![
        json!({"type": "diff", "changes": [{"operation": "modify", "path": "/w/patched", "fileType": "text", "mimeType": "text/patched"}], "patch": patch(edit)}),
        json!({"type": "diff", "changes": [{"operation": "move", "oldPath": "/w/from", "path": "/w/to"}, {"operation": "_odd", "path": "/w/odd"}]}),
        json!({"type": "diff", "changes": []}),
    ]
}

/// Returns version 2 updates of every kind.
pub(crate) fn updates_v2() -> Vec<Value> {
    let mut content = in_items(&blocks());
    content.extend(diffs_v2());
    content.push(json!({"type": "terminal", "terminalId": "term-t"}));
    content.push(json!({"type": "_chart", "points": [{"at": "chart-point"}]}));
    let icons = json!({"type": "resource_link", "name": "icon-name", "uri": "file:///w/icons", "icons": [{"src": "icon.png"}]});
    let mut updates = vec![
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "call-c", "title": "Edit-title", "name": "edit-name", "kind": "edit",
            "status": "pending", "content": content, "locations": [{"path": "/w/place", "line": 4002}], "rawInput": {"a": {"in": "raw-input"}},
            "rawOutput": {"b": [{"out": "raw-output"}]}, "capabilities": {"cancel": {}}}),
        json!({"sessionUpdate": "terminal_update", "terminalId": "term-t", "command": "run-this", "cwd": "/w/cwd", "output": {"data": "YQo="},
            "exitStatus": {"exitCode": 42}, "size": {"cols": 80, "rows": 24}, "capabilities": {"cancel": {}}}),
        json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "term-t", "data": "YQo="}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "call-c", "status": "cancelled", "kind": "_odd"}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "call-c", "content": null, "title": null}),
        json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "plan-p", "entries": plan_entries()}}),
        json!({"sessionUpdate": "plan_update", "plan": {"type": "_tree", "planId": "plan-p", "root": {}}}),
        json!({"sessionUpdate": "available_commands_update", "availableCommands": [
            {"type": "command", "name": "web-name", "description": "web-words", "input": {"type": "text", "hint": "web-hint"}},
            {"type": "command", "name": "other-name", "description": "other-words", "input": {"type": "_form", "x": {}}},
            {"type": "_macro", "name": "macro-name", "description": "macro-words"}]}),
        json!({"sessionUpdate": "config_option_update", "configOptions": options_v2()}),
        json!({"sessionUpdate": "session_info_update", "title": null, "updatedAt": "2026-01-01T00:00:00Z"}),
        json!({"sessionUpdate": "usage_update", "used": 4003, "size": 4004, "cost": {"amount": 40.05, "currency": "USD"}}),
        json!({"sessionUpdate": "notice", "severity": "warning", "title": "notice-title", "description": "notice-words"}),
        json!({"sessionUpdate": "compaction_update", "compactionId": "compaction-k", "status": "failed", "summary": blocks(), "error": "compaction-error"}),
        json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "compaction-k", "content": blocks()[0]}),
        json!({"sessionUpdate": "state_update", "state": "running", "background": [{"type": "terminal", "terminalId": "term-t"}]}),
        json!({"sessionUpdate": "state_update", "state": "requires_action"}),
        json!({"sessionUpdate": "state_update", "state": "_dreaming", "of": {}}),
        json!({"sessionUpdate": "state_update", "state": "idle"}),
        json!({"sessionUpdate": "_mine", "x": {"y": [{}]}}),
        json!({"sessionUpdate": "agent_message_chunk", "messageId": "message-n", "content": icons}),
        json!({"sessionUpdate": "agent_message_chunk", "messageId": "message-n", "content": {"type": "_video", "of": {}}}),
    ];
    updates.extend(of_children());
    updates.push(json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "call-c", "content": {"type": "session", "sessionId": "child-c"}}));
    for role in ["user_message", "agent_message", "agent_thought"] {
        for block in blocks().as_array().unwrap() {
            updates.push(
                json!({"sessionUpdate": format!("{role}_chunk"), "messageId": "message-m", "content": block}),
            );
        }
        updates.push(json!({"sessionUpdate": role, "messageId": "message-m", "content": blocks()}));
        updates.push(
            json!({"sessionUpdate": role, "messageId": "message-m", "content": [{"type": "text", "text": "other"}]}),
        );
        updates.push(json!({"sessionUpdate": role, "messageId": "message-m", "content": null}));
        updates.push(json!({"sessionUpdate": role, "messageId": "message-m"}));
    }
    for item in in_items(&blocks()).into_iter().chain(diffs_v2()) {
        updates.push(
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "call-c", "content": item}),
        );
    }
    updates
}

pub(crate) fn servers(tagged: bool) -> Value {
    let mut stdio = json!({"name": "server-name", "command": "/bin/server", "args": ["server-argument"], "env": [{"name": "VARIABLE", "value": "variable-value"}]});
    if tagged {
        stdio["type"] = json!("stdio");
    }
    json!([stdio, {"type": "http", "name": "http-name", "url": "http://server", "headers": [{"name": "Header", "value": "header-value"}]}])
}

/// Messages of client and agent in turn.
pub(crate) struct Talk(pub(crate) Vec<(Side, Value)>);

impl Talk {
    pub(crate) fn client(&mut self, message: Value) {
        self.0.push((Side::Client, message));
    }

    pub(crate) fn agent(&mut self, message: Value) {
        self.0.push((Side::Agent, message));
    }

    /// Adds a request of the client and its response.
    pub(crate) fn ask(&mut self, id: u64, method: &str, params: Value, result: Value) {
        self.client(request(id, method, params));
        self.agent(answer(id, result));
    }

    /// Adds a request of the agent and its response.
    pub(crate) fn question(&mut self, id: u64, method: &str, params: Value, result: Value) {
        self.agent(request(id, method, params));
        self.client(answer(id, result));
    }

    /// Adds the messages that are the same in both versions.
    pub(crate) fn alike(&mut self) {
        self.ask(
            20,
            "session/list",
            json!({"cwd": "/w/cwd"}),
            json!({"sessions": [{"sessionId": "session-s", "cwd": "/w/cwd", "title": "session-title"}], "nextCursor": "n"}),
        );
        self.ask(21, "session/delete", json!({"sessionId": "session-z"}), json!({}));
        self.ask(22, "_own/method", json!({"a": {}}), json!({"b": {}}));
        self.client(request(23, "session/list", json!({})));
        self.agent(json!({"jsonrpc": "2.0", "id": 23, "error": {"code": -32000, "message": "log-in-first", "data": {"why": {"of": "login-data"}}}}));
        self.question(24, "elicitation/create", form(), json!({"action": "accept", "content": {"a": "x"}}));
        self.question(25, "elicitation/create", json!({"sessionId": "session-s", "mode": "url", "message": "m", "elicitationId": "e", "url": "https://x"}), json!({"action": "decline"}));
        self.agent(
            json!({"jsonrpc": "2.0", "method": "elicitation/complete", "params": {"elicitationId": "e"}}),
        );
        self.question(26, "_own/question", json!({"a": {}}), json!({"b": {}}));
        self.agent(json!({"jsonrpc": "2.0", "method": "_own/news", "params": {"a": {}}}));
        self.client(json!({"jsonrpc": "2.0", "method": "_own/news", "params": {"a": {}}}));
        self.agent(request(27, "_own/question", json!({})));
        self.agent(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 27}}));
        self.client(answer(27, json!({})));
        self.client(
            json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "session-s"}}),
        );
        self.client(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 99}}));
        self.agent(answer(98, json!({})));
    }
}

/// Returns a version 1 conversation with everything in it.
pub(crate) fn conversation_v1() -> Vec<(Side, Value)> {
    let mut talk = Talk(Vec::new());
    talk.ask(
        0,
        "initialize",
        json!({"protocolVersion": 1, "clientInfo": {"name": "client-name", "version": "client-version", "title": "client-title"}, "clientCapabilities": {
            "fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true, "auth": {"terminal": true},
            "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
            "elicitation": {"form": {}, "url": {}}}}),
        json!({"protocolVersion": 1, "agentInfo": {"name": "agent-name", "version": "agent-version"}, "agentCapabilities": {"loadSession": true,
            "promptCapabilities": {"image": true, "audio": true, "embeddedContext": true}, "mcpCapabilities": {"http": true, "sse": true},
            "auth": {"logout": {}, "status": {}}, "providers": {},
            "sessionCapabilities": {"list": {}, "delete": {}, "additionalDirectories": {}, "resume": {}, "close": {}, "systemPrompt": {}}},
            "authMethods": [{"id": "key", "name": "Key-name", "description": "key-words"}, {"type": "terminal", "id": "terminal-login", "name": "Terminal-name",
                "description": "terminal-words", "args": ["login-argument"], "env": {"LOGIN": "login-value"}}]}),
    );
    talk.ask(1, "authenticate", json!({"methodId": "key"}), json!({}));
    let modes = json!({"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask-name", "description": "ask-words"}, {"id": "code", "name": "Code-name", "description": "code-words"}]});
    talk.ask(
        2,
        "session/new",
        json!({"cwd": "/w/cwd", "additionalDirectories": ["/x/more"], "mcpServers": servers(false)}),
        json!({"sessionId": "session-s", "modes": modes}),
    );
    talk.ask(3, "session/set_mode", json!({"sessionId": "session-s", "modeId": "code"}), json!({}));
    talk.ask(
        4,
        "session/set_config_option",
        json!({"sessionId": "session-s", "configId": "model", "value": "small"}),
        json!({"configOptions": options_v1()}),
    );
    talk.ask(
        5,
        "session/set_config_option",
        json!({"type": "boolean", "sessionId": "session-s", "configId": "switch", "value": true}),
        json!({"configOptions": options_v1()}),
    );
    talk.client(request(6, "session/prompt", json!({"sessionId": "session-s", "prompt": blocks()})));
    updates_v1().into_iter().for_each(|told| talk.agent(update(told)));
    let call = json!({"toolCallId": "call-c", "title": "Allow-title", "status": "pending", "content": asked(), "locations": [{"path": "/w/asked", "line": 4007}], "rawInput": {"of": "asked-input"}});
    talk.question(
        7,
        "session/request_permission",
        json!({"sessionId": "session-s", "toolCall": call, "options": permission_options()}),
        json!({"outcome": {"outcome": "selected", "optionId": "y"}}),
    );
    talk.question(
        8,
        "session/request_permission",
        json!({"sessionId": "session-s", "toolCall": {"toolCallId": "call-e"}, "options": permission_options()}),
        json!({"outcome": {"outcome": "cancelled"}}),
    );
    talk.question(
        9,
        "session/request_permission",
        json!({"sessionId": "session-s", "toolCall": {"toolCallId": "call-e"}, "options": permission_options()}),
        json!({"outcome": {"outcome": "selected", "optionId": "odd"}}),
    );
    talk.question(
        10,
        "fs/read_text_file",
        json!({"sessionId": "session-s", "path": "/w/a"}),
        json!({"content": "x"}),
    );
    talk.question(
        11,
        "terminal/create",
        json!({"sessionId": "session-s", "command": "ls", "env": [{"name": "A", "value": "1"}]}),
        json!({"terminalId": "term-t"}),
    );
    talk.alike();
    talk.agent(answer(6, json!({"stopReason": "end_turn"})));
    talk.client(request(
        12,
        "session/prompt",
        json!({"sessionId": "session-s", "prompt": [{"type": "text", "text": "again"}]}),
    ));
    talk.agent(
        json!({"jsonrpc": "2.0", "id": 12, "error": {"code": -32603, "message": "error-message", "data": {"why": {"of": "error-data"}}}}),
    );
    let with_both = json!({"modes": modes, "configOptions": options_v1()});
    talk.ask(
        13,
        "session/load",
        json!({"sessionId": "session-s", "cwd": "/w/cwd", "additionalDirectories": ["/x/more"], "mcpServers": servers(false)}),
        with_both,
    );
    talk.ask(
        14,
        "session/resume",
        json!({"sessionId": "session-s", "cwd": "/w/cwd", "additionalDirectories": ["/x/more"], "mcpServers": servers(false)}),
        json!({"configOptions": options_v1()}),
    );
    talk.ask(
        15,
        "session/new",
        json!({"cwd": "/w/cwd", "mcpServers": [{"type": "sse", "name": "e", "url": "http://x", "headers": []}]}),
        json!({"sessionId": "session-t"}),
    );
    talk.ask(16, "session/close", json!({"sessionId": "session-s"}), json!({}));
    talk.ask(17, "logout", json!({}), json!({}));
    talk.0
}

/// Returns a version 2 conversation with everything in it.
pub(crate) fn conversation_v2() -> Vec<(Side, Value)> {
    let mut talk = Talk(Vec::new());
    talk.ask(
        0,
        "initialize",
        json!({"protocolVersion": 2, "info": {"name": "client-name", "version": "client-version", "title": "client-title"},
            "capabilities": {"auth": {"terminal": {}}, "elicitation": {"form": {}, "url": {}}}}),
        json!({"protocolVersion": 2, "info": {"name": "agent-name", "version": "agent-version"}, "capabilities": {"auth": {"status": {}}, "providers": {}, "session": {
            "prompt": {"image": {}, "audio": {}, "embeddedContext": {}}, "mcp": {"stdio": {}, "http": {}, "acp": {}}, "delete": {},
            "additionalDirectories": {}, "systemPrompt": {}}},
            "authMethods": [{"type": "agent", "methodId": "key", "name": "Key-name", "description": "key-words"},
                {"type": "terminal", "methodId": "terminal-login", "name": "Terminal-name", "description": "terminal-words", "args": ["login-argument"],
                    "env": [{"name": "LOGIN", "value": "login-value"}]},
                {"type": "_magic", "methodId": "m", "name": "M", "spell": {}}]}),
    );
    talk.ask(1, "auth/login", json!({"methodId": "key"}), json!({}));
    let commands = json!([{"type": "command", "name": "first-name", "description": "first-words"}]);
    talk.ask(
        2,
        "session/new",
        json!({"cwd": "/w/cwd", "additionalDirectories": ["/x/more"], "mcpServers": servers(true)}),
        json!({"sessionId": "session-s", "configOptions": options_v2(), "availableCommands": commands}),
    );
    talk.ask(
        3,
        "session/set_config_option",
        json!({"type": "id", "sessionId": "session-s", "configId": "mode", "value": "code"}),
        json!({"configOptions": smaller_v2()}),
    );
    talk.ask(
        4,
        "session/set_config_option",
        json!({"type": "boolean", "sessionId": "session-s", "configId": "switch", "value": true}),
        json!({"configOptions": options_v2()}),
    );
    talk.client(request(
        5,
        "session/set_config_option",
        json!({"type": "_dial", "sessionId": "session-s", "configId": "d", "value": {}}),
    ));
    talk.agent(json!({"jsonrpc": "2.0", "id": 5, "error": {"code": -32602, "message": "no"}}));
    talk.client(request(6, "session/prompt", json!({"sessionId": "session-s", "prompt": blocks()})));
    talk.agent(answer(6, json!({"messageId": "message-u"})));
    talk.agent(update(
        json!({"sessionUpdate": "user_message", "messageId": "message-u", "content": blocks()}),
    ));
    updates_v2().into_iter().for_each(|told| talk.agent(update(told)));
    let ask = |subject: Value| json!({"sessionId": "session-s", "title": "Allow-title", "description": "allow-words", "subject": subject, "options": permission_options()});
    let call = json!({"toolCallId": "call-c", "status": "pending", "content": asked(), "locations": [{"path": "/w/asked", "line": 4007}], "rawInput": {"of": "asked-input"}});
    talk.question(
        7,
        "session/request_permission",
        ask(json!({"type": "tool_call", "toolCall": call})),
        json!({"outcome": {"outcome": "selected", "optionId": "y"}}),
    );
    let command = json!({"type": "command", "command": "ask-to-run", "cwd": "/w/asked", "toolCallId": "call-c", "terminalId": "term-t"});
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
    let odd = json!([{"optionId": "z", "name": "Odd-name", "kind": "_odd"}]);
    talk.question(
        10,
        "session/request_permission",
        json!({"sessionId": "session-s", "title": "t", "options": odd}),
        json!({"outcome": {"outcome": "cancelled"}}),
    );
    talk.agent(request(
        11,
        "session/request_permission",
        ask(json!({"type": "tool_call", "toolCall": {"toolCallId": "new", "title": "t"}})),
    ));
    talk.agent(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 11}}));
    talk.client(answer(11, json!({"outcome": {"outcome": "cancelled"}})));
    talk.question(
        19,
        "session/request_permission",
        json!({"sessionId": "session-s", "title": "Plain-title", "options": permission_options(),
            "subject": {"type": "tool_call", "toolCall": {"toolCallId": "call-p", "status": "pending"}}}),
        json!({"outcome": {"outcome": "selected", "optionId": "n"}}),
    );
    talk.ask(12, "tool_call/cancel", json!({"sessionId": "session-s", "toolCallId": "call-c"}), json!({}));
    talk.alike();
    talk.agent(update(
        json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "_tired", "background": [{"type": "terminal", "terminalId": "term-t"}]}),
    ));
    talk.client(request(
        13,
        "session/prompt",
        json!({"sessionId": "session-s", "prompt": [{"type": "text", "text": "again"}]}),
    ));
    talk.agent(answer(13, json!({"messageId": "message-v"})));
    talk.agent(update(json!({"sessionUpdate": "state_update", "state": "running"})));
    talk.agent(update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "error", "background": [{"type": "terminal", "terminalId": "term-t"}],
        "error": {"code": 1, "message": "error-message", "data": {"of": "error-data"}}})));
    talk.client(request(
        14,
        "session/prompt",
        json!({"sessionId": "session-s", "prompt": [{"type": "_video", "of": {}}]}),
    ));
    talk.agent(json!({"jsonrpc": "2.0", "id": 14, "error": {"code": -32602, "message": "no"}}));
    talk.ask(
        15,
        "session/resume",
        json!({"sessionId": "session-s", "cwd": "/w/cwd", "additionalDirectories": ["/x/more"], "mcpServers": servers(true), "replayFrom": {"type": "start"}}),
        json!({"configOptions": options_v2(), "availableCommands": commands}),
    );
    talk.ask(
        16,
        "session/resume",
        json!({"sessionId": "session-s", "cwd": "/w/cwd", "additionalDirectories": ["/x/more"], "mcpServers": servers(true)}),
        json!({}),
    );
    talk.agent(update(json!({"sessionUpdate": "state_update", "state": "idle", "error": {"code": 1, "message": "late-error"},
        "background": [{"type": "terminal", "terminalId": "term-t"}]})));
    talk.ask(17, "session/close", json!({"sessionId": "session-s"}), json!({}));
    talk.ask(18, "auth/logout", json!({}), json!({}));
    talk.0
}

/// Methods with different names in the two versions.
const RENAMED: [(&str, &str); 4] = [
    ("authenticate", "auth/login"),
    ("logout", "auth/logout"),
    ("session/load", "session/resume"),
    ("session/set_mode", "session/set_config_option"),
];

/// Returns responses with their method, in order.
fn answers(conversation: &[(Side, Value)], by: Side) -> Vec<(String, Value)> {
    let mut answers = Vec::new();
    for (from, message) in conversation.iter().filter(|(from, _)| *from == by) {
        let asked = |(asker, request): &&(Side, Value)| {
            *asker == from.other() && request.get("method").is_some() && request["id"] == message["id"]
        };
        if message.get("method").is_none()
            && let Some((_, request)) = conversation.iter().find(asked)
        {
            answers.push((request["method"].as_str().unwrap().to_owned(), message.clone()));
        }
    }
    answers
}

/// Combines the client of one conversation with the agent of another, which has the other version.
pub(crate) fn between(client: &[(Side, Value)], agent: &[(Side, Value)]) -> Vec<(Side, Value)> {
    let mut talk = Vec::new();
    let reply = |known: &mut Vec<(String, Value)>, request: &Value| {
        let method = request["method"].as_str().unwrap();
        let renamed = RENAMED.iter().find_map(|(one, other)| match method {
            _ if method == *one => Some(*other),
            _ if method == *other => Some(*one),
            _ => None,
        });
        let place = known.iter().position(|(answered, _)| answered == method || Some(&**answered) == renamed);
        let mut answer = place.map_or(answer(0, json!({})), |place| known.remove(place).1);
        answer["id"] = request["id"].clone();
        answer
    };
    let (mut of_agent, mut of_client) = (answers(agent, Side::Agent), answers(client, Side::Client));
    let mut works = true;
    for (from, message) in client.iter().filter(|(from, message)| {
        *from == Side::Client && (message.get("method").is_some() || message.get("id").is_none())
    }) {
        talk.push((*from, message.clone()));
        if message.get("id").is_none() {
            continue;
        }
        let answer = reply(&mut of_agent, message);
        if message["method"] != "session/prompt" || !std::mem::take(&mut works) {
            talk.push((Side::Agent, answer));
            continue;
        }
        // Everything that the agent sends precedes the end of the turn.
        let ends_turn = answer["result"].get("stopReason").is_some();
        talk.extend((!ends_turn).then_some((Side::Agent, answer.clone())));
        for (_, said) in
            agent.iter().filter(|(from, said)| *from == Side::Agent && said.get("method").is_some())
        {
            talk.push((Side::Agent, said.clone()));
            if said.get("id").is_some() {
                talk.push((Side::Client, reply(&mut of_client, said)));
            }
        }
        talk.extend(ends_turn.then_some((Side::Agent, answer)));
    }
    talk
}
