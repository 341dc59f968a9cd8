//! Options with which a program runs another one, reads its configuration from elsewhere, or writes files of
//! its own.
//!
//! A rule gives the beginning of a command. These options change its meaning, so such a rule does not cover
//! them, unless it names the option.

use crate::shell::Word;

/// The options of one program.
struct Options {
    programs: &'static [&'static str],
    /// Long options. Many programs accept abbreviations of them.
    long: &'static [&'static str],
    /// Harmless long options that look like an abbreviation of the others.
    harmless: &'static [&'static str],
    /// Letters of short options, also after others: `-i`, `-ni`.
    letters: &'static str,
    /// Words that are such an option as a whole, also with a value after `=`.
    words: &'static [&'static str],
    /// Set if an argument of the form `NAME=value` sets a variable.
    sets_variables: bool,
}

const NONE: Options =
    Options { programs: &[], long: &[], harmless: &[], letters: "", words: &[], sets_variables: false };

const TABLE: &[Options] = &[
    Options {
        programs: &["git"],
        long: &[
            "--attr-source",
            "--config",
            "--config-env",
            "--contents",
            "--exec",
            "--exec-path",
            "--ext-diff",
            "--extcmd",
            "--file",
            "--git-dir",
            "--ignore-revs-file",
            "--no-index",
            "--open-files-in-pager",
            "--output",
            "--output-directory",
            "--paginate",
            "--pathspec-from-file",
            "--receive-pack",
            "--remote",
            "--separate-git-dir",
            "--super-prefix",
            "--template",
            "--textconv",
            "--upload-archive",
            "--upload-pack",
            "--work-tree",
        ],
        harmless: &["--remotes", "--text"],
        letters: "",
        words: &["-O"],
        ..NONE
    },
    Options {
        programs: &["cargo"],
        long: &[
            "--artifact-dir",
            "--config",
            "--config-file",
            "--lockfile-path",
            "--logfile",
            "--manifest-path",
            "--open",
            "--out-dir",
            "--target-dir",
            "--tool-config-file",
        ],
        letters: "CZ",
        ..NONE
    },
    Options {
        programs: &["npm", "pnpm", "yarn"],
        long: &[
            "--cache",
            "--config",
            "--cwd",
            "--dir",
            "--editor",
            "--git",
            "--global",
            "--globalconfig",
            "--node-options",
            "--prefix",
            "--script-shell",
            "--scripts-prepend-node-path",
            "--shell",
            "--shell-emulator",
            "--use-yarnrc",
            "--userconfig",
            "--viewer",
            "--workspace-dir",
        ],
        letters: "Cg",
        ..NONE
    },
    Options {
        programs: &["bun", "deno"],
        long: &[
            "--allow-all",
            "--allow-env",
            "--allow-ffi",
            "--allow-net",
            "--allow-read",
            "--allow-run",
            "--allow-sys",
            "--allow-write",
            "--config",
            "--cwd",
            "--env-file",
            "--eval",
            "--import",
            "--import-map",
            "--preload",
            "--print",
            "--require",
            "--shell",
            "--v8-flags",
        ],
        letters: "Acepr",
        ..NONE
    },
    Options {
        programs: &["go"],
        words: &[
            "-C",
            "-asmflags",
            "-blockprofile",
            "-compiler",
            "-coverprofile",
            "-cpuprofile",
            "-exec",
            "-gccgoflags",
            "-gcflags",
            "-ldflags",
            "-memprofile",
            "-modfile",
            "-mutexprofile",
            "-o",
            "-outputdir",
            "-overlay",
            "-pgo",
            "-pkgdir",
            "-toolexec",
            "-trace",
            "-vettool",
            "-w",
        ],
        ..NONE
    },
    Options {
        programs: &["make", "gmake", "ninja", "just"],
        long: &[
            "--directory",
            "--eval",
            "--file",
            "--include-dir",
            "--justfile",
            "--makefile",
            "--set",
            "--shell",
            "--working-directory",
        ],
        letters: "CEIfd",
        sets_variables: true,
        ..NONE
    },
    Options {
        programs: &["uv", "poetry", "pdm"],
        long: &[
            "--config-file",
            "--default-index",
            "--directory",
            "--env-file",
            "--extra-index-url",
            "--from",
            "--index",
            "--index-url",
            "--project",
            "--python",
            "--with",
            "--with-editable",
            "--with-requirements",
        ],
        letters: "Cp",
        ..NONE
    },
    Options {
        programs: &["pytest", "ruff", "mypy", "black", "tox", "nox"],
        long: &[
            "--basetemp",
            "--config",
            "--config-file",
            "--confcutdir",
            "--debug",
            "--install-types",
            "--junit-xml",
            "--junitxml",
            "--log-file",
            "--noxfile",
            "--output-file",
            "--override-ini",
            "--python",
            "--python-executable",
            "--rootdir",
        ],
        letters: "cop",
        ..NONE
    },
    Options {
        programs: &["eslint", "jest", "mocha", "prettier", "tsc", "vitest"],
        long: &[
            "--build",
            "--config",
            "--dir",
            "--env",
            "--environment",
            "--format",
            "--globalSetup",
            "--import",
            "--loader",
            "--outDir",
            "--outFile",
            "--output-file",
            "--parser",
            "--plugin",
            "--project",
            "--require",
            "--resolve-plugins-relative-to",
            "--root",
            "--rootDir",
            "--rulesdir",
            "--runner",
        ],
        letters: "cfopr",
        ..NONE
    },
    Options {
        programs: &["find", "gfind"],
        words: &[
            "-delete",
            "-exec",
            "-execdir",
            "-files0-from",
            "-fls",
            "-fprint",
            "-fprint0",
            "-fprintf",
            "-ok",
            "-okdir",
        ],
        ..NONE
    },
    Options {
        programs: &["fd", "fdfind"],
        long: &["--exec", "--exec-batch", "--list-details"],
        letters: "xXl",
        ..NONE
    },
    Options {
        programs: &["rg"],
        long: &["--hostname-bin", "--pre", "--pre-glob", "--search-zip"],
        letters: "z",
        ..NONE
    },
    Options {
        programs: &["sort"],
        long: &["--compress-program", "--files0-from", "--output", "--temporary-directory"],
        letters: "oT",
        ..NONE
    },
    Options { programs: &["wc", "du"], long: &["--files0-from"], ..NONE },
    Options { programs: &["tree"], words: &["-o"], letters: "oR", ..NONE },
    Options { programs: &["date"], long: &["--file", "--set"], letters: "fs", ..NONE },
    Options { programs: &["file"], long: &["--compile", "--uncompress"], letters: "Cz", ..NONE },
    Options { programs: &["yq"], long: &["--inplace", "--in-place"], letters: "is", ..NONE },
    Options { programs: &["bat", "batcat", "delta"], long: &["--diff-args", "--pager", "--paging"], ..NONE },
    Options {
        programs: &["less", "more", "man"],
        long: &[
            "--html",
            "--lesskey-content",
            "--lesskey-file",
            "--lesskey-src",
            "--LOG-FILE",
            "--log-file",
            "--pager",
        ],
        letters: "oOkPH",
        words: &["+"],
        ..NONE
    },
    Options {
        programs: &["tar", "bsdtar"],
        long: &[
            "--checkpoint-action",
            "--files-from",
            "--info-script",
            "--new-volume-script",
            "--rmt-command",
            "--rsh-command",
            "--to-command",
            "--use-compress-program",
        ],
        letters: "IFT",
        ..NONE
    },
    Options {
        programs: &["diff", "sdiff"],
        long: &["--diff-program", "--output", "--paginate"],
        letters: "lo",
        ..NONE
    },
    Options {
        programs: &["gcc", "g++", "cc", "c++", "clang", "clang++", "rustc", "rustdoc"],
        long: &["--codegen", "--open", "--out-dir", "--sysroot", "--test-builder"],
        letters: "BCZ",
        words: &["-fplugin", "-wrapper", "-load"],
        ..NONE
    },
    Options { programs: &["rustfmt"], long: &["--backup", "--config", "--config-path"], ..NONE },
];

