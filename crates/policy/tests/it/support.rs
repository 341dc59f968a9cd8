//! What the tests share.

use switchboard_policy::{Decision, NoFiles, Policy, Scene};

pub(crate) fn host() -> NoFiles {
    NoFiles { home: Some("/home/me".to_owned()) }
}

pub(crate) fn scene() -> Scene {
    Scene { root: "/project".to_owned(), cwd: None, agent: None }
}

pub(crate) fn policy(text: &str) -> Policy {
    Policy::parse(text, &host()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub(crate) fn judge_line(policy: &Policy, line: &str) -> Decision {
    policy.judge_line(line, &scene(), &host())
}
