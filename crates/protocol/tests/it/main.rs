//! Integration tests of the crate in one binary.

#![allow(clippy::unwrap_used)]

mod bad_input;
mod documentation;
mod extensions;
mod json_schema;
mod maker;
mod official;
mod properties;
mod recordings;
mod round_trips;
mod spec_examples;
mod vectors;

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}
