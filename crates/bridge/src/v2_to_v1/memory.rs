//! What is remembered, and what is forgotten when it gets too much.

use switchboard_protocol::{Wire, WireFormat};

use super::{Session, V2ToV1};
use crate::loss::Severity;
use crate::sessions::Remember;
use crate::shared::Shared;

impl Remember for Session {
    fn is_at_rest(&self) -> bool {
        self.turn.is_none() && self.held.is_empty() && self.closing.is_none() && !self.asks && !self.swallows
    }

    fn forget_said(&mut self) {
        self.run = None;
        self.calls.forget();
        self.terminals.clear();
        self.missing_terminals.clear();
        self.journal = super::Journal { incomplete: true, ..super::Journal::default() };
    }

    fn entries(&self) -> usize {
        self.calls.len()
            + self.terminals.len()
            + self.missing_terminals.len()
            + self.own_messages.len()
            + self.journal.lines.len()
    }

    fn bytes(&self) -> usize {
        let held: usize = self.held.iter().map(|request| request.params_text().len()).sum();
        let options: usize = self.options.iter().map(|option| option.encode(WireFormat::Any).len()).sum();
        self.calls.bytes() + self.journal.bytes + held + options
    }

    fn set_apart(&mut self, forgotten: u64) {
        self.salt = format!("{forgotten:x}x");
        self.journal.incomplete = true;
    }
}

impl V2ToV1 {
    /// Forgets what was said in sessions at rest while there are too many, or too much is held in all of them.
    /// `counts`: it is time to see how much that is.
    pub(crate) fn make_room(&mut self, counts: bool, shared: &mut Shared) {
        while self.sessions.are_too_many() {
            let reason = format!("more than {} sessions", shared.options.limits.sessions);
            if !self.forget_oldest(&reason, shared) {
                break;
            }
        }
        if !counts {
            return;
        }
        let most = shared.options.limits.total;
        let reason = format!("more than {most} bytes in all sessions");
        while self.size().2 > most && self.forget_oldest(&reason, shared) {}
        let over = self.size().2.saturating_sub(most);
        if over > 0 {
            self.terminals.forget_output(over);
        }
        if self.size().2 > most {
            for (id, session) in self.sessions.iter_mut() {
                session.journal = super::Journal { incomplete: true, ..super::Journal::default() };
                let reason = format!("{reason}: the history that was kept of it is forgotten");
                shared.lose_from_memory(id, reason, Severity::Minor);
            }
        }
    }

    fn forget_oldest(&mut self, reason: &str, shared: &mut Shared) -> bool {
        let terminals = &self.terminals;
        let Some((id, session)) = self.sessions.take_oldest(|id| terminals.runs_in(id)) else { return false };
        session.forget_said();
        let reason = format!("{reason}: what was said is forgotten; calls that change are told as a whole");
        shared.lose_from_memory(&id, reason, Severity::Minor);
        true
    }

    /// Sessions, entries in them, and bytes that they hold.
    pub(crate) fn size(&self) -> (usize, usize, usize) {
        let (sessions, entries, bytes) = self.sessions.size();
        let (terminals, output) = self.terminals.size();
        (sessions, entries + terminals, bytes + output)
    }
}
