//! Diffs of a Git repository.

use std::path::{Path, PathBuf};

use switchboard_diff::{
    ApplyOptions, BinaryForm, BuildOptions, Built, Detect, Diff, Error, FileType, GitComparison,
    PatchOptions, PathForm, Problem, Renames, apply, build_from_git, check,
};

use crate::support::{
    Node, Place, Tree, git, git_apply, git_command, git_init, read_tree, run_as_other_user, tree,
};

/// A repository with one commit.
struct Repository {
    place: Place,
    root: PathBuf,
}

impl Repository {
    fn new(first: &Tree) -> Self {
        let place = Place::new();
        let root = place.write("work", first);
        git_init(&root);
        let repository = Repository { place, root };
        if !first.is_empty() {
            repository.commit();
        }
        repository
    }

    fn commit(&self) {
        git(&self.root, &["add", "--all"]);
        git(&self.root, &["commit", "--quiet", "--message", "x"]);
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    #[track_caller]
    fn build(&self, comparison: &GitComparison, options: &BuildOptions) -> Built {
        build_from_git(&self.root, comparison, options).unwrap()
    }

    fn changes(&self, diff: &Diff) -> Vec<String> {
        let root = format!("{}/", self.root.display());
        let describe = |change: &switchboard_diff::Change| {
            let from = change.old_path.as_ref().map(|path| format!("{path} ")).unwrap_or_default();
            let kind = change.file_type.as_ref().map_or("?", FileType::as_str);
            format!("{} {from}{} {kind}", change.operation, change.path).replace(&root, "")
        };
        diff.changes.iter().map(describe).collect()
    }
}

const WORK_TREE: GitComparison = GitComparison::WorkTree { untracked: false };

fn text(diff: &Diff) -> &str {
    diff.patch.as_ref().map_or("", |patch| &patch.text)
}

fn lines(count: usize) -> String {
    (0..count).map(|at| format!("line number {at}\n")).collect()
}

#[test]
fn work_tree_index_and_commits_are_compared() {
    let repository = Repository::new(&tree([("a", Node::text("1\n")), ("b", Node::text("1\n"))]));
    repository.write("a", "2\n");
    git(&repository.root, &["add", "a"]);
    repository.write("b", "2\n");
    repository.write("new", "untracked\n");
    let options = BuildOptions::default();
    let changes =
        |comparison: &GitComparison| repository.changes(&repository.build(comparison, &options).diff);
    assert_eq!(changes(&WORK_TREE), ["modify a text", "modify b text"]);
    assert_eq!(changes(&GitComparison::Staged), ["modify a text"]);
    assert_eq!(
        changes(&GitComparison::WorkTree { untracked: true }),
        ["modify a text", "modify b text", "add new text"]
    );
    // Comparing untracked files did not stage them.
    assert_eq!(git(&repository.root, &["ls-files", "new"]), b"");
    repository.commit();
    assert_eq!(changes(&WORK_TREE), Vec::<String>::new());
    assert_eq!(
        changes(&GitComparison::Range("HEAD~1..HEAD".to_owned())),
        ["modify a text", "modify b text", "add new text"]
    );
    assert_eq!(changes(&GitComparison::Range("HEAD~1".to_owned())).len(), 3);
}

#[test]
fn the_patch_has_absolute_paths_and_says_what_the_changes_say() {
    let repository = Repository::new(&tree([
        ("edit.rs", Node::text("fn main() {}\n")),
        ("move me", Node::text(lines(20))),
        ("link", Node::Symlink(b"here".to_vec())),
        ("type", Node::text("file\n")),
        ("gone", Node::text("x\n")),
        ("mode", Node::text("x\n")),
        ("logo.png", Node::text(b"\0old")),
    ]));
    let root = &repository.root;
    repository.write("edit.rs", "fn main() { run() }\n");
    std::fs::rename(root.join("move me"), root.join("moved \"me\"")).unwrap();
    std::fs::remove_file(root.join("link")).unwrap();
    std::os::unix::fs::symlink("there", root.join("link")).unwrap();
    std::fs::remove_file(root.join("type")).unwrap();
    std::os::unix::fs::symlink("link", root.join("type")).unwrap();
    std::fs::remove_file(root.join("gone")).unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(root.join("mode"), permissions).unwrap();
    repository.write("logo.png", b"\0new");
    repository.write("empty", "");
    let comparison = GitComparison::WorkTree { untracked: true };
    let built = repository.build(&comparison, &BuildOptions::default());
    assert!(built.problems.is_empty(), "{:?}", built.problems);
    assert_eq!(check(&built.diff).disagreements, []);
    assert_eq!(
        repository.changes(&built.diff),
        [
            "modify edit.rs text",
            "add empty text",
            "delete gone text",
            "modify link symlink",
            "modify logo.png binary",
            "modify mode text",
            "move move me moved \"me\" text",
            "delete type text",
            "add type symlink",
        ]
    );
    let path = root.display();
    assert!(
        text(&built.diff)
            .contains(&format!("diff --git {path}/edit.rs {path}/edit.rs\n--- {path}/edit.rs\n"))
    );
    assert!(text(&built.diff).contains(&format!("rename to \"{path}/moved \\\"me\\\"\"\n")));
    assert_eq!(built.diff.changes[0].mime_type.as_deref(), Some("text/x-rust"));

    // With binary content it transforms the commit into the work tree, with our code and with Git.
    let old = repository.place.path().join("old");
    std::fs::create_dir(&old).unwrap();
    let archive = repository.place.path().join("old.tar");
    git(root, &["archive", "--output", archive.to_str().unwrap(), "HEAD"]);
    let unpack = |to: &Path| {
        let status =
            std::process::Command::new("tar").arg("-xf").arg(&archive).current_dir(to).status().unwrap();
        assert!(status.success());
    };
    unpack(&old);
    let whole = BuildOptions {
        patch: PatchOptions { binary: BinaryForm::Content, ..PatchOptions::default() },
        ..BuildOptions::default()
    };
    let diff = repository.build(&comparison, &whole).diff;
    let options = ApplyOptions::default();
    apply(&diff, &old, &options).unwrap();
    assert_eq!(read_tree(&old), read_tree(root));
    let by_git = repository.place.path().join("by-git");
    std::fs::create_dir(&by_git).unwrap();
    unpack(&by_git);
    let relative = BuildOptions { patch: PatchOptions::for_git(), ..BuildOptions::default() };
    let diff = repository.build(&comparison, &relative).diff;
    git_apply(&by_git, &[], text(&diff).as_bytes()).unwrap();
    assert_eq!(read_tree(&by_git), read_tree(root));
}

#[test]
fn nobodys_configuration_changes_the_answer() {
    let repository = Repository::new(&tree([("a", Node::text(lines(9))), ("b", Node::text("1\n"))]));
    repository.write("a", lines(9).replace("number 4", "number four"));
    repository.write("b", "2\n");
    let plain = repository.build(&WORK_TREE, &BuildOptions::default()).diff;
    let settings = [
        ("diff.external", "false"),
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("diff.context", "9"),
        ("diff.renames", "false"),
        ("diff.algorithm", "patience"),
        ("diff.wordRegex", "."),
        ("color.ui", "always"),
        ("color.diff", "always"),
        ("core.pager", "false"),
        ("pager.diff", "false"),
        ("diff.relative", "true"),
        ("diff.orderFile", "order"),
        ("diff.suppressBlankEmpty", "true"),
        ("core.fsmonitor", "false-program"),
        ("diff.shout.textconv", "tr a-z A-Z <"),
    ];
    for (name, value) in settings {
        git(&repository.root, &["config", name, value]);
    }
    std::fs::write(repository.root.join("order"), "b\na\n").unwrap();
    git(
        &repository.root,
        &["config", "core.attributesFile", repository.root.join("attributes").to_str().unwrap()],
    );
    std::fs::write(repository.root.join("attributes"), "* diff=shout\n").unwrap();
    assert_eq!(repository.build(&WORK_TREE, &BuildOptions::default()).diff, plain);
    // From a subdirectory, the whole repository is compared as well.
    std::fs::create_dir(repository.root.join("sub")).unwrap();
    let below = build_from_git(&repository.root.join("sub"), &WORK_TREE, &BuildOptions::default()).unwrap();
    assert_eq!(below.diff, plain);
}

#[test]
fn a_repository_without_commits_is_compared_with_nothing() {
    let repository = Repository::new(&tree([]));
    repository.write("a", "1\n");
    let built = repository.build(&GitComparison::WorkTree { untracked: true }, &BuildOptions::default());
    assert_eq!(repository.changes(&built.diff), ["add a text"]);
    git(&repository.root, &["add", "a"]);
    let built = repository.build(&GitComparison::Staged, &BuildOptions::default());
    assert_eq!(repository.changes(&built.diff), ["add a text"]);
}

#[test]
fn moves_and_limits_are_as_asked() {
    let repository = Repository::new(&tree([("a", Node::text(lines(20)))]));
    std::fs::rename(repository.root.join("a"), repository.root.join("b")).unwrap();
    git(&repository.root, &["add", "--all"]);
    let with = |detect| BuildOptions {
        renames: Renames { detect, ..Renames::default() },
        ..BuildOptions::default()
    };
    let changes = |options: &BuildOptions| repository.changes(&repository.build(&WORK_TREE, options).diff);
    assert_eq!(changes(&with(Detect::Moves)), ["move a b text"]);
    assert_eq!(changes(&with(Detect::Nothing)), ["delete a text", "add b text"]);
    let small = BuildOptions {
        patch: PatchOptions { max_size: 100, ..PatchOptions::default() },
        ..with(Detect::Nothing)
    };
    let built = repository.build(&WORK_TREE, &small);
    assert_eq!(built.diff.patch, None);
    assert_eq!(built.diff.changes.len(), 2);
    assert!(matches!(built.problems[..], [Problem::PatchTooLarge { limit: 100 }]));
    // Git's text is within the limit, ours with its longer paths is not.
    let relative =
        repository.build(&WORK_TREE, &BuildOptions { patch: PatchOptions::for_git(), ..with(Detect::Moves) });
    let tight = PatchOptions { max_size: text(&relative.diff).len(), ..PatchOptions::default() };
    let built = repository.build(&WORK_TREE, &BuildOptions { patch: tight, ..with(Detect::Moves) });
    assert!(matches!(built.problems[..], [Problem::PatchTooLarge { .. }]));
}

#[test]
fn text_that_is_not_utf_8_is_binary_to_us() {
    let repository = Repository::new(&tree([("latin", Node::text(b"caf\xe9\n")), ("ok", Node::text("1\n"))]));
    repository.write("latin", b"caf\xe8\n");
    repository.write("ok", "2\n");
    let named = repository.build(&WORK_TREE, &BuildOptions::default()).diff;
    assert_eq!(repository.changes(&named), ["modify latin binary", "modify ok text"]);
    assert!(text(&named).contains("Binary files "));
    assert_eq!(check(&named).disagreements, []);
    let options = BuildOptions { patch: PatchOptions::for_git(), ..BuildOptions::default() };
    let encoded = repository.build(&WORK_TREE, &options).diff;
    assert!(text(&encoded).contains("GIT binary patch\n"), "{}", text(&encoded));
    let old = repository
        .place
        .write("old", &tree([("latin", Node::text(b"caf\xe9\n")), ("ok", Node::text("1\n"))]));
    git_apply(&old, &[], text(&encoded).as_bytes()).unwrap();
    assert_eq!(read_tree(&old), read_tree(&repository.root));
}

#[test]
fn line_ending_rules_of_the_repository_hold() {
    let repository = Repository::new(&tree([
        ("a", Node::text("1\n2\n")),
        (".gitattributes", Node::text("* text eol=crlf\n")),
    ]));
    repository.write("a", "1\r\ntwo\r\n");
    let options = BuildOptions {
        patch: PatchOptions { paths: PathForm::Relative, ..PatchOptions::default() },
        ..BuildOptions::default()
    };
    let diff = repository.build(&WORK_TREE, &options).diff;
    assert!(text(&diff).ends_with("@@ -1,2 +1,2 @@\n 1\n-2\n+two\n"), "{}", text(&diff));
}

#[test]
fn an_invalid_repository_or_range_is_an_error() {
    let place = Place::new();
    let result = build_from_git(&place.path(), &WORK_TREE, &BuildOptions::default());
    assert!(matches!(result, Err(Error::Git { action: "rev-parse", .. })), "{result:?}");
    let repository = Repository::new(&tree([("a", Node::text("1\n"))]));
    for range in ["no-such-branch", "--output=evil", "--ext-diff", ""] {
        let range = GitComparison::Range(range.to_owned());
        let result = build_from_git(&repository.root, &range, &BuildOptions::default());
        assert!(matches!(result, Err(Error::Git { action: "diff", .. })), "{range:?}: {result:?}");
    }
    assert!(!repository.root.join("evil").exists());
}

#[test]
fn a_merge_conflict_is_shown_in_the_work_tree_and_said_of_the_index() {
    let repository = Repository::new(&tree([("a", Node::text("1\n")), ("b", Node::text("1\n"))]));
    let root = &repository.root;
    git(root, &["checkout", "--quiet", "-b", "topic"]);
    repository.write("a", "topic\n");
    repository.commit();
    git(root, &["checkout", "--quiet", "main"]);
    repository.write("a", "main\n");
    repository.commit();
    let merge = git_command(root).args(["merge", "--quiet", "topic"]).output().unwrap();
    assert!(!merge.status.success());
    let work = repository.build(&WORK_TREE, &BuildOptions::default());
    assert_eq!(repository.changes(&work.diff), ["modify a text"]);
    let staged = repository.build(&GitComparison::Staged, &BuildOptions::default());
    assert_eq!(staged.diff.changes, []);
    assert!(
        matches!(&staged.problems[..], [Problem::Unmerged { path }] if *path == root.join("a")),
        "{:?}",
        staged.problems
    );
    repository.write("b", "2\n");
    git(root, &["add", "b"]);
    let staged = repository.build(&GitComparison::Staged, &BuildOptions::default());
    assert_eq!(repository.changes(&staged.diff), ["modify b text"]);
}

#[test]
fn an_unreadable_file_is_named_and_the_rest_goes_on() {
    let name = "repository::an_unreadable_file_is_named_and_the_rest_goes_on";
    if run_as_other_user(name) {
        return;
    }
    let repository = Repository::new(&tree([("a", Node::text("1\n")), ("locked", Node::text("1\n"))]));
    repository.write("a", "2\n");
    repository.write("locked", "22\n");
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o000);
    std::fs::set_permissions(repository.root.join("locked"), permissions).unwrap();
    let built = repository.build(&WORK_TREE, &BuildOptions::default());
    assert_eq!(repository.changes(&built.diff), ["modify a text"]);
    assert!(
        matches!(&built.problems[..], [Problem::Unreadable { path, .. }] if path.ends_with("locked")),
        "{:?}",
        built.problems
    );
}
