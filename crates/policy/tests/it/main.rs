//! All integration tests of the crate in one binary.
#![allow(clippy::unwrap_used)]
// Temporary values read better without an ampersand.
#![allow(clippy::needless_pass_by_value)]

mod against_shells;
mod commands;
mod paths;
mod recipes;
mod recordings;
mod requests;
mod rules;
mod shells;
mod support;

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}
