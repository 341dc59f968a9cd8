//! Selection of another Rust version.

use std::process::Command;

use crate::run;

/// Makes cargo use this version (`1.88.0`), with rustup if it is not the current one. Fails with the reason.
pub(crate) fn choose(version: &str, cargo: &mut Command) -> Result<(), String> {
    let present =
        Command::new("rustc").arg("--version").output().map_err(|error| format!("rustc: {error}"))?;
    let patches = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    if is_of(&String::from_utf8_lossy(&present.stdout), patches) {
        return Ok(());
    }
    run(Command::new("rustup").args([
        "toolchain",
        "install",
        version,
        "--profile",
        "minimal",
        "--no-self-update",
    ]))
    .map_err(|error| format!("Rust {version} cannot be installed: {error}"))?;
    cargo.env("RUSTUP_TOOLCHAIN", version);
    Ok(())
}

/// Returns whether the output of `rustc --version` has this minor version.
fn is_of(said: &str, minor: &str) -> bool {
    said.strip_prefix("rustc ")
        .and_then(|rest| rest.strip_prefix(minor))
        .is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::is_of;

    #[test]
    fn a_minor_version_is_not_the_beginning_of_another() {
        assert!(is_of("rustc 1.95.0 (59807616e 2026-04-14)", "1.95"));
        assert!(is_of("rustc 1.95.2-nightly", "1.95"));
        assert!(!is_of("rustc 1.95.0", "1.9"));
        assert!(!is_of("rustc 1.88.0", "1.95"));
    }
}
