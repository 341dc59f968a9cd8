//! Tests of the program as users run it, in one binary.
// Tests pass `json!` values to small functions; references would only be noise.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod agent_program;
mod agents;
mod agents_install;
mod ahp;
mod bridge;
mod bridge_ends;
mod bridge_login;
mod bridge_peers;
mod check;
mod completions;
mod conform;
mod connect;
mod convert;
mod demo_agent;
mod diff;
mod dist;
mod doctor;
mod documentation;
mod equal_runtimes;
mod fold;
mod history;
mod hub_notes;
mod hub_status;
mod interop;
mod invalid_lines;
mod known_agents;
mod new_user;
mod notify;
mod permissions;
mod policy;
mod program;
mod readers;
mod registry;
mod remote;
mod replay;
mod run;
mod run_ends;
mod run_subagents;
mod sandbox;
mod sandbox_attacks;
mod schema;
mod serve;
mod sessions;
mod setup;
mod telemetry;
mod terminal;
mod tokens;
mod web;

#[test]
fn every_test_file_is_a_module() {
    switchboard_testkit::assert_every_file_is_a_module(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
}
