//! Size and eviction of the retained state.

use std::collections::VecDeque;

use switchboard_acp::rpc::Request;

use super::messages::StartedMessages;
use super::{Journal, Session, V2ToV1};
use crate::loss::Severity;
use crate::options::Limits;
use crate::sessions::{RetainedSession, Size};
use crate::translator::Eviction;

impl RetainedSession for Session {
    fn waiting(&mut self) -> Option<&mut VecDeque<Request<'static>>> {
        self.turn.is_some().then_some(&mut self.waiting)
    }

    fn is_idle(&self) -> bool {
        // A question, a close or a history in progress counts as work, too.
        let is_busy =
            self.turn.is_some() || self.closing.is_some() || self.asks || self.swallows || self.replays;
        !is_busy && self.waiting.is_empty()
    }

    fn drop_history(&mut self) {
        self.run = None;
        self.calls.forget();
        self.terminals.clear();
        self.missing_terminals.clear();
        // Marked as incomplete: a replay must not pretend to be the whole history.
        self.journal = Journal::forgotten();
        self.started = StartedMessages::forgotten();
    }

    fn entries(&self) -> usize {
        self.calls.len()
            + self.terminals.len()
            + self.missing_terminals.len()
            + self.own_messages.len()
            + self.started.len()
            + self.journal.lines.len()
    }

    fn bytes(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(|request| request.params_text().len()).sum();
        let named: usize = self.user_ids.iter().map(|(theirs, ours)| theirs.len() + ours.len()).sum();
        self.calls.bytes() + self.journal.bytes + waiting + named + self.options.bytes
    }

    fn set_generation(&mut self, forgotten: u64) {
        // Ids before the eviction must not be created again.
        self.salt = format!("{forgotten:x}x");
        self.journal.incomplete = true;
    }
}

impl Eviction for V2ToV1 {
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

    fn evict_oldest(&mut self, reason: &str) -> Option<usize> {
        let terminals = &self.terminals;
        // A running command keeps its session, because its output is still needed.
        let (id, session) = self.sessions.take_oldest(|id| terminals.runs_in(id))?;
        let before = session.bytes();
        session.drop_history();
        let freed = before.saturating_sub(session.bytes());
        let reason = format!("{reason}: history is dropped; tool calls that change are sent in full");
        self.context.report_eviction(&id, reason, Severity::Minor);
        Some(freed)
    }

    /// Drops the output of commands first, then the journals of sessions.
    fn evict_from_busy(&mut self, bytes: usize, reason: &str) {
        if self.terminals.forget_output(bytes) >= bytes {
            return;
        }
        // The journals are only needed for a replay, so losing them is a minor loss.
        for (id, session) in self.sessions.iter_mut() {
            session.journal = Journal::forgotten();
            let reason = format!("{reason}: the kept history is dropped");
            self.context.report_eviction(id, reason, Severity::Minor);
        }
    }
}
