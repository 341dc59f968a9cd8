//! Dormancy of sessions without work and subscribers, even if other sessions keep their agent process busy. Their logs
//! are closed, which frees the file descriptors. The process still has such a session ("parked"): while it runs, the
//! session continues without `session/resume`.

use std::sync::Arc;

use super::agent_process::PendingAgentRequest;
use super::context::Context;
use super::session::Session;
use super::{AgentId, Core, Output, SessionId, unresponsive};

/// The dormancy of one session.
pub(super) struct Dormancy<'a> {
    session: &'a mut Session,
    cx: &'a mut Context,
}

impl<'a> Dormancy<'a> {
    pub(super) fn of(session: &'a mut Session, cx: &'a mut Context) -> Self {
        Dormancy { session, cx }
    }

    /// Makes a session dormant, unless its agent still has to respond to a request.
    pub(super) fn park(&mut self) {
        let id = &SessionId::clone(self.session.id());
        let session = &mut *self.session;
        let Some(process) = session.process else { return };
        let is_about_it = |purpose: &PendingAgentRequest| purpose.session() == Some(id);
        // A response could arrive after the log is closed, so a session with a pending request stays open.
        let may_rest = self.cx.agents.processes.get(&process).is_some_and(|process| {
            process.is_ready
                && !process.is_ending
                && !process.pending.iter().any(|(.., purpose)| is_about_it(purpose))
        });
        if !may_rest || session.agent_session().is_none() {
            return;
        }
        session.process = None;
        session.idle_since = None;
        // The process keeps the session open. If it exits meanwhile, the next prompt resumes the session in another
        // one.
        session.parked = Some(process);
        self.cx.outbox.summary_version += 1;
        self.cx.outbox.push(Output::CloseLog { session: Arc::clone(id) });
    }

    /// Reattaches a dormant session to the process that still has it. Returns whether there is one.
    pub(super) fn unpark(&mut self) -> bool {
        let id = &SessionId::clone(self.session.id());
        let session = &mut *self.session;
        let Some(process) = session.parked.take() else { return false };
        // The process may have ended, become unresponsive or reused the id meanwhile.
        let is_here = |process: &super::agent_process::AgentProcess| {
            let known = session.agent_session().and_then(|own| process.sessions.get(own));
            !process.is_ending && !process.is_unresponsive && known == Some(id)
        };
        if session.process.is_some() || !self.cx.agents.processes.get(&process).is_some_and(is_here) {
            if session.process != Some(process) {
                self.cx.agents.leave(process, id);
            }
            return false;
        }
        session.process = Some(process);
        session.lost = None;
        self.cx.outbox.summary_version += 1;
        true
    }

    /// Ends the dormancy of a session about which its agent process sends something.
    pub(super) fn unpark_on_output(&mut self, process: AgentId) {
        if self.session.parked == Some(process) {
            self.unpark();
        }
    }
}

/// Makes sessions dormant that have had neither work nor subscribers for long enough.
pub(super) fn suspend_idle_sessions(core: &mut Core) {
    let (now, idle) = (core.cx.outbox.now, core.cx.options.idle);
    let mut overdue = Vec::new();
    for session in core.sessions.values_mut().filter(|session| session.process.is_some() && session.is_owned)
    {
        if session.is_needed() {
            session.idle_since = None;
        } else if now.saturating_sub(*session.idle_since.get_or_insert(now)) >= idle {
            overdue.push(Arc::clone(session.id()));
        }
    }
    for id in overdue {
        if core.sessions.get(&id).is_some_and(|session| session.is_unresponsive) {
            // A session does not return to an unresponsive process.
            unresponsive::replace_agent(core, &id);
            core.cx.outbox.push(Output::CloseLog { session: id });
        } else {
            if let Some((session, cx)) = core.session(&id) {
                Dormancy::of(session, cx).park();
            }
        }
    }
}
