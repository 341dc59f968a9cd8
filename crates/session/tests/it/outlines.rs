//! Outlines of tool calls do not depend on how much of the session is kept, and are small.

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_acp::{Moment, Side, Wire, WireFormat, v2};
use switchboard_session::{Conversation, ToolCallOutline};

use crate::generate::updates;

fn small() -> Conversation {
    Conversation::new(WireFormat::Any).without_transcript().with_tool_call_outlines()
}

fn all() -> [Conversation; 3] {
    let recording = Conversation::new(WireFormat::Any).with_tool_calls_alone();
    [Conversation::new(WireFormat::Any), small(), recording]
}

fn say(conversation: &mut Conversation, update: &Value) {
    let params = json!({"sessionId": "s", "update": update});
    let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string();
    let _ = conversation.read(&line, Some(Side::Agent), Moment(0));
}

fn outline<'c>(conversation: &'c Conversation, id: &str) -> Option<ToolCallOutline<'c>> {
    conversation.session(Some("s"))?.tool_call_outline(id)
}

/// Returns everything in an outline except its text, which is removed when the call ends.
fn told(conversation: &Conversation, id: &str) -> Option<(String, Option<String>)> {
    let outline = outline(conversation, id)?;
    let call = outline.call();
    let content = call.content();
    let content: Vec<String> =
        content.items().filter_map(|item| Some(item.structured()?.encode(WireFormat::Any))).collect();
    let rest = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {content:?}",
        call.kind(),
        call.status(),
        call.title(),
        call.name(),
        call.locations(),
        call.raw_input(),
        call.meta().map(|meta| meta.as_raw().as_str()).filter(|meta| *meta != "{}"),
    );
    Some((rest, outline.problem().map(str::to_owned)))
}

fn call(more: &Value) -> Value {
    let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c"});
    update.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    update
}

fn chunk(content: &Value) -> Value {
    json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": content})
}

