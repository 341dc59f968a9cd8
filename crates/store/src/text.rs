//! Extracts the searchable text of a message. Reads both protocol versions and extensions by their common
//! keys; skips everything else.

use std::borrow::Cow;

use switchboard_acp::Raw;
use switchboard_acp::rpc::{BATCH_LIMIT, batch_entries, is_batch};

use crate::record::{Channel, Record};

/// Kind of a searchable text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextKind {
    /// User message.
    User,
    /// Agent message.
    Agent,
    /// Agent thought.
    Thought,
    /// Title of a tool call or a permission request.
    Title,
    /// A command line.
    Command,
    /// A path.
    Path,
    /// A patch or the new text of a file.
    Patch,
    /// Output of a tool.
    Output,
    /// An entry of a plan.
    Plan,
    /// Standard error and process events.
    Log,
}

impl TextKind {
    /// All kinds, in the order of their codes on disk.
    pub const ALL: [TextKind; 10] = {
        use TextKind::*;
        [User, Agent, Thought, Title, Command, Path, Patch, Output, Plan, Log]
    };

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        match self {
            TextKind::User => "user",
            TextKind::Agent => "agent",
            TextKind::Thought => "thought",
            TextKind::Title => "title",
            TextKind::Command => "command",
            TextKind::Path => "path",
            TextKind::Patch => "patch",
            TextKind::Output => "output",
            TextKind::Plan => "plan",
            TextKind::Log => "log",
        }
    }

    /// Parses a name.
    pub fn parse(name: &str) -> Option<Self> {
        TextKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    pub(crate) fn code(self) -> i64 {
        self as i64
    }

    pub(crate) fn from_code(code: i64) -> Option<Self> {
        TextKind::ALL.get(usize::try_from(code).ok()?).copied()
    }
}

/// A text of a record. Chunks with the same `run` belong to one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Kind of the text.
    pub kind: TextKind,
    /// Key shared by the chunks of one text. Empty for a text in one piece.
    pub run: String,
    /// The text.
    pub text: String,
}

/// Searchable content of a record.
#[derive(Debug, Default)]
pub(crate) struct SearchableText {
    pub(crate) texts: Vec<Text>,
    /// Runs whose text is replaced as a whole by this record.
    pub(crate) replaced: Vec<String>,
}

/// Returns the values of some keys of an object.
fn pick<'r, const N: usize>(object: &'r Raw<'_>, keys: [&str; N]) -> [Option<Raw<'r>>; N] {
    let mut values = [const { None }; N];
    for (key, value) in object.entries() {
        if let Some(place) = keys.iter().position(|wanted| *wanted == key) {
            values[place] = Some(value);
        }
    }
    values
}

fn string(part: Option<&Raw<'_>>) -> Option<String> {
    part?.as_text().map(Cow::into_owned)
}

/// Returns all texts of a record.
pub fn texts(record: &Record) -> Vec<Text> {
    read(record).texts
}

/// Extracts the searchable content of a record.
pub(crate) fn read(record: &Record) -> SearchableText {
    let mut found = SearchableText::default();
    if record.channel.is_other_side() || matches!(record.channel, Channel::Hub | Channel::Unknown(_)) {
        return found;
    }
    if !record.channel.is_message() {
        found.put(TextKind::Log, "", Some(String::from_utf8_lossy(&record.bytes).into_owned()));
        return found;
    }
    let Ok(text) = std::str::from_utf8(&record.bytes) else { return found };
    if is_batch(text) {
        for message in batch_entries(text, BATCH_LIMIT).unwrap_or_default() {
            found.message(message);
        }
    } else {
        found.message(text);
    }
    found
}

