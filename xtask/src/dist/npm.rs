//! npm packages: a launcher, and a package with the program for each platform. They have no install scripts.

use std::path::Path;

use serde_json::{Value, json};

use super::files::{Compression, Files};
use super::platforms::{self, Platform};
use super::{HOMEPAGE, PACKAGE, Release};
use crate::root;

const SCOPE: &str = "@switchboard-acp";

/// Returns the name that `npm pack` gives the package file of a platform.
pub(super) fn platform_file(release: &Release, platform: &Platform) -> String {
    format!("{PACKAGE}-{}-{}.tgz", platform.npm, release.version)
}

/// Returns the name of the launcher's package file.
pub(super) fn launcher_file(version: &str) -> String {
    format!("{PACKAGE}-{version}.tgz")
}

/// Writes the package with the program of one platform.
pub(super) fn make_platform(
    release: &Release,
    platform: &Platform,
    to: &Path,
    compression: Compression,
) -> Result<(), String> {
    let mut description = common(&release.version);
    description["name"] = json!(format!("{SCOPE}/{}", platform.npm));
    description["description"] = json!(format!("The switchboard program for {}", platform.target));
    description["os"] = json!([platform.os]);
    description["cpu"] = json!([platform.cpu]);
    if let Some(libc) = &platform.libc {
        description["libc"] = json!([libc]);
    }
    // Yarn would run it out of a zip file.
    description["preferUnplugged"] = json!(true);
    let mut files = Files::default();
    files.add("package.json", pretty(&description));
    files.copy("LICENSE", &root().join("LICENSE"))?;
    files.add(
        "README.md",
        format!(
            "The program of [{PACKAGE}](https://www.npmjs.com/package/{PACKAGE}) for {}: install that.\n",
            platform.target
        ),
    );
    files.add_program("bin/switchboard", release.program.clone());
    files.write_tar("package", &to.join(platform_file(release, platform)), compression)
}

/// Writes the launcher's package, which depends on those of all platforms.
pub(super) fn make_launcher(version: &str, to: &Path) -> Result<(), String> {
    let platforms = platforms::all()?;
    let packages = platforms.iter().map(|platform| (format!("{SCOPE}/{}", platform.npm), json!(version)));
    let mut description = common(version);
    description["name"] = json!(PACKAGE);
    description["description"] = json!(super::DESCRIPTION);
    description["keywords"] = json!(["acp", "agent", "agent-client-protocol", "editor"]);
    // `npx` runs the one that has the package's name.
    description["bin"] = json!({"switchboard": "switchboard.js", PACKAGE: "switchboard.js"});
    description["engines"] = json!({"node": ">=16"});
    description["optionalDependencies"] = Value::Object(packages.collect());
    let mut files = Files::default();
    files.add("package.json", pretty(&description));
    files.copy("LICENSE", &root().join("LICENSE"))?;
    files.copy("README.md", &root().join("crates/switchboard/README.md"))?;
    let launcher = super::files::read(&root().join("packaging/npm/switchboard.js"))?;
    files.add_program("switchboard.js", launcher);
    files.write_tar("package", &to.join(launcher_file(version)), Compression::Best)
}

fn common(version: &str) -> Value {
    json!({
        "version": version,
        "license": "Apache-2.0",
        "homepage": HOMEPAGE,
        "repository": {"type": "git", "url": format!("git+{HOMEPAGE}.git")},
    })
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
