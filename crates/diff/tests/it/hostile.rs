//! Malicious patches.

use std::path::Path;

use switchboard_diff::{
    ApplyOptions, Change, Diff, Error, FileType, NotApplicable, Operation, PathReason, apply, apply_patch,
};

use crate::support::{Node, Place, read_tree, tree};

/// A directory with a root in it and a valuable file next to it.
struct Victim {
    place: Place,
    root: std::path::PathBuf,
}

impl Victim {
    fn new() -> Self {
        let place = Place::new();
        let root = place.write("root", &tree([("x", Node::text("a\n")), ("sub/y", Node::text("a\n"))]));
        place.write("outside", &tree([("secret", Node::text("a\n"))]));
        std::os::unix::fs::symlink("../outside", root.join("link")).unwrap();
        std::os::unix::fs::symlink("sub", root.join("inner")).unwrap();
        std::fs::create_dir(root.join(".git")).unwrap();
        std::fs::write(root.join(".git/config"), "a\n").unwrap();
        Victim { place, root }
    }

    /// Applies a patch, which must fail without changing anything.
    #[track_caller]
    fn attack(&self, text: &str) -> Error {
        let everything = |victim: &Victim| {
            (read_tree(&victim.place.path()), std::fs::read(victim.root.join(".git/config")).unwrap())
        };
        let before = everything(self);
        let error = apply_patch(text.as_bytes(), &self.root, &ApplyOptions::default()).unwrap_err();
        assert_eq!(everything(self), before);
        assert_eq!(std::fs::read_dir(self.root.join(".git")).unwrap().count(), 1);
        error
    }

    #[track_caller]
    fn refuses(&self, path: &str, expected: PathReason) {
        // Written, edited, deleted, moved away, moved there, copied from: every way to reference it.
        let quoted = quote(path);
        let attempts = [
            format!(
                "diff --git {quoted} {quoted}\nnew file mode 100644\n--- /dev/null\n+++ {quoted}\n@@ -0,0 +1 @@\n+evil\n"
            ),
            format!("diff --git {quoted} {quoted}\n--- {quoted}\n+++ {quoted}\n@@ -1 +1 @@\n-a\n+evil\n"),
            format!(
                "diff --git {quoted} {quoted}\ndeleted file mode 100644\n--- {quoted}\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
            ),
            format!("diff --git {quoted} y\nsimilarity index 100%\nrename from {quoted}\nrename to y\n"),
            format!("diff --git x {quoted}\nsimilarity index 100%\nrename from x\nrename to {quoted}\n"),
            format!("diff --git {quoted} y\nsimilarity index 100%\ncopy from {quoted}\ncopy to y\n"),
            format!("diff --git {quoted} {quoted}\nold mode 100644\nnew mode 100755\n"),
        ];
        for text in attempts {
            match self.attack(&text) {
                Error::RefusedPath { reason, .. } => assert_eq!(reason, expected, "{text}"),
                other => panic!("{other}\n{text}"),
            }
        }
    }
}

fn quote(path: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in path.bytes() {
        quoted.push_str(&format!("\\{byte:03o}"));
    }
    quoted + "\""
}

#[test]
fn paths_outside_the_root_are_refused() {
    let victim = Victim::new();
    let secret = victim.place.path().join("outside/secret");
    victim.refuses(secret.to_str().unwrap(), PathReason::OutsideRoot);
    victim.refuses("/etc/passwd", PathReason::OutsideRoot);
    victim.refuses(&format!("{}-beside/x", victim.root.display()), PathReason::OutsideRoot);
    victim.refuses("../outside/secret", PathReason::Parent);
    victim.refuses("sub/../../outside/secret", PathReason::Parent);
    victim.refuses("sub/../x", PathReason::Parent);
    victim.refuses(&format!("{}/../outside/secret", victim.root.display()), PathReason::Parent);
}

#[test]
fn links_are_not_followed() {
    let victim = Victim::new();
    victim.refuses("link/secret", PathReason::BehindSymlink);
    victim.refuses("inner/y", PathReason::BehindSymlink);
    victim.refuses(&format!("{}/link/secret", victim.root.display()), PathReason::BehindSymlink);
}

#[test]
fn git_directories_are_refused_in_every_disguise() {
    let victim = Victim::new();
    for name in
        [".git", ".GIT", ".gIt", "GIT~1", "git~2", ".git ", ".git.", ".git...", ".g\u{200c}it", ".git:x"]
    {
        victim.refuses(&format!("{name}/config"), PathReason::Git);
        victim.refuses(&format!("sub/{name}/hooks/post-checkout"), PathReason::Git);
    }
    victim.refuses(".git\\config", PathReason::Git);
    victim.refuses(".git", PathReason::Git);
}

#[test]
fn names_that_are_none_are_refused() {
    let victim = Victim::new();
    victim.refuses("nul\0byte", PathReason::Nul);
    victim.refuses("./", PathReason::Empty);
    victim.refuses(".", PathReason::Empty);
    victim.refuses(&format!("{}/", victim.root.display()), PathReason::Empty);
}