/// Options of git before the subcommand that do not change its effect.
pub(crate) const HARMLESS_GIT: [&str; 5] =
    ["--literal-pathspecs", "--no-lazy-fetch", "--no-optional-locks", "--no-pager", "--no-replace-objects"];

fn options(program: &str) -> Option<&'static Options> {
    TABLE.iter().find(|options| options.programs.contains(&program))
}

/// Returns whether the options of a program are known here, so that a non-literal argument may be one of
/// them.
pub(crate) fn has_options(program: &str) -> bool {
    options(program).is_some() || matches!(program, "sed" | "uniq" | "xxd")
}

/// Returns whether a command has an option, after the words that a rule names, that runs or writes something
/// else.
pub(crate) fn has_escaping_option(words: &[Word], named: usize) -> bool {
    let Some(program) = words.first().map(|word| &*word.text) else { return false };
    let rest = words.get(named..).unwrap_or_default();
    match program {
        "sed" => return !is_plain_sed(rest),
        // The second file is written.
        "uniq" | "xxd" => {
            return rest.iter().filter(|word| !word.is_option()).count() > 1
                || rest.iter().any(|word| word.text.starts_with("-r"));
        }
        _ => {}
    }
    if program == "cargo" && passes_on(words, rest) {
        return true;
    }
    if program == "git" && named == 1 {
        // Options before the subcommand may set git's configuration and programs.
        let leading = rest.iter().take_while(|word| word.is_option());
        let is_harmless = |word: &Word| word.text == "--version" || HARMLESS_GIT.contains(&&*word.text);
        if !leading.clone().all(is_harmless) {
            return true;
        }
    }
    let Some(options) = options(program) else { return false };
    let rest = match program {
        // Words after `--` belong to the program that is run, unless it takes such options itself.
        "npm" | "pnpm" | "yarn" | "bun" | "deno" => before_end(rest),
        "cargo" => before_end(rest),
        _ => rest,
    };
    rest.iter().any(|word| options.has(&word.text)) || program == "git" && runs_by_letter(words, rest)
}

