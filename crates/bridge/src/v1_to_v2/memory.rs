//! What is remembered, and what is forgotten when it gets too much.

use switchboard_protocol::{Wire, WireFormat};

use super::{Session, ToClient, V1ToV2};
use crate::loss::Severity;
use crate::sessions::Remember;
use crate::shared::Shared;
use crate::terminals::Terminal;

impl Remember for Session {
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
        let options: usize = self.options.iter().map(|option| option.encode(WireFormat::Any).len()).sum();
        self.messages.bytes() + self.calls.bytes() + terminals + waiting + plans.sum::<usize>() + options
    }

    // Ids of messages and calls are the agent's.
    fn set_apart(&mut self, _: u64) {}
}

impl V1ToV2 {
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
        while self.sessions.size().2 > most && self.forget_oldest(&reason, shared) {}
        let mut over = self.sessions.size().2.saturating_sub(most);
        for (id, session) in self.sessions.iter_mut() {
            if over == 0 {
                break;
            }
            session.flush_all(id, shared);
            let before = session.bytes();
            session.calls.forget_content();
            session.terminals.values_mut().for_each(Terminal::forget_output);
            let freed = before.saturating_sub(session.bytes());
            over = over.saturating_sub(freed);
            if freed > 0 {
                let reason = format!(
                    "{reason}: content of tool calls that was told is forgotten, and not shown with what follows"
                );
                shared.lose_from_memory(id, reason, Severity::Major);
            }
        }
    }

    fn forget_oldest(&mut self, reason: &str, shared: &mut Shared) -> bool {
        let to_client = &self.to_client;
        let asks = |id: &str| {
            let is_in =
                |asked: &ToClient| matches!(asked, ToClient::Permission(asked) if asked.session == id);
            to_client.find(is_in).is_some()
        };
        let Some((id, session)) = self.sessions.take_oldest(asks) else { return false };
        session.flush_all(&id, shared);
        session.report_hidden_terminals(&id, shared);
        session.forget_said();
        let reason =
            format!("{reason}: what was said is forgotten; messages and calls that change are shown anew");
        shared.lose_from_memory(&id, reason, Severity::Minor);
        true
    }

    /// Sessions, entries in them, and bytes that they hold.
    pub(crate) fn size(&self) -> (usize, usize, usize) {
        self.sessions.size()
    }
}

impl Session {
    /// Says, once a session, that not all of it is remembered.
    pub(super) fn report_forgotten(&mut self, id: &str, shared: &mut Shared) {
        if std::mem::take(&mut self.messages.forgets) | std::mem::take(&mut self.calls.forgets)
            && !self.reported
        {
            self.reported = true;
            let limit = shared.options.limits.entries;
            let reason = format!(
                "more than {limit} messages or tool calls: the oldest are forgotten, and shown anew when they change"
            );
            shared.lose_from_memory(id, reason, Severity::Minor);
        }
    }
}
