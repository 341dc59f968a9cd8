//! Agents that ask in ways in which nobody should ask.

use serde_json::{Value, json};
use switchboard_browser::Page;

use super::scripted_agent::{SESSION, heard, update};
use super::talk::Talk;
use super::trust::{KEYS, answers, before, call, go, question, ready, running};

/// Answers a question over a socket of its own, and gives why that is refused.
fn choose(page: &Page, id: &str, option: &str, revision: &Value) -> Value {
    let message = json!({ "type": "choose", "id": id, "option": option, "revision": revision, "number": 1 });
    page.eval(&format!(
        "new Promise(resolve => {{
            const socket = new WebSocket(`ws://${{location.host}}/in/socket`, ['switchboard', `key-${{localStorage.getItem('switchboard-key')}}`]);
            socket.onopen = () => socket.send(JSON.stringify({{ type: 'look', recording: location.pathname.split('/')[2], session: null }}));
            socket.onmessage = event => {{
                const message = JSON.parse(event.data);
                if (message.type === 'frame' && message.live) socket.send(JSON.stringify({message}));
                else if (message.type === 'frame') socket.send(JSON.stringify({{ type: 'shown' }}));
                if (message.number === 1) resolve(message.reason ?? 'taken');
            }};
        }})"
    ))
}

/// What the agent has heard about a question of its own.
fn to_question(talk: &Talk, id: u64) -> Vec<Value> {
    let heard = std::fs::read_to_string(heard(&talk.place.work())).unwrap();
    let messages = heard.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    messages.filter(|message| message["id"] == id && message["method"].is_null()).collect()
}

fn revision(page: &Page) -> Value {
    page.eval("document.querySelector('[data-question]').dataset.revision")
}

#[test]
fn a_question_in_a_batch_is_shown_with_what_the_batch_says_of_its_call() {
    let told = call("a", &json!({ "rawInput": { "path": KEYS }, "locations": [{ "path": "rel.txt" }] }));
    let talk = before(&[running(), json!([told, question(1, "a")])], &[]);
    let page = &talk.page;
    go(page);
    ready(page, "always");
    page.wait_for(&format!("[data-question] :: {KEYS}"));
    // The malformed part came in another message of the same line.
    page.wait_for("[data-question] :: A part of this question is malformed");
    page.wait_for("[data-question] :: Switchboard will ask you again");
    page.click("[data-option=always]");
    page.wait_for("article.e-agent :: given always,");
    talk.all_is_well();
}

#[test]
fn a_question_that_is_taken_back_and_asked_again_is_another_one() {
    let taken_back = json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": 1 } });
    let other = call("b", &json!({ "rawInput": { "path": KEYS } }));
    let talk = before(
        &[running(), call("a", &json!({ "rawInput": { "path": "/w/harmless" } })), question(1, "a")],
        &[taken_back, other, question(1, "b")],
    );
    let page = &talk.page;
    go(page);
    ready(page, "once");
    let old = revision(page);
    go(page);
    page.wait_for(&format!("[data-question] :: {KEYS}"));
    assert_eq!(page.count("[data-question]"), 1);
    assert_eq!(
        choose(page, "1", "once", &old),
        "the question has changed since it was read; what is new in it is marked"
    );
    let outcomes: Vec<Value> =
        answers(&talk).iter().map(|it| it["result"]["outcome"]["outcome"].clone()).collect();
    assert_eq!(outcomes, ["cancelled"], "the first one is dismissed");
    ready(page, "once");
    page.click("[data-option=once]");
    page.wait_for("article.e-agent :: given once,");
    talk.all_is_well();
}

#[test]
fn a_question_without_a_clear_choice_is_refused() {
    let mut twice = question(1, "a");
    for option in twice["params"]["options"].as_array_mut().unwrap() {
        option["optionId"] = "same".into();
    }
    let mut malformed = question(2, "a");
    malformed["params"]["options"] = json!([{ "optionId": "once", "name": 7, "kind": "allow_once" }]);
    let talk = before(&[running(), twice, malformed, question(3, "a")], &[]);
    let page = &talk.page;
    go(page);
    ready(page, "no");
    assert_eq!(page.count("[data-question]"), 1);
    page.click("[data-option=no]");
    page.wait_for("article.e-agent :: given no,");
    // The agent has heard of each, and waits for none.
    for id in [1, 2] {
        let refusal = to_question(&talk, id);
        assert_eq!(refusal[0]["error"]["code"], -32602, "{refusal:?}");
    }
    talk.all_is_well();
}

