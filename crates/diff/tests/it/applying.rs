//! Applies diffs to a directory.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use switchboard_diff::{
    ApplyOptions, BinaryForm, BuildOptions, Change, Conflict, Diff, Direction, Error, FileType,
    NotApplicable, Operation, PatchFormat, PatchOptions, PatchText, apply, apply_patch, build_from_bytes,
    build_from_trees,
};

use crate::support::{Node, Place, Tree, directories, read_tree, tree};

/// Applies text to a tree. Returns the new tree, or the error with the tree unchanged.
#[track_caller]
fn apply_to(old: &Tree, text: &str, direction: Direction) -> Result<Tree, Error> {
    let place = Place::new();
    let root = place.write("root", old);
    let options = ApplyOptions { direction, ..ApplyOptions::default() };
    let result = apply_patch(text.as_bytes(), &root, &options);
    let now = read_tree(&root);
    if result.is_err() {
        assert_eq!(now, *old, "an error leaves everything as it was");
    }
    result.map(|_| now)
}

#[track_caller]
fn conflict(old: &Tree, text: &str, expected: Conflict) {
    match apply_to(old, text, Direction::Forward) {
        Err(Error::Conflict { conflict, .. }) => assert_eq!(conflict, expected),
        other => panic!("{other:?}"),
    }
}

const CHANGE: &str = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n d\n";

#[test]
fn forward_and_backward() {
    let old = tree([("x", Node::text("a\nb\nd\n")), ("y", Node::text("untouched"))]);
    let new = tree([("x", Node::text("a\nc\nd\n")), ("y", Node::text("untouched"))]);
    assert_eq!(apply_to(&old, CHANGE, Direction::Forward).unwrap(), new);
    assert_eq!(apply_to(&new, CHANGE, Direction::Backward).unwrap(), old);
}

#[test]
fn a_displaced_hunk_is_reported() {
    let place = Place::new();
    let root = place.write("root", &tree([("x", Node::text("1\n2\na\nb\nd\n"))]));
    let applied = apply_patch(CHANGE.as_bytes(), &root, &ApplyOptions::default()).unwrap();
    assert_eq!(applied.displaced, [(root.join("x"), 1, 2)]);
    assert_eq!(applied.written, [root.join("x")]);
    assert_eq!(read_tree(&root), tree([("x", Node::text("1\n2\na\nc\nd\n"))]));
}

#[test]
fn conflicts_are_named_and_nothing_is_written() {
    conflict(&tree([("x", Node::text("a\nB\nd\n"))]), CHANGE, Conflict::Hunk { hunk: 1 });
    conflict(&tree([]), CHANGE, Conflict::Missing);
    let add = "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n";
    conflict(&tree([("x", Node::text("here"))]), add, Conflict::Exists);
    conflict(&tree([("x/y", Node::text("here"))]), add, Conflict::IsDirectory);
    let delete = "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
    conflict(&tree([("x", Node::text("a\nmore\n"))]), delete, Conflict::LeftOver);
    let delete_empty = "diff --git a/x b/x\ndeleted file mode 100644\n";
    conflict(&tree([("x", Node::text("not empty"))]), delete_empty, Conflict::LeftOver);
    let link = "diff --git a/x b/x\nindex 0123456..789abcd 120000\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
    conflict(&tree([("x", Node::text("a\n"))]), link, Conflict::FileType);
    conflict(&tree([("x", Node::Symlink(b"a".to_vec()))]), CHANGE, Conflict::FileType);
    let twice = format!("{add}{add}");
    conflict(&tree([]), &twice, Conflict::WrittenTwice);
    let rename = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n";
    conflict(&tree([("x", Node::text("a")), ("y", Node::text("b"))]), rename, Conflict::Exists);
    // The second of two files does not match: the first is not written either.
    let second = CHANGE.replace("/x", "/y");
    let old = tree([("x", Node::text("a\nb\nd\n")), ("y", Node::text("other\n"))]);
    conflict(&old, &format!("{CHANGE}{second}"), Conflict::Hunk { hunk: 1 });
}

#[test]
fn a_patch_with_a_fault_is_not_applied() {
    let old = tree([("x", Node::text("a\nb\nd\n"))]);
    let result = apply_to(&old, &format!("{CHANGE}@@ -9,9 +9,9 @@\n a\n"), Direction::Forward);
    assert!(matches!(result, Err(Error::Patch(fault)) if fault.line == 11), "the line is named");
}