/// Returns the words before `--`.
fn before_end(words: &[Word]) -> &[Word] {
    let end = words.iter().position(|word| word.text == "--").unwrap_or(words.len());
    &words[..end]
}

/// Returns whether cargo passes arguments to a program that may have other effects. Arguments for lints are
/// harmless, and those for the project's own tests, except the one that names a file.
fn passes_on(words: &[Word], rest: &[Word]) -> bool {
    let Some(end) = rest.iter().position(|word| word.text == "--") else { return false };
    let behind = &rest[end + 1..];
    let verb = words.iter().skip(1).find(|word| !word.text.starts_with(['-', '+'])).map(|word| &*word.text);
    match verb {
        Some("test" | "t" | "run" | "r" | "bench" | "nextest") => {
            behind.iter().any(|word| word.text.starts_with("--logfile"))
        }
        Some("fmt") => behind
            .iter()
            .any(|word| !matches!(&*word.text, "--check" | "-l" | "-v" | "-q" | "--verbose" | "--quiet")),
        Some("clippy") => {
            let is_lint = |text: &str| {
                let level =
                    ["-A", "-D", "-F", "-W", "--allow", "--deny", "--forbid", "--warn", "--cap-lints"];
                let name = level.iter().find_map(|level| text.strip_prefix(level)).unwrap_or(text);
                name.trim_start_matches('=')
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"_:-".contains(&byte))
                    && (!text.starts_with('-') || level.iter().any(|level| text.starts_with(level)))
            };
            behind.iter().any(|word| !word.is_plain() || !is_lint(&word.text))
        }
        _ => !behind.is_empty(),
    }
}

