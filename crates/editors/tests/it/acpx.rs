//! acpx, a client for scripts.

use std::process::{Command, Stdio};

use switchboard_editors::{Editors, Place};

use crate::Hub;

const PACKAGE: &str = "acpx@0.19.1";

/// One prompt in acpx. `answer` is its option for permission requests.
fn acpx(place: &Place, agent: &str, answer: &str, prompt: &str) -> Command {
    let installed = place.editors().npm("acpx", &[PACKAGE, Editors::NODE]);
    let programs = installed.join("node_modules/.bin");
    let mut node = place.command(programs.join("node"));
    node.env("PATH", place.path(&[&programs])).arg(programs.join("acpx"));
    node.args(["--agent", agent, "--cwd"]).arg(place.work());
    node.args([answer, "--format", "json", "exec", prompt]);
    node
}

fn printed(mut command: Command) -> String {
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn acpx_edits_through_the_bridge_and_through_a_hub_and_survives_its_end() {
    let Some(editors) = Editors::from_environment() else { return };
    for with_hub in [false, true] {
        let place = Place::new(&editors);
        let hub = with_hub.then(|| Hub::start(&place, &["demo"]));
        let line = match &hub {
            None => "switchboard bridge --record demo".to_owned(),
            Some(hub) => format!("switchboard connect {}/acp --token-file {}", hub.url(), hub.token_file),
        };
        let said = printed(acpx(&place, &line, "--approve-all", "permission"));
        assert!(said.contains("Debugging is on."), "{said}");
        assert!(place.edited().contains("\"debug\": true"), "{}", place.edited());
        let said = printed(acpx(&place, &line, "--deny-all", "permission"));
        assert!(said.contains("Debugging stays off."), "{said}");
        assert!(place.edited().contains("\"debug\": false"), "{}", place.edited());

        let mut slow = acpx(&place, &line, "--approve-all", "slow 600")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        place.wait_recorded("slow 600");
        slow.kill().unwrap();
        slow.wait().unwrap();
        place.wait_gone(if with_hub { "switchboard connect" } else { "switchboard bridge" });
        let said = printed(acpx(&place, &line, "--approve-all", "edit"));
        assert!(said.contains("files changed in"), "{said}");
        assert!(place.work().join("switchboard-demo/new.txt").exists());
    }
}
