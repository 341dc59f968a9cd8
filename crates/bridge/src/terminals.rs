//! Terminals of an agent, for clients without terminals.

use std::collections::HashMap;

use switchboard_acp::{Field, Text, Wire, v2};

use crate::plain::{OutputText, code_block};

/// Output and exit status of a terminal.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    output: OutputText,
    exit: Option<v2::TerminalExitStatus<'static>>,
    pub(crate) command: Option<String>,
    pub(crate) cwd: Option<String>,
    /// The tool calls that show it.
    pub(crate) calls: Vec<String>,
    /// Set if the client has been sent the exit status, if it gets output in pieces.
    sent_exit: bool,
    /// Set if the client was sent the terminal itself.
    pub(crate) introduced: bool,
    pub(crate) reported: bool,
}

/// Change of a terminal's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changed {
    /// Number of bytes added.
    pub(crate) grown: usize,
    /// Set if the text that the client has is no longer its beginning.
    pub(crate) replaced: bool,
    /// Set if the text was cut to its limit.
    pub(crate) cut: bool,
}

impl Terminal {
    pub(crate) fn new(keeps_controls: bool) -> Self {
        let output = if keeps_controls { OutputText::with_controls() } else { OutputText::plain() };
        Terminal { output, ..Terminal::default() }
    }

    /// Drops the output.
    pub(crate) fn forget_output(&mut self) {
        self.output = self.output.emptied();
    }

    pub(crate) fn size(&self) -> usize {
        self.output.as_str().len()
    }

    /// Returns all output, followed by a note if the command failed.
    pub(crate) fn text(&self) -> String {
        let mut text = self.output.as_str().to_owned();
        text.push_str(&self.note());
        text
    }

    /// Returns all output as Markdown for version 1 clients: a code block, followed by a note if the command
    /// failed.
    pub(crate) fn markdown(&self) -> String {
        let (output, end) = (self.output.as_str(), self.end().unwrap_or_default());
        match (output.is_empty(), end.is_empty()) {
            (true, _) => end,
            (false, true) => code_block(output),
            (false, false) => format!("{}\n\n{end}", code_block(output)),
        }
    }

    fn note(&self) -> String {
        let Some(note) = self.end() else { return String::new() };
        let text = self.output.as_str();
        if text.is_empty() || text.ends_with('\n') { note } else { format!("\n{note}") }
    }

    /// Returns a note about the exit status if the command failed.
    fn end(&self) -> Option<String> {
        match &self.exit {
            Some(v2::TerminalExitStatus { signal: Some(signal), .. }) => {
                Some(format!("[ended by signal {signal}]"))
            }
            Some(v2::TerminalExitStatus { exit_code: Some(code), .. }) if *code != 0 => {
                Some(format!("[exit code {code}]"))
            }
            _ => None,
        }
    }

    pub(crate) fn update(&mut self, update: v2::TerminalUpdate<'_>, limit: usize) -> Changed {
        update.command.map(Text::into_owned).apply_to(&mut self.command);
        update.cwd.map(|cwd| cwd.as_str().to_owned()).apply_to(&mut self.cwd);
        update.exit_status.map(Wire::into_owned).apply_to(&mut self.exit);
        let bytes = match update.output {
            Field::Keep => return Changed { grown: 0, replaced: false, cut: false },
            Field::Clear => Vec::new(),
            Field::Set(output) => output.data.to_bytes(),
        };
        let emptied = self.output.emptied();
        let before = std::mem::replace(&mut self.output, emptied);
        let mut changed = self.push(&bytes, limit);
        changed.grown = self.size().saturating_sub(before.as_str().len());
        let told = before.as_str().get(..before.settled()).unwrap_or_default();
        if self.output.as_str().starts_with(told) {
            self.output.settle(told.len());
        } else {
            changed.replaced = true;
        }
        changed
    }

    pub(crate) fn push(&mut self, bytes: &[u8], limit: usize) -> Changed {
        let before = self.size();
        self.output.push(bytes);
        let grown = self.size().saturating_sub(before);
        Changed { grown, replaced: false, cut: self.output.keep_within(limit) > 0 }
    }

    /// Returns the output that the client does not have yet and marks it as sent.
    pub(crate) fn unsent(&mut self) -> &str {
        let from = self.output.settled();
        self.output.settle(self.size());
        self.output.as_str().get(from..).unwrap_or_default()
    }

    /// Returns the note about the exit status the first time it is called after the exit.
    pub(crate) fn unsent_note(&mut self) -> String {
        if self.exit.is_none() || std::mem::replace(&mut self.sent_exit, true) {
            return String::new();
        }
        self.note()
    }

    /// Returns the exit status the first time it is called after the exit.
    pub(crate) fn unsent_exit(&mut self) -> Option<&v2::TerminalExitStatus<'static>> {
        if std::mem::replace(&mut self.sent_exit, self.exit.is_some()) { None } else { self.exit.as_ref() }
    }

    /// Marks everything as sent.
    pub(crate) fn mark_all_sent(&mut self) {
        self.output.settle(self.size());
        self.sent_exit = self.exit.is_some();
    }

    pub(crate) fn is_shown_by(&mut self, call_id: &str) {
        if !self.calls.iter().any(|known| known == call_id) {
            self.calls.push(call_id.to_owned());
        }
    }
}

/// The terminals of a session, by id.
pub(crate) type Terminals = HashMap<String, Terminal>;
