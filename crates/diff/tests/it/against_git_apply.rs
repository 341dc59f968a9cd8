//! Random trees and edits. Git verifies our patches, and we parse Git's.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use switchboard_diff::{
    ApplyOptions, BinaryForm, BuildOptions, Detect, Diff, Direction, Operation, PatchOptions, PathForm,
    Renames, apply, apply_patch, build_from_trees, check, parse_patch, write_patch,
};

use crate::support::{Node, Place, Tree, directories, git, git_apply, git_init, read_tree};

/// Names that are difficult in patches: blanks at the ends, quotes, escapes, other alphabets, invalid UTF-8,
/// names that look like options, headers or prefixes.
const PATHS: [&[u8]; 24] = [
    b"plain.txt",
    b"sub/plain.txt",
    b"sub/deep/er/code.rs",
    b"a/b",
    b"b/a",
    b"a b",
    b"a/x b/x",
    b" leading",
    b"trailing ",
    b"-dash",
    b"tab\there",
    b"new\nline",
    b"quo\"te",
    b"back\\slash",
    "gr\u{fc}\u{df}e.md".as_bytes(),
    "e\u{301}/\u{65e5}\u{672c}.txt".as_bytes(),
    b"latin\xe9.txt",
    b"bell\x07",
    b"dev/null",
    b"other/dev/null",
    b"empty",
    b"run.sh",
    b"x and y",
    b".hidden/file",
];

fn line() -> impl Strategy<Value = Vec<u8>> {
    let text = select(vec![
        "",
        "a",
        "b",
        "}",
        "fn main() {",
        "    return 1;",
        "--- a/x",
        "+++ b/x",
        "@@ -1 +1 @@",
        "\\ No newline",
        "diff --git a/x b/x",
        "-- ",
        "From here on",
        "\u{65e5}\u{672c}\u{8a9e}",
        "\ttabbed",
        "trailing  ",
        "a longer line that makes files alike enough to count as moved",
    ]);
    (text, select(vec!["\n", "\n", "\n", "\r\n"])).prop_map(|(text, end)| format!("{text}{end}").into_bytes())
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let text = (vec(line(), 0..25), any::<bool>()).prop_map(|(lines, keep)| {
        let mut text = lines.concat();
        if !keep && text.ends_with(b"\n") {
            text.pop();
        }
        text
    });
    prop_oneof![
        8 => text,
        1 => vec(any::<u8>(), 0..400),
        1 => Just(Vec::new()),
        1 => vec(line(), 1..5).prop_map(|lines| [&lines.concat()[..], b"\0"].concat()),
        1 => vec(line(), 1..5).prop_map(|lines| [b"caf\xe9\n", &lines.concat()[..]].concat()),
    ]
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![
        8 => (content(), prop::bool::weighted(0.2))
            .prop_map(|(content, is_executable)| Node::File { content, is_executable }),
        1 => select(vec![&b"plain.txt"[..], b"../outside", b"/etc/passwd", b"new\nline", b"caf\xe9"])
            .prop_map(|target| Node::Symlink(target.to_vec())),
    ]
}

