//! Parses patches of other tools.

use switchboard_diff::{
    BinaryHunk, Body, FaultKind, FileType, Header, LineKind, Mode, Operation, ParsedPatch, Similarity,
    parse_patch, write_patch,
};

/// Returns one line per section: operation, old path, new path, hunk ranges.
fn summary(patch: &ParsedPatch<'_>) -> Vec<String> {
    let path = |path: &Option<std::borrow::Cow<'_, [u8]>>| match path {
        Some(path) => path.escape_ascii().to_string(),
        None => "-".to_owned(),
    };
    let files = patch.files.iter().map(|file| {
        let hunks: String = file
            .hunks()
            .iter()
            .map(|hunk| {
                format!(" {},{}+{},{}", hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count)
            })
            .collect();
        format!("{} {} {}{hunks}", file.operation, path(&file.old_path), path(&file.new_path))
    });
    files.collect()
}

/// Parses text without faults, and writes it back unchanged.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let patch = parse_patch(text.as_bytes());
    assert_eq!(patch.faults, []);
    assert_eq!(summary(&patch), expected);
    let mut written = write_patch(&patch.files);
    written.extend_from_slice(patch.trailer);
    assert_eq!(String::from_utf8(written).unwrap(), text);
}

#[track_caller]
fn check_faults(text: &str, faults: &[(usize, FaultKind)], expected: &[&str]) {
    let patch = parse_patch(text.as_bytes());
    let found: Vec<_> = patch.faults.iter().map(|fault| (fault.line, fault.kind.clone())).collect();
    assert_eq!(found, faults);
    assert_eq!(summary(&patch), expected);
}

const HUNK: &str = "@@ -1,2 +1,2 @@\n a\n-b\n+c\n";

#[test]
fn diffs_of_real_agents_are_read_without_loss() {
    // From published agents: absolute paths, and one with relative ones.
    check(
        "diff --git /w/src/greet.py /w/src/greet.py\n--- /w/src/greet.py\n+++ /w/src/greet.py\n\
         @@ -1,4 +1,4 @@\n def greet(name):\n-    return f\"Hello, {name}!\"\n\
         +    return f\"Good morning, {name}!\"\n \n print(greet(\"ACP\"))\n",
        &["modify /w/src/greet.py /w/src/greet.py 1,4+1,4"],
    );
    check(
        &format!("diff --git a/src/greet.py b/src/greet.py\n--- a/src/greet.py\n+++ b/src/greet.py\n{HUNK}"),
        &["modify src/greet.py src/greet.py 1,2+1,2"],
    );
    // JavaScript's common diff library, with its separator line and labels.
    let rule = "=".repeat(67);
    check(
        &format!("Index: /w/greet.py\n{rule}\n--- /w/greet.py\n+++ /w/greet.py\n{HUNK}"),
        &["modify /w/greet.py /w/greet.py 1,2+1,2"],
    );
    check(
        &format!(
            "Index: notes.txt\n{rule}\n--- notes.txt\tOriginal\n+++ notes.txt\tWritten\n@@ -0,0 +1,2 @@\n+a\n+b\n"
        ),
        &["modify notes.txt notes.txt 0,0+1,2"],
    );
    check(
        "diff --git /w/a /w/b\nsimilarity index 100%\nrename from /w/a\nrename to /w/b\n\
         diff --git /w/n /w/n\nnew file mode 100644\n--- /dev/null\n+++ /w/n\n@@ -0,0 +1 @@\n+x\n",
        &["move /w/a /w/b", "add - /w/n 0,0+1,1"],
    );
}

#[test]
fn prefixes_are_told_from_names() {
    let both = |old: &str, new: &str| format!("diff --git {old} {new}\n--- {old}\n+++ {new}\n{HUNK}");
    check(&both("a/x", "b/x"), &["modify x x 1,2+1,2"]);
    check(&both("i/x", "w/x"), &["modify x x 1,2+1,2"]);
    check(&both("x", "x"), &["modify x x 1,2+1,2"]);
    check(&both("a/x", "a/x"), &["modify a/x a/x 1,2+1,2"]);
    check(&both("old/sub/x", "new/sub/x"), &["modify sub/x sub/x 1,2+1,2"]);
    check(&both("/a/x", "/a/x"), &["modify /a/x /a/x 1,2+1,2"]);
    // A move from a directory named a to one named b, without prefixes.
    check("diff --git a/x b/x\nsimilarity index 100%\nrename from a/x\nrename to b/x\n", &["move a/x b/x"]);
    check(
        "diff --git a/a/x b/b/x\nsimilarity index 100%\nrename from a/x\nrename to b/x\n",
        &["move a/x b/x"],
    );
}

