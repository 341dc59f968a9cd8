//! Size and eviction of the retained state.

use std::collections::VecDeque;

use switchboard_acp::rpc::Request;

use super::{Active, Session, V1ToV2};
use crate::Side;
use crate::loss::Severity;
use crate::options::Limits;
use crate::sessions::{RetainedSession, Size};
use crate::terminals::Terminal;
use crate::translator::Eviction;

impl RetainedSession for Session {
    fn waiting(&mut self) -> Option<&mut VecDeque<Request<'static>>> {
        self.turn.is_some().then_some(&mut self.waiting)
    }

    fn is_idle(&self) -> bool {
        self.turn.is_none() && self.waiting.is_empty() && self.replays == 0
    }

    fn drop_history(&mut self) {
        self.messages.forget();
        self.calls.forget();
        self.terminals.clear();
        self.plans.clear();
    }

    fn entries(&self) -> usize {
        self.messages.len()
            + self.calls.len()
            + self.own_calls.len()
            + self.terminals.len()
            + self.plans.len()
    }

    fn bytes(&self) -> usize {
        let terminals: usize = self.terminals.values().map(Terminal::size).sum();
        let waiting: usize = self.waiting.iter().map(|request| request.params_text().len()).sum();
        let plans = self.plans.iter().flat_map(|(_, entries)| entries).map(|entry| entry.content.len());
        let said = self.messages.bytes() + self.calls.bytes() + terminals + plans.sum::<usize>();
        said + waiting + self.options.bytes
    }

    // Message and call ids are the agent's own here, so evicted sessions cannot collide.
    fn set_generation(&mut self, _: u64) {}
}

impl Eviction for V1ToV2 {
    fn size(&self) -> Size {
        let mut size = self.sessions.size();
        size += self.subagents.size();
        size
    }

    fn limits(&self) -> &Limits {
        &self.context.options.limits
    }

    fn has_too_many_sessions(&self) -> bool {
        self.sessions.are_too_many()
    }

    fn evict_oldest(&mut self, reason: &str) -> Option<usize> {
        let (to_client, subagents) = (&self.to_client, &self.subagents);
        // A session with a pending question or running sub-agents is not idle, although its turn has ended.
        let asks = |id: &str| {
            to_client.find(|asked| asked.session() == Some(id)).is_some()
                || subagents.tree().has_work_below(id)
        };
        let (id, session) = self.sessions.take_oldest(asks)?;
        let before = session.bytes();
        let (support, subagents) = (&self.support, &self.subagents);
        let mut active = Active { id: &id, session, support, subagents, context: &mut self.context };
        // Unsent output first: evicted state cannot be sent later.
        active.flush_all();
        active.report_hidden_terminals();
        active.session.drop_history();
        let freed = before.saturating_sub(active.session.bytes());
        // Sub-agents of the session have their own state.
        let freed = freed + self.subagents.forget(Some(&id), usize::MAX);
        let reason = format!(
            "{reason}: history is dropped; messages and tool calls that change are shown again in full"
        );
        self.context.report_eviction(&id, reason, Severity::Minor);
        Some(freed)
    }

    /// Drops the output of sub-agents first, then the content of tool calls.
    fn evict_from_busy(&mut self, mut bytes: usize, reason: &str) {
        let freed = self.subagents.forget(None, bytes);
        bytes -= freed.min(bytes);
        if freed > 0 {
            let reason = format!("{reason}: output of sub-agents is dropped and not shown with later output");
            self.context.report_loss(None, "session/update", "", reason, Severity::Major, Side::Client);
        }
        self.each(|mut active| {
            if bytes == 0 {
                return;
            }
            // Content is dropped only after the client has it.
            active.flush_all();
            let before = active.session.bytes();
            active.session.calls.forget_content();
            active.session.terminals.values_mut().for_each(Terminal::forget_output);
            let freed = before.saturating_sub(active.session.bytes());
            bytes = bytes.saturating_sub(freed);
            if freed > 0 {
                let reason = format!(
                    "{reason}: sent content of tool calls is dropped and not shown with later content"
                );
                active.context.report_eviction(active.id, reason, Severity::Major);
            }
        });
    }
}

impl Active<'_> {
    /// Reports once per session that part of its history was evicted.
    pub(super) fn report_forgotten(&mut self) {
        if std::mem::take(&mut self.session.messages.evicted)
            | std::mem::take(&mut self.session.calls.evicted)
            && !self.session.reported
        {
            self.session.reported = true;
            let limit = self.context.options.limits.entries;
            let reason = format!(
                "more than {limit} messages or tool calls: the oldest are dropped and shown again in full when they change"
            );
            self.context.report_eviction(self.id, reason, Severity::Minor);
        }
    }
}
