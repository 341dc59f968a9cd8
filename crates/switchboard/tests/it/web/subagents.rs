//! Sub-agents: inside the entry that started them, and by themselves.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchboard_browser::{ColorScheme, Page};

use super::opened::Opened;
use super::scripted_agent::{SESSION, heard};
use super::talk::{Talk, done, unfold};
use super::trust::{before, go};
use crate::agent_program::Place;

/// An update of any session.
pub(crate) fn update_of(session: &str, update: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": update } })
}

pub(crate) fn state(session: &str, state: &str) -> Value {
    update_of(session, &json!({ "sessionUpdate": "state_update", "state": state }))
}

/// What a session tells of a sub-agent that it has started.
pub(crate) fn told(parent: &str, child: &str, more: &Value) -> Value {
    let mut update = json!({ "sessionUpdate": "subagent_update", "sessionId": child });
    for (key, value) in more.as_object().unwrap() {
        update[key] = value.clone();
    }
    update_of(parent, &update)
}

pub(crate) fn started(parent: &str, child: &str, title: &str, about: &str) -> Value {
    let more = json!({ "title": title, "description": about, "state": { "state": "running" } });
    told(parent, child, &more)
}

pub(crate) fn finished(parent: &str, child: &str) -> Value {
    told(parent, child, &json!({ "state": { "state": "idle", "stopReason": "end_turn" } }))
}

pub(crate) fn says(session: &str, id: &str, text: &str) -> Value {
    let content = json!({ "type": "text", "text": text });
    update_of(
        session,
        &json!({ "sessionUpdate": "agent_message_chunk", "messageId": id, "content": content }),
    )
}

/// A tool call of a session.
pub(crate) fn works(session: &str, id: &str, more: &Value) -> Value {
    let mut update = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": id, "title": format!("Read {id}"), "kind": "read",
        "status": "in_progress", "rawInput": { "path": format!("/w/{id}") },
    });
    for (key, value) in more.as_object().unwrap() {
        update[key] = value.clone();
    }
    update_of(session, &update)
}

/// A question of a session about a call of its own. Its options are `yes-NUMBER` and `no-NUMBER`.
pub(crate) fn asks(session: &str, number: u64, call: &str) -> Value {
    let option = |name: &str, kind: &str| json!({ "optionId": format!("{name}-{number}"), "name": name, "kind": kind });
    json!({
        "jsonrpc": "2.0", "id": number, "method": "session/request_permission",
        "params": {
            "sessionId": session, "title": format!("May it, number {number}?"),
            "subject": { "type": "tool_call", "toolCall": { "toolCallId": call } },
            "options": [option("yes", "allow_once"), option("always", "allow_always"), option("no", "reject_once")],
        },
    })
}

/// The session starts two sub-agents by tool calls, and one of them a third; the two have a question each.
fn two_at_work() -> Vec<Value> {
    let by_call = |session: &str, call: &str, title: &str, child: &str| {
        let content = json!([{ "type": "session", "sessionId": child }]);
        let more = json!({ "title": title, "kind": "think", "content": content });
        works(session, call, &more)
    };
    let plan = json!({ "sessionUpdate": "plan_update", "plan": { "type": "items", "planId": "p", "entries": [
        { "content": "Look for the tests", "priority": "high", "status": "completed" },
        { "content": "Run them", "priority": "medium", "status": "in_progress" },
    ] } });
    let patch = "diff --git a/w/notes b/w/notes\n--- a/w/notes\n+++ b/w/notes\n@@ -1 +1 @@\n-old\n+new\n";
    let changes = json!([{ "type": "diff", "changes": [{ "operation": "modify", "path": "/w/notes" }],
        "patch": { "format": "git_patch", "text": patch } }]);
    let thought = json!({ "sessionUpdate": "agent_thought_chunk", "messageId": "t-a",
        "content": { "type": "text", "text": "Where are they?" } });
    vec![
        state(SESSION, "running"),
        says(SESSION, "m", "Two helpers at once."),
        by_call(SESSION, "call-a", "Look for tests", "child-a"),
        by_call(SESSION, "call-b", "Write the notes", "child-b"),
        started(SESSION, "child-a", "explorer", "Looks for tests"),
        started(SESSION, "child-b", "writer", "Writes notes"),
        says("child-a", "m-a", "I look for **tests**."),
        update_of("child-a", &thought),
        update_of("child-a", &plan),
        says("child-b", "m-b", "I write notes."),
        works("child-b", "edit", &json!({ "title": "Edit notes", "kind": "edit", "content": changes })),
        by_call("child-a", "call-c", "Look deeper", "child-c"),
        started("child-a", "child-c", "digger", "Digs"),
        says("child-c", "m-c", "I dig."),
        works("child-a", "tests", &json!({})),
        asks("child-a", 11, "tests"),
        asks("child-b", 12, "edit"),
    ]
}

