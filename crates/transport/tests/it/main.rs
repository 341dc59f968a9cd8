//! Integration tests of the crate in one binary.

// Test helpers may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod connection;
mod faults;
mod framing;
mod outbox;
mod process;
mod server;
mod support;

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}
