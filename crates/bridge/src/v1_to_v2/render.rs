//! Renders the work of a sub-agent as the content of one tool call: text as text, tool calls as lines of
//! text, diffs as diffs.

use std::collections::HashSet;

use switchboard_acp::{Raw, WireFormat, v1, v2};
use switchboard_session::{Content, Entry, EntryKind, Snapshot, ToolCall};

use super::subagents::{Child, SHOWN, Subagents};
use crate::convert::tool_call::placeholder;
use crate::convert::{Losses, content, lists};
use crate::plain::{OutputText, code_block};

/// Renders the work of a sub-agent and all its descendants in place of a reference to its session. A call of
/// the agent has a title of its own, so the sub-agent's name is part of the content.
pub(super) fn work_in(
    subagents: &Subagents,
    reference: &v2::unstable::SessionReference<'static>,
) -> Vec<Raw<'static>> {
    let id = &*reference.session_id;
    let shown_by = subagents.get(id).and_then(|child| child.shown_by.as_ref());
    let is_labelled = shown_by.is_none_or(|shown_by| !shown_by.is_own);
    let mut writer = Writer::new(subagents);
    writer.child(id, is_labelled);
    // The note must always fit, so the limit is lifted for it.
    if writer.left_out > 0 {
        let note = format!("[about {} bytes of its output are left out here]", writer.left_out);
        writer.room = usize::MAX;
        writer.paragraph(&note);
    }
    writer.end_text();
    writer.items
}

/// Renders the content of a sub-agent's tool call, for a question about it.
pub(super) fn content_of_call(subagents: &Subagents, id: &str, call: &str) -> Vec<Raw<'static>> {
    let mut writer = Writer::new(subagents);
    if let Some(child) = subagents.get(id) {
        writer.call_content(id, child, call);
    }
    writer.end_text();
    writer.items
}

struct Writer<'f> {
    subagents: &'f Subagents,
    /// The sub-agents rendered so far.
    shown: HashSet<&'f str>,
    items: Vec<Raw<'static>>,
    /// Text after the last item.
    text: String,
    room: usize,
    left_out: usize,
}

impl<'f> Writer<'f> {
    fn new(subagents: &'f Subagents) -> Self {
        let (items, shown) = (Vec::new(), HashSet::new());
        Writer { subagents, shown, items, text: String::new(), room: SHOWN, left_out: 0 }
    }

    /// Appends text up to the limit.
    fn text(&mut self, text: &str) {
        // Cut at a character boundary.
        let most = self.room.min(text.len());
        let fits = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.text.push_str(&text[..fits]);
        self.room -= fits;
        self.left_out += text.len() - fits;
    }

    /// Starts a new paragraph.
    fn begin(&mut self) {
        if !self.text.is_empty() {
            self.text.push_str(if self.text.ends_with('\n') { "\n" } else { "\n\n" });
        }
    }

    fn paragraph(&mut self, text: &str) {
        self.begin();
        self.text(text);
    }

    fn end_text(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let text = v1::ContentBlock::text(std::mem::take(&mut self.text));
        self.items.push(Raw::of(&v1::ToolCallContent::Content(v1::Content::new(text)), WireFormat::V1));
    }

    fn item(&mut self, item: Raw<'static>) {
        let size = item.as_str().len();
        // An item is all or nothing: half a diff is invalid JSON.
        if size > self.room {
            self.left_out += size;
            return;
        }
        self.room -= size;
        // Text before the item keeps its position.
        self.end_text();
        self.items.push(item);
    }

    /// Renders the work of a sub-agent, once.
    fn child(&mut self, id: &'f str, is_labelled: bool) {
        // A sub-agent may be referenced several times, and references may form a cycle.
        if !self.shown.insert(id) {
            return;
        }
        if is_labelled {
            self.paragraph(&format!("Sub-agent '{}':", self.subagents.name(id)));
        }
        let Some(child) = self.subagents.get(id) else { return };
        let before = self.room;
        // Terminals that a call shows are rendered inside that call.
        let in_calls: HashSet<&str> =
            child.fold.entries().filter_map(Entry::as_tool_call).flat_map(ToolCall::terminal_ids).collect();
        for entry in child.fold.entries() {
            if self.room == 0 {
                // The rest is only counted, not rendered.
                self.left_out += child.taken().saturating_sub(before);
                break;
            }
            match entry {
                Entry::Message(message) => {
                    let label = match message.kind() {
                        EntryKind::UserMessage => "[prompt]",
                        EntryKind::AgentThought => "[thought]",
                        _ => "",
                    };
                    self.begin();
                    self.labelled(label, message.content());
                }
                Entry::SessionMessage(message) => {
                    let label = match (message.sender(), message.recipient()) {
                        (Some(sender), _) if sender != id => {
                            format!("[message from {}]", self.party(sender, id))
                        }
                        (_, Some(recipient)) => format!("[message to {}]", self.party(recipient, id)),
                        _ => "[message]".to_owned(),
                    };
                    self.begin();
                    self.labelled(&label, message.content());
                }
                Entry::ToolCall(call) => {
                    let placeholder = placeholder(Some(call.kind()));
                    let title = call.title().unwrap_or(&placeholder);
                    self.paragraph(&format!("[{}] {title}", call.status()));
                    self.call_content(id, child, call.id());
                }
                Entry::Terminal(terminal) if !in_calls.contains(terminal.id()) => {
                    self.paragraph(&format!("[terminal] {}", terminal.command().unwrap_or_default()));
                    self.terminal(&child.fold, terminal.id());
                }
                Entry::Compaction(compaction) => {
                    self.begin();
                    self.labelled(&format!("[compaction {}]", compaction.status()), compaction.summary());
                    if let Some(error) = compaction.error() {
                        self.paragraph(error);
                    }
                }
                Entry::Subagent(nested) if nested.session_id() != id => {
                    let below = self.subagents.get(nested.session_id());
                    // With a referring call, the sub-agent is rendered inside that call.
                    if self.is_below(nested.session_id(), id)
                        && below.is_some_and(|below| below.referred.is_none())
                    {
                        self.child(nested.session_id(), true);
                    }
                }
                Entry::Terminal(_) | Entry::Subagent(_) => {}
            }
        }
        // Descendants whose referring call shows something else now.
        let subagents = self.subagents;
        for (below, _) in subagents.tree().children(id) {
            self.child(below, true);
            // Plans, notices and the error have no position in the transcript and follow at the end.
        }
        for plan in child.fold.plans() {
            self.plan(plan.content());
        }
        for notice in child.fold.notices() {
            self.paragraph(&format!("[{}] {}", notice.severity, notice.title));
            if let Some(description) = &notice.description {
                self.paragraph(description);
            }
        }
        if let Some(error) = self.subagents.failure(id) {
            self.paragraph(&format!("[failed: {error}]"));
        }
        self.left_out += child.left_out;
    }

