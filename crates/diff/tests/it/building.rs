//! Builds diffs from bytes, files and trees.

use std::path::Path;

use switchboard_diff::{
    BinaryForm, BuildOptions, Built, Detect, Diff, FileType, Operation, PatchOptions, PathForm, Problem,
    Renames, build_from_bytes, build_from_files, build_from_trees, check, stat,
};

use crate::support::{Node, Place, Tree, run_as_other_user, tree};

#[track_caller]
fn build(old: &Tree, new: &Tree, options: &BuildOptions) -> Built {
    let place = Place::new();
    let built = build_from_trees(&place.write("old", old), &place.write("new", new), options).unwrap();
    let root = place.path().join("old");
    rebase(built, root.to_str().unwrap())
}

/// Replaces the temporary directory in paths with `/w`.
fn rebase(mut built: Built, root: &str) -> Built {
    let replace = |text: &mut String| *text = text.replace(root, "/w");
    for change in &mut built.diff.changes {
        replace(&mut change.path);
        change.old_path.iter_mut().for_each(replace);
    }
    built.diff.patch.iter_mut().for_each(|patch| replace(&mut patch.text));
    built.diff.root = Some("/w".to_owned());
    built
}

fn changes(diff: &Diff) -> Vec<String> {
    let describe = |change: &switchboard_diff::Change| {
        let from = change.old_path.as_ref().map(|path| format!(" from {path}")).unwrap_or_default();
        let kind = change.file_type.as_ref().map_or("?", FileType::as_str);
        let mime = change.mime_type.as_deref().unwrap_or("-");
        format!("{} {}{from} {kind} {mime}", change.operation, change.path)
    };
    diff.changes.iter().map(describe).collect()
}

fn patch(diff: &Diff) -> &str {
    diff.patch.as_ref().map_or("", |patch| &patch.text)
}

/// Checks the complete patch text of one changed file.
#[track_caller]
fn check_text(old: Option<&str>, new: Option<&str>, expected: &str) {
    let built = build_from_bytes(
        Path::new("/w/x"),
        old.map(str::as_bytes),
        new.map(str::as_bytes),
        &BuildOptions::default(),
    );
    assert_eq!(patch(&built.diff), expected);
    assert_eq!(check(&built.diff).disagreements, []);
}