#[test]
fn names_with_blanks_and_quotes_are_split() {
    check("diff --git a/a b b/a b\nold mode 100644\nnew mode 100755\n", &["modify a b a b"]);
    check("diff --git a/x b/x b/x b/x\nold mode 100644\nnew mode 100755\n", &["modify x b/x x b/x"]);
    check("diff --git \"a/tab\\t\" \"b/tab\\t\"\nnew file mode 100644\n", &["add - tab\\t"]);
    check(
        "diff --git a/plain \"b/quo\\\"te\"\nsimilarity index 90%\nrename from plain\nrename to \"quo\\\"te\"\n",
        &["move plain quo\\\"te"],
    );
    check(&format!("diff --git a/a b b/a b\n--- a/a b\t\n+++ b/a b\t\n{HUNK}"), &["modify a b a b 1,2+1,2"]);
    let octal = parse_patch(b"diff --git \"a/\\303\\274\" \"b/\\303\\274\"\ndeleted file mode 100644\n");
    assert_eq!(octal.files[0].path(), "ü".as_bytes());
}

#[test]
fn header_lines_say_what_they_say() {
    let text = "diff --git a/old b/new\nold mode 100644\nnew mode 100755\nsimilarity index 83%\n\
                copy from old\ncopy to new\nindex 0123abc..4567def\n--- a/old\n+++ b/new\n\
                @@ -3,2 +3,2 @@ fn heading() {\n a\n-b\n+c\n";
    check(text, &["copy old new 3,2+3,2"]);
    let patch = parse_patch(text.as_bytes());
    let file = &patch.files[0];
    assert_eq!((file.old_mode, file.new_mode), (Some(Mode::FILE), Some(Mode::EXECUTABLE)));
    assert_eq!(file.similarity, Some(Similarity::Alike(83)));
    assert_eq!(&*file.index.as_ref().unwrap().new, b"4567def");
    assert_eq!(&*file.hunks()[0].heading, b"fn heading() {");
    check(
        &format!("diff --git a/l b/l\nindex 0123abc..4567def 120000\n--- a/l\n+++ b/l\n{HUNK}"),
        &["modify l l 1,2+1,2"],
    );
    check(
        &format!(
            "diff --git a/l b/l\ndissimilarity index 95%\nindex 0123abc..4567def 100644\n--- a/l\n+++ b/l\n{HUNK}"
        ),
        &["modify l l 1,2+1,2"],
    );
}

#[test]
fn lines_have_their_numbers() {
    let text = "--- a/x\n+++ b/x\n@@ -10,4 +20,4 @@\n one\n-two\n-three\n+2\n+3\n four\n";
    let patch = parse_patch(text.as_bytes());
    let lines: Vec<_> = patch.files[0].hunks()[0]
        .lines
        .iter()
        .map(|line| (line.kind, line.old_number, line.new_number, line.text().into_owned()))
        .collect();
    let line = |kind, old, new, text: &str| (kind, old, new, text.to_owned());
    assert_eq!(
        lines,
        [
            line(LineKind::Context, Some(10), Some(20), "one"),
            line(LineKind::Removed, Some(11), None, "two"),
            line(LineKind::Removed, Some(12), None, "three"),
            line(LineKind::Added, None, Some(21), "2"),
            line(LineKind::Added, None, Some(22), "3"),
            line(LineKind::Context, Some(13), Some(23), "four"),
        ]
    );
    let intraline = patch.files[0].hunks()[0].intraline();
    assert_eq!(intraline.len(), 6);
}

#[test]
fn the_missing_last_line_feed_belongs_to_the_line_before() {
    let text = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n";
    check(text, &["modify x x 1,2+1,2"]);
    let patch = parse_patch(text.as_bytes());
    let newlines: Vec<bool> = patch.files[0].hunks()[0].lines.iter().map(|line| line.newline).collect();
    assert_eq!(newlines, [true, false, false]);
}