/// Returns whether a git subcommand has a one-letter option that runs a program.
fn runs_by_letter(words: &[Word], rest: &[Word]) -> bool {
    let verb = words.get(1).map(|word| &*word.text);
    let letter = match verb {
        Some("rebase" | "difftool") => "-x",
        Some("clone") => "-u",
        Some("format-patch" | "archive") => "-o",
        Some("commit" | "tag" | "merge" | "notes") => "-F",
        _ => return false,
    };
    rest.iter().any(|word| word.text.starts_with(letter))
}

impl Options {
    fn has(&self, text: &str) -> bool {
        let name = text.split('=').next().unwrap_or(text);
        // Some programs accept these words with two dashes as well.
        let single = name.strip_prefix('-').filter(|rest| rest.starts_with('-')).unwrap_or(name);
        let is_word =
            self.words.iter().any(|word| single == *word || *word == "-O" && text.starts_with("-O"));
        if is_word || *self.words == ["+"] && text.starts_with('+') {
            return true;
        }
        if self.sets_variables && crate::shell::is_assignment(text) {
            return true;
        }
        if name.starts_with("--") {
            return name.len() > 2
                && !self.harmless.contains(&name)
                && self.long.iter().any(|long| {
                    long.starts_with(name)
                        || name.strip_prefix(long).is_some_and(|rest| rest.starts_with('.'))
                });
        }
        let Some(cluster) = text.strip_prefix('-') else { return false };
        // After a special character it is the value of an option.
        let letters = cluster.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
        !self.letters.is_empty() && letters.chars().any(|letter| self.letters.contains(letter))
    }
}

/// Returns whether sed only prints, deletes or replaces lines. Some of its commands run programs or write
/// files.
fn is_plain_sed(arguments: &[Word]) -> bool {
    const FLAGS: [&str; 13] = [
        "-n",
        "-E",
        "-r",
        "-s",
        "-u",
        "-z",
        "-nE",
        "-En",
        "-nr",
        "-rn",
        "--quiet",
        "--silent",
        "--regexp-extended",
    ];
    let mut operands = arguments.iter().filter(|word| !FLAGS.contains(&&*word.text));
    let Some(script) = operands.next() else { return false };
    script.is_plain()
        && script.text.split(';').all(|command| is_plain_sed_command(command.trim()))
        && operands.all(|word| !word.is_option())
}

