//! `switchboard run` with sub-agents: those of the demo agent, and misbehaving ones.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::agent_program::Place;
use crate::interop::SWITCHBOARD;
use crate::program::Run;

/// Removes durations from the output.
fn without_times(text: &str) -> String {
    let line = |line: &str| match line
        .rfind(", ")
        .filter(|_| [" s)", " ms)", " µs)"].iter().any(|unit| line.ends_with(unit)))
    {
        Some(place) => format!("{})", &line[..place]),
        None => line.to_owned(),
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

const SHOWN: &str = "\
… Ask an explorer (in_progress)
  ⤷ Explorer (Looks for the tests): at work
    ← Find the tests.
⤷ Writer: at work
  ← Write down what is found.
  ⤷ Explorer (Looks for the tests)
    I look in every folder.
⤷ Writer
  I sharpen my pencil.
  ⤷ Explorer (Looks for the tests)
    ✓ Search for tests (completed)
      tests/it/main.rs
      tests/readers/mod.rs
⤷ Writer
  ✓ Write notes.txt (completed)
    2 lines
  ⤷ Checker of Writer: at work
    ← Check the notes.
    ✓ Read notes.txt (completed)
      2 lines
    Both lines are there.
  ⤷ Checker of Writer: done
  ⤷ Explorer (Looks for the tests)
    → The tests are in tests/.
  ⤷ Explorer (Looks for the tests): done
⤷ Writer
  → It is written down.
⤷ Writer: done
✓ Ask an explorer (completed)
  [session demo-1.subagent-3]
Both are done.
";

#[test]
fn sub_agents_stand_below_the_call_or_the_line_that_started_them() {
    let run = Place::new().demo("subagents", &["--approve-all"]);
    assert_eq!((run.code, &*without_times(&run.stdout)), (0, SHOWN), "{}", run.stderr);
    let told = "switchboard: session demo-1 of Switchboard's demo agent
switchboard: allowed: Look into every folder? (asked by sub-agent \"Explorer (Looks for the tests)\")
switchboard: allowed: Write notes.txt? (asked by sub-agent \"Writer\")
";
    assert_eq!(run.stderr, told);
}

#[test]
fn policies_say_whose_question_they_answer() {
    let place = Place::new();
    let run = place.demo("subagents", &["--approve-reads"]);
    assert_eq!(run.code, 5, "{}", run.stderr);
    assert!(
        run.stderr.contains("allowed: Look into every folder? (asked by sub-agent \"Explorer"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("denied: Write notes.txt? (asked by sub-agent \"Writer\")"),
        "{}",
        run.stderr
    );
    assert!(run.stdout.contains("→ I may not write.") && !run.stdout.contains("Checker"), "{}", run.stdout);
}

#[test]
fn json_has_every_update_of_every_session_with_its_id() {
    let place = Place::new();
    let run = place.demo("subagents background", &["--format", "json", "--approve-all", "--record"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let sent = place.recorded().into_iter().map(|mut line| line["msg"].take());
    let sent: Vec<Value> = sent
        .filter(|message| message["method"] == "session/update")
        .map(|mut message| message["params"].take())
        .collect();
    assert_eq!(run.json_lines(), sent);
    let ids: BTreeSet<String> =
        sent.iter().map(|params| params["sessionId"].as_str().unwrap().to_owned()).collect();
    let expected = ["demo-1", "demo-1.subagent-3", "demo-1.subagent-5", "demo-1.subagent-5.subagent-4"]
        .map(str::to_owned);
    assert_eq!(ids, BTreeSet::from(expected));
    // All of them have finished.
    let idle = run.updates().iter().filter(|update| update["stopReason"] == "end_turn").count();
    assert_eq!(idle, 4, "{}", run.stdout);
}

#[test]
fn background_sub_agents_are_waited_for() {
    let place = Place::new();
    let run = place.demo("subagents background", &["--approve-all"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let waiting = "the turn is over; waiting for Explorer (Looks for the tests), Writer";
    assert!(run.stderr.contains(waiting), "{}", run.stderr);
    for words in
        ["Both are at work", "Both lines are there.", "⤷ Writer: done", "(Looks for the tests): done"]
    {
        assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
    }
}

// ----- agents in a few lines of shell

/// Returns an agent that answers the handshake and `session/new`, and answers the prompt with the content of
/// a file, followed by the command `after`.
fn agent(place: &Place, lines: &[Value], after: &str) -> Vec<String> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    place.write("work/lines", &text);
    let script = format!(
        r#"id() {{ printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/'; }}
        answer() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$(id)" "$1"; }}
        while read -r line; do case "$line" in
            *'"initialize"'*) answer '{{"protocolVersion":2,"info":{{"name":"odd","version":"1"}}}}';;
            *'"session/new"'*) answer '{{"sessionId":"root"}}';;
            *'"session/prompt"'*) answer '{{"messageId":"u"}}'; cat lines; {after};;
        esac; done"#
    );
    ["--", "sh", "-c", &script].map(str::to_owned).into()
}

fn update(session: &str, update: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})
}

fn subagent(parent: &str, child: &str, mut rest: Value) -> Value {
    rest["sessionUpdate"] = "subagent_update".into();
    rest["sessionId"] = child.into();
    update(parent, rest)
}

fn say(session: &str, text: &str) -> Value {
    let content = json!({"type": "text", "text": text});
    update(session, json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content}))
}

fn state(session: &str, state: &str) -> Value {
    update(session, json!({"sessionUpdate": "state_update", "state": state}))
}

fn ask(session: &str, id: u64, title: &str) -> Value {
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]);
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission",
        "params": {"sessionId": session, "title": title, "options": options}})
}

