//! What a person writes: before a session is there, while the agent works, and what becomes of it when something fails.

use serde_json::json;

use super::scripted_agent::{heard, scripted_agent, update};
use super::talk::{Talk, done};
use crate::agent_program::Place;

#[test]
fn what_is_written_before_the_session_is_there_is_kept_and_goes_out_then() {
    let place = Place::new();
    let said = update(json!({
        "sessionUpdate": "agent_message_chunk", "messageId": "m", "content": { "type": "text", "text": "heard you" },
    }));
    let idle = update(json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn" }));
    let program = scripted_agent(&place.work(), &json!({}), &json!({}), &[said, idle]);
    // It says nothing until somebody opens the gate.
    let gate = place.fifo("gate");
    let command = format!("cat {} >/dev/null; exec sh {}", gate.display(), program.display());
    let talk = Talk::with(place, &["--", "sh", "-c", &command]);
    let page = &talk.page;
    page.wait_for("#hint h2 :: Starting sh");
    page.wait_for("#hint [data-since] :: s");
    page.wait_for(&format!("#hint code :: {}", talk.place.work().display()));
    page.screenshot("starting");
    page.type_into("#prompt", "first words");
    page.press("Enter");
    page.wait_for("#held .queued :: first words");
    page.wait_until("document.querySelector('#prompt').value === ''");
    page.type_into("#prompt", "second words");
    page.press("Enter");
    page.wait_for("#held .queued :: second words");
    page.reload();
    page.wait_for("#held .queued :: second words");
    page.click("#held .queued:last-child button :: Take back");
    page.wait_gone("#held .queued :: second words");
    page.click("#held button :: Edit");
    page.wait_gone("#held .queued");
    page.wait_until("document.querySelector('#prompt').value === 'first words'");
    page.type_into("#prompt", ", changed");
    page.press("Enter");
    page.wait_for("#held .queued :: first words, changed");
    std::fs::write(&gate, "open").unwrap();
    page.wait_for("article.e-agent :: heard you");
    page.wait_gone("#held .queued");
    let heard = std::fs::read_to_string(heard(&talk.place.work())).unwrap();
    let prompts: Vec<&str> = heard.lines().filter(|line| line.contains("session/prompt")).collect();
    assert!(matches!(prompts[..], [only] if only.contains("first words, changed")), "{prompts:?}");
    talk.all_is_well();
}

#[test]
fn nothing_that_was_written_vanishes() {
    let place = Place::new();
    std::fs::create_dir_all(place.work().join("src")).unwrap();
    std::fs::write(place.work().join("src/main.rs"), "fn main() {}\n").unwrap();
    std::fs::write(place.work().join("ignored.rs"), "").unwrap();
    std::fs::write(place.work().join(".gitignore"), "ignored.rs\n").unwrap();
    let talk = Talk::with(place, &["demo"]);
    let page = &talk.page;
    let value =
        |text: &str| page.wait_until(&format!("document.querySelector('#prompt').value === {}", json!(text)));
    // Where we are, and what can be done.
    page.wait_for("#hint h2 :: Switchboard's demo agent");
    page.wait_for(&format!("#hint code :: {}", talk.place.work().display()));
    assert_eq!(page.count("#hint [data-action=example]"), 3);
    page.screenshot("first-screen");
    page.wait_until("document.activeElement.id === 'prompt'");
    page.click("#hint [data-text=edit]");
    value("edit");
    page.wait_until("document.activeElement.id === 'prompt'");
    // A draft survives.
    page.type_text(" this");
    page.reload();
    value("edit this");
    page.eval("(prompt => { prompt.value = ''; prompt.dispatchEvent(new Event('input')); })(document.querySelector('#prompt'))");

    // A failed turn stays, with its reason and a way to try again.
    talk.ask("fail");
    page.wait_for("article.e-user .failed :: the demo failed, as it was asked to");
    talk.ask("hello");
    page.wait_for("article.e-user .failed :: the demo failed, as it was asked to");
    page.screenshot("failed-turn");
    page.click("article .failed button :: Try again");
    page.wait_until("find('article .failed').length === 2");
    done(page);

    // What waits for its turn is changed and taken back.
    talk.say("slow");
    page.type_into("#prompt", "hello there");
    page.press("Enter");
    page.wait_for("#queue .queued :: hello there");
    page.screenshot("queue");
    page.click("#queue .queued button :: Edit");
    page.wait_gone("#queue .queued");
    value("hello there");
    page.press("Enter");
    page.click("#queue .queued button :: Take back");
    page.wait_gone("#queue .queued");
    value("");
    page.click("#cancel :: Stop");
    done(page);
    assert_eq!(page.count("article.e-user :: hello there"), 0);

    // The last prompts come back.
    page.click("#prompt");
    for (key, text) in
        [("ArrowUp", "hello there"), ("ArrowUp", "slow"), ("ArrowDown", "hello there"), ("ArrowDown", "")]
    {
        page.press(key);
        value(text);
    }

    // Files of the folder, but not what Git ignores.
    page.type_into("#prompt", "look at @");
    page.wait_for("#completions [data-path] :: src/main.rs");
    assert_eq!(page.count("#completions [data-path] :: ignored.rs"), 0);
    page.type_text("mai");
    page.wait_until("find('#completions [data-path]').length === 1");
    page.screenshot("mentions");
    page.press("Enter");
    value("look at @src/main.rs ");
    page.press("Enter");
    page.wait_for("article.e-user :: look at @src/main.rs");
    page.wait_for("article.e-user .p :: main.rs");
    done(page);

    // Options by keyboard, and commands with what they take.
    page.press("Alt+m");
    page.wait_until("document.activeElement.dataset.config === 'mood'");
    page.press("Alt+m");
    page.press("Alt+m");
    page.wait_until("document.activeElement.id === 'prompt'");

    // Light and dark as the user wants, also after a reload.
    for (theme, scheme) in [("dark", "dark"), ("light", "light"), ("", "light dark")] {
        page.eval(&format!("(it => {{ it.value = '{theme}'; it.dispatchEvent(new Event('change')); }})(document.querySelector('#theme'))"));
        page.reload();
        page.wait_until(&format!("getComputedStyle(document.documentElement).colorScheme === '{scheme}'"));
    }
    talk.all_is_well();
}
