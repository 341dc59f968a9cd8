//! Sub-agents with version 1 clients that do not support them.

use serde_json::{Value, json};
use switchboard_bridge::{BridgeOptions, Side, Version};

use crate::support::Bench;

/// A version 1 client that has opened session `s` and prompted in it.
pub(crate) fn at_work(capabilities: Value) -> Bench {
    let mut bench = introduced(capabilities);
    bench.open();
    bench.client(json!({"id": "p", "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "go"}]}}));
    let id = bench.take_agent().pop().unwrap()["id"].clone();
    bench.agent(json!({"id": id, "result": {}}));
    bench.update(json!({"sessionUpdate": "state_update", "state": "running"}));
    bench.take_client();
    bench.losses.clear();
    bench
}

pub(crate) fn introduced(capabilities: Value) -> Bench {
    let mut bench = Bench::v1_client();
    bench.client(json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": capabilities}}));
    let id = bench.take_agent()[0]["id"].clone();
    let info = json!({"name": "a", "version": "1"});
    bench.agent(
        json!({"id": id, "result": {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}}}),
    );
    bench.take_client();
    bench
}

pub(crate) fn of(session: &str, update: Value) -> Value {
    json!({"method": "session/update", "params": {"sessionId": session, "update": update}})
}

pub(crate) fn text(message: &str, text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "messageId": message, "content": {"type": "text", "text": text}})
}

pub(crate) fn state(word: &str) -> Value {
    match word {
        "idle" => json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}),
        word => json!({"sessionUpdate": "state_update", "state": word}),
    }
}

/// Returns the announcement of a running sub-agent.
pub(crate) fn announced(child: &str, title: &str) -> Value {
    json!({"sessionUpdate": "subagent_update", "sessionId": child, "title": title, "state": {"state": "running"}})
}

/// A tool call of `s` as the client has it: title, status and content.
#[derive(Debug, Default, Clone)]
pub(crate) struct Call {
    pub(crate) title: String,
    pub(crate) status: String,
    pub(crate) content: Vec<Value>,
}

impl Call {
    pub(crate) fn text(&self) -> String {
        self.content.iter().filter_map(|item| item["content"]["text"].as_str()).collect()
    }
}

/// Returns the tool calls that the client has been sent, in order. Every update must belong to the client's
/// session.
pub(crate) fn calls(told: &[Value]) -> Vec<(String, Call)> {
    let mut calls: Vec<(String, Call)> = Vec::new();
    for message in told {
        if let Some(session) = message["params"].get("sessionId") {
            assert_eq!(session, "s", "{message}");
        }
        let update = &message["params"]["update"];
        let Some(id) = update["toolCallId"].as_str() else { continue };
        let is_new = update["sessionUpdate"] == "tool_call";
        let place = calls.iter().position(|(known, _)| known == id);
        assert_eq!(is_new, place.is_none(), "a call is announced once: {message}");
        let place = place.unwrap_or_else(|| {
            calls.push((id.to_owned(), Call::default()));
            calls.len() - 1
        });
        let call = &mut calls[place].1;
        for (key, field) in [("title", &mut call.title), ("status", &mut call.status)] {
            if let Some(value) = update[key].as_str() {
                *field = value.to_owned();
            }
        }
        if let Some(content) = update["content"].as_array() {
            call.content = content.clone();
        }
    }
    calls
}

#[test]
fn a_child_is_shown_in_a_call_of_its_own_where_none_refers_to_it() {
    let mut bench = at_work(json!({}));
    bench.update(announced("c", "helper"));
    bench.agent(of("c", state("running")));
    bench.agent(of("c", text("m", "I will ")));
    bench.agent(of("c", text("m", "look.")));
    bench.agent(of("c", json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "Edit a.txt", "status": "completed",
        "content": [{"type": "content", "content": {"type": "text", "text": "changed"}},
            {"type": "diff", "changes": [{"operation": "add", "path": "/w/a.txt", "fileType": "text"}],
             "patch": {"format": "git_patch", "text": "--- /dev/null\n+++ b/w/a.txt\n@@ -0,0 +1 @@\n+new\n"}}]})));
    bench.agent(of("c", state("idle")));
    bench.update(text("r", "All done."));
    bench.update(state("idle"));
    let told = bench.take_client();
    let calls = calls(&told);
    let [(_, call)] = &*calls else { panic!("one call: {calls:?}") };
    assert_eq!((&*call.title, &*call.status), ("Sub-agent: helper", "completed"));
    assert_eq!(call.text(), "I will look.\n\n[completed] Edit a.txt\n\nchanged");
    let diff = call.content.iter().find(|item| item["type"] == "diff").expect("a diff");
    assert_eq!((&diff["path"], &diff["newText"]), (&json!("/w/a.txt"), &json!("new\n")));
    let answer = told.last().unwrap();
    assert_eq!((&answer["id"], &answer["result"]["stopReason"]), (&json!("p"), &json!("end_turn")));
}

