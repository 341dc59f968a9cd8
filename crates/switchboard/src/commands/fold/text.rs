//! A transcript for people. Text of an agent is always sanitized for the terminal.

use std::collections::HashSet;
use std::io::{self, Write};

use switchboard_acp::{LineNumber, v2};
use switchboard_session::{
    Content, Conversation, Entry, EntryKind, Permission, Settlement, Snapshot, ToolCall,
};

use crate::terminal::text::visible_path;

/// Maximum indentation of nested sessions.
const MOST_INDENT: usize = 8;

/// Writes all sessions in order of first appearance, with sub-agents indented below their parent; with an id,
/// that session with its sub-agents.
pub(crate) fn write_all(
    out: &mut impl Write,
    conversation: &Conversation,
    only: Option<&str>,
) -> io::Result<()> {
    let is_below = |id: Option<&str>| {
        let parent = id.and_then(|id| conversation.parent(id));
        parent.is_some_and(|parent| conversation.session(Some(&parent.session)).is_some())
    };
    let tops = conversation.sessions().map(|(id, _)| id);
    let mut waiting: Vec<(Option<&str>, usize)> = match only {
        Some(id) => vec![(Some(id), 0)],
        None => tops.filter(|id| !is_below(*id)).map(|id| (id, 0)).collect(),
    };
    waiting.reverse();
    while let Some((id, depth)) = waiting.pop() {
        if let Some(session) = conversation.session(id) {
            let mut text = Vec::new();
            write(&mut text, conversation, id, session)?;
            let indent = 4 * depth.min(MOST_INDENT);
            for line in String::from_utf8_lossy(&text).lines() {
                match line.is_empty() {
                    true => writeln!(out)?,
                    false => writeln!(out, "{:indent$}{line}", "")?,
                }
            }
        }
        let children: Vec<_> = id.iter().flat_map(|id| conversation.children(id)).collect();
        waiting.extend(children.into_iter().rev().map(|(child, _)| (Some(child), depth + 1)));
    }
    Ok(())
}

/// Writes one session.
pub(crate) fn write(
    out: &mut impl Write,
    conversation: &Conversation,
    id: Option<&str>,
    session: &Snapshot,
) -> io::Result<()> {
    let speaker = id.and_then(|id| conversation.speaker(id));
    let speaker = speaker.map_or(String::new(), |speaker| format!(", {}", shown(&speaker)));
    let state = id.and_then(|id| conversation.state(id));
    writeln!(out, "== session {}{speaker}{} ==", shown(id.unwrap_or("(no id)")), heading(session, state))?;
    let calls = session.entries().filter_map(Entry::as_tool_call);
    let anchored: HashSet<&str> = calls.flat_map(ToolCall::terminal_ids).collect();
    for position in 0..=session.len() {
        for permission in session.permissions().filter(|permission| permission.position() == position) {
            write_permission(out, permission)?;
        }
        for elicitation in session.elicitations().filter(|elicitation| elicitation.position() == position) {
            let (state, _) = settlement(elicitation.settlement(), |response| response.tag().to_owned());
            let message = match elicitation.request() {
                v2::CreateElicitationRequest::Form(form) => form.message.to_string(),
                v2::CreateElicitationRequest::Url(url) => format!("{} <{}>", url.message, url.url),
                v2::CreateElicitationRequest::Unknown(unknown) => {
                    unknown.text("message").unwrap_or_default().into_owned()
                }
                v2::CreateElicitationRequest::More(none) => none.never(),
            };
            writeln!(out, "\n? {}\n    {state}", shown(&message))?;
        }
        match session.entry(position) {
            // It is shown with its tool call.
            Some(Entry::Terminal(terminal)) if anchored.contains(terminal.id()) => {}
            Some(entry) => write_entry(out, entry, session, conversation)?,
            None => {}
        }
    }
    for plan in session.plans() {
        writeln!(out, "\nplan {}", shown(plan.id()))?;
        match plan.content() {
            v2::PlanUpdateContent::Items(items) => {
                for entry in &items.entries {
                    let mark = match entry.status {
                        v2::PlanEntryStatus::Completed => "[x]",
                        v2::PlanEntryStatus::InProgress => "[>]",
                        v2::PlanEntryStatus::Cancelled => "[-]",
                        _ => "[ ]",
                    };
                    writeln!(out, "    {mark} {}", shown(&entry.content))?;
                }
            }
            v2::PlanUpdateContent::File(file) => writeln!(out, "    in {}", shown(&file.uri))?,
            v2::PlanUpdateContent::Markdown(markdown) => indented(out, &shown(&markdown.content))?,
            v2::PlanUpdateContent::Unknown(unknown) => writeln!(out, "    ({})", shown(&unknown.tag))?,
            v2::PlanUpdateContent::More(none) => none.never(),
        }
    }
    for notice in session.notices() {
        writeln!(out, "\nnotice ({}): {}", shown(notice.severity.as_str()), shown(&notice.title))?;
    }
    let unknown = session.unknown().count();
    if unknown > 0 {
        let mut kinds: Vec<_> = session.unknown().map(|update| shown(&update.tag)).collect();
        kinds.sort();
        kinds.dedup();
        writeln!(out, "\n{unknown} updates of unknown kinds: {}", kinds.join(", "))?;
    }
    writeln!(out)
}

