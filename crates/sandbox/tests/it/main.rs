//! Tests of the sandbox as users of the library see it. Escapes and everyday work are tests of the program, which is the
//! first process of each sandbox.
#![allow(clippy::unwrap_used)]

mod requests;

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}
