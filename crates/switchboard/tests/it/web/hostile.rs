//! Everything that an agent can send, with an attack in every text.

use base64::Engine as _;
use serde_json::{Value, json};

use super::scripted_agent::update;

/// A host that no page may ask for anything.
pub(crate) const ELSEWHERE: &str = "elsewhere.invalid";

/// Sets `attacked` in the page, in every way in which a text could become code.
pub(crate) fn payload(place: &str) -> String {
    let code = format!("globalThis.attacked='{place}'");
    [
        format!("<script>{code}</script>"),
        format!("<img src=x onerror=\"{code}\">"),
        format!("<svg onload=\"{code}\"><script>{code}</script><a href=\"javascript:{code}\">s</a></svg>"),
        format!("<iframe srcdoc=\"<script>parent.{code}</script>\"></iframe>"),
        format!(
            "<img src=\"https://{ELSEWHERE}/image.png\"><link rel=stylesheet href=//{ELSEWHERE}/style.css>"
        ),
        format!("<form action=https://{ELSEWHERE}/><button>Allow once</button></form>"),
        format!("<a href=\"javascript:{code}\" style=\"position:fixed;inset:0;z-index:99\">over all</a>"),
        "<style>*{display:none}</style><base href=//elsewhere.invalid>".to_owned(),
        format!("\"><b onclick={code}>'\"`${{{code}}}{{{{{code}}}}}"),
    ]
    .concat()
}

/// Markdown that hides the same.
fn markdown(place: &str) -> String {
    let code = format!("globalThis.attacked='{place}'");
    let links = [
        format!("javascript:{code}"),
        format!("JaVaScRiPt:{code}"),
        format!("java&#115;cript:{code}"),
        format!("\u{1}javascript:{code}"),
        format!("data:text/html,<script>{code}</script>"),
        format!("vbscript:{code}"),
        "file:///etc/passwd".to_owned(),
    ];
    let links: String = links.iter().map(|link| format!("- [a link](<{link}>) <{link}>\n")).collect();
    format!(
        "{}\n\n{links}\n![a picture](https://{ELSEWHERE}/picture.png) ![another](javascript:{code})\n\n\
         ```\"><script>{code}</script>\n{}\n```\n\n<details open ontoggle=\"{code}\">x</details>\n\n| {} |\n|---|\n| {} |\n",
        payload(place),
        payload(place),
        payload(place).replace('|', ""),
        payload(place).replace('|', ""),
    )
}

fn base64(bytes: impl AsRef<[u8]>) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// What the session offers from the beginning.
pub(crate) fn opened() -> Value {
    json!({
        "configOptions": [{
            "type": "select", "configId": payload("option-id"), "name": payload("option"),
            "description": payload("option-description"), "currentValue": "a",
            "options": [{ "value": "a", "name": payload("value") }, { "value": payload("value-id"), "name": "b" }],
        }],
        "availableCommands": [{
            "type": "command", "name": payload("command"), "description": payload("command-description"),
            "input": { "type": "text", "hint": payload("hint") },
        }],
    })
}

