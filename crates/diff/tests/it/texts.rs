//! Conversion between version 1 texts and structured diffs.

use serde_json::{Value, json};
use switchboard_acp::{Wire as _, WireFormat, v1, v2};
use switchboard_diff::{
    Change, Diff, FileAtHand, FileType, InV1, Operation, PatchFormat, PatchText, check, from_v1, read_back,
    to_v1,
};

fn pair(old: Option<&str>, new: &str) -> Value {
    match old {
        Some(old) => json!({"path": "/w/x", "oldText": old, "newText": new}),
        None => json!({"path": "/w/x", "newText": new}),
    }
}

fn with(mut value: Value, key: &str, other: Value) -> Value {
    value[key] = other;
    value
}

fn content(text: &str) -> FileAtHand<'_> {
    FileAtHand::Content(text.as_bytes().into())
}

fn structured(pair: &Value, file: &FileAtHand<'_>) -> Value {
    let text = pair.to_string();
    let diff = from_v1(v1::Diff::decode_tolerant(&text, WireFormat::V1).unwrap().0, file);
    serde_json::from_str(&diff.encode(WireFormat::Newest)).unwrap()
}

/// Returns the operation, the partial flag and the hunks.
#[track_caller]
fn translated(pair: &Value, file: &FileAtHand<'_>) -> (String, bool, String) {
    let text = structured(pair, file).to_string();
    let diff = Diff::from(&v2::Diff::decode(&text, WireFormat::Newest).unwrap());
    assert_eq!(check(&diff).disagreements, []);
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
    // Already written: the previous content is unknown.
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
    // The new text contains the old one, and the file has it: it is from after the change.
    check_pair(Some("x"), "xx", &content("1\nxx\n"), ("modify", false, "@@ -1,2 +1,2 @@\n 1\n-x\n+xx\n"));
}

#[test]
fn snippets_without_a_place_are_marked() {
    let hunk = "@@ -1 +1 @@\n-Hello\n\\ No newline at end of file\n+Bye\n\\ No newline at end of file\n";
    check_pair(Some("Hello"), "Bye", &FileAtHand::Unknown, ("modify", true, hunk));
    check_pair(Some("Hello"), "Bye", &content("something else\n"), ("modify", true, hunk));
    // Twice: the position is ambiguous. Overlapping counts as twice.
    check_pair(Some("Hello"), "Bye", &content("Hello Hello\n"), ("modify", true, hunk));
    let (_, partial, _) = translated(&pair(Some("aa"), "b"), &content("aaa\n"));
    assert!(partial);
}

/// Metadata of agents as recorded for Gemini (`add`, `modify`) and Codex (`update`), and of version 1 drafts
/// for deleted files.
#[test]
fn metadata_of_version_1_diffs_is_used() {
    let operation = |pair: Value| translated(&pair, &FileAtHand::Unknown).0;
    let kind =
        |old: Option<&str>, new: &str, kind: &str| with(pair(old, new), "_meta", json!({"kind": kind}));
    assert_eq!(operation(kind(Some(""), "b\n", "add")), "add");
    assert_eq!(operation(kind(None, "b\n", "add")), "add");
    assert_eq!(operation(kind(Some("a\n"), "b\n", "modify")), "modify");
    assert_eq!(operation(kind(Some("a\n"), "b\n", "update")), "modify");
    assert_eq!(operation(kind(Some("a\n"), "", "delete")), "delete");
    // Contradicting texts take precedence.
    assert_eq!(operation(kind(Some("a\n"), "b\n", "add")), "modify");
    assert_eq!(operation(kind(Some("a\n"), "b\n", "delete")), "modify");
    // An existing file at the path is overwritten, regardless of the agent's claim.
    let (over, ..) = translated(&kind(Some(""), "b\n", "add"), &content("a\n"));
    assert_eq!(over, "modify");
}

#[test]
fn a_deleted_file_is_deleted() {
    let gone = pair(Some("a\n"), "");
    let expected = ("delete".to_owned(), false, "@@ -1 +0,0 @@\n-a\n".to_owned());
    for deleted in [
        with(gone.clone(), "deleted", json!(true)),
        with(gone.clone(), "_meta", json!({"deleted": true})),
        with(gone.clone(), "_meta", json!({"acp.v2/operation": "delete"})),
    ] {
        assert_eq!(translated(&deleted, &FileAtHand::Unknown), expected, "{deleted}");
        assert_eq!(translated(&deleted, &content("a\n")), expected);
    }
    // If its text is unknown, at least the path is listed.
    let unknown = with(pair(None, ""), "deleted", json!(true));
    assert_eq!(translated(&unknown, &FileAtHand::Unknown).0, "delete");
    assert_eq!(translated(&with(gone, "deleted", json!(false)), &FileAtHand::Unknown).0, "modify");
}

