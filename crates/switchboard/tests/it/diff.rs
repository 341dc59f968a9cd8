use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::program::{Run, switchboard};

/// A temporary directory with an old and a new tree.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        for (side, config, extra) in
            [("old", "debug = false\n", "gone.txt"), ("new", "debug = true\n", "come.txt")]
        {
            let root = place.path(side);
            std::fs::create_dir_all(root.join("sub")).unwrap();
            std::fs::write(root.join("sub/config.toml"), config).unwrap();
            std::fs::write(root.join("same.txt"), "same\n").unwrap();
            std::fs::write(root.join(extra), extra).unwrap();
            std::fs::write(root.join("logo.png"), format!("\0{side}")).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn run(&self, arguments: &[&str], input: &str) -> Run {
        // Names of trees and files are replaced by their paths.
        let names = [
            "old",
            "new",
            "copy",
            "repository",
            "d.json",
            "old/sub/config.toml",
            "new/sub/config.toml",
            "missing",
        ];
        let place = |word: &&str| match names.contains(word) {
            true => self.path(word).to_str().unwrap().to_owned(),
            false => (*word).to_owned(),
        };
        let arguments: Vec<String> = arguments.iter().map(place).collect();
        let mut words = vec!["diff"];
        words.extend(arguments.iter().map(String::as_str));
        switchboard(&words, input.as_bytes())
    }

    fn copy(&self, from: &str, to: &str) {
        let status = Command::new("cp").arg("-R").arg(self.path(from)).arg(self.path(to)).status().unwrap();
        assert!(status.success());
    }

    #[track_caller]
    fn is_same(&self, one: &str, other: &str) {
        let status =
            Command::new("diff").arg("-r").arg(self.path(one)).arg(self.path(other)).status().unwrap();
        assert!(status.success(), "{one} and {other} differ");
    }
}

fn git(directory: &Path, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(["-c", "user.name=A", "-c", "user.email=a@example.com"])
        .args(arguments)
        .env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "git {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn two_trees_make_diff_content() {
    let place = Place::new();
    let run = place.run(&["old", "new"], "");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let content = &run.json_lines()[0];
    let at = |name: &str| place.path("old").join(name).to_str().unwrap().to_owned();
    assert_eq!(content["type"], "diff");
    assert_eq!(
        content["changes"],
        json!([
            {"operation": "add", "path": at("come.txt"), "fileType": "text", "mimeType": "text/plain"},
            {"operation": "delete", "path": at("gone.txt"), "fileType": "text", "mimeType": "text/plain"},
            {"operation": "modify", "path": at("logo.png"), "fileType": "binary", "mimeType": "image/png"},
            {"operation": "modify", "path": at("sub/config.toml"), "fileType": "text", "mimeType": "application/toml"},
        ])
    );
    assert_eq!(content["patch"]["format"], "git_patch");
    let config = at("sub/config.toml");
    let section = format!(
        "diff --git {config} {config}\n--- {config}\n+++ {config}\n@@ -1 +1 @@\n-debug = false\n+debug = true\n"
    );
    assert!(content["patch"]["diff"].as_str().unwrap().ends_with(&section), "{content}");
    // The output is valid in each dialect.
    for dialect in ["spec", "newest", "any"] {
        let run = place.run(&["old", "new", "--dialect", dialect], "");
        let check = ["check", "--type", "ToolCallContent", "--dialect", dialect];
        assert_eq!(switchboard(&check, run.stdout.as_bytes()).code, 0, "{}", run.stdout);
    }
}

#[test]
fn git_takes_the_patch_in_the_old_tree() {
    let place = Place::new();
    place.copy("old", "copy");
    let run = place.run(&["old", "new", "--patch"], "");
    assert_eq!(run.code, 0);
    assert!(run.stdout.starts_with("diff --git a/come.txt b/come.txt\n"), "{}", run.stdout);
    git(&place.path("copy"), &["apply"], &run.stdout);
    place.is_same("copy", "new");
}

