//! The browser process.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::Visitor;
use crate::connection::Connection;

/// Names of the Chromium program.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

const FLAGS: [&str; 16] = [
    "--headless=new",
    // Chromium writes to descriptor 4 and reads from 3. It exits when the other end of 3 is closed.
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    // Every tab counts as visible.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
];

/// Runs Chromium with the pipes on the expected descriptors, and removes its profile after any kind of exit.
const SCRIPT: &str = r#"profile=$1; shift; "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1; rm -rf "$profile""#;

/// A headless Chromium with a profile of its own.
///
/// It ends when this value is dropped, or with the process that holds it, even if that is killed: its pipe
/// breaks then.
#[derive(Debug)]
pub struct Browser {
    connection: Arc<Connection>,
    /// The shell that waits for it.
    shell: Child,
    profile: PathBuf,
}

impl Browser {
    /// Returns the browser that all tests of a process share.
    #[must_use]
    pub fn shared() -> &'static Browser {
        static SHARED: OnceLock<Browser> = OnceLock::new();
        SHARED.get_or_init(Browser::start)
    }

    /// Starts another one.
    ///
    /// # Panics
    ///
    /// If Chromium is not installed or does not start.
    #[must_use]
    pub fn start() -> Browser {
        let program = find("CHROMIUM", &NAMES).unwrap_or_else(|| {
            panic!(
                "no Chromium found: install it (on Debian: apt-get install chromium), or name it in CHROMIUM; \
                 looked for {} in PATH",
                NAMES.join(", ")
            )
        });
        let profile = tempfile::Builder::new()
            .prefix("switchboard-browser-")
            .tempdir()
            .expect("a folder for the profile");
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "browser-of-tests"])
            .arg(profile.path())
            .arg(&program)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("a shell");
        // From here on the shell removes it.
        let profile = profile.keep();
        let stdin = shell.stdin.take().expect("standard input is piped");
        let stdout = shell.stdout.take().expect("standard output is piped");
        let browser = Browser { connection: Connection::start(stdin, stdout), shell, profile };
        if let Err(error) = browser.connection.call(None, "Browser.getVersion", &serde_json::json!({})) {
            panic!("{} does not start: {error}", program.display());
        }
        browser
    }

    /// Returns its profile folder.
    #[must_use]
    pub fn profile(&self) -> &Path {
        &self.profile
    }

    /// Creates a visitor without cookies and storage.
    #[must_use]
    pub fn visitor(&self) -> Visitor {
        Visitor::new(&self.connection)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.connection.close(Duration::from_secs(10))
            && let Some(group) = i32::try_from(self.shell.id()).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.shell.wait();
    }
}

/// Finds a program: the one in an environment variable, or the first of some names in the path.
pub(crate) fn find(variable: &str, names: &[&str]) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(variable) {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let mut places =
        names.iter().flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)));
    places.find(|place| place.is_file())
}
