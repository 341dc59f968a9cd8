//! Tool calls in both directions.

use serde_json::{Value, json};
use switchboard_bridge::{
    Bridge, BridgeOptions, FileAtHand, Host, LossPolicy, Moment, Output, Side, Version,
};

use crate::support::Bench;

fn chunk(text: &str) -> Value {
    json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c",
           "content": {"type": "content", "content": {"type": "text", "text": text}}})
}

fn text_of(content: &Value) -> String {
    let items = content.as_array().unwrap();
    items.iter().map(|item| item["content"]["text"].as_str().unwrap()).collect()
}

/// Sends 20,000 chunks of 512 bytes at an interval. Returns the bytes that the client got, and the last
/// content.
fn stream(apart: u64) -> (usize, usize, String) {
    let mut bridge = Bridge::new(BridgeOptions::between(Version::V1, Version::V2));
    let (mut sent, mut received, mut last) = (0, 0, String::new());
    let mut take = |bridge: &mut Bridge| {
        for output in bridge.drain() {
            if let Output::Line { to: Side::Client, line } = output {
                sent += line.len();
                if line.contains("\"content\":") {
                    last = line;
                }
            }
        }
    };
    for number in 0..20_000u64 {
        let text = format!("{number:0>511}\n");
        received += text.len();
        let message = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": chunk(&text)}});
        let now = Moment::default().after(number * apart);
        let _ = bridge.handle(Side::Agent, &message.to_string(), now);
        while let Some(due) = bridge.next_deadline().filter(|due| *due <= now.after(apart)) {
            bridge.tick(due);
            take(&mut bridge);
        }
        take(&mut bridge);
    }
    let end = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {
        "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}}});
    let _ = bridge.handle(Side::Agent, &end.to_string(), Moment::default().after(20_000 * apart));
    take(&mut bridge);
    let line: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(line["params"]["update"]["status"], "completed");
    (sent, received, text_of(&line["params"]["update"]["content"]))
}

#[test]
fn streamed_output_costs_a_client_of_version_1_at_most_20_times_its_size() {
    for apart in [0, 1, 5] {
        let (sent, received, text) = stream(apart);
        println!("{apart} ms apart: {sent} bytes for {received}, {:.1} times", sent as f64 / received as f64);
        assert!(sent <= 20 * received, "{sent} for {received}");
        assert_eq!(text.len(), received);
        assert!(text.ends_with("19999\n"));
    }
}

#[test]
fn output_that_a_version_1_agent_repeats_is_appended() {
    let mut bench = Bench::v2_client();
    bench.update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Run", "kind": "execute"}));
    bench.take_updates();
    let mut output = String::new();
    let mut sent = 0;
    for number in 0..200 {
        let line = format!("line {number} of the output, some more words to fill it\n");
        output.push_str(&line);
        let content = json!([{"type": "content", "content": {"type": "text", "text": output}}]);
        bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": content}));
        let updates = bench.take_updates();
        assert_eq!(updates.len(), 1);
        sent += updates[0].to_string().len();
        if number > 0 {
            assert_eq!(updates[0], chunk(&line));
        }
    }
    assert!(sent < 10 * output.len(), "{sent} for {}", output.len());
    let content = json!([{"type": "content", "content": {"type": "text", "text": output}}]);
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "content": content}));
    assert_eq!(
        bench.take_updates(),
        [json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"})]
    );
    let other = json!([{"type": "content", "content": {"type": "text", "text": "something else"}}]);
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": other}));
    assert_eq!(bench.take_updates()[0]["content"], other);
}

#[test]
fn clears_reset_what_version_1_can_say_and_are_reported_where_it_cannot() {
    let mut bench = Bench::v1_client();
    bench.update(
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Read", "kind": "read",
        "status": "completed", "rawInput": {"a": 1}, "content": [], "locations": [{"path": "/w/a"}]}),
    );
    bench.take_updates();
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": null, "kind": null,
        "status": null, "rawInput": null, "content": null, "locations": null, "_meta": null}));
    assert_eq!(
        bench.take_updates(),
        [
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Tool call", "kind": "other",
                "status": "pending", "content": [], "locations": []})
        ]
    );
    assert_eq!(bench.lost(), ["tool_call_update _meta", "tool_call_update rawInput"]);
}

#[test]
fn a_call_that_a_version_1_agent_announces_again_is_told_in_full() {
    let mut bench = Bench::v2_client();
    let content = json!([{"type": "content", "content": {"type": "text", "text": "a"}}]);
    bench.update(
        json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read", "status": "completed",
        "content": content, "rawInput": 1}),
    );
    bench.update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Again"}));
    assert_eq!(
        bench.take_updates()[1],
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Again", "kind": "other",
               "status": "pending", "content": [], "locations": [], "rawInput": null, "rawOutput": null})
    );
}

