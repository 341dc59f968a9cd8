//! Clients of the official SDKs with our server.

use std::net::SocketAddr;

use serde_json::json;

use crate::agent_program::Place;
use crate::interop::{SWITCHBOARD, kinds, python, run_with_agent, rust_remote_client, typescript};
use crate::serve::hub::Hub;

use super::hosted::{Hosted, TOKEN, certificate};

/// Scenarios for a client: permission requests, files, terminals, and updates of every kind.
const SCENARIOS: [&str; 6] = ["hello", "tool", "permission", "edit", "plan", "config"];

/// Runs scenarios of the demo agents behind a server with an official client, over HTTP and WebSocket.
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
fn our_own_client_of_an_encrypted_server() {
    let (server, place) = (Hosted::start_encrypted(), Place::new());
    for scheme in ["https", "wss"] {
        let url = format!("{scheme}://localhost:{}/acp/2", server.address.port());
        let agents = json!({"agent_servers": {"far": {"url": url, "headers": {"authorization": format!("Bearer {TOKEN}")}}}});
        place.write(place.work().join(".switchboard.json"), &agents.to_string());
        let run = |trusted: &str| {
            let mut command =
                place.command(&["run", "far", "permission", "--approve-all", "--format", "json"]);
            command.env("SSL_CERT_FILE", certificate(trusted));
            place.run_command(command)
        };
        let there = run("authority.pem");
        assert_eq!(there.code, 0, "{url}: {}", there.stderr);
        let here = place.demo("permission", &["--approve-all", "--format", "json"]);
        assert_eq!(kinds(&there.updates()), kinds(&here.updates()), "{url}");
        // An untrusted certificate is refused.
        let refused = run("certificate.pem");
        assert_ne!(refused.code, 0, "{url}: {}", refused.stdout);
    }
}

/// Returns a hub with one agent per protocol version, named by it, and a directory for each client.
fn hub(place: &Place) -> Hub {
    let agent =
        |version: &str| json!({"command": SWITCHBOARD, "args": ["demo-agent", "--protocol", version]});
    let configuration = json!({"agent_servers": {"1": agent("1"), "2": agent("2")}, "roots": ["/"]});
    place.write("home/.config/switchboard/config.json", &configuration.to_string());
    Hub::start(place, &["1", "2"])
}

#[test]
fn the_rust_sdk_as_client_of_a_hub() {
    let place = Place::new();
    let hub = hub(&place);
    come_to(hub.address.parse().unwrap(), &hub.token, &rust_remote_client(), &["1", "2"]);
}

#[test]
fn the_typescript_sdk_as_client_of_a_hub() {
    if let Some(client) = typescript("client") {
        let place = Place::new();
        let hub = hub(&place);
        come_to(hub.address.parse().unwrap(), &hub.token, &client, &["1", "2"]);
    }
}

#[test]
fn the_python_sdk_as_client_of_a_hub() {
    if let Some(client) = python("client") {
        let place = Place::new();
        let hub = hub(&place);
        come_to(hub.address.parse().unwrap(), &hub.token, &client, &["1"]);
    }
}

#[test]
fn the_error_about_a_certificate_of_openssl_says_how_to_make_one_that_is_taken() {
    let place = Place::new();
    let make = |name: &str, more: &[&str]| {
        let [key, certificate] = ["key", "pem"].map(|ending| place.home().join(format!("{name}.{ending}")));
        let mut command = std::process::Command::new("openssl");
        command.args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ]);
        command.arg("-keyout").arg(&key).arg("-out").arg(&certificate).args(more);
        let made = command.output().unwrap();
        assert!(made.status.success(), "{made:?}");
        (key.display().to_string(), certificate.display().to_string())
    };
    let names = ["-addext", "subjectAltName=DNS:localhost"];
    let no_authority = ["-addext", "basicConstraints=critical,CA:FALSE"];
    for (name, more, is_taken) in [
        ("usual", vec![], false),
        ("named", names.to_vec(), false),
        ("server", no_authority.to_vec(), false),
        ("good", [names, no_authority].concat(), true),
    ] {
        let (key, certificate) = make(name, &more);
        let hub = Hub::start_as(&place, name, &["--tls-cert", &certificate, "--tls-key", &key, "demo"]);
        let port = hub.address.rsplit_once(':').unwrap().1;
        for scheme in ["wss", "https"] {
            let url = format!("{scheme}://localhost:{port}");
            let mut command = match scheme {
                "wss" => place.command(&["connect", "--no-wait", &format!("{url}/acp")]),
                _ => place.command(&["hub", "status", &url]),
            };
            command.env("SSL_CERT_FILE", &certificate).env("SWITCHBOARD_TOKEN", &hub.token);
            let run = place.run_command(command);
            assert_eq!(run.code == 0, is_taken, "{name} by {scheme}: {}", run.stderr);
            let says_how = run.stderr.contains("basicConstraints=critical,CA:FALSE")
                && run.stderr.contains("subjectAltName=DNS:");
            assert_eq!(says_how, !is_taken, "{name} by {scheme}: {}", run.stderr);
        }
    }
}
