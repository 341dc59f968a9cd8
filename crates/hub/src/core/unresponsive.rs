//! Agents that do not stop after a cancellation. After a configured time the hub ends the turn itself, so that neither
//! the client's prompt nor the session waits any longer. The agent process keeps running until a client ends it, or the
//! next prompt needs a responsive process.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_acp::extensions::{
    ActRecord, Author, EndAgentResponse, HubRecord, TurnAbandonedRecord, UNRESPONSIVE,
};
use switchboard_acp::rpc::{Notification, Request, RequestId, codes};
use switchboard_acp::{Raw, Side, Text, Wire, WireFormat};
use switchboard_store::Channel;

use super::agent_process::PendingAgentRequest;
use super::context::Context;
use super::delivery::Delivery;
use super::lifecycle::Lifecycle;
use super::lines::{self, Outcome};
use super::questions::{Questions, cancelled};
use super::requests::{self, ClientRequest, Refusal};
use super::session::Session;
use super::{AgentId, ConnectionId, Core, Output, SessionId, forwarding};

/// A turn of one session that was cancelled and may not end.
pub(super) struct OverdueTurn<'a> {
    session: &'a mut Session,
    cx: &'a mut Context,
}

impl<'a> OverdueTurn<'a> {
    pub(super) fn of(session: &'a mut Session, cx: &'a mut Context) -> Self {
        OverdueTurn { session, cx }
    }

    /// Starts the time that an agent has to stop after a cancellation. A repeated cancellation does not extend it.
    pub(super) fn await_stop(&mut self) {
        let now = self.cx.outbox.now;
        let session = &mut *self.session;
        if session.process.is_some() && session.is_busy() {
            // Otherwise a client that cancels repeatedly would postpone the end forever.
            session.cancelled_at.get_or_insert(now);
        }
    }

    /// Ends a turn that the agent did not end: the prompt gets its response, and the session is idle and cancelled.
    pub(super) fn abandon_turn(&mut self) {
        let id = &SessionId::clone(self.session.id());
        let session = &mut *self.session;
        let (Some(process), Some(agent_session)) =
            (session.process, session.agent_session().map(str::to_owned))
        else {
            return;
        };
        session.cancelled_at = None;
        // Before any append: the end of the turn starts the next prompt, which must not be sent to this process.
        session.is_unresponsive = true;
        self.cx.outbox.summary_version += 1;
        let within = Duration::from_millis(self.cx.options.cancel_timeout);
        let title = format!("The agent did not stop within {within:?} after the cancellation.");
        // Questions end before the turn: readers of the log expect none in an idle session.
        Questions::of(self.session, self.cx).cancel_questions(&Author::new());
        let open: Vec<RequestId<'static>> =
            self.cx.agents.processes.get(&process).map(|process| process.prompts_of(id)).unwrap_or_default();
        let record = TurnAbandonedRecord::new().requests(open.len() as u64).reason(title.clone());
        self.session.append_hub_record(self.cx, &HubRecord::TurnAbandoned(record));
        for request in open {
            let purpose = self
                .cx
                .agents
                .processes
                .get_mut(&process)
                .and_then(|process| process.pending.get_mut(Side::Client, &request));
            let Some(purpose) = purpose else { continue };
            // The request stays pending at the agent, so that a late response is recognized.
            let abandoned = PendingAgentRequest::Abandoned { session: Arc::clone(id) };
            let PendingAgentRequest::Prompt { client, .. } = std::mem::replace(purpose, abandoned) else {
                continue;
            };
            let accepted = Outcome::Result("{}".to_owned());
            // Recorded like the agent's own response, which every reader of the log waits for.
            let after = self.session.append(self.cx, Channel::ToClient, lines::answer(&request, &accepted));
            let outcome = self.cx.clients.of_turn(client.0, accepted, None);
            Delivery::of(self.session, self.cx).reply_after(client.0, &client.1, outcome, after);
        }
        let description =
            "Its output is still shown. End the agent process, or send the next prompt, which restarts it.";
        let meta = UNRESPONSIVE.meta(true);
        let meta = meta.as_raw();
        let notice = json!({
            "sessionUpdate": "notice", "severity": "warning", "title": title, "description": description, "_meta": meta,
        });
        let _ = self.session.append(
            self.cx,
            Channel::ToClient,
            lines::update(&agent_session, &notice.to_string()),
        );
        self.cx.outbox.report(format!("{id}: {title}"));
        let idle = json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled", "_meta": meta});
        let _ =
            self.session.append(self.cx, Channel::ToClient, lines::update(&agent_session, &idle.to_string()));
    }

