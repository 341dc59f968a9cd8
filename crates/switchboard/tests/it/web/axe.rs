//! What axe finds in the states of the page.

use switchboard_browser::{ColorScheme, Page};

use super::talk::Talk;
use crate::agent_program::Place;
use crate::interop;

/// What axe finds in one state.
fn found(page: &Page, state: &str) -> Vec<String> {
    let found = page.eval(
        "axe.run(document, { resultTypes: ['violations'] }).then(found => found.violations.map(it => \
         it.id + ': ' + it.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(' | ')))",
    );
    found.as_array().unwrap().iter().map(|it| format!("{state}: {it}")).collect()
}

/// Loads axe into a page. Returns `false` if it is not installed.
fn load(page: &Page) -> bool {
    let Some(npm) = interop::npm() else { return false };
    let source = std::fs::read_to_string(npm.join("node_modules/axe-core/axe.min.js")).unwrap();
    page.eval(&format!("new Promise(done => {{ {source}\n; done(0); }})"));
    true
}

#[test]
fn axe_finds_nothing_on_the_start_screen_in_a_review_and_in_a_copy() {
    let talk = Talk::with(Place::new(), &[]);
    let page = &talk.page;
    if !load(page) {
        return;
    }
    let mut all = Vec::new();
    let mut check = |page: &Page, state: &str| {
        for (scheme, name) in [(ColorScheme::Light, "light"), (ColorScheme::Dark, "dark")] {
            page.prefer(scheme, true);
            for (width, height) in [(360, 740), (1280, 800)] {
                page.resize(width, height);
                all.extend(found(page, &format!("{state}, {name}, {width}")));
            }
        }
    };
    page.click("#hint .absent summary");
    page.wait_for("#hint .absent li");
    check(page, "the start screen");
    page.click("#hint [data-agent=demo]");
    page.wait_until("document.body.classList.contains('is-live')");
    talk.ask("edit");
    page.click("#menu > summary");
    page.click("#offers [data-action=changes]");
    page.wait_for("#review .review-hunk");
    check(page, "the review");
    page.click("#review [data-path$='config.json'] .review-hunk [data-action=undo-change]");
    page.wait_for("#review .is-undone");
    page.click("#review [data-path$='new.txt'] [data-action=keep-change]");
    page.wait_for("#review .is-kept");
    check(page, "the review with decisions");
    page.press("Escape");
    page.wait_gone("#dialog");
    page.eval("document.querySelector('article.e-user [data-action=edit-prompt]').click()");
    page.wait_for("#editing");
    check(page, "an edited prompt");
    page.press("Enter");
    page.wait_for("#history .copy-line");
    page.wait_for("#transcript article.e-tool");
    check(page, "a copy");
    assert_eq!(all, [""; 0]);
    talk.all_is_well();
}

#[test]
fn axe_finds_nothing_in_any_state() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    if !load(page) {
        return;
    }
    let mut all = Vec::new();
    let mut check = |page: &Page, state: &str| all.extend(found(page, state));
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
