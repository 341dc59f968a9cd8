//! What the agent asks, and what is answered.

use serde_json::{Value, json};
use switchboard_browser::Page;

use super::scripted_agent::{SESSION, scripted_agent, then_says, update};
use super::talk::{Talk, done, say};
use crate::agent_program::Place;

#[test]
fn a_permission_shows_what_it_is_about() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.say("permission");
    page.wait_for("[data-question] h3 :: config.json?");
    page.wait_for("[data-question] :: It turns debugging on.");
    page.wait_for("[data-question] .df .path :: config.json");
    page.wait_for("[data-question] ins :: \"debug\": true");
    page.wait_for("#state :: waits for you");
    let icon = "document.querySelector('link[rel=icon]').getAttribute('href')";
    page.wait_until(&format!("{icon} === '/assets/icon-waiting.svg'"));
    let config = talk.place.work().join("switchboard-demo/config.json");
    assert!(std::fs::read_to_string(&config).unwrap().contains("false"));
    page.screenshot("permission");
    page.click("[data-question] button :: allow once");
    page.wait_for("article.e-agent :: Debugging is on.");
    page.wait_gone("[data-question]");
    page.wait_until(&format!("{icon} === '/assets/icon.svg'"));
    done(page);
    assert!(std::fs::read_to_string(&config).unwrap().contains("true"));
    // What was asked and answered stays with the tool call.
    page.wait_for("article.e-tool :: allow once");
    talk.all_is_well();
}

#[test]
fn a_rejected_edit_is_not_made() {
    let talk = Talk::with_demo();
    talk.say("permission");
    talk.page.click("[data-question] button :: reject once");
    talk.page.wait_for("article.e-agent :: Debugging stays off.");
    talk.page.wait_for("article.e-tool :: failed");
    let config = talk.place.work().join("switchboard-demo/config.json");
    assert!(std::fs::read_to_string(config).unwrap().contains("false"));
    talk.all_is_well();
}

#[test]
fn a_command_is_shown_exactly_and_with_its_folder() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.say("command");
    page.wait_for("[data-question] .cmd :: rm -rf build && make");
    page.wait_for(&format!("[data-question] :: in {}", talk.place.work().display()));
    page.click("[data-question] button :: allow once");
    page.wait_for("article.e-tool .screen :: nothing to be done");
    done(page);
    // What became of it, and when.
    page.wait_for("article.e-user .asked :: allow once");
    page.wait_for("article.e-user .asked time :: :");
    talk.all_is_well();
}

#[test]
fn buttons_do_nothing_in_the_first_half_second() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    // As soon as there is a button: a click in it, and a key.
    page.eval(
        "globalThis.early = [], void new MutationObserver(() => {
            const button = document.querySelector('[data-question] [data-option]');
            if (!button || early.length) return;
            early.push(button.disabled);
            button.click();
            document.dispatchEvent(new KeyboardEvent('keydown', { altKey: true, code: 'Digit1', bubbles: true }));
        }).observe(document.body, { childList: true, subtree: true })",
    );
    talk.say("ask");
    page.wait_for("[data-question] button :: Yes, go on");
    assert_eq!(page.eval("early"), json!([true]));
    // A message to the server that goes around the page's own rule does not help either.
    page.wait_until("find('[data-question] [data-option]:not(:disabled)').length === 3");
    assert_eq!(page.count("[data-question]"), 1);
    assert_eq!(page.count("article.e-agent"), 0);
    page.click("[data-question] button :: No, stop");
    page.wait_for("article.e-agent :: Then I stop.");
    talk.all_is_well();
}

