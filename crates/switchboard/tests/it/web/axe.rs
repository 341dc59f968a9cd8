//! What axe finds in the states of the page.

use switchboard_browser::{ColorScheme, Page};

use super::talk::Talk;
use crate::interop;

/// What axe finds in one state.
fn found(page: &Page, state: &str) -> Vec<String> {
    let found = page.eval(
        "axe.run(document, { resultTypes: ['violations'] }).then(found => found.violations.map(it => \
         it.id + ': ' + it.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(' | ')))",
    );
    found.as_array().unwrap().iter().map(|it| format!("{state}: {it}")).collect()
}

#[test]
fn axe_finds_nothing_in_any_state() {
    let Some(npm) = interop::npm() else { return };
    let source = std::fs::read_to_string(npm.join("node_modules/axe-core/axe.min.js")).unwrap();
    let talk = Talk::with_demo();
    let page = &talk.page;
    let mut all = Vec::new();
    let mut check = |page: &Page, state: &str| all.extend(found(page, state));
    page.eval(&format!("new Promise(done => {{ {source}\n; done(0); }})"));
    page.wait_for("#hint");
    check(page, "a new session");
    for prompt in ["markdown", "edit", "terminal", "plan", "fail", "thoughts"] {
        talk.ask(prompt);
    }
    check(page, "a transcript");
    talk.say("permission");
    page.wait_until("find('[data-question] [data-option]').some(it => !it.disabled)");
    check(page, "a question");
    page.prefer(ColorScheme::Dark, true);
    check(page, "a question in the dark");
    page.wait_for("#session-list li");
    page.click("#settings > summary");
    check(page, "the sessions");
    page.press("Escape");
    page.press("Control+k");
    page.wait_for("#palette-list li");
    check(page, "the palette");
    page.press("Escape");
    page.wait_gone("#palette");
    page.press("Control+f");
    page.type_text("config");
    page.wait_for("#find-count :: of");
    check(page, "a search in the session");
    page.press("Escape");
    page.wait_gone("#find");
    page.click("[data-question] button :: allow once");
    page.wait_gone("[data-question]");
    page.click("#show-inspector");
    page.wait_until("document.querySelector('#wire-rows').children.length > 0");
    page.click("#wire-rows > *");
    page.wait_for("#detail h2");
    check(page, "the inspector");
    page.click("#show-inspector");
    for action in ["changes", "pictures", "export"] {
        page.click("#menu > summary");
        page.click(&format!("#offers [data-action={action}]"));
        page.wait_for("#dialog h2");
        check(page, action);
        page.press("Escape");
        page.wait_gone("#dialog");
    }
    talk.say("form");
    page.wait_for("[data-question] form");
    page.resize(360, 740);
    check(page, "a form on a phone");
    assert_eq!(all, [""; 0]);
    talk.all_is_well();
}
