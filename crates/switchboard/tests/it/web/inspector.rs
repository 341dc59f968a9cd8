//! The messages beside the session.

use super::talk::{Talk, done, say};
use switchboard_browser::Page;

/// How many messages the filters let through.
fn total(page: &Page) -> u64 {
    let words = page.text("#wire-count");
    words.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{words}"))
}

/// Chooses an option of a select that begins so, by the keyboard.
fn choose(page: &Page, selector: &str, words: &str) {
    let chosen = format!("document.querySelector('{selector}').selectedOptions[0].text");
    page.eval(&format!("document.querySelector('{selector}').focus()"));
    page.press("Home");
    let count = page.eval(&format!("document.querySelector('{selector}').options.length")).as_u64().unwrap();
    for _ in 0..count {
        if page.eval(&chosen).as_str().unwrap().starts_with(words) {
            return;
        }
        page.press("ArrowDown");
    }
    panic!("{selector} has no option {words}");
}

fn open_with(prompt: &str) -> Talk {
    let talk = Talk::with_demo();
    talk.page.resize(1600, 1000);
    talk.ask(prompt);
    talk.page.click("#show-inspector");
    talk.page.wait_for("#wire-rows [data-row]");
    talk
}

/// Scrolls to the first message, also where the end is followed in the same moment.
fn to_the_top(page: &Page) {
    page.wait_until("(document.querySelector('#wire').scrollTop = 0, find('#wire-rows .row-request', 'initialize').length)");
}

#[test]
fn every_message_is_listed_in_both_directions_with_latency() {
    let talk = open_with("tool");
    let page = &talk.page;
    to_the_top(page);
    page.wait_for("#wire-rows .row-out.row-request :: initialize");
    page.wait_for("#wire-rows .row-in.row-result :: initialize ✓");
    page.wait_for("#wire-rows .row-in.row-result .latency :: ms");
    // Numbers are in sight as a whole.
    let cut = page.eval(
        "find('#wire-rows .row > span').filter(cell => cell.textContent && !cell.matches('.k, .x')).filter(cell => {
            const range = document.createRange();
            range.selectNodeContents(cell);
            const [text, box] = [range.getBoundingClientRect(), cell.getBoundingClientRect()];
            return text.left < box.left - 1 || text.right > box.right + 1;
        }).map(cell => cell.outerHTML)",
    );
    assert_eq!(cut, serde_json::json!([]));
    page.wait_for("#wire-rows .row-out :: session/new");
    page.eval("document.querySelector('#wire').scrollTop = 1e6");
    page.wait_for("#wire-rows .row-in :: tool_call_content_chunk");
    let before = total(page);
    talk.ask("hello");
    page.wait_until(&format!("parseInt(document.querySelector('#wire-count').textContent) > {before}"));
    page.wait_for("#wire-rows .row-in :: agent_message_chunk");
    page.wait_for("#rates figcaption :: messages/s");
    page.screenshot("inspector");
    talk.all_is_well();
}

#[test]
fn filters_narrow_the_list() {
    let talk = open_with("tool");
    let page = &talk.page;
    let all = total(page);
    choose(page, "#wire-direction", "to the agent");
    page.wait_until("find('#wire-rows .row-in').length === 0 && find('#wire-rows .row-out').length > 0");
    assert!(total(page) < all);
    choose(page, "#wire-direction", "both");
    page.wait_until("find('#wire-rows .row-in').length > 0");
    choose(page, "#wire-kind", "tool_call_content");
    page.wait_until("find('#wire-rows [data-row]').length === 10");
    assert_eq!(total(page), 10);
    choose(page, "#wire-kind", "all");
    choose(page, "#wire-method", "session/new");
    page.wait_until("find('#wire-rows [data-row]').length === 2");
    choose(page, "#wire-method", "all");
    page.type_into("#wire-text", "count to TEN");
    page.wait_for("#wire-rows :: Count to ten");
    page.wait_until("find('#wire-rows [data-row]').length <= 3");
    talk.all_is_well();
}

#[test]
fn problems_stand_out() {
    let talk = open_with("malformed");
    let page = &talk.page;
    let all = total(page);
    page.click("#wire-problems");
    page.wait_until(&format!("parseInt(document.querySelector('#wire-count').textContent) < {all}"));
    assert!(page.count("#wire-rows .row-problem") >= 5);
    page.click("#wire-rows .row-problem :: a line that is no message");
    page.wait_for("#detail pre :: INFO this line is a log line");
    page.click("#wire-rows .row-problem.row-in :: tool_call_update");
    page.wait_for("#detail .problem");
    page.screenshot("inspector-problems");
    talk.all_is_well();
}

#[test]
fn standard_error_is_among_the_messages() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.say("crash");
    page.wait_for("#trouble :: The agent is gone");
    page.click("#show-inspector");
    page.wait_for("#wire-rows .row-stderr :: something is badly wrong");
    page.wait_for("#wire-rows .row-process");
    talk.all_is_well();
}