#[test]
fn unknown_things_stand_as_words_with_the_payload_beside() {
    let mut bench = Bench::v1_client();
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "T", "kind": "_dance",
        "content": [{"type": "_chart", "points": [1.50]}, {"type": "content", "content": {"type": "_video", "url": "x"}}]}));
    let update = &bench.take_updates()[0];
    assert_eq!(update["kind"], "other");
    assert_eq!(update["_meta"]["acp.v2/kind"], "_dance");
    assert_eq!(update["content"][0]["content"]["text"], "[unsupported tool content: _chart]");
    let payload = &update["content"][0]["content"]["_meta"]["acp.v2/content"];
    assert_eq!(payload, &json!({"type": "_chart", "points": [1.5]}));
    assert_eq!(update["content"][1]["content"]["text"], "[unsupported content: _video]");
    assert_eq!(bench.lost().len(), 3);
}

#[test]
fn terminals_of_the_agent_are_text_in_version_1() {
    let mut bench = Bench::v1_client();
    bench
        .update(json!({"sessionUpdate": "terminal_update", "terminalId": "t", "command": "ls", "cwd": "/w"}));
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "ls",
        "content": [{"type": "terminal", "terminalId": "t"}]}));
    // "\x1b[1ma\x1b[0m\n"
    bench.update(
        json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "G1sxbWEbWzBtCg=="}),
    );
    bench.update(
        json!({"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": 2}}),
    );
    let updates = bench.take_updates();
    let last = updates.last().unwrap();
    assert_eq!(text_of(&last["content"]), "```console\na\n```\n\n[exit code 2]");
    assert!(updates.iter().all(|update| !update.to_string().contains("terminal")), "{updates:?}");
    assert_eq!(
        bench.lost(),
        ["terminal_update command", "terminal_update cwd", "tool_call_update content[0]"]
    );
}

#[test]
fn terminal_output_for_version_1_is_a_code_block_that_the_output_cannot_end() {
    let output = |bytes: &str| {
        let mut bench = Bench::v1_client();
        bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "ls",
            "content": [{"type": "terminal", "terminalId": "t"}]}));
        bench
            .update(json!({"sessionUpdate": "terminal_update", "terminalId": "t", "output": {"data": bytes},
            "exitStatus": {"exitCode": 0}}));
        text_of(&bench.take_updates().last().unwrap()["content"])
    };
    // "# no heading"
    assert_eq!(output("IyBubyBoZWFkaW5n"), "```console\n# no heading\n```");
    // "```\n````x\n"
    assert_eq!(output("YGBgCmBgYGB4Cg=="), "`````console\n```\n````x\n`````");
    assert_eq!(output(""), "", "no output, no block");
}

