//! Sessions in files, one update per line, followed by their sub-agents, each started by its id.

use std::io::{self, Write as _};
use std::path::PathBuf;

use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_peer::{AgentSession, Recalled};

/// A folder with one file per session.
#[derive(Debug)]
pub(crate) struct Store(PathBuf);

impl Store {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Store(folder)
    }

    /// Returns the highest number of a stored session.
    pub(crate) fn highest(&self) -> u64 {
        let Ok(files) = std::fs::read_dir(&self.0) else { return 0 };
        let number = |name: &str| name.strip_prefix("demo-")?.strip_suffix(".jsonl")?.parse().ok();
        let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
        names.filter_map(|name| number(&name)).max().unwrap_or(0)
    }

    fn path(&self, id: &str) -> Option<PathBuf> {
        let number: u64 = id.strip_prefix("demo-")?.parse().ok()?;
        Some(self.0.join(format!("demo-{number}.jsonl")))
    }

    /// Returns the session with its sub-agents.
    pub(crate) fn read(&self, id: &str) -> Option<Recalled> {
        let text = std::fs::read_to_string(self.path(id)?).ok()?;
        let mut lines = text.lines();
        let cwd: String = serde_json::from_str(lines.next()?).ok()?;
        let mut recalled = Recalled::new(&cwd);
        for line in lines {
            // The id of a sub-agent, followed by its updates.
            if let Ok(id) = serde_json::from_str::<String>(line) {
                recalled.subagents.push((id, Vec::new()));
                continue;
            }
            let Recalled { history, subagents, .. } = &mut recalled;
            let updates = subagents.last_mut().map_or(history, |(_, updates)| updates);
            updates.extend(v2::SessionUpdate::decode(line, WireFormat::Any).map(Wire::into_owned));
        }
        Some(recalled)
    }

    pub(crate) fn write(
        &self,
        session: &AgentSession,
        history: &[v2::SessionUpdate<'_>],
        subagents: &[(String, Vec<v2::SessionUpdate<'_>>)],
    ) -> io::Result<()> {
        let Some(path) = self.path(session.id()) else { return Ok(()) };
        let mut text = serde_json::Value::from(session.cwd()).to_string();
        let push = |updates: &[v2::SessionUpdate<'_>], text: &mut String| {
            for update in updates {
                text.push('\n');
                update.encode_into(text, WireFormat::Any);
            }
        };
        push(history, &mut text);
        for (id, updates) in subagents {
            text.push('\n');
            text.push_str(&serde_json::Value::from(id.as_str()).to_string());
            push(updates, &mut text);
        }
        text.push('\n');
        std::fs::create_dir_all(&self.0)?;
        // Written atomically: a kill in the middle would lose the session.
        let mut new = tempfile::NamedTempFile::new_in(&self.0)?;
        new.write_all(text.as_bytes())?;
        new.persist(path)?;
        Ok(())
    }
}
