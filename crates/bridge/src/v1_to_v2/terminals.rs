//! Terminals of the agent, which a version 1 client sees as text, or, where it says that it can, by way of metadata.

use serde_json::{Value, json};
use switchboard_protocol::{Raw, v1, v2};

use super::Session;
use super::tool_calls::Place;
use crate::convert::{meta, terminal};
use crate::loss::Severity;
use crate::shared::Shared;
use crate::terminals::{Changed, Terminal};

impl Session {
    /// A call shows a terminal.
    pub(super) fn show_terminal(
        &mut self,
        id: &str,
        terminal_id: &str,
        call_id: &str,
        place: Place<'_>,
        shared: &mut Shared,
    ) {
        let Some(terminal) = self.open_terminal(id, terminal_id, shared) else { return };
        let is_new = terminal.calls.is_empty();
        terminal.is_shown_by(call_id);
        if shared.peers.client_displays {
            if is_new {
                self.calls.introduce(call_id, terminal_id);
            }
        } else if !std::mem::replace(&mut terminal.reported, true) {
            let reason = "version 1 terminals belong to the client; the output is shown as plain text";
            self.lose(id, place.message, place.root, reason, Severity::Minor, shared);
        }
    }

    pub(super) fn terminal(&mut self, id: &str, update: v2::TerminalUpdate<'_>, shared: &mut Shared) {
        let terminal_id = update.terminal_id.clone().into_owned();
        let limit = shared.options.limits.content;
        shared.convert_update(id, "terminal_update", |cx| terminal::lose_update(&update, cx));
        let Some(terminal) = self.open_terminal(id, &terminal_id, shared) else { return };
        let changed = terminal.update(update, limit);
        self.terminal_changed(id, &terminal_id, changed, shared);
    }

    pub(super) fn terminal_chunk(
        &mut self,
        id: &str,
        chunk: &v2::TerminalOutputChunk<'_>,
        shared: &mut Shared,
    ) {
        shared.convert_update(id, "terminal_output_chunk", |cx| terminal::lose_chunk(chunk, cx));
        let terminal_id = &*chunk.terminal_id;
        let limit = shared.options.limits.content;
        let Some(terminal) = self.open_terminal(id, terminal_id, shared) else { return };
        let changed = terminal.push(&chunk.data.to_bytes(), limit);
        self.terminal_changed(id, terminal_id, changed, shared);
    }

    /// The terminal, made if need be and if another one can be remembered.
    fn open_terminal(&mut self, id: &str, terminal_id: &str, shared: &mut Shared) -> Option<&mut Terminal> {
        let limit = shared.options.limits.entries;
        if self.terminals.len() >= limit && !self.terminals.contains_key(terminal_id) {
            let reason = format!("more than {limit} terminals in a session");
            self.lose(id, "terminal_update", "/params/update", reason, Severity::Major, shared);
            return None;
        }
        let keeps_controls = shared.peers.client_displays;
        Some(self.terminals.entry(terminal_id.to_owned()).or_insert_with(|| Terminal::new(keeps_controls)))
    }

    fn terminal_changed(&mut self, id: &str, terminal_id: &str, changed: Changed, shared: &mut Shared) {
        if changed.cut {
            let limit = shared.options.limits.content;
            let reason = format!("the oldest output is dropped, for a terminal may hold {limit} bytes");
            self.lose(id, "terminal_output_chunk", "/params/update/data", reason, Severity::Major, shared);
        }
        if shared.peers.client_displays {
            if changed.replaced {
                let reason = "what a terminal has shown cannot be taken back; the new output follows it";
                self.lose(id, "terminal_update", "/params/update/output", reason, Severity::Major, shared);
            }
            return self.display(id, terminal_id, shared);
        }
        let calls = self.terminals.get(terminal_id).map(|terminal| terminal.calls.clone());
        for call_id in calls.unwrap_or_default() {
            self.grow(&call_id, changed.grown);
            self.touch(id, &call_id, shared);
        }
    }

    /// Tells the client of terminals that a call is the first to show, before it shows them.
    pub(super) fn introduce_terminals(&mut self, id: &str, call_id: &str, shared: &mut Shared) {
        for terminal_id in self.calls.take_introductions(call_id) {
            let Some(terminal) = self.terminals.get_mut(&terminal_id) else { continue };
            terminal.introduced = true;
            let mut info = json!({"terminal_id": terminal_id});
            if let Some(cwd) = &terminal.cwd {
                info["cwd"] = json!(cwd);
            }
            tell(id, call_id, "terminal_info", info, shared);
            self.display(id, &terminal_id, shared);
        }
    }

    /// Tells of new output and of the end.
    fn display(&mut self, id: &str, terminal_id: &str, shared: &mut Shared) {
        let Some(terminal) = self.terminals.get_mut(terminal_id).filter(|terminal| terminal.introduced)
        else {
            return;
        };
        let Some(call_id) = terminal.calls.first().cloned() else { return };
        let data = terminal.untold();
        if !data.is_empty() {
            let output = json!({"terminal_id": terminal_id, "data": data});
            tell(id, &call_id, "terminal_output", output, shared);
        }
        if let Some(exit) = terminal.untold_exit() {
            let exit = json!({"terminal_id": terminal_id, "exit_code": exit.exit_code, "signal": exit.signal.as_deref()});
            tell(id, &call_id, "terminal_exit", exit, shared);
        }
    }

    /// Output that no call shows is never seen.
    pub(super) fn report_hidden_terminals(&mut self, id: &str, shared: &mut Shared) {
        let hidden = self
            .terminals
            .iter_mut()
            .filter(|(_, terminal)| terminal.calls.is_empty() && terminal.size() > 0 && !terminal.reported);
        let hidden: Vec<String> = hidden
            .map(|(terminal_id, terminal)| {
                terminal.reported = true;
                terminal_id.clone()
            })
            .collect();
        for terminal_id in hidden {
            let reason =
                format!("no tool call shows terminal {terminal_id}, and version 1 has no other place");
            self.lose(id, "terminal_update", "/params/update/output", reason, Severity::Major, shared);
        }
    }
}

/// News of a terminal, in the metadata of a call that shows it.
fn tell(id: &str, call_id: &str, key: &str, news: Value, shared: &mut Shared) {
    let mut update = v1::ToolCallUpdate::new(call_id);
    meta::add(&mut update.meta, key, &Raw::from(news));
    shared.update_v1(id, v1::SessionUpdate::ToolCallUpdate(Box::new(update)));
}