#[test]
fn a_permission_request_for_version_1_shows_the_diff_first_and_repeats_kind_and_locations() {
    let diff = json!({"type": "diff", "changes": [{"operation": "add", "path": "/w/a"}],
        "patch": {"format": "git_patch", "text": "diff --git a/w/a b/w/a\nnew file mode 100644\n--- /dev/null\n+++ b/w/a\n@@ -0,0 +1 @@\n+x\n"}});
    let words = json!({"type": "content", "content": {"type": "text", "text": "words"}});
    let locations = json!([{"path": "/w/a", "line": 3}]);
    let items = |content: &Value| {
        let kind = |item: &Value| match item["type"].as_str() {
            Some("diff") => "diff".to_owned(),
            _ => item["content"]["text"].as_str().unwrap().to_owned(),
        };
        content.as_array().unwrap().iter().map(kind).collect::<Vec<_>>()
    };
    for (announced, subject, description, asked_items, is_restored) in [
        // The request repeats the content, as Claude Code does, or does not, as Codex does.
        (json!([words, diff]), json!([words, diff]), Some("why"), vec!["diff", "why", "words"], true),
        (json!([words, diff]), Value::Null, Some("why"), vec!["diff", "why", "words"], true),
        (json!([words, diff]), Value::Null, None, vec!["diff", "words"], true),
        (json!([diff, words]), Value::Null, None, vec!["diff", "words"], false),
    ] {
        let mut bench = Bench::v1_client();
        bench.update(
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Edit a", "kind": "edit",
            "locations": locations, "content": announced}),
        );
        let before = items(&bench.take_updates().last().unwrap()["content"]);
        let mut call = json!({"toolCallId": "c", "title": "Edit a"});
        if subject.is_array() {
            call["content"] = subject;
        }
        bench.agent(json!({"id": 5, "method": "session/request_permission", "params": {"sessionId": "s", "title": "Edit a",
            "description": description, "subject": {"type": "tool_call", "toolCall": call},
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
        let asked = bench.take_client().pop().unwrap();
        let call = &asked["params"]["toolCall"];
        assert_eq!(items(&call["content"]), asked_items);
        assert_eq!((&call["kind"], &call["locations"]), (&json!("edit"), &locations));
        let answer = json!({"outcome": {"outcome": "selected", "optionId": "y"}});
        bench.client(json!({"id": asked["id"], "result": answer}));
        let after = bench.take_updates();
        assert_eq!(after.iter().any(|update| update.get("content").is_some()), is_restored, "{after:?}");
        if is_restored {
            assert_eq!(items(&after.last().unwrap()["content"]), before, "the agent's own order is back");
        }
    }
}

#[test]
fn a_question_of_a_child_shows_its_diff_first() {
    let mut bench = Bench::v1_client();
    bench.update(json!({"sessionUpdate": "state_update", "state": "running"}));
    bench.update(
        json!({"sessionUpdate": "subagent_update", "sessionId": "c", "title": "helper", "status": "running"}),
    );
    let diff = json!({"type": "diff", "changes": [{"operation": "add", "path": "/w/a"}],
        "patch": {"format": "git_patch", "text": "diff --git a/w/a b/w/a\nnew file mode 100644\n--- /dev/null\n+++ b/w/a\n@@ -0,0 +1 @@\n+x\n"}});
    bench.agent(json!({"id": 7, "method": "session/request_permission", "params": {"sessionId": "c", "title": "Edit a",
        "description": "why", "subject": {"type": "tool_call", "toolCall": {"toolCallId": "t", "title": "Edit a", "kind": "edit",
            "locations": [{"path": "/w/a"}], "content": [diff]}},
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}}));
    let told = bench.take_client();
    let asked = told.iter().find(|message| message["method"] == "session/request_permission").unwrap();
    let call = &asked["params"]["toolCall"];
    assert_eq!(
        (&call["content"][0]["type"], &call["content"][1]["content"]["text"]),
        (&json!("diff"), &json!("why"))
    );
    assert_eq!((&call["kind"], &call["locations"]), (&json!("edit"), &json!([{"path": "/w/a"}])));
}

#[test]
fn terminals_that_a_version_1_agent_runs_by_itself_are_terminals_in_version_2() {
    let mut bench = Bench::v2_client();
    bench.update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls",
        "content": [{"type": "terminal", "terminalId": "t"}],
        "_meta": {"terminal_info": {"terminal_id": "t", "cwd": "/w"}, "other": 1}}));
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed",
        "_meta": {"terminal_output_delta": {"terminal_id": "t", "data": "a\n"},
                  "terminal_exit": {"terminal_id": "t", "exit_code": 0, "signal": null}}}));
    let updates = bench.take_updates();
    let kinds: Vec<_> = updates.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "terminal_update",
            "tool_call_update",
            "tool_call_update",
            "terminal_output_chunk",
            "terminal_update"
        ]
    );
    assert_eq!(updates[1]["content"], json!([{"type": "terminal", "terminalId": "t"}]));
    assert_eq!(updates[1]["_meta"], json!({"other": 1}));
    assert_eq!(updates[0]["cwd"], "/w");
    assert_eq!(updates[3]["data"], "YQo=");
    assert_eq!(updates[4]["exitStatus"], json!({"exitCode": 0}));
}

struct OneFile;

impl Host for OneFile {
    fn file(&mut self, path: &str, _: &[String]) -> FileAtHand<'static> {
        assert_eq!(path, "/w/a");
        FileAtHand::Content(b"one\ntwo\nthree\nfour\n".to_vec().into())
    }
}

