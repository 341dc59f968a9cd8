//! The exact content of a question: the text that a user reads before answering, and the key of a remembered answer.

use std::fmt::Write;

use switchboard_acp::{Extra, Meta, Wire, WireFormat, v2};
use switchboard_diff::PARTIAL_KEY;
use switchboard_session::{EntryKind, Permission, Snapshot, ToolCall};

use super::view::hash;

/// The complete content of a question as one text. Equal texts ask the same.
///
/// A tool call is included in its state after all updates, because the question itself may contain only the call's
/// id. Ids and the call's progress are left out: ids differ each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    text: String,
    /// Increases with every change of the content, including a change back to an earlier content.
    content_revision: u64,
    /// Reason why the text does not fully describe the operation, if it does not.
    unclear: Option<&'static str>,
    /// Description of malformed parts that the text lacks.
    left_out: Option<String>,
    /// Short description of the operation, in the agent's words.
    about: Option<String>,
}

const NO_SUBJECT: &str = "it does not tell what it is about";
const UNKNOWN_SUBJECT: &str = "it is about something of an unknown kind";
const NOTHING_TOLD: &str = "the call tells neither its input nor a command nor a change";
const UNKNOWN_PART: &str = "a part of it is of an unknown kind";
const LEFT_OUT: &str = "a part of it is malformed";
const CUT_OFF: &str = "it does not show all changed lines";

impl Asked {
    /// Builds the content of a permission request. `left_out` describes its malformed parts.
    pub(crate) fn permission(snapshot: &Snapshot, permission: &Permission, left_out: Option<String>) -> Self {
        let mut asked = Asked {
            text: String::new(),
            content_revision: permission.content_revision(),
            unclear: None,
            left_out: None,
            about: None,
        };
        if let Some(problem) = left_out {
            asked.add("left out", &problem);
            asked.fault(LEFT_OUT);
            asked.left_out = Some(problem);
        }
        asked.add("title", permission.title());
        asked.add_some("description", permission.description());
        asked.add_meta(permission.meta());
        asked.need_none(permission.extra());
        for option in permission.options() {
            asked.add("option", &option.encode(WireFormat::Any));
        }
        match permission.subject() {
            None => asked.fault(NO_SUBJECT),
            Some(v2::RequestPermissionSubject::ToolCall(subject)) => {
                asked.add("subject", "tool_call");
                asked.add_meta(subject.meta.as_ref());
                asked.need_none(&subject.extra);
                asked.need_none(&subject.tool_call.extra);
                match asked.add_call(snapshot, &subject.tool_call.tool_call_id) {
                    Some(call) if tells_something(call) => {}
                    _ => asked.fault(NOTHING_TOLD),
                }
            }
            Some(v2::RequestPermissionSubject::Command(subject)) => {
                let v2::CommandPermissionSubject {
                    command,
                    cwd,
                    tool_call_id,
                    terminal_id,
                    meta,
                    extra,
                    more: _,
                } = subject;
                asked.add("subject", "command");
                asked.about = Some(command.to_string());
                asked.add("command", command);
                asked.add("cwd", cwd);
                asked.add_meta(meta.as_ref());
                asked.need_none(extra);
                if let Some(id) = tool_call_id {
                    asked.add_call(snapshot, id);
                }
                if let Some(id) = terminal_id {
                    asked.add_terminal(snapshot, id);
                }
            }
            Some(subject @ v2::RequestPermissionSubject::Unknown(_)) => {
                asked.add("subject", &subject.encode(WireFormat::Any));
                asked.fault(UNKNOWN_SUBJECT);
            }
            Some(v2::RequestPermissionSubject::More(none)) => none.never(),
        }
        asked
    }

    /// Builds the content of an elicitation request.
    pub(crate) fn elicitation(request: &v2::CreateElicitationRequest<'_>, left_out: Option<String>) -> Self {
        Asked {
            text: request.encode(WireFormat::Any),
            content_revision: 0,
            unclear: Some(NO_SUBJECT),
            left_out,
            about: None,
        }
    }

    /// Returns a short identifier of this content. The hash is seeded per process, so agents cannot craft two texts
    /// that share an identifier.
    pub(crate) fn revision(&self) -> String {
        format!("{:x}-{:016x}", self.content_revision, hash(&self.text))
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns a short description of the operation.
    pub(crate) fn about(&self) -> Option<&str> {
        self.about.as_deref()
    }

    /// Returns the reason why an answer must not be remembered for similar questions, if there is one.
    pub(crate) fn unclear(&self) -> Option<&'static str> {
        self.unclear
    }

