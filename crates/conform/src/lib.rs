//! The rules of ACP as data, and who keeps them.
//!
//! - [`RULES`] is the registry: what each rule asks for, of whom, where the specification says so, and what to change.
//! - [`Evaluator`] is fed the messages of a conversation, live or recorded, and finds the violations.
//! - [`Findings`] is what it found; [`Report`] says what that amounts to.
//!
//! Schemas are judged by `switchboard_acp::check`, diffs by `switchboard_diff`; here is what they mean as rules, and all
//! that concerns more than one message.

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
pub use recording::RecordingJudge;
pub use report::{Failure, Findings, JudgedRule, Report, Status, Verdict};
pub use rule::{Party, Rule, Seen, Strength, Versions};
pub use rules::{RULES, RuleId};

/// The example of the package's front page runs with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
