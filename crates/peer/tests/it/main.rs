//! All integration tests of the crate in one binary.

// Tests pass `json!` values to small functions; a reference would only be noise.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod emitter;
mod handle;
mod hostile;
mod negotiation;
mod observer;
mod resuming;
mod subagents;
mod support;
mod unstable;

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}
