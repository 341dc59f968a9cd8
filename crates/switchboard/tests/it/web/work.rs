//! Tool calls, terminals, cancelling, and agents that misbehave.

use super::talk::{Talk, done};
use crate::agent_program::Place;
use crate::serve::lifecycle::write_stubborn;

#[test]
fn a_tool_call_has_its_result_and_details() {
    let talk = Talk::with_demo();
    talk.ask("tool");
    let (page, card) = (&talk.page, "article.e-tool");
    page.wait_for(&format!("{card} :: Count to ten"));
    page.wait_for(&format!("{card} :: completed"));
    page.wait_for(&format!("{card} :: 10"));
    // Raw values only on demand.
    assert_eq!(page.count(&format!("{card} pre :: counted")), 0);
    page.click(&format!("{card} summary :: Details"));
    page.wait_for(&format!("{card} :: \"counted\": 10"));
    page.wait_for(&format!("{card} :: \"to\": 10"));
    page.screenshot("tool");
    talk.all_is_well();
}

#[test]
fn fields_of_a_call_are_cleared() {
    let talk = Talk::with_demo();
    talk.ask("clear");
    talk.page.wait_for("article.e-tool :: Filled and cleared");
    let card = talk.page.text("article.e-tool");
    for gone in ["This will be cleared", "some-file", "Raw input", "Fill and clear"] {
        assert!(!card.contains(gone), "{card}");
    }
    talk.all_is_well();
}

#[test]
fn a_terminal_is_a_screen_with_colours() {
    let talk = Talk::with_demo();
    talk.ask("terminal");
    let page = &talk.page;
    page.wait_for("article.e-tool .screen :: grün 🐢");
    page.wait_for("article.e-tool :: exited with 0");
    assert_eq!(page.texts("article.e-tool .screen span.f2"), ["grün"]);
    let colors = page.eval(
        "['.screen', '.screen .f2'].map(selector => getComputedStyle(document.querySelector(selector)).color)",
    );
    assert_ne!(colors[0], colors[1]);
    page.screenshot("terminal");
    talk.all_is_well();
}

#[test]
fn work_is_cancelled_as_a_whole_or_in_part() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    page.wait_gone("#cancel");
    talk.say("slow");
    page.wait_for("article.e-tool :: running");
    assert!(page.text("#state").contains("running"));
    page.screenshot("running");
    page.click("#cancel");
    done(page);
    page.wait_for("article.e-tool :: cancelled");
    page.wait_for("#state :: cancelled");
    page.wait_gone("#cancel");
    talk.say("slow");
    page.click("article.e-tool [data-action=cancel]");
    page.wait_for("article.e-agent :: You cancelled the slow part");
    done(page);
    // By the keyboard.
    talk.say("slow");
    page.wait_for("article.e-tool :: running");
    page.press("Escape");
    done(page);
    page.wait_gone("article.e-tool :: running");
    talk.all_is_well();
}

#[test]
fn an_agent_that_does_not_listen_is_waited_for() {
    let talk = Talk::with_demo();
    talk.say("stubborn 1");
    talk.page.click("#cancel");
    done(&talk.page);
    talk.page.wait_for("article.e-tool :: completed");
    talk.ask("hello");
    talk.page.wait_for("article.e-agent :: Hello!");
    talk.all_is_well();
}

#[test]
fn failures_and_refusals_are_told() {
    let talk = Talk::with_demo();
    talk.ask("fail");
    talk.page.wait_for("body :: the demo failed, as it was asked to");
    talk.ask("refuse");
    talk.page.wait_for("article.e-agent :: I would rather not.");
    talk.page.wait_for("#state :: refused");
    talk.all_is_well();
}

#[test]
fn an_agent_that_dies_is_started_again() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.say("crash");
    page.wait_for("article.e-agent :: I do not feel well.");
    page.wait_for("#trouble :: The agent is gone");
    page.wait_for("#trouble :: something is badly wrong\ndemo-agent: this is the last line");
    page.wait_for("#state :: gone");
    page.screenshot("crash");
    // The same session goes on with another process.
    page.type_into("#prompt", "hello");
    page.press("Enter");
    page.wait_gone("#trouble :: The agent is gone");
    page.wait_for("article.e-agent :: Hello!");
    // What was said before is above a divider that says what the agent knows.
    page.wait_for(".e-memory-lost :: The agent has lost its memory of what is above");
    page.wait_for("article.e-agent :: I do not feel well.");
    talk.all_is_well();
}

#[test]
fn an_agent_that_does_not_stop_can_be_ended_and_the_next_message_starts_it_again() {
    let place = Place::new();
    let command = write_stubborn(&place);
    let talk = Talk::with(place, &command);
    let page = &talk.page;
    talk.say("wait");
    page.wait_for("article.e-agent :: I am ");
    page.click("#cancel");
    page.wait_for("#trouble :: The agent did not stop after the cancellation");
    page.screenshot("unresponsive");
    page.click("[data-action='end-agent']");
    page.wait_gone("#trouble :: The agent did not stop after the cancellation");
    talk.ask("hello");
    page.wait_for(".e-memory-lost :: The agent has lost its memory of what is above");
    page.wait_until("find('article.e-agent').length === 2");
    talk.all_is_well();
}

#[test]
fn noise_between_messages_does_no_harm() {
    let talk = Talk::with_demo();
    talk.ask("malformed");
    talk.page.wait_for("article.e-agent :: Before the noise. After the noise.");
    talk.ask("hello");
    talk.page.wait_for("article.e-agent :: Hello!");
    talk.all_is_well();
}

#[test]
fn a_flood_leaves_a_small_page() {
    let talk = Talk::with_demo();
    talk.ask("flood 20000");
    let page = &talk.page;
    page.wait_for("article.e-agent :: piece 19999");
    assert!(page.eval("document.querySelectorAll('*').length").as_u64() < Some(3000));
    // The beginning is a click away.
    page.click("article.e-agent [data-action=earlier]");
    page.wait_until("!find('article.e-agent')[0].innerText.includes('piece 0\\n')");
    talk.all_is_well();
}
