//! Entries of a session as text for people.

use std::fmt::Write;
use std::time::Duration;

use switchboard_acp::display::elapsed;
use switchboard_acp::display::{visible, visible_line};
use switchboard_acp::{Raw, v2};
use switchboard_policy::{RequestContext, Source, Subject};
use switchboard_session::{Session, ToolCall};

use crate::terminal::diff;
use crate::terminal::style::{Role, Style};
use crate::terminal::text::{terminal_output, visible_path};

/// Amount of a long output to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Amount {
    /// The last lines.
    Tail,
    /// All of it.
    All,
}

const TAIL: usize = 12;

/// Returns the title to show for a tool call.
pub(super) fn title(call: &ToolCall) -> String {
    let title = call.title().or_else(|| call.name()).unwrap_or("A tool call without a title");
    visible_line(title)
}

/// Returns one line with status, title and duration.
pub(super) fn headline(call: &ToolCall, took: Option<Duration>, style: Style) -> String {
    let (mark, role) = match call.status() {
        v2::ToolCallStatus::Completed => ("✓", Role::Good),
        v2::ToolCallStatus::Failed => ("✗", Role::Bad),
        v2::ToolCallStatus::Cancelled => ("∅", Role::Doubtful),
        _ => ("…", Role::Doubtful),
    };
    let mut line = format!("{} {}", style.paint(role, mark), style.paint(Role::Strong, title(call)));
    let status = visible_line(call.status().as_str());
    let details = match took {
        Some(took) => format!("{status}, {}", elapsed(took)),
        None => status,
    };
    let _ = write!(line, " {}", style.paint(Role::Faint, format!("({details})")));
    line
}

/// Returns the content of a tool call.
pub(super) fn content(session: &Session, call: &ToolCall, amount: Amount, style: Style) -> String {
    let mut text = String::new();
    let mut words = String::new();
    for item in call.content().items() {
        if let Some(more) = item.text() {
            words.push_str(more);
            continue;
        }
        push_words(&mut text, &mut words, amount);
        match item.block() {
            v2::ToolCallContent::Diff(content) => text.push_str(&diff::render(&content, style)),
            v2::ToolCallContent::Terminal(terminal) => {
                if let Some(terminal) = session.terminal(&terminal.terminal_id) {
                    if let Some(command) = terminal.command() {
                        let _ = writeln!(
                            text,
                            "{}",
                            style.paint(Role::Faint, format!("$ {}", visible_line(command)))
                        );
                    }
                    words = terminal_output(&terminal.output().to_vec());
                    push_words(&mut text, &mut words, amount);
                }
            }
            v2::ToolCallContent::Content(content) => {
                let _ = writeln!(text, "{}", block(&content.content));
            }
            v2::ToolCallContent::Session(session) => {
                let _ = writeln!(text, "[session {}]", visible_line(&session.session_id));
            }
            v2::ToolCallContent::Unknown(unknown) => {
                let _ = writeln!(text, "[{}]", visible_line(&unknown.tag));
            }
            v2::ToolCallContent::More(none) => none.never(),
        }
    }
    push_words(&mut text, &mut words, amount);
    text
}

fn push_words(text: &mut String, words: &mut String, amount: Amount) {
    let taken = std::mem::take(words);
    let shown = visible(taken.trim_end_matches('\n'));
    if shown.is_empty() {
        return;
    }
    let lines: Vec<&str> = shown.lines().collect();
    let skipped = if amount == Amount::Tail { lines.len().saturating_sub(TAIL) } else { 0 };
    if skipped > 0 {
        let _ = writeln!(text, "... {skipped} lines before");
    }
    for line in &lines[skipped..] {
        text.push_str(line);
        text.push('\n');
    }
}

/// Returns content that is not plain text, in brackets.
pub(super) fn block(block: &v2::ContentBlock<'_>) -> String {
    match block {
        v2::ContentBlock::Text(text) => visible(&text.text).into_owned(),
        v2::ContentBlock::Image(image) => format!("[image, {}]", visible_line(&image.mime_type)),
        v2::ContentBlock::Audio(audio) => format!("[audio, {}]", visible_line(&audio.mime_type)),
        v2::ContentBlock::ResourceLink(link) => {
            format!("[{}]({})", visible_line(&link.name), visible_line(&link.uri))
        }
        v2::ContentBlock::Resource(resource) => match &resource.resource {
            v2::EmbeddedResourceResource::Text(text) => {
                format!("[{}]\n{}", visible_line(&text.uri), visible(&text.text))
            }
            v2::EmbeddedResourceResource::Blob(blob) => format!("[{}]", visible_line(&blob.uri)),
        },
        v2::ContentBlock::Unknown(unknown) => format!("[{}]", visible_line(&unknown.tag)),
        v2::ContentBlock::More(none) => none.never(),
    }
}

/// Returns a plan on one line.
pub(super) fn plan(content: &v2::PlanUpdateContent<'_>) -> Option<String> {
    let v2::PlanUpdateContent::Items(items) = content else { return None };
    let done = |entry: &&v2::PlanEntry<'_>| entry.status == v2::PlanEntryStatus::Completed;
    let finished = items.entries.iter().filter(done).count();
    let current = items.entries.iter().find(|entry| entry.status == v2::PlanEntryStatus::InProgress);
    let current = current.map_or(String::new(), |entry| format!(": {}", visible_line(&entry.content)));
    Some(format!("plan {finished}/{}{current}", items.entries.len()))
}