#[test]
fn an_entry_leads_to_its_messages_and_a_message_to_what_it_changed() {
    let talk = open_with("tool");
    let page = &talk.page;
    // The entry: only its messages. Ten chunks, the beginning and the end.
    page.click("article.e-tool .title");
    page.wait_for("#wire-entry");
    page.wait_until("find('#wire-rows [data-row]').length === 12");
    page.click("#wire-rows .row :: tool_call_content_chunk");
    page.wait_for("#detail :: tool_call_content_chunk");
    page.wait_for("#detail .changed :: tool call");
    page.wait_for("#detail .changed :: appended");
    page.wait_for("#detail pre :: \"sessionUpdate\"");
    assert!(page.eval("location.hash").as_str().unwrap().starts_with("#m"));
    page.click("#wire-entry");
    page.wait_until("parseInt(document.querySelector('#wire-count').textContent) > 12");
    page.click("#detail [data-action=entry]");
    page.wait_until("document.activeElement.matches('article.e-tool')");
    // Question and answer.
    to_the_top(page);
    page.click("#wire-rows .row-request :: initialize");
    page.wait_for("#detail :: protocolVersion");
    page.click("#detail [data-action=message] :: Its answer");
    page.wait_for("#detail :: switchboard-demo");
    page.click("#detail [data-action=message] :: Its question");
    page.wait_for("#detail :: to the agent");
    talk.all_is_well();
}

#[test]
fn a_message_is_copied() {
    let talk = open_with("hello");
    let page = &talk.page;
    let _clipboard = talk.visitor.allow_clipboard(&format!("http://{}", talk.opened.host()));
    to_the_top(page);
    page.click("#wire-rows .row-request :: initialize");
    page.click("#detail [data-action=copy-message]");
    page.wait_for("#toasts :: Copied.");
    let copied = page.eval("navigator.clipboard.readText()");
    let message: serde_json::Value = serde_json::from_str(copied.as_str().unwrap()).unwrap();
    assert_eq!(message["method"], "initialize");
    talk.all_is_well();
}

#[test]
fn the_slider_shows_the_session_as_it_stood() {
    let talk = open_with("redact");
    let page = &talk.page;
    assert_eq!(page.count("article :: hunter2"), 0);
    page.wait_until("document.querySelector('#slider').max === document.querySelector('#slider').value");
    // Back, key by key, to before it was taken back.
    page.eval("document.querySelector('#slider').focus()");
    let mut found = false;
    for _ in 0..12 {
        let at = page.eval("Number(document.querySelector('#slider').value)").as_u64().unwrap();
        page.press("ArrowLeft");
        page.wait_for(&format!("#then-words :: after message {} of", at - 1));
        if page.count("article :: The password is hunter2.") == 1 {
            found = true;
            break;
        }
    }
    assert!(found);
    assert_eq!(page.count("article :: I took back what I said."), 0);
    page.screenshot("slider");
    page.press("Home");
    page.wait_until("find('article').length === 0");
    page.click("[data-action=now]");
    page.wait_for("article :: I took back what I said.");
    page.wait_gone("#then");
    assert_eq!(page.count("article :: hunter2"), 0);
    talk.ask("hello");
    page.wait_for("article.e-agent :: Hello!");
    talk.all_is_well();
}

#[test]
fn the_end_is_followed_and_a_row_can_be_clicked_while_more_come() {
    let talk = open_with("hello");
    let page = &talk.page;
    let other = talk.visitor.open(page.eval("location.pathname && location.href").as_str().unwrap());
    other.wait_until("document.body.classList.contains('is-live')");
    let last = "Number(find('#wire-rows [data-row]').at(-1).dataset.row) + 1";
    let count = "parseInt(document.querySelector('#wire-count').textContent)";
    page.wait_until(&format!("{last} === {count}"));
    let before = total(page);
    say(&other, "flood 500");
    done(&other);
    page.wait_until(&format!("{last} === {count} && {count} > {before} + 500"));
    let held = page.hold("#wire-rows .row:nth-last-child(5)");
    let row = page.eval("Number(document.querySelector('#wire-rows .row:hover').dataset.row) + 1");
    say(&other, "flood 500");
    done(&other);
    held.release();
    page.wait_for(&format!("#detail .meta :: #{row} · notification"));
    // What was looked at stays in sight, and the end is followed again where somebody goes there.
    page.wait_until(&format!("{count} > {before} + 1000"));
    page.wait_for("#wire-rows [aria-selected=true]");
    page.eval("document.querySelector('#wire').scrollTop = 1e6");
    page.wait_until(&format!("{last} === {count}"));
    talk.all_is_well();
}

#[test]
fn both_sides_of_a_bridge_are_seen() {
    let demo = env!("CARGO_BIN_EXE_switchboard");
    let arguments = ["--", demo, "demo-agent", "--protocol", "1"];
    let talk = Talk::with(crate::agent_program::Place::new(), &arguments);
    let page = &talk.page;
    talk.ask("hello");
    page.wait_for("article.e-agent :: Hello! I am Switchboard's demo agent.");
    page.wait_for("#agent :: ACP 1");
    page.click("#show-inspector");
    page.wait_for("#wire-rows .row:not(.row-other) :: agent_message_chunk");
    choose(page, "#wire-method", "session/prompt");
    page.wait_for("#wire-rows .row-other :: session/prompt");
    page.wait_for("#wire-rows .row:not(.row-other) :: session/prompt");
    talk.all_is_well();
}

#[test]
fn a_violation_of_the_protocol_leads_to_its_message() {
    let talk = open_with("unknown");
    let page = &talk.page;
    page.click("#filters [data-action=verdict]");
    page.wait_for("#dialog-title :: Protocol: not conformant");
    page.wait_for("#dialog h3 :: update-kind");
    page.click("#dialog a[href^='#m']");
    page.wait_until("!document.querySelector('#dialog').open");
    page.wait_for("#detail :: weather_update");
    talk.all_is_well();
}
