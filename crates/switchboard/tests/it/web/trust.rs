//! What is asked is what is answered: choices that are remembered, questions that change or are malformed, and who waits
//! for whom.

use serde_json::{Value, json};
use switchboard_browser::Page;

use super::scripted_agent::{SESSION, heard, scripted_agent, then_says, update};
use super::talk::Talk;
use crate::agent_program::Place;

pub(crate) fn running() -> Value {
    update(json!({ "sessionUpdate": "state_update", "state": "running" }))
}

pub(crate) fn call(id: &str, more: &Value) -> Value {
    let mut call = json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "title": "Write a file", "kind": "edit" });
    for (key, value) in more.as_object().unwrap() {
        call[key] = value.clone();
    }
    update(call)
}

/// A question about a call, with the same words and options each time.
pub(crate) fn question(number: u64, call: &str) -> Value {
    let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
    json!({
        "jsonrpc": "2.0", "id": number, "method": "session/request_permission",
        "params": {
            "sessionId": SESSION, "title": "Write a file?",
            "subject": { "type": "tool_call", "toolCall": { "toolCallId": call } },
            "options": [option("once", "allow_once"), option("always", "allow_always"), option("no", "reject_once")],
        },
    })
}

/// Before an agent that says these lines when it is prompted, and those when it is prompted again.
pub(crate) fn before(first: &[Value], then: &[Value]) -> Talk {
    let place = Place::new();
    let agent = scripted_agent(&place.work(), &json!({}), &json!({}), first);
    then_says(&place.work(), then);
    Talk::with(place, &["--", "sh", agent.to_str().unwrap()])
}

pub(crate) fn go(page: &Page) {
    page.type_into("#prompt", "go");
    page.press("Enter");
}

pub(crate) fn ready(page: &Page, option: &str) {
    page.wait_until(&format!("find('[data-option={option}]:not(:disabled)').length === 1"));
}

/// The answers that the agent has got to its permissions.
pub(crate) fn answers(talk: &Talk) -> Vec<Value> {
    let heard = std::fs::read_to_string(heard(&talk.place.work())).unwrap();
    let messages = heard.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    messages.filter(|message| message["result"]["outcome"].is_object()).collect()
}

pub(crate) const KEYS: &str = "/home/me/.ssh/authorized_keys";

#[test]
fn always_for_a_call_that_told_nothing_is_no_answer_to_the_next() {
    let file = json!({ "rawInput": { "path": KEYS, "text": "ssh-rsa" } });
    let talk =
        before(&[running(), call("a", &json!({})), question(1, "a")], &[call("b", &file), question(2, "b")]);
    let page = &talk.page;
    go(page);
    ready(page, "always");
    page.wait_for("[data-question] :: Switchboard will ask you again");
    page.click("[data-option=always]");
    page.wait_for("article.e-agent :: given always,");
    go(page);
    // The same words, and a call by reference: it is asked, and shows what it would write.
    ready(page, "no");
    page.wait_for(&format!("[data-question] :: {KEYS}"));
    assert_eq!(answers(&talk).len(), 1);
    page.click("[data-option=no]");
    page.wait_for("article.e-agent :: given always, given no,");
    talk.all_is_well();
}

#[test]
fn always_holds_for_exactly_the_same_and_nothing_else() {
    let file = |path: &str| json!({ "rawInput": { "path": path, "text": "hello" } });
    let talk = before(
        &[running(), call("a", &file("/w/a")), question(1, "a")],
        &[call("b", &file("/w/a")), question(2, "b"), call("c", &file(KEYS)), question(3, "c")],
    );
    let page = &talk.page;
    go(page);
    ready(page, "always");
    page.wait_for("[data-question] :: answers exactly this again by itself, in this session");
    page.click("[data-option=always]");
    page.wait_for("article.e-agent :: given always,");
    go(page);
    page.wait_for("article.e-agent :: given always, given always,");
    ready(page, "no");
    page.wait_for(&format!("[data-question] :: {KEYS}"));
    assert_eq!(page.count("[data-question]"), 1);
    // It says of itself that nobody was asked.
    page.wait_for("article.e-tool .asked :: answered by itself");
    page.screenshot("remembered");
    page.click("#show-inspector");
    page.type_into("#wire-text", "remembered");
    page.wait_for("#wire-count :: 1 of");
    page.click("#wire-rows [data-row] :: hub");
    page.wait_for("#detail :: remembered");
    page.click("#show-inspector");
    page.click("[data-option=no]");
    page.wait_for("article.e-agent :: given no,");
    assert_eq!(answers(&talk).len(), 3);
    talk.all_is_well();
}

