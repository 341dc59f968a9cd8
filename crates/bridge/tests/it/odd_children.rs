//! Invalid, too many or too large sub-agents: they are kept, shown or reported, but never under a session
//! that the client did not open.

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_bridge::{Bridge, BridgeOptions, Moment, Output, Severity, Side, Version};
use switchboard_session::MAX_SUBAGENTS;

use crate::children::{announced, at_work, calls, introduced, of, state, text};
use crate::support::Bench;

#[test]
fn updates_of_a_session_wait_until_its_parent_is_known() {
    let mut bench = at_work(json!({}));
    // A child of a child without an announced parent.
    bench.agent(of("g", text("m", "first")));
    bench.agent(of("c", announced("g", "below")));
    bench.agent(of("x", text("m", "never told of")));
    bench.agent(
        json!({"id": 4, "method": "session/request_permission", "params": {"sessionId": "x", "title": "Run",
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}}),
    );
    assert_eq!(bench.take_client(), Vec::<Value>::new());
    let refused = bench.take_agent().remove(0);
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(4), &json!(-32602)));
    bench.update(announced("c", "helper"));
    bench.bridge.finish();
    bench.collect();
    let calls = calls(&bench.take_client());
    assert_eq!(calls[0].1.text(), "Sub-agent 'below':\n\nfirst");
    let lost: Vec<&str> = bench
        .losses
        .iter()
        .filter(|loss| loss.session.as_deref() == Some("x"))
        .map(|loss| &*loss.message)
        .collect();
    assert_eq!(lost, ["session/request_permission", "agent_message_chunk"]);

    // Updates before the response that names the session.
    let mut bench = introduced(json!({}));
    bench.client(json!({"id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}));
    let id = bench.take_agent()[0]["id"].clone();
    bench.update(text("m", "early"));
    assert_eq!(bench.take_client(), Vec::<Value>::new());
    bench.agent(json!({"id": id, "result": {"sessionId": "s"}}));
    let told = bench.take_client();
    assert_eq!(told[0]["result"]["sessionId"], "s");
    assert_eq!(told[1]["params"]["update"]["content"]["text"], "early");
}

#[test]
fn circles_and_second_parents_are_reported() {
    let mut bench = at_work(json!({}));
    bench.update(announced("c", "helper"));
    bench.agent(of("c", announced("s", "the root")));
    bench.agent(of("c", announced("c", "itself")));
    bench.agent(of("c", announced("d", "below")));
    bench.agent(of("d", announced("c", "its parent")));
    bench.update(announced("d", "of another"));
    let severe: Vec<&str> = bench
        .losses
        .iter()
        .filter(|loss| loss.message == "subagent_update" && loss.reason.starts_with("invalid sub-agent: "))
        .map(|loss| &*loss.reason)
        .collect();
    assert_eq!(severe.len(), 4, "{severe:?}");
    assert!(severe[0].contains("the client opened") && severe[1].contains("does not descend"), "{severe:?}");
    assert!(severe[2..].iter().all(|reason| reason.contains("the child of another already")), "{severe:?}");
    // The fault does not affect other sub-agents.
    bench.agent(of("d", text("m", "fine")));
    bench.bridge.finish();
    bench.collect();
    assert!(calls(&bench.take_client())[0].1.text().ends_with("Sub-agent 'below':\n\nfine"));
}

#[test]
fn a_thousand_children_are_shown_and_of_more_so_many_are_remembered() {
    let mut bench = at_work(json!({}));
    for number in 0..1000 {
        let id = format!("c{number}");
        bench.update(announced(&id, &id));
        bench.agent(of(&id, text("m", &format!("said by {id}."))));
    }
    let shown = calls(&bench.take_client());
    assert_eq!(shown.len(), 1000);
    for (number, (_, call)) in shown.iter().enumerate() {
        assert_eq!(call.text(), format!("said by c{number}."));
    }
    assert_eq!(bench.losses.iter().filter(|loss| loss.severity == Severity::Major).count(), 0);
    for number in 1000..MAX_SUBAGENTS + 200 {
        let id = format!("c{number}");
        bench.update(announced(&id, &id));
        bench.take_client();
    }
    let remembered = bench.bridge.remembered();
    assert!(remembered.entries < 70_000, "{remembered:?}");
    assert!(
        bench
            .losses
            .iter()
            .any(|loss| loss.severity == Severity::Major && loss.reason.contains("more sub-agents"))
    );
}

#[test]
fn a_child_that_says_very_much_costs_little() {
    let mut bridge = Bridge::new(BridgeOptions::between(Version::V1, Version::V2));
    let (mut sent, mut last, mut now) = (0, String::new(), 0);
    let line = |session: &str, update: Value| {
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}).to_string()
    };
    let mut take = |bridge: &mut Bridge, line: &str| {
        now += 1;
        let _ = bridge.handle(Side::Agent, line, Moment(now));
        bridge.tick(Moment(now));
        for output in bridge.drain() {
            if let Output::Line { line, .. } = output {
                sent += line.len();
                last = line;
            }
        }
    };
    take(&mut bridge, &line("s", announced("c", "helper")));
    let piece = "x".repeat(500);
    for _ in 0..20_000 {
        take(&mut bridge, &line("c", text("m", &piece)));
    }
    assert!(bridge.remembered().bytes < 4 * 1024 * 1024, "{:?}", bridge.remembered());
    take(&mut bridge, &line("c", state("idle")));
    bridge.finish();
    let received = 20_000 * 600;
    assert!(sent < 10 * received, "{sent} bytes for {received}");
    assert!(
        last.contains(r#""status":"completed""#) && last.contains("bytes of its output are left out here]"),
        "{}",
        &last[last.len() - 300..]
    );
    assert_eq!(bridge.losses().entries().iter().filter(|loss| loss.severity == Severity::Major).count(), 1);
}

#[test]
fn all_that_is_below_a_child_has_room_in_one_call() {
    let mut bench = at_work(json!({}));
    bench.update(announced("c", "helper"));
    let much = "y".repeat(100_000);
    for number in 0..20 {
        let id = format!("g{number}");
        bench.agent(of("c", announced(&id, &id)));
        bench.agent(of(&id, text("m", &much)));
    }
    bench.bridge.finish();
    bench.collect();
    let shown = calls(&bench.take_client());
    let said = shown[0].1.text();
    assert!(said.len() < 1_100_000 && said.matches(&*much).count() >= 9, "{}", said.len());
    assert!(said.ends_with("bytes of its output are left out here]"), "{}", &said[said.len() - 80..]);
    let reported = bench.losses.iter().filter(|loss| loss.severity == Severity::Major).count();
    assert!(reported >= 10, "each of which not all is shown is reported: {reported}");
    // The bytes of the first sub-agents are freed when the client opens one of them itself.
    bench.client(json!({"id": 1, "method": "session/load", "params": {"sessionId": "c", "cwd": "/w", "mcpServers": []}}));
    bench.agent(of("c", text("m", "mine now")));
    let told = bench.take_client();
    assert_eq!(told.last().unwrap()["params"]["sessionId"], "c", "{told:?}");
}

#[test]
fn an_id_that_is_used_twice_is_two_things() {
    let mut bench = at_work(json!({}));
    // The agent has a call with the id that the bridge would create, and its child one with an id of the
    // parent.
    bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "bridge-subagent-1", "title": "the agent's"}));
    bench.update(announced("c", "helper"));
    bench.agent(of("c", json!({"sessionUpdate": "tool_call_update", "toolCallId": "bridge-subagent-1", "title": "the child's"})));
    bench.update(
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "bridge-subagent-2", "title": "too late"}),
    );
    let calls = calls(&bench.take_client());
    let titles: Vec<&str> = calls.iter().map(|(_, call)| &*call.title).collect();
    assert_eq!(titles, ["the agent's", "Sub-agent: helper", "too late"]);
    assert_eq!(calls[1].1.text(), "[pending] the child's");
    // Two pending questions with one id: the agent gets an error.
    let question = |title: &str| {
        json!({"id": 7, "method": "session/request_permission", "params": {"sessionId": "c", "title": title,
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}})
    };
    bench.agent(question("one"));
    bench.agent(question("two"));
    let asked: Vec<Value> = bench
        .take_client()
        .into_iter()
        .filter(|message| message["method"] == "session/request_permission")
        .collect();
    assert_eq!(asked.len(), 2);
    for question in asked {
        bench.client(json!({"id": question["id"], "result": {"outcome": {"outcome": "cancelled"}}}));
    }
    assert_eq!(bench.take_agent().len(), 2, "each has its answer");
}

