//! Between version 1's texts and structured diffs.

use switchboard_diff::{
    BuildOptions, Change, Diff, FileAtHand, FileType, Operation, PatchFormat, PatchText, TextItem, TextPair,
    check, from_text_pair, to_text_items,
};

fn pair(old: Option<&str>, new: &str) -> TextPair {
    TextPair {
        path: "/w/x".to_owned(),
        old_text: old.map(str::to_owned),
        new_text: new.to_owned(),
        is_deleted: false,
    }
}

fn content(text: &str) -> FileAtHand<'_> {
    FileAtHand::Content(text.as_bytes().into())
}

/// Operation, whether it is partial, and the hunks.
#[track_caller]
fn translated(pair: &TextPair, file: &FileAtHand<'_>) -> (String, bool, String) {
    let diff = from_text_pair(pair, file, &BuildOptions::default()).diff;
    assert_eq!(check(&diff), []);
    assert_eq!(diff.changes.len(), 1);
    assert_eq!(diff.changes[0].path, "/w/x");
    assert_eq!(diff.changes[0].file_type, Some(FileType::Text));
    let text = diff.patch.map(|patch| patch.text).unwrap_or_default();
    let hunks = text.find("@@").map_or("", |at| &text[at..]).to_owned();
    (diff.changes[0].operation.to_string(), diff.partial, hunks)
}

#[track_caller]
fn check_pair(old: Option<&str>, new: &str, file: &FileAtHand<'_>, expected: (&str, bool, &str)) {
    let (operation, partial, hunks) = translated(&pair(old, new), file);
    assert_eq!((operation.as_str(), partial, hunks.as_str()), expected);
}

#[test]
fn a_missing_old_text_is_a_new_file_unless_the_disk_says_otherwise() {
    check_pair(None, "b\n", &FileAtHand::Unknown, ("add", false, "@@ -0,0 +1 @@\n+b\n"));
    check_pair(None, "b\n", &FileAtHand::Absent, ("add", false, "@@ -0,0 +1 @@\n+b\n"));
    check_pair(None, "b\n", &content("a\n"), ("modify", false, "@@ -1 +1 @@\n-a\n+b\n"));
    // Already written: what was there before is not known.
    check_pair(None, "b\n", &content("b\n"), ("add", false, "@@ -0,0 +1 @@\n+b\n"));
    check_pair(None, "", &FileAtHand::Absent, ("add", false, ""));
    check_pair(Some(""), "b\n", &FileAtHand::Absent, ("add", false, "@@ -0,0 +1 @@\n+b\n"));
}

#[test]
fn whole_texts_are_recognised_before_and_after() {
    let hunk = "@@ -1,2 +1,2 @@\n-a\n+A\n b\n";
    check_pair(Some("a\nb\n"), "A\nb\n", &content("a\nb\n"), ("modify", false, hunk));
    check_pair(Some("a\nb\n"), "A\nb\n", &content("A\nb\n"), ("modify", false, hunk));
    check_pair(Some("a\n"), "", &content("a\n"), ("modify", false, "@@ -1 +0,0 @@\n-a\n"));
    check_pair(Some("a\n"), "a\n", &content("a\n"), ("modify", false, ""));
}

#[test]
fn snippets_get_their_place() {
    let before = "one\ntwo\nthree\nsay Hello\n";
    let after = "one\ntwo\nthree\nsay Good morning\n";
    let expected = ("modify", false, "@@ -1,4 +1,4 @@\n one\n two\n three\n-say Hello\n+say Good morning\n");
    check_pair(Some("Hello"), "Good morning", &content(before), expected);
    check_pair(Some("Hello"), "Good morning", &content(after), expected);
    // The new text contains the old one, and the file has it: it is from after.
    check_pair(Some("x"), "xx", &content("1\nxx\n"), ("modify", false, "@@ -1,2 +1,2 @@\n 1\n-x\n+xx\n"));
}

#[test]
fn snippets_without_a_place_are_marked() {
    let hunk = "@@ -1 +1 @@\n-Hello\n\\ No newline at end of file\n+Bye\n\\ No newline at end of file\n";
    check_pair(Some("Hello"), "Bye", &FileAtHand::Unknown, ("modify", true, hunk));
    check_pair(Some("Hello"), "Bye", &content("something else\n"), ("modify", true, hunk));
    // Twice: which one is not known. Overlapping counts as twice.
    check_pair(Some("Hello"), "Bye", &content("Hello Hello\n"), ("modify", true, hunk));
    let (_, partial, _) = translated(&pair(Some("aa"), "b"), &content("aaa\n"));
    assert!(partial);
}

#[test]
fn a_deleted_file_is_deleted() {
    let deleted = TextPair { is_deleted: true, ..pair(Some("a\n"), "") };
    let expected = ("delete".to_owned(), false, "@@ -1 +0,0 @@\n-a\n".to_owned());
    assert_eq!(translated(&deleted, &FileAtHand::Unknown), expected);
    assert_eq!(translated(&deleted, &content("a\n")), expected);
}

fn change(operation: Operation, path: &str, old_path: Option<&str>, file_type: FileType) -> Change {
    Change {
        operation,
        path: path.to_owned(),
        old_path: old_path.map(str::to_owned),
        file_type: Some(file_type),
        mime_type: None,
    }
}

fn diff(changes: Vec<Change>, patch: &str) -> Diff {
    let patch = (!patch.is_empty()).then(|| PatchText::git(patch));
    Diff { changes, patch, ..Diff::default() }
}

const PATCH: &str = "diff --git /w/x /w/x\n--- /w/x\n+++ /w/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n\
                     @@ -7,3 +7,3 @@\n g\n-h\n+H\n i\n";
