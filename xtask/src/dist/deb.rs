//! The Debian package, made by `dpkg-deb`.

use std::path::Path;
use std::process::Command;

use super::files::{Compression, Files, gzip, remove_folder};
use super::platforms::Platform;
use super::{DESCRIPTION, HOMEPAGE, PACKAGE, Release, text_of};
use crate::root;

/// Returns the name of the package's file.
pub(super) fn file(release: &Release, architecture: &str) -> String {
    format!("{PACKAGE}_{}_{architecture}.deb", release.version)
}

/// Writes the package if the platform has one and `dpkg-deb` is installed.
pub(super) fn make(
    release: &Release,
    platform: &Platform,
    to: &Path,
    compression: Compression,
) -> Result<(), String> {
    let Some(architecture) = &platform.deb else { return Ok(()) };
    let mut files = Files::default();
    files.add_program("usr/bin/switchboard", release.program.clone());
    for (path, _, content) in release.extras.iter() {
        let (place, content) = match path.split_once('/') {
            Some(("man", name)) => (format!("usr/share/man/man1/{name}.gz"), gzip(content)?),
            Some(("completions", "switchboard.bash")) => {
                ("usr/share/bash-completion/completions/switchboard".to_owned(), content.to_vec())
            }
            Some(("completions", name @ "_switchboard")) => {
                (format!("usr/share/zsh/vendor-completions/{name}"), content.to_vec())
            }
            Some(("completions", name)) => {
                (format!("usr/share/fish/vendor_completions.d/{name}"), content.to_vec())
            }
            _ if path == "CHANGELOG.md" => (format!("usr/share/doc/{PACKAGE}/changelog.gz"), gzip(content)?),
            _ if path == "LICENSE" => (format!("usr/share/doc/{PACKAGE}/copyright"), content.to_vec()),
            _ => (format!("usr/share/doc/{PACKAGE}/{path}"), content.to_vec()),
        };
        files.add(place, content);
    }
    files.copy("usr/lib/systemd/user/switchboard.service", &root().join("packaging/switchboard.service"))?;
    let size: usize = files.iter().map(|(_, _, content)| content.len()).sum();
    files.add(
        "DEBIAN/control",
        format!(
            "Package: {PACKAGE}\nVersion: {}\nArchitecture: {architecture}\n\
             Maintainer: Switchboard ({HOMEPAGE})\nInstalled-Size: {}\nDepends: libc6 (>= {})\nSection: devel\n\
             Priority: optional\nHomepage: {HOMEPAGE}\nDescription: {DESCRIPTION}\n",
            release.version,
            size.div_ceil(1024),
            platform.glibc.as_deref().unwrap_or("2.17"),
        ),
    );
    let folder = to.join(".deb");
    remove_folder(&folder)?;
    files.write_folder(&folder)?;
    let compression: &[&str] = match compression {
        Compression::Fast => &["-Zgzip", "-z1"],
        Compression::Best => &["-Zxz", "-z9"],
    };
    text_of(
        Command::new("dpkg-deb")
            .args(["--build", "--root-owner-group"])
            .args(compression)
            .args([&folder, &to.join(file(release, architecture))])
            // The time of every file, so that the same files make the same package.
            .env("SOURCE_DATE_EPOCH", "0"),
    )?;
    remove_folder(&folder)
}
