//! The wheel: the program as a script, and a console script with the package's name, which `uvx` runs.

use std::fmt::Write;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::files::{Compression, Files, read};
use super::platforms::Platform;
use super::{DESCRIPTION, HOMEPAGE, PACKAGE, Release};
use crate::root;

/// Returns the name of the wheel's file.
pub(super) fn file(release: &Release, platform: &Platform) -> String {
    format!("switchboard_acp-{}-py3-none-{}.whl", release.version, platform.wheel)
}

/// Writes the wheel.
pub(super) fn make(
    release: &Release,
    platform: &Platform,
    to: &Path,
    compression: Compression,
) -> Result<(), String> {
    let version = &release.version;
    let (data, info) =
        (format!("switchboard_acp-{version}.data"), format!("switchboard_acp-{version}.dist-info"));
    let mut files = Files::default();
    files.add_program(format!("{data}/scripts/switchboard"), release.program.clone());
    files.copy("switchboard_acp/__init__.py", &root().join("packaging/pypi/launch.py"))?;
    files.add(
        format!("{info}/entry_points.txt"),
        format!("[console_scripts]\n{PACKAGE} = switchboard_acp:main\n"),
    );
    files.copy(format!("{info}/licenses/LICENSE"), &root().join("LICENSE"))?;
    let readme = String::from_utf8_lossy(&read(&root().join("crates/switchboard/README.md"))?).into_owned();
    files.add(
        format!("{info}/METADATA"),
        format!(
            "Metadata-Version: 2.4\nName: {PACKAGE}\nVersion: {version}\nSummary: {DESCRIPTION}\n\
             License-Expression: Apache-2.0\nLicense-File: LICENSE\nProject-URL: Homepage, {HOMEPAGE}\n\
             Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{readme}"
        ),
    );
    let mut wheel = "Wheel-Version: 1.0\nGenerator: switchboard xtask\nRoot-Is-Purelib: false\n".to_owned();
    for tag in platform.wheel.split('.') {
        let _ = writeln!(wheel, "Tag: py3-none-{tag}");
    }
    files.add(format!("{info}/WHEEL"), wheel);
    let mut record = String::new();
    for (path, _, content) in files.iter() {
        let digest = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(content));
        let _ = writeln!(record, "{path},sha256={digest},{}", content.len());
    }
    let _ = writeln!(record, "{info}/RECORD,,");
    files.add(format!("{info}/RECORD"), record);
    files.write_zip(&to.join(file(release, platform)), compression)
}
