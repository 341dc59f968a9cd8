//! Clients of the official SDKs, which come to a server of ours.

use std::net::SocketAddr;

use crate::agent_program::Place;
use crate::interop::{kinds, python, run_with_agent, rust_remote_client, typescript};

use super::hosted::{Hosted, TOKEN};

/// What a client is to find: questions, files, terminals, and updates of every kind.
const SCENARIOS: [&str; 6] = ["hello", "tool", "permission", "edit", "plan", "config"];

/// An official client runs scenarios of the demo agents behind a server, by HTTP and by WebSocket.
fn come_to(address: SocketAddr, token: &str, client: &[String], versions: &[&str]) {
    for (scheme, version) in
        ["http", "ws"].into_iter().flat_map(|scheme| versions.iter().map(move |v| (scheme, v)))
    {
        let place = Place::new();
        let url = format!("{scheme}://{address}/acp/{version}");
        for scenario in SCENARIOS {
            let run = run_with_agent(&place, client, &[version, scenario], &[&url, token]);
            assert_eq!(run.code, 0, "{url}, {scenario}: {}", run.stderr);
            let told = run.json_lines();
            assert_eq!(told.last().unwrap()["stopReason"], "end_turn", "{url}, {scenario}");
            if *version == "2" {
                let here = place.demo(scenario, &["--format", "json", "--approve-all"]);
                assert_eq!(kinds(&told), kinds(&here.updates()), "{url}, {scenario}");
            } else {
                assert!(told.len() > 1, "{url}, {scenario}: no updates");
            }
        }
        let refused = run_with_agent(&place, client, &[version, "hello"], &[&url, "another"]);
        assert_ne!(refused.code, 0, "{url}: {}", refused.stdout);
    }
}

#[test]
fn the_rust_sdk_as_client_of_a_server() {
    come_to(Hosted::start().address, TOKEN, &rust_remote_client(), &["1", "2"]);
}

#[test]
fn the_typescript_sdk_as_client_of_a_server() {
    if let Some(client) = typescript("client") {
        come_to(Hosted::start().address, TOKEN, &client, &["1", "2"]);
    }
}

#[test]
fn the_python_sdk_as_client_of_a_server() {
    if let Some(client) = python("client") {
        come_to(Hosted::start().address, TOKEN, &client, &["1"]);
    }
}