#[test]
fn choices_of_earlier_launches_are_not_used_and_that_is_said() {
    let place = Place::new();
    let file = json!({ "rawInput": { "path": "/w/a" } });
    let agent = scripted_agent(
        &place.work(),
        &json!({}),
        &json!({}),
        &[running(), call("a", &file), question(1, "a")],
    );
    // As they were once kept: for any agent of this name that asks with these words.
    let subject = json!({
        "title": "Write a file?", "description": null, "subject": { "type": "tool_call", "toolCall": {} },
    });
    let choices = json!([{
        "agent": "sh", "folder": place.work(), "title": "Write a file?", "subject": subject.to_string(),
        "allows": true, "since": 0,
    }]);
    let store = place.work().join("store.sqlite3");
    std::fs::write(place.work().join("store.sqlite3.choices.json"), choices.to_string()).unwrap();
    let talk = Talk::with(place, &["--store", store.to_str().unwrap(), "--", "sh", agent.to_str().unwrap()]);
    let page = &talk.page;
    go(page);
    ready(page, "once");
    assert_eq!(answers(&talk).len(), 0);
    page.click("#settings > summary");
    page.click("[data-action=choices]");
    page.wait_for("dialog :: No choice has been made for always.");
    talk.all_is_well();
}

#[test]
fn a_change_of_what_is_asked_is_marked_and_must_be_read_first() {
    let talk = before(
        &[running(), call("a", &json!({ "rawInput": { "path": "/w/harmless" } })), question(1, "a")],
        &[call("a", &json!({ "rawInput": { "path": KEYS } }))],
    );
    let page = &talk.page;
    go(page);
    ready(page, "once");
    assert_eq!(page.count("[data-question] .changed-note"), 0);
    let old = page.eval("document.querySelector('[data-question]').dataset.revision");
    // Whether its buttons could be pressed in the moment in which the new content came to be seen.
    page.eval(&format!(
        "globalThis.early = [], void new MutationObserver(() => {{
            const question = document.querySelector('[data-question]');
            if (!question?.textContent.includes({}) || early.length) return;
            early.push(question.querySelector('[data-option]').disabled);
        }}).observe(document.body, {{ childList: true, subtree: true, characterData: true }})",
        json!(KEYS)
    ));
    go(page);
    page.wait_for("[data-question] .changed-note :: What is marked is new");
    page.wait_for(&format!("[data-question] .is-changed :: {KEYS}"));
    assert_eq!(page.eval("early"), json!([true]));
    assert_eq!(page.count("[data-question] .is-changed[data-part=options]"), 0);
    ready(page, "once");
    page.screenshot("question-changed");
    // An answer to what stood there before is refused, by whoever it comes.
    let refused = page.eval(&format!(
        "new Promise(resolve => {{
            const socket = new WebSocket(`ws://${{location.host}}/in/socket`, ['switchboard', `key-${{localStorage.getItem('switchboard-key')}}`]);
            socket.onopen = () => socket.send(JSON.stringify({{ type: 'look', recording: location.pathname.split('/')[2] }}))
                ?? socket.send(JSON.stringify({{ type: 'choose', id: '1', option: 'once', revision: {old}, number: 1 }}));
            socket.onmessage = event => {{
                const message = JSON.parse(event.data);
                if (message.number === 1) resolve(message.reason ?? 'taken');
            }};
        }})"
    ));
    assert_eq!(refused, "the question has changed since it was read; what is new in it is marked");
    assert_eq!(answers(&talk).len(), 0);
    page.click("[data-option=once]");
    page.wait_for("article.e-agent :: given once,");
    talk.all_is_well();
}

