//! Tests of the bridge, in one program.
#![allow(clippy::unwrap_used)]
#![allow(clippy::needless_pass_by_value, reason = "values are written in place")]

mod agent_end;
mod children;
mod conversations;
mod dialects;
mod hostile;
mod ids;
mod markers;
mod marks;
mod memory;
mod native;
mod odd_children;
mod old_agents;
mod places;
mod properties;
mod recordings;
mod round_trips;
mod rows;
mod served;
mod sessions;
mod stateless;
mod support;
mod tool_calls;
mod traces;
mod turns;
mod unstable;

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}