/// Returns everything that matters for the answer to a question.
pub(super) fn question(
    session: &Session,
    request: &v2::RequestPermissionRequest<'_>,
    style: Style,
) -> String {
    let mut text = format!(
        "{} {}\n",
        style.paint(Role::Doubtful, "?"),
        style.paint(Role::Strong, visible_line(&request.title))
    );
    if let Some(description) = &request.description {
        let _ = writeln!(text, "{}", visible(description));
    }
    // Do not repeat the line above.
    let mut said = vec![visible_line(&request.title)];
    match &request.subject {
        Some(v2::RequestPermissionSubject::Command(subject)) => {
            if !is_among(&said, &visible(&subject.command)) {
                let _ = writeln!(text, "  command: {}", visible(&subject.command));
            }
            let _ = writeln!(text, "  in:      {}", visible_line(subject.cwd.as_str()));
        }
        Some(v2::RequestPermissionSubject::ToolCall(subject)) => {
            if let Some(call) = session.tool_call(&subject.tool_call.tool_call_id) {
                let (title, kind) = (title(call), visible_line(call.kind().as_str()));
                if said.contains(&title) {
                    let _ = writeln!(text, "  tool call: {kind}");
                } else {
                    let _ = writeln!(text, "  tool call: {title} ({kind})");
                    said.push(title);
                }
                let about = Subject::of(session, request.subject.as_ref(), None, &RequestContext::default());
                if about.source() == Source::Structured && about.command().is_some() {
                    let words = about.short_summary();
                    let command = visible(&words);
                    if !is_among(&said, &command) {
                        let _ = writeln!(text, "  command: {command}");
                        said.push(command.into_owned());
                    }
                }
                for location in call.locations() {
                    let _ = writeln!(text, "  file: {}", visible_path(location.path.as_str()));
                }
                if let Some(input) = call.raw_input().filter(|input| !is_said(input, &said)) {
                    let _ = writeln!(text, "  input: {}", visible(input.as_str()));
                }
                text.push_str(&content(session, call, Amount::All, style));
            }
        }
        Some(v2::RequestPermissionSubject::Unknown(subject)) => {
            let _ = writeln!(text, "  {}:", visible_line(&subject.tag));
            for (key, value) in subject.entries.iter() {
                let _ = writeln!(text, "    {}: {}", visible_line(key), visible(value.as_str()));
            }
        }
        None => {}
        Some(v2::RequestPermissionSubject::More(none)) => none.never(),
    }
    for (place, option) in request.options.iter().enumerate() {
        let _ = writeln!(
            text,
            "  {} {}",
            style.paint(Role::Place, format!("[{}]", place + 1)),
            visible_line(&option.name)
        );
    }
    text
}

fn is_among(said: &[String], words: &str) -> bool {
    said.iter().any(|line| line == words)
}

/// Returns whether a tool's input is only a command that is already shown.
fn is_said(input: &Raw<'_>, said: &[String]) -> bool {
    let mut entries = input.entries();
    let (Some((key, value)), None) = (entries.next(), entries.next()) else { return false };
    key == "command" && value.as_text().is_some_and(|command| is_among(said, &visible(&command)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use switchboard_acp::{Wire, WireFormat};

    use super::*;

    /// Returns the question about a tool call with this title and input.
    fn asked(title: &str, call: &str, input: &serde_json::Value) -> String {
        let mut session = Session::new(WireFormat::Any);
        let told = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": call, "kind": "execute",
            "rawInput": input});
        session.apply(&v2::SessionUpdate::decode(&told.to_string(), WireFormat::Any).unwrap());
        let request = json!({"sessionId": "s", "title": title,
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
            "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c"}}});
        let request = request.to_string();
        let request = v2::RequestPermissionRequest::decode(&request, WireFormat::Any).unwrap();
        question(&session, &request, Style::PLAIN)
    }

    #[test]
    fn a_command_is_shown_once() {
        let command = "cargo test --all";
        let shown = asked(command, command, &json!({"command": command}));
        assert_eq!(shown, "? cargo test --all\n  tool call: execute\n  [1] Yes\n");
        let shown = asked("Run a command?", command, &json!({"command": command}));
        assert_eq!(shown, "? Run a command?\n  tool call: cargo test --all (execute)\n  [1] Yes\n");
        let shown = asked("Run tests?", "Tests", &json!({"command": command}));
        assert_eq!(
            shown,
            "? Run tests?\n  tool call: Tests (execute)\n  command: cargo test --all\n  [1] Yes\n"
        );
    }

    #[test]
    fn differing_parts_are_shown_in_addition() {
        let shown = asked("ls", "ls", &json!({"command": "rm -rf /"}));
        assert!(shown.contains("  command: rm -rf /\n"), "{shown}");
        let shown = asked("ls", "ls", &json!({"command": "ls", "cwd": "/etc"}));
        assert!(shown.contains("  input: {") && shown.contains("/etc"), "{shown}");
    }
}
