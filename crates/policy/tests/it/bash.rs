//! A real shell as the judge of what is allowed: by the tests here, and by the fuzz target `policy`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The rules under which nothing but `ok` may run.
pub(crate) const RULES: &str = "[[rule]]\ndecision = \"allow\"\ncommand = [\"ok\"]\n";

/// What is put between the words of harmless commands.
pub(crate) const PIECES: [&str; 82] = [
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

/// A line that begins harmlessly and goes on as these numbers say.
pub(crate) fn line(places: impl IntoIterator<Item = usize>) -> String {
    let pieces = places.into_iter().map(|place| PIECES[place % PIECES.len()]);
    std::iter::once("ok ").chain(pieces).collect()
}

/// A shell that runs one line after the other, each in a copy of itself, and tells what it runs. It has no programs, and as
/// a restricted one it writes no files.
pub(crate) struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Shell {
    pub(crate) fn new() -> Self {
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
        Shell { child, input, output: BufReader::new(output) }
    }

    /// What is wrong with a line that was allowed: it is none, or something else is run than was allowed.
    pub(crate) fn objection(&mut self, line: &str) -> Option<String> {
        // Programs that run what they are given: this shell has none.
        const WRAPPERS: [&str; 7] = ["env", "timeout", "nohup", "nice", "command", "builtin", "sh"];
        if line.contains('\0') {
            return Some("no shell can be asked".to_owned());
        }
        if WRAPPERS.iter().any(|wrapper| line.contains(wrapper)) {
            return None;
        }
        let said = self.run(line);
        let faults = ["syntax error", "unexpected EOF", "unexpected end of file"];
        if faults.iter().any(|fault| said.contains(fault)) {
            return Some(format!("it is no command line: {said}"));
        }
        // Its own, the words of the language, and variables that only change how something looks.
        let is_harmless = |command: &str| {
            let name = command.trim_start_matches('+').trim_start().split(' ').next().unwrap_or_default();
            ["eval", "wait", "ok", ":", "case", "for", "time"].contains(&name) || name.contains('=')
        };
        let mut commands = said.lines().filter(|line| line.starts_with('+'));
        commands.any(|command| !is_harmless(command)).then(|| format!("it runs another command: {said}"))
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