fn run(place: &Place, more: &[&str], lines: &[Value], after: &str) -> Run {
    let agent = agent(place, lines, after);
    let agent: Vec<&str> = agent.iter().map(String::as_str).collect();
    place.run(&[&["run", "go"], more, &agent].concat())
}

#[test]
fn a_session_of_nobody_is_shown_and_named_by_its_id() {
    let lines = [
        state("root", "running"),
        say("stranger", "I belong to nobody."),
        subagent("stranger", "child", json!({"title": "Child"})),
        say("child", "Nor do I."),
        ask("child", 7, "May I?"),
        say("root", "All said."),
        state("root", "idle"),
    ];
    let run = run(&Place::new(), &["--approve-all"], &lines, "");
    let shown = "⤷ Child of session stranger\n  ⤷ session stranger\n";
    assert_eq!(run.code, 0, "{}", run.stderr);
    for words in [
        "⤷ session stranger\n  I belong to nobody.\n",
        "⤷ Child of session stranger\n",
        "  Nor do I.\n",
        "All said.\n",
    ] {
        assert!(run.stdout.contains(words), "{words}: {}{shown}", run.stdout);
    }
    let asked = "allowed: May I? (asked by sub-agent \"Child\" of session stranger)";
    assert!(run.stderr.contains(asked), "{}", run.stderr);
}

#[test]
fn circles_second_parents_and_ids_used_twice_are_told_and_nothing_is_lost() {
    let lines = [
        state("root", "running"),
        subagent("root", "a", json!({"title": "A", "state": {"state": "running"}})),
        subagent("a", "root", json!({"title": "Its own ancestor"})),
        subagent("a", "a", json!({"title": "Itself"})),
        subagent("a", "b", json!({"title": "B"})),
        subagent("root", "b", json!({"title": "Another B"})),
        say("b", "Still of A."),
        // A sub-agent of the root has the id of the root.
        subagent("root", "root", json!({"title": "Twice"})),
        say("a", "I am A."),
        subagent("root", "a", json!({"state": {"state": "idle"}})),
        ask("a", 3, "After the end?"),
        say("a", "\nI go on."),
        state("root", "idle"),
    ];
    let run = run(&Place::new(), &["--approve-all"], &lines, "");
    assert_eq!(run.code, 0, "{}", run.stderr);
    for words in ["⤷ A: at work", "  ⤷ B of A\n    Still of A.\n", "  I am A.\n", "⤷ A: done", "  I go on.\n"]
    {
        assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
    }
    assert!(run.stderr.contains("allowed: After the end? (asked by sub-agent \"A\")"), "{}", run.stderr);
    assert_eq!(run.stderr.matches("invalid sub-agent: ").count(), 4, "{}", run.stderr);
}

#[test]
fn a_thousand_sub_agents_are_shown_each_with_its_words() {
    let mut lines = vec![state("root", "running")];
    let id = |number: usize| format!("c{number}");
    for number in 0..1000 {
        lines.push(subagent("root", &id(number), json!({"title": "Same", "state": {"state": "running"}})));
    }
    for round in 0..2 {
        lines.extend((0..1000).map(|number| say(&id(number), &format!("words {round} of {number}\n"))));
    }
    lines.push(state("root", "idle"));
    lines.extend((0..1000).map(|number| state(&id(number), "idle")));
    let run = run(&Place::new(), &[], &lines, "");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stdout.matches("  words 1 of ").count(), 1000);
    assert!(run.stdout.contains("⤷ Same #1000\n  words 0 of 999\n"), "{}", run.stdout);
    assert_eq!(run.stdout.matches(": done\n").count(), 1000);
    assert!(run.stderr.contains("waiting for Same, Same #2, Same #3, Same #4, Same #5"), "{}", run.stderr);
}

#[test]
fn a_sub_agent_whose_end_is_never_told_is_ended_by_the_time_limit_or_with_the_agent() {
    let running = |capabilities: Value| json!({"title": "A", "state": {"state": "running"}, "capabilities": capabilities});
    let lines = [
        state("root", "running"),
        subagent("root", "a", running(json!({"cancel": {}}))),
        subagent("root", "b", running(json!({}))),
        state("root", "idle"),
    ];
    let place = Place::new();
    let limited = run(&place, &["--timeout", "2s", "--record"], &lines, "");
    assert_eq!(limited.code, 3, "{}", limited.stderr);
    assert!(limited.stderr.contains("waiting for A, A #2\n"), "{}", limited.stderr);
    let sent: Vec<Value> = place.recorded().into_iter().map(|mut line| line["msg"].take()).collect();
    let cancelled = |session: &str| {
        sent.iter()
            .any(|message| message["method"] == "session/cancel" && message["params"]["sessionId"] == session)
    };
    // The other one does not support cancellation by a client.
    assert!(cancelled("root") && cancelled("a") && !cancelled("b"));
    // The prompt was answered, so the exit of the agent is not a failure.
    let gone = run(&Place::new(), &[], &lines, "exit 0");
    assert_eq!(gone.code, 0, "{}", gone.stderr);
}

