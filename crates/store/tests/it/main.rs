//! Integration tests of the crate in one binary.

#![allow(clippy::unwrap_used)]

mod access;
mod crashes;
mod damage;
mod faults;
mod files;
mod migration;
mod power;
mod privacy;
mod reading;
mod recordings;
mod searching;
mod sharing;
mod support;
mod windows;
mod writing;

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}
