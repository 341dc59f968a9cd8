//! Arbitrary text never causes a panic, and text parsed without faults is written such that it parses the
//! same.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use switchboard_acp::v2;
use switchboard_diff::{
    Change, Diff, Direction, FileAtHand, FileType, PatchText, apply_to_bytes, check, parse_patch, stat,
    to_v1, write_patch,
};

/// Lines of valid and invalid patches.
const LINES: [&str; 44] = [
    "diff --git a/x b/x",
    "diff --git /w/x /w/x",
    "diff --git x y z",
    "diff --git \"a/t\\t\" \"b/t\\t\"",
    "diff --git \"a/t",
    "diff --cc x",
    "index 0123456..789abcd 100644",
    "index 0..1",
    "old mode 100644",
    "new mode 100755",
    "new file mode 120000",
    "deleted file mode 100644",
    "similarity index 90%",
    "rename from x",
    "rename to y",
    "copy from x",
    "copy to \"y\\n\"",
    "--- a/x",
    "+++ b/x",
    "--- /dev/null",
    "+++ /dev/null",
    "--- x\tOriginal",
    "+++ \"b/q\\\"\"\t2024",
    "@@ -1 +1 @@",
    "@@ -1,2 +1,2 @@ fn main()",
    "@@ -0,0 +1,2 @@",
    "@@ -4294967290,9 +1 @@",
    "@@ broken @@",
    "@@@ -1 -1 +1 @@@",
    " context",
    "-removed",
    "+added",
    "- ",
    "+\r",
    "",
    "\\ No newline at end of file",
    "-- ",
    "Binary files a/x and b/x differ",
    "GIT binary patch",
    "literal 3",
    "delta 7",
    "Kc$@<O00001",
    "Hc$@<O00001",
    "From 0123 Mon Sep 17 00:00:00 2001",
];

fn text() -> impl Strategy<Value = Vec<u8>> {
    let lines = vec(select(LINES.to_vec()), 0..40).prop_map(|lines| lines.join("\n").into_bytes());
    let spoiled = (lines.clone(), vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)).prop_map(
        |(mut text, bytes)| {
            for (at, byte) in bytes {
                if !text.is_empty() {
                    let at = at.index(text.len());
                    text[at] = byte;
                }
            }
            text
        },
    );
    prop_oneof![4 => lines, 3 => spoiled, 1 => vec(any::<u8>(), 0..200)]
}

/// Returns the number of cases, from `PROPTEST_CASES` if set.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(3000)
}

/// Bytes that are displayed as text.
struct Text(Vec<u8>);

impl std::fmt::Debug for Text {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.0.escape_ascii())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read(text in text().prop_map(Text), content in text().prop_map(Text)) {
        let (Text(text), Text(content)) = (text, content);
        let patch = parse_patch(&text);
        let written = write_patch(&patch.files);
        // With other text between sections, it is ambiguous which section it belongs to.
        if patch.faults.is_empty() && patch.files.iter().all(|file| file.preamble.is_empty()) {
            let again = parse_patch(&written);
            prop_assert_eq!(&again.faults, &[]);
            let twice = write_patch(&again.files);
            prop_assert!(twice == written, "{}\n---\n{}", written.escape_ascii(), twice.escape_ascii());
            prop_assert_eq!(again.files.len(), patch.files.len());
        }
        for file in &patch.files {
            for hunk in file.hunks() {
                for (line, ranges) in hunk.lines.iter().zip(hunk.intraline()) {
                    prop_assert!(ranges.iter().all(|range| line.content.get(range.clone()).is_some()));
                }
            }
            for direction in [Direction::Forward, Direction::Backward] {
                let _ = apply_to_bytes(file, Some(&content), direction);
                let _ = apply_to_bytes(file, None, direction);
            }
        }
        let changes = patch.files.iter().take(3).map(|file| Change {
            operation: file.operation.clone(),
            path: format!("/w/{}", String::from_utf8_lossy(file.path())),
            old_path: None,
            file_type: Some(FileType::Text),
            mime_type: None,
        });
        let diff = Diff {
            changes: changes.collect(),
            patch: Some(PatchText::git(String::from_utf8_lossy(&text))),
            ..Diff::default()
        };
        check(&diff);
        prop_assert_eq!(stat(&diff).len(), diff.changes.len());
        to_v1(v2::Diff::from(&diff), |_| FileAtHand::Content((&content[..]).into()));
    }
}

#[test]
fn long_lines_and_many_faults_are_bounded() {
    let blanks = format!("diff --git {}\nold mode 100644\nnew mode 100755\n", "a ".repeat(500_000));
    assert_eq!(parse_patch(blanks.as_bytes()).faults.len(), 1);
    let faults = "@@ -1 +1 @@\n".repeat(100_000);
    assert_eq!(parse_patch(faults.as_bytes()).faults.len(), 1000);
}
