//! Review of a session's changes: hunks are undone, restored and kept, and copied as a patch.

use switchboard_browser::Page;

use super::talk::{Talk, done, say};
use crate::agent_program::Place;

/// The text of a file of the demo agent.
fn file(talk: &Talk, name: &str) -> Option<String> {
    std::fs::read_to_string(talk.place.work().join("switchboard-demo").join(name)).ok()
}

fn review(page: &Page) {
    page.click(".bar [data-action=changes]");
    page.wait_for("#dialog #review");
}

const CONFIG: &str = "#review .review-file[data-path$='config.json']";

#[test]
fn a_hunk_is_undone_on_disk_and_restored() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.ask("edit");
    assert!(file(&talk, "config.json").unwrap().contains("\"debug\": true"));
    review(page);
    page.wait_for("#review :: 5 files");
    page.wait_for(&format!("{CONFIG} ins :: \"debug\": true"));
    page.screenshot("review");
    page.click(&format!("{CONFIG} .review-hunk button :: Undo"));
    page.wait_for(&format!("{CONFIG} .is-undone :: undone"));
    page.wait_for(&format!("{CONFIG} :: The file is as it was before the session."));
    assert!(file(&talk, "config.json").unwrap().contains("\"debug\": false"));
    // The focus stays in the file.
    page.wait_until(&format!("document.activeElement.closest(\"{CONFIG}\") !== null"));
    page.screenshot("review-undone");
    page.click(&format!("{CONFIG} button :: Restore"));
    page.wait_gone(&format!("{CONFIG} .is-undone"));
    assert!(file(&talk, "config.json").unwrap().contains("\"debug\": true"));
    // New and deleted files, as a whole.
    page.click("#review [data-path$='new.txt'] button :: Undo all in this file");
    page.wait_for("#review [data-path$='new.txt'] .is-undone");
    page.click("#review [data-path$='obsolete.txt'] button :: Undo all in this file");
    page.wait_for("#review [data-path$='obsolete.txt'] .is-undone");
    assert_eq!(file(&talk, "new.txt"), None);
    assert_eq!(file(&talk, "obsolete.txt").as_deref(), Some("Nobody needs this.\n"));
    talk.all_is_well();
}

#[test]
fn a_file_that_has_changed_since_is_not_written() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.ask("edit");
    review(page);
    page.wait_for(&format!("{CONFIG} ins"));
    let path = talk.place.work().join("switchboard-demo/config.json");
    std::fs::write(&path, "{\n  \"other\": 1\n}\n").unwrap();
    page.click(&format!("{CONFIG} .review-hunk button :: Undo"));
    page.wait_for("#toasts :: you have changed it since");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\n  \"other\": 1\n}\n");
    // The review says so from now on, and offers no undo.
    page.wait_for(&format!("{CONFIG} :: another program or you have changed it since"));
    assert_eq!(page.count(&format!("{CONFIG} button :: Undo")), 0);
    talk.all_is_well();
}

#[test]
fn a_kept_hunk_is_folded_and_the_keyboard_is_enough() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.ask("edit");
    review(page);
    page.wait_for(&format!("{CONFIG} .review-hunk"));
    page.eval(&format!("document.querySelector(\"{CONFIG} [data-action=keep-change]\").focus()"));
    page.press("Enter");
    page.wait_for(&format!("{CONFIG} .is-kept :: kept"));
    assert_eq!(page.count(&format!("{CONFIG} ins")), 0);
    // It is kept in another look, too.
    page.press("Escape");
    page.wait_gone("#dialog");
    review(page);
    page.wait_for(&format!("{CONFIG} .is-kept :: kept"));
    page.click(&format!("{CONFIG} button :: Show"));
    page.wait_for(&format!("{CONFIG} ins"));
    talk.all_is_well();
}

#[test]
fn all_changes_are_copied_as_one_patch_that_git_reverts() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.ask("edit");
    review(page);
    page.eval(
        "Object.defineProperty(navigator, 'clipboard', { value: { writeText: async text => { window.copied = text; } } })",
    );
    page.click("#review button :: Copy as patch");
    page.wait_until("window.copied");
    let patch = page.eval("window.copied").as_str().unwrap().to_owned();
    assert!(patch.contains("--- a/switchboard-demo/config.json\n"), "{patch}");
    std::fs::write(talk.place.home().join("all.patch"), &patch).unwrap();
    // Git does not revert copies: the copy is in the way of its source.
    let git = std::process::Command::new("git")
        .args(["apply", "--reverse", "--exclude", "switchboard-demo/form.txt", "--exclude", "*/template.txt"])
        .arg(talk.place.home().join("all.patch"))
        .current_dir(talk.place.work())
        .output()
        .unwrap();
    assert!(git.status.success(), "{git:?}\n{patch}");
    assert!(file(&talk, "config.json").unwrap().contains("\"debug\": false"));
    assert!(file(&talk, "letter.txt").is_some() && file(&talk, "new.txt").is_none());
    talk.all_is_well();
}