/// Returns the heading of a session, with its own state or its state as a sub-agent.
fn heading(session: &Snapshot, state: Option<&v2::StateUpdate<'_>>) -> String {
    let mut heading = String::new();
    if let Some(title) = session.title() {
        heading.push_str(&format!(" \"{}\"", shown(title)));
    }
    let state = state.or(session.state());
    heading.push_str(&format!(", {}", state.map_or("idle".into(), |state| shown(state.tag()))));
    let reason = match state {
        Some(v2::StateUpdate::Idle(idle)) => idle.stop_reason.as_ref(),
        _ => None,
    };
    if let Some(reason) = reason.or(session.stop_reason()) {
        heading.push_str(&format!(" ({})", shown(reason.as_str())));
    }
    if let Some(usage) = session.usage() {
        heading.push_str(&format!(", {} of {} tokens", usage.used, usage.size));
        if let Some(cost) = &usage.cost {
            heading.push_str(&format!(", {} {}", cost.amount, shown(&cost.currency)));
        }
    }
    heading
}

fn write_entry(
    out: &mut impl Write,
    entry: &Entry,
    session: &Snapshot,
    conversation: &Conversation,
) -> io::Result<()> {
    match entry {
        Entry::Message(message) => {
            let who = match message.kind() {
                EntryKind::UserMessage => "user",
                EntryKind::AgentThought => "thought",
                _ => "agent",
            };
            writeln!(out, "\n{who}:")?;
            write_blocks(out, message.content())
        }
        Entry::ToolCall(call) => write_call(out, call, session),
        Entry::Terminal(terminal) => {
            writeln!(out, "\nterminal {}", shown(terminal.id()))?;
            write_terminal(out, session, terminal.id())
        }
        Entry::Compaction(compaction) if compaction.is_memory_loss() => {
            writeln!(out, "\n--- {} ---", shown(&compaction.summary().text()))
        }
        Entry::Compaction(compaction) => {
            writeln!(out, "\ncompaction [{}]", shown(compaction.status().as_str()))?;
            if let Some(error) = compaction.error() {
                indented(out, &shown(error))?;
            }
            write_blocks(out, compaction.summary())
        }
        Entry::Subagent(subagent) => {
            let id = subagent.session_id();
            let name = conversation.name(id);
            let name = name.as_deref().or(subagent.title()).unwrap_or("(no title)");
            writeln!(out, "\nsub-agent: {} [{}]", shown(name), conversation.state_in_words(id))?;
            if let Some(description) = subagent.description() {
                indented(out, &shown(description))?;
            }
            writeln!(out, "    session {}", shown(subagent.session_id()))
        }
        Entry::SessionMessage(message) => {
            let end = |id: Option<&str>| id.map_or("unknown".into(), shown);
            writeln!(out, "\nmessage from {} to {}:", end(message.sender()), end(message.recipient()))?;
            write_blocks(out, message.content())
        }
    }
}

fn write_call(out: &mut impl Write, call: &ToolCall, session: &Snapshot) -> io::Result<()> {
    let title = call.title().or(call.name()).unwrap_or("(no title)");
    let (kind, status) = (shown(call.kind().as_str()), shown(call.status().as_str()));
    writeln!(out, "\ntool: {} ({kind}) [{status}]", shown(title))?;
    for location in call.locations() {
        let line = location.line.and_then(LineNumber::get).map(|line| format!(":{line}"));
        writeln!(out, "    at {}{}", visible_path(&location.path), line.unwrap_or_default())?;
    }
    let mut text = String::new();
    for item in call.content().items() {
        if let Some(piece) = item.text() {
            text.push_str(piece);
            continue;
        }
        indented(out, &shown(&std::mem::take(&mut text)))?;
        match item.structured() {
            Some(v2::ToolCallContent::Diff(diff)) => {
                for change in &diff.changes {
                    let path = change.path().unwrap_or_default();
                    let from = change.old_path().map(|path| format!("{} -> ", visible_path(path)));
                    writeln!(
                        out,
                        "    {} {}{}",
                        shown(change.tag()),
                        from.unwrap_or_default(),
                        visible_path(&path)
                    )?;
                }
                if let Some(patch) = &diff.patch {
                    indented(out, &shown(&patch.text))?;
                }
            }
            Some(v2::ToolCallContent::Terminal(terminal)) => {
                write_terminal(out, session, &terminal.terminal_id)?;
            }
            Some(v2::ToolCallContent::Content(content)) => write_block(out, &content.content)?,
            Some(v2::ToolCallContent::Session(session)) => {
                writeln!(out, "    session {}", shown(&session.session_id))?;
            }
            Some(v2::ToolCallContent::Unknown(unknown)) => writeln!(out, "    [{}]", shown(&unknown.tag))?,
            None => {}
            Some(v2::ToolCallContent::More(none)) => none.never(),
        }
    }
    indented(out, &shown(&text))
}

