//! The browser itself, against a small page.
#![allow(clippy::unwrap_used)]

mod page;

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}
