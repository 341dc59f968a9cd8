//! Rules that are made of questions, in the page.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use switchboard_browser::Page;

use super::looks::nothing_is_clipped;
use super::scripted_agent::{scripted_agent, then_says};
use super::talk::Talk;
use super::trust::{answers, call, go, question, ready, running};
use crate::agent_program::Place;

const FILE: &str = "home/.config/switchboard/switchboard-policy.toml";

/// What the user's file has before: nothing of it may be lost.
const BEFORE: &str = "# Mine.\ndefault = \"ask\" # as ever\n\n[[rule]]\nid = \"mine\"\ndecision = \"deny\"\ncommand = [\"git\", \"push\"]";

fn run(id: &str, command: &Value) -> Value {
    call(id, &json!({ "title": "Run", "kind": "execute", "rawInput": { "command": command } }))
}

fn before(place: Place, first: &[Value], then: &[Value]) -> Talk {
    let agent = scripted_agent(&place.work(), &json!({}), &json!({}), first);
    then_says(&place.work(), then);
    Talk::with(place, &["--", "sh", agent.to_str().unwrap()])
}

fn offer(page: &Page, number: u64, decision: &str) -> String {
    let offer = format!("[data-question='{number}'] [data-action=rule][data-decision={decision}]");
    page.wait_for(&offer);
    offer
}

