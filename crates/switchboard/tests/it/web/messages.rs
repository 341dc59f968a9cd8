//! Messages and the session as a whole.

use base64::Engine as _;
use serde_json::{Value, json};

use super::scripted_agent::{heard, scripted_agent, update};
use super::talk::{Talk, done};
use crate::agent_program::Place;

#[test]
fn an_answer_is_streamed_word_by_word() {
    let demo = env!("CARGO_BIN_EXE_switchboard");
    let talk = Talk::with(Place::new(), &["--", demo, "demo-agent", "--pace", "20"]);
    // Notes every text that the answer ever showed.
    talk.page.eval(
        "globalThis.seen = new Set(), void new MutationObserver(() =>
            seen.add(document.querySelector('article.e-agent')?.innerText)
        ).observe(document.body, { childList: true, subtree: true, characterData: true })",
    );
    talk.ask("hello");
    talk.page.wait_for("article.e-user :: hello");
    talk.page.wait_for("article.e-agent :: I know the protocol by heart. Try help.");
    assert!(talk.page.eval("seen.size").as_u64() > Some(5));
    assert!(talk.page.text("#state").contains("idle"));
    talk.page.screenshot("hello");
    talk.all_is_well();
}

#[test]
fn text_that_grows_stays_where_it_is_and_as_it_was_selected() {
    let demo = env!("CARGO_BIN_EXE_switchboard");
    let talk = Talk::with(Place::new(), &["--", demo, "demo-agent", "--pace", "20"]);
    let page = &talk.page;
    talk.say("markdown");
    page.wait_for("article.e-agent h3 :: heading");
    page.eval(
        "globalThis.first = document.querySelector('article.e-agent h3'), void getSelection().selectAllChildren(first)",
    );
    done(page);
    assert_eq!(page.eval("[first.isConnected, String(getSelection())]"), json!([true, "A heading"]));
    // However it came to be, it is what somebody sees who comes later.
    let html = "document.querySelector('article.e-agent').innerHTML";
    page.wait_for("article.e-agent blockquote :: at the end.");
    let grown = page.eval(html);
    page.reload();
    page.wait_for("article.e-agent blockquote");
    assert_eq!(page.eval(html), grown);
    talk.all_is_well();
}

#[test]
fn markdown_is_formatted() {
    let talk = Talk::with_demo();
    talk.ask("markdown");
    for (selector, text) in [
        ("h1, h2, h3, h4", "A heading"),
        ("em", "emphasis"),
        ("strong", "strong words"),
        ("p code", "code"),
        ("li li", "and a half"),
        ("th", "name"),
        ("td", "22"),
        ("pre", "println!(\"hello\");"),
        ("blockquote", "A quotation, at the end."),
    ] {
        let inside: Vec<_> = selector.split(", ").map(|part| format!("article.e-agent {part}")).collect();
        talk.page.wait_for(&format!("{} :: {text}", inside.join(", ")));
    }
    talk.page.screenshot("markdown");
    talk.all_is_well();
}

#[test]
fn thoughts_are_folded_until_they_are_opened() {
    let talk = Talk::with_demo();
    talk.ask("thoughts");
    talk.page.wait_for("article.e-agent :: I have thought about it, twice.");
    assert_eq!(talk.page.count("article.e-thought"), 2);
    assert_eq!(talk.page.count("article.e-thought :: The user wants to see thoughts."), 0);
    talk.page.click("article.e-thought summary");
    talk.page.wait_for("article.e-thought :: The user wants to see thoughts. These are some.");
    assert_eq!(talk.page.count("article.e-thought :: That was enough of them."), 0);
    // What was opened stays open while other things happen.
    talk.ask("hello");
    assert_eq!(talk.page.count("article.e-thought :: These are some."), 1);
    talk.all_is_well();
}

#[test]
fn a_message_is_taken_back_where_it_stands() {
    let talk = Talk::with_demo();
    talk.ask("redact");
    talk.page.wait_for("article.e-agent :: I took back what I said.");
    assert_eq!(talk.page.eval("document.documentElement.outerHTML.includes('hunter2')"), false);
    // The emptied one is still there, before the last.
    assert_eq!(talk.page.count("article.e-agent"), 2);
    assert!(talk.page.texts("article.e-agent")[0].contains("Empty"));
    talk.all_is_well();
}

