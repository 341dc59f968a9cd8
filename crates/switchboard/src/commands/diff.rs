//! `switchboard diff`: creates, checks and applies structured diff content.

use std::fs::File;
use std::io::{BufWriter, IsTerminal as _, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::value::RawValue;
use switchboard_acp::{Wire as _, WireFormat, v2};
use switchboard_diff::{
    Applied, ApplyOptions, BinaryForm, BuildOptions, Built, Detect, Diff, Direction, Error, FileStat,
    GitComparison, PatchOptions, Problem, Renames, apply, build_from_files, build_from_git, build_from_trees,
    check, stat,
};

use crate::arguments::Dialect;
use crate::outcome::{CommandError, Outcome, write_error};

/// Maximum length of diff content in bytes.
const LONGEST_INPUT: u64 = 256 * 1024 * 1024;

/// A patch for Git must be complete, so larger files are read for it than for a person.
const LARGEST_PATCHED: u64 = 1024 * 1024 * 1024;

/// Create, check or apply structured diff content
///
/// OLD and NEW are two files or two directories; --git compares inside a repository: the work tree with the
/// last commit, or RANGE. Prints one line of JSON: {"type":"diff","changes":[...],"patch":{...}}. A diff
/// describes how OLD becomes NEW, so its paths are those of OLD; --at replaces the directory. Exit code 1 if
/// a file was left out, --check finds a contradiction, or --apply fails.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("action").args(["old", "git", "check", "apply"]).required(true),
    group = clap::ArgGroup::new("form").args(["patch", "stat"]),
    after_help = "Examples:\n  \
        switchboard diff old/ new/ --patch | git -C old apply\n  \
        switchboard diff --git main..topic --stat\n  \
        switchboard diff old/ new/ > d.json && switchboard diff --apply d.json --root copy-of-old/"
)]
pub(crate) struct Arguments {
    /// File or directory before the change
    #[arg(requires = "new")]
    old: Option<PathBuf>,

    /// File or directory after the change
    new: Option<PathBuf>,

    /// Compare in a Git repository: the work tree with the last commit, or RANGE as for `git diff`
    #[arg(long, value_name = "RANGE", num_args = 0..=1, default_missing_value = "")]
    git: Option<String>,

    /// Repository for --git [default: the current directory]
    #[arg(long, value_name = "DIR", requires = "git")]
    repository: Option<PathBuf>,

    /// With --git: compare staged changes with the last commit
    #[arg(long, requires = "git")]
    staged: bool,

    /// With --git: include untracked files as new
    #[arg(long, requires = "git", conflicts_with = "staged")]
    untracked: bool,

    /// Print only the patch text, with relative names and binary content, for `git apply` in the old tree
    #[arg(long)]
    patch: bool,

    /// Print a summary for people
    #[arg(long)]
    stat: bool,

    /// Color of the summary
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto", requires = "stat")]
    color: Color,

    /// Check diff content for contradictions between its changes and its patch; `-` is standard input
    ///
    /// Prints one line of JSON for each diff. Valid but noteworthy points (changes that the patch does not
    /// show, unknown operations) are listed under "notes" and do not count as contradictions.
    #[arg(long, value_name = "FILE", conflicts_with = "form")]
    check: Option<PathBuf>,

    /// Apply diff content below --root, all or nothing; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "root", conflicts_with = "form")]
    apply: Option<PathBuf>,

    /// Directory that --apply changes; nothing outside of it is touched
    #[arg(long, value_name = "DIR", requires = "apply")]
    root: Option<PathBuf>,

    /// With --apply: revert the change
    #[arg(long, requires = "apply")]
    reverse: bool,

    /// With --apply: directory of the paths in the diff [default: derived from the diff]
    #[arg(long, value_name = "DIR", requires = "apply")]
    base: Option<PathBuf>,

    #[command(flatten)]
    building: BuildArguments,
}

/// Options for creating a diff.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Building")]
struct BuildArguments {
    /// Show paths as if the old tree or file were in this directory
    #[arg(long, value_name = "DIR")]
    at: Option<PathBuf>,