#[test]
fn sections_see_the_tree_as_git_shows_it_to_them() {
    // Two files are swapped, a third is moved away and recreated, a fourth is edited twice.
    let old = tree([
        ("one", Node::text("1\n")),
        ("two", Node::text("2\n")),
        ("three", Node::text("3\n")),
        ("four", Node::text("a\nb\nd\n")),
    ]);
    let swap = "diff --git a/one b/two\nsimilarity index 100%\nrename from one\nrename to two\n\
                diff --git a/two b/one\nsimilarity index 100%\nrename from two\nrename to one\n";
    let remake = "diff --git a/three b/three\nnew file mode 100644\n--- /dev/null\n+++ b/three\n@@ -0,0 +1 @@\n+new\n\
                  diff --git a/three b/sub/three\nsimilarity index 100%\nrename from three\nrename to sub/three\n";
    let first = CHANGE.replace("/x", "/four");
    let second = first.replace("-b\n+c", "-c\n+e");
    let new = tree([
        ("one", Node::text("2\n")),
        ("two", Node::text("1\n")),
        ("three", Node::text("new\n")),
        ("sub/three", Node::text("3\n")),
        ("four", Node::text("a\ne\nd\n")),
    ]);
    let text = format!("{swap}{remake}{first}{second}");
    assert_eq!(apply_to(&old, &text, Direction::Forward).unwrap(), new);
    assert_eq!(apply_to(&new, &text, Direction::Backward).unwrap(), old);
}

#[test]
fn an_undone_copy_must_still_be_one() {
    let copy = "diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n";
    let old = tree([("x", Node::text("a\n"))]);
    let new = tree([("x", Node::text("a\n")), ("y", Node::text("a\n"))]);
    assert_eq!(apply_to(&old, copy, Direction::Forward).unwrap(), new);
    assert_eq!(apply_to(&new, copy, Direction::Backward).unwrap(), old);
    let edited = tree([("x", Node::text("a\n")), ("y", Node::text("work\n"))]);
    let result = apply_to(&edited, copy, Direction::Backward);
    assert!(matches!(result, Err(Error::Conflict { conflict: Conflict::Copy, .. })), "{result:?}");
}

#[test]
fn directories_come_and_go_with_their_files() {
    let place = Place::new();
    let old = tree([("d/e/f", Node::text("a\n")), ("link", Node::Symlink(b"d".to_vec()))]);
    let new = tree([("d", Node::text("now a file\n")), ("link/inside", Node::text("b\n"))]);
    let (old_root, new_root) = (place.write("old", &old), place.write("new", &new));
    let options = BuildOptions { patch: PatchOptions::for_git(), ..BuildOptions::default() };
    let text = build_from_trees(&old_root, &new_root, &options).unwrap().diff.patch.unwrap().text;
    assert_eq!(apply_to(&old, &text, Direction::Forward).unwrap(), new);
    assert_eq!(apply_to(&new, &text, Direction::Backward).unwrap(), old);
}

#[test]
fn empty_directories_are_made_and_removed() {
    let place = Place::new();
    let (old, new) = (place.write("old", &tree([])), place.write("new", &tree([])));
    std::fs::create_dir_all(old.join("gone/deep")).unwrap();
    std::fs::create_dir_all(new.join("come/deep")).unwrap();
    let diff = build_from_trees(&old, &new, &BuildOptions::default()).unwrap().diff;
    assert_eq!(diff.patch, None);
    apply(&diff, &old, &ApplyOptions::default()).unwrap();
    assert_eq!(directories(&old), [Path::new("come"), Path::new("come/deep"), Path::new("gone")]);
    let backward = ApplyOptions { direction: Direction::Backward, ..ApplyOptions::default() };
    apply(&diff, &old, &backward).unwrap();
    assert!(directories(&old).contains(&"gone/deep".into()));
    // A directory that is not empty is not removed.
    std::fs::write(old.join("gone/deep/file"), "work").unwrap();
    let result = apply(&diff, &old, &ApplyOptions::default());
    assert!(matches!(result, Err(Error::Conflict { conflict: Conflict::LeftOver, .. })), "{result:?}");
    assert!(old.join("gone/deep/file").exists());
}

#[test]
fn permissions_are_kept_and_the_executable_bit_follows_the_patch() {
    let place = Place::new();
    let root = place.write("root", &tree([("x", Node::text("a\nb\nd\n")), ("run", Node::text("a\n"))]));
    let mode = |path: &str| std::fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o777;
    std::fs::set_permissions(root.join("x"), std::fs::Permissions::from_mode(0o640)).unwrap();
    std::fs::set_permissions(root.join("run"), std::fs::Permissions::from_mode(0o640)).unwrap();
    let chmod = "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n";
    apply_patch(format!("{CHANGE}{chmod}").as_bytes(), &root, &ApplyOptions::default()).unwrap();
    assert_eq!((mode("x"), mode("run")), (0o640, 0o750));
}

#[test]
fn a_plain_diff_of_a_new_file_makes_it_or_refuses_to_touch_one() {
    let text = "--- notes.txt\tOriginal\n+++ notes.txt\tWritten\n@@ -0,0 +1,2 @@\n+a\n+b\n";
    let made = tree([("notes.txt", Node::text("a\nb\n"))]);
    assert_eq!(apply_to(&tree([]), text, Direction::Forward).unwrap(), made);
    assert_eq!(apply_to(&tree([("notes.txt", Node::text(""))]), text, Direction::Forward).unwrap(), made);
    conflict(&tree([("notes.txt", Node::text("mine"))]), text, Conflict::Exists);
}

