//! Agreement of changes and patch.

use switchboard_diff::{Change, Diff, FileType, Operation, PatchFormat, PatchText, check};

/// Parses a change in short form: `modify /w/x`, `move /w/a /w/b`, with a type suffix such as `:binary`.
fn change(text: &str) -> Change {
    let (text, file_type) = match text.rsplit_once(':') {
        Some((text, kind)) => (text, Some(FileType::from(kind))),
        None => (text, None),
    };
    let words: Vec<&str> = text.split(' ').collect();
    let (operation, path, old_path) = match words[..] {
        [operation, path] => (operation, path, None),
        [operation, old_path, path] => (operation, path, Some(old_path.to_owned())),
        _ => panic!("{text}"),
    };
    Change { operation: operation.into(), path: path.to_owned(), old_path, file_type, mime_type: None }
}

#[track_caller]
fn verify(changes: &[&str], patch: &str, expected: &[&str]) {
    let changes = changes.iter().map(|text| change(text)).collect();
    let patch = (!patch.is_empty()).then(|| PatchText::git(patch));
    let found = check(&Diff { changes, patch, ..Diff::default() }).disagreements;
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

/// Checks that there are no errors but these notes.
#[track_caller]
fn noted(changes: &[&str], patch: &str, expected: &[(&str, &str)]) {
    let changes = changes.iter().map(|text| change(text)).collect();
    let patch = (!patch.is_empty()).then(|| PatchText::git(patch));
    let checked = check(&Diff { changes, patch, ..Diff::default() });
    assert_eq!(checked.disagreements, []);
    let notes: Vec<_> = checked.notes.iter().map(|note| (note.kind(), note.to_string())).collect();
    let notes: Vec<_> = notes.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
    assert_eq!(notes, expected);
}

fn modify(path: &str) -> String {
    format!("diff --git {path} {path}\n--- {path}\n+++ {path}\n@@ -1 +1 @@\n-a\n+b\n")
}

fn rename(old: &str, new: &str) -> String {
    format!("diff --git {old} {new}\nsimilarity index 100%\nrename from {old}\nrename to {new}\n")
}

#[test]
fn diffs_that_agree_have_nothing_to_say() {
    verify(&["modify /w/x:text"], &modify("/w/x"), &[]);
    verify(&["modify /w/x", "modify /w/y"], &(modify("/w/x") + &modify("/w/y")), &[]);
    verify(&["move /w/x /w/y"], &rename("/w/x", "/w/y"), &[]);
    verify(&["modify /w/x", "modify /w/logo.png:binary", "add /w/d:directory"], &modify("/w/x"), &[]);
    verify(&["modify /w/logo.png:binary"], "", &[]);
    verify(&["modify /w/x"], "", &[]);
    verify(&["_touch /w/x:_socket"], "", &[]);
    verify(&[], "", &[]);
    // Several edits of one file.
    verify(&["modify /w/x"], &(modify("/w/x") + &modify("/w/x")), &[]);
}

#[test]
fn every_disagreement_is_named() {
    verify(&["modify /w/x"], &modify("/w/y"), &["/w/y: the patch has modify, the changes do not name it"]);
    verify(
        &["delete /w/x", "add /w/y"],
        &(modify("/w/x") + &modify("/w/y")),
        &[
            "/w/x: the changes have delete, the patch has modify",
            "/w/y: the changes have add, the patch has modify",
        ],
    );
    verify(
        &["move /w/other /w/y"],
        &rename("/w/x", "/w/y"),
        &["/w/y: it comes from /w/other in the changes, from /w/x in the patch"],
    );
    verify(
        &["modify /w/x:binary"],
        &modify("/w/x"),
        &["/w/x: it is binary in the changes, text in the patch"],
    );
    verify(&["modify x"], "", &["x: the path in the changes is not absolute"]);
    verify(&["move /w/x"], &rename("/w/y", "/w/x"), &["/w/x: the change does not say where it comes from"]);
    verify(&["modify /w/x", "modify /w/x"], "", &["/w/x: the changes name it twice"]);
    verify(
        &["modify /w/x"],
        &format!("{}@@ nonsense\n", modify("/w/x")),
        &["the patch is malformed: line 7: the hunk header does not say which lines it covers"],
    );
}

#[test]
fn a_patch_may_show_some_of_the_changes() {
    noted(
        &["modify /w/x", "modify /w/y", "delete /w/z:text"],
        &modify("/w/x"),
        &[
            ("not_in_patch", "/w/y: the changes have modify, the patch does not show it"),
            ("not_in_patch", "/w/z: the changes have delete, the patch does not show it"),
        ],
    );
    noted(&["modify /w/x", "modify /w/logo.png:binary"], &modify("/w/x"), &[]);
    noted(&["modify /w/x", "modify /w/y"], "", &[]);
}

#[test]
fn unknown_operations_are_noted_and_not_judged() {
    let custom = ("custom_operation", "/w/x: the operation \"_touch\" is somebody's own");
    noted(&["_touch /w/x"], "", &[custom]);
    noted(&["_touch /w/x"], &modify("/w/x"), &[custom]);
    noted(&["_touch /w/x", "modify /w/x"], &modify("/w/x"), &[custom]);
    let reserved = "/w/x: the operation \"truncate\" is not defined, and reserved for later versions";
    noted(&["truncate /w/x", "modify /w/y"], &modify("/w/y"), &[("reserved_operation", reserved)]);
    let nowhere = Change { path: String::new(), ..change("_sync /") };
    let checked = check(&Diff { changes: vec![nowhere], ..Diff::default() });
    assert!(checked.agrees());
    assert_eq!(
        checked.notes[0].to_string(),
        "a change without a path: the operation \"_sync\" is somebody's own"
    );
}

/// The protocol permits `diff --git` sections only.
#[test]
fn headers_of_mails_and_commits_are_refused() {
    let outside = |line: usize, text: &str| {
        format!(
            "line {line} of the patch belongs to no section, where mail and commit headers are not allowed: {text:?}"
        )
    };
    let section = modify("/w/x");
    let mail = "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n\
                From: A <a@b.c>\nSubject: [PATCH] x\n\n---\n x | 2 +-\n\n";
    let first = outside(1, "From 0123456789012345678901234567890123456789 Mon Sep 17 00:");
    verify(&["modify /w/x"], &format!("{mail}{section}"), &[&first]);
    let commit = format!("commit 0123\nAuthor: A <a@b.c>\n\n    x\n\n{section}");
    verify(&["modify /w/x"], &commit, &[&outside(1, "commit 0123")]);
    verify(&["modify /w/x"], &format!("{section}-- \n2.40.0\n\n"), &[&outside(7, "-- ")]);
    let second = modify("/w/y");
    let between = format!("{section}\nand then\n{second}");
    verify(&["modify /w/x", "modify /w/y"], &between, &[&outside(8, "and then")]);
    verify(&["modify /w/x"], &format!("\n{section}\n"), &[]);
    let plain = section.split_once('\n').unwrap().1;
    let not_git = "/w/x: the section of the patch does not begin with \"diff --git\"";
    verify(&["modify /w/x"], plain, &[not_git]);
    verify(&["modify /w/x"], "no patch\n", &["the patch is malformed: line 1: no patch in the text"]);
}

#[test]
fn relative_patches_are_compared_below_their_root() {
    let patch = "diff --git a/src/x b/src/x\n--- a/src/x\n+++ b/src/x\n@@ -1 +1 @@\n-a\n+b\n\
         diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n";
    let headers =
        "the headers of the patch should have the absolute path, without a prefix such as a/ and b/";
    let [first, second] = ["src/x", "x"].map(|path| format!("{path}: {headers}"));
    let expected = [("patch_path_prefixed", &*first), ("patch_path_prefixed", &*second)];
    noted(&["modify /w/src/x", "add /w/x"], patch, &expected);
    // Absolute paths with prefixes, with and without a second slash.
    for (old, new) in [("a/w/x", "b/w/x"), ("a//w/x", "b//w/x")] {
        let patch = format!("diff --git {old} {new}\n--- {old}\n+++ {new}\n@@ -1 +1 @@\n-a\n+b\n");
        let path = &old[2..];
        noted(&["modify /w/x"], &patch, &[("patch_path_prefixed", &format!("{path}: {headers}"))]);
    }
    verify(&["modify /w/src/x", "delete /w/x"], patch, &["/w/x: the changes have delete, the patch has add"]);
    // Without prefixes, a relative path is an error of the sender.
    verify(&["modify /w/src/x"], &modify("src/x"), &["src/x: the path in the patch is not absolute"]);
}

#[test]
fn a_file_that_becomes_a_link_may_be_one_change_or_two() {
    let patch = "diff --git /w/x /w/x\ndeleted file mode 100644\n--- /w/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\
                 diff --git /w/x /w/x\nnew file mode 120000\n--- /dev/null\n+++ /w/x\n@@ -0,0 +1 @@\n+a\n";
    verify(&["delete /w/x:text", "add /w/x:symlink"], patch, &[]);
    verify(&["modify /w/x"], patch, &[]);
}

#[test]
fn a_patch_in_another_format_is_not_read() {
    let patch = PatchText { format: PatchFormat::Other("_acme_ed".to_owned()), text: "x".to_owned() };
    let diff = Diff { changes: vec![change("modify /w/x")], patch: Some(patch), ..Diff::default() };
    let checked = check(&diff);
    assert_eq!(checked.disagreements, []);
    assert_eq!(
        checked.notes[0].to_string(),
        "the patch is in the format \"_acme_ed\", which is not read here"
    );
    assert_eq!(diff.changes[0].operation, Operation::Modify);
}
