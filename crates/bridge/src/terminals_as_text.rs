//! Terminals of an agent for a client whose dialect has none: their output becomes text in the tool calls
//! that show them.

use std::collections::HashMap;

use switchboard_acp::{Field, v2};

use crate::Side;
use crate::context::Context;
use crate::convert::terminal;
use crate::loss::Severity;
use crate::options::Dialect;
use crate::terminals::{Changed, Terminal};

/// The terminals of all sessions, by session and id.
#[derive(Debug, Default)]
pub(crate) struct TerminalsAsText(HashMap<(String, String), Terminal>);

impl TerminalsAsText {
    /// Returns the number of terminals and the bytes of their output.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.0.len(), self.0.values().map(Terminal::size).sum())
    }

    /// Drops the output of all terminals.
    pub(crate) fn forget_output(&mut self) {
        self.0.values_mut().for_each(Terminal::forget_output);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Context {
    /// Applies an update and returns the updates for the client in its place; `None`: send the update
    /// unchanged.
    pub(crate) fn replace_terminals(
        &mut self,
        session: &str,
        update: &mut v2::SessionUpdate<'_>,
    ) -> Option<Vec<v2::SessionUpdate<'static>>> {
        let limit = self.options.limits.content;
        match update {
            v2::SessionUpdate::ToolCallUpdate(call) => {
                self.show_terminals(session, call);
                None
            }
            v2::SessionUpdate::ToolCallContentChunk(chunk) => {
                self.show_terminal(session, &chunk.tool_call_id, &mut chunk.content);
                None
            }
            v2::SessionUpdate::TerminalUpdate(update) => {
                self.convert_update(session, "terminal_update", |cx| {
                    terminal::report_lost_update(update, false, cx)
                });
                let id = update.terminal_id.clone().into_owned();
                let Some(terminal) = self.open_terminal(session, &id) else { return Some(Vec::new()) };
                let changed = terminal.update((**update).clone(), limit);
                Some(self.new_terminal_output(session, &id, changed))
            }
            v2::SessionUpdate::TerminalOutputChunk(chunk) => {
                self.convert_update(session, "terminal_output_chunk", |cx| {
                    terminal::report_lost_chunk(chunk, cx)
                });
                let id = chunk.terminal_id.clone().into_owned();
                let Some(terminal) = self.open_terminal(session, &id) else { return Some(Vec::new()) };
                let changed = terminal.push(&chunk.data.to_bytes(), limit);
                Some(self.new_terminal_output(session, &id, changed))
            }
            _ => None,
        }
    }

    /// Replaces terminals in a tool call by text if the client's dialect has none.
    pub(crate) fn show_terminals(&mut self, session: &str, call: &mut v2::ToolCallUpdate<'_>) {
        if call.content.is_keep() || self.peers.client_dialect != Some(Dialect::Spec) {
            return;
        }
        // A new content replaces everything that the call showed before.
        for (_, terminal) in self.terminals.0.iter_mut().filter(|((known, _), _)| known == session) {
            terminal.calls.retain(|known| *known != call.tool_call_id);
        }
        if let Field::Set(items) = &mut call.content {
            for item in items {
                self.show_terminal(session, &call.tool_call_id, item);
            }
        }
    }

    fn show_terminal(&mut self, session: &str, call_id: &str, item: &mut v2::ToolCallContent<'_>) {
        let v2::ToolCallContent::Terminal(shown) = item else { return };
        let shown = shown.clone();
        let id = shown.terminal_id.clone().into_owned();
        let Some(terminal) = self.open_terminal(session, &id) else { return };
        terminal.is_shown_by(call_id);
        terminal.mark_all_sent();
        let text = v2::ContentBlock::text(terminal.text());
        // The id belongs to a terminal that the client does not know.
        let v2::Terminal { terminal_id: _, meta, extra, more: _ } = shown;
        *item = v2::ToolCallContent::Content(v2::Content {
            content: text,
            meta,
            extra,
            more: switchboard_acp::More,
        });
    }

    fn open_terminal(&mut self, session: &str, id: &str) -> Option<&mut Terminal> {
        let key = (session.to_owned(), id.to_owned());
        if !self.terminals.0.contains_key(&key) {
            let limit = self.options.limits.entries;
            let (reason, severity) = if self.terminals.0.len() < limit {
                let reason =
                    "the client's dialect has no terminals; calls that show it show its output as text";
                (reason.to_owned(), Severity::Minor)
            } else {
                (format!("more than {limit} terminals"), Severity::Major)
            };
            self.report_loss(
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
        Some(self.terminals.0.entry(key).or_default())
    }

    /// Returns the new output for each call that shows the terminal.
    fn new_terminal_output(
        &mut self,
        session: &str,
        id: &str,
        changed: Changed,
    ) -> Vec<v2::SessionUpdate<'static>> {
        let Some(terminal) = self.terminals.0.get_mut(&(session.to_owned(), id.to_owned())) else {
            return Vec::new();
        };
        if terminal.calls.is_empty() {
            return Vec::new();
        }
        let mut text = terminal.unsent().to_owned();
        text.push_str(&terminal.unsent_note());
        let chunk = |call: &String| {
            let item = v2::ToolCallContent::text(text.clone());
            v2::SessionUpdate::ToolCallContentChunk(v2::ToolCallContentChunk::new(call.clone(), item))
        };
        let chunks = terminal.calls.iter().filter(|_| !text.is_empty()).map(chunk).collect();
        if changed.replaced || changed.cut {
            let reason = "output that was shown as text cannot be retracted; new output follows it";
            let (session, pointer) = (Some(session), "/params/update/output");
            self.report_loss(session, "terminal_update", pointer, reason, Severity::Major, Side::Client);
        }
        chunks
    }
}
