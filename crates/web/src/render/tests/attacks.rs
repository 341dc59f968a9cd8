//! Hostile agents.

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_acp::Base64;
use switchboard_session::Session;

use super::allowed::check;
use super::sample::{everything, message, panels, permission, session, tool_call, update};
use crate::render::{self, RenderCache};

/// Returns a session with a text in every place that an agent controls.
fn everywhere(text: &str) -> Vec<Value> {
    let block = json!({"type": "text", "text": text});
    let data = Base64::from_bytes(text.as_bytes()).as_str().to_owned();
    // A path with a NUL is rejected before rendering.
    let path = format!("/w/{}", text.replace("\0", ""));
    let patch = format!(
        "diff --git a/{text} b/{text}\n--- a/{text}\n+++ b/{text}\n@@ -1 +1 @@ {text}\n-{text}\n+x{text}\n"
    );
    let items = json!([
        {"type": "content", "content": block},
        {"type": "content", "content": {"type": "text", "text": text, "annotations": {"audience": ["user"]}}},
        {"type": "content", "content": {"type": "image", "mimeType": text, "data": data, "uri": text}},
        {"type": "content", "content": {"type": "image", "mimeType": "image/png", "data": data}},
        {"type": "content", "content": {"type": "audio", "mimeType": text, "data": data}},
        {"type": "content", "content": {"type": "audio", "mimeType": "audio/ogg", "data": data}},
        {"type": "content", "content": {"type": "resource_link", "name": text, "uri": text, "title": text, "description": text, "mimeType": text}},
        {"type": "content", "content": {"type": "resource_link", "name": text, "uri": format!("https://{text}")}},
        {"type": "content", "content": {"type": "resource", "resource": {"uri": text, "text": text, "mimeType": text}}},
        {"type": "content", "content": {"type": "resource", "resource": {"uri": text, "blob": data, "mimeType": text}}},
        {"type": "content", "content": {"type": format!("_{text}"), text: text}},
        {"type": "diff", "changes": [
            {"operation": "add", "path": path, "fileType": text, "mimeType": text},
            {"operation": "move", "path": path, "oldPath": path},
            {"operation": format!("_{text}"), "path": path},
        ], "patch": {"format": "git_patch", "text": patch}},
        {"type": "diff", "changes": [{"operation": "modify", "path": path}], "patch": {"format": "git_patch", "text": text}},
        {"type": "diff", "changes": [], "patch": {"format": format!("_{text}"), "text": text}},
        {"type": "terminal", "terminalId": text},
        {"type": "terminal", "terminalId": format!("_{text}")},
        {"type": "session", "sessionId": format!("c{text}")},
        {"type": format!("_{text}"), text: [text]},
    ]);
    let options = json!([
        {"optionId": text, "name": text, "kind": "allow_once"},
        {"optionId": format!("_{text}"), "name": text, "kind": format!("_{text}")},
    ]);
    let ask = |id: &str, subject: Value| {
        let fields = json!({"title": text, "description": text, "subject": subject, "options": options});
        permission(format!("{id}{text}").into(), fields)
    };
    let question = |id: &str, mut fields: Value| {
        fields["sessionId"] = "s".into();
        fields["message"] = text.into();
        json!({"jsonrpc": "2.0", "id": format!("{id}{text}"), "method": "elicitation/create", "params": fields})
    };
    let field = |kind: &str| json!({"type": kind, "title": text, "description": text, "default": text});
    let properties = json!({
        text: field("string"), "b": {"type": "string", "enum": [text], "default": text, "pattern": text},
        "c": {"type": "string", "oneOf": [{"const": text, "title": text}], "format": text},
        "d": {"type": "array", "items": {"type": "string", "enum": [text]}, "default": [text]},
        "e": {"type": "boolean", "title": text}, "f": {"type": format!("_{text}"), "x": text},
    });
    let steps = json!([{"content": text, "priority": text, "status": text}]);
    let selects = json!([{"value": text, "name": text, "description": text}]);
    vec![
        message("user_message", text, text),
        message("agent_thought", text, text),
        message("agent_message", text, text),
        update(
            json!({"sessionUpdate": "terminal_update", "terminalId": text, "command": text, "cwd": path, "output": {"data": data}, "exitStatus": {"signal": text}, "capabilities": {"cancel": {}}}),
        ),
        tool_call(
            text,
            json!({
                "title": text, "name": text, "kind": text, "status": text, "content": items, "rawInput": text, "rawOutput": {text: text},
                "locations": [{"path": path, "line": 3}], "capabilities": {"cancel": {}},
            }),
        ),
        update(
            json!({"sessionUpdate": "compaction_update", "compactionId": text, "status": text, "summary": [block], "error": text}),
        ),
        ask("1", json!({"type": "tool_call", "toolCall": {"toolCallId": text}})),
        ask(
            "2",
            json!({"type": "command", "command": text, "cwd": path, "toolCallId": text, "terminalId": text}),
        ),
        ask("3", json!({"type": format!("_{text}"), text: text})),
        question(
            "4",
            json!({"mode": "form", "requestedSchema": {"type": "object", "title": text, "description": text, "properties": properties, "required": [text]}}),
        ),
        question("5", json!({"mode": "url", "elicitationId": text, "url": text})),
        question("6", json!({"mode": "url", "elicitationId": text, "url": format!("http://{text}")})),
        question("7", json!({"mode": format!("_{text}"), text: text})),
        update(
            json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": text, "entries": steps}}),
        ),
        update(
            json!({"sessionUpdate": "plan_update", "plan": {"type": format!("_{text}"), "planId": "p", text: text}}),
        ),
        update(
            json!({"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "m", "content": text}}),
        ),
        update(json!({"sessionUpdate": "plan_update", "plan": {"type": "file", "planId": "f", "uri": text}})),
        update(
            json!({"sessionUpdate": "plan_update", "plan": {"type": "file", "planId": "g", "uri": format!("https://{text}")}}),
        ),
        update(
            json!({"sessionUpdate": "subagent_update", "sessionId": format!("c{text}"), "title": text, "description": format!("{text}\n"), "cwd": path, "capabilities": {"cancel": {}}, "state": {"state": "idle", "stopReason": text}}),
        ),
        update(
            json!({"sessionUpdate": "session_message", "messageId": text, "senderSessionId": "s", "recipientSessionId": format!("c{text}"), "content": [block]}),
        ),
        update(
            json!({"sessionUpdate": "session_message", "messageId": format!("2{text}"), "senderSessionId": text, "content": [block]}),
        ),
        update(
            json!({"sessionUpdate": "usage_update", "used": 1, "size": 0, "cost": {"amount": 1, "currency": text}}),
        ),
        update(
            json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": text, "description": text, "input": {"type": "text", "hint": text}}]}),
        ),
        update(json!({"sessionUpdate": "config_option_update", "configOptions": [
            {"type": "select", "configId": text, "name": text, "description": text, "currentValue": format!("x{text}"), "options": selects},
            {"type": "select", "configId": "b", "name": text, "currentValue": text, "options": [{"groupId": text, "name": text, "options": selects}]},
            {"type": "boolean", "configId": "c", "name": text, "currentValue": true},
            {"type": format!("_{text}"), "configId": "d", "name": text},
        ]})),
        update(
            json!({"sessionUpdate": "notice", "severity": text, "title": format!("x{text}"), "description": text}),
        ),
        update(
            json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": text, "error": {"code": 1, "message": text}}),
        ),
    ]
}

#[track_caller]
fn check_everywhere(text: &str) {
    let session = session(&everywhere(text));
    assert!(session.len() >= 5 && session.permissions().count() == 3 && session.elicitations().count() == 4);
    check(&(html_of(&session) + &panels(&session).map(|panel| panel.0).concat() + &nested(&session, text)));
}

/// Renders the session as a sub-agent inside another, folded and unfolded, with its questions.
fn nested(session: &Session, text: &str) -> String {
    use crate::subagents::Named;
    let nest = |left_out: Option<usize>| render::Nest {
        recording: "r",
        session: text,
        subagent: session.subagents().next(),
        name: text,
        state: session.state(),
        work: render::Work::Told("at work"),
        is_by_itself: true,
        can_cancel: true,
        can_unfold: true,
        left_out,
    };
    let cache = RenderCache::default();
    let states = [None, Some(0), Some(3)].map(nest);
    let nests = states.iter().flat_map(|nest| render::nest(nest, session, &cache));
    let named =
        [Named { id: text.into(), name: text.to_owned() }, Named { id: "c".into(), name: text.to_owned() }];
    nests.chain([render::whose("r", &named)]).map(|part| part.html.to_string()).collect()
}

fn html_of(session: &Session) -> String {
    everything(session, &RenderCache::default()).iter().map(|part| &*part.html).collect()
}

#[test]
fn markup_of_others_stays_text() {
    let attacks = [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\" onmouseover=\"alert(1)",
        "' onmouseover='alert(1)",
        "</code></pre></div></article><script>alert(1)</script>",
        "</textarea></title></style></noscript><svg/onload=alert(1)>",
        "<svg><foreignObject><iframe srcdoc=\"<script>alert(1)</script>\"></iframe></foreignObject></svg>",
        "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">",
        "<a href=\"javascript:alert(1)\">x</a>",
        "<!--><script>alert(1)</script>-->",
        "<![CDATA[<script>alert(1)</script>]]>",
        "<?xml version=\"1.0\"?><x/>",
        "<style>@import 'http://x'</style><link rel=stylesheet href=http://x><base href=http://x>",
        "<meta http-equiv=refresh content=0;url=http://x><form action=http://x><button>",
        "`<b>` ``<i>`` <details open ontoggle=alert(1)>",
        "&lt;script&gt; &#60;script&#62; &amp;lt; &#x0; &#0;",
        "\0\u{1}\u{8}\u{b}\u{c}\u{e}\u{7f}\u{85}\u{fffe}\u{fdd0}",
        "\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}\u{a0}\u{3000}\u{115f}",
        "a\r\nb\rc\n\nd\t\u{2028}e\u{2029}f",
    ];
    for attack in attacks {
        check_everywhere(attack);
    }
}

#[test]
fn links_lead_to_the_web_or_nowhere() {
    let addresses = [
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "java\tscript:alert(1)",
        "java&#10;script:alert(1)",
        "&#106;avascript:alert(1)",
        "javascript&colon;alert(1)",
        "\u{1}javascript:alert(1)",
        " javascript:alert(1)",
        "vbscript:msgbox(1)",
        "VBScript:x",
        "data:text/html,<script>alert(1)</script>",
        "data:image/svg+xml,<svg>",
        "DATA:text/html;base64,PHNjcmlwdD4=",
        "file:///etc/passwd",
        "blob:http://x/1",
        "view-source:http://x",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "http:\\\\evil.example",
        "https:/evil",
        "?x",
        "#x",
        "http://a b",
        "http://a\u{202e}b",
        "ftp://x",
        "about:blank",
        "jar:x!/",
        "feed:javascript:alert(1)",
        "https://user:pass@evil.example/\"onclick=\"x",
        "mailto:a@b?body=<script>",
        "http://",
    ];
    for address in addresses {
        let forms = [
            format!(
                "[x]({address}) [y](<{address}>) <{address}> ![x]({address} \"title\") [![x]({address})]({address})"
            ),
            format!("[x][r]\n\n[r]: {address}"),
            format!("[x][r]\n\n[r]: <{address}> \"<b>\""),
        ];
        for form in forms {
            let session = session(&[message("agent_message", "m", &form)]);
            check(&html_of(&session));
        }
        check_everywhere(address);
    }
}

/// Texts that would take a parser or a browser much time without limits.
#[test]
fn bombs_of_markdown_come_out_shallow_and_small() {
    const SIZE: usize = 6 << 10;
    let repeat = |text: &str| text.repeat(SIZE / text.len());
    let half = |text: &str| text.repeat(SIZE / 2 / text.len());
    let bombs = [
        repeat(">"),
        repeat("> "),
        repeat("- "),
        repeat("* "),
        repeat("1. "),
        repeat("+\t"),
        half("- ") + &half("\n"),
        half("> ") + &half(">\n"),
        half("1) ") + "a" + &half("\n\n"),
        repeat("["),
        repeat("!["),
        repeat("[a]("),
        repeat("[a](<b"),
        repeat("[]("),
        repeat("[![a]("),
        half("[") + &half("]"),
        half("[") + &half("](x)"),
        repeat("*"),
        repeat("_"),
        repeat("*a "),
        half("*a ") + &half("a* "),
        repeat("**a*"),
        half("**a ") + &half("b** "),
        repeat("~~a"),
        repeat("`"),
        (1..110).map(|n| "`".repeat(n) + " ").collect(),
        repeat("<"),
        repeat("<a "),
        repeat("<!--"),
        repeat("<?"),
        repeat("<![CDATA["),
        repeat("&"),
        repeat("&#"),
        repeat("\\"),
        repeat("|"),
        repeat("|a\n"),
        "a|b\n-|-\n".to_owned() + &repeat("|\n"),
        "|".repeat(500) + "\n" + &"|-".repeat(500) + "|\n" + &repeat("a\n"),
        repeat("# "),
        repeat("#\n"),
        repeat("a\n=\n"),
        repeat("```\n"),
        repeat("~~~ "),
        repeat("\t"),
        repeat("    a\n"),
        format!("[a]: http://x/{}\n", "y".repeat(SIZE / 2)) + &half("[a] "),
        (0..75).map(|depth| " ".repeat(depth * 2) + "- a\n").collect(),
        (0..75).map(|depth| ">".repeat(depth) + "a\n").collect(),
        repeat("\n"),
        repeat(" \n"),
        repeat("a\n\n"),
        repeat("- a\n\n"),
        repeat("[^a]: b\n"),
        repeat("- [x] "),
        repeat("![a](b"),
        repeat("<x@y.z>"),
    ];
    for bomb in bombs {
        let session = session(&[message("agent_message", "m", &bomb)]);
        let html = html_of(&session);
        assert!(html.len() < 100 * SIZE, "{} bytes of HTML from {:?}", html.len(), &bomb[..20]);
        check(&html);
    }
}

#[test]
fn terminals_take_any_bytes_and_any_size() {
    let outputs: Vec<Vec<u8>> = vec![
        b"\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\ \x1b]0;<script>\x07\x1b]52;c;aGk=\x07".to_vec(),
        b"\x1b[999999999;999999999Hx\x1b[99999L\x1b[99999M\x1b[99999S\x1b[99999T\x1b[99999@\x1b[99999P\x1b[99999Xy".to_vec(),
        b"\x1b[8;65535;65535t\x1b[?1049hother screen<b>\x1b[?1049lback".to_vec(),
        b"a\x1b[99999b\x1b[2147483648b".to_vec(),
        b"\x1b[38;2;1;2;3;4;5;6m\x1b[38;5;999m\x1b[48;5m\x1b[38;5;256mx\x1b[;;;;;m".to_vec(),
        b"\x1b".repeat(3000),
        b"\x1b[".repeat(3000),
        b"\x1b[1m\x1b[31mx".repeat(1000),
        b"\xff\xfe\x80\xc3\x28\0\x9b31m\xe2\x80\xae".repeat(500),
        "e\u{301}".repeat(500).into_bytes(),
        "\u{301}".repeat(3000).into_bytes(),
        "字\u{202e}👩\u{200d}💻".repeat(300).into_bytes(),
        b"\n".repeat(9000),
        b"x".repeat(40_000),
        b"\x1b[2J\x1b[H".repeat(2000),
        b"line\n".repeat(30_000),
    ];
    for size in [None, Some((1, 1)), Some((65535, 65535))] {
        for output in &outputs {
            let mut fields = json!({
                "sessionUpdate": "terminal_update", "terminalId": "t", "output": {"data": Base64::from_bytes(output).as_str()},
            });
            if let Some((columns, rows)) = size {
                fields["size"] = json!({"cols": columns, "rows": rows});
            }
            let session = session(&[update(fields)]);
            let html = html_of(&session);
            assert!(html.len() < 4 << 20, "{} bytes", html.len());
            check(&html);
        }
    }
}

#[test]
fn an_option_of_unknown_kind_never_looks_like_approval() {
    let options = json!([{"optionId": "a", "name": "Allow once", "kind": "allow_forever"}]);
    let session = session(&[permission("p".into(), json!({"title": "t", "options": options}))]);
    let parts = everything(&session, &RenderCache::default());
    let html = &parts.last().unwrap().html;
    assert!(html.contains("<button class=\"opt\" type=\"button\" data-option=\"a\">"), "{html}");
    assert!(html.contains("unknown meaning: allow_forever"), "{html}");
}

#[test]
fn an_answer_that_a_browser_would_change_cannot_be_given() {
    let options = json!([
        {"optionId": "a\r", "name": "No", "kind": "reject_once"},
        {"optionId": "a\n", "name": "Yes", "kind": "allow_once"},
    ]);
    let session = session(&[permission("p".into(), json!({"title": "t", "options": options}))]);
    let parts = everything(&session, &RenderCache::default());
    let html = &parts.last().unwrap().html;
    assert!(html.contains("<button class=\"opt opt-reject\" type=\"button\" disabled>"), "{html}");
    assert!(html.contains("<button class=\"opt opt-allow\" type=\"button\" data-option=\"a\n\">"), "{html}");
}

#[test]
fn a_patch_that_touches_unlisted_files_is_reported() {
    let patch = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/.ssh/x b/.ssh/x\n\
        new file mode 100644\n--- /dev/null\n+++ b/.ssh/x\n@@ -0,0 +1 @@\n+key\n";
    let content = json!([{"type": "diff", "changes": [{"operation": "modify", "path": "/w/a"}], "patch": {"format": "git_patch", "text": patch}}]);
    let session = session(&[tool_call("c", json!({"content": content}))]);
    let html = html_of(&session);
    assert!(html.contains("not in the list of changes"), "{html}");
    assert!(html.contains(".ssh/x: the patch has add, the changes do not name it"), "{html}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_agent_text_renders_only_allowed_markup(
        pieces in prop::collection::vec(prop_oneof![
            4 => prop::sample::select(vec![
                "<", ">", "\"", "'", "&", "`", "```", "~~~", "*", "**", "_", "[", "]", "(", ")", "!", "|", "-", "|-|-|", "#",
                "\n", "\n\n", "    ", "\t", "> ", "- ", "1. ", "- [ ] ", "\\", "<b>", "</p>", "<script>", "<!--", "-->", "<?",
                "javascript:", "http://x", "https://", "[a]: http://x", "&#x3C;", "&lt;", "\u{202e}", "\0", "\r", "\u{a0}", "~~", "<a@b.c>",
            ]).prop_map(str::to_owned),
            1 => any::<String>(),
            1 => "[ -~]{0,8}",
        ], 0..24)
    ) {
        check_everywhere(&pieces.concat());
    }
}
