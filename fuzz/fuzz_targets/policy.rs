//! Harmless commands with the operators of a shell between them: whatever is allowed, a real shell takes for a command
//! line, and it runs nothing but the command that is allowed. Each byte of the data chooses a piece of the line; data that
//! begins with a zero is the line itself.
#![no_main]

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use libfuzzer_sys::fuzz_target;
use switchboard_policy::{NoFiles, Policy, Scene, Verdict};

const PIECES: [&str; 82] = [
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
    "&>",
    ">&",
    "|&",
    "<>",
    ">|",
    "\r",
    "\t",
    "\u{a0}",
    "\\\n",
    "<<-E\n",
    "<<'E'\n",
    ";&",
    "[[ ",
    " ]]",
    "until ",
    "; do ",
    "; done",
    "for i in a",
    "coproc ",
    "function ok ",
    "ok()",
    "~",
    "{a,b}",
    "[",
    "$[",
    "${x:-",
    "$'\\",
    "else ",
    "elif ",
    "@(",
    "?",
    "=(",
    "&& ",
    "\\",
];

const RULES: &str = "[[rule]]\ndecision = \"allow\"\ncommand = [\"ok\"]\n";

/// Programs that run what they are given. The shell that is asked has no programs.
const WRAPPERS: [&str; 7] = ["env", "timeout", "nohup", "nice", "command", "builtin", "sh"];

fuzz_target!(|data: &[u8]| {
    static POLICY: OnceLock<Policy> = OnceLock::new();
    static SHELL: OnceLock<Mutex<Shell>> = OnceLock::new();
    let line: String = match data.split_first() {
        Some((0, text)) => String::from_utf8_lossy(text).into_owned(),
        _ => std::iter::once("ok ")
            .chain(data.iter().map(|byte| PIECES[usize::from(*byte) % PIECES.len()]))
            .collect(),
    };
    let host = NoFiles::default();
    let policy = POLICY.get_or_init(|| Policy::parse(RULES, &host).expect("rules"));
    let scene = Scene { root: "/work".to_owned(), ..Scene::default() };
    if policy.judge_line(&line, &scene, &host).verdict != Verdict::Allow {
        return;
    }
    assert!(!line.contains('\0'), "allowed, and no shell could be asked: {line:?}");
    if WRAPPERS.iter().any(|wrapper| line.contains(wrapper)) {
        return;
    }
    let mut shell = SHELL.get_or_init(|| Mutex::new(Shell::new())).lock().expect("one thread");
    if !shell.asked.insert(line.clone()) {
        return;
    }
    let said = shell.run(&line);
    let is_line =
        ["syntax error", "unexpected EOF", "unexpected end of file"].iter().all(|it| !said.contains(it));
    assert!(is_line, "allowed, and no command line: {line:?}\n{said}");
    for command in said.lines().filter_map(|line| line.strip_prefix('+')) {
        let name = command.trim_start_matches('+').trim_start().split(' ').next().unwrap_or_default();
        // Its own, the words of the language, and variables that only change how something looks.
        let is_harmless = ["eval", "wait", "ok", ":", "case", "for"].contains(&name) || name.contains('=');
        assert!(is_harmless, "allowed, and ran another command: {line:?}\n{said}");
    }
});

/// A shell that runs one line after the other, each in a copy of itself, and tells what it runs. It has no programs, and as
/// a restricted one it writes no files.
struct Shell {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// What it was asked.
    asked: HashSet<String>,
}

impl Shell {
    fn new() -> Self {
        const SCRIPT: &str = r#"
            exec 2>&1
            PATH= PS4=+
            ok() { :; }
            set -r
            while IFS= read -r -d '' line; do
                (ulimit -t 1; set -x; eval "$line"; wait) </dev/null
                printf '\0'
            done
        "#;
        let child = Command::new("bash")
            .args(["--noprofile", "--norc", "-c", SCRIPT])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.expect("bash");
        let (input, output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        Shell { input, output: BufReader::new(output), asked: HashSet::new() }
    }

    /// Runs a line; gives what it ran and what it complained of.
    fn run(&mut self, line: &str) -> String {
        self.input
            .write_all(line.as_bytes())
            .and_then(|()| self.input.write_all(b"\0"))
            .expect("bash listens");
        let mut said = Vec::new();
        self.output.read_until(0, &mut said).expect("bash answers");
        assert_eq!(said.pop(), Some(0), "bash has ended at {line:?}");
        String::from_utf8_lossy(&said).into_owned()
    }
}
