//! Harmless commands with the operators of a shell between them: whatever is allowed, a real shell takes for a command
//! line, and it runs nothing but the command that is allowed. Each byte of the data chooses a piece of the line; data that
//! begins with a zero is the line itself.
#![no_main]

#[path = "../../crates/policy/tests/it/bash.rs"]
mod bash;

use std::collections::HashSet;
use std::sync::{Mutex, OnceLock};

use bash::{RULES, Shell};
use libfuzzer_sys::fuzz_target;
use switchboard_policy::{NoFiles, Policy, Scene, Verdict};

fuzz_target!(|data: &[u8]| {
    static POLICY: OnceLock<Policy> = OnceLock::new();
    static SHELL: OnceLock<Mutex<(Shell, HashSet<String>)>> = OnceLock::new();
    let line = match data.split_first() {
        Some((0, text)) => String::from_utf8_lossy(text).into_owned(),
        _ => bash::line(data.iter().map(|byte| usize::from(*byte))),
    };
    let host = NoFiles::default();
    let policy = POLICY.get_or_init(|| Policy::parse(RULES, &host).expect("rules"));
    let scene = Scene { root: "/work".to_owned(), ..Scene::default() };
    if policy.judge_line(&line, &scene, &host).verdict != Verdict::Allow {
        return;
    }
    let mut shell =
        SHELL.get_or_init(|| Mutex::new((Shell::new(), HashSet::new()))).lock().expect("one thread");
    if shell.1.insert(line.clone())
        && let Some(objection) = shell.0.objection(&line)
    {
        panic!("allowed: {line:?}, and {objection}");
    }
});
