//! A subject as JSON, and what is found in metadata.

use switchboard_acp::{Meta, Raw, Text, Wire, WireFormat};

use super::Subject;
use crate::host::Host;

/// The name of the tool where version 1 has no place for it.
pub(super) fn tool_name(meta: &Meta<'_>) -> Option<String> {
    meta.get("claudeCode")?.text("toolName")
}

fn string(text: &str) -> String {
    Text::Borrowed(text).encode(WireFormat::Any)
}

impl Subject {
    /// The subject as `policy explain` tells it: command, source, paths with links followed, kind.
    pub fn to_json(&self, host: &dyn Host) -> Raw<'static> {
        let list =
            |items: &mut dyn Iterator<Item = String>| format!("[{}]", items.collect::<Vec<_>>().join(","));
        let command = self.command().map(|words| list(&mut words.iter().map(|word| string(word))));
        let mut paths: Vec<String> = Vec::new();
        for path in &self.paths {
            let path = self.located(&path.path, host);
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        let kind = self.kind().map(|kind| string(kind.as_str()));
        let null = || "null".to_owned();
        let text = format!(
            r#"{{"command":{},"source":"{}","paths":{},"kind":{}}}"#,
            command.unwrap_or_else(null),
            self.source(),
            list(&mut paths.iter().map(|path| string(path))),
            kind.unwrap_or_else(null),
        );
        Raw::parse(text).unwrap_or_else(|_| Raw::array([]))
    }
}
