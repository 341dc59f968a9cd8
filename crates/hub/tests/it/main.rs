//! The hub through its public interface: clients are connected in memory, and the agent is a small program.

#![allow(clippy::unwrap_used)]

mod access;
mod agents;
mod observers;
mod prompts;
mod questions;
mod sessions;
mod support;

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}
