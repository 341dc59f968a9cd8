//! marimo, whose page connects to a port of the machine.

use switchboard_browser::Browser;
use switchboard_editors::{Editors, Marimo, Place};

use crate::Hub;

/// The port of marimo's page for Claude.
const CLAUDE: u16 = 3017;

#[test]
fn marimo_edits_through_the_bridge_and_through_a_hub_and_survives_its_end() {
    let Some(editors) = Editors::from_environment() else { return };
    let Some(installed) = Marimo::install(&editors) else { return };
    for with_hub in [false, true] {
        let place = Place::new(&editors);
        place.add_agent("claude-agent-acp");
        let hub = with_hub.then(|| Hub::start(&place, &["claude"]));
        let line = match &hub {
            None => "switchboard bridge --record claude".to_owned(),
            Some(hub) => {
                format!("switchboard connect {}/acp/claude --token-file {}", hub.url(), hub.token_file)
            }
        };
        let relay = Marimo::relay(&place, &line, CLAUDE);
        let mut marimo = Marimo::start(&place, &installed);
        let visitor = Browser::shared().visitor();
        let panel = marimo.open(&visitor);
        panel.begin("Claude");
        panel.say("permission");
        panel.wait("It turns debugging on.");
        panel
            .page
            .screenshot(&format!("editors/marimo-permission-{}", if with_hub { "hub" } else { "bridge" }));
        assert!(place.edited().contains("\"debug\": false"), "{}", place.edited());
        panel.press("Allow once");
        panel.wait("Debugging is on.");
        assert!(place.edited().contains("\"debug\": true"), "{}", place.edited());
        panel.say("permission");
        panel.wait("It turns debugging on.");
        panel.press("Reject");
        panel.wait("Debugging stays off.");
        assert!(place.edited().contains("\"debug\": false"), "{}", place.edited());

        // Its end in mid-turn, and another start.
        panel.say("slow 600");
        panel.wait("Stop");
        place.wait_recorded("slow 600");
        drop(panel);
        marimo.kill();
        if hub.is_none() {
            place.wait_gone("demo-agent");
        }
        let marimo = Marimo::start(&place, &installed);
        let visitor = Browser::shared().visitor();
        let panel = marimo.open(&visitor);
        panel.begin("Claude");
        panel.say("edit");
        panel.wait("files changed in");
        assert!(place.work().join("switchboard-demo/new.txt").exists());
        place.wait_recorded("files changed in");
        drop(relay);
    }
}