const BEFORE: &str = "a\nb\nc\nd\ne\nf\ng\nh\ni\n";
const AFTER: &str = "a\nB\nc\nd\ne\nf\ng\nH\ni\n";

#[test]
fn whole_texts_come_from_a_file_that_matches_either_side() {
    let modified = diff(vec![change(Operation::Modify, "/w/x", None, FileType::Text)], PATCH);
    let expected = [TextItem::Whole(pair(Some(BEFORE), AFTER))];
    assert_eq!(to_text_items(&modified, |_| content(BEFORE)), expected);
    assert_eq!(to_text_items(&modified, |_| content(AFTER)), expected);
}

#[test]
fn without_such_a_file_there_is_a_pair_a_hunk() {
    let modified = diff(vec![change(Operation::Modify, "/w/x", None, FileType::Text)], PATCH);
    let expected = [
        TextItem::Piece(pair(Some("a\nb\nc\n"), "a\nB\nc\n")),
        TextItem::Piece(pair(Some("g\nh\ni\n"), "g\nH\ni\n")),
    ];
    assert_eq!(to_text_items(&modified, |_| FileAtHand::Unknown), expected);
    assert_eq!(to_text_items(&modified, |_| content("other\n")), expected);
    // Displaced hunks would fit, but then the file is not the one that the patch was made for.
    let displaced = format!("new first line\n{BEFORE}");
    assert_eq!(to_text_items(&modified, |_| content(&displaced)), expected);
}

#[test]
fn added_and_deleted_files_need_no_disk() {
    let patch =
        "diff --git /w/x /w/x\nnew file mode 100644\n--- /dev/null\n+++ /w/x\n@@ -0,0 +1,2 @@\n+a\n+b\n";
    let added = diff(vec![change(Operation::Add, "/w/x", None, FileType::Text)], patch);
    assert_eq!(to_text_items(&added, |_| FileAtHand::Unknown), [TextItem::Whole(pair(None, "a\nb\n"))]);
    let patch =
        "diff --git /w/x /w/x\ndeleted file mode 100644\n--- /w/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
    let deleted = diff(vec![change(Operation::Delete, "/w/x", None, FileType::Text)], patch);
    let expected = TextItem::Whole(TextPair { is_deleted: true, ..pair(Some("a\n"), "") });
    assert_eq!(to_text_items(&deleted, |_| FileAtHand::Unknown), [expected]);
    let empty = diff(
        vec![change(Operation::Add, "/w/x", None, FileType::Text)],
        "diff --git /w/x /w/x\nnew file mode 100644\n",
    );
    assert_eq!(to_text_items(&empty, |_| FileAtHand::Unknown), [TextItem::Whole(pair(None, ""))]);
}

#[test]
fn what_texts_cannot_say_is_said_in_words() {
    let words = |diff: &Diff| to_text_items(diff, |_| FileAtHand::Unknown);
    let say = |text: &str| TextItem::Words(text.to_owned());
    let binary = diff(vec![change(Operation::Modify, "/w/logo.png", None, FileType::Binary)], "");
    assert_eq!(words(&binary), [say("Modified binary file /w/logo.png")]);
    let directory = diff(vec![change(Operation::Add, "/w/d", None, FileType::Directory)], "");
    assert_eq!(words(&directory), [say("Added directory /w/d")]);
    let moved = "diff --git /w/a /w/b\nsimilarity index 100%\nrename from /w/a\nrename to /w/b\n";
    let moved_diff = diff(vec![change(Operation::Move, "/w/b", Some("/w/a"), FileType::Text)], moved);
    assert_eq!(words(&moved_diff), [say(&format!("Moved file /w/a to /w/b\n\n```diff\n{moved}```"))]);
    let unknown = diff(vec![change(Operation::Other("_touch".into()), "/w/x", None, FileType::Text)], "");
    assert_eq!(words(&unknown), [say("_touch: file /w/x")]);
    let foreign = Diff {
        changes: vec![change(Operation::Modify, "/w/x", None, FileType::Text)],
        patch: Some(PatchText { format: PatchFormat::Other("_ed".into()), text: "1c\n```\n.".into() }),
        ..Diff::default()
    };
    assert_eq!(
        words(&foreign),
        [say("Modified file /w/x"), say("Patch that could not be read:\n\n````diff\n1c\n```\n.\n````")]
    );
}

#[test]
fn an_edited_move_is_words_and_texts() {
    let patch = "diff --git /w/a /w/x\nsimilarity index 80%\nrename from /w/a\nrename to /w/x\n\
                 --- /w/a\n+++ /w/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n";
    let moved = diff(vec![change(Operation::Move, "/w/x", Some("/w/a"), FileType::Text)], patch);
    let expected = [
        TextItem::Words("Moved file /w/a to /w/x".to_owned()),
        TextItem::Whole(pair(Some("a\nb\n"), "a\nc\n")),
    ];
    let before = |path: &str| if path == "/w/a" { content("a\nb\n") } else { FileAtHand::Absent };
    let after = |path: &str| if path == "/w/x" { content("a\nc\n") } else { FileAtHand::Absent };
    assert_eq!(to_text_items(&moved, before), expected);
    assert_eq!(to_text_items(&moved, after), expected);
}

#[test]
fn nothing_in_the_patch_is_lost_because_the_list_forgot_it() {
    let items = to_text_items(&diff(Vec::new(), PATCH), |_| content(BEFORE));
    assert_eq!(items, [TextItem::Whole(pair(Some(BEFORE), AFTER))]);
}
