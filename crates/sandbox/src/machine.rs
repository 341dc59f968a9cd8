//! The parts of this machine that a sandbox needs.

use std::process::Command;

use crate::bubblewrap::{self, Bubblewrap};
use crate::scopes;

/// Returns the lines about the machine for `doctor`: the name of a check, and a version or the reason why it fails.
pub fn machine() -> Vec<(&'static str, Result<String, String>)> {
    let bubblewrap = Bubblewrap::find(&[]);
    let advised = |reason: String| match bubblewrap::advice(&reason) {
        Some(advice) => format!("{reason}; {advice}"),
        None => reason,
    };
    let namespaces = bubblewrap.clone().and_then(|bubblewrap| {
        let output = Command::new(&bubblewrap.path)
            .args([
                "--unshare-user",
                "--unshare-pid",
                "--unshare-net",
                "--ro-bind",
                "/",
                "/",
                "--proc",
                "/proc",
                "true",
            ])
            .env_clear()
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok("user, process and network namespaces".to_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    });
    let scopes = if scopes::are_there() {
        Ok("scopes (ABI 6 or newer)".to_owned())
    } else {
        Err("no scopes: they need Linux 6.12".to_owned())
    };
    vec![
        (
            "bubblewrap",
            bubblewrap.map(|found| format!("{} ({})", found.version, found.path.display())).map_err(advised),
        ),
        ("namespaces", namespaces.map_err(advised)),
        ("Landlock", scopes),
    ]
}