#[test]
fn diff_content_is_applied_and_taken_back() {
    let place = Place::new();
    place.copy("old", "copy");
    let run = place.run(&["old", "new", "--binary"], "");
    std::fs::write(place.path("d.json"), &run.stdout).unwrap();
    let applied = place.run(&["--apply", "d.json", "--root", "copy"], "");
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    assert_eq!(applied.json_lines()[0]["removed"], json!([place.path("copy").join("gone.txt")]));
    place.is_same("copy", "new");
    let back = place.run(&["--apply", "-", "--root", "copy", "--reverse"], &run.stdout);
    assert_eq!(back.code, 0, "{}", back.stderr);
    place.is_same("copy", "old");
    // A second time it does not apply, and nothing is changed.
    let again = place.run(&["--apply", "d.json", "--root", "new"], "");
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("the file exists already"), "{}", again.stderr);
}

#[test]
fn a_diff_that_does_not_apply_is_refused_with_a_hint() {
    let place = Place::new();
    place.copy("old", "copy");
    let run = place.run(&["old", "new"], "");
    let refused = place.run(&["--apply", "-", "--root", "copy"], &run.stdout);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("hint: a diff made with --binary"), "{}", refused.stderr);
    let outside =
        r#"{"type":"diff","changes":[{"operation":"delete","path":"/etc/hosts","fileType":"directory"}]}"#;
    let refused = place.run(&["--apply", "-", "--root", "copy"], outside);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("outside the root"), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: use --base"), "{}", refused.stderr);
    for bad in ["{}", "nonsense", r#"{"type":"content"}"#, r#"{"changes":[{"operation":"add","path":"x"}]}"#]
    {
        assert_eq!(place.run(&["--apply", "-", "--root", "copy"], bad).code, 1, "{bad}");
    }
    place.is_same("copy", "old");
}

#[test]
fn disagreements_are_reported() {
    let place = Place::new();
    let good = place.run(&["old", "new"], "").stdout;
    let mut bad: Value = serde_json::from_str(&good).unwrap();
    bad["changes"].as_array_mut().unwrap().remove(0);
    bad["changes"][0]["operation"] = json!("modify");
    let run = place.run(&["--check", "-"], &format!("{good}{bad}\n"));
    assert_eq!(run.code, 1);
    let reports = run.json_lines();
    assert_eq!(reports[0], json!({"agrees": true, "disagreements": [], "notes": []}));
    let kinds: Vec<_> =
        reports[1]["disagreements"].as_array().unwrap().iter().map(|found| &found["kind"]).collect();
    assert_eq!(kinds, ["operation", "not_listed"]);
    assert!(reports[1]["disagreements"][1]["message"].as_str().unwrap().contains("come.txt"));
    assert_eq!(place.run(&["--check", "-"], &good).code, 0);
    let relative = r#"{"changes":[{"operation":"modify","path":"x"}],"patch":null}"#;
    let run = place.run(&["--check", "-"], relative);
    assert_eq!(run.json_lines()[0]["disagreements"][0]["kind"], "listed_path_not_absolute", "{}", run.stdout);
    assert_eq!(run.json_lines()[0]["disagreements"].as_array().unwrap().len(), 1, "{}", run.stdout);
    let prefixed = r#"{"changes":[{"operation":"modify","path":"/w/x"}],"patch":{"format":"git_patch",
        "text":"diff --git a/w/x b/w/x\n--- a/w/x\n+++ b/w/x\n@@ -1 +1 @@\n-a\n+b\n"}}"#;
    let run = place.run(&["--check", "-"], &prefixed.replace('\n', " "));
    assert_eq!(run.code, 0, "{}", run.stdout);
    assert_eq!(run.json_lines()[0]["notes"][0]["kind"], "patch_path_prefixed", "{}", run.stdout);
    let malformed = place.run(&["--check", "-"], r#"{"type":"diff"}"#);
    assert_eq!(
        (malformed.code, malformed.json_lines()[0]["disagreements"][0]["kind"].as_str()),
        (1, Some("malformed"))
    );
    assert_eq!(place.run(&["--check", "missing"], "").code, 2);
}

