//! Handling of everything that agent processes send: messages, losses, standard error and invalid lines.

use std::sync::Arc;

use serde_json::json;
use switchboard_acp::extensions::{AgentSessionRecord, HubRecord, MEMORY_LOST, META, SANDBOX};
use switchboard_acp::rpc::{Message, Request, RequestId, Response, codes};
use switchboard_acp::{Raw, Side, WireFormat};
use switchboard_store::Channel;
use switchboard_transport::{ConfinementNotice, SharedText};

use super::agent_process::{Description, PendingAgentRequest};
use super::lifecycle::Fork;
use super::lines::{self, Outcome, Rewrite};
use super::questions::{ELICITATION, PERMISSION, cancelled};
use super::session::Session;
use super::session_state::referenced_request;
use super::{AgentId, ConnectionId, Core, Output, SessionId, SessionState};
use crate::agent_task::LineSession;
use switchboard_bridge::{Loss, Version};

/// Divider that is shown in a session whose agent has lost its history.
const FORGOTTEN: &str =
    "The agent has lost its memory of what is above. It knows only what comes from here on.";

/// Maximum number of attempts to get a new session from an agent whose id the log does not contain yet.
const MAX_RECREATIONS: usize = 32;

/// Returns a line of an agent without what only the hub says: notices about its sandbox, on which users and audits rely.
/// `None` if it has none.
fn without_sandbox_claim(line: &str) -> Option<String> {
    // Letters may be escaped.
    let may_claim = line.contains(SANDBOX.name()) || line.contains(META) && line.contains("\\u00");
    if !may_claim {
        return None;
    }
    let mut message = serde_json::from_str::<serde_json::Value>(line).ok()?;
    let claims = message.pointer_mut("/params/update")?.as_object_mut()?.get_mut(META)?.as_object_mut()?;
    claims.remove(SANDBOX.name())?;
    Some(message.to_string())
}

impl Core {
    /// Handles a line of an agent, in version 2.
    pub(crate) fn agent_line(&mut self, process: AgentId, line: &str) {
        match without_sandbox_claim(line) {
            Some(changed) => self.own_line(process, &changed),
            None => self.own_line(process, line),
        }
    }

    /// Handles a line of an agent, or one that the hub makes in its place.
    fn own_line(&mut self, process: AgentId, line: &str) {
        if !self.processes.contains_key(&process) {
            return;
        }
        let message = Message::decode(line, WireFormat::Any);
        match &message {
            Ok(message @ Message::Notification(notification)) => {
                let params = notification.params.as_ref();
                match (lines::text_of(params, "sessionId"), &*notification.method) {
                    (Some(session), _) => self.session_line(process, &session, line, message),
                    (None, "$/cancel_request") => self.request_cancelled(process, params, line),
                    (None, method) => self.broadcast(process, method, params),
                }
            }
            Ok(Message::Request(request)) => self.agent_request(process, request, line),
            Ok(Message::Response(response)) => self.agent_response(process, response, line),
            Err(error) => self.report(format!("an agent sent an invalid message: {error}")),
        }
    }

    /// Records a line as it was on the wire, on the agent's side of a translation.
    pub(crate) fn wire_line(&mut self, process: AgentId, about: &LineSession, from: Side, text: &str) {
        let session = match about {
            LineSession::Hub(session) => Some(Arc::clone(session)),
            LineSession::Agent(session) => self.session_of(process, session),
            LineSession::Handshake => {
                if let Some(process) = self.processes.get_mut(&process) {
                    process.record_handshake_line(Channel::of_message(from, true), text);
                }
                return;
            }
        };
        let is_open = |id: &SessionId| {
            self.sessions
                .get(id)
                .is_some_and(|session| session.process == Some(process) && !session.is_resuming)
        };
        if let Some(session) = session.filter(is_open) {
            let _ = self.append(&session, Channel::of_message(from, true), text);
        }
    }

