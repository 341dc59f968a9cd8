//! Harmless commands with the operators of a shell between them: whatever is allowed, bash, dash and busybox sh take for a
//! command line, and each runs the same, nothing but the command that is allowed. Each byte of the data chooses a piece of the line; data that
//! begins with a zero is the line itself.
#![no_main]

#[path = "../../crates/policy/tests/it/shells.rs"]
mod shells;

use std::collections::HashSet;
use std::sync::{Mutex, OnceLock};

use libfuzzer_sys::fuzz_target;
use shells::{RULES, Shells};
use switchboard_policy::{NoFiles, Policy, RequestContext, Subject, Verdict};

fuzz_target!(|data: &[u8]| {
    static POLICY: OnceLock<Policy> = OnceLock::new();
    static SHELLS: OnceLock<Mutex<(Shells, HashSet<String>)>> = OnceLock::new();
    let line = match data.split_first() {
        Some((0, text)) => String::from_utf8_lossy(text).into_owned(),
        _ => shells::line(data.iter().map(|byte| usize::from(*byte))),
    };
    let host = NoFiles::default();
    let policy = POLICY.get_or_init(|| Policy::parse(RULES, &host).expect("rules"));
    let scene = RequestContext { root: "/work".to_owned(), ..RequestContext::default() };
    let subject = Subject::of_line(&line, &scene);
    if policy.evaluate(&subject, &host).verdict != Verdict::Allow {
        return;
    }
    let mut shells =
        SHELLS.get_or_init(|| Mutex::new((Shells::new(), HashSet::new()))).lock().expect("one thread");
    let commands = subject.commands();
    let is_written_out = !line.contains(['$', '*', '?', '[', '~']);
    if shells.1.insert(line.clone())
        && let Some(objection) = shells.0.objection(&line, is_written_out.then_some(&commands))
    {
        panic!("allowed: {line:?}, and {objection}");
    }
});
