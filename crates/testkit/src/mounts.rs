//! Tests on special file systems.

use std::path::Path;
use std::process::Command;

/// Kind of mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mount {
    /// An empty file system of so many megabytes.
    Small(usize),
    /// The existing content, read-only even for root.
    ReadOnly,
}

/// Runs one test of the current test program in a new process with a mounted folder. The environment
/// variable, which other tests do not have, names the folder. The test must pass and print `done`.
///
/// Prints a note and does nothing where mounting is not possible.
///
/// ```no_run
/// use switchboard_testkit::{Mount, run_on_mount};
///
/// let folder = std::env::temp_dir();
/// run_on_mount(Mount::Small(8), &folder, "ALMOST_FULL", "disks::child_on_a_small_disk", "wrote everything");
/// ```
pub fn run_on_mount(mount: Mount, folder: &Path, variable: &str, test: &str, done: &str) {
    let mount = match mount {
        Mount::Small(megabytes) => format!("mount -t tmpfs -o size={megabytes}m none \"$1\""),
        Mount::ReadOnly => "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\"".to_owned(),
    };
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", &format!("{mount} && shift && exec \"$@\""), "sh"])
        .arg(folder)
        .arg(std::env::current_exe().expect("a running program has a file"))
        .args(["--exact", test, "--nocapture"])
        .env(variable, folder)
        .output();
    let complaints = match output {
        Err(error) => error.to_string(),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
            if !complaints.lines().any(|line| line.starts_with("unshare:") || line.starts_with("mount:")) {
                assert!(output.status.success() && said.contains(done), "{test}: {said}{complaints}");
                return;
            }
            complaints
        }
    };
    println!("skipped: nothing can be mounted here: {complaints}");
}