    /// Records a loss of the translation to or from an agent.
    pub(crate) fn agent_loss(&mut self, process: AgentId, loss: &Loss) {
        if let Some(session) = loss.session.as_deref().and_then(|session| self.session_of(process, session)) {
            let _ = self.append(&session, Channel::Diagnostic, loss.to_json());
        } else {
            self.record_beside(process, Channel::Diagnostic, &loss.to_json());
        }
    }

    /// Records a line that an agent wrote to its standard error.
    pub(crate) fn agent_stderr(&mut self, process: AgentId, text: &str) {
        self.record_beside(process, Channel::StandardError, text);
        if self.options.reports_standard_error {
            let agent = self.name_of(process);
            self.report(format!("agent {agent}: {text}"));
        }
    }

    /// Shows a notice about the confinement of a process in its sessions. The first one says how it is confined.
    pub(crate) fn confinement_notice(&mut self, process: AgentId, notice: ConfinementNotice) {
        let Some(known) = self.processes.get_mut(&process) else { return };
        let sessions: Vec<String> = known.sessions.keys().cloned().collect();
        if known.confinement.is_none() {
            known.record_handshake_line(Channel::Process, &notice.title);
            known.confinement = Some(notice);
            return;
        }
        for session in sessions {
            self.confinement_notice_in(process, &session, &notice);
        }
    }

    pub(super) fn confinement_notice_in(
        &mut self,
        process: AgentId,
        agent_session: &str,
        notice: &ConfinementNotice,
    ) {
        let ConfinementNotice { title, description, is_warning, data } = notice;
        let mut update = json!({
            "sessionUpdate": "notice",
            "severity": if *is_warning { "warning" } else { "info" },
            "title": title,
            META: {SANDBOX.name(): data},
        });
        if let Some(description) = description {
            update["description"] = json!(description);
        }
        let line = lines::update(agent_session, &update.to_string());
        self.own_line(process, &line);
    }

    fn name_of(&self, process: AgentId) -> String {
        let agent = self.processes.get(&process).and_then(|process| self.options.agents.get(process.agent));
        agent.cloned().unwrap_or_default()
    }

    /// Handles a line on an agent's standard output that is not a JSON-RPC message. The first lines are reported and
    /// recorded; afterwards only their number is, at intervals.
    pub(crate) fn invalid_line(&mut self, process: AgentId, text: &str) {
        self.record_invalid_line(process, text);
        if let Some(words) =
            self.processes.get_mut(&process).and_then(|process| process.invalid_reported.next(text))
        {
            let agent = self.name_of(process);
            self.report(format!("agent {agent}: {words}"));
        }
    }

    /// Records an invalid line or an unroutable message in a log.
    fn record_invalid_line(&mut self, process: AgentId, text: &str) {
        if let Some(invalid) =
            self.processes.get_mut(&process).and_then(|process| process.invalid_recorded.next(text))
        {
            let invalid = json!({"from": Side::Agent, "noise": invalid}).to_string();
            self.record_beside(process, Channel::Diagnostic, &invalid);
        }
    }

    /// Stores the protocol version that an agent has chosen.
    pub(crate) fn version_negotiated(&mut self, process: AgentId, version: Version) {
        if let Some(process) = self.processes.get_mut(&process) {
            process.version = version.number();
        }
    }

    /// Appends a record without a session to the sessions in which the agent works, or else to the last one it worked
    /// in.
    fn record_beside(&mut self, process: AgentId, channel: Channel, text: &str) {
        let Some(known) = self.processes.get_mut(&process) else { return };
        known.record_handshake_line(channel, text);
        let open = || {
            self.sessions.values().filter(|session| session.process == Some(process) && !session.is_resuming)
        };
        let is_busy = |session: &&Session| session.state.as_ref().is_some_and(SessionState::is_busy);
        let mut concerned: Vec<SessionId> = open().filter(is_busy).map(|it| Arc::clone(it.id())).collect();
        if concerned.is_empty() {
            concerned.extend(open().max_by_key(|it| it.info.changed).map(|it| Arc::clone(it.id())));
        }
        for session in concerned {
            let _ = self.append(&session, channel, text);
        }
    }

