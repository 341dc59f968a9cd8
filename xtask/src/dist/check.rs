//! Checks of finished packages: the same program in all of them, their sizes, and the oldest glibc that the program needs.

use std::io::Read;
use std::path::Path;
use std::process::Command;

use super::files::{make_folder, read, remove_folder, sha256, write};
use super::platforms::{self, Platform};
use super::{build, file_names, only_file, text_of, userland};
use crate::run;
use crate::setup::target;

/// Maximum size of the program and of a package, in bytes.
const MAX_PROGRAM: usize = 30_000_000;
const MAX_PACKAGE: u64 = 13_000_000;

/// Checks the packages in a folder for this machine: everything that [`packages`] does, the old userland, and the tests of the
/// wrappers with these packages.
pub(super) fn all(folder: &Path) -> Result<(), String> {
    let folder = &folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let platform = platforms::find(&build::host()?)?;
    packages(folder, &platform)?;
    userland::check(folder, &platform)?;
    run(Command::new("cargo")
        .args(["test", "--locked", "--package", "switchboard", "--test", "it", "--"])
        .args(["--nocapture", "--test-threads", "1", "dist::"])
        .env("SWITCHBOARD_PACKAGES", folder))
}

/// Checks that all packages of a platform contain the same program, and their sizes.
pub(super) fn packages(folder: &Path, platform: &Platform) -> Result<(), String> {
    println!("\n==> packages in {}", folder.display());
    check_sums(folder)?;
    let unpacked = target().join("dist-check");
    remove_folder(&unpacked)?;
    make_folder(&unpacked)?;
    let archive = only_file(folder, &format!("-{}.tar.gz", platform.target))?;
    let program = from_tar(&archive, "/switchboard")?;
    let name = format!("-{}-", platform.npm);
    let npm = file_names(folder)?.into_iter().find(|file| {
        // `linux-x64-musl` begins as `linux-x64` does.
        file.split_once(&name).is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
            && file.ends_with(".tgz")
    });
    let npm = npm.ok_or_else(|| format!("there is no npm package for {}", platform.npm))?;
    let mut found = vec![("npm", from_tar(&folder.join(npm), "/bin/switchboard")?)];
    let wheel = only_file(folder, &format!("{}.whl", platform.wheel))?;
    found.push(("wheel", from_zip(&wheel, "/scripts/switchboard")?));
    if let Some(architecture) = &platform.deb {
        let package = only_file(folder, &format!("_{architecture}.deb"))?;
        text_of(Command::new("dpkg-deb").arg("-x").args([&package, &unpacked]))?;
        found.push(("deb", read(&unpacked.join("usr/bin/switchboard"))?));
    }
    let expected = sha256(&program);
    for (channel, other) in &found {
        if sha256(other) != expected {
            return Err(format!("the program in the {channel} package is not that of the archive"));
        }
    }
    if program.len() > MAX_PROGRAM {
        return Err(format!("the program has {} bytes, more than {MAX_PROGRAM}", program.len()));
    }
    for name in file_names(folder)? {
        let size = folder.join(&name).metadata().map_or(0, |metadata| metadata.len());
        if size > MAX_PACKAGE {
            return Err(format!("{name} has {size} bytes, more than {MAX_PACKAGE}"));
        }
    }
    println!("program: {} kB, SHA-256 {expected}, the same in all packages", program.len() / 1000);
    let file = unpacked.join("switchboard");
    write(&file, &program)?;
    super::files::set_mode(&file, 0o755)?;
    if let Some(oldest) = &platform.glibc {
        let needed = glibc(&file)?;
        println!("needs glibc {needed}");
        if version(&needed) > version(oldest) {
            return Err(format!("the program needs glibc {needed}, and the table promises {oldest}"));
        }
    }
    println!("{}", text_of(Command::new(&file).args(["--version", "--json"]))?.trim());
    remove_folder(&unpacked)
}

/// Verifies `SHA256SUMS`.
fn check_sums(folder: &Path) -> Result<(), String> {
    let sums = String::from_utf8_lossy(&read(&folder.join("SHA256SUMS"))?).into_owned();
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").ok_or_else(|| format!("SHA256SUMS: {line:?}"))?;
        if sha256(&read(&folder.join(name))?) != sum {
            return Err(format!("{name} does not have the checksum of SHA256SUMS"));
        }
    }
    Ok(())
}

/// Returns a program from a `.tar.gz`, where it must be executable.
fn from_tar(archive: &Path, end: &str) -> Result<Vec<u8>, String> {
    let fault = |problem: &dyn std::fmt::Display| format!("{}: {problem}", archive.display());
    let bytes = read(archive)?;
    let mut entries = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
    for entry in entries.entries().map_err(|error| fault(&error))? {
        let mut entry = entry.map_err(|error| fault(&error))?;
        if !entry.path().is_ok_and(|path| path.to_string_lossy().ends_with(end)) {
            continue;
        }
        if entry.header().mode().map_err(|error| fault(&error))? & 0o777 != 0o755 {
            return Err(fault(&format!("{end} is not executable")));
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(|error| fault(&error))?;
        return Ok(content);
    }
    Err(fault(&format!("there is no {end} in it")))
}

/// Returns a program from a zip file, where it must be executable.
fn from_zip(archive: &Path, end: &str) -> Result<Vec<u8>, String> {
    let fault = |problem: &dyn std::fmt::Display| format!("{}: {problem}", archive.display());
    let bytes = read(archive)?;
    let mut entries =
        zip::ZipArchive::new(std::io::Cursor::new(&bytes[..])).map_err(|error| fault(&error))?;
    for index in 0..entries.len() {
        let mut entry = entries.by_index(index).map_err(|error| fault(&error))?;
        if !entry.name().ends_with(end) {
            continue;
        }
        if entry.unix_mode().is_none_or(|mode| mode & 0o777 != 0o755) {
            return Err(fault(&format!("{end} is not executable")));
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(|error| fault(&error))?;
        return Ok(content);
    }
    Err(fault(&format!("there is no {end} in it")))
}

/// Returns the newest version of glibc whose symbols the program needs.
fn glibc(program: &Path) -> Result<String, String> {
    let printed = text_of(Command::new("readelf").args(["--version-info", "--wide"]).arg(program))?;
    let versions = printed.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_"));
    versions
        .max_by_key(|text| version(text))
        .map(str::to_owned)
        .ok_or_else(|| format!("{} needs no version of glibc; is it linked with it?", program.display()))
}

/// Returns the numbers of a version, for comparison.
fn version(text: &str) -> Vec<u32> {
    text.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}