#[test]
fn a_question_that_is_asked_anew_under_an_open_id_does_not_take_its_place() {
    let mut again = question(1, "a");
    again["params"]["title"] = "Delete everything?".into();
    let said = update(json!({
        "sessionUpdate": "agent_message", "messageId": "m", "content": [{ "type": "text", "text": "I asked again" }],
    }));
    let talk = before(&[running(), call("a", &json!({})), question(1, "a")], &[again, said]);
    let page = &talk.page;
    go(page);
    ready(page, "once");
    go(page);
    page.wait_for("article.e-agent :: I asked again");
    assert_eq!(page.texts("[data-question] h3"), ["Write a file?"]);
    page.click("[data-option=no]");
    page.wait_for("article.e-agent :: given no,");
    assert_eq!(answers(&talk).len(), 1);
    talk.all_is_well();
}

#[test]
fn what_waits_for_an_answer_does_not_run() {
    let busy = json!({ "status": "in_progress" });
    let mut lines = vec![running()];
    for (number, id) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        lines.extend([call(id, &busy), question(number, id)]);
    }
    lines.push(call("e", &busy));
    let talk = before(&lines, &[]);
    let page = &talk.page;
    go(page);
    page.wait_until("find('[data-question]').length === 4");
    page.wait_for("#state :: 4 questions wait for you");
    page.wait_until("find('article.e-tool .st', 'waiting for you').length === 4");
    assert_eq!(page.count("article.e-tool .st :: running"), 1, "only what nobody was asked about");
    assert_eq!(page.eval("document.body.dataset.activity"), "requires-action");
    page.screenshot("waiting");
    page.wait_until("find('[data-question] [data-option=once]:not(:disabled)').length === 4");
    page.press("Alt+1");
    page.wait_for("article.e-agent :: given once,");
    page.wait_for("#state :: 3 questions wait for you");
    page.wait_until("find('article.e-tool .st', 'waiting for you').length === 3");
    page.wait_until("find('article.e-tool .st', 'running').length === 2");
    talk.all_is_well();
}

/// Each: where in the question, and what is wrong there.
fn malformed() -> Vec<(&'static str, Value)> {
    vec![
        ("/subject/toolCall/locations", json!([{ "path": "rel.txt" }])),
        ("/subject/toolCall/locations", json!("none")),
        (
            "/subject/toolCall/content",
            json!([{ "type": "content" }, { "type": "content", "content": { "type": "text", "text": "kept" } }]),
        ),
        ("/subject/toolCall/content", json!(7)),
        ("/subject/toolCall/rawInput", json!({ "deep": [1] })),
        ("/subject/toolCall/title", json!(7)),
        ("/subject/toolCall/_meta", json!(1)),
        ("/_meta", json!(1)),
        ("/description", json!(["no", "text"])),
    ]
}

#[test]
fn a_question_with_a_malformed_part_is_shown_without_it_and_says_so() {
    let mut lines = vec![running()];
    for (number, (pointer, value)) in malformed().into_iter().enumerate() {
        let mut question = question(number as u64 + 1, &format!("c-{number}"));
        question["params"]["title"] = format!("Question {number}?").into();
        question["params"]["subject"]["toolCall"]["title"] = format!("Call {number}").into();
        let (place, key) = pointer.rsplit_once('/').unwrap();
        question["params"].pointer_mut(place).unwrap()[key] = value;
        lines.push(question);
    }
    let count = malformed().len();
    let talk = before(&lines, &[]);
    let page = &talk.page;
    go(page);
    page.wait_until(&format!("find('[data-question]').length === {count}"));
    for (number, (pointer, value)) in malformed().into_iter().enumerate() {
        let shown = page.text(&format!("[data-question='{}']", number + 1));
        assert!(shown.contains(&format!("Question {number}?")), "{shown}");
        let is_fine = value == json!({ "deep": [1] });
        assert_eq!(
            shown.contains("A part of this question is malformed"),
            !is_fine,
            "{pointer} {value}: {shown}"
        );
        assert_eq!(shown.contains(pointer), !is_fine, "{pointer} {value}: {shown}");
    }
    page.screenshot("question-malformed");
    page.wait_until(&format!("find('[data-question] [data-option=no]:not(:disabled)').length === {count}"));
    for number in 0..count {
        page.click(&format!("[data-question='{}'] [data-option=no]", number + 1));
        page.wait_gone(&format!("[data-question='{}']", number + 1));
    }
    // The agent has heard of each, and hangs at none.
    page.wait_until(&format!("find('article.e-agent')[0]?.innerText.match(/given no/g)?.length === {count}"));
    talk.all_is_well();
}