    /// Returns the session that has this id at the agent.
    fn session_of(&mut self, process: AgentId, session: &str) -> Option<SessionId> {
        let known = self.processes.get(&process)?;
        if let Some(id) = known.session(session).cloned() {
            self.unpark_on_output(process, &id);
            return Some(id);
        }
        let is_parent = |state: &SessionState| state.is_child(session);
        let parent = self
            .sessions
            .values()
            .find(|known| known.process == Some(process) && known.state.as_ref().is_some_and(is_parent))?;
        let id = Arc::clone(parent.id());
        self.processes.get_mut(&process)?.bind(session, &id);
        Some(id)
    }

    fn session_line(&mut self, process: AgentId, session: &str, line: &str, message: &Message<'_>) {
        if let Some(id) = self.session_of(process, session) {
            let is_resuming = self.sessions.get(&id).is_some_and(|session| session.is_resuming);
            // Updates that precede the response to `session/resume` are history that the log already contains.
            if !is_resuming {
                if let Message::Notification(late) = message
                    && self.is_late_state(&id, session, late, line)
                {
                    return;
                }
                let _ = self.append_decoded(&id, Channel::ToClient, line, Some(message));
            }
            return;
        }
        // The session runs in another process by now. Lines of this process must not get into any log.
        if self.processes.get(&process).is_some_and(|process| process.left_sessions.contains(session)) {
            if self.processes.get_mut(&process).is_some_and(|process| process.is_new_unknown_session(session))
            {
                self.report(format!(
                    "dropped an update of an unresponsive agent process for session {session}, which has left it"
                ));
            }
            return;
        }
        let kept = self.is_opening(process)
            && self.processes.get_mut(&process).is_some_and(|process| process.buffer_early(session, line));
        if kept {
            return;
        }
        // No client is attached to such a session. The line is recorded where a reader of the log can find it.
        self.record_invalid_line(process, line);
        if self.processes.get_mut(&process).is_some_and(|process| process.is_new_unknown_session(session)) {
            self.report(format!("an agent sends updates for the unknown session {session}"));
        }
    }

    /// Returns whether the agent has a pending request that opens a session, whose id is not known yet.
    fn is_opening(&self, process: AgentId) -> bool {
        let opens = |purpose: &PendingAgentRequest| {
            matches!(
                purpose,
                PendingAgentRequest::New { .. }
                    | PendingAgentRequest::Recreate { .. }
                    | PendingAgentRequest::Fork { .. }
            )
        };
        self.processes
            .get(&process)
            .is_some_and(|process| process.pending.iter().any(|(.., purpose)| opens(purpose)))
            || self.creating.values().any(|creating| creating.process == process)
    }

    /// Handles `$/cancel_request` of an agent: cancels the question.
    fn request_cancelled(&mut self, process: AgentId, params: Option<&Raw<'_>>, line: &str) {
        let Some(id) = params.and_then(referenced_request) else { return };
        self.cancel_direct(process, Some(&id));
        let mut hosted = self.sessions.values().filter(|session| session.process == Some(process));
        let found = hosted.find_map(|session| {
            let (_, question) = session.state.as_ref()?.question_of(&id)?;
            Some((Arc::clone(session.id()), question.clone()))
        });
        let Some((session, question)) = found else { return };
        // The cancellation is recorded before the response, because the log keeps the order of the agent's
        // requests and their responses.
        let _ = self.append(&session, Channel::ToClient, line);
        // A cancelled request needs a response, too.
        let line = lines::answer(&question.id, &cancelled(&question.method));
        let _ = self.append(&session, Channel::ToAgent, line.as_str());
        self.output.push_back(Output::ToAgent { process, line, session: Some(session) });
    }

