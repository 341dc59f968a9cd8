//! JSON form of a subject, and values in metadata.

use switchboard_acp::{Meta, Raw, Text, Wire, WireFormat};

use super::Subject;
use crate::host::Host;

/// Returns the name of the tool from metadata, because version 1 has no field for it.
pub(super) fn tool_name(meta: &Meta<'_>) -> Option<String> {
    meta.get("claudeCode")?.text("toolName")
}

fn string(text: &str) -> String {
    Text::Borrowed(text).encode(WireFormat::Any)
}

impl Subject {
    /// Returns the subject as JSON for `policy explain`: command, source, paths with links resolved, kind.
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