#[test]
fn devices_and_pipes_are_refused() {
    let victim = Victim::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        victim.root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_bits_retain(0o600),
        0,
    )
    .unwrap();
    // Not through `attack`: reading the whole directory would block on the pipe.
    let text = "diff --git a/pipe b/pipe\n--- a/pipe\n+++ b/pipe\n@@ -1 +1 @@\n-a\n+b\n";
    let error = apply_patch(text.as_bytes(), &victim.root, &ApplyOptions::default()).unwrap_err();
    assert!(matches!(error, Error::RefusedPath { reason: PathReason::Device, .. }), "{error}");
    let error = apply_patch(
        b"diff --git a/null b/null\n--- a/null\n+++ b/null\n@@ -1 +1 @@\n-a\n+b\n",
        Path::new("/dev"),
        &ApplyOptions::default(),
    )
    .unwrap_err();
    assert!(matches!(error, Error::RefusedPath { reason: PathReason::Device, .. }), "{error}");
}

#[test]
fn a_patch_cannot_make_a_link_and_write_through_it() {
    let victim = Victim::new();
    let link = "diff --git a/new b/new\nnew file mode 120000\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+../outside\n\\ No newline at end of file\n";
    let through = "diff --git a/new/secret b/new/secret\nnew file mode 100644\n--- /dev/null\n+++ b/new/secret\n@@ -0,0 +1 @@\n+evil\n";
    for text in [format!("{link}{through}"), format!("{through}{link}")] {
        let error = victim.attack(&text);
        assert!(matches!(error, Error::RefusedPath { reason: PathReason::BehindSymlink, .. }), "{error}");
    }
    // Nor through a file that it creates.
    let file = link.replace("120000", "100644");
    let error = victim.attack(&format!("{file}{through}"));
    assert!(matches!(error, Error::RefusedPath { reason: PathReason::BehindFile, .. }), "{error}");
}

#[test]
fn odd_modes_are_refused() {
    let victim = Victim::new();
    for mode in ["160000", "040000", "060644", "020644", "0"] {
        let text =
            format!("diff --git a/n b/n\nnew file mode {mode}\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n");
        let error = victim.attack(&text);
        assert!(
            matches!(error, Error::NotApplicable { reason: NotApplicable::UnsupportedMode, .. }),
            "{mode}: {error}"
        );
    }
    // A patch must not set the set-user-id bit: such a file is a regular executable.
    let text = "diff --git a/n b/n\nnew file mode 104755\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n";
    apply_patch(text.as_bytes(), &victim.root, &ApplyOptions::default()).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(victim.root.join("n")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o7000, 0);
}

#[test]
fn binary_bombs_are_bounded() {
    let victim = Victim::new();
    let zeros = switchboard_diff::BinaryHunk::literal(&vec![0; 1 << 20]);
    let encoded = String::from_utf8(zeros.encoded.to_vec()).unwrap();
    let text = |size: u64| {
        format!(
            "diff --git a/n b/n\nnew file mode 100644\nGIT binary patch\nliteral {size}\n{encoded}\nliteral 0\nHc$@<O00001\n\n"
        )
    };
    let options = ApplyOptions { max_file_size: 1 << 16, ..ApplyOptions::default() };
    for size in [1 << 20, 1 << 10, u64::MAX] {
        let error = apply_patch(text(size).as_bytes(), &victim.root, &options).unwrap_err();
        assert!(
            matches!(error, Error::NotApplicable { reason: NotApplicable::BrokenBinaryContent, .. }),
            "{error}"
        );
    }
}

#[test]
fn changes_are_checked_as_strictly_as_patches() {
    let victim = Victim::new();
    let run = |path: &str, operation: Operation| {
        let change = Change {
            operation,
            path: path.to_owned(),
            old_path: None,
            file_type: Some(FileType::Directory),
            mime_type: None,
        };
        let diff = Diff { changes: vec![change], ..Diff::default() };
        apply(&diff, &victim.root, &ApplyOptions::default()).unwrap_err()
    };
    let root = victim.root.display();
    for (path, expected) in [
        ("/somewhere/else".to_owned(), PathReason::OutsideRoot),
        (format!("{root}/../new"), PathReason::Parent),
        (format!("{root}/.git/new"), PathReason::Git),
        (format!("{root}/link/new"), PathReason::BehindSymlink),
        (format!("{root}/x/new"), PathReason::BehindFile),
    ] {
        let error = run(&path, Operation::Add);
        assert!(matches!(error, Error::RefusedPath { reason, .. } if reason == expected), "{path}: {error}");
    }
    let error = run(&format!("{root}/link"), Operation::Delete);
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    assert!(!victim.place.path().join("new").exists());
}

#[test]
fn a_root_that_is_a_link_is_the_callers_choice() {
    let victim = Victim::new();
    let alias = victim.place.path().join("alias");
    std::os::unix::fs::symlink(&victim.root, &alias).unwrap();
    // Both names of the root are accepted in absolute paths.
    for root in [&alias, &victim.root] {
        let path = root.join("x");
        let path = path.display();
        let text = format!("diff --git {path} {path}\n--- {path}\n+++ {path}\n@@ -1 +1 @@\n-a\n+b\n");
        apply_patch(text.as_bytes(), &alias, &ApplyOptions::default()).unwrap();
        std::fs::write(victim.root.join("x"), "a\n").unwrap();
    }
}
