//! What of a message can be searched for. It reads both versions of the protocol, and whatever else agents
//! send, by the keys that they share; what it does not know, it passes over.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::record::{Channel, Record};

/// What a text that can be searched for is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextKind {
    /// What the user wrote.
    User,
    /// What the agent wrote.
    Agent,
    /// What it thought.
    Thought,
    /// The title of a tool call or of a permission.
    Title,
    /// A command line.
    Command,
    /// A path.
    Path,
    /// A patch or the new text of a file.
    Patch,
    /// What a tool gave back.
    Output,
    /// An entry of a plan.
    Plan,
    /// Standard error and events of the process.
    Log,
}

impl TextKind {
    /// All kinds.
    pub const ALL: [TextKind; 10] = [
        TextKind::User,
        TextKind::Agent,
        TextKind::Thought,
        TextKind::Title,
        TextKind::Command,
        TextKind::Path,
        TextKind::Patch,
        TextKind::Output,
        TextKind::Plan,
        TextKind::Log,
    ];

    /// Its name.
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

    /// The kind with a name.
    pub fn parse(name: &str) -> Option<Self> {
        TextKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    pub(crate) fn code(self) -> i64 {
        TextKind::ALL.iter().position(|kind| *kind == self).map_or(0, |place| place as i64)
    }

    pub(crate) fn from_code(code: i64) -> Option<Self> {
        TextKind::ALL.get(usize::try_from(code).ok()?).copied()
    }
}

/// A text out of a record. Chunks of the same thing have the same `run`, and together they are one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// What it is.
    pub kind: TextKind,
    /// What the chunks of one thing have in common; empty for what comes in one piece.
    pub run: String,
    /// The text.
    pub text: String,
}

type Part<'a> = Option<&'a RawValue>;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    method: Part<'a>,
    #[serde(borrow)]
    params: Part<'a>,
}

/// The parameters of the methods that have anything to read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow)]
    update: Part<'a>,
    #[serde(borrow)]
    prompt: Part<'a>,
    #[serde(borrow)]
    title: Part<'a>,
    #[serde(borrow)]
    description: Part<'a>,
    #[serde(borrow)]
    command: Part<'a>,
    #[serde(borrow)]
    args: Part<'a>,
    #[serde(borrow)]
    path: Part<'a>,
    #[serde(borrow)]
    tool_call: Part<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Update<'a> {
    #[serde(borrow)]
    session_update: Part<'a>,
    #[serde(borrow)]
    message_id: Part<'a>,
    #[serde(borrow)]
    tool_call_id: Part<'a>,
    #[serde(borrow)]
    title: Part<'a>,
    #[serde(borrow)]
    content: Part<'a>,
    #[serde(borrow)]
    locations: Part<'a>,
    #[serde(borrow)]
    raw_input: Part<'a>,
    #[serde(borrow)]
    command: Part<'a>,
    #[serde(borrow)]
    plan: Part<'a>,
    #[serde(borrow)]
    entries: Part<'a>,
    #[serde(borrow)]
    summary: Part<'a>,
}

/// Content of any kind, and what it is made of.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content<'a> {
    #[serde(borrow)]
    text: Part<'a>,
    #[serde(borrow)]
    content: Part<'a>,
    #[serde(borrow)]
    resource: Part<'a>,
    #[serde(borrow)]
    entries: Part<'a>,
    #[serde(borrow)]
    path: Part<'a>,
    #[serde(borrow, alias = "file_path", alias = "filePath")]
    file_path: Part<'a>,
    #[serde(borrow)]
    old_path: Part<'a>,
    #[serde(borrow)]
    new_text: Part<'a>,
    #[serde(borrow)]
    changes: Part<'a>,
    #[serde(borrow)]
    patch: Part<'a>,
    #[serde(borrow)]
    diff: Part<'a>,
    #[serde(borrow)]
    command: Part<'a>,
}

fn object<'a, T: Deserialize<'a>>(part: Part<'a>) -> Option<T> {
    let text = part?.get();
    // An array would be read as the fields of a struct in their order.
    text.starts_with('{').then(|| serde_json::from_str(text).ok())?
}

fn string(part: Part<'_>) -> Option<String> {
    serde_json::from_str(part?.get()).ok()
}

fn items(part: Part<'_>) -> Vec<&RawValue> {
    part.and_then(|part| serde_json::from_str(part.get()).ok()).unwrap_or_default()
}

/// All texts of a record.
pub fn texts(record: &Record) -> Vec<Text> {
    let mut found = Found::default();
    if record.channel.is_other_side() {
        return found.texts;
    }
    if !record.channel.is_message() {
        found.put(TextKind::Log, "", Some(String::from_utf8_lossy(&record.bytes).into_owned()));
        return found.texts;
    }
    let Ok(text) = std::str::from_utf8(&record.bytes) else { return found.texts };
    if text.trim_start().starts_with('[') {
        for message in serde_json::from_str::<Vec<&RawValue>>(text).unwrap_or_default() {
            found.message(message.get(), record.channel);
        }
    } else {
        found.message(text, record.channel);
    }
    found.texts
}