/// Returns whether a sed command is an address with `p`, `d`, `q` or `=`, or a plain replacement.
fn is_plain_sed_command(command: &str) -> bool {
    let mut rest = command;
    for _ in 0..2 {
        rest = match rest.strip_prefix('/') {
            Some(pattern) => match pattern.split_once('/') {
                Some((pattern, rest)) if !pattern.contains('\\') && !pattern.contains('[') => rest,
                _ => return false,
            },
            None => rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || "$+~".contains(letter)),
        };
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    let rest = rest.strip_prefix('!').unwrap_or(rest);
    if matches!(rest, "p" | "d" | "q" | "=") {
        return true;
    }
    let Some(replaced) = rest.strip_prefix('s') else { return false };
    let Some(sign) = replaced.chars().next().filter(|sign| "/|#,".contains(*sign)) else { return false };
    let pieces: Vec<&str> = replaced[1..].split(sign).collect();
    match &pieces[..] {
        // A backslash before the separator, or a set, would end the pattern elsewhere.
        [pattern, with, flags] => {
            !pattern.ends_with('\\')
                && !with.ends_with('\\')
                && !pattern.contains('[')
                && !command.contains('\n')
                && flags.bytes().all(|byte| byte.is_ascii_digit() || b"gpIi".contains(&byte))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reaches(line: &str, named: usize) -> bool {
        let words: Vec<Word> = crate::shell::Script::parse(line).parts.remove(0).words;
        has_escaping_option(&words, named)
    }

    #[test]
    fn an_option_that_chooses_what_runs_is_found_in_all_its_forms() {
        for (line, named) in [
            ("cargo test --config x=y", 2),
            ("cargo test --config=x", 2),
            ("cargo test --manifest-path /x", 2),
            ("cargo test -Zunstable", 2),
            ("cargo test -qC /x", 2),
            ("cargo build --target-dir=/x", 2),
            ("cargo clippy -- -C linker=x", 2),
            ("cargo fmt -- /etc/x.rs", 2),
            ("cargo test -- --logfile=x", 2),
            ("npm --prefix /x test", 1),
            ("npm test --script-shell=x", 2),
            ("npm test --script-sh x", 2),
            ("pnpm -C /x test", 1),
            ("pnpm test --config.script-shell=x", 2),
            ("make -f x", 1),
            ("make test SHELL=/x", 2),
            ("make -C/x", 1),
            ("go test -exec x ./...", 2),
            ("go test -toolexec=x ./...", 2),
            ("go test --exec x ./...", 2),
            ("go build -ldflags=-extld=x", 2),
            ("date -f x", 1),
            ("date --fil=x", 1),
            ("find . -exec cat {} +", 1),
            ("find . -delete", 1),
            ("find . -fprint x", 1),
            ("rg --pre=x y", 1),
            ("sort -o x y", 1),
            ("sort -ro x y", 1),
            ("sort --outp=x y", 1),
            ("sort --compress-program x", 1),
            ("git log --output=x", 2),
            ("git log --outpu=x", 2),
            ("git diff --ext-d", 2),
            ("git diff -Ox", 2),
            ("git grep -O x", 2),
            ("git diff --no-index a b", 2),
            ("git fetch --upload-pack x", 2),
            ("git rebase -x y", 2),
            ("tar -I x -xf y", 1),
            ("tar --to-command=x -xf y", 1),
            ("tar --checkpoint-action=exec=x", 1),
            ("sed -i s/a/b/ x", 1),
            ("sed -n -i p x", 1),
            ("sed -n '1e x' y", 1),
            ("sed 's/a/b/e' y", 1),
            ("sed 's/a/b/w x' y", 1),
            ("sed 'w x' y", 1),
            ("sed -n '1,5p;w x' y", 1),
            ("sed -f x y", 1),
            ("sed p x -i", 1),
            ("sed --expression='1e x' y", 1),
            ("sed 's/[/]/x/e;s/a/b/' y", 1),
            ("uniq a b", 1),
            ("wc --files0-from=x", 1),
            ("man -P x y", 1),
            ("less +!x y", 1),
        ] {
            assert!(reaches(line, named), "{line}");
        }
    }

    #[test]
    fn options_for_every_day_are_no_such() {
        for (line, named) in [
            ("cargo test -p x --lib -- --nocapture a::b", 2),
            ("cargo clippy --all-targets -- -D warnings -Aclippy::x", 2),
            ("cargo fmt --all -- --check", 2),
            ("cargo build --release", 2),
            ("cargo test --config x", 3),
            ("npm test -- --prefix x", 2),
            ("npm run build", 2),
            ("make test", 2),
            ("git log --oneline -5 --stat --text", 2),
            ("git diff --cached --name-only", 2),
            ("git status -sb", 2),
            ("git branch --remotes", 2),
            ("find . -name '*.rs' -type f", 1),
            ("rg -n x src", 1),
            ("sort -rn -k2", 1),
            ("sed -n '1,20p' x", 1),
            ("sed -n '/a/,/b/p' x", 1),
            ("sed 's/a/b/g' x", 1),
            ("sed -n '$=' x", 1),
            ("uniq -c", 1),
            ("tail -n 5 x", 1),
            ("go test ./...", 2),
            ("rm -rf x", 1),
        ] {
            assert!(!reaches(line, named), "{line}");
        }
    }
}