#[test]
fn a_question_in_a_session_that_nobody_opened_is_refused_and_kept() {
    let mut elsewhere = question(1, "a");
    elsewhere["params"]["sessionId"] = "elsewhere".into();
    let talk = before(&[running(), elsewhere], &[]);
    let page = &talk.page;
    go(page);
    page.click("#show-inspector");
    page.click("#wire-rows .row-problem :: problem");
    page.wait_for("#detail pre :: elsewhere");
    assert_eq!(page.count("[data-question]"), 0, "it is not part of the session {SESSION}");
    assert_eq!(to_question(&talk, 1)[0]["error"]["code"], -32002);
    talk.all_is_well();
}

#[test]
fn a_form_does_not_change_while_it_waits_and_says_what_is_malformed() {
    let form = |message: &str| {
        json!({
            "jsonrpc": "2.0", "id": 5, "method": "elicitation/create",
            "params": {
                "sessionId": SESSION, "mode": "form", "message": message, "_meta": 1,
                "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } },
            },
        })
    };
    let said = update(json!({
        "sessionUpdate": "agent_message", "messageId": "m", "content": [{ "type": "text", "text": "I asked again" }],
    }));
    let talk = before(&[running(), form("Your name?")], &[form("Your password?"), said]);
    let page = &talk.page;
    go(page);
    page.wait_for("[data-question] :: Your name?");
    page.wait_for("[data-question] :: A part of this question is malformed");
    let before = revision(page);
    go(page);
    page.wait_for("article.e-agent :: I asked again");
    assert_eq!(page.count("[data-question] :: Your password?"), 0);
    assert_eq!((page.count("[data-question]"), revision(page)), (1, before));
    page.wait_until("find('[data-answer=decline]:not(:disabled)').length === 1");
    page.click("[data-answer=decline]");
    page.wait_gone("[data-question]");
    // One was refused, the other declined.
    let told = to_question(&talk, 5);
    assert!(told[0]["error"]["message"].as_str().unwrap().contains("in use"), "{told:?}");
    talk.all_is_well();
}

#[test]
fn more_questions_than_fit_are_leafed_through() {
    let asked = (1..=30).flat_map(|number: u64| {
        let id = format!("c{number}");
        [call(&id, &json!({ "rawInput": { "path": format!("/w/{number}.") } })), question(number, &id)]
    });
    let talk = before(&std::iter::once(running()).chain(asked).collect::<Vec<_>>(), &[]);
    let page = &talk.page;
    go(page);
    page.wait_for("#question-count :: 30 questions wait for you");
    page.wait_for("#question-count :: 1 to 12 are here");
    page.wait_until("find('[data-question]').length === 12 && document.title.startsWith('(30)')");
    page.wait_for("#question-count button:disabled :: Earlier");
    page.click("#question-count button :: Later");
    page.wait_for("#question-count :: 13 to 24 are here");
    page.wait_until("document.activeElement.innerText === 'Later'");
    page.press("Enter");
    page.wait_for("#question-count :: 25 to 30 are here");
    page.wait_for("#question-count button:disabled :: Later");
    page.wait_until("find('[data-question] [data-option=no]:not(:disabled)').length === 6");
    page.screenshot("many-questions");
    page.click("[data-question] [data-option=no]");
    page.wait_for("article.e-agent :: given no,");
    page.wait_for("#question-count :: 29 questions wait for you");
    page.wait_for("#question-count :: 25 to 29 are here");
    let ids: Vec<Value> = answers(&talk).iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [25]);
    for place in ["13 to 24", "1 to 12"] {
        page.click("#question-count button :: Earlier");
        page.wait_for(&format!("#question-count :: {place} are here"));
    }
    // An answer makes room for the next.
    page.wait_until("find('[data-question] [data-option=no]:not(:disabled)').length === 12");
    page.click("[data-question] [data-option=no]");
    page.wait_for("[data-question] :: /w/13.");
    page.wait_gone("[data-question] :: /w/1.");
    talk.all_is_well();
}
