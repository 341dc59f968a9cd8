//! Integration tests of the crate in one binary.
#![allow(clippy::unwrap_used)]

mod against_git_apply;
mod anything;
mod applying;
mod building;
mod checking;
mod hostile;
mod reading;
mod repository;
mod support;
mod texts;
mod wire;

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}
