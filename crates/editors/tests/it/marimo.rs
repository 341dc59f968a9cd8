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
        let url = hub.as_ref().map(Hub::url);
        let mut words = vec!["setup", "marimo", "claude"];
        if let (Some(url), Some(hub)) = (&url, &hub) {
            words.extend(["--hub", url, "--token-file", &hub.token_file]);
        }
        // npx RELAY "COMMAND" --port PORT
        let printed = place.run(&words);
        let parts: Vec<&str> = printed.trim().split('"').collect();
        assert_eq!((parts[0], parts[2]), ("npx stdio-to-ws@0.2.0 ", " --port 3017"), "{printed}");
        let relay = Marimo::relay(&place, parts[1], CLAUDE);
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
