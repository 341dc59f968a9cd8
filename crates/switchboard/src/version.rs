//! `switchboard --version --json`: the build and the package that it came in.

use std::path::Path;

use serde_json::{Value, json};

/// The commit, where `cargo xtask dist` built the program.
const COMMIT: Option<&str> = option_env!("SWITCHBOARD_COMMIT");

/// The way in which the program was installed. All packages have the same bytes, so the path tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    Npm,
    PyPi,
    Deb,
    Homebrew,
    /// The archive, by hand, by the install script or by `cargo binstall`.
    Archive,
    /// Built with Cargo from source.
    Source,
}

impl Channel {
    fn of(program: &Path) -> Self {
        let has = |name: &str| program.components().any(|part| part.as_os_str() == name);
        let folder = program.parent().unwrap_or(Path::new("/"));
        if has("node_modules") && has("@switchboard-acp") {
            Channel::Npm
        } else if folder.join("switchboard-acp").is_file() && folder.join("../pyvenv.cfg").is_file()
            || is_in_site_packages(folder)
        {
            Channel::PyPi
        } else if program == Path::new("/usr/bin/switchboard")
            && Path::new("/var/lib/dpkg/info/switchboard-acp.list").exists()
        {
            Channel::Deb
        } else if has("Cellar") {
            Channel::Homebrew
        } else if COMMIT.is_some() {
            Channel::Archive
        } else {
            Channel::Source
        }
    }

    fn name(self) -> &'static str {
        match self {
            Channel::Npm => "npm",
            Channel::PyPi => "pypi",
            Channel::Deb => "deb",
            Channel::Homebrew => "homebrew",
            Channel::Archive => "archive",
            Channel::Source => "source",
        }
    }
}

/// Returns whether pip installed the program outside a virtual environment: its files are then below `../lib/python3.X`.
fn is_in_site_packages(folder: &Path) -> bool {
    let library = folder.join("../lib");
    let pythons = std::fs::read_dir(library).into_iter().flatten().flatten();
    let pythons = pythons.filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"));
    pythons.into_iter().any(|entry| {
        let packages = ["site-packages", "dist-packages"];
        packages.iter().any(|packages| entry.path().join(packages).join("switchboard_acp").is_dir())
    })
}

/// Returns the target triple of this build, for the platforms that have packages.
fn target() -> String {
    let system = match std::env::consts::OS {
        "linux" if cfg!(target_env = "musl") => "unknown-linux-musl",
        "linux" => "unknown-linux-gnu",
        "macos" => "apple-darwin",
        other => other,
    };
    format!("{}-{system}", std::env::consts::ARCH)
}

/// Returns whether the arguments request the version as JSON.
pub(crate) fn is_asked_as_json(arguments: impl Iterator<Item = std::ffi::OsString>) -> bool {
    let arguments: Vec<_> = arguments.collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    arguments.len() == 2 && has("--json") && (has("--version") || has("-V"))
}

/// Returns version, commit, target, features and channel of this program.
pub(crate) fn as_json() -> Value {
    let features = [("jetstream", switchboard_hub::HAS_JETSTREAM), ("otlp", cfg!(feature = "otlp"))];
    let features: Vec<&str> = features.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name).collect();
    let channel = std::env::current_exe().map_or(Channel::Source, |program| Channel::of(&program));
    json!({
        "name": "switchboard",
        "version": env!("CARGO_PKG_VERSION"),
        "commit": COMMIT,
        "target": target(),
        "features": features,
        "channel": channel.name(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channel_is_told_by_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let program = |path: &str| {
            let program = folder.path().join(path);
            std::fs::create_dir_all(program.parent().unwrap()).unwrap();
            std::fs::write(&program, "").unwrap();
            program
        };
        let npm = program("lib/node_modules/@switchboard-acp/linux-x64/bin/switchboard");
        assert_eq!(Channel::of(&npm), Channel::Npm);
        let plain = program("plain/bin/switchboard");
        assert_eq!(Channel::of(&plain), Channel::Source);
        let pypi = program("venv/bin/switchboard");
        program("venv/bin/switchboard-acp");
        program("venv/pyvenv.cfg");
        assert_eq!(Channel::of(&pypi), Channel::PyPi);
        let user = program("local/bin/switchboard");
        program("local/lib/python3.11/site-packages/switchboard_acp/__init__.py");
        assert_eq!(Channel::of(&user), Channel::PyPi);
        let brew = program("Cellar/switchboard-acp/0.1.0/bin/switchboard");
        assert_eq!(Channel::of(&brew), Channel::Homebrew);
    }
}