fn both_done() -> Vec<Value> {
    let over = |session: &str, call: &str| works(session, call, &json!({ "status": "completed" }));
    vec![
        finished("child-a", "child-c"),
        finished(SESSION, "child-a"),
        finished(SESSION, "child-b"),
        over(SESSION, "call-a"),
        over(SESSION, "call-b"),
        says(SESSION, "m2", "Both are done."),
        state(SESSION, "idle"),
    ]
}

/// The answers to a question, once the agent has got a choice.
#[track_caller]
pub(crate) fn answers_to(talk: &Talk, id: u64) -> Vec<Value> {
    let deadline = Instant::now() + Duration::from_secs(80);
    loop {
        let heard = std::fs::read_to_string(heard(&talk.place.work())).unwrap();
        // The last line may not be written to its end yet.
        let messages = heard.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let answers = messages.filter(|message| message["id"] == id && message["method"].is_null());
        let answers: Vec<_> =
            answers.map(|message| message["result"]["outcome"]["optionId"].clone()).collect();
        if answers.iter().any(Value::is_string) {
            return answers;
        }
        assert!(Instant::now() < deadline, "nothing was chosen for {id}: {answers:?}");
        std::thread::yield_now();
    }
}

pub(crate) fn enabled(page: &Page, option: &str) {
    page.wait_until(&format!("find('[data-option={option}]:not(:disabled)').length === 1"));
}

#[test]
fn two_at_work_are_shown_in_their_calls_and_folded_when_they_are_done() {
    let talk = before(&two_at_work(), &both_done());
    let page = &talk.page;
    go(page);
    page.wait_for("article.e-tool .nest .nest-fold :: explorer (Looks for tests)");
    page.wait_for("article.e-tool .nest-body article.e-agent :: I look for tests.");
    page.wait_for("article.e-tool .nest-body article.e-thought :: Thought");
    page.wait_for("article.e-tool .nest-plan :: 1 of 2 done");
    // What is asked about it is shown there, and not twice.
    page.wait_for("#questions .df .path :: notes");
    // Inside one another.
    page.wait_for(".nest-body article.e-tool .nest .nest-body article.e-agent :: I dig.");
    page.wait_for(".nest .nest-head :: waiting for you");
    assert_eq!(page.count("#transcript > article.e-sub"), 0, "they are shown in their calls");
    page.wait_for("#state :: 2 questions wait for you");
    page.wait_for("#state .family :: 3 sub-agents at work");
    for (scheme, name) in [(ColorScheme::Light, "light"), (ColorScheme::Dark, "dark")] {
        page.prefer(scheme, true);
        page.screenshot(&format!("subagents-{name}"));
    }
    page.prefer(ColorScheme::Light, true);

    // Questions are here, and say whose they are, down from the root.
    page.wait_for("[data-question] .whose :: scripted › explorer (Looks for tests)");
    page.wait_for("[data-question] .whose :: scripted › writer (Writes notes)");
    page.wait_for("[data-question] ins :: new");
    enabled(page, "yes-11");
    page.click("[data-option=yes-11]");
    page.wait_gone("[data-question] :: number 11");
    page.wait_for("#state :: 1 question waits for you");
    page.wait_for(".nest-body article.e-tool .asked :: allow once");
    page.click("[data-option=no-12]");
    page.wait_gone("[data-question]");
    assert_eq!((answers_to(&talk, 11), answers_to(&talk, 12)), (vec!["yes-11".into()], vec!["no-12".into()]));

    go(page);
    page.wait_for("article.e-agent :: Both are done.");
    page.wait_gone(".nest-body");
    assert_eq!(page.count(".nest .nest-head :: done"), 2);
    page.wait_for("#state .family :: 3 sub-agents");
    page.screenshot("subagents-done");
    // The user's own folding wins.
    page.click(".nest-fold :: explorer");
    page.wait_for(".nest-body article.e-agent :: I look for tests.");
    assert_eq!(page.count(".nest-fold[aria-expanded=true]"), 1);
    page.wait_for(".nest-body .nest-fold :: digger (Digs)");
    page.press("Space");
    page.wait_gone(".nest-body");
    page.wait_until("document.activeElement.matches('.nest-fold')");
    talk.all_is_well();
}

