//! A real shell is the judge: what is allowed here, it takes for commands, and for no others than were allowed.

use std::process::{Command, Stdio};

use proptest::prelude::*;
use switchboard_policy::{Policy, Verdict};

use crate::support::{judge_line, policy};

/// What is put between the words of harmless commands.
const PIECES: [&str; 44] = [
    "ok", "-x", "a", " ", " ", " ", ";", "&&", "||", "|", "&", "\n", "(", ")", "{ ", " }", "$(", "`", "<",
    ">", ">>", "2>&1", "'", "\"", "\\", "#", "$x", "*", "evil", "ok ", " evil ", "<<E\n", "\nE\n", "$((",
    "))", "${", "}", "if ", "; then ", "; fi", "=", "A=1 ", "!", "<<<",
];

fn rules() -> Policy {
    policy("[[rule]]\ndecision = \"allow\"\ncommand = [\"ok\"]\n")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// In a shell that can run nothing but two functions, what is allowed never gets to the second one.
    #[test]
    fn what_is_allowed_runs_nothing_else(places in prop::collection::vec(0..PIECES.len(), 1..12)) {
        let line: String = std::iter::once("ok ").chain(places.into_iter().map(|place| PIECES[place])).collect();
        if judge_line(&rules(), &line).verdict == Verdict::Allow {
            prop_assert!(is_bash(&line), "{line:?} was allowed and is no command line");
            let outcome = run_in_bash(&line);
            prop_assert!(!outcome.contains("EVIL"), "{line:?} was allowed and ran another command");
        }
    }
}

/// Whether it is a command line at all.
fn is_bash(line: &str) -> bool {
    let status = Command::new("bash")
        .args(["--norc", "-n", "-c", line])
        .stdin(Stdio::null())
        .output()
        .expect("bash")
        .status;
    status.success()
}

/// Runs a line where commands say what they are and nothing else can be run.
fn run_in_bash(line: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "PATH=\n ok() {{ :; }}; evil() {{ echo EVIL; }}; command_not_found_handle() {{ echo EVIL; }}\n{line}"
    );
    let output = Command::new("bash")
        .args(["--noprofile", "--norc", "-r", "-c", &script])
        .current_dir(folder.path())
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .expect("bash");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
