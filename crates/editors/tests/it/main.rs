//! Switchboard in real editors. `cargo xtask test --editors` runs these tests; without it they say that they did not run.
#![allow(clippy::unwrap_used)]

mod acpx;
mod jupyterlab;
mod marimo;
mod toad;
mod vscode;

use switchboard_editors::{Place, Running};

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}

/// A hub with agents, and the words that reach it.
struct Hub {
    process: Running,
    address: String,
    token_file: String,
}

impl Hub {
    fn start(place: &Place, agents: &[&str]) -> Self {
        Hub::at(place, agents, "127.0.0.1:0")
    }

    /// Starts it at an address.
    fn at(place: &Place, agents: &[&str], address: &str) -> Self {
        let token = place.home().join("token").display().to_string();
        let words = ["serve", "--listen", address, "--token-file", &token];
        let command = place.switchboard(&[&words, agents].concat());
        let mut process = Running::start(command, place.write("hub.log", ""));
        let line = process.wait_line("listening on http://");
        let address = line.rsplit_once("http://").unwrap().1.trim().to_owned();
        Hub { process, address, token_file: token }
    }

    fn url(&self) -> String {
        format!("ws://{}", self.address)
    }
}