    /// Sends a notification without a session to every client of the agent.
    fn broadcast(&mut self, process: AgentId, method: &str, params: Option<&Raw<'_>>) {
        let Some(agent) = self.processes.get(&process).map(|process| process.agent) else { return };
        let text: SharedText = lines::call(None, method, params, Rewrite::default()).into();
        if let Some(process) = self.processes.get_mut(&process) {
            // Kept before it is sent: a client that completes its handshake meanwhile gets it from here.
            process.remember_broadcast(method, &text);
        }
        let concerned = self.connections.iter().filter(|(_, client)| {
            client.agent == agent && client.is_initialized && client.receives_broadcasts()
        });
        let concerned: Vec<ConnectionId> = concerned.map(|(id, _)| *id).collect();
        for connection in concerned {
            self.send(connection, text.clone(), None);
        }
    }

    /// Routes a request of an agent.
    fn agent_request(&mut self, process: AgentId, request: &Request<'_>, line: &str) {
        let params = request.params.as_ref();
        let is_confined = self.processes.get(&process).is_some_and(|process| self.is_confined(process.agent));
        if is_confined && (request.method.starts_with("fs/") || request.method.starts_with("terminal/")) {
            let message = "the agent runs in a sandbox: it works with files and commands itself";
            return self.refuse_agent(process, &request.id, codes::METHOD_NOT_FOUND, message);
        }
        let is_question = matches!(&*request.method, PERMISSION | ELICITATION);
        let session = lines::text_of(params, "sessionId");
        let Some(session) = session else {
            if !is_question {
                return self.forward_to_client(process, request, None);
            }
            // The request names one that a client has sent, such as a prompt or a login.
            let about = params.and_then(referenced_request);
            let prompted_session =
                about.and_then(|id| self.processes.get(&process)?.session_of_prompt(&id).cloned());
            return match prompted_session {
                Some(id) => self.agent_request_in(process, &id, request, line),
                None => self.direct_request(process, request),
            };
        };
        let Some(id) = self.session_of(process, &session) else {
            // A session that moved to another process is not unknown: its late question is cancelled, because
            // the turn that it belongs to is over.
            if self.processes.get(&process).is_some_and(|process| process.left_sessions.contains(&*session)) {
                let line = lines::answer(&request.id, &cancelled(&request.method));
                return self.output.push_back(Output::ToAgent { process, line, session: None });
            }
            let kept = self.is_opening(process)
                && self
                    .processes
                    .get_mut(&process)
                    .is_some_and(|process| process.buffer_early(&session, line));
            if !kept {
                self.record_invalid_line(process, line);
                self.refuse_agent(
                    process,
                    &request.id,
                    codes::RESOURCE_NOT_FOUND,
                    "the session is not open in this hub",
                );
            }
            return;
        };
        match is_question {
            true => self.agent_request_in(process, &id, request, line),
            false => self.forward_to_client(process, request, Some(&id)),
        }
    }

    /// Routes a request of an agent that belongs to a session.
    fn agent_request_in(&mut self, process: AgentId, id: &SessionId, request: &Request<'_>, line: &str) {
        let state = self.sessions.get(id).and_then(|session| session.state.as_ref());
        if let Some((code, message)) = state.and_then(|state| state.refusal(request)) {
            self.record_invalid_line(process, line);
            return self.refuse_agent(process, &request.id, code, &message);
        }
        if !self.is_late_question(process, id, request, line) {
            let _ = self.append(id, Channel::ToClient, line);
        }
    }