#[test]
fn diffs_are_completed_from_the_file_at_hand() {
    let patch = "diff --git /w/a /w/a\n--- /w/a\n+++ /w/a\n@@ -2,2 +2,2 @@\n-2\n+two\n three\n";
    let update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Edit", "content": [
        {"type": "diff", "changes": [{"operation": "modify", "path": "/w/a"}],
         "patch": {"format": "git_patch", "diff": patch}}]});
    let options = BridgeOptions::between(Version::V1, Version::V2);
    let mut bench = Bench::of(Bridge::with_host(options, Box::new(OneFile)));
    bench.client(json!({"id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": id, "result": {"sessionId": "s"}}));
    bench.take_client();
    bench.update(update);
    assert_eq!(
        bench.take_updates()[0]["content"],
        json!([{"type": "diff", "path": "/w/a", "oldText": "one\n2\nthree\nfour\n",
                "newText": "one\ntwo\nthree\nfour\n"}])
    );

    let options = BridgeOptions::between(Version::V2, Version::V1);
    let mut bench = Bench::of(Bridge::with_host(options, Box::new(OneFile)));
    bench.client(json!({"id": 1, "method": "session/new", "params": {"cwd": "/w"}}));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": id, "result": {"sessionId": "s"}}));
    bench.take_client();
    bench.update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Edit", "content": [
        {"type": "diff", "path": "/w/a", "oldText": "2", "newText": "two"}]}));
    let item = bench.take_updates()[0]["content"][0].clone();
    assert_eq!(item["changes"][0]["operation"], "modify");
    assert!(item["patch"]["text"].as_str().unwrap().contains("@@ -1,4 +1,4 @@\n one\n-2\n+two\n"), "{item}");
    assert_eq!(item["patch"]["text"], item["patch"]["diff"]);
}

#[test]
fn inexpressible_parts_of_a_diff_become_text() {
    let mut bench = Bench::v1_client();
    bench.update(
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Edit", "content": [
        {"type": "diff", "changes": [{"operation": "move", "oldPath": "/w/a", "path": "/w/b"},
                                     {"operation": "modify", "path": "/w/l.png", "fileType": "binary"}]}]}),
    );
    let content = bench.take_updates()[0]["content"].clone();
    assert_eq!(content[0]["content"]["text"], "Moved file /w/a to /w/b");
    assert_eq!(content[1]["content"]["text"], "Modified binary file /w/l.png");
    assert_eq!(bench.lost(), ["tool_call_update content[0]"]);
}

#[test]
fn the_words_of_a_prompt_are_put_into_the_call_and_taken_back() {
    let mut bench = Bench::v1_client();
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Write conf.json",
        "content": [{"type": "content", "content": {"type": "text", "text": "draft"}}]}));
    bench.take_updates();
    bench.agent(json!({"id": 5, "method": "session/request_permission", "params": {"sessionId": "s",
        "title": "May I?", "description": "It turns debug on",
        "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c", "status": "pending"}},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"},
                    {"optionId": "z", "name": "Odd", "kind": "_odd"}]}}));
    let asked = bench.take_client().remove(0);
    assert_eq!(
        asked["params"],
        json!({"sessionId": "s", "toolCall": {"toolCallId": "c", "title": "May I?", "status": "pending",
               "content": [{"type": "content", "content": {"type": "text", "text": "It turns debug on"},
                            "_meta": {"acp.v2/description": true}},
                           {"type": "content", "content": {"type": "text", "text": "draft"}}]},
               "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]})
    );
    bench.client(json!({"id": asked["id"], "result": {"outcome": {"outcome": "selected", "optionId": "z"}}}));
    assert_eq!(
        bench.take_agent(),
        [json!({"jsonrpc": "2.0", "id": 5, "result": {"outcome": {"outcome": "cancelled"}}})],
        "an option that was not offered is no approval"
    );
    assert_eq!(
        bench.take_updates(),
        [json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Write conf.json",
                "content": [{"type": "content", "content": {"type": "text", "text": "draft"}}]})]
    );
}

#[test]
fn a_call_that_was_only_asked_about_is_announced_afterwards() {
    let mut bench = Bench::v1_client();
    bench.agent(json!({"id": 5, "method": "session/request_permission", "params": {"sessionId": "s",
        "title": "Run?", "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c", "title": "make", "kind": "execute"}},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
    let asked = bench.take_client().remove(0);
    assert_eq!(asked["params"]["toolCall"], json!({"toolCallId": "c", "title": "Run?", "kind": "execute"}));
    bench.client(json!({"id": asked["id"], "result": {"outcome": {"outcome": "selected", "optionId": "y"}}}));
    assert_eq!(
        bench.take_updates(),
        [json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "make", "kind": "execute"})]
    );
}

