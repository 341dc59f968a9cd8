//! Terminals of an agent, for clients that have none.

use std::collections::HashMap;

use switchboard_acp::{Field, Text, Wire, v2};

use crate::plain::{OutputText, code_block};

/// What a terminal has put out.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    output: OutputText,
    exit: Option<v2::TerminalExitStatus<'static>>,
    pub(crate) command: Option<String>,
    pub(crate) cwd: Option<String>,
    /// The calls that show it.
    pub(crate) calls: Vec<String>,
    /// Whether the client knows how it ended, where it is told piece by piece.
    told_exit: bool,
    /// Whether the client knows of it as a terminal.
    pub(crate) introduced: bool,
    pub(crate) reported: bool,
}

/// What became of a terminal's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changed {
    /// By how many bytes it grew.
    pub(crate) grown: usize,
    /// Whether what the client has is not the beginning any more.
    pub(crate) replaced: bool,
    /// Whether there was too much of it.
    pub(crate) cut: bool,
}

impl Terminal {
    pub(crate) fn new(keeps_controls: bool) -> Self {
        let output = if keeps_controls { OutputText::with_controls() } else { OutputText::plain() };
        Terminal { output, ..Terminal::default() }
    }

    /// Forgets what was told.
    pub(crate) fn forget_output(&mut self) {
        self.output = self.output.emptied();
    }

    pub(crate) fn size(&self) -> usize {
        self.output.as_str().len()
    }

    /// All text, and how it ended if not well.
    pub(crate) fn text(&self) -> String {
        let mut text = self.output.as_str().to_owned();
        text.push_str(&self.note());
        text
    }

    /// All text as Markdown, in which version 1 clients show it: the output in a code block, and how it ended if not
    /// well behind that.
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

    /// How it ended, if not well.
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

    /// The text that the client does not have yet, where it is told piece by piece. It counts as told then.
    pub(crate) fn untold(&mut self) -> &str {
        let from = self.output.settled();
        self.output.settle(self.size());
        self.output.as_str().get(from..).unwrap_or_default()
    }

    /// The note about the end, once.
    pub(crate) fn untold_note(&mut self) -> String {
        if self.exit.is_none() || std::mem::replace(&mut self.told_exit, true) {
            return String::new();
        }
        self.note()
    }

    /// How it ended, once.
    pub(crate) fn untold_exit(&mut self) -> Option<&v2::TerminalExitStatus<'static>> {
        if std::mem::replace(&mut self.told_exit, self.exit.is_some()) { None } else { self.exit.as_ref() }
    }

    /// Everything counts as told.
    pub(crate) fn tell_all(&mut self) {
        self.output.settle(self.size());
        self.told_exit = self.exit.is_some();
    }

    pub(crate) fn is_shown_by(&mut self, call_id: &str) {
        if !self.calls.iter().any(|known| known == call_id) {
            self.calls.push(call_id.to_owned());
        }
    }
}

/// The terminals of a session.
pub(crate) type Terminals = HashMap<String, Terminal>;