    /// Returns a description of the malformed parts of the question and its tool call, which are not shown.
    pub(crate) fn left_out(&self) -> Option<&str> {
        self.left_out.as_deref()
    }

    /// Appends a named text with its length, so that no text can imitate the field that follows it.
    fn add(&mut self, name: &str, text: &str) {
        let _ = writeln!(self.text, "{name} {}", text.len());
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn add_some(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.add(name, text);
        }
    }

    /// Appends metadata. Its meaning is unknown, so two questions are equal only if their metadata is.
    fn add_meta(&mut self, meta: Option<&Meta<'_>>) {
        self.add_some("_meta", meta.map(|meta| meta.encode(WireFormat::Any)).as_deref());
    }

    fn fault(&mut self, reason: &'static str) {
        self.unclear.get_or_insert(reason);
    }

    fn need_none(&mut self, extra: &Extra<'_>) {
        for (key, value) in extra.iter() {
            self.add("unknown key", key);
            self.add("value", value.as_str());
            self.fault(UNKNOWN_PART);
        }
    }

    /// Appends the current state of a tool call, and returns the call.
    fn add_call<'s>(&mut self, snapshot: &'s Snapshot, id: &str) -> Option<&'s ToolCall> {
        let entry = snapshot.find(EntryKind::ToolCall, id)?;
        let call = entry.as_tool_call()?;
        self.about = self.about.take().or_else(|| call.title().map(str::to_owned));
        self.add_some("call title", call.title());
        self.add_some("call name", call.name());
        self.add("kind", call.kind().as_str());
        for location in call.locations() {
            self.add("location", &location.encode(WireFormat::Any));
        }
        for (name, value) in [("input", call.raw_input()), ("output", call.raw_output())] {
            self.add_some(name, value.map(switchboard_acp::Raw::as_str));
        }
        self.add_some("can", call.capabilities().map(|can| can.encode(WireFormat::Any)).as_deref());
        self.add_meta(entry.meta());
        self.need_none(entry.extra());
        for item in call.content().items() {
            match item.structured() {
                // The terminal's id differs each time, so only the command in it counts.
                Some(v2::ToolCallContent::Terminal(terminal)) => {
                    self.add_terminal(snapshot, &terminal.terminal_id);
                    self.add_meta(terminal.meta.as_ref());
                    self.need_none(&terminal.extra);
                }
                block => {
                    self.add("content", &item.block().encode(WireFormat::Any));
                    if let Some(reason) = block.and_then(doubt) {
                        self.fault(reason);
                    }
                }
            }
            self.add_meta(item.chunk_meta());
            if let Some(extra) = item.chunk_extra() {
                self.need_none(extra);
            }
        }
        Some(call)
    }

    fn add_terminal(&mut self, snapshot: &Snapshot, id: &str) {
        match snapshot.terminal(id) {
            Some(terminal) => {
                self.add_some("terminal command", terminal.command());
                self.add_some("terminal cwd", terminal.cwd());
                self.add_meta(terminal.meta());
            }
            None => self.add("terminal", "not known"),
        }
    }
}

/// Returns `true` if a tool call describes its operation by an input or a diff.
fn tells_something(call: &ToolCall) -> bool {
    let has_input = call.raw_input().is_some_and(|input| {
        let text = input.as_str().trim();
        !matches!(text, "null" | "\"\"" | "true" | "false")
            && text.bytes().any(|byte| byte.is_ascii_alphanumeric())
    });
    let is_diff = |block: &v2::ToolCallContent<'_>| matches!(block, v2::ToolCallContent::Diff(_));
    has_input || call.content().items().filter_map(switchboard_session::Item::structured).any(is_diff)
}

