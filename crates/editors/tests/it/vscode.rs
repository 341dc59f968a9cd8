//! VS Code, whose chat reaches the agents of a hub over AHP.

use switchboard_browser::{Browser, Visitor};
use switchboard_editors::{Chat, Editors, Place, VsCode};

use crate::Hub;

/// Opens a window and chooses the demo agent.
fn window(code: &VsCode, visitor: &Visitor) -> Chat {
    let chat = code.open(visitor);
    chat.pick("demo");
    chat
}

#[test]
fn vscode_runs_turns_and_keeps_them_over_reloads_windows_and_restarts() {
    let Some(editors) = Editors::from_environment() else { return };
    let Some(installed) = VsCode::install(&editors) else { return };
    let place = Place::new(&editors);
    let mut hub = Hub::start(&place, &["demo"]);
    // A token that is valid after a restart of the hub.
    let token = place.run(&["tokens", "add", "vscode", "--role", "use", "--all"]).trim().to_owned();
    let mut code = VsCode::start(&place, &installed, &hub.address, &token);
    let visitor = Browser::shared().visitor();
    let chat = window(&code, &visitor);

    // An edit that is allowed, and one that is not.
    chat.say("permission");
    chat.wait("Write to");
    chat.page.screenshot("editors/vscode-permission");
    assert!(place.edited().contains("\"debug\": false"), "{}", place.edited());
    chat.press("Allow once");
    chat.wait("Debugging is on.");
    assert!(place.edited().contains("\"debug\": true"), "{}", place.edited());
    chat.say("permission");
    chat.wait("Write to");
    chat.press("Reject");
    chat.wait("Debugging stays off.");
    assert!(place.edited().contains("\"debug\": false"), "{}", place.edited());
    chat.say("edit");
    chat.wait("files changed in");
    chat.page.screenshot("editors/vscode-edit");

    // Cancelled.
    chat.say("slow 600");
    chat.wait("Work slowly");
    chat.press("Cancel");
    place.wait_recorded("cancelled");

    // A question that is open over a reload, and in a second window, which answers it.
    chat.say("ask");
    chat.wait("May I go on?");
    chat.reload();
    chat.open_session("permission");
    chat.wait("May I go on?");
    chat.page.screenshot("editors/vscode-reloaded");
    let second = code.open(&visitor);
    second.open_session("permission");
    second.wait("May I go on?");
    second.press("Yes, go on");
    second.wait("Then I go on.");
    chat.wait("Then I go on.");

    // Another hub at the same address, with the same store.
    let address = hub.address.clone();
    hub.process.kill();
    let hub = Hub::at(&place, &["demo"], &address);
    assert_eq!(hub.address, address);
    second.say("hello");
    second.wait("Hello");
    drop((chat, second));

    // VS Code's own end in mid-turn, and an old session afterwards.
    let chat = window(&code, &visitor);
    chat.say("slow 500");
    chat.wait("Work slowly");
    code.kill();
    drop(chat);
    let code = VsCode::start(&place, &installed, &hub.address, &token);
    let chat = code.open(&visitor);
    assert!(chat.wait_session("slow 500").len() >= 2);
    chat.open_session("permission");
    // The end of it: what is out of sight is not in the page.
    chat.wait("Hello! I am Switchboard's demo agent.");
    chat.say("again");
    chat.wait("You said: again");
    chat.page.screenshot("editors/vscode-sessions");
}
