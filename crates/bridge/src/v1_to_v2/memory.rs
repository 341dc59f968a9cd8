//! What is remembered, and what is forgotten when it gets too much.

use std::collections::VecDeque;

use switchboard_acp::rpc::Request;

use super::{Active, Session, V1ToV2};
use crate::Side;
use crate::loss::Severity;
use crate::machine::Memory;
use crate::options::Limits;
use crate::sessions::{Remember, Size};
use crate::terminals::Terminal;

impl Remember for Session {
    fn waiting(&mut self) -> Option<&mut VecDeque<Request<'static>>> {
        self.turn.is_some().then_some(&mut self.waiting)
    }

    fn is_at_rest(&self) -> bool {
        self.turn.is_none() && self.waiting.is_empty() && self.replays == 0
    }

    fn forget_said(&mut self) {
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

    // Ids of messages and calls are the agent's.
    fn set_apart(&mut self, _: u64) {}
}

impl Memory for V1ToV2 {
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

    fn forget_oldest(&mut self, reason: &str) -> Option<usize> {
        let (to_client, subagents) = (&self.to_client, &self.subagents);
        let asks = |id: &str| {
            to_client.find(|asked| asked.session() == Some(id)).is_some()
                || subagents.tree().has_work_below(id)
        };
        let (id, session) = self.sessions.take_oldest(asks)?;
        let before = session.bytes();
        let (support, subagents) = (&self.support, &self.subagents);
        let mut active = Active { id: &id, session, support, subagents, context: &mut self.context };
        active.flush_all();
        active.report_hidden_terminals();
        active.session.forget_said();
        let freed = before.saturating_sub(active.session.bytes());
        let freed = freed + self.subagents.forget(Some(&id), usize::MAX);
        let reason =
            format!("{reason}: what was said is forgotten; messages and calls that change are shown anew");
        self.context.lose_from_memory(&id, reason, Severity::Minor);
        Some(freed)
    }

    /// Content of tool calls goes, and what sub-agents said.
    fn forget_in_work(&mut self, mut bytes: usize, reason: &str) {
        let freed = self.subagents.forget(None, bytes);
        bytes -= freed.min(bytes);
        if freed > 0 {
            let reason =
                format!("{reason}: what sub-agents said is forgotten, and not shown with what follows");
            self.context.lose(None, "session/update", "", reason, Severity::Major, Side::Client);
        }
        self.each(|mut active| {
            if bytes == 0 {
                return;
            }
            active.flush_all();
            let before = active.session.bytes();
            active.session.calls.forget_content();
            active.session.terminals.values_mut().for_each(Terminal::forget_output);
            let freed = before.saturating_sub(active.session.bytes());
            bytes = bytes.saturating_sub(freed);
            if freed > 0 {
                let reason = format!(
                    "{reason}: content of tool calls that was told is forgotten, and not shown with what follows"
                );
                active.context.lose_from_memory(active.id, reason, Severity::Major);
            }
        });
    }
}

impl Active<'_> {
    /// Says, once a session, that not all of it is remembered.
    pub(super) fn report_forgotten(&mut self) {
        if std::mem::take(&mut self.session.messages.forgets)
            | std::mem::take(&mut self.session.calls.forgets)
            && !self.session.reported
        {
            self.session.reported = true;
            let limit = self.context.options.limits.entries;
            let reason = format!(
                "more than {limit} messages or tool calls: the oldest are forgotten, and shown anew when they change"
            );
            self.context.lose_from_memory(self.id, reason, Severity::Minor);
        }
    }
}