#[test]
fn paths_are_kept_to_the_letter() {
    for path in [
        "C:\\w\\a.txt",
        "\\\\server\\share\\a.txt",
        "C:/w/a.txt",
        "/a",
        "/w/./a//b",
        "rel.txt",
        "sub/rel.txt",
    ] {
        let diff = structured(&with(pair(Some("a"), "b"), "path", json!(path)), &FileAtHand::Unknown);
        assert_eq!(diff["changes"][0]["path"], path);
        let patch = diff["patch"]["text"].as_str().unwrap();
        let parsed = switchboard_diff::parse_patch(patch.as_bytes());
        assert_eq!(parsed.faults, [], "{patch}");
        assert_eq!(parsed.files[0].path(), path.as_bytes(), "{patch}");
    }
}

#[test]
fn metadata_and_unknown_keys_of_texts_go_along() {
    let pair = json!({"path": "/w/x", "oldText": "a", "newText": "b", "patch": 1, "deleted": 0, "note": [1.0],
        "_meta": {"kind": "update", "mine": {"a": null}, "acp.v1/partial": "old"}});
    let diff = structured(&pair, &FileAtHand::Unknown);
    assert_eq!(
        diff["_meta"],
        json!({"kind": "update", "mine": {"a": null}, "acp.v1/partial": true, "acp.v1/patch": 1})
    );
    assert_eq!((&diff["note"], &diff["deleted"]), (&json!([1.0]), &json!(0)));
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

#[derive(Debug, PartialEq)]
enum Item {
    Texts(Value),
    Words(String),
}

/// Returns the version 1 form: texts without their `type`, and words.
#[track_caller]
fn shown<'f>(diff: &Diff, file_at_hand: impl FnMut(&str) -> FileAtHand<'f>) -> Vec<Item> {
    let InV1 { items, in_words, .. } = to_v1(v2::Diff::from(diff), file_at_hand);
    let items: Vec<_> = items
        .iter()
        .map(|item| {
            let mut item: Value = serde_json::from_str(&item.encode(WireFormat::V1)).unwrap();
            match item["type"].as_str() {
                Some("diff") => {
                    item.as_object_mut().unwrap().remove("type");
                    Item::Texts(item)
                }
                _ => Item::Words(item["content"]["text"].as_str().unwrap().to_owned()),
            }
        })
        .collect();
    assert_eq!(items.iter().any(|item| matches!(item, Item::Words(_))), in_words);
    items
}

const PATCH: &str = "diff --git /w/x /w/x\n--- /w/x\n+++ /w/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n\
                     @@ -7,3 +7,3 @@\n g\n-h\n+H\n i\n";
const BEFORE: &str = "a\nb\nc\nd\ne\nf\ng\nh\ni\n";
const AFTER: &str = "a\nB\nc\nd\ne\nf\ng\nH\ni\n";

#[test]
fn whole_texts_come_from_a_file_that_matches_either_side() {
    let modified = diff(vec![change(Operation::Modify, "/w/x", None, FileType::Text)], PATCH);
    let expected = [Item::Texts(pair(Some(BEFORE), AFTER))];
    assert_eq!(shown(&modified, |_| content(BEFORE)), expected);
    assert_eq!(shown(&modified, |_| content(AFTER)), expected);
}

#[test]
fn without_such_a_file_there_is_a_pair_a_hunk() {
    let modified = diff(vec![change(Operation::Modify, "/w/x", None, FileType::Text)], PATCH);
    let expected = [
        Item::Texts(pair(Some("a\nb\nc\n"), "a\nB\nc\n")),
        Item::Texts(pair(Some("g\nh\ni\n"), "g\nH\ni\n")),
    ];
    assert_eq!(shown(&modified, |_| FileAtHand::Unknown), expected);
    assert_eq!(shown(&modified, |_| content("other\n")), expected);
    // Displaced hunks would match, but then the file is not the one that the patch was made for.
    let displaced = format!("new first line\n{BEFORE}");
    assert_eq!(shown(&modified, |_| content(&displaced)), expected);
}