    /// Handles a response of an agent.
    fn agent_response(&mut self, process: AgentId, response: &Response<'_>, line: &str) {
        let answered = self.processes.get_mut(&process).and_then(|process| process.answered(&response.id));
        let Some(purpose) = answered else { return };
        let outcome = Outcome::of(&response.outcome);
        match purpose {
            PendingAgentRequest::Handshake => self.agent_initialized(process, &outcome, line),
            PendingAgentRequest::New { session, client } => {
                if outcome.is_error() {
                    self.reply(client.0, &client.1, outcome, None);
                    self.discard_session(&session);
                } else {
                    self.opened(process, &session, &client, line);
                }
            }
            PendingAgentRequest::Adopt { session, client } => {
                self.session_adopted(&session, &client, outcome, line);
            }
            PendingAgentRequest::AgentSessions { client } => {
                let outcome = self.with_hub_ids(process, outcome);
                self.reply(client.0, &client.1, outcome, None);
            }
            PendingAgentRequest::Resume { session } => {
                self.session_resumed(process, &session, &outcome, line);
            }
            PendingAgentRequest::Recreate { session, tries } => {
                self.session_recreated(process, &session, &outcome, tries, line);
            }
            PendingAgentRequest::Prompt { session, client, .. } => {
                // The response is recorded first, and the client's reply waits for that record: after a
                // crash, the log knows at least as much as the client.
                let after = self.append(&session, Channel::ToClient, line);
                // The turn may have ended before the agent responded to the prompt.
                let state = self.sessions.get(&session).and_then(|session| session.state.as_ref());
                let ended = state.and_then(|state| state.end_of(&response.id));
                let outcome = self.of_turn(client.0, outcome, ended.as_deref());
                let is_error = outcome.is_error();
                self.reply(client.0, &client.1, outcome, after.map(|after| (&session, after)));
                if is_error {
                    self.run_next_prompt(&session);
                }
            }
            PendingAgentRequest::Forwarded { session, client } => {
                let after =
                    session.as_ref().and_then(|session| self.append(session, Channel::ToClient, line));
                let after = session.as_ref().zip(after);
                self.reply(client.0, &client.1, outcome, after);
            }
            PendingAgentRequest::Fork { params, of, client } => {
                self.forked(process, &params, &of, client, &outcome, &response.id, line);
            }
            PendingAgentRequest::Close => {}
            // The clients have been told that the turn is over. The late response is recorded for diagnostics only.
            PendingAgentRequest::Abandoned { session } => {
                let late = json!({"from": Side::Agent, "late": serde_json::from_str::<serde_json::Value>(line).unwrap_or_default()});
                let _ = self.append(&session, Channel::Diagnostic, late.to_string());
            }
        }
    }

    fn agent_initialized(&mut self, process: AgentId, outcome: &Outcome, line: &str) {
        let Outcome::Result(result) = outcome else {
            let reason = match outcome {
                Outcome::Error(error) => format!("the agent refused the handshake: {error}"),
                Outcome::Result(_) => String::new(),
            };
            self.output.push_back(Output::EndAgent { process });
            return self.agent_exited(process, &reason, &[]);
        };
        let Some(known) = self.processes.get_mut(&process) else { return };
        let waiting = known.complete_handshake(line);
        let (agent, version) = (known.agent, known.version);
        if let Some(description) = self.descriptions.get_mut(agent) {
            *description = Some(Arc::new(Description { result: result.clone(), version }));
        }
        let resuming: Vec<SessionId> = self
            .sessions
            .values()
            .filter(|session| session.process == Some(process) && session.is_resuming)
            .map(|session| Arc::clone(session.id()))
            .collect();
        // Resumed before waiting messages are dispatched, because those may be prompts of the same sessions.
        for session in resuming {
            self.resume_session(process, &session);
        }
        for (connection, message) in waiting {
            self.dispatch(connection, &message);
        }
    }

    /// Handles the response to `session/resume`: the session continues, or the agent has lost it.
    fn session_resumed(&mut self, process: AgentId, id: &SessionId, outcome: &Outcome, line: &str) {
        let _ = self.append(id, Channel::ToClient, line);
        if outcome.is_error() {
            return self.recreate_session(process, id, 0);
        }
        self.agent_ready(id);
    }