#[test]
fn carriage_returns_stay_in_lines_and_not_in_names() {
    let text = "diff --git a/x b/x\r\n--- a/x\r\n+++ b/x\r\n@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+c\r\n";
    let patch = parse_patch(text.as_bytes());
    assert_eq!(patch.faults, []);
    assert_eq!(patch.files[0].path(), b"x");
    assert_eq!(patch.files[0].hunks()[0].lines[1].content, b"b\r");
}

#[test]
fn mail_is_read_around_the_patch() {
    check(
        &format!(
            "From 0123456789 Mon Sep 17 00:00:00 2001\nFrom: A <a@example.com>\nSubject: [PATCH] Change b\n\n\
             It was wrong.\n---\n x | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n\n\
             diff --git a/x b/x\n--- a/x\n+++ b/x\n{HUNK}-- \n2.47.3\n\n"
        ),
        &["modify x x 1,2+1,2"],
    );
    // Two mails in one file.
    check(
        &format!(
            "From 1 Mon\nSubject: one\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n{HUNK}-- \n2.47.3\n\n\
             From 2 Mon\nSubject: two\n\n---\n y | 2 +-\n\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n{HUNK}-- \n2.47.3\n"
        ),
        &["modify x x 1,2+1,2", "modify y y 1,2+1,2"],
    );
}

#[test]
fn other_tools_are_read() {
    check(
        &format!(
            "diff -ruN old/sub/x new/sub/x\n--- old/sub/x\t2024-01-01 00:00:00.000000000 +0000\n\
             +++ new/sub/x\t2024-01-02 00:00:00.000000000 +0000\n{HUNK}Only in new: y\n\
             Binary files old/z and new/z differ\n"
        ),
        &["modify sub/x sub/x 1,2+1,2", "modify z z"],
    );
    check(&format!("--- x.orig\n+++ x\n{HUNK}"), &["modify x x 1,2+1,2"]);
    check("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", &["add - x 0,0+1,1"]);
    check("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", &["delete x - 1,1+0,0"]);
}

#[test]
fn empty_context_lines_may_have_lost_their_blank() {
    let patch = parse_patch(b"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n");
    assert_eq!(patch.faults, []);
    let line = patch.files[0].hunks()[0].lines[1];
    assert_eq!((line.kind, line.content), (LineKind::Context, &b""[..]));
}

#[test]
fn lines_that_look_like_headers_are_counted_as_lines() {
    check(
        "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/y\n-@@ -1 +1 @@\n+++ b/y\n+diff --git a/z b/z\n\
         @@ -9 +9 @@\n-- \n+++ c\n",
        &["modify x x 1,2+1,2 9,1+9,1"],
    );
}

#[test]
fn binary_sections_are_read() {
    let named = "diff --git a/x b/x\nindex 0123abc..4567def 100644\nBinary files a/x and b/x differ\n";
    check(named, &["modify x x"]);
    let patch = parse_patch(named.as_bytes());
    assert_eq!(patch.files[0].file_type(), Some(FileType::Binary));
    let data = |content: &[u8]| {
        let hunk = BinaryHunk::literal(content);
        format!("literal {}\n{}\n", hunk.size, String::from_utf8(hunk.encoded.to_vec()).unwrap())
    };
    let content = format!(
        "diff --git a/x b/x\nnew file mode 100644\nindex 0000000..4567def\nGIT binary patch\n{}{}",
        data(&[0; 999]),
        data(b"")
    );
    check(&content, &["add - x"]);
    let patch = parse_patch(content.as_bytes());
    let Body::BinaryContent { forward, backward: Some(_) } = &patch.files[0].body else {
        panic!("{patch:?}")
    };
    assert_eq!(forward.content(b"", 1000), Some(vec![0; 999]));
}

