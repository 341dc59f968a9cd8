//! Sessions in files, one update a line.

use std::io;
use std::path::PathBuf;

use switchboard_protocol::{Wire, WireFormat, v2};

/// A folder with a file a session.
#[derive(Debug)]
pub(super) struct Store(PathBuf);

impl Store {
    pub(super) fn new(folder: PathBuf) -> Self {
        Store(folder)
    }

    /// The highest number of a session that is kept.
    pub(super) fn highest(&self) -> u64 {
        let Ok(files) = std::fs::read_dir(&self.0) else { return 0 };
        let number = |name: &str| name.strip_prefix("demo-")?.strip_suffix(".jsonl")?.parse().ok();
        let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
        names.filter_map(|name| number(&name)).max().unwrap_or(0)
    }

    fn path(&self, id: &str) -> Option<PathBuf> {
        let number: u64 = id.strip_prefix("demo-")?.parse().ok()?;
        Some(self.0.join(format!("demo-{number}.jsonl")))
    }

    /// Where the session works, and what happened in it.
    pub(super) fn read(&self, id: &str) -> Option<(String, Vec<v2::SessionUpdate<'static>>)> {
        let text = std::fs::read_to_string(self.path(id)?).ok()?;
        let mut lines = text.lines();
        let cwd: String = serde_json::from_str(lines.next()?).ok()?;
        let read = |line: &str| v2::SessionUpdate::decode(line, WireFormat::Any).map(Wire::into_owned).ok();
        Some((cwd, lines.filter_map(read).collect()))
    }

    pub(super) fn write(&self, id: &str, cwd: &str, history: &[v2::SessionUpdate<'_>]) -> io::Result<()> {
        let Some(path) = self.path(id) else { return Ok(()) };
        let mut text = serde_json::Value::from(cwd).to_string();
        for update in history {
            text.push('\n');
            update.encode_into(&mut text, WireFormat::Any);
        }
        text.push('\n');
        std::fs::create_dir_all(&self.0)?;
        std::fs::write(path, text)
    }
}