impl SearchableText {
    fn put(&mut self, kind: TextKind, run: &str, text: Option<String>) {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return };
        match self.texts.last_mut() {
            // Blocks of one message and chunks of one run are combined.
            Some(last) if last.kind == kind && last.run == run && !run.is_empty() => {
                last.text.push_str(&text);
            }
            _ => self.texts.push(Text { kind, run: run.to_owned(), text }),
        }
    }

    fn message(&mut self, text: &str) {
        let Ok(message) = Raw::parse(text) else { return };
        let [method, params] = pick(&message, ["method", "params"]);
        let (Some(method), Some(params)) = (string(method.as_ref()), params) else { return };
        match &*method {
            "session/update" => {
                let [session, update] = pick(&params, ["sessionId", "update"]);
                if let Some(update) = update {
                    self.update(&string(session.as_ref()).unwrap_or_default(), &update);
                }
            }
            "session/prompt" => {
                let [prompt] = pick(&params, ["prompt"]);
                self.content(prompt.as_ref(), TextKind::User, "prompt", 0);
            }
            "session/request_permission" => {
                let [session, title, description, call, subject] =
                    pick(&params, ["sessionId", "title", "description", "toolCall", "subject"]);
                self.put(TextKind::Title, "", string(title.as_ref()));
                self.put(TextKind::Title, "", string(description.as_ref()));
                let session = string(session.as_ref()).unwrap_or_default();
                if let Some(call) = call {
                    self.update(&session, &call);
                }
                if let Some(subject) = subject {
                    let [call, command] = pick(&subject, ["toolCall", "command"]);
                    self.put(TextKind::Command, "", string(command.as_ref()));
                    if let Some(call) = call {
                        self.update(&session, &call);
                    }
                }
            }
            "terminal/create" => {
                let [command, arguments] = pick(&params, ["command", "args"]);
                let mut words: Vec<_> = string(command.as_ref()).into_iter().collect();
                if let Some(arguments) = &arguments {
                    words.extend(arguments.items().filter_map(|word| string(Some(&word))));
                }
                self.put(TextKind::Command, "", Some(words.join(" ")));
            }
            "fs/read_text_file" | "fs/write_text_file" => {
                let [path] = pick(&params, ["path"]);
                self.put(TextKind::Path, "", string(path.as_ref()));
            }
            _ => {}
        }
    }

    fn update(&mut self, session: &str, update: &Raw<'_>) {
        let [name, message, call, title, content, locations, input, command, plan, entries, summary] = pick(
            update,
            [
                "sessionUpdate",
                "messageId",
                "toolCallId",
                "title",
                "content",
                "locations",
                "rawInput",
                "command",
                "plan",
                "entries",
                "summary",
            ],
        );
        let name = string(name.as_ref()).unwrap_or_default();
        let kind = match &*name {
            "user_message" | "user_message_chunk" => TextKind::User,
            "agent_message" | "agent_message_chunk" => TextKind::Agent,
            "agent_thought" | "agent_thought_chunk" => TextKind::Thought,
            "plan" | "plan_update" => TextKind::Plan,
            _ => TextKind::Output,
        };
        let id = string(message.as_ref()).or_else(|| string(call.as_ref())).unwrap_or_default();
        let run = format!("{}/{session}/{id}", kind.as_str());
        if name != "session_info_update" {
            self.put(TextKind::Title, "", string(title.as_ref()));
        }
        // Every other update replaces the whole text. The first update of a tool call has nothing to replace.
        if (content.is_some() || summary.is_some()) && !name.ends_with("_chunk") && name != "tool_call" {
            self.replaced.push(run.clone());
        }
        self.content(content.as_ref(), kind, &run, 0);
        self.content(summary.as_ref(), kind, &run, 0);
        self.content(plan.as_ref(), kind, "", 0);
        self.content(entries.as_ref(), kind, "", 0);
        self.put(TextKind::Command, "", string(command.as_ref()));
        for location in locations.iter().flat_map(Raw::items) {
            self.paths(&location);
        }
        if let Some(input) = input {
            let [command, path, snake, camel] = pick(&input, ["command", "path", "file_path", "filePath"]);
            self.command(command.as_ref());
            let path = [path, snake, camel].iter().find_map(|path| string(path.as_ref()));
            self.put(TextKind::Path, "", path);
        }
    }

    fn paths(&mut self, change: &Raw<'_>) {
        let [old, path] = pick(change, ["oldPath", "path"]);
        self.put(TextKind::Path, "", string(old.as_ref()));
        self.put(TextKind::Path, "", string(path.as_ref()));
    }

    fn command(&mut self, part: Option<&Raw<'_>>) {
        let Some(part) = part else { return };
        let words: Vec<_> = part.items().filter_map(|word| string(Some(&word))).collect();
        let command = string(Some(part)).or_else(|| (!words.is_empty()).then(|| words.join(" ")));
        self.put(TextKind::Command, "", command);
    }

    fn content(&mut self, part: Option<&Raw<'_>>, kind: TextKind, run: &str, depth: usize) {
        let Some(part) = part.filter(|_| depth < 8) else { return };
        match part.as_str().as_bytes().first() {
            Some(b'[') => {
                for item in part.items() {
                    self.content(Some(&item), kind, run, depth + 1);
                }
            }
            Some(b'"') if depth > 0 => self.put(kind, run, string(Some(part))),
            Some(b'{') => {
                let [text, content, resource, entries, changes, path, new_text, patch] = pick(
                    part,
                    ["text", "content", "resource", "entries", "changes", "path", "newText", "patch"],
                );
                self.put(kind, run, string(text.as_ref()));
                for inner in [content, resource, entries] {
                    self.content(inner.as_ref(), kind, run, depth + 1);
                }
                for change in changes.iter().flat_map(Raw::items) {
                    self.paths(&change);
                }
                if new_text.is_some() {
                    self.put(TextKind::Path, "", string(path.as_ref()));
                    self.put(TextKind::Patch, "", string(new_text.as_ref()));
                }
                if let Some(patch) = patch {
                    let [text, diff] = pick(&patch, ["text", "diff"]);
                    self.put(TextKind::Patch, "", string(text.as_ref()).or_else(|| string(diff.as_ref())));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Channel;

    fn found(message: &str) -> Vec<(TextKind, String)> {
        let record = Record::new(Channel::ToClient, message);
        texts(&record).into_iter().map(|text| (text.kind, text.text)).collect()
    }

    fn update(update: &str) -> Vec<(TextKind, String)> {
        found(&format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
        ))
    }

    #[test]
    fn texts_of_both_versions_are_found() {
        let cases: [(&str, &[(TextKind, &str)]); 6] = [
            (
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"hi"}}"#,
                &[(TextKind::Agent, "hi")],
            ),
            (
                r#"{"toolCallId":"c","content":[{"type":"content","content":{"type":"text","text":"out"}},
                    {"type":"diff","path":"/a","oldText":"x","newText":"y"}],"sessionUpdate":"tool_call_update"}"#,
                &[(TextKind::Output, "out"), (TextKind::Path, "/a"), (TextKind::Patch, "y")],
            ),
            (
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"diff",
                    "changes":[{"operation":"modify","path":"/b"}],"patch":{"format":"git_patch","diff":"+1"}}]}"#,
                &[(TextKind::Path, "/b"), (TextKind::Patch, "+1")],
            ),
            (
                r#"{"sessionUpdate":"tool_call","title":"Run","locations":[{"path":"/c"}],
                    "rawInput":{"command":["ls","-l"],"file_path":"/d"}}"#,
                &[
                    (TextKind::Title, "Run"),
                    (TextKind::Path, "/c"),
                    (TextKind::Command, "ls -l"),
                    (TextKind::Path, "/d"),
                ],
            ),
            (
                r#"{"sessionUpdate":"plan_update","plan":{"type":"items","entries":[{"content":"one"},{"content":"two"}]}}"#,
                &[(TextKind::Plan, "one"), (TextKind::Plan, "two")],
            ),
            (r#"{"sessionUpdate":7,"title":[],"content":"loose"}"#, &[]),
        ];
        for (text, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|(kind, text)| (*kind, (*text).to_owned())).collect();
            assert_eq!(update(text), expected, "{text}");
        }
        assert_eq!(
            found(r#"{"method":"session/prompt","id":1,"params":{"prompt":[{"type":"text","text":"do"}]}}"#),
            [(TextKind::User, "do".to_owned())]
        );
        for noise in ["", "[", "nonsense", "[1,{}]", "{}", "[[]]"] {
            assert_eq!(found(noise), []);
        }
    }
}
