//! Rendered HTML of typical entries.

use insta::assert_snapshot;
use serde_json::{Value, json};
use switchboard_session::{Moment, Side};

use super::sample::{everything, message, panels, permission, session, tool_call, update};
use crate::render::{self, RenderCache};

/// Renders all parts of a session, one element per line.
fn shown(messages: &[Value]) -> String {
    lines(&session(messages))
}

fn lines(session: &switchboard_session::Session) -> String {
    let parts = everything(session, &RenderCache::default());
    parts.iter().map(|part| broken(&part.html)).collect::<Vec<_>>().join("\n")
}

/// Inserts a line break before every opening tag that follows another tag.
fn broken(html: &str) -> String {
    html.replace("><", ">\n<").replace(">\n</", "></")
}

#[test]
fn the_user_is_shown_as_typed() {
    assert_snapshot!(shown(&[message("user_message", "u", "Do *this*:\n  <b>now</b>")]), @r##"
    <header class="p head" data-part="head">
    <span class="tools">
    <button type="button" data-action="edit-prompt" title="Edit and send again" aria-label="Edit and send again">
    <svg class="icon" aria-hidden="true">
    <use href="#i-edit"></use></svg></button>
    <button type="button" data-action="copy-entry" title="Copy" aria-label="Copy">
    <svg class="icon" aria-hidden="true">
    <use href="#i-copy"></use></svg></button>
    <button type="button" data-action="link-entry" title="Copy a link" aria-label="Copy a link">
    <svg class="icon" aria-hidden="true">
    <use href="#i-link"></use></svg></button></span></header>
    <div class="p said" data-part="b0">Do *this*:
      &lt;b&gt;now&lt;/b&gt;</div>
    "##);
}

#[test]
fn the_agent_is_shown_as_markdown() {
    let text = "Two **words**.\n\n1. `a<b`\n2. [x](https://example.org)\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n```c++ title\nx < y\n```";
    assert_snapshot!(shown(&[message("agent_message", "m", text)]), @r##"
    <header class="p head" data-part="head">
    <span class="tools">
    <button type="button" data-action="copy-entry" title="Copy" aria-label="Copy">
    <svg class="icon" aria-hidden="true">
    <use href="#i-copy"></use></svg></button>
    <button type="button" data-action="link-entry" title="Copy a link" aria-label="Copy a link">
    <svg class="icon" aria-hidden="true">
    <use href="#i-link"></use></svg></button></span></header>
    <div class="p md" data-part="b0-0">
    <p>Two <strong>words</strong>.</p>
    <ol>
    <li>
    <code>a&lt;b</code></li>
    <li>
    <a href="https://example.org" title="https://example.org" rel="noopener noreferrer nofollow" target="_blank">x</a></li></ol>
    <div class="tbl">
    <table>
    <thead>
    <tr>
    <th>a</th>
    <th class="ar">b</th></tr></thead>
    <tbody>
    <tr>
    <td>1</td>
    <td class="ar">2</td></tr></tbody></table></div></div>
    <div class="p md" data-part="b0-1">
    <button class="copy" type="button" data-action="copy" aria-label="Copy the code">Copy</button>
    <pre data-lang="c++">
    <code>x &lt; y
    </code></pre></div>
    "##);
}

#[test]
fn thoughts_are_folded() {
    assert_snapshot!(shown(&[message("agent_thought", "t", "Hm.")]), @r##"
    <header class="p head" data-part="head">
    <details class="fold" data-keep="fold">
    <summary>
    <svg class="icon" aria-hidden="true">
    <use href="#i-think"></use></svg>
    <span class="who">Thought, 1 word</span></summary></details></header>
    <div class="p md" data-part="b0-0">
    <p>Hm.</p></div>
    "##);
}

#[test]
fn a_cleared_message_says_so() {
    let clear = update(json!({"sessionUpdate": "agent_message", "messageId": "m", "content": null}));
    assert_snapshot!(shown(&[message("agent_message", "m", "a secret"), clear]), @r##"
    <header class="p head" data-part="head">
    <span class="tools">
    <button type="button" data-action="copy-entry" title="Copy" aria-label="Copy">
    <svg class="icon" aria-hidden="true">
    <use href="#i-copy"></use></svg></button>
    <button type="button" data-action="link-entry" title="Copy a link" aria-label="Copy a link">
    <svg class="icon" aria-hidden="true">
    <use href="#i-link"></use></svg></button></span></header>
    <p class="p note" data-part="empty">Empty: its content was removed, or none has come.</p>
    "##);
}

#[test]
fn a_tool_call_is_a_line_with_folded_content() {
    let call = json!({
        "title": "Look\u{202e}", "name": "grep", "kind": "search", "status": "in_progress", "capabilities": {"cancel": {}},
        "locations": [{"path": "/w/a.rs", "line": 3}], "rawInput": {"n": 1.0},
        "content": [{"type": "content", "content": {"type": "text", "text": "found"}}],
    });
    assert_snapshot!(shown(&[tool_call("c", call)]), @r##"
    <header class="p head" data-part="head">
    <details class="fold" data-keep="fold" open>
    <summary class="call-line">
    <svg class="icon" aria-hidden="true">
    <use href="#i-search"></use></svg>
    <h3 class="title">
    <span class="sr">Search: </span>Look<span class="hid" title="right-to-left override">U+202E</span></h3>
    <span class="target">/w/a.rs</span>
    <span class="right">
    <span class="st st-run">
    <span aria-hidden="true">◐ </span>running</span>
    <span class="took"></span></span></summary></details>
    <span class="tools">
    <button type="button" data-action="copy-entry" title="Copy" aria-label="Copy">
    <svg class="icon" aria-hidden="true">
    <use href="#i-copy"></use></svg></button>
    <button type="button" data-action="link-entry" title="Copy a link" aria-label="Copy a link">
    <svg class="icon" aria-hidden="true">
    <use href="#i-link"></use></svg></button></span>
    <button type="button" data-action="cancel" data-tool-call="c">Cancel</button></header>
    <ul class="p places" data-part="places" aria-label="Files">
    <li>
    <button class="path" type="button" data-action="follow" data-path="/w/a.rs" data-line="3">/w/a.rs:3</button></li></ul>
    <div class="p md" data-part="b0-0">
    <p>found</p></div>
    <div class="p raws" data-part="raw">
    <details class="raw" data-keep="details">
    <summary>Details</summary>
    <p class="note">Tool <code>grep</code></p>
    <p class="note">Raw input</p>
    <pre class="json">
    <code>{
      "n": 1.0
    }</code></pre></details></div>
    "##);
}

#[test]
fn a_diff_is_one_markup_for_both_views() {
    let patch = "diff --git a/a.rs b/a.rs\n--- a/a.rs\n+++ b/a.rs\n@@ -1,3 +1,3 @@ fn main\n a\n-let b = 1;\n+let b = 2;\n c\n";
    let changes = json!([
        {"operation": "modify", "path": "/w/a.rs"},
        {"operation": "copy", "path": "/w/c", "oldPath": "/w/b", "fileType": "binary"},
    ]);
    let content =
        json!([{"type": "diff", "changes": changes, "patch": {"format": "git_patch", "text": patch}}]);
    assert_snapshot!(shown(&[tool_call("c", json!({"title": "Edit", "kind": "edit", "content": content}))]), @r##"
    <header class="p head" data-part="head">
    <details class="fold" data-keep="fold" open>
    <summary class="call-line">
    <svg class="icon" aria-hidden="true">
    <use href="#i-edit"></use></svg>
    <h3 class="title">
    <span class="sr">Edit: </span>Edit</h3>
    <span class="right">
    <span class="cnt">
    <span class="plus">+1</span> <span class="minus">−1</span>
    <span class="sr"> (1 lines added, 1 removed)</span></span>
    <span class="st st-off">
    <span aria-hidden="true">○ </span>pending</span>
    <span class="took"></span></span></summary></details>
    <span class="tools">
    <button type="button" data-action="copy-entry" title="Copy" aria-label="Copy">
    <svg class="icon" aria-hidden="true">
    <use href="#i-copy"></use></svg></button>
    <button type="button" data-action="link-entry" title="Copy a link" aria-label="Copy a link">
    <svg class="icon" aria-hidden="true">
    <use href="#i-link"></use></svg></button></span></header>
    <div class="p diff" data-part="i0" role="group" aria-label="Changes to files">
    <p class="diff-sum">
    <span>2 files</span> <span class="cnt">
    <span class="plus">+1</span> <span class="minus">−1</span>
    <span class="sr"> (1 lines added, 1 removed)</span></span>
    <label class="sbs">
    <input type="checkbox"> side by side</label></p>
    <details class="df" data-keep="i0f0" open>
    <summary>
    <span class="op op-mod" aria-hidden="true">changed</span>
    <span class="sr">modify </span>
    <span class="path" title="/w/a.rs">
    <span class="dir">/w/</span>a.rs</span>
    <span class="cnt">
    <span class="plus">+1</span> <span class="minus">−1</span>
    <span class="sr"> (1 lines added, 1 removed)</span></span></summary>
    <div class="hunks">
    <div class="hh">@@ -1,3 +1,3 @@ fn main</div>
    <div class="l" data-o="1" data-n="1">
    <code>a</code>
    <code class="dup" aria-hidden="true">a</code></div>
    <div class="chg">
    <del class="l" data-o="2">
    <code>
    <span class="hk">let</span> b = <mark>
    <span class="hn">1</span></mark>;</code></del>
    <ins class="l" data-n="2">
    <code>
    <span class="hk">let</span> b = <mark>
    <span class="hn">2</span></mark>;</code></ins></div>
    <div class="l" data-o="3" data-n="3">
    <code>c</code>
    <code class="dup" aria-hidden="true">c</code></div></div></details>
    <div class="df df-bare">
    <span class="op op-cpy" aria-hidden="true">copied</span>
    <span class="sr">copy </span>
    <span class="path dim">
    <span class="dir">/w/</span>b</span>
    <span aria-label="to"> → </span>
    <span class="path" title="/w/c">
    <span class="dir">/w/</span>c</span>
    <span class="tag">binary</span></div></div>
    "##);
}

#[test]
fn a_patch_that_cannot_be_read_is_shown_as_text() {
    let content = json!([{"type": "diff", "changes": [{"operation": "delete", "path": "/w/a"}], "patch": {"format": "git_patch", "text": "@@ nonsense"}}]);
    assert_snapshot!(shown(&[tool_call("c", json!({"title": "Edit", "content": content}))]), @r##"
    <header class="p head" data-part="head">
    <details class="fold" data-keep="fold" open>
    <summary class="call-line">
    <svg class="icon" aria-hidden="true">
    <use href="#i-tool"></use></svg>
    <h3 class="title">
    <span class="sr">Tool: </span>Edit</h3>
    <span class="right">
    <span class="st st-off">
    <span aria-hidden="true">○ </span>pending</span>
    <span class="took"></span></span></summary></details>
    <span class="tools">
    <button type="button" data-action="copy-entry" title="Copy" aria-label="Copy">
    <svg class="icon" aria-hidden="true">
    <use href="#i-copy"></use></svg></button>
    <button type="button" data-action="link-entry" title="Copy a link" aria-label="Copy a link">
    <svg class="icon" aria-hidden="true">
    <use href="#i-link"></use></svg></button></span></header>
    <div class="p diff" data-part="i0" role="group" aria-label="Changes to files">
    <p class="diff-sum">
    <span>1 file</span></p>
    <div class="df df-bare">
    <span class="op op-del" aria-hidden="true">deleted</span>
    <span class="sr">delete </span>
    <span class="path" title="/w/a">
    <span class="dir">/w/</span>a</span></div>
    <ul class="note bad" aria-label="What does not fit together">
    <li>the patch is malformed: line 1: no patch in the text</li>
    <li>/w/a: the changes have delete, the patch does not show it</li></ul>
    <details class="raw" data-keep="i0text" open>
    <summary>The patch as text, 11 B</summary>
    <pre>
    <code>@@ nonsense</code></pre></details></div>
    "##);
}

#[test]
fn a_terminal_is_a_screen_with_colours() {
    let output = "plain \u{1b}[1;31mred\u{1b}[0m\n\u{1b}[38;5;208;48;2;0;0;94mx\u{1b}[7my\u{1b}[0m <b>\n";
    let terminal = json!({
        "sessionUpdate": "terminal_update", "terminalId": "t", "command": "make\u{a0}all", "cwd": "/w",
        "output": {"data": switchboard_acp::Base64::from_bytes(output.as_bytes()).as_str()}, "exitStatus": {"exitCode": 2},
    });
    assert_snapshot!(shown(&[update(terminal)]), @r##"
    <section class="p term" data-part="screen" aria-label="Terminal">
    <div class="term-head">
    <pre class="cmd">
    <code>
    <span class="dim" aria-hidden="true">$ </span>make<span class="hid" title="no-break space">U+00A0</span>all</code></pre>
    <span class="dim path">in /w</span></div>
    <pre class="screen" tabindex="0">
    <code>plain <span class="f1 tb">red</span>
    <span class="f208 k17">x</span>
    <span class="f17 k208">y</span> &lt;b&gt;</code></pre>
    <p class="st st-bad">
    <span aria-hidden="true">✗ </span>exited with 2</p></section>
    "##);
}

#[test]
fn a_permission_shows_the_exact_command_and_the_meaning_of_each_answer() {
    let fields = json!({
        "title": "Run it?", "description": "To see.",
        "subject": {"type": "command", "command": "rm -rf \u{200b}/", "cwd": "/w"},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_always"}, {"optionId": "n", "name": "No", "kind": "reject_once"}],
    });
    let mut session = session(&[permission("p".into(), fields)]);
    assert_snapshot!(lines(&session), @r##"
    <header class="p head" data-part="head">
    <svg class="icon" aria-hidden="true">
    <use href="#i-question"></use></svg>
    <h3 class="title">Run it?</h3></header>
    <p class="p said" data-part="about">To see.</p>
    <div class="p subject" data-part="subject">
    <pre class="cmd">
    <code>rm -rf <span class="hid" title="zero width space">U+200B</span>/</code></pre>
    <p>in <span class="path">/w</span></p></div>
    <div class="p opts" data-part="options" data-permission="&quot;p&quot;" role="group" aria-label="Answer">
    <button class="opt opt-allow opt-always" type="button" data-option="y">
    <span class="opt-name">Yes</span> <span class="opt-means">allow always</span>
    <kbd aria-hidden="true">1</kbd></button>
    <button class="opt opt-reject" type="button" data-option="n">
    <span class="opt-name">No</span> <span class="opt-means">reject once</span>
    <kbd aria-hidden="true">2</kbd></button></div>
    "##);
    let id = switchboard_acp::rpc::RequestId::Text("p".into());
    session.answer_permission(&id, "n", "user", Moment(5)).unwrap();
    assert_snapshot!(lines(&session), @r##"
    <div class="p asked" data-part="asked">
    <details data-keep="asked">
    <summary>
    <span class="title">Run it?</span>
    <span class="st st-bad">
    <span aria-hidden="true">✗ </span>reject once: No</span>
    <span class="dim">by user</span>
    <time data-at="5"></time></summary>
    <button class="link" type="button" data-action="question-message" data-request="&quot;p&quot;">Show the message of the question</button>
    <p class="p said" data-part="about">To see.</p>
    <div class="p subject" data-part="subject">
    <pre class="cmd">
    <code>rm -rf <span class="hid" title="zero width space">U+200B</span>/</code></pre>
    <p>in <span class="path">/w</span></p></div>
    <ul class="offered" aria-label="Options">
    <li>Yes <span class="dim">allow always</span></li>
    <li>
    <strong>No (chosen)</strong> <span class="dim">reject once</span></li></ul></details></div>
    "##);
}

#[test]
fn the_subject_of_a_permission_is_unfolded_even_if_the_call_is_folded() {
    let call = tool_call("c", json!({"title": "t", "rawInput": {"force": true}}));
    let fields = json!({
        "title": "Do it?", "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c"}},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
    });
    let shown = shown(&[call, permission("p".into(), fields)]);
    let (call, question) = shown.split_once("data-part=\"input\"").unwrap();
    assert!(call.contains("<details class=\"raw\"") && call.contains("\"force\""), "{shown}");
    assert!(!question.contains("<details") && question.contains("\"force\""), "{shown}");
}

#[test]
fn a_permission_that_was_taken_back_says_so() {
    let fields =
        json!({"title": "Run it?", "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]});
    let mut session = session(&[permission(3.into(), fields)]);
    session.cancel_permission(&3.into(), Side::Agent, Moment(5)).unwrap();
    assert!(lines(&session).contains("taken back by the agent"));
}

#[test]
fn a_permission_tells_which_rule_answered() {
    let fields =
        json!({"title": "Run it?", "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]});
    let mut session = session(&[permission(3.into(), fields)]);
    session.answer_permission(&3.into(), "y", "rule tests", Moment(5)).unwrap();
    assert!(lines(&session).contains("by the rule “tests”"), "{}", lines(&session));
}

#[test]
fn a_question_is_a_form() {
    let question = json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {
        "sessionId": "s", "mode": "form", "message": "Which?", "requestedSchema": {"type": "object", "required": ["a"], "properties": {
            "a": {"type": "string", "title": "Name", "format": "email", "maxLength": 9},
            "b": {"type": "integer", "minimum": 1, "default": 2},
            "c": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "default": ["y"]},
        }},
    }});
    assert_snapshot!(shown(&[question]), @r##"
    <header class="p head" data-part="head">
    <svg class="icon" aria-hidden="true">
    <use href="#i-question"></use></svg>
    <h3 class="title">Which?</h3></header>
    <form class="p form" data-part="form" data-elicitation="1" autocomplete="off">
    <div class="field">
    <label>
    <span class="label-text">Name<span class="req"> (required)</span></span>
    <input name="a" type="email" data-type="string" required maxlength="9"></label></div>
    <div class="field">
    <label>
    <span class="label-text">b</span>
    <input name="b" type="number" data-type="number" step="1" min="1" value="2"></label></div>
    <fieldset class="field">
    <legend>c</legend>
    <span class="many" data-type="array" data-name="c">
    <label>
    <input type="checkbox" name="c" value="x"> x</label>
    <label>
    <input type="checkbox" name="c" value="y" checked> y</label></span></fieldset>
    <div class="opts">
    <button class="opt opt-allow" type="submit" data-answer="accept">Send</button>
    <button class="opt opt-reject" type="button" data-answer="decline">Decline</button>
    <button class="opt" type="button" data-answer="cancel">Dismiss</button></div></form>
    "##);
}

#[test]
fn unknown_content_is_shown_as_json() {
    let content = json!([{"type": "_chart", "points": [1]}]);
    assert_snapshot!(shown(&[tool_call("c", json!({"title": "t", "kind": "_k", "status": "_s", "content": content}))]), @r##"
    <header class="p head" data-part="head">
    <details class="fold" data-keep="fold" open>
    <summary class="call-line">
    <svg class="icon" aria-hidden="true">
    <use href="#i-tool"></use></svg>
    <h3 class="title">
    <span class="sr">_k: </span>t</h3>
    <span class="right">
    <span class="st st-off">
    <span aria-hidden="true">? </span>_s</span>
    <span class="took"></span></span></summary></details>
    <span class="tools">
    <button type="button" data-action="copy-entry" title="Copy" aria-label="Copy">
    <svg class="icon" aria-hidden="true">
    <use href="#i-copy"></use></svg></button>
    <button type="button" data-action="link-entry" title="Copy a link" aria-label="Copy a link">
    <svg class="icon" aria-hidden="true">
    <use href="#i-link"></use></svg></button></span></header>
    <div class="p block" data-part="i0">
    <div class="unknown">
    <p class="note">Unknown content: <code>_chart</code></p>
    <pre class="json">
    <code>{
      "type": "_chart",
      "points": [
        1
      ]
    }</code></pre></div></div>
    "##);
}

#[test]
fn the_panels_are_short() {
    let session = super::sample::sample();
    assert_snapshot!(panels(&session).map(|panel| broken(&panel.0)).join("\n\n"), @r##"
    <span class="st st-wait" role="status">
    <span aria-hidden="true">! </span>waits for you</span>

    <section class="plan" aria-label="Plan">
    <p class="plan-count">1 of 3 done</p>
    <progress max="3" value="1" aria-label="Progress of the plan"></progress>
    <ol>
    <li class="step step-done">
    <svg class="icon" aria-hidden="true">
    <use href="#i-done"></use></svg>
    <span class="sr">done: </span>
    <span>Look at the configuration</span></li>
    <li class="step step-now">
    <svg class="icon" aria-hidden="true">
    <use href="#i-chevron"></use></svg>
    <span class="sr">in progress: </span>
    <span>Change it</span>
    <span class="tag">high</span></li>
    <li class="step">
    <svg class="icon" aria-hidden="true">
    <use href="#i-more"></use></svg>
    <span class="sr">to do: </span>
    <span>Run the tests</span></li></ol></section>

    <section class="usage" aria-label="Usage">
    <meter min="0" max="200000" value="53000" high="160000" aria-label="Context" title="53,000 of 200,000 tokens in the context"></meter>
    <p title="53,000 of 200,000 tokens in the context">26 %<span class="sr"> (53,000 of 200,000 tokens in the context)</span></p>
    <p title="Cost of the session">$0.42</p></section>

    <label class="config" title="Model">
    <span class="sr">Model</span> <select data-config="model">
    <option value="a">Small</option>
    <option value="b" selected>Large</option></select></label>
    <label class="config" title="Web search">
    <input type="checkbox" data-config="web" checked> <span>Web search</span></label>

    <li class="command" role="option" data-command="review" data-hint="what to look at">
    <code>/review</code> <span class="dim">Review the changes</span></li>

    <div class="notice notice-warn">
    <strong>Warning: The disk is nearly full</strong>
    <p>2 GB are left.</p></div>
    "##);
}

#[test]
fn entries_have_labels() {
    let session =
        session(&[tool_call("c", json!({"title": "Look\u{202e}\nhere"})), message("user_message", "u", "x")]);
    let frames: Vec<_> = session
        .entries()
        .map(|entry| render::frame(entry, |_| None))
        .map(|frame| (frame.class, frame.label))
        .collect();
    let expected = [("e e-tool", "Tool call: Look<U+202E>␊here"), ("e e-user", "Message of the user")];
    assert_eq!(frames, expected.map(|(class, label)| (class, label.to_owned())));
}

#[test]
fn a_command_without_permission_is_not_shown_as_running() {
    let terminal =
        update(json!({"sessionUpdate": "terminal_update", "terminalId": "t", "command": "rm", "cwd": "/w"}));
    let call = tool_call(
        "c",
        json!({"title": "t", "status": "in_progress", "content": [{"type": "terminal", "terminalId": "t"}]}),
    );
    let command = json!({"type": "command", "command": "rm", "cwd": "/w", "terminalId": "t"});
    let of_call = json!({"type": "tool_call", "toolCall": {"toolCallId": "c"}});
    for subject in [command, of_call] {
        let fields = json!({
            "title": "Run it?", "subject": subject,
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}],
        });
        let asked = [terminal.clone(), call.clone(), permission("p".into(), fields)];
        let screens = |session: &switchboard_session::Session| {
            let parts = everything(session, &RenderCache::default());
            let screens = parts.into_iter().map(|part| part.html);
            screens.filter(|html| html.contains("aria-label=\"Terminal\"")).collect::<Vec<_>>().join("\n")
        };
        let id = switchboard_acp::rpc::RequestId::Text("p".into());
        let mut pending = session(&asked);
        let shown = screens(&pending);
        assert!(shown.contains("waiting for permission") && !shown.contains("running"), "{shown}");
        pending.answer_permission(&id, "n", "user", Moment(5)).unwrap();
        let shown = screens(&pending);
        assert!(shown.contains("not allowed") && !shown.contains("running"), "{shown}");
        let mut allowed = session(&asked);
        allowed.answer_permission(&id, "y", "user", Moment(5)).unwrap();
        assert!(screens(&allowed).contains("running"), "{}", screens(&allowed));
    }
}

#[test]
fn a_refused_host_can_be_allowed_by_a_button() {
    let page = |rule: &str| {
        let meta = json!({"switchboard/sandbox": {"denied": "host", "host": "x", "rule": rule}});
        let notice =
            json!({"sessionUpdate": "notice", "severity": "warning", "title": "refused", "_meta": meta});
        let session = session(&[update(notice)]);
        super::super::notices(session.notices().iter()).into_string()
    };
    let button = page("a.example.com:8443");
    assert!(button.contains("data-action=\"allow-host\" data-host=\"a.example.com:8443\""), "{button}");
    for other in ["*.example.com", "\"><script>", "", "https://x"] {
        assert!(!page(other).contains("allow-host"), "{other}");
    }
}