#[test]
fn the_demo_agents_two_work_ask_and_end() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.say("subagents");
    page.wait_for("article.e-tool .nest .nest-fold :: Explorer (Looks for the tests)");
    page.wait_for("#transcript > article.e-sub > .nest .nest-fold :: Writer");
    page.wait_for("article.e-tool .nest-body article.e-agent :: I look in every folder.");
    page.wait_for("article.e-sub .nest-body article.e-agent :: I sharpen my pencil.");
    page.wait_for("[data-question] .whose :: demo-1 › Explorer (Looks for the tests)");
    page.wait_for("[data-question] .whose :: demo-1 › Writer");
    page.wait_for("#state :: 2 questions wait for you");
    page.screenshot("subagents-demo");
    page.wait_until("find('[data-option]:not(:disabled)').length === find('[data-option]').length");
    page.click("[data-question] button :: allow once");
    page.wait_until("find('[data-question]').length === 1");
    page.click("[data-question] button :: allow once");
    page.wait_for("article.e-agent :: Both are done.");
    done(page);
    page.wait_gone(".nest-body");
    page.wait_for("#transcript > article.e-between :: From sub-agent Explorer (Looks for the tests)");
    page.screenshot("subagents-demo-done");
    // The sub-agent of the sub-agent, too.
    page.click(".nest-fold :: Writer");
    page.wait_for(".nest-body .nest .nest-fold :: Checker");
    page.click(".nest-fold :: Checker");
    page.wait_for(".nest-body .nest-body article :: Both lines are there.");
    page.reload();
    page.wait_for("article.e-agent :: Both are done.");
    assert_eq!(page.count(".nest-fold"), 2);
    talk.all_is_well();
}

#[test]
fn work_in_the_background_goes_on_and_is_asked_about_when_the_turn_is_over() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.say("subagents background");
    page.wait_for("article.e-agent :: Both are at work");
    page.wait_for("#state .family :: 2 sub-agents at work");
    page.wait_until("find('[data-question]').length === 2");
    for _ in 0..2 {
        page.wait_until("find('[data-option]:not(:disabled)').length > 0");
        let count = page.count("[data-question]");
        page.click("[data-question] button :: reject once");
        page.wait_until(&format!("find('[data-question]').length < {count}"));
    }
    page.wait_gone(".nest-body");
    page.wait_for("#state .family :: 2 sub-agents");
    talk.all_is_well();
}

#[test]
fn what_the_user_folds_stays_folded_while_it_works() {
    let more = [says("child-a", "m-a", " And more."), says(SESSION, "m3", "Still at it.")];
    let talk = before(&two_at_work(), &more);
    let page = &talk.page;
    go(page);
    page.click(".nest-fold :: explorer");
    page.wait_gone(".nest-body :: I look for tests.");
    page.wait_for(".nest-body :: I write notes.");
    go(page);
    page.wait_for("article.e-agent :: Still at it.");
    assert_eq!(page.count(".nest-body :: I look for tests."), 0);
    page.click(".nest-fold :: explorer");
    page.wait_for(".nest-body :: I look for tests. And more.");
    talk.all_is_well();
}