#[test]
fn a_sub_agent_that_outlives_its_call_goes_on_below_the_same_name() {
    let content = json!([{"type": "session", "sessionId": "a"}]);
    let call = |status: &str| {
        let content = content.clone();
        update(
            "root",
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Delegate", "status": status, "content": content}),
        )
    };
    let lines = [
        state("root", "running"),
        call("in_progress"),
        subagent("root", "a", json!({"title": "A", "state": {"state": "running"}})),
        call("completed"),
        say("a", "Without my call."),
        state("root", "idle"),
        state("a", "idle"),
    ];
    let run = run(&Place::new(), &[], &lines, "");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let shown = "… Delegate (in_progress)\n  ⤷ A: at work\n✓ Delegate (completed)\n  [session a]\n  ⤷ A\n    Without my call.\n  ⤷ A: done\n";
    assert_eq!(without_times(&run.stdout), shown);
}

#[test]
fn tokens_are_told_where_the_agent_tells_them() {
    let usage = json!({"totalTokens": 30, "inputTokens": 20, "outputTokens": 10});
    let lines = [
        state("root", "running"),
        update(
            "root",
            json!({"sessionUpdate": "usage_update", "used": 5, "size": 100, "cost": {"amount": 0.5, "currency": "EUR"}}),
        ),
        update(
            "root",
            json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn", "usage": usage}),
        ),
    ];
    let run = run(&Place::new(), &[], &lines, "");
    let told = "30 tokens used (20 in, 10 out), context 5 of 100 tokens, cost 0.5 EUR";
    assert!(run.stderr.contains(told), "{}", run.stderr);
}

#[test]
fn a_copy_goes_on_where_its_original_stays() {
    let place = Place::new();
    let demo = ["--", SWITCHBOARD, "demo-agent", "--store", "kept"];
    let first = place.run(&[&["run", "hello"], &demo[..]].concat());
    assert_eq!(first.code, 0, "{}", first.stderr);
    let copy = place.run(&[&["run", "and on", "--fork", "demo-1"], &demo[..]].concat());
    assert_eq!((copy.code, &*copy.stdout), (0, "You said: and on\n"), "{}", copy.stderr);
    assert!(copy.stderr.contains("session demo-2 of"), "{}", copy.stderr);
    let kept = |name: &str| std::fs::read_to_string(place.work().join("kept").join(name)).unwrap();
    assert!(kept("demo-2.jsonl").contains("\"hello\"") && kept("demo-2.jsonl").contains("and on"));
    assert!(!kept("demo-1.jsonl").contains("and on"));
    let missing = place.run(&[&["run", "x", "--fork", "demo-9"], &demo[..]].concat());
    assert_eq!(missing.code, 4);
    assert!(missing.stderr.contains("the agent refused a copy of the session"), "{}", missing.stderr);
    let unable = run(&place, &["--fork", "s"], &[], "");
    assert_eq!(unable.code, 4);
    assert!(unable.stderr.contains("odd cannot fork sessions"), "{}", unable.stderr);
}

#[test]
fn the_loss_of_a_login_is_told_with_what_to_do() {
    let place = Place::new();
    let script = r#"answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')" "$1"; }
        while read -r line; do case "$line" in
            *'"initialize"'*) answer '"result":{"protocolVersion":2,"info":{"name":"shy","version":"1"},"authMethods":[{"type":"agent","methodId":"key","name":"A key"}]}';;
            *'"auth/login"'*) logged=yes; answer '"result":{}';;
            *'"session/new"'*) answer '"result":{"sessionId":"s"}';;
            *'"session/prompt"'*) if [ "$logged" ]; then answer '"result":{}'
                printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}}}\n'
                else printf '{"jsonrpc":"2.0","method":"auth/status_update","params":{"state":"unauthenticated"}}\n'
                answer '"error":{"code":-32000,"message":"log in first"}'; fi;;
        esac; done"#;
    let agent = ["--", "sh", "-c", script];
    let lost = place.run(&[&["run", "go"], &agent[..]].concat());
    assert_eq!(lost.code, 1, "{}", lost.stderr);
    for words in [
        "the agent reports that you are not logged in",
        "the agent refused the prompt",
        "A key (--login key)",
    ] {
        assert!(lost.stderr.contains(words), "{words}: {}", lost.stderr);
    }
    let logged_in = place.run(&[&["run", "go", "--login", "key"], &agent[..]].concat());
    assert_eq!(logged_in.code, 0, "{}", logged_in.stderr);
    let wrong = place.run(&[&["run", "go", "--login", "door"], &agent[..]].concat());
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("shy has no login method \"door\""), "{}", wrong.stderr);
}