#[test]
fn a_fault_has_its_line_and_the_rest_is_read() {
    let good = format!("diff --git a/good b/good\n--- a/good\n+++ b/good\n{HUNK}");
    let good_summary = "modify good good 1,2+1,2";
    let early = FaultKind::HunkEndsEarly { old_missing: 1, new_missing: 0 };
    check_faults(
        &format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,2 @@\n a\n-b\n+c\n{good}"),
        &[(8, early.clone())],
        &["modify x x 1,2+1,2", good_summary],
    );
    check_faults(
        &format!("--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n-b\n+c\n--- a/y\n+++ b/y\n{HUNK}"),
        &[(7, FaultKind::HunkEndsEarly { old_missing: 7, new_missing: 7 })],
        &["modify x x 1,2+1,2", "modify y y 1,2+1,2"],
    );
    check_faults(
        &format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-b\n+c\n+d\n+e\n{good}"),
        &[(7, FaultKind::LineOutsideHunk)],
        &["modify x x 1,1+1,1", good_summary],
    );
    check_faults(
        &format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ ... @@\n a\n-b\n+c\n{HUNK}{good}"),
        &[(4, FaultKind::HunkHeader)],
        &["modify x x 1,2+1,2", good_summary],
    );
    check_faults(&format!("{HUNK}{good}"), &[(1, FaultKind::HunkWithoutFile)], &[good_summary]);
    check_faults(
        &format!("diff --git a/x b/x\n--- a/x\n@@ -1 +1 @@\n-a\n+b\n{good}"),
        &[(2, FaultKind::MissingNewName)],
        &["modify x x 1,1+1,1", good_summary],
    );
    check_faults(
        &format!("diff --git \"a/x b/x\n--- \"a/x\n+++ b/x\n{HUNK}{good}"),
        &[(1, FaultKind::NoName), (2, FaultKind::Quoting), (4, FaultKind::HunkWithoutFile)],
        &[good_summary],
    );
    check_faults(
        &format!("diff --git a/x b/x\nnew file mode 100644\ndeleted file mode 100644\n{good}"),
        &[(1, FaultKind::Contradiction)],
        &[good_summary],
    );
    check_faults(
        &format!("diff --git a/x b/x\nnew file mode 10x\n{good}"),
        &[(2, FaultKind::Mode)],
        &["add - x", good_summary],
    );
    check_faults(
        &format!(
            "diff --git a/x b/x\nsimilarity index 120%\nindex zz..yy\nold mode 100644\nnew mode 100755\n{good}"
        ),
        &[(2, FaultKind::HeaderValue), (3, FaultKind::HeaderValue)],
        &["modify x x", good_summary],
    );
    check_faults(
        &format!("diff --git one two three\nold mode 100644\nnew mode 100755\n{good}"),
        &[(1, FaultKind::NoName)],
        &[good_summary],
    );
    check_faults(
        &format!(
            "diff --cc x\nindex 1,2..3\n--- a/x\n+++ b/x\n@@@ -1,1 -1,1 +1,1 @@@\n- a\n -b\n++c\n{good}"
        ),
        &[(1, FaultKind::Combined)],
        &[good_summary],
    );
    check_faults(
        &format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -99999999999 +1 @@\n-a\n+b\n{good}"),
        &[(4, FaultKind::NumberTooLarge)],
        &["modify x x", good_summary],
    );
    check_faults(
        &format!("diff --git a/x b/x\nGIT binary patch\nnonsense\n\n{good}"),
        &[(3, FaultKind::Binary)],
        &["modify x x", good_summary],
    );
    check_faults("no patch at all\n", &[(1, FaultKind::NoPatch)], &[]);
    check_faults("", &[], &[]);
}

#[test]
fn a_claim_of_many_lines_takes_no_memory() {
    let patch = parse_patch(b"--- a/x\n+++ b/x\n@@ -1,4000000000 +1,4000000000 @@\n a\n");
    assert!(patch.files[0].hunks()[0].lines.capacity() <= 1024);
    assert_eq!(patch.faults.len(), 1);
}

#[test]
fn plain_headers_keep_their_labels() {
    let patch = parse_patch(b"--- x\t2024\n+++ x\t2025\n@@ -1 +1 @@\n-a\n+b\n");
    assert_eq!(patch.files[0].header, Header::Plain { old_label: b"x\t2024", new_label: b"x\t2025" });
    assert_eq!(patch.files[0].operation, Operation::Modify);
}