#[test]
fn a_line_is_opened_in_the_configured_editor() {
    let place = Place::new();
    let log = place.home().join("opened");
    let script = format!("printf '%s' \"$1\" > '{0}.new' && mv '{0}.new' '{0}'", log.display());
    let setting = serde_json::json!({ "editor": ["sh", "-c", script, "editor", "{file}:{line}"] });
    let folder = place.home().join(".config/switchboard");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.json"), setting.to_string()).unwrap();
    let talk = Talk::with(place, &["demo"]);
    let page = &talk.page;
    talk.ask("edit");
    review(page);
    page.click(&format!("{CONFIG} .review-hunk [data-action=open-editor]"));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !log.exists() {
        assert!(std::time::Instant::now() < deadline, "nothing was opened");
        std::thread::yield_now();
    }
    let opened = std::fs::read_to_string(&log).unwrap();
    assert!(opened.ends_with("/switchboard-demo/config.json:2"), "{opened}");
    talk.all_is_well();
}

#[test]
fn an_earlier_prompt_is_edited_and_sent_in_a_copy_that_shows_its_history() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.ask("hello");
    talk.ask("tool");
    let original = page.eval("location.pathname");
    page.type_into("#prompt", "a draft");
    page.eval("document.querySelector('article.e-user [data-action=edit-prompt]').click()");
    page.wait_until("document.querySelector('#prompt').value === 'hello'");
    page.wait_for("#editing :: It goes to a copy of this session");
    page.screenshot("editing");
    // Escape brings back the draft.
    page.press("Escape");
    page.wait_gone("#editing");
    page.wait_until("document.querySelector('#prompt').value === 'a draft'");
    page.eval("document.querySelector('article.e-user [data-action=edit-prompt]').click()");
    page.wait_for("#editing");
    page.eval("document.querySelector('#prompt').select()");
    page.type_text("something else");
    page.press("Enter");
    page.wait_until(&format!("location.pathname !== {original}"));
    page.wait_for("article.e-agent :: You said: something else");
    page.wait_for("#history .e-agent :: Hello!");
    page.wait_for("#history .e-tool :: Count to ten");
    page.wait_for("#history :: The copy of hello begins here.");
    done(page);
    page.screenshot("copy");
    // The original is as it was, and the copy shows the same after a reload.
    page.reload();
    page.wait_for("#history .e-agent :: Hello!");
    page.click("#history .copy-line a");
    page.wait_until(&format!("location.pathname === {original}"));
    page.wait_for("#transcript article.e-agent :: Hello!");
    assert_eq!(page.count("article :: something else"), 0);
    page.wait_gone("#history");
    talk.all_is_well();
}

#[test]
fn without_an_agent_the_page_offers_those_that_it_knows() {
    let talk = Talk::folded(Place::new(), &[]);
    let page = &talk.page;
    page.wait_for("#hint h2 :: Switchboard");
    page.wait_for("#hint .starts button :: Demo agent");
    page.wait_for("#hint .absent summary :: more agents that can be installed");
    page.click("#hint .absent summary");
    page.wait_for("#hint .absent li :: switchboard agents install claude");
    page.screenshot("start");
    assert_eq!(page.count("#hint [data-action=example]"), 3);
    assert!(
        !page.eval("document.body.classList.contains('is-live')").as_bool().unwrap(),
        "nothing is started"
    );
    // A first message starts the agent that is chosen below it.
    page.wait_for("#start-agent");
    page.click("#hint [data-action=example]");
    page.wait_until("document.querySelector('#prompt').value.startsWith('Explain')");
    page.press("Enter");
    page.wait_for("article.e-user :: Explain how this project is built and tested.");
    page.wait_for("article.e-agent :: You said: Explain how this project is built");
    done(page);
    // The next one is started by a click.
    say(page, "hello");
    talk.all_is_well();
}
