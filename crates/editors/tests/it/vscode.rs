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

/// Returns whether a hub takes clients of AHP: their connections at `/ahp` are refused for the lack of a token, and not as unknown.
fn speaks_ahp(hub: &Hub) -> bool {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(&hub.address).unwrap();
    write!(
        stream,
        "GET /ahp HTTP/1.1\r\nhost: {}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        hub.address
    )
    .unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    head.ends_with(b"401")
}

#[test]
fn vscode_runs_turns_and_keeps_them_over_reloads_windows_and_restarts() {
    let Some(editors) = Editors::from_environment() else { return };
    let Some(installed) = VsCode::install(&editors) else { return };
    let place = Place::new(&editors);
    let hub = Hub::start(&place, &["demo"]);
    if !speaks_ahp(&hub) {
        println!("skipped: this hub does not speak AHP, by which VS Code reaches it");
        return;
    }
    let token = std::fs::read_to_string(&hub.token_file).unwrap().trim().to_owned();
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
    drop((chat, code.kill()));
}