    /// Handles the response to the `session/new` that replaces a lost session.
    fn session_recreated(
        &mut self,
        process: AgentId,
        id: &SessionId,
        outcome: &Outcome,
        tries: usize,
        line: &str,
    ) {
        let result = match outcome {
            Outcome::Result(result) => Raw::parse(result.as_str()).ok(),
            Outcome::Error(_) => None,
        };
        let agent_session = lines::text_of(result.as_ref(), "sessionId").map(std::borrow::Cow::into_owned);
        let Some(agent_session) = agent_session else {
            let error = match outcome {
                Outcome::Error(error) => serde_json::from_str(error).unwrap_or_default(),
                Outcome::Result(_) => serde_json::Value::Null,
            };
            let reason = error["message"].as_str().unwrap_or("the agent gave no reason").to_owned();
            let message = format!("the agent has lost this session and did not create a new one: {reason}");
            let error = Outcome::error(codes::INTERNAL_ERROR, message, Some(json!({"agentError": error})));
            return self.resume_failed(id, &error);
        };
        // An agent that numbers its sessions from the start may reuse the id of an old one. Its updates would be
        // attributed to that session.
        let is_old = self.sessions.get(id).and_then(|session| session.state.as_ref());
        if is_old.is_some_and(|state| state.is_own(&agent_session)) && tries < MAX_RECREATIONS {
            return self.recreate_session(process, id, tries + 1);
        }
        let before = self.sessions.get(id).and_then(|session| session.agent_session().map(str::to_owned));
        // Written first: readers of the log need the new id before the first update of the new session.
        let record = AgentSessionRecord::new(&*agent_session);
        self.append_hub_record(
            id,
            &HubRecord::AgentSession(AgentSessionRecord { was: before.map(Into::into), ..record }),
        );
        let offset = self.append(id, Channel::ToClient, line).unwrap_or_default();
        // A transcript entry, so that it keeps its position in history, exports and replays. The sequence number of the
        // record makes its id unique.
        let divider = json!({
            "sessionUpdate": "compaction_update", "compactionId": format!("switchboard-memory-lost-{offset}"),
            "status": "completed", "summary": [{"type": "text", "text": FORGOTTEN}], "_meta": MEMORY_LOST.meta(true).as_raw(),
        });
        let _ = self.append(id, Channel::ToClient, lines::update(&agent_session, &divider.to_string()));
        self.output.push_back(Output::Changed { session: Arc::clone(id) });
        self.bind_agent_session(process, id, &agent_session);
        self.agent_ready(id);
    }

    /// Runs everything that waited until a session has an agent.
    fn agent_ready(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        // Waiting requests before queued prompts: they arrived first, and one of them may cancel a prompt.
        session.is_resuming = false;
        let waiting = std::mem::take(&mut session.waiting);
        for (connection, message) in waiting {
            self.dispatch(connection, &message);
        }
        self.run_next_prompt(id);
    }

    /// Creates a log for a copy that the agent has made with `session/fork`.
    #[allow(clippy::too_many_arguments)]
    fn forked(
        &mut self,
        process: AgentId,
        params: &Raw<'_>,
        of: &SessionId,
        client: (ConnectionId, RequestId<'static>),
        outcome: &Outcome,
        request: &RequestId<'_>,
        line: &str,
    ) {
        if outcome.is_error() {
            return self.reply(client.0, &client.1, outcome.clone(), None);
        }
        let original = self.sessions.get(of).map(|session| (session.info.folder.clone(), session.title()));
        let Some((folder, title)) = original else {
            let message = format!("session {of} has been deleted meanwhile");
            return self.refuse(client.0, &client.1, codes::RESOURCE_NOT_FOUND, message, None);
        };
        let request = lines::call(
            Some(request),
            "session/fork",
            Some(params),
            Rewrite { drops_hub_meta: true, ..Rewrite::default() },
        );
        self.create_forked(process, folder, client, Fork { request, answer: line.to_owned(), title });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_cannot_speak_for_its_sandbox() {
        let line = r#"{"method":"session/update","params":{"sessionId":"s","update":{"title":"x","_meta":{"a":1,"switchboard/sandbox":{"denied":"host"}}}}}"#;
        let changed = without_sandbox_claim(line).unwrap();
        assert!(!changed.contains("switchboard/sandbox") && changed.contains("\"a\":1"), "{changed}");
        let escaped = line.replace("switchboard/sandbox", "\\u0073witchboard/sandbox");
        assert!(!without_sandbox_claim(&escaped).unwrap().contains("witchboard/sandbox"));
        assert_eq!(without_sandbox_claim(&line.replace("switchboard/", "other/")), None);
    }
}