#[test]
fn every_operation_has_its_change_and_its_section() {
    let program = "#!/bin/sh\necho one\necho two\necho three\n";
    let old = tree([
        ("gone.txt", Node::text("bye\n")),
        ("edit.json", Node::text("{\n  \"debug\": false\n}\n")),
        ("move/me.sh", Node::program(program)),
        ("mode.sh", Node::text("a\n")),
        ("link", Node::Symlink(b"here".to_vec())),
        ("type", Node::text("was a file\n")),
    ]);
    let new = tree([
        ("new.rs", Node::text("fn main() {}\n")),
        ("edit.json", Node::text("{\n  \"debug\": true\n}\n")),
        ("moved/me.sh", Node::program(format!("{program}echo four\n"))),
        ("mode.sh", Node::program("a\n")),
        ("empty-new", Node::program("")),
        ("link", Node::Symlink(b"there".to_vec())),
        ("logo.png", Node::text(b"\x89PNG\0")),
        ("type", Node::Symlink(b"now a link".to_vec())),
    ]);
    let built = build(&old, &new, &BuildOptions { renames: Renames::default(), ..BuildOptions::default() });
    assert!(built.problems.is_empty(), "{:?}", built.problems);
    assert_eq!(
        changes(&built.diff),
        [
            "modify /w/edit.json text application/json",
            "add /w/empty-new text -",
            "delete /w/gone.txt text text/plain",
            "modify /w/link symlink -",
            "add /w/logo.png binary image/png",
            "modify /w/mode.sh text application/x-sh",
            "move /w/moved/me.sh from /w/move/me.sh text application/x-sh",
            "add /w/new.rs text text/x-rust",
            "delete /w/type text -",
            "add /w/type symlink -",
        ]
    );
    assert_eq!(
        patch(&built.diff),
        "diff --git /w/edit.json /w/edit.json\n--- /w/edit.json\n+++ /w/edit.json\n\
         @@ -1,3 +1,3 @@\n {\n-  \"debug\": false\n+  \"debug\": true\n }\n\
         diff --git /w/empty-new /w/empty-new\nnew file mode 100755\n\
         diff --git /w/gone.txt /w/gone.txt\ndeleted file mode 100644\n--- /w/gone.txt\n+++ /dev/null\n\
         @@ -1 +0,0 @@\n-bye\n\
         diff --git /w/link /w/link\n\
         index 60aecbdbb21e68a16d08c3e94a0524637e353307..c78ee1a5bdf46d22da300b68d50bc45c587c3293 120000\n\
         --- /w/link\n+++ /w/link\n@@ -1 +1 @@\n-here\n\\ No newline at end of file\n+there\n\\ No newline at end of file\n\
         diff --git /w/logo.png /w/logo.png\nnew file mode 100644\nBinary files /dev/null and /w/logo.png differ\n\
         diff --git /w/mode.sh /w/mode.sh\nold mode 100644\nnew mode 100755\n\
         diff --git /w/move/me.sh /w/moved/me.sh\nsimilarity index 79%\nrename from /w/move/me.sh\nrename to /w/moved/me.sh\n\
         --- /w/move/me.sh\n+++ /w/moved/me.sh\n@@ -2,3 +2,4 @@\n echo one\n echo two\n echo three\n+echo four\n\
         diff --git /w/new.rs /w/new.rs\nnew file mode 100644\n--- /dev/null\n+++ /w/new.rs\n@@ -0,0 +1 @@\n+fn main() {}\n\
         diff --git /w/type /w/type\ndeleted file mode 100644\n--- /w/type\n+++ /dev/null\n@@ -1 +0,0 @@\n-was a file\n\
         diff --git /w/type /w/type\nnew file mode 120000\n--- /dev/null\n+++ /w/type\n@@ -0,0 +1 @@\n+now a link\n\
         \\ No newline at end of file\n"
    );
    assert_eq!(check(&built.diff).disagreements, []);
    let lines: Vec<_> = stat(&built.diff).into_iter().map(|file| file.lines).collect();
    assert_eq!(lines[..3], [Some((1, 1)), Some((0, 0)), Some((0, 1))]);
    assert_eq!(lines[4], None, "a binary file has no lines");
}

#[test]
fn texts_end_as_they_end() {
    let head = "diff --git /w/x /w/x\n--- /w/x\n+++ /w/x\n";
    check_text(Some("a"), Some("a\n"), &format!("{head}@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"));
    check_text(Some("a\r\nb\r\n"), Some("a\r\nc\r\n"), &format!("{head}@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n"));
    check_text(None, Some(""), "diff --git /w/x /w/x\nnew file mode 100644\n");
    check_text(Some(""), None, "diff --git /w/x /w/x\ndeleted file mode 100644\n");
    check_text(Some(""), Some("a\n"), &format!("{head}@@ -0,0 +1 @@\n+a\n"));
    check_text(Some("same"), Some("same"), "");
    check_text(None, None, "");
}

#[test]
fn context_is_as_wide_as_asked() {
    let (old, new) = ("1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\nfour\n5\n6\n7\n");
    let text = |context| {
        let options = BuildOptions {
            patch: PatchOptions { context, ..PatchOptions::default() },
            ..BuildOptions::default()
        };
        let built = build_from_bytes(Path::new("/w/x"), Some(old.as_bytes()), Some(new.as_bytes()), &options);
        patch(&built.diff).lines().nth(3).unwrap().to_owned()
    };
    assert_eq!(text(0), "@@ -4 +4 @@");
    assert_eq!(text(1), "@@ -3,3 +3,3 @@");
    assert_eq!(text(3), "@@ -1,7 +1,7 @@");
    assert_eq!(text(u32::MAX), "@@ -1,7 +1,7 @@");
}