#[test]
fn a_message_is_replaced_where_it_stands() {
    let talk = Talk::with_demo();
    talk.ask("replace");
    talk.page.wait_for("article.e-agent :: Two and two is four. Now it is right.");
    assert_eq!(talk.page.count("article.e-agent"), 1);
    assert_eq!(talk.page.count("article :: five"), 0);
    talk.all_is_well();
}

#[test]
fn pieces_of_several_messages_find_their_own() {
    let talk = Talk::with_demo();
    talk.ask("interleave");
    talk.page.wait_for("article.e-agent :: left 1 left 2 left 3 left 4 left 5");
    talk.page.wait_for("article.e-agent :: right 1 right 2 right 3 right 4 right 5");
    talk.page.wait_for("article.e-tool :: 1 2 3 4 5");
    talk.ask("metadata");
    talk.page.wait_for("article.e-agent :: Only my metadata changes.");
    talk.page.wait_for("article.e-tool :: Change metadata");
    talk.all_is_well();
}

#[test]
fn a_plan_is_worked_through() {
    let talk = Talk::with_demo();
    talk.ask("plan");
    talk.page.wait_for("article.e-agent :: All went to plan.");
    if talk.page.count("#plans li") == 0 {
        talk.page.click("#plan-box summary");
    }
    assert_eq!(talk.page.count("#plans li.step-done"), 3);
    for step in ["Read the code", "Change it", "Run the tests"] {
        talk.page.wait_for(&format!("#plans li :: {step}"));
    }
    talk.page.wait_for("#plan-now :: 3 of 3");
    talk.all_is_well();
}

#[test]
fn options_are_set_here_and_changed_by_the_agent() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    page.wait_until("document.activeElement.id === 'prompt'");
    page.wait_until("document.querySelector('[data-config=mood]').value === 'calm'");
    page.eval("document.querySelector('[data-config=mood]').isOld = true");
    page.eval("document.querySelector('[data-config=mood]').focus()");
    page.press("ArrowDown");
    // What the agent confirms takes the place of what was set.
    page.wait_until("!document.querySelector('[data-config=mood]').isOld");
    page.wait_until("document.querySelector('[data-config=mood]').value === 'cheerful'");
    page.click("[data-config=verbose]");
    page.wait_until("document.querySelector('[data-config=verbose]').checked");
    talk.ask("config");
    page.wait_for("article.e-agent :: My mood was cheerful, now it is calm.");
    page.wait_until("document.querySelector('[data-config=mood]').value === 'calm'");
    page.wait_until("document.querySelector('[data-config=verbose]').checked");
    talk.all_is_well();
}

#[test]
fn notices_usage_and_compactions_are_shown() {
    let talk = Talk::with_demo();
    talk.ask("notice");
    let page = &talk.page;
    page.wait_for("article.e-agent :: Now there is room again.");
    page.wait_for("article .notice :: The context is nearly full");
    page.wait_for("#usage :: 1,000 of 200,000");
    page.wait_for("h1 :: A session with notices");
    page.wait_for("article.e-compact :: The conversation was compacted");
    assert_eq!(page.count("article.e-compact :: The user wants to see notices."), 0);
    page.click("article.e-compact summary");
    page.wait_for("article.e-compact :: The user wants to see notices.");
    page.screenshot("notice");
    talk.all_is_well();
}

#[test]
fn what_nobody_knows_is_shown_as_it_came() {
    let talk = Talk::with_demo();
    talk.ask("unknown");
    let page = &talk.page;
    page.wait_for("article.e-agent :: _demo_map");
    page.wait_for("article.e-agent :: \"wind\": 12.5");
    page.wait_for("article.e-tool :: Look out of the window");
    page.wait_for("article.e-tool :: _demo_map");
    page.screenshot("unknown");
    talk.all_is_well();
}