#[test]
fn under_the_strict_policy_what_a_child_loses_ends_the_turn_of_its_root() {
    let options = BridgeOptions {
        policy: switchboard_bridge::LossPolicy::Strict,
        ..BridgeOptions::between(Version::V1, Version::V2)
    };
    let mut bench = Bench::new(options);
    bench.client(json!({"id": "p", "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}}));
    let id = bench.take_agent().pop().unwrap()["id"].clone();
    bench.agent(json!({"id": id, "result": {}}));
    bench.update(announced("c", "helper"));
    bench.agent(of("c", text("m", "plain text loses nothing")));
    assert!(!bench.take_client().iter().any(|message| message["id"] == "p"));
    bench.agent(of("c", json!({"sessionUpdate": "config_option_update", "configOptions": []})));
    let failed = bench.take_client().into_iter().find(|message| message["id"] == "p").expect("an answer");
    assert!(failed["error"]["message"].as_str().unwrap().contains("sub-agent"), "{failed}");
    assert_eq!(bench.take_agent()[0]["params"]["sessionId"], "s");
}

/// A random action of an agent in the session or in one of three sub-agents.
fn step() -> impl Strategy<Value = Value> {
    let session = prop::sample::select(vec!["s", "c0", "c1", "c2", "c3"]);
    let word = "[a-z]{1,6}";
    (session, 0..10u8, 0..4usize, word).prop_map(|(session, kind, child, word)| {
        let child = format!("c{child}");
        match kind {
            0 | 1 => of(session, announced(&child, &format!("title {word}"))),
            2 => of(session, state("idle")),
            3 => of(session, state("running")),
            4 => of(session, json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": word,
                "content": [{"type": "session", "sessionId": child}]})),
            5 => of(session, json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"})),
            6 => json!({"id": word, "method": "session/request_permission", "params": {"sessionId": session, "title": "Q",
                "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}}),
            7 => of(session, json!({"sessionUpdate": "config_option_update", "configOptions": []})),
            _ => of(session, text("m", &format!("<{word}>"))),
        }
    })
}

proptest! {
    #[test]
    fn any_updates_of_children_appear_only_in_the_clients_session_and_completely(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let mut bench = at_work(json!({}));
        let mut said = Vec::new();
        for step in &steps {
            if let Some(text) = step["params"]["update"]["content"]["text"].as_str() {
                said.push((step["params"]["sessionId"].as_str().unwrap().to_owned(), text.to_owned()));
            }
            bench.agent(step.clone());
        }
        bench.bridge.finish();
        bench.collect();
        let told = bench.take_client();
        // `calls` checks the session of every update.
        let calls = calls(&told);
        let shown: String = calls.iter().map(|(_, call)| call.text()).collect();
        let lost: Vec<_> = bench.losses.iter().filter(|loss| loss.message == "agent_message_chunk").collect();
        for (session, text) in said.iter().filter(|(session, _)| session != "s") {
            let is_lost = lost.iter().any(|loss| loss.session.as_deref() == Some(session) && loss.reason.contains(&**text));
            prop_assert!(shown.contains(&**text) || is_lost, "{} of {} is neither shown nor reported: {}", text, session, shown);
        }
        // Every question was asked or refused.
        let asked = told.iter().filter(|message| message["method"] == "session/request_permission").count();
        let refused = bench.take_agent().iter().filter(|message| message.get("error").is_some()).count();
        let questions = steps.iter().filter(|step| step["method"] == "session/request_permission").count();
        prop_assert_eq!(asked + refused, questions);
    }
}
