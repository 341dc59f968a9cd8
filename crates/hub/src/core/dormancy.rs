//! Sessions that go dormant by their own idleness, also where their agent process is kept busy by others. Their logs are
//! closed, which gives the file descriptors back. The process still has such a session: as long as it runs, the session
//! goes on without being resumed.

use std::sync::Arc;

use super::hosting::Purpose;
use super::session::Session;
use super::{Core, HostId, Output, SessionId};

impl Core {
    /// Makes those sessions dormant that have had no work and no subscribers for long enough.
    pub(super) fn look_at_idle_sessions(&mut self) {
        let (now, idle) = (self.now, self.options.idle);
        let mut overdue = Vec::new();
        for session in self.sessions.values_mut().filter(|session| session.host.is_some() && session.is_ours)
        {
            if session.is_needed() {
                session.idle_since = None;
            } else if now.saturating_sub(*session.idle_since.get_or_insert(now)) >= idle {
                overdue.push(Arc::clone(session.id()));
            }
        }
        for id in overdue {
            if self.sessions.get(&id).is_some_and(|session| session.is_unresponsive) {
                // A process that does not listen is no place to come back to.
                self.replace_agent(&id);
                self.output.push_back(Output::Rest { session: id });
            } else {
                self.park(&id);
            }
        }
    }

    /// Another hub may go on with a dormant session: what the process here knows of it will be out of date.
    pub(super) fn forget_parked(&mut self, id: &SessionId) {
        let parked = self.sessions.get_mut(id).and_then(|session| session.parked.take());
        if let Some(host) = parked {
            self.leave(host, id);
        }
    }

    /// Makes a session dormant, unless its agent owes an answer in it.
    fn park(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Some(host) = session.host else { return };
        let is_about_it = |purpose: &Purpose| purpose.session() == Some(id);
        let may_rest = self.hosts.get(&host).is_some_and(|host| {
            host.is_ready && !host.is_ending && !host.open.iter().any(|(.., purpose)| is_about_it(purpose))
        });
        if !may_rest || session.agent_session().is_none() {
            return;
        }
        session.host = None;
        session.idle_since = None;
        session.parked = Some(host);
        self.states += 1;
        self.output.push_back(Output::Rest { session: Arc::clone(id) });
    }

    /// Gives a dormant session the process back that still has it. Says whether there is one.
    pub(super) fn unpark(&mut self, id: &SessionId) -> bool {
        let Some(session) = self.sessions.get_mut(id) else { return false };
        let Some(host) = session.parked.take() else { return false };
        let is_here = |host: &super::hosting::Host| {
            let known = session.agent_session().and_then(|own| host.sessions.get(own));
            !host.is_ending && !host.is_unresponsive && known == Some(id)
        };
        if session.host.is_some() || !self.hosts.get(&host).is_some_and(is_here) {
            return false;
        }
        session.host = Some(host);
        session.lost = None;
        self.states += 1;
        true
    }

    /// An agent process has something to say of a session, which may be dormant.
    pub(super) fn is_spoken_of(&mut self, host: HostId, id: &SessionId) {
        if self.sessions.get(id).is_some_and(|session| session.parked == Some(host)) {
            self.unpark(id);
        }
    }
}

impl Session {
    /// Whether it must not go dormant: clients are attached, or there is work to do.
    pub(super) fn is_needed(&self) -> bool {
        !self.attached.is_empty()
            || self.is_waking
            || self.is_busy()
            || !self.prompts.is_empty()
            || !self.waiting.is_empty()
    }
}