#[test]
fn the_server_itself_refuses_an_early_answer() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    // A second connection, as a script could open one, answers every question the moment it hears of it.
    page.eval(
        "new Promise(resolve => {
            globalThis.heard = [];
            const socket = new WebSocket(`ws://${location.host}/in/socket`, ['switchboard', `key-${localStorage.getItem('switchboard-key')}`]);
            socket.onopen = () => { socket.send(JSON.stringify({ type: 'look' })); resolve(0); };
            socket.onmessage = event => {
                const message = JSON.parse(event.data);
                if (message.type === 'frame') socket.send(JSON.stringify({ type: 'shown' }));
                const asked = /data-question=\"([^\"]*)\" data-revision=\"([^\"]*)\"/.exec(message.panels?.questions ?? '');
                if (asked) socket.send(JSON.stringify({ type: 'choose', id: asked[1].replaceAll('&quot;', '\"'), revision: asked[2], option: 'yes', number: 1 }));
                if (message.number === 1) heard.push([message.type, message.reason]);
            };
        })",
    );
    talk.say("ask");
    // Before the question can be answered at all, it is refused in other words.
    let early = "this question has only just appeared or changed; read it first";
    let heard = page.wait_until(&format!("heard.some(([_, reason]) => reason === '{early}') && heard"));
    assert!(heard.as_array().unwrap().iter().all(|heard| heard[0] == "failure"), "{heard}");
    page.click("[data-question] button :: No, stop");
    page.wait_for("article.e-agent :: Then I stop.");
    talk.all_is_well();
}

#[test]
fn keys_answer_without_a_mouse() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.say("ask");
    page.wait_until("find('[data-question] [data-option]:not(:disabled)').length === 3");
    page.press("Alt+2");
    page.wait_for("article.e-agent :: Then I stop.");
    done(page);
    talk.say("ask");
    page.wait_until("find('[data-question] [data-option]:not(:disabled)').length === 3");
    page.eval("document.querySelector('[data-question] [data-option]').focus()");
    page.press("Tab");
    page.press("Shift+Tab");
    page.press("Space");
    page.wait_for("article.e-agent :: Then I go on.");
    talk.all_is_well();
}

#[test]
fn an_option_of_an_unknown_kind_is_no_permission() {
    let talk = Talk::with_demo();
    talk.say("ask");
    talk.page.wait_for("[data-question] button :: unknown meaning: _demo_later");
    talk.page.click("[data-question] button :: Ask me later");
    talk.page.wait_for("article.e-agent :: Then I stop.");
    talk.all_is_well();
}

#[test]
fn an_unknown_subject_is_shown_as_it_came() {
    let talk = Talk::with_demo();
    talk.say("mystery");
    talk.page.wait_for("[data-question] :: Cast a spell?");
    talk.page.wait_for("[data-question] :: _demo_spell");
    talk.page.wait_for("[data-question] :: abracadabra");
    talk.page.screenshot("permission-unknown");
    talk.page.click("[data-question] button :: reject once");
    talk.page.wait_for("article.e-agent :: Then I stop.");
    talk.all_is_well();
}

#[test]
fn cancelling_takes_the_question_away() {
    let talk = Talk::with_demo();
    talk.say("ask");
    talk.page.wait_for("[data-question]");
    talk.page.click("#cancel");
    talk.page.wait_gone("[data-question]");
    done(&talk.page);
    talk.all_is_well();
}

#[test]
fn an_answer_in_one_tab_is_an_answer_in_all() {
    let talk = Talk::with_demo();
    let other = talk
        .visitor
        .open(talk.page.wait_until("location.pathname.startsWith('/r/') && location.href").as_str().unwrap());
    talk.say("ask");
    other.wait_for("article.e-user :: ask");
    other.wait_for("[data-question] button :: Yes, go on");
    talk.page.click("[data-question] button :: Yes, go on");
    other.wait_gone("[data-question]");
    other.wait_for("article.e-agent :: Then I go on.");
    // And the other way round.
    done(&other);
    say(&other, "ask");
    talk.page.wait_for("[data-question]");
    other.click("[data-question] button :: No, stop");
    talk.page.wait_gone("[data-question]");
    talk.page.wait_for("article.e-agent :: Then I stop.");
    talk.all_is_well();
    assert_eq!(other.complaints(), [""; 0]);
}

