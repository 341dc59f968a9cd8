//! Trees in memory and on disk, and a Git without user configuration.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One file of a tree.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Node {
    File { content: Vec<u8>, is_executable: bool },
    Symlink(Vec<u8>),
}

impl Node {
    pub(crate) fn text(content: impl AsRef<[u8]>) -> Self {
        Node::File { content: content.as_ref().to_vec(), is_executable: false }
    }

    pub(crate) fn program(content: impl AsRef<[u8]>) -> Self {
        Node::File { content: content.as_ref().to_vec(), is_executable: true }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::File { content, is_executable } => {
                write!(formatter, "{}\"{}\"", if *is_executable { "x" } else { "" }, content.escape_ascii())
            }
            Node::Symlink(target) => write!(formatter, "-> {}", target.escape_ascii()),
        }
    }
}

/// A tree of files by relative path. Directories exist only as parents of files.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Tree(pub(crate) BTreeMap<Vec<u8>, Node>);

impl fmt::Debug for Tree {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(path, node)| (path.escape_ascii().to_string(), node));
        formatter.debug_map().entries(names).finish()
    }
}

impl std::ops::Deref for Tree {
    type Target = BTreeMap<Vec<u8>, Node>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::ops::DerefMut for Tree {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

pub(crate) fn tree<'a>(files: impl IntoIterator<Item = (&'a str, Node)>) -> Tree {
    Tree(files.into_iter().map(|(path, node)| (path.as_bytes().to_vec(), node)).collect())
}

/// A temporary directory with trees, removed when dropped.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    /// Returns the directory with links resolved, as in absolute paths of diffs.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    /// Writes a tree into a new directory of that name.
    pub(crate) fn write(&self, name: &str, tree: &Tree) -> PathBuf {
        let root = self.path().join(name);
        std::fs::create_dir(&root).unwrap();
        for (path, node) in &**tree {
            let path = root.join(OsStr::from_bytes(path));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            match node {
                Node::File { content, is_executable } => {
                    std::fs::write(&path, content).unwrap();
                    let mode = if *is_executable { 0o755 } else { 0o644 };
                    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
                }
                Node::Symlink(target) => {
                    std::os::unix::fs::symlink(OsStr::from_bytes(target), &path).unwrap();
                }
            }
        }
        root
    }
}

/// Reads a tree from disk. Skips `.git`.
pub(crate) fn read_tree(root: &Path) -> Tree {
    let mut tree = Tree::default();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name() == Some(OsStr::new(".git")) {
                continue;
            }
            let metadata = path.symlink_metadata().unwrap();
            let relative = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            if metadata.is_dir() {
                open.push(path);
            } else if metadata.is_symlink() {
                let target = std::fs::read_link(&path).unwrap();
                tree.insert(relative, Node::Symlink(target.as_os_str().as_bytes().to_vec()));
            } else {
                let is_executable = metadata.permissions().mode() & 0o100 != 0;
                tree.insert(relative, Node::File { content: std::fs::read(&path).unwrap(), is_executable });
            }
        }
    }
    tree
}

/// Returns the names of all directories below a root.
pub(crate) fn directories(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() {
                found.push(path.strip_prefix(root).unwrap().to_owned());
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Creates a `git` command in a directory, without user configuration.
pub(crate) fn git_command(directory: &Path) -> Command {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"GIT_") {
            command.env_remove(name);
        }
    }
    command
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap())
        .env("GIT_AUTHOR_NAME", "A")
        .env("GIT_AUTHOR_EMAIL", "a@example.com")
        .env("GIT_COMMITTER_NAME", "A")
        .env("GIT_COMMITTER_EMAIL", "a@example.com")
        .env("LC_ALL", "C");
    command
}

/// Runs Git and returns its output. Panics on failure.
#[track_caller]
pub(crate) fn git(directory: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = git_command(directory).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Applies a patch with Git. Fails with its message.
pub(crate) fn git_apply(directory: &Path, arguments: &[&str], patch: &[u8]) -> Result<(), String> {
    let mut child = git_command(directory)
        .args(["apply", "--whitespace=nowarn"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Git reads all input before it reports errors, so this does not block.
    child.stdin.take().unwrap().write_all(patch).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Creates an empty repository.
pub(crate) fn git_init(directory: &Path) {
    git(directory, &["init", "--quiet", "--template=", "--initial-branch=main"]);
}

/// Runs the test of this name as another user if this process is root, who can read everything. Returns true
/// if it did.
pub(crate) fn run_as_other_user(test: &str) -> bool {
    use std::os::unix::process::CommandExt as _;

    let place = Place::new();
    if std::os::unix::fs::MetadataExt::uid(&place.path().metadata().unwrap()) != 0 {
        return false;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact"])
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .output();
    // Unless other users cannot access the test binary.
    if let Ok(output) = output {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    true
}
