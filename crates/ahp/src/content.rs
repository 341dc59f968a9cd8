//! Content of messages and tool calls in the form of the protocol, and the store behind content URIs.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use switchboard_acp::v2::{self, ContentBlock, EmbeddedResourceResource};
use switchboard_diff::{
    Direction, FilePatch, LineKind, Operation, apply_to_bytes, parse_patch, sections, stat,
};

use crate::wire::{encoded, file_name, file_uri};

/// Scheme of content URIs.
pub(crate) const SCHEME: &str = "switchboard-content:/";
/// Maximum number of bytes kept behind the content URIs of one session. The oldest are dropped first.
const MAX_STORED: usize = 32 << 20;
/// Maximum length of a text of a tool call in bytes.
const MAX_TEXT: usize = 256 << 10;

/// Reads a file that clients may see; `None` if it is too large, outside the allowed folders or cannot be read.
pub(crate) type ReadFile<'f> = &'f dyn Fn(&str) -> Option<Vec<u8>>;

/// The same function, shared.
pub(crate) type SharedReadFile = Arc<dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync>;

/// Content of a content URI.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stored {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) kind: String,
}

/// Contents of one session that clients read by URI.
#[derive(Debug)]
pub(crate) struct Contents {
    prefix: String,
    next: u64,
    stored: HashMap<String, Stored>,
    order: VecDeque<String>,
    bytes: usize,
}

impl Contents {
    /// Creates an empty store for a session. `salt` keeps the URIs distinct from those of other runs.
    pub(crate) fn new(session: &str, salt: u64) -> Self {
        let prefix = format!("{SCHEME}{}/{salt:x}", encoded(session).replace('/', "%2F"));
        Contents { prefix, next: 0, stored: HashMap::new(), order: VecDeque::new(), bytes: 0 }
    }

    /// Stores content and returns its URI, which ends with the file's name.
    pub(crate) fn add(&mut self, bytes: Vec<u8>, kind: &str, name: &str) -> String {
        self.next += 1;
        let uri = format!("{}-{}/{}", self.prefix, self.next, encoded(name).replace('/', "%2F"));
        self.bytes += bytes.len();
        self.order.push_back(uri.clone());
        self.stored.insert(uri.clone(), Stored { bytes: bytes.into(), kind: kind.to_owned() });
        while self.bytes > MAX_STORED
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.stored.remove(&oldest).map_or(0, |stored| stored.bytes.len());
        }
        uri
    }

    pub(crate) fn get(&self, uri: &str) -> Option<&Stored> {
        self.stored.get(uri)
    }
}

impl Stored {
    /// Returns the result of `resourceRead`.
    pub(crate) fn to_result(&self) -> Value {
        resource(&self.bytes, &self.kind)
    }
}

/// Returns the result of `resourceRead` for bytes.
pub(crate) fn resource(bytes: &[u8], kind: &str) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({"data": text, "encoding": "utf-8", "contentType": kind}),
        Err(_) => json!({"data": BASE64.encode(bytes), "encoding": "base64", "contentType": kind}),
    }
}

/// Returns a text without line breaks and Markdown's brackets, as the label of a link.
fn label(text: &str) -> String {
    text.chars()
        .map(|c| if matches!(c, '[' | ']' | '<' | '>' | '`') || c.is_control() { ' ' } else { c })
        .collect()
}

/// Returns a text so that Markdown shows it as it is.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(
            c,
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '$' | '!'
        ) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Returns a code block whose fence is longer than every run of backticks in the text.