#[test]
fn changes_without_a_textual_form_have_no_patch() {
    let binary = |old: Option<&[u8]>, new: Option<&[u8]>| {
        build_from_bytes(Path::new("/w/logo.png"), old, new, &BuildOptions::default()).diff
    };
    let modified = binary(Some(b"\0a"), Some(b"\0b"));
    assert_eq!(modified.patch, None);
    assert_eq!(changes(&modified), ["modify /w/logo.png binary image/png"]);
    assert_eq!(binary(None, Some(b"\0")).patch, None);
    assert_eq!(binary(Some(b"\0"), None).patch, None);
    // Text that is not UTF-8 cannot be in a string.
    assert_eq!(binary(Some(b"caf\xe9\n"), Some(b"cafe\n")).changes[0].file_type, Some(FileType::Binary));
    // A moved binary file has headers to show; so has one that becomes executable.
    let content = Node::text([0u8; 100]);
    let moved = build(&tree([("a", content.clone())]), &tree([("b", content)]), &BuildOptions::default());
    assert_eq!(
        patch(&moved.diff),
        "diff --git /w/a /w/b\nsimilarity index 100%\nrename from /w/a\nrename to /w/b\n"
    );
}

#[test]
fn past_its_limit_the_patch_is_left_out_and_the_changes_stay() {
    let new: String = (0..1000).map(|at| format!("line {at}\n")).collect();
    let options = BuildOptions {
        patch: PatchOptions { max_size: 1000, ..PatchOptions::default() },
        ..BuildOptions::default()
    };
    let built =
        build(&tree([]), &tree([("large", Node::text(&new)), ("small", Node::text("a\n"))]), &options);
    assert_eq!(changes(&built.diff), ["add /w/large text -", "add /w/small text -"]);
    assert_eq!(built.diff.patch, None);
    assert!(matches!(built.problems[..], [Problem::PatchTooLarge { limit: 1000 }]), "{:?}", built.problems);
}

#[test]
fn a_file_too_large_for_memory_is_binary() {
    let options = BuildOptions { max_file_size: 10, ..BuildOptions::default() };
    let (old, new) = ("0123456789a\n", "0123456789b\n");
    let built = build(&tree([("x", Node::text(old))]), &tree([("x", Node::text(new))]), &options);
    assert_eq!(changes(&built.diff), ["modify /w/x binary -"]);
    assert!(matches!(built.problems[0], Problem::LargeFile { limit: 10, .. }));
    let same = build(&tree([("x", Node::text(old))]), &tree([("x", Node::text(old))]), &options);
    assert_eq!(same.diff.changes, []);
}