/// Returns the reason why a piece of content is an incomplete description, if it is one.
fn doubt(block: &v2::ToolCallContent<'static>) -> Option<&'static str> {
    match block {
        v2::ToolCallContent::Content(content) => {
            let is_unknown =
                matches!(content.content, v2::ContentBlock::Unknown(_)) || !content.extra.is_empty();
            is_unknown.then_some(UNKNOWN_PART)
        }
        v2::ToolCallContent::Diff(diff) => {
            let v2::Diff { changes, patch, meta, extra, more: _ } = &**diff;
            let is_unknown_change =
                |change: &v2::DiffChange<'_>| matches!(change, v2::DiffChange::Unknown(_));
            if changes.iter().any(is_unknown_change) || !extra.is_empty() {
                return Some(UNKNOWN_PART);
            }
            let is_partial = meta.as_ref().is_some_and(|meta| meta.get(PARTIAL_KEY).is_some());
            match patch {
                Some(patch) if patch.format == v2::DiffPatchFormat::GitPatch => is_partial.then_some(CUT_OFF),
                Some(_) => Some(UNKNOWN_PART),
                None => Some(CUT_OFF),
            }
        }
        v2::ToolCallContent::Terminal(_) => None,
        // The text does not contain the content of the other session.
        v2::ToolCallContent::Session(_) | v2::ToolCallContent::Unknown(_) => Some(UNKNOWN_PART),
        v2::ToolCallContent::More(none) => none.never(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use switchboard_session::{Conversation, Moment, Side};

    use super::*;

    /// Returns the content of a permission request that follows the given updates.
    fn asked(updates: &[Value], request: &Value) -> Asked {
        let mut conversation = Conversation::new(WireFormat::Any);
        let mut read = |message: Value| {
            conversation.read(&message.to_string(), Some(Side::Agent), Moment(0)).unwrap();
        };
        for update in updates {
            let params = json!({ "sessionId": "s", "update": update });
            read(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
        }
        let mut params = json!({
            "sessionId": "s", "title": "Write a file",
            "options": [{ "optionId": "a", "name": "Always", "kind": "allow_always" }],
        });
        for (key, value) in request.as_object().unwrap() {
            params[key] = value.clone();
        }
        read(json!({ "jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": params }));
        let session = conversation.session(Some("s")).unwrap();
        Asked::permission(session, session.pending_permissions().next().unwrap(), None)
    }

    fn reference(id: &str) -> Value {
        json!({ "subject": { "type": "tool_call", "toolCall": { "toolCallId": id } } })
    }

    fn diff(patch: Option<&str>, meta: &Value) -> Value {
        let mut diff = json!({
            "type": "diff", "changes": [{ "operation": "modify", "path": "/w/a" }], "_meta": meta,
        });
        if let Some(text) = patch {
            diff["patch"] = json!({ "format": "git_patch", "text": text });
        }
        diff
    }

    /// Returns a tool call that has every possible field.
    fn call(id: &str) -> Value {
        json!({
            "sessionUpdate": "tool_call_update", "toolCallId": id, "title": "Write", "name": "write",
            "kind": "edit", "status": "pending", "locations": [{ "path": "/w/a", "line": 3 }],
            "rawInput": { "path": "/w/a" }, "rawOutput": { "size": 1 },
            "content": [
                { "type": "content", "content": { "type": "text", "text": "one" } },
                diff(Some("diff --git a/w/a b/w/a\n"), &json!({ "x": 1 })),
            ],
            "_meta": { "of": "call" },
        })
    }

    #[test]
    fn the_same_call_under_another_id_and_further_on_asks_the_same() {
        let mut later = call("c-2");
        later["status"] = "in_progress".into();
        let (first, second) = (asked(&[call("c-1")], &reference("c-1")), asked(&[later], &reference("c-2")));
        assert_eq!(first, second);
        assert_eq!(first.revision(), second.revision());
        assert_eq!(first.unclear(), None);
    }

    #[test]
    fn whatever_differs_in_the_call_is_another_question() {
        let known = asked(&[call("c")], &reference("c"));
        let mut changes = Vec::new();
        for (pointer, value) in [
            ("/title", json!("Write.")),
            ("/name", json!("writes")),
            ("/kind", json!("delete")),
            ("/locations/0/path", json!("/w/b")),
            ("/locations/0/line", json!(4)),
            ("/rawInput/path", json!("/home/me/.ssh/authorized_keys")),
            ("/rawOutput/size", json!(2)),
            ("/content/0/content/text", json!("two")),
            ("/content/1/changes/0/path", json!("/w/b")),
            ("/content/1/patch/text", json!("diff --git a/w/b b/w/b\n")),
            ("/content/1/_meta/x", json!(2)),
            ("/_meta/of", json!("another")),
        ] {
            let mut other = call("c");
            *other.pointer_mut(pointer).unwrap() = value;
            changes.push((pointer, asked(&[other], &reference("c"))));
        }
        let more = json!({
            "sessionUpdate": "tool_call_content_chunk", "toolCallId": "c",
            "content": { "type": "content", "content": { "type": "text", "text": "and more" } },
        });
        changes.push(("a chunk", asked(&[call("c"), more], &reference("c"))));
        for (name, value) in [
            ("title", json!("Write two files")),
            ("description", json!("really")),
            ("_meta", json!({ "a": 1 })),
            ("options", json!([{ "optionId": "a", "name": "Always!", "kind": "allow_always" }])),
        ] {
            let mut request = reference("c");
            request[name] = value;
            changes.push((name, asked(&[call("c")], &request)));
        }
        for (what, other) in changes {
            assert_ne!(other, known, "{what}");
            assert_ne!(other.revision(), known.revision(), "{what}");
        }
    }

    #[test]
    fn a_call_of_another_session_with_the_same_id_does_not_count() {
        let mut conversation = Conversation::new(WireFormat::Any);
        let params = json!({ "sessionId": "other", "update": call("c") });
        let told = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
        conversation.read(&told.to_string(), Some(Side::Agent), Moment(0)).unwrap();
        let mut unclear = |id: u64, session: &str| {
            let mut params = reference("c");
            (params["sessionId"], params["title"]) = (session.into(), "Write a file".into());
            params["options"] = json!([{ "optionId": "a", "name": "Always", "kind": "allow_always" }]);
            let asks = json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params });
            conversation.read(&asks.to_string(), Some(Side::Agent), Moment(0)).unwrap();
            let session = conversation.session(Some(session)).unwrap();
            Asked::permission(session, session.pending_permissions().last().unwrap(), None).unclear()
        };
        assert_eq!(unclear(1, "other"), None);
        assert_eq!(unclear(2, "s"), Some(NOTHING_TOLD));
    }

    #[test]
    fn text_cannot_move_from_one_place_to_the_next() {
        let question = |title: &str, description: &str| {
            asked(&[], &json!({ "title": title, "description": description })).text
        };
        assert_ne!(question("a", "b\noption 1\nx"), question("a\ndescription 1\nb", "option 1\nx"));
    }

    #[test]
    fn incomplete_questions_are_unclear() {
        let with = |content: Value| {
            let mut call = call("c");
            call["content"] = json!([content]);
            asked(&[call], &reference("c")).unclear()
        };
        let bare = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Write" });
        for input in [json!(null), json!({}), json!([]), json!(""), json!({ "": "" })] {
            let mut bare = bare.clone();
            bare["rawInput"] = input.clone();
            assert_eq!(asked(&[bare], &reference("c")).unclear(), Some(NOTHING_TOLD), "{input}");
        }
        assert_eq!(asked(&[], &reference("c")).unclear(), Some(NOTHING_TOLD));
        assert_eq!(asked(&[], &json!({})).unclear(), Some(NO_SUBJECT));
        let spell = json!({ "subject": { "type": "_spell", "words": "x" } });
        assert_eq!(asked(&[], &spell).unclear(), Some(UNKNOWN_SUBJECT));
        assert_eq!(with(json!({ "type": "_map" })), Some(UNKNOWN_PART));
        assert_eq!(with(json!({ "type": "content", "content": { "type": "_map" } })), Some(UNKNOWN_PART));
        assert_eq!(with(diff(None, &json!({}))), Some(CUT_OFF));
        assert_eq!(with(diff(Some("diff"), &json!({ PARTIAL_KEY: true }))), Some(CUT_OFF));
        assert_eq!(with(diff(Some("diff"), &json!({}))), None);
        let mut odd = diff(Some("diff"), &json!({}));
        odd["changes"][0]["operation"] = "_melt".into();
        assert_eq!(with(odd), Some(UNKNOWN_PART));
        let mut unknown_key = call("c");
        unknown_key["more"] = true.into();
        assert_eq!(asked(&[unknown_key], &reference("c")).unclear(), Some(UNKNOWN_PART));
        let command = json!({ "subject": { "type": "command", "command": "make", "cwd": "/w" } });
        assert_eq!(asked(&[], &command).unclear(), None);
    }
}