fn text_change(operation: Operation, path: &str) -> Change {
    Change {
        operation,
        path: path.to_owned(),
        old_path: None,
        file_type: Some(FileType::Text),
        mime_type: None,
    }
}

#[test]
fn a_diff_is_applied_only_if_list_and_patch_agree() {
    let place = Place::new();
    let old = tree([("x", Node::text("a\nb\nd\n")), ("y", Node::text("a\nb\nd\n"))]);
    let root = place.write("root", &old);
    let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let both = format!("{CHANGE}{}", CHANGE.replace("/x", "/y"));
    let run = |changes: Vec<Change>, text: &str| {
        let diff = Diff { changes, patch: Some(PatchText::git(text)), ..Diff::default() };
        apply(&diff, &root, &ApplyOptions::default())
    };
    // The patch also changes a file that is not listed.
    let result = run(vec![text_change(Operation::Modify, &at("x"))], &both);
    assert!(matches!(result, Err(Error::Disagreement { .. })), "{result:?}");
    // The list has another operation.
    let result = run(vec![text_change(Operation::Delete, &at("x"))], CHANGE);
    assert!(matches!(result, Err(Error::Disagreement { .. })), "{result:?}");
    // The patch has no section for a listed file.
    let result =
        run(vec![text_change(Operation::Modify, &at("x")), text_change(Operation::Modify, &at("y"))], CHANGE);
    assert!(matches!(result, Err(Error::NotApplicable { reason: NotApplicable::NoPatch, .. })), "{result:?}");
    let result = run(vec![text_change(Operation::Other("_touch".into()), &at("x"))], CHANGE);
    assert!(matches!(result, Err(Error::NotApplicable { reason: NotApplicable::UnknownOperation, .. })));
    assert_eq!(read_tree(&root), old);
    run(vec![text_change(Operation::Modify, &at("x")), text_change(Operation::Modify, &at("y"))], &both)
        .unwrap();
}

#[test]
fn a_patch_in_an_unknown_format_is_not_applied() {
    let place = Place::new();
    let patch = PatchText { format: PatchFormat::Other("_acme_ed".into()), text: "x".into() };
    let diff = Diff { patch: Some(patch), ..Diff::default() };
    let result = apply(&diff, &place.path(), &ApplyOptions::default());
    assert!(matches!(result, Err(Error::UnknownFormat { format }) if format == "_acme_ed"));
}

#[test]
fn binary_content_is_rebuilt_and_checked() {
    let place = Place::new();
    let root = place.write("root", &tree([("logo.png", Node::text(b"\x89PNG\0old"))]));
    let path = root.join("logo.png");
    let build = |binary| {
        let patch = PatchOptions { binary, ..PatchOptions::default() };
        let options = BuildOptions { patch, ..BuildOptions::default() };
        build_from_bytes(&path, Some(b"\x89PNG\0old"), Some(b"\x89PNG\0new"), &options).diff
    };
    // Without content there is nothing to apply. (Alone it makes no patch at all.)
    let named = build(BinaryForm::Named);
    assert_eq!(named.patch, None);
    let result = apply(&named, &root, &ApplyOptions::default());
    assert!(matches!(result, Err(Error::NotApplicable { reason: NotApplicable::NoPatch, .. })), "{result:?}");
    let text = format!("diff --git {0} {0}\nBinary files {0} and {0} differ\n", path.display());
    let result = apply_patch(text.as_bytes(), &root, &ApplyOptions::default());
    assert!(matches!(result, Err(Error::NotApplicable { reason: NotApplicable::NoBinaryContent, .. })));

    let diff = build(BinaryForm::Content);
    apply(&diff, &root, &ApplyOptions::default()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"\x89PNG\0new");
    let result = apply(&diff, &root, &ApplyOptions::default());
    assert!(matches!(result, Err(Error::Conflict { conflict: Conflict::BinaryContent, .. })), "{result:?}");
    apply(&diff, &root, &ApplyOptions { direction: Direction::Backward, ..ApplyOptions::default() }).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"\x89PNG\0old");
}

#[test]
fn a_failure_while_writing_leaves_nothing_behind() {
    // The name of the last file is too long for any file system; it passes all checks.
    let place = Place::new();
    let old = tree([("a", Node::text("a\nb\nd\n")), ("gone", Node::text("x\n"))]);
    let root = place.write("root", &old);
    let long = "z".repeat(300);
    let text = format!(
        "{}diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
         diff --git a/new/{long} b/new/{long}\nnew file mode 100644\n--- /dev/null\n+++ b/new/{long}\n@@ -0,0 +1 @@\n+a\n",
        CHANGE.replace("/x", "/a")
    );
    let result = apply_patch(text.as_bytes(), &root, &ApplyOptions::default());
    assert!(matches!(result, Err(Error::Write { .. } | Error::Read { .. })), "{result:?}");
    assert_eq!(read_tree(&root), old);
    assert_eq!(directories(&root), Vec::<std::path::PathBuf>::new());
}
