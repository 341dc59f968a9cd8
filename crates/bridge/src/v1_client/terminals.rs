//! Terminals of the agent, which a version 1 client sees as text.

use switchboard_protocol::{Field, Wire, v2};

use super::Session;
use crate::loss::Severity;
use crate::plain::plain_text;
use crate::shared::Shared;

/// What a terminal has put out.
#[derive(Debug, Default)]
pub(super) struct Terminal {
    bytes: Vec<u8>,
    command: Option<String>,
    exit: Option<v2::TerminalExitStatus<'static>>,
    /// The calls that show it.
    calls: Vec<String>,
    reported: bool,
}

impl Terminal {
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn text(&self) -> String {
        let mut text = plain_text(&self.bytes);
        let note = match &self.exit {
            Some(v2::TerminalExitStatus { signal: Some(signal), .. }) => {
                format!("[ended by signal {signal}]")
            }
            Some(v2::TerminalExitStatus { exit_code: Some(code), .. }) if *code != 0 => {
                format!("[exit code {code}]")
            }
            _ => return text,
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&note);
        text
    }

    fn keep_within(&mut self, limit: usize) -> bool {
        let over = self.bytes.len().saturating_sub(limit);
        if over > 0 {
            // More than need be, so that it is not done for every chunk.
            self.bytes.drain(..(over + limit / 4).min(self.bytes.len()));
        }
        over > 0
    }
}

impl Session {
    /// A call shows a terminal.
    pub(super) fn show_terminal(
        &mut self,
        id: &str,
        terminal_id: &str,
        call_id: &str,
        tag: &str,
        shared: &mut Shared,
    ) {
        if !self.make_room(id, terminal_id, shared) {
            return;
        }
        let terminal = self.terminals.entry(terminal_id.to_owned()).or_default();
        if !terminal.calls.iter().any(|known| known == call_id) {
            terminal.calls.push(call_id.to_owned());
        }
        if !std::mem::replace(&mut terminal.reported, true) {
            let reason = "version 1 terminals belong to the client; the output is shown as plain text";
            self.lose(id, tag, "content.terminal", reason, Severity::Minor, shared);
        }
    }

    pub(super) fn terminal(&mut self, id: &str, update: v2::TerminalUpdate<'_>, shared: &mut Shared) {
        let terminal_id = update.terminal_id.into_owned();
        if !self.make_room(id, &terminal_id, shared) {
            return;
        }
        let terminal = self.terminals.entry(terminal_id.clone()).or_default();
        update
            .command
            .map(Wire::into_owned)
            .map(std::borrow::Cow::into_owned)
            .apply_to(&mut terminal.command);
        update.exit_status.map(Wire::into_owned).apply_to(&mut terminal.exit);
        let mut grown = 0;
        match update.output {
            Field::Keep => {}
            Field::Clear => terminal.bytes.clear(),
            Field::Set(output) => {
                let bytes = output.data.to_bytes();
                grown = bytes.len().saturating_sub(terminal.bytes.len());
                terminal.bytes = bytes;
            }
        }
        self.terminal_changed(id, &terminal_id, grown, shared);
    }

    pub(super) fn terminal_chunk(
        &mut self,
        id: &str,
        chunk: &v2::TerminalOutputChunk<'_>,
        shared: &mut Shared,
    ) {
        let terminal_id = chunk.terminal_id.clone().into_owned();
        if !self.make_room(id, &terminal_id, shared) {
            return;
        }
        let terminal = self.terminals.entry(terminal_id.clone()).or_default();
        let before = terminal.bytes.len();
        chunk.data.append_to(&mut terminal.bytes);
        let grown = terminal.bytes.len() - before;
        self.terminal_changed(id, &terminal_id, grown, shared);
    }

    /// Whether another terminal can be remembered.
    fn make_room(&mut self, id: &str, terminal_id: &str, shared: &mut Shared) -> bool {
        let limit = shared.options.limits.entries;
        if self.terminals.len() < limit || self.terminals.contains_key(terminal_id) {
            return true;
        }
        let reason = format!("more than {limit} terminals in a session");
        self.lose(id, "terminal_update", "terminalId", reason, Severity::Major, shared);
        false
    }

    fn terminal_changed(&mut self, id: &str, terminal_id: &str, grown: usize, shared: &mut Shared) {
        let limit = shared.options.limits.content;
        let Some(terminal) = self.terminals.get_mut(terminal_id) else { return };
        let cut = terminal.keep_within(limit);
        let calls = terminal.calls.clone();
        if cut {
            let reason = format!("the oldest output is dropped, for a terminal may hold {limit} bytes");
            self.lose(id, "terminal_output_chunk", "data", reason, Severity::Major, shared);
        }
        for call_id in calls {
            self.grow(&call_id, grown);
            self.touch(id, &call_id, shared);
        }
    }

    /// Output that no call shows is never seen.
    pub(super) fn report_hidden_terminals(&mut self, id: &str, shared: &mut Shared) {
        let hidden = self.terminals.iter_mut().filter(|(_, terminal)| {
            terminal.calls.is_empty() && !terminal.bytes.is_empty() && !terminal.reported
        });
        let hidden: Vec<String> = hidden
            .map(|(terminal_id, terminal)| {
                terminal.reported = true;
                terminal_id.clone()
            })
            .collect();
        for terminal_id in hidden {
            let reason =
                format!("no tool call shows terminal {terminal_id}, and version 1 has no other place");
            self.lose(id, "terminal_update", "output", reason, Severity::Major, shared);
        }
    }
}
