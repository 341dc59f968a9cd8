//! The integration tests of the crate, in one binary.
// Tests pass `json!` values to small functions; a reference would only be noise.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod collectors;
mod trees;

use std::time::Duration;

use switchboard_telemetry::{Options, Telemetry};
use switchboard_testkit::Collector;

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}

/// Timeout for the end with a working collector.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns telemetry for a collector.
fn telemetry(collector: &Collector) -> Telemetry {
    let options = Options { endpoint: Some(collector.url()), ..Options::new(|problem| panic!("{problem}")) };
    Telemetry::start(options).unwrap().unwrap()
}