    /// Unchanged lines around each change
    #[arg(long, short = 'U', value_name = "LINES", default_value_t = 3)]
    context: u32,

    /// Minimum similarity of a moved or copied file
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    similarity: u8,

    /// Do not detect moved files
    #[arg(long, conflicts_with_all = ["copies", "all_copies"])]
    no_renames: bool,

    /// Also detect copies of changed files
    #[arg(long)]
    copies: bool,

    /// Also detect copies of unchanged files
    #[arg(long)]
    all_copies: bool,

    /// Include binary content in the patch, so that --apply can rebuild the files
    #[arg(long)]
    binary: bool,

    /// Omit the patch from the JSON if it is longer
    #[arg(long, value_name = "BYTES")]
    max_patch: Option<usize>,

    /// Dialect of version 2 to write
    #[arg(long, value_enum, default_value = "spec")]
    dialect: Dialect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Color {
    /// If standard output is a terminal and NO_COLOR is not set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    if let Some(file) = &arguments.check {
        return run_check(file);
    }
    if let Some(file) = &arguments.apply {
        return run_apply(file, arguments);
    }
    let built = build(arguments).map_err(|error| failed(&error))?;
    for problem in &built.problems {
        eprintln!("switchboard: {}", with_causes(problem));
        if matches!(problem, Problem::PatchTooLarge { .. }) {
            eprintln!("  hint: --max-patch raises the limit");
        }
    }
    let mut output = BufWriter::new(std::io::stdout().lock());
    if arguments.patch {
        let text = built.diff.patch.as_ref().map_or("", |patch| &patch.text);
        output.write_all(text.as_bytes()).map_err(write_error)?;
    } else if arguments.stat {
        write_stat(&mut output, &built.diff, use_color(arguments.color)).map_err(write_error)?;
    } else {
        let content = v2::ToolCallContent::diff(v2::Diff::from(&built.diff));
        let text = content.encode(arguments.building.dialect.revision());
        writeln!(output, "{text}").map_err(write_error)?;
    }
    output.flush().map_err(write_error)?;
    let is_complete = !built.problems.iter().any(Problem::is_omission);
    Ok(if is_complete { Outcome::Fine } else { Outcome::Problems })
}

fn build(arguments: &Arguments) -> Result<Built, Error> {
    let building = &arguments.building;
    let detect = match building {
        BuildArguments { no_renames: true, .. } => Detect::Nothing,
        BuildArguments { all_copies: true, .. } => Detect::CopiesOfAll,
        BuildArguments { copies: true, .. } => Detect::Copies,
        _ => Detect::Moves,
    };
    let mut patch = if arguments.patch { PatchOptions::for_git() } else { PatchOptions::default() };
    patch.context = building.context;
    if building.binary {
        patch.binary = BinaryForm::Content;
    }
    if arguments.stat {
        patch.max_size = usize::MAX;
    }
    if let Some(limit) = building.max_patch {
        patch.max_size = limit;
    }
    let options = BuildOptions {
        renames: Renames { detect, threshold: building.similarity, ..Renames::default() },
        patch,
        root: building.at.as_deref().map(std::path::absolute).transpose().unwrap_or_default(),
        max_file_size: if arguments.patch { LARGEST_PATCHED } else { BuildOptions::default().max_file_size },
        more: switchboard_acp::More,
    };
    match (&arguments.git, &arguments.old, &arguments.new) {
        (Some(range), ..) => {
            let comparison = match range.as_str() {
                _ if arguments.staged => GitComparison::Staged,
                "" => GitComparison::WorkTree { untracked: arguments.untracked },
                range => GitComparison::Range(range.to_owned()),
            };
            let repository = arguments.repository.as_deref().unwrap_or(Path::new("."));
            build_from_git(repository, &comparison, &options)
        }
        (None, Some(old), Some(new)) if old.is_dir() && new.is_dir() => build_from_trees(old, new, &options),
        (None, Some(old), Some(new)) => build_from_files(old, new, &options),
        _ => Ok(Built::default()),
    }
}

