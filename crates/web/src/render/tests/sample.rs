//! A sample session with every kind of content.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Value, json};
use switchboard_acp::WireFormat;
use switchboard_session::{Conversation, Moment, Session, Side};

use crate::render::{self, Part, Place, RenderCache};

/// Folds updates and requests of the agent into a session.
pub(super) fn session(messages: &[Value]) -> Session {
    let mut conversation = Conversation::new(WireFormat::Any);
    for message in messages {
        conversation.read(&message.to_string(), Some(Side::Agent), Moment(0)).unwrap();
    }
    conversation.session(Some("s")).unwrap().clone()
}

pub(super) fn update(update: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
}

pub(super) fn message(kind: &str, id: &str, text: &str) -> Value {
    update(json!({"sessionUpdate": kind, "messageId": id, "content": [{"type": "text", "text": text}]}))
}

pub(super) fn tool_call(id: &str, mut fields: Value) -> Value {
    fields["sessionUpdate"] = "tool_call_update".into();
    fields["toolCallId"] = id.into();
    update(fields)
}

pub(super) fn permission(id: Value, mut fields: Value) -> Value {
    fields["sessionId"] = "s".into();
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": fields})
}

/// Renders every entry and every question.
pub(super) fn everything(session: &Session, cache: &RenderCache) -> Vec<Part> {
    let place = Place { recording: "r", session: "s", parent: Some("above"), ..Place::default() };
    let entries = session.entries().flat_map(|entry| render::entry(session, entry, None, &place, cache));
    let permissions =
        session.permissions().flat_map(|permission| render::permission(session, permission, &place, cache));
    let elicitations = session.elicitations().flat_map(render::elicitation);
    entries.chain(permissions).chain(elicitations).collect()
}

/// Renders the panels of a session.
pub(super) fn panels(session: &Session) -> [Markup; 6] {
    [
        render::state(session),
        render::plans(session, &RenderCache::default()),
        render::usage(session),
        render::config_options(session),
        render::commands(session),
        render::notices(session.notices().iter()),
    ]
}

const PATCH: &str = "diff --git a/src/config.rs b/src/config.rs
--- a/src/config.rs
+++ b/src/config.rs
@@ -10,25 +10,26 @@ impl Config {
     /// Reads the configuration.
     pub fn read(path: &Path) -> Result<Self> {
         let text = fs::read_to_string(path)?;
-        let config = toml::from_str(&text)?;
-        Ok(config)
+        let config: Config = toml::from_str(&text).map_err(|error| error.at(path))?;
+        config.check()?;
+        Ok(config.with_defaults())
     }
 
     fn one() {}
     fn two() {}
     fn three() {}
     fn four() {}
     fn five() {}
     fn six() {}
     fn seven() {}
     fn eight() {}
     fn nine() {}
     fn ten() {}
     fn eleven() {}
     fn twelve() {}
     fn thirteen() {}
     fn fourteen() {}
 
     /// Whether debugging is on.
-    pub fn debug(&self) -> bool { self.debug }
+    pub fn debug(&self) -> bool { self.debug.unwrap_or(false) }
 }
diff --git a/docs/old.md b/docs/new name.md
similarity index 90%
rename from docs/old.md
rename to docs/new name.md
--- a/docs/old.md
+++ b/docs/new name.md
@@ -1,3 +1,3 @@
 # Title
-Some text here.
+Some other text here.
 The end.
\\ No newline at end of file
diff --git a/run.sh b/run.sh
new file mode 100755
--- /dev/null
+++ b/run.sh
@@ -0,0 +1,2 @@
+#!/bin/sh
+exec cargo run
";

