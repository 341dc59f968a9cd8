//! The page `/design` of debug builds: all components of the page with sample content, for the eye and for tests.

use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};
use switchboard_acp::WireFormat;
use switchboard_session::{Conversation, Moment, Session, Side, Snapshot};

use super::render::{self, Place, RenderCache, icon, icon_names};

/// Tokens of colours, as class names of swatches.
const COLOURS: [&str; 19] = [
    "bg",
    "surface",
    "tint",
    "tint-2",
    "line",
    "ink",
    "ink-2",
    "ink-3",
    "accent",
    "accent-ink",
    "accent-tint",
    "good",
    "good-tint",
    "bad",
    "bad-tint",
    "warn",
    "warn-tint",
    "terminal",
    "terminal-ink",
];

const PATCH: &str = "diff --git a/src/retry.rs b/src/retry.rs\n--- a/src/retry.rs\n+++ b/src/retry.rs\n@@ -41,4 +41,5 @@\n pub async fn retry<C: Clock>(clock: &C, policy: Policy) {\n-    let started = Instant::now();\n+    let started = clock.now();\n+    let mut delays = Vec::new(); // seconds\n     for attempt in 1..=policy.attempts {\n         run(attempt, \"now\").await;\n";

/// Renders the body of the page.
pub(crate) fn body() -> Markup {
    html! {
        body class="design" {
            (render::sprite())
            main {
                h1 { "Design" }
                (basics())
                h2 { "Transcript" }
                div id="transcript" { (transcript()) }
                h2 { "Question" }
                (question())
                h2 { "Panels" }
                (panels())
            }
        }
    }
}

fn basics() -> Markup {
    html! {
        h2 { "Colours" }
        ul class="swatches" { @for name in COLOURS { li { span class={ "swatch is-" (name) } {} (name) } } }
        h2 { "Text" }
        p class="size-l" { "Large: titles of screens, " strong { "strong" } }
        p { "Medium: what is read, " strong { "strong" } }
        p class="meta" { "Small: what explains it, " strong { "strong" } }
        p class="size-xs" { "Extra small: what is looked up, " strong { "strong" } }
        h2 { "Icons" }
        ul class="swatches" { @for name in icon_names() { li { (icon(name)) " " (name) } } }
        h2 { "Buttons and fields" }
        p class="row-of" {
            button type="button" class="go" { "Go on" }
            button type="button" class="tinted" { "Another" }
            button type="button" { "Plain" }
            button type="button" class="tinted" disabled { "Disabled" }
            button type="button" class="icon-button" aria-label="More" { (icon("more")) }
            button type="button" class="link" { "A link" }
            span class="tag" { "tag" } span class="badge" { "3" }
        }
        p class="row-of" {
            input type="text" aria-label="Text" placeholder="A field";
            select aria-label="Choice" { option { "A choice" } option { "Another" } }
            label { input type="checkbox" checked; "Checked" }
        }
    }
}

fn update(update: Value) -> Value {
    let mut message = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s"}});
    message["params"]["update"] = update;
    message
}

fn call(id: &str, mut fields: Value) -> Value {
    fields["sessionUpdate"] = "tool_call_update".into();
    fields["toolCallId"] = id.into();
    update(fields)
}

/// Folds messages of an agent. A malformed one would be missing in the page.
fn folded(messages: &[Value]) -> Snapshot {
    let mut conversation = Conversation::new(WireFormat::Any);
    for message in messages {
        // Sample messages are valid; the test looks at each component.
        let _ = conversation.read(&message.to_string(), Some(Side::Agent), Moment(0));
    }
    let session = conversation.session(Some("s")).map(Session::snapshot);
    session.unwrap_or_else(|| Session::new(WireFormat::Any).snapshot())
}

fn message(kind: &str, id: &str, text: &str) -> Value {
    update(json!({"sessionUpdate": kind, "messageId": id, "content": [{"type": "text", "text": text}]}))
}

