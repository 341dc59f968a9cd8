//! Real shells as the judges of what is allowed: by the tests here, and by the fuzz target `policy`.

use std::path::Path;
use std::process::{Command, Stdio};

/// The rules under which nothing but `ok` may run.
pub(crate) const RULES: &str = "[[rule]]\ndecision = \"allow\"\ncommand = [\"ok\"]\n";

/// What is put between the words of harmless commands.
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

/// A line that begins harmlessly and goes on as these numbers say.
pub(crate) fn line(places: impl IntoIterator<Item = usize>) -> String {
    let pieces = places.into_iter().map(|place| PIECES[place % PIECES.len()]);
    std::iter::once("ok ").chain(pieces).collect()
}

/// The shells that agents run lines with, by how they are started.
pub(crate) const SHELLS: [&[&str]; 3] = [&["bash", "--noprofile", "--norc"], &["dash"], &["busybox", "sh"]];

/// What a shell did with a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Deeds {
    /// The arguments of each `ok` that ran, sorted, each once.
    pub(crate) ran: Vec<Vec<String>>,
    /// Its complaints.
    pub(crate) said: String,
    /// The files that it made.
    pub(crate) made: Vec<String>,
}

/// Shells that have no programs, only a function `ok` that writes down its arguments. They work in a folder of their own.
pub(crate) struct Shells {
    folder: tempfile::TempDir,
}

impl Shells {
    pub(crate) fn new() -> Self {
        Shells { folder: tempfile::tempdir().expect("a folder") }
    }

    /// Runs a line in one of the shells, which has little time and room for it.
    pub(crate) fn run(&self, shell: &[&str], line: &str) -> Deeds {
        // A loop without end is left after some rounds. What runs in the background is waited for.
        // A call is written down at once, because those of a pipeline run at the same time.
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

    /// What is wrong with a line that was allowed: a shell does not take it for one, or runs something else than `ok`, or one
    /// does something else than another. `commands` are those that were found in the line, where all is written out in it.
    pub(crate) fn objection(&self, line: &str, commands: Option<&[Vec<&str>]>) -> Option<String> {
        // Programs that run what they are given: these shells have none.
        const WRAPPERS: [&str; 7] = ["env", "timeout", "nohup", "nice", "command", "builtin", "sh"];
        if line.contains('\0') {
            return Some("no shell can be asked".to_owned());
        }
        if WRAPPERS.iter().any(|wrapper| line.contains(wrapper)) {
            return None;
        }
        // In dash it is a program, which is not there.
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
