//! Toad, a client with a text interface.

use switchboard_editors::{Editors, Place, Terminal};

use crate::Hub;

const PACKAGES: [&str; 1] = ["batrachian-toad==0.6.*"];

/// Starts Toad with an agent, and waits until it takes prompts.
fn toad(place: &Place, program: &std::path::Path, agent: &str) -> Terminal {
    let mut command = place.command(program);
    command.args(["acp", agent]).arg(place.work());
    let terminal = Terminal::start(command);
    terminal.wait("How can I help you today?");
    // The mode of the demo agent: the session is there.
    terminal.wait("Calm");
    terminal
}

fn say(terminal: &mut Terminal, text: &str) {
    terminal.wait("How can I help you today?");
    terminal.type_text(text);
    // The composer is the last of its kind on the screen. An Enter that comes before the text is drawn is lost.
    let is_drawn = |screen: &str| screen.rsplit_once("❯ ").is_some_and(|(_, last)| last.starts_with(text));
    terminal.wait_until(&format!("{text:?} in the composer"), is_drawn);
    terminal.type_text("\r");
}

#[test]
fn toad_edits_through_the_bridge_and_through_a_hub_and_survives_its_end() {
    let Some(editors) = Editors::from_environment() else { return };
    let Some(python) = Editors::find_program("python3.14") else {
        println!("skipped: Toad needs Python 3.14, which is not on the PATH as python3.14");
        return;
    };
    let program = editors.python("toad", &python, &PACKAGES).join("bin/toad");
    for with_hub in [false, true] {
        let place = Place::new(&editors);
        let hub = with_hub.then(|| Hub::start(&place, &["demo"]));
        let line = match &hub {
            None => "switchboard bridge --record demo".to_owned(),
            Some(hub) => format!("switchboard connect {}/acp --token-file {}", hub.url(), hub.token_file),
        };
        let mut terminal = toad(&place, &program, &line);
        say(&mut terminal, "permission");
        terminal.wait("Approval request");
        terminal.wait("\"debug\": true");
        assert!(place.edited().contains("\"debug\": false"), "{}", place.edited());
        // Its keys: a allows once, r rejects once.
        terminal.type_text("a");
        terminal.wait("Debugging is on.");
        assert!(place.edited().contains("\"debug\": true"), "{}", place.edited());
        say(&mut terminal, "permission");
        terminal.wait("Approval request");
        terminal.type_text("r");
        terminal.wait("Debugging stays off.");
        assert!(place.edited().contains("\"debug\": false"), "{}", place.edited());

        say(&mut terminal, "slow 600");
        place.wait_recorded("slow 600");
        terminal.kill();
        place.wait_gone(if with_hub { "switchboard connect" } else { "switchboard bridge" });
        let mut terminal = toad(&place, &program, &line);
        say(&mut terminal, "edit");
        terminal.wait("files changed in");
        assert!(place.work().join("switchboard-demo/new.txt").exists());
    }
}
