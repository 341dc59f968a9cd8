//! The packages, a registry that has them, and processes that install and run them.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// No step takes longer.
const PATIENCE: Duration = Duration::from_secs(120);
/// From an empty home to the page, with the packages of a release.
const TO_THE_PAGE: Duration = Duration::from_secs(30);

/// The folder of the packages of a release, if they are what is tested.
const OF_RELEASE: &str = "SWITCHBOARD_PACKAGES";

pub(crate) fn successful(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The folder with the packages, which are made once.
pub(crate) fn packages() -> &'static Path {
    static PACKAGES: OnceLock<PathBuf> = OnceLock::new();
    PACKAGES.get_or_init(|| {
        if let Some(folder) = std::env::var_os(OF_RELEASE) {
            return folder.into();
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
        let _ = std::fs::remove_dir_all(&folder);
        successful(
            Command::new(env!("CARGO"))
                .args(["xtask", "dist", "--program", env!("CARGO_BIN_EXE_switchboard"), "--to"])
                .arg(&folder)
                .current_dir(repository()),
        );
        folder
    })
}

/// The only file of the packages whose name ends so.
pub(crate) fn file(end: &str) -> PathBuf {
    let files = std::fs::read_dir(packages()).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> = files.filter(|path| path.to_string_lossy().ends_with(end)).collect();
    assert_eq!(found.len(), 1, "{end}: {found:?}");
    found[0].clone()
}

/// An empty home, with nothing of this machine but the programs on the `PATH`.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Home { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path())
            .current_dir(self.path())
            .stdin(Stdio::null());
        command
    }

    /// All files below the home that have our name in their path, but not the store and not caches of others.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        let listed = text(&successful(
            Command::new("find")
                .arg(self.path())
                .args([
                    "(",
                    "-path",
                    "*/.npm",
                    "-o",
                    "-path",
                    "*/.cache",
                    "-o",
                    "-path",
                    "*/.local/share/switchboard",
                    ")",
                    "-prune",
                ])
                .args(["-o", "-ipath", "*switchboard*", "-print"]),
        ));
        listed.lines().map(PathBuf::from).collect()
    }
}

/// A registry on loopback with the packages of a folder.
pub(crate) struct Registry {
    process: Child,
    pub(crate) url: String,
}

impl Registry {
    pub(crate) fn start(folder: &Path) -> Self {
        let mut process = Command::new(env!("CARGO"))
            .args(["xtask", "dist", "--registry"])
            .arg(folder)
            .current_dir(repository())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("http://127.0.0.1:"), "{line}");
        Registry { process, url: line.trim().to_owned() }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A command that runs, with everything it starts in one process group. It is killed when it takes too long.
pub(crate) struct Running {
    pub(crate) process: Child,
    output: BufReader<ChildStdout>,
    begin: Instant,
    guard: Option<(Sender<()>, std::thread::JoinHandle<bool>)>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let begin = Instant::now();
        let mut process = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (done, wait) = channel::<()>();
        let group = format!("-{}", process.id());
        let guard = std::thread::spawn(move || {
            let is_late = wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
            if is_late {
                let _ = Command::new("kill").args(["-s", "KILL", "--", &group]).status();
            }
            is_late
        });
        Running { process, output, begin, guard: Some((done, guard)) }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Reads the link of `open`, and the page behind it.
    pub(crate) fn page(&mut self, way: &str) {
        let link = self.line();
        assert!(link.starts_with("http://127.0.0.1:"), "{way}: {link:?}");
        let page = text(&successful(Command::new("curl").args(["-fsSL", "--cookie", "", &link])));
        assert!(page.contains("<title>"), "{way}: {page}");
        let time = self.begin.elapsed();
        println!("{way}: from an empty home to the page in {} ms", time.as_millis());
        // Packages of a debug build are several times as large.
        assert!(std::env::var_os(OF_RELEASE).is_none() || time < TO_THE_PAGE, "{way}: {time:?}");
    }

    pub(crate) fn signal(&self, name: &str) {
        crate::agent_program::signal(name, self.process.id());
    }

    /// Waits until every process that has the output is gone, and returns the exit code of the first, or the number of its signal
    /// and 128.
    pub(crate) fn end(mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let status = self.process.wait().unwrap();
        let (done, guard) = self.guard.take().unwrap();
        drop(done);
        assert!(!guard.join().unwrap(), "some process stayed: {rest}");
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.guard.is_some() {
            let group = format!("-{}", self.process.id());
            let _ = Command::new("kill").args(["-s", "KILL", "--", &group]).status();
            let _ = self.process.wait();
        }
    }
}