#[test]
fn added_and_deleted_files_need_no_disk() {
    let patch =
        "diff --git /w/x /w/x\nnew file mode 100644\n--- /dev/null\n+++ /w/x\n@@ -0,0 +1,2 @@\n+a\n+b\n";
    let added = diff(vec![change(Operation::Add, "/w/x", None, FileType::Text)], patch);
    assert_eq!(shown(&added, |_| FileAtHand::Unknown), [Item::Texts(pair(None, "a\nb\n"))]);
    let patch =
        "diff --git /w/x /w/x\ndeleted file mode 100644\n--- /w/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
    let deleted = diff(vec![change(Operation::Delete, "/w/x", None, FileType::Text)], patch);
    let expected = Item::Texts(with(pair(Some("a\n"), ""), "_meta", json!({"acp.v2/operation": "delete"})));
    assert_eq!(shown(&deleted, |_| FileAtHand::Unknown), [expected]);
    let empty = diff(
        vec![change(Operation::Add, "/w/x", None, FileType::Text)],
        "diff --git /w/x /w/x\nnew file mode 100644\n",
    );
    assert_eq!(shown(&empty, |_| FileAtHand::Unknown), [Item::Texts(pair(None, ""))]);
}

#[test]
fn changes_without_old_and_new_texts_become_text() {
    let words = |diff: &Diff| shown(diff, |_| FileAtHand::Unknown);
    let say = |text: &str| Item::Words(text.to_owned());
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
    let expected =
        [Item::Words("Moved file /w/a to /w/x".to_owned()), Item::Texts(pair(Some("a\nb\n"), "a\nc\n"))];
    let before = |path: &str| if path == "/w/a" { content("a\nb\n") } else { FileAtHand::Absent };
    let after = |path: &str| if path == "/w/x" { content("a\nc\n") } else { FileAtHand::Absent };
    assert_eq!(shown(&moved, before), expected);
    assert_eq!(shown(&moved, after), expected);
}

#[test]
fn nothing_in_the_patch_is_lost_because_the_list_forgot_it() {
    let items = shown(&diff(Vec::new(), PATCH), |_| content(BEFORE));
    assert_eq!(items, [Item::Texts(pair(Some(BEFORE), AFTER))]);
}

