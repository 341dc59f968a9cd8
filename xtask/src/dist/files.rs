//! Files of a package, and archives of them. The same files give the same archive.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// Compression level of archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    /// Fast, for tests.
    Fast,
    /// Smallest, for a release.
    Best,
}

impl Compression {
    fn level(self) -> u32 {
        match self {
            Compression::Fast => 1,
            Compression::Best => 9,
        }
    }
}

/// Files of a package, by their paths in it.
#[derive(Debug, Default, Clone)]
pub(super) struct Files(BTreeMap<String, (bool, Vec<u8>)>);

impl Files {
    /// Adds a world-readable file.
    pub(super) fn add(&mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), (false, content.into()));
    }

    /// Adds a program.
    pub(super) fn add_program(&mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), (true, content.into()));
    }

    /// Adds a file from the disk.
    pub(super) fn copy(&mut self, path: impl Into<String>, from: &Path) -> Result<(), String> {
        self.add(path, read(from)?);
        Ok(())
    }

    /// Adds all files below a folder on the disk.
    pub(super) fn copy_folder(&mut self, path: &str, from: &Path) -> Result<(), String> {
        let fault = |error: std::io::Error| format!("cannot read {}: {error}", from.display());
        for entry in std::fs::read_dir(from).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let inside = format!("{path}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                self.copy_folder(&inside, &entry.path())?;
            } else {
                self.copy(inside, &entry.path())?;
            }
        }
        Ok(())
    }

    /// Returns the files in order: path, whether it is a program, and content.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, bool, &[u8])> {
        self.0.iter().map(|(path, (is_program, content))| (&**path, *is_program, &**content))
    }

    /// Writes a `.tar.gz` in which all paths are below `folder`.
    pub(super) fn write_tar(&self, folder: &str, to: &Path, compression: Compression) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("cannot write {}: {error}", to.display());
        let file = std::fs::File::create(to).map_err(failed)?;
        let encoder =
            GzEncoder::new(std::io::BufWriter::new(file), flate2::Compression::new(compression.level()));
        let mut archive = tar::Builder::new(encoder);
        // The description of an npm package comes first, so that it can be read without unpacking the program.
        let (first, rest): (Vec<_>, Vec<_>) = self.iter().partition(|(path, ..)| *path == "package.json");
        for (path, is_program, content) in first.into_iter().chain(rest) {
            let mut header = tar::Header::new_gnu();
            header.set_mode(mode(is_program));
            header.set_size(content.len() as u64);
            archive.append_data(&mut header, format!("{folder}/{path}"), content).map_err(failed)?;
        }
        let encoder = archive.into_inner().map_err(failed)?;
        encoder.finish().and_then(|mut writer| writer.flush()).map_err(failed)
    }

    /// Writes a zip file.
    pub(super) fn write_zip(&self, to: &Path, compression: Compression) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", to.display());
        let file = std::fs::File::create(to).map_err(|error| failed(&error))?;
        let mut archive = zip::ZipWriter::new(std::io::BufWriter::new(file));
        for (path, is_program, content) in self.iter() {
            // 1980, the first moment that the format has.
            let options = zip::write::SimpleFileOptions::default()
                .last_modified_time(zip::DateTime::default())
                .compression_level(Some(compression.level().into()))
                .unix_permissions(mode(is_program));
            archive.start_file(path, options).map_err(|error| failed(&error))?;
            archive.write_all(content).map_err(|error| failed(&error))?;
        }
        let mut writer = archive.finish().map_err(|error| failed(&error))?;
        writer.flush().map_err(|error| failed(&error))
    }

    /// Writes the files below a folder on the disk.
    pub(super) fn write_folder(&self, folder: &Path) -> Result<(), String> {
        for (path, is_program, content) in self.iter() {
            let path = folder.join(path);
            make_folder(path.parent().unwrap_or(folder))?;
            write(&path, content)?;
            set_mode(&path, mode(is_program))?;
        }
        Ok(())
    }
}

fn mode(is_program: bool) -> u32 {
    if is_program { 0o755 } else { 0o644 }
}

/// Compresses a single file, like the manual pages in Debian packages.
pub(super) fn gzip(content: &[u8]) -> Result<Vec<u8>, String> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).and_then(|()| encoder.finish()).map_err(|error| format!("gzip: {error}"))
}

/// Returns the SHA-256 checksum in hexadecimal digits.
pub(super) fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode))
        .map_err(|error| format!("cannot set the mode of {}: {error}", path.display()))
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

pub(super) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), String> {
    std::fs::write(path, content).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

pub(super) fn make_folder(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))
}

/// Removes a folder, if it exists.
pub(super) fn remove_folder(folder: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}
