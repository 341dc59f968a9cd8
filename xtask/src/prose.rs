//! `cargo xtask prose`: measures the language of doc comments, so that it stays plain.
//!
//! A doc comment that begins with a question word is nearly always a riddle ("What is kept of it"), and so is one that uses
//! words for persons where it means parts of a program. The figures are compared with limits; the comments that are worst are listed.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::root;

/// Words that a doc comment should not begin with.
const QUESTION_WORDS: [&str; 12] = [
    "what", "which", "who", "whose", "whom", "whether", "how", "where", "why", "when", "whoever", "whatever",
];
/// Words for persons that do not fit parts of a program.
const PERSONS: [&str; 5] = ["nobody", "somebody", "everybody", "anybody", "whoever"];
/// Maximum number of comments that begin with a question word, per thousand.
const MAX_QUESTIONS: usize = 60;
/// Maximum number of occurrences of "what" per thousand words.
const MAX_WHAT: usize = 3;
/// Number of the worst comments that are listed.
const LISTED: usize = 25;

/// A doc comment.
struct Comment {
    place: String,
    text: String,
    words: Vec<String>,
}

impl Comment {
    fn begins_with_question(&self) -> bool {
        self.words.first().is_some_and(|word| QUESTION_WORDS.contains(&&**word))
    }

    fn count(&self, wanted: &[&str]) -> usize {
        self.words.iter().filter(|word| wanted.contains(&&***word)).count()
    }

    /// Weight of its faults.
    fn faults(&self) -> usize {
        3 * usize::from(self.begins_with_question()) + self.count(&["what"]) + 2 * self.count(&PERSONS)
    }
}

/// Measures the doc comments in folders, or in all crates, and fails where a limit is exceeded.
pub(crate) fn check(folders: &[&str]) -> Result<(), String> {
    let folders = if folders.is_empty() { vec!["crates", "xtask"] } else { folders.to_vec() };
    let mut comments = Vec::new();
    for folder in folders {
        collect(&root().join(folder), &mut comments)?;
    }
    comments.retain(|comment| !comment.words.is_empty());
    let words: usize = comments.iter().map(|comment| comment.words.len()).sum();
    let questions = comments.iter().filter(|comment| comment.begins_with_question()).count();
    let sum = |wanted: &[&str]| comments.iter().map(|comment| comment.count(wanted)).sum::<usize>();
    let (what, persons) = (sum(&["what"]), sum(&PERSONS));
    println!("{} doc comments with {words} words", comments.len());
    println!(
        "begin with a question word: {} of 1,000 (at most {MAX_QUESTIONS})",
        per_thousand(questions, comments.len())
    );
    println!("\"what\": {} of 1,000 words (at most {MAX_WHAT})", per_thousand(what, words));
    println!("nobody, somebody and their like: {persons} (none)");
    let is_fine =
        questions * 1000 <= MAX_QUESTIONS * comments.len() && what * 1000 <= MAX_WHAT * words && persons == 0;
    if is_fine {
        return Ok(());
    }
    comments.sort_by_key(|comment| std::cmp::Reverse(comment.faults() * 1000 / (comment.words.len() + 12)));
    let mut worst = "the doc comments are not plain enough; the worst are:".to_owned();
    for comment in comments.iter().take(LISTED) {
        let _ =
            write!(worst, "\n  {}: {}", comment.place, comment.text.chars().take(140).collect::<String>());
    }
    Err(worst)
}

fn per_thousand(part: usize, whole: usize) -> usize {
    part * 1000 / whole.max(1)
}

/// Collects the doc comments of the Rust files below a folder, without those of tests and benchmarks.
fn collect(folder: &Path, comments: &mut Vec<Comment>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(&*name, "target" | "tests" | "benches" | "node_modules") {
                collect(&path, comments)?;
            }
        } else if name.ends_with(".rs") {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let place = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
            comments.extend(of_file(&place, &text));
        }
    }
    Ok(())
}

/// Returns the doc comments of a file; neighbouring lines are one comment. Code blocks do not count.
fn of_file(place: &str, text: &str) -> Vec<Comment> {
    let mut comments: Vec<Comment> = Vec::new();
    let (mut is_open, mut is_code) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let part = line
            .strip_prefix("///")
            .filter(|rest| !rest.starts_with('/'))
            .or_else(|| line.strip_prefix("//!"));
        let Some(part) = part.map(str::trim) else {
            (is_open, is_code) = (false, false);
            continue;
        };
        if !is_open {
            let place = format!("{place}:{}", number + 1);
            comments.push(Comment { place, text: String::new(), words: Vec::new() });
            is_open = true;
        }
        if part.starts_with("```") {
            is_code = !is_code;
        } else if let Some(comment) = comments.last_mut().filter(|_| !is_code) {
            comment.text.push_str(part);
            comment.text.push(' ');
            comment.words.extend(words(part));
        }
    }
    comments
}

/// Returns the words of a text in lower case.
fn words(text: &str) -> impl Iterator<Item = String> {
    let parts = text.split(|character: char| !character.is_ascii_alphabetic() && character != '\'');
    parts.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_joined_and_code_is_left_out() {
        let text = "//! What it is.\n\n/// Returns `x`,\n/// whether or not.\n///\n/// ```\n/// what();\n/// ```\nfn f() {}\n// What?\n";
        let comments = of_file("a.rs", text);
        let places: Vec<&str> = comments.iter().map(|comment| &*comment.place).collect();
        assert_eq!(places, ["a.rs:1", "a.rs:3"]);
        assert!(comments[0].begins_with_question() && !comments[1].begins_with_question());
        assert_eq!(comments[1].words, ["returns", "x", "whether", "or", "not"]);
        assert_eq!((comments[0].faults(), comments[1].faults()), (4, 0));
    }
}