#[test]
fn a_child_is_shown_in_the_call_that_refers_to_it() {
    let mut bench = at_work(json!({}));
    bench.update(announced("c", "helper"));
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "task", "title": "Task", "status": "in_progress",
        "content": [{"type": "session", "sessionId": "c"}]}));
    bench.agent(of("c", text("m", "working")));
    // New content of the call does not remove the sub-agent.
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "task", "status": "completed",
        "content": [{"type": "content", "content": {"type": "text", "text": "result"}}]}));
    // The sub-agent outlives its call.
    bench.agent(of("c", text("m", " still")));
    let calls = calls(&bench.take_client());
    let [(id, call)] = &*calls else { panic!("one call: {calls:?}") };
    assert_eq!((&**id, &*call.title, &*call.status), ("task", "Task", "completed"));
    assert_eq!(call.text(), "resultSub-agent 'helper':\n\nworking still");
}

#[test]
fn details_of_a_child_that_its_call_does_not_show_are_reported() {
    let mut bench = at_work(json!({}));
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "task", "title": "Task", "status": "in_progress",
        "content": [{"type": "session", "sessionId": "c"}]}));
    bench.losses.clear();
    for (key, value) in [
        ("title", json!("other")),
        ("description", json!("other")),
        ("capabilities", json!({"cancel": {}})),
        ("cwd", json!("/w/other")),
        ("additionalDirectories", json!(["/w/more"])),
    ] {
        bench.update(json!({"sessionUpdate": "subagent_update", "sessionId": "c", key: value}));
        assert_eq!(bench.lost(), [format!("subagent_update {key}")]);
        bench.losses.clear();
    }
}

#[test]
fn a_child_has_the_name_that_the_session_engine_gives_it_and_what_is_too_long_for_that_is_reported() {
    let (short, long) =
        ("reads", "reads all that there is to read here, and then some more of it, again and again");
    for (description, lost) in [(short, &[][..]), (long, &["subagent_update description".to_owned()])] {
        let mut bench = at_work(json!({}));
        let mut told = announced("c", "helper");
        told["description"] = description.into();
        bench.update(told);
        bench.agent(of("c", text("m", "hello")));
        let told: String = description.chars().take(60).collect();
        let calls = calls(&bench.take_client());
        assert!(calls[0].1.title.starts_with(&format!("Sub-agent: helper ({told}")), "{calls:?}");
        assert_eq!(bench.lost(), lost);
    }
}

#[test]
fn grandchildren_are_shown_in_the_call_of_their_parent() {
    let mut bench = at_work(json!({}));
    bench.update(announced("c", "helper"));
    bench.agent(of("c", text("m", "above")));
    bench.agent(of("c", announced("g", "below")));
    bench.agent(of("g", text("m", "deep")));
    bench.agent(of("g", announced("gg", "deepest")));
    bench.agent(json!({"id": 5, "method": "session/request_permission", "params": {"sessionId": "gg", "title": "Run it",
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}}));
    let told = bench.take_client();
    let asked =
        told.iter().find(|message| message["method"] == "session/request_permission").expect("a question");
    assert_eq!(asked["params"]["toolCall"]["title"], "Sub-agent 'helper › below › deepest' asks: Run it");
    let text = calls(&told).iter().find(|(_, call)| call.title.contains("helper")).expect("a call").1.text();
    assert_eq!(text, "above\n\nSub-agent 'below':\n\ndeep\n\nSub-agent 'deepest':");
}