#[test]
fn all_that_was_asked_about_a_call_is_in_its_announcement() {
    let call = |number: u32, kind: &str| {
        json!({"toolCallId": "c", "title": "make", "name": format!("name {number}"), "kind": kind, "status": "in_progress",
            "locations": [{"path": format!("/w/{number}")}], "rawInput": number, "rawOutput": [number]})
    };
    let mut first = call(1, "execute");
    (first["_meta"], first["key"]) = (json!({"a": 1}), json!(1));
    let reference = json!({"toolCallId": "c", "_meta": {"b": 2}, "other": 2});
    let (mut whole, mut last) = (first.clone(), call(2, "read"));
    (whole["_meta"], whole["other"]) = (json!({"a": 1, "b": 2}), json!(2));
    last["status"] = json!("completed");
    for (questions, announced) in
        [([&first, &reference], &whole), ([&json!({"toolCallId": "c", "name": "x"}), &last], &last)]
    {
        let mut bench = Bench::v1_client();
        for call in questions {
            bench.agent(json!({"id": 5, "method": "session/request_permission", "params": {"sessionId": "s", "title": "Run?",
                "subject": {"type": "tool_call", "toolCall": call},
                "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
        }
        let asked = bench.take_client();
        bench.client(
            json!({"id": asked[1]["id"], "result": {"outcome": {"outcome": "selected", "optionId": "y"}}}),
        );
        let mut announced = announced.clone();
        announced["sessionUpdate"] = json!("tool_call");
        assert_eq!(bench.take_updates(), [announced]);
        assert!(bench.lost().is_empty(), "{:?}", bench.lost());
    }
}

#[test]
fn two_questions_about_a_call_that_contradict_each_other_are_reported() {
    let mut bench = Bench::v1_client();
    for (id, value) in [(5, 1), (6, 2)] {
        bench.agent(json!({"id": id, "method": "session/request_permission", "params": {"sessionId": "s", "title": "Run?",
            "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c", "title": "t", "_meta": {"a": value}}},
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
    }
    let lost: Vec<_> = bench.losses.iter().map(|loss| (&*loss.message, &*loss.pointer)).collect();
    assert_eq!(lost, [("tool_call_update", "/params/update/_meta/a")]);
}

#[test]
fn metadata_of_a_terminal_in_a_call_moves_to_its_text() {
    let mut bench = Bench::v1_client();
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "ls",
        "content": [{"type": "terminal", "terminalId": "t", "_meta": {"a": 1}, "key": 2}]}));
    let item = bench.take_updates().remove(0)["content"][0].clone();
    assert_eq!((&item["_meta"], &item["key"]), (&json!({"a": 1}), &json!(2)), "{item}");
}

#[test]
fn a_question_about_a_command_shows_it() {
    let mut bench = Bench::v1_client();
    bench.agent(json!({"id": 5, "method": "session/request_permission", "params": {"sessionId": "s",
        "title": "Run?", "subject": {"type": "command", "command": "rm -r /w/build", "cwd": "/w"},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
    let call = bench.take_client().remove(0)["params"]["toolCall"].clone();
    assert_eq!(call["kind"], "execute");
    assert_eq!(call["content"][0]["content"]["text"], "rm -r /w/build\n\n(in /w)");
}

#[test]
fn the_title_of_a_version_1_question_is_kept_out_of_a_call_that_has_one() {
    let mut bench = Bench::v2_client();
    bench.update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Write conf.json"}));
    bench.take_updates();
    bench.agent(json!({"id": 5, "method": "session/request_permission", "params": {"sessionId": "s",
        "toolCall": {"toolCallId": "c", "title": "Allow writing?"},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
    let asked = bench.take_client();
    assert_eq!(asked[0]["params"]["title"], "Allow writing?");
    assert_eq!(asked[0]["params"]["subject"]["toolCall"], json!({"toolCallId": "c"}));
    assert_eq!(asked[1]["params"]["update"]["state"], "requires_action");
    bench.client(json!({"id": asked[0]["id"], "result": {"outcome": {"outcome": "_later"}}}));
    assert_eq!(bench.take_agent()[0]["result"], json!({"outcome": {"outcome": "cancelled"}}));
}

#[test]
fn the_quiet_policy_says_nothing_of_its_own() {
    let options =
        BridgeOptions { policy: LossPolicy::Quiet, ..BridgeOptions::between(Version::V1, Version::V2) };
    let mut bench = Bench::new(options);
    let message =
        |content: Value| json!({"sessionUpdate": "agent_message", "messageId": "m", "content": content});
    bench.update(message(json!([{"type": "text", "text": "a"}])));
    bench.update(message(json!([{"type": "text", "text": "b"}])));
    bench.update(message(Value::Null));
    let texts: Vec<_> = bench.take_updates().iter().map(|update| update["content"]["text"].clone()).collect();
    assert_eq!(texts, ["a", "b"]);
    assert_eq!(bench.lost(), ["agent_message content", "agent_message content"]);
}
