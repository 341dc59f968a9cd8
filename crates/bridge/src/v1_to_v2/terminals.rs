//! Terminals of the agent, which a version 1 client sees as text, or, where it says that it can, by way of metadata.

use serde_json::{Value, json};
use switchboard_acp::{Raw, v1, v2};

use super::Active;
use super::tool_calls::Place;
use crate::convert::{meta, terminal};
use crate::loss::Severity;
use crate::terminals::{Changed, Terminal};

impl Active<'_> {
    /// A call shows a terminal.
    pub(super) fn show_terminal(&mut self, terminal_id: &str, call_id: &str, place: Place<'_>) {
        let displays = self.context.peers.client_displays;
        let Some(terminal) = self.open_terminal(terminal_id) else { return };
        let is_new = terminal.calls.is_empty();
        terminal.is_shown_by(call_id);
        if displays {
            if is_new {
                self.session.calls.introduce(call_id, terminal_id);
            }
        } else if !std::mem::replace(&mut terminal.reported, true) {
            let reason = "version 1 terminals belong to the client; the output is shown as plain text";
            self.lose(place.message, place.root, reason, Severity::Minor);
        }
    }

    pub(super) fn terminal(&mut self, update: v2::TerminalUpdate<'_>) {
        let terminal_id = update.terminal_id.clone().into_owned();
        let limit = self.context.options.limits.content;
        // What it runs, and where, is told when it is introduced.
        let is_introduced =
            self.session.terminals.get(&terminal_id).is_some_and(|terminal| terminal.introduced);
        let shows = self.context.peers.client_displays && !is_introduced;
        self.convert_update("terminal_update", |cx| terminal::lose_update(&update, shows, cx));
        let Some(terminal) = self.open_terminal(&terminal_id) else { return };
        let changed = terminal.update(update, limit);
        self.terminal_changed(&terminal_id, changed);
    }

    pub(super) fn terminal_chunk(&mut self, chunk: &v2::TerminalOutputChunk<'_>) {
        self.convert_update("terminal_output_chunk", |cx| terminal::lose_chunk(chunk, cx));
        let terminal_id = &*chunk.terminal_id;
        let limit = self.context.options.limits.content;
        let Some(terminal) = self.open_terminal(terminal_id) else { return };
        let changed = terminal.push(&chunk.data.to_bytes(), limit);
        self.terminal_changed(terminal_id, changed);
    }

    /// The terminal, made if need be and if another one can be remembered.
    fn open_terminal(&mut self, terminal_id: &str) -> Option<&mut Terminal> {
        let limit = self.context.options.limits.entries;
        if self.session.terminals.len() >= limit && !self.session.terminals.contains_key(terminal_id) {
            let reason = format!("more than {limit} terminals in a session");
            self.lose("terminal_update", "/params/update", reason, Severity::Major);
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
            let reason = format!("the oldest output is dropped, for a terminal may hold {limit} bytes");
            self.lose("terminal_output_chunk", "/params/update/data", reason, Severity::Major);
        }
        if self.context.peers.client_displays {
            if changed.replaced {
                let reason = "what a terminal has shown cannot be taken back; the new output follows it";
                self.lose("terminal_update", "/params/update/output", reason, Severity::Major);
            }
            return self.display(terminal_id);
        }
        let calls = self.session.terminals.get(terminal_id).map(|terminal| terminal.calls.clone());
        for call_id in calls.unwrap_or_default() {
            self.grow(&call_id, changed.grown);
            self.touch(&call_id);
        }
    }

    /// Tells the client of terminals that a call is the first to show, before it shows them.
    pub(super) fn introduce_terminals(&mut self, call_id: &str) {
        for terminal_id in self.session.calls.take_introductions(call_id) {
            let Some(terminal) = self.session.terminals.get_mut(&terminal_id) else { continue };
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

    /// Tells of new output and of the end.
    fn display(&mut self, terminal_id: &str) {
        let Some(terminal) =
            self.session.terminals.get_mut(terminal_id).filter(|terminal| terminal.introduced)
        else {
            return;
        };
        let Some(call_id) = terminal.calls.first().cloned() else { return };
        let data = terminal.untold();
        if !data.is_empty() {
            let output = json!({"terminal_id": terminal_id, "data": data});
            self.context.update_v1(self.id, news_of(&call_id, "terminal_output", output));
        }
        if let Some(exit) = terminal.untold_exit() {
            let exit = json!({"terminal_id": terminal_id, "exit_code": exit.exit_code, "signal": exit.signal.as_deref()});
            self.context.update_v1(self.id, news_of(&call_id, "terminal_exit", exit));
        }
    }

    /// Output that no call shows is never seen.
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
            self.lose("terminal_update", "/params/update/output", reason, Severity::Major);
        }
    }
}

/// News of a terminal, in the metadata of a call that shows it.
fn news_of<'c>(call_id: &'c str, key: &str, news: Value) -> v1::SessionUpdate<'c> {
    let mut update = v1::ToolCallUpdate::new(call_id);
    meta::add(&mut update.meta, key, &Raw::from(news));
    v1::SessionUpdate::ToolCallUpdate(Box::new(update))
}