fn write_terminal(out: &mut impl Write, session: &Snapshot, id: &str) -> io::Result<()> {
    let Some(terminal) = session.terminal(id) else {
        return writeln!(out, "    [unknown terminal {}]", shown(id));
    };
    if let Some(command) = terminal.command() {
        indented(out, &format!("$ {}", shown(command)))?;
    }
    let output = terminal.output().to_vec();
    indented(out, &shown(&without_escapes(&String::from_utf8_lossy(&output))))?;
    if let Some(status) = terminal.exit_status() {
        let code = status.exit_code.map(|code| format!("code {code}"));
        let signal = status.signal.as_deref().map(|signal| format!("signal {}", shown(signal)));
        writeln!(out, "    [exited: {}]", code.or(signal).unwrap_or_else(|| "no code".to_owned()))?;
    }
    Ok(())
}

fn write_permission(out: &mut impl Write, permission: &Permission) -> io::Result<()> {
    writeln!(out, "\n? {}", shown(permission.title()))?;
    if let Some(description) = permission.description() {
        indented(out, &shown(description))?;
    }
    let (state, chosen) = settlement(permission.settlement(), ToString::to_string);
    for option in permission.options() {
        let mark = if chosen.as_deref() == Some(&*option.option_id) { "(x)" } else { "( )" };
        writeln!(out, "    {mark} {} ({})", shown(&option.name), shown(option.kind.as_str()))?;
    }
    writeln!(out, "    {state}")
}

fn settlement<A>(settlement: &Settlement<A>, answer_text: impl Fn(&A) -> String) -> (String, Option<String>) {
    match settlement {
        Settlement::Pending => ("pending".to_owned(), None),
        Settlement::Answered { answer, by, .. } => {
            let answer = answer_text(answer);
            (format!("answered by {}: {}", shown(&by.to_string()), shown(&answer)), Some(answer))
        }
        Settlement::Cancelled { by, .. } => (format!("cancelled by the {}", shown(&by.to_string())), None),
        Settlement::NotAnApproval { reason, by, .. } => {
            (format!("not approved: {} (answered by {})", shown(reason), shown(&by.to_string())), None)
        }
    }
}

fn write_blocks(out: &mut impl Write, content: &Content<v2::ContentBlock<'static>>) -> io::Result<()> {
    let mut text = String::new();
    for item in content.items() {
        if let Some(piece) = item.text() {
            text.push_str(piece);
            continue;
        }
        indented(out, &shown(&std::mem::take(&mut text)))?;
        if let Some(block) = item.structured() {
            write_block(out, block)?;
        }
    }
    indented(out, &shown(&text))
}

/// Writes content that is not plain text.
fn write_block(out: &mut impl Write, block: &v2::ContentBlock<'_>) -> io::Result<()> {
    match block {
        v2::ContentBlock::ResourceLink(link) => {
            writeln!(out, "    [{} <{}>]", shown(&link.name), shown(&link.uri))
        }
        block => writeln!(out, "    [{}]", shown(block.tag())),
    }
}

fn indented(out: &mut impl Write, text: &str) -> io::Result<()> {
    for line in text.lines() {
        writeln!(out, "    {line}")?;
    }
    Ok(())
}

/// Returns text that is safe for a terminal: control characters are replaced by their pictures, and
/// bidirectional controls by a mark.
pub(crate) fn shown(text: &str) -> String {
    let show = |character: char| match character {
        '\n' | '\t' => Some(character),
        '\r' => None,
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + character as u32),
        '\u{7f}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some('\u{fffd}')
        }
        _ => Some(character),
    };
    text.chars().filter_map(show).collect()
}

/// Removes colors, titles and cursor movements from terminal output.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\u{1b}' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            // A control sequence ends with a letter or similar character.
            Some('[') => while characters.next_if(|next| !('@'..='~').contains(next)).is_some() {},
            // An operating system command ends with a bell, or an escape and a backslash.
            Some(']') => while characters.next_if(|next| !matches!(next, '\u{7}' | '\u{1b}')).is_some() {},
            _ => continue,
        }
        if characters.next() == Some('\u{1b}') {
            characters.next();
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{shown, without_escapes};

    #[test]
    fn nothing_reaches_the_terminal_that_could_act_on_it() {
        assert_eq!(shown("a\u{1b}[2Jb\r\n\u{7}\u{202e}c\td"), "a␛[2Jb\n␇\u{fffd}c\td");
    }

    #[test]
    fn terminal_output_is_shown_without_its_escapes() {
        let output = "\u{1b}[1;31mred\u{1b}[0m \u{1b}]0;title\u{7}x\u{1b}]8;;u\u{1b}\\link\u{1b}(By\u{1b}";
        assert_eq!(without_escapes(output), "red xlinkBy");
    }
}