/// The printed result for one checked diff.
#[derive(Serialize)]
struct CheckReport<'a> {
    agrees: bool,
    disagreements: Vec<CheckFinding<'a>>,
    notes: Vec<CheckFinding<'a>>,
}

#[derive(Serialize)]
struct CheckFinding<'a> {
    kind: &'a str,
    message: String,
}

fn run_check(file: &Path) -> Result<Outcome, CommandError> {
    let text = read_input(file)?;
    let mut output = BufWriter::new(std::io::stdout().lock());
    let mut outcome = Outcome::Fine;
    for value in serde_json::Deserializer::from_str(&text).into_iter::<&RawValue>() {
        let (mut disagreements, mut notes) = (Vec::new(), Vec::new());
        match value.map_err(|error| error.to_string()).and_then(|value| decode_tolerant(value.get())) {
            Ok((diff, remarks)) => {
                let malformed =
                    remarks.into_iter().map(|message| CheckFinding { kind: "malformed", message });
                disagreements.extend(malformed);
                let checked = check(&diff);
                let found = checked.disagreements.iter();
                disagreements.extend(
                    found.map(|found| CheckFinding { kind: found.kind(), message: found.to_string() }),
                );
                let noted = checked.notes.iter();
                notes.extend(noted.map(|note| CheckFinding { kind: note.kind(), message: note.to_string() }));
            }
            Err(message) => disagreements.push(CheckFinding { kind: "malformed", message }),
        }
        let report = CheckReport { agrees: disagreements.is_empty(), disagreements, notes };
        if !report.agrees {
            outcome = Outcome::Problems;
        }
        serde_json::to_writer(&mut output, &report).map_err(|error| write_error(error.into()))?;
        output.write_all(b"\n").map_err(write_error)?;
    }
    output.flush().map_err(write_error)?;
    Ok(outcome)
}

/// Decodes diff content, with or without its `type`, and reports malformed parts that were left out. The
/// check handles relative paths.
fn decode_tolerant(text: &str) -> Result<(Diff, Vec<String>), String> {
    let (diff, remarks) = match v2::ToolCallContent::decode_tolerant(text, WireFormat::Any) {
        Ok((v2::ToolCallContent::Diff(diff), remarks)) => (*diff, remarks),
        Ok(_) => return Err("the content is not a diff".to_owned()),
        Err(_) if !has_type(text) => {
            v2::Diff::decode_tolerant(text, WireFormat::Any).map_err(|error| error.to_string())?
        }
        Err(error) => return Err(error.to_string()),
    };
    let remarks =
        remarks.iter().map(ToString::to_string).filter(|remark| !remark.contains("an absolute path"));
    Ok((Diff::from(&diff), remarks.collect()))
}

fn decode_strict(text: &str) -> Result<Diff, String> {
    let diff = if has_type(text) {
        match v2::ToolCallContent::decode(text, WireFormat::Any) {
            Ok(v2::ToolCallContent::Diff(diff)) => *diff,
            Ok(_) => return Err("the content is not a diff".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
    } else {
        v2::Diff::decode(text, WireFormat::Any).map_err(|error| error.to_string())?
    };
    Ok(Diff::from(&diff))
}

fn has_type(text: &str) -> bool {
    switchboard_acp::Raw::parse(text).is_ok_and(|raw| raw.get("type").is_some())
}

/// The printed result for an applied diff.
#[derive(Serialize)]
struct ApplyReport<'a> {
    written: &'a [PathBuf],
    removed: &'a [PathBuf],
    displaced: Vec<DisplacedHunk<'a>>,
}

#[derive(Serialize)]
struct DisplacedHunk<'a> {
    path: &'a Path,
    hunk: usize,
    lines: i64,
}