fn text(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

#[test]
fn an_outline_has_what_a_call_is_to_do_and_nothing_that_it_produces() {
    let diff = json!({"type": "diff", "changes": [{"operation": "modify", "path": "/w/a", "mimeType": "text/x-long"}],
        "patch": {"format": "git_patch", "text": "SECRET patch"}});
    for mut conversation in all() {
        say(
            &mut conversation,
            &call(
                &json!({"title": "Edit", "kind": "edit", "rawInput": {"path": "/w/a"}, "rawOutput": "SECRET",
                "locations": [{"path": "/w/a"}], "content": [diff, {"type": "terminal", "terminalId": "t"}],
                "_meta": {"claudeCode": {"toolName": "Edit", "toolResponse": "SECRET".repeat(100)}}}),
            ),
        );
        say(
            &mut conversation,
            &json!({"sessionUpdate": "terminal_update", "terminalId": "t", "command": "make", "cwd": "/w",
                "output": {"data": "U0VDUkVU"}}),
        );
        say(&mut conversation, &chunk(&diff));
        say(&mut conversation, &chunk(&text("SECRET")));
        say(&mut conversation, &call(&json!({"status": "completed"})));
        say(&mut conversation, &chunk(&text("SECRET")));
        let session = conversation.session(Some("s")).unwrap();
        let outline = session.tool_call_outline("c").unwrap();
        let call = outline.call();
        assert_eq!((outline.problem(), call.title(), call.content().text_len()), (None, Some("Edit"), 0));
        let content: Vec<String> =
            call.content().blocks().map(|block| block.encode(WireFormat::Any)).collect();
        let change = r#"{"type":"diff","changes":[{"operation":"modify","path":"/w/a"}]}"#;
        assert_eq!(content, [change, r#"{"type":"terminal","terminalId":"t"}"#]);
        assert_eq!(call.meta().unwrap().as_raw().as_str(), r#"{"claudeCode":{"toolName":"Edit"}}"#);
        let terminal = session.terminal_outline("t").unwrap();
        assert_eq!((terminal.command, terminal.cwd, terminal.problem), (Some("make"), Some("/w"), None));
        assert!(!format!("{outline:?}").contains("SECRET"));
    }
}

#[test]
fn an_outline_is_the_current_state_of_its_call() {
    for mut conversation in all() {
        say(
            &mut conversation,
            &call(&json!({"rawInput": {"command": "ls"}, "title": "ls", "kind": "execute"})),
        );
        say(&mut conversation, &call(&json!({"rawInput": {"command": "rm -r /"}})));
        let input = |of: &Conversation| {
            outline(of, "c").unwrap().call().raw_input().map(|input| input.as_str().to_owned())
        };
        assert_eq!(input(&conversation).as_deref(), Some(r#"{"command":"rm -r /"}"#));
        say(&mut conversation, &call(&json!({"rawInput": null, "title": null})));
        assert_eq!(input(&conversation), None);
        // A question updates its call like an update.
        let call = json!({"toolCallId": "c", "rawInput": {"command": "make"}});
        let params = json!({"sessionId": "s", "title": "?", "subject": {"type": "tool_call", "toolCall": call},
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]});
        let question =
            json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": params});
        conversation.read(&question.to_string(), Some(Side::Agent), Moment(0)).unwrap();
        assert_eq!(input(&conversation).as_deref(), Some(r#"{"command":"make"}"#));
        let kind = outline(&conversation, "c").unwrap().call().kind().clone();
        assert_eq!(kind, v2::ToolKind::Execute);
    }
}

#[test]
fn a_malformed_or_oversized_update_affects_only_its_call() {
    let problem =
        |of: &Conversation, id: &str| outline(of, id).and_then(|it| it.problem().map(str::to_owned));
    for mut conversation in all() {
        say(&mut conversation, &call(&json!({"locations": [{"path": 5}]})));
        assert!(problem(&conversation, "c").unwrap().contains("/locations/0/path"));
        // Only the id can be parsed.
        say(&mut conversation, &json!({"toolCallId": "unread", "title": "x"}));
        assert!(problem(&conversation, "unread").is_some());
        let large = json!({"sessionUpdate": "tool_call_update", "toolCallId": "large",
            "rawInput": {"content": "x".repeat(2 * 1024 * 1024)}, "title": "Write"});
        say(&mut conversation, &large);
        assert_eq!(problem(&conversation, "large").as_deref(), Some("a part of the tool call is too large"));
        assert_eq!(outline(&conversation, "large").unwrap().call().title(), Some("Write"));
        let again = json!({"sessionUpdate": "tool_call_update", "toolCallId": "large", "rawInput": {}});
        say(&mut conversation, &again);
        assert_eq!(problem(&conversation, "large"), None);
        let line = "x".repeat(2 * 1024 * 1024);
        say(
            &mut conversation,
            &json!({"sessionUpdate": "terminal_update", "terminalId": "t", "command": line}),
        );
        let session = conversation.session(Some("s")).unwrap();
        let terminal = session.terminal_outline("t").unwrap();
        assert!(terminal.command.is_none() && terminal.problem.is_some());
    }
}

#[test]
fn calls_that_are_forgotten_are_told_apart_from_new_ones() {
    let mut conversation = small();
    let named = |id: &str| json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "title": "Read"});
    for number in 0..1500 {
        say(&mut conversation, &named(&format!("c-{number}")));
    }
    let problem = |of: &Conversation, id: &str| outline(of, id).map(|it| it.problem().map(str::to_owned));
    assert_eq!(problem(&conversation, "c-1499"), Some(None));
    assert_eq!(problem(&conversation, "new"), None);
    let forgotten = problem(&conversation, "c-0").unwrap();
    assert!(forgotten.as_deref().unwrap().contains("no longer kept"), "{forgotten:?}");
    // An update does not make it look complete.
    say(&mut conversation, &named("c-0"));
    assert_eq!(problem(&conversation, "c-0"), Some(forgotten));
    // The same for the size limit.
    let mut conversation = small();
    for number in 0..8 {
        let mut update = named(&format!("c-{number}"));
        update["rawInput"] = json!({"content": "x".repeat(1024 * 1024 - 100)});
        say(&mut conversation, &update);
    }
    assert!(problem(&conversation, "c-0").flatten().is_some());
    assert_eq!(problem(&conversation, "c-7"), Some(None));
    // The next process restarts its ids.
    conversation.end_connection(Moment(0));
    assert_eq!((problem(&conversation, "c-0"), problem(&conversation, "c-7")), (None, None));
}

proptest! {
    #[test]
    fn outlines_are_the_same_with_and_without_transcript((_, updates) in updates()) {
        let [mut full, mut small, mut recording] = all();
        for update in &updates {
            for conversation in [&mut full, &mut small, &mut recording] {
                say(conversation, update);
            }
        }
        for id in updates.iter().filter_map(|update| update["toolCallId"].as_str()) {
            let wanted = told(&full, id);
            prop_assert!(wanted.is_some());
            prop_assert_eq!(&told(&small, id), &wanted);
            prop_assert_eq!(&told(&recording, id), &wanted);
        }
    }
}
