//! Harmless commands with the operators of a shell between them: whatever is allowed, a real shell takes for a command
//! line, and it runs nothing but the command that is allowed. Each byte of the data chooses a piece of the line; data that
//! begins with a zero is the line itself.
#![no_main]

use std::process::{Command, Stdio};

use libfuzzer_sys::fuzz_target;
use switchboard_policy::{NoFiles, Policy, Scene, Verdict};

const PIECES: [&str; 48] = [
    "ok",
    "-x",
    "a",
    " ",
    ";",
    "&&",
    "||",
    "|",
    "&",
    "\n",
    "(",
    ")",
    "{ ",
    " }",
    "$(",
    "`",
    "<",
    ">",
    ">>",
    "2>&1",
    "'",
    "\"",
    "\\",
    "#",
    "$x",
    "*",
    "evil",
    "ok ",
    " evil ",
    "<<E\n",
    "\nE\n",
    "$((",
    "))",
    "${",
    "}",
    "if ",
    "; then ",
    "; fi",
    "=",
    "A=1 ",
    "!",
    "<<<",
    "$'",
    "<(",
    "time ",
    "case a in a) ",
    ";;",
    " esac",
];

const RULES: &str = "[[rule]]\ndecision = \"allow\"\ncommand = [\"ok\"]\n";

fuzz_target!(|data: &[u8]| {
    let line: String = match data.split_first() {
        Some((0, text)) => String::from_utf8_lossy(text).into_owned(),
        _ => std::iter::once("ok ")
            .chain(data.iter().map(|byte| PIECES[usize::from(*byte) % PIECES.len()]))
            .collect(),
    };
    let host = NoFiles::default();
    let Ok(policy) = Policy::parse(RULES, &host) else { return };
    let scene = Scene { root: "/work".to_owned(), ..Scene::default() };
    if policy.judge_line(&line, &scene, &host).verdict != Verdict::Allow || line.contains('\0') {
        return;
    }
    let is_line = bash(&["-n", "-c", &line]).0;
    assert!(is_line, "allowed, and no command line: {line:?}");
    // Nothing else can be run here: there are no programs, and the shell is a restricted one.
    let script = format!(
        "PATH=\nok() {{ :; }}; evil() {{ echo EVIL; }}; command_not_found_handle() {{ echo EVIL; }}\n{line}"
    );
    let (_, said) = bash(&["-r", "-c", &script]);
    assert!(!said.contains("EVIL"), "allowed, and ran another command: {line:?}");
});

fn bash(arguments: &[&str]) -> (bool, String) {
    let output = Command::new("bash")
        .args(["--noprofile", "--norc"])
        .args(arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .expect("bash");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}