#[test]
fn children_with_equal_names_and_without_any_are_told_apart() {
    let mut bench = at_work(json!({}));
    let quiet = |child: &str| json!({"sessionUpdate": "subagent_update", "sessionId": child});
    bench.update(announced("a", "Explorer"));
    bench.update(announced("b", "Explorer"));
    bench.update(quiet("c"));
    bench.update(quiet("d"));
    bench.agent(of("d", json!({"sessionUpdate": "session_info_update", "title": "Own"})));
    bench.agent(of("b", announced("e", "Explorer")));
    for (number, child) in ["a", "b", "c", "d", "e"].iter().enumerate() {
        bench.agent(of(child, text("m", "hello")));
        bench.agent(json!({"id": number, "method": "session/request_permission", "params": {"sessionId": child, "title": "Run",
            "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}}));
    }
    let told = bench.take_client();
    let asked: Vec<&Value> = told
        .iter()
        .filter(|message| message["method"] == "session/request_permission")
        .map(|message| &message["params"]["toolCall"]["title"])
        .collect();
    let asks = |name: &str| json!(format!("Sub-agent '{name}' asks: Run"));
    let expected = ["Explorer", "Explorer #2", "number 3", "Own #4", "Explorer #2 › Explorer"].map(asks);
    assert_eq!(asked, expected.iter().collect::<Vec<_>>());
    let titles: Vec<String> = calls(&told).into_iter().map(|(_, call)| call.title).collect();
    let expected = ["Explorer", "Explorer #2", "number 3", "Own #4"].map(|name| format!("Sub-agent: {name}"));
    assert_eq!(titles, expected);
}

#[test]
fn a_child_whose_end_nobody_tells_ends_with_the_turn() {
    for (state, status) in [("end_turn", "completed"), ("cancelled", "failed")] {
        let mut bench = at_work(json!({}));
        bench.update(json!({"sessionUpdate": "subagent_update", "sessionId": "c", "title": "helper"}));
        bench.agent(of("c", text("m", "hello")));
        bench.agent(of("c", json!({"sessionUpdate": "subagent_update", "sessionId": "g", "title": "below"})));
        let before = bench.take_client();
        assert_eq!(calls(&before)[0].1.status, "in_progress");
        bench.update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": state}));
        let told = bench.take_client();
        assert_eq!(told.last().unwrap()["result"]["stopReason"], state, "the turn is over at once");
        assert_eq!(told[0]["params"]["update"]["status"], status, "{told:?}");
    }

    // The agent says that it continues in the background.
    let mut bench = at_work(json!({}));
    bench.update(json!({"sessionUpdate": "subagent_update", "sessionId": "c", "title": "helper"}));
    bench.agent(of("c", text("m", "hello")));
    bench.take_client();
    let background = json!([{"type": "subagent", "sessionId": "c"}]);
    bench.update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn", "background": background}));
    assert_eq!(bench.take_client(), Vec::<Value>::new());
    bench.agent(of("c", state("idle")));
    bench.pass(1_000);
    let told = bench.take_client();
    assert_eq!(told[0]["params"]["update"]["status"], "completed", "{told:?}");
    assert_eq!(told.last().unwrap()["id"], "p");
}

#[test]
fn a_question_of_a_child_is_asked_in_the_root_and_answered_to_the_child() {
    let mut bench = at_work(json!({"elicitation": {"form": {}}}));
    bench.update(announced("c", "helper"));
    bench.agent(json!({"id": 7, "method": "session/request_permission", "params": {"sessionId": "c", "title": "Run ls",
        "description": "to see", "subject": {"type": "tool_call", "toolCall": {"toolCallId": "t", "title": "ls", "kind": "execute",
            "rawInput": {"command": "ls"}, "content": [{"type": "content", "content": {"type": "text", "text": "$ ls"}}]}},
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}}));
    let told = bench.take_client();
    let asked =
        told.iter().find(|message| message["method"] == "session/request_permission").expect("a question");
    let call = &asked["params"]["toolCall"];
    assert_eq!(asked["params"]["sessionId"], "s");
    assert_eq!(call["title"], "Sub-agent 'helper' asks: Run ls");
    assert_eq!((&call["kind"], &call["rawInput"]), (&json!("execute"), &json!({"command": "ls"})));
    let shown: Vec<&str> = call["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["content"]["text"].as_str().unwrap())
        .collect();
    assert_eq!(shown, ["to see", "$ ls"]);
    assert_ne!(call["toolCallId"], "t", "the child's ids are not the root's");
    bench.client(
        json!({"id": asked["id"], "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}}),
    );
    assert_eq!(
        bench.take_agent(),
        [
            json!({"jsonrpc": "2.0", "id": 7, "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}})
        ]
    );

    let told = bench.take_client();
    let answered = json!({"sessionUpdate": "tool_call_update", "toolCallId": call["toolCallId"], "title": call["title"], "status": "completed"});
    assert_eq!(told[0]["params"], json!({"sessionId": "s", "update": answered}));
    bench.agent(json!({"id": 8, "method": "elicitation/create", "params": {"mode": "form", "sessionId": "c", "toolCallId": "t",
        "message": "Which?", "requestedSchema": {"type": "object", "properties": {}}}}));
    let asked = bench.take_client().remove(0);
    assert_eq!(asked["params"]["sessionId"], "s");
    assert_eq!(asked["params"]["message"], "Sub-agent 'helper' asks: Which?");
    assert_eq!(asked["params"].get("toolCallId"), None);
    bench.client(json!({"id": asked["id"], "result": {"action": "decline"}}));
    assert_eq!(bench.take_agent(), [json!({"jsonrpc": "2.0", "id": 8, "result": {"action": "decline"}})]);

    // A question after the end of the sub-agent and of the turn.
    bench.agent(of("c", state("idle")));
    bench.update(state("idle"));
    bench.take_client();
    bench.agent(
        json!({"id": 9, "method": "session/request_permission", "params": {"sessionId": "c", "title": "Late",
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}}),
    );
    let asked = bench
        .take_client()
        .into_iter()
        .find(|message| message["method"] == "session/request_permission")
        .unwrap();
    assert_eq!(
        (&asked["params"]["sessionId"], &asked["params"]["toolCall"]["title"]),
        (&json!("s"), &json!("Sub-agent 'helper' asks: Late"))
    );
    bench.client(json!({"id": asked["id"], "result": {"outcome": {"outcome": "cancelled"}}}));
    assert_eq!(bench.take_agent()[0]["id"], 9);
}

#[test]
fn a_prompt_is_answered_when_the_children_are_done() {
    let mut bench = at_work(json!({}));
    bench.update(announced("c", "helper"));
    bench.update(state("idle"));
    let is_answer = |message: &Value| message["id"] == "p";
    assert!(!bench.take_client().iter().any(is_answer), "the child is at work");
    bench.pass(100_000);
    bench.agent(of("c", text("m", "result")));
    bench.agent(of("c", state("idle")));
    assert!(!bench.take_client().iter().any(is_answer), "the agent may go on");
    bench.update(state("running"));
    bench.pass(5_000);
    bench.update(text("r", "The helper said: result"));
    assert!(!bench.take_client().iter().any(is_answer));
    bench.update(state("idle"));
    assert_eq!(bench.take_client().last().unwrap()["result"]["stopReason"], "end_turn");

    // An agent without a follow-up.
    bench.client(json!({"id": "p", "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}}));
    let id = bench.take_agent().pop().unwrap()["id"].clone();
    bench.agent(json!({"id": id, "result": {}}));
    bench.update(state("running"));
    bench.agent(of("c", state("running")));
    bench.update(state("idle"));
    bench.agent(of("c", state("idle")));
    assert!(!bench.take_client().iter().any(is_answer));
    bench.pass(1_000);
    assert!(bench.take_client().iter().any(is_answer));
}

#[test]
fn a_prompt_does_not_wait_for_ever() {
    // Sub-agents without any output.
    let mut bench = at_work(json!({}));
    bench.update(announced("c", "helper"));
    bench.update(state("idle"));
    bench.take_client();
    bench.pass(600_000);
    assert_eq!(bench.take_client().last().unwrap()["result"]["stopReason"], "end_turn");
    // Later output of the sub-agent is still shown.
    bench.agent(of("c", text("m", "late")));
    let told = bench.take_client();
    assert!(
        told.iter().any(|message| message["params"]["update"]["content"].to_string().contains("late")),
        "{told:?}"
    );

    // A pending question keeps the turn open.
    let mut bench = at_work(json!({}));
    bench.update(announced("c", "helper"));
    bench.update(state("idle"));
    bench.agent(
        json!({"id": 7, "method": "session/request_permission", "params": {"sessionId": "c", "title": "Run",
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}}),
    );
    bench.take_client();
    bench.pass(3_000_000);
    assert_eq!(bench.take_client(), Vec::<Value>::new());
    // A form does, too.
    let mut bench = at_work(json!({"elicitation": {"form": {}}}));
    bench.update(announced("c", "helper"));
    bench.update(state("idle"));
    bench.agent(json!({"id": 7, "method": "elicitation/create", "params": {"mode": "form", "sessionId": "c", "message": "Which?",
        "requestedSchema": {"type": "object", "properties": {}}}}));
    bench.take_client();
    bench.pass(3_000_000);
    assert_eq!(bench.take_client(), Vec::<Value>::new());

    // The user cancels: sub-agents that support it are cancelled, and the prompt is answered soon.
    let mut bench = at_work(json!({}));
    bench.update(json!({"sessionUpdate": "subagent_update", "sessionId": "c", "capabilities": {"cancel": {}}, "state": {"state": "running"}}));
    bench.update(announced("d", "cannot be cancelled"));
    bench.update(state("idle"));
    bench.client(json!({"method": "session/cancel", "params": {"sessionId": "s"}}));
    let cancelled: Vec<Value> =
        bench.take_agent().iter().map(|message| message["params"]["sessionId"].clone()).collect();
    assert_eq!(cancelled, ["s", "c"]);
    bench.take_client();
    bench.pass(2_000);
    assert_eq!(bench.take_client().last().unwrap()["result"]["stopReason"], "cancelled");
    // Sooner if the sub-agents end sooner.
    let mut bench = at_work(json!({}));
    bench.update(json!({"sessionUpdate": "subagent_update", "sessionId": "c", "capabilities": {"cancel": {}}, "state": {"state": "running"}}));
    bench.client(json!({"method": "session/cancel", "params": {"sessionId": "s"}}));
    bench.update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}));
    bench.take_client();
    bench
        .agent(of("c", json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"})));
    let told = bench.take_client();
    assert_eq!(told.last().unwrap()["result"]["stopReason"], "cancelled", "{told:?}");
    assert!(told.iter().any(|message| message["params"]["update"]["status"] == "failed"), "{told:?}");

    // The user sends another prompt.
    let mut bench = at_work(json!({}));
    bench.update(announced("c", "helper"));
    bench.update(state("idle"));
    bench.take_client();
    bench.client(json!({"id": "q", "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}}));
    assert_eq!(bench.take_client().last().unwrap()["id"], "p");
    assert_eq!(bench.take_agent()[0]["method"], "session/prompt");

    // The agent reports background work, and the session of the sub-agent is not among it.
    let mut bench = at_work(json!({}));
    bench.update(announced("c", "helper"));
    bench.update(
        json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn", "background": []}),
    );
    let told = bench.take_client();
    assert_eq!(told.last().unwrap()["id"], "p");
    // Its tool call has ended as well.
    assert_eq!(calls(&told)[0].1.status, "completed");

    // The agent exits: the work of its sub-agents has failed.
    let mut bench = at_work(json!({}));
    bench.update(announced("c", "helper"));
    bench.update(state("idle"));
    bench.agent(of("c", text("m", "half of")));
    let mut told = bench.take_client();
    bench.bridge.agent_ended("gone", &[]);
    bench.collect();
    told.extend(bench.take_client());
    assert_eq!(told.last().unwrap()["result"]["stopReason"], "end_turn");
    let calls = calls(&told);
    assert_eq!((&*calls[0].1.status, &*calls[0].1.text()), ("failed", "half of\n\n[failed: gone]"));
}

#[test]
fn a_client_that_knows_sub_agents_gets_them_as_they_are() {
    let mut bench = at_work(json!({"subagents": {}}));
    let told = announced("c", "helper");
    bench.update(told.clone());
    bench.agent(of("c", text("m", "hello")));
    bench.agent(
        json!({"id": 7, "method": "session/request_permission", "params": {"sessionId": "c", "title": "Run",
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}}),
    );
    let client = bench.take_client();
    assert_eq!(client[0]["params"], json!({"sessionId": "s", "update": told}));
    assert_eq!(
        (&client[1]["params"]["sessionId"], &client[1]["params"]["update"]["content"]["text"]),
        (&json!("c"), &json!("hello"))
    );
    assert_eq!(
        (&client[2]["params"]["sessionId"], &client[2]["params"]["toolCall"]["title"]),
        (&json!("c"), &json!("Run"))
    );
    // Its prompt waits for them as well.
    bench.update(state("idle"));
    assert_eq!(bench.take_client(), Vec::<Value>::new());
    bench.agent(of("c", state("idle")));
    bench.pass(1_000);
    assert_eq!(bench.take_client().last().unwrap()["id"], "p");
}

/// Returns an announcement with every field that both versions have.
fn complete_announcement() -> Value {
    json!({"sessionUpdate": "subagent_update", "sessionId": "c", "title": "helper", "description": "reads", "capabilities": {"cancel": {}},
        "cwd": "/w/own", "additionalDirectories": ["/w/other"], "_meta": {"a": 1}, "key": 2,
        "state": {"state": "idle", "stopReason": "max_tokens", "error": {"code": 1, "message": "no"},
            "usage": {"totalTokens": 10, "inputTokens": 6, "outputTokens": 4}, "_meta": {"b": 1}, "other": 3}})
}

#[test]
fn all_that_is_said_of_a_sub_agent_goes_over_to_who_knows_them() {
    let mut bench = at_work(json!({"subagents": {}}));
    bench.update(complete_announcement());
    assert_eq!(bench.take_updates(), [complete_announcement()]);
    assert_eq!(bench.lost(), Vec::<String>::new());
    for word in ["running", "requires_action", "unknown", "idle"] {
        let mut told = json!({"sessionUpdate": "subagent_update", "sessionId": "c", "state": {"state": word, "_meta": {"b": 1}, "k": 1}});
        bench.update(told.clone());
        assert_eq!(bench.take_updates(), [told.clone()]);
        // Background work is reported as lost.
        told["state"]["background"] = json!([{"type": "terminal", "terminalId": "t"}]);
        bench.update(told);
        bench.take_client();
        assert_eq!(
            std::mem::take(&mut bench.losses).iter().map(|loss| &*loss.pointer).collect::<Vec<_>>(),
            ["/params/update/state/background"],
            "{word}"
        );
    }

    let mut bench = Bench::v2_client();
    bench.update(complete_announcement());
    assert_eq!(bench.take_client()[0]["params"]["update"], complete_announcement());
    assert_eq!(bench.lost(), Vec::<String>::new());
}

#[test]
fn a_second_call_that_refers_to_a_child_says_so_in_words() {
    let mut bench = at_work(json!({}));
    bench.update(announced("c", "helper"));
    bench.agent(of("c", text("m", "hello")));
    bench.take_client();
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "Wait for it",
        "content": [{"type": "session", "sessionId": "c", "_meta": {"a": 1}, "key": 2}]}));
    let words = json!({"type": "content", "content": {"type": "text", "text": "[session c]"}, "_meta": {"a": 1}, "key": 2});
    assert_eq!(bench.take_updates()[0]["content"], json!([words]));
}

#[test]
fn messages_between_sessions_are_shown_with_the_child() {
    let mut bench = at_work(json!({}));
    bench.update(announced("c", "helper"));
    let message = |own: &str, other: &str| {
        json!({"sessionUpdate": "session_message", "messageId": "m1", own: "m1", other: "m1",
        "senderSessionId": "s", "recipientSessionId": "c", "content": [{"type": "text", "text": "Look at a.txt"}]})
    };
    bench.update(message("senderMessageId", "recipientMessageId"));
    bench.agent(of("c", message("recipientMessageId", "senderMessageId")));
    bench.update(json!({"sessionUpdate": "session_message", "messageId": "m2", "senderSessionId": "c", "recipientSessionId": "s",
        "content": [{"type": "text", "text": "It is"}]}));
    bench.update(json!({"sessionUpdate": "session_message_chunk", "messageId": "m2", "content": {"type": "text", "text": " empty"}}));
    // A message from an unknown session.
    bench.update(json!({"sessionUpdate": "session_message", "messageId": "m3", "senderSessionId": "x", "recipientSessionId": "s",
        "content": [{"type": "text", "text": "Hello"}]}));
    let told = bench.take_client();
    let calls = calls(&told);
    assert_eq!(
        calls[0].1.text(),
        "[message from the session]\nLook at a.txt\n\n[message to the session]\nIt is empty"
    );
    let said = told
        .iter()
        .find(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk")
        .expect("a message");
    assert_eq!(said["params"]["update"]["content"]["text"], "[message from x]\n\nHello");
}

#[test]
fn a_session_that_is_loaded_again_shows_its_children_once() {
    let mut bench = at_work(json!({}));
    let all = [
        of("s", announced("c", "helper")),
        of("c", text("m", "said")),
        of("c", state("idle")),
        of("s", state("idle")),
    ];
    for message in &all {
        bench.agent(message.clone());
    }
    bench.pass(1_000);
    bench.take_client();
    bench.client(json!({"id": 9, "method": "session/load", "params": {"sessionId": "s", "cwd": "/w", "mcpServers": []}}));
    let id = bench.take_agent()[0]["id"].clone();
    for message in &all {
        bench.agent(message.clone());
    }
    bench.agent(json!({"id": id, "result": {}}));
    let told = bench.take_client();
    let calls = calls(&told);
    let [(_, call)] = &*calls else { panic!("one call: {calls:?}") };
    assert_eq!((&*call.title, &*call.status, &*call.text()), ("Sub-agent: helper", "completed", "said"));
}

#[test]
fn extensions_pass_both_ways_while_a_child_is_at_work() {
    let mut bench = at_work(json!({}));
    bench.update(announced("c", "helper"));
    bench.pass(1_000);
    bench.take_client();
    bench.client(json!({"id": 5, "method": "_session/steering", "params": {"sessionId": "s", "x": 1}}));
    let asked = bench.take_agent().remove(0);
    assert_eq!(
        (&asked["method"], &asked["params"]),
        (&json!("_session/steering"), &json!({"sessionId": "s", "x": 1}))
    );
    bench.agent(json!({"id": asked["id"], "result": {"y": 2}}));
    assert_eq!(bench.take_client(), [json!({"jsonrpc": "2.0", "id": 5, "result": {"y": 2}})]);
    bench.agent(json!({"id": 6, "method": "_a/ask", "params": {"sessionId": "c"}}));
    let asked = bench.take_client().remove(0);
    assert_eq!((&asked["method"], &asked["params"]), (&json!("_a/ask"), &json!({"sessionId": "c"})));
    bench.client(json!({"id": asked["id"], "error": {"code": 1, "message": "no"}}));
    assert_eq!(
        bench.take_agent(),
        [json!({"jsonrpc": "2.0", "id": 6, "error": {"code": 1, "message": "no"}})]
    );
    for side in [Side::Client, Side::Agent] {
        bench.say(side, json!({"method": "_a/news", "params": {"sessionId": "c", "k": [1]}}));
    }
    let news = json!({"jsonrpc": "2.0", "method": "_a/news", "params": {"sessionId": "c", "k": [1]}});
    assert_eq!((bench.take_agent(), bench.take_client()), (vec![news.clone()], vec![news]));
}

#[test]
fn children_of_a_version_1_agent_are_sessions_of_version_2() {
    let mut bench = Bench::v2_client();
    bench.client(json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}}));
    let hello = bench.take_agent().remove(0);
    assert_eq!(hello["params"]["clientCapabilities"]["subagents"], json!({}), "{hello}");
    bench.agent(json!({"id": hello["id"], "result": {"protocolVersion": 1, "agentCapabilities": {}}}));
    bench.open();
    bench.client(json!({"id": "p", "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "go"}]}}));
    let prompt = bench.take_agent().remove(0)["id"].clone();
    bench.take_client();
    let chunk = |text: &str| json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});

    bench.update(announced("c", "helper"));
    let told = bench.take_client();
    let news: Vec<&Value> = told.iter().map(|message| &message["params"]).collect();
    assert_eq!(news[0], &json!({"sessionId": "s", "update": announced("c", "helper")}));
    assert_eq!(news[1], &json!({"sessionId": "c", "update": state("running")}));
    // Messages of the sub-agent and of its parent have different ids.
    for (session, text) in [("s", "a"), ("c", "b"), ("s", "c"), ("c", "d")] {
        bench.agent(of(session, chunk(text)));
    }
    let told = bench.take_client();
    let ids: Vec<(&Value, &Value)> = told
        .iter()
        .map(|message| (&message["params"]["sessionId"], &message["params"]["update"]["messageId"]))
        .collect();
    assert_eq!((ids[0], ids[1]), (ids[2], ids[3]), "{told:?}");
    // The question belongs to the sub-agent, and so does the state.
    bench.agent(json!({"id": 9, "method": "session/request_permission", "params": {"sessionId": "c", "toolCall": {"toolCallId": "t", "title": "Run"},
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}}));
    let told = bench.take_client();
    assert_eq!(
        (&told[0]["method"], &told[0]["params"]["sessionId"]),
        (&json!("session/request_permission"), &json!("c"))
    );
    assert_eq!(told[1]["params"], json!({"sessionId": "c", "update": state("requires_action")}));
    bench.client(
        json!({"id": told[0]["id"], "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}}),
    );
    assert_eq!(bench.take_client()[0]["params"], json!({"sessionId": "c", "update": state("running")}));
    assert_eq!(bench.take_agent()[0]["id"], 9);
    // The client may cancel a single sub-agent.
    bench.client(json!({"method": "session/cancel", "params": {"sessionId": "c"}}));
    assert_eq!(bench.take_agent()[0]["params"]["sessionId"], "c");
    let over = json!({"state": "idle", "stopReason": "cancelled"});
    bench.update(json!({"sessionUpdate": "subagent_update", "sessionId": "c", "state": over}));
    let told = bench.take_client();
    assert_eq!(
        told[1]["params"],
        json!({"sessionId": "c", "update": {"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}})
    );
    // Cycles are forwarded unchanged and change no state.
    bench.update(announced("s", "itself"));
    bench.agent(of("c", announced("s", "its parent")));
    let sessions: Vec<Value> =
        bench.take_client().iter().map(|message| message["params"]["sessionId"].clone()).collect();
    assert_eq!(sessions, ["s", "c"]);
    // Work of sub-agents ends with the agent.
    bench.update(announced("d", "other"));
    bench.take_client();
    bench.bridge.agent_ended("gone", &[]);
    bench.collect();
    let ended: Vec<Value> =
        bench.take_client().iter().map(|message| message["params"]["sessionId"].clone()).collect();
    assert_eq!(ended, ["s", "d"]);
    assert_ne!(prompt, Value::Null);
}

#[test]
fn the_bridge_replays_children_for_agents_that_cannot() {
    let mut bench = Bench::v2_client();
    bench.client(json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}}));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"resume": {}}}}}));
    bench.open();
    bench.update(announced("c", "helper"));
    bench.agent(of(
        "c",
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "said by it"}}),
    ));
    bench.take_client();
    bench.client(json!({"id": 1, "method": "session/resume", "params": {"sessionId": "s", "cwd": "/w", "replayFrom": {"type": "start"}}}));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": id, "result": {}}));
    let told = bench.take_client();
    let kinds: Vec<(&Value, &Value)> = told
        .iter()
        .map(|message| (&message["params"]["sessionId"], &message["params"]["update"]["sessionUpdate"]))
        .collect();
    assert_eq!(kinds[0], (&json!("s"), &json!("subagent_update")), "{told:?}");
    assert_eq!(kinds[1], (&json!("c"), &json!("agent_message")), "{told:?}");
    assert_eq!(kinds[2], (&json!("c"), &json!("agent_message_chunk")), "{told:?}");
}

#[test]
fn sub_agents_pass_where_both_speak_version_2() {
    let mut bench = Bench::new(BridgeOptions::between(Version::V2, Version::V2));
    for message in [of("s", announced("c", "helper")), of("c", text("m", "hello"))] {
        bench.agent(message.clone());
        assert_eq!(bench.take_client()[0]["params"], message["params"]);
    }
}