#[test]
fn a_summary_is_for_people() {
    let place = Place::new();
    let run = place.run(&["old", "new", "--stat"], "");
    assert_eq!(
        run.stdout,
        "A come.txt  +1 -0\nD gone.txt  +0 -1\nM logo.png  no text\nM sub/config.toml  +1 -1\n4 files changed  +2 -2\n"
    );
    let colored = place.run(&["old", "new", "--stat", "--color", "always"], "");
    assert!(
        colored.stdout.starts_with("\u{1b}[32mA\u{1b}[0m come.txt  \u{1b}[32m+1\u{1b}[0m "),
        "{}",
        colored.stdout
    );
    // Control characters in a name are escaped.
    std::fs::write(place.path("new").join("evil\u{1b}[2J"), "x").unwrap();
    let run = place.run(&["old", "new", "--stat", "--color", "never"], "");
    assert!(run.stdout.contains("A evil\\u{1b}[2J  +1 -0\n"), "{}", run.stdout);
}

#[test]
fn two_files_are_one_change() {
    let place = Place::new();
    let run = place.run(&["old/sub/config.toml", "new/sub/config.toml", "--at", "/project"], "");
    let content = &run.json_lines()[0];
    assert_eq!(content["changes"][0]["path"], "/project/config.toml");
    let same = place.run(&["old/sub/config.toml", "old/sub/config.toml"], "");
    assert_eq!(same.json_lines()[0]["changes"], json!([]));
    let added = place.run(&["/dev/null", "new/sub/config.toml"], "");
    assert_eq!(added.json_lines()[0]["changes"][0]["operation"], "add");
}

#[test]
fn a_repository_is_compared() {
    let place = Place::new();
    place.copy("old", "repository");
    let root = place.path("repository");
    git(&root, &["init", "--quiet", "--initial-branch=main"], "");
    git(&root, &["add", "--all"], "");
    git(&root, &["commit", "--quiet", "--message", "one"], "");
    std::fs::write(root.join("same.txt"), "changed\n").unwrap();
    std::fs::write(root.join("untracked.txt"), "new\n").unwrap();
    let operations = |arguments: &[&str]| {
        let run = place.run(&[&["--repository", "repository"], arguments].concat(), "");
        assert_eq!(run.code, 0, "{}", run.stderr);
        let changes = run.json_lines()[0]["changes"].as_array().unwrap().clone();
        let describe = |change: &Value| {
            let path = change["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
            format!("{} {path}", change["operation"].as_str().unwrap())
        };
        changes.iter().map(describe).collect::<Vec<_>>()
    };
    assert_eq!(operations(&["--git"]), ["modify same.txt"]);
    assert_eq!(operations(&["--git", "--untracked"]), ["modify same.txt", "add untracked.txt"]);
    assert_eq!(operations(&["--git", "--staged"]), Vec::<String>::new());
    git(&root, &["add", "--all"], "");
    git(&root, &["commit", "--quiet", "--message", "two"], "");
    assert_eq!(operations(&["--git", "HEAD~1..HEAD"]), ["modify same.txt", "add untracked.txt"]);
    let patch = place.run(&["--repository", "repository", "--git", "HEAD~1..HEAD", "--patch"], "");
    git(&root, &["apply", "-R", "--check"], &patch.stdout);
    let nowhere = place.run(&["--git", "no-such-range", "--repository", "repository"], "");
    assert_eq!(nowhere.code, 1);
}

#[test]
fn a_limit_leaves_the_patch_out_with_a_word() {
    let place = Place::new();
    let run = place.run(&["old", "new", "--max-patch", "100"], "");
    assert_eq!(run.code, 0);
    assert_eq!(run.json_lines()[0]["patch"], Value::Null);
    assert_eq!(run.json_lines()[0]["changes"].as_array().unwrap().len(), 4);
    assert!(run.stderr.contains("the patch is left out: it is larger than 100 bytes"), "{}", run.stderr);
}

#[test]
fn invalid_usage_exits_with_code_2() {
    let place = Place::new();
    for arguments in [
        &[][..],
        &["old"],
        &["old", "missing"],
        &["missing", "new"],
        &["old", "new", "--git"],
        &["old", "new", "--apply", "d.json"],
        &["--apply", "d.json"],
        &["old", "new", "--patch", "--stat"],
        &["old", "new/sub/config.toml"],
        &["--git", "--repository", "old"],
    ] {
        let run = place.run(arguments, "");
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}: {}", run.stderr);
    }
}