/// A question of the scripted agent. Its options are `yes-NUMBER` and `no-NUMBER`.
fn question(number: u64, subject: &Value) -> Value {
    let option = |name: &str, kind: &str| json!({ "optionId": format!("{name}-{number}"), "name": name, "kind": kind });
    json!({
        "jsonrpc": "2.0", "id": number, "method": "session/request_permission",
        "params": {
            "sessionId": SESSION, "title": format!("Question {number}?"), "subject": subject,
            "options": [option("yes", "allow_once"), option("no", "reject_once")],
        },
    })
}

/// A change of the tool call that a question is about.
fn tool_call(title: &str, text: &str) -> Value {
    update(json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "c", "title": title,
        "content": [{ "type": "content", "content": { "type": "text", "text": text } }],
    }))
}

/// Two tabs before an agent that asks, and that changes the question and asks one more when it is prompted again.
fn asked_twice() -> (Talk, Page) {
    let place = Place::new();
    let about = json!({ "type": "tool_call", "toolCall": { "toolCallId": "c" } });
    let running = update(json!({ "sessionUpdate": "state_update", "state": "running" }));
    let lines = [running, tool_call("Before", "little"), question(1, &about)];
    let agent = scripted_agent(&place.work(), &json!({}), &json!({}), &lines);
    let much = "much\n\n".repeat(4);
    then_says(&place.work(), &[tool_call("After", &much), question(2, &Value::Null)]);
    let talk = Talk::with(place, &["--", "sh", agent.to_str().unwrap()]);
    talk.page.type_into("#prompt", "go");
    talk.page.press("Enter");
    talk.page.wait_until("find('[data-option=yes-1]:not(:disabled)').length === 1");
    let other = talk.visitor.open(talk.page.eval("location.href").as_str().unwrap());
    other.wait_for("[data-option=yes-1]");
    (talk, other)
}

/// Makes the agent go on, by the other tab.
fn go_on(other: &Page) {
    other.type_into("#prompt", "on");
    other.press("Enter");
    other.wait_for("[data-question] :: Question 2?");
    other.wait_for("[data-question] :: much");
}

#[test]
fn a_press_that_began_before_a_change_does_not_answer_what_is_asked_now() {
    let (talk, other) = asked_twice();
    let page = &talk.page;
    let held = page.hold("[data-option=yes-1]");
    go_on(&other);
    held.release();
    // The press was meant for what was there before, and counts for nothing.
    page.wait_for("#toasts :: the question has changed since it was read");
    // What was held back is shown now.
    page.wait_for("[data-question] :: Question 2?");
    page.wait_for("article.e-tool :: After");
    assert_eq!(page.count("article.e-agent"), 0);
    page.click("[data-option=yes-1]");
    page.wait_for("article.e-agent :: given yes-1,");
    page.wait_gone("[data-question] :: Question 1?");
    talk.all_is_well();
}

#[test]
fn a_question_that_has_the_focus_shows_what_changes() {
    let (talk, other) = asked_twice();
    let page = &talk.page;
    page.eval("document.querySelector('[data-option=yes-1]').focus()");
    go_on(&other);
    page.wait_for("[data-question] :: After");
    page.wait_for("[data-question] :: much");
    page.wait_for("[data-question] :: Question 2?");
    // It can be read first; then the focus is where it was.
    page.wait_until("document.activeElement.dataset.option === 'yes-1'");
    page.press("Space");
    page.wait_for("article.e-agent :: given yes-1,");
    talk.all_is_well();
}