#[test]
fn a_long_one_scrolls_by_itself_and_follows_its_end() {
    let mut lines = vec![state(SESSION, "running"), started(SESSION, "long", "talker", "Talks")];
    lines.extend((0..60).map(|number| says("long", &format!("m-{number}"), &format!("Sentence {number}."))));
    let then = [says("long", "m-60", "The last one.")];
    let talk = before(&lines, &then);
    let page = &talk.page;
    go(page);
    page.wait_for(".nest-body article :: Sentence 59.");
    page.wait_for(".nest .note :: 20 earlier entries.");
    assert_eq!(page.count(".nest-body article"), 40);
    let shape = "(body => [body.clientHeight < innerHeight * 0.6, body.scrollHeight > body.clientHeight + 100, \
        body.scrollHeight - body.scrollTop - body.clientHeight < 3])(document.querySelector('.nest-body'))";
    page.wait_until(&format!("String({shape}) === 'true,true,true'"));
    // Who reads further up stays there.
    page.eval("document.querySelector('.nest-body').scrollTop = 50");
    go(page);
    page.wait_until("document.querySelector('.nest-body').textContent.includes('The last one.')");
    assert_eq!(page.eval("document.querySelector('.nest-body').scrollTop"), 50);
    page.screenshot("subagent-long");
    page.click(".nest .note a");
    page.wait_for("#path a :: scripted");
    page.wait_for("#transcript > article :: The last one.");
    talk.all_is_well();
}

#[test]
fn a_sub_agent_has_a_view_of_its_own_with_ways_back() {
    let talk = before(&two_at_work(), &[]);
    let page = &talk.page;
    go(page);
    page.wait_for(".nest-body .nest .nest-fold :: digger");
    page.click(".nest-body .nest .by-itself a");
    page.wait_for("#title :: digger (Digs)");
    page.wait_for("#transcript > article.e-agent :: I dig.");
    page.wait_for("#path :: scripted › explorer (Looks for tests) › digger (Digs)");
    page.wait_for("#state :: at work");
    assert_eq!(page.count("#composer"), 0, "it listens to its own agent");
    assert_eq!(page.count("[data-question]"), 0);
    // What is asked elsewhere is told.
    page.wait_for("#trouble :: A question waits for you in the session writer (Writes notes).");
    page.screenshot("subagent-by-itself");
    // The address is its own.
    let address = page.eval("location.href").as_str().unwrap().to_owned();
    assert!(address.ends_with("/child-c"), "{address}");
    page.reload();
    page.wait_for("#transcript > article.e-agent :: I dig.");
    let other = talk.visitor.open(&address);
    other.wait_for("#path :: explorer (Looks for tests)");
    // Up, and the question is there too; it is answered once.
    other.click("#path a :: explorer");
    other.wait_for("#title :: explorer (Looks for tests)");
    other.wait_for("[data-question] .whose :: scripted › explorer");
    assert_eq!(other.count("[data-question]"), 1);
    page.click("#path a :: scripted");
    page.wait_for("#transcript > article :: Two helpers at once.");
    page.wait_for("#composer");
    page.wait_until("find('[data-question]').length === 2");
    enabled(&other, "yes-11");
    other.click("[data-option=yes-11]");
    page.wait_gone("[data-question] :: number 11");
    other.wait_gone("[data-question]");
    assert_eq!(answers_to(&talk, 11), ["yes-11"]);
    // Back is back.
    page.eval("history.back()");
    page.wait_for("#title :: digger (Digs)");
    // All of them, from wherever.
    page.click("#path a :: scripted");
    page.click("#state .family");
    page.wait_for("dialog a :: writer (Writes notes)");
    page.screenshot("subagents-list");
    page.click("dialog a :: writer (Writes notes)");
    page.wait_for("#title :: writer (Writes notes)");
    page.wait_gone("dialog");
    talk.all_is_well();
    assert_eq!(other.complaints(), [""; 0]);
}