#[test]
fn commands_are_completed() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    page.wait_until("document.body.classList.contains('is-live')");
    page.type_into("#prompt", "/re");
    page.wait_for("#completions [data-command=redact]");
    page.wait_for("#completions :: Replaces a message after it was streamed");
    assert_eq!(page.count("#completions [data-command=hello]"), 0);
    page.screenshot("completion");
    page.type_text("d");
    page.wait_until("document.activeElement.getAttribute('aria-activedescendant') === 'completion-0'");
    page.press("Tab");
    assert_eq!(page.eval("document.querySelector('#prompt').value"), "/redact ");
    page.wait_gone("#completions");
    page.press("Enter");
    page.wait_for("article.e-agent :: I took back what I said.");
    done(page);
    // With the mouse, and dismissed.
    page.type_into("#prompt", "/hel");
    page.click("#completions [data-command=hello]");
    assert_eq!(page.eval("document.querySelector('#prompt').value"), "/hello ");
    page.press("Control+a");
    page.type_text("/");
    page.wait_for("#completions");
    page.press("Escape");
    page.wait_gone("#completions");
    talk.all_is_well();
}

#[test]
fn a_prompt_has_several_lines() {
    let talk = Talk::with_demo();
    talk.page.wait_until("document.body.classList.contains('is-live')");
    talk.say("first line\nsecond line");
    done(&talk.page);
    talk.page.wait_for("article.e-user :: first line\nsecond line");
    talk.page.wait_for("article.e-agent :: second line");
    assert_eq!(talk.page.eval("document.querySelector('#prompt').value"), "");
    talk.all_is_well();
}

#[test]
fn files_go_with_a_prompt_where_the_agent_takes_them() {
    let talk = Talk::with_demo();
    assert_eq!(talk.page.count("#attach"), 0, "the demo agent takes no files");
    let place = Place::new();
    let work = place.work();
    let answer = json!({ "sessionUpdate": "agent_message", "messageId": "m", "content": [{ "type": "text", "text": "Thanks" }] });
    let agent =
        scripted_agent(&work, &json!({ "image": {}, "embeddedContext": {} }), &json!({}), &[update(answer)]);
    let talk = Talk::with(place, &["--", "sh", agent.to_str().unwrap()]);
    let page = &talk.page;
    page.wait_for("#attach");
    std::fs::write(work.join("note.txt"), "remember the milk").unwrap();
    std::fs::write(work.join("dot.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    page.attach("#files", &[&work.join("note.txt"), &work.join("dot.png")]);
    page.wait_for("#attachments :: note.txt");
    page.attach("#files", &[&work.join("agent-lines.jsonl")]);
    page.wait_for("#attachments :: agent-lines.jsonl");
    page.click("#attachments button :: Remove agent-lines.jsonl");
    page.wait_gone("#attachments :: agent-lines.jsonl");
    page.screenshot("attachments");
    page.type_into("#prompt", "Look");
    page.press("Enter");
    page.wait_for("article.e-agent :: Thanks");
    page.wait_gone("#attachments li");
    let lines = std::fs::read_to_string(heard(&work)).unwrap();
    let prompt: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let blocks = &prompt["params"]["prompt"];
    assert_eq!(blocks[0], json!({ "type": "text", "text": "Look" }));
    assert_eq!(blocks[1]["resource"]["text"], "remember the milk");
    let dot = base64::engine::general_purpose::STANDARD.encode(b"\x89PNG\r\n\x1a\n");
    assert_eq!(blocks[2], json!({ "type": "image", "mimeType": "image/png", "data": dot }));
    talk.all_is_well();
}

#[test]
fn every_scenario_of_the_demo_agent_is_tried_here() {
    let talk = Talk::with_demo();
    talk.ask("help");
    talk.page.wait_for("article.e-agent li :: /malformed");
    let commands =
        talk.page.eval("[...document.querySelectorAll('#commands li')].map(it => it.dataset.command)");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/web");
    let tests: String = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    assert!(commands.as_array().unwrap().len() >= 30, "{commands}");
    for command in commands.as_array().unwrap() {
        let command = command.as_str().unwrap();
        let is_tried =
            [format!("\"{command}\""), format!("\"{command} ")].iter().any(|quoted| tests.contains(quoted));
        assert!(is_tried, "no test plays {command}");
    }
    talk.all_is_well();
}