#[test]
fn several_questions_wait_at_once_and_are_answered_in_any_order() {
    let place = Place::new();
    let running = update(json!({ "sessionUpdate": "state_update", "state": "running" }));
    let [first, second, third] = [1, 2, 3].map(|number| question(number, &Value::Null));
    let lines = [running, first, second, third];
    let agent = scripted_agent(&place.work(), &json!({}), &json!({}), &lines);
    let talk = Talk::with(place, &["--", "sh", agent.to_str().unwrap()]);
    let page = &talk.page;
    page.type_into("#prompt", "go");
    page.press("Enter");
    page.wait_until("find('[data-question] [data-option]:not(:disabled)').length === 6");
    page.wait_for("#state :: 3 questions wait for you");
    page.screenshot("several-questions");
    page.click("[data-question] [data-option=no-2]");
    page.wait_for("article.e-agent :: given no-2,");
    page.wait_gone("[data-question] :: Question 2?");
    // A key answers the question that has the focus, and without focus the first.
    page.eval("document.querySelector('[data-option=no-3]').focus()");
    page.press("Alt+1");
    page.wait_for("article.e-agent :: given no-2, given yes-3,");
    page.wait_gone("[data-question] :: Question 3?");
    page.press("Alt+1");
    page.wait_for("article.e-agent :: given no-2, given yes-3, given yes-1,");
    page.wait_gone("[data-question]");
    talk.all_is_well();
}

#[test]
fn a_question_of_another_session_waits_there() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.say("ask");
    page.wait_for("[data-question]");
    page.click("[data-action=new]");
    page.wait_until("document.body.dataset.activity === 'idle' && find('article').length === 0");
    assert_eq!(page.count("[data-question]"), 0);
    talk.say("command");
    page.wait_for("[data-question] :: Run a command?");
    page.click("[data-question] button :: reject once");
    page.wait_for("article.e-agent :: You chose");
    page.eval("history.back()");
    page.wait_for("[data-question] button :: Yes, go on");
    page.click("[data-question] button :: Yes, go on");
    page.wait_for("article.e-agent :: Then I go on.");
    talk.all_is_well();
}

#[test]
fn a_choice_for_always_is_remembered_and_can_be_withdrawn() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.say("command");
    page.click("[data-question] button :: allow always");
    page.wait_for("article.e-agent :: You chose");
    done(page);
    // Not asked again.
    talk.ask("command");
    assert_eq!(page.count("[data-question]"), 0);
    assert_eq!(page.count("article.e-agent :: You chose"), 2);
    // The transcript and the inspector tell why.
    page.screenshot("remembered");
    page.click("#show-inspector");
    page.type_into("#wire-text", "without asking");
    page.wait_for("#wire-rows [data-row] :: Run a command?");
    page.click("#show-inspector");
    page.click("#settings > summary");
    page.click("[data-action=choices]");
    page.wait_for("dialog :: Always allow: Run a command? rm -rf build && make");
    page.screenshot("choices");
    page.click("dialog [data-action=withdraw]");
    page.wait_for("dialog :: No choice has been made for always.");
    page.press("Escape");
    page.wait_gone("dialog");
    talk.say("command");
    page.wait_for("[data-question] :: Run a command?");
    page.click("[data-question] button :: reject once");
    done(page);
    talk.all_is_well();
}

#[test]
fn a_form_is_filled_in_and_sent() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.say("form");
    page.wait_for("[data-question] :: Who are you?");
    page.wait_for("[data-question] label :: Your name");
    page.click("[data-question] button :: Send");
    // The name is required: nothing was sent.
    page.wait_for("[data-question] :: Who are you?");
    page.type_into("[data-question] input[type=text]", "Ada");
    page.screenshot("form");
    page.click("[data-question] button :: Send");
    page.wait_for("article.e-agent :: Ada");
    page.wait_for("article.e-agent :: green");
    done(page);
    talk.say("form");
    page.click("[data-question] button :: Decline");
    page.wait_for("article.e-agent :: You would rather not say.");
    talk.all_is_well();
}

#[test]
fn an_address_is_shown_and_opened_only_by_the_user() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.say("page");
    page.wait_for("[data-question] :: Look at the weather");
    page.wait_for("[data-question] code :: https://weather.example/");
    let link = page.eval("(link => [link.href, link.target, link.rel])(find('[data-question] a')[0])");
    assert_eq!(link, json!(["https://weather.example/", "_blank", "noopener noreferrer nofollow"]));
    page.click("[data-question] button :: Decline");
    page.wait_for("article.e-agent :: You would rather not say.");
    page.wait_gone("[data-question]");
    talk.all_is_well();
}