fn typical() -> Vec<Value> {
    let base64 = |bytes: &[u8]| switchboard_acp::Base64::from_bytes(bytes).as_str().to_owned();
    let output = "\u{1b}[1m$ cargo test\u{1b}[0m\r\n\u{1b}[32m   Compiling\u{1b}[0m switchboard v0.1.0\r\n\
        \u{1b}[33mwarning\u{1b}[0m: unused variable\r\ntest folds_everything ... \u{1b}[32mok\u{1b}[0m\r\n\
        test \u{1b}[4mbidi\u{1b}[0m ... \u{1b}[31;1mFAILED\u{1b}[0m\r\n\
        \u{1b}[38;5;208m256 colours\u{1b}[0m \u{1b}[48;2;30;60;120m true colour \u{1b}[0m \u{1b}[7minverse\u{1b}[0m\r\n";
    let markdown = "I will change the configuration. Steps:\n\n1. read `src/config.rs`\n2. **check** what it says\n\
        3. run the tests\n   - fast ones first\n   - then *all*\n\n# A heading\n\n> Quoted, with a \
        [link](https://example.org/a?b=1) and a [bad one](javascript:alert(1)).\n\n```rust\nfn main() {\n    \
        println!(\"<hello>\");\n}\n```\n\n| option | default | size |\n|---|:-:|--:|\n| `debug` | off | 12 |\n| \
        `level` | info | 1,024 |\n\n- [x] done\n- [ ] to do\n\n<b onclick=\"x\">raw HTML</b> is text, \
        ![a picture](https://example.org/p.png) a link.";
    let changes = json!([
        {"operation": "modify", "path": "/w/src/config.rs", "fileType": "text"},
        {"operation": "move", "path": "/w/docs/new name.md", "oldPath": "/w/docs/old.md"},
        {"operation": "add", "path": "/w/run.sh"},
        {"operation": "modify", "path": "/w/logo.png", "fileType": "binary", "mimeType": "image/png"},
        {"operation": "delete", "path": "/w/old"  , "fileType": "directory"},
        {"operation": "add", "path": "/w/link", "fileType": "symlink"},
    ]);
    let diff = json!({"type": "diff", "changes": changes, "patch": {"format": "git_patch", "text": PATCH}});
    vec![
        message("user_message", "u1", "Turn debug on, please.\nAnd run the tests."),
        message("agent_thought", "t1", "The setting is in `config.rs`. I should *look* first."),
        message("agent_message", "m1", markdown),
        tool_call(
            "c1",
            json!({
                "title": "Read src/config.rs", "name": "read_file", "kind": "read", "status": "completed",
                "locations": [{"path": "/w/src/config.rs", "line": 10}, {"path": "/w/a\u{202e}txt.exe"}],
                "rawInput": {"path": "/w/src/config.rs", "limit": 2e2},
                "content": [{"type": "content", "content": {"type": "text", "text": "```rust\npub struct Config;\n```"}}],
            }),
        ),
        tool_call(
            "c2",
            json!({
                "title": "Edit 6 files", "kind": "edit", "status": "in_progress", "content": [diff],
                "capabilities": {"cancel": {}},
            }),
        ),
        update(json!({
            "sessionUpdate": "terminal_update", "terminalId": "x1", "command": "cargo test --workspace",
            "cwd": "/w", "size": {"cols": 80, "rows": 24}, "output": {"data": base64(output.as_bytes())},
            "exitStatus": {"exitCode": 101},
        })),
        tool_call(
            "c3",
            json!({
                "title": "Run the tests", "kind": "execute", "status": "failed",
                "content": [{"type": "terminal", "terminalId": "x1"}], "rawOutput": {"code": 101},
            }),
        ),
        tool_call(
            "c4",
            json!({
                "title": "Attachments", "kind": "_custom", "status": "_odd",
                "content": [
                    {"type": "content", "content": {"type": "resource_link", "name": "spec", "uri": "file:///w/spec.md", "size": 1234, "description": "The specification"}},
                    {"type": "content", "content": {"type": "resource", "resource": {"uri": "file:///w/a.txt", "text": "some <text>"}}},
                    {"type": "content", "content": {"type": "image", "mimeType": "image/svg+xml", "data": base64(b"<svg onload=alert(1)>")}},
                    {"type": "content", "content": {"type": "image", "mimeType": "image/gif", "data": "R0lGODlhAQABAIAAAAUEBAAAACwAAAAAAQABAAACAkQBADs="}},
                    {"type": "_chart", "points": [1, 2.50, 3]},
                ],
            }),
        ),
        permission(
            "p1".into(),
            json!({
                "title": "Write to 6 files?", "description": "Turns debug on and renames a file.",
                "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c2", "rawInput": {"force": true}}},
                "options": [
                    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
                    {"optionId": "a", "name": "Yes, and don't ask again", "kind": "allow_always"},
                    {"optionId": "n", "name": "No", "kind": "reject_once"},
                    {"optionId": "z", "name": "Perhaps", "kind": "_perhaps"},
                ],
            }),
        ),
        permission(
            7.into(),
            json!({
                "title": "Run a command?",
                "subject": {"type": "command", "command": "rm -rf \u{202e}/tmp/x\u{200b}y\u{a0}z", "cwd": "/w", "toolCallId": "c3", "terminalId": "x1"},
                "options": [{"optionId": "y", "name": "Run", "kind": "allow_once"}, {"optionId": "n", "name": "Never", "kind": "reject_always"}],
            }),
        ),
        json!({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": {
            "sessionId": "s", "mode": "form", "message": "Which release?",
            "requestedSchema": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "title": "Name", "minLength": 1, "description": "As in the changelog."},
                "when": {"type": "string", "format": "date"},
                "level": {"type": "string", "enum": ["major", "minor"], "default": "minor"},
                "count": {"type": "integer", "minimum": 1, "maximum": 9},
                "sign": {"type": "boolean", "default": true},
                "targets": {"type": "array", "items": {"type": "string", "enum": ["linux", "mac"]}, "default": ["mac"]},
            }},
        }}),
        json!({"jsonrpc": "2.0", "id": "q2", "method": "elicitation/create", "params": {
            "sessionId": "s", "mode": "url", "message": "Log in", "elicitationId": "e1", "url": "https://example.org/login?next=%2F",
        }}),
        update(json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": [
            {"content": "Look at the configuration", "priority": "medium", "status": "completed"},
            {"content": "Change it", "priority": "high", "status": "in_progress"},
            {"content": "Run the tests", "priority": "low", "status": "pending"},
        ]}})),
        update(
            json!({"sessionUpdate": "usage_update", "used": 53_000, "size": 200_000, "cost": {"amount": 0.42, "currency": "USD"}}),
        ),
        update(json!({"sessionUpdate": "available_commands_update", "availableCommands": [
            {"name": "review", "description": "Review the changes", "input": {"type": "text", "hint": "what to look at"}},
        ]})),
        update(json!({"sessionUpdate": "config_option_update", "configOptions": [
            {"type": "select", "configId": "model", "name": "Model", "currentValue": "b", "options": [{"value": "a", "name": "Small"}, {"value": "b", "name": "Large"}]},
            {"type": "boolean", "configId": "web", "name": "Web search", "currentValue": true},
        ]})),
        update(
            json!({"sessionUpdate": "notice", "severity": "warning", "title": "The disk is nearly full", "description": "2 GB are left."}),
        ),
        update(
            json!({"sessionUpdate": "compaction_update", "compactionId": "k1", "status": "completed", "summary": [{"type": "text", "text": "We changed **one** setting."}]}),
        ),
        update(json!({"sessionUpdate": "agent_message", "messageId": "m9", "content": []})),
        update(json!({"sessionUpdate": "state_update", "state": "requires_action"})),
    ]
}