fn run_apply(file: &Path, arguments: &Arguments) -> Result<Outcome, CommandError> {
    let text = read_input(file)?;
    let diff =
        decode_strict(&text).map_err(|error| CommandError::failed(format!("{}: {error}", file.display())))?;
    let options = ApplyOptions {
        direction: if arguments.reverse { Direction::Backward } else { Direction::Forward },
        base: arguments.base.clone(),
        ..ApplyOptions::default()
    };
    let root = arguments.root.as_deref().unwrap_or(Path::new("."));
    let applied = apply(&diff, root, &options).map_err(|error| failed(&error))?;
    let Applied { written, removed, displaced } = &applied;
    let displaced = displaced
        .iter()
        .map(|(path, hunk, lines)| DisplacedHunk { path, hunk: *hunk, lines: *lines })
        .collect();
    let mut output = std::io::stdout().lock();
    let report = serde_json::to_string(&ApplyReport { written, removed, displaced }).map_err(|error| {
        CommandError::failed(format!("the diff is applied, but cannot be reported: {error}"))
    })?;
    writeln!(output, "{report}").map_err(write_error)?;
    Ok(Outcome::Fine)
}

fn read_input(file: &Path) -> Result<String, CommandError> {
    let cannot = |verb: &str, error: std::io::Error| {
        CommandError::usage(format!("cannot {verb} {}: {error}", file.display()))
    };
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(LONGEST_INPUT + 1).read_to_string(&mut text)
    } else {
        let input = File::open(file).map_err(|error| cannot("open", error))?;
        input.take(LONGEST_INPUT + 1).read_to_string(&mut text)
    };
    read.map_err(|error| cannot("read", error))?;
    if text.len() as u64 > LONGEST_INPUT {
        return Err(CommandError::failed(format!("{} is longer than {LONGEST_INPUT} bytes", file.display())));
    }
    Ok(text)
}

/// Formats an error of the library for people.
fn failed(error: &Error) -> CommandError {
    let message = with_causes(error);
    match error {
        Error::Read { .. } | Error::Git { action: "rev-parse", .. } | Error::WrongKind { .. } => {
            CommandError::usage(message)
        }
        Error::RefusedPath { reason: switchboard_diff::PathReason::OutsideRoot, .. } => {
            CommandError::failed(message).hint("use --base for the directory of the paths in the diff")
        }
        Error::NotApplicable { reason: switchboard_diff::NotApplicable::NoPatch, .. }
        | Error::NotApplicable { reason: switchboard_diff::NotApplicable::NoBinaryContent, .. } => {
            CommandError::failed(message)
                .hint("a diff made with --binary carries the content of binary files")
        }
        _ => CommandError::failed(message),
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message.push_str(": ");
        message.push_str(&error.to_string());
        cause = error.source();
    }
    // File names may contain control characters, which a terminal would execute.
    printable(&message)
}

fn use_color(color: Color) -> bool {
    match color {
        Color::Auto => {
            std::io::stdout().is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
        Color::Always => true,
        Color::Never => false,
    }
}

/// Removes control characters.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Writes one line per change, and a line with the totals.
fn write_stat(output: &mut impl Write, diff: &Diff, color: bool) -> std::io::Result<()> {
    let paint = |code: &str, text: &str| {
        if color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    };
    let stats = stat(diff);
    let root =
        diff.root.as_deref().map(|root| format!("{}/", root.trim_end_matches('/'))).unwrap_or_default();
    let short = |path: &str| printable(path.strip_prefix(&root).unwrap_or(path));
    let (mut added, mut removed) = (0, 0);
    for FileStat { operation, path, old_path, lines } in &stats {
        let (letter, code) = match operation.as_str() {
            "add" => ("A", "32"),
            "delete" => ("D", "31"),
            "modify" => ("M", "33"),
            "move" => ("R", "36"),
            "copy" => ("C", "36"),
            _ => ("?", "35"),
        };
        let from = old_path.as_deref().map(|path| format!("{} -> ", short(path))).unwrap_or_default();
        let counts = match lines {
            Some((more, less)) => {
                added += more;
                removed += less;
                format!("{} {}", paint("32", &format!("+{more}")), paint("31", &format!("-{less}")))
            }
            None => paint("2", "no text"),
        };
        writeln!(output, "{} {from}{}  {counts}", paint(code, letter), short(path))?;
    }
    let files = stats.len();
    let noun = if files == 1 { "file" } else { "files" };
    let (more, less) = (paint("32", &format!("+{added}")), paint("31", &format!("-{removed}")));
    writeln!(output, "{files} {noun} changed  {more} {less}")
}