#[test]
fn a_recording_shows_them_as_they_were() {
    let mut talk = before(&two_at_work(), &both_done());
    let page = &talk.page;
    go(page);
    enabled(page, "yes-11");
    page.click("[data-option=yes-11]");
    page.wait_gone("[data-question] :: number 11");
    page.click("[data-option=yes-12]");
    page.wait_gone("[data-question]");
    go(page);
    page.wait_for("article.e-agent :: Both are done.");
    let path = page.eval("location.pathname").as_str().unwrap().to_owned();
    talk.all_is_well();
    drop(std::mem::replace(&mut talk.opened, Opened::start(&talk.place, &["demo"])));
    let page = talk.visitor.open(&talk.opened.link);
    page.wait_until("document.body.dataset.activity === 'idle'");
    // Without its session in the address it is the root that is shown, not the last sub-agent.
    let recording = path.rsplit_once('/').unwrap().0;
    page.visit(&format!("http://{}{recording}", talk.opened.host()));
    page.wait_for("#transcript > article.e-tool .nest-head :: explorer (Looks for tests)");
    assert_eq!(page.eval("location.pathname"), path);
    assert_eq!(page.count(".nest-body"), 0);
    page.click(".nest-fold :: writer");
    page.wait_for(".nest-body article.e-agent :: I write notes.");
    page.wait_for(".nest-body .asked :: allow once");
    // As it stood earlier, when they were at work.
    page.click("#show-inspector");
    page.wait_until("document.querySelector('#wire-rows').children.length > 0");
    let rows = page.eval("Number(document.querySelector('#slider').max)").as_u64().unwrap();
    let slide = |to: u64| {
        page.eval(&format!(
            "(slider => {{ slider.value = {to}; slider.dispatchEvent(new Event('input')); }})(document.querySelector('#slider'))"
        ));
    };
    slide(rows - 8);
    page.wait_for("#then :: as it stood");
    page.wait_for(".nest-head :: at work");
    page.wait_for(".nest-body :: I look for tests.");
    page.click("[data-action=now]");
    page.wait_gone("#then");
    page.wait_gone(".nest-head :: at work");
    assert_eq!(page.count(".nest-head :: done"), 2);
    // What made an entry inside is found.
    page.wait_for(".nest-body article.e-agent :: I write notes.");
    page.click(".nest-body article.e-agent .md");
    page.wait_for("#wire-count :: 1 of");
    page.wait_for("#wire-rows [data-row] :: I write notes.");
    assert_eq!(page.complaints(), [""; 0]);
}

#[test]
fn a_recorded_file_shows_them_and_is_kept_only_as_long_as_it_is_looked_at() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.say("subagents");
    for left in [1, 0] {
        page.wait_until(&format!("find('[data-question]').length === {}", left + 1));
        page.click("[data-question]:first-of-type button :: allow once");
        page.wait_until(&format!("find('[data-question]').length === {left}"));
    }
    page.wait_for("article.e-agent :: Both are done.");
    done(page);
    let path = page.eval("location.pathname").as_str().unwrap().to_owned();
    let Talk { opened, place, page, visitor } = talk;
    drop((page, opened));
    let exported = place.run(&["sessions", "export", path.split('/').nth(2).unwrap()]).stdout;
    assert!(exported.contains("subagent_update"), "{exported}");

    let elsewhere = Place::new();
    elsewhere.write("work/run.jsonl", &exported);
    let opened = Opened::start(&elsewhere, &["--no-record", "--recording", "run.jsonl"]);
    let page = visitor.open(&opened.link);
    unfold(&page);
    page.wait_for("article.e-tool .nest-fold :: Explorer (Looks for the tests)");
    page.wait_for("#transcript > article.e-sub .nest-fold :: Writer");
    assert_eq!(page.count(".nest-body"), 0);
    page.click(".nest-fold :: Writer");
    page.wait_for(".nest-body .nest .nest-fold :: Checker");
    page.wait_for(".nest-body .asked :: allow once");
    page.click(".nest-body .nest .by-itself a");
    page.wait_for("#path :: demo-1 › Writer › Checker");
    page.wait_for("#transcript > article.e-agent :: Both lines are there.");
    assert_eq!(page.complaints(), [""; 0]);
    drop((page, opened));
    assert!(!elsewhere.home().join(".local/share/switchboard").exists());
}
