//! File access for version 1 agents, restricted to the folders of a session.

use std::io;
use std::path::{Path, PathBuf};

use switchboard_bridge::{Host, HostError};

/// Maximum size of a file that is read, in bytes.
const MAX_FILE: u64 = 32 * 1024 * 1024;

/// A bridge host that reads and writes files inside the folders of a session.
#[derive(Debug, Clone, Copy, Default)]
pub struct FilesOnDisk;

impl Host for FilesOnDisk {
    fn read_text_file(&mut self, path: &str, roots: &[String]) -> Result<String, HostError> {
        let content = read_file(&real_path(path, roots)?)?;
        String::from_utf8(content).map_err(|_| HostError::failed(format!("{path} is not UTF-8 text")))
    }

    fn write_text_file(&mut self, path: &str, content: &str, roots: &[String]) -> Result<(), HostError> {
        let real = real_path(path, roots)?;
        std::fs::write(&real, content).map_err(|error| not_there(&real, &error))
    }
}

/// Returns the canonical path of a file that may not exist yet. Fails unless it is inside a root after all symbolic
/// links are resolved.
pub fn real_path(path: &str, roots: &[String]) -> Result<PathBuf, HostError> {
    let path = Path::new(path);
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() => {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(not_there(path, &error));
            };
            parent.canonicalize().map_err(|error| not_there(path, &error))?.join(name)
        }
        Err(error) => return Err(not_there(path, &error)),
    };
    let inside = |root: &String| Path::new(root).canonicalize().is_ok_and(|root| real.starts_with(root));
    if roots.iter().any(inside) {
        Ok(real)
    } else {
        let message = format!("{} is outside of the session's directories", path.display());
        Err(HostError::failed(message))
    }
}

/// Reads a file of at most 32 MiB.
pub fn read_file(path: &Path) -> Result<Vec<u8>, HostError> {
    let metadata = path.metadata().map_err(|error| not_there(path, &error))?;
    if !metadata.is_file() {
        return Err(HostError::failed(format!("{} is not a regular file", path.display())));
    }
    if metadata.len() > MAX_FILE {
        return Err(HostError::failed(format!("{} is larger than {MAX_FILE} bytes", path.display())));
    }
    std::fs::read(path).map_err(|error| not_there(path, &error))
}

fn not_there(path: &Path, error: &io::Error) -> HostError {
    let message = format!("{}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::NotFound => HostError::not_found(message),
        _ => HostError::failed(message),
    }
}
