//! The program `bwrap`: lookup, version, and reasons of its failures.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Oldest version with `--disable-userns`.
const OLDEST: (u32, u32) = (0, 8);

/// A usable bubblewrap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bubblewrap {
    pub(crate) path: PathBuf,
    pub(crate) version: String,
}

impl Bubblewrap {
    /// Looks it up in the system's folders, then in the search path, but never inside a folder of the session.
    pub(crate) fn find(roots: &[PathBuf]) -> Result<Self, String> {
        let system = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from);
        let others = std::env::var_os("PATH");
        let others = others.iter().flat_map(std::env::split_paths).filter(|folder| folder.is_absolute());
        let found = system.into_iter().chain(others).map(|folder| folder.join("bwrap")).find(|path| {
            let real = path.canonicalize();
            path.is_file() && real.is_ok_and(|real| !roots.iter().any(|root| real.starts_with(root)))
        });
        let path =
            found.ok_or("bubblewrap is not installed (there is no `bwrap` in /usr/bin or the PATH)")?;
        let output = Command::new(&path)
            .arg("--version")
            .env_clear()
            .output()
            .map_err(|error| format!("cannot run {}: {error}", path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        match parse_version(&version) {
            Some(found) if found >= OLDEST => Ok(Bubblewrap { path, version }),
            Some(_) => Err(format!("{} is version {version}, but 0.8 or newer is needed", path.display())),
            None => Err(format!("{} --version does not print a version", path.display())),
        }
    }
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(|number| number.parse::<u32>().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Reads a number from a file of the kernel.
fn kernel_setting(path: &str) -> Option<u64> {
    std::fs::read_to_string(Path::new(path)).ok()?.trim().parse().ok()
}

/// Returns advice for a failure of bubblewrap.
pub(crate) fn advice(message: &str) -> Option<String> {
    let setting = kernel_setting;
    if message.contains("not installed") || message.contains("or newer is needed") {
        return Some("install your distribution's package `bubblewrap`, version 0.8 or newer".to_owned());
    }
    let is_about_namespaces = message.contains("namespace") || message.contains("No permissions");
    if !is_about_namespaces {
        return None;
    }
    Some(if setting("/proc/sys/user/max_user_namespaces") == Some(0) {
        "user namespaces are switched off: sysctl user.max_user_namespaces=10000".to_owned()
    } else if setting("/proc/sys/kernel/unprivileged_userns_clone") == Some(0) {
        "user namespaces are switched off: sysctl kernel.unprivileged_userns_clone=1".to_owned()
    } else if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
        "AppArmor keeps user namespaces from programs without a profile: install your distribution's bubblewrap"
            .to_owned()
    } else {
        "in a container, its seccomp profile may forbid namespaces; Switchboard cannot confine agents there"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(parse_version("0.8.0"), Some((0, 8)));
        assert!(parse_version("0.11.0") > parse_version("0.8.0"));
        assert_eq!(parse_version("bubblewrap"), None);
        assert_eq!(parse_version(""), None);
    }

    #[test]
    fn advice_is_for_known_failures_only() {
        assert!(advice("bubblewrap is not installed (…)").is_some_and(|text| text.contains("package")));
        assert!(advice("bwrap: No permissions to create a new namespace").is_some());
        assert_eq!(advice("the disk is full"), None);
    }
}
