//! Records of changes to editors' files, for undoing them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::agents::sha256;
use crate::configuration::edited_file::EditedFile;
use crate::configuration::{home, read_json};
use crate::outcome::CommandError;

/// A change of a file.
#[derive(Debug)]
pub(crate) struct Record {
    /// The original content, byte for byte; `None` if the file did not exist.
    pub(crate) before: Option<String>,
    /// The checksum of the written content.
    after: String,
    /// The name of an added agent.
    pub(crate) added: Option<String>,
}

/// Returns the folder of the records.
fn folder() -> Option<PathBuf> {
    let set = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    Some(set.or_else(|| Some(home()?.join(".local/state")))?.join("switchboard").join("setup"))
}

/// Returns the path of a change's record: one per file and agent.
fn place(file: &Path, agent: &str) -> Result<PathBuf, CommandError> {
    let folder = folder().ok_or_else(|| CommandError::usage("cannot store a backup: HOME is not set"))?;
    let name = sha256(format!("{}\0{agent}", file.display()).as_bytes());
    Ok(folder.join(format!("{}.json", &name[..24])))
}

impl Record {
    /// Stores the state before a change. A change of our own last change keeps the state before that one. Returns the
    /// record's path.
    pub(crate) fn keep(
        file: &EditedFile,
        agent: &str,
        after: &str,
        added: Option<&str>,
    ) -> Result<PathBuf, CommandError> {
        let place = place(file.path(), agent)?;
        let earlier = Record::of(file.path(), agent)?;
        let earlier = earlier.filter(|record| file.before().is_some_and(|now| record.is_last_change(now)));
        let (before, added) = match &earlier {
            Some(record) => (record.before.as_deref(), record.added.as_deref()),
            None => (file.before(), added),
        };
        let record = json!({
            "file": file.path().display().to_string(),
            "agent": agent,
            "before": before,
            "after_sha256": sha256(after.as_bytes()),
            "added": added,
        });
        EditedFile::read(&place)?.write(&format!("{record:#}\n"))?;
        Ok(place)
    }

    pub(crate) fn of(file: &Path, agent: &str) -> Result<Option<Self>, CommandError> {
        let place = place(file, agent)?;
        let Some(record) = read_json(&place).map_err(CommandError::failed)? else { return Ok(None) };
        let text = |key: &str| record.get(key).and_then(Value::as_str).map(str::to_owned);
        let after = text("after_sha256").ok_or_else(|| {
            CommandError::failed(format!("{} is not a record of a change", place.display()))
        })?;
        Ok(Some(Record { before: text("before"), after, added: text("added") }))
    }

    /// Returns whether the file is unchanged since it was written.
    pub(crate) fn is_last_change(&self, now: &str) -> bool {
        sha256(now.as_bytes()) == self.after
    }

    pub(crate) fn forget(file: &Path, agent: &str) {
        // A leftover record no longer matches its file and is harmless.
        let _ = place(file, agent).map(std::fs::remove_file);
    }
}