/// The lines of `policy audit`.
fn audit(talk: &Talk) -> Vec<Value> {
    let run = talk.place.run(&["policy", "audit"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_question_becomes_a_rule_which_answers_it_and_its_like() {
    let place = Place::new();
    place.write(FILE, BEFORE);
    let file = place.home().join(".config/switchboard/switchboard-policy.toml");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let talk = before(
        place,
        &[running(), run("a", &json!("git status")), question(1, "a")],
        &[
            run("b", &json!("git status --short")),
            question(2, "b"),
            run("c", &json!("timeout 9 git status")),
            question(3, "c"),
            run("d", &json!("git log")),
            question(4, "d"),
        ],
    );
    let page = &talk.page;
    page.resize(1280, 900);
    go(page);
    ready(page, "once");
    page.click("[data-option=once]");
    page.wait_for("article.e-agent :: given once,");
    go(page);
    page.wait_until("find('[data-question] [data-option=once]:not(:disabled)').length === 3");
    page.click(&offer(page, 2, "allow"));
    page.wait_for("#dialog .rule-text :: command = [\"git\", \"status\"]");
    page.wait_for(&format!("#dialog .rule-text :: cwd = \"{}/**\"", talk.place.work().display()));
    // It and its like wait; one was allowed before.
    page.wait_for("#dialog .rule-past :: would have allowed 3 of 4 questions: 1 that were allowed then");
    assert_eq!(page.count("#dialog .rule-rows a[href^='/r/'][href*='#m']"), 3);
    page.screenshot("rule");
    nothing_is_clipped(page, 1280);
    page.resize(360, 740);
    nothing_is_clipped(page, 360);
    page.screenshot("rule-360");
    page.resize(1280, 900);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), BEFORE, "nothing is written before it is wanted");
    page.wait_for("#dialog [data-action=save-rule]:not(:disabled)");
    page.click("#dialog [data-action=save-rule]");
    page.wait_for("article.e-agent :: given once, given once, given once,");
    page.wait_for("#toasts :: and has answered");
    page.wait_gone("[data-question='2']");
    page.wait_gone("[data-question='3']");
    page.wait_for("[data-question='4']");
    page.wait_for("article.e-tool .asked :: by the rule “allow-git-status-");
    assert_eq!(answers(&talk).len(), 3);
    let text = std::fs::read_to_string(&file).unwrap();
    let added = text.strip_prefix(BEFORE).unwrap();
    assert!(added.starts_with("\n\n# Made of a question in the session "), "{added}");
    assert!(added.contains("\ndecision = \"allow\"\ncommand = [\"git\", \"status\"]\ncwd = "), "{added}");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(talk.place.run(&["policy", "check", file.to_str().unwrap()]).code, 0);

    let audit = audit(&talk);
    let by: Vec<_> = audit.iter().map(|line| line["by"].as_str()).collect();
    assert_eq!(by, [Some("person"), Some("policy"), Some("policy"), None]);
    assert!(audit[2]["rule"].as_str().unwrap().starts_with("allow-git-status-"), "{}", audit[2]);
    assert_eq!(audit[2]["judged"], "allow");
    // A decision leads to the message of its question, in the page and from the audit.
    page.click("article.e-tool .asked summary :: by the rule “allow-git-status-");
    page.wait_for("article.e-tool .asked details[open] > button.link");
    // By the keyboard: what was just unfolded may still be scrolled.
    page.eval("document.querySelector('article.e-tool .asked details[open] > button.link').focus()");
    page.press("Enter");
    page.wait_for("#detail :: session/request_permission");
    let link = audit[1]["link"].as_str().unwrap();
    // Addresses count rows from 0, messages are numbered from 1.
    let row = audit[1]["message"].as_u64().unwrap() - 1;
    assert_eq!(link, format!("/r/{}#m{row}", audit[1]["session"].as_str().unwrap()));
    let other = talk.visitor.open(&format!("http://{}{link}", talk.opened.host()));
    other.wait_for("#detail :: session/request_permission");
    talk.all_is_well();
}

#[test]
fn a_rule_that_denies_is_made_where_there_was_no_file() {
    let talk = before(
        Place::new(),
        &[running(), run("a", &json!("npm publish")), question(1, "a")],
        &[run("b", &json!("cd x && npm publish --tag y")), question(2, "b")],
    );
    let page = &talk.page;
    go(page);
    ready(page, "once");
    page.click(&offer(page, 1, "deny"));
    page.wait_for("#dialog .rule-text :: decision = \"deny\"");
    page.wait_for("#dialog [data-action=save-rule]:not(:disabled)");
    page.click("#dialog [data-action=save-rule]");
    page.wait_for("article.e-agent :: given no,");
    let file = talk.place.home().join(".config/switchboard/switchboard-policy.toml");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // The hub knows it at once, and denies what is hidden in a longer line.
    go(page);
    page.wait_for("article.e-agent :: given no, given no,");
    assert_eq!(page.count("[data-question]"), 0);
    talk.all_is_well();
}

#[test]
fn what_nobody_can_be_sure_of_is_no_rule_and_that_is_said() {
    let hostile =
        "\"]\n[[rule]]\ndecision = \"allow\"\npath = [\"**\"] # </code></pre><img src=x onerror=alert(1)>";
    let talk = before(
        Place::new(),
        &[
            running(),
            run("a", &json!("git status $(touch x)")),
            question(1, "a"),
            run("b", &json!("rm -rf build")),
            question(2, "b"),
            run("c", &json!(["git", "status", hostile])),
            question(3, "c"),
            call("d", &json!({ "kind": "read", "rawInput": { "path": "/etc/passwd" } })),
            question(4, "d"),
            run("e", &json!(["frob", hostile])),
            question(5, "e"),
        ],
        &[],
    );
    let page = &talk.page;
    go(page);
    page.wait_until("find('[data-question] [data-option=once]:not(:disabled)').length === 5");
    page.wait_for("[data-question='1'] .rule :: its effect is unknown");
    page.wait_for(
        "[data-question='2'] .rule :: No rule can allow it, because \"rm\" does whatever its arguments say",
    );
    page.wait_for("[data-question='4'] .rule :: \"/etc/passwd\" is not in the session's folder");
    for number in [1, 2, 4] {
        let offer = format!("[data-question='{number}'] [data-action=rule][data-decision=allow]");
        assert_eq!(page.count(&offer), 0, "{number}");
    }
    assert_eq!(page.count("#questions img"), 0);
    nothing_is_clipped(page, 1280);
    talk.all_is_well();
}

#[test]
fn a_file_that_others_can_write_to_gets_no_rules() {
    let place = Place::new();
    place.write(FILE, BEFORE);
    let file = place.home().join(".config/switchboard/switchboard-policy.toml");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let talk = before(place, &[running(), run("a", &json!("git status")), question(1, "a")], &[]);
    let page = &talk.page;
    go(page);
    ready(page, "once");
    page.click(&offer(page, 1, "allow"));
    page.wait_for("#toasts :: all users can write to it");
    assert_eq!(page.count("#dialog[open]"), 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), BEFORE);
    talk.all_is_well();
}