    /// Handles a late state update of an agent about an abandoned turn. Returns whether it needs no further handling.
    pub(super) fn is_late_state(&mut self, agent_session: &str, late: &Notification<'_>, line: &str) -> bool {
        let session = &mut *self.session;
        // The state of a sub-agent does not belong to the abandoned turn.
        if !session.is_unresponsive || session.agent_session() != Some(agent_session) {
            return false;
        }
        let update = late.params.as_ref().and_then(|params| params.get("update").map(Raw::into_owned));
        if lines::text_of(update.as_ref(), "sessionUpdate").as_deref() != Some("state_update") {
            return false;
        }
        let has_stopped = lines::text_of(update.as_ref(), "state").as_deref() == Some("idle");
        session.is_unresponsive &= !has_stopped;
        self.cx.outbox.summary_version += u64::from(has_stopped);
        // The clients have been told that the turn is over. The line is recorded for diagnostics only.
        let late = json!({"from": Side::Agent, "late": parsed(line)});
        let _ = self.session.append(self.cx, Channel::Diagnostic, late.to_string());
        if has_stopped {
            Lifecycle::of(self.session, self.cx).run_next_prompt();
        }
        true
    }

    /// Cancels a question of an agent in an abandoned turn: neither clients nor the policy decide it.
    pub(super) fn is_late_question(&mut self, process: AgentId, request: &Request<'_>, line: &str) -> bool {
        let id = &SessionId::clone(self.session.id());
        if !self.session.is_unresponsive {
            return false;
        }
        let late = json!({"from": Side::Agent, "late": parsed(line)});
        let _ = self.session.append(self.cx, Channel::Diagnostic, late.to_string());
        let line = lines::answer(&request.id, &cancelled(&request.method));
        self.cx.outbox.push(Output::ToAgent { process, line, session: Some(Arc::clone(id)) });
        true
    }

    /// Ends an unresponsive process when its session is closed and no other session works in it.
    pub(super) fn leave_unresponsive(&mut self, process: AgentId, agent_session: &str) {
        let id = &SessionId::clone(self.session.id());
        if let (true, Some(known)) =
            (self.session.is_unresponsive, self.cx.agents.processes.get_mut(&process))
        {
            known.is_unresponsive = true;
            known.left_sessions.insert(agent_session.to_owned());
            known.drop_abandoned(id);
        }
    }
}

/// Abandons the turns whose agents did not stop in time.
pub(super) fn abandon_overdue_turns(core: &mut Core) {
    let (now, timeout) = (core.cx.outbox.now, core.cx.options.cancel_timeout);
    let mut overdue = Vec::new();
    for session in core.sessions.values_mut() {
        let Some(since) = session.cancelled_at else { continue };
        if session.process.is_none() || !session.is_busy() {
            session.cancelled_at = None;
        } else if now.saturating_sub(since) >= timeout && session.is_owned {
            overdue.push(Arc::clone(session.id()));
        }
    }
    // Collected before, because the end of a turn starts prompts and thereby changes the sessions.
    for id in overdue {
        if let Some((session, cx)) = core.session(&id) {
            OverdueTurn::of(session, cx).abandon_turn();
        }
    }
}

