//! Terminals of the agent. A version 1 client gets their output as text, or in metadata if it announces
//! support for that.

use serde_json::{Value, json};
use switchboard_acp::{Raw, v1, v2};

use super::Active;
use super::tool_calls::CallPosition;
use crate::convert::{meta, terminal};
use crate::loss::Severity;
use crate::terminals::{Changed, Terminal};

impl Active<'_> {
    /// Records that a call shows a terminal.
    pub(super) fn show_terminal(&mut self, terminal_id: &str, call_id: &str, place: CallPosition<'_>) {
        let displays = self.context.peers.client_displays;
        let Some(terminal) = self.open_terminal(terminal_id) else { return };
        let is_new = terminal.calls.is_empty();
        terminal.is_shown_by(call_id);
        // A client with terminal support gets an introduction; others get text, which is reported once.
        if displays {
            if is_new {
                self.session.calls.introduce(call_id, terminal_id);
            }
        } else if !std::mem::replace(&mut terminal.reported, true) {
            let reason = "version 1 terminals belong to the client; the output is shown as plain text";
            self.report_loss(place.message, place.root, reason, Severity::Minor);
        }
    }

    pub(super) fn terminal(&mut self, update: v2::TerminalUpdate<'_>) {
        let terminal_id = update.terminal_id.clone().into_owned();
        let limit = self.context.options.limits.content;
        // Command and directory are sent with the introduction of the terminal.
        let is_introduced =
            self.session.terminals.get(&terminal_id).is_some_and(|terminal| terminal.introduced);
        // Losses depend on whether command and directory will be sent.
        let shows = self.context.peers.client_displays && !is_introduced;
        self.convert_update("terminal_update", |cx| terminal::report_lost_update(&update, shows, cx));
        let Some(terminal) = self.open_terminal(&terminal_id) else { return };
        let changed = terminal.update(update, limit);
        self.terminal_changed(&terminal_id, changed);
    }

    pub(super) fn terminal_chunk(&mut self, chunk: &v2::TerminalOutputChunk<'_>) {
        self.convert_update("terminal_output_chunk", |cx| terminal::report_lost_chunk(chunk, cx));
        let terminal_id = &*chunk.terminal_id;
        let limit = self.context.options.limits.content;
        let Some(terminal) = self.open_terminal(terminal_id) else { return };
        let changed = terminal.push(&chunk.data.to_bytes(), limit);
        self.terminal_changed(terminal_id, changed);
    }

    /// Returns the terminal, creating it unless the limit is reached.
    fn open_terminal(&mut self, terminal_id: &str) -> Option<&mut Terminal> {
        let limit = self.context.options.limits.entries;
        if self.session.terminals.len() >= limit && !self.session.terminals.contains_key(terminal_id) {
            let reason = format!("more than {limit} terminals in a session");
            self.report_loss("terminal_update", "/params/update", reason, Severity::Major);
            return None;
        }
        let keeps_controls = self.context.peers.client_displays;
        Some(
            self.session
                .terminals
                .entry(terminal_id.to_owned())
                .or_insert_with(|| Terminal::new(keeps_controls)),
        )
    }

    fn terminal_changed(&mut self, terminal_id: &str, changed: Changed) {
        if changed.cut {
            let limit = self.context.options.limits.content;
            let reason =
                format!("the oldest output is dropped, because a terminal may hold at most {limit} bytes");
            self.report_loss("terminal_output_chunk", "/params/update/data", reason, Severity::Major);
        }
        if self.context.peers.client_displays {
            if changed.replaced {
                let reason = "shown terminal output cannot be retracted; the new output follows it";
                self.report_loss("terminal_update", "/params/update/output", reason, Severity::Major);
            }
            // Output goes to the client in pieces; tool call content is not resent.
            return self.display(terminal_id);
        }
        let calls = self.session.terminals.get(terminal_id).map(|terminal| terminal.calls.clone());
        for call_id in calls.unwrap_or_default() {
            // Growth counts for the output bound before the call is considered for sending.
            self.grow(&call_id, changed.grown);
            self.touch(&call_id);
        }
    }

    /// Introduces terminals in the metadata of the first call that shows them, before it shows them.
    pub(super) fn introduce_terminals(&mut self, call_id: &str) {
        for terminal_id in self.session.calls.take_introductions(call_id) {
            let Some(terminal) = self.session.terminals.get_mut(&terminal_id) else { continue };
            // Marked first: `display` ignores terminals that are not introduced.
            terminal.introduced = true;
            let mut info = json!({"terminal_id": terminal_id});
            for (key, known) in [("command", &terminal.command), ("cwd", &terminal.cwd)] {
                if let Some(known) = known {
                    info[key] = json!(known);
                }
            }
            self.context.update_v1(self.id, news_of(call_id, "terminal_info", info));
            self.display(&terminal_id);
        }
    }

    /// Sends new output and the exit status.
    fn display(&mut self, terminal_id: &str) {
        let Some(terminal) =
            self.session.terminals.get_mut(terminal_id).filter(|terminal| terminal.introduced)
        else {
            return;
        };
        // Terminal data needs a carrier: the first call that shows the terminal.
        let Some(call_id) = terminal.calls.first().cloned() else { return };
        let data = terminal.unsent();
        if !data.is_empty() {
            let output = json!({"terminal_id": terminal_id, "data": data});
            self.context.update_v1(self.id, news_of(&call_id, "terminal_output", output));
        }
        // Exit status last, after all output.
        if let Some(exit) = terminal.unsent_exit() {
            let exit = json!({"terminal_id": terminal_id, "exit_code": exit.exit_code, "signal": exit.signal.as_deref()});
            self.context.update_v1(self.id, news_of(&call_id, "terminal_exit", exit));
        }
    }

    /// Reports output that no call shows.
    pub(super) fn report_hidden_terminals(&mut self) {
        let hidden =
            self.session.terminals.iter_mut().filter(|(_, terminal)| {
                terminal.calls.is_empty() && terminal.size() > 0 && !terminal.reported
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
            self.report_loss("terminal_update", "/params/update/output", reason, Severity::Major);
        }
    }
}

/// Returns an update with terminal data in the metadata of a call.
fn news_of<'c>(call_id: &'c str, key: &str, news: Value) -> v1::SessionUpdate<'c> {
    let mut update = v1::ToolCallUpdate::new(call_id);
    meta::add(&mut update.meta, key, &Raw::from(news));
    v1::SessionUpdate::ToolCallUpdate(Box::new(update))
}