#[derive(Debug, Clone)]
enum Edit {
    Put(&'static [u8], Node),
    Remove(usize),
    Move(usize, &'static [u8]),
    Copy(usize, &'static [u8]),
    ChangeMode(usize),
    Replace(usize, usize, Vec<u8>),
    Insert(usize, usize, Vec<u8>),
    Cut(usize, usize),
    CutEnd(usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let path = || select(PATHS.to_vec());
    let at = || 0..64usize;
    prop_oneof![
        2 => (path(), node()).prop_map(|(path, node)| Edit::Put(path, node)),
        2 => at().prop_map(Edit::Remove),
        3 => (at(), path()).prop_map(|(at, path)| Edit::Move(at, path)),
        2 => (at(), path()).prop_map(|(at, path)| Edit::Copy(at, path)),
        1 => at().prop_map(Edit::ChangeMode),
        3 => (at(), at(), line()).prop_map(|(at, line, text)| Edit::Replace(at, line, text)),
        3 => (at(), at(), line()).prop_map(|(at, line, text)| Edit::Insert(at, line, text)),
        2 => (at(), at()).prop_map(|(at, line)| Edit::Cut(at, line)),
        1 => at().prop_map(Edit::CutEnd),
    ]
}

/// Returns true if a path can be added to a tree: no file is in place of a directory or the reverse.
fn has_room(tree: &Tree, path: &[u8]) -> bool {
    let is_below =
        |lower: &[u8], upper: &[u8]| lower.strip_prefix(upper).is_some_and(|rest| rest.starts_with(b"/"));
    !tree.keys().any(|other| is_below(other, path) || is_below(path, other))
}

fn make_tree(nodes: Vec<(&'static [u8], Node)>) -> Tree {
    let mut tree = Tree::default();
    for (path, node) in nodes {
        if has_room(&tree, path) {
            tree.insert(path.to_vec(), node);
        }
    }
    tree
}

fn edit_tree(old: &Tree, edits: &[Edit]) -> Tree {
    let mut tree = old.clone();
    for edit in edits {
        let nth = |at: usize| tree.keys().nth(at % tree.len().max(1)).cloned();
        let lines = |path: &Vec<u8>| match tree.get(path) {
            Some(Node::File { content, .. }) => {
                content.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect()
            }
            _ => Vec::new(),
        };
        let change = |tree: &mut Tree, path: &Vec<u8>, new: Vec<Vec<u8>>| {
            if let Some(Node::File { content, .. }) = tree.get_mut(path) {
                *content = new.concat();
            }
        };
        match edit {
            Edit::Put(path, node) => {
                // Also in place of a directory, or of a file above it.
                let is_below = |lower: &[u8], upper: &[u8]| {
                    lower.strip_prefix(upper).is_some_and(|rest| rest.starts_with(b"/"))
                };
                tree.retain(|other, _| !is_below(other, path) && !is_below(path, other));
                tree.insert(path.to_vec(), node.clone());
            }
            Edit::Remove(at) => _ = nth(*at).and_then(|path| tree.remove(&path)),
            Edit::Move(at, path) => {
                if let Some(from) = nth(*at) {
                    let node = tree.remove(&from).unwrap();
                    let to = if has_room(&tree, path) { path.to_vec() } else { from };
                    tree.insert(to, node);
                }
            }
            Edit::Copy(at, path) => {
                if let Some(from) = nth(*at)
                    && has_room(&tree, path)
                {
                    let node = tree[&from].clone();
                    tree.insert(path.to_vec(), node);
                }
            }
            Edit::ChangeMode(at) => {
                if let Some(path) = nth(*at)
                    && let Some(Node::File { is_executable, .. }) = tree.get_mut(&path)
                {
                    *is_executable = !*is_executable;
                }
            }
            Edit::Replace(at, line, text) | Edit::Insert(at, line, text) => {
                if let Some(path) = nth(*at) {
                    let mut new: Vec<Vec<u8>> = lines(&path);
                    let line = line % (new.len() + 1);
                    if matches!(edit, Edit::Insert(..)) || line == new.len() {
                        new.insert(line, text.clone());
                    } else {
                        new[line].clone_from(text);
                    }
                    change(&mut tree, &path, new);
                }
            }
            Edit::Cut(at, line) => {
                if let Some(path) = nth(*at) {
                    let mut new: Vec<Vec<u8>> = lines(&path);
                    if !new.is_empty() {
                        new.remove(line % new.len());
                        change(&mut tree, &path, new);
                    }
                }
            }
            Edit::CutEnd(at) => {
                if let Some(path) = nth(*at)
                    && let Some(Node::File { content, .. }) = tree.get_mut(&path)
                {
                    content.pop();
                }
            }
        }
    }
    tree
}

#[derive(Debug, Clone)]
struct Case {
    old: Tree,
    new: Tree,
    renames: Renames,
    context: u32,
}

fn case() -> impl Strategy<Value = Case> {
    let nodes = vec((select(PATHS.to_vec()), node()), 0..10);
    let detect = select(vec![Detect::Nothing, Detect::Moves, Detect::Copies, Detect::CopiesOfAll]);
    let threshold = select(vec![50, 50, 30, 90, 100]);
    (nodes, vec(edit(), 0..10), detect, threshold, 0..5u32).prop_map(
        |(nodes, edits, detect, threshold, context)| {
            let old = make_tree(nodes);
            let new = edit_tree(&old, &edits);
            Case { old, new, renames: Renames { detect, threshold, ..Renames::default() }, context }
        },
    )
}

/// Returns the configuration, with the number of cases from `PROPTEST_CASES` if set.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(96);
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 400, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn git_takes_our_patches_and_so_do_we(case in case()) {
        our_patches_hold(&case);
    }

    #[test]
    fn we_read_and_apply_the_patches_of_git(case in case()) {
        patches_of_git_hold(&case);
    }
}

fn our_patches_hold(case: &Case) {
    let place = Place::new();
    let old = place.write("old", &case.old);
    let new = place.write("new", &case.new);
    let relative = BuildOptions {
        renames: case.renames,
        patch: PatchOptions { context: case.context, ..PatchOptions::for_git() },
        ..BuildOptions::default()
    };
    let built = build_from_trees(&old, &new, &relative).unwrap();
    assert!(built.problems.iter().all(|problem| !problem.is_omission()), "{:?}", built.problems);
    assert_eq!(built.diff.patch.is_none(), case.old == case.new);
    let text = built.diff.patch.as_ref().map_or("", |patch| &patch.text);
    let patch = text.as_bytes();

    // Git needs a flag to accept patches without context.
    let zero = usize::from(case.context == 0);
    // Without context, Git confuses a last line without newline with an earlier equal one, in its own patches
    // too, so it cannot verify those.
    let git_is_sure = zero == 0 || !text.contains("\\ No newline at end of file");
    // Git creates the new tree from the old one, and the old one from the new one.
    if !patch.is_empty() && git_is_sure {
        let by_git = place.write("by-git", &case.old);
        git_apply(&by_git, &["--unidiff-zero"][..zero], patch)
            .unwrap_or_else(|complaint| panic!("{complaint}\n{text}"));
        assert_eq!(read_tree(&by_git), case.new, "{text}");
        let back_by_git = place.write("back-by-git", &case.new);
        if git_can_undo(&built.diff, case) {
            git_apply(&back_by_git, &["-R", "--unidiff-zero"][..1 + zero], patch)
                .unwrap_or_else(|complaint| panic!("{complaint}\n{text}"));
            assert_eq!(read_tree(&back_by_git), case.old, "{text}");
        }
    }

    // So do we.
    let by_us = place.write("by-us", &case.old);
    apply_patch(patch, &by_us, &ApplyOptions::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(read_tree(&by_us), case.new, "{text}");
    assert_eq!(directories(&by_us), directories(&new));
    let backward = ApplyOptions { direction: Direction::Backward, ..ApplyOptions::default() };
    apply_patch(patch, &by_us, &backward).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(read_tree(&by_us), case.old, "{text}");
    assert_eq!(directories(&by_us), directories(&old));

    // Parsing returns what was written.
    let parsed = parse_patch(patch);
    assert_eq!(parsed.faults, []);
    assert_eq!(String::from_utf8(write_patch(&parsed.files)).unwrap(), text);
    // Relative paths with Git's prefixes are only notes.
    assert_eq!(check(&built.diff).disagreements, [], "{text}");

    // ACP's form is equivalent.
    let absolute = BuildOptions {
        patch: PatchOptions {
            paths: PathForm::Absolute,
            binary: BinaryForm::Content,
            ..relative.patch.clone()
        },
        ..relative.clone()
    };
    let built_absolute = build_from_trees(&old, &new, &absolute).unwrap().diff;
    assert_eq!(built_absolute.changes, built.diff.changes);
    assert_eq!(check(&built_absolute).disagreements, []);
    let elsewhere = place.write("elsewhere", &case.old);
    let moved =
        ApplyOptions { base: built_absolute.root.as_ref().map(Into::into), ..ApplyOptions::default() };
    apply(&built_absolute, &elsewhere, &moved).unwrap_or_else(|error| panic!("{error}\n{built_absolute:?}"));
    assert_eq!(read_tree(&elsewhere), case.new);
    let backward = ApplyOptions { direction: Direction::Backward, ..moved };
    apply(&built_absolute, &elsewhere, &backward)
        .unwrap_or_else(|error| panic!("{error}\n{built_absolute:?}"));
    assert_eq!(read_tree(&elsewhere), case.old);
    let named =
        BuildOptions { patch: PatchOptions { binary: BinaryForm::Named, ..absolute.patch }, ..absolute };
    assert_eq!(check(&build_from_trees(&old, &new, &named).unwrap().diff).disagreements, []);
    same_model(&old, &new, &relative);
}

/// Returns true if `git apply -R` can undo it: it treats copies as moves, and restores every deleted file as
/// a regular one.
fn git_can_undo(diff: &Diff, case: &Case) -> bool {
    let root = diff.root.as_ref().unwrap().len() + 1;
    diff.changes.iter().all(|change| match change.operation {
        Operation::Copy => false,
        Operation::Delete => {
            matches!(
                case.old.get(&change.path.as_bytes()[root..]),
                Some(Node::File { is_executable: false, .. })
            )
        }
        _ => true,
    })
}

/// Checks that the parsed model does not depend on the form of names.
fn same_model(old: &Path, new: &Path, relative: &BuildOptions) {
    let absolute = BuildOptions {
        patch: PatchOptions { paths: PathForm::Absolute, ..relative.patch.clone() },
        ..relative.clone()
    };
    let text = |options| build_from_trees(old, new, options).unwrap().diff.patch.map(|patch| patch.text);
    let (first, second) = (text(relative).unwrap_or_default(), text(&absolute).unwrap_or_default());
    let (first, second) = (parse_patch(first.as_bytes()), parse_patch(second.as_bytes()));
    assert_eq!(first.files.len(), second.files.len());
    for (first, second) in first.files.iter().zip(&second.files) {
        assert_eq!(
            (&first.operation, first.old_mode, first.new_mode, &first.similarity, &first.body),
            (&second.operation, second.old_mode, second.new_mode, &second.similarity, &second.body)
        );
        assert!(second.path().ends_with(first.path()));
    }
}

fn patches_of_git_hold(case: &Case) {
    let place = Place::new();
    let work = place.write("work", &case.old);
    git_init(&work);
    git(&work, &["add", "--all"]);
    let old_tree = String::from_utf8(git(&work, &["write-tree"])).unwrap();
    std::fs::rename(work.join(".git"), place.path().join("git")).unwrap();
    std::fs::remove_dir_all(&work).unwrap();
    let work = place.write("work", &case.new);
    std::fs::rename(place.path().join("git"), work.join(".git")).unwrap();
    git(&work, &["add", "--all"]);

    let threshold = case.renames.threshold;
    let detect = match case.renames.detect {
        Detect::Nothing => "--no-renames".to_owned(),
        Detect::Moves => format!("-M{threshold}%"),
        Detect::Copies | Detect::CopiesOfAll => format!("-C{threshold}%"),
    };
    let mut arguments = vec!["diff", "--cached", "--binary", &detect];
    if case.renames.detect == Detect::CopiesOfAll {
        arguments.push("--find-copies-harder");
    }
    arguments.push(old_tree.trim());
    let with = |setting: &'static str| {
        let mut all = vec!["-c", setting];
        all.extend(&arguments);
        git(&work, &all)
    };
    let plain = with("core.quotePath=false");
    let parsed = parse_patch(&plain);
    assert_eq!(parsed.faults, []);
    assert_eq!(parsed.trailer, b"");
    let text = String::from_utf8_lossy(&plain);
    // We escape names that are not UTF-8 like Git escapes all names that are not ASCII.
    if str::from_utf8(&plain).is_ok() {
        assert_eq!(String::from_utf8_lossy(&write_patch(&parsed.files)), text);
    }
    let quoted = with("core.quotePath=true");
    assert_eq!(parse_patch(&quoted).files, parsed.files);
    for (setting, prefixes) in [("diff.noprefix=true", ["", ""]), ("diff.mnemonicPrefix=true", ["c/", "i/"])]
    {
        let other = with(setting);
        let other = parse_patch(&other);
        assert_eq!(other.faults, []);
        let paths = |patch: &switchboard_diff::ParsedPatch<'_>| -> Vec<_> {
            patch.files.iter().map(|file| (file.operation.clone(), file.path().to_vec())).collect()
        };
        assert_eq!(paths(&other), paths(&parsed), "{setting}, prefixes {prefixes:?}\n{text}");
    }

    let by_us = place.write("by-us", &case.old);
    apply_patch(&plain, &by_us, &ApplyOptions::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(read_tree(&by_us), case.new, "{text}");
    let backward = ApplyOptions { direction: Direction::Backward, ..ApplyOptions::default() };
    apply_patch(&plain, &by_us, &backward).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(read_tree(&by_us), case.old, "{text}");

    same_operations(case, &place, &parsed);
}

/// Checks that we detect the same moves and copies as Git.
fn same_operations(case: &Case, place: &Place, parsed: &switchboard_diff::ParsedPatch<'_>) {
    let (old, new) = (place.write("old", &case.old), place.write("new", &case.new));
    let options =
        BuildOptions { renames: case.renames, patch: PatchOptions::for_git(), ..BuildOptions::default() };
    let ours = build_from_trees(&old, &new, &options)
        .unwrap()
        .diff
        .patch
        .unwrap_or_else(|| switchboard_diff::PatchText::git(""));
    let ours = parse_patch(ours.text.as_bytes());
    let operations = |patch: &switchboard_diff::ParsedPatch<'_>| -> BTreeSet<String> {
        let describe = |path: &Option<std::borrow::Cow<'_, [u8]>>| {
            path.as_deref().unwrap_or_default().escape_ascii().to_string()
        };
        let files = patch.files.iter();
        files
            .map(|file| {
                format!(
                    "{} {} {} {:?}",
                    file.operation,
                    describe(&file.old_path),
                    describe(&file.new_path),
                    file.similarity
                )
            })
            .collect()
    };
    assert_eq!(operations(&ours), operations(parsed));
}
