//! The same page in Firefox: the ways that everybody goes.

use switchboard_browser::Firefox;

use super::opened::Opened;
use crate::agent_program::Place;

#[test]
fn a_session_from_the_first_prompt_to_its_export() {
    let place = Place::new();
    let opened = Opened::start(&place, &[]);
    let firefox = Firefox::start();
    let page = firefox.open(&opened.link);
    page.wait_until("document.body.classList.contains('is-live')");
    page.wait_until("document.activeElement.id === 'prompt'");
    page.type_into("#prompt", "words from Firefox");
    page.enter();
    page.wait_for("article.e-agent :: You said: words from Firefox");
    page.wait_until("document.body.dataset.activity === 'idle'");

    // A permission is shown, cannot be answered at once, and then is.
    page.type_into("#prompt", "permission");
    page.enter();
    page.wait_for("[data-question] ins :: \"debug\": true");
    page.wait_until("document.title.startsWith('(1)')");
    page.click("[data-question] button :: allow once");
    page.wait_for("article.e-agent :: Debugging is on.");
    page.wait_gone("[data-question]");
    page.wait_until("document.body.dataset.activity === 'idle'");

    // What was said is there after a reload, and so is a draft.
    page.type_into("#prompt", "a draft");
    page.reload();
    page.wait_for("article.e-agent :: Debugging is on.");
    page.wait_until("document.querySelector('#prompt').value === 'a draft'");

    page.click("#show-sessions");
    page.wait_for("#session-list .name :: words from Firefox");
    page.click("#show-sessions");
    page.wait_gone("#sessions");

    page.eval(
        "(() => { globalThis.saved = []; URL.createObjectURL = blob => { blob.text().then(text => saved.push(text)); \
         return '#'; }; })()",
    );
    page.click("#menu > summary");
    page.click("#offers [data-action=export]");
    page.click("#export [value=markdown]");
    page.click("#export button");
    page.wait_gone("#dialog");
    page.wait_until("saved.length === 1 && saved[0].includes('## You\\n\\nwords from Firefox')");
    assert_eq!(firefox.complaints(), [""; 0]);
}