#[test]
fn moves_and_copies_are_found_as_asked() {
    let text: String = (0..20).map(|at| format!("line number {at}\n")).collect();
    let edited = text.replace("line number 3\n", "another line\n");
    let rewritten = text.replace("line number 1", "LINE NUMBER 1");
    let old = tree([("source", Node::text(&text)), ("stays", Node::text(&edited))]);
    let operations = |new: &Tree, detect, threshold| {
        let renames = Renames { detect, threshold, ..Renames::default() };
        let built = build(&old, new, &BuildOptions { renames, ..BuildOptions::default() });
        built
            .diff
            .changes
            .iter()
            .map(|change| format!("{} {}", change.operation, change.path))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let moved = tree([("target", Node::text(&edited)), ("stays", Node::text(&edited))]);
    assert_eq!(operations(&moved, Detect::Moves, 50), "move /w/target");
    assert_eq!(operations(&moved, Detect::Moves, 99), "delete /w/source, add /w/target");
    assert_eq!(operations(&moved, Detect::Nothing, 50), "delete /w/source, add /w/target");
    // The unchanged file is the better source, if permitted.
    assert_eq!(operations(&moved, Detect::CopiesOfAll, 50), "delete /w/source, copy /w/target");
    let copied = tree([
        ("source", Node::text(&rewritten)),
        ("stays", Node::text(&edited)),
        ("copy", Node::text(&text)),
    ]);
    assert_eq!(operations(&copied, Detect::Moves, 50), "add /w/copy, modify /w/source");
    assert_eq!(operations(&copied, Detect::Copies, 50), "copy /w/copy, modify /w/source");
    let twice = tree([("a", Node::text(&text)), ("b", Node::text(&text)), ("stays", Node::text(&edited))]);
    assert_eq!(operations(&twice, Detect::Moves, 50), "move /w/a, add /w/b");
    assert_eq!(operations(&twice, Detect::Copies, 50), "copy /w/a, move /w/b");
}

#[test]
fn too_many_candidates_are_said() {
    let file = |at: usize, end: &str| Node::text(format!("content of file number {at}\nsecond line\n{end}"));
    let make = |prefix: &str, end: &str| {
        Tree((0..10).map(|at| (format!("{prefix}{at}").into_bytes(), file(at, end))).collect())
    };
    let renames = Renames { limit: 3, ..Renames::default() };
    let built =
        build(&make("old", ""), &make("new", "x\n"), &BuildOptions { renames, ..BuildOptions::default() });
    assert_eq!(built.diff.changes.len(), 20);
    assert!(matches!(built.problems[..], [Problem::TooManyForRenames { added: 10, deleted: 10 }]));
}

#[test]
fn empty_directories_are_changes_without_text() {
    let place = Place::new();
    let (old, new) =
        (place.write("old", &tree([])), place.write("new", &tree([("full/file", Node::text("a\n"))])));
    std::fs::create_dir_all(old.join("gone")).unwrap();
    std::fs::create_dir_all(new.join("come/deep")).unwrap();
    let built = build_from_trees(&old, &new, &BuildOptions::default()).unwrap();
    let built = rebase(built, old.to_str().unwrap());
    assert_eq!(
        changes(&built.diff),
        ["add /w/come/deep directory -", "add /w/full/file text -", "delete /w/gone directory -"]
    );
    assert_eq!(check(&built.diff).disagreements, []);
}

#[test]
fn links_are_compared_and_never_followed() {
    let place = Place::new();
    let outside = place.write("outside", &tree([("secret", Node::text("secret\n"))]));
    let (old, new) = (place.write("old", &tree([])), place.write("new", &tree([])));
    std::os::unix::fs::symlink(&outside, new.join("link")).unwrap();
    std::os::unix::fs::symlink(".", new.join("loop")).unwrap();
    let built = build_from_trees(&old, &new, &BuildOptions::default()).unwrap();
    let kinds: Vec<_> = built.diff.changes.iter().map(|change| change.file_type.clone()).collect();
    assert_eq!(kinds, [Some(FileType::Symlink), Some(FileType::Symlink)]);
    assert!(!patch(&built.diff).contains("secret\n"));
}

#[test]
fn pipes_and_git_directories_are_passed_over() {
    let place = Place::new();
    let old = place.write("old", &tree([]));
    let new = place.write("new", &tree([(".git/config", Node::text("x")), ("sub/GIT~1/x", Node::text("x"))]));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        new.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_bits_retain(0o600),
        0,
    )
    .unwrap();
    let built = build_from_trees(&old, &new, &BuildOptions::default()).unwrap();
    assert_eq!(built.diff.changes, []);
    let mut said: Vec<String> = built.problems.iter().map(ToString::to_string).collect();
    said.sort();
    assert_eq!(
        said,
        [
            format!("{} is left out: it is a pipe", new.join("pipe").display()),
            format!("{} is left out: its name can stand for .git", new.join("sub/GIT~1").display()),
        ]
    );
}

#[test]
fn a_name_that_is_not_unicode_is_said_and_quoted() {
    let place = Place::new();
    let old = place.write("old", &tree([]));
    let mut files = Tree::default();
    files.insert(b"caf\xe9".to_vec(), Node::text("a\n"));
    let new = place.write("new", &files);
    let built = build_from_trees(&old, &new, &BuildOptions::default()).unwrap();
    assert!(built.diff.changes[0].path.ends_with("caf\u{fffd}"));
    assert!(patch(&built.diff).contains("/caf\\351\""));
    assert!(matches!(built.problems[..], [Problem::NameNotUnicode { .. }]));
    assert_eq!(check(&built.diff).disagreements, []);
}

