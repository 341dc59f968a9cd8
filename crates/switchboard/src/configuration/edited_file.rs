//! Safe edits of a configuration file: atomic, with its permissions, and only if it has not changed
//! meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use super::MAX_FILE;
use crate::outcome::CommandError;

/// A file and its content.
#[derive(Debug)]
pub(crate) struct EditedFile {
    path: PathBuf,
    /// The content; `None` if the file does not exist.
    before: Option<String>,
}

impl EditedFile {
    /// Reads a file that will be changed. Fails unless it is a readable and writable regular file.
    pub(crate) fn read(path: &Path) -> Result<Self, CommandError> {
        let refused = |reason: String| CommandError::usage(format!("{} {reason}", path.display()));
        let before = match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(refused(format!("cannot be read: {error}"))),
            Ok(metadata) if metadata.is_symlink() => {
                let target = path.read_link().map(|target| target.display().to_string()).unwrap_or_default();
                return Err(refused(format!("is a symbolic link to {target}; nothing was changed"))
                    .hint("the file may be generated; edit the target by hand"));
            }
            Ok(metadata) if !metadata.is_file() => return Err(refused("is not a regular file".to_owned())),
            Ok(metadata) if metadata.len() > MAX_FILE => return Err(refused("is too large".to_owned())),
            Ok(_) => {
                let mut text = String::new();
                let file = std::fs::File::open(path);
                let read = file.and_then(|file| file.take(MAX_FILE).read_to_string(&mut text));
                read.map_err(|error| refused(format!("cannot be read: {error}")))?;
                Some(text)
            }
        };
        Ok(EditedFile { path: path.to_owned(), before })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the content when it was read.
    pub(crate) fn before(&self) -> Option<&str> {
        self.before.as_deref()
    }

    /// Replaces the content atomically.
    pub(crate) fn write(&self, after: &str) -> Result<(), CommandError> {
        let failed = |error: std::io::Error| {
            CommandError::failed(format!("cannot write {}: {error}; it is as it was", self.path.display()))
        };
        let folder = self.path.parent().ok_or_else(|| failed(ErrorKind::InvalidInput.into()))?;
        std::fs::create_dir_all(folder).map_err(failed)?;
        let mut temporary = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        temporary.write_all(after.as_bytes()).map_err(failed)?;
        if let Ok(metadata) = self.path.metadata() {
            temporary.as_file().set_permissions(metadata.permissions()).map_err(failed)?;
        }
        temporary.as_file().sync_all().map_err(failed)?;
        if EditedFile::read(&self.path)?.before != self.before {
            return Err(CommandError::failed(format!(
                "{} was changed meanwhile; nothing was written",
                self.path.display()
            ))
            .hint("do it again"));
        }
        temporary.persist(&self.path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn permissions_are_kept_and_what_others_write_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/settings.json");
        let file = EditedFile::read(&path).unwrap();
        assert_eq!(file.before(), None);
        file.write("{}").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let (mine, other) = (EditedFile::read(&path).unwrap(), EditedFile::read(&path).unwrap());
        other.write("other").unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        assert!(mine.write("mine").unwrap_err().to_string().contains("changed meanwhile"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "other");
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left over");
    }

    #[test]
    fn only_regular_files_are_edited() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        symlink("elsewhere.json", &path).unwrap();
        assert!(EditedFile::read(&path).unwrap_err().to_string().contains("symbolic link to elsewhere.json"));
        assert!(EditedFile::read(folder.path()).unwrap_err().to_string().contains("is not a regular file"));
        let bytes = folder.path().join("bytes");
        std::fs::write(&bytes, [0xFF, 0xFE]).unwrap();
        assert!(EditedFile::read(&bytes).unwrap_err().to_string().contains("cannot be read"));
    }
}
