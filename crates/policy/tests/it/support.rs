//! Shared helpers of the tests.

use switchboard_bridge::{read_v1_permission, read_v1_update};
use switchboard_policy::{Decision, NoFiles, Policy, QuestionReader, RequestContext, Version1};

pub(crate) fn host() -> NoFiles {
    NoFiles { home: Some("/home/me".to_owned()) }
}

/// Returns a reader of both versions.
pub(crate) fn reader(root: &str) -> QuestionReader {
    QuestionReader::new(root).reading_version_1(VERSION_1)
}

pub(crate) const VERSION_1: Version1 = Version1 { update: read_v1_update, permission: read_v1_permission };

pub(crate) fn scene() -> RequestContext {
    RequestContext { root: "/project".to_owned(), cwd: None, agent: None }
}

pub(crate) fn policy(text: &str) -> Policy {
    Policy::parse(text, &host()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub(crate) fn evaluate_line(policy: &Policy, line: &str) -> Decision {
    policy.evaluate_line(line, &scene(), &host())
}
