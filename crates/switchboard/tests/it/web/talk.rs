//! What a person does with the page, in the words of a person.

use switchboard_browser::{Browser, Page, Visitor};

use super::opened::Opened;
use crate::agent_program::Place;

/// A person before `switchboard open`, in a folder of their own. What comes first is dropped first.
pub(crate) struct Talk {
    pub(crate) page: Page,
    pub(crate) visitor: Visitor,
    pub(crate) opened: Opened,
    pub(crate) place: Place,
}

impl Talk {
    /// With the demo agent.
    pub(crate) fn with_demo() -> Talk {
        Talk::with(Place::new(), &["demo"])
    }

    pub(crate) fn with(place: Place, arguments: &[&str]) -> Talk {
        let talk = Talk::folded(place, arguments);
        unfold(&talk.page);
        talk
    }

    /// Opens the page as it is, with folded tool calls.
    pub(crate) fn folded(place: Place, arguments: &[&str]) -> Talk {
        let opened = Opened::start(&place, arguments);
        let visitor = Browser::shared().visitor();
        let page = visitor.open(&opened.link);
        page.wait_until("document.body.dataset.activity");
        Talk { page, visitor, opened, place }
    }

    /// Says something, and waits until the transcript has it.
    pub(crate) fn say(&self, prompt: &str) {
        say(&self.page, prompt);
    }

    /// Says something, and waits until the agent is done.
    pub(crate) fn ask(&self, prompt: &str) {
        say(&self.page, prompt);
        done(&self.page);
    }

    /// Ends the test well: nothing went wrong in the page, and nothing was asked for elsewhere.
    pub(crate) fn all_is_well(&self) {
        assert_eq!(self.page.complaints(), [""; 0]);
        let host = format!("://{}/", self.opened.host());
        let elsewhere: Vec<_> = self
            .page
            .requests()
            .into_iter()
            .filter(|request| !request.url.contains(&host) && !request.url.starts_with("data:image/"))
            .collect();
        assert_eq!(elsewhere, []);
    }
}

/// Unfolds every tool call and the details of every question from now on, for tests of what is in them.
pub(crate) fn unfold(page: &Page) {
    page.eval(
        "(() => {
            const folded = 'article.e-tool > .head > .fold:not([open], [data-chosen]), .details-part > details:not([open])';
            const unfold = () => {
                document.querySelectorAll(folded).forEach(it => { it.open = true; it.dataset.chosen = ''; });
                document.querySelectorAll('.run[aria-expanded=false]').forEach(it => it.click());
            };
            new MutationObserver(unfold).observe(document.documentElement, { childList: true, subtree: true });
            unfold();
        })()",
    );
}

pub(crate) fn say(page: &Page, prompt: &str) {
    let last =
        "Math.max(-1, ...find('article.e-user[data-position]').map(entry => Number(entry.dataset.position)))";
    page.wait_until("document.body.classList.contains('is-live')");
    let before = page.eval(last);
    page.type_into("#prompt", prompt);
    page.press("Enter");
    page.wait_until(&format!("{last} > {before}"));
}

/// Waits until the agent is done.
pub(crate) fn done(page: &Page) {
    page.wait_until("document.body.dataset.activity === 'idle'");
}
