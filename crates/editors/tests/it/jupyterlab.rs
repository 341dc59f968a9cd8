//! `JupyterLab`, by the script that `switchboard setup` writes.

use switchboard_browser::{Browser, Page};
use switchboard_editors::{Editors, JupyterLab, Place};

use crate::Hub;

const MESSAGES: &str = ".jp-Document";
const BUTTON: &str = ".jp-jupyter-ai-acp-client-permission-btn";

#[test]
fn jupyterlab_edits_by_what_setup_writes_and_keeps_its_chat_over_its_end() {
    let Some(editors) = Editors::from_environment() else { return };
    let Some(installed) = JupyterLab::install(&editors) else { return };
    for with_hub in [false, true] {
        let place = Place::new(&editors);
        place.add_agent("claude-agent-acp");
        let hub = with_hub.then(|| Hub::start(&place, &["claude"]));
        let url = hub.as_ref().map(Hub::url);
        let mut words = vec!["setup", "jupyterlab", "claude"];
        if let (Some(url), Some(hub)) = (&url, &hub) {
            words.extend(["--hub", url, "--token-file", &hub.token_file]);
        }
        // The last words of the line that says how to start it.
        let said = place.run(&words);
        let shims = said.split_once("PATH=\"").unwrap().1.split_once(":$PATH").unwrap().0.to_owned();
        let mut lab = JupyterLab::start(&place, &installed, shims.as_ref());
        let visitor = Browser::shared().visitor();
        let page = lab.open(&visitor, None);
        // Jupyter AI puts a note for the agent before the first message.
        JupyterLab::say(&page, "one");
        page.wait_for(&format!("{MESSAGES} :: You said: System note"));
        turn(&place, &page, with_hub);

        // Its end in mid-turn, and another start.
        JupyterLab::say(&page, "slow 600");
        place.wait_recorded("slow 600");
        lab.kill();
        place.wait_gone(if with_hub { "switchboard connect" } else { "demo-agent" });
        drop(page);
        let lab = JupyterLab::start(&place, &installed, shims.as_ref());
        // At a hub, the turn goes on without its client, so that the chat is busy.
        let page = if with_hub {
            assert!(place.recorded(&place.sessions()[0]).contains(", running =="), "{:?}", place.sessions());
            lab.open(&visitor, None)
        } else {
            let page = lab.open(&visitor, Some("untitled.chat"));
            page.wait_for(&format!("{MESSAGES} :: Debugging stays off."));
            page
        };
        JupyterLab::say(&page, "second start");
        place.wait_recorded("second start");
        page.wait_gone(&format!("{MESSAGES} :: is typing"));
        JupyterLab::say(&page, "edit");
        page.wait_for(&format!("{MESSAGES} :: files changed in"));
        assert!(place.work().join("switchboard-demo/new.txt").exists());

        place.run(&["setup", "jupyterlab", "claude", "--undo"]);
        assert_eq!(std::fs::read_dir(&shims).unwrap().count(), 0);
    }
}

/// One prompt that is allowed to edit, and one that is not.
fn turn(place: &Place, page: &Page, with_hub: bool) {
    JupyterLab::say(page, "permission");
    page.wait_for(&format!("{BUTTON} :: Allow once"));
    let name = if with_hub { "hub" } else { "bridge" };
    page.screenshot(&format!("editors/jupyterlab-permission-{name}"));
    assert!(place.edited().contains("\"debug\": false"), "{}", place.edited());
    page.click(&format!("{BUTTON} :: Allow once"));
    page.wait_for(&format!("{MESSAGES} :: Debugging is on."));
    assert!(place.edited().contains("\"debug\": true"), "{}", place.edited());
    JupyterLab::say(page, "permission");
    page.click(&format!("{BUTTON}[title=reject_once]"));
    page.wait_for(&format!("{MESSAGES} :: Debugging stays off."));
    assert!(place.edited().contains("\"debug\": false"), "{}", place.edited());
}