/// Returns the complete sample, with an answered permission request.
pub(super) fn sample() -> Session {
    let mut messages = typical();
    messages.push(permission("p0".into(), json!({
        "title": "Read outside the folder?",
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}],
    })));
    let mut session = session(&messages);
    let id = switchboard_acp::rpc::RequestId::Text("p0".into());
    session.answer_permission(&id, "y", "user", Moment(1)).unwrap();
    session
}

#[test]
fn all_of_the_sample_is_allowed() {
    let session = sample();
    for part in everything(&session, &RenderCache::default()) {
        super::allowed::check(&part.html);
        assert!(part.html.contains(&format!("data-part=\"{}\"", part.key)), "{}", part.html);
    }
    for panel in panels(&session) {
        super::allowed::check(&panel.into_string());
    }
}

/// Renders the sample as a page, written to the file in `SWITCHBOARD_SAMPLE` for a visual check with the style
/// sheets.
#[test]
fn the_sample_makes_a_page() {
    let session = sample();
    let cache = RenderCache::default();
    let question = |parts: Vec<Part>| {
        html! { section.question { @for part in parts { (PreEscaped(&*part.html)) } } }
    };
    let page = html! {
        (DOCTYPE)
        meta charset="utf-8";
        title { "Sample" }
        @for sheet in ["page.css", "entries.css", "sample.css"] { link rel="stylesheet" href=(sheet); }
        main #transcript {
            @for entry in session.entries() {
                @let frame = render::frame(entry, |_| None);
                article class=(frame.class) aria-label=(frame.label) {
                    @for part in render::entry(&session, entry, None, &Place::default(), &cache) { (PreEscaped(&*part.html)) }
                }
            }
            @for permission in session.permissions() { (question(render::permission(&session, permission, &Place::default(), &cache))) }
            @for elicitation in session.elicitations() { (question(render::elicitation(elicitation))) }
            @for panel in panels(&session) { (panel) }
        }
    };
    assert!(page.0.contains("aria-label=\"Tool call: Edit 6 files\""));
    if let Some(path) = std::env::var_os("SWITCHBOARD_SAMPLE") {
        std::fs::write(path, page.0).unwrap();
    }
}