pub(crate) fn code_block(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

/// Returns a text cut to the maximum length.
pub(crate) fn clipped(text: &str) -> String {
    clipped_to(text, MAX_TEXT)
}

/// Returns a text cut to a length in bytes, with a mark where something is missing.
pub(crate) fn clipped_to(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = (0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

/// Returns a Markdown link. Schemes that could do more than show something are not linked.
pub(crate) fn link(text: &str, uri: &str) -> String {
    let is_safe = ["file://", "https://", "http://"].iter().any(|scheme| uri.starts_with(scheme))
        && !uri.contains(['<', '>', '\n', ' ']);
    match is_safe {
        true => format!("[{}](<{uri}>)", label(text)),
        false => format!("{} ({})", escaped(text), code_span(uri)),
    }
}

pub(crate) fn code_span(text: &str) -> String {
    let text = label(text);
    format!("`{text}`")
}

/// A block of a message other than text, as parts of a turn.
pub(crate) enum Shown {
    Markdown(String),
    /// Content that clients read by URI, and a line that names it for clients that do not show it.
    Reference {
        uri: String,
        kind: String,
        line: String,
    },
    /// A kind that this version does not know. The log has it.
    Nothing,
}

/// Returns a block of a message as clients show it.
pub(crate) fn shown(block: &ContentBlock<'_>, contents: &mut Contents) -> Shown {
    let mut refer = |bytes: Vec<u8>, kind: &str, name: &str| {
        let line = format!("*{}*: {} bytes of {}", escaped(name), bytes.len(), code_span(kind));
        Shown::Reference { uri: contents.add(bytes, kind, name), kind: kind.to_owned(), line }
    };
    match block {
        ContentBlock::Text(text) => Shown::Markdown(text.text.to_string()),
        ContentBlock::Image(image) => {
            let name = image.uri.as_deref().map_or("image", file_name);
            refer(image.data.to_bytes(), &image.mime_type, name)
        }
        ContentBlock::Audio(audio) => refer(audio.data.to_bytes(), &audio.mime_type, "audio"),
        ContentBlock::ResourceLink(resource) => {
            Shown::Markdown(link(resource.title.as_deref().unwrap_or(&resource.name), &resource.uri))
        }
        ContentBlock::Resource(resource) => match &resource.resource {
            EmbeddedResourceResource::Text(text) => {
                let kind = text.mime_type.as_deref().unwrap_or("text/plain");
                refer(text.text.as_bytes().to_vec(), kind, file_name(&text.uri))
            }
            EmbeddedResourceResource::Blob(blob) => {
                let kind = blob.mime_type.as_deref().unwrap_or("application/octet-stream");
                refer(blob.blob.to_bytes(), kind, file_name(&blob.uri))
            }
        },
        ContentBlock::Unknown(_) => Shown::Nothing,
        ContentBlock::More(none) => none.never(),
    }
}

/// Returns a block of a prompt of another client as an attachment; `None` for text.
pub(crate) fn attachment(block: &ContentBlock<'_>, contents: &mut Contents) -> Option<Value> {
    match block {
        ContentBlock::Text(_) => None,
        ContentBlock::ResourceLink(resource) => {
            Some(json!({"type": "resource", "label": &*resource.name, "uri": &*resource.uri}))
        }
        block => match shown(block, contents) {
            Shown::Reference { uri, kind, .. } => {
                let name = file_name(&uri).to_owned();
                let display = if kind.starts_with("image/") { "image" } else { "document" };
                Some(json!({"type": "resource", "label": name, "uri": uri, "displayKind": display}))
            }
            Shown::Markdown(_) | Shown::Nothing => None,
        },
    }
}

/// Returns a block of a tool call's output.
pub(crate) fn tool_output(block: &ContentBlock<'_>) -> Option<Value> {
    let embedded =
        |data: String, kind: &str| json!({"type": "embeddedResource", "data": data, "contentType": kind});
    match block {
        ContentBlock::Text(text) => Some(json!({"type": "text", "text": clipped(&text.text)})),
        ContentBlock::Image(image) => Some(embedded(BASE64.encode(image.data.to_bytes()), &image.mime_type)),
        ContentBlock::Audio(audio) => Some(embedded(BASE64.encode(audio.data.to_bytes()), &audio.mime_type)),
        ContentBlock::ResourceLink(resource) => {
            let mut link = json!({"type": "resource", "uri": &*resource.uri});
            if let Some(kind) = &resource.mime_type {
                link["contentType"] = json!(&**kind);
            }
            Some(link)
        }
        ContentBlock::Resource(resource) => Some(match &resource.resource {
            EmbeddedResourceResource::Text(text) => json!({"type": "text", "text": clipped(&text.text)}),
            EmbeddedResourceResource::Blob(blob) => embedded(
                BASE64.encode(blob.blob.to_bytes()),
                blob.mime_type.as_deref().unwrap_or("application/octet-stream"),
            ),
        }),
        ContentBlock::Unknown(_) => None,
        ContentBlock::More(none) => none.never(),
    }
}

// ----- diffs

/// Returns the patch of a diff for people; `None` if it has none.
pub(crate) fn patch_text(diff: &v2::Diff<'_>) -> Option<String> {
    let patch = diff.patch.as_ref().filter(|patch| patch.format == v2::DiffPatchFormat::GitPatch)?;
    Some(clipped(&patch.text))
}

/// Returns the changed files of a diff, each as a content item with both sides. The sides are whole files where
/// `read` has the file and the patch fits it, else the hunks alone.
pub(crate) fn file_edits(wire: &v2::Diff<'_>, read: ReadFile<'_>, contents: &mut Contents) -> Vec<Value> {
    let diff = switchboard_diff::Diff::from(wire);
    let patch = diff.patch.as_ref().filter(|patch| patch.format == switchboard_diff::PatchFormat::GitPatch);
    let parsed = patch.map(|patch| parse_patch(patch.text.as_bytes())).unwrap_or_default();
    let places = sections(&diff, &parsed.files);
    let counts = stat(&diff);
    let changes = diff.changes.iter().zip(places).zip(counts);
    changes
        .map(|((change, place), counts)| {
            let section = place.and_then(|place| parsed.files.get(place)).filter(|_| counts.lines.is_some());
            let Some(section) = section else {
                let text = match &change.old_path {
                    Some(old) => format!("{}: {old} to {}", verb(&change.operation), change.path),
                    None => format!("{}: {}", verb(&change.operation), change.path),
                };
                return json!({"type": "text", "text": text});
            };
            let (before, after) = sides(section, &change.path, read);
            let kind = change.mime_type.as_deref().unwrap_or("text/plain");
            let mut side = |path: &str, bytes: Vec<u8>| {
                let uri = contents.add(bytes, kind, file_name(path));
                json!({"uri": file_uri(path), "content": {"uri": uri, "contentType": kind}})
            };
            let (added, removed) = counts.lines.unwrap_or_default();
            let mut edit = json!({"type": "fileEdit", "diff": {"added": added, "removed": removed}});
            if change.operation != Operation::Add {
                edit["before"] = side(change.old_path.as_deref().unwrap_or(&change.path), before);
            }
            if change.operation != Operation::Delete {
                edit["after"] = side(&change.path, after);
            }
            edit
        })
        .collect()
}

fn verb(operation: &Operation) -> &'static str {
    match operation {
        Operation::Add => "Added",
        Operation::Delete => "Deleted",
        Operation::Move => "Moved",
        Operation::Copy => "Copied",
        _ => "Changed",
    }
}

/// Returns the old and the new content of a file.
fn sides(section: &FilePatch<'_>, path: &str, read: ReadFile<'_>) -> (Vec<u8>, Vec<u8>) {
    if matches!(section.operation, Operation::Modify | Operation::Move | Operation::Copy)
        && let Some(now) = read(path)
    {
        // The edit is usually in the file already.
        let undone =
            apply_to_bytes(section, Some(&now), Direction::Backward).ok().and_then(|applied| applied.content);
        if let Some(before) = undone {
            return (before, now);
        }
        let done =
            apply_to_bytes(section, Some(&now), Direction::Forward).ok().and_then(|applied| applied.content);
        if let Some(after) = done {
            return (now, after);
        }
    }
    let lines = |is_side: fn(LineKind) -> bool| {
        let mut text = Vec::new();
        for line in section.hunks().iter().flat_map(|hunk| &hunk.lines).filter(|line| is_side(line.kind)) {
            text.extend_from_slice(line.content);
            if line.newline {
                text.push(b'\n');
            }
        }
        text
    };
    (lines(LineKind::is_old), lines(LineKind::is_new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff() -> v2::Diff<'static> {
        let change = v2::DiffPathChange::new(switchboard_acp::AbsolutePath::as_sent("/w/notes.txt"));
        let mut diff = v2::Diff::new(vec![v2::DiffChange::Modify(change)]);
        diff.patch = Some(v2::DiffPatch::git(
            "diff --git a/w/notes.txt b/w/notes.txt\n--- a/w/notes.txt\n+++ b/w/notes.txt\n@@ -2,1 +2,2 @@\n-two\n+TWO\n+more\n",
        ));
        diff
    }

    fn sides_of(edit: &Value, contents: &Contents) -> (String, String) {
        let side = |name: &str| {
            let uri = edit[name]["content"]["uri"].as_str().unwrap();
            assert!(uri.ends_with("/notes.txt"), "{uri}");
            String::from_utf8(contents.get(uri).unwrap().bytes.to_vec()).unwrap()
        };
        (side("before"), side("after"))
    }

    #[test]
    fn sides_of_an_edit_are_whole_files_where_the_file_fits_the_patch() {
        let mut contents = Contents::new("s", 1);
        for (file, expected) in [
            (Some("one\nTWO\nmore\nthree\n"), ("one\ntwo\nthree\n", "one\nTWO\nmore\nthree\n")),
            (Some("one\ntwo\nthree\n"), ("one\ntwo\nthree\n", "one\nTWO\nmore\nthree\n")),
            (Some("something else\n"), ("two\n", "TWO\nmore\n")),
            (None, ("two\n", "TWO\nmore\n")),
        ] {
            let read = |path: &str| {
                assert_eq!(path, "/w/notes.txt");
                file.map(|text| text.as_bytes().to_vec())
            };
            let edits = file_edits(&diff(), &read, &mut contents);
            assert_eq!(edits.len(), 1);
            assert_eq!(edits[0]["diff"], json!({"added": 2, "removed": 1}));
            let _: ahp_types::state::ToolResultContent = serde_json::from_value(edits[0].clone()).unwrap();
            let (before, after) = sides_of(&edits[0], &contents);
            assert_eq!((&*before, &*after), expected, "{file:?}");
        }
    }

    #[test]
    fn contents_are_bounded() {
        let mut contents = Contents::new("a/b", 1);
        let first = contents.add(vec![0; MAX_STORED / 2], "x/y", "a b/c");
        assert!(first.ends_with("/a%20b%2Fc"), "{first}");
        let second = contents.add(vec![1; MAX_STORED / 2], "x/y", "n");
        let third = contents.add(vec![2], "x/y", "n");
        assert_eq!(contents.get(&first), None);
        assert!(contents.get(&second).is_some() && contents.get(&third).is_some());
    }

    #[test]
    fn markdown_of_others_stays_text() {
        assert_eq!(escaped("a*b_[c]<d>"), r"a\*b\_\[c\]\<d\>");
        assert_eq!(link("x](y", "https://h/p"), "[x (y](<https://h/p>)");
        assert_eq!(link("x", "command:evil"), "x (`command:evil`)");
        assert_eq!(code_block("", "```\nx"), "````\n```\nx\n````");
        assert_eq!(clipped_to("äöü", 3), "ä…");
    }
}
