//! Real shells as reference, for the tests here and for the fuzz target `policy`.

use std::path::Path;
use std::process::{Command, Stdio};

/// Rules under which only `ok` may run.
pub(crate) const RULES: &str = "[[rule]]\ndecision = \"allow\"\ncommand = [\"ok\"]\n";

/// Texts that are inserted between the words of harmless commands.
pub(crate) const PIECES: [&str; 116] = [
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
    "/dev/null",
    " &>/dev/null ",
    "$\\\n",
    "$'a\\'",
    "#'",
    " #",
    "10>&1 ",
    ">&1-",
    " >&2 ",
    "! ",
    "LANG+=1 ",
    "LANG=1 ",
    "LANG[0]=1 ",
    "$i",
    "\"$i\"",
    "for i in a 'b c' \"*\"; do ok $i; done",
    "${i}",
    "${x/a/b}",
    "${#x}",
    "${x%a}",
    "~+",
    "[^a]",
    "select i in a; do ",
    "while ",
    "{a..c}",
    "$\"",
    "''",
    "\"\"",
    "\n\n",
    "function ",
    "break;",
    "2>",
    "<<\"E\"\n",
    "\\\nE\n",
];

/// Builds a line that begins harmlessly and continues with these pieces.
pub(crate) fn line(places: impl IntoIterator<Item = usize>) -> String {
    let pieces = places.into_iter().map(|place| PIECES[place % PIECES.len()]);
    std::iter::once("ok ").chain(pieces).collect()
}

/// The shells that agents use, with their arguments.
pub(crate) const SHELLS: [&[&str]; 3] = [&["bash", "--noprofile", "--norc"], &["dash"], &["busybox", "sh"]];

/// Effects of a line in a shell.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Deeds {
    /// The arguments of each `ok` that ran, sorted and unique.
    pub(crate) ran: Vec<Vec<String>>,
    /// Its standard error.
    pub(crate) said: String,
    /// The files that it created.
    pub(crate) made: Vec<String>,
}

/// Shells without programs, with only a function `ok` that records its arguments. Each works in a folder of
/// its own.
pub(crate) struct Shells {
    folder: tempfile::TempDir,
}

impl Shells {
    pub(crate) fn new() -> Self {
        Shells { folder: tempfile::tempdir().expect("a folder") }
    }

    /// Runs a line in one of the shells, with limited time and space.
    pub(crate) fn run(&self, shell: &[&str], line: &str) -> Deeds {
        // An endless loop is left after some iterations. Background commands are awaited.
        // A call is recorded at once, because calls of a pipeline run concurrently.
        const BEFORE: &str = "ulimit -t 2; ulimit -f 400; exec 3>>\"$RECORD\"; trap wait 0; rounds_of_ok=0
ok() {
    rounds_of_ok=$((rounds_of_ok + 1)); [ \"$rounds_of_ok\" -lt 40 ] || exit 0
    words_of_ok=; for word_of_ok do words_of_ok=\"$words_of_ok$word_of_ok\u{1}\"; done
    printf '%s\\n' \"\u{3}$words_of_ok\u{2}\" >&3
}
";
        let (work, record, said) = (
            self.folder.path().join("work"),
            self.folder.path().join("ran"),
            self.folder.path().join("said"),
        );
        let _ = (std::fs::remove_dir_all(&work), std::fs::remove_file(&record));
        std::fs::create_dir(&work).expect("a folder");
        let (program, options) = shell.split_first().expect("a shell");
        let place = ["/bin", "/usr/bin", "/usr/local/bin"].map(|folder| Path::new(folder).join(program));
        let place = place.iter().find(|place| place.exists());
        let place = place.unwrap_or_else(|| panic!("{program} is needed: install the package of that name"));
        let status = Command::new(place)
            .args(options)
            .args(["-c", &format!("{BEFORE}{line}")])
            .env_clear()
            .envs([("PATH", "/nonexistent"), ("HOME", "/nonexistent"), ("LC_ALL", "C.UTF-8")])
            .env("RECORD", &record)
            .current_dir(&work)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&said).expect("a file"))
            .status();
        status.expect("a shell");
        let read =
            |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
        let mut ran: Vec<Vec<String>> = read(&record)
            .split("\u{2}\n")
            .filter_map(|call| call.strip_prefix('\u{3}'))
            .map(|call| call.split_terminator('\u{1}').map(str::to_owned).collect())
            .collect();
        ran.sort();
        ran.dedup();
        let made = std::fs::read_dir(&work).expect("a folder").filter_map(Result::ok);
        let made = made.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        Deeds { ran, said: read(&said), made }
    }

    /// Returns the objection to an allowed line: a shell rejects it, runs something else than `ok`, or
    /// differs from another shell. `commands` are the commands found in the line if it is fully literal.
    pub(crate) fn objection(&self, line: &str, commands: Option<&[Vec<&str>]>) -> Option<String> {
        // Programs that run their arguments, which these shells do not have.
        const WRAPPERS: [&str; 7] = ["env", "timeout", "nohup", "nice", "command", "builtin", "sh"];
        if line.contains('\0') {
            return Some("no shell can be asked".to_owned());
        }
        if WRAPPERS.iter().any(|wrapper| line.contains(wrapper)) {
            return None;
        }
        // In dash it is a program, which does not exist here.
        let is_timed = line.contains("time");
        let mut first: Option<Deeds> = None;
        for shell in SHELLS {
            let deeds = self.run(shell, line);
            let said = deeds.said.to_lowercase();
            let faults = [
                "syntax error",
                "unexpected",
                "unterminated",
                "here-document",
                "bad ",
                "not found",
                "denied",
                "directory",
                "ambiguous",
                "invalid",
                "illegal",
            ];
            let fault =
                faults.into_iter().find(|fault| said.contains(fault) && !(is_timed && *fault == "not found"));
            if let Some(fault) = fault {
                return Some(format!("{shell:?} complains ({fault}): {said}"));
            }
            if !deeds.made.is_empty() {
                return Some(format!("{shell:?} writes {:?}", deeds.made));
            }
            let is_known = |ran: &Vec<String>| {
                commands.is_none_or(|all| {
                    all.iter().any(|words| words.split_first().is_some_and(|(_, rest)| rest == ran))
                })
            };
            if !is_timed && let Some(other) = deeds.ran.iter().find(|ran| !is_known(ran)) {
                return Some(format!("{shell:?} runs ok with {other:?}, but the commands are {commands:?}"));
            }
            match &first {
                Some(first) if first.ran != deeds.ran && !is_timed => {
                    return Some(format!("{shell:?} runs {:?}, another shell {:?}", deeds.ran, first.ran));
                }
                _ => first = first.or(Some(deeds)),
            }
        }
        None
    }
}
