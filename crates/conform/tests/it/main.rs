//! The integration tests of the crate, in one binary.
#![allow(clippy::unwrap_used)]

mod broken_peers;
mod live;
mod recordings;

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}