#[test]
fn unreadable_files_are_named_and_the_rest_goes_on() {
    use std::os::unix::fs::PermissionsExt as _;

    if run_as_other_user("building::unreadable_files_are_named_and_the_rest_goes_on") {
        return;
    }
    let place = Place::new();
    let old = place.write("old", &tree([("a", Node::text("1\n")), ("locked", Node::text("1\n"))]));
    let new = place.write(
        "new",
        &tree([("a", Node::text("2\n")), ("locked", Node::text("2\n")), ("secret/x", Node::text("x\n"))]),
    );
    let lock = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    lock(&new.join("locked"), 0o000);
    lock(&new.join("secret"), 0o000);
    let built = build_from_trees(&old, &new, &BuildOptions::default()).unwrap();
    lock(&new.join("secret"), 0o700);
    let changed: Vec<_> =
        built.diff.changes.iter().map(|change| change.path.rsplit('/').next().unwrap()).collect();
    assert_eq!(changed, ["a"]);
    let mut named: Vec<_> = built
        .problems
        .iter()
        .map(|problem| match problem {
            Problem::Unreadable { path, .. } => path.clone(),
            other => panic!("{other}"),
        })
        .collect();
    named.sort();
    assert_eq!(named, [new.join("locked"), new.join("secret")]);
    assert!(build_from_files(&old.join("locked"), &new.join("locked"), &BuildOptions::default()).is_err());
}

#[test]
fn two_files_are_a_change_of_the_first() {
    let place = Place::new();
    let root =
        place.write("root", &tree([("old.txt", Node::text("a\n")), ("new.txt", Node::program("b\n"))]));
    let options = BuildOptions {
        patch: PatchOptions { paths: PathForm::Relative, ..PatchOptions::default() },
        ..BuildOptions::default()
    };
    let built = build_from_files(&root.join("old.txt"), &root.join("new.txt"), &options).unwrap();
    assert_eq!(built.diff.changes[0].path, root.join("old.txt").to_str().unwrap());
    assert_eq!(
        patch(&built.diff),
        "diff --git a/old.txt b/old.txt\nold mode 100644\nnew mode 100755\n--- a/old.txt\n+++ b/old.txt\n\
         @@ -1 +1 @@\n-a\n+b\n"
    );
    let added = build_from_files(Path::new("/dev/null"), &root.join("new.txt"), &options).unwrap();
    assert_eq!(added.diff.changes[0].operation, Operation::Add);
    assert!(added.diff.changes[0].path.ends_with("/new.txt"));
    let elsewhere = BuildOptions { root: Some("/project".into()), ..options };
    let built = build_from_files(&root.join("old.txt"), &root.join("new.txt"), &elsewhere).unwrap();
    assert_eq!(built.diff.changes[0].path, "/project/old.txt");
}

#[test]
fn odd_names_are_quoted_as_git_quotes_them() {
    let names = ["a b", "tab\t", "quo\"te", "back\\slash", "line\nfeed", "ünï", "\u{7f}"];
    let new = Tree(names.iter().map(|name| (name.as_bytes().to_vec(), Node::text("x\n"))).collect());
    let options = BuildOptions { patch: PatchOptions::for_git(), ..BuildOptions::default() };
    let built = build(&tree([]), &new, &options);
    let headers: Vec<_> = patch(&built.diff).lines().filter(|line| line.starts_with("+++ ")).collect();
    assert_eq!(
        headers,
        [
            "+++ b/a b\t",
            r#"+++ "b/back\\slash""#,
            r#"+++ "b/line\nfeed""#,
            r#"+++ "b/quo\"te""#,
            r#"+++ "b/tab\t""#,
            r#"+++ "b/\177""#,
            "+++ b/ünï",
        ]
    );
}

#[test]
fn binary_content_is_carried_when_asked() {
    let patch_options = PatchOptions { binary: BinaryForm::Content, ..PatchOptions::default() };
    let options = BuildOptions { patch: patch_options, ..BuildOptions::default() };
    let built = build_from_bytes(Path::new("/w/x"), Some(b"\0"), Some(b"\0\0"), &options);
    assert!(patch(&built.diff).contains("\nindex f76dd238ade08917e6712764a16a22005a50573d.."));
    assert!(patch(&built.diff).contains("\nGIT binary patch\nliteral 2\n"));
    assert_eq!(check(&built.diff).disagreements, []);
}