/// Moves a session with an unresponsive agent to another process. The old process is ended first, unless other
/// sessions work in it: they keep it, and this session leaves it.
pub(super) fn replace_agent(core: &mut Core, id: &SessionId) {
    let Some(process) = core.sessions.get(id).and_then(|session| session.process) else { return };
    // Ending the process is preferred, because it also ends the work that ignored the cancellation. Work
    // of other sessions is worth more than that.
    if at_work_beside(core, process, id).is_empty() {
        return core.cx.end_agent(process, "was ended because it did not stop after a cancellation");
    }
    let Some(session) = core.sessions.get_mut(id) else { return };
    let agent_session = session.agent_session().map(str::to_owned);
    // Detached before the next prompt runs, which then finds a session without a process and starts one.
    session.process = None;
    session.is_unresponsive = false;
    let reason =
        "the agent did not stop after a cancellation; the session continues in another process of the agent";
    let _ = core.append(id, Channel::Process, reason);
    if let Some((session, cx)) = core.session(id) {
        session.release_process(cx, process);
    }
    if let Some(known) = core.cx.agents.processes.get_mut(&process) {
        known.is_unresponsive = true;
        known.left_sessions.extend(agent_session);
        known.drop_abandoned(id);
    }
    core.run_next_prompt(id);
}

/// Returns the sessions that would be interrupted if an agent process were ended for another one.
pub(super) fn at_work_beside(core: &Core, process: AgentId, id: &SessionId) -> Vec<SessionId> {
    let mut at_work = at_work_in(core, process);
    at_work.retain(|other| other != id);
    at_work
}

/// Returns the sessions in which an agent process is working or about to.
pub(super) fn at_work_in(core: &Core, process: AgentId) -> Vec<SessionId> {
    let is_at_work = |session: &&Session| {
        session.process == Some(process)
            && (session.is_resuming || (session.is_busy() && !session.is_unresponsive))
    };
    let mut at_work: Vec<SessionId> =
        core.sessions.values().filter(is_at_work).map(|session| Arc::clone(session.id())).collect();
    at_work.sort();
    at_work
}

/// Handles a request of a client to end the agent process of a session.
pub(super) fn end_agent_request(core: &mut Core, request: ClientRequest<'_>) -> Result<(), Refusal> {
    let ClientRequest { connection, id, params, line, .. } = request;
    let session =
        requests::target_session(core, connection, params)?.root("a sub-agent has no process of its own")?;
    if !core.is_owner(&session) {
        return forwarding::forward_to_owner(core, &session, connection, line);
    }
    let Some(process) = core.sessions.get(&session).and_then(|session| session.process) else {
        let message = format!("session {session} has no agent process; the next prompt starts one");
        return Err((codes::INVALID_PARAMS, message, None));
    };
    let interrupt = at_work_beside(core, process, &session);
    may_interrupt(core, connection, &interrupt)?;
    let by = core.cx.clients.author(connection);
    // Recorded before the process ends: the log then says who ended it, also if the hub is killed in between.
    core.append_hub_record(&session, &HubRecord::AgentEnded(ActRecord::new().by(by)));
    if let Some((session, cx)) = core.session(&session) {
        session.cancel_prompts(cx);
    }
    core.cx.end_agent(process, "was ended by a client");
    let interrupt: Vec<Text<'_>> = interrupt.iter().map(|session| (&**session).into()).collect();
    let result = EndAgentResponse::new(interrupt).encode(WireFormat::Any);
    core.cx.reply(connection, id, Outcome::Result(result));
    Ok(())
}

/// Checks that a client may interrupt the work of other sessions: all of them must be visible to it.
pub(super) fn may_interrupt(
    core: &Core,
    connection: ConnectionId,
    sessions: &[SessionId],
) -> Result<(), Refusal> {
    let Some(client) = core.cx.clients.connections.get(&connection) else { return Ok(()) };
    let is_hidden = |id: &&SessionId| {
        !core.sessions.get(*id).is_some_and(|session| session.is_visible_to(&client.identity))
    };
    let hidden = sessions.iter().filter(is_hidden).count();
    if hidden > 0 {
        let message =
            format!("the agent process is working in {hidden} sessions that are not visible to this token");
        return Err((super::FORBIDDEN, message, Some(json!({"sessions": hidden}))));
    }
    Ok(())
}

/// Parses a line for diagnostics.
fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|_| line.into())
}