#[derive(Default)]
struct Found {
    texts: Vec<Text>,
}

impl Found {
    fn put(&mut self, kind: TextKind, run: &str, text: Option<String>) {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return };
        match self.texts.last_mut() {
            // Blocks of one message, and chunks of one thing, belong together.
            Some(last) if last.kind == kind && last.run == run && !run.is_empty() => {
                last.text.push_str(&text);
            }
            _ => self.texts.push(Text { kind, run: run.to_owned(), text }),
        }
    }

    fn message(&mut self, text: &str, channel: Channel) {
        if !text.trim_start().starts_with('{') {
            return;
        }
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(text) else { return };
        let Some(method) = string(envelope.method) else { return };
        let Some(params) = object::<Params<'_>>(envelope.params) else { return };
        match (&*method, channel) {
            ("session/update", _) => self.update(params.update),
            ("session/prompt", _) => self.content(params.prompt, TextKind::User, "prompt", 0),
            ("session/request_permission", _) => {
                self.put(TextKind::Title, "", string(params.title));
                self.put(TextKind::Title, "", string(params.description));
                self.update(params.tool_call);
            }
            ("terminal/create", _) => {
                let words = string(params.command).into_iter();
                let words: Vec<_> = words
                    .chain(items(params.args).into_iter().filter_map(|word| string(Some(word))))
                    .collect();
                self.put(TextKind::Command, "", Some(words.join(" ")));
            }
            ("fs/read_text_file" | "fs/write_text_file", _) => {
                self.put(TextKind::Path, "", string(params.path));
            }
            _ => {}
        }
    }

    fn update(&mut self, update: Part<'_>) {
        let Some(update) = object::<Update<'_>>(update) else { return };
        let name = string(update.session_update).unwrap_or_default();
        let kind = match &*name {
            "user_message" | "user_message_chunk" => TextKind::User,
            "agent_message" | "agent_message_chunk" => TextKind::Agent,
            "agent_thought" | "agent_thought_chunk" => TextKind::Thought,
            "plan" | "plan_update" => TextKind::Plan,
            _ => TextKind::Output,
        };
        let id = string(update.message_id).or_else(|| string(update.tool_call_id)).unwrap_or_default();
        let run = format!("{}/{id}", kind.as_str());
        if name != "session_info_update" {
            self.put(TextKind::Title, "", string(update.title));
        }
        self.content(update.content, kind, &run, 0);
        self.content(update.summary, kind, &run, 0);
        self.content(update.plan, kind, "", 0);
        self.content(update.entries, kind, "", 0);
        self.put(TextKind::Command, "", string(update.command));
        for location in items(update.locations) {
            self.paths(Some(location));
        }
        if let Some(input) = object::<Content<'_>>(update.raw_input) {
            self.command(input.command);
            self.put(TextKind::Path, "", string(input.path).or_else(|| string(input.file_path)));
        }
    }

    fn paths(&mut self, part: Part<'_>) {
        if let Some(change) = object::<Content<'_>>(part) {
            self.put(TextKind::Path, "", string(change.old_path));
            self.put(TextKind::Path, "", string(change.path));
        }
    }

    fn command(&mut self, part: Part<'_>) {
        let words: Vec<_> = items(part).into_iter().filter_map(|word| string(Some(word))).collect();
        let command = string(part).or_else(|| (!words.is_empty()).then(|| words.join(" ")));
        self.put(TextKind::Command, "", command);
    }

    fn content(&mut self, part: Part<'_>, kind: TextKind, run: &str, depth: usize) {
        let Some(raw) = part.filter(|_| depth < 8) else { return };
        match raw.get().as_bytes().first() {
            Some(b'[') => {
                for item in items(part) {
                    self.content(Some(item), kind, run, depth + 1);
                }
            }
            Some(b'"') if depth > 0 => self.put(kind, run, string(part)),
            Some(b'{') => {
                let Some(content) = object::<Content<'_>>(part) else { return };
                self.put(kind, run, string(content.text));
                self.content(content.content, kind, run, depth + 1);
                self.content(content.resource, kind, run, depth + 1);
                self.content(content.entries, kind, run, depth + 1);
                for change in items(content.changes) {
                    self.paths(Some(change));
                }
                if content.new_text.is_some() {
                    self.put(TextKind::Path, "", string(content.path));
                    self.put(TextKind::Patch, "", string(content.new_text));
                }
                if let Some(patch) = object::<Content<'_>>(content.patch) {
                    self.put(TextKind::Patch, "", string(patch.text).or_else(|| string(patch.diff)));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
