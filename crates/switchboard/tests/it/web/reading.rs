//! What an agent has said and done, read: searched, enlarged, and followed to what it is about.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::scripted_agent::{scripted_agent, update};
use super::talk::{Talk, done};
use super::trust::go;
use crate::agent_program::Place;

#[test]
fn all_output_of_a_terminal_is_searched() {
    let place = Place::new();
    let lines = (1..=5000).map(|number| match number {
        5 => "\x1b[31mneed\x1b[0mle <b>early</b>\n".to_owned(),
        4990 => "NEEDLE late\n".to_owned(),
        _ => format!("line {number} of many that say nothing\n"),
    });
    let output = STANDARD.encode(lines.collect::<String>());
    let said = [
        update(
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Run", "kind": "execute",
            "status": "completed", "content": [{ "type": "terminal", "terminalId": "t" }] }),
        ),
        update(json!({ "sessionUpdate": "terminal_update", "terminalId": "t", "command": "make" })),
        update(json!({ "sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": output })),
        update(json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn" })),
    ];
    let agent = scripted_agent(&place.work(), &json!({}), &json!({}), &said);
    let talk = Talk::with(place, &["--", "sh", agent.to_str().unwrap()]);
    let page = &talk.page;
    go(page);
    page.wait_for("article.e-tool .screen :: NEEDLE late");
    // The page has only the end of it.
    page.wait_until("!document.querySelector('article.e-tool .screen').textContent.includes('early')");
    page.click("article.e-tool [data-action=find-output]");
    page.wait_until("document.activeElement.id === 'output-query'");
    page.type_text("needle");
    page.press("Enter");
    page.wait_for("#output-found :: 2 lines of 5000");
    page.wait_for("#output-found li[value='5'] mark :: needle");
    page.wait_for("#output-found li[value='5'] :: needle <b>early</b>");
    page.wait_for("#output-found li[value='4990'] mark :: NEEDLE");
    page.screenshot("output-found");
    talk.all_is_well();
}

#[test]
fn a_path_in_a_message_leads_to_its_diff() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.ask("edit");
    talk.ask("look at `switchboard-demo/config.json` and `switchboard-demo/none.json` or `and/or`");
    let named = "article.e-agent button.path";
    page.wait_for(&format!("{named} :: none.json"));
    page.wait_until("!find('article.e-agent button.path').some(it => it.innerText === 'and/or')");
    page.click(&format!("{named} :: config.json"));
    page.wait_for("#dialog .changes .diff ins :: \"debug\": true");
    page.wait_for("#dialog .changes a :: entry");
    // And to the file as it is.
    page.wait_for("#dialog .file li :: \"debug\": true");
    page.screenshot("path-to-diff");
    page.press("Escape");
    page.wait_gone("#dialog");
    page.click(&format!("{named} :: none.json"));
    page.wait_for("#toasts :: the session does not name this file");
    talk.all_is_well();
}

#[test]
fn a_picture_grows_by_a_click() {
    const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAGAAAAAwAQMAAADU2O2MAAAABlBMVEXwyFAfb2uN4iebAAAAG0lEQVR42mNg4P+PQIOM8/8DAg02zmi4kcUBAAEsHvBnMp/dAAAAAElFTkSuQmCC";
    let place = Place::new();
    let picture = json!([{ "type": "image", "mimeType": "image/png", "data": PICTURE }]);
    let said = update(json!({ "sessionUpdate": "agent_message", "messageId": "m", "content": picture }));
    let idle = update(json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn" }));
    let agent = scripted_agent(&place.work(), &json!({}), &json!({}), &[said, idle]);
    let talk = Talk::with(place, &["--", "sh", agent.to_str().unwrap()]);
    let page = &talk.page;
    go(page);
    done(page);
    page.click("article.e-agent [data-action=enlarge]");
    page.wait_until("document.querySelector('#dialog #large img')?.complete && find('#dialog #large img')[0].naturalWidth === 96");
    page.press("Escape");
    page.wait_gone("#dialog");
    talk.all_is_well();
}
