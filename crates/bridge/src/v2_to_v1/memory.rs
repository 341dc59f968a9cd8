//! What is remembered, and what is forgotten when it gets too much.

use std::collections::VecDeque;

use switchboard_acp::rpc::Request;

use super::messages::Begun;
use super::{Journal, Session, V2ToV1};
use crate::loss::Severity;
use crate::machine::Memory;
use crate::options::Limits;
use crate::sessions::{Remember, Size};

impl Remember for Session {
    fn waiting(&mut self) -> Option<&mut VecDeque<Request<'static>>> {
        self.turn.is_some().then_some(&mut self.waiting)
    }

    fn is_at_rest(&self) -> bool {
        let is_busy =
            self.turn.is_some() || self.closing.is_some() || self.asks || self.swallows || self.replays;
        !is_busy && self.waiting.is_empty()
    }

    fn forget_said(&mut self) {
        self.run = None;
        self.calls.forget();
        self.terminals.clear();
        self.missing_terminals.clear();
        self.journal = Journal::forgotten();
        self.begun = Begun::forgotten();
    }

    fn entries(&self) -> usize {
        self.calls.len()
            + self.terminals.len()
            + self.missing_terminals.len()
            + self.own_messages.len()
            + self.begun.len()
            + self.journal.lines.len()
    }

    fn bytes(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(|request| request.params_text().len()).sum();
        let named: usize = self.user_ids.iter().map(|(theirs, ours)| theirs.len() + ours.len()).sum();
        self.calls.bytes() + self.journal.bytes + waiting + named + self.options.bytes
    }

    fn set_apart(&mut self, forgotten: u64) {
        self.salt = format!("{forgotten:x}x");
        self.journal.incomplete = true;
    }
}

impl Memory for V2ToV1 {
    fn size(&self) -> Size {
        let mut size = self.sessions.size();
        let (entries, bytes) = self.terminals.size();
        size += Size { sessions: 0, entries, bytes };
        size
    }

    fn limits(&self) -> &Limits {
        &self.context.options.limits
    }

    fn has_too_many_sessions(&self) -> bool {
        self.sessions.are_too_many()
    }

    fn forget_oldest(&mut self, reason: &str) -> Option<usize> {
        let terminals = &self.terminals;
        let (id, session) = self.sessions.take_oldest(|id| terminals.runs_in(id))?;
        let before = session.bytes();
        session.forget_said();
        let freed = before.saturating_sub(session.bytes());
        let reason = format!("{reason}: what was said is forgotten; calls that change are told as a whole");
        self.context.lose_from_memory(&id, reason, Severity::Minor);
        Some(freed)
    }

    /// What commands have put out goes, and if that is not enough the history of sessions.
    fn forget_in_work(&mut self, bytes: usize, reason: &str) {
        if self.terminals.forget_output(bytes) >= bytes {
            return;
        }
        for (id, session) in self.sessions.iter_mut() {
            session.journal = Journal::forgotten();
            let reason = format!("{reason}: the history that was kept of it is forgotten");
            self.context.lose_from_memory(id, reason, Severity::Minor);
        }
    }
}
