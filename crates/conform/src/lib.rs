//! The rules of ACP as data, and checks of peers against them.
//!
//! - [`RULES`] is the registry: the requirement of each rule, the obligated side, the citation, and the fix.
//! - [`Evaluator`] takes the messages of a live or recorded conversation and finds violations.
//! - [`Findings`] are its result; [`Report`] summarizes them.
//!
//! `switchboard_acp::check` checks schemas and `switchboard_diff` checks diffs. This crate maps their
//! findings to rules, and checks everything that concerns more than one message.

mod baseline;
mod calls;
mod connection;
mod content;
mod evaluator;
mod handshake;
pub mod live;
mod recording;
pub mod render;
mod report;
mod rule;
mod rules;
mod schema;
mod turns;

pub use baseline::{Baseline, BaselineError};
pub use evaluator::Evaluator;
pub use recording::RecordingChecker;
pub use report::{Failure, Findings, Report, RuleResult, Status, Verdict};
pub use rule::{Party, Rule, Strength, TestKind, Versions};
pub use rules::{RULES, RuleId};

/// Runs the example of the package's README with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