/// What is said when prompted; it ends idle.
pub(crate) fn lines() -> Vec<Value> {
    let text = |place: &str| json!({ "type": "text", "text": markdown(place) });
    let svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' onload=\"{}\">{}</svg>",
        "top.attacked='svg'",
        payload("svg")
    );
    // The header of a PNG of 60,000 by 60,000 pixels.
    let huge = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xea\x60\0\0\xea\x60\x08\x06\0\0\0\0\0\0\0".as_slice();
    let blocks = json!([
        text("message"),
        { "type": "image", "mimeType": "image/svg+xml", "data": base64(&svg) },
        { "type": "image", "mimeType": "text/html", "data": base64(payload("html-image")) },
        { "type": "image", "mimeType": payload("mime-type"), "data": base64("x") },
        { "type": "image", "mimeType": "image/png", "data": base64(huge), "uri": format!("https://{ELSEWHERE}/i.png") },
        { "type": "audio", "mimeType": "audio/wav", "data": base64(payload("audio")) },
        { "type": "resource_link", "name": payload("link-name"), "uri": "javascript:globalThis.attacked='resource'",
          "title": payload("link-title"), "description": payload("link-description"),
          "icons": [{ "src": format!("https://{ELSEWHERE}/icon.png") }] },
        { "type": "resource_link", "name": "etc", "uri": "file:///etc/passwd" },
        { "type": "resource", "resource": { "uri": "javascript:globalThis.attacked='embedded'", "text": payload("embedded"), "mimeType": "text/html" } },
        { "type": "resource", "resource": { "uri": format!("https://{ELSEWHERE}/"), "blob": base64(payload("blob")), "mimeType": "text/html" } },
        { "type": payload("kind-of-content"), "key": payload("unknown-content") },
    ]);
    let path = format!("/{}", payload("path").replace('/', "\u{2215}"));
    let patch = format!(
        "diff --git \"{0}\" \"{0}\"\n--- \"{0}\"\n+++ \"{0}\"\n@@ -1 +1 @@\n-{1}\n+{1}!\n",
        path.replace('"', "\\\""),
        payload("patch")
    );
    let terminal = format!(
        "\x1b]0;{0}\x07\x1b]8;;javascript:top.attacked='terminal'\x07{0}\x1b]8;;\x07\x1b[31m{0}\x1b[0m",
        payload("terminal")
    );
    let updates = [
        json!({ "sessionUpdate": "session_info_update", "title": payload("title") }),
        json!({ "sessionUpdate": "user_message", "messageId": payload("message-id"), "content": [text("user")] }),
        json!({ "sessionUpdate": "agent_thought", "messageId": "t", "content": [text("thought")] }),
        json!({ "sessionUpdate": "agent_message", "messageId": payload("message-id"), "content": blocks }),
        json!({
            "sessionUpdate": "tool_call_update", "toolCallId": payload("call-id"), "title": payload("call-title"),
            "kind": payload("call-kind"), "status": payload("call-status"), "name": payload("call-name"),
            "rawInput": { payload("input-key"): payload("input") }, "rawOutput": payload("output"),
            "locations": [{ "path": path, "line": 1 }],
            "content": [
                { "type": "content", "content": blocks[0] },
                { "type": "diff", "changes": [{ "operation": "modify", "path": path, "fileType": payload("file-type") }],
                  "patch": { "format": "git_patch", "text": patch, "diff": patch } },
                { "type": "diff", "changes": [{ "operation": payload("operation"), "path": path }] },
                { "type": "terminal", "terminalId": "term" },
                { "type": payload("kind-of-tool-content"), "key": payload("unknown-tool-content") },
            ],
        }),
        json!({
            "sessionUpdate": "terminal_update", "terminalId": "term", "command": payload("terminal-command"), "cwd": path,
            "output": { "data": base64(&terminal) }, "exitStatus": { "signal": payload("signal") },
        }),
        json!({ "sessionUpdate": "plan_update", "plan": { "type": "items", "planId": payload("plan-id"), "entries": [
            { "content": markdown("plan"), "priority": payload("priority"), "status": payload("plan-status") },
        ] } }),
        json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": { "amount": 1, "currency": payload("currency") } }),
        json!({ "sessionUpdate": "notice", "severity": payload("severity"), "title": payload("notice"), "description": payload("notice-description") }),
        json!({ "sessionUpdate": "compaction_update", "compactionId": payload("compaction"), "status": "failed",
                "summary": [text("summary")], "error": payload("compaction-error") }),
        json!({ "sessionUpdate": payload("kind-of-update"), "key": payload("unknown-update") }),
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "malformed", "title": { "key": payload("malformed") } }),
        json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "error",
                "error": { "code": 1, "message": payload("error"), "data": payload("error-data") } }),
    ];
    let mut lines: Vec<Value> = updates.into_iter().map(update).collect();
    lines.insert(0, json!(payload("not-a-message")));
    lines.insert(
        0,
        json!({ "jsonrpc": "2.0", "method": payload("method"), "params": { "key": payload("parameters") } }),
    );
    lines
}
