//! Terminals of an agent for a client whose dialect has none: their output is text in the calls that show them.

use std::collections::HashMap;

use switchboard_protocol::{Field, v2};

use crate::Side;
use crate::convert::terminal;
use crate::loss::Severity;
use crate::shared::Shared;
use crate::terminals::{Changed, Terminal};

/// The terminals of all sessions, by session and id.
#[derive(Debug, Default)]
pub(crate) struct TerminalsAsText(HashMap<(String, String), Terminal>);

impl TerminalsAsText {
    /// How many there are, and the bytes of their output.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.0.len(), self.0.values().map(Terminal::size).sum())
    }

    /// Forgets what has been told.
    pub(crate) fn forget_output(&mut self) {
        self.0.values_mut().for_each(Terminal::forget_output);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes an update in and gives what the client is told instead; `None`: the update as it is.
    pub(crate) fn replace(
        &mut self,
        session: &str,
        update: &mut v2::SessionUpdate<'_>,
        shared: &mut Shared,
    ) -> Option<Vec<v2::SessionUpdate<'static>>> {
        let limit = shared.options.limits.content;
        match update {
            v2::SessionUpdate::ToolCallUpdate(call) => {
                self.content(session, call, shared);
                None
            }
            v2::SessionUpdate::ToolCallContentChunk(chunk) => {
                self.item(session, &chunk.tool_call_id, &mut chunk.content, shared);
                None
            }
            v2::SessionUpdate::TerminalUpdate(update) => {
                shared.convert_update(session, "terminal_update", |cx| terminal::lose_update(update, cx));
                let id = update.terminal_id.clone().into_owned();
                let Some(terminal) = self.open(session, &id, shared) else { return Some(Vec::new()) };
                let changed = terminal.update((**update).clone(), limit);
                Some(self.tell(session, &id, changed, shared))
            }
            v2::SessionUpdate::TerminalOutputChunk(chunk) => {
                shared.convert_update(session, "terminal_output_chunk", |cx| terminal::lose_chunk(chunk, cx));
                let id = chunk.terminal_id.clone().into_owned();
                let Some(terminal) = self.open(session, &id, shared) else { return Some(Vec::new()) };
                let changed = terminal.push(&chunk.data.to_bytes(), limit);
                Some(self.tell(session, &id, changed, shared))
            }
            _ => None,
        }
    }

    /// Puts text in the place of terminals in a call.
    pub(crate) fn content(&mut self, session: &str, call: &mut v2::ToolCallUpdate<'_>, shared: &mut Shared) {
        if call.content.is_keep() {
            return;
        }
        // What it showed before is gone.
        for (_, terminal) in self.0.iter_mut().filter(|((known, _), _)| known == session) {
            terminal.calls.retain(|known| *known != call.tool_call_id);
        }
        if let Field::Set(items) = &mut call.content {
            for item in items {
                self.item(session, &call.tool_call_id, item, shared);
            }
        }
    }

    fn item(
        &mut self,
        session: &str,
        call_id: &str,
        item: &mut v2::ToolCallContent<'_>,
        shared: &mut Shared,
    ) {
        let v2::ToolCallContent::Terminal(shown) = item else { return };
        let shown = shown.clone();
        let id = shown.terminal_id.clone().into_owned();
        let Some(terminal) = self.open(session, &id, shared) else { return };
        terminal.is_shown_by(call_id);
        terminal.tell_all();
        let text = v2::ContentBlock::text(terminal.text());
        // The id belongs to something that the client does not know.
        let v2::Terminal { terminal_id: _, meta, extra } = shown;
        *item = v2::ToolCallContent::Content(v2::Content { content: text, meta, extra });
    }

    fn open(&mut self, session: &str, id: &str, shared: &mut Shared) -> Option<&mut Terminal> {
        let key = (session.to_owned(), id.to_owned());
        if !self.0.contains_key(&key) {
            let limit = shared.options.limits.entries;
            let (reason, severity) = if self.0.len() < limit {
                let reason =
                    "the client's dialect has no terminals; calls that show it show its output as text";
                (reason.to_owned(), Severity::Minor)
            } else {
                (format!("more than {limit} terminals"), Severity::Major)
            };
            shared.lose(
                Some(session),
                "terminal_update",
                "/params/update/terminalId",
                reason,
                severity,
                Side::Client,
            );
            if severity == Severity::Major {
                return None;
            }
        }
        Some(self.0.entry(key).or_default())
    }

    /// What is new, for each call that shows the terminal.
    fn tell(
        &mut self,
        session: &str,
        id: &str,
        changed: Changed,
        shared: &mut Shared,
    ) -> Vec<v2::SessionUpdate<'static>> {
        let Some(terminal) = self.0.get_mut(&(session.to_owned(), id.to_owned())) else { return Vec::new() };
        if terminal.calls.is_empty() {
            return Vec::new();
        }
        let mut text = terminal.untold().to_owned();
        text.push_str(&terminal.untold_note());
        if changed.replaced || changed.cut {
            let reason = "output that was shown as text cannot be taken back; what is new follows it";
            shared.lose(
                Some(session),
                "terminal_update",
                "/params/update/output",
                reason,
                Severity::Major,
                Side::Client,
            );
        }
        if text.is_empty() {
            return Vec::new();
        }
        let chunk = |call: &String| {
            let item = v2::ToolCallContent::text(text.clone());
            v2::SessionUpdate::ToolCallContentChunk(v2::ToolCallContentChunk::new(call.clone(), item))
        };
        terminal.calls.iter().map(chunk).collect()
    }
}