/// Everything in a structured diff is in its version 1 form, or can be restored from it.
#[test]
fn remaining_details_of_a_diff_are_in_the_metadata() {
    let source = json!({
        "changes": [
            {"operation": "modify", "path": "/w/x", "fileType": "text", "mimeType": "text/x", "_meta": {"c": 1.0}, "ck": 2},
            {"operation": "_touch", "path": "/w/y", "depth": 1e3},
        ],
        "patch": {"format": "git_patch", "text": PATCH, "_meta": {"p": 3}, "pk": 4},
        "path": "mine", "dk": 5,
        "_meta": {"d": 6},
    });
    let text = source.to_string();
    let shown = to_v1(v2::Diff::decode(&text, WireFormat::Newest).unwrap(), |_| content(BEFORE));
    assert_eq!((shown.in_words, shown.in_pieces, shown.deletes), (true, false, false));
    let first: Value = serde_json::from_str(&shown.items[0].encode(WireFormat::V1)).unwrap();
    assert_eq!(first["oldText"], BEFORE);
    assert_eq!(first["dk"], 5);
    assert_eq!(
        first["_meta"],
        json!({
            "d": 6,
            "acp.v2/changes": source["changes"],
            "acp.v2/items": 2,
            "acp.v2/patch": source["patch"],
            "acp.v2/path": "mine",
        })
    );
    let second: Value = serde_json::from_str(&shown.items[1].encode(WireFormat::V1)).unwrap();
    assert_eq!(second.get("_meta"), None, "once is enough");
    // A diff without changes is still an item: an empty list would clear the content.
    let empty = v2::Diff::decode(r#"{"changes":[],"_meta":{"d":6}}"#, WireFormat::Newest).unwrap();
    let shown = to_v1(empty, |_| FileAtHand::Unknown);
    let expected = r#"{"type":"content","content":{"type":"text","text":"No file changed"},"_meta":{"d":6}}"#;
    assert_eq!(shown.items[0].encode(WireFormat::V1), expected);
}

#[test]
fn a_diff_that_texts_cannot_say_comes_back_as_it_was() {
    let rename = "diff --git /w/a /w/b\nsimilarity index 50%\nrename from /w/a\nrename to /w/b\n\
                  --- /w/a\n+++ /w/b\n@@ -1 +1 @@\n-a\n+b\n";
    let git = |text: &str| json!({"format": "git_patch", "text": text});
    let binary =
        json!({"operation": "modify", "path": "/w/logo.png", "fileType": "binary", "mimeType": "image/png"});
    for source in [
        json!({"changes": [binary]}),
        json!({"changes": [{"operation": "move", "oldPath": "/w/a", "path": "/w/b"}]}),
        json!({"changes": [{"operation": "move", "oldPath": "/w/a", "path": "/w/b"}], "patch": git(rename)}),
        json!({"changes": [{"operation": "copy", "oldPath": "/w/a", "path": "/w/b", "fileType": "text"}],
            "patch": git(&rename.replace("rename", "copy"))}),
        json!({"changes": [{"operation": "delete", "path": "/w/logo.png", "fileType": "binary"}]}),
        json!({"changes": [{"operation": "delete", "path": "/w/d", "fileType": "directory"}]}),
        json!({"changes": [{"operation": "_touch", "path": "/w/x", "depth": 3}, binary],
            "patch": {"format": "_acme", "text": "x", "_meta": {"p": 1}, "pk": 2},
            "path": "mine", "dk": 5, "_meta": {"d": 6}}),
        json!({"changes": [{"operation": "modify", "path": "/w/x", "mimeType": "text/x"}, binary], "patch": git(PATCH)}),
    ] {
        let text = source.to_string();
        let diff = v2::Diff::decode(&text, WireFormat::Newest).unwrap();
        for file in [FileAtHand::Unknown, content(BEFORE)] {
            let mut items = to_v1(diff.clone(), |_| file.clone()).items;
            let shown = items.len();
            // The next item belongs to another diff.
            items.push(v1::ToolCallContent::Content(v1::Content::new(v1::ContentBlock::text("more"))));
            assert_eq!(read_back(&items), Some((diff.clone(), shown)), "{source}");
            assert_eq!(read_back(&items[shown..]), None);
        }
    }
}

#[test]
fn changes_that_an_item_carries_count_for_more_than_its_texts() {
    let changes = json!([{"operation": "move", "oldPath": "/w/a", "path": "/w/b"}]);
    let item = json!({"type": "diff", "path": "/w/b", "oldText": "a\n", "newText": "b\n", "_meta": {"acp.v2/changes": changes}});
    let text = item.to_string();
    let item = v1::ToolCallContent::decode(&text, WireFormat::V1).unwrap();
    let (diff, count) = read_back(std::slice::from_ref(&item)).unwrap();
    assert_eq!(count, 1);
    assert!(matches!(&diff.changes[..], [v2::DiffChange::Move(_)]), "{diff:?}");
    assert!(diff.patch.unwrap().text.ends_with("-a\n+b\n"));
    for broken in [json!("no list"), json!([{"operation": "move"}]), json!(null)] {
        let mut item: Value = serde_json::from_str(&text).unwrap();
        item["_meta"]["acp.v2/changes"] = broken.clone();
        let text = item.to_string();
        let item = v1::ToolCallContent::decode(&text, WireFormat::V1).unwrap();
        assert_eq!(read_back(std::slice::from_ref(&item)), None, "{broken}");
    }
    assert_eq!(read_back(&[]), None);
    // Additions to the words are kept.
    let words = json!({"type": "content", "content": {"type": "text", "text": "Moved", "_meta": {"mine": 1}}, "_meta": {"acp.v2/changes": changes}});
    let text = words.to_string();
    let item = v1::ToolCallContent::decode(&text, WireFormat::V1).unwrap();
    assert_eq!(read_back(std::slice::from_ref(&item)), None);
}

#[test]
fn a_diff_that_texts_can_say_comes_back_as_it_was() {
    for (old, new) in [(None, "b\n"), (Some("a\n"), "b\n"), (Some("a\n"), "")] {
        let source = match (old, new) {
            (Some(_), "") => with(pair(old, new), "deleted", json!(true)),
            _ => with(pair(old, new), "_meta", json!({"mine": 1})),
        };
        let text = source.to_string();
        let file = old.map_or(FileAtHand::Absent, content);
        let once = from_v1(v1::Diff::decode(&text, WireFormat::V1).unwrap(), &file);
        let back = to_v1(once.clone(), |_| file.clone());
        let [v1::ToolCallContent::Diff(back)] = &back.items[..] else { panic!("{back:?}") };
        assert_eq!(from_v1(back.clone(), &file), once);
    }
}
