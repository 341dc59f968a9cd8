//! Integration tests of the crate in one binary.
#![allow(clippy::unwrap_used)]
// Inline values read better without an ampersand.
#![allow(clippy::needless_pass_by_value)]

mod conversation;
mod forms;
mod generate;
mod model;
mod outlines;
mod permissions;
mod recordings;
mod reference;
mod replay;
mod rules;
mod sharing;
mod state_only;
mod subagents;
mod tolerance;
mod turns;
mod vectors;

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}