fn sample() -> Snapshot {
    let diff = json!([{"type": "diff", "changes": [{"operation": "modify", "path": "/w/src/retry.rs"}], "patch": {"format": "git_patch", "text": PATCH}}]);
    let output = "\u{1b}[32mtest retry ... ok\u{1b}[0m\n\u{1b}[31mtest other ... FAILED\u{1b}[0m\n";
    let output = switchboard_acp::Base64::from_bytes(output.as_bytes()).as_str().to_owned();
    folded(&[
        message(
            "user_message",
            "u",
            "The test `retry_gives_up` fails about once in twenty runs. Find out why and fix it.",
        ),
        message("agent_thought", "t", "The clock is the problem."),
        call(
            "c1",
            json!({"title": "Read src/retry.rs", "kind": "read", "status": "completed", "locations": [{"path": "/w/src/retry.rs", "line": 3}], "rawInput": {"path": "src/retry.rs"}}),
        ),
        message(
            "agent_message",
            "m",
            "The test asserts on **wall-clock** time, so `elapsed < 350` does not hold.\n\n1. inject a clock\n2. assert on the *recorded* delays\n\n| attempt | delay |\n|---|--:|\n| 1 | 100 |\n\n```rust\nfn main() { println!(\"hello\"); } // a comment\n```\n\n> A quotation with a [link](https://example.org).\n\n### A heading",
        ),
        call(
            "c2",
            json!({"title": "Edit src/retry.rs", "kind": "edit", "status": "completed", "content": diff}),
        ),
        call(
            "c3",
            json!({"title": "Search for clocks", "kind": "search", "status": "in_progress", "capabilities": {"cancel": {}}}),
        ),
        call(
            "c4",
            json!({"title": "cargo test", "kind": "execute", "status": "failed", "content": [{"type": "terminal", "terminalId": "x"}]}),
        ),
        update(
            json!({"sessionUpdate": "terminal_update", "terminalId": "x", "command": "cargo test", "cwd": "/w", "output": {"data": output}, "exitStatus": {"exitCode": 101}}),
        ),
        update(json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": [
            {"content": "Find the cause", "priority": "high", "status": "completed"},
            {"content": "Make the test deterministic", "priority": "medium", "status": "in_progress"},
            {"content": "Run it a thousand times", "priority": "low", "status": "pending"},
        ]}})),
        update(
            json!({"sessionUpdate": "usage_update", "used": 53_000, "size": 200_000, "cost": {"amount": 0.021_08, "currency": "USD"}}),
        ),
        update(
            json!({"sessionUpdate": "notice", "severity": "warning", "title": "The context is nearly full"}),
        ),
        json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {
            "sessionId": "s", "title": "Run this command?",
            "subject": {"type": "command", "command": "cargo test retry -- --test-threads=1", "cwd": "/w"},
            "options": [
                {"optionId": "a", "name": "Allow once", "kind": "allow_once"},
                {"optionId": "b", "name": "Always in this project", "kind": "allow_always"},
                {"optionId": "c", "name": "Reject", "kind": "reject_once"},
            ],
        }}),
    ])
}

const PLACE: Place<'static> = Place {
    recording: "r",
    session: "s",
    folder: "/w",
    parent: None,
    is_shown_here: &|_| false,
    name: &|_| None,
};

fn transcript() -> Markup {
    let (snapshot, cache) = (sample(), RenderCache::default());
    let mut counts = render::RunCounts::default();
    snapshot.entries().filter_map(switchboard_session::Entry::as_tool_call).for_each(|call| counts.add(call));
    let end = render::TurnEnd {
        at: 0,
        took: 34_000,
        cost: Some("$0.02".to_owned()),
        tokens: Some(4321),
        is_cancelled: false,
    };
    html! {
        @for (position, entry) in snapshot.entries().enumerate() {
            @let frame = render::frame(entry, |_| None);
            article class=(frame.class) aria-label=(frame.label) data-position=(position) {
                @for part in render::entry(&snapshot, entry, None, &PLACE, &cache) { (PreEscaped(&*part.html)) }
            }
        }
        article class="e e-tool" aria-label="Several tool calls" data-position="98" {
            (PreEscaped(&*render::run_line(counts, 0, Some("4 s"), false).html))
        }
        article class="e e-agent" aria-label="The end of a turn" data-position="99" {
            (PreEscaped(&*render::failed_turn("The turn failed: the model is overloaded.", Some(0)).html))
            (PreEscaped(&*render::turn_end(&end).html))
        }
    }
}

fn question() -> Markup {
    let (snapshot, cache) = (sample(), RenderCache::default());
    html! {
        @for permission in snapshot.permissions() {
            section class="question" aria-label="Question" data-question="1" {
                @for part in render::permission(&snapshot, permission, &PLACE, &cache) { (PreEscaped(&*part.html)) }
            }
        }
    }
}

fn panels() -> Markup {
    let (snapshot, cache) = (sample(), RenderCache::default());
    html! {
        div id="plan-now" class="row-of" { (render::plan_line(&snapshot)) }
        (render::plans(&snapshot, &cache))
        div id="usage" { (render::usage(&snapshot)) }
        (render::notices(snapshot.notices().iter()))
    }
}