    fn is_below(&self, session: &str, id: &str) -> bool {
        self.subagents.tree().parent(session).is_some_and(|parent| *parent.session == *id)
    }

    /// Returns a name for the other end of a message.
    fn party(&self, session: &str, id: &str) -> String {
        match self.subagents.get(session) {
            Some(_) => format!("'{}'", self.subagents.name(session)),
            None if session == self.subagents.root_of(id) => "the session".to_owned(),
            None => format!("session {session}"),
        }
    }

    /// Renders the blocks of a message after a label.
    fn labelled(&mut self, label: &str, content: &Content<v2::ContentBlock<'static>>) {
        if !label.is_empty() {
            self.text(label);
            self.text("\n");
        }
        for item in content.items() {
            match item.text() {
                Some(text) => self.text(text),
                None => self.block(item.block()),
            }
        }
    }

    /// Renders a block that is not plain text.
    fn block(&mut self, block: v2::ContentBlock<'_>) {
        // Losses of the conversion were reported with the update that contained the block.
        if let Ok(block) = content::to_v1(block, &mut Losses::noted().at("content", "")) {
            let item = v1::ToolCallContent::Content(v1::Content::new(block));
            self.item(Raw::of(&item, WireFormat::V1));
        }
    }

    fn call_content(&mut self, id: &str, child: &'f Child, call: &str) {
        let Some(content) = child.fold.tool_call(call).map(ToolCall::content) else { return };
        // Converted items are stored in the order of the non-text items.
        let mut written = child.items.get(call).into_iter().flatten();
        let mut continues = false;
        for item in content.items() {
            // Adjacent text items belong to one paragraph.
            if let Some(text) = item.text() {
                if !std::mem::replace(&mut continues, true) {
                    self.begin();
                }
                self.text(text);
                continue;
            }
            // The next text starts a new paragraph.
            continues = false;
            match item.block() {
                v2::ToolCallContent::Terminal(terminal) => self.terminal(&child.fold, &terminal.terminal_id),
                v2::ToolCallContent::Session(reference) => {
                    let subagents = self.subagents;
                    let mut children = subagents.tree().children(id).map(|(below, _)| below);
                    match children.find(|below| **below == *reference.session_id) {
                        Some(below) => self.child(below, true),
                        None => self.paragraph(&format!("[session {}]", reference.session_id)),
                    }
                }
                _ => {
                    for item in written.next().into_iter().flatten() {
                        self.item(item.clone());
                    }
                }
            }
        }
    }

    fn terminal(&mut self, fold: &Snapshot, terminal: &str) {
        let Some(terminal) = fold.terminal(terminal) else { return };
        let mut output = OutputText::plain();
        for piece in terminal.output().pieces() {
            output.push(piece);
        }
        let output = output.as_str();
        if !output.is_empty() {
            // Cut before fencing, so that the code block is closed.
            let around = code_block(output).len() - output.len();
            let most = self.room.saturating_sub(around).min(output.len());
            let fits = (0..=most).rev().find(|end| output.is_char_boundary(*end)).unwrap_or(0);
            self.left_out += output.len() - fits;
            if fits > 0 {
                self.paragraph(&code_block(&output[..fits]));
            }
        }
        self.left_out += terminal.output().dropped();
    }

    fn plan(&mut self, plan: &v2::PlanUpdateContent<'_>) {
        self.paragraph("[plan]");
        match plan {
            v2::PlanUpdateContent::Items(items) => {
                for entry in &items.entries {
                    self.text(&format!("\n[{}] {}", entry.status, &*entry.content));
                }
            }
            other => {
                if let Some(words) = lists::plan_in_words(other) {
                    self.text("\n");
                    self.text(&words);
                }
            }
        }
    }
}
