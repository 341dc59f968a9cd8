//! Tool calls as lines: one for each call, one for a run of finished calls; the end of a turn; search in a session.

use serde_json::{Value, json};

use super::scripted_agent::{scripted_agent, update};
use super::talk::{Talk, done};
use super::trust::go;
use crate::agent_program::Place;

fn finished(id: usize, kind: &str) -> Value {
    let content =
        json!([{ "type": "content", "content": { "type": "text", "text": format!("result {id}") } }]);
    update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": format!("c{id}"), "title": format!("Look at number {id}"),
        "kind": kind, "status": "completed", "content": content }),
    )
}

fn idle() -> Value {
    update(json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn" }))
}

#[test]
fn a_finished_call_is_one_line_that_opens() {
    let talk = Talk::folded(Place::new(), &["demo"]);
    let page = &talk.page;
    talk.ask("tool");
    page.wait_for("article.e-tool .title :: Count to ten");
    page.wait_until("document.querySelector('article.e-tool .fold').open === false");
    assert_eq!(page.count("article.e-tool > .md"), 0);
    page.click("article.e-tool .title");
    page.wait_for("article.e-tool > .md :: 10");
    page.screenshot("call-open");
    // The turn ends with its time.
    page.wait_for("article .turn-end time :: :");
    // A change of a file is shown without a click.
    talk.ask("edit");
    page.wait_for("article.e-tool .df ins");
    talk.all_is_well();
}

#[test]
fn a_run_of_finished_calls_is_one_line_and_its_calls_are_found() {
    let place = Place::new();
    let mut said: Vec<Value> = (0..5).map(|id| finished(id, "read")).collect();
    said.extend([finished(5, "execute"), finished(6, "execute")]);
    let text = json!({ "type": "text", "text": "That is all." });
    said.push(update(json!({ "sessionUpdate": "agent_message_chunk", "messageId": "m", "content": text })));
    said.push(idle());
    let agent = scripted_agent(&place.work(), &json!({}), &json!({}), &said);
    let talk = Talk::folded(place, &["--", "sh", agent.to_str().unwrap()]);
    let page = &talk.page;
    go(page);
    done(page);
    page.wait_for(".run :: Read 5 files, ran 2 commands");
    assert_eq!(page.count("article.e-tool .title"), 0);
    page.screenshot("run-folded");
    page.click(".run");
    page.wait_until("find('article.e-tool .title').length === 7 && document.activeElement.matches('.run')");
    page.screenshot("run-open");
    page.press("Enter");
    page.wait_until("find('article.e-tool .title').length === 0");
    // A search opens what hides the match.
    page.press("Control+f");
    page.wait_until("document.activeElement.id === 'find-query'");
    page.type_text("result 3");
    page.wait_for("#find-count :: 1 of 1");
    page.wait_for("article.e-tool .title :: Look at number 3");
    page.press("Escape");
    page.wait_gone("#find");
    page.wait_until("document.activeElement.id === 'prompt'");
    talk.all_is_well();
}

#[test]
fn a_search_keeps_the_focus_when_the_palette_has_just_been_closed() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.ask("hello");
    page.press("Control+k");
    page.wait_for("#palette-list li");
    // In one task: the browser sends the "close" event of the palette when the search is already open.
    page.eval(
        "(() => { const palette = document.getElementById('palette');
           palette.addEventListener('close', () => { globalThis.isClosed = true; });
           palette.close();
           const key = { key: 'f', code: 'KeyF', ctrlKey: true, bubbles: true };
           document.body.dispatchEvent(new KeyboardEvent('keydown', key)); })()",
    );
    page.wait_until("globalThis.isClosed === true");
    assert_eq!(page.eval("document.activeElement.id"), "find-query");
    talk.all_is_well();
}

#[test]
fn the_palette_finds_sessions_and_actions() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.ask("hello");
    page.click("header [data-action=new]");
    page.wait_until("find('article').length === 0");
    page.press("Control+k");
    page.wait_until("document.activeElement.id === 'palette-query'");
    page.type_text("hello");
    page.wait_until("find('#palette-list li').length === 1");
    page.press("Enter");
    page.wait_for("article.e-agent :: Hello!");
    page.press("Control+k");
    page.type_text("shortcuts");
    page.press("Enter");
    page.wait_for("#dialog :: Find in the session");
    page.press("Escape");
    page.wait_until("document.activeElement.id === 'prompt'");
    talk.all_is_well();
}

#[test]
fn all_questions_are_rejected_at_once_and_a_prompt_is_edited() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.say("subagents");
    page.wait_until("find('[data-question] .opt-reject:not(.opt-always, :disabled)').length === 2");
    page.click("[data-action=reject-all] :: Reject all");
    page.wait_gone("[data-question]");
    done(page);
    page.click("article.e-user [data-action=edit-prompt]");
    page.wait_until("document.activeElement.id === 'prompt' && document.activeElement.value === 'subagents'");
    talk.all_is_well();
}
